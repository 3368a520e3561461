"""Mode of a log density by damped Newton steps, and the Laplace approximation there.

With a proper prior the mode is finite even where the data are separable and the maximum likelihood estimate
does not exist. The method only sees a function beta -> `Terms`, so a step may as well be a pass over a file.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from bayescore.data.coreset import own_likelihood
from bayescore.models.posterior import Terms, posterior
from bayescore.models.priors import Normal, Prior
from bayescore.types import FloatArray, WeightedData


@dataclass(frozen=True, eq=False)
class Mode:
    """Mode of a log density and the normal approximation around it.

    Parameters
    ----------
    beta : array, shape (D,)
        The mode (MAP estimate).
    covariance : array, shape (D, D)
        Inverse of minus the Hessian there (Laplace approximation).
    terms : Terms
        Log density (not normalised), gradient and minus the Hessian there.
    decrement : float
        Newton decrement: distance left to the mode in posterior standard deviations.
    n_steps : int
        Evaluations of the density.
    """

    beta: FloatArray
    covariance: FloatArray
    terms: Terms
    decrement: float
    n_steps: int

    @property
    def factor(self) -> FloatArray:
        """Lower triangular L with L L' the covariance, shape (D, D)."""
        return np.asarray(linalg.cholesky(self.covariance, lower=True), dtype=np.float64)

    @property
    def sd(self) -> FloatArray:
        """Standard deviations of the Laplace approximation, shape (D,)."""
        return np.asarray(np.sqrt(np.diagonal(self.covariance)))


def find_mode(
    terms: Callable[[FloatArray], Terms],
    start: FloatArray,
    *,
    first: Terms | None = None,
    tolerance: float = 1e-8,
    max_steps: int = 500,
) -> Mode:
    """Climb to the mode of a log density.

    A step solves (H + mu S) step = gradient: mu is 0 while Newton's own steps succeed, and follows the ratio of actual
    to predicted gain where they do not (Levenberg-Marquardt); S is the largest diagonal of H met so far, so that
    directions whose curvature has died away far out do not run off.

    Parameters
    ----------
    terms : callable
        beta -> `Terms`.
    start : array, shape (D,)
        Where to begin.
    first : Terms, optional
        ``terms(start)`` where it is known already.
    tolerance : float
        Newton decrement to stop at.
    max_steps : int
        Evaluations of `terms` allowed.

    Raises
    ------
    RuntimeError
        If the mode is not reached in `max_steps` evaluations.
    """
    beta = np.asarray(start, dtype=np.float64)
    here = terms(beta) if first is None else first
    scale = np.abs(np.diagonal(here.precision))
    mu, growth, decrement = 0.0, 2.0, math.inf
    n_steps = 1
    while n_steps < max_steps:
        # below the rounding error of the value no step can be seen to climb
        blind = 1e-14 * max(1.0, abs(here.value))
        factor, left = cholesky_and_decrement(here)
        if factor is not None:
            decrement = left
            if decrement < tolerance or 0.5 * decrement**2 < blind:
                covariance = linalg.cho_solve(factor, np.eye(len(beta)))
                return Mode(beta, 0.5 * (covariance + covariance.T), here, decrement, n_steps)
        factor = factor if mu == 0.0 else _factor(here.precision + np.diag(mu * scale))
        if factor is None:
            mu = max(10.0 * mu, 1e-6)
            continue
        step = linalg.cho_solve(factor, here.gradient)
        predicted = float(here.gradient @ step - 0.5 * step @ here.precision @ step)
        there = terms(beta + step)
        n_steps += 1
        gain = (there.value - here.value) / predicted
        if gain > 1e-4 or predicted < blind:
            beta, here = beta + step, there
            scale = np.maximum(scale, np.abs(np.diagonal(here.precision)))
            mu *= max(0.1, 1.0 - (2.0 * min(gain, 1.0) - 1.0) ** 3)
            mu, growth = (0.0 if mu < 1e-9 else mu), 2.0
        else:
            mu, growth = max(growth * mu, 1e-3 if mu == 0.0 else 0.0), 2.0 * growth
    raise RuntimeError(
        f"no mode found in {max_steps} Newton steps (decrement {decrement:.2g} sd): standardise the features, "
        "or use a prior with lighter tails"
    )


def cholesky_and_decrement(terms: Terms) -> tuple[tuple[FloatArray, bool] | None, float]:
    """Return the Cholesky factor of the precision and the Newton decrement; None and inf if not positive definite."""
    factor = _factor(terms.precision)
    if factor is None:
        return None, math.inf
    return factor, math.sqrt(max(float(terms.gradient @ linalg.cho_solve(factor, terms.gradient)), 0.0))


def _factor(matrix: FloatArray) -> tuple[FloatArray, bool] | None:
    """Return the Cholesky factor of `matrix`; None if it is not positive definite."""
    try:
        return linalg.cho_factor(matrix, lower=True)
    except linalg.LinAlgError:
        return None


def find_map(data: WeightedData, likelihood: str | None = None, prior: Prior | None = None) -> Mode:
    """Return the MAP estimate of a weighted data set and the Laplace approximation of its posterior.

    Parameters
    ----------
    data : WeightedData
        A coreset or full data.
    likelihood : {"logistic", "probit"}, optional
        By default the coreset's own.
    prior : prior, default Normal(0, 4)
        Any prior with a density in closed form.

    Returns
    -------
    Mode

    Notes
    -----
    The kink of the `Laplace` prior is rounded off, see `models.posterior.LAPLACE_ROUNDING`.

    References
    ----------
    Moré (1978), The Levenberg-Marquardt algorithm: implementation and theory; Nielsen (1999), Damping parameter in
    Marquardt's method.
    """
    target = posterior(data, own_likelihood(data, likelihood), prior or Normal(0.0, 4.0), "the MAP estimate")
    return find_mode(target.terms, np.zeros(target.n_features))
