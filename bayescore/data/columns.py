"""`Columns`: which columns of a table, file or partition are read, and batches of them as weighted rows.

Rows that are left out: of weight 0, and with missing entries that are to be dropped.

One pass counts the rows that each piece of the data keeps. Later passes see these rows alone, from whatever source;
their positions in the data stay the same.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bayescore.compiled import available_cores
from bayescore.data.column_kinds import as_floats, as_numbers, keeps_order, without_views
from bayescore.data.design import Design
from bayescore.data.factors import Levels, level_codes
from bayescore.data.groups import MISSING_GROUP, Grouper, groupers_of, groups_seen
from bayescore.data.passes import map_pieces, rows_of
from bayescore.data.responses import RATES, TIMES, Expression, Paired, signed_labels
from bayescore.data.source import Division, Piece, Source, between, block_rows, division_of
from bayescore.data.survey import MAX_LABELS_READ, DistinctValues, Survey, distinct_values, merge_surveys
from bayescore.text import listed
from bayescore.types import FloatArray, IntArray, LabelArray, WeightedData
from bayescore.validation import DataError, check_finite, check_weights, warn


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
    offset: Expression | None = None
    paired: Paired | None = None  # what kind of number the label is, with `beside`
    beside: str | None = None
    computed: tuple[Expression, ...] = ()  # response, and `beside`, that are no columns
    drop: bool = False  # whether rows that miss something will be left out
    groups: tuple[str, ...] = ()
    group_columns: tuple[str, ...] = ()  # that `groups` are read from
    groupers: tuple[Grouper, ...] = ()  # one for each of `groups`; none while a source learns their levels
    by_argument: bool = False  # whether errors call a label and other numbers of rows by their arguments

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        offsets = () if self.offset is None else self.offset.columns
        others = (*self.read_for(self.weights), *offsets, *self.read_for(self.beside), *self.group_columns)
        columns = [*self.features, *self.read_for(self.label), *others]
        return list(dict.fromkeys(name for name in columns if name is not None))

    def read_for(self, name: str | None) -> tuple[str, ...]:
        """Return the columns that a role is read from."""
        if name is None:
            return ()
        return next((expression.columns for expression in self.computed if expression.text == name), (name,))

    @property
    def new_groups(self) -> tuple[str, ...]:
        """Grouping factors whose levels a source learns as it is opened."""
        return () if self.groupers else self.groups

    @property
    def survey_columns(self) -> list[str]:
        """The columns that a survey reads, the label first."""
        weights = self.read_for(self.weights)
        groups = self.group_columns if self.new_groups else ()
        return list(dict.fromkeys([self.read_for(self.label)[0], *self.text, *groups, *weights]))

    def survey(self, rows: pa.Table | pa.RecordBatch) -> Survey:
        """Return the survey of rows, for which the columns `survey_columns` are enough."""
        label = rows.column(self.read_for(self.label)[0])
        in_order = pa.types.is_dictionary(label.type) and label.type.ordered
        none = any(
            bool(pc.any(pc.equal(weights := rows.column(name), pa.scalar(0).cast(weights.type))).as_py())
            for name in self.read_for(self.weights)
        )
        levels = {
            name: distinct_values(
                rows.column(name), ordered=keeps_order(rows.schema, name), factor=name in self.factors
            )
            for name in self.text
        }
        return Survey(
            rows.num_rows,
            DistinctValues.of(self.paired.classes)
            if self.paired
            else distinct_values(label, ordered=in_order, most=MAX_LABELS_READ),
            levels | groups_seen(rows, self.new_groups),
            none,  # of a column that weights are a product of, too
        )

    def merged(self, parts: Iterable[Survey]) -> Survey:
        """Return the survey of rows whose parts have these surveys."""
        return merge_surveys(parts, self.new_groups)

    def with_survey(self, survey: Survey, positive: Any = None, rows: pa.Table | None = None) -> Self:
        """Return the same columns with the two classes, levels and groups of a survey of all rows.

        An error names a row if `rows` are at hand.
        """
        classes = (
            self.paired.classes
            if self.paired
            else survey.classes(self.error_name(self.label), positive, drop=self.drop)
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
                level_codes(batch.column(name), name, levels[name], start)
                if name in levels
                else as_numbers(batch.column(name))
                for name in self.features
            ],
            n_rows,
        )
        weights, offset = np.ones(n_rows), None
        if self.weights is not None:
            given, name = self._numbers(batch, self.weights, start)
            where = f"weights ({name})"
            weights = check_weights(given, n_rows, where, start, zero=True, drop=self.drop)
        if self.offset is not None:
            offset = self.offset.values(lambda name: as_floats(batch.column(name)), n_rows, start, drop=self.drop)
        parts: dict[str, Any] = {"offset": offset}
        if self.groups:
            group_codes = [
                by.codes(by.of(batch, name), start, drop=self.drop)
                for name, by in zip(self.groups, self.groupers, strict=True)
            ]
            parts["group"] = np.stack(group_codes, axis=1)
        index = np.arange(start, start + n_rows)
        if self.paired is None:
            return WeightedData(X, self._signs(batch.column(self.label), start), weights, index, **parts)
        y, name = self._numbers(batch, self.label, start)
        second, other = (None, "") if self.beside is None else self._numbers(batch, self.beside, start)
        names = name, other
        pair = self.paired.read(y, second, names, n_rows)
        rows = WeightedData(X, np.ones(n_rows, np.int8), weights, index, **parts)
        return self.paired.rows(rows, pair, names, start, drop=self.drop)

    def _numbers(self, batch: pa.RecordBatch, name: str, start: int) -> tuple[FloatArray, str]:
        """Return the numbers that play a role, and what an error calls them."""
        for expression in self.computed:
            if expression.text == name:
                return expression.numbers(lambda column: as_floats(batch.column(column)), start), repr(name)
        return as_floats(batch.column(name)), self.error_name(name)

    def error_name(self, name: str) -> str:
        """Return the name that errors give the column of labels, or of other numbers."""
        return name if self.by_argument else f"column {name!r}"

    def _signs(self, column: pa.Array, start: int) -> LabelArray:
        if self.drop and (missing := np.asarray(column.is_null(nan_is_null=True))).any():
            signs, rows = np.zeros(len(column), dtype=np.int8), np.flatnonzero(~missing)
            if len(rows):
                plain = column.cast(pa.string()) if pa.types.is_string_view(column.type) else column
                signs[rows] = self._signs(plain.take(pa.array(rows)), start)
            return signs
        kind = column.type
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            labels = column.to_numpy(zero_copy_only=False)
            return signed_labels(labels, self.classes, start, self.error_name(self.label))
        values, places = label_codes(column)
        if not set(values.tolist()) <= set(self.classes):
            signed_labels(values[places], self.classes, start, self.error_name(self.label))
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
        exposure = self.columns.beside if self.columns.paired in (RATES, TIMES) else None
        offset = None if self.columns.offset is None else self.columns.offset.text
        return Design(self.columns.features, offset=offset, exposure=exposure, groups=groups)

    @property
    def levels(self) -> Levels:
        """Levels of the features of text, which rows have as codes."""
        return self.columns.levels


def label_codes(column: pa.Array) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    """Return the distinct labels of a column, and the place of each row's label among them."""
    column = without_views(column)
    if pa.types.is_dictionary(column.type):
        plain = pa.string() if column.type.value_type == pa.string_view() else column.type.value_type
        column = column.cast(pa.dictionary(pa.int32(), plain)).dictionary_decode()
    encoded = column.dictionary_encode(null_encoding="encode")
    return np.array([*encoded.dictionary.to_pylist(), None], dtype=object)[:-1], encoded.indices.to_numpy()


