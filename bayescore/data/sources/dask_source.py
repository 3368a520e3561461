"""Dask data frames and arrays as sources; workers of a cluster read and map the rows where they are.

Descriptors travel, not rows: a file and row groups where the frame is Parquet on a shared file system or in an object
store, which workers read once and keep if they have the memory (`dask_kept`), else the promise of a partition
(`dask_tables`). Only the head of a partition that completes a canonical block
begun in the one before moves between workers. A task lost with its worker runs again elsewhere, from the same rows with
the same seed, so a killed worker changes nothing. Without a `distributed` client bayescore's own threads run the
passes, whatever local scheduler is set. Workers with processors of one kind give the same bits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from dask.base import compute
from dask.delayed import Delayed, delayed
from dask.optimization import cull

from bayescore.data.factors import Selection
from bayescore.data.labels import Classes
from bayescore.data.passes.cutter import block_rows
from bayescore.data.passes.tasks import Division
from bayescore.data.source import Source
from bayescore.data.sources.columns import Columns, ColumnSource
from bayescore.data.sources.dask_kept import KeptSource, kept_source
from bayescore.data.sources.dask_tables import ClusterPool, Partition, active_pool, kept_tables
from bayescore.data.sources.parquet import ParquetSource, parquet_source
from bayescore.data.sources.roles import Roles, named_roles, resolve
from bayescore.data.sources.row_filter import filtered_source
from bayescore.data.sources.stores import Listing, arrow_store, is_address, listing_of, local_listing, shown
from bayescore.data.sources.survey import Survey
from bayescore.data.tables import as_table
from bayescore.types import WeightedData
from bayescore.validation import DataError, check_aligned


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
    named, beside = named_roles(roles, names)
    if is_frame and not beside and (files := _parquet_of(data)) is not None:
        found = parquet_source(files, named, selection, only=names, pool=pool)
        return found if pool is None else kept_source(found, pool)
    empty = _frame(_meta(data), names, {name: _meta(other) for name, other in beside.items()}, 0)
    columns = resolve(named, pa.Schema.from_pandas(empty, preserve_index=False), selection, only=names)
    if is_frame:  # no more than is needed
        data = data[[column for column in data.columns if str(column) in columns.names]]
        names = [str(name) for name in data.columns]
    frames = _partitions(data if is_frame else data.rechunk({1: -1}))
    parts = {name: _beside(other, data, len(frames), name) for name, other in beside.items()}
    others = [{name: own[i] for name, own in parts.items()} for i in range(len(frames))]
    needed = [name for name in dict.fromkeys(columns.surveyed) if name not in beside]
    inside = _partitions(data[needed]) if needed else [None] * len(frames)  # once for all of them
    surveys = compute(*[delayed(_survey)(part, own, columns) for part, own in zip(inside, others, strict=True)])
    survey = columns.merged(surveys)
    if not survey.n_rows:
        raise DataError("data is an empty collection; it needs at least one row")
    if beside or not is_frame:
        frames = [delayed(_frame)(frame, names, others[i], i) for i, frame in enumerate(frames)]
    columns, lengths = columns.learnt(survey, roles.positive), tuple(part.n_rows for part in surveys)
    tables = kept_tables(frames, columns.names, survey.n_rows, pool)
    return DaskSource(tables, lengths, columns, survey, pool)


def dask_rows(data: Any, weights: Any = None) -> Source:
    """Return a Dask data frame or array as a source whose labels are all +1, as clusterings take it."""
    if _is_frame(data):
        y = data.map_partitions(_ones, meta=pd.Series(name="__label__", dtype=np.int8))
    else:
        y = data.rechunk({1: -1}).map_blocks(lambda rows: np.ones(len(rows), np.int8), drop_axis=1, dtype=np.int8)
    source = dask_source(data, Roles(y, weights=weights, positive=Classes(-1, 1)))
    return filtered_source(source, drop=False) if source.survey.zero_weights else source


def _ones(rows: pd.DataFrame) -> pd.Series:
    return pd.Series(np.ones(len(rows), np.int8), rows.index, name="__label__")


def _is_frame(data: Any) -> bool:
    """Whether a Dask collection is a data frame and not an array; raise if it is neither."""
    is_frame = hasattr(data, "columns")
    if getattr(data, "ndim", None) != 2 or not (is_frame or hasattr(data, "chunks")):
        raise TypeError(f"data is a Dask {type(data).__name__}; give a DataFrame, or an Array of rows by columns")
    return is_frame


def _meta(collection: Any) -> Any:
    """Return a collection of no rows with the types of this one; a whole array in memory as it is."""
    if hasattr(collection, "columns") or hasattr(collection, "to_frame"):
        return collection._meta
    return np.empty((0, *np.shape(collection)[1:]), collection.dtype)


def _frame(rows: Any, names: list[str], beside: dict[str, Any], number: int) -> pd.DataFrame:
    """Return rows, and columns beside them, as one data frame."""
    check_aligned(**{f"partition {number} of {name}": part for name, part in {"data": rows, **beside}.items()})
    frame = pd.DataFrame(rows).set_axis(names, axis=1).reset_index(drop=True)
    for name, values in beside.items():
        if len(values) != len(frame):
            raise DataError(f"partition {number} of {name!r} has {len(values)} rows, that of data {len(frame)}")
        frame[name] = getattr(values, "array", values)
    return frame


def _survey(inside: pd.DataFrame | None, beside: dict[str, Any], columns: Columns) -> Survey:
    """Survey a partition, whose columns are inside a frame or beside it."""
    found = {} if inside is None else {str(name): inside[name].array for name in inside.columns}
    for name in set(columns.surveyed) & set(beside):
        found[name] = getattr(beside[name], "array", beside[name])
    return columns.survey(as_table(pd.DataFrame(found)))


def _partitions(collection: Any) -> list[Delayed]:
    """Return the partitions of a collection in order, each with the part of the graph that it needs."""
    parts = np.ravel(collection.to_delayed()).tolist()
    graph = dict(parts[0].dask)
    return [Delayed(part.key, cull(graph, [part.key])[0]) for part in parts]


def _beside(collection: Any, data: Any, n_partitions: int, name: str) -> list[Delayed]:
    """Return the partitions of labels or weights beside a collection of `n_partitions`."""
    if not hasattr(collection, "__dask_graph__") or getattr(collection, "ndim", 1) != 1:
        raise DataError(
            f"{name!r} beside a Dask collection is a {type(collection).__name__}; give a one-dimensional Dask "
            "collection in the same partitions, or name a column of data"
        )
    known = getattr(data, "chunks", None)
    if known is not None and hasattr(collection, "rechunk") and not np.isnan([*known[0], *collection.chunks[0]]).any():
        if sum(known[0]) != sum(collection.chunks[0]):
            raise DataError(f"{name!r} has {sum(collection.chunks[0])} entries; data have {sum(known[0])} rows")
        collection = collection.rechunk((known[0],))
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
    return listing_of(arrow_store(store), strip(path), shown(path))
