"""Monte Carlo errors and effective sample sizes of draws, shape (chain, draw, D), of all coordinates at once.

The formulas are ArviZ's (the tests hold them to it), which loops over coordinates: some 20 ms for each, seconds for
hundreds, where these take one FFT and one sort.

Reference: Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16, 667-718; initial monotone
sequence: Geyer (1992), Statistical Science 7, 473-483.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import fft, special, stats

from bayescore.limits import MIN_DRAWS
from bayescore.types import FloatArray

Statistic = Callable[[FloatArray], FloatArray]

_TAIL = (0.05, 0.95)  # quantiles of the "tail" effective sample size
_COLUMNS = 64  # coordinates at a time, which bounds the memory


def ess_mean(draws: FloatArray) -> FloatArray:
    """Return the effective sample size of each coordinate's mean, shape (D,)."""
    return _by_columns(draws, lambda x: _sizes(_split(x)))


def mcse_mean(draws: FloatArray) -> FloatArray:
    """Return the Monte Carlo standard error sd / sqrt(ESS) of each coordinate's mean, shape (D,)."""
    return np.asarray(draws.std(axis=(0, 1), ddof=1)) / np.sqrt(ess_mean(draws))


def mcse_sd(draws: FloatArray) -> FloatArray:
    """Return the Monte Carlo standard error of each coordinate's sd, shape (D,).

    By the delta method from the squared deviations s: mcse(mean of s) / (2 sd).
    """
    scale = _scale(draws)
    squares = ((draws - draws.mean(axis=(0, 1))) / scale) ** 2
    return mcse_mean(squares) * scale / 2.0


def mcse_quantile(draws: FloatArray, prob: float) -> FloatArray:
    """Return the Monte Carlo standard error of each coordinate's quantile `prob`, shape (D,).

    Half the distance of the order statistics at one standard error to both sides, by the beta distribution of ranks.
    """
    size = _by_columns(draws, lambda x: _quantile_sizes(x, prob))
    flat = np.sort(draws.reshape(-1, draws.shape[2]), axis=0)
    ranks: FloatArray = np.asarray(
        stats.beta.ppf(special.ndtr([[-1.0], [1.0]]), size * prob + 1.0, size * (1.0 - prob) + 1.0)
    )
    low = np.floor(np.fmax(ranks[0] * len(flat) - 1.0, 0.0)).astype(np.int64)
    high = np.ceil(np.fmin(ranks[1] * len(flat) - 1.0, len(flat) - 1.0)).astype(np.int64)
    each = np.arange(flat.shape[1])
    return np.asarray(0.5 * (flat[high, each] - flat[low, each]))


def rhat(draws: FloatArray) -> FloatArray:
    """Return the rank-normalised split R-hat of each coordinate, NaN for a constant one, shape (D,).

    The larger of that of the draws and that of their distances to the median. A single chain is compared as its two
    halves.
    """
    if len(draws) == 1:
        draws = _split(draws)
    if draws.shape[1] < MIN_DRAWS:
        return np.full(draws.shape[2], np.nan)
    return _by_columns(draws, _rhat)


def ess(draws: FloatArray, method: str) -> FloatArray:
    """Return the effective sample size ("bulk" or "tail") of each coordinate, shape (D,)."""
    if method == "bulk":
        return _by_columns(draws, lambda x: _sizes(_normal_scores(_split(x))))
    sizes = [_by_columns(draws, lambda x, prob=prob: _quantile_sizes(x, prob)) for prob in _TAIL]  # type: ignore[misc]
    return np.asarray(np.minimum(*sizes))


def _by_columns(draws: FloatArray, statistic: Statistic) -> FloatArray:
    # unit scale: a coordinate far out keeps its digits
    center, scale = draws.mean(axis=(0, 1)), _scale(draws)
    parts = []
    for start in range(0, draws.shape[2], _COLUMNS):
        own = slice(start, start + _COLUMNS)
        parts.append(statistic((draws[:, :, own] - center[own]) / scale[own]))
    return np.concatenate(parts)


def _scale(draws: FloatArray) -> FloatArray:
    sd = draws.std(axis=(0, 1), ddof=1)
    return np.where(sd > 0.0, sd, 1.0)


def _split(draws: FloatArray) -> FloatArray:
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _quantile_sizes(draws: FloatArray, prob: float) -> FloatArray:
    return _sizes(_split((draws <= np.quantile(draws, prob, axis=(0, 1))).astype(np.float64)))


def _normal_scores(draws: FloatArray) -> FloatArray:
    flat = draws.reshape(-1, draws.shape[2])
    ranks = (stats.rankdata(flat, axis=0) - 0.375) / (len(flat) + 0.25)
    return np.asarray(special.ndtri(ranks)).reshape(draws.shape)


def _rhat(draws: FloatArray) -> FloatArray:
    halves = _split(draws)
    found = []
    for each in (halves, np.abs(halves - np.median(halves, axis=(0, 1)))):
        scores, n = _normal_scores(each), halves.shape[1]
        between, within = scores.mean(axis=1).var(axis=0, ddof=1), scores.var(axis=1, ddof=1).mean(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            found.append(np.sqrt(between / within + (n - 1.0) / n))
    return np.asarray(np.where(np.ptp(draws, axis=(0, 1)) > 0.0, np.maximum(*found), np.nan))


def _sizes(chains: FloatArray) -> FloatArray:
    """Return the effective sample sizes of the means of split chains, shape (chain, draw, D) to (D,)."""
    m, n, D = chains.shape
    if n < MIN_DRAWS // 2:
        return np.full(D, np.nan)
    centred = chains - chains.mean(axis=1, keepdims=True)
    length = fft.next_fast_len(2 * n)
    power = np.abs(fft.rfft(centred, length, axis=1)) ** 2
    covariance = fft.irfft(power, length, axis=1)[:, :n].mean(axis=0) / n  # (n, D)
    within = covariance[0] * n / (n - 1.0)
    total = covariance[0] + (chains.mean(axis=1).var(axis=0, ddof=1) if m > 1 else 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = 1.0 - (within - covariance) / total
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(-1, 2, D).sum(axis=1)[: max((n - 1) // 2, 1)]
    last = np.where((pairs < 0.0).any(axis=0), (pairs < 0.0).argmax(axis=0), len(pairs) - 1)  # it ends the sum
    kept = np.where(np.arange(len(pairs))[:, None] < last, np.minimum.accumulate(pairs, axis=0), 0.0)
    end = rho[2 * last, np.arange(D)]
    time = -1.0 + 2.0 * kept.sum(axis=0) + np.maximum(end, 0.0)
    size = m * n / np.maximum(time, 1.0 / math.log10(m * n))
    return np.where(np.ptp(chains, axis=(0, 1)) > 0.0, size, float(m * n))
