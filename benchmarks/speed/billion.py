"""Does a billion rows run? Made by a counter, and 2e8 of them from Parquet and by the workers of a cluster.

Rows of `benchmarks/sources/generated.py`: eight columns, most of them skewed, and an intercept, 3% positive. "flat" is
without groups, by `calibrated`; "groups" with `(1 | g)` of 100,000 groups, by `multilevel`. Build, 4 x 1000 draws and
certificate, each kind and way in a process of its own, after a small run that compiles, in another process.

*counter*: N = 1e9 (``--rows``), made anew in every pass by the threads that map them. "maker, ns" is the processor time
of making a row. *parquet*: the first 2e8 of these rows from a file, 8 columns of float32, written for the purpose and
deleted, also where the run is interrupted. *dask*: the same file by as many worker processes of one thread as there are
cores. One of them is killed once it has done as many tasks as the file has row groups, which is in the second or third
pass. "coreset" is a checksum: it must be that of Parquet.

Seconds are of the clock; CPU seconds of all threads, by Dask of all processes from their start to their end. "peak MB"
is the memory of the process at its highest till the step's end, of Dask that of the largest process. "small" is what it
was after the small run where the same process made that, as with Dask.

A run of all takes hours. ``--only`` takes some, such as groups_counter. Rows of the table with another N stay.
"""

import os
import resource
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import active_children
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow.parquet as pq

import bayescore as bc
from bayescore.compiled import available_cores
from bayescore.models.groups.marginal import MANY_GROUPS
from benchmarks.commands import command
from benchmarks.measure import alone, peak_mb, timed
from benchmarks.sources.generated import PIECE, Generated, made, table
from benchmarks.tables import known_rows, publish

ROWS, FILE_ROWS = 1_000_000_000, 200_000_000
GROUPS, ROWS_A_GROUP = 100_000, 2000  # as many groups, or fewer so that there are as many rows a group
WARM_ROWS, WARM_GROUPS = 200_000, MANY_GROUPS + 1  # so many that a sample of them is drawn
SEED, POLL = 0, 0.1  # s between looks at a worker
BLOCK = 1 << 16
KINDS, WAYS = ("flat", "groups"), ("counter", "parquet", "dask")
SETS = tuple(f"{kind}_{way}" for kind in KINDS for way in WAYS)
METHODS = {"flat": "calibrated", "groups": "multilevel"}


