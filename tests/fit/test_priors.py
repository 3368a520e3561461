"""Priors of a fit: rstanarm's scales by default, and others in units of the data."""

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.data.design import Design
from bayescore.fitting.scaling import design_prior

DESIGN = Design(("age", "tall"), intercept=True, center=(40.0, 0.5), scale=(10.0, 0.5))


def test_the_default_is_2_5_over_the_sd_of_each_column():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(40, 10, 2000), rng.integers(0, 2, 2000)])
    fit = bc.fit(X, rng.random(2000) < 0.5, random_state=1, progressbar=False)
    told = fit.prior_summary()["in_data_units"].to_dict()
    sd = X.std(axis=0)
    assert told == {
        "Intercept": "Normal(mu=0, sigma=2.5), at the columns' means",
        "x0": f"Normal(mu=0, sigma={2.5 / sd[0]:.4g})",
        "x1": f"Normal(mu=0, sigma={2.5 / sd[1]:.4g})",
    }
    assert "2.5 / sd" in repr(fit)


def test_a_prior_is_in_units_of_the_data():
    prior = design_prior(bc.priors.Normal(0.1, 0.2), DESIGN)
    assert prior == bc.priors.Normal((0.1, 1.0, 0.05), (0.2, 2.0, 0.1))
    student = design_prior(bc.priors.StudentT(3, 0, 1), DESIGN)
    assert student == bc.priors.StudentT(3.0, 0.0, (1.0, 10.0, 0.5))


def test_coefficients_without_a_prior_of_their_own_have_the_default():
    prior = design_prior({"age": bc.priors.Laplace(0, 1)}, DESIGN)
    assert prior.of_coefficient(1, "age", 3) == bc.priors.Laplace(0.0, 10.0)
    assert prior.of_coefficient(2, "tall", 3) == bc.priors.Normal(0.0, 2.5)
    every = design_prior({"age": bc.priors.Laplace(0, 1), "*": bc.priors.Normal(0, 1)}, DESIGN)
    assert every.of_coefficient(2, "tall", 3) == bc.priors.Normal(0.0, 0.5)


def test_columns_that_are_not_standardised_have_their_sds():
    assert design_prior(None, Design(("a", "b")), np.array([5.0, 0.0])) == bc.priors.Normal(0.0, (0.5, 2.5))


@pytest.mark.parametrize("options", [{"intercept": False}, {}])
def test_the_default_prior_of_a_column_does_not_depend_on_the_intercept(options):
    rng = np.random.default_rng(0)
    X = rng.normal(0, 10, (1500, 1))
    fit = bc.fit(X, rng.random(1500) < 0.5, random_state=1, progressbar=False, **options)
    assert fit.prior_summary()["in_data_units"]["x0"] == f"Normal(mu=0, sigma={2.5 / X.std():.4g})"


@pytest.mark.parametrize("formula", ["y ~ age + device", None])
def test_a_name_that_is_no_coefficient_is_refused_before_the_build(formula, monkeypatch):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.normal(size=500), "device": rng.choice(["phone", "tablet"], 500)})
    rows["y"] = rng.random(500) < 0.5
    monkeypatch.setattr("bayescore.fitting.given.build_coreset", None)  # not called
    first = (formula, rows) if formula else (rows,)
    roles = {} if formula else {"label": "y"}
    with pytest.raises(ValueError, match=r"'agee'.*Intercept.*age.*device"):
        bc.fit(*first, prior={"agee": bc.priors.Normal(0, 1)}, progressbar=False, **roles)
