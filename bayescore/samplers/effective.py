"""Effective sample sizes of many coordinates at once, as ArviZ computes them one at a time.

Reference: Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16, 667-718.
"""

import numpy as np
from scipy import fft, special, stats

from bayescore.types import FloatArray

_TAILS = (0.05, 0.95)


def bulk_sizes(draws: FloatArray) -> FloatArray:
    """Return the bulk effective sample size of each coordinate of draws, shape (chains, n, D), n >= 10: shape (D,)."""
    halves = _split(draws)
    flat = halves.reshape(-1, halves.shape[2])
    ranks = stats.rankdata(flat, axis=0)
    return _sizes(special.ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(halves.shape))


def tail_sizes(draws: FloatArray) -> FloatArray:
    """Return the tail effective sample size of each coordinate, shape (D,): the smaller one of two quantiles."""
    low, high = (_sizes(_split((draws <= end).astype(np.float64))) for end in np.quantile(draws, _TAILS, axis=(0, 1)))
    return np.minimum(low, high)


def _split(draws: FloatArray) -> FloatArray:
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _sizes(halves: FloatArray) -> FloatArray:
    """Return the number of draws over the autocorrelation time, by Geyer's initial monotone sequence, shape (D,)."""
    chains, n, _ = halves.shape
    means = halves.mean(axis=1)
    power = np.abs(fft.rfft(halves - means[:, None], fft.next_fast_len(2 * n, real=True), axis=1)) ** 2
    covariance = fft.irfft(power.mean(axis=0), fft.next_fast_len(2 * n, real=True), axis=0)[:n] / n
    total = covariance[0] + means.var(axis=0, ddof=1)
    within = covariance[0] * n / (n - 1.0)
    still = np.ptp(halves, axis=(0, 1)) == 0.0
    rho = 1.0 - (within - covariance) / np.where(still, 1.0, total)
    rho[0] = 1.0
    pairs = rho[0 : n - n % 2 : 2] + rho[1::2]
    last = np.full((1, pairs.shape[1]), True)
    ended = np.minimum(np.argmax(np.concatenate([pairs <= 0.0, last]), axis=0), (n - 3) // 2)  # ArviZ looks no further
    sums = np.cumsum(np.minimum.accumulate(pairs, axis=0), axis=0)
    each = np.arange(pairs.shape[1])
    time = 2.0 * np.where(ended > 0, sums[ended - 1, each], 0.0) - 1.0 + np.maximum(rho[2 * ended, each], 0.0)
    size = chains * n / np.maximum(time, 1.0 / np.log10(chains * n))
    return np.where(still, 1.0, size)  # a chain that stood still
