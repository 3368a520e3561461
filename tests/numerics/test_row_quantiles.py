"""Quantiles of rows of draws: those of NumPy, to rounding."""

import numpy as np
import pytest

from bayescore.numerics.chains import row_quantiles

N_DRAWS = 4001
KINDS = {
    "normal": lambda rng, n: rng.normal(size=(n, N_DRAWS)),
    "heavy": lambda rng, n: rng.standard_cauchy(size=(n, N_DRAWS)) ** 3,
    "ties": lambda rng, n: rng.integers(0, 5, (n, N_DRAWS)).astype(float),
    "equal": lambda rng, n: np.repeat(rng.normal(size=(n, 1)), N_DRAWS, axis=1),
    "tiny": lambda rng, n: 1e-310 * rng.random((n, N_DRAWS)),
    "huge": lambda rng, n: 1.7e308 * rng.uniform(-1, 1, (n, N_DRAWS)),  # their range is infinite
    "many rows": lambda rng, n: rng.normal(size=(10 * n, N_DRAWS)),  # more than are sorted at a time
    "one outlier": lambda rng, n: np.append(np.full((n, N_DRAWS - 1), 0.5), rng.normal(size=(n, 1)), axis=1),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("probs", [(0.025, 0.975), (0.0, 1.0), (0.5,), (1e-5, 0.3, 0.9999)])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_they_are_numpy_s(kind, probs):
    draws = KINDS[kind](np.random.default_rng(3), 12)
    own = draws.copy()
    found = row_quantiles(draws, np.array(probs))
    np.testing.assert_allclose(found, np.quantile(draws, probs, axis=1), rtol=1e-12, atol=1e-15)
    assert np.array_equal(draws, own)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 17, N_DRAWS - 1])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_rows_that_are_not_finite_are_numpy_s(value, place):
    draws = KINDS["normal"](np.random.default_rng(4), 12)
    draws[5, place] = value
    found, expected = row_quantiles(draws, np.array([0.025, 0.975])), np.quantile(draws, [0.025, 0.975], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.isnan(found[:, 5]).all() == np.isnan(value)


def test_they_take_rows_of_any_layout():
    draws = KINDS["normal"](np.random.default_rng(5), 12)
    found = row_quantiles(np.asfortranarray(draws), np.array([0.2]))
    np.testing.assert_allclose(found, np.quantile(draws, [0.2], axis=1), rtol=1e-12)
