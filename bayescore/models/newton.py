"""Mode of a log density by damped Newton steps, and the Laplace approximation there.

The method only sees a function beta -> `Derivatives`, so a step may be a pass over a file. References: Moré (1978), The
Levenberg-Marquardt algorithm: implementation and theory; Nielsen (1999), Damping parameter in Marquardt's method.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from bayescore.models.posterior import Derivatives
from bayescore.types import FloatArray

UNDAMPED = 1e-16  # of the largest curvature so far, which may fall by ten orders of magnitude on the way to the mode


@dataclass(frozen=True, eq=False)
class Mode:
    """Mode of a log density and the normal approximation around it.

    Parameters
    ----------
    beta : array, shape (D,)
        The mode. `find_map` of a model `(1 | g)` returns D coefficients and, last, log sigma_g: D + 1 entries.
    covariance : array, shape (D, D)
        Inverse of minus the Hessian there (Laplace approximation).
    terms : Derivatives
        Log density (not normalised), gradient and minus the Hessian there.
    decrement : float
        Newton decrement: distance left to the mode in posterior standard deviations.
    n_steps : int
        Evaluations of the density.
    names : tuple of str
        Names of the entries of `beta`, such as ("Intercept", "age", "log sigma_county"), from `find_map` and
        `find_mle`.
    """

    beta: FloatArray
    covariance: FloatArray
    terms: Derivatives
    decrement: float
    n_steps: int
    names: tuple[str, ...] = ()

    @property
    def factor(self) -> FloatArray:
        """Lower triangular L with L L' the covariance, shape (D, D)."""
        return np.asarray(linalg.cholesky(self.covariance, lower=True), dtype=np.float64)

    @property
    def sd(self) -> FloatArray:
        """Standard deviations of the Laplace approximation, shape (D,)."""
        return np.asarray(np.sqrt(np.diagonal(self.covariance)))


class NoModeError(RuntimeError):
    """The steps allowed did not reach the mode; `reached` is where they ended, None if it is flat there."""

    def __init__(self, message: str, reached: Mode | None) -> None:
        super().__init__(message)
        self.reached = reached


def find_mode(
    terms: Callable[[FloatArray], Derivatives],
    start: FloatArray,
    *,
    first: Derivatives | None = None,
    tolerance: float = 1e-8,
    max_steps: int = 500,
) -> Mode:
    """Climb to the mode of a log density until the Newton decrement is below `tolerance`; else raise `NoModeError`.

    A step solves (H + mu S) step = gradient: mu is 0 while Newton's own steps succeed, and follows the ratio of actual
    to predicted gain where they do not (Levenberg-Marquardt). S is the largest diagonal of H so far, so that steps stay
    short where the curvature has died away. `first` is ``terms(start)`` where the caller has it.
    """
    beta = np.asarray(start, dtype=np.float64)
    here = terms(beta) if first is None else first
    scale = np.abs(np.diagonal(here.precision))
    if not np.isfinite(here.value * scale).all():
        raise NoModeError("the likelihood overflows where the search for its mode starts: are offsets too large?", None)
    mu, growth, decrement = 0.0, 2.0, math.inf
    n_steps = 1
    while n_steps < max_steps:
        # below the rounding error of the value no step can be seen to climb
        blind = 1e-14 * max(1.0, abs(here.value))
        factor, left = cholesky_and_decrement(here)
        if factor is not None:
            decrement = left
            if decrement < tolerance or 0.5 * decrement**2 < blind:
                return _mode(beta, factor, here, decrement, n_steps)
        factor = factor if mu == 0.0 else _factor(here.precision + np.diag(mu * scale))
        if factor is None:
            mu = max(10.0 * mu, 1e-6)
            continue
        step = linalg.cho_solve(factor, here.gradient)
        predicted = float(here.gradient @ step - 0.5 * step @ here.precision @ step)
        there = terms(beta + step)
        n_steps += 1
        # a gain that rounding hides counts as predicted: damping by its noise would never end
        gain = 1.0 if predicted < blind else (there.value - here.value) / predicted
        if gain > 1e-4:
            beta, here = beta + step, there
            scale = np.maximum(scale, np.abs(np.diagonal(here.precision)))
            mu *= max(0.1, 1.0 - (2.0 * min(gain, 1.0) - 1.0) ** 3)
            mu, growth = (0.0 if mu < UNDAMPED else mu), 2.0
        else:
            mu, growth = max(growth * mu, 1e-3 if mu == 0.0 else 0.0), 2.0 * growth
    factor, decrement = cholesky_and_decrement(here)
    raise NoModeError(
        f"no mode found in {max_steps} Newton steps (decrement {decrement:.2g} sd): standardise the features, "
        "or use a prior with lighter tails",
        None if factor is None else _mode(beta, factor, here, decrement, n_steps),
    )


def _mode(beta: FloatArray, factor: tuple[FloatArray, bool], here: Derivatives, decrement: float, n_steps: int) -> Mode:
    covariance = linalg.cho_solve(factor, np.eye(len(beta)))
    return Mode(beta, 0.5 * (covariance + covariance.T), here, decrement, n_steps)


def cholesky_and_decrement(terms: Derivatives) -> tuple[tuple[FloatArray, bool] | None, float]:
    """Return the Cholesky factor of the precision and the Newton decrement; None and inf if not positive definite."""
    factor = _factor(terms.precision)
    if factor is None:
        return None, math.inf
    return factor, math.sqrt(max(float(terms.gradient @ linalg.cho_solve(factor, terms.gradient)), 0.0))


def _factor(matrix: FloatArray) -> tuple[FloatArray, bool] | None:
    """Return the Cholesky factor of `matrix`; None if it is not positive definite."""
    try:
        return linalg.cho_factor(matrix, lower=True)[0], True
    except linalg.LinAlgError:
        return None
