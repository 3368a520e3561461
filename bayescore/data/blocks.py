"""Blocks of rows as users make them (`Block`), from a callable or an iterator.

`callable_source` turns a callable that returns a fresh iterator each time into a `Source`. A `Stream` is read once, and
learns its labels on the way.

`Intake`: checks rows that come in blocks, and knows after each block what the blocks so far have shown.

Until all blocks were read, signs of labels and codes of groups follow the order of their first occurrence.

Levels of text and groups in rows that come in blocks.

Codes of groups are places in the order of first occurrence. Once all have occurred, `recoded` gives the codes that
every other source gives.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, ClassVar, NamedTuple, NoReturn, Self
from zlib import crc32

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from bayescore.data.column_kinds import as_numbers, as_table, check_numeric, check_read, is_text, keeps_order
from bayescore.data.columns import without_left_out
from bayescore.data.design import Design, Grouping
from bayescore.data.factors import Levels, Selection, codes, column_of, columns_of, parts_of, values
from bayescore.data.groups import MISSING_HINT, GivenGroups, Grouper, groupers_of, groups_seen, known_groupers
from bayescore.data.passes import NO_OBSERVATIONS, ObservationTotals, check_reach, exact_weight, total_weight
from bayescore.data.responses import (
    BINOMIAL,
    LABELS,
    PAIRED,
    ROLE_BESIDE,
    Classes,
    Paired,
    signed_labels,
    sorted_labels,
    two_classes,
)
from bayescore.data.roles import NO_WEIGHTS, OFFSET, Roles
from bayescore.data.survey import NOTHING, DistinctValues, Survey, labels_of, merged, seen
from bayescore.data.tables import check_dense, is_dask, is_table
from bayescore.text import shown_apart
from bayescore.types import NO_GROUP, IntArray, LabelArray, WeightedData
from bayescore.validation import DataError, RowError, check_aligned, check_finite, check_offset, check_weights


def coded_table(
    data: Any, selection: Selection, start: int, where: str
) -> tuple[pd.DataFrame, dict[str, DistinctValues]]:
    """Return the selected columns of a block, text as codes, and the values of text whose levels are to be learnt.

    Codes of such text are 0. The first row stands at position `start` of the data.
    """
    table, levels = as_table(data, f"{where}: X"), dict(selection.levels or ())
    names = selection.names or tuple(table.column_names)
    if missing := [name for name in names if name not in table.column_names]:
        raise DataError(f"{where} lacks the column {missing[0]!r}")
    new = [name for name in names if name not in levels and is_text(table.schema.field(name).type)]
    if new and selection.levels is not None:
        raise DataError(f"{where}: column {new[0]!r} is text, and held numbers before; convert it")
    check_read(table.schema, names)
    check_numeric(table.schema, tuple(name for name in names if name not in levels and name not in new))
    columns: dict[str, Any] = {}
    for name in names:
        if name in levels:
            columns[name] = codes(table.column(name), name, levels[name], start)
        else:
            columns[name] = np.zeros(table.num_rows) if name in new else as_numbers(table.column(name))
    kinds = {name: (keeps_order(table.schema, name), selection.calls_factor(table.schema, name)) for name in new}
    distinct = {name: seen(table.column(name), ordered=order, factor=factor) for name, (order, factor) in kinds.items()}
    return pd.DataFrame(columns), distinct


def beside_rows(X: Any, groups: Any, columns: tuple[str, ...], where: str, features: Sequence[str]) -> tuple[Any, Any]:
    """Return the features of a block and its groups, which may be columns of it; `features` stay features."""
    if not columns:
        return X, groups
    if groups is not None or not is_table(X):
        raise DataError(f"{where}: groups={columns[0]!r} names a column of X, so that X must be a table that has it")
    table = as_table(X, f"{where}: X")
    names = table.column_names
    read = list(dict.fromkeys(part for name in columns for part in columns_of(name, names)))
    if missing := [name for name in read if name not in names]:
        raise DataError(f"{where} lacks the column {missing[0]!r} of groups")
    groups = pa.table({name: column_of(table, name) for name in columns})
    parts = {name: parts_of(name, table.schema) for name in columns}
    left = table.drop_columns([name for name in read if name not in features])
    return left.to_pandas(), GivenGroups(columns, groups, parts)


def group_codes(
    groups: Any, factors: tuple[str, ...] | None, before: Survey, n_rows: int, where: str
) -> tuple[IntArray | None, dict[str, DistinctValues]]:
    """Return the codes of a block's groups in the order of occurrence, shape (n, F), and their values in the block.

    `before` is the survey of the blocks before it, and `factors` are their grouping factors, None in the first block.
    """
    given = groups if isinstance(groups, GivenGroups) else GivenGroups.of(groups, n_rows)
    if factors is not None and given.names != factors:
        names = ", ".join(map(repr, factors)) or "none"
        raise DataError(f"{where} has other groups than the blocks before it, {names}; give the same in every block")
    if given.names and given.columns is None:
        raise DataError(f"{where}: groups={groups!r} names a column; give an array of levels")
    if given.columns is None:
        return None, {}
    new = groups_seen(given.columns, given.names)
    new = {name: replace(distinct, parts=given.parts.get(name, ())) for name, distinct in new.items()}
    for name, distinct in new.items():
        if distinct.missing:
            holes = ~values(given.columns.column(name), name).is_valid().to_numpy(zero_copy_only=False)
            row = before.n_rows + int(np.argmax(holes))
            problem = f"{where}: groups ({name!r}) is missing in {holes.sum()} rows, first in row {row}"
            raise RowError(f"{problem}: {MISSING_HINT}", row)
    levels = {name: before.levels.get(name, NOTHING) + distinct for name, distinct in new.items()}
    return np.stack([_places(given.columns.column(name), name, levels[name]) for name in new], axis=1), new


def _places(column: pa.ChunkedArray, name: str, levels: DistinctValues) -> IntArray:
    plain = values(column, name)
    coded = plain if pa.types.is_dictionary(plain.type) else plain.dictionary_encode()
    places = {level: place for place, level in enumerate(levels.values)}
    place_of_level = np.array([places.get(level, NO_GROUP) for level in coded.dictionary.to_pylist()], dtype=np.int64)
    codes_of_rows: IntArray = place_of_level[coded.indices.to_numpy(zero_copy_only=False)]
    return codes_of_rows


def recoded(codes: IntArray, occurred: Sequence[DistinctValues], groupers: Sequence[Grouper]) -> IntArray:
    """Return codes in the order of occurrence as codes of the final levels, shape (n, F); -1 stays."""
    recoded_codes = np.empty_like(codes)
    for k, (distinct, by) in enumerate(zip(occurred, groupers, strict=True)):
        levels = list(distinct.values)
        places = by.places(pa.array(levels))
        if not by.new and (places == NO_GROUP).any():
            raise DataError(by.unknown(levels[int(np.argmax(places == NO_GROUP))]))
        recoded_codes[:, k] = np.append(places, NO_GROUP)[codes[:, k]]
    return recoded_codes


class Block(NamedTuple):
    """Rows as users give them, None for what they leave out; `groups` may also be columns of a table `X`."""

    X: Any
    y: Any
    weights: Any = None
    offset: Any = None
    beside: Any = None  # trials, or the exposure of counts
    groups: Any = None


@dataclass(frozen=True, kw_only=True)
class BlockTotals:
    """Numbers of the blocks so far and of their rows, and the weight of these."""

    n_blocks: int = 0
    n_rows: int = 0  # of positive weight
    weight: int = 0  # see `exact_weight`
    observations: ObservationTotals | None = NO_OBSERVATIONS  # None where an older version counted no observations

    @property
    def weight_total(self) -> float:
        """Total weight of the rows."""
        return total_weight([self.weight])


@dataclass(frozen=True)
class Intake(BlockTotals):
    """Facts of the blocks so far.

    Until both labels have occurred, the first is -1 and the second +1. The first block must have both where the sign
    matters: with offsets, which a mirrored posterior has of the other sign, or if the family is not symmetric.
    """

    names: tuple[str, ...] | None = None
    survey: Survey = field(default_factory=Survey)
    offset: str | None = None
    exposure: str | None = None
    groups: tuple[str, ...] = ()
    selection: Selection | None = None  # tables may have columns of text; codes of unknown levels are 0
    positive: Any = None
    group_columns: tuple[str, ...] = ()  # columns of blocks that are tables
    symmetric: bool = True  # whether the family is
    response: str = LABELS  # what responses are, as the family says
    weighted: bool = False  # whether some block has weights

    @classmethod
    def of(cls, response: str, classes: Sequence[Any] = (), **facts: Any) -> Self:
        """Return an intake of no blocks, for labels, perhaps with given classes, the second +1, counts or numbers."""
        if (paired := PAIRED.get(response)) is not None:
            classes, facts = paired.classes, {**facts, "response": response, "symmetric": False}
        return cls(survey=Survey(labels=DistinctValues.of(classes)), **facts)

    label: ClassVar[str] = "y"  # name of the labels

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels in the order of their first occurrence; within a block, sorted."""
        return tuple(self.survey.labels.values)

    @property
    def classes(self) -> tuple[Any, Any]:
        """The two labels, `positive` or else the second in their order being +1.

        Of a family whose sides differ the first block settles which: later blocks cannot mirror what was reduced.
        """
        if not self.symmetric and len(self.labels) == 2:
            return self.labels[0], self.labels[1]
        return self.survey.classes("y", self.positive)

    @property
    def groupings(self) -> tuple[Grouping, ...]:
        """The grouping factors, with their levels so far."""
        return tuple(by.grouping for by in groupers_of(self.survey, self.groups))

    def design(self, *, intercept: bool = False) -> Design:
        """Return the design of the raw features, with the levels of groups so far."""
        assert self.names is not None
        columns = self.names, intercept
        design = Design(*columns, offset=self.offset, exposure=self.exposure, groups=self.groupings)
        return design.with_weights() if self.weighted else design

    @property
    def sign(self) -> int:
        """-1 where +1 is the label that came first, and rows are mirrored in the end."""
        return 1 if self.classes[1] == self.labels[1] else -1

    def settled(self, rows: WeightedData) -> WeightedData:
        """Return rows of these blocks with +1 for the second class, and codes of groups in their order."""
        rows = self.recoded(rows, groupers_of(self.survey, self.groups))
        return rows if self.sign > 0 else rows.mirrored(-1)

    def recoded(self, rows: WeightedData, groupers: Sequence[Grouper]) -> WeightedData:
        """Return rows of these blocks with the final codes of groups."""
        if rows.group is None:
            return rows
        return replace(rows, group=recoded(rows.group, [self.survey.levels[name] for name in self.groups], groupers))

    def take(self, block: Block) -> tuple["Intake", WeightedData]:
        """Return the intake after another block, and the block as weighted rows of raw features."""
        where, start = f"block {self.n_blocks}", self.survey.n_rows
        parts = block._asdict()
        parts[role := ROLE_BESIDE[self.response]] = parts.pop("beside")
        check_aligned(**{f"{where}: {name}": part for name, part in parts.items()})
        X, y, weights, offset, second, groups = block
        paired = PAIRED.get(self.response, BINOMIAL if second is not None else None)
        Roles(response=self.response, offset=offset, **{role: second})  # refuses what the family does not take
        selected = () if self.selection is None else self.selection.names or ()
        X, group_columns = beside_rows(X, groups, self.group_columns, where, selected)
        levels: dict[str, DistinctValues] = {}
        if self.selection is not None and is_table(X):
            _check_once([str(name) for name in getattr(X, "columns", ())], where)
            X, levels = coded_table(X, self.selection, start, where)
        matrix = check_dense(X, f"{where}: X")
        names = self._names_of(X, matrix.shape[1], where)
        raw = np.array(matrix, dtype=np.float64, order="C")  # rows wait here while the caller may reuse the array
        check_finite(raw, names, 0, where)
        check_reach(raw.min(axis=0), raw.max(axis=0), names, where)
        n = len(raw)
        w = np.ones(n) if weights is None else check_weights(weights, n, f"{where}: weights", zero=True).copy()
        o = None if offset is None else check_offset(offset, n, f"{where}: offset").copy()
        if self.n_blocks and (o is None) != (self.offset is None):
            had = "no" if o is None else "an"
            raise DataError(f"{where} has {had} offset, unlike the blocks before it; give 0 for none")
        if self.weighted and weights is None:
            raise DataError(f"{where}: {NO_WEIGHTS}")
        known_groups = self.groups if self.n_blocks else None
        codes, grouped = group_codes(group_columns, known_groups, self.survey, n, where)
        named, pair = (f"{where}: y", f"{where}: {'' if paired is None else paired.beside}"), None
        if paired is None:
            signs, labels = self._signs(y, n, named[0])
        else:
            pair = paired.read(y, second, named, n)
            signs, labels = np.ones(n, dtype=np.int8), self._counted(paired, where)
        survey = merged([self.survey, Survey(n, labels, levels | grouped, bool((w == 0.0).any()))], tuple(grouped))
        if (o is not None or not self.symmetric) and len(survey.labels.values) < 2:
            why = "the two sides of the family differ, and" if o is None else "with offsets"
            raise DataError(
                f"{where}: all labels are {next(iter(labels.values))!r}, and {why} it must be known which one "
                "is +1: begin with a block of both, or name them as classes="
            )
        rows = WeightedData(raw, signs, w, np.arange(start, start + n), offset=o, group=codes)
        if paired is not None and pair is not None:
            rows = paired.rows(rows, pair, named, 0, drop=False)
        rows = without_left_out(rows, drop=False)
        intake = replace(
            self,
            names=names,
            survey=survey,
            n_blocks=self.n_blocks + 1,
            n_rows=self.n_rows + len(rows),
            weight=self.weight + exact_weight(rows.weights),
            observations=self.observations
            if self.observations is None or not len(rows)
            else self.observations + ObservationTotals.of(rows),
            offset=None if o is None else OFFSET,
            exposure=role if role == "exposure" and second is not None else self.exposure,
            groups=tuple(grouped),
            weighted=self.weighted or weights is not None,
        )
        return intake, rows

    def _names_of(self, X: Any, n_columns: int, where: str) -> tuple[str, ...]:
        names = tuple(str(name) for name in getattr(X, "columns", (f"x{d}" for d in range(n_columns))))
        _check_once(names, where)
        if self.names is None or names == self.names:
            return names
        if len(names) != len(self.names):
            raise DataError(
                f"{where} has {len(names)} columns, the blocks before it {len(self.names)}; give the same columns in "
                "every block, or begin anew"
            )
        shown, before = shown_apart(names, self.names)
        raise DataError(
            f"{where} has the columns {shown}, the blocks before it {before}; give the same columns in the same order"
        )

    def _signs(self, y: Any, n_rows: int, name: str) -> tuple[LabelArray, DistinctValues]:
        """Return the labels as signs, -1 for the first that occurred, and the labels."""
        labels, distinct = labels_of(y, n_rows, name)
        if distinct.missing:
            raise DataError(f"{name} has missing labels; drop those rows")
        all_labels = self.survey.labels + DistinctValues.of(sorted_labels(distinct.values, name), distinct.order)
        two = tuple(all_labels.values)[:2]
        if len(two) == 1:
            return np.full(n_rows, np.int8(-1)), DistinctValues.of(two, distinct.order)
        ordered = two_classes(two, name, self.positive, all_labels.order)
        two = two if self.labels else ordered
        return signed_labels(labels, two, 0, name), DistinctValues.of(two, distinct.order)

    def _counted(self, paired: Paired, where: str) -> DistinctValues:
        """Return the labels of a response of two numbers."""
        if self.labels not in ((), paired.classes, paired.classes[:1]):
            raise DataError(
                f"{where} has trials, and blocks before it the label {self.labels[-1]!r}; give trials in each"
            )
        return DistinctValues.of(paired.classes)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts of a stream's blocks as plain JSON values."""
        fields_of_json = {
            name: getattr(self, name)
            for name in ("names", "n_blocks", "n_rows", "weight", "offset", "exposure", "groups", "weighted")
        }
        return {
            **fields_of_json,
            "observations": None if self.observations is None else self.observations.to_list(),
            "survey": self.survey.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any], *, like: "Intake") -> Self:
        """Rebuild an intake from `to_dict`'s value, for a family `like` another's."""
        arguments: dict[str, Any] = {"names": tuple(fields["names"]), "groups": tuple(fields["groups"])}
        arguments |= {
            "symmetric": like.symmetric,
            "response": like.response,
            "observations": ObservationTotals.from_list(fields.get("observations")),
        }
        return cls(**{**fields, **arguments, "survey": Survey.from_dict(fields["survey"])})


