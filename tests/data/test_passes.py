"""Passes over blocks: order, threads, exact sums, interruptions."""

import math
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from bayescore.data import passes, sources
from bayescore.data.passes import as_integers, block_rows, column_moments, exact_sum, from_integers, map_blocks, quantum
from bayescore.data.passes import scan as scan_rows
from bayescore.data.sources import as_source
from bayescore.types import Design

N = 1000


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def source_of(rng, n=N, weights=None, scale=1.0, offset=0.0):
    X = rng.normal(size=(n, 3)) * scale + offset
    return as_source(X, np.arange(n) % 2, weights=weights)


def cut(monkeypatch, step, workers=2):
    monkeypatch.setattr(sources, "block_rows", lambda n_columns: step)
    monkeypatch.setattr(passes, "available_cores", lambda: workers)


def pool_threads():
    return [t for t in threading.enumerate() if t.name.startswith("pass_")]


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_results_come_in_block_order_with_the_start_of_each_block(rng, monkeypatch, workers):
    cut(monkeypatch, 30, workers)
    source = source_of(rng)

    def slow_at_first(start, block):
        time.sleep(0.02 if start < 60 else 0.0)
        return start, block.index[0], len(block)

    results = list(map_blocks(source, slow_at_first, description="d", progressbar=True))
    assert results == [(s, s, min(30, N - s)) for s in range(0, N, 30)]
    assert not pool_threads()


def test_only_a_bounded_number_of_blocks_is_read_ahead(rng, monkeypatch):
    cut(monkeypatch, 1, 2)
    read = []
    source = source_of(rng)

    class Counted:
        n_rows, design = N, source.design

        def blocks(self):
            for block in source.blocks():
                read.append(1)
                yield block

    for done, _ in enumerate(map_blocks(Counted(), lambda start, block: None), start=1):
        assert len(read) <= done + 2 * 2
    assert len(read) == N


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("where", ["function", "source", "consumer"])
def test_an_interruption_stops_the_pass_and_leaves_no_thread(rng, monkeypatch, error, where):
    cut(monkeypatch, 1, 2)
    source, calls = source_of(rng), []

    def work(start, block):
        calls.append(start)
        time.sleep(0.001)
        if where == "function" and start == 20:
            raise error
        return start

    class Broken:
        n_rows, design = N, source.design

        def blocks(self):
            for i, block in enumerate(source.blocks()):
                if where == "source" and i == 20:
                    raise error
                yield block

    def consume():
        for start in map_blocks(Broken(), work):
            if where == "consumer" and start == 20:
                raise error

    with pytest.raises(error):
        consume()
    assert not pool_threads()
    assert 15 < len(calls) < 60
    seen = len(calls)
    time.sleep(0.01)
    assert len(calls) == seen


def test_blocks_that_wait_when_a_pass_fails_are_never_begun(rng, monkeypatch):
    cut(monkeypatch, 1, 4)
    begun, never = [], threading.Event()

    def work(start, block):
        begun.append(start)
        if start == 20:
            raise KeyboardInterrupt
        if start > 20:
            never.wait(0.4)  # the four threads are busy while blocks 25, 26, ... wait

    with pytest.raises(KeyboardInterrupt):
        list(map_blocks(source_of(rng), work))
    assert 20 < max(begun) <= 24
    assert not pool_threads()


def test_a_pass_given_up_early_stops(rng, monkeypatch):
    cut(monkeypatch, 1, 2)
    calls = []
    stream = map_blocks(source_of(rng), lambda start, block: calls.append(start))
    next(stream)
    stream.close()
    assert len(calls) < 20
    assert not pool_threads()


def test_blocks_are_a_power_of_two_of_at_most_8_megabytes_and_never_too_long_for_exact_sums():
    assert block_rows(1) == passes.MAX_BLOCK_ROWS
    assert block_rows(20) == block_rows(21) == 32768
    assert block_rows(128) == 8192
    assert block_rows(10**6) == 256


# --- exact sums --------------------------------------------------------------------------------------------


def test_the_quantum_is_a_power_of_two_and_36_bits_below():
    for largest in (1.0, 0.3, 1e-5, 7e17, 3.0):
        unit = float(quantum(np.float64(largest)))
        assert math.frexp(unit)[0] == 0.5
        assert 2.0**35 <= largest / unit < 2.0**36
    assert np.isfinite(1.0 / quantum(np.array([0.0, 1e-320, 1e-300]))).all()
    np.testing.assert_array_equal(quantum(np.array([1.0, 8.0])), [quantum(np.float64(1.0)), 8 * quantum(np.float64(1))])


@pytest.mark.parametrize("square", [False, True])
def test_exact_sums_do_not_depend_on_order_or_cut(rng, square):
    X = rng.normal(size=(5000, 2)) * np.array([1.0, 1e9])
    w, origin = rng.uniform(0.1, 2.0, len(X)), np.array([0.25, -1e8])
    terms = w[:, None] * (X - origin) ** (2 if square else 1)
    unit = quantum(np.abs(terms).max(axis=0))
    whole = exact_sum(X, w, origin, unit, square=square)
    for _ in range(5):
        order = rng.permutation(len(X))
        cuts = np.split(order, np.sort(rng.integers(0, len(X), 6)))
        assert (sum(exact_sum(X[i], w[i], origin, unit, square=square) for i in cuts) == whole).all()
    assert (sum(terms) != sum(terms[::-1])).any()  # plain sums do depend on it
    for column, total in zip(terms.T, from_integers(whole, unit), strict=True):
        largest = np.abs(column).max()
        assert abs(total - math.fsum(column)) <= 6 * math.sqrt(len(column)) * largest * 2.0**-36


