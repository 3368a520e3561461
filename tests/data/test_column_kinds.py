"""What a column is: intervals, categories of any values, text of numbers, mixed columns, files whose schemas differ."""

import datetime as dt
import warnings

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import bayescore as bc
from bayescore.data.factors import number_text
from bayescore.validation import DataError

N = 600
RNG = np.random.default_rng(7)
AGE = RNG.uniform(18, 80, N)
Y = (0.04 * (AGE - 50) + RNG.logistic(size=N) > 0).astype(int)


def rows(data, formula="y ~ x", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bc.all_rows(data, formula=formula, progressbar=False, **options)


def names(data, formula="y ~ x"):
    return rows(data, formula).design.names


@pytest.mark.parametrize(
    "values",
    [
        pd.cut(AGE, [0, 30, 50, 100]),
        pd.qcut(AGE, 3),
        pd.Series(pd.cut(AGE, [0, 30, 50, 100])).astype(object).astype("category"),
        pd.arrays.IntervalArray(np.asarray(pd.cut(AGE, [0, 30, 50, 100]))),
        pd.Categorical(pd.PeriodIndex(np.where(AGE > 40, "2020-01", "2020-02"), freq="M")),
        pd.Categorical(np.where(AGE > 40, dt.date(2020, 1, 1), dt.date(2021, 1, 1))),
    ],
    ids=["cut", "qcut", "categories of intervals", "intervals", "periods", "dates"],
)
@pytest.mark.parametrize("formula", ["y ~ x", "y ~ C(x)", "y ~ 1 + (1 | x)"])
def test_intervals_and_periods_are_their_text_in_their_order(values, formula):
    series = pd.Series(values)
    ordered = series.astype("category")
    levels = [str(level) for level in ordered.cat.categories]
    frame = pd.DataFrame({"x": series, "y": Y})
    core = rows(frame, formula)
    if "|" in formula:
        assert list(core.groups[0].levels) == levels
        text = pd.Categorical(ordered.astype(str), levels)
        assert (core.group[:, 0] == text.codes).all()
    else:
        column = "C(x)" if "C(" in formula else "x"
        assert core.design.names == ("Intercept", *(f"{column}[{level}]" for level in levels[1:]))
        new = frame.assign(x=ordered.astype(str)).head(5)  # as text
        assert np.array_equal(core.design.transform(new), core.X[:5])
        assert np.array_equal(core.design.transform(frame.tail(5)), core.X[-5:])


@pytest.mark.parametrize(
    ("values", "others"),
    [
        ([1, 2, 3], [[1.0, 3.0], ["1", "3"], pd.Categorical([1, 3])]),
        ([0.5, 1.5, 2.5], [[0.5, 2.5], ["0.5", "2.5"]]),
        ([True, False, True], [[False, True]]),
        (["1", "2", "XL"], [[1, 2], [1.0, 2.0], ["1", "XL"]]),
    ],
)
def test_levels_are_compared_by_value_in_rows_that_follow(values, others):
    frame = pd.DataFrame({"x": pd.Categorical(np.tile(values, N // 3)), "y": Y})
    core = rows(frame)
    for other in others:
        expected = [str(level) for level in np.asarray(other)]
        place = [[str(level) for level in core.design.raw_levels[0][1]].index(e.removesuffix(".0")) for e in expected]
        X = core.design.transform(pd.DataFrame({"x": other}))
        assert (X[:, 1:].argmax(axis=1) + X[:, 1:].any(axis=1) == place).all()
    with pytest.raises(DataError, match=r"has the level|held text before"):
        core.design.transform(pd.DataFrame({"x": [17, 17]}))


def sources(frame, folder):
    """Return the rows, whose x is an ordered factor, from every source that knows an order."""
    levels = frame["x"].cat.categories.tolist()
    own = pl.DataFrame({"x": pl.Series(frame["x"].astype(str).tolist(), dtype=pl.Enum(levels)), "y": frame["y"]})
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(arrow, folder / "a.parquet")
    own.write_parquet(folder / "p.parquet")
    kind = "ENUM(" + ", ".join(f"'{level}'" for level in levels) + ")"
    return {
        "pandas": frame,
        "polars": own,
        "polars, lazy": own.lazy(),
        "arrow": arrow,
        "parquet": folder / "a.parquet",
        "parquet of polars": folder / "p.parquet",
        "dataset": pyarrow.dataset.dataset(folder / "a.parquet"),
        "dask": dd.from_pandas(frame, npartitions=2),
        "duckdb": duckdb.sql(f"SELECT x::{kind} AS x, y FROM arrow"),
    }


def test_an_order_of_levels_is_kept_from_every_source(tmp_path):
    levels = ["low", "mid", "high"]
    frame = pd.DataFrame({"x": pd.Categorical(RNG.choice(levels, N), levels, ordered=True), "y": Y})
    for kind, data in sources(frame, tmp_path).items():
        assert names(data) == ("Intercept", "x[mid]", "x[high]"), kind


@pytest.mark.parametrize("shown", ["{:,.0f}", "{:.2f}%", "${:.2f}", "{:.2f} €", "-{:,.1f}", "({:.1f})", "£{:,.2f}"])
def test_text_of_numbers_as_spreadsheets_show_them_is_named(shown):
    x = [shown.format(1e5 * value) for value in np.linspace(1.0, 9.0, 40)]
    found = number_text(x)
    assert found is not None
    assert not found.others
    frame = pd.DataFrame({"x": np.tile(x, N // 40), "y": Y})
    with pytest.warns(UserWarning, match="all its 40 levels are numbers with separators, percent or currency"):
        bc.all_rows(frame, formula="y ~ x", progressbar=False)


@pytest.mark.parametrize("level", ["v{}.2.3", "2020-01-{:02}", "A{}", "{}-{}", "12:{:02}", "{}a"])
def test_codes_and_versions_are_no_numbers(level):
    assert number_text([level.format(k, k) for k in range(1, 41)]) is None


def test_an_identifier_is_refused_as_a_factor():
    frame = pd.DataFrame({"x": [f"id{k}" for k in range(N)], "y": Y})
    for formula in ("y ~ x", "y ~ C(x)"):
        with pytest.raises(DataError, match="'x' has 600 levels in 600 rows, nearly one for each"):
            rows(frame, formula)
    table = frame.head(12).assign(n=50, k=25)  # of counts, each row its own level is a table's
    assert len(rows(table, "k | trials(n) ~ x").design.names) == 12


@pytest.mark.parametrize(
    "values",
    [[1, "a"] * (N // 2), [object()] * N, [{"a": 1}] * N, [b"a"] * N, np.arange(N) + 1j],
    ids=["mixed", "objects", "dicts", "bytes", "complex"],
)
def test_only_columns_that_are_named_are_looked_at(values):
    frame = pd.DataFrame({"x": AGE, "note": pd.Series(list(values)), "y": Y})
    assert names(frame) == ("Intercept", "x")
    for formula in ("y ~ x + note", "note ~ x", "y ~ x + (1 | note)"):
        with pytest.raises(DataError, match="note"):
            rows(frame, formula)


def test_identifiers_beyond_floats_are_whole_or_refused(tmp_path):
    first = 2**53
    ids = first + np.repeat(np.arange(30), N // 30)
    frame = pd.DataFrame({"x": AGE, "id": ids, "y": Y})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for data in (frame, tmp_path / "rows.csv", dd.from_pandas(frame, npartitions=2)):
        core = rows(data, "y ~ x + (1 | id)")
        assert core.groups[0].levels == tuple(range(first, first + 30))
    for data, formula in ((frame.assign(id=ids.astype(float)), "y ~ x + (1 | id)"), (frame, "y ~ x + C(id)")):
        with pytest.raises(DataError, match=r"id.*as text|id.*into text"):
            rows(data, formula)


A, B = (
    pd.DataFrame({"x": AGE.round(3), "f": RNG.choice(["a", "b"], N), "y": Y})[half]
    for half in (slice(N // 2), slice(N // 2, N))
)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (A, B.astype({"y": "int8"})),
        (A.astype({"x": "float32"}).astype({"x": "float64"}), B),
        (A, B[["f", "y", "x"]]),
        (A, B.assign(more=1)),
        (A.assign(more=1), B),
        (A.assign(note=None), B.assign(note="t")),
        (A.assign(note=1), B.assign(note="t")),
        (A.astype({"f": "category"}), B),
        (A.assign(y=A.y.astype(bool)), B.assign(y=B.y.astype(bool)).astype({"f": "category"})),
    ],
)
def test_files_may_differ_in_what_is_not_named_and_in_width(a, b, tmp_path):
    for name, part in (("1.parquet", a), ("2.parquet", b)):
        part.to_parquet(tmp_path / name)
    expected = rows(pd.concat([a, b])[["x", "f", "y"]], "y ~ x + f")
    files = [tmp_path / "1.parquet", str(tmp_path / "2.parquet")]
    for data in (tmp_path, files, str(tmp_path / "*.parquet")):
        found = rows(data, "y ~ x + f")
        assert np.array_equal(found.X, expected.X)
        assert np.array_equal(found.y, expected.y)
    new = expected.design.transform(pd.concat([a, b]))
    assert np.array_equal(new, expected.X)


def test_files_that_differ_in_what_is_named_say_the_column_and_both_types(tmp_path):
    A.to_parquet(tmp_path / "1.parquet")
    B.assign(x="high").to_parquet(tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"column 'x' is double in .*1\.parquet' and (large_)?string in .*2\.parquet'"):
        rows(tmp_path, "y ~ x + f")
    assert rows(tmp_path, "y ~ f").design.names == ("Intercept", "f[b]")
    B.drop(columns="x").to_parquet(tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"column 'x' stands in .*1\.parquet' and not in .*2\.parquet'"):
        rows(tmp_path, "y ~ x + f")
    with pytest.raises(DataError, match="stands twice in the list of files"):
        rows([tmp_path / "1.parquet", tmp_path / "1.parquet"], "y ~ x + f")
    with pytest.raises(FileNotFoundError, match="no file is named as"):
        rows(str(tmp_path / "z*.parquet"))


def test_the_folder_of_the_user_and_other_encodings(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    frame = pd.DataFrame({"x": AGE, "f": RNG.choice(["é", "b"], N), "y": Y})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    for data in ("~/a.parquet", "~/a.csv", ["~/a.parquet"]):
        assert bc.fit("y ~ x", data, random_state=1, progressbar=False).coreset.n_total == N
    frame.to_csv(tmp_path / "l.csv", index=False, encoding="latin-1")
    with pytest.raises(DataError, match=r"not in UTF-8: column 'f'.*encoding='latin-1'"):
        rows(tmp_path / "l.csv", "y ~ x + f")
