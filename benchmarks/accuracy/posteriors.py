"""How near are posteriors of coresets to long MCMC on all rows, and is the certificate right about them?

Logistic; intercept, standardised columns, N(0, 4^2) priors; D counts the intercept, coresets have 20 D rows. Largest
errors over coefficients, median and worst over seeds: of a mean in reference sds, of an sd (relative); "noise" is the
Monte Carlo error of one such figure. "MMD" is the whitened MMD over that of two runs of the reference (1: no
difference). Coresets are built under the default prior and sampled under this one. A certificate is *false* if it says
"certified" though a mean is off by more than 0.25 sd beyond two Monte Carlo errors. Coresets are sampled by MALA; the
references come from `full_posteriors`, which keeps them.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from benchmarks.accuracy.full_posteriors import as_idata, reference
from benchmarks.commands import command
from benchmarks.measure import alone
from benchmarks.problems import PROBLEMS, load, readable
from benchmarks.tables import known_rows, publish

PRIOR = bc.priors.Normal(0, 4)
METHODS = {"uniform": 3, "sensitivity": 3, "calibrated": 10}  # and their seeds
LINK, SIZE = "logistic", 20  # rows for each column
WIDE = "w8a_train"  # left out: reference and coresets of 301 columns take an hour
ERRORS = ("mean", "sd", "MMD")
Rows = list[dict[str, Any]]


def errors_of(candidate: Any, truth: Any) -> dict[str, float]:
    """Return the errors of a posterior against `truth`, and their Monte Carlo errors."""
    metrics = bc.compare_posteriors({"own": candidate}, truth, max_draws=2000).metrics
    own, floor = metrics.loc["own"], metrics.loc["noise floor", "mmd_whitened"]
    found = {"mean": own["mean_error_sd"], "mean noise": own["mean_error_sd_mcse"], "sd": own["sd_error"]}
    return found | {"sd noise": own["sd_error_mcse"], "MMD": own["mmd_whitened"] / floor}


def study(name: str) -> tuple[dict[str, Any], Rows]:
    """Return what is to be said of one reference, and a row for each coreset."""
    warnings.filterwarnings("ignore")  # coresets of one label, weights that do not fit: seen in the figures
    X, y = load(name)
    told = {"family": LINK, "intercept": True, "standardize": True, "progressbar": False}
    data = bc.build_coreset(X, y, method="aggregate", **told)
    truth = reference(name, data, LINK, PRIOR)
    mode = bc.find_map(data, LINK, PRIOR)
    noise = np.random.default_rng(1).standard_normal((4, 4000, len(mode.beta)))
    laplace = errors_of(as_idata(mode.beta + noise @ mode.factor.T, data, LINK), truth)
    attrs, D = truth.posterior.attrs, data.n_features
    made = {"data": name, "N": len(y), "distinct rows": len(data), "D": D, "sampler": attrs["sampler"]}
    made |= {key: float(attrs[key]) for key in ("likelihoods", "acceptance", "seconds", "ess", "ess_sd", "rhat")}
    made |= {f"Laplace {key}": value for key, value in laplace.items()}
    rows = []
    for method, seeds in METHODS.items():
        for seed in range(seeds):
            size = min(SIZE * D, len(y))
            core = bc.build_coreset(X, y, method=method, size=size, random_state=seed, **told)
            drawing = {"sampler": "mala", "draws": 1000, "tune": 250, "thin": 10, "cores": 1, "progressbar": False}
            draws = bc.sample(core, LINK, PRIOR, random_seed=seed, **drawing)
            certificate = bc.certify(draws, core, data, progressbar=False)
            predicted = float(np.abs(certificate.coordinates["mean_error_sd"]).max())
            row = {"method": method, "level": certificate.level, "predicted": predicted}
            rows.append(row | errors_of(draws, truth))
    return made, rows


def by_method(name: str, frame: pd.DataFrame) -> Rows:
    """Return median and worst errors over seeds, and the median of their noise."""
    rows = []
    for method, group in frame.groupby("method", sort=False):
        row = {"data": name, "method": method, "seeds": len(group)}
        for error in ERRORS:
            row |= {f"{error}, median": group[error].median(), f"{error}, worst": group[error].max()}
            if error != "MMD":
                row[f"{error}, noise"] = group[f"{error} noise"].median()
        certified = int((group["level"] == "certified").sum())
        rows.append({**row, "certified": certified, "predicted mean, median": group["predicted"].median()})
    return rows


SETS = tuple(name for name in PROBLEMS if name != WIDE)


@command("posteriors", sets=SETS)
def main(only: Sequence[str] = SETS) -> None:
    """Write the tables; of the sets in `only` anew."""
    tables = {
        name: [row for row in known_rows(name) if row["data"] not in only] for name in ("full_posteriors", "posteriors")
    }
    for name in readable(only):
        made, found = alone(study, name)
        tables["full_posteriors"].append(made)
        tables["posteriors"] += by_method(name, pd.DataFrame(found))
        for table, rows in tables.items():
            publish(table, sorted(rows, key=lambda row: SETS.index(row["data"])))
