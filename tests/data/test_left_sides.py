"""Left sides that are computed from columns, the lone dot, and objects that are numbers, from every source."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.validation import DataError

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({"x": RNG.normal(size=600), "z z": RNG.normal(size=600), "f": RNG.choice(list("abc"), 600)})
ROWS["n"] = RNG.integers(1, 9, 600)
ROWS["k"] = RNG.binomial(ROWS["n"], 0.4)
ROWS["lost"] = ROWS["n"] - ROWS["k"]
ROWS["Sep.Len"] = np.exp(0.5 * ROWS["x"] + 0.3 * RNG.normal(size=600))
ROWS["log"] = np.log(ROWS["Sep.Len"])
QUIET = {"random_state": 1, "progressbar": False}
SOURCES = ("frame", "csv", "parquet", "polars", "lazy", "dask")


def source(kind, rows, folder):
    if kind == "csv":
        rows.to_csv(folder / "rows.csv", index=False)
        return folder / "rows.csv"
    if kind == "parquet":
        rows.to_parquet(folder / "rows.parquet")
        return folder / "rows.parquet"
    if kind in ("polars", "lazy"):
        frame = pytest.importorskip("polars").from_pandas(rows)
        return frame.lazy() if kind == "lazy" else frame
    return pytest.importorskip("dask.dataframe").from_pandas(rows, npartitions=3) if kind == "dask" else rows


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize(
    ("formula", "plain", "family"),
    [
        ("log(Sep.Len) ~ x", "log ~ x", "normal"),
        ("cbind(k, n - k) ~ x", "k | trials(n) ~ x", "logistic"),
        ("cbind(k, lost) ~ x", "k | trials(n) ~ x", "logistic"),
    ],
)
def test_a_computed_response_is_a_column_of_it(kind, formula, plain, family, tmp_path):
    core = bc.all_rows(source(kind, ROWS, tmp_path), formula=formula, family=family, progressbar=False)
    known = bc.all_rows(ROWS, formula=plain, family=family, progressbar=False)
    np.testing.assert_allclose(core.X, known.X)
    np.testing.assert_allclose(core.weights, known.weights)
    if family == "normal":
        np.testing.assert_allclose(core.offset, known.offset)


def test_every_verb_serves_a_computed_response(tmp_path):
    fit = bc.fit("log(Sep.Len) ~ x", ROWS, family="normal", **QUIET)
    fit.save(tmp_path / "fit")
    read = bc.read_fit(tmp_path / "fit", data=ROWS)
    assert read.coreset.label == "log(Sep.Len)"
    new = read.update(ROWS.head(200).drop(columns="log"))
    assert new.coreset.n_total == 800
    mean = read.predict(pd.DataFrame({"x": [0.0, 1.0]}))["mean"].to_numpy()
    np.testing.assert_allclose(mean, [0.0, 0.5], atol=0.05)  # of the logarithm
    assert "log(Sep.Len)" in str(read)
    wins = bc.fit("cbind(k, n - k) ~ x", ROWS, **QUIET)
    assert wins.update(ROWS.head(200)).coreset.weight_total == ROWS["n"].sum() + ROWS["n"].head(200).sum()


@pytest.mark.parametrize(
    ("formula", "family", "message"),
    [
        ("log(x) ~ f", "normal", r"label 'log\(x\)' is no number in row 0, where 'x' is"),
        ("log(x) ~ f", "logistic", r"label='log\(x\)' is computed from columns, and the family takes labels"),
        ("log(no) ~ f", "normal", r"label='log\(no\)' takes 'no', not a column"),
        ("cbind(k, n - k) ~ n", "logistic", "'n' stands on both sides"),
        ("cbind(n, k - n) ~ x", "logistic", "'n' is above"),
    ],
)
def test_left_sides_that_no_row_can_have(formula, family, message):
    rows = ROWS.assign(x=-np.abs(ROWS["x"]))
    with pytest.raises(DataError, match=message):
        bc.all_rows(rows, formula=formula, family=family, progressbar=False)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_dot_is_all_columns_without_a_role(kind, tmp_path):
    rows = ROWS[["x", "z z", "f", "n"]].assign(y=(ROWS["x"] > 0) * 1, g=np.arange(600) % 5, w=1.5, o=0.1)
    data, told = source(kind, rows, tmp_path), {"weights": "w", "offset": "o"}
    core = bc.all_rows(data, formula="y ~ . - n + (1 | g)", **told, progressbar=False)
    assert core.feature_names == ("Intercept", "x", "z z", "f[b]", "f[c]")
    assert core.design.formula == "y ~ x + `z z` + f + n - n + (1 | g)"
    assert core.groups[0].name == "g"
    squares = bc.all_rows(
        data, formula="y ~ .**2 - g:w - f - f:w + offset(o)", **told | {"offset": None}, progressbar=False
    )
    assert {"x:z z", "x:g"} <= set(squares.feature_names)


def test_a_fit_says_which_columns_a_dot_is():
    rows = ROWS[["x", "f"]].assign(
        y=(ROWS["x"] + RNG.logistic(size=600) > 0) * 1, school=np.arange(600) % 50, part=True
    )
    fit = bc.fit("y ~ .", rows, cluster="school", domain="part", **QUIET)
    assert fit.formula == "y ~ x + f"
    assert str(fit).splitlines()[1] == "y ~ x + f"
    assert fit.predict(rows.head(2)).shape[0] == 2
    with pytest.raises(DataError, match=r"'\.' stands for no column"):
        bc.fit("y ~ .", rows[["y"]], **QUIET)


NUMBERS = {
    "numpy's types": [np.int64(2), np.float32(0.5), 3.0],
    "decimals and floats": [Decimal("0.5"), 1.25, 2],
    "booleans and whole numbers": [True, 3, False],
    "with missing ones": [1, 2.5, None],
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_objects_that_are_all_numbers_are_numbers(kind):
    values = [NUMBERS[kind][k % 3] for k in range(600)]
    rows = ROWS.assign(x=pd.Series(values, dtype=object), u=pd.Series(values, dtype=object))
    plain = rows.assign(x=rows["x"].astype(float), u=rows["u"].astype(float))
    told = {"family": "normal(1)", "missing": "drop", "progressbar": False}
    with pytest.warns(UserWarning, match="left out") if "missing" in kind else np.errstate():
        for formula in ("u ~ f", "log ~ u"):
            own, known = (bc.all_rows(each, formula=formula, **told) for each in (rows, plain))
            np.testing.assert_array_equal(own.X, known.X)
            np.testing.assert_array_equal(own.offset, known.offset)
        own, known = (bc.all_rows(each[["z z"]], each["u"], **told) for each in (rows, plain))
    np.testing.assert_array_equal(own.offset, known.offset)
    assert own.feature_names == ("z z",)


def test_objects_that_are_no_exact_numbers_are_refused():
    for values in ([2**60, 0.5], ["1", 2], [1 + 2j, 1]):
        rows = ROWS.head(2).assign(x=pd.Series(values, dtype=object))
        with pytest.raises(DataError, match="column 'x' "):
            bc.all_rows(rows, formula="log ~ x", family="normal(1)", progressbar=False)
    X = np.array([[1, 2.5], [np.float32(3), True]], dtype=object)
    assert bc.all_rows(X, [0, 1], progressbar=False).X.tolist() == [[1.0, 2.5], [3.0, 1.0]]


def test_rows_to_predict_are_in_memory():
    fit = bc.fit("log ~ x", ROWS, family="normal", **QUIET)
    for kind in ("dask", "lazy"):
        with pytest.raises(DataError, match="whose rows are not in memory"):
            fit.predict(source(kind, ROWS, None))


def test_a_column_named_as_an_expression_is_a_column():
    rows = ROWS.rename(columns={"k": "n - lost", "log": "log(Sep.Len)"})
    known = bc.all_rows(ROWS, formula="k | trials(n) ~ x", progressbar=False)
    for formula in ("`n - lost` | trials(n) ~ x", "cbind(`n - lost`, n - `n - lost`) ~ x"):
        np.testing.assert_array_equal(bc.all_rows(rows, formula=formula, progressbar=False).weights, known.weights)
    found = bc.all_rows(rows, formula="`log(Sep.Len)` ~ x", family="normal(1)", progressbar=False)
    plain = bc.all_rows(ROWS, formula="log ~ x", family="normal(1)", progressbar=False)
    np.testing.assert_array_equal(found.offset, plain.offset)
