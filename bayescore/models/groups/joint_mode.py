r"""The joint mode of beta and all effects, with the sds and correlations of effects by the EM algorithm.

Laplace's approximation. A step is one of Newton's given the covariances, then one of EM, S = mean of mode^2 + variance.
EM alone takes longer the less rows say about effects: of the missing information only the share mean(w^2) shows,
w = 1 - variance / sigma^2. Steps of log sds are divided by it.

Coordinates x in which all parameters of a model with group terms are about N(0, I) a posteriori.

Effects of the first factor are nearly N(0, I) given all else in the coordinates of `models.groups.joint`; they have
their sds in the draws. With L the Cholesky factor of the precision of the rest, the first factor's integrated out,

.. math:: y_1 = c + s x_1, \qquad y_{rest} = c + L^{-\prime} x_{rest},

so that a point takes one triangular system. Log sds and correlations have a factor of their own, and c moves with them
as the mode of effects and coefficients does, on a line. L is in single precision, as any matrix near it will do.
Between these y and those of `joint_density` stand those of `MovedMeans`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from bayescore.compiled import StoredDensity, evaluate_stored, jit, jit_inner, jit_inner_sums
from bayescore.families import Family
from bayescore.models.groups.joint import JointArguments, joint_effects
from bayescore.models.groups.rows import Curvature, JointRows, Solver
from bayescore.models.laplace import find_mode
from bayescore.models.posterior import posterior, prior_part
from bayescore.models.row_kernels import derivatives_of
from bayescore.numerics.elementary import copy_to
from bayescore.priors import Prior
from bayescore.priors.groups import LKJ_ETA, GroupPrior, log_sigma_terms
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError

_STEPS = 100


_NEAR = 0.05  # posterior sds, of the last step


_LONGEST = 10.0  # posterior sds of a step that changes a predictor by more than 1


_FIRST_SD = 0.5  # of an effect, in units of the family


_MIN_INFORMATION_SHARE = 0.1  # of the information on log sds


_MAX_EM_STEP = 1.0  # change of a log sd in a step


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
    inverse = [np.linalg.inv(matrix) for matrix in covariances]
    return curvature.solver(
        of_beta,
        [np.broadcast_to(matrix, (G, *matrix.shape)) for matrix, (G, _) in zip(inverse, rows.shapes, strict=True)],
    )


def joint_mode(rows: JointRows, family: Family, prior: Prior, group_prior: GroupPrior) -> JointMode:
    """Return the joint mode."""
    p, y, w = rows.rows.n_features, rows.rows.y, rows.rows.weights
    beta, effects = np.zeros(p), [np.zeros(shape) for shape in rows.shapes]
    if family.amounts:  # whose unit may be any: from 0 Newton's steps may lead astray
        alone = WeightedData(rows.rows.X, y, w, rows.rows.index, offset=rows.rows.offset)
        flat = posterior(alone, family, prior)
        beta = find_mode(flat.terms, beta, tolerance=0.01).beta
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
        moves, at = [first], p
        for G, q in rows.shapes[1:]:
            moves.append(move[at : at + G * q].reshape(G, q))
            at += G * q
        shift = rows.rows.X @ move[:p] + rows.columns @ np.concatenate([own.ravel() for own in moves])
        most = float(np.abs(shift).max(initial=0.0))
        share = 1.0 if family.quadratic or length <= _LONGEST or most <= 1.0 else max(_LONGEST / length, 1.0 / most)
        beta = beta + share * move[:p]
        effects = [own + share * each for own, each in zip(effects, moves, strict=True)]
        variances, moved = solver.variances(rows.shapes), 0.0
        if share < 1.0:
            continue
        for f, own in enumerate(covariances):
            again = _em_covariance(effects[f], variances[f], own, (group_prior, _LEAST_SD * family.unit / size[f]))
            block = rows.factors[f].block_ends[:, 0]
            covariances[f] = np.where(block[:, None] == block, again, 0.0)
            change = 0.5 * np.log(np.diagonal(covariances[f]) / np.diagonal(own))
            moved = max(moved, float(np.abs(change).max()) * np.sqrt(len(effects[f])))
        if length < max(_NEAR, 0.05 * np.sqrt(sum(u.size for u in effects)) * _NEAR) and moved < 4.0 * _NEAR:
            break
    return JointMode(beta, effects, variances, covariances)


def informed(variance: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return w = 1 - variance / sigma^2 of effects, shape (G, q): how much rows say about them."""
    return np.asarray(np.clip(1.0 - np.einsum("gqq->gq", variance) / np.diagonal(covariance), 0.0, 1.0))


def _em_covariance(
    u: FloatArray, variance: FloatArray, covariance: FloatArray, group_prior: tuple[GroupPrior, FloatArray]
) -> FloatArray:
    """Return a factor's covariance after an EM step: log sds at their mode, correlations shrunk by their prior."""
    G, q = u.shape
    square = u.T @ u + variance.sum(axis=0)
    sd, (prior, least) = np.sqrt(np.diagonal(covariance)), group_prior
    shares = np.maximum((informed(variance, covariance) ** 2).mean(axis=0), _MIN_INFORMATION_SHARE)
    logs = np.log(sd)
    for i in range(q):
        slope = log_sigma_terms(float(logs[i]), *prior.table)[1]
        change = 0.5 * np.log(square[i, i] / (sd[i] ** 2 * max(G - slope, 0.5)))
        logs[i] += np.clip(change / shares[i], -_MAX_EM_STEP, _MAX_EM_STEP)
    new = np.maximum(np.exp(logs), least)
    size = np.sqrt(np.diagonal(square))
    correlation = (square / np.outer(size, size)) * (G / (G + 2.0 * (LKJ_ETA - 1.0)))
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation * np.outer(new, new))


