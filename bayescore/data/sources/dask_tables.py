"""Partitions of Dask collections that are no plain Parquet, as Arrow tables that workers keep.

To compute a partition and convert it from pandas takes thrice as long as to read it from Parquet, and a coreset takes
three to six passes. So partitions are computed once, and their tables stay on the workers while the source lives, if
they take no more than `KEPT_SHARE` of the workers' memory. Else every pass computes and converts them anew, with a
warning. In seconds of CPU, 7 passes over 1e6 rows of 10 columns: 1.9 from Parquet, 1.5 from kept tables, 4.9 without
them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import dask
import pandas as pd
import pyarrow as pa
from dask.base import compute, get_scheduler
from dask.delayed import Delayed, delayed

from bayescore.data.passes.tasks import Future, Piece, Task
from bayescore.data.sources.columns import Columns
from bayescore.data.tables import as_table
from bayescore.types import WeightedData
from bayescore.validation import DataError, warn

KEPT_SHARE = 0.25  # of the workers' memory, for rows; passes and other work have the rest
KEPT_BYTES = 1 << 30  # for rows, where threads of this process are the workers, or workers have no limit
_SMALL = 1 << 16  # bytes
_CELL = 9  # bytes of a cell of an Arrow table: a number and whether it is missing


@runtime_checkable
class Held(Piece, Protocol):
    """A dataclass of rows that a worker has, as `table`: a promise of them until then."""

    @property
    def table(self) -> Any:
        """The rows."""

    def cut(self, low: int, high: int) -> "Held":
        """Return a few of the rows as a piece, which the worker that has them cuts out."""


@dataclass(frozen=True)
class Partition:
    """Rows of a partition, from position `start` of the data on; `table` is a promise until a worker has it."""

    table: Any
    number: int
    start: int
    n_rows: int
    columns: Columns
    step: int

    def read(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1."""
        table = self.table
        if isinstance(table, Delayed):
            table = table.compute(scheduler="synchronous")
        if len(table) != self.n_rows:
            raise DataError(
                f"{self.place(0)} has {len(table)} rows now and had {self.n_rows}: the graph must give the same rows "
                "each time; persist() the collection, or write it to Parquet"
            )
        for a in range(low, high, self.step):
            (batch,) = table.slice(a, min(self.step, high - a)).combine_chunks().to_batches()
            yield self.columns.block(batch, self.start + a)

    def place(self, row: int) -> str:
        """Name the partition."""
        return f"row {row} of partition {self.number}"

    def cut(self, low: int, high: int) -> "Partition":
        """Return a few of the rows as a partition, which the partition's worker cuts out."""
        rows = delayed(_rows)(self.table, low, high)
        return replace(self, table=rows, start=self.start + low, n_rows=high - low)


