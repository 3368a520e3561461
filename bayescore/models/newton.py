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
    terms: Callable[[FloatArray], Terms], start: FloatArray, *, tolerance: float = 1e-8, max_steps: int = 200
) -> Mode:
    """Climb to the mode of a log density.

    A step goes along the Newton direction, (H + ridge I)^-1 gradient, the ridge 0 unless H is not positive
    definite; where the density falls, the step is shortened to where the slope, taken as linear, vanishes,
    and the next one begins with three times that length.

    Parameters
    ----------
    terms : callable
        beta -> `Terms`.
    start : array, shape (D,)
        Where to begin.
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
    here = terms(beta)
    decrement, length = math.inf, 1.0
    n_steps = 1
    while n_steps < max_steps:
        factor, ridge = _factor(here.precision)
        direction = linalg.cho_solve(factor, here.gradient)
        slope = float(here.gradient @ direction)
        decrement = math.sqrt(max(slope, 0.0))
        # below the rounding error of the value no step can be seen to climb
        blind = 1e-14 * max(1.0, abs(here.value))
        if ridge == 0.0 and (decrement < tolerance or 0.5 * slope < blind):
            covariance = linalg.cho_solve(factor, np.eye(len(beta)))
            return Mode(beta, 0.5 * (covariance + covariance.T), here, decrement, n_steps)
        length = min(1.0, 3.0 * length)
        while n_steps < max_steps:
            there = terms(beta + length * direction)
            n_steps += 1
            if there.value >= here.value - blind:
                beta, here = beta + length * direction, there
                break
            end = float(there.gradient @ direction)
            length *= min(max(slope / (slope - end), 0.1), 0.5) if end < 0.0 else 0.5
    raise RuntimeError(
        f"no mode found in {max_steps} Newton steps (decrement {decrement:.2g} sd): standardise the features, "
        "or use a prior with lighter tails"
    )


def _factor(precision: FloatArray) -> tuple[tuple[FloatArray, bool], float]:
    """Return the Cholesky factor of precision + ridge I with the smallest ridge tried for which there is one."""
    ridge = 0.0
    while True:
        try:
            return linalg.cho_factor(precision + ridge * np.eye(len(precision)), lower=True), ridge
        except linalg.LinAlgError:
            ridge = max(10.0 * ridge, 1e-6 * float(np.abs(np.diag(precision)).mean()) + 1e-300)


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
    Nocedal and Wright (2006), Numerical Optimization, section 3.4.
    """
    target = posterior(data, own_likelihood(data, likelihood), prior or Normal(0.0, 4.0), "the MAP estimate")
    return find_mode(target.terms, np.zeros(target.n_features))
