"""Names of columns: those that programs use themselves, digits, blanks and accents, in every place of a formula."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.validation import DataError

NAMES = ["1", "weight", "offset", "2.5", "Sepal.Length", "body mass", "größe", "log", "class", "a:b", "row"]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    n = 600
    g, x = rng.integers(0, 12, n), rng.normal(1.0, 1.0, n)
    eta = 0.8 * x + rng.normal(0.0, 0.7, 12)[g]
    label = (eta - 1.0 + rng.logistic(size=n) > 0).astype(int)
    return pd.DataFrame({"x": x, "g": g, "y": label, "t": eta + rng.normal(size=n)})


@pytest.fixture(scope="module")
def known(rows):
    return cache(lambda formula, family: fitted(formula, rows, family=family))


def fitted(formula, rows, **options):
    return bc.fit(formula, rows, random_state=1, progressbar=False, **options)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("formula", "column", "family"),
    [
        ("y ~ 0 + @", "x", None),
        ("y ~ @ + log(1 + @**2)", "x", None),
        ("y ~ x + (1 | @)", "g", None),
        ("@ ~ x", "t", "normal"),
    ],
    ids=["alone", "in a call", "groups", "label"],
)
def test_a_fit_and_what_follows_it_are_those_of_another_name(name, formula, column, family, rows, known, tmp_path):
    if name in ("log", "class") and "log(" in formula:
        pytest.skip("refused: a function, and a word of Python, in a call")
    named = rows.rename(columns={column: name})
    other = known(formula.replace("@", column), family)
    fit = fitted(formula.replace("@", f"`{name}`"), named, family=family)
    assert fit.level == other.level
    new, plain = named.head(20), rows.head(20)
    fit.save(tmp_path / "m")
    read = bc.read_fit(tmp_path / "m", named)
    assert np.array_equal(fit.summary()["mean"], other.summary()["mean"])
    assert read.summary().equals(fit.summary())
    assert np.array_equal(read.predict(new)["mean"], other.predict(plain)["mean"])
    if column == "x":
        assert np.array_equal(read.slopes(name)["mean"], other.slopes("x")["mean"])
    elif column == "g":
        assert np.array_equal(read.average_predictions(by=name)["mean"], other.average_predictions(by="g")["mean"])
        assert np.array_equal(read.effects(name)["mean"], other.effects("g")["mean"])
    if name in NAMES[:3]:
        assert read.update(new).level == other.update(plain).level


@pytest.mark.parametrize("terms", ["x.y", "x.y:g", "log(1 + x.y**2)", "bs(x.y, df=4)", "C(x.y > 0) + (1 | g)"])
def test_names_with_dots_need_no_backticks(terms, rows):
    formula = f"y ~ {terms}"
    plain = bc.all_rows(rows.rename(columns={"x": "xy"}), formula=formula.replace("x.y", "xy"), progressbar=False)
    dotted = bc.all_rows(rows.rename(columns={"x": "x.y"}), formula=formula, progressbar=False)
    assert np.array_equal(dotted.X, plain.X)
    assert [name.replace("`", "") for name in dotted.design.names] == [
        name.replace("xy", "x.y") for name in plain.design.names
    ]


def test_a_column_of_digits_is_no_number_in_any_term(rows):
    named = rows.rename(columns={"x": "1"}).assign(f=np.tile(["a", "b"], len(rows) // 2))
    for formula, names in (
        ("y ~ `1`", ("Intercept", "1")),
        ("y ~ 0 + `1`", ("1",)),
        ("y ~ `1` * f", ("Intercept", "1", "f[b]", "1:f[b]")),
        ("y ~ poly(`1`, 2)", ("Intercept", "poly(`1`, 2)[1]", "poly(`1`, 2)[2]")),
    ):
        core = bc.all_rows(named, formula=formula, progressbar=False)
        assert core.design.names == names
        plain = bc.all_rows(named.rename(columns={"1": "x"}), formula=formula.replace("`1`", "x"), progressbar=False)
        assert np.array_equal(core.X, plain.X)
    with pytest.warns(UserWarning, match="columns of text"):
        core = bc.all_rows(named[["1", "f"]], named["y"], progressbar=False)
    assert core.design.names == ("1", "f[b]")
    with pytest.raises(DataError, match="named as the intercept is, 1; rename `1`"):
        bc.all_rows(named, formula="y ~ `1` + (1 + `1` | g)", progressbar=False)
    by = bc.all_rows(named.rename(columns={"1": "2"}), formula="y ~ `2` + (1 + `2` | g)", progressbar=False)
    assert by.groups[0].effects == ("1", "2")


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("sigma_g", "y ~ sigma_g + (1 | g)"),
        ("log sigma_g", "y ~ `log sigma_g` + (1 | g)"),
        ("rho_g[1,z]", "y ~ z + `rho_g[1,z]` + (1 + z | g)"),
        ("sigma_g[z]", "y ~ z + `sigma_g[z]` + (1 + z | g)"),
        ("Intercept", "y ~ Intercept"),
        ("Intercept", "y ~ 0 + Intercept"),
    ],
)
def test_names_of_what_a_fit_makes_are_refused_before_it_is_made(name, formula, rows):
    named = rows.rename(columns={"x": name}).assign(z=np.arange(len(rows)) % 7)
    with pytest.raises(DataError, match="rename"):
        fitted(formula, named)


def test_a_name_is_free_where_the_model_has_no_such_parameter(rows):
    named = rows.rename(columns={"x": "rho_g"})
    assert "rho_g" in fitted("y ~ rho_g + (1 | g)", named).summary().index


def test_arrays_beside_data_take_names_that_are_free(rows):
    weights = np.arange(len(rows)) % 3 + 1.0
    named = rows.rename(columns={"x": "weight"})
    found = fitted("y ~ weight", named, weights=weights)
    assert found.summary()["mean"].tolist() == fitted("y ~ x", rows, weights=weights).summary()["mean"].tolist()
