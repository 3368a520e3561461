"""Where rows come from: whatever `build_coreset` takes becomes a `Source`.

`as_source` is the one door. It checks types, shapes, labels and weights before any work; `Opened.scan` then checks
every entry during the first pass. Nothing is copied as a whole: blocks are cut, converted to float64 and, by `Opened`,
put through the `Design` one at a time. The same seed gives the same coreset from all of them.

=========================================  ======================  ================================================
data                                       read                    methods
=========================================  ======================  ================================================
array; pandas, polars or Arrow table       in memory, in threads   all
Parquet file or folder (Hive columns too)  row groups, in threads  all; never the whole table in memory
Dask DataFrame of local Parquet            row groups, by workers  all; file names travel, rows do not
Dask DataFrame or Array                    partitions, by workers  all; heads of partitions move between workers
callable that returns a fresh iterator     here, mapped in threads all; one pass more, for labels and number of rows
iterator of blocks                         once, mapped in threads merge_reduce ("auto"), online, uniform, aggregate
coreset                                    in memory               all
=========================================  ======================  ================================================

``"online"`` reads the rows in the calling process whatever the source, for it scores each block against all before
it: on a cluster, ``"leverage"`` is sharper and moves nothing. ``standardize=True`` needs rows that can be read again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescore.data.passes.cutter import block_rows
from bayescore.data.passes.tasks import Division, slices
from bayescore.data.sources.blocks import block_source, is_stream, labels_of
from bayescore.data.sources.parquet import ParquetSource, parquet_source
from bayescore.data.sources.table_source import table_source
from bayescore.data.sources.tables import is_dask, is_table
from bayescore.types import Design, FloatArray, IntArray, LabelArray, Source, WeightedData
from bayescore.validation import DataError, check_alone, check_matrix, check_weights, signed_labels, two_classes


@dataclass(frozen=True, eq=False)
class ArraySource:
    """Rows held in memory as a matrix of any numeric type; blocks are cut and converted on the way."""

    X: NDArray[Any]
    y: LabelArray
    weights: FloatArray
    classes: tuple[Any, Any]
    label: str
    design: Design
    index: IntArray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    def division(self, step: int) -> Division:
        """Return a piece for each block."""
        return Division(slices(self, step))

    def rows(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1."""
        cut = slice(low, high)
        raw = np.ascontiguousarray(self.X[cut], dtype=np.float64)
        index = np.arange(low, high) if self.index is None else self.index[cut]
        yield WeightedData(raw, self.y[cut], np.ascontiguousarray(self.weights[cut]), index)

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order."""
        for piece in self.division(block_rows(self.X.shape[1])).pieces:
            yield from piece.read(0, piece.n_rows)


def unlabelled(X: Any, weights: Any = None, name: str = "X") -> ArraySource:
    """Return a matrix as a source whose labels are all +1, for scores that need none."""
    matrix = np.ascontiguousarray(check_matrix(X, name), dtype=np.float64)
    n_rows, n_columns = matrix.shape
    w = np.ones(n_rows) if weights is None else check_weights(weights, n_rows)
    design = Design(tuple(f"{name.lower()}{d}" for d in range(n_columns)))
    return ArraySource(matrix, np.ones(n_rows, dtype=np.int8), w, (-1, 1), "y", design)


def as_source(data: Any, y: Any = None, *, label: str | None = None, weights: Any = None) -> Source:
    """Turn `data` into a `Source` with the identity design.

    Parameters
    ----------
    data : array, data frame, Arrow table, path, callable, Dask collection or Source
        A 2-D array of numbers; a pandas, polars or Arrow table; the path of a Parquet file or of a folder of
        them; a callable that returns a fresh iterator of blocks, (X, y) or (X, y, weights), each time; a Dask data
        frame or array; or a ready `Source`.
    y : array, optional
        Labels, two classes of any kind. Not needed where `label` names a column or blocks bring theirs.
    label : str, optional
        Column of the labels in a table or Parquet file.
    weights : array or str, optional
        Positive weights of the rows, or the name of their column.

    Raises
    ------
    DataError
        For wrong shapes, non-numeric columns, labels that are not of two classes, bad weights, a file
        that cannot be read, or an iterator, whose rows come once.
    TypeError
        For data of another kind.
    """
    if isinstance(data, Source):
        check_alone(f"a {type(data).__name__}", y=y, label=label, weights=weights)
        return data
    if isinstance(data, WeightedData):
        design = Design(tuple(f"x{j}" for j in range(data.n_features)))
        return ArraySource(data.X, data.y, data.weights, (-1, 1), "y", design, data.index)
    if isinstance(data, str | Path):
        return _from_parquet(Path(data), y, label, weights)
    if is_table(data):
        return table_source(data, y, label, weights)
    if is_stream(data):
        raise DataError(
            f"data is a {type(data).__name__}, whose rows come once, and they are needed more than once: give a "
            "callable that returns a fresh iterator of blocks each time, a Parquet file, or an array"
        )
    if is_dask(data):
        from bayescore.data.sources.dask_source import dask_source  # Dask is optional

        return dask_source(data, y, label, weights)
    if callable(data):
        check_alone("a callable, whose blocks bring their labels and weights:", y=y, label=label, weights=weights)
        return block_source(data)
    if hasattr(data, "toarray"):
        raise TypeError(f"data is a sparse {type(data).__name__}; give data.toarray()")
    return _from_arrays(data, y, label, weights)


def _from_arrays(data: Any, y: Any, label: str | None, weights: Any) -> ArraySource:
    X = check_matrix(data, "data")
    if label is not None:
        raise DataError(f"label={label!r} names a column, but data is an array; give the labels as y")
    if y is None:
        raise DataError("y is missing: give the labels, one for each row of data")
    labels, found = labels_of(y, len(X))
    if isinstance(weights, str):
        raise DataError(f"weights={weights!r} names a column, but data is an array; give the weights as an array")
    unit = np.broadcast_to(np.float64(1.0), len(X))
    classes = two_classes(found)
    return ArraySource(
        X=X,
        y=signed_labels(labels, classes, 0),
        weights=unit if weights is None else check_weights(weights, len(X)),
        classes=classes,
        label="y",
        design=Design(tuple(f"x{j}" for j in range(X.shape[1]))),
    )


def _from_parquet(path: Path, y: Any, label: str | None, weights: Any) -> ParquetSource:
    if y is not None:
        raise DataError("y is given beside the path of a Parquet file; name the column of the labels as label")
    if weights is not None and not isinstance(weights, str):
        raise DataError("weights of a Parquet file must be the name of a column")
    return parquet_source(path, label, weights)
