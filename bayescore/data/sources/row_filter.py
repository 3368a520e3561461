"""Rows that are left out: of weight 0, and with missing entries that are to be dropped.

One pass counts the rows that each piece of the data keeps. Later passes see these rows alone, from whatever source;
their positions in the data stay the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayescore.data.design import Design
from bayescore.data.factors import Levels
from bayescore.data.passes.cutter import block_rows
from bayescore.data.passes.map import map_pieces
from bayescore.data.passes.tasks import Division, Piece, division_of
from bayescore.data.passes.threads import available_cores
from bayescore.data.source import Source
from bayescore.data.sources.groups import MISSING_GROUP
from bayescore.listing import listed
from bayescore.types import IntArray, WeightedData
from bayescore.validation import DataError, check_finite, warn


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
            f"{listed(shown, 8, str)}: coefficients are biased unless, given the "
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
    if drop:
        _warn_of_dropped(tallies, (*design.raw_names, *beside))
    pieces = [FilteredPiece(piece, int(n), drop) for piece, n in zip(division.pieces, n_kept, strict=True)]
    return FilteredSource(
        design,
        source.label,
        source.classes,
        getattr(source, "levels", ()),
        int(n_kept.sum()),
        int(ends[-1]),
        Division(pieces, division.pool),
        in_pieces=own is not None,
    )
