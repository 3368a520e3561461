"""Rows of Dask collections without labels."""

import numpy as np
import pandas as pd
import pytest

from bayescore.types import stack
from bayescore.validation import DataError

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

from bayescore.data.dask import dask_rows  # noqa: E402 - needs Dask

X = np.random.default_rng(1).normal(size=(50, 3))
W = np.random.default_rng(2).uniform(0.5, 2.0, 50)
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, used by Dask


def collections():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    yield dd.from_pandas(frame, npartitions=4), dd.from_pandas(pd.Series(W), npartitions=4), ("a", "b", "c")
    yield da.from_array(X, chunks=(13, 2)), da.from_array(W, chunks=13), ("x0", "x1", "x2")


def test_rows_and_weights_come_in_order_partition_by_partition():
    for data, weights, names in collections():
        found = dask_rows(data, weights)
        rows = stack(list(found.blocks()))
        np.testing.assert_array_equal(rows.X, X)
        np.testing.assert_array_equal(rows.weights, W)
        assert (rows.y == 1).all()
        assert found.design.names == names
        assert len(found.division(5).pieces) == 4
        assert stack(list(dask_rows(data).blocks())).weights.tolist() == [1.0] * 50


def test_empty_partitions_have_no_rows_and_an_empty_collection_is_refused():
    rising = X[np.argsort(X[:, 0])]
    frame = dd.from_pandas(pd.DataFrame(rising, columns=["a", "b", "c"]), npartitions=4)
    found = dask_rows(frame[frame.a >= rising[30, 0]])
    assert sum(piece.n_rows > 0 for piece in found.division(5).pieces) == 2
    np.testing.assert_array_equal(stack(list(found.blocks())).X, rising[30:])
    with pytest.raises(DataError, match="data is an empty collection"):
        dask_rows(frame[frame.a > 100.0])


def test_what_does_not_fit_is_named():
    with pytest.raises(TypeError, match="data is a Dask Array; give a DataFrame, or an Array of rows by columns"):
        dask_rows(da.from_array(W, chunks=13))
    bad = W.copy()
    bad[20] = -1.0
    found = dask_rows(da.from_array(X, chunks=(13, 3)), da.from_array(bad, chunks=13))
    with pytest.raises(DataError, match=r"weights \(column 'weight'\) is -1 in row 20"):
        list(found.blocks())


def test_rows_that_weigh_nothing_are_left_out():
    weights = W.copy()
    weights[[3, 40]] = 0.0
    found = dask_rows(da.from_array(X, chunks=(13, 3)), da.from_array(weights, chunks=13))
    np.testing.assert_array_equal(stack(list(found.blocks())).X, np.delete(X, [3, 40], axis=0))
