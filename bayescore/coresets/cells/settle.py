r"""The density of beta and the cells' effects about which rows are condensed: where their posterior is.

Every effect is b_c ~ N(0, S). First the normal density nearest that posterior: averaged over it (`sums`), the
log-likelihood has slopes and curvatures in beta and every b_c; where these and the priors' are in balance it stands
(Opper and Archambeau 2009). A step goes there as if slopes were linear: a linear mixed model, whose effects are solved
for cell by cell. S is where its score is 0, by Fisher scoring, held off 0 by one cell's worth of `LEAST_SD`, its sds at
most `MOST_SD`, both on a row of root mean square. With S = L L' and R_c = I - L^-1 V_c L^-T, the share of the prior's
variance that the rows of cell c take away, a step to L exp(X) L' solves, but for the part of that one cell,

.. math:: \sum_c R_c X R_c = \sum_c L^{-1} E[b_c b_c'] L^{-T} - C I.

The EM algorithm has X in place of R_c X R_c, so that it creeps where rows say little of effects. Sums that are averaged
over V_c depend on S: where an sd turns round, half of the step is taken.

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
_NEARLY = 2.0  # the same before quadrature, if steps that shrink as the last one did lead no further than `NEAR`
_COVERED = 2.0  # sds of an effect, by which its nodes may have moved then
_LOST = 100.0  # sds of the last step, from which the centre is not near anything
_MAX_TURNS = 12  # of quadrature, two passes each
_APART = 10.0  # times the smallest step, beyond which steps lead away
_FURTHER = 10.0  # times the step before: a longer step says that the one before went too far,
_SHORTER = 0.25  # and this share of it is taken
_TURNED = 0.5  # of the step before, beyond which an sd of effects that goes back goes to and fro
_FAR = 2.0  # of eta, by which a step moves the effects of a cell at most, on a row of root mean square
_SCORINGS = 30  # steps of S, a pass
_LONGEST = 1.0  # of them, in a log variance
_STILL = 0.05  # sds of a log variance, at which they end
LEAST_SD = 0.5  # of an effect, on a row of root mean square
MOST_SD = 15.0  # of the same: where cells have one label each the likelihood sets none
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
    """Return the density in balance if slopes were linear, given S and the prior's terms at beta.

    Effects go a part of a long way. Beta goes as if they went all of it; at the end none is far.
    """
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
        root, change = _scored(_solved(sums, at, own, covariance, unit), unit)
        values, vectors = np.linalg.eigh(change)
        root = root @ (vectors * np.exp(0.5 * np.clip(values, -_LONGEST, _LONGEST)))
        root *= np.minimum(1.0, MOST_SD * unit / np.sqrt((root**2).sum(axis=1)))[:, None]
        before, covariance = covariance, root @ root.T
        sd = np.sqrt(np.diagonal(covariance))
        if (np.abs(covariance - before) < _STILL * math.sqrt(2.0 / len(at.mean)) * np.outer(sd, sd)).all():
            break
    return _solved(sums, at, own, covariance, unit)


def _scored(at: Density, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return L, L L' = S, and X of the scoring step to L exp(X) L', of a density in balance given S."""
    one, L = np.eye(len(unit)), np.asarray(np.linalg.cholesky(at.prior))
    inverse = np.linalg.inv(L)
    least = LEAST_SD**2 * (inverse * unit**2) @ inverse.T
    square = at.mean.T @ at.mean + at.variance.sum(axis=0) + np.einsum("cqp,crp->qr", at.pull, at.pull)
    wanted = inverse @ square @ inverse.T + least - len(at.mean) * one
    taken = one - inverse @ at.variance[:-1] @ inverse.T
    sides = np.einsum("ij,kl->ikjl", least, one) + np.einsum("ij,kl->ikjl", one, least)
    curvature = np.einsum("cij,ckl->ikjl", taken, taken) + 0.5 * sides
    change = np.linalg.solve(curvature.reshape(one.size, one.size), wanted.ravel()).reshape(one.shape)
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
    """Return the density about which to condense. Effects of `unit`, shape (Q,), move a row of root mean square by 1.

    Raises `ArithmeticError` where it is not found.
    """
    way = _Way(start, unit)
    for _ in range(MAX_PASSES):
        if way.go(_ahead(sums_of(dataset, way.at, family), way.at, prior, unit)):
            break
    else:
        way.back()
    at, before, best = way.at, None, None
    for _ in range(_MAX_TURNS):
        try:
            found = _about(dataset, at, family)
            there = _ahead(*_by_quadrature(found), prior, unit)
        except np.linalg.LinAlgError:  # a variance with no inverse
            break
        last = math.inf if there is None else _gap(at, there, unit)
        best = replace(found, last=last) if best is None or last < best.last else best
        if there is None or last < NEAR or not last < _APART * best.last:
            break
        before, at = at, there if before is None else _damped(before, at, there)
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

    def __init__(self, at: Density, unit: FloatArray) -> None:
        self.at, self._origin, self._end, self._unit = at, at, at, unit
        self._share, self._last = 1.0, math.inf

    def go(self, there: Density | None) -> bool:
        """Go on to `there`, None if there is no step, or back; return whether it is near the end."""
        step = math.inf if there is None else _gap(self.at, there, self._unit)
        if there is None or not step < max(_FURTHER * self._last, NEAR):
            self._share *= _SHORTER
            self.at = _between(self._origin, self._end, self._share)
            return False
        # as far as the steps after this one lead, if they shrink as this one did
        left = step * step / (self._last - step) if self._share == 1.0 and step < self._last < math.inf else math.inf
        near = (step < NEAR and self._last < math.inf) or (step < _NEARLY and left < NEAR)  # the first is from a point
        near = near and _gap_of_effects(self.at, there) < _COVERED
        there = _damped(self._origin, self.at, there)
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


def _damped(before: Density, at: Density, there: Density) -> Density:
    """Return the density to go on to: half the way where an sd of effects turns round and goes back far."""
    sizes = np.log([np.diagonal(own.prior) for own in (before, at, there)])
    first, second = np.diff(sizes, axis=0)
    return _between(at, there, 0.5) if (first * second < -_TURNED * first**2).any() else there


def _gap(one: Density, other: Density, unit: FloatArray) -> float:
    """Return by how many sds a coefficient, or the log sd of effects, moves at most.

    The log sd has the information of a cell 2 r^2, r the share that its rows take away of a variance of `LEAST_SD` or
    more: where they say little the sd wanders, and of a smaller one they would seem to say nothing.
    """
    moved = np.abs(other.beta - one.beta) / other.sds
    variance = np.diagonal(other.prior)
    told = 1.0 / np.diagonal(other.variance[:-1], axis1=1, axis2=2) - 1.0 / variance
    share = np.clip(told / (told + 1.0 / np.maximum(variance, (LEAST_SD * unit) ** 2)), 0.0, 1.0)
    turned = 0.5 * np.abs(np.log(variance / np.diagonal(one.prior))) * np.sqrt(2.0 * (share**2).sum(axis=0))
    return float(max(moved.max(), turned.max()))


def _gap_of_effects(one: Density, other: Density) -> float:
    """Return by how many sds of its own an effect moves at most."""
    variance = np.diagonal(other.variance, axis1=1, axis2=2) + (other.pull**2).sum(axis=2)
    return float((np.abs(other.mean - one.mean)[:-1] / np.sqrt(variance[:-1])).max())
