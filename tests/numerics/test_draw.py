"""The arrival-time draw: same rows for all cuts, associative merge, rates that matter. Its law: test_statistical."""

import numpy as np
import pytest

from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.numerics.elementary import hash_uniform
from bayescore.numerics.sampling import Draw, collect, draw, merge

N = 500


@pytest.fixture
def source():
    return as_source(np.arange(2.0 * N).reshape(N, 2), np.arange(N) % 2)


def rates_of(block):
    return 1 + block.index % 7


def equal(block):
    return np.ones(len(block), dtype=np.int64)


def assert_same(a, b):
    for name in ("times", "positions", "rates"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("X", "y", "weights", "index"):
        np.testing.assert_array_equal(getattr(a.rows, name), getattr(b.rows, name))
    assert a.total == b.total


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("size", [1, 37, 500])
def test_the_draw_does_not_depend_on_cuts_or_threads(source, replace, size):
    rates = rates_of if replace else equal
    whole = draw(Dataset(source), rates, size, 9, replace=replace)
    assert len(whole.times) == size
    assert whole.total == int(rates(next(iter(source.blocks()))).sum())
    assert (np.diff(whole.times) > 0).all()
    for step, workers in ((1, 2), (3, 1), (64, 8), (499, 2), (500, 1)):
        assert_same(draw(Dataset(source, block_rows=step, cores=workers), rates, size, 9, replace=replace), whole)


def test_more_draws_than_rows(source):
    whole = draw(Dataset(source), rates_of, 4 * N, 2)
    assert len(whole.times) == 4 * N
    assert_same(draw(Dataset(source, block_rows=11), rates_of, 4 * N, 2), whole)


def test_rows_passed_over_as_too_late_would_not_have_been_drawn():
    many = as_source(np.arange(40_000.0)[:, None], np.arange(40_000) % 2)
    for rates, replace in ((rates_of, True), (equal, False)):
        whole = draw(Dataset(many), rates, 300, 1, replace=replace)
        for step, workers in ((100, 1), (1000, 2)):
            cut = Dataset(many, block_rows=step, cores=workers)
            assert_same(draw(cut, rates, 300, 1, replace=replace), whole)


def test_a_smaller_draw_is_the_beginning_of_a_larger_one(source):
    large = draw(Dataset(source), rates_of, 200, 5)
    assert_same(draw(Dataset(source), rates_of, 50, 5), large.earliest(50))


def parts_of(source, size, seed):
    """Draws of three disjoint parts, positions as in the whole."""
    times, rows = draw(Dataset(source), rates_of, size * 50, seed), next(iter(source.blocks()))
    parts = []
    for low, high in ((0, 100), (100, 350), (350, N)):
        mine = (times.positions >= low) & (times.positions < high)
        total = int(rates_of(rows.take(slice(low, high))).sum())
        part = Draw(times.times[mine], times.positions[mine], times.rates[mine], times.rows.take(mine), total)
        parts.append(part.earliest(size))
    return parts


def test_merging_is_associative_and_blind_to_order(source):
    a, b, c = parts_of(source, 40, 3)
    whole = draw(Dataset(source), rates_of, 40, 3)
    for merged in (
        merge([a, b, c], 40),
        merge([c, a, b], 40),
        merge([merge([a, b], 40), c], 40),
        merge([a, merge([c, b], 40)], 40),
    ):
        assert_same(merged, whole)


def test_without_replacement_no_row_comes_twice_and_all_rows_are_all_rows(source):
    for size in (1, 100, N):
        positions = draw(Dataset(source), equal, size, 1, replace=False).positions
        assert len(np.unique(positions)) == size
    np.testing.assert_array_equal(np.sort(positions), np.arange(N))


def test_seeds_matter(source):
    first = draw(Dataset(source), rates_of, 100, 0).positions
    assert not np.array_equal(first, draw(Dataset(source), rates_of, 100, 1).positions)
    np.testing.assert_array_equal(first, draw(Dataset(source), rates_of, 100, 0).positions)
    assert len(draw(Dataset(source), rates_of, 100, 2**64 - 1).times) == 100


def test_one_row_that_has_nearly_all_the_rate(source):
    def heavy(block):
        return np.where(block.index == 77, 10**15, 1)

    drawn = draw(Dataset(source), heavy, 1000, 4)
    rows, counts, rates = collect(drawn)
    np.testing.assert_array_equal(rows.index, [77])
    assert counts.tolist() == [1000]
    assert rates.tolist() == [10**15]
    assert drawn.total == 10**15 + N - 1


def test_collect_counts_repeats_in_order_of_position(source):
    drawn = draw(Dataset(source), rates_of, 300, 6)
    rows, counts, rates = collect(drawn)
    positions, expected = np.unique(drawn.positions, return_counts=True)
    np.testing.assert_array_equal(rows.index, positions)
    np.testing.assert_array_equal(counts, expected)
    np.testing.assert_array_equal(rates, 1 + positions % 7)
    assert counts.sum() == 300
    assert counts.max() > 1


def test_hashes_are_between_0_and_1_and_all_different():
    grid = [
        hash_uniform(np.uint64(s), np.uint64(p), np.uint64(a)) for s in (0, 1) for p in range(60) for a in range(60)
    ]
    assert 0.0 < min(grid) < 0.01 < 0.99 < max(grid) < 1.0
    assert len(set(grid)) == len(grid)
