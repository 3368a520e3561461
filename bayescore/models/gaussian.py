"""Normal approximations: the factor of a covariance that is given by its inverse.

L with L L' = H^-1 is unique up to a rotation: samplers take the lower triangular one, calibration the upper one.
Nothing is inverted and then factorised again, and neither minds columns of different scales.
"""

import numpy as np
from scipy import linalg

from bayescore.types import FloatArray
from bayescore.validation import DataError


def factor_of_inverse(precision: FloatArray) -> FloatArray:
    """Return lower triangular L with L L' the inverse of `precision`, shape (D, D).

    With the coordinates in reverse order, precision = K K' and the inverse is K'^-1 K^-1, of which K'^-1, upper
    triangular, is lower triangular in the first order.

    Raises
    ------
    DataError
        If it is not positive definite in floating point.
    """
    reverse = _cholesky(precision[::-1, ::-1])
    scale = linalg.solve_triangular(reverse, np.eye(len(precision)), lower=True).T[::-1, ::-1]
    return np.ascontiguousarray(scale, dtype=np.float64)


def upper_factor_of_inverse(precision: FloatArray) -> FloatArray:
    """Return upper triangular L with L L' the inverse of `precision`, shape (D, D).

    Raises
    ------
    DataError
        If it is not positive definite in floating point.
    """
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
