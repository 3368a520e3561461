"""Calibrated builds with tens to hundreds of columns beside `find_map` on all rows, each set in a process of its own.

Standard normal columns, coefficients N(0, 2.25 / D), an intercept, some 35% positive; and w8a (`bayescore.data`). The
size is 20 D. Seconds are wall time of one run after one that compiles; processor seconds count all threads and tell
more on a machine that is not idle, as this one was not. "mode", "sd", "correlation": the build's largest errors against
the normal approximation of the full data, in sds, relatively and plain; "expected" are those that the build predicts;
"counting" is the share of its draws that still count once they are moved to the full data's posterior and weighed.
"""

import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.coresets.calibration import fits
from bayescore.coresets.calibration.trial import Trial
from benchmarks.problems import load
from benchmarks.sources import peak_mb
from benchmarks.tables import publish

SETS = ("50", "200", "500", "w8a_train", "200 of 1e6 rows")
N = 100_000


def rows_of(name: str) -> tuple[Any, Any]:
    """Return X and y of a set."""
    if name == "w8a_train":
        return load(name)
    d, n = int(name.split()[0]), 1_000_000 if "1e6" in name else N
    rng = np.random.default_rng(0)
    X, b = rng.standard_normal((n, d)), rng.normal(size=d) * 1.5 / np.sqrt(d)
    return X, rng.random(n) < 1 / (1 + np.exp(1 - X @ b))


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return the result, and wall and processor seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return found, time.perf_counter() - wall, time.process_time() - cpu


def correlations(covariance: np.ndarray) -> np.ndarray:
    """Return a covariance as correlations."""
    sd = np.sqrt(np.diagonal(covariance))
    return covariance / sd / sd[:, None]


def study(name: str) -> dict[str, Any]:
    """Return a row of figures."""
    warnings.filterwarnings("ignore")
    X, y = rows_of(name)
    design = {"intercept": True, "progressbar": False}
    size, trials = 20 * (X.shape[1] + 1), []

    def kept(*arguments: Any) -> Trial:
        trials.append(try_out(*arguments))
        return trials[-1]

    try_out, fits.try_out = fits.try_out, kept
    bc.build_coreset(X[:3000], y[:3000], method="calibrated", size=size // 4, **design)  # compiles
    before = peak_mb()
    core, seconds, cpu = timed(lambda: bc.build_coreset(X, y, method="calibrated", size=size, random_state=0, **design))
    extra = peak_mb() - before
    data = bc.full_data(X, y, **design)
    full, map_seconds, map_cpu = timed(lambda: bc.find_map(data))
    own = bc.find_map(core)
    return {
        "columns": name,
        "N": len(y),
        "D": X.shape[1] + 1,
        "M": size,
        "find_map, s": map_seconds,
        "build, s": seconds,
        "times find_map": seconds / map_seconds,
        "times its processor seconds": cpu / map_cpu,
        "passes": core.params["passes"],
        "fits anew": core.params["rounds"],
        "mode": np.abs((own.beta - full.beta) / full.sd).max(),
        "sd": np.abs(own.sd / full.sd - 1).max(),
        "correlation": np.abs(correlations(own.covariance) - correlations(full.covariance)).max(),
        "expected mean": core.params["mean_error"],
        "expected sd": core.params["sd_error"],
        "expected correlation": core.params["correlation_error"],
        "counting": trials[-1].full.ess / len(trials[-1].values),
        "peak memory beside the data, MB": extra,
    }


def main(names: tuple[str, ...] = SETS) -> None:
    rows = []
    for name in names:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            rows.append(pool.submit(study, name).result())
        print(rows[-1], flush=True)
    publish("columns", rows)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or SETS)
