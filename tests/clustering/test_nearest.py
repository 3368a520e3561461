"""Nearest centers by brute force, over more rows than a block."""

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

from bayescore.clustering.divergences import BLOCK, SQUARED_EUCLIDEAN, Nearest, divergences, pick

RNG = np.random.default_rng(6)
X, W = RNG.normal(size=(2 * BLOCK + 77, 3)), RNG.uniform(0.0, 2.0, 2 * BLOCK + 77)
CENTERS = RNG.normal(size=(5, 3))
BETWEEN = cdist(X, CENTERS, "sqeuclidean")


def test_distances_owners_and_total_follow_each_center():
    near = Nearest(X, W, SQUARED_EUCLIDEAN)
    assert near.total == pytest.approx(W.sum())
    for t, center in enumerate(CENTERS, 1):
        near.add(center)
        np.testing.assert_allclose(near.closest, BETWEEN[:, :t].min(axis=1), rtol=1e-12)
        np.testing.assert_array_equal(near.owner, BETWEEN[:, :t].argmin(axis=1))
        assert near.total == pytest.approx(W @ BETWEEN[:, :t].min(axis=1))
    near.add(CENTERS[0])  # as near as the first, which stays
    assert near.owner.max() == 4
    np.testing.assert_allclose(divergences(X, CENTERS, SQUARED_EUCLIDEAN), BETWEEN, rtol=1e-12)


def test_the_best_candidate_leaves_the_least_sum():
    near, rows = Nearest(X, W, SQUARED_EUCLIDEAN, CENTERS[:2]), np.array([5, 900, 1500, 2100])
    left = [W @ np.minimum(near.closest, cdist(X, X[[row]], "sqeuclidean")[:, 0]) for row in rows]
    assert near.best(rows) == rows[np.argmin(left)]
    assert near.best(rows[::-1]) == rows[np.argmin(left)]


@pytest.mark.statistical(rate=1e-6)
def test_rows_are_drawn_by_weight_times_distance():
    near, draws = Nearest(X, W, SQUARED_EUCLIDEAN, CENTERS[:1]), 40_000
    counts = np.bincount(near.draw(np.random.default_rng(1), draws), minlength=len(X))
    groups = np.arange(len(X)) % 40

    def chi2(masses):
        expected = draws * np.bincount(groups, masses) / masses.sum()
        return ((np.bincount(groups, counts) - expected) ** 2 / expected).sum()

    limit = stats.chi2(39).isf(1e-6)
    assert chi2(W * BETWEEN[:, 0]) < limit
    assert chi2(W * np.sqrt(BETWEEN[:, 0])) > limit


def test_positions_without_mass_are_never_picked():
    assert set(pick(np.array([0.0, 1.0, 0.0, 2.0, 0.0]), np.random.default_rng(1), 500).tolist()) == {1, 3}
