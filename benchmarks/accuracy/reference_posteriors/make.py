r"""What are the posteriors of eight real data sets? 10,000 draws that count as independent, under both links.

posteriordb's definition: 10,000 draws, R-hat below 1.01, lag-1 autocorrelation below 0.05, for each coefficient; 10
chains are its default. Of Stan's NUTS it asks too that no transition diverge, and that the fraction of missing
information be in bounds, which split HMC does not report. The smallest bulk and tail ESS are told too: of 10,000
independent normal draws, 95 in a hundred have a bulk ESS of 9,340 to 10,410 and a tail ESS of 9,150 to 10,120.

Rows: an intercept and standardised columns; prior N(0, 4) (4 is the sd), the package's default. Drawn by split
Hamiltonian Monte Carlo (`full_posteriors`), which has the package's density but none of its samplers, after 150
iterations of warm-up, each chain thinned twice as far until the definition is met. Two sets of made rows, with weights
from 0.05 to 5000, are drawn by PyMC's NUTS: the tests of samplers compare with them. Summaries go to
`reference_posteriors/*.json`, draws to `.references/`. `wells`, of 3,020 rows, takes 14 minutes of processor time a
family. The draws below are our own. posteriordb has had draws of nes_logit, wells_dist, wells_dist100 and dogs since
2025-08, of wells_dist100ars and wells_interaction_c since 2026-03, under flat priors and with other columns:
`tests/test_posteriordb.py` compares with the means that it publishes.

Reference: Magnusson, Torgander, Bürkner, Zhang, Carpenter and Vehtari (2025), posteriordb: testing, benchmarking and
developing Bayesian inference algorithms, AISTATS.
"""

import json
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import bayescore as bc
from bayescore.files import whole_file
from bayescore.numerics.chains import ess, mcse_mean, quantile_errors, rhat
from bayescore.numerics.moments import moments_mcse
from bayescore.types import FloatArray, WeightedData
from benchmarks.accuracy.full_posteriors import Density, as_idata, digest, hmc, kept
from benchmarks.accuracy.reference_posteriors.data import DATA, WEIGHTED, rows_of
from benchmarks.commands import command
from benchmarks.tables import RESULTS, publish

CHAINS, DRAWS = 10, 1000
MAX_RHAT, MAX_LAG_1 = 1.01, 0.05
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
PRIOR = bc.priors.Normal(0.0, 4.0)
SEED = 0
THIN = {"hmc": 4, "nuts": 2}  # iterations a draw, to begin with
LONGEST = 64  # iterations a draw at most
LINKS = ("logistic", "probit")
QUICK = ("vaso", "beetles", "nes")


def lag_1(draws: FloatArray) -> FloatArray:
    """Return the lag-1 autocorrelation of each coefficient, shape (D,), within chains about their common mean."""
    z = (draws - draws.mean(axis=(0, 1))) / draws.std(axis=(0, 1))
    return (z[:, 1:] * z[:, :-1]).mean(axis=(0, 1))


def meets(draws: FloatArray) -> bool:
    """Whether draws, shape (chains, draws, D), are a reference posterior's."""
    size = draws.shape[0] >= CHAINS and draws.shape[0] * draws.shape[1] >= CHAINS * DRAWS
    return bool(size and rhat(draws).max() < MAX_RHAT and np.abs(lag_1(draws)).max() < MAX_LAG_1)


def by_hmc(data: WeightedData, family: str, thin: int) -> FloatArray:
    """Return draws of split HMC, each after `thin` iterations."""
    with threadpool_limits(1):
        return hmc(Density(data, family, PRIOR), DRAWS * thin, np.random.default_rng(SEED), CHAINS)[:, thin - 1 :: thin]


def by_nuts(data: WeightedData, family: str, thin: int) -> FloatArray:
    """Return draws of PyMC's NUTS, each after `thin` iterations."""
    told = {"draws": DRAWS * thin, "tune": 1000, "chains": CHAINS, "cores": 1, "random_seed": SEED}
    idata = bc.sample(data, family, PRIOR, sampler="nuts", progressbar=False, **told)
    return idata.posterior["beta"].values[:, thin - 1 :: thin]


