r"""Effects of one factor, several for each group, integrated out: the compiled density, and draws of the effects.

With u = T z, z ~ N(0, I), the effects of a group and T the factor of their covariance (`models.groups.joint`), theta
holds beta and the coordinates of sds and correlations, and

.. math:: \log\pi(\theta) = \sum_g \log \int \prod_{n \in g} e^{w_n \ell(x_n \beta + o_n + z_n' T z, y_n)} N(z; 0, I) dz
          + \log\pi_0(\theta).

In z the density stays regular as an sd goes to 0 or a correlation to one. Nodes are those of Gauss and Hermite in each
direction, m + L^{-T} t: m is the mode of z, where two Newton steps lead from that of a quadratic log-likelihood, and
L L' the curvature there. The gradient is the average over the same nodes of that of the joint density.

Effects are drawn given theta, group by group, by a few Metropolis steps whose proposals do not depend on where they
are: N(m + J d, V), with mean and covariance of z at the middle of theta by quadrature, and J how the mean moves with
theta. With w the density over the proposal's, a step leaves of the error at z the share lambda(z) = E[1 - min(1, w' /
w(z))]; at the nodes that says how many steps a group needs.

References
----------
Pinheiro and Bates (1995), Journal of Computational and Graphical Statistics 4, 12-35, for the nodes. Tierney (1994),
Annals of Statistics 22, 1701-1762, and Liu (1996), Statistics and Computing 6, 113-119, for the steps and lambda.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from bayescore.compiled import at_address, jit, jit_inner
from bayescore.data.passes import TILE
from bayescore.families import Family
from bayescore.models.groups.joint import (
    JointArguments,
    add_factor_slopes,
    add_to_scales,
    level_factor,
    log_prior,
    write_scales,
)
from bayescore.models.groups.marginal import SampledGroups, densities, sample_systematically, terms_by_differences
from bayescore.models.laplace import NoModeError, factor_of_inverse, find_mode
from bayescore.models.posterior import add_predictors, add_scores, prior_terms
from bayescore.numerics.elementary import (
    copy_to,
    dot,
    exp_minus,
    factorise,
    fill,
    largest,
    log_diagonal,
    normal_nodes,
    solve,
    transposed_solve,
    transposed_times,
)
from bayescore.priors import Prior
from bayescore.priors.prior import Part
from bayescore.types import FloatArray, IntArray

_NEWTON_STEPS = 2


_MAX_NEWTON_SDS = 3.0  # of a Newton step, in units of the curvature


_CHUNK = 512  # pairs of a row and a candidate that are evaluated at a time


_PROPOSAL_SDS = 1.02  # sds of proposals over those of z: the density over the proposal's then has a bound


_LEAST_DENSITY, _LEAST_LENGTH = 1e-300, 1e-300


_LEAST_SHARE = 1e-6


_MAX_DISTANCE_LEFT = 0.003  # total variation that steps leave of the distance between z and its proposal


MAX_METROPOLIS_STEPS = 12
"""Steps that a group has at most."""


class LinearMoments(NamedTuple):
    """Mean m + J x and factor A of the covariance of z of the groups, with x white theta; no groups if not known."""

    middle: FloatArray  # of theta, (D,)
    whiten: FloatArray  # lower triangular, (D, D)
    mean: FloatArray  # m, (G, q)
    moves: FloatArray  # J, (G, q, D)
    scale: FloatArray  # A, lower triangular, (G, q, q)

    @classmethod
    def of(cls, middle: FloatArray, factor: FloatArray, a: "IntegratedArguments") -> "LinearMoments":
        """Return those about the middle of theta; `factor` times its transpose is the covariance of theta."""
        at, moves = group_posteriors(middle, a), []
        for step in factor.T:
            ends = [group_posteriors(middle + sign * step, a).mean for sign in (1.0, -1.0)]
            moves.append(0.5 * (ends[0] - ends[1]))
        return cls(
            middle,
            np.ascontiguousarray(linalg.solve_triangular(factor, np.eye(len(factor)), lower=True)),
            at.mean,
            np.ascontiguousarray(np.stack(moves, axis=2)),
            np.asarray(np.linalg.cholesky(at.covariance), dtype=np.float64),
        )

    def of_groups(self, groups: IntArray) -> "LinearMoments":
        """Return that of some groups."""
        return self._replace(mean=self.mean[groups], moves=self.moves[groups], scale=self.scale[groups])

    @classmethod
    def unknown(cls, q: int, D: int) -> "LinearMoments":
        """Return that of no group, before anything is known."""
        return cls(np.zeros(D), np.zeros((D, D)), np.empty((0, q)), np.empty((0, q, D)), np.empty((0, q, q)))


class IntegratedArguments(NamedTuple):
    """What the density takes after the point and the gradient; rows stand by group, those of no group last.

    Of the groups whose x = M' z there are no columns, and `first` and `past` are the bounds of their rows among all.
    """

    columns: FloatArray  # X transposed of the first n' rows, (p, n')
    slopes: FloatArray  # M transposed of the others' groups, (p, (G + 1) q)
    side: FloatArray
    weights: FloatArray
    offset: FloatArray  # may be empty
    codes: IntArray  # G for rows of no group
    multipliers: FloatArray  # of effects in the rows, (q, n)
    first: IntArray  # the first row of each group, (G + 1,), and the row past its last
    past: IntArray
    family: Family
    prior: tuple[Part, ...]
    group_prior: tuple[float, float]
    origin: FloatArray  # see `JointArguments`: (q,), (q, 2), (q, q) and (q, q)
    blocks: IntArray
    basis: FloatArray
    across: FloatArray
    middle: FloatArray  # beta about which likelihoods are quadratics, (p,)
    information: FloatArray  # H of these, ((G + 1), q, q)
    pull: FloatArray  # H u + score, ((G + 1), q)
    cross: FloatArray  # sum of w c z x', ((G + 1), q, p)
    counts: FloatArray  # how often the integral of each group counts, (G + 1,)
    nodes: FloatArray  # t, (q, K)
    log_weights: FloatArray  # log w + |t|^2 / 2, (K,)
    linear: LinearMoments

    def with_linear_nodes(self, linear: "LinearMoments", n_nodes: int) -> "IntegratedArguments":
        """Return those whose nodes follow theta, so many in a direction."""
        nodes, log_weights = grid(len(self.origin), n_nodes)
        return at_address(self._replace(nodes=nodes, log_weights=log_weights, linear=linear))

    @classmethod
    def of(cls, a: JointArguments, beta: FloatArray, effects: FloatArray, n_nodes: int) -> "IntegratedArguments":
        """Return those of a model of one factor, about the effects u, shape (G, q), at a beta."""
        (G, q), codes, p = a.sizes[0, :2], a.codes[0].astype(np.int64), len(beta)
        n, plain = len(a.weights), a.columns.shape[1]
        first, last = np.zeros((2, G + 1), dtype=np.int64)
        starts = np.flatnonzero(np.diff(codes, prepend=-1) | (np.arange(n) == plain))
        first[codes[starts]], last[codes[starts]] = starts, np.append(starts[1:], n)
        fields = cls(
            a.columns,
            a.slopes if a.slopes.shape[1] else np.zeros((p, (G + 1) * q)),
            a.side,
            a.weights,
            a.offset,
            codes,
            a.z,
            first,
            last,
            a.family,
            a.prior,
            a.group_prior,
            a.origin,
            a.blocks,
            np.ascontiguousarray(a.bases[0]),
            np.ascontiguousarray(a.across[0]),
            beta,
            np.zeros((G + 1, q, q)),
            np.zeros((G + 1, q)),
            np.zeros((G + 1, q, p)),
            np.ones(G + 1),
            *grid(q, n_nodes),
            LinearMoments.unknown(q, p + a.sizes[0, 7]),
        )
        _add_quadratics(np.vstack([effects, np.zeros(q)]), fields)
        return at_address(fields)

    def of_groups(self, groups: IntArray, counts: FloatArray) -> "IntegratedArguments":
        """Return those of some groups, in order, each counted as often as it says, and of rows of no group."""
        n_groups = len(self.first) - 1
        at, place = np.append(groups, n_groups), np.full(n_groups + 1, -1)
        place[at] = np.arange(len(at))
        kept = np.flatnonzero(place[self.codes] >= 0)
        before, q, plain = np.full(len(self.codes) + 1, 0), len(self.multipliers), self.columns.shape[1]
        before[1:] = np.cumsum(place[self.codes] >= 0)
        slopes = self.slopes.reshape(len(self.slopes), -1, q)[:, at]
        some = self._replace(
            columns=np.ascontiguousarray(self.columns[:, kept[kept < plain]]),
            slopes=np.ascontiguousarray(slopes.reshape(len(slopes), -1)),
            side=self.side[kept],
            weights=self.weights[kept],
            offset=self.offset[kept] if self.offset.size else self.offset,
            codes=place[self.codes[kept]],
            multipliers=np.ascontiguousarray(self.multipliers[:, kept]),
            first=before[self.first[at]],
            past=before[self.past[at]],
            information=np.ascontiguousarray(self.information[at]),
            pull=np.ascontiguousarray(self.pull[at]),
            cross=np.ascontiguousarray(self.cross[at]),
            counts=np.append(counts, 1.0),
            linear=self.linear.of_groups(groups) if len(self.linear.mean) else self.linear,
        )
        return at_address(some)


def grid(q: int, n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes of q rules of Gauss and Hermite in product, shape (q, K), and log w + |t|^2 / 2, shape (K,)."""
    t, log_w = normal_nodes(n_nodes)
    nodes = np.stack(np.meshgrid(*[t] * q, indexing="ij"), axis=-1).reshape(-1, q)
    weights = np.stack(np.meshgrid(*[log_w] * q, indexing="ij"), axis=-1).reshape(-1, q).sum(axis=1)
    return np.ascontiguousarray(nodes.T), weights + 0.5 * (nodes**2).sum(axis=1)


