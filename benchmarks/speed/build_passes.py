"""How many passes, how long and how much memory do builds and certificates from Parquet take?

Five normal columns, a gamma, a lognormal and a t_3 one, 0/1 columns of 1 in 1,000 and 1 in 100,000 rows; float32, 3%
positive. A calibrated build by label, in a process of its own, after a small one that compiles, then the certificate of
4 x 500 draws. CPU seconds are of all threads, "CPU ns a row" is of all passes of the build, and "peak MB" the memory
of the process at its highest till the end. ``--rows`` takes 1e8 too: a file of 4 GB, written for the purpose and
deleted.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

import bayescore as bc
from benchmarks.commands import command
from benchmarks.measure import Timed, alone, peak_mb, timed
from benchmarks.sources.parquet import columns, rows_file
from benchmarks.tables import known_rows, publish

N = 10_000_000
SLOPES = np.array([0.5, -0.5, 0.3, 0.0, 0.2, 0.3, 0.1, 0.1, 1.0, 2.0])
BUILD = {"method": "calibrated", "label": "y", "intercept": True, "random_state": 0, "progressbar": False}


def skewed(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return n rows."""
    X = rng.standard_normal((n, 10), dtype=np.float32)
    X[:, 5] = rng.gamma(0.5, size=n)
    X[:, 6] = np.exp(X[:, 6])
    X[:, 7] = rng.standard_t(3.0, n)
    X[:, 8:] = rng.random((n, 2)) < (1e-3, 1e-5)
    return {**columns(X), "y": (rng.random(n) < special.expit(X @ SLOPES - 4.3)).astype(np.int8)}


def certified(core: bc.Coreset, path: Path) -> Timed:
    """Return a certificate of draws from a coreset, and what it took."""
    idata = bc.sample(core, draws=500, tune=500, random_seed=1, progressbar=False)
    return timed(lambda: bc.certify(idata, core, path, label="y", progressbar=False))


def measured(path: Path, warm: Path) -> dict[str, Any]:
    """Build and certify in this fresh process, once to compile and once for the clock."""
    warnings.simplefilter("ignore", UserWarning)
    certified(bc.build_coreset(warm, **BUILD), warm)
    core, seconds, used = timed(lambda: bc.build_coreset(path, **BUILD))
    found, more, more_used = certified(core, path)
    return {
        "N": core.n_total,
        "rows": len(core),
        "passes": core.params["passes"],
        "seconds": seconds,
        "CPU s": used,
        "CPU ns a row": used * 1e9 / core.n_total,
        "mean error": core.params["mean_error"],
        "sd error": core.params["sd_error"],
        "certify, passes": found.n_passes,
        "its seconds": more,
        "its CPU s": more_used,
        "level": str(found.level),
        "peak MB": peak_mb(),
    }


@command("build_passes", evidence=True)
def main(rows: int = N, *, quick: bool = False) -> None:
    """Publish a row beside those of other numbers of rows."""
    rows = 1_000_000 if quick else rows
    with rows_file(100_000, skewed) as warm, rows_file(rows, skewed) as path:
        found = alone(measured, path, warm)
    publish("build_passes", [row for row in known_rows("build_passes") if row["N"] != rows] + [found])
