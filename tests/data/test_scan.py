"""The scan: range, weights and finiteness of all rows, whatever the blocks."""

import numpy as np
import pytest

from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.passes import MAX_ENTRY, ObservationTotals, Scan
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


# the last two: a spread of 1e-7 and 1e-9 times the mean (times of day in seconds, identifiers)
SCALES = [(1.0, 0.0), (1e-6, 0.0), (1e9, -3e9), (2.0, 2000.0), (10.0, 1e8), (1.0, 1e9)]


@pytest.mark.parametrize(("scale", "offset"), SCALES)
@pytest.mark.parametrize("weighted", [False, True])
def test_column_moments_match_numpy(rng, scale, offset, weighted):
    w = rng.uniform(0.1, 5.0, N) if weighted else np.ones(N)
    X = scale * rng.normal(size=(N, 3)) + offset
    centered = X - offset
    mean = np.average(centered, axis=0, weights=w)
    sd = np.sqrt(np.average((centered - mean) ** 2, axis=0, weights=w))
    for step in (10**6, 300, 7):
        found = Dataset(as_source(X, np.arange(N) % 2, weights=w), block_rows=step).scan
        np.testing.assert_allclose(found.mean - offset, mean, rtol=0, atol=1e-6 * scale)
        np.testing.assert_allclose(found.sd, sd, rtol=1e-6)


def test_an_entry_far_out_takes_no_digits_from_the_spread_of_the_others(rng):
    """The first row of a block is 1e8 sds from the rest, of which the spread is still that of the rest."""
    X = rng.normal(size=(N, 1))
    X[0] = 1e8
    w = np.append(1e-20, np.ones(N - 1))
    found = Dataset(as_source(X, np.arange(N) % 2, weights=w), block_rows=500).scan
    np.testing.assert_allclose(found.sd, X[1:].std(axis=0), rtol=1e-3)


def test_moments_weigh_rows_as_copies(rng):
    X, w = rng.normal(size=(200, 2)), rng.integers(1, 5, 200)
    once = as_source(X, np.arange(200) % 2, weights=w)
    copies = as_source(np.repeat(X, w, axis=0), np.repeat(np.arange(200) % 2, w))
    mine, theirs = Dataset(once).scan, Dataset(copies).scan
    np.testing.assert_allclose(mine.mean, theirs.mean, atol=1e-12)
    np.testing.assert_allclose(mine.sd, theirs.sd, rtol=1e-12)
    assert mine.weight_total == copies.n_rows


def test_constant_columns_are_found_and_a_design_moves_the_range(rng):
    X = np.column_stack([rng.normal(size=N), np.full(N, 0.1)])
    found = Dataset(as_source(X, np.arange(N) % 2)).scan
    assert found.constant.tolist() == [False, True]
    moved = found.in_design(Design(("a", "b"), True, (1.0, 0.0), (2.0, 1.0)))
    np.testing.assert_array_equal(moved.low, [1.0, (X[:, 0].min() - 1.0) / 2.0, 0.1])
    assert moved.constant.tolist() == [True, False, True]


def test_sums_of_squares_of_columns_that_are_centred_alone(rng):
    """A column of mean 1000 and sd 1 is centred and not scaled: its squares add up to N, not to 1e6 N."""
    X = np.column_stack([rng.normal(size=N), rng.normal(size=N), np.full(N, 3.0)])
    X[:, 0] += 1000.0 - X[:, 0].mean()
    found = Dataset(as_source(X, np.arange(N) % 2)).scan
    moved = found.in_design(Design(("a", "b", "c"), True, (1000.0, 0.0, 0.0), (1.0, 2.0, 1.0)))
    expected = ((X - [1000.0, 0.0, 0.0]) / [1.0, 2.0, 1.0]) ** 2
    np.testing.assert_allclose(moved.squares, [N, *expected.sum(axis=0)])


def test_entries_whose_squares_overflow_are_refused():
    low, high = np.array([-1.0, 0.0]), np.array([1.0, 2.0 * MAX_ENTRY])
    with pytest.raises(DataError, match="column 'b' has entries above 1e\\+100 in size; rescale it: squares overflow"):
        Scan.of([Scan(3, low, high, 1.0, 1.0, 3, ObservationTotals(), high, high)], ("a", "b"))
