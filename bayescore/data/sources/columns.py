"""`Columns`: which columns of a table, file or partition are read, and batches of them as weighted rows."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bayescore.data.design import Design
from bayescore.data.factors import Levels, codes, keeps_order
from bayescore.data.labels import signed_labels
from bayescore.data.offsets import Offset
from bayescore.data.passes.tiles import rows_of
from bayescore.data.sources.groups import Grouper, groupers_of, groups_seen
from bayescore.data.sources.paired import RATES, Paired
from bayescore.data.sources.survey import MANY, Seen, Survey, merged, seen, without_views
from bayescore.data.tables import as_floats, as_numbers
from bayescore.types import LabelArray, WeightedData
from bayescore.validation import check_weights


@dataclass(frozen=True)
class Columns:
    """Names of columns by their roles, the two labels, and levels; features of text are read as codes (`factors`)."""

    features: tuple[str, ...]
    label: str
    weights: str | None
    classes: tuple[Any, Any] = (0, 1)
    levels: Levels = ()
    text: tuple[str, ...] = ()  # features whose levels a source learns as it is opened
    factors: tuple[str, ...] = ()  # those of text that the user calls factors, by C(...) or by a type
    offset: Offset | None = None
    paired: Paired | None = None  # what kind of number the label is, with `beside`
    beside: str | None = None
    drop: bool = False  # whether rows that miss something will be left out
    groups: tuple[str, ...] = ()
    group_columns: tuple[str, ...] = ()  # that `groups` are read from
    groupers: tuple[Grouper, ...] = ()  # one for each of `groups`; none while a source learns their levels

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        known = () if self.offset is None else self.offset.columns
        beside = (self.weights, *known, self.beside, *self.group_columns)
        return list(dict.fromkeys([*self.features, self.label, *(name for name in beside if name is not None)]))

    @property
    def new_groups(self) -> tuple[str, ...]:
        """Grouping factors whose levels a source learns as it is opened."""
        return () if self.groupers else self.groups

    @property
    def surveyed(self) -> list[str]:
        """The columns that a survey reads, the label first."""
        weights = [] if self.weights is None else [self.weights]
        groups = self.group_columns if self.new_groups else ()
        return list(dict.fromkeys([self.label, *self.text, *groups, *weights]))

    def survey(self, rows: pa.Table | pa.RecordBatch) -> Survey:
        """Return the survey of rows, for which the columns `surveyed` are enough."""
        label = rows.column(self.label)
        in_order = pa.types.is_dictionary(label.type) and label.type.ordered
        weights = None if self.weights is None else rows.column(self.weights)
        levels = {
            name: seen(rows.column(name), ordered=keeps_order(rows.schema, name), factor=name in self.factors)
            for name in self.text
        }
        return Survey(
            rows.num_rows,
            Seen.of(self.paired.classes) if self.paired else seen(label, ordered=in_order, most=MANY),
            levels | groups_seen(rows, self.new_groups),
            weights is not None and bool(pc.any(pc.equal(weights, pa.scalar(0).cast(weights.type))).as_py()),
        )

    def merged(self, parts: Iterable[Survey]) -> Survey:
        """Return the survey of rows whose parts have these surveys."""
        return merged(parts, self.new_groups)

    def learnt(self, survey: Survey, positive: Any = None, rows: pa.Table | None = None) -> Self:
        """Return the same columns with the two classes, levels and groups of a survey of all rows.

        An error names a row if `rows` are at hand.
        """
        classes = (
            self.paired.classes if self.paired else survey.classes(f"column {self.label!r}", positive, drop=self.drop)
        )
        text = tuple((name, survey.levels[name].levels(name)) for name in self.text)
        for name in self.text:
            survey.levels[name].check_factor(name, rows)
        groupers = self.groupers or groupers_of(survey, self.groups)
        return replace(self, classes=classes, levels=(*self.levels, *text), text=(), groupers=groupers)

    def block(self, batch: pa.RecordBatch, start: int) -> WeightedData:
        """Return a batch as weighted rows; its first row stands at position `start` of the data."""
        n_rows, levels = batch.num_rows, dict(self.levels)
        X = rows_of(
            [
                codes(batch.column(name), name, levels[name], start)
                if name in levels
                else as_numbers(batch.column(name))
                for name in self.features
            ],
            n_rows,
        )
        weights, offset = np.ones(n_rows), None
        if self.weights is not None:
            where = f"weights (column {self.weights!r})"
            given = as_floats(batch.column(self.weights))
            weights = check_weights(given, n_rows, where, start, zero=True, drop=self.drop)
        if self.offset is not None:
            offset = self.offset.values(lambda name: as_floats(batch.column(name)), n_rows, start, drop=self.drop)
        beside: dict[str, Any] = {"offset": offset}
        if self.groups:
            own = [
                by.codes(by.of(batch, name), start, drop=self.drop)
                for name, by in zip(self.groups, self.groupers, strict=True)
            ]
            beside["group"] = np.stack(own, axis=1)
        index = np.arange(start, start + n_rows)
        if self.paired is None:
            return WeightedData(X, self._signs(batch.column(self.label), start), weights, index, **beside)
        names, second = (f"column {self.label!r}", f"column {self.beside!r}"), None
        if self.beside is not None:
            second = as_floats(batch.column(self.beside))
        pair = self.paired.read(as_floats(batch.column(self.label)), second, names, n_rows)
        rows = WeightedData(X, np.ones(n_rows, np.int8), weights, index, **beside)
        return self.paired.rows(rows, pair, names, start, drop=self.drop)

    def _signs(self, column: pa.Array, start: int) -> LabelArray:
        if self.drop and (missing := np.asarray(column.is_null(nan_is_null=True))).any():
            signs, there = np.zeros(len(column), dtype=np.int8), np.flatnonzero(~missing)
            if len(there):
                plain = column.cast(pa.string()) if pa.types.is_string_view(column.type) else column
                signs[there] = self._signs(plain.take(pa.array(there)), start)
            return signs
        kind = column.type
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            labels = column.to_numpy(zero_copy_only=False)
            return signed_labels(labels, self.classes, start, f"column {self.label!r}")
        values, places = coded(column)
        if not set(values.tolist()) <= set(self.classes):
            signed_labels(values[places], self.classes, start, f"column {self.label!r}")
        return np.where(values == self.classes[1], np.int8(1), np.int8(-1))[places]


class ColumnSource:
    """Base of sources whose rows are batches of `columns`."""

    columns: Columns
    survey: Survey

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.survey.n_rows

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
        groups = tuple(by.grouping for by in self.columns.groupers)
        exposure = self.columns.beside if self.columns.paired == RATES else None
        offset = None if self.columns.offset is None else self.columns.offset.text
        return Design(self.columns.features, offset=offset, exposure=exposure, groups=groups)

    @property
    def levels(self) -> Levels:
        """Levels of the features of text, which rows have as codes."""
        return self.columns.levels


def coded(column: pa.Array) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    """Return the distinct labels of a column, and the place of each row's label among them."""
    column = without_views(column)
    if pa.types.is_dictionary(column.type):
        plain = pa.string() if column.type.value_type == pa.string_view() else column.type.value_type
        column = column.cast(pa.dictionary(pa.int32(), plain)).dictionary_decode()
    found = column.dictionary_encode(null_encoding="encode")
    return np.array([*found.dictionary.to_pylist(), None], dtype=object)[:-1], found.indices.to_numpy()
