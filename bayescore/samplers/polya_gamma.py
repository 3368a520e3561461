r"""Polya-Gamma Gibbs sampling of the logistic posterior, for any real weights.

With omega_n ~ PG(w_n, 0) and any w_n > 0 (Polson, Scott and Windle, Theorem 1)

.. math:: p(\eta_n)^{w_n} = 2^{-w_n} e^{w_n \eta_n / 2} \, E \, e^{-\omega_n \eta_n^2 / 2},

so omega_n | beta ~ PG(w_n, eta_n) and, for a prior N(m0, V0), beta | omega ~ N(H^-1 (V0^-1 m0 + Z'w / 2), H^-1),
H = V0^-1 + Z' diag(omega) Z. Known offsets s_n, eta_n = z_n . beta + s_n, take Z'(omega s) from what H^-1 multiplies.
As PG is infinitely divisible, a weight need not be a whole number and a large one costs the same as a small one.
Invariant density: the posterior, exactly for weights below 1 (`draw_small`) and whole ones
up to 4, otherwise but for the remainder of the series in `split`, whose mean and variance are exact and whose shape is
not.

Small shapes have a decomposition without remainder. Near 0 PG(w, eta) is the time at which a Brownian motion with drift
reaches w / 2: with theta(x) = sum over all n of (-1)^n exp(-n^2 / 2x), its Levy density is

.. math:: \frac{w}{2 \sqrt{2 \pi}} x^{-3/2} e^{-\eta^2 x / 2} \theta(x), \qquad
          \theta(x) \ge e^{-\pi^2 x / 2},

(Jacobi's identity, applied to the sum of exponentials in Polson, Scott and Windle's series of gamma variables). With
b^2 = eta^2 + pi^2, PG(w, eta) is so an inverse Gaussian time, that of drift b, and the jumps of a compound Poisson
process, w (b / 2 - log 2cosh(eta / 2)) in the mean.

Every sweep is a draw of omega by NumPy and the package polyagamma, and a compiled update of beta; both free the GIL.

References
----------
Polson, Scott and Windle (2013), JASA 108, 1339-1349; Devroye (2009), Statistics & Probability Letters 79.
"""

import math
from typing import NamedTuple

import numpy as np
from polyagamma import random_polyagamma

from bayescore.compiled import jit
from bayescore.families.logistic import logistic_upper
from bayescore.models.posterior import Derivatives
from bayescore.numerics import elementary
from bayescore.samplers.method import Segment, augmentation
from bayescore.types import NO_OFFSET, FloatArray, IntArray

# polyagamma 2.0.2 by default draws with a bias where w < 8 is no whole number (at w = 2.7 means are 1% and variances 5%
# too large; its issue 133), and from a normal approximation above 50; its saddle point method is far off below 4. Its
# Devroye method is exact, for whole weights alone, and takes time in proportion to them.
_WHOLE = 4  # largest weight drawn by that; from there on the series below is faster
_SMALL = 1.0  # below it draws are exact and cost less than the series, whose remainder no longer has the right shape
_TERMS = 6
_POLES: FloatArray = (np.arange(_TERMS, dtype=np.float64) + 0.5) ** 2

# columns of Z, rows of small whole weights first, then those below `_SMALL`, and both numbers; weights; Z'w / 2 +
# V0^-1 m0; V0^-1; log prior at 0, and w . s / 2; signed offsets s, or none
Arguments = tuple[FloatArray, tuple[int, int], FloatArray, FloatArray, FloatArray, float, FloatArray]


class PolyaGammaState(NamedTuple):
    """Coefficients, the linear predictor of each row, and the log posterior density."""

    theta: FloatArray
    eta: FloatArray
    value: float


def prepare(Z: FloatArray, weights: FloatArray, prior: Derivatives, shift: FloatArray = NO_OFFSET) -> Arguments:
    """Return what `advance` needs of signed rows Z, shape (n, D), a prior's terms at zero, and signed offsets."""
    whole, small = (weights <= _WHOLE) & (weights == np.round(weights)), weights < _SMALL
    order = np.argsort(np.where(whole, 0, np.where(small, 1, 2)), kind="stable")
    columns, w = np.ascontiguousarray(Z[order].T), np.ascontiguousarray(weights[order])
    slope, constant = prior.gradient + 0.5 * columns @ w, prior.value
    if len(shift):
        shift = shift[order]
        constant += 0.5 * float(w @ shift)
    counts = int(whole.sum()), int(small.sum())
    return columns, counts, w, slope, np.ascontiguousarray(prior.precision), constant, shift


