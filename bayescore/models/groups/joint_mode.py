r"""The joint mode of beta and all effects, with the sds and correlations of effects by the EM algorithm.

Laplace's approximation. A step is one of Newton's given the covariances, then one of EM, S = mean of mode^2 + variance.
EM alone takes longer the less rows say about effects: of the missing information only the share mean(w^2) shows,
w = 1 - variance / sigma^2. Steps of log sds are divided by it.

Coordinates x in which all parameters of a model with group terms are about N(0, I) a posteriori.

With P the precision of (v of the first factor, the rest) at the mode, [[D, B'], [B, E]], and the Cholesky factors K of
D and L of the Schur complement E - B D^-1 B',

.. math:: v_{rest} = c + L^{-\prime} x_{rest}, \qquad v_1 = c + K^{-\prime} x_1 - D^{-1} B' (v_{rest} - c),

so that a point takes one triangular system and one sparse product. Log sds and correlations have a factor of their own,
and c moves with them as the mode of effects and coefficients does, on a line. L and D^-1 B' are in single precision, as
any matrices near these will do. Between these v and those of `joint_density` stand those of `Means`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from bayescore.compiled import jit, jit_sums
from bayescore.families import Family
from bayescore.models.groups.joint import JointArguments, Means, joint_effects, moved_density
from bayescore.models.groups.rows import Curvature, JointRows, Solver
from bayescore.models.posterior import prior_part
from bayescore.models.row_kernels import derivatives_of
from bayescore.priors import Prior
from bayescore.priors.groups import LKJ_ETA, GroupPrior, log_sigma_terms
from bayescore.types import FloatArray
from bayescore.validation import DataError

_STEPS = 100


_NEAR = 0.05  # posterior sds, of the last step


_LONGEST = 10.0


_FIRST_SD = 0.5  # of an effect, in units of the family


_LEAST_SHARE = 0.1  # of the information on log sds


_MOST = 1.0  # change of a log sd in a step


_LEAST_SD = 1e-4  # of an effect, times its column's scale, in the same units


@dataclass(frozen=True, eq=False)
class JointMode:
    """beta, shape (p,), effects and their variances of each factor, (G, q) and (G, q, q), covariances, (q, q)."""

    beta: FloatArray
    effects: list[FloatArray]
    variances: list[FloatArray]
    covariances: list[FloatArray]


def curvature_at(rows: JointRows, beta: FloatArray, effects: list[FloatArray], family: Family) -> Curvature:
    """Return minus the Hessian of the log-likelihood; rows of negative curvature count nothing."""
    c = derivatives_of(rows.eta(beta, effects), rows.rows.y, family)[2]
    return rows.curvature(rows.rows.weights * np.maximum(c, 0.0))


def solver_at(curvature: Curvature, rows: JointRows, of_beta: FloatArray, covariances: list[FloatArray]) -> Solver:
    """Return the factor of the precision of beta and all effects, given the effects' covariances."""
    inverse = [np.linalg.inv(own) for own in covariances]
    return curvature.solver(
        of_beta, [np.broadcast_to(own, (G, *own.shape)) for own, (G, _) in zip(inverse, rows.shapes, strict=True)]
    )


def joint_mode(rows: JointRows, family: Family, prior: Prior, group_prior: GroupPrior) -> JointMode:
    """Return the joint mode."""
    p, y, w = rows.rows.n_features, rows.rows.y, rows.rows.weights
    beta, effects = np.zeros(p), [np.zeros(shape) for shape in rows.shapes]
    size = [np.sqrt(np.maximum(w @ z**2 / w.sum(), np.finfo(float).tiny)) for z in rows.z]  # of the columns
    covariances = [np.diag((_FIRST_SD * family.unit / own) ** 2) for own in size]
    for _ in range(_STEPS):
        _, score, c, _ = derivatives_of(rows.eta(beta, effects), y, family)
        terms = prior_part(beta, prior)
        curvature = rows.curvature(w * np.maximum(c, 0.0))
        solver = solver_at(curvature, rows, terms.precision, covariances)
        pulls = [
            own - u @ np.linalg.inv(S) for own, u, S in zip(rows.pulls(w * score), effects, covariances, strict=True)
        ]
        gradient = (w * score) @ rows.rows.X + terms.gradient
        rest = np.concatenate([gradient, *[own.ravel() for own in pulls[1:]]])
        first, move = solver.solve(pulls[0], rest)
        length = float(np.sqrt(max((first * pulls[0]).sum() + move @ rest, 0.0)))
        if not np.isfinite(length):
            raise DataError(
                "the joint mode of coefficients and effects is not finite: are offsets or columns too large?"
            )
        longest = np.inf if family.quadratic else _LONGEST
        share = min(1.0, longest / length) if length > 0.0 else 1.0
        beta, at = beta + share * move[:p], p
        effects = [effects[0] + share * first, *effects[1:]]
        for f, (G, q) in enumerate(rows.shapes[1:], 1):
            effects[f] = effects[f] + share * move[at : at + G * q].reshape(G, q)
            at += G * q
        variances, moved = solver.variances(rows.shapes), 0.0
        if share < 1.0:
            continue
        for f, own in enumerate(covariances):
            covariances[f] = _again(effects[f], variances[f], own, (group_prior, _LEAST_SD * family.unit / size[f]))
            change = 0.5 * np.log(np.diagonal(covariances[f]) / np.diagonal(own))
            moved = max(moved, float(np.abs(change).max()) * np.sqrt(len(effects[f])))
        if length < max(_NEAR, 0.05 * np.sqrt(sum(u.size for u in effects)) * _NEAR) and moved < 4.0 * _NEAR:
            break
    return JointMode(beta, effects, variances, covariances)


