r"""Adaptive Gauss-Hermite quadrature of one effect for each group, and the moments of the effects.

With centre c and scale s of a group, nodes b_k = c + s z_k, and phi(b) the log-likelihood of the group's rows,

.. math:: \log \int e^{\phi(b)} N(b; 0, \sigma^2) db \approx
          \log \sum_k e^{\phi(b_k) - b_k^2 / (2 \sigma^2)} \frac{s}{\sigma} \omega_k e^{z_k^2 / 2}

where z_k, omega_k are nodes and weights for N(0, 1). Nine nodes are exact to 1e-6 nats where c and s are near mean and
sd of the effect given the data and the effect is nearly normal; `effect_nodes` has a rule for every group. Reference:
Pinheiro and Bates (1995), JCGS 4, 12-35.
"""

from typing import NamedTuple

import numpy as np

from bayescore.types import FloatArray

N_NODES = 9
_REACH = 6.0  # sds of the trapezoid to either side: 2e-9 lie beyond
_COVERED = 4.0  # mean of posterior over quadrature weights above which the nodes stand in the wrong place
NARROW = 0.57  # sd of posterior over that of quadrature weights below which nodes are too few: at 0.5 sds are 8% off


def normal_nodes(n_nodes: int = N_NODES) -> tuple[FloatArray, FloatArray]:
    """Return nodes and log weights, shape (n_nodes,) each, of quadrature against N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    return nodes, np.log(weights / weights.sum())


def normal_steps(step: float) -> tuple[FloatArray, FloatArray]:
    """Return the same of the trapezoid with equal steps, for integrands that are not smooth on the normal's scale."""
    nodes = step * np.arange(-np.ceil(_REACH / step), np.ceil(_REACH / step) + 1.0)
    log_weights = -0.5 * nodes**2
    return nodes, log_weights - np.log(np.exp(log_weights).sum())


NODES, LOG_WEIGHTS = normal_nodes()


WEIGHTS = np.exp(LOG_WEIGHTS)


class Nodes(NamedTuple):
    """Centres and scales of the nodes of G effects, shape (G + 1,); the last, of rows of no group, are 0."""

    center: FloatArray
    scale: FloatArray


class EffectMoments(NamedTuple):
    """Effects b given the data, shape (G,) each."""

    log_marginal: FloatArray  # log-likelihood of each group, its effect integrated out
    mean: FloatArray
    variance: FloatArray
    square: FloatArray  # mean of b^2
    with_square: FloatArray  # covariance of b and b^2
    of_square: FloatArray  # variance of b^2
    poor: FloatArray  # whether the nodes stood in the wrong place, so that the moments are a Newton step's


def _astray(share: FloatArray) -> FloatArray:
    """Return whether nodes stand in the wrong place, or so wide that an effect lies between them, shape (...).

    `share`, shape (..., K), has the nodes' posterior probabilities. NaN is astray.
    """
    with np.errstate(invalid="ignore"):
        spread = share @ NODES**2 - (share @ NODES) ** 2
        return np.asarray(~((share**2 @ np.exp(-LOG_WEIGHTS) <= _COVERED) & (spread > NARROW**2)))


def log_terms(values: FloatArray, center: FloatArray, scale: FloatArray, log_sigma: FloatArray | float) -> FloatArray:
    """Return the logarithms of the terms of the sum, shape (..., K), given phi at the nodes, of that shape."""
    log_sigma = np.asarray(log_sigma)[..., None]
    b = center[..., None] + scale[..., None] * NODES
    prior = -0.5 * (b * np.exp(-log_sigma)) ** 2 - log_sigma
    return np.asarray(values + prior + np.log(scale)[..., None] + 0.5 * NODES**2 + LOG_WEIGHTS)


def effect_moments(
    values: FloatArray, nodes: Nodes, log_sigma: float, slope: FloatArray, information: FloatArray
) -> EffectMoments:
    """Return the moments of effects from phi at their nodes, shape (G, K).

    `slope` and `information` are the mean of phi' and of -phi'' over the nodes, for a Newton step where the nodes do
    not cover the effect, or are one point (scale 0).
    """
    precision, (center, scale) = np.exp(-2.0 * log_sigma), nodes
    with np.errstate(divide="ignore"):
        terms = log_terms(values, center, scale, log_sigma)
    top = terms.max(axis=1)
    found = np.isfinite(top)
    log_marginal = np.where(found, top, 0.0)
    powers = np.where(found[:, None], np.exp(terms - log_marginal[:, None]), np.exp(LOG_WEIGHTS))
    total = powers.sum(axis=1)
    share = powers / total[:, None]
    poor = ~found | _astray(share)
    b = center[:, None] + scale[:, None] * NODES
    mean = (share * b).sum(axis=1)
    gap = b - mean[:, None]
    variance, third, fourth = ((share * gap**power).sum(axis=1) for power in (2, 3, 4))
    curvature = np.maximum(information, 0.0) + precision
    step = (slope - center * precision) / curvature
    mean = np.where(poor, center + step, mean)
    variance = np.where(poor, 1.0 / curvature, variance)
    third, fourth = np.where(poor, 0.0, third), np.where(poor, 3.0 * variance**2, fourth)
    return EffectMoments(
        log_marginal=np.where(found, log_marginal + np.log(total), -np.inf),
        mean=mean,
        variance=variance,
        square=mean**2 + variance,
        with_square=third + 2.0 * mean * variance,
        of_square=fourth - variance**2 + 4.0 * mean * third + 4.0 * mean**2 * variance,
        poor=poor,
    )
