r"""The mode of the marginal posterior of (beta, log sigma), by passes over rows in memory or in a source.

Gradient and Hessian follow the identities of Fisher and Louis (1982): means and variances, over the effects given the
data, of those of the joint density. The Hessian takes the scores of a group's rows as linear in its effect.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from bayescore.families import Family
from bayescore.models.groups.rows import INFORMATION, SLOPE, THIRD, GroupSums, SumGroups
from bayescore.models.posterior import Derivatives, prior_part
from bayescore.models.row_kernels import derivatives_of
from bayescore.numerics.elementary import NODES, WEIGHTS, EffectMoments, EffectNodes, effect_moments
from bayescore.priors import Prior
from bayescore.priors.groups import GroupPrior, log_sigma_terms
from bayescore.types import FloatArray, IntArray, WeightedData

MAX_PASSES = 40
_LEAST_INFORMATION = 1e-4  # of a group's rows on its effect, in units of the prior's
_JOINT_MODE_SDS = 0.1  # posterior sds of beta, and of each effect, from the joint mode of beta and the effects
_ROUNDING = 1e-12  # of a log density: its rounding


@dataclass(frozen=True, eq=False)
class EffectLikelihoods:
    """Normal approximation of each group's likelihood near a point, to place nodes at other points."""

    beta: FloatArray  # the point, (p,)
    peak: FloatArray  # of the likelihood of each group's effect, (G + 1,); 0 for rows of no group
    information: FloatArray  # its precision, (G + 1,)
    slope: FloatArray  # the peak's loss for each unit of beta, (G + 1, p)

    def nodes(self, theta: FloatArray) -> EffectNodes:
        """Return nodes at another point (beta, log sigma), of normal effects."""
        precision = self.information + np.exp(-2.0 * float(theta[-1]))
        center = self.information * (self.peak - self.slope @ (theta[:-1] - self.beta)) / precision
        scale = precision**-0.5
        scale[-1] = 0.0
        return EffectNodes(center, scale)


@dataclass(frozen=True, eq=False)
class MarginalPoint:
    """A point (beta, log sigma), and the results of a pass there."""

    beta: FloatArray
    log_sigma: float
    nodes: EffectNodes
    sums: GroupSums
    effects: EffectMoments
    terms: Derivatives  # of the log marginal posterior; the last coordinate is log sigma
    gap: float  # largest distance of a mean effect from its nodes' centre, in sds of the effect

    @property
    def theta(self) -> FloatArray:
        """The point, shape (p + 1,)."""
        return np.append(self.beta, self.log_sigma)

    @property
    def likelihoods(self) -> EffectLikelihoods:
        """Normal approximations of the groups' likelihoods."""
        prior = np.exp(-2.0 * self.log_sigma)
        information = np.maximum(1.0 / self.effects.variance - prior, _LEAST_INFORMATION * prior)
        peak = self.effects.mean * (information + prior) / information
        peak[-1] = information[-1] = 0.0
        return EffectLikelihoods(self.beta, peak, information, self.sums.middle)


def evaluate_at(
    sum_groups: SumGroups, theta: FloatArray, nodes: EffectNodes, priors: tuple[Prior, GroupPrior]
) -> MarginalPoint:
    """Return the results of a pass at theta = (beta, log sigma)."""
    beta, log_sigma = theta[:-1], float(theta[-1])
    sums = sum_groups(beta, nodes)
    terms, found = marginal_likelihood_terms(sums, log_sigma, nodes)
    own, (log_p, slope, curvature) = prior_part(beta, priors[0]), log_sigma_terms(log_sigma, *priors[1].table)
    gradient = terms.gradient + np.append(own.gradient, slope)
    precision = terms.precision + linalg.block_diag(own.precision, np.full((1, 1), curvature))
    terms = Derivatives(terms.value + (own.value + log_p), gradient, precision)
    gap = np.abs(found.mean - nodes.center)[:-1] / np.sqrt(found.variance[:-1])
    return MarginalPoint(beta, log_sigma, nodes, sums, found, terms, float(gap.max(initial=0.0)))


