"""Monte Carlo errors and effective sample sizes of each coordinate of draws, shape (chain, draw, D).

Reference: Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16, 667-718.
"""

import numpy as np

from bayescore.chains import bulk_and_rhats, effective_sizes, split_rhats, unit_scale
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
    scale = unit_scale(draws)
    squares = ((draws - draws.mean(axis=(0, 1))) / scale) ** 2
    return mcse_mean(squares) * scale / 2.0


def rhat(draws: FloatArray) -> FloatArray:
    """Return the rank-normalised split R-hat of each coordinate, shape (D,): NaN for a constant one.

    The two halves of a single chain are compared.
    """
    if len(draws) == 1:
        half = draws.shape[1] // 2
        draws = np.concatenate([draws[:, :half], draws[:, -half:]])
    if draws.shape[1] < MIN_DRAWS:
        return np.full(draws.shape[2], np.nan)
    return split_rhats(draws)


def bulk_and_rhat(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ``ess(draws, "bulk")`` and ``rhat(draws)``, both of the same ranks where there are several chains."""
    if len(draws) > 1 and draws.shape[1] >= MIN_DRAWS:
        return bulk_and_rhats(draws)
    return ess(draws, "bulk"), rhat(draws)


def ess(draws: FloatArray, method: str) -> FloatArray:
    """Return the effective sample size ("mean", "bulk" or "tail") of each coordinate, shape (D,)."""
    if draws.shape[1] < MIN_DRAWS:
        return np.full(draws.shape[2], np.nan)
    return effective_sizes(draws, method)
