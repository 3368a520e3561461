r"""The compiled density of all parameters of a model with group terms: beta, every effect, every sd, correlations.

The effects of a level are u = T z, z ~ N(0, I), with T the lower triangular factor of their covariance, in an order of
their own (`JointFrame.orders`). About the joint mode the log-likelihood of a level's
rows is a quadratic in u. With later effects integrated out it says about effect i, given those before it, that h_i u_i
is about r_i - h_i sum_{j < i} M_ij u_j, with precision h_i. The coordinate y_i is the effect given that and the prior,

.. math:: z_i = \frac{1}{\sqrt{a_i}} \Bigl(y_i + \frac{\sigma_i d_i}{\sqrt{a_i}}\Bigr), \quad a_i = 1 + \sigma_i^2 h_i,

.. math:: d_i = r_i - h_i \Bigl(\sum_{j < i} T_{ij} z_j + \sum_{j < i} M_{ij} u_j\Bigr) - b_i

with sigma_i = T_ii and b = B (theta - theta_0), theta the coefficients and the effects of all later factors, which
have fewer effects. With a normal likelihood the first factor's y is N(0, I) given theta, sds and correlations, whatever
these are: effects are centred where rows say much, not where the sd is near 0, and a chain has both. (Papaspiliopoulos,
Roberts and Skold 2007, Statistical Science 22, have one weight between the two for all sds.) What rows say about a
level of another factor has the effects of earlier ones that follow it integrated out. So the same holds of a second
factor whose levels are within a third's: where one sd goes to 0 its effects pass to the other. b is 0 for the last of
several factors, and for those between that have few levels: their means are moved (below).

The coordinate t of an sd has log s = l(t), `log_sd`: a line to the right, and minus half a square to the left. A
posterior that reaches 0 has a constant density of s there, which is a normal tail of t. Correlations have Fisher's z of
the partial ones, given the effects before (Lewandowski, Kurowicka and Joe 2009, Journal of Multivariate Analysis 100).
Points are (y of the first factor, beta, y of the others, for each factor its sds and correlations).

Effects are those of columns that are orthogonal over the rows (`orthogonal_columns`), so that neither the origin nor
the unit of a column matters. Columns are first orthogonal within blocks of effects that are correlated a priori: the
covariance of these effects is S C C' S, with s the sds and C the Cholesky factor of correlations, and `bases` turns
them into the effects of the model's columns, which priors are about. C and the bases are 0 outside blocks, which stand
one after another in any order of a factor's effects; only pairs within a block have a coordinate. The matrix A,
`across`, turns these effects into those of columns that are orthogonal across blocks as well, and T T' = A S C C' S A'.
It is the identity if there is one block, and T is S C then.

MovedMeans of effects against the coefficient of the same column: coordinates whose scale follows the sd.

Rows tell b + u_g, the coefficient of a column and a level's effect on it, and hardly what either is: the mean of a
factor's effects has the sd sigma / sqrt(G) of its prior, whatever the rows. So with few levels b and the mean form a
funnel in sigma. Given y and b as above, e_g the change of y_g for one of u_g, weights w = 1 - 1 / a of the levels and M
of its regressions,

.. math:: y_g \leftarrow y_g + e_g (r - 1) a, \quad b \leftarrow b - (r - 1) a, \quad
   a = \sum e_g y_g / \sum e_g^2, \quad r = \sqrt{\frac{1 + H \sigma^2}{1 + H \sigma_0^2}},

in which b + u_g stays where rows tell all. H is the information of a level's rows with the weight sum w^2 / sum w, so
that r is how the sd of b grows with sigma: in proportion where rows tell all of a level, not at all where they tell
nothing. At sigma_0 nothing moves. The map's determinant is r. Effects of the
first factor follow b by themselves, and a is b_0 less b and less the other factors' means.

Points: what effects, sds and correlations are in its coordinates, and the way back near there.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import StoredDensity, at_address, evaluate_stored, jit, jit_inner, jit_inner_sums
from bayescore.families import Family
from bayescore.models.groups.rows import Curvature, JointRows
from bayescore.models.posterior import prior_terms
from bayescore.numerics.elementary import copy_to, dot, fill
from bayescore.priors.groups import LKJ_ETA, log_sigma_terms
from bayescore.priors.prior import Part
from bayescore.types import FloatArray, IntArray

_TILE = 512  # rows whose entries stay in the cache between predictor and gradient


_LEAST_SD = 1e-150


_MOST_PRODUCT = 1e150  # of several a, whose logarithm is taken at once


class JointArguments(NamedTuple):
    """What the density takes after the point; F factors, E effects of all levels, Q columns of effects."""

    columns: FloatArray  # X transposed, of the first n' rows, (p, n')
    slopes: FloatArray  # M transposed, of the others, whose x = M' z, (p, entries of u); see `level_slopes`
    side: FloatArray
    weights: FloatArray
    offset: FloatArray  # may be empty
    codes: NDArray[np.int32]  # (F, n); the number of levels for rows of no group
    z: FloatArray  # what rows multiply effects by, (Q, n)
    family: Family
    prior: tuple[Part, ...]
    group_prior: tuple[float, float]  # degrees of freedom and scale
    sizes: IntArray  # of each factor: levels, effects, and places (`layout_table`), (F, 8)
    blocks: IntArray  # of each effect the first and past the last that is correlated with it, (Q, 2)
    information: FloatArray  # h, (E,), factor by factor and level by level
    pull: FloatArray  # r, (E,)
    tilt: FloatArray  # e, (E,)
    shift: FloatArray  # M, (E, most effects of a factor)
    origin: FloatArray  # log sds at t = 0, (Q,)
    bases: FloatArray  # of each factor's effects, (F, most effects, most effects)
    across: FloatArray  # A of each factor, of the same shape
    by_beta: FloatArray  # B of beta, (p, E)
    start: IntArray  # of B of other factors' effects, in compressed rows
    along: IntArray
    cross: FloatArray
    rest: FloatArray  # beta and effects of the other factors at the mode, (m,)


@jit_inner
def _add_by_level(values: FloatArray, codes: NDArray[np.int32], sums: FloatArray, q: int) -> None:
    """Add values of rows to every q-th of `sums`, by level: rows of a level that stand together need it but once."""
    level, total = codes[0], 0.0
    for k in range(values.size):
        if codes[k] != level:
            sums[level * q] += total
            level, total = codes[k], 0.0
        total += values[k]
    sums[level * q] += total


@jit_inner_sums
def _add_row_terms(
    part: tuple[int, int, int],
    parameters: tuple[FloatArray, FloatArray],
    a: JointArguments,
    slopes: tuple[FloatArray, FloatArray],
    by_level: FloatArray,
) -> float:
    """Return the log-likelihood of some rows; add its gradients in beta and u, each factor's with an entry of no group.

    `part` has the first row, the row past the last, and how many columns they have; `parameters` are beta and u. Where
    `by_level` is not empty, the first factor's levels and one more add their rows' log-likelihoods to it.
    """
    (beta, u), (slope, pull) = parameters, slopes
    (first_row, n, p), F = part, a.sizes.shape[0]
    eta, log_p, total = np.empty(_TILE), np.empty(_TILE), 0.0
    for start in range(first_row, n, _TILE):
        stop = min(start + _TILE, n)
        tile, values = eta[: stop - start], log_p[: stop - start]
        fill(tile, 0.0)
        if a.offset.size > 0:
            for k in range(stop - start):
                tile[k] = a.offset[start + k]
        for d in range(p):
            column, b = a.columns[d, start:stop], beta[d]
            for k in range(stop - start):
                tile[k] += column[k] * b
        first, t = 0, 0
        for f in range(F):
            q, codes = a.sizes[f, 1], a.codes[f, start:stop]
            for i in range(q):
                z = a.z[t, start:stop]
                for k in range(stop - start):
                    tile[k] += z[k] * u[first + codes[k] * q + i]
                t += 1
            first += (a.sizes[f, 0] + 1) * q
        a.family.rows(tile, a.side[start:stop], values)
        w = a.weights[start:stop]
        for k in range(stop - start):
            values[k] *= w[k]
            tile[k] *= w[k]
        for k in range(stop - start):
            total += values[k]
        for d in range(p):
            column, pulled = a.columns[d, start:stop], 0.0
            for k in range(stop - start):
                pulled += column[k] * tile[k]
            slope[d] += pulled
        if by_level.size > 0:
            _add_by_level(values, a.codes[0, start:stop], by_level, F // F)  # 1, which as a literal is another type
        first, t = 0, 0
        for f in range(F):
            q, codes = a.sizes[f, 1], a.codes[f, start:stop]
            for i in range(q):
                z = a.z[t, start:stop]
                for k in range(stop - start):
                    values[k] = z[k] * tile[k]
                _add_by_level(values, codes, pull[first + i :], q)
                t += 1
            first += (a.sizes[f, 0] + 1) * q
    return total


_AT_0 = math.log(2.0) - 0.5 * math.log(2.0) ** 2


@jit
def log_sd(t: float, origin: float) -> tuple[float, float, float]:
    """Return l(t) = t + m - m^2 / 2, m = log(1 + exp(-t)), moved to the origin, its slope, and the slope's."""
    m = math.log1p(math.exp(-t)) if t > -30.0 else -t
    left = 1.0 / (1.0 + math.exp(t)) if t < 700.0 else 0.0
    slope = 1.0 - left + m * left
    return origin + t + m - 0.5 * m * m - _AT_0, slope, left * (1.0 - 2.0 * left - m * (1.0 - left)) / slope


