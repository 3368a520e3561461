r"""The density of beta and the cells' effects about which rows are condensed: where their posterior is.

Every effect is b_c ~ N(0, S). First the normal density nearest that posterior: averaged over it (`sums`), the
log-likelihood has slopes and curvatures in beta and every b_c; where these and the priors' are in balance it stands
(Opper and Archambeau 2009). A step goes there as if slopes were linear: a linear mixed model, whose effects are solved
for cell by cell. S is where its score is 0, by Fisher scoring, held off 0 by one cell's worth of `LEAST_SD`, its sds at
most `MOST_SD` on a row of root mean square. With R_c the share of the prior's variance that the rows of cell c take
away, in units of S, a step by X, in these units too, solves

.. math:: \sum_c R_c X R_c = S^{-1/2} \sum_c E[b_c b_c'] S^{-1/2} - C I.

The EM algorithm has X in place of R_c X R_c, so that it creeps where rows say little of effects.

Where effects given their rows are far from normal, as of few rows or of one label, that density is biased, by many sds
where there are many cells. So steps are then taken on likelihoods of the effects whose posteriors have the mean and
variance that quadrature finds (`points`), and with its score of beta.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from bayescore.coresets.cells.points import Points
from bayescore.coresets.cells.sums import CellSums, Density, sums_of
from bayescore.data.dataset import Dataset
from bayescore.models.families import Family
from bayescore.models.gaussian import factor_of_inverse
from bayescore.models.posterior import Derivatives, prior_part
from bayescore.models.priors import Prior
from bayescore.types import FloatArray
from bayescore.validation import DataError

MAX_PASSES = 25
NEAR = 0.3  # sds of a coefficient, or of the log sd of effects, of the last step
_NEARLY = 2.0  # the same before quadrature, where the next step will be `NEAR` if it shrinks as the last one did
_COVERED = 1.0  # sds of an effect, by which its nodes may have moved then
_LOST = 100.0  # sds of the last step, from which the centre is not near anything
_MAX_TURNS = 12  # of quadrature, two passes each
_APART = 10.0  # times the smallest step, beyond which steps lead away
_FURTHER = 10.0  # times the step before: a longer step says that the one before went too far,
_SHORTER = 0.25  # and this share of it is taken
_FAR = 2.0  # of eta, by which a step moves the effects of a cell at most, on a row of root mean square
_SCORINGS = 30  # steps of S, a pass
_LONGEST = 1.0  # of them, in a log variance
_STILL = 0.05  # sds of a log variance, at which they end
LEAST_SD = 0.5  # of an effect
MOST_SD = 15.0  # of an effect, on a row of root mean square: where cells have one label each the likelihood sets none
_LOST_DIGITS = 1e-11  # of the curvature: if effects leave less of it, rounding decides
_LEAST_INFORMATION = 1e-6  # of a cell's rows on its effects, in units of the prior's


@dataclass(frozen=True, eq=False)
class Centre:
    """A density, and what passes found about it.

    `values` and `shares`, shape (C + 1, K), are phi and w at the nodes, `excess`, shape (p,), what w adds to the score
    of beta; `last` is how far the next step would go, in sds.
    """

    points: Points
    sums: CellSums
    values: FloatArray
    shares: FloatArray
    excess: FloatArray
    last: float


def _solved(sums: CellSums, at: Density, own: Derivatives, covariance: FloatArray, unit: FloatArray) -> Density:
    """Return the density in balance if slopes were linear, given S and the prior's terms at beta."""
    inverse = np.linalg.inv(covariance)
    V = np.linalg.inv(sums.information + inverse)
    V[-1] = 0.0
    pull, W = sums.score - at.mean @ inverse, V @ sums.cross
    precision = sums.precision + own.precision - np.einsum("cqp,cqr->pr", sums.cross, W)
    if (np.diagonal(precision) < _LOST_DIGITS * np.diagonal(sums.precision)).any():
        raise np.linalg.LinAlgError("what the effects leave of the curvature is lost in rounding")
    gradient = sums.gradient + own.gradient - np.einsum("cqp,cq->p", W, pull)
    factor = factor_of_inverse(precision)
    move = factor @ (factor.T @ gradient)
    mean = at.mean + np.clip(np.einsum("cqr,cr->cq", V, pull) - W @ move, -_FAR * unit, _FAR * unit)
    return replace(at, beta=at.beta + move, factor=factor, mean=mean, variance=V, slope=W, prior=covariance)


def _step(sums: CellSums, at: Density, prior: Prior, unit: FloatArray) -> Density:
    """Return the density, and S, that would be in balance if slopes were linear, or what is as far on the way there."""
    covariance, own = at.prior, prior_part(at.beta, prior)
    for _ in range(_SCORINGS):
        root, change = _scored(_solved(sums, at, own, covariance, unit))
        values, vectors = np.linalg.eigh(change)
        root = root @ (vectors * np.exp(0.5 * np.clip(values, -_LONGEST, _LONGEST)))
        root *= np.minimum(1.0, MOST_SD * unit / np.sqrt((root**2).sum(axis=1)))[:, None]
        before, covariance = covariance, root @ root.T
        if np.abs(covariance - before).max() * math.sqrt(0.5 * len(at.mean)) < _STILL * np.abs(covariance).max():
            break
    return _solved(sums, at, own, covariance, unit)


