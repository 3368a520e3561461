r"""Calibration of weights: the smallest change of given weights that meets known totals.

With u the factors on the weights, A the rows' shares of the q totals b,

.. math:: \min_{u \ge 0}\; \tfrac{\lambda}{2} |u - 1|^2 + \tfrac12 |A u - b|^2.

In the residual r = b - A u the problem is dual, smooth and convex, u = max(0, 1 + A'r / lambda); a semismooth
Newton method with backtracking solves it in some ten steps of cost q^2 m; in some forty where the totals are so far
apart in size that what keeps the Hessian positive definite in floating point (1e-13 of its largest entry) halves steps.

References
----------
Deville and Sarndal (1992), Calibration estimators in survey sampling, JASA 87.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from bayescore.types import FloatArray


@dataclass(frozen=True, eq=False)
class Fit:
    """Factors on the weights, shape (m,), the totals they miss, shape (q,), and the Newton steps taken."""

    factors: FloatArray
    residual: FloatArray
    n_steps: int


def fit_weights(shares: FloatArray, totals: FloatArray, ridge: float = 1e-4, max_steps: int = 200) -> Fit:
    """Return non-negative factors near 1 that meet the totals as well as they can.

    Parameters
    ----------
    shares : array, shape (q, m)
        Share of each row, at its given weight, in each total.
    totals : array, shape (q,)
        What ``shares @ factors`` should be.
    ridge : float
        lambda: how much a factor's distance from 1 counts.
    max_steps : int
        Newton steps; the residual tells what they left, and whoever uses the weights has to look.
    """
    q = len(totals)

    def dual(r: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        factors = np.maximum(0.0, 1.0 + shares.T @ r / ridge)
        value = 0.5 * float(r @ r) - float(totals @ r) + 0.5 * ridge * float(factors @ factors)
        return value, r - totals + shares @ factors, factors

    r = np.zeros(q)
    value, gradient, factors = dual(r)
    goal = 1e-10 * max(1.0, float(np.abs(totals).max()))
    for step in range(max_steps):
        if np.abs(gradient).max() <= goal:
            return Fit(factors, totals - shares @ factors, step)
        active = shares[:, factors > 0.0]
        hessian = active @ active.T / ridge
        hessian[np.diag_indices(q)] += 1.0 + 1e-13 * hessian.max()  # positive definite in spite of rounding
        direction = -linalg.cho_solve(linalg.cho_factor(hessian, lower=True), gradient)
        slope = float(gradient @ direction)
        if -slope <= 1e-11 * max(1.0, abs(value)):  # less than 1e-5 of a residual is left, and rounding may hide it
            return Fit(factors, totals - shares @ factors, step)
        length = 1.0
        while True:
            there = dual(r + length * direction)
            if there[0] <= value + 1e-4 * length * slope + 1e-13 * abs(value):
                break
            length *= 0.5
            if length < 1e-12:
                return Fit(factors, totals - shares @ factors, step)
        r = r + length * direction
        value, gradient, factors = there
    return Fit(factors, totals - shares @ factors, max_steps)
