"""Rows of Parquet files that workers read once and keep: the rows of the files, whatever the cuts."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("dask.dataframe")

from dask.base import compute

import bayescore as bc
from bayescore.data import dask as dask_kept
from bayescore.data.dask import ClusterPool, KeptSource, kept_source
from bayescore.data.dataset import Dataset
from bayescore.data.source import plan
from bayescore.data.sources import as_source
from bayescore.types import stack
from bayescore.validation import DataError

N = 700
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["a", "b"]).assign(
    y=np.arange(N) % 2, w=RNG.uniform(1.0, 2.0, N), g=[f"g{k}" for k in RNG.integers(0, 9, N)]
)
ROLES = {"label": "y", "weights": "w", "groups": "g"}


class Workers:
    """A client whose workers have computed what they are given; `places` are the workers of each promise."""

    def __init__(self, threads):
        self.threads, self.places = threads, []

    def nthreads(self):
        return self.threads

    def scheduler_info(self, n_workers):
        return {"workers": {name: {"memory_limit": 1_000_000} for name in self.threads}}

    def persist(self, promises, workers, allow_other_workers):
        assert allow_other_workers  # those that are left where one is lost
        self.places += workers
        return list(promises)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(dask_kept, "block_rows", lambda _: 100)  # or one piece would have all row groups
    TABLE.to_parquet(tmp_path / "rows.parquet", index=False, row_group_size=100)
    return as_source(tmp_path / "rows.parquet", **ROLES)


@pytest.mark.parametrize("step", [16, 64, 1024])
def test_kept_rows_are_those_of_the_files(files, step):
    workers = Workers({"one": 1, "two": 1})
    source = kept_source(files, ClusterPool(workers))
    assert isinstance(source, KeptSource)
    expected = stack(list(files.blocks()))
    division = source.division(step)
    assert division.pool.client is workers
    for task in plan(division, step):
        parts = []
        for part in task.parts:
            piece = part.piece
            if part.high - part.low < piece.n_rows:
                piece, part = piece.cut(part.low, part.high), part._replace(low=0, high=part.high - part.low)
            (held,) = compute(piece.table, scheduler="synchronous")
            blocks = list(type(piece)(held, piece.n_rows, step, piece.piece).read(part.low, part.high))
            assert max(map(len, blocks)) <= step
            parts += blocks
        found, own = stack(parts), expected.take(slice(task.start, task.start + task.n_rows))
        for name in ("X", "y", "weights", "index", "group"):
            np.testing.assert_array_equal(getattr(found, name), getattr(own, name))


def test_workers_read_once_and_have_their_share_of_the_rows(files):
    workers = Workers({"one": 2, "two": 1})
    source = kept_source(files, ClusterPool(workers))
    first, again = source.division(100), source.division(64)
    assert [piece.table for piece in first.pieces] == [piece.table for piece in again.pieces]
    assert (workers.places.count("one"), workers.places.count("two")) == (5, 2)


def test_rows_beyond_the_budget_are_read_anew(files):
    pool = SimpleNamespace(memory=4 * N * 48 - 1)  # two columns, a group, label, weight and position
    assert kept_source(files, pool) is files
    assert kept_source(files, SimpleNamespace(memory=4 * N * 48)) is not files


def test_an_error_is_a_value_on_the_worker_and_names_the_row(files, tmp_path):
    source = kept_source(files, ClusterPool(Workers({"one": 1})))
    piece = source.division(100).pieces[3]
    (tmp_path / "rows.parquet").write_bytes(b"no longer a file")
    (held,) = compute(piece.table, scheduler="synchronous")
    assert isinstance(held, DataError)
    with pytest.raises(DataError, match="damaged"):
        list(type(piece)(held, 100, 100, piece.piece).read(0, 100))
    assert piece.place(5).startswith("row 5 of row group 3 of")


def test_passes_of_this_process_read_the_files(files):
    source = kept_source(files, ClusterPool(Workers({"one": 1})))
    assert Dataset(source).remote
    np.testing.assert_array_equal(stack(list(source.blocks())).X, stack(list(files.blocks())).X)


@pytest.mark.parametrize("roles", [{"missing": "drop"}, {"weights": "w"}, {"label": "s", "trials": "t"}], ids=str)
def test_rows_that_are_left_out_and_counts_are_those_of_the_table(roles, tmp_path):
    """Of files and of partitions, on a worker."""
    dd, distributed = pytest.importorskip("dask.dataframe"), pytest.importorskip("distributed")
    table = TABLE[["a", "b", "y"]].assign(w=np.arange(N) % 3 * 1.0, t=3, s=np.arange(N) % 4)
    table.loc[::97, "a"] = np.nan if "missing" in roles else 0.0
    told = {"label": "y", **roles}
    table = table[["a", "b", *(own for name, own in told.items() if name != "missing")]]
    table.to_parquet(tmp_path / "rows.parquet", index=False, row_group_size=200)
    about = {"method": "uniform", "size": 80, "random_state": 1, "progressbar": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = bc.build_coreset(table, **told, **about)
        cluster = distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0")
        with cluster, distributed.Client(cluster):
            frames = dd.read_parquet(tmp_path / "rows.parquet"), dd.from_pandas(table, npartitions=3)
            found = [bc.build_coreset(frame, **told, **about) for frame in frames]
    for core in found:
        assert core.n_total == expected.n_total
        np.testing.assert_array_equal(core.X, expected.X)
        np.testing.assert_array_equal(core.weights, expected.weights)
