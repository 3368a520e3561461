"""Columns that are linear combinations of others are named; columns that are nearly so are not."""

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
    data["nearly"] = data["celsius"] + rng.normal(size=n) * 1e-3
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
        ("y ~ celsius + fahrenheit + wind", {"standardize": True}, "'celsius' and 'fahrenheit'"),
        ("y ~ celsius + wind + total", {"method": "condensed"}, "'celsius', 'wind' and 'total'"),
        ("y ~ celsius + wind + total + (1 | g)", {}, "'celsius', 'wind' and 'total'"),
        ("y ~ a + b + c", {"method": "aggregate"}, "'Intercept', 'a', 'b' and 'c'"),
        ("wind ~ celsius + fahrenheit", {"family": "normal", "standardize": True}, "'celsius' and 'fahrenheit'"),
    ],
)
def test_columns_that_are_sums_of_others_are_named_once(formula: str, options: dict[str, object], names: str) -> None:
    (found,) = told(formula, **options)
    assert names in found


@pytest.mark.parametrize("formula", ["y ~ celsius + nearly + wind", "y ~ celsius + nearly + (1 | g)"])
def test_columns_that_are_nearly_alike_are_not_named(formula: str) -> None:
    assert not told(formula)


def test_a_constant_column_has_its_own_warning_alone() -> None:
    data = rows().assign(one=3.0)
    with pytest.warns(UserWarning, match="'one' is constant") as caught:
        bc.build_coreset(data, formula="y ~ celsius + one", random_state=0, progressbar=False)
    assert len(caught) == 1


def test_methods_that_do_not_keep_the_curvature_say_nothing() -> None:
    assert not told("y ~ celsius + fahrenheit", method="uniform", size=200)
