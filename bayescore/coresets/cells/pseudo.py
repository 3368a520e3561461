r"""Pseudo-rows of cells, up to Q each, at a normal density of all coefficients.

With H = sum c z z' of a cell, B = sum c z x', V the covariance of its effects given the rest (`sums.Density`) and
V = L L': eigenvectors q_k, mu_k of L' H L give directions v_k = L^-T q_k sqrt(mu_k), dual u_k = L q_k / sqrt(mu_k).
Jacobi's rotations turn them until the tensor of third derivatives along the u_k is as nearly diagonal as may be (two
values of z, as of a 0/1 column, are found so).

Pseudo-row k has the covariates x_k = B' u_k, whose varying columns are v_k, over sqrt(D_k), and by
`condensing.pseudo_rows` the cell's averaged score, curvature, third and fourth derivative along u_k: together the
cell's whole block of the curvature, that with beta included.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayescore.coresets.cells.points import Points
from bayescore.coresets.cells.sums import CellSums, Density
from bayescore.coresets.condensing.pseudo_rows import Wanted, solve
from bayescore.types import NO_ROW, FloatArray, WeightedData

_LEAST = 1e-6  # curvature along a direction, of the precision of the effects given all rows: below, it says nothing
_ANGLES = 64  # tried of a rotation in a quarter turn
_SWEEPS = 4
_CHUNK = 5000  # pseudo-rows solved at a time


@dataclass(frozen=True, eq=False)
class Directions:
    """Directions of C cells: v and u, shape (C, K, Q), 0 where there are fewer than K, and covariates (C, K, p)."""

    v: FloatArray
    u: FloatArray
    x: FloatArray

    @property
    def told(self) -> np.ndarray:
        """Where there is a direction, shape (C, K)."""
        return np.asarray(self.v.any(axis=2))

    def of(self, cells: NDArray[np.bool_]) -> "Directions":
        """Return those of some cells; the others, of C in all, have none."""
        own = cells[:, None, None]
        return Directions(self.v * own, self.u * own, self.x * own)

    def slope(self, cross: FloatArray) -> FloatArray:
        """Return M = H^-1 B, shape (C, Q, p), given B."""
        return np.asarray(np.einsum("ckq,ckr,crp->cqp", self.u, self.u, cross))


def directions_of(sums: CellSums, at: Density) -> Directions:
    """Return directions of each cell's curvature; of the last entry, rows of no cell, none."""
    V = at.variance.copy()
    V[-1] = np.eye(V.shape[1])
    L, B = np.linalg.cholesky(V), sums.cross
    mu, Q = np.linalg.eigh(L.transpose(0, 2, 1) @ sums.information @ L)
    told = mu > _LEAST
    size = np.sqrt(np.where(told, mu, 1.0)) * told
    u = (L @ Q).transpose(0, 2, 1) * np.where(told, 1.0 / np.where(told, size, 1.0), 0.0)[:, :, None]
    v = np.linalg.solve(L.transpose(0, 2, 1), Q).transpose(0, 2, 1) * size[:, :, None]
    v, u = _turned(v, u, told, sums.third)
    x = np.einsum("ckq,cqp->ckp", u, B)
    if not at.free:
        x[:, :, at.columns] = v  # the same but for rounding
    return Directions(v, u, x)


def _turned(v: FloatArray, u: FloatArray, told: np.ndarray, third: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return directions turned in pairs until the squares of third derivatives along them add up to most."""
    K = v.shape[1]
    angle = 0.5 * np.pi * np.arange(_ANGLES) / _ANGLES
    cos, sin = np.cos(angle), np.sin(angle)
    for _ in range(_SWEEPS if K > 2 else 1):
        for i in range(K):
            for j in range(i):
                a, b = u[:, i], u[:, j]
                t = [_along(third, *one) for one in ((a, a, a), (a, a, b), (a, b, b), (b, b, b))]
                best = _best_angle(t, cos, sin) * (told[:, i] & told[:, j])
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


def _along(tensor: FloatArray, *vectors: FloatArray) -> FloatArray:
    for vector in vectors:
        tensor = np.einsum("cq...,cq->c...", tensor, vector)
    return np.asarray(tensor)


def pseudo_rows_of(
    sums: CellSums, points: Points, along: Directions, moved: tuple[FloatArray, FloatArray], times: float
) -> WeightedData:
    """Return the pseudo-rows of all cells, failures and successes of each, with the code of the cell as group.

    moved, shape (C + 1, K) each: what is added to the score along a direction, and what its curvature is multiplied by.
    times: factor of the curvature D that has the averaged fourth derivative.
    """
    at, family = points.at, points.family
    cell, k = np.nonzero(along.told)
    root = np.sqrt(moved[1][cell, k])[:, None]
    u, v, x = along.u[cell, k] / root, along.v[cell, k] * root, along.x[cell, k] * root
    wanted = Wanted(
        (u * sums.score[cell]).sum(axis=1) + moved[0][cell, k] / root[:, 0],
        _along(sums.third[cell], u, u, u),
        _along(sums.fourth[cell], u, u, u, u),
        v[:, 0] ** 2 * at.variances(x / v, cell) if at.free else at.variances(x, cell),
    )
    cuts = [np.arange(start, min(start + _CHUNK, len(cell))) for start in range(0, max(1, len(cell)), _CHUNK)]
    # rows that do not have the column of ones cannot have a multiple of it
    parts = [solve(wanted.take(cut), family, times=times, size=v[cut, 0] ** 2 if at.free else None) for cut in cuts]
    size, eta, successes, failures, sign = (np.concatenate(column) for column in zip(*parts, strict=True))
    scale = (sign / np.sqrt(size))[:, None]
    X, z = x * scale, v * scale
    offset = eta - X @ at.beta - (z * at.mean[cell]).sum(axis=1)
    w = np.stack([failures, successes], axis=1).ravel()
    pair = np.repeat(np.arange(len(cell)), 2)
    y = np.tile(np.array([-1, 1], dtype=np.int8), len(cell))
    rows = WeightedData(X[pair], y, w, np.full(len(w), NO_ROW), offset=offset[pair], group=cell[pair][:, None])
    return rows.take(w > 0.0)
