"""`fit`, `build_coreset`, `sample`, `model`, `find_map` and `log_evidence` have one default prior, in any units."""

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.coresets.method import Method
from bayescore.coresets.methods import method_of
from bayescore.data.design import Design
from bayescore.fitting.prior import raw_prior
from bayescore.models.pymc import draw_coefficients
from bayescore.priors.by_name import prior_from_dict
from bayescore.priors.groups import prior_for
from bayescore.samplers.posterior import read_posterior
from bayescore.validation import DataError

RNG = np.random.default_rng(5)
N = 700
ROWS = pd.DataFrame(
    {"year": RNG.normal(1990.0, 8.0, N), "ph": RNG.normal(7.0, 0.002, N), "kind": RNG.choice(["a", "b"], N)}
)
ROWS["land"] = RNG.choice(list("pqrs"), N)
ETA = 0.05 * (ROWS["year"] - 1990.0) + 150.0 * (ROWS["ph"] - 7.0)
ROWS["hit"] = ETA + RNG.logistic(size=N) > 0.0
ROWS["calls"] = RNG.poisson(np.exp(0.3 * ETA))
ROWS["price"] = 5.0 + 0.2 * (ETA + RNG.normal(size=N))
LABEL = {"logistic": "hit", "probit": "hit", "cloglog": "hit", "poisson": "calls", "negative_binomial(2)": "calls"}
QUIET = {"progressbar": False}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def slopes(prior, core):
    """Return the sds of a prior's coefficients in units of the data but the intercept's."""
    each = raw_prior(prior, core.design)
    D = core.n_features
    return np.array([each.of_coefficient(d, name, D).sigma for d, name in enumerate(core.feature_names)])[1:]


def of_draws(idata):
    return prior_from_dict(read_posterior(idata, "idata").story["prior"])


@pytest.mark.parametrize("family", [*LABEL, "normal"])
def test_sample_and_fit_have_the_same_prior_whatever_the_scaling(family):
    formula = f"{LABEL.get(family, 'price')} ~ year + ph + kind"
    fit = bc.fit(formula, ROWS, family=family, random_state=1, **QUIET)
    known = slopes(fit._design_prior, fit.coreset)
    unit = ROWS["price"].std(ddof=0) if family == "normal" else 1.0
    np.testing.assert_allclose(known[1], 2.5 * unit / ROWS["ph"].std(ddof=0), rtol=0.02)
    for standardize in (False, True):
        core = bc.build_coreset(ROWS, formula=formula, family=family, standardize=standardize, random_state=1, **QUIET)
        own = prior_for(None, core, bc.families.Logistic()) if family != "normal" else None
        drawn = of_draws(bc.sample(core, draws=200, random_seed=1, **QUIET))
        np.testing.assert_allclose(slopes(drawn, core), known, rtol=2e-3)
        assert own is None or own == drawn
    assert not np.allclose(known, 4.0)  # the negative control: one sd for all columns


@pytest.mark.parametrize("family", ["poisson", "negative_binomial(2)", "truncated_poisson", "gamma(2)", "weibull(2)"])
def test_columns_are_about_their_means_whatever_the_responses(family):
    y = ROWS["calls"] + 1
    rng = np.random.default_rng(7)
    rows = ROWS.assign(calls=y, w=rng.integers(1, 4, N), days=rng.uniform(1.0, 9.0, N))
    left = "Surv(calls)" if family == "weibull(2)" else "calls"
    known = {"formula": f"{left} ~ year + ph", "family": family, "random_state": 1, **QUIET}
    X, w = rows[["year", "ph"]].to_numpy(), rows["w"].to_numpy(float)
    for weights in (None, "w"):
        each = np.ones(N) if weights is None else w
        mean = np.average(X, axis=0, weights=each)
        sd = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=each))
        scaled = bc.build_coreset(rows, weights=weights, standardize=True, **known).design
        np.testing.assert_allclose(scaled.center[1:], mean, rtol=1e-12)
        np.testing.assert_allclose(scaled.scale[1:], sd, rtol=1e-9)
        as_they_are = bc.build_coreset(rows, weights=weights, **known).design
        np.testing.assert_allclose(as_they_are.means[1:], mean, rtol=1e-12)
        if family == "poisson":
            exposed = bc.build_coreset(rows, weights=weights, exposure="days", standardize=True, **known).design
            np.testing.assert_allclose(exposed.center[1:], np.average(X, axis=0, weights=each * rows["days"]))
    assert abs(np.average(X[:, 0], weights=1 + y) - X[:, 0].mean()) > 0.1  # the negative control: by sides


