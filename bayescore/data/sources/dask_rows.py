"""Rows of a Dask collection that need no labels, partition by partition: what clusterings take.

Workers read and map the rows where they are, as those of `dask_source`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from dask.base import compute
from dask.delayed import Delayed, delayed

from bayescore.data.design import Design
from bayescore.data.passes.tasks import Division
from bayescore.data.sources.dask_source import ClusterPool, active_pool, partitions, partitions_beside
from bayescore.data.tables import check_numeric
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError, check_matrix, check_weights


@dataclass(frozen=True)
class RowsPartition:
    """Rows of a partition and their weights; `rows` is a promise until a worker has them."""

    rows: Any
    number: int
    n_rows: int

    def read(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1."""
        rows = self.rows
        X, weights = rows.compute(scheduler="synchronous") if isinstance(rows, Delayed) else rows
        if len(X) != self.n_rows:
            raise DataError(
                f"{self.place(0)} has {len(X)} rows now and had {self.n_rows}: the graph must give the same rows each "
                "time; persist() the collection, or write it to Parquet"
            )
        y = np.ones(high - low, dtype=np.int8)
        yield WeightedData(X[low:high], y, weights[low:high], np.arange(low, high))

    def place(self, row: int) -> str:
        """Name the partition."""
        return f"row {row} of partition {self.number}"


@dataclass(frozen=True, eq=False)
class DaskRows:
    """Rows of the partitions of a collection, all labels +1."""

    design: Design
    label: str
    pieces: tuple[RowsPartition, ...]
    pool: ClusterPool | None

    def division(self, step: int) -> Division:  # noqa: ARG002
        """Return the partitions, each of one block."""
        return Division(self.pieces, self.pool)

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order, brought here."""
        for piece in self.pieces:
            yield from piece.read(0, piece.n_rows)


def dask_rows(data: Any, weights: Any = None) -> DaskRows:
    """Return the rows of a Dask data frame or array; counts them, partition by partition.

    Parameters
    ----------
    data : dask.dataframe.DataFrame or dask.array.Array
        Numbers. An array is cut by its chunks of rows.
    weights : dask Series or array, optional
        Positive weights, in the same partitions.

    Raises
    ------
    DataError
        If the columns, weights or partitions cannot be used.
    TypeError
        For a collection of another kind.
    """
    is_frame = hasattr(data, "columns")
    if getattr(data, "ndim", None) != 2 or not (is_frame or hasattr(data, "chunks")):
        raise TypeError(f"data is a Dask {type(data).__name__}; give a DataFrame, or an Array of rows by columns")
    names = tuple(str(name) for name in data.columns) if is_frame else tuple(f"x{d}" for d in range(data.shape[1]))
    if is_frame:
        check_numeric(pa.Schema.from_pandas(data._meta, preserve_index=False), names)
    parts = partitions(data if is_frame else data.rechunk({1: -1}))
    beside = [None] * len(parts) if weights is None else partitions_beside(weights, data, len(parts), "weights")
    lengths = compute(*[delayed(len)(part) for part in parts])
    if not sum(lengths):
        raise DataError("data is an empty collection; it needs at least one row")
    pieces = [
        RowsPartition(delayed(_rows)(part, own, number), number, length)
        for number, (part, own, length) in enumerate(zip(parts, beside, lengths, strict=True))
        if length
    ]
    return DaskRows(Design(names), "y", tuple(pieces), active_pool(data))


def _rows(part: Any, weights: Any, number: int) -> tuple[FloatArray, FloatArray]:
    """Return the rows of a partition, and their weights, as arrays."""
    matrix = part.to_numpy(dtype=np.float64, na_value=np.nan) if hasattr(part, "to_numpy") else part
    X = np.ascontiguousarray(check_matrix(matrix, f"partition {number}"), dtype=np.float64)
    unit = np.ones(len(X))
    return X, unit if weights is None else check_weights(weights, len(X), f"weights of partition {number}")
