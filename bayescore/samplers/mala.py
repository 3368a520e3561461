r"""Adaptive Metropolis-adjusted Langevin algorithm (MALA).

From theta with gradient g of the log density, propose

.. math:: \theta' = \theta + \tfrac12 \epsilon^2 C g + \epsilon L \xi, \qquad C = L L^T, \quad \xi \sim N(0, I)

and accept with probability min(1, exp(log pi(theta') - log pi(theta) + (|xi|^2 - |xi'|^2) / 2)), where
xi' = -(xi + epsilon (L'g + L'g') / 2) is the noise of the way back. Invariant density: pi. During warm-up
log epsilon follows the acceptance probability to 0.574, its best value in high dimension (Robbins-Monro).

C = I is the sampler of Huggins et al. (2016); C = inverse Hessian at the mode mixes far better. Where rows are all but
separated that is not enough: the density falls like a wall, a step from behind it lands far off time and again, and
the scale at the mode is not that of the posterior. So L'g is cut to the length sqrt(D) + 3, which it has once in a
thousand draws of a normal density, and warm-up blends C with the covariance of its own later draws.

The compiled log density is bound here and the noise comes ready made, as numba keeps no machine code of functions that
are passed functions or generators.

References
----------
Roberts and Tweedie (1996), Bernoulli 2, the cut in section 1.4.2; Haario, Saksman and Tamminen (2001), Bernoulli 7;
Roberts and Rosenthal (1998), JRSS B 60; Atchade (2006), Methodology and Computing in Applied Probability 8.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from bayescore.compiled import jit, jit_inner
from bayescore.models.posterior import DensityArguments, log_density
from bayescore.numerics import elementary
from bayescore.samplers.method import CLOSED_FORM, ChainSampler, Draws, Option, Prepared, Request, Segment, thin_option
from bayescore.types import FloatArray
from bayescore.validation import check_choice

TARGET_ACCEPTANCE = 0.574
PRIOR_DRAWS = 10.0  # of warm-up for each column, that count as much as the scale at the mode
RESCALE_GROWTH = 1.5  # times the draws, before the scale is estimated again


class MalaState(NamedTuple):
    """Coefficients, the log density there, and its gradient."""

    theta: FloatArray
    value: float
    gradient: FloatArray


@jit
def init(theta: FloatArray, arguments: DensityArguments) -> MalaState:
    """Return the state at `theta`."""
    gradient = np.empty(theta.size)
    value = log_density(theta, gradient, arguments)
    return MalaState(theta.copy(), value, gradient)


class ProposalNoise(NamedTuple):
    """Standard normal noise, shape (D,), and a number in [0, 1): those of one transition."""

    normal: FloatArray
    uniform: float


class Scale(NamedTuple):
    """The logarithm of the step epsilon, L, lower triangular, shape (D, D), and the length that L'g is cut to."""

    log_epsilon: float
    factor: FloatArray
    clip_norm: float = math.inf


@jit_inner
def _drift(gradient: FloatArray, scale: Scale) -> FloatArray:
    drift = elementary.transposed_times(scale.factor, gradient)
    length = math.sqrt((drift * drift).sum())
    return drift * (scale.clip_norm / length) if length > scale.clip_norm else drift


@jit
def propose(noise: FloatArray, state: MalaState, scale: Scale) -> tuple[FloatArray, FloatArray]:
    """Return the point proposed from a state by standard normal `noise`, and L'g there, cut; shape (D,) each."""
    drift, epsilon = _drift(state.gradient, scale), math.exp(scale.log_epsilon)
    return state.theta + epsilon * elementary.times(scale.factor, noise + 0.5 * epsilon * drift), drift


@jit_inner
def decide(
    noise: ProposalNoise, drift: FloatArray, state: MalaState, proposed: MalaState, scale: Scale
) -> tuple[MalaState, float]:
    """Return the state proposed or that before, and the acceptance probability; `drift` is that of `propose`."""
    back = noise.normal + 0.5 * math.exp(scale.log_epsilon) * (drift + _drift(proposed.gradient, scale))
    log_ratio = proposed.value - state.value + 0.5 * ((noise.normal * noise.normal).sum() - (back * back).sum())
    if not log_ratio > -math.inf:  # NaN too
        return state, 0.0
    probability = math.exp(min(0.0, log_ratio))
    return (proposed if noise.uniform < probability else state), probability


@jit
def step(noise: ProposalNoise, state: MalaState, scale: Scale, arguments: DensityArguments) -> tuple[MalaState, float]:
    """Make one transition; return the new state and the acceptance probability."""
    theta, drift = propose(noise.normal, state, scale)
    gradient = np.empty(theta.size)
    value = log_density(theta, gradient, arguments)
    return decide(noise, drift, state, MalaState(theta, value, gradient), scale)


@jit_inner
def adapt(log_epsilon: float, probability: float, iteration: int) -> float:
    """Return log epsilon moved towards the target acceptance, by less and less."""
    return log_epsilon + (probability - TARGET_ACCEPTANCE) * math.pow(1.0 + iteration, -0.6)


