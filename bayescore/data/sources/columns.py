"""The columns of a table, file or partition that are read, and batches of them as weighted rows."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bayescore.data.passes.tiles import rows_of
from bayescore.data.sources.tables import as_floats, as_numbers, check_numeric
from bayescore.types import Design, LabelArray, WeightedData
from bayescore.validation import DataError, check_weights, signed_labels, two_classes

MANY = 6  # distinct labels after which the count no longer matters


@dataclass(frozen=True)
class Columns:
    """Names of the features, the label and the weights (1 if None), and the two labels."""

    features: tuple[str, ...]
    label: str
    weights: str | None
    classes: tuple[Any, Any] = (0, 1)

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        return [*self.features, self.label, *([] if self.weights is None else [self.weights])]

    def with_classes(self, found: Iterable[Any]) -> Self:
        """Return the same columns with the two classes among the labels `found`.

        Raises
        ------
        DataError
            If they are not two.
        """
        return replace(self, classes=two_classes(found, f"column {self.label!r}"))

    def block(self, batch: pa.RecordBatch, start: int) -> WeightedData:
        """Return a batch as weighted rows; its first row stands at position `start` of the data.

        Raises
        ------
        RowError
            If a weight is not positive, or a label is of neither class.
        """
        X = rows_of([as_numbers(batch.column(name)) for name in self.features])
        weights = np.ones(batch.num_rows)
        if self.weights is not None:
            where = f"weights (column {self.weights!r})"
            weights = check_weights(as_floats(batch.column(self.weights)), batch.num_rows, where, start)
        return WeightedData(
            X, self._signs(batch.column(self.label), start), weights, np.arange(start, start + batch.num_rows)
        )

    def _signs(self, column: pa.Array, start: int) -> LabelArray:
        kind = column.type
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            labels = column.to_numpy(zero_copy_only=False)
            return signed_labels(labels, self.classes, start, f"column {self.label!r}")
        values, codes = coded(column)
        if not set(values.tolist()) <= set(self.classes):
            signed_labels(values[codes], self.classes, start, f"column {self.label!r}")
        return np.where(values == self.classes[1], np.int8(1), np.int8(-1))[codes]


class ColumnSource:
    """What sources made of `columns` share."""

    columns: Columns

    @property
    def classes(self) -> tuple[Any, Any]:
        """The two labels as given."""
        return self.columns.classes

    @property
    def label(self) -> str:
        """Name of the label column."""
        return self.columns.label

    @property
    def design(self) -> Design:
        """The identity design of the features."""
        return Design(self.columns.features)


def coded(column: pa.Array) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    """Return the distinct labels of a column, and for each row the place of its own among them."""
    if pa.types.is_dictionary(column.type):
        plain = pa.string() if column.type.value_type == pa.string_view() else column.type.value_type
        column = column.cast(pa.dictionary(pa.int32(), plain)).dictionary_decode()
    found = column.dictionary_encode(null_encoding="encode")
    return np.array([*found.dictionary.to_pylist(), None], dtype=object)[:-1], found.indices.to_numpy()


def chosen_columns(schema: pa.Schema, label: str | None, weights: str | None, only: Iterable[str] | None) -> Columns:
    """Return the columns to read of a table with this schema: all numeric ones, or those of `only`.

    Raises
    ------
    DataError
        If the label or the weights are no column, or the features are not numeric.
    """
    names = schema.names
    listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    if not label:
        raise DataError(f"label is missing: name the column of the labels; the columns are {listed}")
    for name, argument in ((label, "label"), (weights, "weights")):
        if name is not None and name not in names:
            raise DataError(f"{argument}={name!r} is not a column of the data; the columns are {listed}")
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise DataError(f"column {repeated!r} stands more than once in data; rename one")
    if label == weights:
        raise DataError(f"label and weights both name the column {label!r}; name two, or leave weights out")
    stored = _stored_index(schema)
    features = tuple(name for name in (names if only is None else only) if name not in (label, weights, *stored))
    if not features:
        raise DataError(f"the data have no feature columns beside {label!r}")
    check_numeric(schema, features if weights is None else (*features, weights))
    return Columns(features, label, weights)


def _stored_index(schema: pa.Schema) -> list[str]:
    """Return the columns that are a pandas index: one that is no plain range stands in the file."""
    try:
        names = (schema.pandas_metadata or {}).get("index_columns", ())
        return [name for name in names if isinstance(name, str)]
    except (TypeError, ValueError, AttributeError, RecursionError):  # metadata that pandas did not write
        return []


def add_labels(found: dict[Any, None], column: pa.Array) -> bool:
    """Add the labels of a column to those `found`; return whether they are too many to go on."""
    found.update(dict.fromkeys(column.unique().to_pylist()))
    return len(found) > MANY
