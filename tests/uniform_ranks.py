r"""Are ranks uniform? The simultaneous test of their ECDF, with exact p-values.

Of N independent ranks among K - 1 draws, uniform on 0, ..., K - 1, the number C_k of those below k is
Binomial(N, k / K), and its path is a Markov chain: given C_(k-1), the step C_k - C_(k-1) is
Binomial(N - C_(k-1), 1 / (K - k + 1)). The statistic is the smallest pointwise two-sided p-value on the path,

.. math:: \gamma = \min_k 2 \min\{P(\mathrm{Bin}(N, k/K) \le C_k),\, P(\mathrm{Bin}(N, k/K) \ge C_k)\},

and the chance of a smaller or equal one follows by summing over the paths that stay inside the limits of gamma.

Reference: Säilynoja, Bürkner and Vehtari (2022), Graphical test for discrete uniformity and its applications in
goodness-of-fit evaluation and multiple sample comparison, Statistics and Computing 32, Algorithm 1.
"""

import numpy as np
from scipy import special, stats

from bayescore.types import FloatArray, IntArray


def counts_below(ranks: IntArray, n_places: int) -> IntArray:
    """Return how many of N ranks lie below 1, ..., n_places - 1."""
    return np.cumsum(np.bincount(ranks, minlength=n_places))[:-1]


def limits(gamma: float, n_ranks: int, n_places: int) -> tuple[IntArray, IntArray]:
    """Return the least and largest counts, shape (n_places - 1,), whose pointwise p-value is above `gamma`."""
    z = np.arange(1, n_places) / n_places
    tail = 0.5 * gamma * (1.0 + 1e-9)  # the count that has just gamma lies outside
    low, high = stats.binom.ppf(tail, n_ranks, z), stats.binom.isf(tail, n_ranks, z)
    return np.maximum(low, 0.0).astype(int), np.minimum(high, n_ranks).astype(int)  # a tail of 0 has a low end of -1


def inside(low: IntArray, high: IntArray, n_ranks: int) -> float:
    """Return the probability that the counts of uniform ranks lie within limits at every place."""
    log_factorial, n_places = special.gammaln(np.arange(n_ranks + 1) + 1.0), len(low) + 1
    counts, share = np.zeros(1, dtype=int), np.ones(1)
    for k in range(1, n_places):
        after = np.arange(low[k - 1], high[k - 1] + 1)
        more, rest, p = after - counts[:, None], n_ranks - counts[:, None], 1.0 / (n_places - k + 1)
        taken = np.clip(more, 0, rest)
        log_pmf = log_factorial[rest] - log_factorial[taken] - log_factorial[rest - taken]
        log_pmf += taken * np.log(p) + (rest - taken) * np.log1p(-p)
        share = share @ np.where(more == taken, np.exp(log_pmf), 0.0)
        counts = after
    return float(share.sum())


def p_value(ranks: IntArray, n_places: int) -> float:
    """Return the exact p-value of uniformity of ranks, shape (N,), among n_places - 1 draws.

    >>> round(p_value(np.arange(100), 100), 3), p_value(np.arange(100) // 2, 100) < 1e-9
    (1.0, True)
    """
    counts, z = counts_below(ranks, n_places), np.arange(1, n_places) / n_places
    below, above = stats.binom.cdf(counts, len(ranks), z), stats.binom.sf(counts - 1, len(ranks), z)
    gamma = float(2.0 * np.minimum(below, above).min())
    return max(0.0, 1.0 - inside(*limits(gamma, len(ranks), n_places), len(ranks))) if gamma < 1.0 else 1.0


def p_values(ranks: IntArray, n_places: int) -> FloatArray:
    """Return the p-value of each quantity, shape (Q,), of ranks of shape (N, Q)."""
    return np.array([p_value(column, n_places) for column in ranks.T])
