"""Compiled densities: weighted log-likelihood and prior, value and derivatives in one pass.

The samplers call these some 1e5 times a second, so they allocate little and never raise. The formulas are
those of `likelihoods` and `priors`, which also hold the codes.
"""

import math

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit, jit_sums
from bayescore.types import FloatArray

_SQRT2 = math.sqrt(2.0)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_PROBIT_ASYMPTOTIC = -30.0  # erfc still has full relative accuracy here, the series has error < 1e-13


_ATANH = np.array([1.0 / (2 * j + 1) for j in range(16, -1, -1)])
_EXP = np.array([1.0 / math.factorial(j) for j in range(13, -1, -1)])


@jit
def exp_minus(x: FloatArray, powers: FloatArray, bits: NDArray[np.int64]) -> None:
    """Replace each x >= 0 by exp(-x), to 4e-16, in loops that vectorise, as libm's exp does not.

    exp(-x) = 2^n exp(r), abs(r) <= log(2) / 2. Adding 1.5 * 2^52 leaves n in the low bits of `powers`, and
    `bits`, the same memory as integers, shifts it into the exponent.
    """
    for lane in range(x.size):
        t = max(-x[lane], -700.0)
        shifted = t * 1.4426950408889634 + 6755399441055744.0
        n = shifted - 6755399441055744.0
        powers[lane] = shifted
        x[lane] = (t - n * 0.6931471803691238) - n * 1.9082149292705877e-10
    for lane in range(x.size):
        bits[lane] = (bits[lane] + 1023) << 52
    for lane in range(x.size):
        r = x[lane]
        total = _EXP[0]
        for j in range(1, 14):
            total = total * r + _EXP[j]
        x[lane] = total * powers[lane]


@jit
def logistic_rows(eta: FloatArray, log_p: FloatArray) -> None:
    """Write the logistic log p(eta) of each row, and replace eta by the score; vectorised.

    With t = exp(-abs(eta)): log(1 + t) = 2 atanh(s), s = t / (2 + t) <= 1/3, by its series to 1e-16.
    """
    t = np.abs(eta)
    powers = np.empty(eta.size)
    exp_minus(t, powers, powers.view(np.int64))
    for n in range(eta.size):
        s = t[n] / (2.0 + t[n])
        square = s * s
        total = _ATANH[0]
        for j in range(1, 17):
            total = total * square + _ATANH[j]
        log_p[n] = min(eta[n], 0.0) - 2.0 * s * total
        eta[n] = (t[n] if eta[n] > 0.0 else 1.0) / (1.0 + t[n])


@jit
def probit_rows(eta: FloatArray, log_p: FloatArray) -> None:
    """Write the probit log p(eta) of each row, and replace eta by the score."""
    for n in range(eta.size):
        x = eta[n]
        if x < _PROBIT_ASYMPTOTIC:
            r = 1.0 / (x * x)
            series = 1.0 - r * (1.0 - 3.0 * r * (1.0 - 5.0 * r * (1.0 - 7.0 * r * (1.0 - 9.0 * r))))
            log_p[n] = -0.5 * x * x - _LOG_SQRT_2PI - math.log(-x) + math.log(series)
            eta[n] = -x / series
            continue
        density = math.exp(-0.5 * x * x - _LOG_SQRT_2PI)
        tail = 0.5 * math.erfc(abs(x) / _SQRT2)
        log_p[n] = math.log1p(-tail) if x > 0.0 else math.log(tail)
        eta[n] = density / (1.0 - tail if x > 0.0 else tail)


LINKED_ROWS = (logistic_rows, probit_rows)  # by the likelihood's code


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
    log_p = np.empty(weights.size)
    if link == 0:
        logistic_rows(eta, log_p)
    else:
        probit_rows(eta, log_p)
    for n in range(weights.size):
        total += weights[n] * log_p[n]
        eta[n] *= weights[n]
    for d in range(beta.size):
        part = 0.0
        for n in range(weights.size):
            part += columns[d, n] * eta[n]
        gradient[d] += part
    return total


DensityArguments = tuple[FloatArray, FloatArray, int, int, FloatArray]
