r"""The compiled density of all parameters of a model with group terms: beta, every effect, every sd, correlations.

The effects of a level are u_i = s_i sum_{j <= i} C_ij z_j, z ~ N(0, I), with s the sds and C the Cholesky factor of
their correlations, in an order of their own (`Layout.order`). The coordinate of an effect is v, with a weight w in
[0, 1] for each level,

.. math:: z_i = (v_i - w_i m_i) / (\sigma_i^{w_i} t^{1 - w_i}), \qquad
          m_i = s_i \sum_{j < i} C_{ij} z_j + \sum_{j < i} M_{ij} u_j,

with sigma_i = s_i C_ii and t the family's unit, so that v of all levels has the unit of effects. The non-centred effect
v = z has w = 0, and no t. The centred one has w = 1, v = u_i + sum M_ij u_j. With M the regression of a level's rows, v
is an intercept at the level's mean covariate. Partly centred effects: Papaspiliopoulos, Roberts and Skold (2007),
Statistical Science 22; with regressions here.

The coordinate of an sd is its logarithm. Where the posterior reaches 0 it is the sd with a sign, as the density is an
even and smooth function of it there. Those of correlations are Fisher's z of the partial ones, given the effects before
(Lewandowski, Kurowicka and Joe 2009, Journal of Multivariate Analysis 100). Points are (v of the first factor, beta, v
of the others, for each factor its sds and correlations).

Means of effects against the coefficient of the same column: coordinates whose scale follows the sd.

Rows tell b + u_g, the coefficient of a column and a level's effect on it, and hardly what either is: the mean of a
factor's effects has the sd sigma / sqrt(G) of its prior, whatever the rows. So with few levels b and the mean form a
funnel in sigma. Given v and b as above, weights w of the levels and M of its regressions,

.. math:: v_g \leftarrow v_g + w_g (r - 1) a, \quad b \leftarrow b - (r - 1) a, \quad
   a = \sum w_g v_g / \sum w_g^2, \quad r = (\sigma / \sigma_0)^k,

in which b + u_g stays where w = 1. k = sum w^2 / sum w is how fast the sd of b grows with sigma: 1 where rows tell all
of a level, 0 where they tell nothing. At sigma_0 nothing moves. The map's determinant is r.

Points: what effects, sds and correlations are in its coordinates, and the way back near there.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit, jit_sums
from bayescore.families import Family
from bayescore.models.groups.rows import Curvature, JointRows
from bayescore.models.posterior import prior_terms
from bayescore.priors.groups import LKJ_ETA, log_sigma_terms
from bayescore.priors.prior import Part
from bayescore.types import FloatArray, IntArray

_TILE = 512  # rows whose entries stay in the cache between predictor and gradient


_LEAST_SD = 1e-150


class JointArguments(NamedTuple):
    """What the density takes after the point; F factors, E effects of all levels, Q columns of effects."""

    columns: FloatArray  # X transposed, (p, n)
    side: FloatArray
    weights: FloatArray
    offset: FloatArray  # may be empty
    codes: NDArray[np.int32]  # (F, n); the number of levels for rows of no group
    z: FloatArray  # what rows multiply effects by, (Q, n)
    family: Family
    prior: tuple[Part, ...]
    group_prior: tuple[float, float]  # degrees of freedom and scale
    sizes: IntArray  # levels and effects of each factor, (F, 2)
    centring: FloatArray  # w, (E,), factor by factor and level by level
    shift: FloatArray  # M, (E, most effects of a factor)
    signed: NDArray[np.bool_]  # whether the sd has a sign, (Q,)
    log_unit: float  # of the family


@jit_sums
def _rows(beta: FloatArray, u: FloatArray, a: JointArguments, slope: FloatArray, pull: FloatArray) -> float:
    """Return the log-likelihood; add its gradient in beta and in u, each factor's with one entry a row of no group."""
    p, n, F = a.columns.shape[0], a.weights.size, a.sizes.shape[0]
    eta, log_p, total = np.empty(_TILE), np.empty(_TILE), 0.0
    for start in range(0, n, _TILE):
        stop = min(start + _TILE, n)
        own, told = eta[: stop - start], log_p[: stop - start]
        own[:] = 0.0
        if a.offset.size > 0:
            for k in range(stop - start):
                own[k] = a.offset[start + k]
        for d in range(p):
            column, b = a.columns[d, start:stop], beta[d]
            for k in range(stop - start):
                own[k] += column[k] * b
        first, t = 0, 0
        for f in range(F):
            q, codes = a.sizes[f, 1], a.codes[f, start:stop]
            for i in range(q):
                z = a.z[t, start:stop]
                for k in range(stop - start):
                    own[k] += z[k] * u[first + codes[k] * q + i]
                t += 1
            first += (a.sizes[f, 0] + 1) * q
        a.family.rows(own, a.side[start:stop], told)
        w = a.weights[start:stop]
        for k in range(stop - start):
            total += w[k] * told[k]
            own[k] *= w[k]
        for d in range(p):
            column, part = a.columns[d, start:stop], 0.0
            for k in range(stop - start):
                part += column[k] * own[k]
            slope[d] += part
        first, t = 0, 0
        for f in range(F):
            q, codes = a.sizes[f, 1], a.codes[f, start:stop]
            for i in range(q):
                z = a.z[t, start:stop]
                for k in range(stop - start):
                    pull[first + codes[k] * q + i] += z[k] * own[k]
                t += 1
            first += (a.sizes[f, 0] + 1) * q
    return total


