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
    n = 200
    g, x = rng.integers(0, 5, n), rng.normal(1.0, 1.0, n)
    eta = 0.8 * x + rng.normal(0.0, 0.7, 5)[g]
    label = (eta - 1.0 + rng.logistic(size=n) > 0).astype(int)
    return pd.DataFrame({"x": x, "v": rng.normal(size=n), "g": g, "y": label})


@pytest.fixture(scope="module")
def known(rows):
    return cache(lambda formula: fitted(formula, rows))


def fitted(formula, rows, **options):
    return bc.fit(formula, rows, random_state=1, progressbar=False, **options)


PLACES = ("x", "v", "g", "y")  # a term and in a call, a term without an intercept, groups, the label
IN_NO_CALL = ("log", "class")  # refused: a function, and a word of Python


@pytest.mark.parametrize("first", range(len(NAMES)))
def test_a_fit_and_what_follows_it_are_those_of_other_names(first, rows, known, tmp_path):
    """Each of the names stands in each of the places once."""
    names = {column: NAMES[(first + k) % len(NAMES)] for k, column in enumerate(PLACES)}
    x, _, g, _ = names.values()
    formula = "@y ~ 0 + @v + @x + (1 | @g)" if x in IN_NO_CALL else "@y ~ 0 + @v + exp(-(@x**2)) + @x + (1 | @g)"
    named = rows.rename(columns=names)
    other = known(formula.replace("@", ""))
    for column, name in names.items():
        formula = formula.replace(f"@{column}", f"`{name}`")
    fit = fitted(formula, named)
    assert fit.level == other.level == "certified"
    new, plain = named.head(20), rows.head(20)
    assert np.array_equal(fit.summary()["mean"], other.summary()["mean"])
    read = fit
    if first % len(PLACES) == 0:  # each name once: a file has names in one way
        fit.save(tmp_path / "m")
        read = bc.read_fit(tmp_path / "m", named)
        assert read.summary().equals(fit.summary())
    assert np.array_equal(read.predict(new)["mean"], other.predict(plain)["mean"])
    assert np.array_equal(read.slopes(x)["mean"], other.slopes("x")["mean"])
    assert np.array_equal(read.average_predictions(by=g)["mean"], other.average_predictions(by="g")["mean"])
    assert np.array_equal(read.effects(g)["mean"], other.effects("g")["mean"])
    if first in (0, 9, 10):  # programs' own names, in each place
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
