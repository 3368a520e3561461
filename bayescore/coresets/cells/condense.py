r"""Rows of several grouping factors, or with slopes that vary, condensed by cell: pseudo-rows for each cell's effects.

The rows of a cell, a combination of all factors' levels that occurs, see the same effects: those of all factors add
up to one vector b_c, in the columns whose coefficients vary (the intercept alone: one number). So whatever the factors
are, nested, crossed or one, a cell's rows tell of them by a function of b_c alone, of which pseudo-rows (`pseudo`) have
score, curvature and third derivatives, averaged over a normal density (`settle`) of a model that knows of cells only,
b_c ~ N(0, S): what it says of b_c is wider than what the factors say together, and covers it.

Cells of few rows keep them, and so do those whose pseudo-rows miss the shape of their log-likelihood: the sd of the
difference over the effects given the data, by points of the density, is the error that is predicted. Where most rows
lie in cells of so few rows there is nothing to gain: all are kept, and a warning says so.

Passes: one finds the cells, about ten the density, four condense. Memory: some blocks of rows, and a cell some
(p + 20) Q numbers of 8 bytes, 64 (Q + 3) more while shapes are compared.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bayescore.coresets.cells.occupied import Cells
from bayescore.coresets.cells.pseudo import Within, directions_of, pseudo_rows_of
from bayescore.coresets.cells.settle import NEAR, converged, imbalance
from bayescore.coresets.cells.sums import Density, by_cell, sums_of, sums_of_rows
from bayescore.coresets.method import BuildInfo
from bayescore.coresets.within_groups import rows_of_groups
from bayescore.data.opened import Opened
from bayescore.data.passes.cutter import MAX_BLOCK_ROWS
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, IntArray, Likelihood, WeightedData, stack
from bayescore.validation import DataError, warn

SHAPE = 0.02  # sd, in nats over the effects given the data, by which pseudo-rows may differ from their cell's rows
GAIN = 0.9  # share of rows in cells of so few that they keep them, from which nothing is condensed
FAR = 0.05  # distance of the coefficients' means from the full data's, in posterior sds, that is warned of
_POINTS = 64  # of the density, at which shapes are compared
MOST_EFFECTS = 3


@dataclass(frozen=True)
class CellInfo(BuildInfo):
    """The prior; factors and cells, merged and kept; rows of each kind; by how many sds the mean of beta is off.

    `merged_cells` are pseudo-rows, one for each effect; `kept_small` and `kept_shape` have kept their `kept_rows`
    because they are few, or because pseudo-rows do not tell their shape. `pseudo_rows` counts a row of successes and
    one of failures as one; `effect_sds` are those of cells' effects, about; `shape_error` is the largest in nats,
    `bytes` the memory of sums by cell.
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


def columns_of(opened: Opened) -> IntArray:
    """Return the columns whose coefficients vary by some factor, the intercept's first.

    Raises
    ------
    DataError
        If an intercept varies that the rows do not have, or more than `MOST_EFFECTS` columns do.
    """
    design = opened.design
    asked = {effect: None for own in design.groups for effect in own.effects}
    if "1" in asked and design.constant is None:
        raise DataError(
            "the intercept varies by group, (1 | g), about a mean that is no column: give intercept=True, or leave + 0 "
            "out of the formula"
        )
    found = [design.constant if effect == "1" else design.names.index(effect) for effect in asked]
    if len(found) > MOST_EFFECTS:
        raise DataError(
            f"{len(found)} coefficients vary by group ({', '.join(asked)}); method='multilevel' condenses groups in at "
            f"most {MOST_EFFECTS}: let fewer vary, or sample full_data(...)"
        )
    return np.array(sorted(int(place) for place in found if place is not None), dtype=np.int64)


