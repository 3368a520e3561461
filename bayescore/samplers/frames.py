"""Coordinates x in which a posterior is about N(0, I), for `langevin`: what they hold and how warm-up betters them."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import linalg

from bayescore.compiled import jit_sums
from bayescore.samplers.langevin import Density, density
from bayescore.types import FloatArray

SMALL = 0.5  # h from which more steps are tried
PRIOR_DRAWS = 1.0  # effective draws for each column, that count as much as the scale at the mode


class Frame(Protocol):
    """Coordinates of a target: a compiled density of x, and the way from x to its parameters and back."""

    @property
    def target(self) -> tuple[Density, Any]:
        """The density of x and its data."""
        ...

    @property
    def learnt(self) -> int:
        """How many coordinates have a covariance that is learnt from draws."""
        ...

    def steps(self, h: float) -> tuple[int, ...]:
        """Return the numbers of steps of a transition that are worth a trial, given the angle of a step."""
        ...

    def watched(self, x: FloatArray) -> FloatArray:
        """Return the parameters whose effective sample size is asked for, shape (..., k)."""
        ...

    def theta(self, x: FloatArray) -> FloatArray:
        """Return the parameters at x, shape (..., D)."""
        ...

    def x(self, theta: FloatArray) -> FloatArray:
        """Return the coordinates of parameters, shape (..., D)."""
        ...

    def learn(self, theta: FloatArray, effective: float) -> "Frame":
        """Return a better frame, given parameters at draws of warm-up, shape (n, D), worth `effective` of them."""
        ...


class Affine(NamedTuple):
    """The data of `WHITENED`: theta = center + L x, and a density of theta with its data."""

    center: FloatArray
    factor: FloatArray  # L, lower triangular
    density: Density
    data: Any


@jit_sums
def _whitened(x: FloatArray, gradient: FloatArray, own: Affine) -> float:
    size = x.size
    theta, slope = own.center.copy(), np.empty(size)
    for i in range(size):
        total = 0.0
        for j in range(i + 1):
            total += own.factor[i, j] * x[j]
        theta[i] += total
    value = own.density.at(theta, slope, own.data)
    gradient[:] = 0.0
    for i in range(size):
        for j in range(i + 1):
            gradient[j] += own.factor[i, j] * slope[i]
    return value


WHITENED = density("whitened", _whitened)


@dataclass(frozen=True, eq=False)
class Dense:
    """theta = center + L x, at first by the mode and its curvature, then by mean and covariance of draws."""

    density: Density  # of theta
    data: Any
    center: FloatArray
    factor: FloatArray
    at_mode: FloatArray  # L there

    @classmethod
    def of(cls, own: Density, data: Any, mode: FloatArray, factor: FloatArray) -> "Dense":
        """Return the frame of a mode, shape (D,), and L, L L' the inverse of minus the Hessian there."""
        factor = np.ascontiguousarray(factor)
        return cls(own, data, np.array(mode), factor, factor)

    @property
    def learnt(self) -> int:
        """All coordinates."""
        return len(self.center)

    def steps(self, h: float) -> tuple[int, ...]:
        """One step, and several where h is not small: behind walls they lose."""
        return (1, 2, 3) if h > SMALL else (1,)

    def watched(self, x: FloatArray) -> FloatArray:
        """Return all parameters."""
        return self.theta(x)

    @property
    def target(self) -> tuple[Density, Any]:
        """The density of x and its data."""
        return WHITENED, Affine(self.center, self.factor, self.density, self.data)

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
        own = np.cov(theta, rowvar=False, bias=True).reshape(size, size)
        factor = np.linalg.cholesky(share * own + (1.0 - share) * self.at_mode @ self.at_mode.T)
        return replace(self, center=theta.mean(axis=0), factor=np.ascontiguousarray(factor))
