"""`Survey`: what one look at rows learns before any pass: how many there are, their labels, levels, and zero weights.

Surveys add up. That of no rows is `Survey()`, and ``a + b`` is the survey of the rows of a with those of b below them,
however they were cut: addition is associative. What is met first stands first, so that only the order in which values
were met depends on the order of the parts. So batches of a file, partitions on workers and blocks of a stream are all
surveyed one by one, in any cut, and every source knows the same of the same rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bayescore.data.factors import check_few, check_memory
from bayescore.data.labels import SHOWN, sorted_labels, two_classes
from bayescore.limits import MAX_LEVELS_NAMED
from bayescore.validation import DataError, check_unmasked, native

MANY = SHOWN + 1
"""Labels that are looked at, of which a message still shows that there are more."""


@dataclass(frozen=True)
class Seen:
    """The distinct values of a column, the order that they have of their own, if any, and whether some are missing.

    `values` are the keys of a dict, in the order in which they were met.
    """

    values: Mapping[Any, None] = field(default_factory=dict)
    order: tuple[Any, ...] | None = None
    missing: bool = False

    @classmethod
    def of(cls, values: Iterable[Any], order: Iterable[Any] | None = None, *, missing: bool = False) -> Self:
        """Return what distinct values tell; an order of no values says nothing."""
        found = dict.fromkeys(values)
        return cls(found, None if order is None or not found else tuple(order), missing)

    def __add__(self, other: "Seen") -> "Seen":
        missing = self.missing or other.missing
        if not self.values or not other.values:
            return replace(self if self.values else other, missing=missing)
        return Seen({**self.values, **other.values}, self.order if self.order == other.order else None, missing)

    def first(self, number: int) -> "Seen":
        """Return the same with no more than the first values."""
        return self if len(self.values) <= number else replace(self, values=dict.fromkeys([*self.values][:number]))

    def levels(self, name: str) -> tuple[Any, ...]:
        """Return the values in their order: their own, or sorted.

        Raises
        ------
        DataError
            If they are neither text nor numbers, or both.
        """
        where = f"column {name!r}"
        ordered = sorted_labels(self.values, where)
        if len({isinstance(value, str) for value in ordered}) > 1:
            raise DataError(f"{where} mixes numbers and text: {ordered[0]!r} and {ordered[-1]!r}; make them alike")
        return tuple(ordered if self.order is None else (v for v in self.order if v in self.values))


NOTHING = Seen()


@dataclass(frozen=True)
class Survey:
    """What one look at rows learns.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    labels : Seen
        Their labels, the first `MANY` of them; of counts none.
    levels : mapping of str to Seen
        Levels of columns of text and of grouping factors, by name.
    zero_weights : bool
        Whether some rows weigh nothing, and will be left out.
    """

    n_rows: int = 0
    labels: Seen = NOTHING
    levels: Mapping[str, Seen] = field(default_factory=dict)
    zero_weights: bool = False

    def __add__(self, other: "Survey") -> "Survey":
        names = dict.fromkeys((*self.levels, *other.levels))
        return Survey(
            self.n_rows + other.n_rows,
            (self.labels + other.labels).first(MANY),
            {name: self.levels.get(name, NOTHING) + other.levels.get(name, NOTHING) for name in names},
            self.zero_weights or other.zero_weights,
        )

    def classes(self, name: str, positive: Any = None, *, drop: bool = False) -> tuple[Any, Any]:
        """Return the two labels, the second +1; if `drop` some may be missing, in rows that are left out.

        Raises
        ------
        DataError
            If they are not two.
        """
        if self.labels.missing and not drop:
            raise DataError(f"{name} has missing labels; drop those rows")
        return two_classes(self.labels.values, name, positive, self.labels.order)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return {
            "n_rows": self.n_rows,
            "labels": _written(self.labels),
            "levels": {name: _written(own) for name, own in self.levels.items()},
            "zero_weights": self.zero_weights,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Rebuild a survey from `to_dict`'s value."""
        own = {"labels": _read(fields["labels"]), "levels": {name: _read(v) for name, v in fields["levels"].items()}}
        return cls(**{**fields, **own})


def _written(seen: Seen) -> list[Any]:
    return [list(seen.values), seen.order, seen.missing]


def _read(written: list[Any]) -> Seen:
    values, order, missing = written
    return Seen.of(values, order, missing=missing)


def merged(parts: Iterable[Survey], groups: Iterable[str] = ()) -> Survey:
    """Return the survey of rows in parts; `groups` are the columns among the levels that are grouping factors.

    It stops where the labels are too many for two classes.

    Raises
    ------
    DataError
        If levels are too many for any design.
    """
    total = Survey()
    for part in parts:
        total += part
        for name, own in total.levels.items():
            if name in groups:
                check_memory(name, len(own.values))
            else:
                check_few(f"column {name!r}", len(own.values), MAX_LEVELS_NAMED)
        if len(total.labels.values) == MANY:
            break
    return total


def seen(column: pa.Array | pa.ChunkedArray, *, ordered: bool, most: int | None = None) -> Seen:
    """Return what a column tells of its values, the first `most` of them.

    If `ordered`, those of a dictionary stand in an order of their own.
    """
    if isinstance(column, pa.ChunkedArray):
        return sum((seen(chunk, ordered=ordered, most=most) for chunk in column.chunks), NOTHING)
    order, is_coded = None, pa.types.is_dictionary(column.type)
    if is_coded:
        known = column.dictionary.to_pylist()
        found = [known[i] for i in column.indices.drop_null().unique()[:most].to_pylist()]
        order = known if ordered else None
    else:
        found = without_views(column).unique()[: None if most is None else most + 1].to_pylist()
    values = [value for value in found if not _is_missing(value)]
    return Seen.of(values[:most], order, missing=len(values) < len(found) or column.null_count > 0)


def labels_seen(column: pa.Array | pa.ChunkedArray) -> Seen:
    """Return what a column tells of labels; those of an ordered categorical have their order."""
    return seen(column, ordered=pa.types.is_dictionary(column.type) and column.type.ordered, most=MANY)


def labels_of(y: Any, n_rows: int, name: str = "y") -> tuple[NDArray[Any], Seen]:
    """Return the labels of `n_rows` rows as an array, and what they tell."""
    check_unmasked(y, name)
    labels = native(np.asarray(y, dtype=object if isinstance(y, list | tuple) else None))
    if labels.shape != (n_rows,):
        raise DataError(f"{name} has shape {labels.shape}; it must be ({n_rows},), one label for each row (np.ravel?)")
    dtype = getattr(y, "dtype", None)
    order = dtype.categories.tolist() if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered else None
    found = [v.item() if isinstance(v, np.generic) else v for v in pd.unique(labels)[: MANY + 1]]
    values = [value for value in found if not _is_missing(value)]
    return labels, Seen.of(values[:MANY], order, missing=len(values) < len(found))


def weightless(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether some weights of a column are 0."""
    return bool(pc.any(pc.equal(column, pa.scalar(0).cast(column.type))).as_py())


def without_views(column: pa.Array) -> pa.Array:
    """Return a column, views of text as text: among the distinct ones of views Arrow takes a missing one for empty."""
    return column.cast(pa.string()) if column.type == pa.string_view() else column


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or (value != value) is True
