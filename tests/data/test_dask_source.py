"""Dask collections: the rows of the partitions in order, and what does not fit."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

from bayescore.data import dask as dask_tables  # noqa: E402
from bayescore.data.dataset import Dataset  # noqa: E402
from bayescore.data.parquet import ParquetSource  # noqa: E402
from bayescore.data.sources import as_source  # noqa: E402
from bayescore.types import stack  # noqa: E402
from bayescore.validation import DataError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, used by Dask

N = 203
_rng = np.random.default_rng(1)
X = np.round(_rng.normal(size=(N, 3)), 2)
Y = np.where(_rng.random(N) < 0.4, "yes", "no")
W = _rng.uniform(0.5, 3.0, N)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=Y, w=W)


def frame(columns=None, npartitions=5):
    return dd.from_pandas(FRAME if columns is None else FRAME[columns], npartitions=npartitions)


def parquet(tmp_path):
    FRAME.to_parquet(tmp_path / "x.parquet", index=False, row_group_size=50)
    return dd.read_parquet(tmp_path / "x.parquet")


GIVEN = {
    "label": lambda tmp: (frame(), None, "label", "w"),
    "unknown divisions": lambda tmp: (frame().clear_divisions(), None, "label", "w"),
    "empty partitions": lambda tmp: (frame(npartitions=30).map_partitions(lambda f: f), None, "label", "w"),
    "lazy columns": lambda tmp: (frame().assign(a=lambda f: f["a"] * 1.0), None, "label", "w"),
    "series": lambda tmp: (frame(["a", "b", "c"]), frame()["label"], None, frame()["w"]),
    "category": lambda tmp: (frame().astype({"label": "category"}), None, "label", "w"),
    "parquet": lambda tmp: (parquet(tmp), None, "label", "w"),
    "parquet, filtered": lambda tmp: (parquet(tmp).query("a > -1e9"), None, "label", "w"),
    "array": lambda tmp: (
        da.from_array(X, chunks=(40, 2)),
        da.from_array(Y, chunks=33),
        None,
        da.from_array(W, chunks=N),
    ),
    "array of unknown chunks": lambda tmp: (frame(["a", "b", "c"]).values, frame()["label"], None, frame()["w"].values),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_collections_give_the_rows_of_the_array(kind, tmp_path):
    data, y, label, weights = GIVEN[kind](tmp_path)
    source = as_source(data, y, label=label, weights=weights)
    assert source.n_rows == N
    assert source.classes == ("no", "yes")
    for rows in (
        stack(list(source.blocks())),
        stack(list(Dataset(source).map(lambda _, block: block, canonical=True))),
    ):
        np.testing.assert_array_equal(rows.X, X)
        np.testing.assert_array_equal(rows.y, np.where(Y == "yes", 1, -1))
        np.testing.assert_array_equal(rows.weights, W)
        np.testing.assert_array_equal(rows.index, np.arange(N))


def test_frames_of_parquet_are_read_as_files(tmp_path):
    source = as_source(parquet(tmp_path)[["c", "label"]], label="label")
    assert isinstance(source, ParquetSource)
    assert source.design.raw_names == ("c",)
    assert source.files[0].groups == tuple(
        pq.ParquetFile(tmp_path / "x.parquet").metadata.row_group(i).num_rows for i in range(5)
    )


def uneven():
    return frame(["label"]).map_partitions(lambda f: f.iloc[1:])["label"]


BAD = {
    "no label": (lambda: (frame(), None, None), DataError, "label is missing: .* a, b, c, label, w"),
    "label not a column": (lambda: (frame(), None, "z"), DataError, "label='z' is not a column"),
    "text column": (lambda: (frame().assign(b="t"), None, "label"), DataError, "not numeric: 'b'"),
    "both": (lambda: (frame(), frame()["label"], "label"), DataError, "y and label='label' are both given"),
    "y in memory": (lambda: (frame(["a"]), Y, None), DataError, "'y' beside a Dask collection is a ndarray"),
    "y of other partitions": (
        lambda: (frame(["a"]), frame(npartitions=3)["label"], None),
        DataError,
        "'label' has 3 partitions and data 5",
    ),
    "y of other lengths": (lambda: (frame(["a"]), uneven(), None), DataError, r"partition \d of 'label' has .* rows"),
    "y of another length": (
        lambda: (da.from_array(X), da.from_array(Y[1:]), None),
        DataError,
        "'y' has 202 entries; data have 203 rows",
    ),
    "array without y": (lambda: (da.from_array(X), None, None), DataError, "y is missing"),
    "one class": (lambda: (frame()[frame()["label"] == "no"], None, "label"), DataError, "one class only"),
    "missing labels": (lambda: (frame().replace("no", None), None, "label"), DataError, "missing labels"),
    "no rows": (lambda: (frame()[frame()["label"] == "z"], None, "label"), DataError, "empty collection"),
    "series": (lambda: (frame()["a"], Y, None), TypeError, "data is a Dask Series"),
    "vector": (lambda: (da.from_array(X[:, 0]), Y, None), TypeError, "data is a Dask Array"),
}


@pytest.mark.parametrize("kind", BAD)
def test_collections_that_do_not_fit_are_refused(kind):
    given, error, message = BAD[kind]
    data, y, label = given()
    with pytest.raises(error, match=message):
        _ = Dataset(as_source(data, y, label=label)).scan


def test_an_error_names_the_partition():
    bad = dd.from_pandas(FRAME.assign(a=np.where(np.arange(N) == 137, np.nan, X[:, 0])), npartitions=5)
    with pytest.raises(DataError, match=r"column 'a' is nan in row 137; .*\(row \d+ of partition 3\)"):
        _ = Dataset(as_source(bad, label="label")).scan


def test_partitions_are_computed_once_and_kept():
    calls = []

    def counted(part):
        calls.append(len(part))
        return part

    source = as_source(frame().map_partitions(counted, meta=FRAME), label="label", weights="w")
    dataset = len(calls)
    for _ in range(3):
        np.testing.assert_array_equal(stack(list(source.blocks())).X, X)
    assert len(calls) == dataset == 10  # for the labels, and for the tables


def test_partitions_that_are_too_large_to_keep_are_computed_anew_which_is_said(monkeypatch):
    size = N * 5 * 9
    monkeypatch.setattr(dask_tables, "KEPT_BYTES", size - 1)
    with pytest.warns(UserWarning, match=r"would take 9.13e-06 GB, above the .* every pass .* to_parquet\(\)"):
        source = as_source(frame(), label="label", weights="w")
    np.testing.assert_array_equal(stack(list(source.blocks())).X, X)
    monkeypatch.setattr(dask_tables, "KEPT_BYTES", size)
    as_source(frame(), label="label", weights="w")


@pytest.mark.parametrize(("memory", "kept"), [(0, True), (4000, True), (3992, False)])
def test_workers_keep_what_fits_a_quarter_of_their_memory(memory, kept):
    pool = SimpleNamespace(memory=memory, client=SimpleNamespace(persist=lambda tables: ["kept"] * len(tables)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tables = dask_tables.kept_tables([None, None], ["a"], 111, pool)  # 999 bytes
    assert [table == "kept" if kept else not isinstance(table, str) for table in tables] == [True, True]
    assert len(caught) == (not kept)


@pytest.mark.filterwarnings("ignore:data is a Dask collection that is no Parquet")
def test_a_graph_that_gives_other_rows_the_next_time_is_caught(monkeypatch):
    monkeypatch.setattr(dask_tables, "KEPT_BYTES", 0)
    calls = []

    def fickle(part):
        calls.append(1)
        return part.iloc[: len(part) - len(calls) % 2]

    source = as_source(frame().map_partitions(fickle, meta=FRAME), label="label")
    with pytest.raises(DataError, match=r"partition \d has \d+ rows now and had \d+: the graph must give the same"):
        [list(source.blocks()) for _ in range(2)]
