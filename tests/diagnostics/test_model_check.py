"""Does the check see a model that does not fit? Rate: that of a binomial count of groups outside, 1e-6."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from bayescore.diagnostics.model_check import check_model
from bayescore.limits import PROB
from bayescore.samplers.posterior import read_posterior
from bayescore.types import WeightedData
from tests.known_posteriors import make_posterior


def rows(bend, n=4000, weights=None, seed=0, offset=None):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    eta = x + bend * (x**2 - 1.0) + (0.0 if offset is None else offset)
    y = np.where(rng.random(n) < expit(eta), 1, -1).astype(np.int8)
    w = np.ones(n) if weights is None else weights
    return WeightedData(np.column_stack([np.ones(n), x]), y, w, np.arange(n), offset=offset)


@pytest.fixture(scope="module")
def posterior():
    return read_posterior(make_posterior(1, mean=[0.0, 1.0], sd=0.03, features=("Intercept", "x")), "it")


@pytest.mark.statistical(rate=1e-6)
def test_groups_lie_outside_as_often_as_the_interval_says(posterior):
    outside = sum(check_model(posterior, rows(0.0, seed=seed)).outside for seed in range(20))
    assert outside <= stats.binom(200, 1.0 - PROB).isf(1e-6)
    assert check_model(posterior, rows(0.5)).outside >= 5  # a column squared is missing from the model


@pytest.mark.statistical(rate=1e-6)
def test_offsets_are_part_of_the_prediction(posterior):
    data = rows(0.0, offset=np.linspace(-2.0, 1.0, 4000))
    assert check_model(posterior, data).outside <= stats.binom(10, 1.0 - PROB).isf(1e-6)
    assert check_model(posterior, replace(data, offset=None)).outside >= 8


def test_shares_are_weighted_means(posterior):
    weights = np.random.default_rng(3).gamma(2.0, size=4000)
    data = rows(0.0, weights=weights)
    found = check_model(posterior, data)
    p = np.mean([expit(data.X @ beta) for beta in posterior.thinned(400).reshape(-1, 2)], axis=0)
    np.testing.assert_allclose(found.p, p, rtol=1e-12)
    assert len(found.predicted) == 10
    assert (np.diff(found.predicted) > 0).all()
    assert found.predicted.mean() == pytest.approx(np.average(p, weights=weights), abs=1e-3)
    assert found.observed.mean() == pytest.approx(np.average(data.y > 0, weights=weights), abs=1e-3)
    assert (found.low < found.predicted).all()
    assert (found.predicted < found.high).all()


def test_few_rows_of_large_weight_make_few_groups_and_wide_intervals(posterior):
    few = check_model(posterior, rows(0.0, n=100))
    many = check_model(posterior, rows(0.0, n=100_000))  # looked at in part
    assert len(few.predicted) == 2
    assert (few.high - few.low).min() > 3 * (many.high - many.low).max()
    assert len(many.p) == 20_000
