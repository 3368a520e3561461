"""What each coefficient's prior was, on the scale it was given and in units of the data."""

import json

import numpy as np
import pytest

import bayescore as bc
from bayescore.priors.by_name import prior_of
from bayescore.samplers.summaries import prior_summary
from bayescore.validation import DataError
from tests.known_posteriors import make_posterior

NAMES = ("Intercept", "a", "b")


def posterior_with(prior, scale=(2.0, 10.0)):
    idata = make_posterior(0, features=NAMES)
    given = prior_of(prior, NAMES)
    story = {"rows": "", "family": "logistic", "draws": "", "prior": given.to_dict()}
    design = {"raw_names": ["a", "b"], "intercept": True, "center": scale and [5.0, 0.0], "scale": scale}
    idata.posterior.attrs |= {"posterior_of": json.dumps(story), "design": json.dumps(design)}
    return idata


AT = ", at the columns' means"


@pytest.mark.parametrize(
    ("prior", "given", "raw"),
    [
        (None, ["Normal(mu=0, sigma=4)"] * 3, ["sigma=4" + ")" + AT, "sigma=2)", "sigma=0.4)"]),
        (
            bc.priors.Normal((0, 1, 2), 1),
            [f"Normal(mu={k}, sigma=1)" for k in range(3)],
            [AT, "mu=0.5, sigma=0.5)", "mu=0.2"],
        ),
        (
            {"Intercept": bc.priors.StudentT(3), "b": bc.priors.Laplace(0, 2)},
            ["StudentT(nu=3, mu=0, sigma=2.5)", "Normal(mu=0, sigma=4)", "Laplace(mu=0, b=2)"],
            ["StudentT(nu=3, mu=0, sigma=2.5)" + AT, "sigma=2)", "Laplace(mu=0, b=0.2)"],
        ),
        (
            bc.priors.MultivariateNormal(0, np.diag([1.0, 4.0, 9.0])),
            [f"Normal(mu=0, sigma={k})" for k in (1, 2, 3)],
            [AT, "sigma=1)", "sigma=0.3)"],
        ),
        (
            bc.priors.Horseshoe(0.1),
            ["Normal(mu=0, sigma=4)", "Horseshoe(tau=0.1, slab=2)", "Horseshoe(tau=0.1, slab=2)"],
            [AT, "Horseshoe(tau=0.05, slab=1)", "Horseshoe(tau=0.01, slab=0.2)"],
        ),
    ],
    ids=repr,
)
def test_each_coefficient_has_a_line(prior, given, raw):
    table = prior_summary(posterior_with(prior))
    assert list(table.index) == list(NAMES)
    assert list(table["prior"]) == given
    for found, expected in zip(table["in_data_units"], raw, strict=True):
        assert expected in found
    plain = prior_summary(posterior_with(prior, scale=None))
    assert list(plain["in_data_units"]) == given


def test_draws_that_do_not_tell_their_prior_are_refused():
    with pytest.raises(DataError, match="does not tell its prior"):
        prior_summary(make_posterior(0))
