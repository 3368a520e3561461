"""Dask data frames and arrays as sources; workers of a cluster read and map the rows where they are.

Descriptors travel, not rows: a file and row groups where the frame is Parquet on a shared file system or in an object
store, which workers read once and keep if they have the memory (`KeptSource`), else the promise of a partition
(`Partition`). Only the head of a partition that completes a canonical block
begun in the one before moves between workers. A task lost with its worker runs again elsewhere, from the same rows with
the same seed, so a killed worker changes nothing. Without a `distributed` client bayescore's threads run the
passes, whatever local scheduler is set. Workers with processors of one kind give the same bits.

Rows of Parquet files that the workers of a cluster read once and keep as blocks.

A build makes three to six passes, condensing with groups some ten, and a fifth of the time of each is reading and
decoding. So every row group becomes a promise of its decoded blocks, on workers in turn, so that each has its share of
the rows; tasks run where their rows are. A worker that is lost takes its blocks along, and another one reads them
again. Rows that would take more than `KEPT_SHARE` of the workers' memory are read again in every pass, as they are
without a cluster.

Partitions of Dask collections that are no plain Parquet, as Arrow tables that workers keep.

To compute a partition and convert it from pandas takes thrice as long as to read it from Parquet, and a coreset takes
three to six passes. So partitions are computed once, and their tables stay on the workers while the source lives, if
they take no more than `KEPT_SHARE` of the workers' memory. Else every pass computes and converts them again, with a
warning. In seconds of CPU, 7 passes over 1e6 rows of 10 columns: 1.9 from Parquet, 1.5 from kept tables, 4.9 without
them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pandas as pd
import pyarrow as pa
from dask.base import compute, get_scheduler
from dask.delayed import Delayed, delayed
from dask.optimization import cull

from bayescore.data.column_kinds import as_table
from bayescore.data.columns import Columns, ColumnSource, filtered_source
from bayescore.data.factors import Selection
from bayescore.data.parquet import (
    Listing,
    ParquetSource,
    arrow_store,
    is_address,
    listing_of,
    local_listing,
    parquet_source,
    safe_address,
)
from bayescore.data.responses import Classes
from bayescore.data.roles import Roles, named_roles, resolve_columns
from bayescore.data.source import Division, Future, Piece, Source, Task, between, block_rows
from bayescore.data.survey import Survey
from bayescore.types import WeightedData
from bayescore.validation import DataError, check_aligned, warn

KEPT_SHARE = 0.25  # of the workers' memory, for rows; passes and other work have the rest


KEPT_BYTES = 1 << 30  # for rows, where threads of this process are the workers, or workers have no limit


_SMALL_BYTES = 1 << 16  # bytes


_ARROW_CELL_BYTES = 9  # bytes of a cell of an Arrow table: a number and whether it is missing


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
        rows = delayed(pa.Table.slice)(self.table, low, high - low)
        return replace(self, table=rows, start=self.start + low, n_rows=high - low)


@dataclass(frozen=True)
class KeptRows:
    """Rows of a piece of files; `table` is a promise of its blocks, or of the error of reading them."""

    table: Any
    n_rows: int
    step: int
    piece: Any  # descriptor of the rows in their file

    def read(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1."""
        blocks = _rows_between(self.table, low, high)
        if isinstance(blocks, DataError):
            raise blocks
        for block in blocks:
            for start in range(0, len(block), self.step):
                yield block.take(slice(start, start + self.step))

    def cut(self, low: int, high: int) -> "KeptRows":
        """Return a few of the rows as a piece, which the worker that has them cuts out."""
        rows = delayed(_rows_between)(self.table, low, high)
        return replace(self, table=rows, n_rows=high - low)

    def place(self, row: int) -> str:
        """Name the file and the row group."""
        return str(self.piece.place(row))


KeptTable = Partition | KeptRows
"""A piece of rows that a worker has as `table`, a promise of them until then."""


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
        loads, kept = dict.fromkeys(self.client.nthreads(), 0.0), []
        for piece in pieces:
            name = min(loads, key=loads.__getitem__)
            loads[name] += piece.n_rows / max(self.client.nthreads()[name], 1)
            promise = delayed(_read_on_worker, pure=False)(_pickle().dumps((read, piece)))
            kept += self.client.persist([promise], workers=[name], allow_other_workers=True)
        return kept

    def submit(self, run: Any, tasks: Sequence[Task], /, *arguments: Any) -> Iterator[Future]:
        """Run ``run(task, *arguments)`` for each task on the worker that has most of its rows.

        What tasks share, such as the levels of groups, travels once to each worker. It is a task itself, so that it is
        made again where its worker is lost. Small arguments travel again with each task: what a function knows
        may grow from block to block, as the bar that candidates must pass does (`numerics.sampling`).
        """
        pickle, parted = _pickle(), [_without_tables(task) for task in tasks]
        small = len(pickle.dumps((run, arguments))) <= _SMALL_BYTES
        packed = pickle.dumps(([bare for bare, _ in parted], None if small else (run, arguments)))
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "4 GiB"}):  # no advice to the user
            (shared,) = self.client.persist([delayed(pickle.loads, pure=False)(packed)])
        self.client.replicate(self.client.futures_of(shared))
        for number, (_, tables) in enumerate(parted):
            payload = pickle.dumps((run, arguments)) if small else b""
            yield self.client.compute(delayed(_run_on_worker, pure=False)(shared, payload, number, tables))