@jit_inner
def _add_derivatives(
    effects: FloatArray,
    rows: tuple[FloatArray, FloatArray],
    a: IntegratedArguments,
    sums: tuple[FloatArray, FloatArray],
    curvature: FloatArray,
) -> None:
    """Add scores of effects, shape (G + 1, q), and the lower half of their curvature, (G + 1, q, q), to `sums`.

    `rows` are predictors without effects, shape (n,), and what rows multiply effects by, (q, n). The curvature of rows
    times their weights goes to `curvature`, shape (n,), unless it is empty.
    """
    (base, r), (push, information), q = rows, sums, effects.shape[1]
    eta, side, terms, scratch = np.empty(TILE), np.ones(TILE), np.empty((4, TILE)), np.empty((3, TILE))
    for start in range(0, base.size, TILE):
        width = min(TILE, base.size - start)
        fill(eta, 0.0)
        for lane in range(width):
            n = start + lane
            eta[lane], side[lane] = base[n], a.side[n]
            for i in range(q):
                eta[lane] += r[i, n] * effects[a.codes[n], i]
        a.family.derivatives(eta, side, terms, scratch)
        for lane in range(width):
            n = start + lane
            g, score, c = a.codes[n], a.weights[n] * terms[1, lane], a.weights[n] * max(terms[2, lane], 0.0)
            for i in range(q):
                push[g, i] += score * r[i, n]
                for j in range(i + 1):
                    information[g, i, j] += c * r[i, n] * r[j, n]
            if curvature.size > 0:
                curvature[n] = c


