"""A hundred million rows of Parquet on a disk: build, draws and certificate, in seconds and memory, on this machine.

"flights": N = 120,748,239 and D = 4, the size of the data on flights' delays that ScaLE was shown on (Pollock,
Fearnhead, Johansen and Roberts 2020): an intercept, the hour of departure, the distance and whether it is night, made
here, some 20% delayed; the data themselves are not. "normal": N = 1e8, ten normal columns. Written for the purpose, row
group by row group, and deleted. Each in a process of its own, after a small build that compiles; ``calibrated`` of 20 D
rows, 4 x 1000 draws by MALA. "model, s" is what COST_MODEL.md says of the build: three passes of 80 ns a row for ten
columns, 36 of them for four, on the cores at hand. "two workers" are seconds of a build by two Dask processes.

``--rows`` takes fewer; files are 1 and 5 GB.
"""

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy import special

import bayescore as bc
from bayescore.data.passes.threads import available_cores
from benchmarks.commands import command
from benchmarks.sources.parquet import columns, rows_file
from benchmarks.sources.sources import alone
from benchmarks.speed.whole_way import measured
from benchmarks.tables import publish

QUICK = 1_000_000
PASSES = 3


def flights(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return n rows: the hour, the distance, whether it is night; some 20% positive."""
    hour = rng.triangular(5.0, 14.0, 24.0, n)
    X = np.column_stack([(hour - 14.0) / 4.0, rng.gamma(1.8, 0.4, n), (hour > 20.0) | (hour < 6.0)])
    return labelled(X.astype(np.float32), np.array([0.35, 0.1, -0.3]), -1.5, rng)


def normal(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return n rows of standard normal columns."""
    X = rng.standard_normal((n, 10), dtype=np.float32)
    return labelled(X, np.linspace(-1.0, 1.0, 10), -1.0, rng)


def labelled(X: np.ndarray, slopes: np.ndarray, level: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the rows with logistic labels of 0 and 1."""
    return {**columns(X), "y": (rng.random(len(X)) < special.expit(level + X @ slopes)).astype(np.int8)}


KINDS = {"flights": (flights, 120_748_239, 36), "normal": (normal, 100_000_000, 80)}  # rows, ns a row of one pass


def built(data: Any) -> bc.Coreset:
    """Return a calibrated coreset of 20 D rows."""
    n_columns = len(data.columns if hasattr(data, "columns") else pq.read_schema(data))  # the label for the intercept
    told = {"label": "y", "intercept": True, "random_state": 0, "progressbar": False}
    return bc.build_coreset(data, method="calibrated", size=20 * n_columns, **told)


def drawn(core: bc.Coreset) -> Any:
    """Return 4 x 1000 draws."""
    return bc.sample(core, sampler="mala", draws=1000, tune=250, thin=10, random_seed=1, progressbar=False)


def by_two_workers(path: Path, warm: Path) -> float:
    """Return the seconds of a build by two processes of Dask, one thread each."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    warnings.simplefilter("ignore")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster):
        built(dd.read_parquet(warm))
        begin = time.perf_counter()
        built(dd.read_parquet(path, split_row_groups=True))
        return time.perf_counter() - begin


@command("scale", evidence=True)
def main(rows: int | None = None, *, quick: bool = False) -> None:
    """Publish a row for each kind."""
    found = []
    for kind, (rows_of, whole, ns_a_row) in KINDS.items():
        n = rows or (QUICK if quick else whole)
        with rows_file(100_000, rows_of) as warm, rows_file(n, rows_of) as path:
            row = {"data": kind, "N": n, "GB": path.stat().st_size / 1e9, **alone(measured, path, warm, built, drawn)}
            row["model, s"] = PASSES * ns_a_row * 1e-9 * n / available_cores()
            row["two workers, s"] = alone(by_two_workers, path, warm)
        found.append(row)
        print(row, flush=True)
    publish("scale", found)
