"""Where rows come from: arrays, data frames, Arrow tables and Parquet become a `Source`.

`as_source` is the one door. It checks types, shapes, labels and weights before any work; `scan` in
`passes` then checks every entry during the first pass. Nothing is copied as a whole: blocks are cut,
converted to float64 and, by `DesignedSource`, put through the `Design` one at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bayescore.data.passes import MAX_BLOCK_ROWS, block_rows
from bayescore.data.tables import as_floats, as_table, check_numeric, is_table
from bayescore.types import Design, FloatArray, IntArray, LabelArray, Source, WeightedData
from bayescore.validation import DataError, check_alone, check_matrix, check_weights, signed_labels, two_classes

CORESET_KEY = b"bayescore"  # of the metadata of a coreset's Parquet file
_MANY = 6  # distinct labels after which the count no longer matters


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

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order."""
        step = block_rows(self.X.shape[1])
        for start in range(0, len(self.y), step):
            cut = slice(start, start + step)
            raw = np.ascontiguousarray(self.X[cut], dtype=np.float64)
            rows = np.arange(start, start + len(raw)) if self.index is None else self.index[cut]
            yield WeightedData(raw, self.y[cut], np.ascontiguousarray(self.weights[cut]), rows)


@dataclass(frozen=True, eq=False)
class ArrowSource:
    """Rows of an Arrow table in memory or of Parquet files, read batch by batch."""

    table: pa.Table | None
    files: tuple[Path, ...]
    n_rows: int
    classes: tuple[Any, Any]
    label: str
    weight_column: str | None
    design: Design

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order."""
        names = self.design.raw_names
        start = 0
        for batch in _batches(self.table, self.files, self.columns, block_rows(len(names))):
            raw = np.empty((batch.num_rows, len(names)))
            for j, name in enumerate(names):
                raw[:, j] = as_floats(batch.column(name))
            if self.weight_column is None:
                weights = np.ones(batch.num_rows)
            else:
                where = f"weights (column {self.weight_column!r})"
                weights = check_weights(as_floats(batch.column(self.weight_column)), batch.num_rows, where, start)
            y = self._signs(batch.column(self.label), start)
            index = np.arange(start, start + batch.num_rows)
            start += batch.num_rows
            yield WeightedData(raw, y, weights, index)

    def _signs(self, column: pa.Array, start: int) -> LabelArray:
        if pa.types.is_dictionary(column.type):
            plain = pa.string() if column.type.value_type == pa.string_view() else column.type.value_type
            column = column.cast(pa.dictionary(pa.int32(), plain)).dictionary_decode()
        coded = column.dictionary_encode()
        values = np.asarray(coded.dictionary.to_pylist(), dtype=object)
        signs = signed_labels(values, self.classes, start, f"column {self.label!r}")
        return np.asarray(signs[coded.indices.to_numpy(zero_copy_only=False)], dtype=np.int8)

    @property
    def columns(self) -> list[str]:
        """Columns that are read."""
        extra = [self.label] if self.weight_column is None else [self.label, self.weight_column]
        return [*self.design.raw_names, *extra]


@dataclass(eq=False)
class DesignedSource:
    """Another source's rows, put through `transform`; counts the passes made over them."""

    source: Source
    design: Design
    transform: Design | None = None
    n_passes: int = 0

    @property
    def classes(self) -> tuple[Any, Any]:
        """The two labels as given."""
        return self.source.classes

    @property
    def label(self) -> str:
        """Name of the label column."""
        return self.source.label

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.source.n_rows

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order."""
        self.n_passes += 1
        for block in self.source.blocks():
            for start in range(0, len(block), MAX_BLOCK_ROWS):  # exact sums need short blocks
                part = block if len(block) <= MAX_BLOCK_ROWS else block.take(slice(start, start + MAX_BLOCK_ROWS))
                X = np.ascontiguousarray(part.X, dtype=np.float64)
                yield replace(part, X=X if self.transform is None else self.transform.transform(X))


def as_source(data: Any, y: Any = None, *, label: str | None = None, weights: Any = None) -> Source:
    """Turn `data` into a `Source` with the identity design.

    Parameters
    ----------
    data : array, data frame, Arrow table, path or Source
        A 2-D array of numbers; a pandas, polars or Arrow table; the path of a Parquet file or of a folder of
        them; or a ready `Source`.
    y : array, optional
        Labels, two classes of any kind. Not needed where `label` names a column.
    label : str, optional
        Column of the labels in a table or Parquet file.
    weights : array or str, optional
        Positive weights of the rows, or the name of their column.

    Raises
    ------
    DataError
        For wrong shapes, non-numeric columns, labels that are not of two classes, bad weights, or a file
        that cannot be read.
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
        return _from_table(data, y, label, weights)
    if hasattr(data, "dask") or hasattr(data, "__next__"):
        raise TypeError(
            f"data is a {type(data).__name__}; one-shot iterators and Dask collections cannot be read: "
            "give an array, a data frame or the path of a Parquet file"
        )
    if hasattr(data, "toarray"):
        raise TypeError(f"data is a sparse {type(data).__name__}; give data.toarray()")
    return _from_arrays(data, y, label, weights)