def _read_on_worker(packed: bytes) -> Any:
    """Read a piece on a worker; Dask would walk through the levels of groups that its columns have."""
    read, piece = _pickle().loads(packed)
    return read(piece)


def _pickle() -> Any:
    """Return the pickle of `distributed`, which knows functions that are defined in a session."""
    import distributed

    return distributed.protocol.pickle


def active_pool(collection: Any) -> ClusterPool | None:
    """Return the cluster that would compute a collection, or None."""
    client = getattr(get_scheduler(collections=[collection]), "__self__", None)
    return None if client is None else ClusterPool(client)


def _without_tables(task: Task) -> tuple[Task, list[Any]]:
    """Split a task from the tables of its partitions, so that these travel apart; of later parts only needed rows."""
    parts, tables = [], []
    for place, part in enumerate(task.parts):
        piece = part.piece
        if place and isinstance(piece, KeptTable) and part.high - part.low < piece.n_rows:
            piece, part = piece.cut(part.low, part.high), part._replace(low=0, high=part.high - part.low)
        if (held := _kept_piece(piece)) is not None:  # a piece that filters alone knows where its kept rows stand
            tables.append(held.table)
            piece = _with_table(piece, None)
        parts.append(part._replace(piece=piece))
    return replace(task, parts=parts), tables


def _kept_piece(piece: Any) -> KeptTable | None:
    """Return the rows of a piece, or of the piece that it filters, that a worker keeps; None if it keeps none."""
    table = piece if isinstance(piece, KeptTable) else getattr(piece, "piece", None)
    return table if isinstance(table, KeptTable) else None


def _with_table(piece: Any, table: Any) -> Any:
    if isinstance(piece, KeptTable):
        return replace(piece, table=table)
    return replace(piece, piece=replace(piece.piece, table=table))


def _run_on_worker(shared: tuple[list[Task], Any], payload: bytes, number: int, tables: list[pa.Table]) -> Any:
    """Run a task of a pass on a worker, given what the tasks share, and the pickled function where that is small."""
    tasks, work = shared
    run, arguments = _pickle().loads(payload) if payload else work
    task, given = tasks[number], iter(tables)
    parts = [
        part._replace(piece=_with_table(part.piece, next(given))) if _kept_piece(part.piece) is not None else part
        for part in task.parts
    ]
    return run(replace(task, parts=parts), *arguments)


def _table(frame: pd.DataFrame, names: list[str], number: int) -> pa.Table:
    """Return columns of a partition, in any order, as an Arrow table."""
    return as_table(frame, f"partition {number}").select(names)


def kept_bytes(pool: ClusterPool) -> int:
    """Return how many bytes of rows workers may keep."""
    return int(KEPT_SHARE * pool.memory) or KEPT_BYTES


def kept_tables(frames: list[Delayed], names: list[str], n_rows: int, pool: ClusterPool | None) -> tuple[Any, ...]:
    """Return columns of partitions as Arrow tables: computed, and kept where they are; promises if too large for it."""
    tables = [delayed(_table)(frame, names, i) for i, frame in enumerate(frames)]
    size = n_rows * len(names) * _ARROW_CELL_BYTES
    limit = KEPT_BYTES if pool is None else kept_bytes(pool)
    if size <= limit:
        return compute(*tables) if pool is None else tuple(pool.client.persist(tables))
    warn(
        f"data is a Dask collection that is no Parquet read as it is. Its rows would take {size / 1e9:.3g} GB, above "
        f"the {limit / 1e9:.3g} GB that are kept in memory. So every pass computes and converts them anew; write them "
        "by to_parquet() and read that, which saves both, or persist() data, which saves the computing"
    )
    return tuple(tables)


_ROW_BYTES = 3 * 8  # bytes of a row for its label, weight and position


_CELL_BYTES = 8  # bytes of a decoded number


