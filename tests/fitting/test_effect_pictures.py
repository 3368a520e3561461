"""Caterpillars, shrinkage and the share of variance of fits with groups: (1 | g), slopes, crossed factors, counts."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

import bayescore as bc
from bayescore.validation import DataError

FORMULAS = {
    "one": ("y ~ x + (1 | g)", "logistic"),
    "slopes": ("y ~ x + (1 + x | g)", "logistic"),
    "crossed": ("y ~ x + (1 | g) + (1 | h)", "probit"),
    "counts": ("c ~ x + (1 | g)", "poisson"),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    n = 3000
    rows = pd.DataFrame({"x": rng.normal(10.0, 2.0, n), "g": rng.choice(list("abcdefgh"), n), "h": np.arange(n) % 10})
    place = rows["g"].map("abcdefgh".index)
    eta = np.linspace(-1.5, 1.5, 8)[place] + np.linspace(0.3, -0.3, 8)[place] * (rows["x"] - 10.0)
    rows["y"] = np.where(eta + rng.logistic(size=n) > 0, "none", "all")  # the event is "none", which sorts last
    return rows.assign(c=rng.poisson(np.exp(0.5 * eta - 1.0)))


@pytest.fixture(scope="module", params=FORMULAS)
def fit(rows, request):
    formula, family = FORMULAS[request.param]
    return request.param, bc.fit(formula, rows, family=family, random_state=1, progressbar=False)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_effects_are_drawn_in_units_of_the_data(fit):
    kind, found = fit
    for effect in ("1", "x") if kind == "slopes" else ("1",):
        axes = found.plot_effects("g", effect=effect)
        table = found.effects("g", effect=effect).sort_values("mean", ascending=False)
        drawn = np.concatenate([line.get_xdata() for line in axes.lines if len(line.get_xdata()) not in (0, 2)])
        assert set(np.round(drawn, 9)) <= set(np.round(table["mean"], 9))
        assert [label.get_text() for label in axes.get_yticklabels()] == list(table.index)
        assert ("x by g" in axes.get_xlabel()) == (effect == "x")
        assert axes.get_xlabel().startswith("effect of x by g" if effect == "x" else "effect of g")


def test_shrinkage_is_of_the_event_of_the_fit(fit):
    kind, found = fit
    axes = found.plot_shrinkage("g")
    x, y = axes.collections[-1].get_offsets().T
    assert np.corrcoef(x, y)[0, 1] > 0.9
    assert np.argmax(x) == 7  # "h" has the most events
    assert ("log rate in each g" if kind == "counts" else "of y = 'none' in each g") in axes.get_xlabel()
    assert axes.get_ylabel().startswith("effect of g: mean and 95% interval")


def test_shares_of_variance_add_over_factors_and_rows(fit, rows):
    kind, found = fit
    if kind == "counts":
        with pytest.raises(DataError, match="no intraclass correlation"):
            found.icc()
        return
    share, posterior = found.icc(), found.idata.posterior
    assert list(share.index) == (["icc_g", "icc_h"] if kind == "crossed" else ["icc_g"])
    if kind == "crossed":
        g, h = (posterior[f"sigma_{name}"].values ** 2 for name in "gh")
        assert share["mean"]["icc_g"] == pytest.approx((g / (g + h + 1.0)).mean())
    if kind == "slopes":
        u = np.stack([found.effects("g", effect=effect)["mean"] for effect in ("1", "x")], axis=1)
        by_row = (np.column_stack([np.ones(len(rows)), rows["x"]]) @ u.T).var(axis=1, ddof=1).mean()
        assert share["mean"]["icc_g"] == pytest.approx(by_row / (by_row + np.pi**2 / 3), abs=0.1)


def test_what_has_no_picture_is_named(fit, rows):
    kind, found = fit
    if kind == "slopes":
        with pytest.raises(DataError, match="effect='z' does not vary by 'g'; these do: 1, x"):
            found.plot_effects(effect="z")
    if kind == "crossed":
        with pytest.raises(DataError, match="are 'g', 'h'; name one"):
            found.plot_shrinkage()
        with pytest.raises(DataError, match="are 'g', 'h'; name one"):
            found.plot_effects()
    if kind == "one":
        with pytest.raises(DataError, match="effect='x' does not vary by 'g'"):
            found.plot_effects(effect="x")
        numbers = bc.fit("x ~ 1 + (1 | g)", rows, family="normal", random_state=1, progressbar=False)
        with pytest.raises(DataError, match="the response is a number"):
            numbers.plot_shrinkage()
