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
import pyarrow as pa
from numpy.typing import NDArray

from bayescore.data.arrays import TableSource, roles_of_array, with_roles
from bayescore.data.column_kinds import as_table
from bayescore.data.columns import Columns, without_left_out
from bayescore.data.design import Design, Grouping
from bayescore.data.factors import Levels, Selection
from bayescore.data.groups import GivenGroups, Grouper, groupers_of, known_groupers
from bayescore.data.passes import NO_OBSERVATIONS, ObservationTotals, check_magnitude, exact_weight, total_weight
from bayescore.data.responses import LABELS, PAIRED, SECOND_ROLE, Classes, sorted_labels, two_classes
from bayescore.data.roles import NO_WEIGHTS, OFFSET, Roles
from bayescore.data.survey import NO_VALUES, DistinctValues, Survey, merge_surveys
from bayescore.data.tables import check_dense, is_dask, is_table
from bayescore.text import first_difference
from bayescore.types import NO_GROUP, IntArray, WeightedData, stack
from bayescore.validation import DataError, check_aligned, check_finite


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

    def with_final_labels(self, rows: WeightedData) -> WeightedData:
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
        role = SECOND_ROLE[self.response]
        try:
            columns, survey, rows = self._read(block, role)
        except DataError as error:
            raise DataError(f"{where}: {error}") from error
        self._check_names(columns.features, where)
        check_finite(rows.X, columns.features, rows.index, where)
        check_magnitude(rows.X.min(axis=0), rows.X.max(axis=0), columns.features, where)
        if self.n_blocks and (block.offset is None) != (self.offset is None):
            had = "no" if block.offset is None else "an"
            raise DataError(f"{where} has {had} offset, unlike the blocks before it; give 0 for none")
        if self.weighted and block.weights is None:
            raise DataError(f"{where}: {NO_WEIGHTS}")
        if self.n_blocks and columns.groups != self.groups:
            names = ", ".join(map(repr, self.groups)) or "none"
            raise DataError(
                f"{where} has other groups than the blocks before it, {names}; give the same in every block"
            )
        if columns.paired is not None and self.labels not in ((), columns.classes, columns.classes[:1]):
            raise DataError(
                f"{where} has trials, and blocks before it the label {self.labels[-1]!r}; give trials in each"
            )
        survey = merge_surveys([self.survey, survey], columns.groups)
        if (block.offset is not None or not self.symmetric) and len(survey.labels.values) < 2:
            why = "the two sides of the family differ, and" if block.offset is None else "with offsets"
            raise DataError(
                f"{where}: all labels are {next(iter(survey.labels.values))!r}, and {why} it must be known which one "
                "is +1: begin with a block of both, or name them as classes="
            )
        rows = without_left_out(replace(rows, index=rows.index + start), drop=False)
        intake = replace(
            self,
            names=columns.features,
            survey=survey,
            n_blocks=self.n_blocks + 1,
            n_rows=self.n_rows + len(rows),
            weight=self.weight + exact_weight(rows.weights),
            observations=self.observations
            if self.observations is None or not len(rows)
            else self.observations + ObservationTotals.of(rows),
            offset=None if block.offset is None else OFFSET,
            exposure=role if role == "exposure" and block.beside is not None else self.exposure,
            groups=columns.groups,
            weighted=self.weighted or block.weights is not None,
        )
        return intake, rows

    def _read(self, block: Block, role: str) -> tuple[Columns, Survey, WeightedData]:
        """Return the columns of a block, its survey, and its rows, whose arrays the caller may use again.

        Labels have the signs, and groups the codes, of their first occurrence. So have levels that are to be learnt, of
        the block alone.
        """
        given = block._asdict()
        given[role] = given.pop("beside")
        check_aligned(**given)
        X, groups = given.pop("X"), given.pop("groups")
        if self.group_columns and (groups is not None or not is_table(X)):
            raise DataError(
                f"groups={self.group_columns[0]!r} names a column of X, so that X must be a table that has it"
            )
        if given["y"] is None:
            raise DataError("y is missing: give the labels, one for each row")
        roles = Roles(**given, response=self.response, groups=list(self.group_columns) or groups)
        matrix = None if is_table(X) else np.asarray(check_dense(X, "X"), dtype=np.float64)
        if matrix is None:
            table = as_table(X, "X")
            table, columns, survey = with_roles(table, table.num_rows, roles, self.selection, by_argument=True)
        else:
            table, columns, survey = roles_of_array(roles, len(matrix))
        if columns.paired is None:
            survey = replace(survey, labels=self._two_labels(survey.labels))
        occurred = {name: self.survey.levels.get(name, NO_VALUES) + survey.levels[name] for name in columns.groups}
        groupers = []
        for name, distinct in occurred.items():
            distinct.check_one_kind(name)
            groupers.append(Grouper(Grouping(name, tuple(distinct.values), parts=distinct.parts)))
        columns = replace(
            columns,
            classes=(*survey.labels.values, None)[:2],
            levels=(*columns.levels, *((name, tuple(survey.levels[name].values)) for name in columns.text)),
            text=(),
            groupers=tuple(groupers),
        )
        rows = stack(list(TableSource(table, columns, survey).blocks()))
        if matrix is not None:
            rows = replace(rows, X=np.take(matrix, rows.index, axis=0))
            columns = replace(columns, features=tuple(f"x{d}" for d in range(matrix.shape[1])))
        return columns, survey, rows

    def _check_names(self, names: tuple[str, ...], where: str) -> None:
        if self.names is None or names == self.names:
            return
        if len(names) != len(self.names):
            raise DataError(
                f"{where} has {len(names)} columns, the blocks before it {len(self.names)}; give the same columns in "
                "every block, or begin anew"
            )
        shown, before = first_difference(names, self.names)
        raise DataError(
            f"{where} has the columns {shown}, the blocks before it {before}; give the same columns in the same order"
        )

    def _two_labels(self, seen: DistinctValues) -> DistinctValues:
        """Return the two labels so far, the one that occurred first being -1, or one; others are no labels."""
        if seen.missing:
            raise DataError("y has missing labels; drop those rows")
        labels = self.survey.labels + DistinctValues.of(sorted_labels(seen.values, "y"), seen.order)
        two = tuple(labels.values)[:2]
        if len(two) == 2 and not self.labels:
            two = two_classes(two, "y", self.positive, labels.order)
        return DistinctValues.of(two, seen.order)

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


LABEL = "y"  # name of the labels of blocks


def is_stream(data: Any) -> bool:
    """Whether `data` gives its rows once, as iterators and generators do."""
    return hasattr(data, "__next__") and not is_table(data) and not is_dask(data)


def _checked_blocks(blocks: Iterable[Any]) -> Iterator[Block]:
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
        self._blocks = _checked_blocks(blocks)
        first = next(self._blocks, None)
        if first is None:
            raise DataError("data is an iterator without a block: was it read before?")
        self.intake = Intake.of(response, positive=positive, group_columns=group_columns)
        intake, _ = self.intake.take(first)
        self._blocks = chain([first], self._blocks)
        self.design = intake.design()

    def require_both_labels(self) -> None:
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
        for given in _checked_blocks(self.open()):
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
    for block in _checked_blocks(given):
        intake, rows = intake.take(block)
        assert intake.names is not None
        of_text = {*dict(coded), *intake.survey.levels} - {*intake.groups}
        fingerprint = fingerprint.after(rows, [k for k, name in enumerate(intake.names) if name in of_text])
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
