"""Rows in 10,000 groups, in Parquet: a multilevel coreset, its draws and their certificate, in time and memory.

Nine normal columns of float32, an intercept and `(1 | g)`, groups of lognormal sizes. N = 2e7 (``--rows``), written for
the purpose and deleted. All in one process, after a small build that compiles: seconds of the build, of 4 x 1000 draws
and of the certificate; "peak MB" is the memory of the whole process at its highest, "before" that after imports and the
small build.
"""

import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy import special

import bayescore as bc
from benchmarks.multilevel_speed import smallest_ess
from benchmarks.parquet import columns, rows_file
from benchmarks.sources import alone, peak_mb
from benchmarks.tables import publish

N, GROUPS, P = 20_000_000, 10_000, 10


def grouped(n_groups: int, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return n rows of nine normal columns and a group."""
    whole = np.random.default_rng(1)
    share, u = whole.lognormal(0.0, 0.8, n_groups), whole.normal(size=n_groups)
    X = rng.standard_normal((n, P - 1), dtype=np.float32)
    g = rng.choice(n_groups, n, p=share / share.sum()).astype(np.int32)
    eta = -2.0 + X @ np.linspace(-0.5, 0.5, P - 1) + u[g]
    return {**columns(X), "g": g, "y": (rng.random(n) < special.expit(eta)).astype(np.int8)}


def whole_way(path: Path) -> dict[str, float | str]:
    """Build, draw and certify; what that took."""
    told = {"label": "y", "progressbar": False}
    begin = time.perf_counter()
    core = bc.build_coreset(path, groups="g", intercept=True, method="multilevel", random_state=0, **told)
    build, peak = time.perf_counter() - begin, peak_mb()
    idata = bc.sample(core, draws=1000, tune=1000, chains=4, random_seed=1, progressbar=False)
    drawn = time.perf_counter() - begin
    found = bc.certify(idata, core, path, **told)
    return {
        "N": pq.ParquetFile(path).metadata.num_rows,
        "G": len(core.groups[0]),
        "p": core.n_features,
        "rows": len(core),
        "passes": core.params["passes"],
        "build_s": build,
        "sample_s": drawn - build,
        "certify_s": time.perf_counter() - begin - drawn,
        "ess": smallest_ess(idata.posterior),
        "level": found.level,
        "log_ratio_sd": found.log_ratio_sd,
        "peak MB, build": peak,
        "peak MB": peak_mb(),
    }


def measured(path: Path, warm: Path) -> dict[str, float | str]:
    """Compile by a small file, then do `whole_way`, in this fresh process."""
    warnings.simplefilter("ignore", UserWarning)
    whole_way(warm)
    before = peak_mb()
    return {**whole_way(path), "before": before}


def main(rows: int = N) -> None:
    """Publish one row."""
    few, many = partial(grouped, 100), partial(grouped, GROUPS)
    with rows_file(100_000, few) as warm, rows_file(rows, many) as path:
        publish("multilevel_scale", [alone(measured, path, warm)])