def marginal_likelihood_terms(
    sums: GroupSums, log_sigma: float, nodes: EffectNodes
) -> tuple[Derivatives, EffectMoments]:
    """Return the log-likelihood of (beta, log sigma) with its derivatives, effects integrated out, and their moments.

    `sums` are those of a pass at beta, with these nodes.
    """
    found = effect_moments(sums.values, nodes, log_sigma, sums.by_effect[:, SLOPE], sums.by_effect[:, INFORMATION])
    p, real = len(sums.gradient), slice(None, -1)  # rows of no group have no effect
    middle, each = sums.middle[real], _Louis.of(found, sums.by_effect, nodes, log_sigma)
    gradient, precision = np.empty(p + 1), np.zeros((p + 1, p + 1))
    gradient[:p] = sums.gradient - each.score @ middle
    gradient[:p] += each.spread @ (sums.pull[real] - sums.by_effect[real, THIRD, None] * middle)
    gradient[p] = each.slope.sum()
    precision[:p, :p] = sums.precision - (middle.T * each.information) @ middle
    precision[p, :p] = precision[:p, p] = each.cross @ middle
    precision[p, p] = each.curvature.sum()
    value = float(found.log_marginal[real].sum() + sums.values[-1, 0])
    return Derivatives(value, gradient, precision), found


class _Louis(NamedTuple):
    """What each group adds to the derivatives by (beta, log sigma), shape (G,): factors of its middle row, and sums.

    Within groups, and between them: a group's mean score is m / sigma^2 (Stein), whatever the nodes' probabilities.
    """

    score: FloatArray
    spread: FloatArray
    slope: FloatArray
    information: FloatArray
    cross: FloatArray
    curvature: FloatArray

    @classmethod
    def of(cls, found: EffectMoments, own: FloatArray, nodes: EffectNodes, log_sigma: float) -> "_Louis":
        """Return it from the moments of the effects."""
        real, square = slice(None, -1), np.exp(-2.0 * log_sigma)
        m, v, second = found.mean[real], found.variance[real], found.square[real]
        return cls(
            own[real, SLOPE] - m * square,
            0.5 * (v - nodes.scale[real] ** 2),
            second * square - 1.0,
            own[real, INFORMATION] - (1.0 - v * square) * square,
            (2.0 * m - found.with_square[real] * square) * square,
            2.0 * second * square - found.of_square[real] * square**2,
        )


class TermsByGroup(NamedTuple):
    """Log-likelihoods of groups, (G + 1,), rows of none last, gradients, (G + 1, p + 1), and minus the Hessians."""

    value: FloatArray
    gradient: FloatArray
    precision: FloatArray

    def __add__(self, other: "TermsByGroup") -> "TermsByGroup":  # type: ignore[override]
        return TermsByGroup(*(one + two for one, two in zip(self, other, strict=True)))

    def __sub__(self, other: "TermsByGroup") -> "TermsByGroup":
        return TermsByGroup(*(one - two for one, two in zip(self, other, strict=True)))


_ROWS_AT_ONCE = 1 << 16  # at all their nodes: 40 MB


