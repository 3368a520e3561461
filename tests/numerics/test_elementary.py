"""The exponential that vectorises, against libm's."""

import numpy as np

from bayescore.numerics.elementary import ATANH, exp_minus


def test_exp_minus_is_exact_to_rounding():
    x = np.concatenate([[0.0, 1e-300, 0.5 * np.log(2.0)], np.linspace(0.0, 700.0, 100_003)])
    found, expected = np.array([exp_minus(each) for each in x]), np.exp(-x)
    np.testing.assert_allclose(found, expected, rtol=4.5e-16 * 2, atol=0)
    assert np.abs(found / expected - 1).max() < 1e-15


def test_the_series_is_that_of_atanh():
    s = np.linspace(0.01, 1.0 / 3.0, 50)
    np.testing.assert_allclose(s * np.polyval(ATANH, s**2), np.arctanh(s), rtol=1e-15)
