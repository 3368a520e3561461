r"""Pareto smoothed importance sampling: weights whose tail a generalised Pareto distribution smooths, and its k-hat.

The M = min(S / 5, 3 sqrt(S)) largest of S weights are replaced by quantiles of the distribution fitted to them, and are
cut at the largest raw one. The fit is the posterior mean of Zhang and Stephens (2009), k-hat drawn to 1/2 by a prior of
10 draws. The formulas are those of ArviZ 0.23, to rounding, compiled for many rows of weights.

References
----------
Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25. Zhang and Stephens (2009),
A new and efficient estimation method for the generalized Pareto distribution, Technometrics 51, 316-325.
"""

import math

import numpy as np

from bayescore.compiled import jit
from bayescore.types import FloatArray

_LEAST_TAIL = 5  # draws that a tail is fitted to
_LOG_TINY = math.log(np.finfo(float).tiny)  # of weights whose exponential is no normal number
_EPS = float(np.finfo(float).eps)


def psislw(log_weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return Pareto smoothed log weights, shape (..., S), that sum to one, and k-hat of each row, shape (...).

    Where no tail can be fitted weights are only normalised, and k-hat is infinite.
    """
    log_weights = np.asarray(log_weights, dtype=np.float64)
    S = log_weights.shape[-1]
    rows = log_weights.reshape(-1, S)
    rows = rows - rows.max(axis=1, keepdims=True)
    place = S - 1 - min(math.ceil(min(S / 5.0, 3.0 * math.sqrt(S))), S - 1)
    cutoff = np.maximum(np.partition(rows, place, axis=1)[:, place], _LOG_TINY)
    k = np.empty(len(rows))
    _smooth(rows, cutoff, k)
    rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
    return rows.reshape(log_weights.shape), k.reshape(log_weights.shape[:-1])


@jit
def _smooth(rows: FloatArray, cutoffs: FloatArray, k: FloatArray) -> None:
    """Smooth the tails of rows of log weights, the largest 0, above their cutoffs; write k-hat."""
    S = rows.shape[1]
    for n in range(rows.shape[0]):
        row, cutoff = rows[n], cutoffs[n]
        k[n], where = np.inf, np.empty(S, np.int64)
        size = 0
        for s in range(S):
            if row[s] > cutoff:
                where[size] = s
                size += 1
        if size < _LEAST_TAIL:
            continue
        tail = np.empty(size)
        for i in range(size):
            tail[i] = row[where[i]]
        order, base = np.argsort(tail, kind="mergesort"), math.exp(cutoff)
        tail = np.exp(tail[order]) - base
        shape, scale = _fit(tail)
        if not math.isfinite(shape) or not scale > 0.0:
            continue
        k[n] = shape
        for i in range(size):
            share = -math.log1p(-(i + 0.5) / size)
            beyond = share if abs(shape) < _EPS else math.expm1(shape * share) / shape
            row[where[order[i]]] = min(math.log(scale * beyond + base), 0.0)


@jit
def _fit(tail: FloatArray) -> tuple[float, float]:
    """Return shape and scale of the distribution of a sorted tail."""
    n = tail.size
    m = 30 + int(math.sqrt(n))
    b, level = np.empty(m), np.empty(m)
    quarter, top = tail[int(n / 4.0 + 0.5) - 1], -np.inf
    for i in range(m):
        b[i] = (1.0 - math.sqrt(m / (i + 0.5))) / (3.0 * quarter) + 1.0 / tail[n - 1]
        mean = _mean_log(b[i], tail)
        level[i] = n * (math.log(-b[i] / mean) - mean - 1.0)
        if level[i] > top:
            top = level[i]
    weight = np.exp(level - top)
    weight /= weight.sum()
    total = at = 0.0
    for i in range(m):
        if weight[i] >= 10.0 * _EPS:
            total += weight[i]
            at += weight[i] * b[i]
    at /= total
    mean = _mean_log(at, tail)
    return (n * mean + 5.0) / (n + 10.0), -mean / at


@jit
def _mean_log(b: float, tail: FloatArray) -> float:
    total = 0.0
    for i in range(tail.size):
        total += math.log1p(-b * tail[i])
    return total / tail.size
