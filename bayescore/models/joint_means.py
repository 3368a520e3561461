r"""Means of effects against the coefficient of the same column: coordinates whose scale follows the sd.

Rows tell b + u_g, the coefficient of a column and a level's effect on it, and hardly what either is: the mean of a
factor's effects has the sd sigma / sqrt(G) of its prior, whatever the rows. So with few levels b and the mean form a
funnel in sigma. Given v and b of `joint_target`, weights w of the levels and M of its regressions,

.. math:: v_g \leftarrow v_g + w_g (r - 1) a, \quad b \leftarrow b - (r - 1) a, \quad
   a = \sum w_g v_g / \sum w_g^2, \quad r = (\sigma / \sigma_0)^e,

in which each b + u_g stays where rows hold it. e = sum w^2 / sum w is how fast the sd of b grows with sigma: 1 where
rows tell all of a level, 0 where they tell nothing. At sigma_0 nothing moves. The map's determinant is r.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayescore.compiled import jit, jit_sums
from bayescore.models.joint_rows import Curvature
from bayescore.models.joint_target import JointArguments, joint_density
from bayescore.types import FloatArray, IntArray

_WORTH = 0.1  # e times the sd of log sigma, from which r is worth its place


class Means(NamedTuple):
    """Columns of effects whose means are moved, one after another; none where S is 0."""

    places: IntArray  # (S, 7): of v in a point, of weights; levels, effects, the column; of b and log sigma in a point
    powers: FloatArray  # e, (S,)
    squares: FloatArray  # sum w^2, (S,)
    log_sds: FloatArray  # log sigma_0, (S,)

    @classmethod
    def of(
        cls, curvature: Curvature, of_beta: FloatArray, orders: Sequence[IntArray], a: JointArguments, last: FloatArray
    ) -> "Means":
        """Return the columns whose mean nothing holds but the prior of effects, at a point's last coordinates.

        What else may hold it are the rows on which effect and coefficient differ, and `of_beta`, the precision of the
        coefficients' prior, shape (p, p).
        """
        p, size = len(of_beta), len(of_beta) + len(a.centring)
        places, figures, e, at, t = [], [], 0, size, 0
        blocks, crosses = [curvature.first, *curvature.blocks], curvature.with_beta(p)
        for f, (order, own, cross) in enumerate(zip(orders, blocks, crosses, strict=True)):
            G, q = own.shape[:2]
            w = a.centring[e : e + G * q].reshape(G, q)
            for i in range(q):
                k, log_sd = order[i], last[at - size + i]
                apart = np.diagonal(curvature.rest)[:p] - 2.0 * cross[k::q].sum(axis=0) + own[:, k, k].sum()
                c, total, square = int(np.argmin(apart)), float(w[:, i].sum()), float((w[:, i] ** 2).sum())
                if a.signed[t + i] or square < _WORTH * total * math.sqrt(2.0 * square + 1.0):
                    continue
                if apart[c] + of_beta[c, c] < G * math.exp(-2.0 * log_sd):
                    places.append((e + (p if f else 0), e, G, q, i, blocks[0][..., 0].size + c, at + i))
                    figures.append((square / total, square, log_sd))
            e, at, t = e + G * q, at + q + q * (q - 1) // 2, t + q
        columns = np.array(figures).reshape(-1, 3).T
        return cls(np.array(places, dtype=np.int64).reshape(-1, 7), *map(np.ascontiguousarray, columns))

    def at(self, last: FloatArray, size: int) -> "Means":
        """Return them with sigma_0 of other last coordinates of a point, of `size` coordinates."""
        return self._replace(log_sds=last[self.places[:, 6] - (size - len(last))])

    def log_determinant(self, points: FloatArray) -> FloatArray:
        """Return that of the map to points, shape (n, D)."""
        return np.asarray((points[:, self.places[:, 6]] - self.log_sds) @ self.powers)


@jit_sums
def _mean(point: FloatArray, w: FloatArray, place: IntArray, square: float) -> float:
    v, e, G, q, i = place[0], place[1], place[2], place[3], place[4]
    total = 0.0
    for g in range(G):
        total += w[e + g * q + i] * point[v + g * q + i]
    return total / square


@jit
def _add(point: FloatArray, a: JointArguments, place: IntArray, by: float) -> None:
    """Add to a level's effects on a column, times w, and take it off the coefficient."""
    v, e, G, q, i = place[0], place[1], place[2], place[3], place[4]
    for g in range(G):
        point[v + g * q + i] += a.centring[e + g * q + i] * by
        for j in range(i + 1, q):
            point[v + g * q + j] += a.centring[e + g * q + j] * a.shift[e + g * q + j, i] * by
    point[place[5]] -= by


@jit
def _move(point: FloatArray, m: Means, a: JointArguments, found: FloatArray) -> float:
    """Move a point, write the means a, (S,), and return the log determinant."""
    total = 0.0
    for k in range(m.powers.size):
        place = m.places[k]
        log_r = m.powers[k] * (point[place[6]] - m.log_sds[k])
        found[k] = _mean(point, a.centring, place, m.squares[k])
        _add(point, a, place, math.expm1(log_r) * found[k])
        total += log_r
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
        v, e, G, q, i, b, sd = m.places[k]
        log_r = m.powers[k] * (point[sd] - m.log_sds[k])
        own = -gradient[b]
        for g in range(G):
            own += a.centring[e + g * q + i] * gradient[v + g * q + i]
            for j in range(i + 1, q):
                own += a.centring[e + g * q + j] * a.shift[e + g * q + j, i] * gradient[v + g * q + j]
        part = math.expm1(log_r) * own / m.squares[k]
        for g in range(G):
            gradient[v + g * q + i] += part * a.centring[e + g * q + i]
        gradient[sd] += m.powers[k] * (math.exp(log_r) * found[k] * own + 1.0)
    return value