@jit
def scales(own: FloatArray, signed: NDArray[np.bool_], s: FloatArray, C: FloatArray) -> None:
    """Write sds, shape (q,), and the Cholesky factor of correlations, (q, q), given a factor's last coordinates."""
    q = s.size
    for i in range(q):
        s[i] = own[i] if signed[i] else math.exp(own[i])
        if abs(s[i]) < _LEAST_SD:
            s[i] = _LEAST_SD
    C[:] = 0.0
    k = q
    for i in range(q):
        left = 1.0
        for j in range(i):
            C[i, j] = left * math.tanh(own[k])
            left /= math.cosh(own[k])
            k += 1
        C[i, i] = left


@jit
def covariance_factors(own: FloatArray, signed: NDArray[np.bool_], found: FloatArray) -> None:
    """Write the factor S C of a factor's covariance, shape (n, q, q), given its last coordinates, (n, k)."""
    q = signed.size
    s, C = np.empty(q), np.empty((q, q))
    for n in range(own.shape[0]):
        scales(own[n], signed, s, C)
        for i in range(q):
            for j in range(q):
                found[n, i, j] = s[i] * C[i, j]


@jit
def _log_prior(
    own: FloatArray, s: FloatArray, signed: NDArray[np.bool_], a: JointArguments, slope: FloatArray
) -> tuple[float, float]:
    """Return the log prior of a factor's last coordinates, and that of log sds and correlations; add the gradient."""
    q, total, of_logs = s.size, 0.0, 0.0
    for i in range(q):
        at = math.log(abs(s[i]))
        value, first, _ = log_sigma_terms(at, a.group_prior[0], a.group_prior[1])
        total += value - at if signed[i] else value
        of_logs += value
        slope[i] += (first - 1.0) / s[i] if signed[i] else first
    k = q
    for i in range(q):
        for j in range(i):
            power = LKJ_ETA + 0.5 * (q - 2 - j)
            of_cosh = math.log(math.cosh(own[k]))
            total -= 2.0 * power * of_cosh
            of_logs -= 2.0 * (LKJ_ETA - 1.0) * of_cosh
            slope[k] -= 2.0 * power * math.tanh(own[k])
            k += 1
    return total, of_logs


@jit
def _to_scales(
    own: FloatArray, s: FloatArray, signed: NDArray[np.bool_], by: tuple[FloatArray, FloatArray], slope: FloatArray
) -> None:
    """Add to the gradient in a factor's last coordinates what that in sds and in the Cholesky factor, `by`, makes."""
    q = s.size
    of_s, of_C = by
    for i in range(q):
        slope[i] += of_s[i] if signed[i] else of_s[i] * s[i]
    k = q
    for i in range(q):
        back = of_C[i, i]
        left = np.empty(i + 1)
        left[0] = 1.0
        for j in range(i):
            left[j + 1] = left[j] / math.cosh(own[k + j])
        for j in range(i - 1, -1, -1):
            t, narrow = math.tanh(own[k + j]), 1.0 / math.cosh(own[k + j])
            slope[k + j] += left[j] * narrow * (of_C[i, j] * narrow - back * t)
            back = of_C[i, j] * t + back * narrow
        k += i


