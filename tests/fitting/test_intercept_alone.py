"""Fits of an intercept alone: its posterior is known by quadrature."""

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.validation import DataError

QUIET = {"random_state": 1, "progressbar": False}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 12, 3000)
    effects = rng.normal(0.0, 0.6, 12)[groups]
    return pd.DataFrame(
        {
            "g": groups,
            "label": (rng.logistic(size=3000) + effects - 0.5 > 0).astype(int),
            "count": rng.poisson(np.exp(0.3 + effects)),
        }
    )


def by_quadrature(rows, response, family):
    """Return mean and sd under fit's default prior, N(0, 2.5^2)."""
    at = np.linspace(-3.0, 3.0, 60_001)
    if family == "poisson":
        log_p = rows[response].sum() * at - len(rows) * np.exp(at)
    else:
        t = check_family(family).mean(at)
        log_p = rows[response].sum() * np.log(t) + (1 - rows[response]).sum() * np.log1p(-t)
    log_p -= 0.5 * (at / (2.5 * check_family(family).unit / check_family("logistic").unit)) ** 2
    p = np.exp(log_p - log_p.max())
    mean = p @ at / p.sum()
    return mean, np.sqrt(p @ (at - mean) ** 2 / p.sum())


@pytest.mark.parametrize(("family", "response"), [("logistic", "label"), ("poisson", "count")])
def test_draws_are_those_of_the_posterior_that_quadrature_knows(rows, family, response):
    """4,000 draws, 2,000 effective ones at least: 5 Monte Carlo errors are 0.11 sds, a false alarm in 1e6."""
    fit = bc.fit(f"{response} ~ 1", rows, family=family, **QUIET)
    mean, sd = by_quadrature(rows, response, family)
    told = fit.summary().iloc[0]
    assert fit.level == "certified"
    assert told["ess_bulk"] > 2000
    assert told["mean"] == pytest.approx(mean, abs=0.11 * sd)
    assert told["sd"] == pytest.approx(sd, rel=0.08)
    other, _ = by_quadrature(rows[: len(rows) // 2], response, family)  # a control: half of the rows
    assert abs(told["mean"] - other) > 0.11 * sd


def test_groups_without_a_column_are_compared_with_the_null_model(rows):
    null, groups = (bc.fit(f"label ~ {terms}", rows, **QUIET) for terms in ("1", "(1 | g)"))
    found = bc.loo_compare({"null": null, "groups": groups}, progressbar=False)
    assert found.index[0] == "groups"
    assert found.loc["null", "elpd_diff"] < -2.0
    assert groups.predict(pd.DataFrame({"g": [1, 99]})).shape[0] == 2


@pytest.mark.parametrize("scale", ["odds", "ratio", "response"])
def test_scales_of_other_coefficients_are_refused_by_name(rows, scale):
    fit = bc.fit("label ~ 1", rows, **QUIET)
    with pytest.raises(DataError, match=f"scale='{scale}' is for coefficients other than the intercept"):
        fit.summary(scale=scale)
    assert list(bc.fit("label ~ g", rows, **QUIET).summary(scale=scale).index) == ["g"]


def test_an_unknown_column_is_said_to_be_none_of_no_columns(rows):
    fit = bc.fit("label ~ 1", rows, **QUIET)
    for answer in (fit.slopes, fit.plot):
        with pytest.raises(DataError, match=r"'g' is no column (of the data: none|that the fit knows; it has none)$"):
            answer("g")


@pytest.mark.parametrize(
    ("formula", "family", "name", "factor"),
    [
        ("label ~ (1 | g)", "logistic", "g", "g"),
        ("label ~ (1 | g / h)", "logistic", "h", "g:h"),
        ("rating ~ (1 | g)", "sratio", "g", "g"),
    ],
)
def test_a_grouping_factor_has_effects_in_place_of_contrasts(rows, formula, family, name, factor):
    rng = np.random.default_rng(2)
    more = rows.assign(h=rng.integers(0, 3, len(rows)), rating=np.minimum(rows["count"], 2))
    fit = bc.fit(formula, more, family=family, **QUIET)
    for verb, argument in (("slopes", "variable"), ("comparisons", "variable"), ("average_predictions", "variables")):
        with pytest.raises(DataError, match=rf"'{name}' is .*grouping factor, .*fit.effects\('{factor}'\)"):
            getattr(fit, verb)(**{argument: name})
    assert len(fit.effects(factor)) >= 12  # what the error names can be asked
    assert len(fit.average_predictions(by=name)) >= 3


def test_a_factor_s_name_with_a_colon_has_no_parts(rows):
    fit = bc.fit(rows[["count"]], rows["label"], groups={"h:g": rows["g"]}, **QUIET)
    with pytest.raises(DataError, match="'h:g' is a grouping factor"):
        fit.slopes("h:g")
    with pytest.raises(DataError, match="'h' is no column of the data: 'count'"):
        fit.slopes("h")