def condense(opened: Opened, prior: Prior, link: Likelihood) -> tuple[WeightedData, CellInfo]:
    """Return the condensed rows; all of them, and a warning, where there is nothing to gain."""
    columns, cells = columns_of(opened), Cells.of(opened)
    few = cells.counts <= 2 * len(columns)  # pseudo-rows would be as many rows
    n_rows, sizes = opened.scan.n_rows, [len(own) for own in opened.design.groups]
    if cells.counts[few].sum() > GAIN * n_rows:
        warn(
            f"{cells.counts[few].sum():,} of {n_rows:,} rows lie in {few.sum():,} groups, or cells of groups, of so "
            "few rows that condensing them would save nothing: all rows are kept as they are; where all columns are "
            "discrete method='aggregate' merges those that repeat"
        )
        n_few, rows = int(few.sum()), opened.gathered()
        info = CellInfo(repr(prior), sizes, len(cells), 0, n_few, len(cells) - n_few, n_rows, 0, None, 0.0, 0.0, 0)
        return rows, info
    seen = cells.seen(opened)
    at, last = converged(seen, len(cells), columns, link, prior)
    if not last < NEAR:
        warn(
            f"the posterior's centre was not reached, the last step was {last:.2g} sds: compare with full_data(...) on "
            "fewer rows, or give a narrower prior="
        )
    sums = sums_of(seen, at, link)
    along = directions_of(sums, at)
    pseudo = pseudo_rows_of(sums, at, along, link)
    shape = _shape(seen, pseudo, at, link)
    merged = np.append(~few & (shape < SHAPE), True)
    kept = rows_of_groups(seen, ~merged, "rows of small cells")
    within = Within.of(sums, None if kept is None else sums_of_rows(kept, at, link), along, merged)
    assert pseudo.group is not None
    parts = [pseudo.take(merged[pseudo.group[:, 0]]), within.rows(seen, at, merged, link)]
    rows = stack(parts if kept is None else [*parts, kept])
    info = CellInfo(
        prior=repr(prior),
        levels=sizes,
        cells=len(cells),
        merged_cells=int(merged[:-1].sum()),
        kept_small=int(few.sum()),
        kept_shape=int((~merged[:-1] & ~few).sum()),
        kept_rows=0 if kept is None else len(kept),
        pseudo_rows=sum(int(np.count_nonzero(np.diff(part.X, axis=0, prepend=np.nan).any(axis=1))) for part in parts),
        effect_sds=np.sqrt(np.diagonal(at.prior)).tolist(),
        mode_error=imbalance(sums, sums_of_rows(rows, at, link), at, prior),
        shape_error=float(shape[merged[:-1]].max(initial=0.0)),
        bytes=8 * len(merged) * len(columns) * (3 * opened.n_features + 20),
    )
    if not info.mode_error <= FAR:
        warn(
            f"the mean of the coreset's coefficients is {info.mode_error:.2g} sds off the full data's: give narrower "
            "priors, or sample full_data(...)"
        )
    if info.kept_rows > 0.5 * n_rows:
        warn(
            f"{info.kept_rows:,} of {n_rows:,} rows are kept as they are: groups, or cells of groups, of few rows "
            "cannot be condensed honestly; where all columns are discrete method='aggregate' is lossless"
        )
    assert rows.group is not None
    return replace(rows, group=cells.groups_of(rows.group[:, 0])), info


def _shape(seen: Opened, pseudo: WeightedData, at: Density, link: Likelihood) -> FloatArray:
    """Return the sd over its effects of the log-likelihood of each cell less its pseudo-rows', shape (C,); one pass."""
    C, Q = len(at.mean) - 1, len(at.columns)
    half = np.random.default_rng(0).standard_normal((Q, _POINTS // 2))
    L = np.zeros_like(at.variance)
    L[:-1] = np.linalg.cholesky(at.variance[:-1])
    effects = at.mean[:, :, None] + L @ np.hstack([half, -half])
    work = partial(_values, at, effects, link)
    full = np.zeros((C + 1, _POINTS))
    for found, own in seen.map(work, "shapes of cells", canonical=True, here=True):
        full[found] += own
    for start in range(0, len(pseudo), MAX_BLOCK_ROWS):  # as many points of all at once would be much
        found, own = work(0, pseudo.take(slice(start, start + MAX_BLOCK_ROWS)))
        full[found] -= own
    return np.asarray(full[:-1].std(axis=1))


def _values(
    at: Density, effects: FloatArray, link: Likelihood, _: int, block: WeightedData
) -> tuple[IntArray, FloatArray]:
    """Return the log-likelihood of each cell at its points, shape (C, K)."""
    found, rows, own, first = by_cell(block, len(at.mean) - 1)
    eta = rows.X @ at.beta + (0.0 if rows.offset is None else rows.offset)
    moved = eta[:, None] + np.einsum("nq,nqk->nk", rows.X[:, at.columns], effects[own])
    log_p = rows.weights[:, None] * link.log_p(rows.y[:, None] * moved)
    return found, np.add.reduceat(log_p, first, axis=0)