@jit
def _advance(
    noise: tuple[FloatArray, FloatArray], theta: FloatArray, scale: Scale, arguments: DensityArguments, segment: Segment
) -> tuple[FloatArray, float]:
    normals, uniforms = noise
    state, log_epsilon, thin = init(theta, arguments), scale.log_epsilon, segment.thin
    for i in range(len(segment.draws)):
        total = 0.0
        for j in range(thin):
            scaled = Scale(log_epsilon, scale.factor, scale.clip_norm)
            state, probability = step(ProposalNoise(normals[i, j], uniforms[i, j]), state, scaled, arguments)
            total += probability
            if segment.iteration >= 0:
                log_epsilon = adapt(log_epsilon, probability, segment.iteration + i * thin + j)
        segment.draws[i] = state.theta
        segment.values[i] = state.value
        segment.acceptance[i] = total / thin
    return state.theta, log_epsilon


def noise_of(rng: np.random.Generator, segment: Segment) -> tuple[FloatArray, FloatArray]:
    """Return normals, shape (n, thin, D), and uniforms, shape (n, thin), for all transitions of a segment."""
    n, n_features = segment.draws.shape
    return rng.standard_normal((n, segment.thin, n_features)), rng.random((n, segment.thin))


def advance(
    rng: np.random.Generator,
    theta: FloatArray,
    log_epsilon: float,
    arguments: tuple[FloatArray, DensityArguments],
    segment: Segment,
    *,
    clip_norm: float = math.inf,
) -> tuple[FloatArray, float]:
    """Fill a segment from `theta` on, with L, shape (D, D), as it is; return the last point and log epsilon."""
    factor, density = arguments
    return _advance(noise_of(rng, segment), theta, Scale(log_epsilon, factor, clip_norm), density, segment)


class Tuning(NamedTuple):
    """What warm-up adapts: log epsilon and L."""

    log_epsilon: float
    factor: FloatArray
    clip_norm: float
    warm: FloatArray  # draws of warm-up so far, shape (n, D)
    rescaled_at: float  # how many there were when L was last estimated

    def rescaled(self, at_mode: FloatArray) -> "Tuning":
        """Return this with L from the later half of the draws so far, if they are so many more that it pays."""
        n, n_features = self.warm.shape
        if n == 0 or n < RESCALE_GROWTH * self.rescaled_at:
            return self
        late = self.warm[n // 2 :]
        share = len(late) / (len(late) + PRIOR_DRAWS * n_features)
        covariance = np.cov(late, rowvar=False, bias=True).reshape(n_features, n_features)
        factor = np.linalg.cholesky(share * covariance + (1.0 - share) * at_mode @ at_mode.T)
        return self._replace(factor=np.ascontiguousarray(factor), rescaled_at=n)


def advance_scaled(
    rng: np.random.Generator,
    theta: FloatArray,
    tuning: Tuning,
    arguments: tuple[FloatArray, DensityArguments],
    segment: Segment,
) -> tuple[FloatArray, Tuning]:
    """Do what `advance` does, with L'g cut and L, at first that of `arguments`, adapted in warm-up."""
    at_mode, density = arguments
    tuned = tuning if segment.iteration < 0 else tuning.rescaled(at_mode)
    theta, log_epsilon = advance(
        rng, theta, tuned.log_epsilon, (tuned.factor, density), segment, clip_norm=tuned.clip_norm
    )
    warm = tuned.warm if segment.iteration < 0 else np.concatenate([tuned.warm, segment.draws])
    return theta, tuned._replace(log_epsilon=log_epsilon, warm=warm)


def first_step_size(n_features: int) -> float:
    """Return log epsilon to begin with: 1.65 D^(-1/6) is right for a normal density with covariance C."""
    return math.log(1.65) - math.log(n_features) / 6.0


def first_tuning(factor: FloatArray) -> Tuning:
    """Return what warm-up begins with, given L, shape (D, D)."""
    n_features, factor = len(factor), np.ascontiguousarray(factor)
    return Tuning(first_step_size(n_features), factor, math.sqrt(n_features) + 3.0, np.empty((0, n_features)), 0.0)


def thinning(n_features: int) -> int:
    """Return the transitions for each draw kept, as D^(1/3): so many an independent draw takes."""
    return max(10, math.ceil(5.0 * math.cbrt(n_features)))


def prepare(request: Request) -> Prepared:
    """Start chains around the mode, with C the inverse Hessian there, to be adapted, or the identity, which stays."""
    target = request.target()
    starts, spread = request.starts(target)
    n_features, factor = target.n_features, np.ascontiguousarray(spread)
    first = first_tuning(factor)
    if request.options["preconditioner"] == "identity":
        narrowest = math.log(float(np.linalg.norm(spread, axis=1).min()))
        factor = np.eye(n_features)
        first = Tuning(first.log_epsilon + narrowest, factor, math.inf, first.warm, math.inf)
    return Prepared((factor, target.arguments()), starts, first, thinning(n_features))


def step_sizes(drawn: Draws) -> dict[str, FloatArray]:
    """Return epsilon of each chain, shape (chains, draws)."""
    epsilon = np.exp([tuning.log_epsilon for tuning in drawn.tuning])
    return {"step_size": np.repeat(epsilon[:, None], drawn.theta.shape[1], axis=1)}


MALA = ChainSampler(
    name="mala",
    about="adaptive Metropolis-adjusted Langevin, compiled",
    **CLOSED_FORM,
    options={
        "thin": thin_option(None, "10, or 5 D^(1/3) if that is more"),
        "preconditioner": Option(
            "laplace",
            partial(check_choice, choices=("laplace", "identity")),
            '"laplace", the inverse Hessian at the mode, adapted in warm-up, or "identity", as Huggins et al.',
        ),
    },
    prepare=prepare,
    advance=advance_scaled,
    statistics=step_sizes,
)
