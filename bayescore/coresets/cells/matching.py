"""Pseudo-rows of cells that give the cells' effects the posterior that their rows give them, and how nearly they do."""

from dataclasses import replace

import numpy as np
from scipy.optimize import nnls

from bayescore.coresets.cells.points import shapes
from bayescore.coresets.cells.pseudo import Directions, pseudo_rows_of
from bayescore.coresets.cells.settle import Centre
from bayescore.coresets.ties import largest
from bayescore.types import NO_ROW, FloatArray, IntArray, WeightedData, stack

_TIMES = (
    0.5,
    0.7,
    0.35,
    1.0,
)  # of the curvature that has the averaged fourth derivative: the best one varies
_ROUNDS = 4  # in which score and curvature are moved
_MOST = 2.0  # by which a round changes a curvature
_TIGHTER = 0.2  # of the limit: what one pseudo-row misses at most before others are tried, and several miss at most
_FLAT = 1e-6  # of the largest, sd over the nodes below which a row says nothing


def matched(found: Centre, along: Directions, limit: float) -> tuple[WeightedData, FloatArray]:
    """Return pseudo-rows of all cells, and by how much they miss the shape of the cells' log-likelihoods, shape (C,).

    They give the effects of each cell the mean and variance that its rows give them, by quadrature. What they miss is
    the sd, over the effects given the rows, of the difference of log-likelihoods; where it is not far below `limit`
    other curvatures of pseudo-rows are tried.
    """
    rows, missed = _balanced(found, along, _TIMES[0])
    for times in () if found.points.at.free else _TIMES[1:]:
        far = np.append(missed > _TIGHTER * limit, False)
        if not far.any():
            break
        others, more = _balanced(found, along.of(far), times)
        better = far & np.append(more < missed, False)
        assert rows.group is not None
        assert others.group is not None
        rows = stack([rows.take(~better[rows.group[:, 0]]), others.take(better[others.group[:, 0]])])
        missed = np.where(better[:-1], more, missed)
    return rows, missed


def _balanced(found: Centre, along: Directions, times: float) -> tuple[WeightedData, FloatArray]:
    points, sums = found.points, found.sums
    mean, precision = points.moments(found.shares)
    score, curvature = np.zeros(along.told.shape), np.ones(along.told.shape)
    for left in reversed(range(_ROUNDS)):
        rows = pseudo_rows_of(sums, points, along, (score, curvature), times)
        values = points.values_of(rows)
        if left:
            here, narrow = points.moments(points.shares(values))
            score = score + np.einsum("ckq,cqr,cr->ck", along.u, precision, mean - here)
            more = 1.0 + np.einsum("ckq,cqr,ckr->ck", along.u, precision - narrow, along.u)
            curvature = curvature * np.clip(more, 1.0 / _MOST, _MOST)
    return rows, shapes(found.shares, found.values - values)[:-1]


def several(found: Centre, slope: FloatArray, kept: WeightedData, limit: float) -> tuple[WeightedData, IntArray]:
    """Return pseudo-rows of cells for which one an effect does not do, as of rows of one label, and those cells.

    They are fewer of the cell's rows with more weight. Rows are chosen one after the other, each the one nearest what
    is left to say; weights follow by non-negative least squares over the nodes, weighted by w. Their covariates are
    M' z, M = H^-1 B of `slope`, shape (C + 1, Q, p), as those of other pseudo-rows of the cell would be. Cells that
    need as many as they have rows, or whose shape is then off by more than a part of `limit`, have none.
    """
    assert kept.group is not None
    points, shares = found.points, found.shares
    kept, parts = kept.take(np.argsort(kept.group[:, 0], kind="stable")), [kept.take(slice(0))]
    assert kept.group is not None
    for c, start, size in zip(*np.unique(kept.group[:, 0], return_index=True, return_counts=True), strict=True):
        rows = kept.take(slice(start, start + size))
        own, share = np.full(len(rows), c), shares[c]
        X = points.at.multipliers(rows.X) @ slope[c]
        offset = (rows.X - X) @ points.at.beta + (0.0 if rows.offset is None else rows.offset)
        pseudo = replace(rows, X=X, offset=offset, index=np.full(len(X), NO_ROW))
        columns, target = (
            (log_p - (log_p @ share)[:, None]).T * np.sqrt(share)[:, None]
            for log_p in (points.log_p(pseudo, own), points.log_p(rows, own).sum(axis=0, keepdims=True))
        )
        weights = _weights(columns, target[:, 0], _TIGHTER * limit)
        if weights is not None:
            parts.append(pseudo.with_weights(rows.weights * weights).take(weights > 0.0))
    chosen_rows = stack(parts)
    assert chosen_rows.group is not None
    return chosen_rows, np.unique(chosen_rows.group[:, 0])


def _weights(columns: FloatArray, target: FloatArray, limit: float) -> FloatArray | None:
    """Return weights, shape (n,), mostly 0, with which columns, shape (K, n), add up to `target`, within `limit`.

    None where it takes all columns. Few are chosen, so that their weights are well determined.
    """
    size = np.linalg.norm(columns, axis=0)
    unit = columns / np.maximum(size, _FLAT * size.max())
    chosen, left, weights = list[int](), target, np.zeros(len(size))
    while len(chosen) < min(len(size) - 1, len(target)):
        gain = unit.T @ left
        gain[chosen] = 0.0
        if not gain.max() > 0.0:
            return None
        chosen.append(largest(gain))
        found, miss = nnls(unit[:, chosen], target)
        if miss < limit:
            weights[chosen] = np.where(found > _FLAT * found.max(), found / size[chosen], 0.0)
            return weights
        left = target - unit[:, chosen] @ found
    return None
