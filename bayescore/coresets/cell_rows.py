r"""Pseudo-rows of cells that give the cells' effects the posterior that their rows give them, and how nearly they do.

What rows say about beta within their cells, as pseudo-rows of no cell: one for each direction.

The score and curvature of all rows, with the effects integrated out, less those of the rows that stand for cells are
condensed along their own directions in beta. Third and fourth derivatives along these are sums over
d_n = x_n - B' H^-1 z_n, what a row has beside its cell's pseudo-rows. Directions of hardly any curvature share one more
pseudo-row, which has their score.

Pseudo-rows of cells, up to Q each, at a normal density of all coefficients.

With H = sum c z z' of a cell, B = sum c z x', V the covariance of its effects given the rest (`CellPosterior`) and
V = L L': eigenvectors q_k, mu_k of L' H L give directions v_k = L^-T q_k sqrt(mu_k), dual u_k = L q_k / sqrt(mu_k).
Jacobi's rotations turn them until the tensor of third derivatives along the u_k is as nearly diagonal as may be (two
values of z, as of a 0/1 column, are found so).

Pseudo-row k has the covariates x_k = B' u_k, whose varying columns are v_k, over sqrt(D_k), and by
`pseudo_rows` the cell's averaged score, curvature, third and fourth derivative along u_k: together the
cell's whole block of the curvature, that with beta included.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from bayescore.compiled import jit, jit_inner
from bayescore.coresets.cell_centre import BlockScores, CellNodes, Centre, Integrated, block_scores, sds_over_effects
from bayescore.coresets.cells import CellPosterior, CellSums, Predicted, sums_of_rows
from bayescore.coresets.pseudo_rows import TIED, Solved, TargetDerivatives, as_rows, oriented, solve
from bayescore.data.dataset import Dataset
from bayescore.numerics.elementary import copy_to, largest
from bayescore.types import NO_GROUP, NO_ROW, FloatArray, IntArray, WeightedData, stack

_LEAST = 1e-6  # curvature along a direction, of the precision of the effects given all rows: below, it says nothing


_ANGLES = 64  # tried of a rotation in a quarter turn


_SWEEPS = 4


_CHUNK = 5000  # pseudo-rows solved at a time


_ROWS = 4096  # evaluated at their cells' nodes at a time


@dataclass(frozen=True, eq=False)
class CellDirections:
    """Directions of C cells: v and u, shape (C, K, Q), 0 where there are fewer than K, and covariates (C, K, p)."""

    v: FloatArray
    u: FloatArray
    x: FloatArray

    @property
    def present(self) -> np.ndarray:
        """Where there is a direction, shape (C, K)."""
        return np.asarray(self.v.any(axis=2))

    def of(self, cells: NDArray[np.bool_]) -> "CellDirections":
        """Return those of some cells; the others, of C in all, have none."""
        index = cells[:, None, None]
        return CellDirections(self.v * index, self.u * index, self.x * index)

    def slope(self, cross: FloatArray) -> FloatArray:
        """Return M = H^-1 B, shape (C, Q, p), given B."""
        return np.asarray(np.einsum("ckq,ckr,crp->cqp", self.u, self.u, cross))


def directions_of(sums: CellSums, at: CellPosterior) -> CellDirections:
    """Return directions of each cell's curvature; of the last entry, rows of no cell, none."""
    V = at.variance.copy()
    V[-1] = np.eye(V.shape[1])
    L, B = np.linalg.cholesky(V), sums.cross
    mu, Q = np.linalg.eigh(L.transpose(0, 2, 1) @ sums.information @ L)
    informed = mu > _LEAST
    size = np.sqrt(np.where(informed, mu, 1.0)) * informed
    u = (L @ Q).transpose(0, 2, 1) * np.where(informed, 1.0 / np.where(informed, size, 1.0), 0.0)[:, :, None]
    v = np.linalg.solve(L.transpose(0, 2, 1), Q).transpose(0, 2, 1) * size[:, :, None]
    v, u = _turned(v, u, informed, sums.third)
    x = np.einsum("ckq,cqp->ckp", u, B)
    if not at.free:
        x[:, :, at.columns] = v  # the same but for rounding
    return CellDirections(v, u, x)


