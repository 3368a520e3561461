r"""Two posteriors by the same draws, moved to each of them and weighed: how far their moments are apart.

Draws theta_s of a base density b, normal or a coreset's posterior, are moved to a posterior p by the affine map that
takes the base's mode and Hessian to p's (`models.gaussian`) and weighed by p(theta'_s) / b(theta_s). Moments of two
posteriors from the same draws share their noise, and the error is the difference

.. math:: m_1 - m_2, \qquad m = \sum_s w_s f(\theta'_s),

whose Monte Carlo standard error follows from the difference of the two influence functions, draw by draw.

When to use it: to tell how far a coreset's posterior is from the full data's, with hundreds of columns too.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from bayescore.limits import FAMILYWISE_ALPHA
from bayescore.types import FloatArray


class Errors(NamedTuple):
    """Largest error of a mean, in sds of the second posterior, of an sd, relatively, and of a correlation."""

    mean: float
    sd: float
    correlation: float


@dataclass(frozen=True, eq=False)
class Weighed:
    """Draws, shape (S, D), with log weights, shape (S,), up to a constant."""

    draws: FloatArray
    log_weights: FloatArray

    @property
    def weights(self) -> FloatArray:
        """Importance weights that sum to 1, see `importance`."""
        return importance(self.log_weights)

    @property
    def ess(self) -> float:
        """Effective number of draws."""
        return float(1.0 / (self.weights**2).sum())


class _Moments(NamedTuple):
    """Weights, means and sds, standardised draws, shape (S, D), and correlations, shape (D, D)."""

    weights: FloatArray
    mean: FloatArray
    sd: FloatArray
    scaled: FloatArray
    correlation: FloatArray


def importance(log_ratio: FloatArray) -> FloatArray:
    """Return importance weights that sum to 1, cut off at sqrt(S) times their mean (Ionides 2008)."""
    weights = np.exp(log_ratio - log_ratio.max())
    weights = np.minimum(weights, math.sqrt(len(weights)) * weights.mean())
    return np.asarray(weights / weights.sum())


def _moments(of: Weighed) -> _Moments:
    weights = of.weights
    mean = weights @ of.draws
    centred = of.draws - mean
    sd = np.sqrt(weights @ centred**2)
    scaled = centred / np.where(sd > 0.0, sd, 1.0)
    return _Moments(weights, mean, sd, scaled, (scaled * weights[:, None]).T @ scaled)


def errors_between(one: Weighed, other: Weighed) -> Errors:
    """Return the largest errors of `one` against `other`, whose draws are the same ones moved.

    An error beyond what noise alone makes of the largest is taken as it is, less its own standard error in quadrature.
    The others of its kind are shrunk by the share of noise in all of them (James and Stein 1961), which says nothing
    about a lone one among thousands; no kind is said to be below its noise.
    """
    a, b = _moments(one), _moments(other)
    sd = np.where(b.sd > 0.0, b.sd, 1.0)
    ratio = a.sd / sd
    wa, wb = a.weights[:, None], b.weights[:, None]
    squares = a.scaled**2, b.scaled**2
    mean_noise = (wa * a.scaled * ratio - wb * b.scaled) ** 2
    sd_noise = 0.25 * (wa * ratio * (squares[0] - 1.0) - wb * (squares[1] - 1.0)) ** 2
    lower = np.tril_indices(len(sd), -1)
    return Errors(
        _largest((a.mean - b.mean) / sd, mean_noise.sum(axis=0)),
        _largest(ratio - 1.0, sd_noise.sum(axis=0)),
        _largest((a.correlation - b.correlation)[lower], _correlation_noise(a, b)[lower]),
    )


def _correlation_noise(a: _Moments, b: _Moments) -> FloatArray:
    """Return the variances of differences of correlations, shape (D, D)."""

    def products(of: _Moments, by: _Moments) -> FloatArray:
        return influence_products(of.scaled, by.scaled, of.weights * by.weights, of.correlation, by.correlation)

    return np.maximum(products(a, a) - 2.0 * products(a, b) + products(b, b), 0.0)


def influence_products(
    x: FloatArray, y: FloatArray, shares: FloatArray, r_x: FloatArray, r_y: FloatArray
) -> FloatArray:
    """Return sum_s c_s f_s(x) f_s(y), shape (D, D): products of influences on correlations, with shares c.

    Draws x and y, shape (S, D), are standardised. f = z_i z_j - r_ij (z_i^2 + z_j^2) / 2 is a draw's influence on r_ij.
    """
    w, xx, yy, xy = shares[:, None], x**2, y**2, x * y
    mixed_x, even = (w * x * yy).T @ x, (w * xx).T @ yy
    mixed_y, both = (mixed_x, even) if x is y else ((w * y * xx).T @ y, (w * xy).T @ xy)
    own = np.diagonal(even)
    return np.asarray(
        both
        - 0.5 * r_y * (mixed_x + mixed_x.T)
        - 0.5 * r_x * (mixed_y + mixed_y.T)
        + 0.25 * r_x * r_y * (even + even.T + own + own[:, None])
    )


def _largest(errors: FloatArray, variances: FloatArray) -> float:
    """Return the largest of errors of one kind, given the variances of their noise, shape (n,) each; 0 of none."""
    if not len(errors):
        return 0.0
    noise, squares = float(variances.mean()), errors**2
    share = min(1.0, noise / max(float(squares.mean()), float(np.finfo(float).tiny)))
    beyond = squares > ndtri(0.5 * FAMILYWISE_ALPHA / len(errors)) ** 2 * variances
    alone = float((squares - variances)[beyond].max(initial=0.0))
    return max(math.sqrt(float(squares.max())) * (1.0 - share), math.sqrt(alone), math.sqrt(noise))
