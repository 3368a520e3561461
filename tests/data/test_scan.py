"""The scan: range, weights and finiteness of all rows, whatever the blocks."""

import numpy as np
import pytest

from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.passes.scan import MAX_ENTRY, Scan
from bayescore.data.sources import as_source
from bayescore.validation import DataError

N = 1000


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def source_of(rng, weights=None):
    return as_source(rng.normal(size=(N, 3)), np.arange(N) % 2, weights=weights)


@pytest.mark.parametrize("step", [1, 13, 10**6])
@pytest.mark.parametrize("weighted", [False, True])
def test_scan_learns_the_range_and_the_total_weight(rng, step, weighted):
    w = rng.uniform(0.1, 5.0, N) if weighted else None
    source = source_of(rng, weights=w)
    found = Dataset(source, block_rows=step).scan
    np.testing.assert_array_equal(found.low, source.X.min(axis=0))
    np.testing.assert_array_equal(found.high, source.X.max(axis=0))
    np.testing.assert_array_equal(found.largest, np.abs(source.X).max(axis=0))
    assert found.n_rows == N
    assert found.largest_weight == (w.max() if weighted else 1.0)
    assert found.weight_total == pytest.approx(w.sum() if weighted else N, rel=1e-10)
    assert not found.constant.any()


def test_whole_weights_add_up_exactly(rng):
    w = rng.integers(1, 1000, N).astype(float)
    assert Dataset(source_of(rng, weights=w)).scan.weight_total == w.sum()


def test_constant_columns_are_found_and_a_design_moves_the_range(rng):
    X = np.column_stack([rng.normal(size=N), np.full(N, 0.1)])
    found = Dataset(as_source(X, np.arange(N) % 2)).scan
    assert found.constant.tolist() == [False, True]
    moved = found.through(Design(("a", "b"), True, (1.0, 0.0), (2.0, 1.0)))
    np.testing.assert_array_equal(moved.low, [1.0, (X[:, 0].min() - 1.0) / 2.0, 0.1])
    assert moved.constant.tolist() == [True, False, True]


def test_sums_of_squares_of_columns_that_are_centred_alone(rng):
    """A column of mean 1000 and sd 1 is centred and not scaled: its squares add up to N, not to 1e6 N."""
    X = np.column_stack([rng.normal(size=N), rng.normal(size=N), np.full(N, 3.0)])
    X[:, 0] += 1000.0 - X[:, 0].mean()
    found = Dataset(as_source(X, np.arange(N) % 2)).scan
    moved = found.through(Design(("a", "b", "c"), True, (1000.0, 0.0, 0.0), (1.0, 2.0, 1.0)))
    np.testing.assert_allclose(moved.squares, [N, N, N, 9.0 * N])


def test_entries_whose_squares_overflow_are_refused():
    low, high = np.array([-1.0, 0.0]), np.array([1.0, 2.0 * MAX_ENTRY])
    with pytest.raises(DataError, match="column 'b' has entries above 1e\\+100 in size; rescale it: squares overflow"):
        Scan.of([Scan(3, low, high, 1.0, 1.0, 3, high)], ("a", "b"))