def test_a_build_goes_by_the_prior_of_the_spread_of_its_columns():
    core = bc.build_coreset(ROWS, formula="hit ~ year + ph", method="calibrated", size=100, random_state=1, **QUIET)
    assert core.params["prior"] == repr(prior_for(None, core, bc.families.Logistic()))
    method = method_of("calibrated", {})
    assert isinstance(method, Method)
    assert method.named(Design(("x",))).prior is None  # of rows that come once nothing is known beforehand
    named = method_of("calibrated", {"prior": {"ph": bc.priors.Normal(0, 7.0)}}).named(core.design)
    sds = [named.prior.of_coefficient(d, name, 3).sigma for d, name in enumerate(core.feature_names)]
    assert sds[2] == 7.0
    assert sds[1] == pytest.approx(2.5 / ROWS["year"].std(ddof=0), rel=0.01)


def test_a_column_in_another_unit_has_the_same_posterior():
    """The modes are those of one model; under one sd for all columns that of `ph` in thousandths would be held to 0."""
    found = []
    for scale in (1.0, 1e6):
        rows = bc.all_rows(ROWS.assign(ph=(ROWS["ph"] - 7.0) * scale), formula="hit ~ year + ph", **QUIET)
        found.append(bc.find_map(rows).beta[2] * scale)
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    held = bc.find_map(bc.all_rows(ROWS, formula="hit ~ year + ph", **QUIET), prior=bc.priors.Normal(0, 4)).beta[2]
    assert held < 0.5 * found[0]  # the negative control


def test_files_and_tests_rows_keep_the_prior(tmp_path):
    core = bc.build_coreset(ROWS, formula="hit ~ year + kind", random_state=1, **QUIET)
    core.save(tmp_path / "core.parquet")
    wanted = prior_for(None, core, bc.families.Logistic())
    assert prior_for(None, bc.read_coreset(tmp_path / "core.parquet"), bc.families.Logistic()) == wanted
    some = bc.all_rows(ROWS[:50], design=core.design, **QUIET)
    assert prior_for(None, some, bc.families.Logistic()) == wanted


def test_without_an_intercept_it_is_that_of_fit():
    fit = bc.fit("hit ~ 0 + year + ph", ROWS, random_state=1, **QUIET)
    core = bc.build_coreset(ROWS, formula="hit ~ 0 + year + ph", random_state=1, **QUIET)
    assert prior_for(None, core, bc.families.Logistic()) == fit._design_prior


@pytest.mark.parametrize("formula", ["hit ~ year", "calls ~ year + (1 | land)", "price ~ year + (1 | land)"])
def test_sample_and_model_take_a_fit_and_its_priors(formula):
    family = {"hit": "logistic", "calls": "poisson", "price": "normal"}[formula.split()[0]]
    told = {"group_prior": bc.priors.HalfNormal(0.7)} if "|" in formula else {}
    fit = bc.fit(
        formula, ROWS, family=family, prior={"year": bc.priors.Normal(0, 0.03)}, random_state=1, **told, **QUIET
    )
    again = bc.sample(fit, draws=300, random_seed=4, **QUIET)
    assert again["posterior"].sizes["draw"] == 300
    assert of_draws(again) == fit._design_prior
    assert bc.Fit.from_draws(again, fit.coreset, ROWS, progressbar=False).group_prior == fit.group_prior
    built = bc.model(fit)
    assert built.coords["feature"] == fit.coreset.feature_names
    point = built.initial_point()
    known = bc.model(fit.coreset, prior=fit._design_prior, group_prior=fit.group_prior)
    assert built.compile_logp()(point) == known.compile_logp()(point)
    tight = bc.sample(fit, prior=bc.priors.Normal(0, 0.001), draws=300, random_seed=4, **QUIET)
    assert abs(tight["posterior"]["beta"].values[..., 1].mean()) < 0.02


def test_draws_of_a_model_of_ones_own_have_no_prior_to_take():
    fit = bc.fit("hit ~ year", ROWS, random_state=1, **QUIET)
    del fit._drawn["posterior"].attrs["posterior_of"]
    with pytest.raises(DataError, match="give prior="):
        bc.sample(fit, **QUIET)
    assert draw_coefficients(bc.priors.Normal(0, 1), ["a", "b"], 3, 0)["beta"].shape == (3, 2)
