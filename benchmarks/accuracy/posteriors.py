"""How near are posteriors of coresets to long MCMC on all rows, and is the certificate right about them?

Intercept, standardised columns, N(0, 4^2) priors; D counts the intercept, sizes are 10 and 20 D rows. Largest
errors over coefficients, median and worst over seeds: of a mean in reference sds, of an sd (relative); "noise" is the
Monte Carlo error of one such figure. "MMD" is the whitened MMD over that of two runs of the reference (1: no
difference). A certificate is *false* if it says "certified" though a mean is off by more than 0.25 sd beyond two Monte
Carlo errors. Coresets are sampled by MALA; the references come from `full_posteriors`, which keeps them.
"""

import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from benchmarks.accuracy.full_posteriors import FOLDER, as_idata, reference
from benchmarks.commands import command
from benchmarks.problems import PROBLEMS, load, readable
from benchmarks.tables import publish

PRIOR = bc.priors.Normal(0, 4)
METHODS = {"logistic": ("uniform", "sensitivity", "calibrated"), "probit": ("uniform", "calibrated")}
SIZES = (10, 20)
SEEDS = {"logistic": 10, "probit": 3}  # 3 for coresets that are not calibrated
WIDE = "w8a_train"  # left out: reference and coresets of 301 columns take an hour
TOLERANCE = 0.25
ERRORS = ("mean", "sd", "MMD")
Rows = list[dict[str, Any]]


def errors_of(candidates: dict[str, Any], truth: Any) -> dict[str, dict[str, float]]:
    """Return the errors of posteriors, by name, against `truth`, and their Monte Carlo errors."""
    metrics = bc.compare_posteriors(candidates, truth, max_draws=2000).metrics
    floor = metrics.loc["noise floor", "mmd_whitened"]
    return {
        name: {
            "mean": metrics.loc[name, "mean_error_sd"],
            "mean noise": metrics.loc[name, "mean_error_sd_mcse"],
            "sd": metrics.loc[name, "sd_error"],
            "sd noise": metrics.loc[name, "sd_error_mcse"],
            "MMD": metrics.loc[name, "mmd_whitened"] / floor,
        }
        for name in candidates
    }


def laplace_draws(data: bc.Coreset, family: str, prior: Any) -> Any:
    """Return draws from the Laplace approximation of all the data's posterior."""
    mode = bc.find_map(data, family, prior)
    noise = np.random.default_rng(1).standard_normal((4, 4000, len(mode.beta)))
    return as_idata(mode.beta + noise @ mode.factor.T, data, family)


def coreset_draws(core: bc.Coreset, family: str, prior: Any, seed: int) -> Any:
    """Return draws of a coreset's posterior."""
    return bc.sample(
        core, family, prior, sampler="mala", draws=1000, tune=250, thin=10, cores=1, random_seed=seed, progressbar=False
    )


def _candidates(family: str, X: pd.DataFrame, y: np.ndarray, data: bc.Coreset) -> Iterator[dict[str, Any]]:
    """Yield method, size, seed, coreset and its draws."""
    D = data.n_features
    for method in METHODS[family]:
        for size in SIZES:
            for seed in range(SEEDS[family] if method == "calibrated" else 3):
                core = bc.build_coreset(
                    X,
                    y,
                    method=method,
                    size=min(size * D, len(y)),
                    random_state=seed,
                    family=family,
                    intercept=True,
                    standardize=True,
                    progressbar=False,
                )
                draws = coreset_draws(core, family, PRIOR, seed)
                yield {"method": method, "rows / D": size, "seed": seed, "core": core, "draws": draws}


def study(name: str, family: str) -> tuple[dict[str, Any], Rows]:
    """Return what is to be said of one reference, and a row for each coreset."""
    warnings.filterwarnings("ignore")  # coresets of one label, weights that do not fit: seen in the figures
    X, y = load(name)
    data = bc.build_coreset(
        X, y, method="aggregate", family=family, intercept=True, standardize=True, progressbar=False
    )
    truth = reference(name, data, family, PRIOR)
    about = {"data": name, "family": family}
    laplace = errors_of({"Laplace": laplace_draws(data, family, PRIOR)}, truth)["Laplace"]
    attrs = truth.posterior.attrs
    made = {
        **about,
        "N": len(y),
        "distinct rows": len(data),
        "D": data.n_features,
        "sampler": attrs["sampler"],
        **{key: float(attrs[key]) for key in ("families", "acceptance", "seconds", "ess", "ess_sd", "rhat")},
        **{f"Laplace {key}": value for key, value in laplace.items()},
    }
    rows = []
    for found in _candidates(family, X, y, data):
        core, draws = found.pop("core"), found.pop("draws")
        certificate = bc.certify(draws, core, data, progressbar=False)
        rows.append(
            {
                **about,
                **found,
                **errors_of({"coreset": draws}, truth)["coreset"],
                "level": certificate.level,
                "pareto_k": certificate.pareto_k,
                "log_ratio_sd": certificate.log_ratio_sd,
                "predicted": float(np.abs(certificate.coordinates["mean_error_sd"]).max()),
            }
        )
    return made, rows


def over_seeds(found: pd.DataFrame) -> dict[str, float]:
    """Return median and worst of each error, and the median of its noise."""
    row = {}
    for error in ERRORS:
        row |= {f"{error}, median": found[error].median(), f"{error}, worst": found[error].max()}
        if f"{error} noise" in found:
            row[f"{error}, noise"] = found[f"{error} noise"].median()
    return row


def by_size(frame: pd.DataFrame) -> Rows:
    """Return median and worst errors over seeds."""
    rows = []
    for key, group in frame.groupby(["data", "family", "method", "rows / D"], sort=False):
        row = dict(zip(("data", "family", "method", "rows / D"), key, strict=True)) | {"seeds": len(group)}
        row |= over_seeds(group)
        certified = group["level"] == "certified"
        rows.append({**row, "certified": int(certified.sum()), "predicted mean, median": group["predicted"].median()})
    return rows


def run(names: list[str], families: tuple[str, ...] = ("logistic", "probit"), prefix: str = "") -> None:
    """Study the data sets, two at a time, and publish the tables."""
    tasks = [(name, family) for family in families for name in names]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        found = []
        for task, result in zip(tasks, pool.map(study, *zip(*tasks, strict=True)), strict=True):
            print("done:", *task, flush=True)
            found.append(result)
    frame = pd.DataFrame([row for _, rows in found for row in rows])
    FOLDER.mkdir(exist_ok=True)
    frame.to_csv(FOLDER / f"{prefix}candidates.csv", index=False)
    publish(f"{prefix}full_posteriors", [made for made, _ in found])
    publish(f"{prefix}posteriors", by_size(frame))


@command("posteriors")
def main() -> None:
    run([name for name in readable(PROBLEMS) if name != WIDE])
