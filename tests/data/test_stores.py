"""Object stores: the rows of local files, from a real S3 server and over HTTP; what fails half way."""

import pickle
import threading
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from bayescore.data import parquet as stores
from bayescore.data.parquet import ParquetSource
from bayescore.data.sources import as_source
from bayescore.types import stack
from bayescore.validation import DataError
from tests.cuts import build_in_blocks
from tests.data.servers import Proxy, http_server, s3_server

N = 1200
_rng = np.random.default_rng(9)
FRAME = pd.DataFrame({"a": _rng.normal(size=N), "b": _rng.integers(-4, 5, N), "w": _rng.uniform(0.5, 3.0, N)})
FRAME["label"] = np.where(FRAME["a"] + _rng.logistic(size=N) > 0, "yes", "no")
FRAME["k"] = np.repeat([2, 10], [500, 700])
COLUMNS = {"label": "label", "weights": "w"}
PARTS = {"k=2/part-0": (0, 300), "k=2/part-1": (300, 500), "k=10/part-0": (500, 1200)}


def write(store, base):
    for (name, (low, high)), rows in zip(PARTS.items(), (100, 70, 128), strict=True):
        store.create_dir(f"{base}/{name.split('/')[0]}", recursive=True)
        table = pa.Table.from_pandas(FRAME.iloc[low:high].drop(columns="k"), preserve_index=False)
        pq.write_table(table, f"{base}/{name}.parquet", filesystem=store, row_group_size=rows)


@pytest.fixture(scope="module")
def s3():
    pytest.importorskip("moto")
    with s3_server() as (host, port), pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        store = pafs.S3FileSystem(
            endpoint_override=f"{host}:{port}", scheme="http", region="us-east-1", allow_bucket_creation=True
        )
        store.create_dir("bucket")
        write(store, "bucket/rows")
        yield host, port


def address(place, path="bucket/rows", keys=""):
    return f"s3://{keys}{path}?endpoint_override={place[0]}:{place[1]}&scheme=http&region=us-east-1"


def store_of(place):
    return pafs.S3FileSystem(endpoint_override=f"{place[0]}:{place[1]}", scheme="http", region="us-east-1")


def assert_rows(source, frame=FRAME):
    rows = stack(list(source.blocks()))
    np.testing.assert_array_equal(rows.X, frame[list(source.design.raw_names)])
    np.testing.assert_array_equal(rows.y, np.where(frame["label"] == "yes", 1, -1))
    np.testing.assert_array_equal(rows.weights, frame["w"])
    for piece in source.division(64).pieces:
        for low, high in ((0, piece.n_rows), (3, 17), (piece.n_rows - 1, piece.n_rows)):
            part = stack(list(piece.read(low, high)))
            np.testing.assert_array_equal(part.index, np.arange(piece.start + low, piece.start + high))
            np.testing.assert_array_equal(part.weights, frame["w"].iloc[part.index])


