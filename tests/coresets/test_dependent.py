"""Columns that are linear combinations of others are named; columns that are nearly so are not."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import bayescore as bc

WHAT = "depend on each other linearly"


def rows(n: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"celsius": rng.normal(15.0, 5.0, n), "wind": rng.gamma(2.0, 1.0, n)})
    data["fahrenheit"] = (1.8 * data["celsius"] + 32.0).astype(np.float32)
    data["nearly"] = data["celsius"] + rng.normal(size=n) * 1e-5
    data["close"] = data["celsius"] + rng.normal(size=n) * 1e-2  # pseudo-rows of groups leave out what tells less
    data["age"] = rng.uniform(20.0, 60.0, n)
    data["total"] = data["celsius"] - 2.0 * data["wind"]
    kind, data["g"] = rng.choice(list("abc"), n), rng.integers(0, 20, n)
    data[["a", "b", "c"]] = np.stack([kind == own for own in "abc"], axis=1).astype(float)
    data["y"] = (rng.random(n) < 1.0 / (1.0 + np.exp(-0.1 * (data["celsius"] - 15.0)))).astype(int)
    return data


def told(formula: str, **options: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bc.build_coreset(rows(), formula=formula, random_state=0, progressbar=False, **options)
    return [str(one.message) for one in caught if WHAT in str(one.message)]


@pytest.mark.parametrize(
    ("formula", "options", "names"),
    [
        ("y ~ celsius + fahrenheit + wind", {"standardize": True}, "'celsius', 'fahrenheit'"),
        ("y ~ celsius + wind + total", {"method": "condensed"}, "'celsius', 'wind', 'total'"),
        ("y ~ celsius + wind + total + (1 | g)", {}, "'celsius', 'wind', 'total'"),
        ("y ~ a + b + c", {"method": "aggregate"}, "'a', 'b', 'c'"),
        ("y ~ celsius + fahrenheit", {"offset": "wind", "weights": "age"}, "'celsius', 'fahrenheit'"),
        ("y ~ celsius + fahrenheit + a + b + c", {}, "'celsius', 'fahrenheit'"),
        ("y ~ cr(age, df=8) + wind", {}, "'cr(age, df=8)[5]' and 3 more .*; give the spline constraints='center'"),
        ("wind ~ celsius + fahrenheit", {"family": "normal", "standardize": True}, "'celsius', 'fahrenheit'"),
    ],
)
def test_columns_that_are_sums_of_others_are_named_once(formula: str, options: dict[str, object], names: str) -> None:
    (found,) = told(formula, **options)
    pattern = re.escape(names).replace(r"\.\*", ".*")
    assert re.search(pattern if ".*" in pattern else f"columns {pattern} depend", found)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ celsius + nearly + wind",
        "y ~ celsius + close + (1 | g)",
        "y ~ bs(age, df=4) + cr(wind, df=4, constraints='center')",
        "y ~ age + I(age**2) + I(age**3) + wind",
    ],
)
def test_columns_that_are_nearly_alike_are_not_named(formula: str) -> None:
    assert not told(formula)


def test_a_constant_column_has_its_own_warning_alone() -> None:
    data = rows().assign(one=3.0)
    with pytest.warns(UserWarning, match="'one' is constant") as caught:
        bc.build_coreset(data, formula="y ~ celsius + one", random_state=0, progressbar=False)
    assert len(caught) == 1


def test_methods_that_do_not_keep_the_curvature_say_nothing() -> None:
    assert not told("y ~ celsius + fahrenheit", method="uniform", size=200)


@pytest.mark.parametrize("size", [5, 15, 21, 40])
def test_rows_that_are_too_few_to_keep_the_curvature_say_nothing(size: int) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5000, 20))
    y = X[:, 0] + rng.logistic(size=5000) > 0
    with pytest.warns(UserWarning, match="no weights on these") as caught:
        bc.build_coreset(X, y, size=size, intercept=True, random_state=0, progressbar=False)
    assert not [one for one in caught if WHAT in str(one.message)]


def test_few_rows_beside_others_say_nothing() -> None:
    data = rows()
    fit = bc.fit("y ~ celsius + wind + age", data, random_state=0, progressbar=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit.update(data[:4])
        bc.build_coreset(data[:6], design=fit.coreset.design, random_state=0, progressbar=False)
    assert not [one for one in caught if WHAT in str(one.message)]


def test_a_stream_says_it_too() -> None:
    stream = bc.stream("multilevel", formula="y ~ celsius + fahrenheit + (1 | g)", random_state=0)
    with pytest.warns(UserWarning, match="'celsius', 'fahrenheit' depend"):
        stream.partial_fit(rows()).coreset()
