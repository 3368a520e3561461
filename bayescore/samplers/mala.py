r"""Adaptive Metropolis-adjusted Langevin algorithm (MALA).

From theta with gradient g of the log density, propose

.. math:: \theta' = \theta + \tfrac12 \epsilon^2 C g + \epsilon L \xi, \qquad C = L L^T, \quad \xi \sim N(0, I)

and accept with probability min(1, exp(log pi(theta') - log pi(theta) + (|xi|^2 - |xi'|^2) / 2)), where
xi' = -(xi + epsilon (L'g + L'g') / 2) is the noise of the way back. Invariant density: pi. During warm-up
log epsilon follows the acceptance probability to 0.574, its best value in high dimension (Robbins-Monro).

Here are a State with `init`, `step` and `adapt`, `advance`, which loops over them, and what the sampler declares; `run`
makes chains of it. The log density is the posterior's compiled one: numba keeps no machine code of functions
that are passed functions or generators, so it is bound here and the noise comes ready made. C = I is the
sampler of Huggins et al. (2016); C = inverse Hessian at the mode mixes far better.

References
----------
Roberts and Tweedie (1996), Bernoulli 2; Haario, Saksman and Tamminen (2001), Bernoulli 7; Roberts and
Rosenthal (1998), JRSS B 60.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from bayescore.compiled import jit
from bayescore.models.density import DensityArguments, log_density
from bayescore.models.priors import Cauchy, Laplace, MultivariateNormal, Normal, StudentT
from bayescore.samplers import linear
from bayescore.samplers.method import ChainSampler, Option, Prepared, Request, thinned
from bayescore.samplers.run import Draws
from bayescore.types import FloatArray
from bayescore.validation import check_choice

TARGET = 0.574


class State(NamedTuple):
    """Coefficients, the log density there, and its gradient."""

    theta: FloatArray
    value: float
    gradient: FloatArray


@jit
def init(theta: FloatArray, arguments: DensityArguments) -> State:
    """Return the state at `theta`."""
    gradient = np.empty(theta.size)
    value = log_density(theta, gradient, *arguments)
    return State(theta.copy(), value, gradient)


@jit
def step(
    noise: FloatArray,
    uniform: float,
    state: State,
    log_epsilon: float,
    factor: FloatArray,
    arguments: DensityArguments,
) -> tuple[State, float]:
    """Make one transition; return the new state and the acceptance probability.

    `noise`, shape (D,), is standard normal, `uniform` lies in [0, 1); `factor` is L, lower triangular, shape
    (D, D); `arguments` belong to `log_density`.
    """
    epsilon = math.exp(log_epsilon)
    drift = linear.transposed_times(factor, state.gradient)
    theta = state.theta + epsilon * linear.times(factor, noise + 0.5 * epsilon * drift)
    gradient = np.empty(theta.size)
    value = log_density(theta, gradient, *arguments)
    back = noise + 0.5 * epsilon * (drift + linear.transposed_times(factor, gradient))
    log_ratio = value - state.value + 0.5 * ((noise * noise).sum() - (back * back).sum())
    if not log_ratio > -math.inf:  # NaN too
        return state, 0.0
    probability = math.exp(min(0.0, log_ratio))
    if uniform < probability:
        return State(theta, value, gradient), probability
    return state, probability


@jit
def adapt(log_epsilon: float, probability: float, iteration: int) -> float:
    """Return log epsilon moved towards the target acceptance, by less and less."""
    return log_epsilon + (probability - TARGET) * math.pow(1.0 + iteration, -0.6)


@jit
def _advance(
    normals: FloatArray,
    uniforms: FloatArray,
    theta: FloatArray,
    log_epsilon: float,
    factor: FloatArray,
    arguments: DensityArguments,
    iteration: int,
    draws: FloatArray,
    values: FloatArray,
    acceptance: FloatArray,
) -> tuple[FloatArray, float]:
    state = init(theta, arguments)
    thin = uniforms.shape[1]
    for i in range(len(draws)):
        total = 0.0
        for j in range(thin):
            state, probability = step(normals[i, j], uniforms[i, j], state, log_epsilon, factor, arguments)
            total += probability
            if iteration >= 0:
                log_epsilon = adapt(log_epsilon, probability, iteration + i * thin + j)
        draws[i] = state.theta
        values[i] = state.value
        acceptance[i] = total / thin
    return state.theta, log_epsilon


def advance(
    rng: np.random.Generator,
    theta: FloatArray,
    log_epsilon: float,
    arguments: tuple[FloatArray, DensityArguments],
    thin: int,
    iteration: int,
    draws: FloatArray,
    values: FloatArray,
    acceptance: FloatArray,
) -> tuple[FloatArray, float]:
    """Fill `draws`, `values` and `acceptance` from `theta` on, `thin` transitions each.

    `arguments` are L and what the log density takes after coefficients and gradient. `iteration` counts the
    transitions of warm-up so far; negative after warm-up, when nothing adapts. Returns the last point and log epsilon.
    """
    n, n_features = draws.shape
    normals, uniforms = rng.standard_normal((n, thin, n_features)), rng.random((n, thin))
    factor, density = arguments
    return _advance(normals, uniforms, theta, log_epsilon, factor, density, iteration, draws, values, acceptance)


def first_step_size(n_features: int) -> float:
    """Return log epsilon to begin with: 1.65 D^(-1/6) is right for a normal density with covariance C."""
    return math.log(1.65) - math.log(n_features) / 6.0


def prepare(request: Request) -> Prepared:
    """Start chains around the mode, with C the inverse Hessian there, or the identity."""
    target = request.target()
    starts, spread = request.starts(target)
    log_epsilon = first_step_size(target.n_features)
    if request.options["preconditioner"] == "identity":
        log_epsilon += math.log(float(np.linalg.norm(spread, axis=1).min()))
        spread = np.eye(target.n_features)
    return Prepared((np.ascontiguousarray(spread), target.arguments()), starts, log_epsilon)


def step_sizes(drawn: Draws) -> dict[str, FloatArray]:
    """Return epsilon of each chain, shape (chains, draws)."""
    return {"step_size": np.repeat(np.exp(drawn.tuning)[:, None], drawn.theta.shape[1], axis=1)}


MALA = ChainSampler(
    name="mala",
    about="adaptive Metropolis-adjusted Langevin, compiled",
    priors=(Normal, MultivariateNormal, StudentT, Cauchy, Laplace),
    because="needs a density in closed form and cannot cross between spike and slab",
    options={
        "thin": thinned(10),
        "preconditioner": Option(
            "laplace",
            partial(check_choice, choices=("laplace", "identity")),
            '"laplace", the inverse Hessian at the mode, or "identity", as Huggins et al.',
        ),
    },
    prepare=prepare,
    advance=advance,
    statistics=step_sizes,
)