def test_a_full_block_of_largest_values_adds_without_rounding():
    values = np.full((passes.MAX_BLOCK_ROWS, 1), np.nextafter(1.0, 0.0))
    unit = quantum(np.ones(1))
    total = sum(exact_sum(values, np.ones(len(values)), np.zeros(1), unit)[0] for _ in range(50))
    assert int(total) == 50 * len(values) * int(np.rint(values[0, 0] / unit[0]))
    assert as_integers(np.array([2.0**52])).tolist() == [2**52]


# --- scan and moments --------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 13, 10**6])
@pytest.mark.parametrize("weighted", [False, True])
def test_scan_learns_the_range_and_the_total_weight(rng, monkeypatch, step, weighted):
    cut(monkeypatch, step)
    w = rng.uniform(0.1, 5.0, N) if weighted else None
    source = source_of(rng, weights=w)
    found = scan_rows(source)
    np.testing.assert_array_equal(found.low, source.X.min(axis=0))
    np.testing.assert_array_equal(found.high, source.X.max(axis=0))
    np.testing.assert_array_equal(found.largest, np.abs(source.X).max(axis=0))
    assert found.n_rows == N
    assert found.largest_weight == (w.max() if weighted else 1.0)
    assert found.weight_total == pytest.approx(w.sum() if weighted else N, rel=1e-10)
    assert not found.constant.any()


def test_whole_weights_add_up_exactly(rng):
    w = rng.integers(1, 1000, N).astype(float)
    assert scan_rows(source_of(rng, weights=w)).weight_total == w.sum()


def test_weights_add_up_exactly_in_every_order(rng):
    w = np.exp(rng.normal(scale=150.0, size=passes.MAX_BLOCK_ROWS))
    for values in (w, np.array([5e-324, 1.0, 1e100]), np.full(passes.MAX_BLOCK_ROWS, np.nextafter(2.0, 0.0))):
        for parts in ([values], np.array_split(rng.permutation(values), 3)):
            assert passes.total_weight(map(passes.exact_weight, parts)) == math.fsum(values)


def test_constant_columns_are_found_and_a_design_moves_the_range(rng):
    X = np.column_stack([rng.normal(size=N), np.full(N, 0.1)])
    found = scan_rows(as_source(X, np.arange(N) % 2))
    assert found.constant.tolist() == [False, True]
    moved = found.through(Design(("a", "b"), True, (1.0, 0.0), (2.0, 1.0)))
    np.testing.assert_array_equal(moved.low, [1.0, (X[:, 0].min() - 1.0) / 2.0, 0.1])
    assert moved.constant.tolist() == [True, False, True]


# the last two: a spread of 1e-7 and 1e-9 times the mean (times of day in seconds, identifiers)
SCALES = [(1.0, 0.0), (1e-6, 0.0), (1e9, -3e9), (2.0, 2000.0), (10.0, 1e8), (1.0, 1e9)]


@pytest.mark.parametrize(("scale", "offset"), SCALES)
@pytest.mark.parametrize("weighted", [False, True])
def test_column_moments_match_numpy(rng, monkeypatch, scale, offset, weighted):
    w = rng.uniform(0.1, 5.0, N) if weighted else np.ones(N)
    source = source_of(rng, weights=w, scale=scale, offset=offset)
    results = []
    for step in (10**6, 7):
        cut(monkeypatch, step)
        results.append(column_moments(source, scan_rows(source)))
    np.testing.assert_array_equal(results[0], results[1])
    centered = source.X - offset
    mean = np.average(centered, axis=0, weights=w)
    sd = np.sqrt(np.average((centered - mean) ** 2, axis=0, weights=w))
    np.testing.assert_allclose(results[0][0] - offset, mean, rtol=0, atol=1e-6 * scale)
    np.testing.assert_allclose(results[0][1], sd, rtol=1e-6)


def test_moments_of_binary_columns_are_exact(rng):
    X = (rng.random((N, 2)) < [0.3, 0.01]).astype(float)
    source = as_source(X, np.arange(N) % 2)
    mean, _ = column_moments(source, scan_rows(source))
    np.testing.assert_array_equal(mean, X.sum(axis=0) / N)


def test_moments_weigh_rows_as_copies(rng):
    X, w = rng.normal(size=(200, 2)), rng.integers(1, 5, 200)
    once = as_source(X, np.arange(200) % 2, weights=w)
    copies = as_source(np.repeat(X, w, axis=0), np.repeat(np.arange(200) % 2, w))
    for mine, theirs in zip(
        column_moments(once, scan_rows(once)), column_moments(copies, scan_rows(copies)), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)
    assert scan_rows(replace(once, design=once.design)).weight_total == copies.n_rows
