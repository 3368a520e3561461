"""Draws of a user's own PyMC model, which say neither family nor design nor the names of coefficients."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import bayescore as bc
from bayescore import compat
from bayescore.samplers.posterior import with_own_model_attrs
from tests.fitting.printed import one_line
from tests.hand_made import fit_of


@pytest.fixture(scope="module")
def own():
    """Return rows, their coreset, the model, its draws as PyMC hands them over, and those of `sample`."""
    import pymc as pm

    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.normal(45, 12, 2000), "device": rng.choice(["phone", "tablet"], 2000)})
    rows["y"] = 0.05 * (rows["age"] - 45) - (rows["device"] == "phone") + rng.normal(size=2000) > 0
    core = bc.all_rows(rows, formula="y ~ age + device", family="probit", standardize=True, progressbar=False)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 4, shape=core.n_features)
        bc.weighted_potential("loglik", core, beta)
    told = bc.sample(core, random_seed=1, progressbar=False)
    plain = compat.inference_data({"posterior": {"beta": told.posterior["beta"].values}})
    return rows, core, model, plain, told


def test_a_users_model_is_certified_without_attributes_set_by_hand(own):
    rows, core, model, plain, told = own
    found = bc.certify(plain, core, rows, model=model, progressbar=False)
    assert found.level == "certified"
    assert list(found.coordinates.index) == list(core.feature_names)
    assert "family" not in plain.posterior.attrs  # the user's own stay as they are
    fit, known = (fit_of(each, core).predict(rows[:5]) for each in (found.idata, told))
    np.testing.assert_allclose(fit, known, rtol=1e-9)


@pytest.mark.slow
def test_a_users_model_answers_what_a_fit_answers(own):
    rows, core, model, plain, told = own
    fit = bc.Fit.from_draws(plain, core, rows, model=model, progressbar=False)
    known = bc.Fit.from_draws(told, core, rows, progressbar=False)
    assert (fit.level, known.level) == ("certified", "certified")
    assert fit.summary()["mean"].to_numpy() == pytest.approx(known.summary()["mean"].to_numpy())
    assert fit.comparisons("device")["mean"][0] == pytest.approx(known.comparisons("device")["mean"][0])
    assert "Prior: that of a model of your own" in one_line(fit)
    assert "Prior: that of a model" not in one_line(known)
    with pytest.raises(ValueError, match="of a model of your own, whose prior the fit does not know"):
        fit.prior_sensitivity()
    with pytest.raises(ValueError, match=r"idata does not tell its prior.*or model="):
        bc.Fit.from_draws(plain, core, rows)


@pytest.mark.filterwarnings("ignore:the draws are not certified")
@pytest.mark.parametrize("names", [("u_g", "sigma_g"), ("effects", "sd")])
def test_effects_of_a_users_model_count_where_their_names_tell(names):
    """As `sample` calls them they are in every answer; else no answer leaves them out in silence."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"x": rng.normal(size=900), "g": rng.choice(list("abc"), 900)})
    rows["y"] = rows["x"] + rng.logistic(size=900) > 0
    core = bc.build_coreset(rows, formula="y ~ x + (1 | g)", random_state=1, progressbar=False)
    draws = {"beta": rng.normal(size=(2, 50, 2)), names[0]: rng.normal(size=(2, 50, 3)), names[1]: np.ones((2, 50))}
    coords = {"feature": list(core.feature_names), "g": list("abc")}
    plain = compat.inference_data({"posterior": draws}, coords=coords, dims={"beta": ["feature"], names[0]: ["g"]})
    fit = bc.Fit.from_draws(plain, core, model=object())
    eta = draws["beta"] @ [1.0, 2.0] + draws[names[0]][..., 1]
    cells = pd.DataFrame({"x": [2.0], "g": ["b"], "n": [5]})
    share = (1.0 / (1.0 + np.exp(-eta))).mean()
    assert fit.poststratify(cells, weights="n")["mean"].item() == pytest.approx(share)
    if names[0] == "u_g":
        assert fit.predict(cells)["mean"].item() == pytest.approx(share)
        assert fit.effects("g")["mean"].tolist() == pytest.approx(draws["u_g"].mean(axis=(0, 1)))
        return
    for ask in (lambda: fit.predict(cells), fit.effects, fit.icc, lambda: fit.slopes("x", data=cells)):
        with pytest.raises(ValueError, match=r"lacks the effects of \(1 \| g\): name them.*'u_g', 'sigma_g'"):
            ask()


def test_the_potential_is_of_the_coresets_own_family(own):
    _, core, model, plain, _ = own
    beta = plain.posterior["beta"].values[0, 0]
    value = model.compile_fn(model.potentials[0], inputs=model.free_RVs, point_fn=False)(beta)
    assert value == pytest.approx(norm.logcdf(core.y * (core.X @ beta)).sum())


def test_draws_that_name_their_coefficients_keep_the_names(own):
    _, core, _, _, told = own
    assert with_own_model_attrs(told, core) is told
    names = ["a", "b", "c"]
    plain = compat.inference_data(
        {"posterior": {"beta": told.posterior["beta"].values}}, coords={"k": names}, dims={"beta": ["k"]}
    )
    assert with_own_model_attrs(plain, core).posterior["k"].values.tolist() == names
    with pytest.raises(ValueError, match="idata has the features"):
        bc.certify(plain, core, core, model=object(), progressbar=False)