def _turned(v: FloatArray, u: FloatArray, informed: np.ndarray, third: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return directions turned in pairs until the squares of third derivatives along them add up to most."""
    K = v.shape[1]
    angle = 0.5 * np.pi * np.arange(_ANGLES) / _ANGLES
    cos, sin = np.cos(angle), np.sin(angle)
    for _ in range(_SWEEPS if K > 2 else 1):
        for i in range(K):
            for j in range(i):
                a, b = u[:, i], u[:, j]
                t = [_contract(third, *one) for one in ((a, a, a), (a, a, b), (a, b, b), (b, b, b))]
                best = _best_angle(t, cos, sin) * (informed[:, i] & informed[:, j])
                c, s = np.cos(best)[:, None], np.sin(best)[:, None]
                for w in (u, v):
                    w[:, i], w[:, j] = c * w[:, i] + s * w[:, j], c * w[:, j] - s * w[:, i]
    return v, u


def _best_angle(t: list[FloatArray], cos: FloatArray, sin: FloatArray) -> FloatArray:
    """Return the angle of the largest sum of squares, on a grid, then by the parabola through its neighbours."""

    def total(c: FloatArray, s: FloatArray) -> FloatArray:
        aaa, aab, abb, bbb = (each[:, None] for each in t)
        first = aaa * c**3 + 3.0 * aab * c**2 * s + 3.0 * abb * c * s**2 + bbb * s**3
        second = bbb * c**3 - 3.0 * abb * c**2 * s + 3.0 * aab * c * s**2 - aaa * s**3
        return np.asarray(first**2 + second**2)

    width = 0.5 * np.pi / len(cos)
    best = total(cos, sin).argmax(axis=1) * width
    for _ in range(3):
        near = best[:, None] + np.array([-width, 0.0, width])
        left, here, right = total(np.cos(near), np.sin(near)).T
        bend = left - 2.0 * here + right
        best = best + np.where(bend < 0.0, 0.5 * width * (left - right) / np.where(bend < 0.0, bend, 1.0), 0.0)
        width *= 0.1
    return np.asarray(best)


def _contract(tensor: FloatArray, *vectors: FloatArray) -> FloatArray:
    for vector in vectors:
        tensor = np.einsum("cq...,cq->c...", tensor, vector)
    return np.asarray(tensor)


def pseudo_rows_of(
    sums: CellSums,
    points: CellNodes,
    along: CellDirections,
    moved: tuple[FloatArray, FloatArray],
    start: float | Solved,
) -> tuple[WeightedData, Solved]:
    """Return the pseudo-rows of all cells, failures and successes of each, with the code of the cell as group.

    moved, shape (C + 1, K) each: what is added to the score along a direction, and what its curvature is multiplied by.
    start: factor of the curvature D that has the averaged fourth derivative, or pseudo-rows for about these moves.
    """
    at, family = points.at, points.family
    cell, k = np.nonzero(along.present)
    root = np.sqrt(moved[1][cell, k])[:, None]
    u, v, x = along.u[cell, k] / root, along.v[cell, k] * root, along.x[cell, k] * root
    wanted = TargetDerivatives(
        (u * sums.score[cell]).sum(axis=1) + moved[0][cell, k] / root[:, 0],
        _contract(sums.third[cell], u, u, u),
        _contract(sums.fourth[cell], u, u, u, u),
        v[:, 0] ** 2 * at.variances(x / v, cell) if at.free else at.variances(x, cell),
    )
    cuts = [np.arange(first, min(first + _CHUNK, len(cell))) for first in range(0, max(1, len(cell)), _CHUNK)]
    # rows that do not have the column of ones cannot have a multiple of it
    parts = [
        solve(
            wanted.take(cut),
            family,
            times=start if isinstance(start, float) else 1.0,
            size=v[cut, 0] ** 2 if at.free else None,
            start=None if isinstance(start, float) else Solved(*(value[cut] for value in start)),
        )
        for cut in cuts
    ]
    solved = Solved(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    size, eta, successes, failures, sign = solved
    scale = (sign / np.sqrt(size))[:, None]
    X, z = x * scale, v * scale
    offset = eta - X @ at.beta - (z * at.mean[cell]).sum(axis=1)
    w = np.stack([failures, successes], axis=1).ravel()
    pair = np.repeat(np.arange(len(cell)), 2)
    y = np.tile(np.array([-1, 1], dtype=np.int8), len(cell))
    rows = WeightedData(X[pair], y, w, np.full(len(w), NO_ROW), offset=offset[pair], group=cell[pair][:, None])
    return rows.take(w > 0.0), solved


_TIMES = (0.5, 0.7, 0.35, 1.0)  # of the curvature that has the averaged fourth derivative: the best one varies


_ROUNDS = 4  # in which score and curvature are moved


_MOST = 2.0  # by which a round changes a curvature


_TIGHTER = 0.2  # of the limit: what one pseudo-row misses at most before others are tried, and several miss at most


_TURNS = 3  # for each row that may have a weight


_ROUNDING = 1e-12


_FLAT = 1e-6  # of the largest, sd over the nodes below which a row says nothing


def match_cells(centre: Centre, along: CellDirections, limit: float) -> tuple[WeightedData, FloatArray]:
    """Return pseudo-rows of all cells, and by how much they miss the shape of the cells' log-likelihoods, shape (C,).

    They give the effects of each cell the mean and variance that its rows give them, by quadrature. What they miss is
    the sd, over the effects given the rows, of the difference of log-likelihoods; where it is not far below `limit`
    other curvatures of pseudo-rows are tried.
    """
    rows, missed = _match_moments(centre, along, _TIMES[0])
    for times in () if centre.points.at.free else _TIMES[1:]:
        far = np.append(missed > _TIGHTER * limit, False)
        if not far.any():
            break
        others, more = _match_moments(centre, along.of(far), times)
        better = far & np.append(more < missed, False)
        rows = stack([rows.take(~better[rows.group_codes[:, 0]]), others.take(better[others.group_codes[:, 0]])])
        missed = np.where(better[:-1], more, missed)
    return rows, missed


def _match_moments(centre: Centre, along: CellDirections, times: float) -> tuple[WeightedData, FloatArray]:
    points, sums = centre.points, centre.sums
    mean, precision = points.moments(centre.shares)
    score, curvature = np.zeros(along.present.shape), np.ones(along.present.shape)
    start: float | Solved = times
    for left in reversed(range(_ROUNDS)):
        rows, start = pseudo_rows_of(sums, points, along, (score, curvature), start)
        values = points.values_of(rows)
        if left:
            here, narrow = points.moments(points.shares(values))
            score = score + np.einsum("ckq,cqr,cr->ck", along.u, precision, mean - here)
            more = 1.0 + np.einsum("ckq,cqr,ckr->ck", along.u, precision - narrow, along.u)
            curvature = curvature * np.clip(more, 1.0 / _MOST, _MOST)
    return rows, sds_over_effects(centre.shares, centre.values - values)[:-1]


def select_pseudo_rows(
    centre: Centre, slope: FloatArray, kept: WeightedData, limit: float
) -> tuple[WeightedData, IntArray]:
    """Return pseudo-rows of cells for which one per effect does not suffice, as of one label, and those cells.

    They are fewer of the cell's rows with more weight. Rows are chosen one after the other, each the one nearest what
    is left to say; weights follow by non-negative least squares over the nodes, weighted by w. Their covariates are
    M' z, M = H^-1 B of `slope`, shape (C + 1, Q, p), as those of other pseudo-rows of the cell would be. Cells that
    need as many as they have rows, or whose shape is then off by more than a part of `limit`, have none.
    """
    assert kept.group is not None
    points, order = centre.points, np.argsort(kept.group[:, 0], kind="stable")
    kept, parts = kept.take(order), [kept.take(slice(0))]
    assert kept.group is not None
    for rows in _by_whole_cells(kept):
        assert rows.group is not None
        z, cell = points.at.multipliers(rows.X), rows.group[:, 0]
        X = sum(z[:, q, None] * slope[cell, q] for q in range(z.shape[1]))
        offset = (rows.X - X) @ points.at.beta + (0.0 if rows.offset is None else rows.offset)
        pseudo = replace(rows, X=X, offset=offset, index=np.full(len(X), NO_ROW))
        starts = np.append(np.unique(cell, return_index=True)[1], len(cell))
        shares, weights = np.ascontiguousarray(centre.shares[cell[starts[:-1]]]), np.zeros(len(cell))
        _choose_rows((points.log_p(pseudo), points.log_p(rows)), starts, shares, limit, weights)
        parts.append(pseudo.with_weights(pseudo.weights * weights).take(weights > 0.0))
    chosen_rows = stack(parts)
    assert chosen_rows.group is not None
    return chosen_rows, np.unique(chosen_rows.group[:, 0])


def _by_whole_cells(rows: WeightedData) -> Iterator[WeightedData]:
    """Yield rows that stand by cell, some cells at a time: `_ROWS` rows, or one cell of more."""
    bounds, first = np.append(np.unique(rows.group_codes[:, 0], return_index=True)[1], len(rows)), 0
    while first < len(bounds) - 1:
        last = max(first + 1, int(np.searchsorted(bounds, bounds[first] + _ROWS, "right")) - 1)
        yield rows.take(slice(int(bounds[first]), int(bounds[last])))
        first = last


@jit
def _choose_rows(
    log_p: tuple[FloatArray, FloatArray], starts: IntArray, shares: FloatArray, limit: float, weights: FloatArray
) -> None:
    """Choose few rows of each cell; write the factors on their weights, 0 of rows not chosen, shape (n,).

    `log_p` are what candidates and rows say at the nodes, shape (n, K) each, of cells that begin at `starts`; `shares`
    are those of the nodes, (cells, K). Candidates add up to the rows within `_TIGHTER` of `limit`, or within half of it
    if none brings them nearer; a cell for which that takes all has weights of 0. Few are chosen, so that their weights
    are well determined.
    """
    (candidates, rows), K = log_p, shares.shape[1]
    for c in range(len(shares)):
        first, n, share = starts[c], starts[c + 1] - starts[c], shares[c]
        unit, size, target, left = np.empty((n, K)), np.zeros(n), np.zeros(K), np.zeros(K)
        for m in range(n):
            for k in range(K):
                unit[m, k] = candidates[first + m, k]
                target[k] += rows[first + m, k]
            size[m] = _centre_and_weigh(unit[m], share)
        _centre_and_weigh(target, share)
        most = largest(size)
        for m in range(n):
            for k in range(K):
                unit[m, k] /= max(size[m], _FLAT * most)
        chosen, solution, count = np.empty(n, dtype=np.int64), np.zeros(n), 0
        copy_to(left, target)
        miss, taken = math.inf, np.zeros(n, dtype=np.bool_)
        while miss >= _TIGHTER * limit and count < min(n - 1, K):
            best, gain = -1, 0.0
            for m in range(n):
                own = _ordered_dot(unit[m], left)
                if not taken[m] and own * (1.0 - TIED) > gain:
                    best, gain = m, own
            if best < 0:
                break
            chosen[count], taken[best] = best, True
            count += 1
            miss = _solve_nonnegative(unit, target, chosen[:count], solution, left)
        if miss >= (0.5 if count < n - 1 else _TIGHTER) * limit:
            continue
        top = largest(solution[:count])
        for i in range(count):
            if solution[i] > _FLAT * top:
                weights[first + chosen[i]] = solution[i] / size[chosen[i]]


@jit_inner
def _centre_and_weigh(values: FloatArray, share: FloatArray) -> float:
    """Take the mean over nodes off values, multiply them by the roots of shares, and return their length."""
    mean = _ordered_dot(share, values)
    for k in range(values.size):
        values[k] = (values[k] - mean) * math.sqrt(share[k])
    return math.sqrt(_ordered_dot(values, values))


@jit_inner
def _ordered_dot(a: FloatArray, b: FloatArray) -> float:
    """Return the dot product, summed in order, since it decides on rows: `elementary.dot` sums in any order."""
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@jit_inner
def _solve_nonnegative(
    unit: FloatArray, target: FloatArray, chosen: IntArray, solution: FloatArray, left: FloatArray
) -> float:
    """Write the weights of chosen rows that bring their sum nearest the target, none negative, and what is left.

    Those of all but the last are the solution without it. By Lawson and Hanson (1974), Solving Least Squares Problems,
    chapter 23, with a QR factor of the rows in use anew in each step, as they are few. Returns the length of the rest.
    """
    n, K, distance = chosen.size, target.size, 0.0
    used, free = np.zeros(n, dtype=np.bool_), np.empty(n)
    for i in range(n):
        used[i] = solution[i] > 0.0
    used[n - 1] = True
    for _ in range(_TURNS * n):
        _least_squares(unit, target, chosen, used, free)
        step, worst = 1.0, -1
        for i in range(n):
            if used[i] and not free[i] > 0.0:
                share = solution[i] / (solution[i] - free[i]) if solution[i] > 0.0 else 0.0
                if share < step:
                    step, worst = share, i
        for i in range(n):
            solution[i] += step * (free[i] - solution[i]) if used[i] else -solution[i]
        if worst >= 0:
            solution[worst], used[worst] = 0.0, False
            continue
        for k in range(K):
            left[k] = target[k]
            for i in range(n):
                left[k] -= solution[i] * unit[chosen[i], k]
        best, gain, distance = -1, 0.0, math.sqrt(_ordered_dot(left, left))
        for i in range(n):
            own = _ordered_dot(unit[chosen[i]], left)
            if not used[i] and own > max(gain, _ROUNDING * distance):
                best, gain = i, own
        if best < 0:
            break
        used[best] = True
    return distance


@jit_inner
def _least_squares(
    unit: FloatArray, target: FloatArray, chosen: IntArray, used: NDArray[np.bool_], free: FloatArray
) -> None:
    """Write the weights of the rows in use whose sum is nearest the target, by Gram and Schmidt done twice."""
    n, K, count = chosen.size, target.size, 0
    Q, R, place = np.empty((n, K)), np.zeros((n, n)), np.empty(n, dtype=np.int64)
    for i in range(n):
        if not used[i]:
            continue
        for k in range(K):
            Q[count, k] = unit[chosen[i], k]
        for _ in range(2):
            for j in range(count):
                along = _ordered_dot(Q[j], Q[count])
                for k in range(K):
                    Q[count, k] -= along * Q[j, k]
                R[j, count] += along
        R[count, count] = max(math.sqrt(_ordered_dot(Q[count], Q[count])), _ROUNDING)
        for k in range(K):
            Q[count, k] /= R[count, count]
        place[count] = i
        count += 1
    for j in range(count - 1, -1, -1):
        own = _ordered_dot(Q[j], target)
        for i in range(j + 1, count):
            own -= R[j, i] * free[place[i]]
        free[place[j]] = own / R[j, j]


_NOTHING = 1e-3  # curvature of a direction, in units of the posterior's: below it no sd changes by more than 0.05%


_LESS = 0.01  # the same, by which pseudo-rows of cells may say more than the rows where a direction counts as flat


_SHIFT = 0.01  # sds by which the score along flat directions may move the mean, before a pseudo-row has it


_TURNED_FAR = 0.25  # of a direction's size, by which higher derivatives are taken along another


_WIDE = 10.0  # its curvature in its own units over the square of its score: both labels have weight then


@dataclass(frozen=True, eq=False)
class CellRows:
    """The rows that stand for cells: pseudo-rows, and rows of cells that keep them.

    `merged`, shape (C + 1,), says which cells have pseudo-rows; `missed`, shape (C,), what these miss of their shape.
    """

    pseudo: WeightedData
    kept: WeightedData
    merged: NDArray[np.bool_]
    missed: FloatArray


class WithinCells(NamedTuple):
    """Directions of beta within cells, along which rows are condensed.

    `root`, shape (p, r), and `dual`, shape (p, r), are of white coefficients: the curvature is `root` times its
    transpose, and `dual`' `root` = 1. `flat`, shape (p, f), has the directions of hardly any curvature.
    """

    root: FloatArray
    dual: FloatArray
    flat: FloatArray

    @classmethod
    def of(cls, curvature: FloatArray, at: CellPosterior) -> "WithinCells":
        """Return the directions of a curvature, shape (p, p)."""
        mu, Q = np.linalg.eigh(at.factor.T @ curvature @ at.factor)
        informed = mu > _NOTHING
        size, axes = np.sqrt(mu[informed]), oriented(Q[:, informed])
        return cls(axes * size, axes / size, Q[:, ~informed & (mu > -_LESS)])

    def turned(self, near: "WithinCells") -> "WithinCells":
        """Return the same curvature's directions that are nearest others, which are as many."""
        left, _, right = linalg.svd(self.root.T @ near.root)
        rotation = left @ right
        return self._replace(root=self.root @ rotation, dual=self.dual @ rotation)

    def gap(self, other: "WithinCells") -> float:
        """Return by how much of itself a direction differs from another at most."""
        return float(np.abs(self.root.T @ other.dual - np.eye(self.root.shape[1])).max(initial=0.0))


class AlongRows(NamedTuple):
    """What rows are condensed along within cells: `dual`, shape (p, r), less `of_cells`, (C + 1, Q, r), times z.

    `merged`, shape (C + 1,), are the cells whose rows count.
    """

    dual: FloatArray
    of_cells: FloatArray
    merged: NDArray[np.bool_]

    @classmethod
    def of(cls, within: WithinCells, slope: FloatArray, at: CellPosterior, merged: NDArray[np.bool_]) -> "AlongRows":
        """Return the directions of beta, and those of the cells' slopes M = H^-1 B, shape (C + 1, Q, p)."""
        dual = at.factor @ within.dual
        return cls(dual, slope @ dual, merged)

    def higher(self, points: CellNodes, rows: Predicted) -> FloatArray:
        """Return sums over rows of third and fourth derivatives, shape (2, r)."""
        derivatives = points.at.derivatives(rows, points.family) * self.merged[rows.cell]
        d = rows.block.X @ self.dual
        for q in range(rows.z.shape[1]):
            d -= rows.z[:, q, None] * self.of_cells[rows.cell, q]
        square = d * d  # a tenth of the time of powers
        return np.stack([derivatives[2] @ (square * d), derivatives[3] @ (square * square)])

    def of_block(self, points: CellNodes, _: int, block: WeightedData) -> FloatArray:
        """Return those of a block."""
        return self.higher(points, points.at.predict(block))


@dataclass(frozen=True, eq=False)
class Draft:
    """A draft of `CellRows`: the rows that may stand for cells about a centre, and sums of the last pass over others.

    `slope`, shape (C + 1, Q, p), is M = H^-1 B of cells. `missed`, shape (C,), is what pseudo-rows miss of their cells'
    shape, `merged`, shape (C + 1,), says which are taken, and `kept` are the rows of the others. `higher`, shape
    (2, r), are third and fourth derivatives of merged cells' rows along `within`, nearly what is left within cells.
    """

    slope: FloatArray
    pseudo: WeightedData
    missed: FloatArray
    merged: NDArray[np.bool_]
    within: WithinCells
    kept: WeightedData
    higher: FloatArray


def last_pass(dataset: Dataset, few: NDArray[np.bool_], limit: float, centre: Centre) -> tuple[Integrated, Draft]:
    """Return what integrating effects changes, and the rows that may stand for cells; one pass.

    Cells of `few` rows, shape (C,), keep them, and those whose pseudo-rows miss their shape by `limit`.
    """
    points, sums, at = centre.points, centre.sums, centre.points.at
    along = directions_of(sums, at)
    slope = along.slope(sums.cross)
    pseudo, missed = match_cells(centre, along, limit)
    merged = np.append(~few & (missed < limit), True)
    curvature = _approximate_curvature_within(sums, slope, np.append(~few, True))
    within = WithinCells.of(curvature, at)  # `select_pseudo_rows` may merge the rest
    work = partial(
        _last_pass_block, points, points.score_tables(centre.shares), AlongRows.of(within, slope, at, merged)
    )
    kept, higher = [pseudo.take(slice(0))], np.zeros((2, within.dual.shape[1]))

    def scores() -> Iterator[BlockScores]:
        for part, rows, derivatives in dataset.map(work, "within cells", canonical=True, here=True):
            kept.append(rows)
            np.add(higher, derivatives, out=higher)
            yield part

    integrated = points.total(scores())
    return integrated, Draft(slope, pseudo, missed, merged, within, stack(kept), higher)


def _last_pass_block(
    points: CellNodes, tables: FloatArray, along: AlongRows, _: int, block: WeightedData
) -> tuple[BlockScores, WeightedData, FloatArray]:
    rows = points.at.predict(block)
    kept = block.take(~along.merged[rows.cell])
    return block_scores(points, tables, rows), kept, along.higher(points, rows)


def _approximate_curvature_within(sums: CellSums, slope: FloatArray, merged: NDArray[np.bool_]) -> FloatArray:
    """Approximate the curvature of beta within merged cells, shape (p, p), as if other cells had similar rows."""
    size = np.einsum("cqq->c", sums.information)
    share = size[merged].sum() / max(size.sum(), np.finfo(float).tiny) if size.any() else 1.0
    return np.asarray(share * sums.precision - np.einsum("cqp,cqr->pr", slope[merged], sums.cross[merged]))


def assemble_cell_rows(
    centre: Centre, draft: Draft, few: NDArray[np.bool_], limit: float
) -> tuple[CellRows, FloatArray]:
    """Return the rows that stand for cells, and higher derivatives, shape (2, r), of all merged cells' other rows."""
    pseudo, kept, merged, missed = draft.pseudo, draft.kept, draft.merged.copy(), draft.missed.copy()
    more, those = select_pseudo_rows(centre, draft.slope, kept.take(~few[kept.group_codes[:, 0]]), limit)
    pseudo = stack([pseudo.take(merged[pseudo.group_codes[:, 0]]), more])
    merged[those], missed[those] = True, 0.0
    again, at = kept.take(merged[kept.group_codes[:, 0]]), centre.points.at
    higher = draft.higher + AlongRows.of(draft.within, draft.slope, at, merged).of_block(centre.points, 0, again)
    return CellRows(pseudo, kept.take(~merged[kept.group_codes[:, 0]]), merged, missed), higher


def rows_within(
    dataset: Dataset, centre: Centre, draft: Draft, parts: tuple[CellRows, FloatArray]
) -> tuple[WeightedData, float]:
    """Return pseudo-rows of no cell, failures and successes; a pass if their directions differ from the draft's.

    `parts` are those of `assemble_cell_rows`. And by how many sds of a coefficient the gradient that is left moves the
    mean at most.
    """
    points, sums, at = centre.points, centre.sums, centre.points.at
    inside, higher = parts
    given = stack([inside.pseudo, inside.kept])
    of_given, integrated = (
        sums_of_rows(given, at, points.family),
        points.integrated(points.shares(points.values_of(given)), given),
    )
    gradient = sums.gradient + centre.integrated.score - of_given.gradient - integrated.score
    curvature = sums.precision + centre.integrated.information - of_given.precision - integrated.information
    within = WithinCells.of(curvature, at)
    alike = within.dual.shape == draft.within.dual.shape
    if alike:
        within = within.turned(draft.within)
    if not alike or within.gap(draft.within) > _TURNED_FAR:
        along = AlongRows.of(within, draft.slope, at, inside.merged)
        parts_of_sum = dataset.map(partial(along.of_block, points), "higher derivatives within cells", canonical=True)
        higher = sum(parts_of_sum, np.zeros((2, within.dual.shape[1])))
    third, fourth = higher
    wanted = TargetDerivatives((at.factor @ within.dual).T @ gradient, third, fourth, (within.root**2).sum(axis=0))
    v = linalg.solve_triangular(at.factor, within.root, trans="T", lower=True)
    rows = as_rows(v, at.beta, solve(wanted, points.family))
    rest = within.flat @ (within.flat.T @ (at.factor.T @ gradient))
    if np.linalg.norm(rest) > _SHIFT:
        rows = stack([rows, _row_of_score(rest, centre)])
    rows = replace(rows, group=np.full((len(rows), 1), NO_GROUP))
    left = gradient - sums_of_rows(rows, at, points.family).gradient
    return rows, float(np.abs(at.factor @ (at.factor.T @ left) / at.sds).max())


def _row_of_score(score: FloatArray, centre: Centre) -> WeightedData:
    """Return the pseudo-row that has a score, shape (p,), in whitened coefficients and hardly any curvature."""
    at, family, zero = centre.points.at, centre.points.family, np.zeros(1)
    size = float(np.linalg.norm(score))
    along = (score / size)[:, None] * np.sqrt(_NOTHING)
    pull = np.full(1, size / np.sqrt(_NOTHING))
    solved = solve(TargetDerivatives(pull, zero, zero, np.full(1, _NOTHING)), family, size=1.0 + _WIDE * pull**2)
    return as_rows(linalg.solve_triangular(at.factor, along, trans="T", lower=True), at.beta, solved)
