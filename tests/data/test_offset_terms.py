"""Offsets as terms of a formula, ``offset(log(years))``: they mean what a column of the same numbers means."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bayescore as bc
from bayescore import cli
from bayescore.data.responses import Expression
from bayescore.validation import DataError, RowError
from tests.hand_made import poststratify

N = 2000
RNG = np.random.default_rng(4)
X = np.round(RNG.normal(size=N), 1)
YEARS = RNG.integers(1, 20, N).astype(float)
FRAME = pd.DataFrame({"x": X, "years": YEARS, "n people": 1.0 + YEARS % 3})
FRAME["y"] = RNG.poisson(YEARS * np.exp(-1.0 + 0.4 * X))
FRAME["g"] = RNG.choice(list("abcdef"), N)
FORMULA = "y ~ x + offset(log(years))"
TOLD = {"family": "poisson", "progressbar": False}
NAMED = FRAME.assign(known=np.log(YEARS))


def same_rows(found, expected):
    for name in ("X", "y", "weights", "index", "offset"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def values(text, frame=FRAME, **options):
    own = Expression.of(text, list(frame.columns))
    return own, own.values(lambda name: frame[name].to_numpy(), len(frame), **options)


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("years", ("years",), YEARS),
        ("log(years)", ("years",), np.log(YEARS)),
        ("np.log(years / 1000)", ("years",), np.log(YEARS / 1000.0)),
        ("log(`n people`) + log(years) - 1", ("n people", "years"), np.log((1.0 + YEARS % 3) * YEARS) - 1.0),
        ("-2 * log1p(+years)", ("years",), -2.0 * np.log1p(YEARS)),
    ],
)
def test_expressions_are_computed(text, columns, expected):
    own, found = values(text)
    assert own.columns == columns
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_a_column_of_that_name_goes_first():
    own, found = values("log(years)", FRAME.assign(**{"log(years)": 0.25}))
    assert own.columns == ("log(years)",)
    assert (found == 0.25).all()


@pytest.mark.parametrize(
    "text", ["sin(years)", "years // 2", "years.max()", "__import__('os')", "log(years, 2)", "a.b() + 1"]
)
def test_other_code_is_refused(text):
    with pytest.raises(DataError, match=r"an offset is made of columns, numbers, .*: make a column of it"):
        Expression.of(text, list(FRAME.columns))


def test_an_offset_without_a_column_is_refused():
    with pytest.raises(DataError, match=r"offset='log\(2\)' names no column; .* a part of the intercept"):
        Expression.of("log(2)", ["years"])


def test_rows_without_a_logarithm_are_named():
    frame = FRAME.assign(years=np.where(np.arange(N) == 7, -3.0, YEARS))
    for drop in (False, True):  # it is no missing entry
        with pytest.raises(
            RowError, match=r"offset 'log\(years\)' is no number in row 107, where 'years' is -3"
        ) as told:
            values("log(years)", frame, start=100, drop=drop)
        assert told.value.row == 107
    frame["years"] = frame["years"].abs() * (np.arange(N) != 9)
    with pytest.raises(RowError, match=r"offset 'log\(years\)' is -inf in row 9; .* drop rows of exposure 0"):
        values("log(years)", frame)
    frame["years"] = np.where(np.arange(N) == 5, np.nan, YEARS)
    with pytest.raises(RowError, match=r"offset 'log\(years\)' is nan in row 5"):
        values("log(years)", frame)
    assert np.isnan(values("log(years)", frame, drop=True)[1]).sum() == 1


def sources(folder):
    dd = pytest.importorskip("dask.dataframe")
    duckdb = pytest.importorskip("duckdb")
    FRAME.to_parquet(folder / "rows.parquet", row_group_size=300)
    FRAME.to_csv(folder / "rows.csv", index=False)
    return {
        "pandas": FRAME,
        "polars": pl.from_pandas(FRAME),
        "lazy": pl.from_pandas(FRAME).lazy(),
        "arrow": pa.Table.from_pandas(FRAME),
        "parquet": folder / "rows.parquet",
        "csv": folder / "rows.csv",
        "database": duckdb.from_arrow(pa.Table.from_pandas(FRAME)),
        "dask": dd.from_pandas(FRAME, npartitions=3),
        "dask of parquet": dd.read_parquet(folder / "rows.parquet"),
    }


def test_every_source_has_the_offset_of_a_column(tmp_path):
    expected = bc.all_rows(NAMED, formula="y ~ x", offset="known", **TOLD)
    assert np.unique(expected.offset).size > 5
    for kind, data in sources(tmp_path).items():
        found = bc.all_rows(data, formula=FORMULA, **TOLD)
        assert found.design.offset == "log(years)", kind
        same_rows(found, expected)
        named = bc.all_rows(data, formula="y ~ x", offset="log(years)", **TOLD)
        same_rows(named, expected)


def test_terms_add_up_and_may_be_features_too():
    both = bc.all_rows(FRAME, formula="y ~ log(years) + offset(log(years)) + offset(log(`n people`))", **TOLD)
    assert both.feature_names == ("Intercept", "log(years)")
    expected = np.log(YEARS) + np.log(1.0 + YEARS % 3)
    np.testing.assert_allclose(both.offset, expected[both.index], rtol=1e-14)
    alone = bc.all_rows(FRAME, formula="y ~ offset(log(years))", **TOLD)
    assert alone.feature_names == ("Intercept",)


def test_missing_entries_of_its_column_are_left_out():
    frame = FRAME.assign(years=np.where(np.arange(N) % 100 == 3, np.nan, YEARS))
    with pytest.raises(DataError, match=r"offset 'log\(years\)' is nan in row 3"):
        bc.all_rows(frame, formula=FORMULA, **TOLD)
    with pytest.warns(UserWarning, match=r"left out 20 of 2,000 rows, that miss 'log\(years\)' \(20\)"):
        core = bc.all_rows(frame, formula=FORMULA, missing="drop", **TOLD)
    assert len(np.unique(core.index)) == N - 20


WRONG = {
    "beside offset=": (
        FORMULA,
        {"offset": "known"},
        r"offset is given beside formula=.*offset\(log\(years\)\)', which has",
    ),
    "a product": ("y ~ x * offset(years)", {}, r"offset\(...\) must be a term of its own"),
    "a call": ("y ~ x + log(offset(years))", {}, r"offset\(...\) must be a term of its own"),
    "taken away": ("y ~ x - offset(years)", {}, r"offset\(...\) must be a term of its own"),
    "no column": ("y ~ x + offset(log(days))", {}, r"offset='log\(days\)' takes 'days', not a column of the data"),
    "no such call": ("y ~ x + offset(sin(years))", {}, r"offset='sin\(years\)' has 'sin\(years\)'"),
    "text": ("y ~ x + offset(log(g))", {}, "columns are not numeric: 'g'"),
    "the label": ("y ~ x + offset(y)", {}, "label and offset both name the column 'y'"),
    "the exposure": (FORMULA, {"family": "poisson", "exposure": "years"}, "in the offset 'log\\(years\\)' too"),
    "numbers": (FORMULA, {"family": "normal"}, "give y - offset as y"),
    "nothing else": ("y ~ 0 + offset(log(years))", {}, "leaves no coefficient"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_terms_are_refused(kind):
    formula, options, message = WRONG[kind]
    with pytest.raises(DataError, match=message):
        bc.all_rows(NAMED, formula=formula, **{**TOLD, **options})


def test_streams_have_it_in_every_block(tmp_path):
    told = {"size": 60, "family": "poisson", "random_state": 1}
    found, expected = bc.stream(formula=FORMULA, **told), bc.stream(formula="y ~ x", offset="known", **told)
    for start in range(0, N, 500):
        found.partial_fit(NAMED[start : start + 500])
        expected.partial_fit(NAMED[start : start + 500])
        found.save(tmp_path / "state")
        found = bc.read_stream(tmp_path / "state")
    same_rows(found.coreset(), expected.coreset())
    with pytest.raises(DataError, match=r"offset is missing: .* takes 'years', not a column of the data; add it"):
        found.partial_fit(NAMED.drop(columns="years"))


def test_questions_to_a_fit_know_it(tmp_path):
    told = {"random_state": 1, **TOLD}
    fit, other = bc.fit(FORMULA, FRAME, **told), bc.fit("y ~ x", NAMED, offset="known", **told)
    np.testing.assert_array_equal(fit._drawn.posterior["beta"], other._drawn.posterior["beta"])
    expected = other.predict(NAMED[:20])
    pd.testing.assert_frame_equal(fit.predict(FRAME[["x", "years"]][:20]), expected)
    with pytest.raises(DataError, match=r"X has no column 'years' of the offset 'log\(years\)'"):
        fit.predict(FRAME[["x"]][:20])
    pd.testing.assert_frame_equal(fit.comparisons("x"), other.comparisons("x"))
    pd.testing.assert_frame_equal(fit.comparisons("x", data=FRAME[:9]), other.comparisons("x", data=NAMED[:9]))
    fit.save(tmp_path / "fit")
    again = bc.read_fit(tmp_path / "fit", FRAME)
    pd.testing.assert_frame_equal(again.predict(FRAME[:20]), expected)
    pd.testing.assert_frame_equal(again.comparisons("x"), other.comparisons("x"))
    with pytest.raises(DataError, match="'years', not a column of the data"):
        again.update(FRAME.drop(columns="years"))
    np.testing.assert_array_equal(
        again.update(FRAME[:500])._drawn.posterior["beta"], other.update(NAMED[:500])._drawn.posterior["beta"]
    )
    replicated = fit.inference_data(FRAME.drop(columns="g")[:50], max_draws=20, random_state=2)
    named = other.inference_data(NAMED.drop(columns="g")[:50], max_draws=20, random_state=2)
    np.testing.assert_array_equal(replicated["posterior_predictive"]["y"], named["posterior_predictive"]["y"])


def test_populations_have_the_column_of_the_offset():
    rows = FRAME.assign(y=FRAME["y"] > 3)
    core = bc.all_rows(rows, formula=FORMULA, progressbar=False)
    idata = bc.sample(core, sampler="mala", draws=50, tune=50, random_seed=1, progressbar=False)
    cells = pd.DataFrame({"x": [0.0, 1.0], "years": [1.0, 9.0], "n": [2, 3]})
    other = replace(core, design=replace(core.design, offset="known"))
    found = poststratify(idata, core, cells, weights="n")
    assert found.equals(poststratify(idata, other, cells.assign(known=np.log(cells["years"])), weights="n"))
    assert not found.equals(poststratify(idata, other, cells.assign(known=0.0), weights="n"))
    with pytest.raises(DataError, match="cells has no column 'years' of the offset"):
        poststratify(idata, core, cells.drop(columns="years"), weights="n")


def test_the_command_line_takes_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    FRAME.to_parquet("rows.parquet")
    words = ["fit", "rows.parquet", FORMULA, "--family", "poisson", "--seed", "1", "-o", "model", "--quiet"]
    assert cli.main(words) == 0
    assert cli.main(["predict", "model", "rows.parquet", "-o", "p.parquet", "--quiet"]) == 0
    fit = bc.read_fit("model")
    np.testing.assert_array_equal(pd.read_parquet("p.parquet")["mean"], fit.predict(FRAME)["mean"])
    assert fit.coreset.design.offset == "log(years)"
    assert cli.main([*words[:-2], "other", "--offset", "x", "--quiet"]) == 2
    assert "offset is given beside --formula" in capsys.readouterr().err
