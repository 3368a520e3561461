"""The two triangular factors of a covariance given by its inverse."""

import numpy as np
import pytest

from bayescore.models.laplace import factor_of_inverse, upper_factor_of_inverse
from bayescore.validation import DataError


@pytest.mark.parametrize("scales", [np.ones(5), 10.0 ** np.array([-7.0, 0.0, 3.0, 7.0, -2.0])], ids=["one", "wild"])
@pytest.mark.parametrize(("factor_of", "shape"), [(factor_of_inverse, np.tril), (upper_factor_of_inverse, np.triu)])
def test_the_factor_times_its_transpose_is_the_inverse_whatever_the_scales(factor_of, shape, scales):
    rows = np.random.default_rng(3).normal(size=(40, 5))
    precision = rows.T @ rows
    L = factor_of(precision * scales * scales[:, None])
    np.testing.assert_array_equal(L, shape(L))
    round_ = L * scales[:, None]  # in the units of the first precision
    np.testing.assert_allclose(round_ @ round_.T, np.linalg.inv(precision), rtol=1e-10, atol=1e-14)
    assert np.abs(round_ @ round_.T - np.linalg.inv(precision + 1e-6 * np.eye(5))).max() > 1e-12


@pytest.mark.parametrize("factor_of", [factor_of_inverse, upper_factor_of_inverse])
def test_dependent_columns_are_refused(factor_of):
    rows = np.random.default_rng(3).normal(size=(40, 2))
    rows = np.column_stack([rows, rows[:, 0] - rows[:, 1]])
    precision = rows.T @ rows - 1e-9 * np.eye(3)
    with pytest.raises(DataError, match="standardise the columns, or drop one"):
        factor_of(precision)