Single = NDArray[np.float32]


class JointWhitening(NamedTuple):
    """The centre c, shape (D,); sds of the first factor's effects, L, and the factor of sds, (k, k)."""

    center: FloatArray
    widths: FloatArray  # (first,)
    rest: Single  # (m, m)
    sds: FloatArray
    moves: FloatArray  # of c with sds and correlations, (D - k, k)

    @property
    def _parts(self) -> tuple[slice, slice, slice]:
        first, m = len(self.widths), len(self.rest)
        return slice(first), slice(first, first + m), slice(first + m, None)

    def points(self, x: FloatArray, *, whole: bool = True) -> FloatArray:
        """Return the parameters at x, shape (n, D); without the first factor's effects, 0, if not `whole`."""
        first, rest, last = self._parts
        parameters = np.zeros_like(x)
        parameters[:, rest] = linalg.solve_triangular(self.rest, x[:, rest].T, lower=True, trans="T").T
        parameters[:, last] = x[:, last] @ self.sds.T
        placed = slice(None) if whole else slice(first.stop, None)
        if whole:
            parameters[:, first] = x[:, first] * self.widths
        parameters[:, placed.start : last.start] += parameters[:, last] @ self.moves[placed].T
        parameters[:, placed] += self.center[placed]
        return parameters

    def inverse(self, points: FloatArray) -> FloatArray:
        """Return x of parameters, shape (n, D)."""
        first, rest, last = self._parts
        moved = points - self.center
        moved[:, : last.start] -= moved[:, last] @ self.moves.T
        coordinates = np.empty_like(moved)
        coordinates[:, first] = moved[:, first] / self.widths
        coordinates[:, rest] = moved[:, rest] @ self.rest.astype(np.float64)
        coordinates[:, last] = linalg.solve_triangular(self.sds, moved[:, last].T, lower=True).T
        return coordinates


@jit_inner_sums
def _unwhiten(x: FloatArray, w: JointWhitening, point: FloatArray) -> None:
    first, m, k = w.widths.size, w.rest.shape[0], w.sds.shape[0]
    rest, moved = np.empty(m), np.zeros(k)
    for i in range(k):
        for j in range(i + 1):
            moved[i] += w.sds[i, j] * x[first + m + j]
        point[first + m + i] = w.center[first + m + i] + moved[i]
    for at in range(first):
        value = w.center[at] + w.widths[at] * x[at]
        for i in range(k):
            value += w.moves[at, i] * moved[i]
        point[at] = value
    for i in range(m):
        rest[i] = x[first + i]
    for i in range(m - 1, -1, -1):
        row = w.rest[i]
        rest[i] /= row[i]
        value = rest[i]
        for j in range(i):
            rest[j] -= row[j] * value
        value += w.center[first + i]
        for j in range(k):
            value += w.moves[first + i, j] * moved[j]
        point[first + i] = value


@jit_inner_sums
def _pull_back(slope: FloatArray, w: JointWhitening, gradient: FloatArray) -> None:
    first, m, k = w.widths.size, w.rest.shape[0], w.sds.shape[0]
    for at in range(first + m):
        part = slope[at]
        for i in range(k):
            slope[first + m + i] += w.moves[at, i] * part
    for i in range(first):
        gradient[i] = w.widths[i] * slope[i]
    for i in range(m):
        row, total = w.rest[i], 0.0
        for j in range(i):
            total += row[j] * gradient[first + j]
        gradient[first + i] = (slope[first + i] - total) / row[i]
    for i in range(k):
        gradient[first + m + i] = 0.0
        for j in range(i, k):
            gradient[first + m + i] += w.sds[j, i] * slope[first + m + j]


class WhitenedArguments(NamedTuple):
    """What `whitened_density` takes after the point and the gradient."""

    whitening: JointWhitening
    density: StoredDensity  # of points


@jit_inner
def whitened_density(x: FloatArray, gradient: FloatArray, whitened: WhitenedArguments) -> float:
    """Return the log density at x, up to a constant, and write its gradient and what more `joint_density` has."""
    point, slope = np.empty(x.size), np.empty(gradient.size)
    copy_to(slope[x.size :], gradient[x.size :])
    _unwhiten(x, whitened.whitening, point)
    value = evaluate_stored(whitened.density.function, whitened.density.data, point, slope)
    _pull_back(slope, whitened.whitening, gradient)
    copy_to(gradient[x.size :], slope[x.size :])
    return float(value)


@jit
def write_natural_parameters(points: FloatArray, a: JointArguments, effects: FloatArray, more: FloatArray) -> None:
    """Write effects of points, (n, E + entries of 0), and log p(beta, u, log sds) less that of the points, (n,)."""
    Q = a.origin.size
    white, slope = np.empty((3, a.pull.size)), np.zeros(points.shape[1] - a.pull.size - a.columns.shape[0])
    of_sds = slope, np.zeros(Q), np.zeros((Q, a.bases.shape[1]))
    for n in range(points.shape[0]):
        more[n] = joint_effects(points[n], effects[n], white, a, of_sds)[1]
