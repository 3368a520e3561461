r"""Means of effects against the coefficient of the same column: coordinates whose scale follows the sd.

Rows tell b + u_g, the coefficient of a column and a level's effect on it, and hardly what either is: the mean of a
factor's effects has the sd sigma / sqrt(G) of its prior, whatever the rows. So with few levels b and the mean form a
funnel in sigma. Given v and b of `joint_target`, weights w of the levels and M of its regressions,

.. math:: v_g \leftarrow v_g + w_g (r - 1) a, \quad b \leftarrow b - (r - 1) a, \quad
   a = \sum w_g v_g / \sum w_g^2, \quad r = (\sigma / \sigma_0)^k,

in which b + u_g stays where w = 1. k = sum w^2 / sum w is how fast the sd of b grows with sigma: 1 where rows tell all
of a level, 0 where they tell nothing. At sigma_0 nothing moves. The map's determinant is r.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayescore.compiled import jit, jit_sums
from bayescore.models.joint_rows import Curvature, JointRows
from bayescore.models.joint_target import JointArguments, joint_density
from bayescore.types import FloatArray, IntArray

_WORTH = 0.1  # sds of log r, below which b and the mean are no funnel


class Means(NamedTuple):
    """Columns of effects whose means are moved, one after another; none where S is 0."""

    places: IntArray  # (S, 7): of v in a point, of weights; levels, effects, the column; of b and log sigma in a point
    powers: FloatArray  # k, (S,)
    squares: FloatArray  # sum w^2, (S,)
    log_sds: FloatArray  # log sigma_0, (S,)

    @classmethod
    def of(cls, columns: Sequence[IntArray], a: JointArguments) -> "Means":
        """Return those of `free_columns`, in the order of effects, whose scale is worth following; sigma_0 is 1."""
        lead, p = a.sizes[0].prod(), a.columns.shape[0]
        start, t, last = 0, 0, p + len(a.centring)
        places, figures = [], []
        for f, own in enumerate(columns):
            G, q = a.sizes[f]
            w = a.centring[start : start + G * q].reshape(G, q)
            for i in np.flatnonzero((own >= 0) & ~a.signed[t : t + q]):
                square, total = float((w[:, i] ** 2).sum()), float(w[:, i].sum())
                if square > _WORTH * total * math.sqrt(2.0 * square + 1.0):
                    places.append((start + (p if f else 0), start, G, q, i, lead + own[i], last + i))
                    figures.append((square / total, square))
            start, t, last = start + G * q, t + q, last + q + q * (q - 1) // 2
        table = np.array(places, dtype=np.int64).reshape(-1, 7)
        powers, squares = map(np.ascontiguousarray, np.array(figures).reshape(-1, 2).T)
        return cls(table, powers, squares, np.zeros(len(table)))

    def at(self, point: FloatArray) -> "Means":
        """Return them with sigma_0 of a point, shape (D,)."""
        return self._replace(log_sds=point[self.places[:, 6]])

    def log_determinant(self, points: FloatArray) -> FloatArray:
        """Return that of the map to points, shape (n, D), but for a constant: frames of any sigma_0 agree on it."""
        return np.asarray(points[:, self.places[:, 6]] @ self.powers)


def free_columns(
    rows: JointRows, curvature: Curvature, of_beta: FloatArray, covariances: Sequence[FloatArray]
) -> list[IntArray]:
    """Return for each factor's effects the coefficient of the same column, shape (q,), -1 if not free.

    It is free if the prior of effects alone holds their mean: it holds more than rows of no level do, and than
    `of_beta`, the precision of the coefficients' prior, shape (p, p).
    """
    design, found = rows.rows.design, []
    for factor, blocks, covariance in zip(rows.factors, [curvature.first, *curvature.blocks], covariances, strict=True):
        own = np.full(len(factor.effects), -1)
        for i, effect in enumerate(factor.effects):
            c = design.constant if effect == "1" else design.names.index(effect)
            if c is None:
                continue
            apart = max(float(curvature.rest[c, c] - blocks[:, i, i].sum()), 0.0)
            if apart + of_beta[c, c] < len(factor) / covariance[i, i]:
                own[i] = c
        found.append(own)
    return found


@jit_sums
def _mean(point: FloatArray, w: FloatArray, place: IntArray, square: float) -> float:
    v, first, G, q, i = place[0], place[1], place[2], place[3], place[4]
    total = 0.0
    for g in range(G):
        total += w[first + g * q + i] * point[v + g * q + i]
    return total / square


@jit
def _add(point: FloatArray, a: JointArguments, place: IntArray, by: float) -> None:
    """Add to a level's effects on a column, times w, and take it off the coefficient."""
    v, first, G, q, i = place[0], place[1], place[2], place[3], place[4]
    for g in range(G):
        point[v + g * q + i] += a.centring[first + g * q + i] * by
        for j in range(i + 1, q):
            point[v + g * q + j] += a.centring[first + g * q + j] * a.shift[first + g * q + j, i] * by
    point[place[5]] -= by


@jit
def _move(point: FloatArray, m: Means, a: JointArguments, found: FloatArray) -> float:
    """Move a point, write the means a, (S,), and return `log_determinant`."""
    total = 0.0
    for k in range(m.powers.size):
        place = m.places[k]
        log_r = m.powers[k] * (point[place[6]] - m.log_sds[k])
        found[k] = _mean(point, a.centring, place, m.squares[k])
        _add(point, a, place, math.expm1(log_r) * found[k])
        total += m.powers[k] * point[place[6]]
    return total


@jit
def move(points: FloatArray, m: Means, a: JointArguments) -> None:
    """Move points, shape (n, D)."""
    found = np.empty(m.powers.size)
    for n in range(points.shape[0]):
        _move(points[n], m, a, found)


@jit
def move_back(points: FloatArray, m: Means, a: JointArguments) -> None:
    """Undo `move`."""
    for n in range(points.shape[0]):
        point = points[n]
        for k in range(m.powers.size - 1, -1, -1):
            place = m.places[k]
            log_r = m.powers[k] * (point[place[6]] - m.log_sds[k])
            _add(point, a, place, math.expm1(-log_r) * _mean(point, a.centring, place, m.squares[k]))


@jit
def moved_density(point: FloatArray, gradient: FloatArray, m: Means, a: JointArguments) -> float:
    """Return the log density of a point that is moved, and write its gradient in the point before."""
    found = np.empty(m.powers.size)
    value = _move(point, m, a, found)
    value += joint_density(point, gradient, a)
    for k in range(m.powers.size - 1, -1, -1):
        v, first, G, q, i, b, sd = m.places[k]
        log_r = m.powers[k] * (point[sd] - m.log_sds[k])
        own = -gradient[b]
        for g in range(G):
            own += a.centring[first + g * q + i] * gradient[v + g * q + i]
            for j in range(i + 1, q):
                own += a.centring[first + g * q + j] * a.shift[first + g * q + j, i] * gradient[v + g * q + j]
        part = math.expm1(log_r) * own / m.squares[k]
        for g in range(G):
            gradient[v + g * q + i] += part * a.centring[first + g * q + i]
        gradient[sd] += m.powers[k] * (math.exp(log_r) * found[k] * own + 1.0)
    return value