@jit
def init(theta: FloatArray, arguments: Arguments) -> PolyaGammaState:
    """Return the state at `theta`."""
    columns, _, weights, shift, precision, constant, offsets = arguments
    eta = elementary.tall_times(columns, theta)
    for n in range(offsets.size):
        eta[n] += offsets[n]
    value = constant
    for d in range(theta.size):  # Z'w / 2 in the shift is taken off again below, row by row
        value += theta[d] * (shift[d] - 0.5 * (precision[d] * theta).sum())
    score, log_p = eta.copy(), np.empty(eta.size)
    logistic_upper(score, log_p)
    for n in range(eta.size):
        value += weights[n] * (log_p[n] - 0.5 * eta[n])
    return PolyaGammaState(theta.copy(), eta, value)


@jit
def moments(eta: float) -> tuple[float, float]:
    """Return mean and variance of PG(1, eta)."""
    x = 0.5 * abs(eta)
    if x < 0.05:  # series, as the variance's formula cancels
        square = x * x
        return 0.25 - square / 12.0 + square * square / 30.0, (35.0 - 28.0 * square + 17.0 * square * square) / 840.0
    t = math.tanh(x)
    return 0.25 * t / x, (t - x * (1.0 - t * t)) / (16.0 * x * x * x)


@jit
def split(eta: FloatArray, weights: FloatArray, poles: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Return shapes of gamma variables and their factors, shape (n, K + 1), whose products sum to PG(w, eta).

    PG(w, eta) is the sum over k >= 0 of Gamma(w, 1) / (2 pi^2 (k + 1/2)^2 + eta^2 / 2). What follows the first K = 6
    terms is replaced by one gamma variable with its mean and variance: those of the sum are exact, and its third
    cumulant is off by 2e-7 (eta = 0), 2e-4 (eta = 10) or 2% (eta = 30) of itself. For w >= 1 the distribution function
    is off by 4e-6, 7e-5 (eta = 10) or 4e-4 (eta = 20) at most; at w = 0.05 by 4%, at w = 1e-3 by 0.8.
    """
    n_terms = poles.size
    shapes, factors = np.empty((eta.size, n_terms + 1)), np.empty((eta.size, n_terms + 1))
    for n in range(eta.size):
        mean, variance = moments(eta[n])
        for k in range(n_terms):
            factor = 1.0 / (2.0 * math.pi**2 * poles[k] + 0.5 * eta[n] * eta[n])
            mean -= factor
            variance -= factor * factor
            shapes[n, k], factors[n, k] = weights[n], factor
        shapes[n, n_terms], factors[n, n_terms] = weights[n] * mean * mean / variance, variance / mean
    return shapes, factors


@jit
def _excess(x: float) -> tuple[float, float]:
    """Return theta(x) - exp(-pi^2 x / 2) and its bound 1 - exp(-pi^2 x / 2); see the file's head."""
    bound = -math.expm1(-0.5 * math.pi**2 * x)
    if x > 0.3:  # the other side of Jacobi's identity
        terms = math.exp(-0.5 * math.pi**2 * x) + math.exp(-4.5 * math.pi**2 * x) + math.exp(-12.5 * math.pi**2 * x)
        return 2.0 * math.sqrt(2.0 * math.pi * x) * terms - 1.0 + bound, bound
    if x < 1e-3:  # theta is 1
        return bound, bound
    return bound - 2.0 * (math.exp(-0.5 / x) - math.exp(-2.0 / x) + math.exp(-4.5 / x)), bound


@jit
def _jumps(normals: FloatArray, uniforms: FloatArray, rows: IntArray, eta: FloatArray, omega: FloatArray) -> None:
    """Add to `omega` the proposals (z / r)^2, r uniform in (|eta|, b), of density x^-3/2 e^(-eta^2 x / 2), that stay.

    `uniforms`, shape (n, 2), say where r is and who stays.
    """
    for i in range(rows.size):
        low = abs(eta[rows[i]])
        high = math.sqrt(low * low + math.pi**2)
        root = normals[i] / (low + (high - low) * (1.0 - uniforms[i, 0]))
        excess, bound = _excess(root * root)
        if uniforms[i, 1] * bound <= excess:
            omega[rows[i]] += root * root


def draw_small(rng: np.random.Generator, weights: FloatArray, eta: FloatArray) -> FloatArray:
    """Return exact draws of PG(w, eta), shape (n,), for any w > 0, at a cost that grows with w.

    The proposals are the jumps of Levy density w / (2 sqrt(2 pi)) x^-3/2 e^(-eta^2 x / 2) (1 - e^(-pi^2 x / 2)):
    w (b - |eta|) / 2 in the mean, thinned to those of the density wanted.
    """
    if not np.isfinite(eta).all():  # the coefficients overflow: the step is refused by its density
        return np.full(eta.size, np.nan)
    b = np.hypot(eta, math.pi)
    # weights whose squares are 0 in floating point would be refused
    omega = rng.wald(0.5 * weights / b, np.maximum(0.25 * weights * weights, np.finfo(float).tiny))
    rows = np.repeat(np.arange(eta.size), rng.poisson(0.5 * math.pi**2 * weights / (b + np.abs(eta))))
    _jumps(rng.standard_normal(rows.size), rng.random((rows.size, 2)), rows, eta, omega)
    return omega


def draw_omega(rng: np.random.Generator, weights: FloatArray, eta: FloatArray, counts: tuple[int, int]) -> FloatArray:
    """Return draws of PG(w, eta), shape (n,).

    The first counts[0] weights are whole numbers up to `_WHOLE`, and counts[1] after them are below `_SMALL`.
    """
    omega, n_whole, series = np.empty(eta.size), counts[0], sum(counts)
    if n_whole:
        w, z = weights[:n_whole], eta[:n_whole]
        random_polyagamma(w, z, out=omega[:n_whole], method="devroye", disable_checks=True, random_state=rng)
    if series > n_whole:
        omega[n_whole:series] = draw_small(rng, weights[n_whole:series], eta[n_whole:series])
    shapes, factors = split(eta[series:], weights[series:], _POLES)
    np.vecdot(rng.standard_gamma(shapes), factors, out=omega[series:])
    return omega


@jit
def update(noise: FloatArray, omega: FloatArray, arguments: Arguments) -> PolyaGammaState:
    """Return the state at a draw of beta given `omega`; `noise`, shape (D,), is standard normal."""
    columns, _, _, shift, precision, _, offsets = arguments
    if offsets.size > 0:
        shift = shift - elementary.tall_transposed_times(columns, omega * offsets)
    factor = precision.copy()
    elementary.add_gram(columns, omega, factor)
    elementary.factorise(factor)
    return init(elementary.transposed_solve(factor, elementary.solve(factor, shift) + noise), arguments)


def step(rng: np.random.Generator, state: PolyaGammaState, arguments: Arguments) -> PolyaGammaState:
    """Make one sweep."""
    _, counts, weights, _, _, _, _ = arguments
    omega = draw_omega(rng, weights, state.eta, counts)
    return update(rng.standard_normal(state.theta.size), omega, arguments)


def advance(
    rng: np.random.Generator, theta: FloatArray, tuning: None, arguments: Arguments, segment: Segment
) -> tuple[FloatArray, None]:
    """Fill a segment from `theta` on, every sweep accepted; return the last point."""
    state = init(theta, arguments)
    for i in range(len(segment.draws)):
        for _ in range(segment.thin):
            state = step(rng, state, arguments)
        segment.draws[i], segment.values[i] = state.theta, state.value
    segment.acceptance[:] = 1.0
    return state.theta, tuning


POLYA_GAMMA = augmentation("polya_gamma", "Polya-Gamma Gibbs sampling", "logistic", prepare, advance)