def without_left_out(rows: WeightedData, *, drop: bool) -> WeightedData:
    """Return the rows of positive weight, if `drop` without those that miss something (NaN, or a label of 0)."""
    kept = rows.weights > 0.0
    if drop:
        kept &= (rows.y != 0) & ~np.isnan(rows.X).any(axis=1)
        if rows.offset is not None:
            kept &= ~np.isnan(rows.offset)
        if rows.group is not None:
            kept &= (rows.group != MISSING_GROUP).all(axis=1)
    return rows if kept.all() else rows.take(kept)


class MissingCounts(NamedTuple):
    """Rows and missing entries of a block."""

    first: int  # position of the first row
    n_kept: int
    n_missing: int  # rows that miss something
    missing: IntArray  # missing entries of each column
    n_rows: int


def _count_missing(names: tuple[str, ...], drop: bool, _start: int, rows: WeightedData) -> MissingCounts:
    """Count the rows of a block, columns in the order features, label, weights, offset, groups; check those kept."""
    kept = without_left_out(rows, drop=drop)
    if len(kept) and not np.isfinite(kept.X.sum()):
        for n in np.flatnonzero(~np.isfinite(kept.X).all(axis=1))[:1].tolist():
            check_finite(kept.X[n : n + 1], names, int(kept.index[n]))
    offset = np.zeros(len(rows)) if rows.offset is None else rows.offset
    groups = np.zeros((len(rows), 0)) if rows.group is None else np.where(rows.group == MISSING_GROUP, np.nan, 0.0)
    holes = np.isnan(np.column_stack([rows.X, np.where(rows.y == 0, np.nan, 0.0), rows.weights, offset, groups]))
    _, once = np.unique(rows.index, return_index=True)  # counts stand twice
    holes = holes[once]
    return MissingCounts(int(rows.index[0]), len(kept), int(holes.any(axis=1).sum()), holes.sum(axis=0), len(once))


