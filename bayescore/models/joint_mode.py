"""The joint mode of beta and all effects, with the sds and correlations of effects by the EM algorithm.

Laplace's approximation. A step is one of Newton's given the covariances, then one of EM, S = mean of mode^2 + variance.
EM alone takes longer the less rows say about effects: of the missing information only the share mean(w^2) shows,
w = 1 - variance / sigma^2. Steps of log sds are divided by it.
"""

from dataclasses import dataclass

import numpy as np

from bayescore.models.families import Family
from bayescore.models.group_priors import LKJ_ETA, GroupPrior, log_sigma_terms
from bayescore.models.joint_rows import Curvature, JointRows, Solver
from bayescore.models.posterior import prior_part
from bayescore.models.priors import Prior
from bayescore.models.row_kernels import derivatives_of
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
