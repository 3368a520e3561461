"""Monte Carlo errors and effective sample sizes of each coordinate of draws, shape (chain, draw, D).

The estimates are ArviZ's, of draws brought to unit scale, so that a coordinate far out keeps its digits.

Reference: Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16, 667-718.
"""

from collections.abc import Callable

import numpy as np

from bayescore.compat import effective_size, mcse_of_quantile, split_rhat
from bayescore.limits import MIN_DRAWS
from bayescore.types import FloatArray


def ess_mean(draws: FloatArray) -> FloatArray:
    """Return the effective sample size of each coordinate's mean, shape (D,)."""
    return ess(draws, "mean")


def mcse_mean(draws: FloatArray) -> FloatArray:
    """Return the Monte Carlo standard error sd / sqrt(ESS) of each coordinate's mean, shape (D,)."""
    return np.asarray(draws.std(axis=(0, 1), ddof=1)) / np.sqrt(ess_mean(draws))


def mcse_sd(draws: FloatArray) -> FloatArray:
    """Return the Monte Carlo standard error of each sd, mcse(mean of squared deviations) / (2 sd), shape (D,)."""
    scale = _scale(draws)
    squares = ((draws - draws.mean(axis=(0, 1))) / scale) ** 2
    return mcse_mean(squares) * scale / 2.0


def mcse_quantile(draws: FloatArray, prob: float) -> FloatArray:
    """Return the Monte Carlo standard error of each coordinate's quantile `prob`, shape (D,)."""
    return _each(draws, lambda x: mcse_of_quantile(x, prob)) * _scale(draws)


def rhat(draws: FloatArray) -> FloatArray:
    """Return the rank-normalised split R-hat of each coordinate, shape (D,): NaN for a constant one.

    The two halves of a single chain are compared.
    """
    if len(draws) == 1:
        half = draws.shape[1] // 2
        draws = np.concatenate([draws[:, :half], draws[:, -half:]])
    if draws.shape[1] < MIN_DRAWS:
        return np.full(draws.shape[2], np.nan)
    return _each(draws, split_rhat)


def ess(draws: FloatArray, method: str) -> FloatArray:
    """Return the effective sample size ("mean", "bulk" or "tail") of each coordinate, shape (D,)."""
    if draws.shape[1] < MIN_DRAWS:
        return np.full(draws.shape[2], np.nan)
    return _each(draws, lambda x: effective_size(x, method))


def _each(draws: FloatArray, statistic: Callable[[FloatArray], float]) -> FloatArray:
    columns = np.moveaxis((draws - draws.mean(axis=(0, 1))) / _scale(draws), 2, 0)
    with np.errstate(all="ignore"):  # a chain that stood still
        return np.array([statistic(each) for each in columns])


def _scale(draws: FloatArray) -> FloatArray:
    sd = draws.std(axis=(0, 1), ddof=1)
    return np.where(sd > 0.0, sd, 1.0)
