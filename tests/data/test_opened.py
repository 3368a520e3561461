"""`Dataset`: the scan, moments, designs, the counter of passes, and what may not travel."""

import pickle

import numpy as np
import pytest

from bayescore import build_coreset
from bayescore.data.blocks import Stream
from bayescore.data.dataset import Dataset, open_rows
from bayescore.data.design import Design
from bayescore.data.sources import as_source
from bayescore.validation import DataError

N = 1000


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def source_of(rng, n=N, weights=None, scale=1.0, offset=0.0):
    X = rng.normal(size=(n, 3)) * scale + offset
    return as_source(X, np.arange(n) % 2, weights=weights)


def test_passes_are_counted_and_the_scan_is_made_once(rng):
    dataset = Dataset(source_of(rng), block_rows=64)
    assert dataset.n_passes == 0
    assert dataset.scan is dataset.scan
    assert dataset.n_passes == 1
    list(dataset.map(lambda start, block: None))
    list(dataset.map(lambda start, block: None, here=True))
    dataset.load()
    assert dataset.n_passes == 4
    other = dataset.with_design(Design(dataset.design.raw_names, intercept=True))
    other.load()
    assert other.n_passes == dataset.n_passes == 5


@pytest.mark.parametrize("here", [False, True])
def test_canonical_blocks_are_of_the_length_asked_for(rng, here):
    dataset = Dataset(source_of(rng), block_rows=300)
    assert list(dataset.map(lambda start, block: (start, len(block)), canonical=True, here=here)) == [
        (0, 300),
        (300, 300),
        (600, 300),
        (900, 100),
    ]


@pytest.mark.parametrize("here", [False, True])
def test_rows_are_put_through_the_design_once(rng, here):
    source, design = source_of(rng), Design(("x0", "x1", "x2"), True, (1.0, 0.0, 0.0), (2.0, 1.0, 1.0))
    dataset = Dataset(source, design, block_rows=64)
    rows = np.concatenate(list(dataset.map(lambda _, block: block.X, here=here)))
    np.testing.assert_array_equal(rows, design.transform(source.X))
    np.testing.assert_array_equal(dataset.load().X, rows)
    core = build_coreset(source, method="uniform", size=50, intercept=True, progressbar=False)
    np.testing.assert_array_equal(Dataset(core.as_source(), core.design).load().X, core.X)


def test_an_opened_does_not_travel(rng):
    dataset = Dataset(source_of(rng))
    with pytest.raises(TypeError, match="a Dataset stays in its process: give the function of a pass the numbers"):
        pickle.dumps(dataset)


def test_open_rows_takes_coresets_streams_and_sources(rng):
    source = source_of(rng)
    core = build_coreset(source, method="uniform", size=50, progressbar=False)
    assert open_rows(core).design == core.design
    stream = open_rows(iter([(source.X, source.y)]), once=True)
    assert isinstance(stream.rows, Stream)
    assert (stream.rereadable, open_rows(source).rereadable) == (False, True)
    for data, what in ((core, "a coreset"), (iter([]), "an iterator of blocks")):
        with pytest.raises(DataError, match=f"y is given, but data is {what}"):
            open_rows(data, source.y, once=True)
    with pytest.raises(DataError, match="whose rows come once, and they are needed more than once"):
        open_rows(iter([(source.X, source.y)]))


def test_a_column_of_ones_is_put_before_raw_rows_only():
    raw = np.random.default_rng(0).normal(size=(40, 2))
    labels = np.arange(40) % 2
    rows = open_rows(raw, labels, intercept=True).load()
    np.testing.assert_array_equal(rows.X, np.column_stack([np.ones(40), raw]))
    with_own = build_coreset(raw, labels, method="uniform", size=20, intercept=True, progressbar=False)
    with pytest.raises(ValueError, match="intercept=True, but the data have a design of their own; leave it out"):
        open_rows(with_own, intercept=True)
    assert open_rows(with_own).design.names == ("Intercept", "x0", "x1")
