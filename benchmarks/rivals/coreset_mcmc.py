r"""Coreset MCMC: chains on a coreset's posterior whose weights are learnt from the chains themselves, meanwhile.

Our own short implementation; its authors' is in Julia. Of K = 2 chains, with l(n, k) = log p(z_n . theta_k) less its
mean over chains, M coreset rows and S rows drawn anew in each step, minus the gradient of the KL divergence is

.. math:: g_m = \frac{1}{K - 1} \sum_k l_{mk} \Big( \frac{N}{S} \sum_{s \in S} l_{sk} - \sum_j w_j l_{jk} \Big)

which ADAM follows, w <- max(0, w + a m / (sqrt(v) + 1e-8)). As in the published code's logistic example, in its variant
of few rows a step (the other has all N, and a = 0.1): half of the rows of each label, w = N / M to begin with, S = 5 M,
here with replacement, a = 10 / sqrt(t), 25,000 steps, then 10,000 draws with the weights of the last one. A step is a
move along a line through theta by slice sampling, of width 10. Lines have directions uniform on the sphere, as there,
or `root` times that, which mixes better where columns are correlated. The posterior is log-concave, so an interval
grown at both ends until they are outside holds the slice, and no doubling test is due.

References
----------
Chen and Campbell (2024), Coreset Markov chain Monte Carlo, AISTATS; github.com/NaitongChen/coreset-mcmc-experiments.
Neal (2003), Slice sampling, Annals of Statistics 31.
"""

from math import exp, log1p, sqrt

import numpy as np
from numba import njit

from bayescore.types import FloatArray, WeightedData

CHAINS = 2
STEPS, DRAWS = 25_000, 10_000
EACH = 5  # rows of a step, for each row of the coreset
WIDTH = 10.0
RATE = 10.0  # a, over sqrt(t)
FIRST, SECOND, TINY = 0.9, 0.999, 1e-8  # ADAM's


@njit(cache=True)
def _log_p(eta: float) -> float:
    return min(eta, 0.0) - log1p(exp(-abs(eta)))


@njit(cache=True)
def _at(
    t: float, theta: FloatArray, d: FloatArray, eta: FloatArray, slope: FloatArray, w: FloatArray, sd: float
) -> float:
    """Return the log density at theta + t d, given the rows' z . theta and z . d, shape (M,)."""
    value = -0.5 * ((theta + t * d) ** 2).sum() / sd**2
    for m in range(len(w)):
        value += w[m] * _log_p(eta[m] + t * slope[m])
    return value


@njit(cache=True)
def move(
    rng: np.random.Generator, theta: FloatArray, Z: FloatArray, w: FloatArray, root: FloatArray, sd: float
) -> None:
    """Move `theta`, shape (D,), in place, along a line; rows Z, shape (M, D), weights (M,), prior N(0, sd^2)."""
    ball = rng.standard_normal(len(theta))
    d = root @ (ball / sqrt((ball**2).sum()))
    eta, slope = Z @ theta, Z @ d
    level = _at(0.0, theta, d, eta, slope, w, sd) - rng.standard_exponential()
    left = -WIDTH * rng.random()
    right = left + WIDTH
    while _at(left, theta, d, eta, slope, w, sd) > level:
        left -= right - left
    while _at(right, theta, d, eta, slope, w, sd) > level:
        right += right - left
    t = left + (right - left) * rng.random()
    while _at(t, theta, d, eta, slope, w, sd) < level:
        if t < 0.0:
            left = t
        else:
            right = t
        t = left + (right - left) * rng.random()
    theta += t * d


@njit(cache=True)
def _centred(Z: FloatArray, thetas: FloatArray) -> FloatArray:
    """Return l(n, k), shape (n, K)."""
    found = Z @ thetas.T
    for n in range(len(found)):
        for k in range(len(thetas)):
            found[n, k] = _log_p(found[n, k])
        found[n] -= found[n].mean()
    return found


@njit(cache=True)
def _run(
    rng: np.random.Generator, Z: FloatArray, chosen: np.ndarray, root: FloatArray, sd: float, rate: float, steps: int,
    draws: int,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Return draws, shape (chains, draws, D), and weights, shape (M,), of the rows `chosen` of all of Z."""
    (N, D), M = Z.shape, len(chosen)
    rows, S = Z[chosen], min(EACH * M, N)
    w, first, second = np.full(M, N / M), np.zeros(M), np.zeros(M)
    thetas, kept = np.zeros((CHAINS, D)), np.empty((CHAINS, draws, D))
    for t in range(1, steps + draws + 1):
        for k in range(CHAINS):
            move(rng, thetas[k], rows, w, root, sd)
        if t > steps:
            kept[:, t - steps - 1] = thetas
            continue
        own = _centred(rows, thetas)
        everything = N / S * _centred(Z[rng.integers(0, N, S)], thetas).sum(axis=0)
        g = own @ (everything - w @ own) / (CHAINS - 1)
        first = FIRST * first + (1.0 - FIRST) * g
        second = SECOND * second + (1.0 - SECOND) * g**2
        ahead = first / (1.0 - FIRST**t) / (np.sqrt(second / (1.0 - SECOND**t)) + TINY)
        w = np.maximum(0.0, w + rate / sqrt(t) * ahead)
    return kept, w


def coreset_mcmc(
    data: WeightedData,
    sd: float,
    size: int,
    seed: int,
    *,
    root: FloatArray,
    rate: float = RATE,
    steps: int = STEPS,
    draws: int = DRAWS,
) -> tuple[FloatArray, FloatArray, float]:
    """Return draws, shape (chains, draws, D), under N(0, sd^2) priors, weights, shape (size,), and passes over rows.

    Rows of `data` have weight 1; `root`, shape (D, D), turns directions of the sphere into those of moves.
    """
    rng = np.random.default_rng(seed)
    positive, negative = np.flatnonzero(data.y > 0), np.flatnonzero(data.y < 0)
    n_positive = min((size + 1) // 2, len(positive))
    halves = rng.choice(positive, n_positive, replace=False), rng.choice(negative, size - n_positive, replace=False)
    Z, chosen = np.ascontiguousarray(data.Z), np.concatenate(halves)
    kept, w = _run(rng, Z, chosen, root, sd, rate, steps, draws)
    return kept, w, steps * min(EACH * size, len(data)) / len(data)