def terms_by_group(
    rows: WeightedData, places: IntArray, z: FloatArray, at: tuple[FloatArray, EffectNodes], family: Family
) -> TermsByGroup:
    """Return the terms of each group at theta = (beta, log sigma), given its nodes: `at` has both.

    `places`, shape (n,), are the places of rows among the G groups, G of rows of none; z is what they multiply their
    effect by.
    """
    theta, nodes = at
    n_groups, p = len(nodes.center) - 1, rows.n_features
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(n_groups + 2))
    step = max(1, _ROWS_AT_ONCE * (n_groups + 1) // max(len(order), 1))
    parts = []
    for start in range(0, n_groups + 1, step):
        stop = min(start + step, n_groups + 1)
        some = order[ends[start] : ends[stop]]
        of_groups = EffectNodes(nodes.center[start:stop], nodes.scale[start:stop])
        local = ends[start : stop + 1] - ends[start]
        parts.append(_sums_by_group(rows.take(some), local, z[some], (theta[:-1], of_groups), family))
    values, own, cross, pull, slopes, precisions = (np.concatenate(each) for each in zip(*parts, strict=True))
    found = effect_moments(values, nodes, float(theta[-1]), own[:, SLOPE], own[:, INFORMATION])
    each, real = _Louis.of(found, own, nodes, float(theta[-1])), slice(None, -1)
    middle = cross[real] / np.maximum(own[real, INFORMATION, None], np.finfo(float).tiny)
    value = np.append(found.log_marginal[real], values[-1, 0])
    gradient, precision = np.zeros((n_groups + 1, p + 1)), np.zeros((n_groups + 1, p + 1, p + 1))
    gradient[:, :p], precision[:, :p, :p] = slopes, precisions
    gradient[real, :p] -= each.score[:, None] * middle
    gradient[real, :p] += each.spread[:, None] * (pull[real] - own[real, THIRD, None] * middle)
    gradient[real, p] = each.slope
    precision[real, :p, :p] -= (each.information[:, None] * middle)[:, :, None] * middle[:, None, :]
    precision[real, p, :p] = precision[real, :p, p] = each.cross[:, None] * middle
    precision[real, p, p] = each.curvature
    return TermsByGroup(value, gradient, precision)


def _sums_by_group(
    rows: WeightedData, ends: IntArray, z: FloatArray, at: tuple[FloatArray, EffectNodes], family: Family
) -> tuple[FloatArray, ...]:
    """Return what `GroupSums` has, gradients and precisions of each group apart; rows stand group by group."""
    (beta, nodes), w, X, n = at, rows.weights, rows.X, len(rows)
    group = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    effects = nodes.center[group, None] + nodes.scale[group, None] * NODES
    eta = rows.with_offset(X @ beta)[:, None] + z[:, None] * effects
    terms = derivatives_of(eta.ravel(), np.repeat(rows.y, len(NODES)), family).reshape(4, n, -1)
    s, c, t = w * (terms[1:] @ WEIGHTS)
    add = sparse.csr_array((np.ones(n), np.arange(n), ends), shape=(len(ends) - 1, n))
    own = np.stack([s * z, c * z**2, t * z**3], axis=1)
    columns = [w[:, None] * terms[0], own, *(each[:, None] * X for each in (c * z, t * z**2, s))]
    precisions = np.stack([add @ ((c * X[:, d])[:, None] * X) for d in range(X.shape[1])], axis=1)
    return *(np.asarray(add @ each) for each in columns), precisions


def _step(point: MarginalPoint) -> tuple[FloatArray, float]:
    """Return a Newton step, not long in log sigma, and its length in posterior sds."""
    gradient, precision = point.terms.gradient, point.terms.precision
    if not np.isfinite(precision.sum() + gradient.sum()):  # rates of counts far off, beyond all numbers
        raise linalg.LinAlgError("the marginal posterior is not finite here")
    least = 0.2 * (point.effects.square[:-1] * np.exp(-2.0 * point.log_sigma)).sum() + 0.5
    for lift in (0.0, 1.0, 10.0, 100.0):
        lifted = precision.copy()
        if lift:  # log sigma alone, by less than an EM step would
            lifted[-1, :-1] = lifted[:-1, -1] = 0.0
            lifted[-1, -1] = max(float(precision[-1, -1]), float(least))
            lifted[:-1, :-1] += (lift - 1.0) * 1e-3 * np.diag(np.abs(np.diagonal(precision)[:-1]))
        try:
            factor = linalg.cho_factor(lifted)
        except linalg.LinAlgError:
            continue
        step = linalg.cho_solve(factor, gradient)
        length = math.sqrt(max(float(gradient @ step), 0.0))
        if abs(step[-1]) > 1.0:
            step = step / abs(step[-1])
        return step, length
    raise linalg.LinAlgError("the marginal posterior has no scale")


@np.errstate(all="ignore")  # of steps that come to rates beyond all numbers, and are given up
def marginal_mode(
    sum_groups: SumGroups, theta: FloatArray, priors: tuple[Prior, GroupPrior], n_groups: int, *, tolerance: float
) -> MarginalPoint:
    """Climb to less than `tolerance` from the mode of the marginal posterior, with nodes that cover all effects.

    One pass a step. The first has the effects at 0, and Newton steps for all of them; each later pass has its nodes
    where the one before says. Such steps may overshoot where labels are rare: where they do not end at the mode, they
    begin once more, at the joint mode of beta and the effects; and where those of all together do not end there, at
    that of beta first.
    """
    none = np.zeros(n_groups + 1)
    point, found = _climb(
        sum_groups, evaluate_at(sum_groups, theta, EffectNodes(none, none), priors), priors, tolerance
    )
    if found:
        return point
    ends = []
    for apart in (False, True):
        again = evaluate_at(sum_groups, *_joint_mode(sum_groups, theta, priors[0], n_groups, apart=apart), priors)
        point, found = _climb(sum_groups, again, priors, tolerance)
        if found:
            return point
        ends.append(point)
    return max(ends, key=lambda end: end.terms.value)


def _climb(
    sum_groups: SumGroups, point: MarginalPoint, priors: tuple[Prior, GroupPrior], tolerance: float
) -> tuple[MarginalPoint, bool]:
    """Return the best point of Newton steps from `point`, and whether that is the mode."""
    best: MarginalPoint | None = None
    shrink = 1.0
    for _ in range(MAX_PASSES):
        try:
            step, length = _step(point)
        except linalg.LinAlgError:  # far off, with nodes that miss the effects
            return (point if best is None else best), False
        covered = not point.effects.poor[:-1].any()
        if covered and best is not None and point.terms.value < best.terms.value - 0.1 and shrink > 1e-3:
            shrink *= 0.3  # too far: back, by less
            point, (step, length) = best, _step(best)
        elif covered:
            best, shrink = point, min(1.0, 2.0 * shrink)
            if length < tolerance and point.gap < 1.0:
                return point, True
        theta = point.theta + shrink * step
        point = evaluate_at(sum_groups, theta, point.likelihoods.nodes(theta), priors)
    return (point if best is None else best), False


def _joint_mode(
    sum_groups: SumGroups, theta: FloatArray, prior: Prior, n_groups: int, *, apart: bool
) -> tuple[FloatArray, EffectNodes]:
    """Return beta at the joint mode of beta and the effects given sigma, as theta, and nodes about the effects there.

    The joint density is log-concave given sigma, so steps that are halved until they climb come there from anywhere.
    If `apart`, effects stay 0 until beta is at its mode without them: beside a beta far off many groups would
    overshoot, and one of them halves the step of all.
    """
    beta, square, none = theta[:-1], np.exp(-2.0 * theta[-1]), np.zeros(n_groups + 1)
    center, step, step_of_effects, best = none, 0.0 * beta, none, -np.inf
    information, held = none + square, apart
    for _ in range(MAX_PASSES):
        there, effects = beta + step, center + step_of_effects
        sums, own = sum_groups(there, EffectNodes(effects, none)), prior_part(there, prior)
        value = sums.values[:, 0].sum() + own.value - 0.5 * square * effects @ effects
        if not value >= best - _ROUNDING * abs(best):
            step, step_of_effects = 0.5 * step, 0.5 * step_of_effects
            continue
        beta, center, best = there, effects, value
        information, cross = sums.by_effect[:, INFORMATION] + square, sums.cross.copy()
        slope = sums.by_effect[:, SLOPE] - square * center
        slope[-1] = cross[-1] = 0.0  # rows of no group have no effect
        if held:
            step = linalg.solve(sums.precision + own.precision, sums.gradient + own.gradient, assume_a="pos")
            held = bool((sums.gradient + own.gradient) @ step >= _JOINT_MODE_SDS**2)
            if held:
                continue
        precision = sums.precision + own.precision - (cross.T / information) @ cross
        gradient = sums.gradient + own.gradient - cross.T @ (slope / information)
        step = linalg.solve(precision, gradient, assume_a="pos")
        step_of_effects = (slope - cross @ step) / information
        of_effects = float((step_of_effects**2 * information).max()) if apart else 0.0
        if max(gradient @ step, of_effects) < _JOINT_MODE_SDS**2:
            break
    scale = np.append(information[:-1] ** -0.5, 0.0)
    return np.append(beta, theta[-1]), EffectNodes(center, scale)