@jit
def joint_effects(
    point: FloatArray, u: FloatArray, white: FloatArray, a: JointArguments, slope: FloatArray
) -> tuple[float, float]:
    """Write effects u and z of a point; add the gradient of the priors of sds and correlations, (k,).

    Returns the log prior of effects, sds and correlations, and what that of (u, log sds, correlations) is more.
    """
    F, p, total, natural = a.sizes.shape[0], a.columns.shape[0], 0.0, 0.0
    v, e, first, at, t = 0, 0, 0, 0, 0
    last = point.size - slope.size
    for f in range(F):
        G, q = a.sizes[f, 0], a.sizes[f, 1]
        size = q + q * (q - 1) // 2
        s, C, own = np.empty(q), np.empty((q, q)), point[last + at : last + at + size]
        scales(own, a.signed[t : t + q], s, C)
        log_sigma = np.empty(q)
        for i in range(q):
            log_sigma[i] = math.log(abs(s[i]) * C[i, i])
        for g in range(G):
            for i in range(q):
                k, mean, moved, w = e + g * q + i, 0.0, 0.0, a.centring[e + g * q + i]
                for j in range(i):
                    mean += C[i, j] * white[k - i + j]
                    moved += a.shift[k, j] * u[first + g * q + j]
                z = point[v + g * q + i]
                rest = 0.0
                if w > 0.0:
                    rest = (1.0 - w) * a.log_unit
                    z = (z - w * (s[i] * mean + moved)) * math.exp(-w * log_sigma[i] - rest)
                white[k] = z
                u[first + g * q + i] = s[i] * (mean + C[i, i] * z)
                total -= 0.5 * z * z + w * log_sigma[i] + rest
                natural += (w - 1.0) * log_sigma[i] + rest
        for i in range(q):
            u[first + G * q + i] = 0.0
        own_prior, of_logs = _log_prior(own, s, a.signed[t : t + q], a, slope[at : at + size])
        total += own_prior
        natural += of_logs - own_prior
        v += G * q + (p if f == 0 else 0)
        e, first, at, t = e + G * q, first + (G + 1) * q, at + size, t + q
    return total, natural


@jit
def joint_density(point: FloatArray, gradient: FloatArray, a: JointArguments) -> float:
    """Return the log density of a point, and write its gradient."""
    F, p, k_sds, size_u = a.sizes.shape[0], a.columns.shape[0], 0, 0
    for f in range(F):
        q = a.sizes[f, 1]
        k_sds += q + q * (q - 1) // 2
        size_u += (a.sizes[f, 0] + 1) * q
    last, lead = point.size - k_sds, a.sizes[0, 0] * a.sizes[0, 1]
    gradient[:] = 0.0
    white, u, pull = np.empty(a.centring.size), np.empty(size_u), np.zeros(size_u)
    total, _ = joint_effects(point, u, white, a, gradient[last:])
    # rows, and the prior of beta
    total += prior_terms(point[lead : lead + p], a.prior, gradient[lead : lead + p])
    total += _rows(point[lead : lead + p], u, a, gradient[lead : lead + p], pull)
    # back to the coordinates
    v, e, first, at, t = 0, 0, 0, last, 0
    for f in range(F):
        G, q = a.sizes[f, 0], a.sizes[f, 1]
        size = q + q * (q - 1) // 2
        s, C, own = np.empty(q), np.empty((q, q)), point[at : at + size]
        scales(own, a.signed[t : t + q], s, C)
        of_s, of_C, inverse = np.zeros(q), np.zeros((q, q)), np.empty(q)
        back, z = np.empty(q), np.empty(q)
        for g in range(G):
            for i in range(q):
                z[i] = white[e + g * q + i]
                back[i] = -z[i]
            for i in range(q - 1, -1, -1):
                k, above = e + g * q + i, pull[first + g * q + i]
                w, mean = a.centring[k], 0.0
                for j in range(i):
                    mean += C[i, j] * z[j]
                    of_C[i, j] += above * s[i] * z[j]
                    back[j] += above * s[i] * C[i, j]
                of_s[i] += above * (mean + C[i, i] * z[i])
                of_C[i, i] += above * s[i] * z[i]
                mine = back[i] + above * s[i] * C[i, i]
                if w == 0.0:
                    gradient[v + g * q + i] = mine
                    continue
                inverse[i] = math.exp(-w * math.log(abs(s[i]) * C[i, i]) - (1.0 - w) * a.log_unit)
                gradient[v + g * q + i] = mine * inverse[i]
                of_log = -w * (z[i] * mine + 1.0)
                of_s[i] += of_log / s[i]
                of_C[i, i] += of_log / C[i, i]
                of_mean = -w * mine * inverse[i]
                of_s[i] += of_mean * mean
                for j in range(i):
                    of_C[i, j] += of_mean * s[i] * z[j]
                    back[j] += of_mean * s[i] * C[i, j]
                    pull[first + g * q + j] += of_mean * a.shift[k, j]
        _to_scales(own, s, a.signed[t : t + q], (of_s, of_C), gradient[at : at + size])
        v += G * q + (p if f == 0 else 0)
        e, first, at, t = e + G * q, first + (G + 1) * q, at + size, t + q
    return total


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
            if len(columns := design.columns_of(factor, effect)) != 1:
                continue
            (c,) = columns
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


