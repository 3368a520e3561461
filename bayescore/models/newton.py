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
    value : float
        Log density at the mode, not normalised.
    decrement : float
        Newton decrement: distance left to the mode in posterior standard deviations.
    n_steps : int
        Evaluations of the density.
    """

    beta: FloatArray
    covariance: FloatArray
    value: float
    decrement: float
    n_steps: int

    @property
    def sd(self) -> FloatArray:
        """Standard deviations of the Laplace approximation, shape (D,)."""
        return np.asarray(np.sqrt(np.diagonal(self.covariance)))


def find_mode(
    terms: Callable[[FloatArray], Terms], start: FloatArray, *, tolerance: float = 1e-8, max_steps: int = 200
) -> Mode:
    """Climb to the mode of a log density.

    Each step solves (H + ridge I) step = gradient, the ridge being raised until the matrix is positive
    definite and the density does not fall.

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
    ridge = 0.0
    decrement = np.inf
    for n_steps in range(1, max_steps):
        factor, ridge = _factor(here.precision, ridge)
        step = linalg.cho_solve(factor, here.gradient)
        decrement = math.sqrt(max(float(here.gradient @ step), 0.0))
        # at the rounding error of the value no step can be seen to climb
        blind = 1e-14 * max(1.0, abs(here.value))
        if ridge == 0.0 and (decrement < tolerance or 0.5 * decrement**2 < blind):
            covariance = linalg.cho_solve(factor, np.eye(len(beta)))
            return Mode(beta, 0.5 * (covariance + covariance.T), here.value, decrement, n_steps)
        there = terms(beta + step)
        if there.value >= here.value - blind:
            beta, here = beta + step, there
            ridge = ridge / 10.0 if ridge > 1e-12 * _size(here.precision) else 0.0
        else:
            ridge = max(4.0 * ridge, 1e-3 * _size(here.precision))
    raise RuntimeError(
        f"no mode found in {max_steps} Newton steps (decrement {decrement:.2g} sd): standardise the features, "
        "or use a prior with lighter tails"
    )


def _size(matrix: FloatArray) -> float:
    return float(np.abs(np.diag(matrix)).mean())


def _factor(precision: FloatArray, ridge: float) -> tuple[tuple[FloatArray, bool], float]:
    """Return the Cholesky factor of precision + ridge I, raising the ridge until there is one."""
    identity = np.eye(len(precision))
    while True:
        try:
            return linalg.cho_factor(precision + ridge * identity, lower=True), ridge
        except linalg.LinAlgError:
            ridge = max(10.0 * ridge, 1e-6 * _size(precision) + 1e-300)


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
