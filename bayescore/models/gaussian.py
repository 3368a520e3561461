"""Normal approximations: the factor of a covariance that is given by its inverse."""

import numpy as np
from scipy import linalg

from bayescore.types import FloatArray
from bayescore.validation import DataError


def factor_of_inverse(precision: FloatArray) -> FloatArray:
    """Return lower triangular L with L L' the inverse of `precision`, shape (D, D).

    With the coordinates in reverse order, precision = K K' and the inverse is K'^-1 K^-1, of which K'^-1, upper
    triangular, is lower triangular in the first order: nothing is inverted and then factorised again.

    Raises
    ------
    DataError
        If it is not positive definite in floating point.
    """
    try:
        reverse = linalg.cholesky(precision[::-1, ::-1], lower=True)
    except linalg.LinAlgError as error:
        raise DataError(
            "X has columns that are nearly collinear, the posterior's precision is not positive definite in floating "
            "point: standardise the columns, or drop one of two collinear ones"
        ) from error
    scale = linalg.solve_triangular(reverse, np.eye(len(precision)), lower=True).T[::-1, ::-1]
    return np.ascontiguousarray(scale, dtype=np.float64)
