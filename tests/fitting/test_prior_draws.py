"""Draws of the prior have its moments, and responses under it are those of the family; ArviZ draws them."""

import arviz as az
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.compat import ARVIZ_1
from bayescore.data.design import Grouping
from bayescore.fitting.prior import correlation_draws, half_draws
from bayescore.validation import DataError

RNG = np.random.default_rng(11)
N = 1200
ROWS = pd.DataFrame({"temp": RNG.normal(15.0, 6.0, N), "site": RNG.choice(list("abcdef"), N)})
ROWS["hours"] = RNG.choice([0.5, 2.0], N)
ROWS["log_hours"] = np.log(ROWS["hours"])
ETA = 0.1 * (ROWS["temp"] - 15.0)
ROWS["wet"] = np.where(ETA + RNG.logistic(size=N) > 0.0, "yes", "no")
ROWS["frogs"] = RNG.poisson(ROWS["hours"] * np.exp(ETA))
ROWS["mass"] = 40.0 + 3.0 * (ETA + RNG.normal(size=N))
QUIET = {"random_state": 3, "progressbar": False}
MODELS = {
    "logistic": ("wet ~ temp + (1 | site)", {}),
    "probit": ("wet ~ temp", {}),
    "cloglog": ("wet ~ temp", {"prior": bc.priors.Normal(0.0, 0.05)}),
    "poisson": ("frogs ~ temp + (1 | site)", {"exposure": "hours"}),
    "negative_binomial(2)": (
        "frogs ~ temp",
        {"offset": "log_hours", "prior": {"temp": bc.priors.StudentT(3, 0, 0.02)}},
    ),
    "normal": ("mass ~ temp + (1 + temp | site)", {}),
}

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module", params=MODELS)
def fit(request):
    formula, told = MODELS[request.param]
    return bc.fit(formula, ROWS, family=request.param, **told, **QUIET)


def test_groups_variables_and_responses_are_those_of_the_family(fit):
    found = fit.prior_predictive(300, random_state=2)
    y, observed = found["prior_predictive"]["y"], found["observed_data"]["y"].values
    assert y.dims == ("chain", "draw", "row")
    assert y.shape == (1, 300, 1000)
    rows = found["observed_data"]["row"].values
    column = {"labels": "wet", "counts": "frogs", "numbers": "mass"}[fit.coreset.response]
    wanted = (ROWS[column] == "yes").astype(int) if column == "wet" else ROWS[column]
    np.testing.assert_array_equal(observed, wanted.iloc[rows])
    if column == "wet":
        assert set(np.unique(y)) == {0, 1}
    if column == "frogs":
        assert y.dtype == np.int64
        long, short = (np.log1p(y.values[0][:, ROWS["hours"].to_numpy()[rows] == hours]).mean() for hours in (2.0, 0.5))
        assert long > short
    again = fit.prior_predictive(300, random_state=2)
    np.testing.assert_array_equal(again["prior_predictive"]["y"], y)
    assert not np.array_equal(fit.prior_predictive(300, random_state=3)["prior_predictive"]["y"], y)


@pytest.mark.statistical(rate=1e-5)
def test_draws_of_the_prior_have_the_spread_that_prior_summary_states():
    """Sds of 4,000 normal draws at 5 standard errors, two of them: 1e-6; the control is off by 20 of them."""
    fit = bc.fit("wet ~ temp", ROWS, **QUIET)
    found = fit.prior_predictive(4000, random_state=2)["prior"]["coef"].sel(feature="temp").values
    stated = float(fit.prior_summary()["in_data_units"]["temp"].split("sigma=")[1].rstrip(")"))
    error = 5.0 / np.sqrt(2.0 * found.size)
    assert abs(found.std() / stated - 1.0) < error
    assert abs(found.mean() / stated) < 5.0 / np.sqrt(found.size)
    assert (
        not abs(fit.prior_predictive(4000)["prior"]["coef"].sel(feature="Intercept").values.std() / 2.5 - 1.0) < error
    )


@pytest.mark.statistical(rate=1e-5)
def test_sds_of_smooth_terms_are_drawn_with_their_bends():
    """Shares of 4,000 half t below their median, and squares of standardised bends, at 5 standard errors: 1e-6."""
    fit = bc.fit("mass ~ s(temp)", ROWS, family="normal", group_prior=bc.priors.HalfStudentT(3, 2.0), **QUIET)
    prior = fit.prior_predictive(4000, random_state=2)["prior"]
    sds = prior["sigma_s(temp)"].values.ravel()
    assert abs((sds < 2.0 * 0.7649).mean() - 0.5) < 5.0 * 0.5 / np.sqrt(4000) + 1e-4
    for k in (1, 8):
        square = (prior["coef"].sel(feature=f"s(temp)[{k}]").values.ravel() / sds) ** 2
        assert abs(square.mean() - 1.0) < 5.0 * np.sqrt(2.0 / 4000)
        assert not abs((square * sds**2 / np.roll(sds, 1) ** 2).mean() - 1.0) < 5.0 * np.sqrt(2.0 / 4000)


@pytest.mark.statistical(rate=1e-5)
def test_correlations_and_sds_have_their_densities():
    """Squares of 40,000 correlations and the median of sds at 5 standard errors: 6e-7 each.

    Of LKJ(2) of q effects a correlation is 2 Beta(a, a) - 1, a = 2 + (q - 2) / 2, of variance 1 / (2 a + 1).
    """
    rng, n = np.random.default_rng(4), 40_000
    R = correlation_draws(Grouping("g", (0,), ("1", "a", "b")), n, rng)
    np.testing.assert_allclose(np.linalg.eigvalsh(R).min(axis=1) > 0.0, True)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        square = R[:, i, j] ** 2
        assert abs(square.mean() - 1.0 / 6.0) < 5.0 * square.std() / np.sqrt(n)
        assert not abs(square.mean() - 1.0 / 5.0) < 5.0 * square.std() / np.sqrt(n)  # the density of two effects
    apart = correlation_draws(Grouping("g", (0,), ("1", "a"), blocks=(1, 1)), 5, rng)
    np.testing.assert_array_equal(apart, np.tile(np.eye(2), (5, 1, 1)))
    for prior, middle in ((bc.priors.HalfNormal(2.0), 2.0 * 0.6745), (bc.priors.HalfStudentT(3, 2.0), 2.0 * 0.7649)):
        share = (half_draws(prior, (n,), rng) < middle).mean()
        assert abs(share - 0.5) < 5.0 * 0.5 / np.sqrt(n) + 1e-4


def test_arviz_draws_them(fit):
    mpl.use("agg")
    found = fit.prior_predictive(20)
    if ARVIZ_1:
        az.plot_ppc_dist(found, group="prior_predictive", backend="matplotlib")
    else:
        az.plot_ppc(found, group="prior")
    mpl.pyplot.close("all")


def test_without_rows_or_a_known_prior_it_says_so(tmp_path):
    fit = bc.fit("frogs ~ temp", ROWS, family="poisson", **QUIET)
    fit.save(tmp_path / "fit")
    with pytest.raises(DataError, match="does not have all its rows"):
        bc.read_fit(tmp_path / "fit").prior_predictive()
    read = bc.read_fit(tmp_path / "fit", ROWS, progressbar=False).prior_predictive(50)
    np.testing.assert_array_equal(read["prior_predictive"]["y"], fit.prior_predictive(50)["prior_predictive"]["y"])
    with pytest.raises(ValueError, match="draws"):
        fit.prior_predictive(0)
