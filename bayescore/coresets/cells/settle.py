r"""The normal density nearest the posterior of beta and the cells' effects, b_c ~ N(0, S), and S: a pass a step.

Averaged over the density (`sums`), the log-likelihood has slopes and curvatures in beta and every b_c; where these and
the priors' are in balance stands the density nearest the posterior (Opper and Archambeau 2009). A step goes there as if
slopes were linear: a linear mixed model, whose effects are solved for cell by cell. S follows by the EM algorithm, held
off 0 by one cell's worth of `_LEAST_SD`, for the density need only lie where the posterior does.
"""

import math
from dataclasses import replace

import numpy as np

from bayescore.coresets.cells.sums import CellSums, Density, sums_of
from bayescore.data.opened import Opened
from bayescore.models.gaussian import factor_of_inverse
from bayescore.models.posterior import Terms, prior_part
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, IntArray, Likelihood

MAX_PASSES = 25
NEAR = 0.05  # sds of a coefficient, or relatively of an effect's sd, of the last step
_EM_STEPS = 30  # a pass
_STILL = 1e-3  # relative change of S at which EM steps end
_LEAST_SD = 0.5  # of an effect
_FIRST_SD = 0.5


def _solved(sums: CellSums, at: Density, own: Terms, covariance: FloatArray) -> Density:
    """Return the density in balance if slopes were linear, given S and the prior's terms at beta."""
    inverse = np.linalg.inv(covariance)
    V = np.linalg.inv(sums.cross[:, :, at.columns] + inverse)
    V[-1] = 0.0
    pull, W = sums.score - at.mean @ inverse, V @ sums.cross
    precision = sums.precision + own.precision - np.einsum("cqp,cqr->pr", sums.cross, W)
    gradient = sums.gradient + own.gradient - np.einsum("cqp,cq->p", W, pull)
    factor = factor_of_inverse(precision)
    move = factor @ (factor.T @ gradient)
    mean = at.mean + np.einsum("cqr,cr->cq", V, pull) - W @ move
    return replace(at, beta=at.beta + move, factor=factor, mean=mean, variance=V, slope=W, prior=covariance)


def step(sums: CellSums, at: Density, prior: Prior) -> Density:
    """Return the density, and S, that would be in balance if slopes were linear."""
    covariance, own = at.prior, prior_part(at.beta, prior)
    for _ in range(_EM_STEPS):
        there = _solved(sums, at, own, covariance)
        wide = there.slope @ there.factor
        square = there.mean.T @ there.mean + there.variance.sum(axis=0) + np.einsum("cqp,crp->qr", wide, wide)
        before, covariance = covariance, (square + _LEAST_SD**2 * np.eye(len(square))) / len(there.mean)
        if np.abs(covariance - before).max() < _STILL * np.abs(covariance).max():
            break
    return _solved(sums, at, own, covariance)


def converged(opened: Opened, n_cells: int, columns: IntArray, link: Likelihood, prior: Prior) -> tuple[Density, float]:
    """Return the density, and how far the last step went, in sds; about ten passes."""
    at, last = Density.start(opened.n_features, n_cells, columns, _FIRST_SD), math.inf
    for _ in range(MAX_PASSES):
        there = step(sums_of(opened, at, link), at, prior)
        last, at = _gap(at, there), there
        if last < NEAR:
            break
    return at, last


def _gap(one: Density, other: Density) -> float:
    """Return by how many sds a coefficient moves at most, or the sd of effects relatively."""
    moved = np.abs(other.beta - one.beta) / other.sds
    sd, before = (np.sqrt(np.diagonal(own.prior)) for own in (other, one))
    return float(max(moved.max(), np.abs(before / sd - 1.0).max()))


def imbalance(sums: CellSums, other: CellSums, at: Density, prior: Prior) -> float:
    """Return by how many sds the coefficients' means given two sets of rows differ at most, to first order."""
    own = prior_part(at.beta, prior)
    one, two = (_solved(each, at, own, at.prior) for each in (sums, other))
    return float(np.abs((one.beta - two.beta) / one.sds).max())
