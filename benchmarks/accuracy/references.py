"""Do NUTS and MALA agree with published posteriors? Largest errors of means, in standard errors, and of sds.

Reads ../shared/data; German credit (Inference Gym), beetles (JAGS), dogs (posteriordb 2020).
"""

import json
import math
import time
from pathlib import Path

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.numerics.chains import ess_mean, mcse_mean
from bayescore.types import WeightedData
from benchmarks.commands import command
from benchmarks.tables import publish

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SETTINGS = {"nuts": {"draws": 3000}, "mala": {"draws": 4000, "thin": 20}}


def rows_of(X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> WeightedData:
    """Return weighted rows."""
    w = np.ones(len(X)) if weights is None else weights.astype(float)
    return WeightedData(np.ascontiguousarray(X, dtype=float), y.astype(np.int8), w, np.arange(len(X)))


def german_credit() -> tuple:
    """Return data, prior, map to the reference's coordinates, means, their errors, sds."""
    frame = pd.read_parquet(SHARED / "german_credit_numeric.parquet")
    reference = json.loads((SHARED / "german_credit_reference.json").read_text())["logistic_regression"]
    x = frame.drop(columns="y").to_numpy(dtype=float)
    X = np.column_stack([(x - x.mean(axis=0)) / x.std(axis=0), np.ones(len(x))])
    y = np.where(frame["y"] == 1, 1, -1)
    figures = (reference[name] for name in ("mean", "mean_standard_error", "standard_deviation"))
    return rows_of(X, y), bc.priors.Normal(0, 1), lambda beta: beta, *map(np.array, figures)


def beetles() -> tuple:
    """As `german_credit`; one row for each dose and outcome, weighted by the number of beetles."""
    facts = json.loads((SHARED / "beetles_bliss1935.json").read_text())
    x, n, r = (np.array(facts[name], dtype=float) for name in "xnr")
    counts, y = np.concatenate([r, n - r]), np.repeat([1, -1], 8)
    X = np.tile(np.column_stack([np.ones(8), x - x.mean()]), (2, 1))
    kept = counts > 0
    logit = facts["reference"]["logit"]
    return (
        rows_of(X[kept], y[kept], counts[kept]),
        bc.priors.Normal(0, math.sqrt(1000)),
        lambda beta: np.stack([beta[..., 0] - beta[..., 1] * x.mean(), beta[..., 1]], axis=-1),
        np.array([logit["alpha_mean"], logit["beta_mean"]]),
        np.array([logit["alpha_time_series_se"], logit["beta_time_series_se"]]),
        np.array([logit["alpha_sd"], logit["beta_sd"]]),
    )


def dogs() -> tuple:
    """As `german_credit`; the reference is draws."""
    frame = pd.read_parquet(SHARED / "posteriordb_dogs_2020.parquet")
    draws = pd.read_parquet(SHARED / "posteriordb_dogs_2020_draws.parquet")
    reference = np.stack([draws[f"beta{d}"].to_numpy().reshape(10, -1) for d in (1, 2, 3)], axis=-1)
    X = np.column_stack([np.ones(len(frame)), frame["n_avoid"], frame["n_shock"]])
    data = rows_of(X, np.where(frame["y"] == 1, 1, -1))
    return (
        data,
        bc.priors.Normal(0, 100),
        lambda beta: beta,
        reference.mean(axis=(0, 1)),
        mcse_mean(reference),
        reference.std(axis=(0, 1)),
    )


@command("references")
def main() -> None:
    if not SHARED.is_dir():
        print("not run: the published data are not in ../shared/data")
        return
    table = []
    for problem in (german_credit, beetles, dogs):
        data, prior, transform, mean, mean_error, sd = problem()
        for sampler, settings in SETTINGS.items():
            begin = time.perf_counter()
            idata = bc.sample(data, "logistic", prior, sampler=sampler, random_seed=1, progressbar=False, **settings)
            taken = time.perf_counter() - begin
            draws = transform(idata.posterior["beta"].values)
            errors = np.hypot(mcse_mean(draws), mean_error)
            table.append(
                {
                    "problem": problem.__name__,
                    "sampler": sampler,
                    "largest mean error (standard errors)": np.abs((draws.mean(axis=(0, 1)) - mean) / errors).max(),
                    "largest mean error (sd)": np.abs((draws.mean(axis=(0, 1)) - mean) / sd).max(),
                    "largest sd error": np.abs(draws.std(axis=(0, 1)) / sd - 1).max(),
                    "smallest ESS": ess_mean(draws).min(),
                    "seconds, with compilation": taken,
                }
            )
    publish("references", table)
