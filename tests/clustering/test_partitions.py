"""d-means++ over Dask partitions and files: the centers of `d_means`, and no row but the centers comes here."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.clustering import d_means, d_means_partitions
from bayescore.clustering.peers import PeerSeeding
from bayescore.data import dask as dask_source
from bayescore.data.sources import as_source
from bayescore.validation import DataError
from tests.clustering.helpers import blobs, cost

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, used by Dask

K = 5
X = blobs(sizes=(900, 500, 250, 100, 37), n_features=3)
N = len(X)
CHUNKS = (1000, 1, 86, 400, 300)
W = np.random.default_rng(1).uniform(0.2, 5.0, N)
Y = np.where(np.arange(N) % 3 == 0, 1, -1)


def cut(rows):
    """The rows of each peer."""
    ends = np.cumsum(CHUNKS)
    return [rows[low:high] for low, high in zip(ends - CHUNKS, ends, strict=True)]


PARTS, WEIGHTS, SIGNED = cut(X), cut(W), cut(X * Y[:, None])


def array(X=X, chunks=CHUNKS):
    return da.from_array(X, chunks=(chunks, (2, 1)))


def frame(**columns):
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(**columns)
    return dd.concat([dd.from_pandas(part, npartitions=1) for part in cut(table)])


def same(found, expected):
    """Whether the results of distributed and held peers are equal, but for the bytes sent."""
    assert isinstance(found, PeerSeeding)
    np.testing.assert_array_equal(found.centers, expected.centers)
    assert found.cost == expected.cost
    assert found.received == expected.received
    return True


GIVEN = {
    "array": lambda: array(),
    "unknown chunks": lambda: frame().to_dask_array(),
    "frame": lambda: frame(),
    "nullable column": lambda: frame().astype({"a": "Float64"}),
    "lazy column": lambda: frame().assign(c=lambda table: table["c"] * 1.0),
    "empty partitions": lambda: dd.concat([frame().query("a > 1e9"), frame()]),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_partitions_give_the_centers_of_the_same_peers(kind):
    for seed in range(5):
        assert same(d_means_partitions(GIVEN[kind](), K, random_state=seed), d_means(PARTS, K, random_state=seed))


def test_weights_and_divergences():
    expected = d_means(PARTS, K, weights=WEIGHTS, random_state=2)
    assert same(d_means_partitions(array(), K, weights=da.from_array(W, chunks=700), random_state=2), expected)
    weighted = frame(w=W)
    assert same(d_means_partitions(weighted[["a", "b", "c"]], K, weights=weighted["w"], random_state=2), expected)
    positive = [np.exp(part / 10.0) for part in PARTS]
    found = d_means_partitions(array(np.exp(X / 10.0)), K, divergence="itakura_saito", random_state=2)
    assert same(found, d_means(positive, K, divergence="itakura_saito", random_state=2))


def test_bytes_are_counted():
    found = d_means_partitions(array(), K, random_state=0)
    m, D = len(PARTS), 3
    assert found.sent == 8 * D * (m * K * (K + 1) // 2 + K * (K - 1) // 2)
    assert found.received == 8 * (m * (K + 1) + K * D)
    assert found.cost == pytest.approx(cost(X, found.centers), rel=1e-12)


def test_signed_rows_of_a_source(tmp_path):
    table = pd.DataFrame(X).add_prefix("x").assign(label=Y, w=W)
    for i, part in enumerate(cut(table)):
        part.to_parquet(tmp_path / f"{i}.parquet", index=False)
    expected = d_means(SIGNED, K, weights=WEIGHTS, random_state=4)
    folder = as_source(tmp_path, label="label", weights="w")
    collection = as_source(frame(label=Y, w=W), label="label", weights="w")
    for source in (folder, collection):
        assert same(d_means_partitions(source, K, random_state=4), expected)
    held = d_means_partitions(as_source(X, Y), K, random_state=4)  # one block, one peer
    assert same(held, d_means([np.concatenate(SIGNED)], K, random_state=4))


def build(data, y=None, clustering="d-means++", **options):
    given = {"method": "sensitivity", "size": 60, "progressbar": False, "random_state": 3, **options}
    return bc.build_coreset(data, y, clustering=clustering, **given)


def test_a_build_takes_it_by_name():
    rng = np.random.default_rng(3)
    seeds = d_means(SIGNED, 4, random_state=rng)
    core = build(frame(label=Y), label="label")
    np.testing.assert_array_equal(core.params["clustering"], seeds.centers[np.unique(_used(seeds.centers))])
    assert core.params["passes"] < 4 + 6  # k + 1 for the seeding, one to plan it, checks, clusters and draws
    assert build(frame(label=Y), label="label", clusters=7).params["clusters"] == 7
    again = build(X, Y)  # one block is one peer: other clusters, as said
    assert again.params["clustering"] != core.params["clustering"]
    assert core.weights.sum() == pytest.approx(N, rel=0.5)


def _used(centers):
    Z = np.concatenate(SIGNED)
    return ((Z[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)


BAD = {
    "k": (lambda: d_means_partitions(array(), 0), ValueError, "n_clusters=0 must be at least 1"),
    "rows in memory": (lambda: d_means_partitions(PARTS, 3), TypeError, "data is a list; give a Dask collection"),
    "a column": (lambda: d_means_partitions(frame()["a"], 3), TypeError, "data is a Dask Series"),
    "text": (lambda: d_means_partitions(frame(c="t"), 3), DataError, "columns are not numeric: 'c'"),
    "no rows": (lambda: d_means_partitions(frame().query("a > 1e9"), 3), DataError, "data is an empty collection"),
    "few rows": (
        lambda: d_means_partitions(array(np.ones((N, 3))), 3),
        DataError,
        "n_clusters=3, but the data have 1 distinct rows; ask for n_clusters=1 or fewer",
    ),
    "nan": (
        lambda: d_means_partitions(frame(c=np.where(np.arange(N) == 1005, np.nan, 1.0)), 3),
        DataError,
        r"column 'c' is nan in row 1005; .* \(row 4 of partition 2\)",
    ),
    "domain": (lambda: d_means_partitions(array(), 3, divergence="itakura_saito"), DataError, "positive entries"),
    "weights of 0": (
        lambda: d_means_partitions(array(), 3, weights=da.zeros(N, chunks=N)),
        DataError,
        "no row is left: all weigh 0",
    ),
    "weights here": (lambda: d_means_partitions(array(), 3, weights=W), DataError, "'weight' beside a Dask coll"),
    "weights of a source": (
        lambda: d_means_partitions(as_source(X, Y), 3, weights=W),
        DataError,
        "weights is given, but data is a Source",
    ),
    "one stream": (
        lambda: d_means_partitions(as_source(lambda: iter([(X, Y)])), 3),
        DataError,
        "data come in one stream, and d-means.. needs peers: give a Dask collection",
    ),
    "another name": (lambda: build(X, Y, "k-means++"), ValueError, "clustering='k-means..' is unknown; .* 'd-means"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input(kind):
    call, error, message = BAD[kind]
    with pytest.raises(error, match=message):
        call()


# --- clusters -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as workers:
            yield workers


@pytest.mark.slow
def test_two_processes_give_the_same_centers_and_no_row_but_the_centers_comes_here(cluster, monkeypatch):
    futures, submit = [], dask_source.ClusterPool.submit

    def recorded(self, *arguments):
        for future in submit(self, *arguments):
            futures.append(future)
            yield future

    monkeypatch.setattr(dask_source.ClusterPool, "submit", recorded)
    with distributed.Client(cluster):
        for data in (array(), frame().persist()):
            for seed in range(2):
                futures.clear()
                assert same(d_means_partitions(data, K, random_state=seed), d_means(PARTS, K, random_state=seed))
                assert len(futures) == len(PARTS) * (K + 1) + K
                assert max(len(pickle.dumps(future.result())) for future in futures) < 1000  # the rows have 42,888
        core = build(frame(label=Y), label="label")
    np.testing.assert_array_equal(core.weights, build(frame(label=Y), label="label").weights)
