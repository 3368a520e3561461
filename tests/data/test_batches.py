"""Rows that come in Arrow batches (LazyFrames, DuckDB relations, CSV): those of the table, and what is refused."""

import gzip

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.types import stack
from bayescore.validation import DataError
from tests.cuts import build_in_blocks

pl = pytest.importorskip("polars")

N = 700
_rng = np.random.default_rng(6)
FRAME = pd.DataFrame(
    {
        "a": _rng.normal(size=N),
        "no b": _rng.integers(-5, 5, N),
        "level": _rng.choice(["x", "y", "z"], N),
        "label": np.where(_rng.random(N) < 0.4, "yes", "no"),
        "w": _rng.uniform(0.5, 3.0, N),
    }
)
PLAIN = FRAME.drop(columns="level")


def lazy(frame, _):
    return pl.from_pandas(frame).lazy()


def scanned(frame, folder):
    frame.to_parquet(folder / "rows.parquet", row_group_size=100)
    return pl.scan_parquet(folder / "rows.parquet").with_columns(pl.col("a") * 1.0)


def relation(frame, folder):
    duckdb = pytest.importorskip("duckdb")
    frame.to_parquet(folder / "rows.parquet", row_group_size=100)
    return duckdb.connect().read_parquet(str(folder / "rows.parquet"))


def csv(frame, folder):
    frame.to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def zipped(frame, folder):
    frame.to_csv(folder / "rows.tsv.gz", index=False, sep="\t")
    return str(folder / "rows.tsv.gz")


def parts(frame, folder, names=("part-2.csv", "part-10.tsv", "part-11.csv")):
    cuts = [frame[:100], frame[100:101], frame[101:]]
    for name, part in zip(names, cuts, strict=True):
        part.to_csv(folder / name, index=False, sep="\t" if name.endswith("tsv") else ",")
    return [folder / name for name in names]


KINDS = {"csv files": parts, "lazy": lazy, "scanned": scanned, "duckdb": relation, "csv": csv, "tsv.gz": zipped}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_table(kind, tmp_path):
    given = KINDS[kind](PLAIN, tmp_path)
    source, expected = (as_source(data, label="label", weights="w") for data in (given, PLAIN))
    assert source.n_rows == N
    assert source.design.raw_names == ("a", "no b")
    want = stack(list(expected.blocks()))
    for _ in range(2):
        for found in (list(source.blocks()), list(Dataset(source, block_rows=64).map(lambda _, block: block))):
            rows = stack(found)
            for name in ("X", "y", "weights", "index"):
                np.testing.assert_array_equal(getattr(rows, name), getattr(want, name))


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_are_a_column(kind, tmp_path):
    given = KINDS[kind](PLAIN, tmp_path)
    source = as_source(given, label="label", weights="w", offset="a")
    rows = stack(list(source.blocks()))
    np.testing.assert_array_equal(rows.offset, PLAIN["a"])
    assert source.design.raw_names == ("no b",)
    with pytest.raises(DataError, match=r"offset of .* must be the name of a column"):
        as_source(given, label="label", offset=PLAIN["a"].to_numpy())


@pytest.mark.parametrize("method", ["calibrated", "online", "uniform"])
@pytest.mark.parametrize("kind", KINDS)
def test_coresets_are_those_of_the_array_to_the_last_bit(kind, method, tmp_path):
    options = {"method": method, "size": 90, "block_rows": 64, "label": "label", "weights": "w"}
    expected = build_in_blocks(PLAIN, **options)
    found = build_in_blocks(KINDS[kind](PLAIN, tmp_path), **options)
    for name in ("X", "y", "weights", "index"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("kind", KINDS)
def test_formulas_name_the_label_and_learn_levels_of_text(kind, tmp_path):
    asked = {"formula": "label ~ a * level + center(`no b`)", "size": 120, "random_state": 1, "progressbar": False}
    expected = bc.build_coreset(FRAME, **asked)
    found = bc.build_coreset(KINDS[kind](FRAME, tmp_path), **asked)
    assert found.design == expected.design
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.weights, expected.weights)


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_fit_is_refused_before_a_pass(kind, tmp_path):
    data = KINDS[kind](FRAME, tmp_path)
    for options, message in (
        ({}, r"label is missing: .* a, no b, level, label, w"),
        ({"label": "target"}, "label='target' is not a column"),
        ({"label": "label"}, "not numeric: 'level'"),
        ({"label": "label", "y": FRAME["label"]}, r"y is given beside .*name the column"),
        ({"label": "label", "weights": FRAME["w"]}, "weights of .* must be the name of a column"),
    ):
        with pytest.raises(DataError, match=message):
            as_source(data, **options)
    one = KINDS[kind](PLAIN[PLAIN["label"] == "no"], tmp_path)
    with pytest.raises(DataError, match="one class only, 'no'"):
        as_source(one, label="label")
    with pytest.raises(DataError, match=r"17 classes|classes .*two are needed"):
        as_source(KINDS[kind](PLAIN.assign(label=np.arange(N) % 17), tmp_path), label="label")


@pytest.mark.parametrize("kind", KINDS)
def test_missing_entries_are_named(kind, tmp_path):
    bad = PLAIN.assign(a=PLAIN["a"].where(np.arange(N) != 137))
    with pytest.raises(DataError, match="column 'a' is nan in row 137"):
        _ = Dataset(as_source(KINDS[kind](bad, tmp_path), label="label", weights="w"), block_rows=64).scan
    given = KINDS[kind](PLAIN.assign(label=PLAIN["label"].where(np.arange(N) != 137)), tmp_path)
    with pytest.raises(DataError, match="missing labels"):
        as_source(given, label="label", weights="w")


