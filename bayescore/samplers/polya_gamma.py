r"""Polya-Gamma Gibbs sampling of the logistic posterior, for any real weights.

With omega_n ~ PG(w_n, 0) and any w_n > 0 (Polson, Scott and Windle, Theorem 1)

.. math:: p(\eta_n)^{w_n} = 2^{-w_n} e^{w_n \eta_n / 2} \, E \, e^{-\omega_n \eta_n^2 / 2},

so omega_n | beta ~ PG(w_n, eta_n) and, for a prior N(m0, V0), beta | omega ~ N(H^-1 (V0^-1 m0 + Z'w / 2), H^-1),
H = V0^-1 + Z' diag(omega) Z. As PG is infinitely divisible, a weight need not be a whole number and a large one costs
the same as a small one. Invariant density: the posterior, exactly for whole weights up to 4, otherwise but for the
remainder of the series in `split`, whose mean and variance are exact and whose shape is not.

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
from bayescore.models.likelihoods.logistic import logistic_rows
from bayescore.models.posterior import Terms
from bayescore.samplers import linear
from bayescore.samplers.method import augmentation
from bayescore.types import FloatArray

# polyagamma 2.0.2 by default draws with a bias where w < 8 is no whole number (at w = 2.7 means are 1% and variances 5%
# too large; its issue 133), and from a normal approximation above 50; its saddle point method is far off below 4. Its
# Devroye method is exact, for whole weights alone, and takes time in proportion to them.
_WHOLE = 4  # largest weight drawn by that; from there on the series below is faster
_TERMS = 6
_POLES: FloatArray = (np.arange(_TERMS, dtype=np.float64) + 0.5) ** 2

# columns of Z, rows of small whole weights first, and their number; weights; Z'w / 2 + V0^-1 m0; V0^-1; log prior at 0
Arguments = tuple[FloatArray, int, FloatArray, FloatArray, FloatArray, float]


class State(NamedTuple):
    """Coefficients, the linear predictor of each row, and the log posterior density."""

    theta: FloatArray
    eta: FloatArray
    value: float


def prepare(Z: FloatArray, weights: FloatArray, prior: Terms) -> Arguments:
    """Return what `advance` needs of signed rows Z, shape (n, D), and a Gaussian prior, given by its terms at zero."""
    whole = (weights <= _WHOLE) & (weights == np.round(weights))
    order = np.argsort(~whole, kind="stable")
    columns, w = np.ascontiguousarray(Z[order].T), np.ascontiguousarray(weights[order])
    shift = prior.gradient + 0.5 * columns @ w
    return columns, int(whole.sum()), w, shift, np.ascontiguousarray(prior.precision), prior.value


@jit
def init(theta: FloatArray, arguments: Arguments) -> State:
    """Return the state at `theta`."""
    columns, _, weights, shift, precision, constant = arguments
    eta = linear.tall_times(columns, theta)
    value = constant
    for d in range(theta.size):  # Z'w / 2 in the shift is taken off again below, row by row
        value += theta[d] * (shift[d] - 0.5 * (precision[d] * theta).sum())
    score, log_p = eta.copy(), np.empty(eta.size)
    logistic_rows(score, log_p)
    for n in range(eta.size):
        value += weights[n] * (log_p[n] - 0.5 * eta[n])
    return State(theta.copy(), eta, value)


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
    cumulant is off by 2e-7 (eta = 0), 2e-4 (eta = 10) or 2% (eta = 30) of itself.
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


def draw_omega(rng: np.random.Generator, weights: FloatArray, eta: FloatArray, n_whole: int) -> FloatArray:
    """Return draws of PG(w, eta), shape (n,); the first `n_whole` weights are whole numbers up to `_WHOLE`."""
    omega = np.empty(eta.size)
    if n_whole:
        w, z = weights[:n_whole], eta[:n_whole]
        random_polyagamma(w, z, out=omega[:n_whole], method="devroye", disable_checks=True, random_state=rng)
    shapes, factors = split(eta[n_whole:], weights[n_whole:], _POLES)
    np.vecdot(rng.standard_gamma(shapes), factors, out=omega[n_whole:])
    return omega


@jit
def update(noise: FloatArray, omega: FloatArray, arguments: Arguments) -> State:
    """Return the state at a draw of beta given `omega`; `noise`, shape (D,), is standard normal."""
    columns, _, _, shift, precision, _ = arguments
    factor = precision.copy()
    linear.add_gram(columns, omega, factor)
    linear.factorise(factor)
    return init(linear.transposed_solve(factor, linear.solve(factor, shift) + noise), arguments)


def step(rng: np.random.Generator, state: State, arguments: Arguments) -> State:
    """Make one sweep."""
    _, n_whole, weights, _, _, _ = arguments
    omega = draw_omega(rng, weights, state.eta, n_whole)
    return update(rng.standard_normal(state.theta.size), omega, arguments)


def advance(
    rng: np.random.Generator,
    theta: FloatArray,
    tuning: None,
    arguments: Arguments,
    thin: int,
    iteration: int,  # noqa: ARG001 - nothing adapts
    draws: FloatArray,
    values: FloatArray,
    acceptance: FloatArray,
) -> tuple[FloatArray, None]:
    """Fill `draws` and `values` from `theta` on, `thin` sweeps each, and `acceptance` with 1; return the last point."""
    state = init(theta, arguments)
    for i in range(len(draws)):
        for _ in range(thin):
            state = step(rng, state, arguments)
        draws[i], values[i] = state.theta, state.value
    acceptance[:] = 1.0
    return state.theta, tuning


POLYA_GAMMA = augmentation("polya_gamma", "Polya-Gamma Gibbs sampling", "logistic", prepare, advance)
