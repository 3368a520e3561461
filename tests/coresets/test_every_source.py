"""The same seed gives the same rows and weights from every source; a killed worker changes nothing."""

import os
import pickle
import signal
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayescore as bc
from bayescore.data import dask as dask_source
from bayescore.data import sources
from bayescore.data.dataset import Dataset
from tests.cuts import build_in_blocks
from tests.methods import METHODS as CASES
from tests.methods import kind_of, options_of

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
cloudpickle = pytest.importorskip("cloudpickle")

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, used by Dask

N = 1200
_rng = np.random.default_rng(5)
X = np.column_stack([np.round(4.0 * _rng.normal(size=N)) / 4.0, _rng.normal(size=N), _rng.integers(0, 3, N)])
Y = np.where(X[:, 0] + _rng.logistic(size=N) > 0, "yes", "no")
W = _rng.uniform(0.1, 6.0, N)
FRAME = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(label=Y, w=W)

METHODS = {name: options_of(name, leaf_rows=128, tree_size=16) for name in CASES if name != "auto"}  # one of the others
ONE_PASS = [name for name in METHODS if kind_of(name).one_pass]
DESIGN = {"intercept": True, "standardize": True}


@pytest.fixture(scope="module")
def cluster():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as workers:
            yield workers


def build(data, y=None, method="uniform", **options):
    """Build a coreset in canonical blocks of 128 rows, so that a thousand rows are many."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of calibrated coresets as small as these
        return build_in_blocks(data, y, **{"block_rows": 128, **METHODS[method], **options})


def assert_same(core, expected):
    for name in ("X", "y", "weights", "index", "offset"):
        np.testing.assert_array_equal(getattr(core, name), getattr(expected, name))
    for name in ("n_total", "weight_total", "classes", "random_state"):
        assert getattr(core, name) == getattr(expected, name)
    params = {name: value for name, value in core.params.items() if name != "passes"}
    assert params == {name: value for name, value in expected.params.items() if name != "passes"}


CUTS = ([600], [1, 2, 3, 700], list(range(128, N, 128)), list(range(100, N, 100)), [N - 1])


def blocks(cut, weighted):
    parts = np.split(np.arange(N), cut)
    return ((X[i], Y[i], W[i]) if weighted else (X[i], Y[i]) for i in parts)


def files(folder, frame, cut, rows):
    folder.mkdir()
    for i, part in enumerate(np.split(np.arange(N), cut)):
        table = pa.Table.from_pandas(frame.iloc[part], preserve_index=False)
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=rows)
    return folder


def frame_of(weighted):
    return (FRAME, {"label": "label", "weights": "w"}) if weighted else (FRAME.drop(columns="w"), {"label": "label"})


# a method that reads the rows once, one that reads them several times, and one that builds a tree: of all cuts
THOROUGH = ("uniform", "calibrated", "merge_reduce")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_rows_and_weights_are_those_of_the_array(method, weighted, tmp_path):
    weights = W if weighted else None
    expected = build(X, Y, method, weights=weights, **DESIGN)
    frame, columns = frame_of(weighted)
    cuts = range(len(CUTS)) if method in THOROUGH else [(2 * list(METHODS).index(method) + weighted) % len(CUTS)]
    for i in cuts:
        cut = CUTS[i]
        assert_same(build(lambda cut=cut: blocks(cut, weighted), None, method, **DESIGN), expected)
        folder = files(tmp_path / str(i), frame, cut, (1000, 7, 128, 30, 500)[i])
        assert_same(build(folder, None, method, **columns, **DESIGN), expected)
        if i < 2:
            parts = [dd.from_pandas(frame.iloc[part], npartitions=1) for part in np.split(np.arange(N), cut)]
            collection = dd.concat(parts)
            assert_same(build(collection, None, method, **columns, **DESIGN), expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", ONE_PASS)
@pytest.mark.parametrize("cut", CUTS)
def test_a_stream_gives_the_rows_of_the_array_in_one_pass(method, weighted, cut):
    expected = build(X, Y, method, weights=W if weighted else None, intercept=True)
    core = build(blocks(cut, weighted), None, method, intercept=True)
    assert_same(core, expected)
    assert core.params["passes"] == 1
    assert core.feature_names == ("Intercept", "x0", "x1", "x2")


# pairs of pseudo-rows come in the order of the labels known meanwhile
@pytest.mark.parametrize("method", [name for name in ONE_PASS if "condensed" not in name])
def test_labels_are_settled_at_the_end_of_a_stream(method):
    order = np.argsort(Y)[::-1]  # "yes", the second in sorted order, is met first
    expected = build(X[order], Y[order], method)
    core = build(iter([(X[order][i : i + 50], Y[order][i : i + 50]) for i in range(0, N, 50)]), None, method)
    np.testing.assert_array_equal(core.y, np.where(Y[order][core.index] == "yes", 1, -1))
    assert_same(core, expected)


def test_sizes_of_a_stream():
    for method in ("uniform", "online"):
        auto = build(blocks([5], False), None, method, size="auto")
        assert_same(auto, build(X, Y, method, size="auto"))
        short = build(iter([(X[:300], Y[:300])]), None, method, size="auto")
        assert_same(short, build(X[:300], Y[:300], method, size="auto"))
        with pytest.raises(ValueError, match="size=1201 must be between 1 and 1200, the rows of the data"):
            build(blocks([5], False), None, method, size=1201)


def test_auto_takes_what_fits_a_stream():
    assert bc.build_coreset(blocks([5], False), size=60, progressbar=False).method == "merge_reduce"


REFUSED = {
    "calibrated": ({"method": "calibrated"}, "method='calibrated' reads the rows more than once.*uniform.*online.*agg"),
    "sensitivity": ({"method": "sensitivity"}, "method='sensitivity' reads the rows more than once.*callable"),
    "leverage": ({"method": "leverage"}, "method='leverage' reads the rows more than once"),
    "standardize": ({"method": "online", "standardize": True}, "standardize=True reads the rows more than once"),
    "y": ({"method": "online", "y": Y}, "y is given, but data is an iterator of blocks"),
    "weights": ({"method": "online", "weights": W}, "weights is given, but data is an iterator"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_a_stream_cannot_do_is_said_before_a_row_is_read(kind):
    options, message = REFUSED[kind]
    stream = blocks([5], False)
    with pytest.raises(ValueError, match=message):
        bc.build_coreset(stream, progressbar=False, **options)
    assert len(list(stream)) == 2


# --- what travels -------------------------------------------------------------------------------------------


class Porter:
    """A pool that notes how large what is submitted is once pickled, as it would travel, and runs what arrives."""

    n_workers = 2

    def __init__(self):
        self.sizes, self.threads = [], ThreadPoolExecutor(2)

    def submit(self, run, tasks, /, *arguments):
        for task in tasks:
            parcel = cloudpickle.dumps((run, task, *arguments))
            self.sizes.append(len(parcel))
            own, *rest = pickle.loads(parcel)
            yield self.threads.submit(own, *rest)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("many") / "rows.parquet"
    X = rng.normal(size=(20_000, 3))
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(label=X[:, 0] + rng.logistic(size=len(X)) > 0)
    frame.to_parquet(path, row_group_size=2000)
    return sources.as_source(path, label="label")


LARGEST = 50_000  # bytes; the rows have 480,000, the draws that a calibrated coreset is tried out by 12,000


@pytest.mark.parametrize("method", METHODS)
def test_little_travels_to_the_workers_of_a_pool(method, many):
    porter = Porter()
    options = {"leaf_rows": 2000} if "leaf_rows" in METHODS[method] else {}
    build(replace(many, pool=porter), None, method, block_rows=1000, intercept=True, **options)
    assert len(porter.sizes) >= 10
    assert max(porter.sizes) < LARGEST


def test_rows_and_an_opened_would_be_noticed(many):
    porter = Porter()
    dataset = Dataset(replace(many, pool=porter), block_rows=1000)
    rows = dataset.load()
    list(dataset.map(lambda start, block: len(rows)))
    assert max(porter.sizes) > LARGEST
    with pytest.raises(TypeError, match="a Dataset stays in its process"):
        list(dataset.map(lambda start, block: dataset.n_features))


# --- clusters -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_two_processes_give_the_rows_of_the_array(method, tmp_path, cluster):
    expected = build(X, Y, method, weights=W, **DESIGN)
    frame, columns = frame_of(True)
    folder = files(tmp_path / "files", frame, CUTS[3], 30)
    with distributed.Client(cluster):
        given = [
            (dd.read_parquet(folder), None, columns),
            (dd.from_pandas(frame, npartitions=7).persist(), None, columns),
            (da.from_array(X, chunks=(500, 2)), da.from_array(Y, chunks=210), {"weights": da.from_array(W)}),
        ]
        for data, y, options in given:
            assert_same(build(data, y, method, **options, **DESIGN), expected)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "method"), [("partitions", "sensitivity"), ("files", "merge_reduce")])
def test_a_killed_worker_changes_nothing(kind, method, tmp_path, cluster, monkeypatch):
    frame, columns = frame_of(True)
    expected = build(X, Y, method, weights=W)
    folder = files(tmp_path / "files", frame, CUTS[3], 30)
    with distributed.Client(cluster) as client:
        data = dd.read_parquet(folder) if kind == "files" else dd.from_pandas(frame, npartitions=12)
        source = sources.as_source(data, **columns)
        pids, submitted = list(client.run(os.getpid).values()), []
        original = dask_source.ClusterPool.submit

        def submit(self, *arguments):
            for promise in original(self, *arguments):
                submitted.append(promise)
                if len(submitted) == 18:  # in the middle of the second pass
                    os.kill(pids[0], signal.SIGKILL)
                yield promise

        monkeypatch.setattr(dask_source.ClusterPool, "submit", submit)
        assert_same(build(source, None, method), expected)
        assert len(submitted) > 18
        with pytest.raises(ProcessLookupError):
            os.kill(pids[0], 0)


@pytest.mark.slow
def test_an_error_on_a_worker_names_file_and_row_group(tmp_path, cluster):
    frame, columns = frame_of(True)
    folder = files(tmp_path / "files", frame.assign(x1=np.where(np.arange(N) == 137, np.nan, X[:, 1])), [100], 30)
    with (
        distributed.Client(cluster),
        pytest.raises(ValueError, match=r"column 'x1' is nan in row 137.*row 7 of row group 1 of .*1\.parquet"),
    ):
        build(dd.read_parquet(folder), **columns)