@dataclass(frozen=True)
class ClusterPool:
    """The workers of a `distributed` cluster."""

    client: Any

    @property
    def n_workers(self) -> int:
        """Number of threads of all workers."""
        return max(1, int(sum(self.client.nthreads().values())))

    @property
    def memory(self) -> int:
        """Bytes that all workers may use, 0 for workers without a limit."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return sum(int(worker["memory_limit"] or 0) for worker in workers)

    def keep(self, read: Callable[[Any], Any], pieces: Sequence[Piece]) -> list[Any]:
        """Return promises of ``read(piece)`` for each piece, which stay on workers, each with its share of the rows."""
        import distributed

        pickle: Any = distributed.protocol.pickle
        loads, kept = dict.fromkeys(self.client.nthreads(), 0.0), []
        for piece in pieces:
            name = min(loads, key=loads.__getitem__)
            loads[name] += piece.n_rows / max(self.client.nthreads()[name], 1)
            promise = delayed(_read, pure=False)(pickle.dumps((read, piece)))
            kept += self.client.persist([promise], workers=[name], allow_other_workers=True)
        return kept

    def submit(self, run: Any, tasks: Sequence[Task], /, *arguments: Any) -> Iterator[Future]:
        """Run ``run(task, *arguments)`` for each task on the worker that has most of its rows.

        What tasks share, such as the levels of groups, travels once to each worker. It is a task itself, so that it is
        made again where its worker is lost. Arguments that are small travel anew with each task: what a function knows
        may grow from block to block, as the bar that candidates must pass does (`sampling.fixed_size`).
        """
        import distributed

        pickle: Any = distributed.protocol.pickle
        apart = [_apart(task) for task in tasks]
        small = len(pickle.dumps((run, arguments))) <= _SMALL
        packed = pickle.dumps(([bare for bare, _ in apart], None if small else (run, arguments)))
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "4 GiB"}):  # no advice to the user
            (shared,) = self.client.persist([delayed(pickle.loads, pure=False)(packed)])
        self.client.replicate(self.client.futures_of(shared))
        for number, (_, tables) in enumerate(apart):
            own = pickle.dumps((run, arguments)) if small else b""
            yield self.client.compute(delayed(_run_one, pure=False)(shared, own, number, tables))


def _read(packed: bytes) -> Any:
    """Read a piece on a worker; Dask would walk through the levels of groups that its columns have."""
    import distributed

    pickle: Any = distributed.protocol.pickle
    read, piece = pickle.loads(packed)
    return read(piece)


def active_pool(collection: Any) -> ClusterPool | None:
    """Return the cluster that would compute a collection, or None."""
    client = getattr(get_scheduler(collections=[collection]), "__self__", None)
    return None if client is None else ClusterPool(client)


def _apart(task: Task) -> tuple[Task, list[Any]]:
    """Return a task without the tables of its partitions, and these; of a head only the rows that it needs."""
    whole, *heads = task.parts
    parts, tables = [], []
    for part in [whole, *heads]:
        piece = part.piece
        if isinstance(piece, Held):
            held: Held = piece
            if part is not whole and part.high - part.low < piece.n_rows:
                held, part = piece.cut(part.low, part.high), part._replace(low=0, high=part.high - part.low)
            tables.append(held.table)
            piece = _with(held, None)
        elif (inner := _held(piece)) is not None:  # where the rows kept of a piece stand in it is not known here
            tables.append(inner.table)
            piece = _with(piece, None)
        parts.append(part._replace(piece=piece))
    return replace(task, parts=parts), tables


def _held(piece: Any) -> Held | None:
    """Return the rows that a worker has of a piece, or of the piece that it filters; None if there are none."""
    own = piece if isinstance(piece, Held) else getattr(piece, "piece", None)
    return own if isinstance(own, Held) else None


def _with(piece: Any, table: Any) -> Any:
    if isinstance(piece, Held):
        return replace(piece, table=table)  # type: ignore[type-var]
    return replace(piece, piece=replace(piece.piece, table=table))


def _run_one(shared: tuple[list[Task], Any], own: bytes, number: int, tables: list[pa.Table]) -> Any:
    """Run a task of a pass on a worker, given what the tasks share, and the pickled function where that is small."""
    import distributed

    pickle: Any = distributed.protocol.pickle
    tasks, work = shared
    run, arguments = pickle.loads(own) if own else work
    task, given = tasks[number], iter(tables)
    parts = [
        part._replace(piece=_with(part.piece, next(given))) if _held(part.piece) is not None else part
        for part in task.parts
    ]
    return run(replace(task, parts=parts), *arguments)


def _rows(table: pa.Table, low: int, high: int) -> pa.Table:
    return table.slice(low, high - low)


def _table(frame: pd.DataFrame, names: list[str], number: int) -> pa.Table:
    """Return columns of a partition, in any order, as an Arrow table."""
    return as_table(frame, f"partition {number}").select(names)


def kept_bytes(pool: ClusterPool) -> int:
    """Return how many bytes of rows workers may keep."""
    return int(KEPT_SHARE * pool.memory) or KEPT_BYTES


def kept_tables(frames: list[Delayed], names: list[str], n_rows: int, pool: ClusterPool | None) -> tuple[Any, ...]:
    """Return columns of partitions as Arrow tables: computed, and kept where they are; promises if too large for it."""
    tables = [delayed(_table)(frame, names, i) for i, frame in enumerate(frames)]
    size = n_rows * len(names) * _CELL
    limit = KEPT_BYTES if pool is None else kept_bytes(pool)
    if size <= limit:
        return compute(*tables) if pool is None else tuple(pool.client.persist(tables))
    warn(
        f"data is a Dask collection that is no Parquet read as it is. Its rows would take {size / 1e9:.3g} GB, above "
        f"the {limit / 1e9:.3g} GB that are kept in memory. So every pass computes and converts them anew; write them "
        "by to_parquet() and read that, which saves both, or persist() data, which saves the computing"
    )
    return tuple(tables)
