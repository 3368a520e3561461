"""Blocks of rows as their owners make them, from an iterator or a callable.

A block is a tuple (X, y[, weights[, offset[, trials[, groups]]]]), with None for what there is not. Groups may also be
columns of blocks that are tables. Codes of groups are places in the order met until all are known (`met_groups`).

`Intake` checks each block and remembers what the blocks before it were like. `block_source` turns a callable that
gives a fresh iterator each time into a `Source`; a `Stream` is read once, and learns its labels on the way.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple, NoReturn
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescore.data.passes.cutter import MAX_BLOCK_ROWS
from bayescore.data.passes.exact import exact_weight, total_weight
from bayescore.data.passes.scan import check_reach
from bayescore.data.sources.columns import MANY, coded_table
from bayescore.data.sources.factors import Levels, Seen, Selection
from bayescore.data.sources.groups import Given, Grouper, known_groupers
from bayescore.data.sources.kept import check_counts, two_rows_each, without_left_out
from bayescore.data.sources.met_groups import MetGroups, beside_rows, met_codes, recoded
from bayescore.data.sources.roles import COUNTS, OFFSET, Roles
from bayescore.data.sources.sparse import check_dense
from bayescore.data.sources.tables import is_dask, is_table
from bayescore.types import Design, FloatArray, Grouping, LabelArray, WeightedData
from bayescore.validation import (
    Classes,
    DataError,
    check_aligned,
    check_finite,
    check_offset,
    check_unmasked,
    check_weights,
    native,
    shown_apart,
    signed_labels,
    sorted_labels,
    two_classes,
)

LABEL = "y"  # what the labels of blocks are called


def labels_of(y: Any, n_rows: int, name: str = "y") -> tuple[NDArray[Any], dict[Any, int | None]]:
    """Return the labels of `n_rows` rows as an array, and the first few of the distinct ones with their places.

    Those of an ordered categorical have one.
    """
    check_unmasked(y, name)
    labels = native(np.asarray(y, dtype=object if isinstance(y, list | tuple) else None))
    if labels.shape != (n_rows,):
        raise DataError(f"{name} has shape {labels.shape}; it must be ({n_rows},), one label for each row (np.ravel?)")
    dtype = getattr(y, "dtype", None)
    order = list(dtype.categories) if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered else []
    found = [v.item() if isinstance(v, np.generic) else v for v in pd.unique(labels)[:MANY]]
    return labels, {v: order.index(v) if v in order else None for v in found}


def as_counts(values: Any, n_rows: int, name: str) -> FloatArray:
    """Return counts as floats, shape (n_rows,)."""
    check_unmasked(values, name)
    try:
        counts = np.asarray(pd.to_numeric(np.asarray(values)), dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be counts, whole numbers, one for each row") from None
    if counts.shape != (n_rows,):
        raise DataError(f"{name} has shape {counts.shape}; it must be ({n_rows},), one count for each row")
    return counts


@dataclass(frozen=True)
class Intake:
    """What is known of the blocks so far: columns, labels in the order met, numbers of blocks and rows, weight.

    Until both labels are known, the first one met is -1 and the second +1; with offsets both must be, for a mirrored
    posterior has other ones. With a `selection`, tables among the blocks
    may have columns of text; `text` is what was seen of those whose levels it does not tell, and their codes are 0.
    """

    names: tuple[str, ...] | None = None
    met: tuple[Any, ...] = ()
    n_blocks: int = 0
    n_rows: int = 0
    weight: int = 0
    selection: Selection | None = None
    text: tuple[tuple[str, Seen], ...] = ()
    offset: str | None = None
    n_read: int = 0  # those of weight 0, which are left out, among them
    positive: Any = None
    group_columns: tuple[str, ...] = ()  # columns of blocks that are tables
    groups: tuple[MetGroups, ...] = ()

    @property
    def classes(self) -> tuple[Any, Any]:
        """The two labels, `positive` or else the second in sorted order being +1."""
        return two_classes(self.met, positive=self.positive)

    @property
    def weight_total(self) -> float:
        """Total weight of the rows so far."""
        return total_weight([self.weight])

    def settled(self, rows: WeightedData) -> WeightedData:
        """Return rows of these blocks with +1 for the second class, and codes of groups, in sorted order."""
        if rows.group is not None:
            rows = replace(rows, group=recoded(rows.group, self.groups, tuple(map(Grouper, self.groupings))))
        return rows if self.classes[1] == self.met[1] else rows.mirrored(-1)

    @property
    def groupings(self) -> tuple[Grouping, ...]:
        """The grouping factors, with the levels met so far."""
        return tuple(own.grouping for own in self.groups)

    def take(
        self, X: Any, y: Any, weights: Any = None, offset: Any = None, trials: Any = None, groups: Any = None
    ) -> tuple["Intake", WeightedData]:
        """Return what is known after another block, and the block as weighted rows of raw features.

        Raises
        ------
        DataError
            If the block cannot be used; blocks and their rows are counted from 0.
        """
        where = f"block {self.n_blocks}"
        given = {"X": X, "y": y, "weights": weights, "offset": offset, "trials": trials, "groups": groups}
        check_aligned(**{f"{where}: {name}": part for name, part in given.items()})
        X, beside = beside_rows(X, groups, self.group_columns, where)
        text = self.text
        if self.selection is not None and is_table(X):
            _check_once([str(name) for name in getattr(X, "columns", ())], where)
            X, text = coded_table(X, self.selection, self.text, self.n_read, where)
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
        codes, met_groups = met_codes(beside, self.groups if self.n_blocks else None, n, self.n_read, where)
        counts, positive = None, self.positive
        if trials is None:
            signs, met, positive = self._signs(y, n, f"{where}: y")
        else:
            named = f"{where}: y", f"{where}: trials"
            counts = as_counts(y, n, named[0]), as_counts(trials, n, named[1])
            check_counts(*counts, named, 0, drop=False)
            signs, met = np.ones(n, dtype=np.int8), COUNTS
        if o is not None and len(met) < 2:
            raise DataError(
                f"{where}: all labels are {met[0]!r}, and with offsets it must be known which one is +1: begin with a "
                "block of both, or name them as classes="
            )
        rows = WeightedData(raw, signs, w, np.arange(self.n_read, self.n_read + n), offset=o, group=codes)
        if counts is not None:
            rows = two_rows_each(rows, *counts)
        rows = without_left_out(rows, drop=False)
        weight = sum(
            exact_weight(rows.weights[low : low + MAX_BLOCK_ROWS]) for low in range(0, len(rows), MAX_BLOCK_ROWS)
        )
        known = replace(
            self,
            names=names,
            met=met,
            n_blocks=self.n_blocks + 1,
            n_rows=self.n_rows + len(rows),
            n_read=self.n_read + n,
            weight=self.weight + weight,
            text=text,
            offset=None if o is None else OFFSET,
            positive=positive,
            groups=met_groups,
        )
        return known, rows

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
        own, before = shown_apart(names, self.names)
        raise DataError(
            f"{where} has the columns {own}, the blocks before it {before}; give the same columns in the same order"
        )

    def _signs(self, y: Any, n_rows: int, name: str) -> tuple[LabelArray, tuple[Any, ...], Any]:
        """Return the labels as +1 for the second one met and -1 for the first, the labels met, and the positive one."""
        labels, found = labels_of(y, n_rows, name)
        positive, places = self.positive, [place for place in found.values() if place is not None]
        if positive is None and len(places) == 2:
            positive = max(found, key=lambda label: found[label] or 0)
        met = (*self.met, *(label for label in sorted_labels(found, name) if label not in self.met))
        if len(met) == 1:
            return np.full(n_rows, np.int8(-1)), met, positive
        first, second = met[:2]
        ordered = two_classes((first, second), name, positive)
        if not self.met:
            first, second = ordered
        return signed_labels(labels, (first, second), 0, name), (first, second), positive


def _check_once(names: Sequence[str], where: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise DataError(f"{where} has several columns named {twice!r}; rename them")


def is_stream(data: Any) -> bool:
    """Whether `data` gives its rows once, as iterators and generators do."""
    return hasattr(data, "__next__") and not is_table(data) and not is_dask(data)


def numbered(blocks: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield blocks as tuples; an error inside the iterator names the block.

    Raises
    ------
    DataError
        If the iterator fails, with its error as the cause.
    TypeError
        If a block is no tuple (X, y[, weights[, offset[, trials[, groups]]]]).
    """
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
        yield tuple(block)
        number += 1