def _from_arrays(data: Any, y: Any, label: str | None, weights: Any) -> ArraySource:
    X = check_matrix(data, "data")
    if label is not None:
        raise DataError(f"label={label!r} names a column, but data is an array; give the labels as y")
    if y is None:
        raise DataError("y is missing: give the labels, one for each row of data")
    labels = np.asarray(y, dtype=object if isinstance(y, list | tuple) else None)
    if labels.shape != (len(X),):
        raise DataError(f"y has shape {labels.shape}; it must be ({len(X)},), one label for each row (np.ravel?)")
    if isinstance(weights, str):
        raise DataError(f"weights={weights!r} names a column, but data is an array; give the weights as an array")
    unit = np.broadcast_to(np.float64(1.0), len(X))
    found = pd.unique(labels)
    classes = two_classes(v.item() if isinstance(v, np.generic) else v for v in found[:_MANY])
    return ArraySource(
        X=X,
        y=signed_labels(labels, classes, 0),
        weights=unit if weights is None else check_weights(weights, len(X)),
        classes=classes,
        label="y",
        design=Design(tuple(f"x{j}" for j in range(X.shape[1]))),
    )


def _from_table(data: Any, y: Any, label: str | None, weights: Any) -> ArrowSource:
    table = as_table(data)
    if isinstance(data, pd.DataFrame) and label is not None:
        label = str(label)  # as Arrow names the columns
    if table.num_rows == 0:
        raise DataError("data is an empty table; it needs at least one row")
    if y is not None:
        if label is not None:
            raise DataError(f"y and label={label!r} are both given; give one of them")
        label = str(getattr(y, "name", None) or "y")
        if label in table.column_names:
            raise DataError(
                f"data has a column {label!r} as y has: drop it from data, or leave y out and give label={label!r}"
            )
        table = _appended(table, label, y, "y")
    if weights is not None and not isinstance(weights, str):
        table = _appended(table, "weight", check_weights(weights, table.num_rows), "weights")
        weights = "weight"
    return _checked(ArrowSource(table, (), table.num_rows, (0, 1), label or "", weights, Design(())), table.schema)


def _appended(table: pa.Table, column: str, values: Any, argument: str) -> pa.Table:
    array = np.asarray(values)
    if array.shape != (table.num_rows,):
        raise DataError(f"{argument} has shape {array.shape}; it must be ({table.num_rows},), one for each row")
    if column in table.column_names:
        raise DataError(f"data has a column {column!r} beside {argument}; rename it, or name it as label or weights")
    try:
        return table.append_column(column, pa.array(array, from_pandas=True))
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(f"{argument} holds values of mixed types ({error}); make them alike") from None


def _from_parquet(path: Path, y: Any, label: str | None, weights: Any) -> ArrowSource:
    if y is not None:
        raise DataError("y is given beside the path of a Parquet file; name the column of the labels as label")
    if weights is not None and not isinstance(weights, str):
        raise DataError("weights of a Parquet file must be the name of a column")
    if not path.exists():
        raise FileNotFoundError(f"data: no file or folder {str(path)!r}")
    files = tuple(sorted(path.rglob("*.parquet"))) if path.is_dir() else (path,)
    if not files:
        raise DataError(f"data: the folder {str(path)!r} holds no .parquet files")
    n_rows, schema = 0, None
    for file in files:
        try:
            with pq.ParquetFile(file) as opened:
                if schema is not None and not opened.schema_arrow.equals(schema):
                    raise DataError(f"{str(file)!r} has other columns than {str(files[0])!r}; make them alike")
                schema = opened.schema_arrow
                n_rows += opened.metadata.num_rows
        except (pa.ArrowInvalid, OSError) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise DataError(f"{str(file)!r} is not a readable Parquet file ({reason}); write it again") from None
    if n_rows == 0:
        raise DataError(f"{str(path)!r} holds no rows")
    if CORESET_KEY in ((schema and schema.metadata) or {}) and weights is None:
        raise DataError(f"{str(path)!r} is a coreset; read it with read_coreset, or name its weights: weights='weight'")
    return _checked(ArrowSource(None, files, n_rows, (0, 1), label or "", weights, Design(())), schema)


def _checked(source: ArrowSource, schema: pa.Schema) -> ArrowSource:
    """Check the columns' names and types, find the two classes, and name the features."""
    names = schema.names
    listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    if not source.label:
        raise DataError(f"label is missing: name the column of the labels; the columns are {listed}")
    for name, argument in ((source.label, "label"), (source.weight_column, "weights")):
        if name is not None and name not in names:
            raise DataError(f"{argument}={name!r} is not a column of the data; the columns are {listed}")
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise DataError(f"column {repeated!r} stands more than once in data; rename one")
    # pandas keeps an index that is no plain range as a column of the file
    stored = [name for name in (schema.pandas_metadata or {}).get("index_columns", ()) if isinstance(name, str)]
    features = tuple(name for name in names if name not in (source.label, source.weight_column, *stored))
    if not features:
        raise DataError(f"the data have no feature columns beside {source.label!r}")
    check_numeric(schema, features)
    found: dict[Any, None] = {}
    for batch in _batches(source.table, source.files, [source.label], 1 << 20):
        found.update(dict.fromkeys(batch.column(0).unique().to_pylist()))
        if len(found) > _MANY:
            break
    classes = two_classes(found, f"column {source.label!r}")
    return replace(source, classes=classes, design=Design(features))


def _batches(
    table: pa.Table | None, files: tuple[Path, ...], columns: list[str], n_rows: int
) -> Iterator[pa.RecordBatch]:
    if table is not None:
        yield from table.select(columns).to_batches(max_chunksize=n_rows)
        return
    for file in files:
        try:
            with pq.ParquetFile(file) as opened:
                yield from opened.iter_batches(batch_size=n_rows, columns=columns)
        except (pa.ArrowInvalid, OSError) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise DataError(f"{str(file)!r} is damaged ({reason}); write it again") from None