@jit
def _add_quadratics(u: FloatArray, a: IntegratedArguments) -> None:
    """Add what each group's rows say about its effects near u, shape (G + 1, q): H, H u + score, and the cross term."""
    q, p, base, c = a.multipliers.shape[0], a.middle.size, np.zeros(a.weights.size), np.empty(a.weights.size)
    _write_base(a.middle, a, base)
    _add_derivatives(u, (base, a.multipliers), a, (a.pull, a.information), c)
    for n in range(a.columns.shape[1]):
        for i in range(q):
            for d in range(p):
                a.cross[a.codes[n], i, d] += c[n] * a.multipliers[i, n] * a.columns[d, n]
    for g in range(a.first.size):
        for i in range(q):
            for j in range(i):
                a.information[g, j, i] = a.information[g, i, j]
        for i in range(q):
            for j in range(q):
                a.pull[g, i] += a.information[g, i, j] * u[g, j]
                for d in range(p):
                    a.cross[g, i, d] += a.information[g, i, j] * a.slopes[d, g * q + j]


@jit_inner
def _write_plain(beta: FloatArray, a: IntegratedArguments, base: FloatArray, moved: FloatArray) -> None:
    """Write what rows' predictors have of columns and offsets, shape (n,), and of slopes by group, ((G + 1) q,)."""
    plain = a.columns.shape[1]
    add_predictors(beta, a.columns, a.offset[:0], base[:plain])
    for k in range(a.offset.size):
        base[k] += a.offset[k]
    for d in range(beta.size):
        b, slopes = beta[d], a.slopes[d]
        for e in range(moved.size):
            moved[e] += slopes[e] * b


@jit_inner
def _write_base(beta: FloatArray, a: IntegratedArguments, base: FloatArray) -> None:
    """Write rows' predictors without effects, shape (n,)."""
    q, moved = a.multipliers.shape[0], np.zeros(a.slopes.shape[1])
    _write_plain(beta, a, base, moved)
    for k in range(a.columns.shape[1], base.size):
        for i in range(q):
            base[k] += a.multipliers[i, k] * moved[a.codes[k] * q + i]


