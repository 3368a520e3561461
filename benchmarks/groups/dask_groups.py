"""What do two Dask workers cost beside one process? Build and certificate of `(1 | g)` from Parquet.

Each worker has one thread. Nine columns of float32, an intercept and 20,000 groups; N = 4e6 (``--rows``), written for
the purpose and deleted. Wall seconds of an idle machine, each way once before to compile; "of a pool" are the seconds
of two workers over those of this process, that uses its two cores too. CPU seconds are of all threads, of the workers'
processes and of this one.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bayescore as bc
from benchmarks.commands import command
from benchmarks.groups.many_groups import grouped
from benchmarks.measure import alone
from benchmarks.sources.parquet import rows_file
from benchmarks.tables import publish

N, GROUPS = 4_000_000, 20_000
COLUMNS = {"label": "y", "groups": "g"}
QUIET = {"progressbar": False}


def seconds(work: Callable[[], Any], client: Any = None) -> tuple[Any, float, float]:
    """Return the result, wall seconds and CPU seconds, those of the client's workers too."""

    def used() -> float:
        return time.process_time() + (0.0 if client is None else sum(client.run(time.process_time).values()))

    begin, before = time.perf_counter(), used()
    result = work()
    return result, time.perf_counter() - begin, used() - before


def build(data: Any) -> bc.Coreset:
    """Return the coreset of rows."""
    return bc.build_coreset(data, method="multilevel", intercept=True, random_state=0, **COLUMNS, **QUIET)


def sampled(core: bc.Coreset) -> Any:
    """Return 4 x 500 draws."""
    return bc.sample(core, draws=500, tune=500, random_seed=1, **QUIET)


def measured(path: Path, warm: Path) -> dict[str, Any]:
    """Return seconds in this process and by workers."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    small = build(warm)
    bc.certify(sampled(small), small, warm, **COLUMNS, **QUIET)
    core, local, local_used = seconds(lambda: build(path))
    idata = sampled(core)
    here, certify, certify_used = seconds(lambda: bc.certify(idata, core, path, **COLUMNS, **QUIET))
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        build(dd.read_parquet(path))
        other, remote, remote_used = seconds(lambda: build(dd.read_parquet(path)), client)
        rows = dd.read_parquet(path)
        there, away, away_used = seconds(lambda: bc.certify(idata, core, rows, **COLUMNS, **QUIET), client)
    return {
        "rows": len(core),
        "build, s": local,
        "by two workers, s": remote,
        "of a pool": remote / local,
        "build, CPU s": local_used,
        "by two workers, CPU s": remote_used,
        "rows apart": int((np.sort(core.index) != np.sort(other.index)).sum()) if len(core) == len(other) else -1,
        "certify, s": certify,
        "its two workers, s": away,
        "its of a pool": away / certify,
        "certify, CPU s": certify_used,
        "its two workers, CPU s": away_used,
        "level": str(here.level),
        "passes": here.n_passes,
        "effects apart": float((here.effects["mean_error_sd"] - there.effects["mean_error_sd"]).abs().max()),
    }


@command("dask_groups")
def main(rows: int = N) -> None:
    """Publish one row."""
    with rows_file(100_000, partial(grouped, 100)) as warm, rows_file(rows, partial(grouped, GROUPS)) as path:
        publish("dask_groups", [{"N": rows, "G": GROUPS, **alone(measured, path, warm)}])
