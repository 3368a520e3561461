"""Rows in 10,000 groups, in Parquet: a multilevel coreset, its draws and their certificate, in time and memory.

Nine normal columns of float32, an intercept and `(1 | g)`, groups of lognormal sizes. N = 2e7 (``--rows``), written for
the purpose and deleted. All in one process, after a small build that compiles: seconds of the build, of 4 x 1000 draws
and of the certificate; "peak MB" is the memory of the whole process at its highest.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

import bayescore as bc
from benchmarks.multilevel_speed import smallest_ess
from benchmarks.parquet import columns, rows_file
from benchmarks.sources import alone
from benchmarks.tables import publish
from benchmarks.whole_way import measured

N, GROUPS, P = 20_000_000, 10_000, 10


def grouped(n_groups: int, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return n rows of nine normal columns and a group."""
    whole = np.random.default_rng(1)
    share, u = whole.lognormal(0.0, 0.8, n_groups), whole.normal(size=n_groups)
    X = rng.standard_normal((n, P - 1), dtype=np.float32)
    g = rng.choice(n_groups, n, p=share / share.sum()).astype(np.int32)
    eta = -2.0 + X @ np.linspace(-0.5, 0.5, P - 1) + u[g]
    return {**columns(X), "g": g, "y": (rng.random(n) < special.expit(eta)).astype(np.int8)}


def built(path: Path) -> bc.Coreset:
    """Return a multilevel coreset."""
    told = {"label": "y", "groups": "g", "intercept": True, "random_state": 0, "progressbar": False}
    return bc.build_coreset(path, method="multilevel", **told)


def drawn(core: bc.Coreset) -> Any:
    """Return 4 x 1000 draws."""
    return bc.sample(core, draws=1000, tune=1000, chains=4, random_seed=1, progressbar=False)


def told(idata: Any, certificate: Any) -> dict[str, Any]:
    """Return what the table has beside seconds and memory."""
    return {"smallest ESS": smallest_ess(idata.posterior), "sd of r": certificate.log_ratio_sd}


def main(rows: int = N) -> None:
    """Publish one row."""
    few, many = partial(grouped, 100), partial(grouped, GROUPS)
    with rows_file(100_000, few) as warm, rows_file(rows, many) as path:
        row = {"N": rows, "G": GROUPS, **alone(measured, path, warm, built, drawn, told)}
        publish("multilevel_scale", [row])
