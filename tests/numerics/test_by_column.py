"""The sample that the pass of the checks draws: rows of both labels for every column, the same for any cut."""

import numpy as np
import pytest

from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.sources import as_source
from bayescore.numerics.sampling import DrawPlan, draw_by_column, hash_uniforms, sample_by_column

N = 40_000


def make(n=N, seed=0):
    """Return rows of a skewed column, a category of 60 rows and one of 5; 1% positive, with weights."""
    rng = np.random.Generator(np.random.PCG64(seed))
    X = np.column_stack([np.ones(n), rng.gamma(0.3, size=n), np.zeros(n), np.zeros(n)])
    X[rng.choice(n, 60, replace=False), 2] = 1.0
    X[rng.choice(n, 5, replace=False), 3] = 1.0
    return X, rng.random(n) < 0.01, rng.uniform(0.5, 4.0, n)


def sample(X, y, w, seed=3, **how):
    dataset = Dataset(as_source(X, y, weights=w), **how)
    draw_by_column(dataset, seed)
    return dataset, sample_by_column(dataset, seed)


def by_hand(X, y, w, u, plan):
    """Return the inclusion probabilities of all rows, 0 for those left out, from all keys at once."""
    pi = np.zeros(len(y))
    measures = np.column_stack([w, w[:, None] * X[:, plan.columns] ** 2])
    counts = [plan.by_weight] + [plan.by_column] * len(plan.columns)
    for side in (False, True):
        for measure, k in zip(measures.T, counts, strict=True):
            own = np.flatnonzero((y == side) & (measure > 0.0))
            key = u[own] / measure[own]
            tau = np.sort(key)[k] if len(own) > k else np.inf
            inside = own[key < tau]
            pi[inside] = np.maximum(pi[inside], np.minimum(1.0, tau * measure[inside]))
    # a row that is in by one measure counts by all of them
    for side in (False, True):
        for measure, k in zip(measures.T, counts, strict=True):
            own = np.flatnonzero((y == side) & (measure > 0.0))
            if len(own) > k:
                tau = np.sort(u[own] / measure[own])[k]
                pi[own] = np.where(pi[own] > 0.0, np.maximum(pi[own], np.minimum(1.0, tau * measure[own])), 0.0)
    return pi


def test_the_sample_is_that_of_all_keys_at_once():
    X, y, w = make()
    dataset, found = sample(X, y, w)
    plan = DrawPlan.of(dataset.design, N)
    want = by_hand(X, y, w, hash_uniforms(0, N, 3), plan)
    np.testing.assert_array_equal(found.rows.index, np.flatnonzero(want))
    np.testing.assert_allclose(found.inclusion, want[want > 0.0], rtol=1e-12)
    assert len(found.rows) < 2 * (plan.by_weight + 4 * plan.by_column) + 1
    assert found.inclusion.min() < 0.1


@pytest.mark.parametrize("how", [{"block_rows": 300}, {"block_rows": 4096}, {"cores": 1}, {"cores": 4}])
def test_the_sample_does_not_depend_on_the_cut(how):
    X, y, w = make()
    _, whole = sample(X, y, w)
    _, found = sample(X, y, w, **how)
    np.testing.assert_array_equal(found.rows.index, whole.rows.index)
    np.testing.assert_array_equal(found.inclusion, whole.inclusion)
    _, other = sample(X, y, w, seed=4)  # negative control
    assert set(other.rows.index) != set(whole.rows.index)


def test_rare_categories_and_labels_are_in():
    X, y, w = make()
    _, found = sample(X, y, w)
    assert set(np.flatnonzero(X[:, 2:].any(axis=1))) <= set(found.rows.index.tolist())
    positive = found.rows.y > 0
    assert positive.sum() >= min(y.sum(), DrawPlan.of(Design(("a", "b", "c", "d")), N).by_weight)


def test_the_sample_costs_no_pass_of_its_own_and_follows_the_design():
    X, y, w = make()
    dataset, found = sample(X[:, 1:], y, w)
    assert dataset.n_passes == 1
    _ = dataset.scan
    other = dataset.with_design(Design(dataset.design.names, intercept=True))
    again = sample_by_column(other, 3)
    assert other.n_passes == 1
    np.testing.assert_array_equal(again.rows.X[:, 1:], found.rows.X)
    np.testing.assert_array_equal(again.rows.X[:, 0], 1.0)


@pytest.mark.statistical(rate=1e-6)
def test_sums_over_the_sample_are_unbiased():
    """400 samples; the mean of each of three sums is within 5.2 of its standard errors: 3 x 2e-7 by normality.

    Negative control: the same rows with equal weights.
    """
    X, _, w = make(4000)
    y = np.random.default_rng(1).random(4000) < 0.1
    wanted = np.array([w.sum(), w @ X[:, 1], (w * X[:, 1])[y].sum()])
    found, wrong = [], []
    dataset = Dataset(as_source(X, y, weights=w))
    plan = DrawPlan(60, 20, np.array([1, 2, 3]))
    for seed in range(400):
        own = Dataset(dataset.rows)
        draw_by_column(own, seed, plan)
        rows, pi = own.sample
        x = rows.X[:, 1]
        values = np.column_stack([np.ones(len(rows)), x, x * (rows.y > 0)]) * rows.weights[:, None]
        found.append((values / pi[:, None]).sum(axis=0))
        wrong.append(values.sum(axis=0) * len(y) / len(rows))
    for sums, right in ((np.array(found), True), (np.array(wrong), False)):
        z = (sums.mean(axis=0) - wanted) / (sums.std(axis=0, ddof=1) / 20.0)
        assert (np.abs(z).max() < 5.2) == right
