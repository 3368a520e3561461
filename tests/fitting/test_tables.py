"""Tables of a fit print the digits that they have, stand whole in a terminal of 80 columns, and lose no digit."""

import os
import pickle

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.fitting.tables import Overview, _shortened
from bayescore.tables import Table, rounded


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.normal(45, 12, 5000), "device": rng.choice(["phone", "tablet", "pc"], 5000)})
    rows["clicked"] = 0.05 * (rows["age"] - 45) + (rows["device"] == "tablet") + rng.logistic(size=5000) > 0
    return bc.fit("clicked ~ age + device", rows, random_state=1, progressbar=False)


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    """Make pandas lay out for a terminal of 80 columns: there it leaves out columns that do not fit."""
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_: os.terminal_size((80, 24)))
    with pd.option_context("display.max_columns", 0, "display.width", 80):
        yield


FAR_APART = Table(
    {
        "mean": [123456.789, -0.0000345678, 3.0, np.nan, 2e-14, 0.0],
        "sd": [1234.5, 0.0000012345, 0.0, np.nan, 1e-13, 1.0],
        "2.5%": [121000.5, -0.000037, 3.0, np.nan, -1.8e-13, -1e-9],
        "ess_bulk": [3271.4, 12.0, 400.0, np.nan, 1e6, 0.0],
        "r_hat": [1.0049, 1.0151, 1.01, np.nan, 2.5, 1.0],
    }
)


def test_each_row_is_printed_to_two_digits_of_its_own_sd():
    assert rounded(FAR_APART)[["mean", "sd", "2.5%"]].to_numpy().tolist() == [
        ["123,457", "1,234", "121,000"],
        ["-0.0000346", "0.0000012", "-0.0000370"],
        ["3", "0", "3"],  # an sd of 0 says nothing of digits
        ["NaN", "NaN", "NaN"],
        ["2e-14", "1.0e-13", "-1.8e-13"],
        ["0.0", "1.0", "0.0"],  # and no -0.0
    ]


def test_effective_sizes_are_whole_and_r_hat_has_a_third_decimal_where_it_is_large():
    assert rounded(FAR_APART)["ess_bulk"].tolist() == ["3,271", "12", "400", "NaN", "1,000,000", "0"]
    assert rounded(FAR_APART)["r_hat"].tolist() == ["1.00", "1.015", "1.01", "NaN", "2.500", "1.00"]


def test_the_print_differs_from_the_value_by_less_than_a_tenth_of_an_sd():
    rng = np.random.default_rng(0)
    sd = 10.0 ** rng.uniform(-12, 12, 500)
    table = Table({"mean": sd * rng.normal(size=500) * 10.0 ** rng.uniform(-3, 3, 500), "sd": sd})
    shown = rounded(table).map(lambda text: float(text.replace(",", "")))
    assert ((shown["mean"] - table["mean"]).abs() <= 0.05 * sd + 5e-4 * table["mean"].abs()).all()
    assert ((shown["sd"] - sd).abs() <= 0.05 * sd).all()
    coarse = table["mean"].round(2)
    assert not ((coarse - table["mean"]).abs() <= 0.05 * sd + 5e-4 * table["mean"].abs()).all()  # the negative control


def test_a_column_without_an_sd_has_four_digits_of_its_largest_number():
    table = Table({"shift": [1e-15, 0.2168, -0.0695], "scale": [0.25, 1.0, 4.0], "n": [1, 20, 300]})
    assert rounded(table)["shift"].tolist() == ["0.0000", "0.2168", "-0.0695"]
    assert rounded(table)["scale"].tolist() == ["0.25", "1.00", "4.00"]
    assert rounded(table)["n"].tolist() == [1, 20, 300]
    units = FAR_APART[["mean"]][:2]  # of parameters, whose units differ
    assert rounded(units)["mean"].tolist() == ["123,457", "-3.457e-05"]


def test_the_default_summary_stands_whole_in_80_columns(fit):
    table = fit.summary()
    lines = repr(table).splitlines()
    assert len(lines) == 2 + len(table)
    assert max(map(len, lines)) <= 80
    assert all(column in lines[0] for column in table)
    assert "..." in repr(pd.DataFrame(table))  # the negative control


def test_long_names_are_shortened_in_what_a_fit_prints():
    taxes = "share of the household's income before taxes"
    levels = [f"highest qualification[{level}]" for level in ("secondary school", "university degree")]
    names = ["Intercept", *levels, taxes, *(f"{level}:{taxes}" for level in levels)]
    figures = {
        "mean": -1.234,
        "sd": 0.01,
        "2.5%": -1.21,
        "97.5%": -1.27,
        "ess_bulk": 1e3,
        "ess_tail": 1e3,
        "r_hat": 1.0,
    }
    table = pd.DataFrame(figures, index=names)
    lines = Overview("Title", "CERTIFIED", "y ~ x", ["rows"], [], [("Coefficients", table)], "", [], "End.").text()
    shown = [line[:30].split("  ")[0] for line in lines.splitlines() if "1.234" in line]
    assert max(map(len, lines.splitlines())) <= 80
    assert len(set(shown)) == len(names)
    assert shown[1].startswith("highest qu")
    assert _shortened(["abcdefghi", "abcxxxghi"], 8) == ["abcdefghi", "abcxxxghi"]  # else alike
    assert _shortened(["abcdefghij", "b"], 8) == ["ab...hij", "b"]


