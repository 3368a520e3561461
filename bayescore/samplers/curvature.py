r"""About the covariance of what NUTS moves in a PyMC model: the inverse of its curvature at the mode.

Coefficients and the effects of two factors lie on a ridge, the intercept against the sums of either: a mass matrix of
blocks leaves it to NUTS to climb along, 4 x 1000 draws of which are worth nine. With x = x_0 + S y, S S' a guess of the
covariance and x_0 of the mode, the mode of y is sought, the curvature in y found there by differences of the gradient,
and both make the next guess.
"""

from collections.abc import Callable

import numpy as np
from scipy import optimize

from bayescore.types import FloatArray

_STEP = 1e-3  # of the differences, in the guessed sds
_LEAST = 0.05  # curvature in these units, flat directions among it: sds at most 4.5 times the guess
_ROUNDS = 3  # on a ridge the first ends before the mode; the next has better units


def covariance_at_mode(
    density: Callable[[FloatArray], tuple[FloatArray, FloatArray]], origin: FloatArray, guess: FloatArray
) -> FloatArray:
    """Return the covariance, shape (n, n).

    Parameters
    ----------
    density : callable
        The log density and its gradient at a point of shape (n,), up to a constant.
    origin : array, shape (n,)
        Where the search begins.
    guess : array, shape (n, n)
        S S', positive definite.
    """
    S = np.linalg.cholesky(guess)

    def descent(y: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = density(origin + S @ y)
        return -float(value), -(S.T @ gradient)

    each = _STEP * np.eye(len(origin))
    for _ in range(_ROUNDS):
        mode = optimize.minimize(descent, np.zeros(len(origin)), jac=True, method="L-BFGS-B").x
        H = np.stack([descent(mode + e)[1] - descent(mode - e)[1] for e in each]) / (2.0 * _STEP)
        if not np.isfinite(H).all():  # a mode so far off that the density overflows: the guess before it stays
            break
        curvature, Q = np.linalg.eigh(0.5 * (H + H.T))
        origin, S = origin + S @ mode, S @ (Q / np.sqrt(np.maximum(curvature, _LEAST)))
    return np.asarray(S @ S.T)
