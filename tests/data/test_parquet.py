"""Parquet: order of files, Hive columns, row groups as pieces, and what an error names."""

import pickle
import re
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayescore as bc
from bayescore.data.dataset import Dataset
from bayescore.data.parquet import local_listing, parquet_source
from bayescore.data.roles import Roles
from bayescore.data.sources import as_source
from bayescore.types import stack
from bayescore.validation import DataError

N = 240
_rng = np.random.default_rng(8)
FRAME = pd.DataFrame({"a": _rng.normal(size=N), "b": _rng.integers(0, 9, N), "y": _rng.integers(0, 2, N)})


def write(frame, path, rows=10):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=rows)
    return path


def rows_of(source):
    return stack(list(source.blocks()))


def test_files_are_read_in_natural_order_and_hidden_ones_are_not(tmp_path):
    for i, part in enumerate(np.array_split(np.arange(N), 12)):
        write(FRAME.iloc[part], tmp_path / "f" / f"part-{i}.parquet")
    for name in ("_old.parquet", ".part.parquet", "_temporary/part-1.parquet"):
        write(FRAME, tmp_path / "f" / name)
    source = as_source(tmp_path / "f", label="y")
    assert source.n_rows == N
    np.testing.assert_array_equal(rows_of(source).X, FRAME[["a", "b"]])


def hive(tmp_path, values, name="k"):
    for i, (value, part) in enumerate(zip(values, np.array_split(np.arange(N), len(values)), strict=True)):
        write(FRAME.iloc[part], tmp_path / f"{name}={value}" / f"z={i % 2}" / f"{i}.parquet")
    return tmp_path


