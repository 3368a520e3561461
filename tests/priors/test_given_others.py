"""The sd of a column given the others, which the default prior goes by."""

import numpy as np
import pytest

from bayescore.data.passes import Comoments
from bayescore.priors.groups import conditional_sds, prior_on_columns, sds_from_comoments
from bayescore.types import WeightedData

N = 3000
RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(2, N))
YEAR = RNG.integers(1980, 2020, N).astype(float)
DUMMIES = (RNG.integers(0, 6, N)[:, None] == np.arange(6)).astype(float)


def rows_of(X, w=None):
    return WeightedData(X, np.ones(N, np.int8), np.ones(N) if w is None else w, np.arange(N))


def remainder(X, d, w):
    """By least squares on the other columns and a constant, centred first so that it is accurate."""
    Z = (X - np.average(X, axis=0, weights=w)) / X.std(axis=0)
    others, root = np.delete(Z, d, axis=1), np.sqrt(w)[:, None]
    coef = np.linalg.lstsq(others * root, Z[:, d] * root[:, 0], rcond=1e-15)[0]
    return np.sqrt(np.average((Z[:, d] - others @ coef) ** 2, weights=w)) * X[:, d].std()


def without_intercept(X):
    found = Comoments.of(rows_of(X))
    return prior_on_columns(found.mean, sds_from_comoments(found, constant=False), None)


@pytest.mark.parametrize(
    "X",
    [
        np.column_stack([A, B]),
        np.column_stack([A, A + 0.01 * B, YEAR]),
        np.column_stack([YEAR, YEAR**2, A]),
        np.column_stack([A, 50.0 + 10.0 * B, A * (50.0 + 10.0 * B)]),
        np.column_stack([DUMMIES[:, 1:], A]),
    ],
    ids=["uncorrelated", "correlated", "a raw polynomial", "an interaction", "one-hot"],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_what_a_regression_on_the_others_leaves(X, weighted):
    w = RNG.uniform(0.5, 2.0, N) if weighted else np.ones(N)
    found = conditional_sds(Comoments.of(rows_of(X, w)).covariance)
    expected = [remainder(X, d, w) for d in range(X.shape[1])]
    np.testing.assert_allclose(found, expected, rtol=1e-3)  # four digits of the share


def test_columns_that_are_combinations_of_others_have_their_own_sd():
    X = np.column_stack([A, B, A + B, YEAR])
    found = conditional_sds(Comoments.of(rows_of(X)).covariance)
    np.testing.assert_allclose(found[:3], X.std(axis=0)[:3], rtol=1e-12)
    assert found[3] == pytest.approx(remainder(X[:, [0, 1, 3]], 2, np.ones(N)), rel=1e-3)  # which is none
    every = conditional_sds(Comoments.of(rows_of(DUMMIES)).covariance)
    np.testing.assert_allclose(every, DUMMIES.std(axis=0), rtol=1e-12)


def test_sums_do_not_depend_on_the_cut_beyond_rounding():
    rows = rows_of(np.column_stack([YEAR, YEAR**2]))
    whole, parts = Comoments.of(rows), [Comoments.of(rows.take(slice(at, at + 700))) for at in range(0, N, 700)]
    np.testing.assert_allclose(sum(parts[1:], parts[0]).covariance, whole.covariance, rtol=1e-12)


def test_wide_rows_that_are_mostly_zeros_have_the_same_sums():
    X = np.zeros((N, 200))
    X[np.arange(N), RNG.integers(1, 200, N)] = 1.0
    X[:, 0] = YEAR
    np.testing.assert_allclose(Comoments.of(rows_of(X)).covariance, np.cov(X.T, bias=True), atol=1e-11)


def test_without_an_intercept_no_column_counts_as_wider_than_it_is():
    X = np.column_stack([YEAR, YEAR**2, A])
    curved = without_intercept(X).vector("sigma", 3)
    left = np.linalg.lstsq(X[:, [1, 2]], YEAR, rcond=None)[0]
    assert curved[0] == pytest.approx(2.5 / np.sqrt(np.mean((YEAR - X[:, [1, 2]] @ left) ** 2)), rel=1e-3)
    assert curved[2] == pytest.approx(2.5 / A.std(), rel=1e-3)
    one = without_intercept(YEAR[:, None])
    assert one.vector("sigma", 1)[0] == pytest.approx(2.5 / YEAR.std())
