r"""Calibration of weights: the smallest change of given weights that meets known totals.

With u the factors on the weights, A the rows' shares of the q totals b,

.. math:: \min_{u \ge 0}\; \tfrac{\lambda}{2} |u - 1|^2 + \tfrac12 |A u - b|^2.

In the residual r = b - A u the problem is dual, smooth and convex, u = max(0, 1 + A'r / lambda); a semismooth
Newton method with backtracking solves it in some ten steps. It takes some forty where the totals are so far apart in
size that what keeps the Hessian positive definite in floating point (1e-13 of its largest entry) halves steps.
The Hessian is A A' / lambda over the rows with u > 0: q^2 m operations at the first step, later ones for the rows that
come and go alone, and q^3 / 3 each time. Other totals of the same rows start from the last residual.

References
----------
Deville and Sarndal (1992), Calibration estimators in survey sampling, JASA 87.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from bayescore.data.passes.threads import available_cores
from bayescore.types import FloatArray, IntArray

_STRETCH = 1024  # rows of a sum of products: fixed, so that bits do not depend on the number of threads


@dataclass(frozen=True, eq=False)
class Fit:
    """Factors on the weights, shape (m,), the totals they miss, shape (q,), the dual point, and the Newton steps."""

    factors: FloatArray
    residual: FloatArray
    dual: FloatArray
    n_steps: int


def fit_weights(
    shares: FloatArray,
    totals: FloatArray,
    ridge: float = 1e-4,
    max_steps: int = 200,
    *,
    start: FloatArray | None = None,
) -> Fit:
    """Return non-negative factors near 1, shape (m,), with ``shares @ factors`` as near `totals` as they can be.

    shares: (q, m), of each row at its given weight in each total. ridge is lambda: how much a factor's distance from 1
    counts. The residual tells what `max_steps` Newton steps left. start is the `dual` of a fit to like totals.
    """
    q = len(totals)

    def dual(r: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        factors = np.maximum(0.0, 1.0 + r @ shares / ridge)
        value = 0.5 * float(r @ r) - float(totals @ r) + 0.5 * ridge * float(factors @ factors)
        return value, r - totals + shares @ factors, factors

    r = np.zeros(q) if start is None else start
    products = _Products(shares)
    value, gradient, factors = dual(r)
    goal = 1e-10 * max(1.0, float(np.abs(totals).max()))
    for step in range(max_steps):
        if np.abs(gradient).max() <= goal:
            return Fit(factors, totals - shares @ factors, r, step)
        hessian = products.over(factors > 0.0) / ridge
        hessian[np.diag_indices(q)] += 1.0 + 1e-13 * hessian.max()  # positive definite in spite of rounding
        factor = linalg.cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
        direction = -linalg.cho_solve(factor, gradient, check_finite=False)
        slope = float(gradient @ direction)
        if -slope <= 1e-11 * max(1.0, abs(value)):  # less than 1e-5 of a residual is left, and rounding may hide it
            return Fit(factors, totals - shares @ factors, r, step)
        length = 1.0
        while True:
            there = dual(r + length * direction)
            if there[0] <= value + 1e-4 * length * slope + 1e-13 * abs(value):
                break
            length *= 0.5
            if length < 1e-12:
                return Fit(factors, totals - shares @ factors, r, step)
        r = r + length * direction
        value, gradient, factors = there
    return Fit(factors, totals - shares @ factors, r, max_steps)


class _Products:
    """A A' over some of the rows, brought up to date by those that come and go."""

    def __init__(self, shares: FloatArray) -> None:
        self._shares = shares
        self._active = np.zeros(shares.shape[1], dtype=bool)
        self._total = np.zeros((len(shares), len(shares)))

    def over(self, active: NDArray[np.bool_]) -> FloatArray:
        """Return the sum over the rows in `active`, shape (m,)."""
        come, gone = np.flatnonzero(active & ~self._active), np.flatnonzero(self._active & ~active)
        if len(come) + len(gone) < 0.5 * np.count_nonzero(active):
            self._total += self._sum(come)
            self._total -= self._sum(gone)
        else:
            self._total = self._sum(np.flatnonzero(active))
        self._active = active
        return self._total

    def _sum(self, rows: IntArray) -> FloatArray:
        def stretch(start: int) -> FloatArray:
            part = self._shares[:, rows[start : start + _STRETCH]]
            return np.asarray(part @ part.T)

        total = np.zeros_like(self._total)
        with ThreadPoolExecutor(available_cores()) as pool:
            for part in pool.map(stretch, range(0, len(rows), _STRETCH)):
                total += part
        return total