DROPPED = "missing='drop' leaves them out, which can bias the coefficients"
BIAS = (
    "coefficients are biased unless, given the features, whether something is missing has nothing to do with the "
    "response; else impute"
)
"""What messages on rows that miss something say before, and after, these are left out."""


def _warn_of_dropped(tallies: list[MissingCounts], names: tuple[str, ...]) -> None:
    """Warn of the number of rows dropped, the columns that they miss, and the bias."""
    n_missing = sum(part.n_missing for part in tallies)
    if n_missing:
        by_column = np.sum([part.missing for part in tallies], axis=0)
        shown = [f"{name!r} ({count:,})" for name, count in zip(names, by_column, strict=True) if count]
        warn(
            f"missing='drop' left out {n_missing:,} of {sum(part.n_rows for part in tallies):,} rows, that miss "
            f"{listed(shown, 8, str)}: {BIAS}"
        )


def missing_counted(
    error: DataError, n_missing: int, n_rows: int, by_column: IntArray, names: tuple[str, ...]
) -> DataError:
    """Return an error of the first missing value with the numbers of all; the error itself where none is missing."""
    if not n_missing:
        return error
    most = [d for d in np.argsort(-by_column, kind="stable")[:8] if by_column[d]]
    shown = ", ".join(f"{names[d]!r} in {by_column[d]:,}" for d in most)
    return DataError(f"{error}. Missing in all: {n_missing:,} of {n_rows:,} rows ({shown}); {DROPPED}")


@dataclass(frozen=True)
class FilteredPiece:
    """The kept rows of a piece."""

    piece: Piece
    n_rows: int
    drop: bool

    def read(self, low: int, high: int) -> Iterator[WeightedData]:
        """Return the kept rows low, ..., high - 1."""
        blocks = self.piece.read(0, self.piece.n_rows)
        return between((without_left_out(block, drop=self.drop) for block in blocks), low, high)


@dataclass(frozen=True)
class _WholeStream:
    """All rows of a source that gives them in one stream, as a piece."""

    source: Source

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.source.n_rows

    def read(self, low: int, high: int) -> Iterator[WeightedData]:  # noqa: ARG002
        """Yield all rows."""
        yield from self.source.blocks()


@dataclass(frozen=True, eq=False)
class FilteredSource:
    """The kept rows of a source."""

    design: Design
    label: str
    classes: tuple[Any, Any]
    levels: Levels
    n_rows: int
    n_given: int  # rows of the source
    parts: Division
    in_pieces: bool

    def division(self, step: int) -> Division | None:  # noqa: ARG002
        """Return the pieces; None where the rows come in one stream."""
        return self.parts if self.in_pieces else None

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the kept rows in order."""
        for piece in self.parts.pieces:
            yield from piece.read(0, piece.n_rows)


def filtered_source(source: Source, *, drop: bool) -> FilteredSource:
    """Return the kept rows of a source; one pass, which counts and checks them. Warns if rows are dropped."""
    design = source.design
    in_pieces = division_of(source, block_rows(len(design.raw_names)))
    division = Division([_WholeStream(source)]) if in_pieces is None else in_pieces
    ends = np.cumsum([piece.n_rows for piece in division.pieces])
    n_kept = np.zeros(len(ends), dtype=np.int64)
    offset = design.offset or design.exposure or "offset"  # a time at risk is an offset
    names = *design.raw_names, source.label, "weights", offset, *(grouping.name for grouping in design.groups)

    def tallied(*, drop: bool) -> list[MissingCounts]:
        work = partial(_count_missing, design.raw_names, drop)
        return [tally for _, tally in map_pieces(division, work, None, available_cores())]

    try:
        tallies = tallied(drop=drop)
    except DataError as error:
        try:
            blocks = tallied(drop=True)  # where nothing that is missing is an error
        except DataError:  # it is something else
            raise error from None
        counts = (sum(part.n_missing for part in blocks), sum(part.n_rows for part in blocks))
        raise missing_counted(error, *counts, np.sum([part.missing for part in blocks], axis=0), names) from None
    for tally in tallies:
        n_kept[np.searchsorted(ends, tally.first, side="right")] += tally.n_kept
    if not n_kept.any():
        raise DataError("no row is left: all weigh 0, or miss something; look at weights and missing values")
    if drop:
        _warn_of_dropped(tallies, names)
    pieces = [FilteredPiece(piece, int(n), drop) for piece, n in zip(division.pieces, n_kept, strict=True)]
    return FilteredSource(
        design,
        source.label,
        source.classes,
        getattr(source, "levels", ()),
        int(n_kept.sum()),
        int(ends[-1]),
        Division(pieces, division.pool),
        in_pieces=in_pieces is not None,
    )