@jit_inner
def _write_directions(T: FloatArray, a: IntegratedArguments, r: FloatArray) -> None:
    """Write r = T' z of the rows, shape (q, n)."""
    for j in range(T.shape[0]):
        fill(r[j], 0.0)
        for i in range(j, T.shape[0]):
            for n in range(r.shape[1]):
                r[j, n] += T[i, j] * a.multipliers[i, n]


@jit_inner
def _write_centers(
    theta: FloatArray, T: FloatArray, rows: tuple[FloatArray, FloatArray], a: IntegratedArguments, at: FloatArray
) -> FloatArray:
    """Write about the modes of z, shape (G + 1, q), and return L^-T, L the factor of the curvature, (G + 1, q, q).

    Where mean and covariance are followed, write the means and return the covariances' factors.

    `rows` are predictors without effects, shape (n,), and T' z, (q, n).
    """
    n_groups, q, p = a.first.size - 1, T.shape[0], a.middle.size
    if a.linear.mean.size > 0:
        _write_linear_means(theta, a.linear, at)
        return a.linear.scale
    factors, push, inner, none = (
        np.zeros((n_groups + 1, q, q)),
        np.zeros((n_groups + 1, q)),
        np.empty((q, q)),
        at[0, :0],
    )
    for g in range(n_groups):
        for i in range(q):
            push[g, i] = a.pull[g, i]
            for d in range(p):
                push[g, i] -= a.cross[g, i, d] * (theta[d] - a.middle[d])
            for j in range(q):
                inner[i, j] = 0.0
                for k in range(j, q):
                    inner[i, j] += a.information[g, i, k] * T[k, j]
        for i in range(q):
            for j in range(i + 1):
                factors[g, i, j] = 1.0 if i == j else 0.0
                for k in range(i, q):
                    factors[g, i, j] += T[k, i] * inner[k, j]
        factorise(factors[g])
        copy_to(at[g], transposed_solve(factors[g], solve(factors[g], transposed_times(T, push[g]))))
    for _ in range(_NEWTON_STEPS):
        for g in range(n_groups + 1):
            for i in range(q):
                push[g, i] = -at[g, i]
                for j in range(i + 1):
                    factors[g, i, j] = 1.0 if i == j else 0.0
        _add_derivatives(at, rows, a, (push, factors), none)
        for g in range(n_groups):
            factorise(factors[g])
            half = solve(factors[g], push[g])
            length, step = math.sqrt(dot(half, half)), transposed_solve(factors[g], half)
            for i in range(q):
                at[g, i] += min(1.0, _MAX_NEWTON_SDS / max(length, _LEAST_LENGTH)) * step[i]
    spread, unit = np.zeros((n_groups + 1, q, q)), np.zeros(q)
    for g in range(n_groups):
        for j in range(q):
            fill(unit, 0.0)
            unit[j] = 1.0
            copy_to(spread[g, :, j], transposed_solve(factors[g], unit))
    return spread


@jit_inner
def _write_linear_means(theta: FloatArray, linear: LinearMoments, at: FloatArray) -> None:
    """Write the means of z of the groups at a point."""
    x = np.zeros(theta.size)
    for i in range(theta.size):
        for j in range(i + 1):
            x[i] += linear.whiten[i, j] * (theta[j] - linear.middle[j])
    for g in range(linear.mean.shape[0]):
        for i in range(linear.mean.shape[1]):
            at[g, i] = linear.mean[g, i] + dot(linear.moves[g, i], x)


@jit_inner
def _write_nodes(center: FloatArray, A: FloatArray, a: IntegratedArguments, z: FloatArray, v: FloatArray) -> float:
    """Write a group's nodes, shape (q, K), and their log weights less |z|^2 / 2, (K,); return log det A."""
    q, log_det = center.size, log_diagonal(A)
    for k in range(v.size):
        v[k] = log_det + a.log_weights[k]
    for i in range(q):
        fill(z[i], center[i])
        for j in range(q):
            for k in range(v.size):
                z[i, k] += A[i, j] * a.nodes[j, k]
        for k in range(v.size):
            v[k] -= 0.5 * z[i, k] * z[i, k]
    return log_det


@jit_inner
def _add_rows(
    g: int,
    z: FloatArray,
    rows: tuple[FloatArray, FloatArray],
    a: IntegratedArguments,
    out: tuple[FloatArray, FloatArray],
) -> None:
    """Add the log-likelihood of a group's rows at its nodes to the first of `out`, shape (K,).

    Scores of the rows go to the first row of the second, shape (3, rows of the group times K) at least, row by row.
    """
    (base, r), (values, room) = rows, out
    first, count, size = a.first[g], a.past[g] - a.first[g], values.size
    eta, side, log_p = room[0], room[1], room[2]
    for n in range(count):
        begin, own, middle = n * size, a.side[first + n], base[first + n]
        for k in range(size):
            eta[begin + k], side[begin + k] = middle, own
        for i in range(z.shape[0]):
            along = r[i, first + n]
            for k in range(size):
                eta[begin + k] += along * z[i, k]
    a.family.rows(eta[: count * size], side[: count * size], log_p[: count * size])
    for n in range(count):
        w, begin = a.weights[first + n], n * size
        for k in range(size):
            values[k] += w * log_p[begin + k]


