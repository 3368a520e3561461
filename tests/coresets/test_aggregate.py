"""Merging identical rows loses nothing, whatever the blocks and even when hashes collide."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from bayescore.coresets.aggregate import CellMoments, aggregate
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.families.family import check_family
from bayescore.numerics import identical_rows as module
from tests.conftest import make_rows
from tests.cuts import Recut

N = 2000


def data(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return (rng.random((n, 5)) < [0.5, 0.3, 0.1, 0.02, 0.5]).astype(float), rng.integers(0, 2, n)


def test_weights_are_counts_in_order_of_first_appearance():
    X, y = data()
    rows = aggregate(Dataset(as_source(X, y)))
    keys = [(*x, s) for x, s in zip(X.tolist(), y.tolist(), strict=True)]
    counts = Counter(keys)  # remembers the order
    assert [(*x, int(s > 0)) for x, s in zip(rows.X.tolist(), rows.y.tolist(), strict=True)] == list(counts)
    np.testing.assert_array_equal(rows.weights, list(counts.values()))
    np.testing.assert_array_equal(rows.index, [keys.index(key) for key in counts])
    assert len(rows) < 2**6 + 1


@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_the_log_likelihood_is_that_of_all_rows(family):
    X, y = data()
    w = np.random.default_rng(1).uniform(0.1, 3.0, N)
    source = as_source(X, y, weights=w)
    rows, model = aggregate(Dataset(source)), check_family(family)
    for seed in range(5):
        beta = np.random.default_rng(seed).normal(size=5) * 3.0
        full = w @ model.log_p(X @ beta, source.y)
        assert rows.weights @ model.log_p(rows.X @ beta, rows.y) == pytest.approx(full, rel=1e-12)


def test_cuts_and_threads_do_not_matter_even_for_real_weights():
    X, y = data()
    source = as_source(X, y, weights=np.random.default_rng(1).uniform(0.1, 3.0, N))
    whole = aggregate(Dataset(source))
    for step, workers in ((1, 2), (7, 1), (100, 6), (1999, 2), (333, 3)):
        part = aggregate(Dataset(Recut(source, step), cores=workers))
        for name in ("X", "y", "weights", "index"):
            np.testing.assert_array_equal(getattr(part, name), getattr(whole, name))


def test_a_whole_weight_equals_that_many_copies_exactly():
    X, y = data(n=300)
    w = np.random.default_rng(2).integers(1, 9, 300)
    once = aggregate(Dataset(as_source(X, y, weights=w)))
    copies = aggregate(Dataset(as_source(np.repeat(X, w, axis=0), np.repeat(y, w))))
    for name in ("X", "y", "weights"):
        np.testing.assert_array_equal(getattr(once, name), getattr(copies, name))


def test_minus_zero_is_zero_but_close_numbers_and_labels_differ():
    X = [[0.0, 1.0], [-0.0, 1.0], [0.0, np.nextafter(1.0, 2.0)], [0.0, 1.0], [5e-324, 1.0]]
    rows = aggregate(Dataset(as_source(X, [1, 1, 1, 0, 1])))
    np.testing.assert_array_equal(rows.index, [0, 2, 3, 4])
    np.testing.assert_array_equal(rows.weights, [2, 1, 1, 1])
    assert not np.signbit(rows.X).any()


@pytest.mark.parametrize("step", [1, 5, 1000])
def test_none_when_more_than_the_limit_are_distinct(step):
    X, y = np.repeat(np.arange(30.0), 2)[:, None], np.tile([0, 0, 1, 1], 15)
    dataset = Dataset(as_source(X, y), block_rows=step)
    assert len(aggregate(dataset, 30)) == 30
    assert aggregate(dataset, 29) is None
    assert aggregate(dataset, 0) is None


@pytest.mark.parametrize("copies", [1, 2])  # 2: rows of counts
def test_a_column_of_measurements_needs_no_hashes(monkeypatch, copies):
    X, y = data()
    X = np.repeat(np.column_stack([X, np.random.default_rng(2).random(N)]), copies, axis=0)
    y = np.repeat(y, copies)
    assert len(aggregate(Dataset(as_source(X, y)), N)) == N
    monkeypatch.setattr(module, "hash_rows", None)
    assert aggregate(Dataset(as_source(X, y)), 900) is None
    with pytest.raises(TypeError):  # a column of few values says nothing of the rows
        aggregate(Dataset(as_source(X[:, :5], y)), 900)


def test_many_distinct_rows_outgrow_the_first_table():
    X = np.tile(np.random.default_rng(0).normal(size=(3000, 2)), (2, 1))
    rows = aggregate(Dataset(as_source(X, np.tile(np.arange(3000) % 2, 2)), block_rows=700))
    np.testing.assert_array_equal(rows.index, np.arange(3000))
    np.testing.assert_array_equal(rows.weights, np.full(3000, 2.0))


@pytest.mark.parametrize("step", [1, 50, N], ids=["found across blocks", "found in both", "found within a block"])
@pytest.mark.parametrize("what", ["rows", "labels"])
def test_colliding_hashes_are_noticed_and_another_salt_is_taken(monkeypatch, step, what):
    X, y = data()
    exact, true_hash, salts = aggregate(Dataset(as_source(X, y))), module.hash_rows, []

    def colliding(bits, labels, salt, out):
        salts.append(int(salt))
        true_hash(bits, labels, salt, out)
        if salt == 0 and what == "labels":  # the two labels of one row share their first hash
            blind = out.copy()
            true_hash(bits, np.ones_like(labels), salt, blind)
            out[:, 0] = blind[:, 0]
        elif salt == 0:  # different rows do
            out[:, 0] %= np.uint64(3)
        elif salt == 1:
            out[:, 0] = 0

    monkeypatch.setattr(module, "hash_rows", colliding)
    rows = aggregate(Dataset(as_source(X, y), block_rows=step))
    assert set(salts) == {0, 1, 2}
    for name in ("X", "y", "weights", "index"):
        np.testing.assert_array_equal(getattr(rows, name), getattr(exact, name))


@pytest.mark.parametrize("order", ["rows first", "none first"])
def test_sums_of_no_rows_add_nothing_to_cells_of_numbers(order):
    """A block may have no rows of a level: neither weights, means, triangles nor the smallest and largest y move."""
    rows = make_rows(40)
    rows = replace(rows, offset=np.linspace(-3.0, 2.0, 40), group=(np.arange(40) % 3)[:, None])
    some, none = (CellMoments.of(part, apart=False) for part in (rows, rows.take(slice(0))))
    total = some + none if order == "rows first" else none + some
    assert total.ends.tolist() == [-2.0, 3.0]
    for name in ("codes", "weight", "mean"):
        np.testing.assert_array_equal(getattr(total, name), getattr(some, name))
    squares = [np.einsum("cki,ckj->ij", each.triangle, each.triangle) for each in (total, some)]
    np.testing.assert_allclose(*squares, rtol=1e-12)
