"""The certificate's table is in units of the data, draw by draw, and its errors are those that were judged."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.data.design import Design, Grouping
from bayescore.diagnostics.certificate.estimates import bare_table
from bayescore.samplers.posterior import read_posterior
from bayescore.samplers.summaries import DataUnits, with_scales

RNG = np.random.default_rng(3)
N = 1500
ROWS = pd.DataFrame({"height": RNG.normal(170.0, 9.0, N), "dose": RNG.exponential(0.02, N)})
ROWS["site"] = RNG.choice(list("abcdefgh"), N)
SHIFT = RNG.normal(size=8)[ROWS["site"].map("abcdefgh".index)]
ETA = 0.06 * (ROWS["height"] - 170.0) + 20.0 * ROWS["dose"] + 0.5 * SHIFT
ROWS["ill"] = ETA + RNG.logistic(size=N) > 0.4
ROWS["visits"] = RNG.poisson(np.exp(0.3 * ETA))
ROWS["mass"] = ETA + RNG.normal(size=N)
LABEL = {"logistic": "ill", "probit": "ill", "cloglog": "ill", "poisson": "visits", "negative_binomial(3)": "visits"}
QUIET = {"progressbar": False}


@pytest.mark.parametrize("family", [*LABEL, "normal"])
def test_means_sds_and_quantiles_are_those_of_draws_in_units_of_the_data(family):
    formula = f"{LABEL.get(family, 'mass')} ~ height + dose"
    core = bc.build_coreset(ROWS, formula=formula, family=family, standardize=True, random_state=1, **QUIET)
    idata = bc.sample(core, random_seed=2, **QUIET)
    found = bc.certify(idata, core, ROWS, **QUIET)
    raw = core.design.raw_coefficients(idata["posterior"]["beta"].values).reshape(-1, 3)
    table, names = found.coordinates, list(core.feature_names)
    np.testing.assert_allclose(table.loc[names, "mean"], raw.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(table.loc[names, "sd"], raw.std(axis=0, ddof=1), rtol=1e-9)
    np.testing.assert_allclose(table.loc[names, "median"], np.median(raw, axis=0), rtol=1e-9)
    used = core.design.raw_coefficients(found.idata["posterior"]["beta"].values).reshape(-1, 3)
    near = used.std(axis=0)
    np.testing.assert_array_less(np.abs(table.loc[names, "corrected_mean"] - used.mean(axis=0)), 0.15 * near)
    np.testing.assert_array_less(
        np.abs(table.loc[names, "corrected_97.5%"] - np.quantile(used, 0.975, axis=0)), 0.3 * near
    )
    np.testing.assert_allclose(table.loc[names, "corrected_sd"], near, rtol=0.15)
    standardised = idata["posterior"]["beta"].values.reshape(-1, 3).std(axis=0)
    assert not np.allclose(table.loc[names, "sd"], standardised, rtol=0.5)  # the negative control


def test_a_scale_alone_changes_no_figure_of_the_judgement():
    metres = ROWS.assign(height=ROWS["height"] / 100.0)
    tables = []
    for rows in (ROWS, metres):
        core = bc.build_coreset(rows, formula="ill ~ height + dose", standardize=True, random_state=1, **QUIET)
        tables.append(bc.certify(bc.sample(core, random_seed=2, **QUIET), core, rows, **QUIET).coordinates)
    errors = [name for name in tables[0] if "error" in name or "mcse" in name]
    np.testing.assert_allclose(tables[0][errors], tables[1][errors], atol=1e-6)
    np.testing.assert_allclose(100.0 * tables[0]["mean"]["height"], tables[1]["mean"]["height"], rtol=1e-6)


def test_sds_and_correlations_of_slopes_are_those_of_the_summary():
    rows = ROWS.assign(ill=ROWS["ill"] ^ (RNG.random(N) < 0.02))
    fit = bc.fit("ill ~ height + (1 + height | site)", rows, random_state=1, **QUIET)
    drawn = replace(fit, certificate=replace(fit.certificate, idata=fit._drawn))
    table, summary = fit.certificate.coordinates, drawn.summary()
    slope = np.exp(table["median"]["log sigma_site[height]"])
    assert slope == pytest.approx(summary["mean"]["sigma_site[height]"], rel=0.3)
    assert slope < 0.3 * np.exp(bare_of_judged(fit)["median"]["log sigma_site[height]"])  # of the standardised column
    at_zero = np.exp(table["median"]["log sigma_site[1]"])
    ends = summary.loc["sigma_site[1]", ["2.5%", "97.5%"]]
    assert ends.iloc[0] < at_zero < ends.iloc[1]


def bare_of_judged(fit):
    posterior = with_scales(read_posterior(fit._drawn, "drawn"), fit.coreset.groups)
    return bare_table(posterior, DataUnits(Design(fit.coreset.feature_names, groups=fit.coreset.groups)))


def test_the_map_is_that_of_coefficients_and_of_covariances():
    own = Grouping("g", (0, 1, 2), ("1", "age"))
    design = Design(("age",), intercept=True, center=(45.0,), scale=(12.0,), groups=(own,))
    units, rng = DataUnits(design), np.random.default_rng(0)
    draws = np.column_stack([rng.normal(size=(5, 2)), rng.normal(size=(5, 2)), rng.normal(size=5), rng.normal(size=5)])
    found = units(draws)
    np.testing.assert_allclose(found[:, 1], draws[:, 1] / 12.0)
    np.testing.assert_allclose(found[:, 0], draws[:, 0] - 45.0 / 12.0 * draws[:, 1])
    np.testing.assert_allclose(found[:, 3], draws[:, 3] - np.log(12.0))
    np.testing.assert_array_equal(found[:, 5], draws[:, 5])  # of the noise
    for s in range(5):
        sd, rho = np.exp(draws[s, 2:4]), np.tanh(draws[s, 4])
        S = np.array([[sd[0] ** 2, rho * sd.prod()], [rho * sd.prod(), sd[1] ** 2]])
        A = np.array([[1.0, -45.0 / 12.0], [0.0, 1.0 / 12.0]])
        raw = A @ S @ A.T
        assert np.exp(2.0 * found[s, 2]) == pytest.approx(raw[0, 0])
        assert np.tanh(found[s, 4]) == pytest.approx(raw[0, 1] / np.sqrt(raw[0, 0] * raw[1, 1]))
    assert units.mixed(6).tolist() == [0, 2, 4]
    np.testing.assert_array_equal(DataUnits(Design(("age",)))(draws[:, :1]), draws[:, :1])