@dataclass(frozen=True, eq=False)
class KeptSource(ColumnSource):
    """The rows of `files`, kept by the workers of `pool`."""

    files: ParquetSource
    columns: Columns
    survey: Survey
    pool: ClusterPool

    @cached_property
    def _kept(self) -> list[KeptRows]:
        pieces = self.files.division(block_rows(len(self.columns.features))).pieces
        promises = self.pool.keep(_blocks_or_error, pieces)
        return [
            KeptRows(promise, piece.n_rows, piece.n_rows, piece)
            for promise, piece in zip(promises, pieces, strict=True)
        ]

    def division(self, step: int) -> Division:
        """Return the pieces of the files, read by the workers when this is called first."""
        return Division([replace(kept, step=step) for kept in self._kept], self.pool)

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order, read here."""
        return self.files.blocks()


def kept_source(files: ParquetSource, pool: ClusterPool) -> ParquetSource | KeptSource:
    """Return files as rows that workers keep, where they have the memory."""
    columns = files.columns
    each = _ROW_BYTES + _CELL_BYTES * (len(columns.features) + len(columns.groupers) + (columns.offset is not None))
    # a row of counts is two rows once it is decoded, which its piece does not count
    if columns.paired is not None or files.n_rows * each > kept_bytes(pool):
        return files
    return KeptSource(files, columns, files.survey, pool)


def _blocks_or_error(piece: Piece) -> list[WeightedData] | DataError:
    """Return the blocks of a piece, or why they cannot be read: a cluster prints whatever a worker raises."""
    try:
        return list(piece.read(0, piece.n_rows))
    except DataError as error:
        return error


def _rows_between(blocks: list[WeightedData] | DataError, low: int, high: int) -> list[WeightedData] | DataError:
    """Return the rows low, ..., high - 1 of blocks."""
    return blocks if isinstance(blocks, DataError) else list(between(blocks, low, high))


@dataclass(frozen=True, eq=False)
class DaskSource(ColumnSource):
    """Rows of the partitions of a collection, Arrow tables or promises of them."""

    tables: tuple[Any, ...]
    lengths: tuple[int, ...]
    columns: Columns
    survey: Survey
    pool: ClusterPool | None

    def division(self, step: int) -> Division:
        """Return the partitions."""
        starts = np.cumsum([0, *self.lengths]).tolist()
        pieces = [
            Partition(table, i, starts[i], self.lengths[i], self.columns, step) for i, table in enumerate(self.tables)
        ]
        return Division(pieces, self.pool)

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order, computed by the scheduler that is set and brought here."""
        for piece in self.division(block_rows(len(self.columns.features))).pieces:
            assert isinstance(piece, Partition)
            (table,) = compute(piece.table)
            yield from replace(piece, table=table).read(0, piece.n_rows)


def dask_source(data: Any, roles: Roles, selection: Selection | None = None) -> DaskSource | ParquetSource | KeptSource:
    """Return a Dask data frame or array as a source; reads the labels, partition by partition.

    Divisions may be unknown: partitions count in their order. An array is cut by its chunks of rows. Labels, weights
    and offsets are columns, or Dask Series or arrays in the same partitions.
    """
    is_frame = _is_frame(data)
    if roles.y is None and not is_frame:
        raise DataError("y is missing: give the labels as a Dask array in the chunks of data's rows")
    pool = active_pool(data)
    names = [str(name) for name in data.columns] if is_frame else [f"x{d}" for d in range(data.shape[1])]
    named, extra = named_roles(roles, names)
    if is_frame and not extra and (files := _parquet_of(data)) is not None:
        source = parquet_source(files, named, selection, only=names, pool=pool)
        return source if pool is None else kept_source(source, pool)
    empty = _frame(_empty_like(data), names, {name: _empty_like(other) for name, other in extra.items()}, 0)
    columns = resolve_columns(named, pa.Schema.from_pandas(empty, preserve_index=False), selection, only=names)
    if is_frame:  # no more than is needed
        data = data[[column for column in data.columns if str(column) in columns.names]]
        names = [str(name) for name in data.columns]
    frames = _partitions(data if is_frame else data.rechunk({1: -1}))
    parts = {name: _matching_partitions(other, data, len(frames), name) for name, other in extra.items()}
    others = [{name: columns_of_part[i] for name, columns_of_part in parts.items()} for i in range(len(frames))]
    needed = [name for name in dict.fromkeys(columns.survey_columns) if name not in extra]
    inside = _partitions(data[needed]) if needed else [None] * len(frames)  # once for all of them
    surveys = compute(*[delayed(_survey)(part, more, columns) for part, more in zip(inside, others, strict=True)])
    survey = columns.merged(surveys)
    if not survey.n_rows:
        raise DataError("data is an empty collection; it needs at least one row")
    if extra or not is_frame:
        frames = [delayed(_frame)(frame, names, others[i], i) for i, frame in enumerate(frames)]
    columns, lengths = columns.with_survey(survey, roles.positive), tuple(part.n_rows for part in surveys)
    tables = kept_tables(frames, columns.names, survey.n_rows, pool)
    return DaskSource(tables, lengths, columns, survey, pool)


