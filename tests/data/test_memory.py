"""Memory of passes does not grow with the number of rows, nor with the length of row groups: bytes, no clocks.

The garbage collector is off: what only it frees piles up between its runs, which are rare in a large process.
"""

import gc
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayescore.coresets import cell_centre, cells, multilevel
from bayescore.data import passes
from bayescore.data.dataset import CellCounts, Dataset
from bayescore.data.open import open_designed, open_in
from bayescore.data.parquet import path_source
from bayescore.data.roles import Roles
from bayescore.data.source import Division, Slice
from bayescore.data.sources import as_source
from bayescore.families.family import check_family
from bayescore.priors import Normal
from tests.coresets.celled import TWO, celled

FORMULA = "y ~ a * kind + log(b) + scale(a)"


@pytest.fixture
def uncollected():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def rows_file(path, n_rows, row_group):
    """Write rows of two numbers, one of three kinds and a label."""
    rng = np.random.default_rng(3)
    kind = np.array(["one", "two", "three"])[rng.integers(3, size=n_rows)]
    columns = {"a": rng.normal(size=n_rows), "b": 1.0 + rng.random(n_rows), "kind": kind}
    table = pa.table({**columns, "y": rng.integers(2, size=n_rows)})
    pq.write_table(table, path, row_group_size=row_group, use_dictionary=["kind"])
    return path


def traced(work):
    """Return the most bytes of Python and NumPy that are alive at a time while `work` runs, beyond those before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("uncollected")
def test_a_formula_leaves_nothing_of_a_block_behind(tmp_path):
    dataset = open_designed(rows_file(tmp_path / "rows.parquet", 4096, 4096), formula=FORMULA)
    raw = next(dataset.rows.blocks()).X
    dataset.design.transform(raw)
    tracemalloc.start()
    try:
        for _ in range(5):
            dataset.design.transform(raw)
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert left < 2 * raw.nbytes  # of five blocks: 13 kB of formulaic's own objects each


@pytest.mark.usefixtures("uncollected")
def test_passes_over_more_blocks_hold_no_more_of_them(tmp_path):
    few, many = (rows_file(tmp_path / f"{k}.parquet", 8192 * k, 8192) for k in (8, 24))
    design = open_designed(few, formula=FORMULA).design

    def scan(path):
        found = open_in(design, path)
        return Dataset(found.rows, found.design, block_rows=8192, cores=1).scan

    scan(few)  # imports and compiles
    assert traced(lambda: scan(many)) < 1.5 * traced(lambda: scan(few))


def test_a_longer_row_group_takes_no_more_of_arrow(tmp_path):
    def most(n_rows):
        path = tmp_path / f"{n_rows}.parquet"
        table = {f"x{d}": np.random.default_rng(d).normal(size=n_rows) for d in range(3)}
        pq.write_table(pa.table({**table, "y": np.arange(n_rows) % 2}), path, row_group_size=n_rows)
        before = pa.total_allocated_bytes()
        return max(pa.total_allocated_bytes() - before for _ in path_source(path, Roles(label="y")).blocks())

    assert most(1 << 20) < 1.5 * most(1 << 18)


def one_task(n_rows, block):
    """Return rows that one worker reads in blocks."""
    source = as_source(np.zeros((n_rows, 1)), np.arange(n_rows) % 2)

    class Piece(Slice):
        def read(self, low, high):
            for at in range(low, high, block):
                yield from source.rows(at, min(at + block, high))

    return Division([Piece(source, 0, n_rows)])


@pytest.mark.parametrize("step", [None, 10])
def test_results_of_a_long_task_come_as_they_are_made(step):
    arrived = threading.Event()

    def work(start, block):
        assert start == 0 or arrived.wait(60)
        return start

    found = []
    for _, start in passes.map_pieces(one_task(40, 10), work, step, 2):
        found.append(start)
        arrived.set()
    assert found == [0, 10, 20, 30]


def test_a_long_task_ends_when_its_results_are_not_wanted_any_more(monkeypatch):
    cancelled, done = threading.Event(), []

    class Threads(ThreadPoolExecutor):
        def shutdown(self, *arguments, **named):
            cancelled.set()
            super().shutdown(*arguments, **named)

    def work(start, block):
        assert start == 0 or cancelled.wait(60)
        done.append(start)

    monkeypatch.setattr(passes, "ThreadPoolExecutor", Threads)
    results = passes.map_pieces(one_task(1000, 10), work, None, 2)
    next(results)
    results.close()
    assert done == [0, 10]


@pytest.mark.usefixtures("uncollected")
def test_cells_are_merged_during_the_pass(monkeypatch):
    monkeypatch.setattr(cells, "_LEAST_WAITING", 1000)
    rng = np.random.default_rng(5)
    blocks = [rng.integers(700, size=1000) for _ in range(200)]

    def count(number):
        counter = cells._CellCounter()
        for block in blocks[:number]:
            keys, counts = np.unique(block, return_counts=True)
            counter.take(CellCounts(keys, counts, np.zeros((len(keys), 2)), None))
        return counter

    count(20)  # what the first calls leave in NumPy is not of the counter
    assert traced(lambda: count(200)) < 1.1 * traced(lambda: count(20))
    counter = count(200)
    found = counter.total()
    keys, counts = np.unique(np.concatenate(blocks), return_counts=True)
    np.testing.assert_array_equal(found.keys, keys)
    np.testing.assert_array_equal(found.counts, counts)


def test_shapes_of_cells_are_those_of_all_pseudo_rows_at_once(monkeypatch):
    dataset = open_designed(celled(), formula=f"y ~ w + x + {TWO}")
    whole, *_ = multilevel.condense(dataset, Normal(0.0, 4.0), check_family("logistic"))
    monkeypatch.setattr(cell_centre, "MAX_BLOCK_ROWS", 7)
    monkeypatch.setattr(cell_centre, "_CELLS", 5)
    pieces, *_ = multilevel.condense(dataset, Normal(0.0, 4.0), check_family("logistic"))
    assert len(whole) > 70
    np.testing.assert_allclose(pieces.X, whole.X, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(pieces.weights, whole.weights, rtol=1e-9)
