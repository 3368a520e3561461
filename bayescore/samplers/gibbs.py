r"""Albert-Chib Gibbs sampling of the probit posterior, exact for any real weights.

Phi(eta) is the probability that a latent T ~ N(eta, 1) is positive. Given T > 0 its density is proportional to
exp(t eta - t^2 / 2), t > 0, and K(eta) = log Phi(eta) + eta^2 / 2 is the log normalising constant, so that K' = eta + s
is its mean and K'' = 1 - c its variance (s, c: `families`). For a prior N(m0, V0) let C C' = V0^-1 + Z'WZ, C lower
triangular, u = C' beta, A = Z C'^-1 and b = C^-1 V0^-1 m0. The posterior is then

.. math:: \log \pi(u) = -\tfrac12 |u|^2 + b'u + k(u), \qquad k(u) = \sum_n w_n K(a_n \cdot u).

Albert and Chib draw the latents given u, then u' ~ N(b + tau, I), tau = A't. Of the w_n latents of a row only the sum
matters, so tau given u has mean k'(u) and covariance k''(u), and is close to normal. So the proposal is

.. math:: u' \mid u \sim N(b + k'(u), \; I + k''(u)),

which costs the same for any weights; its covariance lies between I and 2I. A Metropolis-Hastings step makes it exact,
and accepts nearly always. Rows of unit weight keep latents of their own, drawn exactly, which add a_n t_n to b on both
sides of the ratio. With unit weights alone nothing is left to correct, and this is Albert and Chib's sampler.

Known offsets s_n of rows, eta_n = a_n . u + s_n, change b alone, to b - A'W s: the latents' own quadratic terms do.

Not to be mended by scaling: latents of precision w_n have Phi(sqrt(w_n) eta) for their probability, not Phi(eta)^w_n.
Where most rows are predicted well the draws mix slowly (Johndrow et al. 2019): look at the effective sample size.

References
----------
Albert and Chib (1993), JASA 88; Johndrow, Smith, Pillai and Dunson (2019), MCMC for imbalanced categorical data, JASA
114; Peters (2021), Data Reduction for Efficient Probit Regression, Algorithm 1.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy import linalg

from bayescore.compiled import jit
from bayescore.families.probit import probit_upper
from bayescore.models.posterior import Derivatives
from bayescore.numerics import elementary
from bayescore.samplers.method import Segment, augmentation
from bayescore.types import NO_OFFSET, FloatArray, read_only

_LOG_HALF = -math.log(2.0)
_BLOCK = 1 << 17  # random numbers made ready at a time: 1 MB

# columns of A, the summed rows first; their weights; b; C; log density at u = 0 less the likelihood's part; signed
# offsets, or none
Arguments = tuple[FloatArray, FloatArray, FloatArray, FloatArray, float, FloatArray]


class GibbsState(NamedTuple):
    """A point u, what the latents of unit weight need there, and the proposal from there."""

    u: FloatArray
    eta: FloatArray
    log_p: FloatArray
    value: float  # log posterior density
    summed: float  # k(u) of the summed rows
    mean: FloatArray  # b + k'(u)
    factor: FloatArray  # of I + k''(u), by Cholesky


def prepare(Z: FloatArray, weights: FloatArray, prior: Derivatives, shift: FloatArray = NO_OFFSET) -> Arguments:
    """Return what `advance` needs of signed rows Z, shape (n, D), a prior's terms at zero, and signed offsets."""
    order = np.argsort(weights == 1.0, kind="stable")
    rows, w = Z[order], weights[order]
    # by QR of the stacked square roots: Z'WZ itself would lose what nearly collinear columns leave to the prior
    stacked = np.vstack([rows * np.sqrt(w)[:, None], linalg.cholesky(prior.precision)])
    factor = np.ascontiguousarray(np.asarray(np.linalg.qr(stacked, mode="r")).T)
    columns = np.ascontiguousarray(linalg.solve_triangular(factor, rows.T, lower=True))
    linear_part, constant = linalg.solve_triangular(factor, prior.gradient, lower=True), prior.value
    if len(shift):
        shift = read_only(shift[order])
        linear_part, constant = linear_part - columns @ (w * shift), constant - 0.5 * float(w @ shift**2)
    summed = np.ascontiguousarray(w[: np.count_nonzero(w != 1.0)])
    return columns, summed, linear_part, factor, constant, shift


@jit
def init(u: FloatArray, arguments: Arguments) -> GibbsState:
    """Return the state at `u`."""
    columns, weights, shift, _, constant, offsets = arguments
    eta = elementary.tall_times(columns, u)
    for n in range(offsets.size):
        eta[n] += offsets[n]
    score, log_p = eta.copy(), np.empty(eta.size)
    probit_upper(score, log_p)
    first, second = np.empty(weights.size), np.empty(weights.size)
    summed, separate = 0.0, 0.0
    for n in range(weights.size):
        first[n] = weights[n] * (eta[n] + score[n])
        second[n] = weights[n] * max(0.0, 1.0 - score[n] * (score[n] + eta[n]))
        summed += weights[n] * (log_p[n] + 0.5 * eta[n] * eta[n])
    for n in range(weights.size, eta.size):
        separate += log_p[n] + 0.5 * eta[n] * eta[n]
    factor = np.eye(u.size)
    elementary.add_gram(columns, second, factor)
    elementary.factorise(factor)
    value = constant + (shift * u).sum() - 0.5 * (u * u).sum() + summed + separate
    return GibbsState(
        u.copy(), eta, log_p, value, summed, shift + elementary.tall_transposed_times(columns, first), factor
    )


