r"""Two posteriors by the same draws, moved to each of them and weighed: how far their moments are apart.

Draws theta_s of a base density b, normal or a coreset's posterior, are moved to a posterior p by the affine map that
takes the base's mode and Hessian to p's (`models.transport`) and weighed by p(theta'_s) / b(theta_s). Moments of two
posteriors from the same draws share their noise, and the error is the difference

.. math:: m_1 - m_2, \qquad m = \sum_s w_s f(\theta'_s),

whose Monte Carlo standard error follows from the difference of the two influence functions, draw by draw.

When to use it: to tell how far a coreset's posterior is from the full data's, with hundreds of columns too.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

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

    Each kind is shrunk by the share of Monte Carlo noise in all its errors (James and Stein 1961), but is never said to
    be below that noise.
    """
    a, b = _moments(one), _moments(other)
    sd = np.where(b.sd > 0.0, b.sd, 1.0)
    ratio = a.sd / sd
    wa, wb = a.weights[:, None], b.weights[:, None]
    squares = a.scaled**2, b.scaled**2
    mean_noise = (wa * a.scaled * ratio - wb * b.scaled) ** 2
    sd_noise = 0.25 * (wa * ratio * (squares[0] - 1.0) - wb * (squares[1] - 1.0)) ** 2
    return Errors(
        _largest((a.mean - b.mean) / sd, mean_noise.sum(axis=0)),
        _largest(ratio - 1.0, sd_noise.sum(axis=0)),
        _correlation_error(a, b),
    )


def _correlation_error(a: _Moments, b: _Moments) -> float:
    """Return the largest error of a correlation; products of draws stand for its influence, which is smaller."""
    i, j = np.tril_indices(len(a.mean), -1)
    if not len(i):
        return 0.0
    wa, wb = a.weights[:, None], b.weights[:, None]
    own, theirs, both = wa**2 * a.scaled**2, wb**2 * b.scaled**2, wa * wb * a.scaled * b.scaled
    noise = own.T @ a.scaled**2 - 2.0 * both.T @ (a.scaled * b.scaled) + theirs.T @ b.scaled**2
    return _largest((a.correlation - b.correlation)[i, j], np.maximum(noise[i, j], 0.0))


def _largest(errors: FloatArray, variances: FloatArray) -> float:
    noise = float(variances.mean())
    share = min(1.0, noise / max(float((errors**2).mean()), 1e-300))
    return max(float(np.abs(errors).max()) * (1.0 - share), math.sqrt(noise))
