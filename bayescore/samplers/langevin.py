r"""Langevin steps that leave the normal part of a density exact: one kernel for all targets.

In coordinates x in which the posterior is about N(0, I), log pi(x) = -|x|^2 / 2 + phi(x). A transition draws a momentum
p ~ N(0, I) and makes one or more steps of angle h, each of

.. math:: p \mathrel{+}= \tan(h/2) F(x); \qquad
          (x, p) \leftarrow (x \cos h + p \sin h, \; p \cos h - x \sin h); \qquad
          p \mathrel{+}= \tan(h/2) F(x)

with F the gradient of phi. It accepts the end with probability min(1, exp(E - E')), E = -log pi(x) + |p|^2 / 2. Kicks
and rotations keep volume, and a step is its own way back once p changes sign: pi is invariant for any function F of x.
Of a normal density F is 0 and every h is accepted; h = pi / 2 gives independent draws. MALA's step shrinks as D^(-1/6)
even then.

Behind a wall, where rows are all but separated, the gradient throws proposals far off. So the gradient of log pi is cut
to the length sqrt(D) + 3, which it has once in a thousand draws of a normal density (`Frame.clip_norm`);
detailed balance holds for any F.

Long tails, such as those that a Student t prior gives to a coefficient that the data hardly know, stop these steps: far
out the chain stays. So coefficients that have such a prior and depend on it get a second move in each transition.
One of them, theta_d, is multiplied in its distance from the center by exp(z), z ~ N(0, `RAY_SD`^2), and the others
follow by regression on it: with u the unit vector along row d of L,

.. math:: x' = x + (e^z - 1) (u \cdot x) u, \qquad \log\text{ratio} = \log\pi(x') - \log\pi(x) + z,

z being the log of the Jacobian. Such moves leave tails of any power, and find a second mode far out, where the
likelihood and a prior of long tails disagree.

Steps of many coordinates at once are small: of 40,000 effects seven make a quarter turn. Given the rest, levels of a
factor are independent of each other, so that each may be accepted by itself (`Frame.level_shape`). A transition then
moves all levels by one step of a quarter turn, each accepted by what it adds to the log density, and after that the
rest, given the levels. Both moves leave pi invariant.

How a target plugs in
---------------------
1. Write a compiled function (x, gradient, data) -> log density at x, which fills the gradient in x, shape (D,); `data`
   is a named tuple in memory (`compiled.AtAddress`).
2. Give `adaptive.run_langevin` a frame (`Frame`): it holds function and data, turns x into the parameters and back,
   and learns a better frame from draws. `Dense` is theta = center + L x for any compiled density of theta.

`advance` is one compiled loop for all targets, which calls their densities by address (`compiled.StoredDensity`).

Coordinates x in which a posterior is about N(0, I), for `langevin`: what they hold and how warm-up betters them.

References
----------
Beskos, Pinski, Sanz-Serna and Stuart (2011), Stochastic Processes and their Applications 121, 2201-2230; Cotter,
Roberts, Stuart and White (2013), Statistical Science 28, 424-446; Shahbaba, Lan, Johnson and Neal (2014), Statistics
and Computing 24, 339-349, for several steps; Roberts and Tweedie (1996), Bernoulli 2, for the cut.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import linalg

from bayescore.compiled import StoredDensity, evaluate_stored, jit, jit_inner, jit_inner_sums
from bayescore.models.groups.joint import gradient_size, level_parts
from bayescore.models.posterior import prior_part
from bayescore.numerics.elementary import copy_to
from bayescore.priors import Prior
from bayescore.samplers.method import Segment
from bayescore.types import FloatArray, IntArray

TARGET_ACCEPTANCE = 0.7  # acceptance; the effective draws of a gradient hardly change from 0.65 to 0.75


LONGEST_ANGLE = math.pi / 2.0  # of a transition: a normal density asks for no other


class StepSize(NamedTuple):
    """How a transition moves: log h, how many steps it makes, and the length that the gradient is cut to."""

    log_h: float
    steps: int
    clip_norm: float


@jit_inner
def _clip_factor(gradient: FloatArray, first: int, size: int, clip_norm: float) -> float:
    """Return what a part of the gradient of log pi is multiplied by, so that it is at most as long as `clip_norm`."""
    square = 0.0
    for d in range(first, first + size):
        square += gradient[d] * gradient[d]
    return clip_norm / math.sqrt(square) if square > clip_norm * clip_norm else 1.0


@jit_inner
def force(gradient: FloatArray, x: FloatArray, clip_norm: float) -> None:
    """Replace the gradient of log pi by F: cut to the length `clip_norm`, plus x."""
    factor = _clip_factor(gradient, 0, x.size, clip_norm)
    for d in range(x.size):
        gradient[d] = factor * gradient[d] + x[d]


@jit_inner
def kick(p: FloatArray, pull: FloatArray, h: float) -> None:
    """Add tan(h/2) F to the momentum."""
    tangent = math.tan(0.5 * h)
    for d in range(p.size):
        p[d] += tangent * pull[d]


@jit_inner
def rotate(x: FloatArray, p: FloatArray, h: float) -> None:
    """Turn (x, p) by the angle h, the exact motion of a standard normal density."""
    cosine, sine = math.cos(h), math.sin(h)
    for d in range(x.size):
        place, momentum = x[d], p[d]
        x[d] = cosine * place + sine * momentum
        p[d] = cosine * momentum - sine * place


@jit_inner
def half_square(p: FloatArray) -> float:
    """Return |p|^2 / 2."""
    total = 0.0
    for d in range(p.size):
        total += p[d] * p[d]
    return 0.5 * total


@jit_inner
def acceptance(log_ratio: float) -> float:
    """Return the acceptance probability of a change of the negative energy; that of a NaN is 0."""
    return math.exp(min(0.0, log_ratio)) if log_ratio > -math.inf else 0.0


@jit_inner
def adapt(log_h: float, probability: float, iteration: int, steps: int) -> float:
    """Return log h moved towards the target acceptance, by less and less (Robbins and Monro)."""
    moved = log_h + (probability - TARGET_ACCEPTANCE) * math.pow(1.0 + iteration, -0.6)
    return min(moved, math.log(LONGEST_ANGLE / steps))


@jit_inner
def _leap(
    moved: tuple[FloatArray, FloatArray, FloatArray], address: tuple[int, int], step: StepSize, h: float
) -> float:
    """Make the steps of a transition; return the log density at their end.

    They move point, force and momentum: the last coordinates of the point, as many as there are of the momentum.
    """
    x, pull, p = moved
    first, size, value = x.size - p.size, x.size, 0.0
    for _ in range(step.steps):
        kick(p, pull[first:size], h)
        rotate(x[first:], p, h)
        value = evaluate_stored(address[0], address[1], x, pull)
        force(pull[first:size], x[first:], step.clip_norm)
        kick(p, pull[first:size], h)
    return value


@jit_inner
def _accept(state: FloatArray) -> None:
    """Take the proposed point and its force for the point."""
    for d in range(state.shape[1]):
        state[0, d], state[1, d] = state[2, d], state[3, d]


@jit
def _advance(
    noise: tuple[FloatArray, FloatArray, FloatArray],
    state: FloatArray,
    step: StepSize,
    target: tuple[int, int, FloatArray],
    segment: Segment,
) -> tuple[float, float]:
    """Fill a segment; `state`, shape (5, D), has the point, its force, both as proposed, and the momentum."""
    normals, uniforms, stretches = noise
    function, data, rays = target
    x, pull, y, moved, p = state[0], state[1], state[2], state[3], state[4]
    log_h, size = step.log_h, x.size
    value, mean = evaluate_stored(function, data, x, pull), 0.0
    force(pull, x, step.clip_norm)
    for i in range(len(segment.draws)):
        total = 0.0
        for j in range(segment.thin):
            for d in range(size):
                p[d], y[d], moved[d] = normals[i, j, d], x[d], pull[d]
            before = value - half_square(p)
            proposed = _leap((y, moved, p), (function, data), step, math.exp(log_h))
            probability = acceptance(proposed - half_square(p) - before)
            if uniforms[i, j] < probability:
                _accept(state)
                value = proposed
            total += probability
            if segment.iteration >= 0:
                log_h = adapt(log_h, probability, segment.iteration + i * segment.thin + j, step.steps)
            if len(rays):
                ray, z = int(stretches[i, j, 0] * len(rays)), stretches[i, j, 1]
                along = 0.0
                for d in range(size):
                    along += rays[ray, d] * x[d]
                for d in range(size):
                    y[d] = x[d] + math.expm1(z) * along * rays[ray, d]
                proposed = evaluate_stored(function, data, y, moved)
                if stretches[i, j, 2] < acceptance(proposed - value + z):
                    force(moved, y, step.clip_norm)
                    _accept(state)
                    value = proposed
        for d in range(size):
            segment.draws[i, d] = x[d]
        segment.values[i] = value
        segment.acceptance[i] = total / segment.thin
        mean += log_h
    return log_h, mean / len(segment.draws)


@jit_inner
def _move_levels(
    noise: tuple[FloatArray, FloatArray],
    state: FloatArray,
    levels: tuple[int, int],
    address: tuple[int, int],
) -> float:
    """Move each level's coordinates by a quarter turn, and accept or reject them one by one; return log pi.

    A quarter turn of (x, p) is (p, -x), and tan(h/2) = 1: a level goes to p + F(x), with the momentum F(y) - x.
    """
    (normals, uniforms), (G, q), (function, data) = noise, levels, address
    size, clip_norm = normals.size, math.sqrt(q) + 3.0
    x, pull, y, moved = state[0, :size], state[1], state[2, :size], state[3]
    density, of_u, of_rows = level_parts(pull, size, levels)
    moved_density, moved_of_u, moved_of_rows = level_parts(moved, size, levels)
    copy_to(y[G * q :], x[G * q :])
    for g in range(G):
        cut = _clip_factor(pull, g * q, q, clip_norm)
        for e in range(g * q, g * q + q):
            density[g] -= 0.5 * normals[e] * normals[e]
            y[e] = normals[e] + (cut * pull[e] + x[e])
    evaluate_stored(function, data, y, moved)
    for g in range(G):
        cut, change = _clip_factor(moved, g * q, q, clip_norm), moved_density[g] - density[g]
        for e in range(g * q, g * q + q):
            p = cut * moved[e] + y[e] - x[e]
            change -= 0.5 * p * p
        if uniforms[g] < acceptance(change):
            for e in range(g * q, g * q + q):
                x[e] = y[e]
                of_u[e] = moved_of_u[e]
            of_rows[g] = moved_of_rows[g]
    pull[pull.size - 1] = 1.0  # sums over levels' rows are known
    value: float = evaluate_stored(function, data, x, pull)
    pull[pull.size - 1] = 0.0
    return value


@jit
def _advance_by_level(
    noise: tuple[FloatArray, FloatArray, FloatArray],
    state: FloatArray,
    step: StepSize,
    target: tuple[int, int, tuple[int, int]],
    segment: Segment,
) -> tuple[float, float]:
    """Fill a segment by moves of levels, and of the rest given these; rows of `state` end with what levels add."""
    normals, uniforms, by_level = noise
    function, data, levels = target
    size, first = normals.shape[2], levels[0] * levels[1]
    x, pull, y, moved, p = state[0, :size], state[1], state[2, :size], state[3], state[4, first:size]
    log_h, mean = step.log_h, 0.0
    evaluate_stored(function, data, x, pull)
    for i in range(len(segment.draws)):
        total, value = 0.0, 0.0
        for j in range(segment.thin):
            value = _move_levels((normals[i, j], by_level[i, j]), state, levels, (function, data))
            force(pull[first:size], x[first:], step.clip_norm)
            copy_to(y, x)
            copy_to(moved, pull)
            copy_to(p, normals[i, j, first:])
            before = value - half_square(p)
            proposed = _leap((y, moved, p), (function, data), step, math.exp(log_h))
            probability = acceptance(proposed - half_square(p) - before)
            if uniforms[i, j] < probability:
                copy_to(x, y)
                copy_to(pull, moved)
                value = proposed
            total += probability
            if segment.iteration >= 0:
                log_h = adapt(log_h, probability, segment.iteration + i * segment.thin + j, step.steps)
        copy_to(segment.draws[i], x)
        segment.values[i] = value
        segment.acceptance[i] = total / segment.thin
        mean += log_h
    return log_h, mean / len(segment.draws)


def advance(
    rng: np.random.Generator,
    x: FloatArray,
    step: StepSize,
    target: tuple[StoredDensity, FloatArray, tuple[int, int]],
    segment: Segment,
) -> tuple[FloatArray, float, float]:
    """Fill a segment from x on, in the coordinates x; return the last point, and the last and the mean log h.

    `target` has the density, and the rays and the levels of a `Frame`.
    """
    density, rays, levels = target
    n, size = segment.draws.shape
    normals, uniforms = rng.standard_normal((n, segment.thin, size)), rng.random((n, segment.thin))
    if levels[0]:
        state = np.zeros((5, gradient_size(size, levels)))
        state[0, :size] = x
        noise = normals, uniforms, rng.random((n, segment.thin, levels[0]))
        last, mean = _advance_by_level(noise, state, step, (density.function, density.data, levels), segment)
        return state[0, :size].copy(), last, mean
    stretches = np.empty((n, segment.thin, 3))
    if len(rays):
        stretches[:, :, ::2] = rng.random((n, segment.thin, 2))
        stretches[:, :, 1] = RAY_SD * rng.standard_normal((n, segment.thin))
    state = np.empty((5, size))
    state[0] = x
    address = density.function, density.data, rays
    last, mean = _advance((normals, uniforms, stretches), state, step, address, segment)
    return state[0], last, mean


RAY_SD = 2.0  # sd of z: a factor of 50 once in 40 moves


MANY_STEPS_FROM = 0.5  # h from which more steps are tried


PRIOR_DRAWS = 1.0  # effective draws for each column, that count as much as the scale at the mode


class Frame(Protocol):
    """Coordinates of a target: a compiled density of x, and the way from x to its parameters and back."""

    @property
    def level_shape(self) -> tuple[int, int]:
        """Levels whose first coordinates move one by one, and how many each has; (0, 0) where all move at once.

        If levels move one by one, the gradient continues with what `level_parts` are.
        """

    @property
    def center(self) -> FloatArray:
        """The parameters at x = 0, shape (D,)."""

    @property
    def target(self) -> StoredDensity:
        """The density of x."""

    @property
    def rays(self) -> FloatArray:
        """Unit vectors of x, shape (k, D), along which tails are long."""

    @property
    def n_learnt(self) -> int:
        """How many coordinates have a covariance that is learnt from draws."""

    @property
    def clip_norm(self) -> float:
        """Length in x that gradients are cut to."""

    def steps(self, h: float) -> tuple[int, ...]:
        """Return the numbers of steps of a transition that are worth a trial, given the angle of a step."""

    def monitored(self, x: FloatArray) -> FloatArray:
        """Return the parameters whose effective sample size is asked for, shape (..., k)."""

    def theta(self, x: FloatArray) -> FloatArray:
        """Return the parameters at x, shape (..., D)."""

    def x(self, theta: FloatArray) -> FloatArray:
        """Return the coordinates of parameters, shape (..., D)."""

    def learn(self, theta: FloatArray, effective: float) -> "Frame":
        """Return a better frame, given parameters at draws of warm-up, shape (n, D), worth `effective` of them."""


class Affine(NamedTuple):
    """theta = center + L x, and a density of theta."""

    center: FloatArray
    factor: FloatArray  # L, lower triangular
    density: StoredDensity  # of theta


@jit_inner_sums
def _whitened(x: FloatArray, gradient: FloatArray, affine: Affine) -> float:
    size, both = x.size, np.empty((2, x.size))
    theta, slope = both[0], both[1]
    for i in range(size):
        total = 0.0
        for j in range(i + 1):
            total += affine.factor[i, j] * x[j]
        theta[i] = affine.center[i] + total
    value: float = evaluate_stored(affine.density.function, affine.density.data, theta, slope)
    for i in range(size):
        gradient[i] = 0.0
        for j in range(i + 1):
            gradient[j] += affine.factor[i, j] * slope[i]
    return float(value)


NO_COEFFICIENTS: IntArray = np.empty(0, dtype=np.int64)

PRIOR_SHARE = 0.01
"""Share of a coefficient's variance at the mode that a prior changes, from which its tails may be the prior's."""


def long_tailed_coefficients(mode: FloatArray, factor: FloatArray, prior: Prior, n_coefficients: int) -> IntArray:
    """Return the places of coefficients that have a prior of long tails and depend on it, given L at the mode."""
    if not prior.long_tails:
        return NO_COEFFICIENTS
    precision = prior_part(mode[:n_coefficients], prior).precision
    # to first order V + V P V is the variance without the prior, P its precision
    spread = (factor @ factor.T)[:n_coefficients, :n_coefficients]
    change = np.abs(np.diagonal(spread @ precision @ spread)) / np.diagonal(spread)
    return np.flatnonzero(change > PRIOR_SHARE)


@dataclass(frozen=True, eq=False)
class Dense:
    """theta = center + L x, at first by the mode and its curvature, then by mean and covariance of draws."""

    density: StoredDensity  # of theta
    center: FloatArray
    factor: FloatArray
    at_mode: FloatArray  # L there
    long: IntArray  # places of parameters whose tails may be long

    @classmethod
    def of(
        cls,
        kernel: Any,
        data: Any,
        mode: FloatArray,
        factor: FloatArray,
        long: IntArray = NO_COEFFICIENTS,
    ) -> "Dense":
        """Return the frame of a mode, shape (D,), and L, L L' the inverse of minus the Hessian there."""
        factor = np.ascontiguousarray(factor)
        return cls(StoredDensity.of(kernel, data), np.array(mode), factor, factor, long)

    @property
    def level_shape(self) -> tuple[int, int]:
        """None: all move at once."""
        return 0, 0

    @property
    def rays(self) -> FloatArray:
        """Unit vectors along which one parameter moves, and the others follow."""
        rows = self.factor[self.long]
        return np.ascontiguousarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))

    @property
    def n_learnt(self) -> int:
        """All coordinates."""
        return len(self.center)

    @property
    def clip_norm(self) -> float:
        """That of a normal density once in a thousand draws."""
        return math.sqrt(len(self.center)) + 3.0

    def steps(self, h: float) -> tuple[int, ...]:
        """One step, and several where h is not small: behind walls they lose."""
        return (1, 2, 3) if h > MANY_STEPS_FROM else (1,)

    def monitored(self, x: FloatArray) -> FloatArray:
        """Return all parameters."""
        return self.theta(x)

    @property
    def target(self) -> StoredDensity:
        """The density of x."""
        return StoredDensity.of(_whitened, Affine(self.center, self.factor, self.density))

    def theta(self, x: FloatArray) -> FloatArray:
        """Return the parameters at x, shape (..., D)."""
        return np.asarray(self.center + x @ self.factor.T)

    def x(self, theta: FloatArray) -> FloatArray:
        """Return the coordinates of parameters, shape (..., D)."""
        gap = np.atleast_2d(theta - self.center)
        return np.asarray(linalg.solve_triangular(self.factor, gap.T, lower=True).T.reshape(np.shape(theta)))

    def learn(self, theta: FloatArray, effective: float) -> "Dense":
        """Return the frame of the draws' mean and covariance, which is blended with the scale at the mode."""
        size = len(self.center)
        share = effective / (effective + PRIOR_DRAWS * size)
        covariance = np.cov(theta, rowvar=False, bias=True).reshape(size, size)
        factor = np.linalg.cholesky(share * covariance + (1.0 - share) * self.at_mode @ self.at_mode.T)
        return replace(self, center=theta.mean(axis=0), factor=np.ascontiguousarray(factor))