def test_folders_named_by_hive_are_columns(tmp_path):
    source = as_source(hive(tmp_path, [2, 10, 11]), label="y")  # in this order: the names are numbers
    assert source.design.raw_names == ("a", "b", "k", "z")
    np.testing.assert_array_equal(rows_of(source).X[:, 2], np.repeat([2.0, 10.0, 11.0], N // 3))
    np.testing.assert_array_equal(rows_of(source).X[:, 3], np.repeat([0.0, 1.0, 0.0], N // 3))
    np.testing.assert_array_equal(rows_of(source).X[:, :2], FRAME[["a", "b"]])


def test_a_hive_column_may_be_the_label_or_the_weights(tmp_path):
    source = as_source(hive(tmp_path / "label", ["no", "yes%20sir"]), label="k")
    assert source.classes == ("no", "yes sir")
    assert source.design.raw_names == ("a", "b", "y", "z")
    np.testing.assert_array_equal(rows_of(source).y, np.repeat([-1, 1], N // 2))
    source = as_source(hive(tmp_path / "weights", ["0.5", "2"]), label="y", weights="k")
    np.testing.assert_array_equal(rows_of(source).weights, np.repeat([0.5, 2.0], N // 2))


def test_hive_columns_that_cannot_be_features_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"not numeric: 'k' \(string\)"):
        as_source(hive(tmp_path / "text", ["north", "south"]), label="y")
    with pytest.raises(DataError, match=r"column 'k' is nan in row 120.*row 0 of row group 0 of .*DEFAULT"):
        _ = Dataset(as_source(hive(tmp_path / "null", ["1", "__HIVE_DEFAULT_PARTITION__"]), label="y")).scan
    folder = hive(tmp_path / "mixed", ["1", "2"])
    write(FRAME, folder / "x.parquet")
    with pytest.raises(DataError, match=r"x\.parquet' has other partition columns than"):
        as_source(folder, label="y")


def test_pieces_are_row_groups_or_several_small_ones_and_small_when_pickled(tmp_path):
    write(FRAME.iloc[:100], tmp_path / "0.parquet", 10)
    write(FRAME.iloc[100:], tmp_path / "1.parquet", 60)
    source = as_source(tmp_path, label="y")
    pieces = source.division(25).pieces
    assert [piece.n_rows for piece in pieces] == [20, 20, 20, 20, 20, 60, 60, 20]
    assert max(len(pickle.dumps(piece)) for piece in pieces) < 2000
    for piece, start in zip(pieces, np.cumsum([0, *(p.n_rows for p in pieces[:-1])]), strict=True):
        for low, high in ((0, piece.n_rows), (3, 17), (12, 13)):
            found = stack(list(piece.read(low, high)))
            np.testing.assert_array_equal(found.X, FRAME[["a", "b"]].iloc[start + low : start + high])
            np.testing.assert_array_equal(found.index, np.arange(start + low, start + high))


@pytest.mark.parametrize("step", [10, 1000])
def test_an_error_names_the_file_and_the_row_group(step, tmp_path):
    bad = FRAME.assign(a=np.where(np.arange(N) == 137, np.nan, FRAME["a"]), w=1.0)
    write(bad.iloc[:100], tmp_path / "f" / "0.parquet")
    path = write(bad.iloc[100:], tmp_path / "f" / "1.parquet")
    where = re.escape(f"(row 7 of row group 3 of {str(path)!r})")
    with pytest.raises(DataError, match="column 'a' is nan in row 137; drop such rows .*" + where):
        _ = Dataset(as_source(tmp_path / "f", label="y", weights="w"), block_rows=step).scan
    write(FRAME.assign(w=np.where(np.arange(N) == 137, -1.0, 1.0)).iloc[100:], path)
    write(FRAME.assign(w=1.0).iloc[:100], tmp_path / "f" / "0.parquet")
    with pytest.raises(DataError, match="column 'w'.* is -1 in row 137; .*" + where):
        _ = Dataset(as_source(tmp_path / "f", label="y", weights="w"), block_rows=step).scan


def test_only_the_columns_asked_for_are_read(tmp_path):
    path = write(FRAME.assign(name="text"), tmp_path / "x.parquet")
    source = parquet_source(local_listing(path), Roles(label="y"), only=["b", "y"])
    assert source.design.raw_names == ("b",)
    np.testing.assert_array_equal(rows_of(source).X, FRAME[["b"]])


SWAPPED = {
    "a column renamed": (lambda d: d.rename(columns={"x": "z"}), "lacks the column 'x'"),
    "no label": (lambda d: d.drop(columns="y"), "lacks the column 'y'"),
    "no group": (lambda d: d.drop(columns="g"), "lacks the column 'g'"),
    "fewer rows": (lambda d: d[:500], "has other rows: 500, and 6,000 before"),
}


@pytest.mark.parametrize("kind", SWAPPED)
@pytest.mark.parametrize("at", [1, 2])
def test_a_file_that_changes_in_the_middle_of_a_pass_is_named(kind, at, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(size=6000), "g": rng.integers(0, 9, 6000)})
    rows["y"] = rows["x"] + rng.logistic(size=6000) > 0
    change, message = SWAPPED[kind]
    path, passes, usual = tmp_path / "rows.parquet", [0], Dataset.map
    rows.to_parquet(path, row_group_size=500)

    def swapped(self, *args, **how):
        passes[0] += 1
        results = usual(self, *args, **how)
        if passes[0] == at:
            change(rows).to_parquet(path, row_group_size=500)
        yield from results

    monkeypatch.setattr(Dataset, "map", swapped)
    with pytest.raises(DataError, match=rf"rows\.parquet' has changed since it was read first, and .*{message}"):
        bc.fit("y ~ x + (1 | g)", str(path), random_state=1, progressbar=False)


@pytest.mark.parametrize("categories", [["low", "mid", "high"], [10, 20, 30], [0.25, 0.5, 2.0], [False, True]])
def test_categoricals_of_pandas_are_the_factors_of_the_frame(categories, tmp_path):
    rng = np.random.default_rng(0)
    column = pd.Categorical([categories[k] for k in rng.integers(0, len(categories), 300)], categories)
    rows = pd.DataFrame({"f": column, "x": rng.normal(size=300), "y": rng.integers(0, 2, 300)})
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=70)
    known = bc.all_rows(rows, formula="y ~ f + x", progressbar=False)
    told = pytest.warns(UserWarning, match="categoricals of numbers in pandas: they are factors")
    with nullcontext() if isinstance(categories[0], str) else told:
        found = bc.all_rows(tmp_path / "rows.parquet", formula="y ~ f + x", progressbar=False)
    assert found.feature_names == known.feature_names
    np.testing.assert_array_equal(found.X, known.X)
    named = bc.all_rows(tmp_path / "rows.parquet", formula="y ~ C(f) + x", progressbar=False)
    np.testing.assert_array_equal(named.X, known.X)


def test_rows_of_a_file_have_the_order_of_the_frame_that_was_fitted(tmp_path):
    rng = np.random.default_rng(0)
    column = pd.Categorical(rng.choice([30, 10, 20], 300), [30, 10, 20])
    rows = pd.DataFrame({"f": column, "x": rng.normal(size=300), "y": rng.integers(0, 2, 300)})
    fit = bc.fit("y ~ f + x", rows, random_state=1, progressbar=False)
    fit.save(tmp_path / "fit")
    rows.to_parquet(tmp_path / "rows.parquet")
    read = bc.read_fit(tmp_path / "fit", data=tmp_path / "rows.parquet")
    table = read.comparisons("f")
    np.testing.assert_allclose(table["mean"], fit.comparisons("f")["mean"])
    assert read.update(tmp_path / "rows.parquet").coreset.feature_names == ("Intercept", "f[10]", "f[20]", "x")


@pytest.mark.parametrize("row", [0, 9, 10, 20, 39])
def test_an_error_names_the_row_group_of_first_and_last_rows(row, tmp_path):
    frame = FRAME.head(40).assign(a=np.where(np.arange(40) == row, np.nan, 1.0))
    path = write(frame, tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=f"row {row % 10} of row group {row // 10} of "):
        _ = Dataset(as_source(path, label="y")).scan
