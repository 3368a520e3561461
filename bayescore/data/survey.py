"""`Survey`: what a source learns of its rows as it is opened: their number, labels, levels, and zero weights.

Surveys are a monoid: `Survey()` is for no rows, and ``a + b`` for the rows of a followed by the rows of b. So
batches of a file, partitions on workers and blocks of a stream are surveyed one by one, in any cut, and every source
knows the same of the same rows. Values stand in the order in which they first occur.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from bayescore.data.column_kinds import level_values, without_views
from bayescore.data.factors import check_level_count, check_memory, check_number_text, check_same_kinds
from bayescore.data.responses import SHOWN, sorted_labels, two_classes
from bayescore.limits import MAX_LEVELS_NAMED
from bayescore.types import Parts
from bayescore.validation import DataError

MAX_LABELS_READ = SHOWN + 1  # labels that are read: a message can say that it does not show all


@dataclass(frozen=True)
class DistinctValues:
    """The distinct values of a column, and whether some entries are missing."""

    values: Mapping[Any, None] = field(default_factory=dict)  # keys in the order of their first occurrence
    order: tuple[Any, ...] | None = None  # that the data give, as an ordered categorical does
    missing: bool = False
    factor: bool = False  # whether the user calls the column one: by C(...), or by its type
    parts: Parts = ()  # see `Grouping`

    @classmethod
    def of(
        cls, values: Iterable[Any], order: Iterable[Any] | None = None, *, missing: bool = False, factor: bool = False
    ) -> Self:
        """Return distinct values as `DistinctValues`; without values an order is ignored."""
        distinct = dict.fromkeys(values)
        return cls(distinct, None if order is None or not distinct else tuple(order), missing, factor)

    def __add__(self, other: "DistinctValues") -> "DistinctValues":
        missing = self.missing or other.missing
        if not self.values or not other.values:
            return replace(self if self.values else other, missing=missing)
        order = self.order if self.order == other.order else None
        check_same_kinds(self.parts, other.parts)
        return DistinctValues({**self.values, **other.values}, order, missing, self.factor and other.factor, self.parts)

    def levels(self, name: str) -> tuple[Any, ...]:
        """Return the values in the order of the data, or sorted; raise unless all are text or all are numbers."""
        ordered = sorted_labels(self.values, f"column {name!r}")
        self.check_one_kind(name)
        return tuple(ordered if self.order is None else (v for v in self.order if v in self.values))

    def check_one_kind(self, name: str) -> None:
        """Raise unless all values are text or all are numbers."""
        if len(kinds := {isinstance(value, str): value for value in self.values}) > 1:
            raise DataError(
                f"column {name!r} mixes numbers and text: {kinds[False]!r} and {kinds[True]!r}; make them alike"
            )

    def check_factor(self, name: str, rows: pa.Table | None = None) -> None:
        """Raise if nearly all levels of a column that the user does not call a factor are numbers; see `number_text`.

        An error names the row of the first other level if `rows` are at hand.
        """
        if not self.factor:
            row_of = None if rows is None else lambda value: pc.index(without_views(rows.column(name)), value).as_py()
            check_number_text(name, self.values, row_of)


NO_VALUES = DistinctValues()


@dataclass(frozen=True)
class Survey:
    """What a source learns of rows as it is opened."""

    n_rows: int = 0
    labels: DistinctValues = NO_VALUES  # the first `MAX_LABELS_READ`
    levels: Mapping[str, DistinctValues] = field(
        default_factory=dict
    )  # of columns of text and grouping factors, by name
    zero_weights: bool = False  # whether some rows weigh 0, which are left out

    def __add__(self, other: "Survey") -> "Survey":
        names, labels = dict.fromkeys((*self.levels, *other.levels)), self.labels + other.labels
        return Survey(
            self.n_rows + other.n_rows,
            replace(labels, values=dict.fromkeys([*labels.values][:MAX_LABELS_READ])),
            {name: self.levels.get(name, NO_VALUES) + other.levels.get(name, NO_VALUES) for name in names},
            self.zero_weights or other.zero_weights,
        )

    def classes(self, name: str, positive: Any = None, *, drop: bool = False) -> tuple[Any, Any]:
        """Return the two labels, the second +1; missing ones raise unless `drop` leaves their rows out."""
        if self.labels.missing and not drop:
            raise DataError(f"{name} has missing labels; drop those rows, or give missing='drop'")
        return two_classes(self.labels.values, name, positive, self.labels.order)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        levels = {name: _to_json(distinct) for name, distinct in self.levels.items()}
        return {**vars(self), "labels": _to_json(self.labels), "levels": levels}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Rebuild a survey from `to_dict`'s value."""
        levels = {name: _from_json(seen) for name, seen in fields["levels"].items()}
        values = {"labels": _from_json(fields["labels"]), "levels": levels}
        return cls(**{**fields, **values})


def _to_json(seen: DistinctValues) -> list[Any]:
    return [list(seen.values), seen.order, seen.missing, seen.factor, *([seen.parts] if seen.parts else [])]


def _from_json(written: list[Any]) -> DistinctValues:
    values, order, missing, factor, *parts = written
    distinct = DistinctValues.of(values, order, missing=missing, factor=factor)
    return replace(distinct, parts=tuple((name, kind) for name, kind in parts[0])) if parts else distinct


def merge_surveys(parts: Iterable[Survey], groups: Iterable[str] = ()) -> Survey:
    """Return the survey of rows in parts, up to where the labels are too many for two classes.

    `groups` are the grouping factors among the levels. Raises if levels are too many for any design.
    """
    total = Survey()
    for part in parts:
        total += part
        for name, distinct in total.levels.items():
            if name in groups:
                check_memory(name, len(distinct.values))
            else:
                if len(distinct.values) > MAX_LEVELS_NAMED and not distinct.factor:
                    check_number_text(name, distinct.values, limit=MAX_LEVELS_NAMED)
                check_level_count(f"column {name!r}", name, len(distinct.values), MAX_LEVELS_NAMED)
        if len(total.labels.values) == MAX_LABELS_READ:
            break
    return total


def distinct_values(
    column: pa.Array | pa.ChunkedArray,
    *,
    ordered: bool | tuple[str, ...],
    most: int | None = None,
    factor: bool = False,
) -> DistinctValues:
    """Return the distinct values of a column, the first `most`; a dictionary's have its order if `ordered`."""
    if isinstance(column, pa.ChunkedArray):
        return sum(
            (distinct_values(chunk, ordered=ordered, most=most, factor=factor) for chunk in column.chunks), NO_VALUES
        )
    order, is_coded = None, pa.types.is_dictionary(column.type)
    if is_coded:
        levels = level_values(column.dictionary)
        distinct = [levels[i] for i in column.indices.drop_null().unique()[:most].to_pylist()]
        order = levels if ordered is True else ordered or None
    else:
        distinct = without_views(column).unique()[: None if most is None else most + 1].to_pylist()
    values = [value for value in distinct if not _is_missing(value)]
    missing = len(values) < len(distinct) or column.null_count > 0
    return DistinctValues.of(values[:most], order, missing=missing, factor=factor)


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or (value != value) is True
