"""Blocks from callables and iterators: checked one by one, counted, named when they fail."""

import numpy as np
import pandas as pd
import pytest

from bayescore import build_coreset
from bayescore.data.blocks import Stream
from bayescore.data.sources import as_source
from bayescore.types import stack
from bayescore.validation import DataError

N = 400
_rng = np.random.default_rng(3)
X = _rng.normal(size=(N, 3))
Y = np.where(_rng.random(N) < 0.4, "yes", "no")
W = _rng.uniform(0.5, 3.0, N)


def factory(n_blocks=9, weighted=False):
    cuts = np.array_split(np.arange(N), n_blocks)
    return lambda: ((X[i], Y[i], W[i]) if weighted else (X[i], Y[i]) for i in cuts)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_callable_is_a_source_that_can_be_read_again(weighted):
    source = as_source(factory(weighted=weighted))
    assert (source.n_rows, source.classes, source.design.raw_names) == (N, ("no", "yes"), ("x0", "x1", "x2"))
    for _ in range(2):
        rows = stack(list(source.blocks()))
        np.testing.assert_array_equal(rows.X, X)
        np.testing.assert_array_equal(rows.y, np.where(Y == "yes", 1, -1))
        np.testing.assert_array_equal(rows.weights, W if weighted else np.ones(N))
        np.testing.assert_array_equal(rows.index, np.arange(N))


def test_frames_name_the_columns_and_a_block_may_have_one_class():
    order = np.argsort(Y)[::-1]
    frame = pd.DataFrame(X[order], columns=["a", "b", "c"])
    source = as_source(lambda: [(frame[i : i + 50], Y[order][i : i + 50]) for i in range(0, N, 50)])
    assert source.design.raw_names == ("a", "b", "c")
    assert source.classes == ("no", "yes")
    np.testing.assert_array_equal(stack(list(source.blocks())).y, np.where(Y[order] == "yes", 1, -1))


def test_a_stream_is_read_once():
    stream = Stream(factory()())
    rows = stack(list(stream.blocks()))
    np.testing.assert_array_equal(rows.X, X)
    assert (stream.intake.n_rows, stream.intake.n_blocks, stream.intake.weight_total) == (N, 9, N)
    with pytest.raises(DataError, match="its rows have been read: they come once"):
        list(stream.blocks())


def test_a_callable_that_does_not_begin_anew_is_caught():
    blocks = list(factory()())
    left = iter(blocks)
    with pytest.raises(DataError, match=r"data gave 400 rows first and 0 now: the callable must return a \*fresh\*"):
        list(as_source(lambda: left).blocks())


@pytest.mark.parametrize("change", ["X", "y", "weights"])
def test_a_callable_whose_rows_change_is_caught(change):
    passes = []

    def blocks():
        passes.append(1)
        X2, Y2, W2 = X.copy(), Y.copy(), W.copy()
        if len(passes) > 1:
            {"X": X2, "y": Y2, "weights": W2}[change][-2:] = {"X": 0.5, "y": Y[-1], "weights": 0.7}[change]
            if change == "y":
                Y2[-1] = "no" if Y[-1] == "yes" else "yes"
        cuts = np.array_split(np.arange(N), 3 + len(passes))  # which other cuts are not
        return ((X2[i], Y2[i], W2[i]) for i in cuts)

    source = as_source(blocks)
    with pytest.raises(DataError, match=r"data gave other rows now than first: .* fix its seed"):
        list(source.blocks())


@pytest.mark.parametrize("first", ["yes", "no"])
def test_a_callable_may_cut_the_same_rows_otherwise(first):
    passes, order = [], np.argsort(first != Y, kind="stable")

    def blocks():
        passes.append(1)
        return ((X[i], Y[i]) for i in np.array_split(order, 2 + len(passes)))

    source = as_source(blocks)
    for _ in range(2):
        np.testing.assert_array_equal(stack(list(source.blocks())).X, X[order])


def test_an_iterator_is_no_source():
    with pytest.raises(DataError, match=r"data is a generator, whose rows come once.*callable that returns a fresh"):
        as_source(factory()())


def spoilt(number, block):
    return lambda: (block if i == number else given for i, given in enumerate(factory(50)()))


def failing():
    for i, block in enumerate(factory(50)()):
        if i == 37:
            raise OSError("disk gone")
        yield block


BAD = {
    "columns": (spoilt(37, (X[:5, :2], Y[:5])), DataError, "block 37 has 2 columns, the blocks before it 3"),
    "names": (
        spoilt(37, (pd.DataFrame(X[:5], columns=list("abc")), Y[:5])),
        DataError,
        "block 37 has the columns a, b, c, the blocks before it x0, x1, x2",
    ),
    "a name twice": (
        spoilt(37, (pd.DataFrame(X[:5], columns=list("aba")), Y[:5])),
        DataError,
        "block 37: column 'a' stands more than once in X; rename one",
    ),
    "third class": (spoilt(37, (X[:2], ["no", "maybe"])), DataError, "block 37: y is 'maybe' in row 1, neither"),
    "NaN": (spoilt(37, (np.full((2, 3), np.nan), Y[:2])), DataError, "block 37: column 'x0' is nan in row 0"),
    "labels": (spoilt(37, (X[:5], Y[:4])), DataError, r"block 37: y has shape \(4,\)"),
    "weights": (spoilt(37, (X[:2], Y[:2], [1.0, -1.0])), DataError, "block 37: weights is -1 in row 1"),
    "an array": (spoilt(37, X[:5]), TypeError, r"block 37 is a ndarray; give tuples \(X, y\) or \(X, y, weights\)"),
    "seven": (spoilt(37, (1, 2, 3, 4, 5, 6, 7)), TypeError, "block 37 is 7 items"),
    "text": (spoilt(37, (np.full((2, 3), "a"), Y[:2])), DataError, "block 37: X has dtype <U1"),
    "no rows": (spoilt(37, (X[:0], Y[:0])), DataError, r"block 37: X has shape \(0, 3\)"),
    "error": (failing, DataError, "block 37 could not be read: OSError: disk gone"),
    "nothing": (lambda: iter([]), DataError, "iterator without a block"),
    "one class": (lambda: iter([(X, ["no"] * N)]), DataError, "y has one class only, 'no'"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("once", [False, True])
def test_bad_blocks_are_named_and_no_file_is_left(kind, once, tmp_path):
    blocks, error, message = BAD[kind]
    with pytest.raises(error, match=message):
        build_coreset(blocks() if once else blocks, method="online", size=20).save(tmp_path / "core.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_callable_of_another_kind_is_refused():
    with pytest.raises(TypeError, match=r"data\(\) returned a int; return an iterator of blocks"):
        as_source(lambda: 3)
    with pytest.raises(DataError, match="y is given, but data is a callable"):
        as_source(factory(), Y)
