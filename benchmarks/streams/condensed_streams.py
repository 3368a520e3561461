"""Are trees of pseudo-rows as near as trees of calibrated nodes? `merge_reduce` over 64 blocks of shuffled rows.

Logistic, intercept, N(0, 4^2) priors, Binary10 and 400,000 rows of 49 normal columns. Errors are the largest of a mean
(in sds), of an sd (relative) and of a correlation, the worst of the seeds: 500 weighed draws of the full data's normal
approximation (`calibration.paired`). "expected" is the error of a mean that the tree predicts, the least of the seeds.
One pass. Nodes hold four times the rows asked for. Seconds are processor time of a build.
"""

import time
import warnings
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.compiled import one_blas_thread
from bayescore.datasets import binary10
from bayescore.families.family import FAMILIES
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.moments import WeightedDraws, errors_between
from benchmarks.commands import command
from benchmarks.tables import publish

BLOCKS, SEEDS = 64, 10
PRIOR = bc.priors.Normal(0, 4)
SIZES = {"condensed": (2, 5, 20), "calibrated": (5, 20)}  # times D


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return X, without an intercept, and y."""
    if name == "Binary10":
        X, y = binary10(1_000_000, random_state=0)
        return X[:, 1:], y
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400_000, 49))
    return X, X @ (rng.normal(size=49) * 1.5 / 7.0) - 1.0 + rng.logistic(size=len(X)) > 0.0


def study(name: str, trials: int) -> list[dict[str, Any]]:
    """Return a row of figures for each kind of node and size."""
    full = bc.all_rows(*rows_of(name), intercept=True, progressbar=False)
    D, mode = full.n_features, bc.find_map(full, prior=PRIOR)
    z = np.random.default_rng(99).standard_normal((500, D))
    draws = mode.beta + z @ mode.factor.T
    base = PRIOR.log_density(draws) + 0.5 * (z**2).sum(axis=1)

    def weighed(rows: bc.Coreset) -> WeightedDraws:
        with one_blas_thread():
            return WeightedDraws(draws, log_likelihoods(draws, rows, FAMILIES["logistic"]) + base)

    true, rows = weighed(full), []
    for reduce, factors in SIZES.items():
        for factor in factors:
            found, expected, seconds, n_rows = [], [], [], []
            for seed in range(trials):
                begin = time.process_time()
                core = bc.build_coreset(
                    full,
                    method=bc.methods.MergeReduce(reduce, leaf_rows=-(-len(full) // BLOCKS)),
                    size=factor * D,
                    random_state=seed,
                    progressbar=False,
                )
                seconds.append(time.process_time() - begin)
                found.append(errors_between(weighed(core), true))
                expected.append(core.params["mean_error"])
                n_rows.append(len(core))
            mean, sd, correlation = np.array(found).max(axis=0)
            rows.append(
                {
                    "data": name,
                    "N": len(full),
                    "D": D,
                    "nodes": reduce,
                    "rows": max(n_rows),
                    "seeds": trials,
                    "mean": mean,
                    "expected": min(expected),
                    "sd": sd,
                    "correlation": correlation,
                    "build, s": np.median(seconds),
                }
            )
            print(rows[-1], flush=True)
    return rows


@command("condensed_streams")
def main(trials: int = SEEDS) -> None:
    """Write the table."""
    warnings.filterwarnings("ignore")  # of errors to expect: seen in the figures
    publish("condensed_streams", [row for name in ("Binary10", "normal, 50") for row in study(name, trials)])
