"""Blocks of rows as users make them (`intake.Block`), from a callable or an iterator.

`callable_source` turns a callable that returns a fresh iterator each time into a `Source`. A `Stream` is read once, and
learns its labels on the way.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple, NoReturn
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from bayescore.data.design import Design
from bayescore.data.factors import Levels, Selection
from bayescore.data.labels import Classes
from bayescore.data.sources.groups import Given, Grouper, groupers_of, known_groupers
from bayescore.data.sources.intake import Block, Intake
from bayescore.data.sources.paired import LABELS
from bayescore.data.sources.roles import Roles
from bayescore.data.sources.survey import Survey
from bayescore.data.tables import is_dask, is_table
from bayescore.types import WeightedData
from bayescore.validation import DataError

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
            found = f"{len(block)} items" if isinstance(block, tuple | list) else f"a {type(block).__name__}"
            raise TypeError(
                f"block {number} is {found}; give tuples (X, y) or (X, y, weights), or with an offset at the end"
            )
        yield Block(*block)
        number += 1


class Stream:
    """Rows of a one-shot iterator of blocks; their number and labels are known at the end."""

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
        known, _ = self.intake.take(first)
        self._blocks = chain([first], self._blocks)
        self.design = known.design()

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
        """Return that of the rows so far and of a block; `text` are its columns of codes, 0 in the first pass."""
        X = block.X
        if text:
            X = X.copy()
            X[:, text] = 0.0
        group = np.zeros(0, np.int64) if block.group is None else block.group
        offset = np.zeros(0) if block.offset is None else block.offset * block.y
        parts: tuple[NDArray[Any], ...] = (X, block.weights, block.y, -block.y, offset, group)
        return Fingerprint(*(crc32(part.tobytes(), known) for part, known in zip(parts, self, strict=True)))

    def flipped(self) -> "Fingerprint":
        """Return that of the same rows with the other signs of labels."""
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
        """Yield the rows in order; raise `DataError` at the end if they are not those of the first pass."""
        known = {"names": self.design.raw_names, "selection": self.selection, "group_columns": self.group_columns}
        intake = Intake.of(self.response, self.classes, **known)
        found, text = Fingerprint(), [self.design.raw_names.index(name) for name, _ in self.levels]
        for given in _numbered(self.open()):
            intake, block = intake.take(given)
            found = found.after(block, text)
            if len(block):
                yield intake.recoded(block, self.groupers)
        if intake.n_rows != self.n_rows:
            raise DataError(
                f"data gave {self.n_rows} rows first and {intake.n_rows} now: the callable must return a *fresh* "
                "iterator of the same blocks each time"
            )
        if found != self.fingerprint:
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
    columns = Given.of(roles.groups, None).names
    known = roles.positive if isinstance(roles.positive, Classes) else ()
    intake = Intake.of(roles.response, known, selection=selection, positive=roles.positive, group_columns=columns)
    coded = () if selection is None else selection.levels or ()
    found = Fingerprint()
    for block in _numbered(given):
        intake, rows = intake.take(block)
        assert intake.names is not None
        found = found.after(rows, [intake.names.index(name) for name, _ in coded])
    if intake.names is None:
        raise DataError("data() returned an iterator without a block")
    survey = intake.survey
    if selection is not None and not selection.levels:
        text = {name: own for name, own in survey.levels.items() if name not in intake.groups}
        for name, own in text.items():
            own.check_factor(name)
        selection = replace(selection, levels=tuple((name, own.levels(name)) for name, own in text.items()))
    groupers = known_groupers(roles.groupers, intake.groups) or groupers_of(survey, intake.groups)
    return BlockSource(
        data,
        replace(intake.design(), groups=tuple(by.grouping for by in groupers)),
        intake.classes,
        intake.n_rows,
        found if intake.classes == intake.labels else found.flipped(),
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