class Stream:
    """Rows of a one-shot iterator of blocks; their number and labels are known at the end."""

    label = LABEL

    def __init__(self, blocks: Iterable[Any], positive: Any = None, group_columns: tuple[str, ...] = ()) -> None:
        self._blocks = numbered(blocks)
        first = next(self._blocks, None)
        if first is None:
            raise DataError("data is an iterator without a block: was it read before?")
        self.intake = Intake(positive=positive, group_columns=group_columns)
        known, _ = self.intake.take(*first)
        assert known.names is not None
        self._blocks = chain([first], self._blocks)
        self.design = Design(known.names, offset=known.offset, groups=known.groupings)

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order, once.

        Raises
        ------
        DataError
            If a block cannot be used, or the rows have been read.
        """
        if self.intake.n_blocks:
            raise DataError("data is an iterator, and its rows have been read: they come once")
        for given in self._blocks:
            self.intake, block = self.intake.take(*given)
            if len(block):
                yield block


class Fingerprint(NamedTuple):
    """Checksums of rows, however they are cut: of X but for text, of weights, of y and of -y, of offsets and groups."""

    X: int = 0
    weights: int = 0
    y: int = 0
    y_flipped: int = 0
    offset: int = 0
    group: int = 0

    def after(self, block: WeightedData, text: list[int]) -> "Fingerprint":
        """Return that of the rows so far and a block more; `text` are its columns of codes, 0 in the first pass."""
        X = block.X
        if text:
            X = X.copy()
            X[:, text] = 0.0
        group = np.zeros(0, np.int64) if block.group is None else block.group
        parts: tuple[NDArray[Any], ...] = (X, block.weights, block.y, -block.y, block.shift, group)
        return Fingerprint(*(crc32(part.tobytes(), known) for part, known in zip(parts, self, strict=True)))

    def flipped(self) -> "Fingerprint":
        """Return that of the same rows with their labels' signs turned."""
        return self._replace(y=self.y_flipped, y_flipped=self.y)


