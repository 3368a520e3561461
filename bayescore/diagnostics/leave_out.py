r"""One row left out: its predictive density e_n by importance sampling from draws of the posterior with the row.

.. math:: e_n = \log \sum_s v_s\, p_n(\theta_s), \qquad v_s \propto W_s / p_n(\theta_s),

v smoothed by PSIS. Where a row alone holds the posterior in place, no draws are left where it would be without the
row, k-hat is large, and e_n comes out too large. Then the draws are moved (Paananen et al. 2021): along the one
direction that the row acts on, C z_n with C the draws' covariance, until eta = z_n . theta has the weighted mean and
sd that moved draws tell, over and over. With T the map found and q the density that the draws come from, moved and
unmoved draws together are draws of the mixture of q and q(T^-1 .) / det T, so that

.. math:: v_s \propto W_s \frac{q(\theta_s) / p_n(\theta_s)}
                               {\tfrac12 q(\theta_s) + \tfrac12 q(T^{-1} \theta_s) / \det T}

for both, whose k-hat judges e_n as before. The weights W_s, from the coreset's to the full data's posterior, stay with
their draws: exact where T shifts and log W is linear.

References
----------
Vehtari, Gelman and Gabry (2017), Statistics and Computing 27. Paananen, Piironen, Bürkner and Vehtari (2021),
Implicitly adaptive importance sampling, Statistics and Computing 31, 16.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayescore.diagnostics.psis import psislw
from bayescore.diagnostics.responses import Responses
from bayescore.limits import EQUAL_WEIGHTS_SD, FINITE_K, NEARLY_EQUAL_WEIGHTS_SD
from bayescore.models.families import Family
from bayescore.types import FloatArray

Density = Callable[[FloatArray], FloatArray]
"""Log density of the posterior that draws come from, up to a constant: draws of shape (S, D) to shape (S,)."""

_ROUNDS = 20  # of moment matching: k-hat below its limit, or no better, ends them sooner


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Rows left out, each alone: e_n and k-hat of its weights, shape (n,).

    `influence`, shape (n, S), is what each draw adds to e_n: v_s (p_n(theta_s) - e^e_n) / e^e_n, 0 in sum.
    """

    value: FloatArray
    k: FloatArray
    influence: FloatArray


def psis_loo(log_p: FloatArray, log_ratio: FloatArray) -> LeftOut:
    """Leave out rows with log p of shape (n, S), the draws as they are; `log_ratio`, shape (S,), is log W."""
    log_weights = log_ratio - log_p
    log_weights -= _log_sums(log_weights)[:, None]
    k, spread = np.zeros(len(log_p)), log_weights.std(axis=1)
    # nearly equal weights of the full posterior have a tail of third order, whose shape speaks against no row
    least = NEARLY_EQUAL_WEIGHTS_SD if log_ratio.std() > EQUAL_WEIGHTS_SD else EQUAL_WEIGHTS_SD
    varied = spread > least  # the others have no tail to fit
    if varied.any():
        log_weights[varied], k[varied] = psislw(log_weights[varied])
    return _left_out(log_weights, log_p, k)


def moved_loo(row: Responses, draws: FloatArray, log_ratio: FloatArray, family: Family, density: Density) -> LeftOut:
    """Leave out one row with draws, shape (S, D), moved to where they would be without it."""
    eta, own = row.rows.with_offset((draws @ row.rows.X[0])[None])[0], density(draws)

    def log_p_at(eta: FloatArray) -> FloatArray:
        return np.asarray(row.log_p(eta[None], family)[0])

    mean, sd = float(eta.mean()), float(eta.std())
    direction = (draws.T @ (eta - mean)) / (len(eta) * sd**2)
    log_weights, k = psislw(log_ratio - log_p_at(eta))
    best, least, at = (mean, sd), float(k), eta
    for _ in range(_ROUNDS):
        w = np.exp(log_weights)
        center = float(w @ at)
        to = center, math.sqrt(float(w @ (at - center) ** 2))
        at = to[0] + to[1] / sd * (eta - mean)
        log_weights, k = psislw(log_ratio + density(draws + np.outer(at - eta, direction)) - own - log_p_at(at))
        if not k < least:
            break
        best, least = to, float(k)
        if k < FINITE_K:
            break
    slope = best[1] / sd
    there = best[0] + slope * (eta - mean)
    back = mean + (eta - best[0]) / slope
    moved, unmoved = (density(draws + np.outer(x - eta, direction)) for x in (there, back))
    # densities of unmoved and of moved draws: their own, and of the two that they may come from
    log_q = np.stack([own, moved])
    either = np.logaddexp(log_q, np.stack([unmoved, own]) - math.log(slope))
    log_p = np.stack([log_p_at(eta), log_p_at(there)])
    smoothed, k = psislw((log_ratio + log_q - either - log_p).ravel())
    both = _left_out(smoothed[None], log_p.reshape(1, -1), np.array([k]))
    return LeftOut(both.value, both.k, both.influence.reshape(1, 2, -1).sum(axis=1))


def _left_out(log_weights: FloatArray, log_p: FloatArray, k: FloatArray) -> LeftOut:
    both = log_weights + log_p
    value = _log_sums(both)
    both -= value[:, None]
    return LeftOut(value, k, np.exp(both, out=both) - np.exp(log_weights))


def _log_sums(values: FloatArray) -> FloatArray:
    """Return the logarithm of the sum of exponentials of each row, shape (n,)."""
    top = values.max(axis=1, keepdims=True)
    return np.asarray(np.log(np.exp(values - top).sum(axis=1)) + top[:, 0])