def _scored(at: Density) -> tuple[FloatArray, FloatArray]:
    """Return L, L L' = S, and X of the scoring step to L (I + X) L', of a density in balance given S."""
    Q, L, wide = len(at.prior), np.asarray(np.linalg.cholesky(at.prior)), at.slope @ at.factor
    inverse = np.linalg.inv(L)
    least = LEAST_SD**2 * inverse @ inverse.T
    square = at.mean.T @ at.mean + at.variance.sum(axis=0) + np.einsum("cqp,crp->qr", wide, wide)
    wanted = inverse @ square @ inverse.T + least - len(at.mean) * np.eye(Q)
    taken = np.eye(Q) - inverse @ at.variance[:-1] @ inverse.T
    curvature = np.einsum("cij,ckl->ikjl", taken, taken) + np.einsum("ij,kl->ikjl", least, np.eye(Q))
    change = np.linalg.solve(curvature.reshape(Q * Q, Q * Q), wanted.ravel()).reshape(Q, Q)
    return L, np.asarray(0.5 * (change + change.T))


def _by_quadrature(found: Centre) -> tuple[CellSums, Density]:
    """Return sums whose effects, given them, have the moments that quadrature finds, and the density there."""
    sums, at = found.sums, found.points.at
    mean, precision = found.points.moments(found.shares)
    inverse = np.linalg.inv(at.prior)
    least = _LEAST_INFORMATION * np.linalg.eigvalsh(inverse)[0]
    values, vectors = np.linalg.eigh(precision - inverse)
    information = np.einsum("cqk,ck,crk->cqr", vectors, np.maximum(values, least), vectors)
    slope = np.linalg.solve(sums.information + least * np.eye(len(inverse)), sums.cross)
    information[-1] = slope[-1] = 0.0
    cross = information @ slope
    curvature = sums.precision + np.einsum("cqp,cqr->pr", slope, cross - sums.cross)
    own = sums._replace(
        score=mean @ inverse,
        information=information,
        cross=cross,
        gradient=sums.gradient + found.excess,
        precision=curvature,
    )
    return own, replace(at, mean=mean)


def centre_of(dataset: Dataset, start: Density, family: Family, prior: Prior, *, unit: FloatArray) -> Centre:
    """Return the density about which to condense; some six passes. Effects of `unit`, shape (Q,), move eta by 1.

    Raises `ArithmeticError` where it is not found.
    """
    way = _Way(start)
    for _ in range(MAX_PASSES):
        if way.go(_ahead(sums_of(dataset, way.at, family), way.at, prior, unit)):
            break
    else:
        way.back()
    at, best = way.at, None
    for _ in range(_MAX_TURNS):
        try:
            found = _about(dataset, at, family)
            there = _ahead(*_by_quadrature(found), prior, unit)
        except np.linalg.LinAlgError:  # a variance with no inverse
            break
        last = math.inf if there is None else _gap(at, there)
        best = replace(found, last=last) if best is None or last < best.last else best
        if there is None or last < NEAR or not last < _APART * best.last:
            break
        at = there
    if best is None or not best.last < _LOST:
        raise ArithmeticError(
            "the posterior's centre, about which groups are condensed, was not found: give a narrower prior=, or "
            "sample all_rows(...)"
        )
    return best


def _about(dataset: Dataset, at: Density, family: Family) -> Centre:
    """Return a density with its sums and values at its nodes; two passes."""
    points = Points.of(at, family)
    sums, values = points.look(dataset)
    shares = points.shares(values)
    return Centre(points, sums, values, shares, points.excess(shares, dataset), math.inf)


class _Way:
    """Where steps have led: if the next is much longer, or there is none, one was too long, and a part of it is taken.

    Log-likelihoods of counts, and of pseudo-rows of large weight, are exponentials where rows have not been.
    """

    def __init__(self, at: Density) -> None:
        self.at, self._origin, self._end = at, at, at
        self._share, self._last = 1.0, math.inf

    def go(self, there: Density | None) -> bool:
        """Go on to `there`, None if there is no step, or back; return whether it is near the end."""
        step = math.inf if there is None else _gap(self.at, there)
        if there is None or not step < max(_FURTHER * self._last, NEAR):
            self._share *= _SHORTER
            self.at = _between(self._origin, self._end, self._share)
            return False
        next_step = step * step / self._last if self._last < math.inf else math.inf
        near = step < NEAR or (step < _NEARLY and next_step < NEAR and _gap_of_effects(self.at, there) < _COVERED)
        self._origin, self._end, self._share, self._last = self.at, there, 1.0, step
        self.at = there
        return near

    def back(self) -> None:
        """Go back to the last place from which there was a step."""
        self.at = self._origin


def _ahead(sums: CellSums, at: Density, prior: Prior, unit: FloatArray) -> Density | None:
    """Return the density of the next step, or None where the sums have no finite balance."""
    if not all(np.isfinite(part).all() for part in sums):
        return None
    try:
        return _step(sums, at, prior, unit)
    except (np.linalg.LinAlgError, DataError):  # curvatures of very different sizes
        return None


def _between(one: Density, other: Density, share: float) -> Density:
    """Return the density at a share of the way from one to another."""
    parts = ("beta", "factor", "mean", "variance", "slope", "prior")
    return replace(one, **{name: (1.0 - share) * getattr(one, name) + share * getattr(other, name) for name in parts})


def _gap(one: Density, other: Density) -> float:
    """Return by how many sds a coefficient, or the log sd of effects, moves at most."""
    moved = np.abs(other.beta - one.beta) / other.sds
    sd, before = (np.sqrt(np.diagonal(own.prior)) for own in (other, one))
    return float(max(moved.max(), (np.abs(np.log(sd / before)) * math.sqrt(len(one.mean))).max()))


def _gap_of_effects(one: Density, other: Density) -> float:
    """Return by how many sds of its own an effect moves at most."""
    variance = np.diagonal(other.variance, axis1=1, axis2=2) + (other.pull**2).sum(axis=2)
    return float((np.abs(other.mean - one.mean)[:-1] / np.sqrt(variance[:-1])).max())