def _check_once(names: Sequence[str], where: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise DataError(f"{where} has several columns named {twice!r}; rename them")


LABEL = "y"  # name of the labels of blocks


def is_stream(data: Any) -> bool:
    """Whether `data` gives its rows once, as iterators and generators do."""
    return hasattr(data, "__next__") and not is_table(data) and not is_dask(data)


def _numbered(blocks: Iterable[Any]) -> Iterator[Block]:
    """Yield blocks; a failure of the iterator is a `DataError` that names the block, with the failure as its cause."""
    stream, number = iter(blocks), 0
    while True:
        try:
            block = next(stream)
        except StopIteration:
            return
        except Exception as error:
            raise DataError(f"block {number} could not be read: {type(error).__name__}: {error}") from error
        if not isinstance(block, tuple | list) or len(block) not in range(2, 7):
            what = f"{len(block)} items" if isinstance(block, tuple | list) else f"a {type(block).__name__}"
            raise TypeError(
                f"block {number} is {what}; give tuples (X, y) or (X, y, weights), or with an offset at the end"
            )
        yield Block(*block)
        number += 1


class Stream:
    """Rows of a one-shot iterator of blocks; their number and labels are final at the end."""

    label = LABEL

    def __init__(
        self,
        blocks: Iterable[Any],
        positive: Any = None,
        group_columns: tuple[str, ...] = (),
        *,
        response: str = LABELS,
    ) -> None:
        self._blocks = _numbered(blocks)
        first = next(self._blocks, None)
        if first is None:
            raise DataError("data is an iterator without a block: was it read before?")
        self.intake = Intake.of(response, positive=positive, group_columns=group_columns)
        intake, _ = self.intake.take(first)
        self._blocks = chain([first], self._blocks)
        self.design = intake.design()

    def with_sides(self) -> None:
        """Ask for both labels from the first block on, as a family whose sides differ needs them."""
        self.intake = replace(self.intake, symmetric=False)

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order, once."""
        if self.intake.n_blocks:
            raise DataError("data is an iterator, and its rows have been read: they come once")
        for given in self._blocks:
            self.intake, block = self.intake.take(given)
            if len(block):
                yield block


class Fingerprint(NamedTuple):
    """Checksums of rows, whatever their cut into blocks: of X but for text, weights, y and -y, offsets and groups."""

    X: int = 0
    weights: int = 0
    y: int = 0
    y_flipped: int = 0
    offset: int = 0
    group: int = 0

    def after(self, block: WeightedData, text: list[int]) -> "Fingerprint":
        """Return the fingerprint with another block; `text` are its columns of codes, 0 in the first pass."""
        X = block.X
        if text:
            X = X.copy()
            X[:, text] = 0.0
        group = np.zeros(0, np.int64) if block.group is None else block.group
        offset = np.zeros(0) if block.offset is None else block.offset * block.y
        parts: tuple[NDArray[Any], ...] = (X, block.weights, block.y, -block.y, offset, group)
        return Fingerprint(*(crc32(part.tobytes(), crc) for part, crc in zip(parts, self, strict=True)))

    def flipped(self) -> "Fingerprint":
        """Return the fingerprint of the same rows with the signs of labels exchanged."""
        return self._replace(y=self.y_flipped, y_flipped=self.y)


@dataclass(frozen=True, eq=False)
class BlockSource:
    """Rows of a callable that returns a fresh iterator of the same blocks each time."""

    open: Callable[[], Iterable[Any]]
    design: Design
    classes: tuple[Any, Any]
    n_rows: int
    fingerprint: Fingerprint
    survey: Survey
    label: str = LABEL
    selection: Selection | None = None
    group_columns: tuple[str, ...] = ()
    groupers: tuple[Grouper, ...] = ()
    response: str = LABELS

    @property
    def levels(self) -> Levels:
        """Levels of the features of text, which rows have as codes."""
        return () if self.selection is None else self.selection.levels or ()

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order; raise `DataError` at the end if they differ from the first pass."""
        facts = {"names": self.design.raw_names, "selection": self.selection, "group_columns": self.group_columns}
        intake = Intake.of(self.response, self.classes, **facts)
        fingerprint, text = Fingerprint(), [self.design.raw_names.index(name) for name, _ in self.levels]
        for given in _numbered(self.open()):
            intake, block = intake.take(given)
            fingerprint = fingerprint.after(block, text)
            if len(block):
                yield intake.recoded(block, self.groupers)
        if intake.n_rows != self.n_rows:
            raise DataError(
                f"data gave {self.n_rows} rows first and {intake.n_rows} now: the callable must return a *fresh* "
                "iterator of the same blocks each time"
            )
        if fingerprint != self.fingerprint:
            raise DataError(
                "data gave other rows now than first: the callable must return the same rows in the same order each "
                "time; fix its seed, its order and its files"
            )


def callable_source(data: Callable[[], Iterable[Any]], roles: Roles, selection: Selection | None = None) -> BlockSource:
    """Return a callable that gives a fresh iterator of blocks as a source; one pass, to survey them."""
    roles.check_none("a callable of blocks (X, y) or (X, y, weights)", "positive", "groups", "groupers")
    given = data()
    if not isinstance(given, Iterable):
        raise TypeError(f"data() returned a {type(given).__name__}; return an iterator of blocks (X, y)")
    columns = GivenGroups.of(roles.groups, None).names
    classes = roles.positive if isinstance(roles.positive, Classes) else ()
    intake = Intake.of(roles.response, classes, selection=selection, positive=roles.positive, group_columns=columns)
    coded = () if selection is None else selection.levels or ()
    fingerprint = Fingerprint()
    for block in _numbered(given):
        intake, rows = intake.take(block)
        assert intake.names is not None
        fingerprint = fingerprint.after(rows, [intake.names.index(name) for name, _ in coded])
    if intake.names is None:
        raise DataError("data() returned an iterator without a block")
    survey = intake.survey
    if selection is not None and not selection.levels:
        text = {name: distinct for name, distinct in survey.levels.items() if name not in intake.groups}
        for name, distinct in text.items():
            distinct.check_factor(name)
        selection = replace(selection, levels=tuple((name, distinct.levels(name)) for name, distinct in text.items()))
    groupers = known_groupers(roles.groupers, intake.groups) or groupers_of(survey, intake.groups)
    return BlockSource(
        data,
        replace(intake.design(), groups=tuple(by.grouping for by in groupers)),
        intake.classes,
        intake.n_rows,
        fingerprint if intake.classes == intake.labels else fingerprint.flipped(),
        survey,
        selection=selection,
        group_columns=columns,
        groupers=groupers,
        response=roles.response,
    )


def refuse_stream(data: Any, *_: Any) -> NoReturn:
    """Raise: an iterator's rows come once."""
    raise DataError(
        f"data is a {type(data).__name__}, whose rows come once, and they are needed more than once: give a "
        "callable that returns a fresh iterator of blocks each time, a Parquet file, or an array"
    )
