r"""The collapsed posterior of very many groups: a quadratic of all of them, and a sample of groups for what is left.

The log posterior of theta = (beta, log sigma) is a sum over groups of m_g, the log-likelihood of the group's rows with
its effect integrated out. Near the mode t each m_g is almost a quadratic, and what is left of it is small and alike
from group to group. With q the quadratic at t, by gradients there and their differences about it, the density

.. math:: q_{all}(\theta) + \sum_{g \in S} \frac{m_g(\theta)}{\pi_g} - q_S(\theta)

has the exact gradient and curvature of all groups, and takes from a sample S of groups only what is no quadratic.
Group g is in S with probability pi_g, which grows with the share of the curvature that is its own. Groups are chosen by
systematic sampling in a random order, the same for the same rows. `SampledGroups.error` compares it with all groups.

References
----------
Särndal, Swensson and Wretman (1992), Model Assisted Survey Sampling,
chapter 6. Bardenet, Doucet and Holmes (2017), JMLR 18, on such control variates in sampling.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayescore.compiled import jit
from bayescore.models.groups.marginal import CollapsedArguments, CollapsedTarget, collapsed_density
from bayescore.priors.groups import log_sigma_terms
from bayescore.types import FloatArray, IntArray

MANY = 1000
"""Groups from which a sample of them is drawn."""

FIRST = 256
"""Groups of the first sample; each later one has four times as many."""

MAX_DENSITY_ERROR = 0.02
"""Nats by which the density of a sample may be off at a draw: means then move by less than 0.02 sd."""

_NARROW = 0.1  # sd of log sigma at most: towards sigma = 0 a quadratic grows beyond what the sample can hold
_EQUAL = 0.5  # share of the sampling probabilities that all groups have alike
_STEP = 0.5  # posterior sds, of the differences of gradients
_SEED = 1992  # of the order of groups: the same rows give the same sample


class Remainder(NamedTuple):
    """A quadratic g . (theta - t) - (theta - t) . H (theta - t) / 2, to be added to a density."""

    middle: FloatArray
    gradient: FloatArray
    precision: FloatArray


@jit
def sampled_density(theta: FloatArray, gradient: FloatArray, data: tuple[CollapsedArguments, Remainder]) -> float:
    """Return the log density of a sample of groups with the quadratic of the others, and write its gradient."""
    arguments, rest = data
    value = collapsed_density(theta, gradient, arguments)
    for i in range(theta.size):
        bend = 0.0
        for j in range(theta.size):
            bend += rest.precision[i, j] * (theta[j] - rest.middle[j])
        value += (rest.gradient[i] - 0.5 * bend) * (theta[i] - rest.middle[i])
        gradient[i] += rest.gradient[i] - bend
    return value


@jit
def _densities(
    theta: FloatArray, data: tuple[CollapsedArguments, Remainder], values: FloatArray, gradients: FloatArray
) -> None:
    for s in range(len(theta)):
        values[s] = sampled_density(theta[s], gradients[s], data)


def densities(theta: FloatArray, data: tuple[CollapsedArguments, Remainder]) -> tuple[FloatArray, FloatArray]:
    """Return log densities at draws, shape (S,), and their gradients, (S, p + 1)."""
    values, gradients = np.empty(len(theta)), np.empty(theta.shape)
    _densities(np.ascontiguousarray(theta), data, values, gradients)
    return values, gradients


@dataclass(frozen=True, eq=False)
class SampledGroups:
    """The density of a sample of groups; of all of them where `n_sampled` is the number of all."""

    target: CollapsedTarget
    n_sampled: int
    arguments: CollapsedArguments
    rest: Remainder

    @classmethod
    def of(cls, target: CollapsedTarget, size: int) -> "SampledGroups":
        """Return the density of a sample of so many groups; of all where these are few, or sigma is hardly known."""
        own, middle = target.arguments(), target.point.theta
        D = len(middle)
        none = Remainder(middle, np.zeros(D), np.zeros((D, D)))
        if size > target.n_groups // 2 or np.linalg.norm(target.factor[-1]) > _NARROW:
            return cls(target, target.n_groups, own, none)
        inclusion = _inclusion(_leverage(target), size)
        groups = _systematic(inclusion)
        some, factor = own.of(groups, 1.0 / inclusion[groups]), target.factor
        ends = middle + _STEP * np.vstack([np.zeros(D), factor.T, -factor.T])
        left = densities(ends, (own, none))[1] - densities(ends, (some, none))[1]
        bend = np.linalg.solve(factor.T, (left[1 + D :] - left[1 : 1 + D]) / (2.0 * _STEP))
        return cls(target, len(groups), some, Remainder(middle, left[0], 0.5 * (bend + bend.T)))

    def error(self, theta: FloatArray, log_likelihoods: FloatArray) -> float:
        """Return by how much the density is off at draws at most, up to a constant, in nats.

        `log_likelihoods`, shape (S,), are those of all groups at the draws theta, effects integrated out.
        """
        if self.n_sampled == self.target.n_groups:
            return 0.0
        prior, group_prior = self.target.priors
        of_sigma = [log_sigma_terms(float(each), *group_prior.table)[0] for each in theta[:, -1]]
        gap = densities(theta, self.data)[0] - log_likelihoods - prior.log_density(theta[:, :-1]) - of_sigma
        return float(np.abs(gap - gap.mean()).max())

    @property
    def data(self) -> tuple[CollapsedArguments, Remainder]:
        """What `sampled_density` takes after the point and the gradient."""
        return self.arguments, self.rest


def _leverage(target: CollapsedTarget) -> FloatArray:
    """Return the share of each group in the curvature at the mode, shape (G,), up to what rows within groups say."""
    effects, factor = target.effects, target.factor
    moments, prior = target.point.effects, np.exp(-2.0 * target.point.log_sigma)
    between = effects.information * prior / (effects.information + prior)
    of_beta = between * ((effects.slope @ factor[:-1]) ** 2).sum(axis=1)
    of_sigma = float(factor[-1] @ factor[-1]) * (1.0 - np.minimum(moments.variance * prior, 1.0)) ** 2
    return np.asarray((of_beta + 2.0 * of_sigma)[:-1])


def _inclusion(share: FloatArray, size: int) -> FloatArray:
    """Return the probabilities of groups to be in a sample of a size, shape (G,)."""
    return inclusion_of(_EQUAL / len(share) + (1.0 - _EQUAL) * share / share.sum(), size)


def inclusion_of(p: FloatArray, size: int) -> FloatArray:
    """Return probabilities in proportion to p, shape (G,), but for those that would be above 1; they sum to `size`."""
    certain = np.zeros(len(p), dtype=bool)
    while True:
        pi = np.where(certain, 1.0, p * (size - certain.sum()) / p[~certain].sum())
        more = (pi > 1.0) & ~certain
        if not more.any():
            return np.asarray(np.minimum(pi, 1.0))
        certain |= more


def _systematic(inclusion: FloatArray) -> IntArray:
    """Return the groups of a sample, in order."""
    order = np.random.default_rng(_SEED).permutation(len(inclusion))
    steps = np.floor(np.cumsum(inclusion[order]) + 0.5)
    return np.sort(order[np.diff(steps, prepend=0.0) > 0.0])
