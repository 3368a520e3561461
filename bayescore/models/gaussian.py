r"""Factors of covariances given by their inverses, and the affine map between two normal densities.

L with L L' = H^-1 is unique up to a rotation: samplers take the lower triangular one, calibration the upper one.
Columns may have different scales.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from bayescore.types import FloatArray
from bayescore.validation import DataError


def factor_of_inverse(precision: FloatArray) -> FloatArray:
    """Return lower triangular L with L L' the inverse of `precision`, shape (D, D).

    With the coordinates in reverse order, precision = K K'. The inverse is K'^-1 K^-1, and K'^-1, upper triangular, is
    lower triangular in the first order. Raises `DataError` if the precision is not positive definite.
    """
    reverse = _cholesky(precision[::-1, ::-1])
    scale = linalg.solve_triangular(reverse, np.eye(len(precision)), lower=True).T[::-1, ::-1]
    return np.ascontiguousarray(scale, dtype=np.float64)


def upper_factor_of_inverse(precision: FloatArray) -> FloatArray:
    """Return upper triangular L with L L' the inverse of `precision`, shape (D, D), or raise `DataError`."""
    scale = 1.0 / np.sqrt(np.diagonal(precision))
    upper = _cholesky(precision * scale * scale[:, None], lower=False)
    return np.asarray(scale[:, None] * linalg.solve_triangular(upper, np.eye(len(scale))))


def _cholesky(precision: FloatArray, *, lower: bool = True) -> FloatArray:
    try:
        return np.asarray(linalg.cholesky(precision, lower=lower))
    except linalg.LinAlgError as error:
        raise DataError(
            "X has columns that are nearly collinear, the posterior's precision is not positive definite in floating "
            "point: standardise the columns, or drop one of two collinear ones"
        ) from error


@dataclass(frozen=True, eq=False)
class Transport:
    r"""The map theta -> end + A (theta - start) from draws of a posterior to the mode and scales of another, det A > 0.

    With modes t~ and t and minus the Hessians H~ and H of two log densities there,

    .. math:: \theta' = t + A (\theta - \tilde t), \qquad A = F (F' \tilde H F)^{1/2} F^{-1}, \qquad F F' = H^{-1}.

    A turns a normal density with precision H~ into one with precision H; of all maps that do, the symmetric root is the
    one nearest the identity in the scale of the target. Moved draws keep their skewness and tails. Importance weights
    p(theta') / p~(theta) correct those, and their spread does not grow with the number of columns. References: Meng and
    Schilling (2002), Warp bridge sampling, JCGS 11, 552-586; Paananen, Piironen, Bürkner and Vehtari (2021), Implicitly
    adaptive importance sampling, Statistics and Computing 31, 16.
    """

    start: FloatArray
    end: FloatArray
    matrix: FloatArray
    root: FloatArray  # F
    stretch: FloatArray  # eigenvalues of A, shape (D,): by these sds change, between the smallest and the largest

    @classmethod
    def between(
        cls, start: FloatArray, own_precision: FloatArray, end: FloatArray, precision: FloatArray
    ) -> "Transport":
        """Return the map from a mode and minus the Hessian there, shapes (D,) and (D, D), to another pair."""
        F = factor_of_inverse(precision)
        values, vectors = linalg.eigh(F.T @ own_precision @ F)
        if not values[0] > 0.0:
            raise DataError(f"minus the Hessian is not positive definite: its smallest eigenvalue is {values[0]:.3g}")
        stretch = np.sqrt(values)
        root = (vectors * stretch) @ vectors.T
        matrix = linalg.solve_triangular(F, (F @ root).T, trans="T", lower=True).T  # F root F^-1
        return cls(np.asarray(start), np.asarray(end), np.ascontiguousarray(matrix), F, stretch)

    def __call__(self, draws: FloatArray) -> FloatArray:
        """Return moved draws, shape (..., D)."""
        return np.asarray(self.end + (draws - self.start) @ self.matrix.T)

    @property
    def inverse(self) -> "Transport":
        """The way back."""
        matrix = np.asarray(linalg.inv(self.matrix))
        return Transport(self.end, self.start, matrix, matrix @ self.root, 1.0 / self.stretch)

    def from_moved(self, first: "Transport") -> "Transport":
        """Return the same map for draws that `first`, from the same posterior, has moved already."""
        matrix = self.matrix @ np.asarray(linalg.inv(first.matrix))
        white = linalg.solve_triangular(self.root, matrix @ self.root, lower=True)
        return Transport(first.end, self(first.start), matrix, self.root, linalg.svdvals(white))