@jit
def write_scales(own: FloatArray, origin: FloatArray, blocks: IntArray, s: FloatArray, C: FloatArray) -> None:
    """Write sds, shape (q,), and the Cholesky factor of correlations, (q, q), given a factor's last coordinates."""
    q = s.size
    for i in range(q):
        s[i] = max(math.exp(log_sd(own[i], origin[i])[0]), _LEAST_SD)
    for i in range(q):
        fill(C[i], 0.0)
    k = q
    for i in range(q):
        left = 1.0
        for j in range(blocks[i, 0], i):
            C[i, j] = left * math.tanh(own[k])
            left /= math.cosh(own[k])
            k += 1
        C[i, i] = left


@jit_inner
def level_factor(s: FloatArray, C: FloatArray, across: FloatArray, T: FloatArray, turns: FloatArray) -> None:
    """Write T, shape (q, q), with T T' = A S C C' S A', and cosines and sines of the rotations, (q, q, 2).

    Givens rotations of the columns of A S C: none where it is lower triangular, and sds may be tiny.
    """
    q = s.size
    for i in range(q):
        for b in range(q):
            T[i, b] = 0.0
            for j in range(b, q):
                T[i, b] += across[i, j] * s[j] * C[j, b]
    for i in range(q):
        for k in range(i + 1, q):
            turns[i, k, 0], turns[i, k, 1] = 1.0, 0.0
            if T[i, k] == 0.0 and T[i, i] >= 0.0:
                continue
            size = math.hypot(T[i, i], T[i, k])
            c, d = T[i, i] / size, T[i, k] / size
            turns[i, k, 0], turns[i, k, 1] = c, d
            for n in range(i, q):
                T[n, i], T[n, k] = c * T[n, i] + d * T[n, k], c * T[n, k] - d * T[n, i]
            T[i, k] = 0.0


