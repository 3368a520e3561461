r"""Derivatives of rows' log-likelihoods averaged over a normal density of the coefficients.

Over theta ~ N(t, C), C = LL', a row's predictor is eta_n + r_n x with x ~ N(0, 1) and r_n = \|x_n L\|, so that

.. math:: \mathrm E\, \nabla L = \sum_n w_n \mathrm E[s] x_n, \qquad
          -\mathrm E\, \nabla^2 L = \sum_n w_n \mathrm E[c] x_n x_n'

need averages over one number a row: Gauss and Hermite's rule of `N_NODES` nodes, exact for polynomials of degree 17.
Two log-likelihoods that agree in these two differ, over the density, by a function that is orthogonal to all of degree
2: mean and covariance of their posteriors agree to first order in what is left of their shapes. Totals at the mode do
not say that: of 200 normal columns they leave ten times the difference.

Reference: Opper and Archambeau (2009), The variational Gaussian approximation revisited, Neural Computation 21.
"""

from dataclasses import dataclass

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from bayescore.compiled import jit
from bayescore.coresets.calibration.pilot import LaplaceApproximation
from bayescore.data.passes.tiles import TILE
from bayescore.models.families import Family
from bayescore.models.posterior import WIDE_ROWS, Derivatives
from bayescore.types import FloatArray, LabelArray, WeightedData

N_NODES = 9
_LEAST = 1e-6  # sd of a predictor: below it what a row adds to fourth derivatives is nothing
_NODES, _MASSES = (np.ascontiguousarray(part) for part in hermegauss(N_NODES))
_MASSES /= _MASSES.sum()


@jit
def _averages(
    eta: FloatArray, sd: FloatArray, side: LabelArray, family: Family, rule: tuple[FloatArray, FloatArray, float]
) -> FloatArray:
    nodes, masses, least = rule
    out = np.zeros((4, len(eta)))
    tile, sides, terms, scratch = np.zeros(TILE), np.ones(TILE), np.empty((4, TILE)), np.empty((3, TILE))
    for start in range(0, len(eta), TILE):
        width = min(TILE, len(eta) - start)
        sides[:width] = side[start : start + width]
        for i in range(len(nodes)):
            for lane in range(width):  # nodes from far on the row's own side on, or a sum would depend on the labels
                tile[lane] = eta[start + lane] + sides[lane] * nodes[i] * sd[start + lane]
            family.derivatives(tile, sides, terms, scratch)
            for k in range(3):
                for lane in range(width):
                    out[k, start + lane] += masses[i] * terms[k + 1, lane]
            for lane in range(width):  # E f'(x) = E x f(x): the fourth derivative from the third
                out[3, start + lane] += masses[i] * (sides[lane] * nodes[i]) * terms[3, lane]
        for lane in range(width):
            out[3, start + lane] /= max(sd[start + lane], least)
    return out


def averages(eta: FloatArray, sd: FloatArray, side: LabelArray, family: Family) -> FloatArray:
    """Return E s, E c, E l''' and E l'''' over N(eta, sd^2), shape (4, n); eta, sd and side have shape (n,)."""
    return np.asarray(_averages(eta, sd, side, family, (_NODES, _MASSES, _LEAST)))


@dataclass(frozen=True, eq=False)
class GaussianDensity:
    """The density N(theta, LL') of `at`, over which rows' terms are averaged."""

    at: LaplaceApproximation

    def derivatives(self, rows: WeightedData) -> FloatArray:
        """Return w E s, w E c, w E l''' and w E l'''' of rows, shape (4, n)."""
        return self.averages(rows, *self.at.predictors(rows))

    def averages(self, rows: WeightedData, eta: FloatArray, squares: FloatArray) -> FloatArray:
        """Return the same, given the rows' predictors at theta and abs(xL)^2, shape (n,) each."""
        return averages(eta, np.sqrt(squares), rows.y, self.at.family) * rows.weights

    def terms(self, rows: WeightedData, known: FloatArray | None = None) -> Derivatives:
        """Return the averaged gradient and minus the averaged Hessian of rows; `known` are their `derivatives`.

        The value is left at 0: pseudo-rows meet the log-likelihood up to a constant.
        """
        score, curvature, _, _ = self.derivatives(rows) if known is None else known
        D = rows.n_features
        precision, scratch = np.zeros((D, D)), np.empty((min(len(rows), WIDE_ROWS), D))
        gradient = score @ rows.X
        for start in range(0, len(rows), WIDE_ROWS):
            part = rows.X[start : start + WIDE_ROWS]
            own = curvature[start : start + WIDE_ROWS, None]
            scaled = np.multiply(part, np.sqrt(np.abs(own)), out=scratch[: len(part)])
            precision += scaled.T @ scaled
            if (convex := own[:, 0] < 0.0).any():  # of a likelihood that is not log-concave
                precision -= 2.0 * scaled[convex].T @ scaled[convex]
        return Derivatives(0.0, gradient, precision)