def reference(name: str, family: str) -> Any:
    """Return the posterior, 10 chains of 1,000 draws, from its file or made now, as InferenceData.

    Raises
    ------
    RuntimeError
        If `LONGEST` iterations a draw do not meet the definition.
    """
    data = rows_of(name, family)
    kind = "nuts" if name in WEIGHTED else "hmc"
    sampler = {"nuts": by_nuts, "hmc": by_hmc}[kind]

    def make() -> object:
        thin = THIN[kind]
        while not meets(draws := sampler(data, family, thin)):
            thin *= 2
            if thin > LONGEST:
                raise RuntimeError(f"{name}, {family}: {LONGEST} iterations a draw do not meet the definition")
        whole = data if isinstance(data, bc.Coreset) else bc.all_rows(data.X, data.y, weights=data.weights)
        idata = as_idata(draws, whole, family)
        idata.posterior.attrs |= {"sampler": kind, "thin": thin}
        return idata

    return kept(f"reference {name} {family}", f"{name} {family} {PRIOR!r} {SEED} {DRAWS} {digest(data)}", make)


def summarised(name: str, family: str) -> dict:
    """Return the summary of a reference posterior, as its JSON has it."""
    posterior, data = reference(name, family).posterior, rows_of(name, family)
    draws, attrs = posterior["beta"].values, posterior.attrs
    assert meets(draws)
    rounded = {
        "mean": draws.mean(axis=(0, 1)),
        "mean_mcse": mcse_mean(draws),
        "sd": draws.std(axis=(0, 1), ddof=1),
        "sd_mcse": moments_mcse(draws).sd,
        **{f"q{100 * level:02.0f}": np.quantile(draws, level, axis=(0, 1)) for level in LEVELS},
        **{f"q{100 * level:02.0f}_mcse": quantile_errors(draws, level) for level in LEVELS},
    }
    return {
        "data": name,
        "sha256": None if name in WEIGHTED else DATA[name].sha256,
        "rows": len(data),
        "weight": float(data.weights.sum()),
        "family": family,
        "prior": repr(PRIOR),
        "sampler": "PyMC NUTS" if attrs["sampler"] == "nuts" else "split HMC",
        "seed": SEED,
        "chains": draws.shape[0],
        "draws": draws.shape[0] * draws.shape[1],
        "thin": int(attrs["thin"]),
        "rhat_largest": round(float(rhat(draws).max()), 5),
        "lag_1_largest": round(float(np.abs(lag_1(draws)).max()), 5),
        "ess_bulk_smallest": round(float(ess(draws, "bulk").min())),
        "ess_tail_smallest": round(float(ess(draws, "tail").min())),
        "features": [str(feature) for feature in posterior["feature"].values],
        **{key: [float(f"{value:.6g}") for value in values] for key, values in rounded.items()},
    }


@command("reference_posteriors", evidence=("vaso", "beetles", "nes", *WEIGHTED), sets=(*DATA, *WEIGHTED))
def main(only: list[str] | None = None, *, quick: bool = False) -> None:
    """Draw, check and summarise; `only` some data sets."""
    folder = RESULTS.parent / "accuracy" / "reference_posteriors"
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in QUICK if quick else [*DATA, *WEIGHTED]:
        if name in DATA and not DATA[name].path.is_file():
            print(f"not run: {name}, {DATA[name].path} is absent")
            continue
        for family in LINKS:
            path = folder / f"{name}-{family}.json"
            if only is None or name in only:
                found = summarised(name, family)
                with whole_file(path) as partial:
                    partial.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            found = json.loads(path.read_text(encoding="utf-8"))
            told = ("data", "family", "rows", "weight", "sampler", "thin")
            rows.append(
                {key: found[key] for key in told}
                | {
                    "D": len(found["mean"]),
                    "R-hat": found["rhat_largest"],
                    "lag-1": found["lag_1_largest"],
                    "bulk ESS": found["ess_bulk_smallest"],
                    "tail ESS": found["ess_tail_smallest"],
                }
            )
    publish("reference_posteriors", rows)
