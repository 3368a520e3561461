"""Theorem 6: sigma by its definition, the stretching that it bounds, and the bound over runs."""

import math

import numpy as np
import pytest

from bayescore.clustering import ol_means
from bayescore.clustering.divergences import SQUARED_EUCLIDEAN, Nearest
from bayescore.papers.nock import minibatch_width, on_line_bound, stretching
from bayescore.validation import DataError
from tests.clustering.helpers import DATA, cost, exceeds, optimum

K = 5


def stream(seed=0):
    """Rows in random order in K minibatches."""
    X = np.random.default_rng(seed).permutation(DATA["blobs"])
    return X, np.arange(len(X)) * K // len(X)


def run(X, batch, seed):
    return ol_means([X[batch == t] for t in range(K)], K, random_state=seed)


def by_definition(X, batch, reference, centers):
    cluster = ((X[:, None] - reference) ** 2).sum(axis=2).argmin(axis=1)
    R2 = ((X[:, None] - X) ** 2).sum(axis=2).max()
    found = [X[cluster == i].var(axis=0).sum() / R2 for i in range(K)]
    for t in range(1, K):
        near = ((X[:, None] - centers[:t]) ** 2).sum(axis=2).min(axis=1)
        found += [near[(cluster == i) & (batch == t)].sum() / near[cluster == i].sum() for i in range(K)]
    return min(found)


@pytest.mark.parametrize("seed", range(3))
def test_sigma_is_its_definition_and_bounds_the_stretching(seed):
    X, batch = stream()
    reference, centers = optimum("blobs"), run(X, batch, seed)
    width = minibatch_width(X, batch, reference, centers)
    assert width == pytest.approx(by_definition(X, batch, reference, centers))
    assert 0.0 <= width <= 0.5
    for t in range(1, K):
        near = Nearest(X, np.ones(len(X)), SQUARED_EUCLIDEAN, centers[:t]).owner
        probed = np.where((batch == t)[:, None], X, centers[near])
        eta = stretching(X, probed, centers[:t], reference)
        assert width == 0.0 or eta <= 1.0 / (2.0 * width**2) - 1.0


def test_the_bound_is_its_formula_and_runs_stay_below():
    assert on_line_bound(3, 7.0, 0.25) == pytest.approx((2.0 + math.log(3.0)) * (4.0 + 2.0 / 0.0625) * 7.0)
    assert on_line_bound(3, 7.0, 0.0) == math.inf
    X, batch = stream()
    optimal = cost(X, optimum("blobs"))
    costs = [cost(X, run(X, batch, seed)) for seed in range(100)]
    assert not exceeds(costs, on_line_bound(K, optimal, 0.5))  # the least bound that there is
    assert exceeds(costs, 0.5 * optimal)  # the control


def test_what_cannot_be_used_is_named():
    X, batch = stream()
    with pytest.raises(DataError, match=r"batch has shape \(3,\); it must be \(300,\)"):
        minibatch_width(X, batch[:3], X[:K], X[:K])
    with pytest.raises(DataError, match="all rows of X coincide"):
        minibatch_width(np.ones((4, 2)), np.arange(4), np.ones((1, 2)), np.ones((1, 2)))
    with pytest.raises(ValueError, match="width"):
        on_line_bound(2, 1.0, -0.1)
