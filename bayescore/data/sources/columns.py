"""The columns of a table, file or partition that are read, and batches of them as weighted rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bayescore.data.passes.tiles import rows_of
from bayescore.data.sources.factors import Levels, Seen, Selection, codes, combined, is_text, keeps_order, seen
from bayescore.data.sources.groups import Given, Grouper, known_groupers, surveyed
from bayescore.data.sources.kept import check_counts, two_rows_each
from bayescore.data.sources.roles import COUNTS, Roles
from bayescore.data.sources.tables import as_floats, as_numbers, as_table, check_numeric
from bayescore.types import Design, Grouping, LabelArray, WeightedData
from bayescore.validation import DataError, check_offset, check_weights, signed_labels, two_classes

MANY = 6  # distinct labels after which the count no longer matters


@dataclass(frozen=True)
class Columns:
    """Names of the features, the label, weights (1 if None), offset and groups, the two labels, and levels.

    Features of text are read as codes, the places of their levels (`factors`).
    """

    features: tuple[str, ...]
    label: str
    weights: str | None
    classes: tuple[Any, Any] = (0, 1)
    levels: Levels = ()
    text: tuple[str, ...] = ()  # features whose levels a source learns as it is opened
    offset: str | None = None
    trials: str | None = None
    drop: bool = False  # whether rows that miss something will be left out
    groups: tuple[str, ...] = ()
    groupers: tuple[Grouper, ...] = ()  # one for each of `groups`; none while a source learns their levels

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        beside = (self.weights, self.offset, self.trials, *self.groups)
        return [*self.features, self.label, *(name for name in beside if name is not None)]

    def with_classes(self, found: Iterable[Any], positive: Any = None) -> Self:
        """Return the same columns with the two classes among the labels `found`; a mapping tells places in an order.

        Raises
        ------
        DataError
            If they are not two.
        """
        if self.trials is not None:
            return replace(self, classes=COUNTS)
        if self.drop:
            places = found if isinstance(found, Mapping) else {}
            found = {label: places.get(label) for label in found if not pd.isna(label)}
        return replace(self, classes=two_classes(found, f"column {self.label!r}", positive))

    @property
    def new_groups(self) -> tuple[str, ...]:
        """Grouping factors whose levels a source learns as it is opened."""
        return () if self.groupers else self.groups

    def with_levels(self, parts: Iterable[dict[str, Seen]]) -> Self:
        """Return the same columns with levels of text and groups, from what was seen of them in parts of the data."""
        found = dict(combined(parts, self.text, self.new_groups))
        groupers = self.groupers or tuple(Grouper(Grouping(name, found[name])) for name in self.groups)
        text = tuple((name, found[name]) for name in self.text)
        return replace(self, levels=(*self.levels, *text), text=(), groupers=groupers)

    def block(self, batch: pa.RecordBatch, start: int) -> WeightedData:
        """Return a batch as weighted rows; its first row stands at position `start` of the data.

        Raises
        ------
        RowError
            If a weight is not positive, an offset not finite, or a label of neither class.
        """
        X, n_rows = rows_of(self._columns(batch, start)), batch.num_rows
        weights, offset = np.ones(n_rows), None
        if self.weights is not None:
            where = f"weights (column {self.weights!r})"
            own = as_floats(batch.column(self.weights))
            weights = check_weights(own, n_rows, where, start, zero=True, drop=self.drop)
        if self.offset is not None:
            where = f"offset (column {self.offset!r})"
            offset = check_offset(as_floats(batch.column(self.offset)), n_rows, where, start, drop=self.drop)
        beside: dict[str, Any] = {"offset": offset}
        if self.groups:
            codes = [
                by.codes(batch.column(name), start, drop=self.drop)
                for name, by in zip(self.groups, self.groupers, strict=True)
            ]
            beside["group"] = np.stack(codes, axis=1)
        index = np.arange(start, start + n_rows)
        if self.trials is None:
            return WeightedData(X, self._signs(batch.column(self.label), start), weights, index, **beside)
        counts = as_floats(batch.column(self.label)), as_floats(batch.column(self.trials))
        check_counts(*counts, (f"column {self.label!r}", f"column {self.trials!r}"), start, drop=self.drop)
        return two_rows_each(WeightedData(X, np.ones(n_rows, np.int8), weights, index, **beside), *counts)

    def _columns(self, batch: pa.RecordBatch, start: int) -> list[NDArray[Any]]:
        levels = dict(self.levels)
        return [
            codes(batch.column(name), name, levels[name], start) if name in levels else as_numbers(batch.column(name))
            for name in self.features
        ]

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
        groups = tuple(by.grouping for by in self.columns.groupers)
        return Design(self.columns.features, offset=self.columns.offset, groups=groups)

    @property
    def levels(self) -> Levels:
        """Levels of the features of text, which rows have as codes."""
        return self.columns.levels


def coded(column: pa.Array) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    """Return the distinct labels of a column, and for each row the place of its own among them."""
    column = _without_views(column)
    if pa.types.is_dictionary(column.type):
        plain = pa.string() if column.type.value_type == pa.string_view() else column.type.value_type
        column = column.cast(pa.dictionary(pa.int32(), plain)).dictionary_decode()
    found = column.dictionary_encode(null_encoding="encode")
    return np.array([*found.dictionary.to_pylist(), None], dtype=object)[:-1], found.indices.to_numpy()


def chosen_columns(
    schema: pa.Schema,
    label: str | None,
    weights: str | None,
    only: Iterable[str] | None,
    selection: Selection | None = None,
    *,
    roles: Roles | None = None,
) -> Columns:
    """Return the columns to read of a table with this schema: all, those of `only`, or those of a selection.

    Without a selection the features must be numbers.

    Raises
    ------
    DataError
        If the label, the weights or the offset are no column, or the features are not numeric.
    """
    names = schema.names
    listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    if not label:
        raise DataError(f"label is missing: name the column of the labels; the columns are {listed}")
    offset, trials, drop = (None, None, False) if roles is None else (roles.offset, roles.trials, roles.drop)
    groups = () if roles is None else Given.of(roles.groups, None).names
    named = {"label": label, "weights": weights, "offset": offset, "trials": trials}
    named |= {f"groups[{k}]" if len(groups) > 1 else "groups": name for k, name in enumerate(groups)}
    for argument, name in named.items():
        if name is not None and name not in names:
            raise DataError(f"{argument}={name!r} is not a column of the data; the columns are {listed}")
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise DataError(f"column {repeated!r} stands more than once in data; rename one")
    taken = {name: argument for argument, name in reversed(named.items()) if name is not None}
    for argument, name in named.items():
        if name is not None and taken[name] != argument:
            raise DataError(f"{taken[name]} and {argument} both name the column {name!r}; name two, or leave one out")
    stored = _stored_index(schema)
    features = tuple(name for name in (names if only is None else only) if name not in (*taken, *stored))
    if selection is not None and selection.names is not None:
        missing = [name for name in selection.names if name not in features]
        if missing and missing[0] in groups:
            raise DataError(
                f"column {missing[0]!r} is a grouping factor and a feature too; leave one out, or give a copy of it "
                "under another name"
            )
        if missing:
            raise DataError(f"the data have no feature {missing[0]!r}; the columns are {listed}")
        features = selection.names
    if not features:
        raise DataError(f"the data have no feature columns beside {label!r}")
    known = () if selection is None else selection.levels or ()
    coded_names = {name for name, _ in known}
    text = {name for name in features if is_text(schema.field(name).type)} if selection is not None else set()
    if selection is not None and selection.levels is not None and (new := sorted(text - coded_names)):
        kind = schema.field(new[0]).type
        raise DataError(f"column {new[0]!r} is {kind}, and held numbers in the data of the design; convert it")
    numbers = tuple(name for name in features if name not in text | coded_names)
    labels = () if trials is not None else (label,)
    check_numeric(schema, (*numbers, *(name for name in taken if name not in (*labels, *groups))))
    learnt = tuple(name for name in features if name in text - coded_names)
    columns = Columns(features, label, weights, levels=known, text=learnt, offset=offset, trials=trials, drop=drop)
    return replace(columns, groups=groups, groupers=known_groupers(None if roles is None else roles.groupers, groups))


def survey(batch: pa.Table | pa.RecordBatch, text: Iterable[str], groups: Iterable[str] = ()) -> dict[str, Seen]:
    """Return what rows tell of the levels of columns of text, and of grouping factors."""
    found = {name: seen(batch.column(name), ordered=keeps_order(batch.schema, name)) for name in text}
    return found | surveyed(batch, groups)


def _stored_index(schema: pa.Schema) -> list[str]:
    """Return the columns that are a pandas index: one that is no plain range stands in the file."""
    try:
        names = (schema.pandas_metadata or {}).get("index_columns", ())
        return [name for name in names if isinstance(name, str)]
    except (TypeError, ValueError, AttributeError, RecursionError):  # metadata that pandas did not write
        return []


def coded_table(
    data: Any, selection: Selection, text: tuple[tuple[str, Seen], ...], start: int, where: str
) -> tuple[pd.DataFrame, tuple[tuple[str, Seen], ...]]:
    """Return the selected columns of a block, text as codes, and what was seen of text whose levels are not known yet.

    Codes of such text are 0; the first row stands at position `start` of the data.

    Raises
    ------
    DataError
        If a column is missing, is neither numbers nor text, or has a level that is not known.
    """
    table, levels = as_table(data, f"{where}: X"), dict(selection.levels or ())
    names = selection.names or tuple(table.column_names)
    if missing := [name for name in names if name not in table.column_names]:
        raise DataError(f"{where} lacks the column {missing[0]!r}")
    new = [name for name in names if name not in levels and is_text(table.schema.field(name).type)]
    if new and selection.levels is not None:
        raise DataError(f"{where}: column {new[0]!r} is text, and held numbers before; convert it")
    check_numeric(table.schema, tuple(name for name in names if name not in levels and name not in new))
    columns: dict[str, NDArray[Any]] = {}
    for name in names:
        if name in levels:
            columns[name] = codes(table.column(name), name, levels[name], start)
        else:
            columns[name] = np.zeros(table.num_rows) if name in new else as_numbers(table.column(name))
    known, found = dict(text), survey(table, new)
    return pd.DataFrame(columns), tuple((n, known[n] + found[n] if n in known else found[n]) for n in new)


Found = dict[Any, int | None]
"""Labels, and their places in the order of an ordered categorical if they have one in all parts of the data."""


def add_labels(found: Found, column: pa.Array) -> bool:
    """Add the labels of a column to those `found`; return whether they are too many to go on."""
    labels, order = _without_views(column).unique(), {}
    if pa.types.is_dictionary(labels.type) and labels.type.ordered:
        order = {value: place for place, value in enumerate(labels.dictionary.to_pylist())}
    for label in labels.to_pylist():
        place = order.get(label)
        found[label] = place if found.get(label, place) == place else None
    return len(found) > MANY


def weightless(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether some weights of a column are 0."""
    return bool(pc.any(pc.equal(column, pa.scalar(0).cast(column.type))).as_py())


def _without_views(column: pa.Array) -> pa.Array:
    """Return a column, views of text as text: among the distinct ones of views Arrow takes a missing one for empty."""
    return column.cast(pa.string()) if column.type == pa.string_view() else column
