r"""Affine transport: draws of one posterior moved to where another one has its mode and its scales.

With modes t~ and t and minus the Hessians H~ and H of two log densities there,

.. math:: \theta' = t + A (\theta - \tilde t), \qquad A = F (F' \tilde H F)^{1/2} F^{-1}, \qquad F F' = H^{-1}.

A turns a normal density with precision H~ into one with precision H; of all maps that do, the symmetric root is the one
nearest the identity in the scale of the target. Moved draws have the mode, scales and correlations that the target's
two terms say, exactly, and keep the shape (skewness, tails) that they had; where the Hessian is taken a step from the
mode, that is to first order. What is left is for importance weights,

.. math:: \log w = \log p(\theta') - \log \tilde p(\theta) + \text{constant},

whose spread no longer grows with the number of columns. When to use it: whenever draws of a coreset's posterior are
judged by, or corrected to, the full data's.

References
----------
Meng and Schilling (2002), Warp bridge sampling, JCGS 11, 552-586. Paananen, Piironen, Bürkner and Vehtari (2021),
Implicitly adaptive importance sampling, Statistics and Computing 31, 16.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from bayescore.models.gaussian import factor_of_inverse
from bayescore.types import FloatArray
from bayescore.validation import DataError


@dataclass(frozen=True, eq=False)
class Transport:
    """The map theta -> end + matrix (theta - start).

    Parameters
    ----------
    start, end : arrays, shape (D,)
        The mode that draws come from, and the one that they are moved to.
    matrix : array, shape (D, D)
        A, with positive determinant.
    """

    start: FloatArray
    end: FloatArray
    matrix: FloatArray

    @classmethod
    def between(
        cls, start: FloatArray, own_precision: FloatArray, end: FloatArray, precision: FloatArray
    ) -> "Transport":
        """Return the map from a mode and minus the Hessian there, shapes (D,) and (D, D), to another pair.

        Raises
        ------
        DataError
            If one of the two is not positive definite in floating point.

        Examples
        --------
        >>> import numpy as np
        >>> move = Transport.between(np.zeros(1), np.eye(1), np.ones(1), 4.0 * np.eye(1))
        >>> move(np.array([[0.0], [2.0]])).ravel().tolist()
        [1.0, 2.0]
        """
        F = factor_of_inverse(precision)
        values, vectors = linalg.eigh(F.T @ own_precision @ F)
        if not values[0] > 0.0:
            raise DataError(f"minus the Hessian is not positive definite: its smallest eigenvalue is {values[0]:.3g}")
        root = (vectors * np.sqrt(values)) @ vectors.T
        matrix = linalg.solve_triangular(F, (F @ root).T, trans="T", lower=True).T  # F root F^-1
        return cls(np.asarray(start), np.asarray(end), np.ascontiguousarray(matrix))

    def __call__(self, draws: FloatArray) -> FloatArray:
        """Return moved draws, shape (..., D)."""
        return np.asarray(self.end + (draws - self.start) @ self.matrix.T)

    @property
    def inverse(self) -> "Transport":
        """The way back."""
        return Transport(self.end, self.start, np.asarray(linalg.inv(self.matrix)))
