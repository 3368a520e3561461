"""Where chains start. False-alarm rate: 1e-4 (one chi-squared test on each side)."""

import numpy as np
import pytest
from scipy import stats

from bayescore.models.laplace import find_mode
from bayescore.models.posterior import posterior
from bayescore.priors import Laplace, Normal
from bayescore.samplers.method import mode_and_precision, spread_starts
from bayescore.types import WeightedData

RNG = np.random.default_rng(7)
X = RNG.normal(size=(300, 3)) * [1.0, 50.0, 0.02]
ROWS = WeightedData(
    X, np.where(X[:, 0] + RNG.logistic(size=300) > 0, 1, -1).astype(np.int8), np.ones(300), np.arange(300)
)


def test_the_scale_is_that_of_laplace_s_approximation():
    target = posterior(ROWS, "logistic", Normal(0.0, 4.0))
    mode, precision = mode_and_precision(target, np.zeros(3))
    known = find_mode(target.terms, np.zeros(3))
    np.testing.assert_allclose(mode, known.beta)
    np.testing.assert_allclose(np.linalg.inv(precision), known.covariance, rtol=1e-8)
    _, scale = spread_starts(target, 1, np.random.SeedSequence(2))
    np.testing.assert_allclose(scale @ scale.T, known.covariance, rtol=1e-8)


def test_the_laplace_prior_counts_by_its_variance_not_by_its_kink():
    target = posterior(ROWS, "logistic", Laplace(0.0, 1e-3))  # all but rules the data out
    mode, precision = mode_and_precision(target, np.zeros(3))
    sd = np.sqrt(np.diagonal(np.linalg.inv(precision)))
    assert sd[0] == pytest.approx(np.sqrt(2.0) * 1e-3, rel=0.01)
    at_the_kink = 1.0 / np.sqrt(target.terms(mode).precision[0, 0])
    assert at_the_kink < 0.5 * sd[0]


@pytest.mark.statistical(rate=1e-6)
def test_starts_spread_one_and_a_half_times_as_wide():
    target = posterior(ROWS, "logistic", Normal(0.0, 4.0))
    starts, scale = spread_starts(target, 2000, np.random.SeedSequence(2))
    white = np.linalg.solve(scale, (starts - mode_and_precision(target, np.zeros(3))[0]).T)
    low, high = stats.chi2(white.size).ppf([5e-7, 1 - 5e-7])
    assert low < ((white / 1.5) ** 2).sum() < high
    assert not low < (white**2).sum() < high
    again, _ = spread_starts(target, 2000, np.random.SeedSequence(2))
    np.testing.assert_array_equal(starts, again)