@jit_inner
def _normalise_log_terms(values: FloatArray) -> float:
    """Replace log terms by their shares of the sum, and return its logarithm."""
    top, total = largest(values), 0.0
    for k in range(values.size):
        values[k] = exp_minus(top - values[k])
        total += values[k]
    for k in range(values.size):
        values[k] /= total
    return top + math.log(total)


@jit_inner
def _most_rows(a: IntegratedArguments) -> int:
    """Return the number of rows of the largest group."""
    most = 0
    for g in range(a.first.size - 1):
        most = max(most, a.past[g] - a.first[g])
    return most


@jit_inner
def _factor_at(theta: FloatArray, a: IntegratedArguments) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return sds, the Cholesky factor of correlations, T and its rotations at a point."""
    q = a.origin.size
    s, C, T, turns = np.empty(q), np.empty((q, q)), np.empty((q, q)), np.empty((q, q, 2))
    write_scales(theta[a.middle.size :], a.origin, a.blocks, s, C)
    level_factor(s, C, a.across, T, turns)
    return s, C, T, turns


@jit
def integrated_density(theta: FloatArray, gradient: FloatArray, a: IntegratedArguments) -> float:
    """Return the log density at theta = (beta, coordinates of sds and correlations), and write its gradient."""
    p, q, n_groups, n, plain = a.middle.size, a.origin.size, a.first.size - 1, a.weights.size, a.columns.shape[1]
    beta, own, size = theta[:p], theta[p:], a.log_weights.size
    s, C, T, turns = _factor_at(theta, a)
    of_s, of_C, of_T = np.zeros(q), np.zeros((q, q)), np.zeros((q, q))
    fill(gradient, 0.0)
    total = prior_terms(beta, a.prior, gradient[:p])
    by = of_s, of_C, a.blocks
    total += log_prior(own, (s, C, a.origin, a.basis), a.group_prior, by, gradient[p:])[0]
    base, r, center = np.zeros(n), np.empty((q, n)), np.empty((n_groups + 1, q))
    _write_base(beta, a, base)
    _write_directions(T, a, r)
    spread = _write_centers(theta, T, (base, r), a, center)
    z, values = np.empty((q, size)), np.empty(size)
    room = np.empty((3, max(_most_rows(a) * size, a.past[n_groups] - a.first[n_groups], 1)))
    alone, pulled, weighed = np.zeros((q, 1)), np.zeros((n_groups + 1, q)), np.empty((q, size))
    for g in range(n_groups + 1):
        first, last, count = a.first[g], a.past[g], a.counts[g]
        if g < n_groups:
            _write_nodes(center[g], spread[g], a, z, values)
            _add_rows(g, z, (base, r), a, (values, room))
            total += count * _normalise_log_terms(values)
            for i in range(q):
                for k in range(size):
                    weighed[i, k] = values[k] * z[i, k]
        else:
            fill(values, 0.0)
            _add_rows(g, alone, (base, r), a, (values[:1], room))
            total += values[0]
        for m in range(last - first):
            row, w = first + m, count * a.weights[first + m]
            if g == n_groups:
                base[row] = w * room[0, m]
                continue
            of_row = room[0, m * size : (m + 1) * size]
            base[row] = w * dot(values, of_row)
            for j in range(q):
                along = dot(weighed[j], of_row)
                for i in range(j, q):
                    of_T[i, j] += w * a.multipliers[i, row] * along
        for i in range(q):
            for row in range(max(first, plain), last):
                pulled[g, i] += a.multipliers[i, row] * base[row]
    add_scores(a.columns, base[:plain], gradient[:p])
    if plain < n:
        for d in range(p):
            gradient[d] += dot(a.slopes[d], pulled.ravel())
    add_factor_slopes((s, C, a.across), (T, turns), of_T, by)
    add_to_scales(own, s, a.origin, by, gradient[p:])
    return total


class GroupPosteriors(NamedTuple):
    """Mean and covariance of z of groups, (G, q) and (G, q, q), nodes and their shares, (G, q, K) and (G, K)."""

    mean: FloatArray
    covariance: FloatArray
    nodes: FloatArray
    shares: FloatArray
    log_p: FloatArray  # log densities at the nodes, but for (2 pi)^(q / 2)


@jit
def _write_moments(theta: FloatArray, a: IntegratedArguments, out: GroupPosteriors) -> None:
    p, q, n, n_groups, size = a.middle.size, a.origin.size, a.weights.size, a.first.size - 1, a.log_weights.size
    T = _factor_at(theta, a)[2]
    base, r, center = np.zeros(n), np.empty((q, n)), np.empty((n_groups + 1, q))
    _write_base(theta[:p], a, base)
    _write_directions(T, a, r)
    spread, room = _write_centers(theta, T, (base, r), a, center), np.empty((3, max(_most_rows(a) * size, 1)))
    for g in range(n_groups):
        z, values = out.nodes[g], out.shares[g]
        log_det = _write_nodes(center[g], spread[g], a, z, values)
        _add_rows(g, z, (base, r), a, (values, room))
        _normalise_log_terms(values)
        for i in range(q):
            out.mean[g, i] = dot(values, z[i])
        for k in range(size):
            out.log_p[g, k] = math.log(max(values[k], _LEAST_DENSITY)) - a.log_weights[k] - log_det
        for i in range(q):
            for j in range(q):
                out.covariance[g, i, j] = 0.0
                for k in range(size):
                    out.covariance[g, i, j] += values[k] * (z[i, k] - out.mean[g, i]) * (z[j, k] - out.mean[g, j])


def group_posteriors(theta: FloatArray, a: IntegratedArguments) -> GroupPosteriors:
    """Return mean and covariance of z of the groups at a point, and their nodes."""
    G, q, K = len(a.first) - 1, len(a.origin), len(a.log_weights)
    out = GroupPosteriors(*(np.empty(shape) for shape in ((G, q), (G, q, q), (G, q, K), (G, K), (G, K))))
    _write_moments(np.ascontiguousarray(theta), a, out)
    return out


@jit
def metropolis_steps(at: GroupPosteriors, scale: FloatArray) -> IntArray:
    """Return how many steps leave at most `_MAX_DISTANCE_LEFT` of a group's distance from its proposal, shape (G,)."""
    n_groups, size = at.shares.shape
    q, steps = scale.shape[1], np.zeros(n_groups, dtype=np.int64)
    w, of_q, stay, away = np.empty(size), np.empty(size), np.empty(size), np.empty(q)
    for g in range(n_groups):
        log_det = log_diagonal(scale[g])
        for k in range(size):
            for i in range(q):
                away[i] = at.nodes[g, i, k] - at.mean[g, i]
            x = solve(scale[g], away)
            w[k] = math.exp(at.log_p[g, k] + 0.5 * dot(x, x) + log_det)
            of_q[k] = at.shares[g, k] / w[k]
        left = 0.0
        for k in range(size):
            stay[k] = 0.0
            for j in range(size):
                stay[k] += of_q[j] * max(0.0, 1.0 - w[j] / w[k])
        for k in range(size):
            of_q[k] *= 0.5 * abs(w[k] - 1.0)
            left += of_q[k]
        while left > _MAX_DISTANCE_LEFT and steps[g] <= MAX_METROPOLIS_STEPS:
            left = 0.0
            for k in range(size):
                of_q[k] *= stay[k]
                left += of_q[k]
            steps[g] += 1
    return steps


