"""Compiled densities: weighted log-likelihood and prior, value and derivatives in one pass.

The samplers call these some 1e5 times a second, so they allocate little and never raise. The formulas are
those of `likelihoods` and `priors`, which also hold the codes.
"""

import math

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit, jit_sums
from bayescore.types import FloatArray

_LOG2 = math.log(2.0)
_SQRT_2PI = math.sqrt(2.0 * math.pi)
_LOG_SQRT_2PI = math.log(_SQRT_2PI)
_HALF_OCTAVE = 0x95F6200000000  # 1.0 less sqrt(1/2), both read as integers; rounded
_TILE = 1024  # rows whose scratch stays in cache

_ATANH = np.array([1.0 / (2 * j + 1) for j in range(16, -1, -1)])
_EXP = np.array([1.0 / math.factorial(j) for j in range(13, -1, -1)])

# Phi(-x) exp(x^2 / 2) / t as a polynomial of degree 20 in u = 2 t - 1, t = 5 / (5 + x), for all x >= 0: its Chebyshev
# series, computed with 60 digits, cut (relative error 9e-16) and rewritten in powers of u; three powers to a line.
_TAIL = np.array(
    [
        [9.910260041502261e-10, 4.742201499568934e-10, -1.1431400798773756e-08],
        [-5.973650280642188e-09, 8.394135902952392e-08, 6.471542988396613e-08],
        [-5.514807821171256e-07, -7.944255950769179e-07, 3.334942057572293e-06],
        [9.951790245059091e-06, -1.1874695374551138e-05, -0.0001089795938532396],
        [-0.0001595739760406926, 0.0005986753159936601, 0.004159013371958206],
        [0.01382372774495829, 0.033004073233313946, 0.06270663133409482],
        [0.09906112319401422, 0.13307650057801357, 0.1538386099500125],
    ]
)


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
def logistic_tile(eta: FloatArray, log_p: FloatArray, t: FloatArray, powers: FloatArray) -> None:
    """Do the work of `logistic_rows` for at most `_TILE` rows; the last two arguments are scratch.

    With t = exp(-abs(eta)): log(1 + t) = 2 atanh(s), s = t / (2 + t) <= 1/3, by its series to 1e-16.
    """
    for n in range(eta.size):
        t[n] = abs(eta[n])
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
def logistic_rows(eta: FloatArray, log_p: FloatArray) -> None:
    """Write the logistic log p(eta) of each row, and replace eta by the score; vectorised."""
    t, powers = np.empty(min(eta.size, _TILE)), np.empty(min(eta.size, _TILE))
    for start in range(0, eta.size, _TILE):
        stop = min(start + _TILE, eta.size)
        logistic_tile(eta[start:stop], log_p[start:stop], t[: stop - start], powers)


@jit
def probit_tile(
    eta: FloatArray, log_p: FloatArray, root: FloatArray, scale: FloatArray, bits: NDArray[np.int64], octave: FloatArray
) -> None:
    """Do the work of `probit_rows` for at most `_TILE` rows; the last four arguments are scratch.

    With x = abs(eta) and h = Phi(-x) exp(x^2 / 2) by its polynomial, p = h for eta < 0 and 1 - h exp(-x^2 / 2) else:
    log Phi = log p - min(eta, 0)^2 / 2, score = (1 for eta < 0 and exp(-x^2 / 2) else) / (sqrt(2 pi) p).
    Choices between the two sides are sums, as compilers turn some conditions into masked stores, which are slow.
    """
    for n in range(eta.size):  # root: exp(-x^2 / 4), whose square underflows no sooner than Phi(-x)
        x = min(abs(eta[n]), 40.0)
        high = (x + 6442450944.0) - 6442450944.0  # x in steps of 2^-20: its square is exact
        low = 0.25 * (x - high) * (x + high)
        root[n] = 0.25 * high * high
        log_p[n] = 1.0 - low * (1.0 - 0.5 * low)
    exp_minus(root, scale, bits)
    for n in range(eta.size):  # log_p: h; scale: p
        t = 5.0 / (5.0 + abs(eta[n]))
        u = 2.0 * t - 1.0
        cube = u * u * u
        a, b, c = _TAIL[0, 0], _TAIL[0, 1], _TAIL[0, 2]
        for j in range(1, 7):  # three sums side by side: a single one would wait for itself
            a = a * cube + _TAIL[j, 0]
            b = b * cube + _TAIL[j, 1]
            c = c * cube + _TAIL[j, 2]
        root[n] *= log_p[n]
        log_p[n] = t * ((a * u + b) * u + c)
        scale[n] = log_p[n] if eta[n] < 0.0 else 1.0 - root[n] * log_p[n] * root[n]
    for n in range(eta.size):  # p = 2^octave m, sqrt(1/2) <= m < sqrt(2), of which scale keeps 2^-octave
        exponent = (bits[n] + _HALF_OCTAVE) >> 52
        octave[n] = exponent - 1023
        bits[n] = (2046 - exponent) << 52
    for n in range(eta.size):  # log m = 2 atanh(s); m - 1 is formed from the tail, which 1 - tail would round
        left = 1.0 if eta[n] < 0.0 else 0.0
        right = 1.0 - left
        below = min(eta[n], 0.0)
        tail = right * (root[n] * log_p[n] * root[n])
        whole = left * log_p[n] + right
        m_minus_1 = (whole * scale[n] - 1.0) - tail * scale[n]
        s = m_minus_1 / (2.0 + m_minus_1)
        square = s * s
        total = _ATANH[7]
        for j in range(8, 17):
            total = total * square + _ATANH[j]
        log_p[n] = 2.0 * s * total + octave[n] * _LOG2 - 0.5 * below * below
        eta[n] = (left + right * root[n] * root[n]) / (_SQRT_2PI * (whole - tail))


@jit
def probit_rows(eta: FloatArray, log_p: FloatArray) -> None:
    """Write the probit log p(eta) of each row, and replace eta by the score; vectorised, relative errors 2e-15."""
    width = min(eta.size, _TILE)
    root, scale, octave = np.empty(width), np.empty(width), np.empty(width)
    bits = scale.view(np.int64)
    for start in range(0, eta.size, _TILE):
        stop = min(start + _TILE, eta.size)
        probit_tile(eta[start:stop], log_p[start:stop], root[: stop - start], scale, bits, octave)


LINKED_ROWS = (logistic_rows, probit_rows)  # by the likelihood's code


@jit
def prior_terms(beta: FloatArray, family: int, table: FloatArray, gradient: FloatArray, curvature: FloatArray) -> float:
    """Return the log prior density; write its gradient and minus its second derivatives, shape (D,) each.

    `table`, shape (3, D), holds the parameters of each coefficient, see `priors`.
    """
    total = 0.0
    if family == 4:  # multivariate normal: mean, log density there, precision
        for d in range(beta.size):
            gradient[d] = 0.0
            for j in range(beta.size):
                gradient[d] -= table[2 + d, j] * (beta[j] - table[0, j])
            total += 0.5 * gradient[d] * (beta[d] - table[0, d])
            curvature[d] = table[2 + d, d]
        return total + float(table[1, 0])
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