def test_an_empty_query_is_refused():
    with pytest.raises(DataError, match="data have no rows"):
        as_source(pl.from_pandas(PLAIN).lazy().filter(pl.col("a") > 100.0), label="label")


def test_a_query_without_an_order_of_its_own_is_caught():
    rng = np.random.default_rng(0)
    query = pl.from_pandas(PLAIN).lazy().map_batches(lambda frame: frame[rng.permutation(len(frame))])
    source = as_source(query, label="label", weights="w")
    with pytest.raises(DataError, match="700 rows first and 700 now, or others, or in another order: a query must"):
        list(source.blocks())


def test_a_pass_that_is_left_early_leaves_the_connection_free(tmp_path):
    source = as_source(relation(PLAIN, tmp_path), label="label", weights="w")
    blocks = source.blocks()
    next(blocks)
    blocks.close()
    assert len(stack(list(source.blocks()))) == N


BAD_CSV = {
    "no header": ("0.5,1,yes\n0.25,0,no\n", "begins with 0.5, 1, yes, numbers where the names .* should stand"),
    "semicolons": ("a;b;label\n1;2;yes\n3;4;no\n", r"separated by ';', not ','; give pyarrow.dataset.dataset"),
    "decimal commas": ("a;b;label\n1,5;2;yes\n3,5;4;no\n", "separated by ';', not ','"),
    "lengths": ("a,b,label\n1,2,yes\n3,no\n", "not read as CSV .*Expected 3 columns, got 2"),
    "empty": ("", "is empty; it needs a line of names and rows"),
    "names only": ("a,b,label\n", "no rows|one is needed|is not read as CSV"),
    "names alike": ("a,a,label\n1,2,yes\n3,4,no\n", "column 'a' stands more than once"),
    "text": ("a,b,label\n1,x,yes\n3,4,no\n", "not numeric: 'b'"),
}


@pytest.mark.parametrize("kind", BAD_CSV)
def test_bad_csv_is_refused_with_the_reason(kind, tmp_path):
    text, message = BAD_CSV[kind]
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        as_source(tmp_path / "rows.csv", label="label")


def test_text_that_turns_up_late_in_a_column_of_numbers_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("bayescore.data.batches._BLOCK_BYTES", 2000)
    late = PLAIN.assign(a=np.where(np.arange(N) == 600, "n/k", PLAIN["a"].astype(str)))
    late.to_csv(tmp_path / "rows.csv", index=False)
    source = as_source(tmp_path / "rows.csv", label="label", weights="w")
    with pytest.raises(DataError, match=r"not read as CSV .*CSV conversion error to double: invalid value 'n/k'"):
        list(source.blocks())
    whole = PLAIN.assign(a=np.where(np.arange(N) < 600, 1, 0.25), e=np.where(np.arange(N) < 600, np.nan, 2.0))
    whole.to_csv(tmp_path / "rows.csv", index=False)  # whole numbers and empty entries at first
    rows = stack(list(as_source(tmp_path / "rows.csv", label="label", weights="w").blocks()))
    np.testing.assert_array_equal(rows.X, whole[["a", "no b", "e"]])


def test_marks_of_other_programs_in_csv_are_read(tmp_path):
    text = '\ufeff"a","b, c",label\r\n1,"2",0\r\n3,4,1\r\n'
    with gzip.open(tmp_path / "rows.csv.gz", "wt", newline="") as file:
        file.write(text)
    source = as_source(tmp_path / "rows.csv.gz", label="label")
    assert source.design.raw_names == ("a", "b, c")
    assert source.classes == (0, 1)
    np.testing.assert_array_equal(stack(list(source.blocks())).X, [[1.0, 2.0], [3.0, 4.0]])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"data: no file .*rows\.csv"):
        as_source(tmp_path / "rows.csv", label="label")


def test_a_pattern_names_csv_files_in_natural_order_and_home_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "rows").mkdir()
    paths = parts(PLAIN, tmp_path / "rows", ("part-2.csv", "part-10.csv", "part-11.csv"))
    listed, named = (
        stack(list(as_source(data, label="label", weights="w").blocks())) for data in (paths, "~/rows/part-*.csv")
    )
    assert np.array_equal(listed.X, named.X)
    assert np.array_equal(listed.X[:, 0], PLAIN["a"])
    fit = bc.fit("label ~ .", "~/rows/part-*.csv", weights="w", random_state=1, progressbar=False)
    assert (fit.formula, fit.coreset.n_observations) == ("label ~ a + `no b`", N)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"c": 1.0}, r"column 'c' stands in .*other\.csv' and not in .*first\.csv'; add it"),
        ({"a": "high"}, r"column 'a' is double in .*first\.csv' and string in .*other\.csv'; make them alike"),
    ],
)
def test_csv_files_of_other_columns_are_refused(change, message, tmp_path):
    PLAIN.to_csv(tmp_path / "first.csv", index=False)
    PLAIN.assign(**change).to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(DataError, match=message):
        as_source([tmp_path / "first.csv", tmp_path / "other.csv"], label="label")
    with pytest.raises(DataError, match=r"first\.csv' stands twice in the list of files"):
        as_source([tmp_path / "first.csv"] * 2, label="label")
    with pytest.raises(FileNotFoundError, match=r"no file is named as .*none-\*\.csv"):
        as_source(tmp_path / "none-*.csv", label="label")