def regressions(information: FloatArray, w: FloatArray, widest: int) -> FloatArray:
    """Return M, shape (G, q, widest): what effects before it, less centred, add to a level's effect by its rows."""
    G, q = w.shape
    M = np.zeros((G, q, widest))
    for i in range(1, q):
        own = np.maximum(information[:, i, i], np.finfo(float).tiny)
        M[:, i, :i] = information[:, i, :i] / own[:, None]
    return M


def of_covariance(
    covariance: FloatArray, signed: np.ndarray, of_log: FloatArray, w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return coordinates of sds and correlations, and about their sds."""
    q, sd = len(covariance), np.sqrt(np.diagonal(covariance))
    C = np.linalg.cholesky(covariance / np.outer(sd, sd))
    own, wide = list(np.where(signed, sd, np.log(sd))), list(np.where(signed, np.hypot(1.0, of_log) * sd, of_log))
    for i in range(q):
        left = 1.0
        for j in range(i):
            own.append(math.atanh(C[i, j] / left))
            left *= math.sqrt(max(1.0 - (C[i, j] / left) ** 2, 1e-12))
            wide.append(1.0 / math.sqrt(2.0 * (LKJ_ETA - 1.0) + 1.0 + float((w[:, i] * w[:, j]).sum())))
    return np.array(own), np.array(wide)


def slopes_of(
    factor: FloatArray, w: FloatArray, M: FloatArray, u: FloatArray, unit: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return du / dv and dz / dv of each level, (G, q, q), and v of effects u, (G, q); `unit` is the family's."""
    G, q = w.shape
    of_u, of_z, v, z = np.zeros((G, q, q)), np.zeros((G, q, q)), np.empty((G, q)), np.zeros((G, q))
    for i in range(q):
        sigma, below = factor[i, i], factor[i, :i]
        narrow = np.where(w[:, i] > 0.0, np.abs(sigma) ** -w[:, i] * unit ** (w[:, i] - 1.0), 1.0)
        mean = np.einsum("j,gjk->gk", below, of_z[:, :i]) + np.einsum("gj,gjk->gk", M[:, i, :i], of_u[:, :i])
        of_z[:, i] = -(w[:, i] * narrow)[:, None] * mean
        of_z[:, i, i] += narrow
        of_u[:, i] = np.einsum("j,gjk->gk", below, of_z[:, :i]) + sigma * of_z[:, i]
        z[:, i] = (u[:, i] - z[:, :i] @ below) / sigma
        v[:, i] = z[:, i] / narrow + w[:, i] * (z[:, :i] @ below + (M[:, i, :i] * u[:, :i]).sum(axis=1))
    return of_u, of_z, v
