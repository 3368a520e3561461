"""Exact means, masses and cost of a clustering, and the seeding of its centers."""

import numpy as np
import pytest

from bayescore.clustering.assignment import assign, seed_centers
from bayescore.clustering.divergences import distinct_rows
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.types import WeightedData
from bayescore.validation import DataError


def problem(n=700, n_features=4, seed=0, weighted=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) * np.geomspace(0.1, 30.0, n_features)
    weights = rng.uniform(0.1, 9.0, n) if weighted else None
    source = as_source(X, rng.integers(0, 2, n), weights=weights)
    return source, X * source.y[:, None], source.weights, rng.normal(size=(5, n_features)) * 3.0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_features", [1, 4, 33])
def test_means_masses_and_cost_match_numpy(weighted, n_features):
    source, Z, w, centers = problem(n_features=n_features, weighted=weighted)
    found = assign(Dataset(source), centers)
    squares = ((Z[:, None, :] - centers) ** 2).sum(axis=2)
    which = squares.argmin(axis=1)
    kept = np.unique(which)
    np.testing.assert_array_equal(found.centers, centers[kept])
    np.testing.assert_array_equal(found.counts, np.bincount(which)[kept])
    np.testing.assert_allclose(found.masses, [w[which == i].sum() for i in kept], rtol=1e-9)
    means = [np.average(Z[which == i], axis=0, weights=w[which == i]) for i in kept]
    np.testing.assert_allclose(found.means, means, rtol=1e-8, atol=1e-8)
    assert found.cost == pytest.approx(np.average(squares.min(axis=1), weights=w), rel=1e-8)
    assert found.counts.sum() == len(Z)


def test_the_result_is_the_same_for_all_cuts_and_threads():
    source, _, _, centers = problem()
    whole = assign(Dataset(source), centers)
    for step, workers in ((1, 2), (7, 1), (128, 5), (129, 2), (700, 1)):
        other = assign(Dataset(source, block_rows=step, cores=workers), centers)
        for name in ("centers", "means", "masses", "counts"):
            np.testing.assert_array_equal(getattr(other, name), getattr(whole, name))
        assert other.cost == whole.cost


def test_clusters_without_rows_drop_out():
    source = as_source([[0.0], [0.1], [5.0]], [1, 1, 0], weights=[1.0, 2.0, 3.0])  # signed: 0, 0.1, -5
    found = assign(Dataset(source), np.array([[100.0], [0.0], [-5.0], [-5.0]]))
    np.testing.assert_array_equal(found.centers, [[0.0], [-5.0]])  # of equal centers the first
    np.testing.assert_allclose(found.means, [[0.2 / 3.0], [-5.0]], rtol=1e-9)
    np.testing.assert_array_equal(found.masses, [3.0, 3.0])
    assert found.cost == pytest.approx(0.02 / 6.0, abs=105.0**2 * 2.0**-35)  # fixed point of the farthest reach


def test_a_cluster_of_vanishing_weight_drops_out_instead_of_dividing_by_zero():
    source = as_source([[0.0], [0.1], [50.0]], [1, 0, 1], weights=[1e12, 1e12, 1.0])
    found = assign(Dataset(source), np.array([[0.0], [50.0]]))
    np.testing.assert_array_equal(found.centers, [[0.0]])
    assert np.isfinite(found.means).all()


def rows_of(Z, weights=None):
    n = len(Z)
    return WeightedData(
        np.asarray(Z, dtype=float), np.ones(n, dtype=np.int8), np.ones(n) if weights is None else weights, np.arange(n)
    )


def test_distinct_rows_are_counted_no_further_than_needed():
    Z = np.array([[0.0, 1.0], [-0.0, 1.0], [2.0, 1.0], [3.0, 1.0]])
    assert distinct_rows(Z, 10) == 3
    assert distinct_rows(Z, 2) == 2
    assert distinct_rows(np.asfortranarray(Z), 10) == 3


def test_seeds_are_distinct_rows_and_repeat():
    rng = np.random.default_rng(1)
    Z = np.repeat(rng.normal(size=(9, 2)), 30, axis=0)
    for seed in range(5):
        centers = seed_centers(rows_of(Z), 9, np.random.default_rng(seed))
        assert {tuple(c) for c in centers} == {tuple(z) for z in Z}
        np.testing.assert_array_equal(centers, seed_centers(rows_of(Z), 9, np.random.default_rng(seed)))


def test_seeding_minds_weights():
    Z = np.array([[0.0], [1.0], [2.0]])
    first = [seed_centers(rows_of(Z, np.array([1e9, 1.0, 1.0])), 1, np.random.default_rng(s))[0, 0] for s in range(20)]
    assert first == [0.0] * 20  # the others have probability 1e-9 each


def test_too_few_distinct_rows_are_an_error_with_the_remedy():
    with pytest.raises(DataError, match=r"clusters=3, but the data have 2 distinct signed rows; ask for clusters=2"):
        seed_centers(rows_of([[0.0], [1.0], [1.0]]), 3, np.random.default_rng(0))
