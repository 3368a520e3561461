"""Rows that are left out (weights of 0, missing entries that are to be dropped), and counts, which are two rows each.

One pass counts the rows that each piece of the data keeps. Later passes see these rows alone, from whatever source;
their positions in the data stay the same.
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
from bayescore.data.passes.tasks import Division, Piece, division_of
from bayescore.data.passes.threads import available_cores
from bayescore.data.source import Source
from bayescore.data.sources.groups import MISSING_GROUP
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, RowError, check_finite, check_unmasked, warn

COUNTS = (0, 1)  # labels of failures and successes


def two_rows_each(rows: WeightedData, successes: FloatArray, trials: FloatArray) -> WeightedData:
    """Return for each row one of label +1 that weighs its successes, and one of label -1 that weighs its failures.

    A pair has the binomial likelihood, but for the binomial coefficient; its labels are 0 if a count is missing.
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
    """Numbers of rows of a block."""

    first: int  # position of the first row
    n_kept: int
    n_missing: int  # rows that miss something
    missing: IntArray  # missing entries of each column
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


def _warn_of_dropped(tallies: list[Tally], names: tuple[str, ...]) -> None:
    """Warn of the number of rows dropped, the columns that they miss, and the bias."""
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
class FilteredPiece:
    """The kept rows of a piece."""

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


@dataclass(frozen=True)
class _Whole:
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
    own = division_of(source, block_rows(len(design.raw_names)))
    division = Division([_Whole(source)]) if own is None else own
    ends = np.cumsum([piece.n_rows for piece in division.pieces])
    n_kept = np.zeros(len(ends), dtype=np.int64)
    work = partial(_tally, design.raw_names, drop)
    tallies = [found for _, found in map_pieces(division, work, None, available_cores())]
    for found in tallies:
        n_kept[np.searchsorted(ends, found.first, side="right")] += found.n_kept
    if not n_kept.any():
        raise DataError("no row is left: all weigh 0, or miss something; look at weights and missing values")
    beside = (source.label, "weights", design.offset or "offset", *(grouping.name for grouping in design.groups))
    _warn_of_dropped(tallies, (*design.raw_names, *beside))
    pieces = [FilteredPiece(piece, int(n), drop) for piece, n in zip(division.pieces, n_kept, strict=True)]
    return FilteredSource(
        design,
        source.label,
        source.classes,
        getattr(source, "levels", ()),
        int(n_kept.sum()),
        Division(pieces, division.pool),
        in_pieces=own is not None,
    )
