"""Odds ratios and average predictions against their formulas, draw by draw."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit

import bayescore as bc
from bayescore import compat
from bayescore.models.families import FAMILIES
from bayescore.samplers import effects
from bayescore.validation import DataError

RNG = np.random.default_rng(5)
N = 3000
ROWS = pd.DataFrame(
    {
        "age": RNG.normal(45.0, 12.0, N),
        "device": RNG.choice(["phone", "desktop", "tablet"], N),
        "visits": RNG.integers(0, 4, N),
    }
)
ROWS["clicked"] = RNG.random(N) < expit(-1.0 + 0.03 * ROWS["age"] - (ROWS["device"] == "phone"))
FORMULA = "clicked ~ age * device + C(visits)"


def posterior_of(core, family="logistic", sd=0.1):
    """Return draws about some coefficients, without sampling, as `sample` keeps them."""
    D = core.n_features
    beta = np.random.default_rng(1).normal(np.linspace(-0.5, 0.5, D), sd, size=(2, 150, D))
    idata = compat.inference_data(
        {"posterior": {"beta": beta}}, coords={"feature": list(core.feature_names)}, dims={"beta": ["feature"]}
    )
    idata.posterior.attrs |= {"family": family, "design": json.dumps(core.design.to_dict())}
    constants = {"X": (("row", "feature"), core.X), "weights": ("row", core.weights)}
    if core.offset is not None:
        constants["offset"] = ("row", core.offset)
    idata["constant_data"] = xr.Dataset(constants, coords={"row": core.index})
    return idata, beta.reshape(-1, D)


def full(data=ROWS, **options):
    return bc.all_rows(data, **{"formula": FORMULA, "progressbar": False, **options})


@pytest.mark.parametrize("standardize", [True, False])
def test_odds_ratios_are_of_one_unit_more_in_the_data(standardize):
    core = full(standardize=standardize)
    idata, beta = posterior_of(core)
    table = bc.odds_ratios(idata, ci_prob=0.8)
    assert list(table.index) == list(core.feature_names[1:])
    X = core.design.transform(np.array([[50.0, 1.0, 2.0], [51.0, 1.0, 2.0]]))  # age, device and visits: not alike
    of_age = np.exp((X[1] - X[0]) @ beta.T)
    assert list(table.columns) == ["median", "lower", "upper"]
    ratios = np.exp(core.design.raw_coefficients(beta)[:, 1:])
    np.testing.assert_allclose(table.to_numpy().T, np.quantile(ratios, [0.5, 0.1, 0.9], axis=0), rtol=1e-4)
    name = "age:device[phone]"
    both = table.index.get_indexer(["age", name])
    np.testing.assert_allclose(ratios[:, both].prod(axis=1), of_age, rtol=1e-8)


def test_odds_ratios_are_those_of_the_logistic_link_alone():
    core = full(family="probit")
    with pytest.raises(DataError, match="family 'probit', whose coefficients are no log odds ratios"):
        bc.odds_ratios(posterior_of(core, "probit")[0])


def expected(p, weights, groups):
    """Return the average of p, shape (n, S), over each group, draw by draw."""
    return np.stack([np.average(p[own], axis=0, weights=weights[own]) for own in groups])


@pytest.mark.parametrize("family", ["logistic", "probit"])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("where", ["raw rows", "full data", "the posterior's rows"])
def test_averages_over_the_rows_of_each_level(family, standardize, where):
    weights = np.random.default_rng(2).uniform(0.5, 2.0, N)
    core = full(ROWS.assign(w=weights), weights="w", standardize=standardize, family=family)
    idata, beta = posterior_of(core, family)
    data = {"raw rows": ROWS, "full data": core, "the posterior's rows": None}[where]
    w = np.ones(N) if where == "raw rows" else weights
    p = FAMILIES[family].mean(core.X @ beta.T)
    for name, levels in {"device": ["desktop", "phone", "tablet"], "visits": [0, 1, 2, 3]}.items():
        table = bc.average_predictions(idata, data, by=name, ci_prob=0.8)
        assert list(table.index) == levels
        truth = expected(p, w, [(ROWS[name] == level).to_numpy() for level in levels])
        np.testing.assert_allclose(table["mean"], truth.mean(axis=1), rtol=1e-9)
        np.testing.assert_allclose(table[["lower", "upper"]].T, np.quantile(truth, [0.1, 0.9], axis=1), rtol=1e-9)
        gap = truth - truth[0]
        np.testing.assert_allclose(table["difference"], gap.mean(axis=1), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(table["difference_upper"], np.quantile(gap, 0.9, axis=1), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(table["weight"], [w[(ROWS[name] == level)].sum() for level in levels])


@pytest.mark.parametrize("where", ["raw rows", "the posterior's rows"])
def test_averages_over_all_rows_as_if_they_had_the_level(where):
    core = full(standardize=True)
    idata, beta = posterior_of(core)
    table = bc.average_predictions(idata, ROWS if where == "raw rows" else None, variables="device")
    for level in ("desktop", "phone", "tablet"):
        X = full(ROWS.assign(device=level), formula=None, design=core.design).X
        assert table.loc[level, "mean"] == pytest.approx(expit(X @ beta.T).mean(), rel=1e-9)
        assert table.loc[level, "weight"] == N
    by = bc.average_predictions(idata, ROWS, by="device")
    assert abs(by["mean"] - table["mean"]).max() > 1e-4  # another question


@pytest.mark.parametrize("where", ["raw rows", "full data", "the posterior's rows"])
def test_offsets_count(where):
    data = ROWS.assign(o=np.linspace(-1.0, 1.0, N))
    core = full(data, offset="o")
    idata, beta = posterior_of(core)
    given = {"raw rows": data, "full data": core, "the posterior's rows": None}[where]
    p, own = expit(core.X @ beta.T + core.offset[:, None]), (data["device"] == "phone").to_numpy()
    assert bc.average_predictions(idata, given, by="device").loc["phone", "mean"] == pytest.approx(p[own].mean())
    X = full(data.assign(device="phone"), formula=None, design=core.design).X
    p = expit(X @ beta.T + core.offset[:, None])
    assert bc.average_predictions(idata, given, variables="device").loc["phone", "mean"] == pytest.approx(p.mean())


def test_columns_without_a_formula():
    with pytest.warns(UserWarning, match="columns of text are coded"):
        core = bc.all_rows(ROWS, label="clicked", intercept=True, standardize=True, progressbar=False)
    idata, beta = posterior_of(core)
    table = bc.average_predictions(idata, variables="visits")
    X = bc.all_rows(ROWS.assign(visits=2), label="clicked", design=core.design, progressbar=False).X
    assert table.loc[2, "mean"] == pytest.approx(expit(X @ beta.T).mean(), rel=1e-9)
    table = bc.average_predictions(idata, by="device")
    own = (ROWS["device"] == "tablet").to_numpy()
    assert table.loc["tablet", "mean"] == pytest.approx(expit(core.X[own] @ beta.T).mean(), rel=1e-9)


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    idata, _ = posterior_of(full())
    several = bc.average_predictions(idata, ROWS, by="device")
    monkeypatch.setattr(effects, "available_cores", lambda: 1)
    assert several.equals(bc.average_predictions(idata, ROWS, by="device"))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "by=None and variables=None: give one of them"),
        ({"by": "device", "variables": "device"}, ValueError, "give one of them"),
        ({"by": "county"}, DataError, "by='county' is no column of the data; they are 'age', 'device', 'visits'"),
        ({"by": "age"}, DataError, "column 'age' has 3000 values in these rows, more than 20: it is no factor"),
        ({"by": "device", "ci_prob": 1.5}, ValueError, "ci_prob"),
    ],
)
def test_what_cannot_be_averaged_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        bc.average_predictions(posterior_of(full())[0], ROWS, **arguments)


def test_rows_of_a_design_that_do_not_tell_the_column_are_refused():
    core = full(formula="clicked ~ log(visits + 1) + device + poly(age, 2)")
    idata, _ = posterior_of(core)
    assert list(bc.average_predictions(idata, by="device").index) == ["desktop", "phone", "tablet"]
    with pytest.raises(DataError, match=r"do not tell 'visits' \(formula=.*give raw rows as data"):
        bc.average_predictions(idata, variables="device")
    assert len(bc.average_predictions(idata, ROWS, variables="device")) == 3


@pytest.mark.parametrize("given", [{"by": "device"}, {"variables": "device"}])
def test_an_average_of_no_rows_is_refused(given):
    core = full()
    idata, _ = posterior_of(core)
    for rows in (ROWS.iloc[:0], core.take(slice(0))):
        with pytest.raises(DataError, match="data has no rows, so there is no average"):
            bc.average_predictions(idata, rows, **given)