def test_a_wide_table_goes_on_below_and_leaves_out_nothing(fit):
    table = Table(fit.summary().rename(index=lambda name: f"{name} of those who came again"))
    assert "..." not in repr(table)
    assert all(column in repr(table) for column in table)


def test_a_long_table_shows_its_ends_and_formats_no_more(monkeypatch):
    table = Table({"mean": np.linspace(0.0, 1.0, 5000), "sd": np.full(5000, 0.01)})
    written, own = [], rounded.__globals__["to_digits_of"]
    monkeypatch.setitem(rounded.__globals__, "to_digits_of", lambda *of: written.append(of) or own(*of))
    text = repr(table)
    assert "0.000" in text
    assert text.splitlines()[-3].split() == ["4999", "1.000", "0.010"]
    assert "[5000 rows x 2 columns]" in text
    assert len(written) < 500


def test_values_keep_their_digits_and_what_is_made_of_them_prints_as_well(fit):
    table = fit.summary()
    assert table["mean"]["age"] != float(f"{table['mean']['age']:.4g}")
    again = pickle.loads(pickle.dumps(table))
    assert again.attrs["level"] == fit.level
    assert (again == table).all(axis=None)
    for made in (table.loc[["age"]], table.sort_values("mean"), table.head(2), table.reset_index(), again):
        assert rounded(table)["mean"]["age"] in repr(made)
        assert made.attrs["level"] == fit.level
    assert type(pd.DataFrame(table)) is pd.DataFrame
    assert type(table["mean"]) is pd.Series


@pytest.mark.parametrize(
    "ask",
    [
        lambda fit: fit.summary(prob=0.9),
        lambda fit: fit.summary(scale="odds", prob=0.9),
        lambda fit: fit.summary(scale="response"),
        lambda fit: fit.predict(pd.DataFrame({"age": [40.0], "device": ["pc"]})),
        lambda fit: fit.average_predictions(),
        lambda fit: fit.comparisons("device"),
        lambda fit: fit.slopes("age"),
        lambda fit: fit.check(),
        lambda fit: fit.prior_sensitivity([1.0]),
    ],
)
def test_every_table_has_one_shape_and_names_no_axis_by_the_level(fit, ask):
    table = ask(fit)
    assert type(table) is Table
    assert table.columns.name is None
    assert table.attrs["level"] == fit.level
    ends = [column for column in table if column.endswith("%")]
    assert ends in (["2.5%", "97.5%"], ["5%", "95%"])
    assert not {"lower", "upper", "median"} & set(table)
    if "mean" in table:
        place = list(table).index("mean")
        assert list(table)[place : place + 4] == ["mean", "sd", *ends]
        assert list(table)[place + 4 : place + 7] in ([], ["ess_bulk", "ess_tail", "r_hat"]) or "ess_bulk" not in table


def test_odds_ratios_are_figures_of_the_exponentials_of_draws(fit):
    draws = np.exp(fit.idata["posterior"]["coef"].sel(feature="age").values)
    found = fit.summary(scale="odds", prob=0.8).loc["age"]
    np.testing.assert_allclose(found["mean"], draws.mean(), rtol=1e-10)
    np.testing.assert_allclose(found["sd"], draws.std(ddof=1), rtol=1e-8)
    np.testing.assert_allclose(found[["10%", "90%"]], np.quantile(draws, [0.1, 0.9]), rtol=1e-10)
    assert found["mean"] != pytest.approx(np.exp(fit.summary()["mean"]["age"]), rel=1e-8)  # the negative control


def test_columns_of_several_categories_have_the_digits_of_their_own_sds():
    columns = pd.MultiIndex.from_product([["mean", "sd"], [1, 2]])
    shown = rounded(pd.DataFrame([[0.25748, 0.20788, 0.006454, 0.06102]], columns=columns))
    assert shown.to_numpy().tolist() == [["0.2575", "0.208", "0.0065", "0.061"]]


def test_what_is_not_certified_says_so_below_its_figures(fit):
    table = fit.summary()
    assert "certified" not in repr(table)
    spread = "cluster-robust by 6 clusters of 'a<b'"
    table.attrs.update({"level": "not certified", "spread": spread})
    assert repr(table).splitlines()[-2:] == ["not certified: do not use", f"spread: {spread}"]
    assert "<p>not certified: do not use</p>" in table._repr_html_()
    assert "a&lt;b" in table._repr_html_()
    assert "not certified" in repr(table.loc[["age"]])


def test_a_format_of_the_user_s_own_is_kept(fit):
    with pd.option_context("display.float_format", "{:.1f}!".format):
        assert "0.1!" in repr(fit.summary())
        assert "0.1!" in fit.summary()._repr_html_()
    assert pd.get_option("display.float_format") is None


def test_html_is_rounded_too_and_none_where_pandas_is_told_so(fit):
    assert f"{rounded(fit.summary())['mean']['age']}</td>" in fit.summary()._repr_html_()
    with pd.option_context("display.notebook_repr_html", False):
        assert fit.summary()._repr_html_() is None
