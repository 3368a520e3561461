"""Compiled densities: weighted log-likelihood and prior, value and derivatives in one pass.

The samplers call these some 1e5 times a second, so they allocate little and never raise. The formulas are
those of `likelihoods` and `priors`, which also hold the codes.
"""

import math

import numpy as np

from bayescore.compiled import jit, jit_sums
from bayescore.types import FloatArray

_SQRT2 = math.sqrt(2.0)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_PROBIT_ASYMPTOTIC = -30.0  # erfc still has full relative accuracy here, the series has error < 1e-13


@jit
def log_p_and_score(eta: float, link: int) -> tuple[float, float]:
    """Return log p(eta) and its derivative; `link` 0 is logistic, 1 probit."""
    if link == 0:
        t = math.exp(-abs(eta))
        if eta > 0.0:
            return -math.log1p(t), t / (1.0 + t)
        return eta - math.log1p(t), 1.0 / (1.0 + t)
    if eta < _PROBIT_ASYMPTOTIC:
        r = 1.0 / (eta * eta)
        series = 1.0 - r * (1.0 - 3.0 * r * (1.0 - 5.0 * r * (1.0 - 7.0 * r * (1.0 - 9.0 * r))))
        return -0.5 * eta * eta - _LOG_SQRT_2PI - math.log(-eta) + math.log(series), -eta / series
    density = math.exp(-0.5 * eta * eta - _LOG_SQRT_2PI)
    if eta > 0.0:
        upper = 0.5 * math.erfc(eta / _SQRT2)
        return math.log1p(-upper), density / (1.0 - upper)
    lower = 0.5 * math.erfc(-eta / _SQRT2)
    return math.log(lower), density / lower


@jit
def prior_terms(beta: FloatArray, family: int, table: FloatArray, gradient: FloatArray, curvature: FloatArray) -> float:
    """Return the log prior density; write its gradient and minus its second derivatives, shape (D,) each.

    `table`, shape (3, D), holds the parameters of each coefficient, see `priors`.
    """
    total = 0.0
    for d in range(beta.size):
        if family == 0:  # normal: mean, sd
            sd = table[1, d]
            r = (beta[d] - table[0, d]) / sd
            total -= 0.5 * r * r + math.log(sd) + _LOG_SQRT_2PI
            gradient[d] = -r / sd
            curvature[d] = 1.0 / (sd * sd)
        elif family == 1:  # Student t: location, scale, degrees of freedom
            scale, nu = table[1, d], table[2, d]
            r = (beta[d] - table[0, d]) / scale
            v = nu + r * r
            total += math.lgamma(0.5 * (nu + 1.0)) - math.lgamma(0.5 * nu) - 0.5 * math.log(nu * math.pi)
            total -= math.log(scale) + 0.5 * (nu + 1.0) * math.log1p(r * r / nu)
            gradient[d] = -(nu + 1.0) * r / (v * scale)
            curvature[d] = (nu + 1.0) * (nu - r * r) / (v * v * scale * scale)
        elif family == 2:  # Laplace: location, scale, rounding of the kink
            scale, rounding = table[1, d], table[2, d]
            r = (beta[d] - table[0, d]) / scale
            size = math.sqrt(r * r + rounding * rounding)
            total -= size - rounding + math.log(2.0 * scale)
            gradient[d] = -r / (size * scale) if size > 0.0 else 0.0
            curvature[d] = (rounding / scale) ** 2 / size**3 if size > 0.0 else 0.0
        else:  # spike and slab: spike sd, slab sd, probability of the slab
            spike, slab, p = table[0, d], table[1, d], table[2, d]
            a = math.log(p) - math.log(slab) - 0.5 * (beta[d] / slab) ** 2
            b = math.log1p(-p) - math.log(spike) - 0.5 * (beta[d] / spike) ** 2
            top = max(a, b)
            total += top + math.log(math.exp(a - top) + math.exp(b - top)) - _LOG_SQRT_2PI
            share = 1.0 / (1.0 + math.exp(min(b - a, 700.0)))
            pull = share / (slab * slab) + (1.0 - share) / (spike * spike)
            gap = 1.0 / (spike * spike) - 1.0 / (slab * slab)
            gradient[d] = -beta[d] * pull
            curvature[d] = pull - share * (1.0 - share) * gap * gap * beta[d] * beta[d]
    return total


@jit_sums
def log_density(
    beta: FloatArray,
    gradient: FloatArray,
    columns: FloatArray,
    weights: FloatArray,
    link: int,
    family: int,
    table: FloatArray,
) -> float:
    r"""Return the log posterior density and write its gradient, shape (D,).

    sum_n w_n log p(z_n . beta) + log prior(beta); `columns` is Z transposed, shape (D, n), so that the
    compiler vectorises over rows.
    """
    scratch = np.empty(beta.size)
    total = prior_terms(beta, family, table, gradient, scratch)
    eta = np.zeros(weights.size)
    for d in range(beta.size):
        for n in range(weights.size):
            eta[n] += columns[d, n] * beta[d]
    for n in range(weights.size):
        log_p, score = log_p_and_score(eta[n], link)
        total += weights[n] * log_p
        eta[n] = weights[n] * score
    for d in range(beta.size):
        part = 0.0
        for n in range(weights.size):
            part += columns[d, n] * eta[n]
        gradient[d] += part
    return total


DensityArguments = tuple[FloatArray, FloatArray, int, int, FloatArray]
