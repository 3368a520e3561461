"""Slopes of every term and family are those of the same draws in closed form; steps stay where terms have values."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats
from scipy.interpolate import BSpline, CubicSpline

import bayescore as bc
from bayescore.data.formula_design import row_derivatives
from bayescore.diagnostics import averages
from bayescore.validation import DataError

QUIET = {"random_state": 1, "progressbar": False}
TERMS = "bs(dose, df=6) * kind + log(income) + poly(year, 3) + cr(wind, df=4, constraints='center') + I(wind**2):kind"
COLUMNS = ("dose", "income", "year", "wind")
# of the mean by the linear predictor
SLOPES = {
    "logistic": lambda eta: special.expit(eta) * special.expit(-eta),
    "probit": stats.norm.pdf,
    "cloglog": lambda eta: np.exp(eta - np.exp(eta)),
    "poisson": np.exp,
    "negative_binomial(3)": np.exp,
    "normal": np.ones_like,
}


def made(n=900):
    """Return rows with a dose on its bounds in many, incomes over five decades, years, and responses of all kinds."""
    rng = np.random.default_rng(11)
    rows = pd.DataFrame(
        {
            "dose": np.clip(np.round(rng.normal(5.0, 3.0, n)), 0.0, 10.0),
            "income": np.exp(rng.normal(7.0, 2.0, n)),
            "year": rng.integers(2004, 2024, n).astype(float),
            "wind": rng.gamma(2.0, 3.0, n),
            "kind": rng.choice(["old", "new"], n),
        }
    )
    eta = np.sin(rows["dose"] / 3.0) - 0.3 * (np.log(rows["income"]) - 7.0) + 0.05 * (rows["year"] - 2014.0)
    rows["label"] = np.where(eta + rng.logistic(size=n) > 0, "yes", "no")
    rows["count"] = rng.poisson(np.exp(0.4 * eta))
    rows["number"] = eta + rng.normal(size=n)
    return rows


ROWS = made()


def fitted(family, terms=TERMS, rows=ROWS):
    label = {"poisson": "count", "negative_binomial(3)": "count", "normal": "number"}.get(family, "label")
    return bc.fit(f"{label} ~ {terms}", rows, family=family, **QUIET)


def closed_form(fit, name, rows):
    """Return the derivative of each column of the design by a raw one, by splines and polynomials of scipy, numpy."""
    design, x = fit.coreset.design, rows[name].to_numpy()
    state, old = json.loads(design.state)["calls"], (rows["kind"] == "old").to_numpy()
    found = np.zeros((len(rows), len(design.names)))
    for d, column in enumerate(design.names):
        head = column.split(":")[0]
        if name == "dose" and head.startswith("bs("):
            call, k = head[: head.rindex("[")], int(head[head.rindex("[") + 1 : -1])
            knots = np.array(state[call]["knots"])
            one = BSpline(knots, np.eye(len(knots) - 4)[k], 3)
            own = np.where(x == knots[-1], one.derivative()(np.nextafter(x, -1.0)), one.derivative()(x))
        elif name == "income" and head == "log(income)":
            own = 1.0 / x
        elif name == "year" and head.startswith("poly("):
            values = design.transform(rows)[:, d] * design.scales[d]
            own = np.polynomial.Polynomial.fit(x, values, 3).deriv()(x)
        elif name == "wind" and head.startswith("cr("):
            call = head[: head.rindex("[")]
            knots = np.array(state[call]["knots"])
            values = design.transform(rows.iloc[: len(knots)].assign(wind=knots))
            curve = values[:, d] * design.scales[d]
            own = CubicSpline(knots, curve, bc_type="natural").derivative()(x)
        elif name == "wind" and column.startswith("I(wind"):
            own = 2.0 * x
        else:
            continue
        for level in column.split(":")[1:]:
            own = own * (old if level == "kind[old]" else ~old)
        found[:, d] = own / design.scales[d]
    return found


def exact(fit, name, rows, family, weights=None):
    """Return the average slope at each of the draws that slopes uses."""
    beta = fit._posterior().predictor(1000).beta
    eta = fit.coreset.design.transform(rows) @ beta.T
    slope = SLOPES[family](eta) * (closed_form(fit, name, rows) @ beta.T)
    return np.average(slope, axis=0, weights=weights)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("family", SLOPES)
def test_slopes_are_the_closed_form_of_every_term_and_family(family):
    fit = fitted(family)
    for name in COLUMNS:
        wanted = exact(fit, name, ROWS, family)
        found = fit.slopes(name)
        assert found["mean"][0] == pytest.approx(wanted.mean(), rel=1e-6, abs=1e-7 * wanted.std())
        assert found["sd"][0] == pytest.approx(wanted.std(ddof=1), rel=1e-5)
        some = ROWS.iloc[::7]
        wanted = exact(fit, name, some, family)
        assert fit.slopes(name, data=some)["mean"][0] == pytest.approx(wanted.mean(), rel=1e-6, abs=1e-7 * wanted.std())
    if family in ("logistic", "poisson"):
        table = fit.summary(scale="response")
        for name in COLUMNS:
            assert table.loc[name, "mean"] == pytest.approx(fit.slopes(name)["mean"][0])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_slopes_of_saved_updated_and_grouped_fits_of_files(tmp_path):
    rows = ROWS.assign(g=np.arange(len(ROWS)) % 9)
    rows.to_parquet(tmp_path / "rows.parquet")
    fit = bc.fit("label ~ bs(dose, df=5) + (1 | g)", str(tmp_path / "rows.parquet"), **QUIET)
    own = fit.slopes("dose")
    fit.save(tmp_path / "fit")
    read = bc.read_fit(tmp_path / "fit", str(tmp_path / "rows.parquet"), progressbar=False)
    pd.testing.assert_frame_equal(read.slopes("dose"), own)
    np.testing.assert_allclose(read.slopes("dose", data=rows)["mean"], own["mean"], rtol=1e-9)
    more = fit.update(rows.iloc[:200], progressbar=False)
    assert np.isfinite(more.slopes("dose", data=rows)["mean"]).all()
    varying = bc.fit("number ~ dose + (1 + dose | g)", rows, family="normal", **QUIET)
    draws = varying.idata.posterior
    effects = draws["u_g"].values.reshape(-1, 9, 2)[:, :, 1]
    slope = draws["coef"].sel(feature="dose").values.ravel() + effects @ np.bincount(rows["g"]) / len(rows)
    assert varying.slopes("dose", max_draws=100_000)["mean"][0] == pytest.approx(slope.mean(), rel=1e-6)


def test_a_sample_of_many_rows_has_the_slopes_of_all(monkeypatch):
    fit = fitted("logistic", "bs(dose, df=5) + log(income)")
    whole = {name: fit.slopes(name) for name in ("dose", "income")}
    monkeypatch.setattr(averages, "EVERY_ROW", 100)
    monkeypatch.setattr(averages, "SAMPLE_ROWS", 300)
    for name, table in whole.items():
        found = fit.slopes(name)
        assert 0.0 < found["sampling_se"][0] <= 0.1 * found["sd"][0]
        assert abs(found["mean"][0] - table["mean"][0]) < 5.0 * found["sampling_se"][0]


def test_steps_at_the_ends_of_a_spline_go_back():
    fit = fitted("logistic", "bs(dose, df=5)")
    beta = fit._posterior().predictor(1000).beta
    start = np.where(ROWS["dose"] + 2.0 > 10.0, ROWS["dose"] - 2.0, ROWS["dose"])
    low, high = (
        special.expit(fit.coreset.design.transform(ROWS.assign(dose=start + by)) @ beta.T).mean(axis=0)
        for by in (0.0, 2.0)
    )
    assert fit.comparisons("dose", step=2.0)["mean"][0] == pytest.approx((high - low).mean(), rel=1e-9)
    ratio = fit.comparisons("dose", step=2.0, comparison="ratio")
    assert ratio["mean"][0] == pytest.approx((high / low).mean(), rel=1e-9)
    with pytest.raises(DataError, match=r"moved by 30.*bounds of bs\(dose, df=5\).*extrapolation='extend'"):
        fit.comparisons("dose", step=30.0)


@pytest.mark.parametrize("call", ["bs(dose, df=5)", "cr(dose, df=4, constraints='center', extrapolation='raise')"])
def test_rows_beyond_the_bounds_are_named_with_the_argument_that_helps(call):
    fit = fitted("logistic", f"{call} + income")
    new = ROWS.assign(dose=ROWS["dose"] + (np.arange(len(ROWS)) == 33) * 20.0)
    rest = call.split(", extrapolation")[0].rstrip(")").replace("(", r"\(")
    for ask in (
        fit.predict,
        lambda rows: fit.update(rows, progressbar=False),
        lambda rows: fit.slopes("dose", data=rows),
    ):
        with pytest.raises(
            DataError, match=rf"row 33 lies beyond the bounds of .*fit with {rest}.*, extrapolation='extend'"
        ):
            ask(new)
    longer = fitted("logistic", f"{rest.replace(chr(92), '')}, extrapolation='extend') + income")
    assert np.isfinite(longer.predict(new)["mean"]).all()


def test_where_there_is_no_slope_the_row_and_its_value_are_named():
    rows = ROWS.assign(visits=np.floor(ROWS["wind"]))
    fit = fitted("logistic", "sqrt(visits)", rows)
    with pytest.raises(DataError, match=r"variable='visits': 'sqrt\(visits\)' has no derivative.*where it is 0"):
        fit.slopes("visits")
    assert np.isfinite(fit.slopes("visits", data=rows[rows["visits"] > 0])["mean"][0])
    assert np.isfinite(fit.comparisons("visits")["mean"][0])


CURVES = {
    "log over twenty decades": (np.log, lambda x: 1.0 / x, np.exp(np.random.default_rng(0).normal(0.0, 8.0, 400))),
    "log1p, zeros and heavy tails": (np.log1p, lambda x: 1.0 / (1.0 + x), np.r_[0.0, 1.0, np.logspace(0, 9, 50)]),
    "a kink": (np.abs, np.sign, np.r_[-3.0, -1e-4, 0.0, 1e-4, 2.0]),
    "a jump": (np.floor, np.zeros_like, np.arange(18.0, 80.0)),
    "a cube about its middle": (lambda x: (x - 14.0) ** 3, lambda x: 3.0 * (x - 14.0) ** 2, np.arange(4.0, 24.0)),
    "many waves": (np.sin, np.cos, np.linspace(-90.0, 90.0, 301)),
    "large numbers": (lambda x: 3.0 * (x - 1e12), lambda x: np.full_like(x, 3.0), 1e12 + np.arange(40.0)),
    "small numbers": (np.log, lambda x: 1.0 / x, 1e-12 * np.arange(1.0, 40.0)),
}  # fmt: skip


@pytest.mark.parametrize("kind", CURVES)
def test_derivatives_by_difference_are_those_of_calculus(kind):
    curve, derivative, x = CURVES[kind]
    found = row_derivatives(lambda _, at: curve(at)[:, None], x, float(np.ptp(x)))
    np.testing.assert_allclose(found[:, 0], derivative(x), rtol=2e-5, atol=1e-9)


def test_derivatives_stop_at_the_end_of_a_domain():
    found = row_derivatives(lambda _, at: np.where(at > 1.0, np.nan, at**2)[:, None], np.array([0.5, 1.0]), 1.0)
    np.testing.assert_allclose(found[:, 0], [1.0, 2.0], rtol=1e-9)
    assert np.isnan(row_derivatives(lambda _, at: np.sqrt(at)[:, None], np.zeros(1), 1.0)).all()


def test_the_test_would_see_steps_of_the_range():
    """Negative control: steps of 1e-4 of the range, which were once taken, are far too long for small entries."""
    fit = fitted("logistic", "log(income)")
    wanted = exact(fit, "income", ROWS, "logistic").mean()
    h = 1e-4 * np.ptp(ROWS["income"])
    beta = fit._posterior().predictor(1000).beta
    ends = ROWS.assign(income=ROWS["income"] + h), ROWS.assign(income=np.maximum(ROWS["income"] - h, 1e-3))
    high, low = (special.expit(fit.coreset.design.transform(rows) @ beta.T).mean() for rows in ends)
    assert abs((high - low) / (2.0 * h) / wanted - 1.0) > 0.05
    assert fit.slopes("income")["mean"][0] == pytest.approx(wanted, rel=1e-6)