def assert_same(found, expected):
    for name in ("X", "y", "weights", "index"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_rows_and_partition_columns_come_from_s3(s3):
    source = as_source(address(s3), **COLUMNS)
    assert source.design.raw_names == ("a", "b", "k")
    assert_rows(source)
    assert max(len(pickle.dumps(piece)) for piece in source.division(64).pieces) < 5000
    one = as_source(address(s3, "bucket/rows/k=2/part-1.parquet"), **COLUMNS)
    assert_rows(one, FRAME.iloc[300:500])


@pytest.mark.parametrize("method", ["calibrated", "leverage", "online"])
def test_coresets_from_s3_are_those_of_the_table_to_the_last_bit(method, s3):
    options = {"method": method, "size": 90, "block_rows": 128, "standardize": True, **COLUMNS}
    expected = build_in_blocks(FRAME[["a", "b", "w", "label", "k"]], **options)
    found = build_in_blocks(address(s3), **options)
    assert_same(found, expected)


def test_datasets_take_any_file_system(s3):
    data = pads.dataset("bucket/rows", filesystem=store_of(s3), partitioning="hive")
    source = as_source(data, **COLUMNS)
    assert isinstance(source, ParquetSource)
    order = FRAME.sort_values("k", key=lambda k: k.astype(str), kind="stable")  # of the dataset: k=10 before k=2
    assert_rows(source, order)
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    write(pafs.PyFileSystem(pafs.FSSpecHandler(memory)), "/rows")
    assert_rows(as_source(pads.dataset("/rows", filesystem=memory, partitioning="hive"), **COLUMNS), order)
    assert_rows(as_source("memory://rows", **COLUMNS))


def test_dask_frames_in_a_store_are_read_as_files(s3):
    dd, memory = pytest.importorskip("dask.dataframe"), pytest.importorskip("fsspec").filesystem("memory")
    names = ["a", "b", "w", "label"]
    write(pafs.PyFileSystem(pafs.FSSpecHandler(memory)), "/frames")
    for frame in (
        dd.read_parquet("memory://frames"),
        dd.read_parquet("s3://bucket/rows", filesystem=store_of(s3)),
    ):
        source = as_source(frame[names], **COLUMNS)
        assert isinstance(source, ParquetSource)
        assert_rows(source)


@pytest.mark.slow
def test_workers_of_dask_read_s3_themselves(s3):
    dd, distributed = pytest.importorskip("dask.dataframe"), pytest.importorskip("distributed")
    expected = build_in_blocks(FRAME[["a", "b", "w", "label"]], method="leverage", size=90, block_rows=128, **COLUMNS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with cluster, distributed.Client(cluster):
        frame = dd.read_parquet("s3://bucket/rows", filesystem=store_of(s3))[["a", "b", "w", "label"]]
        source = as_source(frame, **COLUMNS)
        assert isinstance(source.files, ParquetSource)
        found = build_in_blocks(source, method="leverage", size=90, block_rows=128)
    assert_same(found, expected)


@pytest.mark.slow
def test_a_connection_that_drops_is_tried_again_or_one_line_says_so(s3, monkeypatch):
    monkeypatch.setattr(stores, "PAUSE", 0.01)
    monkeypatch.setattr(stores, "ATTEMPTS", 2)  # of S3's client each is three, with pauses of its own
    proxy = Proxy(*s3)
    source = as_source(address(("127.0.0.1", proxy.port)), **COLUMNS)
    proxy.cuts = 3
    assert_rows(source)
    assert proxy.done == 3
    proxy.cuts = 10**6
    with pytest.raises(
        DataError, match=r"'bucket/rows/k=2/part-0.parquet' could not be read in 2 attempts \(.*\); see"
    ):
        list(source.blocks())
    proxy.close()
    with pytest.raises(DataError, match="could not be read in 2 attempts") as caught:
        as_source(address(("127.0.0.1", proxy.port), keys="key:hush@"), **COLUMNS)
    assert "\n" not in str(caught.value)
    assert "hush" not in str(caught.value)


def test_what_is_not_there_is_named(s3):
    for path in ("bucket/nowhere", "bucket/rows/k=2/part-7.parquet", "nobucket/rows"):
        with pytest.raises(FileNotFoundError, match=f"data: no file or folder 's3://{path}'"):
            as_source(address(s3, path, "key:hush@"), **COLUMNS)
    store_of(s3).create_dir("bucket/empty")
    with pytest.raises(DataError, match=r"folder 's3://bucket/empty' holds no \.parquet files"):
        as_source(address(s3, "bucket/empty"), **COLUMNS)
    with store_of(s3).open_output_stream("bucket/text.parquet") as file:
        file.write(b"a,b\n1,2\n")
    with pytest.raises(DataError, match=r"text\.parquet' is not a readable Parquet file"):
        as_source(address(s3, "bucket/text.parquet"), **COLUMNS)
    with pytest.raises(DataError, match=r"data='nope://x/y' is no address that can be read .*nope"):
        as_source("nope://x/y", **COLUMNS)
    with pytest.raises(FileNotFoundError, match="'s3:/bucket/rows'; give an address as text, not as a Path"):
        as_source(Path("s3://bucket/rows"), **COLUMNS)
    with pytest.raises(DataError, match="y is given beside the path"):
        as_source(address(s3), FRAME["label"])


def test_files_come_over_http_and_drops_are_tried_again(tmp_path, monkeypatch):
    pytest.importorskip("aiohttp")
    monkeypatch.setattr(stores, "PAUSE", 0.01)
    write(pafs.LocalFileSystem(), str(tmp_path))
    with http_server(tmp_path) as server:
        where = f"http://127.0.0.1:{server.server_port}/k=10/part-0.parquet"
        source = as_source(where, **COLUMNS)
        server.cuts = 3
        assert_rows(source, FRAME.iloc[500:])
        assert server.done == 3
        server.cuts = 10**6
        with pytest.raises(DataError, match=r"part-0\.parquet' could not be read in 4 attempts \(.*\); see that the"):
            list(source.blocks())
        server.cuts = 0
        with pytest.raises(FileNotFoundError, match="data: no file or folder 'http://127"):
            as_source(where.replace("part-0", "part-9"), **COLUMNS)


def test_the_next_row_group_is_fetched_while_one_is_worked_on():
    begun = [threading.Event() for _ in range(4)]

    def fetch(i):
        begun[i].set()
        return i

    found = []
    for i in stores.read_ahead(fetch(i) for i in range(4)):
        found.append(i)
        assert i == 3 or begun[i + 1].wait(10)
        assert i > 1 or not begun[i + 2].is_set()
    assert found == [0, 1, 2, 3]


def test_row_groups_of_a_store_are_read_in_runs(s3):
    source = as_source(address(s3, "bucket/rows/k=10/part-0.parquet"), **COLUMNS)
    local = replace(source, files=tuple(replace(file, store=None) for file in source.files))
    assert len(local.division(128).pieces) == 6
    assert len(source.division(128).pieces) < 6