@jit_inner
def add_factor_slopes(
    sds: tuple[FloatArray, FloatArray, FloatArray],
    factor: tuple[FloatArray, FloatArray],
    of_T: FloatArray,
    by: tuple[FloatArray, FloatArray, IntArray],
) -> None:
    """Add to the gradients in sds and in C, `by`, that which a gradient in T makes; T and it are overwritten.

    `sds` are s, C and A, `factor` T and the rotations, which are undone from the last to the first.
    """
    (s, C, across), (T, turns), (of_s, of_C, blocks) = sds, factor, by
    q = s.size
    for i in range(q - 1, -1, -1):
        for k in range(q - 1, i, -1):
            c, d = turns[i, k]
            if d == 0.0 and c == 1.0:
                continue
            torque, size = 0.0, T[i, i]
            for n in range(i + 1, q):
                torque += of_T[n, k] * T[n, i] - of_T[n, i] * T[n, k]
            for n in range(i, q):
                T[n, i], T[n, k] = c * T[n, i] - d * T[n, k], d * T[n, i] + c * T[n, k]
                of_T[n, i], of_T[n, k] = c * of_T[n, i] - d * of_T[n, k], d * of_T[n, i] + c * of_T[n, k]
            of_T[i, i] += d * torque / size
            of_T[i, k] -= c * torque / size
    for j in range(q):
        for b in range(blocks[j, 0], j + 1):
            slope = 0.0
            for i in range(q):
                slope += across[i, j] * of_T[i, b]
            of_s[j] += slope * C[j, b]
            of_C[j, b] += slope * s[j]


@jit
def covariance_factors(
    own: FloatArray, origin: FloatArray, blocks: IntArray, across: FloatArray, found: FloatArray
) -> None:
    """Write T of a factor, shape (n, q, q), given its last coordinates, (n, k); S C if `across` is the identity."""
    q = origin.size
    s, C, turns = np.empty(q), np.empty((q, q)), np.empty((q, q, 2))
    for n in range(own.shape[0]):
        write_scales(own[n], origin, blocks, s, C)
        level_factor(s, C, across, found[n], turns)


@jit_inner
def _log_length(i: int, B: FloatArray, s: FloatArray, C: FloatArray, row: FloatArray) -> float:
    """Write a row of B S C, shape (q,), and return the logarithm of its length: a log sd."""
    square = 0.0
    for b in range(s.size):
        row[b] = 0.0
        for j in range(b, s.size):
            row[b] += B[i, j] * s[j] * C[j, b]
        square += row[b] * row[b]
    return 0.5 * math.log(square)


@jit_inner
def _add_length_slopes(
    i: int,
    sds: tuple[FloatArray, FloatArray, FloatArray],
    row: FloatArray,
    times: float,
    by: tuple[FloatArray, FloatArray, IntArray],
) -> None:
    """Add to the gradients in sds and in C, `by`, that of a row's log length; `sds` are s, C and B."""
    (s, C, B), (of_s, of_C, blocks), square = sds, by, 0.0
    for b in range(s.size):
        square += row[b] * row[b]
    for j in range(s.size):
        for b in range(blocks[j, 0], j + 1):
            of_s[j] += times / square * B[i, j] * row[b] * C[j, b]
            of_C[j, b] += times / square * B[i, j] * row[b] * s[j]


@jit_inner
def log_prior(
    own: FloatArray,
    sds: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    prior: tuple[float, float],
    by: tuple[FloatArray, FloatArray, IntArray],
    slope: FloatArray,
) -> tuple[float, float]:
    """Return the log prior of a factor's last coordinates, and that of log sds and correlations; add the gradients.

    `sds` are s, C, the origin of log sds and the basis, `by` gradients in s and C, and the blocks. The prior is about
    B S C, B the basis: with Sigma the measure of log sds and correlations is that of Sigma over prod s^(q + 1), on both
    sides of B, with Sigma and q those of a block.
    """
    s, C, origin, B = sds
    of_s, _, blocks = by
    q, total, of_logs, even = s.size, 0.0, 0.0, 2.0 * (LKJ_ETA - 1.0)
    row = np.empty(q)
    for i in range(q):
        size = float(blocks[i, 1] - blocks[i, 0])
        at = _log_length(i, B, s, C, row)
        value, steep, _ = log_sigma_terms(at, prior[0], prior[1])
        total += value - (size + 1.0 + even) * at
        of_logs += value - even * at
        _add_length_slopes(i, (s, C, B), row, steep - (size + 1.0 + even), by)
    for i in range(q):
        at = math.log(s[i])
        _, stretch, bend = log_sd(own[i], origin[i])
        size = float(blocks[i, 1] - blocks[i, 0])
        total += (size + 1.0 + even) * at + math.log(stretch)
        of_logs += even * at
        of_s[i] += (size + 1.0 + even) / s[i]
        slope[i] += bend
    k = q
    for i in range(q):
        for j in range(blocks[i, 0], i):
            power = LKJ_ETA + 0.5 * (blocks[i, 1] - 2 - j)
            of_cosh = math.log(math.cosh(own[k]))
            total -= 2.0 * power * of_cosh
            of_logs -= even * of_cosh
            slope[k] -= 2.0 * power * math.tanh(own[k])
            k += 1
    return total, of_logs


@jit_inner
def add_to_scales(
    own: FloatArray,
    s: FloatArray,
    origin: FloatArray,
    by: tuple[FloatArray, FloatArray, IntArray],
    slope: FloatArray,
) -> None:
    """Add to the gradient in a factor's last coordinates what that in sds and in the Cholesky factor, `by`, makes."""
    q = s.size
    of_s, of_C, blocks = by
    for i in range(q):
        slope[i] += of_s[i] * s[i] * log_sd(own[i], origin[i])[1]
    k = q
    for i in range(q):
        back, first = of_C[i, i], blocks[i, 0]
        left = np.empty(i - first + 1)
        left[0] = 1.0
        for j in range(i - first):
            left[j + 1] = left[j] / math.cosh(own[k + j])
        for j in range(i - first - 1, -1, -1):
            t, narrow = math.tanh(own[k + j]), 1.0 / math.cosh(own[k + j])
            slope[k + j] += left[j] * narrow * (of_C[i, first + j] * narrow - back * t)
            back = of_C[i, first + j] * t + back * narrow
        k += i - first