@dataclass(frozen=True, eq=False)
class BlockSource:
    """Rows of a callable that returns a fresh iterator of the same blocks each time."""

    open: Callable[[], Iterable[Any]]
    design: Design
    classes: tuple[Any, Any]
    n_rows: int
    fingerprint: Fingerprint
    label: str = LABEL
    selection: Selection | None = None
    group_columns: tuple[str, ...] = ()
    groupers: tuple[Grouper, ...] = ()

    @property
    def levels(self) -> Levels:
        """Levels of the features of text, which rows have as codes."""
        return () if self.selection is None else self.selection.levels or ()

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order.

        Raises
        ------
        DataError
            If they are not those of the first pass.
        """
        names, columns = self.design.raw_names, self.group_columns
        intake = Intake(names, self.classes, selection=self.selection, group_columns=columns)
        found, text = Fingerprint(), [self.design.raw_names.index(name) for name, _ in self.levels]
        for given in numbered(self.open()):
            intake, block = intake.take(*given)
            found = found.after(block, text)
            if len(block) and block.group is not None:
                yield replace(block, group=recoded(block.group, intake.groups, self.groupers))
            elif len(block):
                yield block
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


def block_source(
    factory: Callable[[], Iterable[Any]],
    selection: Selection | None = None,
    positive: Any = None,
    group_columns: tuple[str, ...] = (),
    groupers: tuple[Grouper, ...] | None = None,
) -> BlockSource:
    """Return a callable's blocks as a source; one pass, for the columns, the labels and the number of rows.

    Raises
    ------
    TypeError
        If it does not return an iterable of blocks.
    DataError
        If there is no block, a block cannot be used, or the labels are not of two classes.
    """
    given = factory()
    if not isinstance(given, Iterable):
        raise TypeError(f"data() returned a {type(given).__name__}; return an iterator of blocks (X, y)")
    met = positive if isinstance(positive, Classes) else ()
    intake = Intake(met=met, selection=selection, positive=positive, group_columns=group_columns)
    found = Fingerprint()
    for block in numbered(given):
        intake, rows = intake.take(*block)
        assert intake.names is not None
        known = () if selection is None else selection.levels or ()
        found = found.after(rows, [intake.names.index(name) for name, _ in known])
    if intake.names is None:
        raise DataError("data() returned an iterator without a block")
    if selection is not None:
        selection = replace(selection, levels=selection.levels or tuple((n, own.levels(n)) for n, own in intake.text))
    settled = found if intake.classes == intake.met else found.flipped()
    known_groups = known_groupers(groupers, [own.name for own in intake.groups]) or tuple(
        map(Grouper, intake.groupings)
    )
    groupings = tuple(by.grouping for by in known_groups)
    design = Design(intake.names, offset=intake.offset, groups=groupings)
    return BlockSource(
        factory,
        design,
        intake.classes,
        intake.n_rows,
        settled,
        selection=selection,
        group_columns=group_columns,
        groupers=known_groups,
    )


def callable_source(data: Callable[[], Iterable[Any]], roles: Roles, selection: Selection | None = None) -> BlockSource:
    """Return a callable that gives a fresh iterator of blocks as a source; blocks bring their labels and weights."""
    roles.check_none("a callable of blocks (X, y) or (X, y, weights)", "positive", "groups", "groupers")
    return block_source(data, selection, roles.positive, Given.of(roles.groups, None).names, roles.groupers)


def refuse_stream(data: Any, *_: Any) -> NoReturn:
    """Raise: an iterator's rows come once."""
    raise DataError(
        f"data is a {type(data).__name__}, whose rows come once, and they are needed more than once: give a "
        "callable that returns a fresh iterator of blocks each time, a Parquet file, or an array"
    )