@jit
def draw_effects(
    theta: FloatArray,
    noise: tuple[FloatArray, FloatArray],
    steps: IntArray,
    of_columns: tuple[FloatArray, FloatArray],
    a: IntegratedArguments,
) -> float:
    """Draw effects of the groups at a point; return the log density of (beta, u, log sds, correlations).

    `noise` are normals, (candidates, q), and uniforms, (candidates,): a group has one candidate more than steps.
    `of_columns` are B, shape (q, q), and where the effects B T z go, (G, q).
    """
    (normals, uniforms), p, q, n_groups = noise, a.middle.size, a.origin.size, a.first.size - 1
    (B, out), begin, done, most = of_columns, 0, 0, _most_rows(a)
    base, center, moved = np.zeros(a.weights.size), np.empty((n_groups, q)), np.zeros((n_groups + 1) * q)
    s, C, T, _ = _factor_at(theta, a)
    nowhere = np.zeros(q), np.zeros((q, q)), a.blocks
    total = prior_terms(theta[:p], a.prior, np.zeros(p))
    total += log_prior(theta[p:], (s, C, a.origin, a.basis), a.group_prior, nowhere, np.zeros(theta.size - p))[1]
    for i in range(q):
        total -= n_groups * math.log(T[i, i])
    _write_plain(theta[:p], a, base, moved)
    _write_linear_means(theta, a.linear, center)
    size = max(_CHUNK, most * (MAX_METROPOLIS_STEPS + 2))
    eta, side, log_p, z = np.empty(size), np.empty(size), np.empty(size), np.empty((size + MAX_METROPOLIS_STEPS + 2, q))
    own, scale, multipliers, weights, sides = np.empty(q), a.linear.scale, a.multipliers, a.weights, a.side
    bounds = a.first, a.past  # read once: in memory each reading counts references
    while begin < n_groups:
        stop, width, candidate = begin, 0, 0
        while stop < n_groups and candidate < size:  # as many groups as there is room for
            first, last, count = bounds[0][stop], bounds[1][stop], steps[stop] + 1
            if width + count * (last - first) > size:
                break
            for c in range(candidate, candidate + count):
                for i in range(q):
                    z[c, i] = center[stop, i]
                    for j in range(i + 1):
                        z[c, i] += _PROPOSAL_SDS * scale[stop, i, j] * normals[done + c, j]
                here, offset, own_side = eta[width : width + last - first], base[first:last], sides[first:last]
                for i in range(q):
                    u, multiplier = moved[stop * q + i], multipliers[i, first:last]
                    for j in range(i + 1):
                        u += T[i, j] * z[c, j]
                    if i == 0:
                        for k in range(here.size):
                            here[k], side[width + k] = offset[k] + multiplier[k] * u, own_side[k]
                    else:
                        for k in range(here.size):
                            here[k] += multiplier[k] * u
                width += last - first
            candidate += count
            stop += 1
        a.family.rows(eta[:width], side[:width], log_p[:width])
        width = candidate = 0
        for g in range(begin, stop):
            held, ratio, value, first, last = candidate, 0.0, 0.0, bounds[0][g], bounds[1][g]
            for c in range(candidate, candidate + steps[g] + 1):
                log_density = dot(weights[first:last], log_p[width : width + last - first])
                log_ratio = log_density
                for i in range(q):
                    square = z[c, i] * z[c, i]
                    log_density -= 0.5 * square
                    log_ratio += 0.5 * (normals[done + c, i] * normals[done + c, i] - square)
                if c == candidate or uniforms[done + c] < math.exp(min(0.0, log_ratio - ratio)):
                    held, ratio, value = c, log_ratio, log_density
                width += last - first
            total += value
            for i in range(q):
                own[i] = 0.0
                for j in range(i + 1):
                    own[i] += T[i, j] * z[held, j]
            for i in range(q):
                out[g, i] = 0.0
                for j in range(q):
                    out[g, i] += B[i, j] * own[j]
            candidate += steps[g] + 1
        begin, done = stop, done + candidate
    for k in range(a.first[n_groups], a.past[n_groups]):
        eta[0], side[0] = base[k], a.side[k]
        for i in range(q):
            eta[0] += a.multipliers[i, k] * moved[n_groups * q + i]
        a.family.rows(eta[:1], side[:1], log_p[:1])
        total += a.weights[k] * log_p[0]
    return total