def dask_rows(data: Any, weights: Any = None) -> Source:
    """Return a Dask data frame or array as a source whose labels are all +1, as clusterings take it."""
    if _is_frame(data):
        y = data.map_partitions(_unit_labels, meta=pd.Series(name="__label__", dtype=np.int8))
    else:
        y = data.rechunk({1: -1}).map_blocks(lambda rows: np.ones(len(rows), np.int8), drop_axis=1, dtype=np.int8)
    source = dask_source(data, Roles(y, weights=weights, positive=Classes(-1, 1)))
    return filtered_source(source, drop=False) if source.survey.zero_weights else source


def _unit_labels(rows: pd.DataFrame) -> pd.Series:
    return pd.Series(np.ones(len(rows), np.int8), rows.index, name="__label__")


def _is_frame(data: Any) -> bool:
    """Whether a Dask collection is a data frame and not an array; raise if it is neither."""
    is_frame = hasattr(data, "columns")
    if getattr(data, "ndim", None) != 2 or not (is_frame or hasattr(data, "chunks")):
        raise TypeError(f"data is a Dask {type(data).__name__}; give a DataFrame, or an Array of rows by columns")
    return is_frame


def _empty_like(collection: Any) -> Any:
    """Return a collection of no rows with the types of this one; a whole array in memory as it is."""
    if hasattr(collection, "columns") or hasattr(collection, "to_frame"):
        return collection._meta
    return np.empty((0, *np.shape(collection)[1:]), collection.dtype)


def _frame(rows: Any, names: list[str], extra: dict[str, Any], number: int) -> pd.DataFrame:
    """Return rows and extra columns as one data frame."""
    check_aligned(**{f"partition {number} of {name}": part for name, part in {"data": rows, **extra}.items()})
    frame = pd.DataFrame(rows).set_axis(names, axis=1).reset_index(drop=True)
    for name, values in extra.items():
        if len(values) != len(frame):
            raise DataError(f"partition {number} of {name!r} has {len(values)} rows, that of data {len(frame)}")
        frame[name] = getattr(values, "array", values)
    return frame


def _survey(inside: pd.DataFrame | None, extra: dict[str, Any], columns: Columns) -> Survey:
    """Survey a partition, whose columns are inside a frame or extra arrays."""
    columns_inside = {} if inside is None else {str(name): inside[name].array for name in inside.columns}
    for name in set(columns.survey_columns) & set(extra):
        columns_inside[name] = getattr(extra[name], "array", extra[name])
    return columns.survey(as_table(pd.DataFrame(columns_inside)))


def _partitions(collection: Any) -> list[Delayed]:
    """Return the partitions of a collection in order, each with the part of the graph that it needs."""
    parts = np.ravel(collection.to_delayed()).tolist()
    graph = dict(parts[0].dask)
    return [Delayed(part.key, cull(graph, [part.key])[0]) for part in parts]


def _matching_partitions(collection: Any, data: Any, n_partitions: int, name: str) -> list[Delayed]:
    """Return the partitions of labels or weights that go with a collection of `n_partitions`."""
    if not hasattr(collection, "__dask_graph__") or getattr(collection, "ndim", 1) != 1:
        raise DataError(
            f"{name!r} beside a Dask collection is a {type(collection).__name__}; give a one-dimensional Dask "
            "collection in the same partitions, or name a column of data"
        )
    sizes = getattr(data, "chunks", None)
    if sizes is not None and hasattr(collection, "rechunk") and not np.isnan([*sizes[0], *collection.chunks[0]]).any():
        if sum(sizes[0]) != sum(collection.chunks[0]):
            raise DataError(f"{name!r} has {sum(collection.chunks[0])} entries; data have {sum(sizes[0])} rows")
        collection = collection.rechunk((sizes[0],))
    parts = _partitions(collection)
    if len(parts) != n_partitions:
        raise DataError(f"{name!r} has {len(parts)} partitions and data {n_partitions}; make them alike")
    return parts


def _parquet_of(frame: Any) -> Listing | None:
    """Return the files of a frame of whole Parquet files; None for others."""
    read = frame.expr.simplify()
    if not {"path", "columns", "filters", "index", "_partitions"} <= set(getattr(read, "_parameters", ())):
        return None
    path = read.operand("path")
    plain = not any(read.operand(name) for name in ("filters", "index", "_partitions"))
    if not plain or not isinstance(path, str | Path):
        return None
    if isinstance(path, Path) or not is_address(path):
        return local_listing(Path(path)) if Path(path).exists() else None
    store = read.fs if hasattr(read, "fs") else read._dataset_info["fs"]
    strip = getattr(store, "_strip_protocol", lambda address: address.split("://", 1)[1].split("?")[0])
    return listing_of(arrow_store(store), strip(path), safe_address(path))
