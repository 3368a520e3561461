"""Passes over blocks: order, threads, interruptions."""

import threading
import time

import numpy as np
import pytest

from bayescore.data.dataset import Dataset
from bayescore.data.passes import _run_task
from bayescore.data.source import plan
from bayescore.data.sources import as_source
from bayescore.validation import DataError

N = 1000


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def source_of(rng, n=N, weights=None, scale=1.0, offset=0.0):
    X = rng.normal(size=(n, 3)) * scale + offset
    return as_source(X, np.arange(n) % 2, weights=weights)


def pool_threads():
    return [t for t in threading.enumerate() if t.name.startswith("pass_")]


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_results_come_in_block_order_with_the_start_of_each_block(rng, workers):
    dataset = Dataset(source_of(rng), progress=True, block_rows=30, cores=workers)

    def slow_at_first(start, block):
        time.sleep(0.02 if start < 60 else 0.0)
        return start, block.index[0], len(block)

    results = list(dataset.map(slow_at_first, "d"))
    assert results == [(s, s, min(30, N - s)) for s in range(0, N, 30)]
    assert not pool_threads()


def test_one_block_is_read_without_a_thread(rng):
    def in_main(start, block):
        return threading.current_thread() is threading.main_thread()

    assert list(Dataset(source_of(rng), block_rows=N).map(in_main, canonical=True)) == [True]
    assert list(Dataset(source_of(rng), block_rows=N - 1).map(in_main, canonical=True)) == [False, False]
    with pytest.raises(ZeroDivisionError):
        list(Dataset(source_of(rng), block_rows=N).map(lambda start, block: 1 // 0, canonical=True))


def test_only_a_bounded_number_of_blocks_is_read_ahead(rng):
    read = []
    source = source_of(rng)

    class Counted:
        n_rows, design = N, source.design

        def blocks(self):
            for n in range(N):
                read.append(1)
                yield from source.rows(n, n + 1)

    for done, _ in enumerate(Dataset(Counted(), cores=2).map(lambda start, block: None), start=1):
        assert len(read) <= done + 2 * 2
    assert len(read) == N


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("where", ["function", "source", "consumer"])
def test_an_interruption_stops_the_pass_and_leaves_no_thread(rng, error, where):
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
            for n in range(N):
                if where == "source" and n == 20:
                    raise error
                yield from source.rows(n, n + 1)

    def consume():
        for start in Dataset(Broken(), cores=2).map(work):
            if where == "consumer" and start == 20:
                raise error

    with pytest.raises(error):
        consume()
    assert not pool_threads()
    assert 15 < len(calls) < 60
    seen = len(calls)
    time.sleep(0.01)
    assert len(calls) == seen


def test_blocks_that_wait_when_a_pass_fails_are_never_begun(rng):
    begun, never = [], threading.Event()

    def work(start, block):
        begun.append(start)
        if start == 20:
            raise KeyboardInterrupt
        if start > 20:
            never.wait(0.4)  # the four threads are busy while blocks 25, 26, ... wait

    with pytest.raises(KeyboardInterrupt):
        list(Dataset(source_of(rng), block_rows=1, cores=4).map(work))
    assert 20 <= max(begun) <= 24  # 21 to 24 may have begun
    assert not pool_threads()


def test_a_pass_given_up_early_stops(rng):
    calls = []
    stream = Dataset(source_of(rng), block_rows=1, cores=2).map(lambda start, block: calls.append(start))
    next(stream)
    stream.close()
    assert len(calls) < 20
    assert not pool_threads()


def test_what_is_wrong_with_rows_leaves_a_worker_as_a_value(rng):
    """A cluster prints the traceback of whatever a worker raises."""

    def refuse(start, block):
        raise DataError("a row")

    dataset = Dataset(source_of(rng))
    found = _run_task(plan(dataset.division(), None)[0], refuse, None)
    assert isinstance(found, DataError)
    with pytest.raises(DataError, match="a row"):
        list(dataset.map(refuse))