_MODE_SEARCH_GROUPS = 2000  # groups of the sample by which the mode is sought and nodes are chosen


_DIFFERENCE = 1e-3  # posterior sds, of the differences of gradients that are the Hessian


_NEAR, _MOST_STEPS, _MOST_TURNS = 0.1, 30, 8  # posterior sds to the mode, steps on a sample and on all groups


MOST_EFFECTS = 3
"""Effects of a group: of more there would be too many nodes."""


_FIRST_NODES = 7


_NODE_COUNTS = {1: (5, 7, 9), 2: (5, 7, 9, 11), 3: (5, 7)}  # nodes in a direction, by the number of effects


_MOST_PAIRS = 1 << 23  # of a row of the largest group and a node: in memory they take 24 bytes each


_NODE_ERROR = 2e-3  # nats, by which twice the nodes may change how the log density varies within two posterior sds


_WIDEST = 0.3  # posterior sd of a coordinate of sds and correlations


_MOST_CANDIDATES = 8.0  # of a group, on average: with more the joint sampler is as fast


@dataclass(frozen=True, eq=False)
class IntegratedTarget:
    """The density of theta with the effects of one factor integrated out, and its mode; see `SampledGroups`."""

    data: IntegratedArguments
    middle: FloatArray
    factor: FloatArray
    steps: IntArray  # Metropolis steps of each group's effects

    @classmethod
    def of(
        cls, a: JointArguments, start: tuple[FloatArray, FloatArray], effects: FloatArray, prior: Prior
    ) -> "IntegratedTarget | None":
        """Return the target about a start: theta and about its posterior sds, (D,) each, and effects u, (G, q).

        None where effects do not integrate out at the price of few nodes: where their sds are large or hardly known.
        """
        (theta, width), n_groups, p = start, len(effects), len(a.slopes)
        whole = IntegratedArguments.of(a, theta[:p], effects, _FIRST_NODES)
        if not _has_room(whole, _FIRST_NODES):
            return None
        some, chosen = whole, np.arange(n_groups)
        if n_groups > 2 * _MODE_SEARCH_GROUPS:
            chosen = sample_systematically(np.full(n_groups, _MODE_SEARCH_GROUPS / n_groups))
            some = whole.of_groups(chosen, np.full(len(chosen), n_groups / _MODE_SEARCH_GROUPS))
        try:
            mode = find_mode(
                lambda at: terms_by_differences(integrated_density, some, at, _DIFFERENCE * width, (prior, p)),
                theta,
                tolerance=_NEAR,
                max_steps=_MOST_STEPS,
            )
        except NoModeError:
            return None
        theta, factor = mode.beta, factor_of_inverse(mode.terms.precision)
        if np.linalg.norm(factor[p:], axis=1).max() > _WIDEST:
            return None
        for _ in range(_MOST_TURNS):
            slope = factor.T @ densities(theta[None], (integrated_density, whole))[1][0]
            if not np.linalg.norm(slope) > _NEAR:
                break
            theta = theta + factor @ slope
        else:
            return None
        linear = LinearMoments.of(theta, factor, whole)
        n_nodes = _nodes_needed(some, linear.of_groups(chosen), factor)
        if n_nodes is None:
            return None
        steps = metropolis_steps(group_posteriors(theta, whole), _PROPOSAL_SDS * linear.scale)
        if steps.max() > MAX_METROPOLIS_STEPS or steps.mean() + 1.0 > _MOST_CANDIDATES:
            return None
        return cls(whole.with_linear_nodes(linear, n_nodes), theta, factor, steps)

    @property
    def kernel(self) -> Any:
        """`integrated_density`."""
        return integrated_density

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.data.first) - 1

    @property
    def wide(self) -> bool:
        """No: such targets are not made."""
        return False

    def arguments(self) -> IntegratedArguments:
        """Return the arguments of all groups."""
        return self.data

    def density_error(self, chosen: SampledGroups, theta: FloatArray) -> float:
        """Return the error of the log density of a sample of groups over draws, in nats (`SampledGroups.error`)."""
        return chosen.error(theta, densities(theta, (self.kernel, self.data))[0])

    def effects(
        self, theta: FloatArray, columns: FloatArray, rng: np.random.Generator, u: FloatArray
    ) -> Iterator[float]:
        """Write effects at draws of theta, (n, D), into u, (n, G, q), and yield the log density of each draw.

        They are of columns whose effects are `columns`, shape (q, q), times T z.
        """
        n, points = int(self.steps.sum()) + self.n_groups, np.ascontiguousarray(theta)
        columns = np.ascontiguousarray(columns)
        for point, out in zip(points, u, strict=True):
            noise = rng.standard_normal((n, len(columns))), rng.random(n)
            yield draw_effects(point, noise, self.steps, (columns, out), self.data)

    def leverage(self) -> FloatArray:
        """Return how much of a group's effects its rows say, shape (G,)."""
        left = np.einsum("gqr,gqr->g", self.data.linear.scale, self.data.linear.scale)
        return np.asarray(np.maximum(self.data.origin.size - left, 0.0) + _LEAST_SHARE)


def _has_room(a: IntegratedArguments, n_nodes: int) -> bool:
    """Return whether the rows of the largest group have at most `_MOST_PAIRS` nodes in all, so many in a direction."""
    return bool((a.past - a.first)[:-1].max() * n_nodes ** len(a.origin) <= _MOST_PAIRS)


def _nodes_needed(a: IntegratedArguments, linear: LinearMoments, factor: FloatArray) -> int | None:
    """Return how many nodes in a direction are enough; None where the most are not.

    They are where twice as many change the log density by the same at all points two posterior sds from the middle.
    """
    q, middle = len(a.origin), linear.middle
    points = middle + 2.0 * np.vstack([np.zeros(len(middle)), factor.T, -factor.T])
    for n_nodes in _NODE_COUNTS[q]:
        if not _has_room(a, 2 * n_nodes):
            return None
        some, twice = (
            densities(points, (integrated_density, a.with_linear_nodes(linear, count)))[0]
            for count in (n_nodes, 2 * n_nodes)
        )
        if np.ptp(twice - some) < _NODE_ERROR:
            return n_nodes
    return None
