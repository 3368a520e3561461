r"""Rows of several grouping factors, or with slopes that vary, condensed by cell: pseudo-rows for each cell's effects.

The rows of a cell, a combination of all factors' levels that occurs, see the same effects: those of all factors add
up to one vector b_c, in the columns whose coefficients vary (the intercept alone: one number). So whatever the factors
are, nested, crossed or one, the likelihood of a cell's rows depends on them by b_c alone. Pseudo-rows (`pseudo`) have
its score, curvature and third derivatives, averaged over a normal density (`settle`) of a model that knows cells only,
b_c ~ N(0, S). That density of b_c is wider than what the factors say together, and covers it.

Cells of few rows keep them, and so do those whose pseudo-rows miss the shape of their log-likelihood: the sd of the
difference over the effects given the data, by points of the density, is the error that is predicted. Where most rows
lie in cells of so few rows there is nothing to gain: all are kept, and a warning says so.

Passes: the one that checks the rows counts cells; five to fifteen find the density, three condense. Memory: some
blocks of rows, and a cell some (p + 20) Q numbers of 8 bytes, 64 (Q + 3) more while shapes are compared.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bayescore.coresets.cells.matching import matched, several
from bayescore.coresets.cells.occupied import Cells
from bayescore.coresets.cells.pseudo import Directions, directions_of
from bayescore.coresets.cells.settle import NEAR, Centre, centre_of
from bayescore.coresets.cells.start import Start, flat_mode
from bayescore.coresets.cells.sums import Density
from bayescore.coresets.cells.within import Inside, rows_within
from bayescore.coresets.method import BuildInfo
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.models.families import Family
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, IntArray, WeightedData, stack
from bayescore.validation import DataError

SHAPE = 0.005  # sd, in nats over the effects given the data, by which pseudo-rows may differ from their cell's rows,
TOGETHER = 0.3  # or this over the root of the number of cells if that is less: errors of cells may have one sign
GAIN = 0.9  # share of rows in cells of so few that they keep them, from which nothing is condensed
FAR = 0.05  # distance of the coefficients' means from the full data's, in posterior sds, that is warned of
MOST_EFFECTS = 3
_FIRST_SD = 0.5  # of effects, on a row of root mean square


@dataclass(frozen=True)
class MultilevelInfo(BuildInfo):
    """The prior; factors and cells, merged and kept; rows of each kind; by how many sds the mean of beta is off.

    `merged_cells` are pseudo-rows, one for each effect; `kept_small` and `kept_shape` have kept their `kept_rows`
    because they are few, or because pseudo-rows do not tell their shape. `pseudo_rows` counts a row of successes and
    one of failures as one; `effect_sds` are those of cells' effects, about; `shape_error` is the largest in nats,
    `bytes` the memory of sums by cell. In a stream `mode_error`, `cells`, what is kept and `pseudo_rows` are those of
    the last condensing. `moved` is how far, in sds of the posterior then, a coefficient, an effect or the log sd of
    effects has moved since earlier rows were condensed: the one that is furthest for its limit, `moved_limit`.
    """

    prior: str
    levels: list[int]
    cells: int
    merged_cells: int
    kept_small: int
    kept_shape: int
    kept_rows: int
    pseudo_rows: int
    effect_sds: list[float] | None
    mode_error: float
    shape_error: float
    bytes: int
    moved: float | None = None
    moved_limit: float | None = None


class Condensed(NamedTuple):
    """Rows, what is known about them, their cells, and their centre, None where all rows are kept.

    `doubts` say that the centre is off; `notes` that little is gained.
    """

    rows: WeightedData
    info: MultilevelInfo
    cells: Cells
    centre: Start | None
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def cautions(self) -> tuple[str, ...]:
        """What the user of a build should know."""
        return *self.doubts, *self.notes


def columns_of(design: Design) -> IntArray:
    """Return the columns that vary by some factor, the intercept's first; -1 for one that is no column."""
    asked = {effect: None for own in design.groups for effect in own.effects}
    if list(asked) == ["1"] and design.constant is None:
        return np.array([-1])
    if "1" in asked and design.constant is None:
        raise DataError(
            "intercept and slopes vary by group, (1 + x | g), the intercept about a mean that is no column: give "
            "intercept=True, or leave + 0 out of the formula"
        )
    found = [design.constant if effect == "1" else design.names.index(effect) for effect in asked]
    if len(found) > MOST_EFFECTS:
        raise DataError(
            f"{len(found)} coefficients vary by group ({', '.join(asked)}); method='multilevel' condenses groups in at "
            f"most {MOST_EFFECTS}: let fewer vary, or sample all_rows(...)"
        )
    return np.array(sorted(int(place) for place in found if place is not None), dtype=np.int64)


