"""Theorem 29: U and V by their definitions, and the bound over runs. False-alarm rate 1e-4 a test."""

import math

import numpy as np
import pytest

from bayescore.clustering import ITAKURA_SAITO, KULLBACK_LEIBLER, SQUARED_EUCLIDEAN, k_variates, total_jensen
from bayescore.clustering.divergences import divergences
from bayescore.papers.nock import relaxed_guarantee
from bayescore.validation import DataError
from tests.clustering.helpers import exceeds

K = 4
JENSEN = total_jensen()


def rows(n=60):
    rng = np.random.default_rng(0)
    return np.exp(0.3 * rng.normal(size=(n, 2)) + rng.choice([-1.0, 1.0], (n, 2)))


def test_the_squared_distance_has_a_factor_of_two_and_no_more():
    between = relaxed_guarantee([[0.0], [1.0], [2.0]], [[1.0]], SQUARED_EUCLIDEAN)
    assert between.triangle == pytest.approx(2.0)  # the one in the middle
    assert between.symmetry == 1.0
    assert between.bound == pytest.approx(2.0 * 4.0 * 2.0 * 2.0 * 2.0)
    assert relaxed_guarantee(rows(), rows()[:K], SQUARED_EUCLIDEAN).triangle <= 2.0


@pytest.mark.parametrize("divergence", [JENSEN, KULLBACK_LEIBLER, ITAKURA_SAITO], ids=lambda d: d.name)
def test_the_constants_are_their_definitions(divergence):
    X = rows(20)
    reference = np.sqrt(X[:3] * X[3:6])
    D = lambda x, y: divergences(np.atleast_2d(x), np.atleast_2d(y), divergence)[0, 0]  # noqa: E731
    found = relaxed_guarantee(X, reference, divergence)
    triangle = max(D(x, z) / (D(x, y) + D(y, z)) for x in X for y in (*X, *reference) for z in X if D(x, z) > 0.0)
    symmetry = max(D(c, x) / D(x, c) for c in reference for x in X)
    assert found.triangle == pytest.approx(max(1.0, triangle))
    assert found.symmetry == pytest.approx(max(1.0, symmetry))
    assert found.optimal == pytest.approx(sum(min(D(x, c) for c in reference) for x in X))
    assert found.bound == pytest.approx(
        2.0 * found.triangle**2 * (1.0 + found.symmetry) * (2.0 + math.log(3.0)) * found.optimal
    )


def test_runs_stay_below_the_bound():
    X = rows()
    runs = [k_variates(X, K, divergence=JENSEN, random_state=seed) for seed in range(150)]
    best = min(runs, key=lambda run: run.cost)
    found = relaxed_guarantee(X, best.centers, JENSEN)
    assert found.optimal == pytest.approx(best.cost)
    costs = [run.cost for run in runs]
    assert not exceeds(costs, found.bound)
    assert exceeds(costs, 0.9 * best.cost)  # the control


def test_rows_stay_in_the_domain():
    with pytest.raises(DataError, match="needs positive entries"):
        relaxed_guarantee([[0.0, 1.0]], [[1.0, 1.0]], KULLBACK_LEIBLER)