def layout_table(shapes: Sequence[tuple[int, int]], pairs: Sequence[int], p: int) -> IntArray:
    """Return for each factor levels, effects, the first places of y, of levels' effects, of u, of sds, of columns.

    y is in a point, which has beta after the first factor; u has an effect 0 after a factor's last level; the place of
    sds and correlations is among these, whose number comes last. `pairs` are the numbers of correlations.
    """
    table, y, e, u, last, t = [], 0, 0, 0, 0, 0
    for (G, q), k in zip(shapes, pairs, strict=True):
        table.append((G, q, y, e, u, last, t, q + k))
        y += G * q + (p if t == 0 else 0)
        e, u, last, t = e + G * q, u + (G + 1) * q, last + q + k, t + q
    return np.array(table)


@jit_inner
def joint_effects(
    point: FloatArray,
    u: FloatArray,
    white: FloatArray,
    a: JointArguments,
    of_sds: tuple[FloatArray, FloatArray, FloatArray],
) -> tuple[float, float]:
    """Write effects u of a point, and z, d and 1 / sqrt(a), shape (3, E).

    Adds the gradient of the priors of sds and correlations: `of_sds` are gradients in the coordinates, (k,), in sds,
    (Q,), and in Cholesky factors, (Q, most effects).
    Returns the log prior of effects, sds and correlations, and what that of (u, log sds, correlations) is more.
    """
    F, total, natural, halves, product = a.sizes.shape[0], 0.0, 0.0, 0.0, 1.0
    lead = a.sizes[0, 0] * a.sizes[0, 1]
    slope, of_s, of_C = of_sds
    rest = np.empty(a.rest.size)  # of beta; of effects below
    for i in range(rest.size):
        rest[i] = point[lead + i] - a.rest[i]
    for f in range(F - 1, -1, -1):
        G, q, v, e, first, at, t, size = a.sizes[f]
        s, C, T, turns = np.empty(q), np.empty((q, q)), np.empty((q, q)), np.empty((q, q, 2))
        coordinates = point[point.size - slope.size + at : point.size - slope.size + at + size]
        write_scales(coordinates, a.origin[t : t + q], a.blocks[t : t + q], s, C)
        level_factor(s, C, a.across[f], T, turns)
        away = white[1, e : e + G * q]
        copy_to(away, a.pull[e : e + G * q])
        for d in range(a.by_beta.shape[0]):
            of_beta, b = a.by_beta[d, e : e + G * q], rest[d]
            for k in range(away.size):
                away[k] -= of_beta[k] * b
        for g in range(G):
            for i in range(q):
                k, mean, moved, sigma = e + g * q + i, 0.0, 0.0, T[i, i]
                for j in range(i):
                    mean += T[i, j] * white[0, k - i + j]
                    moved += a.shift[k, j] * u[first + g * q + j]
                h, d = a.information[k], white[1, k]
                for c in range(a.start[k], a.start[k + 1]):
                    d -= a.cross[c] * rest[a.along[c]]
                d -= h * (mean + moved)
                A = 1.0 + sigma * sigma * h
                narrow = 1.0 / math.sqrt(A)
                z = (point[v + g * q + i] + sigma * d * narrow) * narrow
                white[0, k], white[1, k], white[2, k] = z, d, narrow
                u[first + g * q + i] = mean + sigma * z
                if f > 0:
                    place = v - lead + g * q + i
                    rest[place] = u[first + g * q + i] - a.rest[place]
                total -= 0.5 * z * z
                product *= A
                if product > _MOST_PRODUCT:
                    halves += 0.5 * math.log(product)
                    product = 1.0
        for i in range(q):
            u[first + G * q + i] = 0.0
            natural -= G * math.log(T[i, i])
        own_prior, of_logs = log_prior(
            coordinates,
            (s, C, a.origin[t : t + q], a.bases[f]),
            a.group_prior,
            (of_s[t : t + q], of_C[t : t + q], a.blocks[t : t + q]),
            slope[at : at + size],
        )
        total += own_prior
        natural += of_logs - own_prior
    halves += 0.5 * math.log(product)
    return total - halves, natural + halves


def gradient_size(n_coordinates: int, levels: tuple[int, int]) -> int:
    """Return the entries of a gradient that `level_parts` follow."""
    G, q = levels
    return n_coordinates + (G + 1) * (q + 2) + 1


