"""Odds ratios against their formula, draw by draw."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit

import bayescore as bc
from bayescore import compat
from bayescore.validation import DataError
from tests.hand_made import fit_of

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
    table = fit_of(idata, core).summary(scale="odds", prob=0.8)
    assert list(table.index) == list(core.feature_names[1:])
    X = core.design.transform(np.array([[50.0, 1.0, 2.0], [51.0, 1.0, 2.0]]))  # age, device and visits: not alike
    of_age = np.exp((X[1] - X[0]) @ beta.T)
    ratios = np.exp(core.design.raw_coefficients(beta)[:, 1:])
    np.testing.assert_allclose(table[["mean", "sd"]].T, [ratios.mean(axis=0), ratios.std(axis=0, ddof=1)], rtol=1e-9)
    np.testing.assert_allclose(table[["10%", "90%"]].T, np.quantile(ratios, [0.1, 0.9], axis=0), rtol=1e-9)
    name = "age:device[phone]"
    both = table.index.get_indexer(["age", name])
    np.testing.assert_allclose(ratios[:, both].prod(axis=1), of_age, rtol=1e-8)


def test_odds_ratios_are_those_of_the_logistic_link_alone():
    core = full(family="probit")
    with pytest.raises(DataError, match="family is 'probit', whose coefficients are no log odds ratios"):
        fit_of(posterior_of(core, "probit")[0], core).summary(scale="odds")