def n_groups(kind: str, n_rows: int) -> int:
    """Return the number of groups of so many rows."""
    return 0 if kind == "flat" else min(GROUPS, max(2, n_rows // ROWS_A_GROUP))


@contextmanager
def file_of(kind: str, n_rows: int, groups: int) -> Iterator[Path]:
    """Write the first rows to a file, a row group at a time; it is deleted at the end, also after an interruption."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{kind}.parquet"
        with pq.ParquetWriter(path, table(SEED, 0, 1, groups).schema) as file:
            for start in range(0, n_rows, PIECE):
                file.write_table(table(SEED, start, min(PIECE, n_rows - start), groups), row_group_size=PIECE)
        yield path


def whole(kind: str, data: Any, peak: Callable[[], float] = peak_mb) -> dict[str, Any]:
    """Build, draw and certify; return what each took."""
    roles = {} if isinstance(data, Generated) else {"label": "y", **({"groups": "g"} if kind == "groups" else {})}
    told = {**roles, "progressbar": False}
    build = {"method": METHODS[kind], "intercept": True, "random_state": SEED}
    core, *built = timed(lambda: bc.build_coreset(data, **build, **told))
    after_build = peak()
    idata, *drawn = timed(lambda: bc.sample(core, random_seed=1, progressbar=False))
    found, *certified = timed(lambda: bc.certify(idata, core, data, **told))
    return {
        "coreset rows": len(core),
        "coreset": f"{checksum(core):08x}",
        "passes": core.params["passes"],
        "build, s": built[0],
        "build, CPU s": built[1],
        "draws, s": drawn[0],
        "draws, CPU s": drawn[1],
        "certificate, passes": found.n_passes,
        "certificate, s": certified[0],
        "certificate, CPU s": certified[1],
        "level": str(found.level),
        "peak MB, build": after_build,
        "peak MB": peak(),
    }


def checksum(core: bc.Coreset) -> int:
    """Return the checksum of the rows of a coreset and their weights, of groups by levels."""
    total = 0
    for part in (core.X, core.y, core.weights, core.group):
        total = crc32(b"" if part is None else np.ascontiguousarray(part).tobytes(), total)
    return total


def counted(kind: str, n_rows: int, groups: int) -> dict[str, Any]:
    """Return what rows took that are made; in a fresh process."""
    warnings.simplefilter("ignore", UserWarning)
    made(SEED, 0, BLOCK, groups)  # loads the kernel
    *_, used = timed(lambda: [len(made(SEED, start, BLOCK, groups)) for start in range(0, 64 * BLOCK, BLOCK)])
    return {"maker, ns": used / (64 * BLOCK) * 1e9, **whole(kind, Generated(n_rows, groups, SEED))}


def from_file(kind: str, path: Path) -> dict[str, Any]:
    """Return what rows of a file took; in a fresh process."""
    warnings.simplefilter("ignore", UserWarning)
    return whole(kind, path)


def by_workers(kind: str, path: Path, warm: Path) -> dict[str, Any]:
    """Return what rows of a file took on as many workers as there are cores, one of which is killed."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    warnings.simplefilter("ignore", UserWarning)
    alike = {"n_workers": available_cores(), "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**alike) as cluster, Client(cluster) as client:

        def peak() -> float:
            return max(peak_mb(), *client.run(peak_mb).values())

        whole(kind, dd.read_parquet(warm))
        small = {"peak MB, small": peak()}
        before = set(client.run(os.getpid).values())
        killer = Killer(client, pq.read_metadata(path).num_row_groups)
        killer.start()
        row = whole(kind, dd.read_parquet(path), peak)
        killer.stopped.set()
        killer.join()
        lost = before - set(client.run(os.getpid).values())
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    of_steps = [name for name in row if name.endswith("CPU s")]  # which are of this process alone
    row = {name: value for name, value in row.items() if name not in of_steps}
    return (
        small
        | row
        | {
            "CPU s": sum(used.ru_utime + used.ru_stime for used in usage),
            "workers": available_cores(),
            "killed": len(lost),
            "killed after, s": killer.seconds,
        }
    )


class Killer(threading.Thread):
    """Kills one worker once it has done so many tasks; `seconds` is when, NaN until then."""

    def __init__(self, client: Any, n_tasks: int) -> None:
        super().__init__(daemon=True)
        self.client, self.stopped, self.seconds = client, threading.Event(), float("nan")
        self.worker = min(client.run(_done))
        self.enough = self._tasks() + n_tasks

    def _tasks(self) -> int:
        return int(self.client.run(_done, workers=[self.worker])[self.worker])

    def run(self) -> None:
        """Look at the worker until it has done enough, or the work is over."""
        begin = time.perf_counter()
        pid = self.client.run(os.getpid, workers=[self.worker])[self.worker]
        while not self.stopped.wait(POLL):
            if self._tasks() >= self.enough:
                os.kill(pid, signal.SIGKILL)
                self.seconds = time.perf_counter() - begin
                return


def _done(dask_worker: Any) -> int:
    """Return the number of tasks that a worker has done."""
    return int(dask_worker.state.executed_count)


def _interrupted(*_: Any) -> None:
    """End what runs, so that files are deleted."""
    for child in active_children():
        child.terminate()
    sys.exit(128 + signal.SIGTERM)


@command("billion", sets=SETS)
def main(rows: int = ROWS, only: Sequence[str] = SETS) -> None:
    """Publish a row for each kind and way, beside those of other numbers of rows, as soon as it is known."""
    signal.signal(signal.SIGTERM, _interrupted)
    for kind in KINDS:
        asked = [way for way in WAYS if f"{kind}_{way}" in only]
        small = WARM_GROUPS if kind == "groups" else 0
        if "counter" in asked:
            groups = n_groups(kind, rows)
            alone(counted, kind, WARM_ROWS, small)
            _keep(kind, "counter", rows, groups, alone(counted, kind, rows, groups))
        if on_disk := [way for way in asked if way != "counter"]:
            n_rows = min(rows, FILE_ROWS)
            groups = n_groups(kind, n_rows)
            with file_of(kind, WARM_ROWS, small) as warm, file_of(kind, n_rows, groups) as path:
                size = {"GB": path.stat().st_size / 1e9}
                if "parquet" in on_disk:
                    alone(from_file, kind, warm)
                    _keep(kind, "parquet", n_rows, groups, size | alone(from_file, kind, path))
                if "dask" in on_disk:
                    _keep(kind, "dask", n_rows, groups, size | alone(by_workers, kind, path, warm))


def _keep(kind: str, way: str, n_rows: int, groups: int, found: dict[str, Any]) -> None:
    row = {"data": kind, "by": way, "N": n_rows, "G": groups, **found}
    others = [one for one in known_rows("billion") if (one["data"], one["by"], one["N"]) != (kind, way, n_rows)]
    publish("billion", [*others, row])