@jit_inner
def level_parts(
    gradient: FloatArray, n_coordinates: int, levels: tuple[int, int]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what follows the gradient in all coordinates, of each level of the first factor and of rows of no level.

    What they add to the log density, shape (G + 1,): the first factor's coordinates are in these alone. Sums over the
    rows of each whose x = M' z: gradients in u, ((G + 1) q,), and log-likelihoods, (G + 1,). The last entry of such a
    gradient is 1 if these sums are given, so that such rows are not read, else 0. Parts of other gradients are empty.
    """
    first, G, q = n_coordinates, *levels
    second = first + G + 1
    third = second + (G + 1) * q
    return gradient[first:second], gradient[second:third], gradient[third : third + G + 1]


@jit_inner
def joint_density(point: FloatArray, gradient: FloatArray, a: JointArguments) -> float:
    """Return the log density of a point, and write its gradient, which `level_parts` may follow."""
    F, p, m = a.sizes.shape[0], a.columns.shape[0], a.rest.size
    lead = a.sizes[0, 0] * a.sizes[0, 1]
    last, size_u = lead + m, a.sizes[F - 1, 4] + (a.sizes[F - 1, 0] + 1) * a.sizes[F - 1, 1]
    n, plain, alone = a.weights.size, a.columns.shape[1], gradient.size == point.size
    by_level, of_levels, of_cells = level_parts(gradient, point.size, (a.sizes[0, 0], a.sizes[0, 1]))
    if alone:
        of_levels, of_cells = np.empty((a.sizes[0, 0] + 1) * a.sizes[0, 1]), np.empty(a.sizes[0, 0] + 1)
    given = not alone and gradient[gradient.size - 1] > 0.0
    fill(gradient[: point.size], 0.0)
    fill(by_level, 0.0)
    white, u, pull = np.empty((3, a.pull.size)), np.empty(size_u), np.zeros(size_u)
    of_sds, of_factors = np.zeros(a.origin.size), np.zeros((a.origin.size, a.bases.shape[1]))
    total, _ = joint_effects(point, u, white, a, (gradient[last : point.size], of_sds, of_factors))
    # rows, and the prior of beta
    total += prior_terms(point[lead : lead + p], a.prior, gradient[lead : lead + p])
    beta, of_beta = point[lead : lead + p], gradient[lead : lead + p]
    for part in range(2):
        rows = part * plain, plain + part * (n - plain), p - part * p  # a literal would be another type to numba
        if part == 0:
            total += _add_row_terms(rows, (beta, u), a, (of_beta, pull), by_level)
        elif plain < n and not given:
            shifted = u.copy()
            for d in range(p):
                slopes, b = a.slopes[d], beta[d]
                for k in range(shifted.size):
                    shifted[k] += slopes[k] * b
            fill(of_levels, 0.0)
            fill(of_cells, 0.0)
            _add_row_terms(rows, (beta, shifted), a, (of_beta, of_levels), of_cells)
    if plain < n:
        for d in range(p):
            of_beta[d] += dot(a.slopes[d], of_levels)
        for k in range(of_levels.size):
            pull[k] += of_levels[k]
        for g in range(of_cells.size):
            total += of_cells[g]
        for g in range(by_level.size):
            by_level[g] += of_cells[g]
    if by_level.size > 0:
        for e in range(lead):
            by_level[e // a.sizes[0, 1]] -= 0.5 * white[0, e] * white[0, e]
    # back to the coordinates
    of_rest = np.zeros(m)
    for f in range(F):
        G, q, v, e, first, at, t, size = a.sizes[f]
        s, C, coordinates = np.empty(q), np.empty((q, q)), point[last + at : last + at + size]
        blocks = a.blocks[t : t + q]
        write_scales(coordinates, a.origin[t : t + q], blocks, s, C)
        T, turns, of_T = np.empty((q, q)), np.empty((q, q, 2)), np.zeros((q, q))
        level_factor(s, C, a.across[f], T, turns)
        back = np.empty(q)
        for g in range(G):
            at_0 = e + g * q
            for i in range(q):
                back[i] = -white[0, at_0 + i]
            for i in range(q - 1, -1, -1):
                k, above = e + g * q + i, pull[first + g * q + i]
                if f > 0:
                    above += of_rest[v - lead + g * q + i]
                sigma, h, z, d, narrow = T[i, i], a.information[k], white[0, k], white[1, k], white[2, k]
                square = narrow * narrow
                mine = back[i] + above * sigma
                gradient[v + g * q + i] = mine * narrow
                # in sigma, through z, log sqrt(A) and u; in d; in the prior's mean, through u and d
                of_sigma = mine * (d - sigma * h * (z + sigma * d * square)) * square - sigma * h * square + above * z
                of_d = mine * sigma * square
                of_mean = above - of_d * h
                of_T[i, i] += of_sigma
                for j in range(i):
                    of_T[i, j] += of_mean * white[0, at_0 + j]
                    back[j] += of_mean * T[i, j]
                    pull[first + g * q + j] -= of_d * h * a.shift[k, j]
                for c in range(a.start[k], a.start[k + 1]):
                    of_rest[a.along[c]] -= a.cross[c] * of_d
                white[1, k] = of_d
        for d in range(p):
            of_rest[d] -= dot(a.by_beta[d, e : e + G * q], white[1, e : e + G * q])
        by = of_sds[t : t + q], of_factors[t : t + q], blocks
        add_factor_slopes((s, C, a.across[f]), (T, turns), of_T, by)
        add_to_scales(coordinates, s, a.origin[t : t + q], by, gradient[last + at : last + at + coordinates.size])
    for d in range(p):
        gradient[lead + d] += of_rest[d]
    return total


_MOST_SHARE = 1.0 - 1e-6


_MIN_FUNNEL_SDS = 0.1  # sds of log r, below which b and the mean are no funnel


class MovedMeans(NamedTuple):
    """Columns of effects whose means are moved, one after another, the first factor's last; none where S is 0."""

    places: IntArray  # (S, 6): of y in a point, of e; levels, effects, the column; the factor
    coefficients: FloatArray  # what takes an effect's place, (S, p)
    levels: FloatArray  # sums of coefficients that are 1 for these, and 0 for most others', (S, p)
    mixed: FloatArray  # `levels` of `coefficients`, (S, S)
    information: FloatArray  # H, (S,)
    squares: FloatArray  # sum e^2, (S,)
    log_sds: FloatArray  # log sigma_0, (S,)
    beta: FloatArray  # at sigma_0, (p,)

    @classmethod
    def of(
        cls,
        free: Sequence[FloatArray],
        mode: Sequence[tuple[FloatArray, FloatArray]],
        of_beta: FloatArray,
        a: JointArguments,
    ) -> "MovedMeans":
        """Return those of `free_columns`, in the order of effects, whose scale is worth following; sigma_0 is 1.

        `mode` has the weights w of each factor, shape (G, q), and its sds, (q,); `of_beta` is rows' information on
        beta, shape (p, p).
        """
        p, table, columns, figures = len(of_beta), [], [], []
        for f in (*range(1, len(free)), 0):
            (G, q, y, e, *_), (informed, sd) = a.sizes[f], mode[f]
            tilt = a.tilt[e : e + G * q].reshape(G, q)
            for i in funnel_columns(free[f], informed):
                w = informed[:, i]
                table.append((y, e, G, q, i, f))
                columns.append(free[f][i])
                share = min(float((w**2).sum() / w.sum()), _MOST_SHARE)
                figures.append((share / (1.0 - share) / sd[i] ** 2, float((tilt[:, i] ** 2).sum())))
        information, squares = map(np.ascontiguousarray, np.array(figures).reshape(-1, 2).T)
        places, coefficients = np.array(table, dtype=np.int64).reshape(-1, 6), np.array(columns).reshape(-1, p)
        levels = coefficients @ of_beta
        levels /= np.maximum((levels * coefficients).sum(axis=1), np.finfo(float).tiny)[:, None]
        mixed = levels @ coefficients.T
        return cls(places, coefficients, levels, mixed, information, squares, np.zeros(len(table)), np.zeros(p))

    def at(self, point: FloatArray, a: JointArguments) -> "MovedMeans":
        """Return them with sigma_0 and beta of a point, shape (D,)."""
        first = a.sizes[0, 0] * a.sizes[0, 1]
        beta = point[first : first + len(self.beta)].copy()
        return self._replace(log_sds=_log_sds(point[None], at_address(self), a)[0], beta=beta)

    def log_determinant(self, points: FloatArray, a: JointArguments) -> FloatArray:
        """Return that of the map to points, shape (n, D), but for a constant: frames of any sigma_0 agree on it."""
        log_sds = _log_sds(points, at_address(self), a)
        return np.asarray(0.5 * np.log1p(self.information * np.exp(2.0 * log_sds)).sum(axis=1))


def funnel_columns(free: FloatArray, informed: FloatArray) -> list[int]:
    """Return the columns of a factor's effects whose mean's scale is worth following.

    `free` is that of `free_columns`, shape (q, p), `informed` are the weights w, shape (G, q).
    """
    square, total = (informed**2).sum(axis=0), informed.sum(axis=0)
    worth = square > _MIN_FUNNEL_SDS * total * np.sqrt(2.0 * square + 1.0)
    return [int(i) for i in np.flatnonzero(free.any(axis=1) & worth)]


def free_columns(
    rows: JointRows,
    curvature: Curvature,
    of_beta: FloatArray,
    covariances: Sequence[FloatArray],
    bases: Sequence[FloatArray],
) -> list[FloatArray]:
    """Return for each factor's effects the coefficients that can take their place, shape (q, p); 0 if not free.

    `bases` are those of `orthogonal_columns`. An effect is free if the prior of
    effects alone holds their mean: it holds more than rows of no level do, and than `of_beta`, the precision of the
    coefficients' prior, shape (p, p).
    """
    design, free, p = rows.rows.design, [], len(of_beta)
    for factor, blocks, covariance, basis in zip(
        rows.factors, [curvature.first, *curvature.blocks], covariances, bases, strict=True
    ):
        made = np.zeros((len(factor.effects), p))
        for i, effect in enumerate(factor.effects):
            for column, times in design.columns_of(factor, effect).items():
                made[i, column] = times
        lost = ~made.any(axis=1)
        replaced = basis.T @ made
        for i, column in enumerate(replaced):
            outside = max(float(column @ curvature.rest[:p, :p] @ column - blocks[:, i, i].sum()), 0.0)
            if basis[lost, i].any() or outside + column @ of_beta @ column >= len(factor) / covariance[i, i]:
                replaced[i] = 0.0
        free.append(replaced)
    return free


@jit_inner_sums
def _mean_of_others(point: FloatArray, m: MovedMeans, k: int, a: JointArguments) -> float:
    v, first, G, q, i, _ = m.places[k]
    total = 0.0
    for g in range(G):
        total += a.tilt[first + g * q + i] * point[v + g * q + i]
    return float(total / m.squares[k])


@jit_inner_sums
def _column_mean(point: FloatArray, m: MovedMeans, k: int, a: JointArguments) -> float:
    """Return the mean a of a column; of the first factor minus the distance of its level, which others' means move."""
    if m.places[k, 0] > 0:
        return _mean_of_others(point, m, k, a)
    total, lead = 0.0, a.sizes[0, 0] * a.sizes[0, 1]
    for d in range(m.beta.size):
        total -= m.levels[k, d] * (point[lead + d] - m.beta[d])
    for j in range(k):
        if m.places[j, 0] > 0:
            total -= m.mixed[k, j] * _mean_of_others(point, m, j, a)
    return total


@jit_inner
def _shift_mean(point: FloatArray, a: JointArguments, m: MovedMeans, k: int, by: float) -> None:
    """Add to a level's effects on a column, where rows tell them, and take it off the coefficients.

    Effects of the first factor follow coefficients by themselves.
    """
    v, first, G, q, i, _ = m.places[k]
    if v > 0:
        for g in range(G):
            point[v + g * q + i] += a.tilt[first + g * q + i] * by
            for j in range(i + 1, q):
                point[v + g * q + j] += a.tilt[first + g * q + j] * a.shift[first + g * q + j, i] * by
    for d in range(m.beta.size):
        point[a.sizes[0, 0] * a.sizes[0, 1] + d] -= m.coefficients[k, d] * by


@jit_inner
def _log_sd_of(point: FloatArray, m: MovedMeans, k: int, a: JointArguments, slope: FloatArray) -> float:
    """Return the log sd of an effect whose mean is moved, and write its gradient in all sds and correlations, (k,)."""
    i, f = m.places[k, 4:]
    q, at, t, size = a.sizes[f, 1], a.sizes[f, 5], a.sizes[f, 6], a.sizes[f, 7]
    coordinates, blocks = point[point.size - slope.size + at :][:size], a.blocks[t : t + q]
    s, C, row, by = np.empty(q), np.empty((q, q)), np.empty(q), (np.zeros(q), np.zeros((q, q)), blocks)
    write_scales(coordinates, a.origin[t : t + q], blocks, s, C)
    log_sd = _log_length(i, a.across[f], s, C, row)
    _add_length_slopes(i, (s, C, a.across[f]), row, 1.0, by)
    fill(slope, 0.0)
    add_to_scales(coordinates, s, a.origin[t : t + q], by, slope[at : at + size])
    return log_sd


@jit_inner
def _n_sds(a: JointArguments) -> int:
    return int(a.sizes[-1, 5] + a.sizes[-1, 7])


@jit
def _log_sds(points: FloatArray, m: MovedMeans, a: JointArguments) -> FloatArray:
    """Return the log sds of the effects whose means are moved, shape (n, S), of points, (n, D)."""
    log_sds, slope = np.empty((points.shape[0], m.information.size)), np.empty(_n_sds(a))
    for n in range(points.shape[0]):
        for k in range(m.information.size):
            log_sds[n, k] = _log_sd_of(points[n], m, k, a, slope)
    return log_sds


@jit_inner
def _log_r(point: FloatArray, m: MovedMeans, k: int, a: JointArguments, slope: FloatArray) -> tuple[float, float]:
    """Return log r, and what of it depends on sigma; write its gradient in sds and correlations, shape (k,)."""
    more = m.information[k] * math.exp(2.0 * _log_sd_of(point, m, k, a, slope))
    of_sigma = 0.5 * math.log1p(more)
    for i in range(slope.size):
        slope[i] *= more / (1.0 + more)
    return of_sigma - 0.5 * math.log1p(m.information[k] * math.exp(2.0 * m.log_sds[k])), of_sigma


@jit_inner
def _move_means(point: FloatArray, m: MovedMeans, a: JointArguments, found: FloatArray) -> float:
    """Move a point, write the means a, (S,), and return `log_determinant`."""
    total, slope = 0.0, np.empty(_n_sds(a))
    for k in range(m.information.size):
        log_r, of_sigma = _log_r(point, m, k, a, slope)
        found[k] = _column_mean(point, m, k, a)
        _shift_mean(point, a, m, k, math.expm1(log_r) * found[k])
        total += of_sigma
    return total


@jit
def move_means(points: FloatArray, m: MovedMeans, a: JointArguments) -> None:
    """Move points, shape (n, D)."""
    means = np.empty(m.information.size)
    for n in range(points.shape[0]):
        _move_means(points[n], m, a, means)


@jit
def undo_move_means(points: FloatArray, m: MovedMeans, a: JointArguments) -> None:
    """Undo `move_means`."""
    slope = np.empty(_n_sds(a))
    for n in range(points.shape[0]):
        point = points[n]
        for k in range(m.information.size - 1, -1, -1):
            log_r = _log_r(point, m, k, a, slope)[0]
            _shift_mean(point, a, m, k, math.expm1(-log_r) * _column_mean(point, m, k, a))


class MovedArguments(NamedTuple):
    """What `moved_density` takes after the point and the gradient."""

    means: MovedMeans
    arguments: JointArguments
    density: StoredDensity  # `joint_density`, which so is compiled once

    @classmethod
    def of(cls, means: MovedMeans, arguments: JointArguments) -> "MovedArguments":
        """Return those of points whose means are moved, in memory."""
        return at_address(cls(means, arguments, StoredDensity.of(joint_density, arguments)))


@jit
def moved_density(point: FloatArray, gradient: FloatArray, moved: MovedArguments) -> float:
    """Return the log density of a point that is moved, and write its gradient in the point before."""
    m, a = moved.means, moved.arguments
    means, lead, slope = np.empty(m.information.size), a.sizes[0, 0] * a.sizes[0, 1], np.empty(_n_sds(a))
    value = _move_means(point, m, a, means)
    value += evaluate_stored(moved.density.function, moved.density.data, point, gradient)
    for k in range(m.information.size - 1, -1, -1):
        v, first, G, q, i, _ = m.places[k]
        log_r, _ = _log_r(point, m, k, a, slope)
        along = 0.0
        for d in range(m.beta.size):
            along -= m.coefficients[k, d] * gradient[lead + d]
        if v > 0:
            for g in range(G):
                along += a.tilt[first + g * q + i] * gradient[v + g * q + i]
                for j in range(i + 1, q):
                    along += a.tilt[first + g * q + j] * a.shift[first + g * q + j, i] * gradient[v + g * q + j]
        part = math.expm1(log_r) * along
        times, last = math.exp(log_r) * means[k] * along + 1.0, point.size - slope.size
        for c in range(slope.size):
            gradient[last + c] += slope[c] * times
        if v > 0:
            _add_mean(gradient, m, k, a, part)
            continue
        for d in range(m.beta.size):
            gradient[lead + d] -= m.levels[k, d] * part
        for j in range(k):
            if m.places[j, 0] > 0:
                _add_mean(gradient, m, j, a, -m.mixed[k, j] * part)
    return float(value)


@jit_inner
def _add_mean(gradient: FloatArray, m: MovedMeans, k: int, a: JointArguments, by: float) -> None:
    """Add to a gradient that of a mean a, `by` times."""
    v, first, G, q, i, _ = m.places[k]
    for g in range(G):
        gradient[v + g * q + i] += by / m.squares[k] * a.tilt[first + g * q + i]


class LevelInformation(NamedTuple):
    """What rows say about the effects of a factor's levels: h, (G, q), M, (G, q, q), and r = turn b, turn (G, q, q)."""

    information: FloatArray
    shift: FloatArray
    turn: FloatArray

    @classmethod
    def of(cls, H: FloatArray, covariance: FloatArray) -> "LevelInformation":
        """Return those of quadratics b . u - u' H u / 2 of effects u that have a normal prior."""
        q, prior = len(covariance), np.linalg.inv(covariance)
        posterior, h, M, turn = (
            H + prior,
            np.empty(H.shape[:2]),
            np.zeros_like(H),
            np.zeros_like(H) + np.eye(len(prior)),
        )
        for i in range(q - 1, -1, -1):  # the later effects are integrated out
            rows = np.maximum(posterior[:, i, i] - prior[i, i], 0.0)
            h[:, i] = rows
            M[:, i, :i] = (posterior[:, i, :i] - prior[i, :i]) / np.maximum(rows, np.finfo(float).tiny)[:, None]
            cross, row = posterior[:, i, :i] / posterior[:, i, i, None], posterior[:, i, :i].copy()
            turn[:, :i] -= cross[:, :, None] * turn[:, None, i]
            posterior[:, :i, :i] -= cross[:, :, None] * row[:, None, :]
            prior[:i, :i] -= np.outer(prior[i, :i], prior[i, :i]) / prior[i, i]
        return cls(h, M, turn)


_LINEAR_TOLERANCE = 1e-12  # of the largest entry of a column in a level, by which x and M' z may differ


def level_slopes(X: FloatArray, z: FloatArray, codes: IntArray, n_levels: int) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return M of each level and of no level, shape (G + 1, q, p), and the rows whose x = M' z, shape (n,).

    Rows stand by level. Pseudo-rows of a group have covariates that are linear in z, and so have as few rows as
    effects. They need no columns of their own: their predictor is z . (u + M beta) and their offset.
    """
    first = np.flatnonzero(np.diff(codes, prepend=-1))
    size = np.sqrt(np.maximum((z * z).mean(axis=0), np.finfo(float).tiny))
    z = z / size

    def by_level(values: FloatArray, sums: np.ufunc = np.add) -> FloatArray:
        table = np.zeros(n_levels + 1)
        table[codes[first]] = sums.reduceat(values, first)
        return table

    H = np.stack([np.stack([by_level(a * b) for a in z.T], axis=1) for b in z.T], axis=1)
    inverse, other = np.linalg.pinv(H, hermitian=True), codes == n_levels
    M = np.empty((n_levels + 1, z.shape[1], X.shape[1]))
    for d, x in enumerate(X.T):
        cross = np.stack([by_level(a * x) for a in z.T], axis=1)
        M[:, :, d] = (inverse @ cross[:, :, None])[:, :, 0]
        distance = np.abs(x - (z * M[codes, :, d]).sum(axis=1))
        other |= distance > _LINEAR_TOLERANCE * by_level(np.abs(x), np.maximum)[codes]
    within = np.bincount(codes, other, n_levels + 1) == 0
    return M / size[:, None] * within[:, None, None], within[codes]


def orthogonal_columns(z: FloatArray, w: FloatArray, blocks: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return B and A, shape (q, q): columns z B are orthogonal over rows of weights w within blocks, z B A^-1 all.

    Effects of the columns z are B times those of z B, and effects of z B A^-1 are A times those of z B. Each column is
    orthogonal to those before it: beside an intercept a column is less its mean. B is 0 between blocks.
    """
    moments, same = (z * w[:, None]).T @ z, blocks[:, [0]] == blocks[:, 0]
    within = np.linalg.inv(_unit_factor(np.where(same, moments, 0.0)))
    left = within @ moments @ within.T
    return np.asarray(within.T), _unit_factor(np.where(same & ~np.eye(len(left), dtype=bool), 0.0, left)).T


def _unit_factor(moments: FloatArray) -> FloatArray:
    """Return the lower triangular factor of moments with a diagonal of 1; columns without a rest take none off."""
    L, left = np.eye(len(moments)), moments.copy()
    for i in range(len(moments)):
        if left[i, i] > np.finfo(float).eps * max(moments[i, i], np.finfo(float).tiny):
            L[i + 1 :, i] = left[i + 1 :, i] / left[i, i]
            left -= np.outer(L[:, i] * (np.arange(len(left)) > i), left[i])
    return L


def sd_coordinate_spread(w: FloatArray, blocks: IntArray) -> FloatArray:
    """Return about the sds of coordinates of sds and correlations, given the weights of levels, shape (G, q)."""
    wide = list(1.0 / np.sqrt(2.0 * (w**2).sum(axis=0) + 1.0) / log_sd(0.0, 0.0)[1])
    for i in range(w.shape[1]):
        both = w[:, [i]] * w[:, blocks[i, 0] : i]
        wide += [1.0 / math.sqrt(2.0 * (LKJ_ETA - 1.0) + 1.0 + float(each.sum())) for each in both.T]
    return np.array(wide)


def sd_coordinates(covariance: FloatArray, blocks: IntArray) -> FloatArray:
    """Return the coordinates of a factor's sds, which are at their origin, and correlations."""
    q, C = len(covariance), np.linalg.cholesky(covariance) / np.sqrt(np.diagonal(covariance))[:, None]
    coordinates = [0.0] * q
    for i in range(q):
        left = 1.0
        for j in range(blocks[i, 0], i):
            coordinates.append(math.atanh(C[i, j] / left))
            left *= math.sqrt(max(1.0 - (C[i, j] / left) ** 2, 1e-12))
    return np.array(coordinates)


def level_jacobians(factor: FloatArray, rows: LevelInformation) -> tuple[FloatArray, FloatArray]:
    """Return du / dy and dz / dy of each level, (G, q, q), given the factor S C."""
    of_u, of_z = np.zeros_like(rows.turn), np.zeros_like(rows.turn)
    for i in range(len(factor)):
        sigma, below, h, M = factor[i, i], factor[i, :i], rows.information[:, i], rows.shift[:, i, :i]
        A = 1.0 + sigma**2 * h
        mean = np.einsum("j,gjk->gk", below, of_z[:, :i]) + np.einsum("gj,gjk->gk", M, of_u[:, :i])
        of_z[:, i] = -(sigma * h / A)[:, None] * mean
        of_z[:, i, i] += 1.0 / np.sqrt(A)
        of_u[:, i] = np.einsum("j,gjk->gk", below, of_z[:, :i]) + sigma * of_z[:, i]
    return of_u, of_z