def informed(variance: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return w = 1 - variance / sigma^2 of effects, shape (G, q): how much rows say about them."""
    return np.asarray(np.clip(1.0 - np.einsum("gqq->gq", variance) / np.diagonal(covariance), 0.0, 1.0))


def _again(
    u: FloatArray, variance: FloatArray, covariance: FloatArray, group_prior: tuple[GroupPrior, FloatArray]
) -> FloatArray:
    """Return the covariance that an EM step finds, in the mode of log sds; correlations by their prior, too."""
    G, q = u.shape
    square = u.T @ u + variance.sum(axis=0)
    sd, (prior, least) = np.sqrt(np.diagonal(covariance)), group_prior
    shares = np.maximum((informed(variance, covariance) ** 2).mean(axis=0), _LEAST_SHARE)
    logs = np.log(sd)
    for i in range(q):
        slope = log_sigma_terms(float(logs[i]), *prior.table)[1]
        change = 0.5 * np.log(square[i, i] / (sd[i] ** 2 * max(G - slope, 0.5)))
        logs[i] += np.clip(change / shares[i], -_MOST, _MOST)
    new = np.maximum(np.exp(logs), least)
    known = np.sqrt(np.diagonal(square))
    correlation = (square / np.outer(known, known)) * (G / (G + 2.0 * (LKJ_ETA - 1.0)))
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation * np.outer(new, new))


Single = NDArray[np.float32]


Places = NDArray[np.int32]


class JointWhitening(NamedTuple):
    """The centre c, shape (D,); K of each level, D^-1 B' in compressed rows, L, and the factor of sds, (k, k)."""

    center: FloatArray
    levels: FloatArray  # (G, q, q)
    start: Places
    columns: Places
    values: Single
    rest: Single  # (m, m)
    sds: FloatArray
    moves: FloatArray  # of c with sds and correlations, (D - k, k)

    @classmethod
    def of(cls, solver: Solver, center: FloatArray, sds: FloatArray, moves: FloatArray) -> "JointWhitening":
        """Return the coordinates of a precision in v."""
        W = solver.W
        places = W.indptr.astype(np.int32), W.indices.astype(np.int32)
        factor = np.ascontiguousarray(solver.factor, dtype=np.float32)
        return cls(
            center,
            np.asarray(np.linalg.cholesky(solver.D), dtype=np.float64),
            *places,
            W.data.astype(np.float32),
            factor,
            sds,
            moves,
        )

    @property
    def _parts(self) -> tuple[slice, slice, slice]:
        first, k = self.levels.shape[0] * self.levels.shape[1], len(self.sds)
        return slice(first), slice(first, len(self.center) - k), slice(len(self.center) - k, None)

    @property
    def _cross(self) -> sparse.csr_array:
        shape = (self.levels.shape[0] * self.levels.shape[1], len(self.rest))
        return sparse.csr_array((self.values.astype(np.float64), self.columns, self.start), shape=shape)

    def points(self, x: FloatArray) -> FloatArray:
        """Return the parameters at x, shape (n, D)."""
        first, rest, last = self._parts
        found = np.empty_like(x)
        found[:, rest] = linalg.solve_triangular(self.rest, x[:, rest].T, lower=True, trans="T").T
        own = x[:, first].reshape(len(x), *self.levels.shape[:2])
        turned = own.transpose(1, 0, 2) @ np.linalg.inv(self.levels)
        found[:, first] = turned.transpose(1, 0, 2).reshape(len(x), -1) - (self._cross @ found[:, rest].T).T
        found[:, last] = x[:, last] @ self.sds.T
        found[:, : last.start] += found[:, last] @ self.moves.T
        return found + self.center

    def inverse(self, points: FloatArray) -> FloatArray:
        """Return x of parameters, shape (n, D)."""
        first, rest, last = self._parts
        moved = points - self.center
        moved[:, : last.start] -= moved[:, last] @ self.moves.T
        found = np.empty_like(moved)
        found[:, rest] = moved[:, rest] @ self.rest.astype(np.float64)
        own = (moved[:, first] + (self._cross @ moved[:, rest].T).T).reshape(len(points), *self.levels.shape[:2])
        found[:, first] = (own.transpose(1, 0, 2) @ self.levels).transpose(1, 0, 2).reshape(len(points), -1)
        found[:, last] = linalg.solve_triangular(self.sds, moved[:, last].T, lower=True).T
        return found


@jit_sums
def _place(x: FloatArray, w: JointWhitening, point: FloatArray) -> None:
    G, q, m, k = w.levels.shape[0], w.levels.shape[1], w.rest.shape[0], w.sds.shape[0]
    first = G * q
    rest = x[first : first + m].copy()
    for i in range(m - 1, -1, -1):
        row = w.rest[i]
        rest[i] /= row[i]
        own = rest[i]
        for j in range(i):
            rest[j] -= row[j] * own
    for i in range(m):
        point[first + i] = w.center[first + i] + rest[i]
    for g in range(G):
        for i in range(q - 1, -1, -1):
            at = g * q + i
            total = x[at]
            for j in range(i + 1, q):
                total -= w.levels[g, j, i] * point[g * q + j]
            point[at] = total / w.levels[g, i, i]
    for at in range(first):
        total = 0.0
        for e in range(w.start[at], w.start[at + 1]):
            total += w.values[e] * rest[w.columns[e]]
        point[at] += w.center[at] - total
    for i in range(k):
        total = w.center[first + m + i]
        for j in range(i + 1):
            total += w.sds[i, j] * x[first + m + j]
        point[first + m + i] = total
        total -= w.center[first + m + i]
        for at in range(first + m):
            point[at] += w.moves[at, i] * total


@jit_sums
def _pull_back(slope: FloatArray, w: JointWhitening, gradient: FloatArray) -> None:
    G, q, m, k = w.levels.shape[0], w.levels.shape[1], w.rest.shape[0], w.sds.shape[0]
    first = G * q
    for at in range(first + m):
        own = slope[at]
        for i in range(k):
            slope[first + m + i] += w.moves[at, i] * own
    for at in range(first):
        own = slope[at]
        for e in range(w.start[at], w.start[at + 1]):
            slope[first + w.columns[e]] -= w.values[e] * own
    for g in range(G):
        for i in range(q):
            total = slope[g * q + i]
            for j in range(i):
                total -= w.levels[g, i, j] * gradient[g * q + j]
            gradient[g * q + i] = total / w.levels[g, i, i]
    for i in range(m):
        row, total = w.rest[i], 0.0
        for j in range(i):
            total += row[j] * gradient[first + j]
        gradient[first + i] = (slope[first + i] - total) / row[i]
    for i in range(k):
        gradient[first + m + i] = 0.0
        for j in range(i, k):
            gradient[first + m + i] += w.sds[j, i] * slope[first + m + j]


@jit
def whitened_density(x: FloatArray, gradient: FloatArray, own: tuple[JointWhitening, Means, JointArguments]) -> float:
    """Return the log density at x, up to a constant, and write its gradient."""
    point, slope = np.empty(x.size), np.empty(x.size)
    _place(x, own[0], point)
    value = moved_density(point, slope, own[1], own[2])
    _pull_back(slope, own[0], gradient)
    return value


@jit
def natural(points: FloatArray, a: JointArguments, effects: FloatArray, more: FloatArray) -> None:
    """Write effects of points, (n, E + entries of 0), and what the log density of (beta, u, log sds) is more, (n,)."""
    last = points.shape[1] - a.centring.size - a.columns.shape[0]
    white, slope = np.empty(a.centring.size), np.zeros(last)
    for n in range(points.shape[0]):
        more[n] = joint_effects(points[n], effects[n], white, a, slope)[1]
