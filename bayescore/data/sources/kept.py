"""Rows that are left out, or stand for two: weights of 0, missing entries that are to be dropped, binomial counts.

How many rows a piece of the data keeps is counted once, in one pass; passes then see the kept rows alone, from
whatever source, and their numbers in the data stay what they were.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescore.data.design import Design
from bayescore.data.factors import Levels
from bayescore.data.passes.cutter import block_rows
from bayescore.data.passes.map import map_pieces
from bayescore.data.passes.tasks import Division, Piece, Pool, division_of
from bayescore.data.passes.threads import available_cores
from bayescore.data.source import Source
from bayescore.data.sources.groups import MISSING_GROUP
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, RowError, check_finite, check_unmasked, warn


def two_rows_each(rows: WeightedData, successes: FloatArray, trials: FloatArray) -> WeightedData:
    """Return for each row one of label +1 that weighs its successes, and one of label -1 that weighs its failures.

    Of these pairs, whose likelihood is the binomial one, coefficients apart, a row with a count missing has labels 0.
    """
    twice = rows.take(np.repeat(np.arange(len(rows)), 2))
    counts = np.stack([successes, trials - successes], axis=1).ravel()
    unknown = np.isnan(counts)
    y = np.where(unknown, 0, np.tile([1, -1], len(rows))).astype(np.int8)
    return replace(twice, y=y, weights=twice.weights * np.where(unknown, 0.0, counts))


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


def check_counts(successes: FloatArray, trials: FloatArray, names: tuple[str, str], start: int, *, drop: bool) -> None:
    """Raise unless successes and trials, of rows start, start + 1, ..., are whole numbers, 0 <= successes <= trials."""
    label, total = names
    for name, counts in ((label, successes), (total, trials)):
        bad = ~((counts >= 0.0) & (counts == np.floor(counts)) & np.isfinite(counts))
        _refuse(bad & ~np.isnan(counts) if drop else bad, counts, f"{name} is no count", start)
    _refuse(successes > trials, successes, f"{label} is above {total}", start)


def _refuse(bad: NDArray[np.bool_], counts: FloatArray, problem: str, start: int) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise RowError(
            f"{problem} in {int(bad.sum())} of rows {start} to {start + len(bad) - 1}, first {counts[row]:g} in row "
            f"{start + row}; successes and trials are whole numbers, 0 <= successes <= trials: drop or mend such "
            "rows, and give fractions as weights of rows with labels",
            start + row,
        )


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


class Tally(NamedTuple):
    """Of a block: the number of its first row, rows kept, rows and entries that are missing (by column), and rows."""

    first: int
    n_kept: int
    n_missing: int
    missing: IntArray
    n_rows: int


def _tally(names: tuple[str, ...], drop: bool, _start: int, rows: WeightedData) -> Tally:
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
    return Tally(int(rows.index[0]), len(kept), int(holes.any(axis=1).sum()), holes.sum(axis=0), len(once))


def warn_of_dropped(tallies: list[Tally], names: tuple[str, ...]) -> None:
    """Say how many rows were dropped, for which columns, and what that does."""
    n_missing = sum(part.n_missing for part in tallies)
    if n_missing:
        by_column = np.sum([part.missing for part in tallies], axis=0)
        shown = [f"{name!r} ({count:,})" for name, count in zip(names, by_column, strict=True) if count]
        warn(
            f"missing='drop' left out {n_missing:,} of {sum(part.n_rows for part in tallies):,} rows, that miss "
            f"{', '.join(shown[:8])}{', ...' if shown[8:] else ''}: coefficients are biased unless, given the "
            "features, whether something is missing has nothing to do with the label; else impute"
        )


@dataclass(frozen=True)
class KeptPiece:
    """What is kept of a piece."""

    piece: Piece
    n_rows: int
    drop: bool

    def read(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the kept rows low, ..., high - 1."""
        at = 0
        for block in self.piece.read(0, self.piece.n_rows):
            kept = without_left_out(block, drop=self.drop)
            a, b = max(low - at, 0), min(high - at, len(kept))
            if a < b:
                yield kept.take(slice(a, b))
            at += len(kept)
            if at >= high:
                return

    def place(self, row: int) -> str:  # noqa: ARG002
        """Say nothing: where a kept row stood is not known, and the first pass has checked it."""
        return ""


@dataclass(frozen=True, eq=False)
class KeptSource:
    """The kept rows of a source."""

    source: Source
    pieces: tuple[KeptPiece, ...]
    pool: Pool | None
    in_pieces: bool = True

    @property
    def n_rows(self) -> int:
        """Number of kept rows."""
        return sum(piece.n_rows for piece in self.pieces)

    @property
    def classes(self) -> tuple[Any, Any]:
        """The two labels as given."""
        return self.source.classes

    @property
    def label(self) -> str:
        """Name of the label column."""
        return self.source.label

    @property
    def design(self) -> Design:
        """The source's design."""
        return self.source.design

    @property
    def levels(self) -> Levels:
        """Levels of the features of text, which rows have as codes."""
        levels: Levels = getattr(self.source, "levels", ())
        return levels

    def division(self, step: int) -> Division | None:  # noqa: ARG002
        """Return the pieces; None where the rows come in one stream."""
        return Division(self.pieces, self.pool) if self.in_pieces else None

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the kept rows in order."""
        for piece in self.pieces:
            yield from piece.read(0, piece.n_rows)


def kept_source(source: Source, *, drop: bool) -> KeptSource:
    """Return the kept rows of a source that can be read in pieces; one pass, which counts and checks them.

    Raises
    ------
    DataError
        If a row cannot be used, or none is kept.

    Warns
    -----
    UserWarning
        If rows miss something and are dropped.
    """
    design = source.design
    division = division_of(source, block_rows(len(design.raw_names))) or Division([_Stream(source)])
    ends = np.cumsum([piece.n_rows for piece in division.pieces])
    n_kept = np.zeros(len(ends), dtype=np.int64)
    work = partial(_tally, design.raw_names, drop)
    tallies = [found for _, found in map_pieces(division, work, None, available_cores())]
    for found in tallies:
        n_kept[np.searchsorted(ends, found.first, side="right")] += found.n_kept
    if not n_kept.any():
        raise DataError("no row is left: all weigh 0, or miss something; look at weights and missing values")
    beside = (source.label, "weights", design.offset or "offset", *(grouping.name for grouping in design.groups))
    warn_of_dropped(tallies, (*design.raw_names, *beside))
    pieces = [KeptPiece(piece, int(n), drop) for piece, n in zip(division.pieces, n_kept, strict=True)]
    one = isinstance(division.pieces[0], _Stream)
    return KeptSource(source, tuple(pieces), division.pool, in_pieces=not one)


@dataclass(frozen=True)
class _Stream:
    """All rows of a source that gives them in one stream, as a piece."""

    source: Source

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.source.n_rows

    def read(self, low: int, high: int) -> Iterator[WeightedData]:  # noqa: ARG002
        """Yield all rows."""
        yield from self.source.blocks()

    def place(self, row: int) -> str:  # noqa: ARG002
        """Say nothing: the row's number says it."""
        return ""
