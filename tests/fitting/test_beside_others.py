"""Averages beside marginaleffects' published figures and beside bambi's `interpret` at the same draws."""

import logging
import warnings

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.diagnostics.certificate.estimates import bare_table
from bayescore.diagnostics.results import Level
from bayescore.samplers.posterior import read_posterior, with_own_model_attrs
from bayescore.samplers.summaries import DataUnits
from tests.arviz_draws import inference_data

# Motor Trend, 1974; R's data set mtcars (Henderson and Velleman 1981, Biometrics 37)
MPG = [21, 21, 22.8, 21.4, 18.7, 18.1, 14.3, 24.4, 22.8, 19.2, 17.8, 16.4, 17.3, 15.2, 10.4, 10.4, 14.7, 32.4, 30.4,
       33.9, 21.5, 15.5, 15.2, 13.3, 19.2, 27.3, 26, 30.4, 15.8, 19.7, 15, 21.4]  # fmt: skip
HP = [110, 110, 93, 110, 175, 105, 245, 62, 95, 123, 123, 180, 180, 180, 205, 215, 230, 66, 52, 65, 97, 150, 150, 245,
      175, 66, 91, 113, 264, 175, 335, 109]  # fmt: skip
WT = [2.62, 2.875, 2.32, 3.215, 3.44, 3.46, 3.57, 3.19, 3.15, 3.44, 3.44, 4.07, 3.73, 3.78, 5.25, 5.424, 5.345, 2.2,
      1.615, 1.835, 2.465, 3.52, 3.435, 3.84, 3.845, 1.935, 2.14, 1.513, 3.17, 2.77, 3.57, 2.78]  # fmt: skip
AM = [1] * 3 + [0] * 14 + [1] * 3 + [0] * 5 + [1] * 7
MTCARS = pd.DataFrame({"mpg": MPG, "hp": np.asarray(HP, float), "wt": WT, "am": AM})
SMALL = 1e-3  # sds: of draws so close to the mode their averages are marginaleffects' delta method


def at_the_mle(formula):
    """Return a fit whose draws have the maximum likelihood estimate for mean, and `SMALL` of its standard errors."""
    core = bc.all_rows(MTCARS, formula=formula, standardize=True, progressbar=False)
    mode = bc.find_mle(core)
    normals = np.random.default_rng(0).standard_normal((4, 1000, core.n_features))
    normals -= normals.mean(axis=(0, 1))
    flat = normals.reshape(-1, core.n_features)
    normals = (flat @ np.linalg.inv(np.linalg.cholesky(np.cov(flat, rowvar=False)).T)).reshape(normals.shape)
    draws = mode.beta + SMALL * normals @ mode.factor.T
    idata = with_own_model_attrs(inference_data({"posterior": {"beta": draws}}), core)
    refused = bc.Certificate(
        Level.NOT_CERTIFIED, "", bare_table(read_posterior(idata, "idata"), DataUnits(core.design))
    )
    return bc.Fit(core, idata, refused, ())


def test_averages_are_those_of_marginaleffects():
    """The figures are of its page Get started, Python: ``logit("am ~ mpg", mtcars)``; the last digits are as there."""
    fit = at_the_mle("am ~ mpg")
    slope = fit.slopes("mpg", max_draws=4000)
    assert slope["mean"][0] == pytest.approx(0.04648596405936302, rel=1e-5)
    assert slope["sd"][0] / SMALL == pytest.approx(0.00886, abs=2e-5)
    mean = fit.average_predictions(max_draws=4000)
    assert mean["mean"][0] == pytest.approx(0.40625, abs=1e-5)
    assert mean["sd"][0] / SMALL == pytest.approx(0.0688, abs=1e-4)
    middle = MTCARS.assign(mpg=MTCARS["mpg"] - 0.5)  # its +1 is from half below to half above
    parts = [fit.comparisons("mpg", data=middle[middle["am"] == kind])["mean"][0] for kind in (1, 0)]
    assert np.round(parts, 4).tolist() == [0.0449, 0.0475]


def test_slopes_of_an_interaction_are_those_of_marginaleffects():
    """The figures are of its own tests, version 0.5: ``marginaleffects(glm(am ~ hp * wt, binomial))``.

    Its intervals there are narrower than those of the delta method with the inverse Hessian, 0.00210 and 0.1434.
    """
    fit = at_the_mle("am ~ hp * wt")
    found = pd.concat([fit.slopes(name, max_draws=4000) for name in ("hp", "wt")])
    assert found["mean"].tolist() == pytest.approx([0.002654, -0.435727], rel=2e-4)  # its step is one-sided
    assert (found["sd"] / SMALL).tolist() == pytest.approx([0.00210399, 0.1434096], rel=1e-3)


@pytest.mark.slow
def test_averages_are_those_of_bambis_interpret_at_the_same_draws():
    bambi = pytest.importorskip("bambi", reason="bambi is not installed; it comes with bayescore[notebooks]")
    rng, n = np.random.default_rng(0), 400
    rows = pd.DataFrame({"age": rng.normal(40, 12, n), "device": rng.choice(["phone", "tablet"], n)})
    rows["y"] = (0.04 * (rows["age"] - 40) + (rows["device"] == "phone") + rng.logistic(size=n) > 0).astype(int)
    fit = bc.fit("y ~ age * device", rows, random_state=1, progressbar=False)
    coef = fit.idata.posterior["coef"].values
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bambi's and formulae's own, of pandas
        logging.getLogger("bambi").setLevel(logging.ERROR)
        model = bambi.Model("y ~ age * device", rows, family="bernoulli", center_predictors=False)
        model.build()
        one = {"device": ["device_dim"], "age:device": ["age:device_dim"]}
        draws = {"Intercept": coef[..., 0], "age": coef[..., 1], "device": coef[..., 2:3], "age:device": coef[..., 3:]}
        coords = {"device_dim": ["tablet"], "age:device_dim": ["tablet"]}
        idata = inference_data({"posterior": draws}, coords=coords, dims=one)
        contrast = bambi.interpret.comparisons(model, idata, contrast={"device": ["phone", "tablet"]}, average_by=True)
        slopes = bambi.interpret.slopes(model, idata, wrt="age", average_by="device")
    contrast, slopes = (getattr(found, "summary", found) for found in (contrast, slopes))
    own = fit.comparisons("device", max_draws=4000), fit.slopes("age", by="device", max_draws=4000)
    assert list(slopes["device"]) == own[1]["device"].tolist()
    np.testing.assert_allclose(own[0]["mean"], contrast["estimate"], rtol=1e-6)
    np.testing.assert_allclose(own[1]["mean"], slopes["estimate"], rtol=2e-3)  # bambi's step is one-sided