def condense(dataset: Dataset, prior: Prior, family: Family, start: Start | None = None) -> Condensed:
    """Return the condensed rows, and their centre; all rows, and a note, where there is nothing to gain.

    `start` is the centre of a part of the rows.
    """
    columns = columns_of(dataset.design)
    beta = flat_mode(dataset, family, prior) if start is None else start.beta  # before the scan, which draws a sample
    cells = Cells.of(dataset)
    few = cells.counts <= 2 * len(columns)  # pseudo-rows would be as many rows
    n_rows, sizes = dataset.scan.n_rows, [len(own) for own in dataset.design.groups]
    if cells.counts[few].sum() > GAIN * n_rows:
        note = (
            f"{cells.counts[few].sum():,} of {n_rows:,} rows lie in {few.sum():,} groups, or cells of groups, of so "
            "few rows that condensing them would save nothing: all rows are kept as they are; where all columns are "
            "discrete method='aggregate' merges those that repeat"
        )
        n_few, rows = int(few.sum()), dataset.load()
        info = MultilevelInfo(
            repr(prior), sizes, len(cells), 0, n_few, len(cells) - n_few, n_rows, 0, None, 0.0, 0.0, 0
        )
        return Condensed(rows, info, cells, None, notes=(note,))
    seen = cells.seen(dataset)
    unit = _unit(dataset, columns)
    if start is None:
        begin = Density.start(beta, np.diag((_FIRST_SD * unit) ** 2), len(cells), columns)
    else:
        begin = start.density(cells, columns)
    found = centre_of(seen, begin, family, prior, unit=unit)
    doubts, notes = [], []
    if not found.last < NEAR:
        doubts.append(
            f"the posterior's centre was not reached, the last step was {found.last:.2g} sds: compare with "
            "all_rows(...) on fewer rows, or give a narrower prior="
        )
    along = directions_of(found.sums, found.points.at)
    inside = _of_cells(seen, found, along, few)
    within, error = rows_within(seen, found, along, inside)
    rows = stack([inside.pseudo, within, inside.kept])
    info = MultilevelInfo(
        prior=repr(prior),
        levels=sizes,
        cells=len(cells),
        merged_cells=int(inside.merged[:-1].sum()),
        kept_small=int(few.sum()),
        kept_shape=int((~inside.merged[:-1] & ~few).sum()),
        kept_rows=len(inside.kept),
        pseudo_rows=sum(_n_different(part) for part in (inside.pseudo, within)),
        effect_sds=np.sqrt(np.diagonal(found.points.at.prior)).tolist(),
        mode_error=error,
        shape_error=float(inside.missed[inside.merged[:-1]].max(initial=0.0)),
        bytes=8 * len(inside.merged) * len(columns) * (3 * dataset.n_features + 20),
    )
    if not info.mode_error <= FAR:
        doubts.append(
            f"the mean of the coreset's coefficients is {info.mode_error:.2g} sds off the full data's: give narrower "
            "priors, or sample all_rows(...)"
        )
    if info.kept_rows > 0.5 * n_rows:
        notes.append(
            f"{info.kept_rows:,} of {n_rows:,} rows are kept as they are: groups, or cells of groups, of few rows "
            "cannot be condensed honestly; where all columns are discrete method='aggregate' is lossless"
        )
    assert rows.group is not None
    rows = replace(rows, group=cells.groups_of(rows.group[:, 0]))
    centre = Start.of(found.points.at, cells, inside.merged[:-1], start)
    return Condensed(rows, info, cells, centre, tuple(doubts), tuple(notes))


def _unit(dataset: Dataset, columns: IntArray) -> FloatArray:
    """Return the effects in `columns` that move a row of root mean square by 1.

    Pseudo-rows of a stream are in units of their own: a column's size is that beside the column of ones.
    """
    scan, constant = dataset.scan, dataset.design.constant
    ones = scan.weight_total if constant is None else scan.squares[constant]
    size = np.sqrt(scan.squares / max(float(ones), np.finfo(float).tiny))
    return np.asarray(1.0 / np.where(columns < 0, 1.0, np.maximum(size[columns], np.finfo(float).tiny)))


def _of_cells(seen: Dataset, found: Centre, along: Directions, few: np.ndarray) -> Inside:
    """Return the rows that stand for cells; one pass. Those of `few` rows, shape (C,), keep them."""
    limit = min(SHAPE, TOGETHER / math.sqrt(len(few)))
    pseudo, missed = matched(found, along, limit)
    merged = np.append(~few & (missed < limit), True)
    assert pseudo.group is not None
    kept = _rows_of(seen, ~merged, pseudo.take(slice(0)))
    assert kept.group is not None
    more, those = several(found, along.slope(found.sums.cross), kept.take(~few[kept.group[:, 0]]), limit)
    pseudo = stack([pseudo.take(merged[pseudo.group[:, 0]]), more])
    merged[those], missed[those] = True, 0.0
    return Inside(pseudo, kept.take(~merged[kept.group[:, 0]]), merged, missed)


def _rows_of(seen: Dataset, kept: np.ndarray, none: WeightedData) -> WeightedData:
    """Return the rows of the cells `kept`, shape (C + 1,), in order after `none`; one pass."""
    if not kept.any():
        return none

    def of_block(_: int, block: WeightedData) -> WeightedData:
        assert block.group is not None
        return block.take(kept[block.group[:, 0]])

    return stack([none, *seen.map(of_block, "rows of small cells", here=True)])


def _n_different(rows: WeightedData) -> int:
    """Return how many rows there are if neighbours of the same predictor count once: successes and failures of one."""
    predictor = np.column_stack([rows.X, np.zeros(len(rows)) if rows.offset is None else rows.offset])
    return int(np.count_nonzero(np.diff(predictor, axis=0, prepend=np.nan).any(axis=1)))