@jit
def normal_quantile(log_p: FloatArray) -> FloatArray:
    """Return x with log Phi(x) = log_p, elementwise, for log_p < 0 down to -1e8.

    Hastings' approximation, off by less than 5e-4 (Abramowitz and Stegun 26.2.23), and one step of Halley's method
    on the logarithm of the smaller tail: the error, cubed, is below 1e-10.
    """
    tail, x = np.empty(log_p.size), np.empty(log_p.size)
    for n in range(log_p.size):
        y = min(log_p[n], -1e-300)
        tail[n] = y if y < _LOG_HALF else math.log(-math.expm1(y))
        r = math.sqrt(-2.0 * tail[n])
        top = (0.010328 * r + 0.802853) * r + 2.515517
        x[n] = top / (((0.001308 * r + 0.189269) * r + 1.432788) * r + 1.0) - r
    score, reached = x.copy(), np.empty(x.size)
    probit_upper(score, reached)
    for n in range(x.size):
        newton = (reached[n] - tail[n]) / score[n]
        x[n] -= newton / (1.0 + 0.5 * newton * (score[n] + x[n]))
        if log_p[n] >= _LOG_HALF:
            x[n] = -x[n]
    return x


@jit
def latents(eta: FloatArray, log_p: FloatArray, exponentials: FloatArray) -> FloatArray:
    """Return draws of N(eta, 1) given that they are positive: eta - Phi^-1(U Phi(eta)), -log U standard exponential."""
    return eta - normal_quantile(log_p - exponentials)


@jit
def step(
    noise: FloatArray, uniform: float, exponentials: FloatArray, state: GibbsState, arguments: Arguments
) -> tuple[GibbsState, float]:
    """Make one sweep; return the new state and the acceptance probability.

    `noise`, shape (D,), is standard normal, `uniform` lies in [0, 1), `exponentials` has one standard exponential for
    each row of unit weight.
    """
    columns, weights, shift, _, _, _ = arguments
    summed = weights.size
    t = np.zeros(state.eta.size)
    t[summed:] = latents(state.eta[summed:], state.log_p[summed:], exponentials)
    mean_step = elementary.tall_transposed_times(columns, t)
    ahead = init(state.mean + mean_step + elementary.times(state.factor, noise), arguments)
    if summed == 0:
        return ahead, 1.0
    back = elementary.solve(ahead.factor, state.u - ahead.mean - mean_step)
    gap = ahead.u - state.u
    log_ratio = ahead.summed - state.summed + (gap * (shift + mean_step - 0.5 * (ahead.u + state.u))).sum()
    log_ratio += 0.5 * ((noise * noise).sum() - (back * back).sum())
    log_ratio += elementary.log_diagonal(state.factor) - elementary.log_diagonal(ahead.factor)
    if not log_ratio > -math.inf:  # NaN too
        return state, 0.0
    probability = math.exp(min(0.0, log_ratio))
    return (ahead if uniform < probability else state), probability


@jit
def _advance(
    noise: tuple[FloatArray, FloatArray, FloatArray], theta: FloatArray, arguments: Arguments, segment: Segment
) -> None:
    normals, uniforms, exponentials = noise
    factor = arguments[3]
    state = init(elementary.transposed_times(factor, theta), arguments)
    thin = uniforms.shape[1]
    for i in range(len(segment.draws)):
        total = 0.0
        for j in range(thin):
            state, probability = step(normals[i, j], uniforms[i, j], exponentials[i, j], state, arguments)
            total += probability
        segment.draws[i] = elementary.transposed_solve(factor, state.u)
        segment.values[i] = state.value
        segment.acceptance[i] = total / thin


def advance(
    rng: np.random.Generator, theta: FloatArray, tuning: None, arguments: Arguments, segment: Segment
) -> tuple[FloatArray, None]:
    """Fill a segment from `theta` on; return the last point."""
    n_features, n_rows = arguments[0].shape
    n_own = n_rows - arguments[1].size
    width = max(1, _BLOCK // (segment.thin * (n_features + n_own + 1)))
    for begin in range(0, len(segment.draws), width):
        out = segment.cut(slice(begin, begin + width))
        size = (len(out.draws), segment.thin)
        noise = rng.standard_normal((*size, n_features)), rng.random(size), rng.standard_exponential((*size, n_own))
        _advance(noise, theta, arguments, out)
        theta = out.draws[-1]
    return theta, tuning


GIBBS = augmentation("gibbs", "Albert and Chib's sampler, compiled", "probit", prepare, advance)
