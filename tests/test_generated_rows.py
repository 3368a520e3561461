"""Rows that a counter makes: any row by its index, whatever the blocks, and the same from a table."""

import numpy as np
import pytest

import bayescore as bc
from bayescore.data.dataset import Dataset
from bayescore.data.source import Source
from bayescore.types import stack
from benchmarks.sources import generated
from benchmarks.sources.generated import Generated, made, table
from benchmarks.speed import billion

GROUPS = 50


def assert_same(rows, others):
    for name in ("X", "y", "weights", "index", "group"):
        np.testing.assert_array_equal(getattr(rows, name), getattr(others, name), name)


@pytest.mark.parametrize("groups", [0, GROUPS])
def test_any_row_is_that_of_its_block(groups):
    for start in (0, 10**9 - 500):
        block = made(3, start, 1000, groups)
        source = Generated(start + 1000, groups, seed=3)
        for n in (0, 1, 7, 499, 500, 999):
            assert_same(source.row(start + n), block.take(slice(n, n + 1)))


@pytest.mark.parametrize("groups", [0, GROUPS])
def test_blocks_may_have_any_length(groups, monkeypatch):
    whole = made(0, 0, 5000, groups)
    for piece, step in ((5000, 5000), (1024, 100), (777, 64), (3, 2)):
        monkeypatch.setattr(generated, "PIECE", piece)
        source = Generated(5000, groups)
        pieces = source.division(step).pieces
        assert sum(one.n_rows for one in pieces) == source.n_rows
        assert_same(stack([block for one in pieces for block in one.read(0, one.n_rows)]), whole)
        cut = [block for one in pieces for block in one.read(1, one.n_rows)]  # the head is read by another worker
        assert sum(map(len, cut)) == 5000 - len(pieces)
    assert isinstance(source, Source)
    canonical = Dataset(source, block_rows=512).map(lambda start, block: (start, block), canonical=True)
    for start, block in canonical:
        assert_same(block, whole.take(slice(start, start + 512)))


def test_seeds_and_rows_differ():
    rows = made(0, 0, 1000)
    assert len(np.unique(rows.X[:, 0])) > 990
    assert not (rows.X[:, :6] == made(1, 0, 1000).X[:, :6]).all(axis=1).any()
    assert not (rows.X[1:, :6] == rows.X[:-1, :6]).all(axis=1).any()


@pytest.mark.parametrize(("groups", "roles"), [(0, {}), (GROUPS, {"groups": "g"})])
def test_a_table_has_the_same_rows(groups, roles):
    rows = bc.all_rows(Generated(20_000, groups, seed=5), intercept=True, progressbar=False)
    read = bc.all_rows(table(5, 0, 20_000, groups), label="y", intercept=True, progressbar=False, **roles)
    assert_same(rows, read)
    assert (rows.classes, rows.feature_names) == (read.classes, read.feature_names)
    assert [own.levels for own in rows.groups] == [own.levels for own in read.groups]


@pytest.mark.parametrize("groups", [0, 100_000])
def test_events_are_rare_and_columns_skewed(groups):
    rows = made(0, 0, 1 << 20, groups)  # of one seed: no chance is left
    assert (rows.y > 0).mean() == pytest.approx(0.03, abs=0.0005)
    skewness = ((rows.X - rows.X.mean(axis=0)) ** 3).mean(axis=0) / rows.X.std(axis=0) ** 3
    assert np.abs(skewness[:2]).max() < 0.02
    assert skewness[2:6].min() > 1.5
    np.testing.assert_allclose(rows.X.mean(axis=0)[[0, 1, 2, 3, 5, 6, 7]], [0, 0, 1, 1, 1, 0.3, 1e-3], atol=0.006)
    if groups:
        sizes = np.bincount(rows.group[:, 0], minlength=groups)
        assert sizes[:1000].sum() == pytest.approx(0.1 * len(rows), rel=0.02)  # (1000 / 100,000) ** 0.5


@pytest.mark.parametrize("kind", ["flat", "groups"])
def test_a_file_of_the_rows_is_deleted_though_the_run_ends_early(kind):
    groups = billion.n_groups(kind, 5000)
    found = []

    def interrupted():
        with billion.file_of(kind, 5000, groups) as path:
            found.append(path)
            roles = {"groups": "g"} if groups else {}
            rows = bc.all_rows(path, label="y", progressbar=False, **roles)
            assert_same(rows, made(billion.SEED, 0, 5000, groups))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [path.exists() for path in found] == [False]
