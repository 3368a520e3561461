"""Columns of s(x): bends as their penalty has them, frozen knots from every source, and terms that are refused."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.interpolate import CubicSpline

import bayescore as bc
from bayescore.data.design import bend_columns
from bayescore.data.formula_design import read_design
from bayescore.data.open import open_designed
from bayescore.types import stack
from bayescore.validation import DataError

N = 3000
_rng = np.random.default_rng(3)
ROWS = pd.DataFrame({"x": _rng.gamma(2.0, 10.0, N), "z": _rng.normal(size=N), "my age": _rng.integers(20, 60, N)})
ROWS["y"] = (_rng.random(N) < 0.5).astype(int)
FORMULA = "y ~ s(x) + z + s(`my age`, k=6)"


def full(data, formula=FORMULA, **options):
    return bc.all_rows(data, formula=formula, progressbar=False, **options)


def test_a_smooth_is_the_column_itself_and_bends_that_are_orthogonal_to_it():
    core = full(ROWS)
    assert core.design.smooths == ("s(x)", "s(`my age`, k=6)")
    assert core.feature_names[:4] == ("Intercept", "s(x)[linear]", "s(x)[1]", "s(x)[2]")
    for term, column, K in zip(core.design.smooths, ("x", "my age"), (8, 4), strict=True):
        places = bend_columns(core.design, term)
        line, bends = core.X[:, places[0] - 1], core.X[:, places]
        assert len(places) == K
        np.testing.assert_array_equal(line, ROWS[column])
        np.testing.assert_allclose(bends.sum(axis=0), 0.0, atol=1e-9 * N)
        np.testing.assert_allclose(bends.T @ line, 0.0, atol=1e-9 * N * line.max())
        assert (bends**2).sum() / N == pytest.approx(1.0)


def test_a_smooth_by_a_factor_has_a_curve_for_each_level():
    rows = ROWS.assign(f=np.where(ROWS["z"] > 0.5, "a", "b c"))
    core = full(rows, "y ~ f + s(x, by=f, k=7)")
    assert core.design.smooths == ("s(x, by=f, k=7)[a]", "s(x, by=f, k=7)[b c]")
    for term, level in zip(core.design.smooths, ("a", "b c"), strict=True):
        own, places = (rows["f"] == level).to_numpy(), bend_columns(core.design, term)
        assert len(places) == 5
        assert not core.X[~own][:, places].any()
        np.testing.assert_array_equal(core.X[:, places[0] - 1], np.where(own, rows["x"], 0.0))
        np.testing.assert_allclose(core.X[own][:, places].sum(axis=0), 0.0, atol=1e-9 * N)
        assert (core.X[:, places] ** 2).sum() / own.sum() == pytest.approx(1.0)
    alone = full(rows[rows["f"] == "a"], None, design=core.design)
    np.testing.assert_array_equal(alone.X, core.X[rows["f"] == "a"])


def test_squares_of_coefficients_are_the_integrated_squared_second_derivative():
    design = full(ROWS, "y ~ s(x)").design
    knots = np.quantile(np.unique(ROWS["x"]), np.linspace(0.0, 1.0, 10))
    bends = CubicSpline(knots, design.transform(knots[:, None])[:, 2:], bc_type="natural")
    at = np.linspace(knots[0], knots[-1], 200_001)
    second = bends(at, 2)
    penalty = (second[:-1].T @ second[:-1] + second[1:].T @ second[1:]) * (at[1] - at[0]) / 2.0
    np.testing.assert_allclose(penalty / penalty[0, 0], np.eye(8), atol=1e-6)


def test_a_smooth_is_straight_beyond_its_knots():
    design = full(ROWS, "y ~ s(x)").design
    low, high = ROWS["x"].min(), ROWS["x"].max()
    for ends in ([low - 20.0, low - 10.0, low], [high, high + 500.0, high + 1000.0]):
        made = design.transform(np.array(ends)[:, None])
        assert np.abs(made[:, 2:]).max() > 0.1
        np.testing.assert_allclose(made[2] - made[1], made[1] - made[0], rtol=1e-9)


def test_knots_are_those_of_all_rows_whatever_the_source_and_its_blocks(tmp_path):
    expected = full(ROWS)
    ROWS.to_parquet(tmp_path / "rows.parquet", row_group_size=700)
    blocks = open_designed(tmp_path / "rows.parquet", formula=FORMULA, block_rows=512)
    for design, X in (
        (full(pl.from_pandas(ROWS)).design, full(pl.from_pandas(ROWS)).X),
        (blocks.design, stack(list(blocks.blocks())).X),
    ):
        assert design.names == expected.design.names
        np.testing.assert_array_equal(X, expected.X)


def test_a_design_keeps_its_knots_as_json():
    core = full(ROWS)
    read = read_design(json.loads(json.dumps(core.design.to_dict())))
    assert read == core.design
    np.testing.assert_array_equal(read.transform(ROWS[:50]), core.X[:50])
    other = full(ROWS[:500].assign(x=lambda rows: rows["x"] + 30.0), None, design=core.design)
    assert other.design.state == core.design.state


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("y ~ s(x):z", r"a smooth is a term of its own; give f \+ s\(x, by=f\) of a factor f"),
        ("y ~ x + s(x)", "leave that term out"),
        ("y ~ s(x) + (1 | z)", "without group terms"),
        ("y ~ s(x, z)", r"s\(x, k=10, by=f\)"),
        ("y ~ s(x, by='label')", r"s\(x, k=10, by=f\)"),
        ("y ~ s(x, bs='cr')", r"s\(x, k=10, by=f\)"),
        ("y ~ s(x, by=label)", "add 'label'"),
        ("y ~ C(label2) + s(x, by=label)", "add 'label'"),
        ("y ~ z + s(x, by=z)", "turn it into text"),
        ("y ~ rare + s(x, by=rare)", "the level 'b', in the rows .*; merge it"),
        ("y ~ te(x, z)", "the call 'te'"),
        ("y ~ s(x / 2)", "make it a column"),
        ("y ~ I(2 * s(x))", r"s\(...\) inside another expression"),
        ("y ~ s(x, k=3)", "from 4 to 100"),
        ("y ~ s(x, k=True)", "from 4 to 100"),
        ("y ~ s(label)", "holds text"),
        ("y ~ s(few)", "k=10 knots, and x has 5 distinct values in the rows .* give k=5, x itself"),
        ("y ~ s(one)", "1 distinct values in .*; give x itself"),
    ],
)
def test_a_smooth_that_cannot_be_is_refused_with_the_remedy(formula, said):
    rows = ROWS.assign(few=np.arange(N) % 5, one=1.0, label=np.where(ROWS["z"] > 0, "a", "b"))
    rows["label2"] = rows["label"]
    rows["rare"] = np.where(np.arange(N) < 2, "b", "a")
    with pytest.raises(DataError, match=said):
        full(rows, formula)
