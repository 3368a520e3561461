"""The PyMC model of rows with groups: its density is the model's, and NUTS' draws are those of `sample`."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.numerics.chains import ess, mcse_mean
from bayescore.validation import DataError
from tests.models.grouped_rows import grouped


@pytest.fixture(scope="module")
def core():
    rows, _ = grouped(2000, 30)
    frame = pd.DataFrame(rows.X[:, 1:], columns=["a", "b"]).assign(county=rows.group[:, 0], y=rows.y)
    told = {"label": "y", "groups": "county", "intercept": True, "random_state": 0, "progressbar": False}
    return bc.build_coreset(frame, method="multilevel", **told)


@pytest.mark.essential("the density that PyMC has of groups")
@pytest.mark.parametrize("group_prior", [bc.priors.HalfStudentT(3.0, 2.5), bc.priors.HalfNormal(0.8)])
def test_the_density_is_the_models(core, group_prior):
    """Log densities at two points differ by as much as those of (beta, sigma, u) written down."""
    model = bc.model(core, prior=bc.priors.Normal(0.0, 2.0), group_prior=group_prior)
    effects = model.compile_fn(model.replace_rvs_by_values([model["u_county"]])[0], inputs=model.value_vars)
    rng, gaps = np.random.default_rng(0), []
    for _ in range(2):
        point = {
            "beta": rng.normal(size=3),
            "sigma_county_log__": rng.normal() * 0.3,
            "u_county_standardised": rng.normal(size=30),
        }
        sigma, u = np.exp(point["sigma_county_log__"]), effects(point)
        slope = effects({**point, "u_county_standardised": point["u_county_standardised"] + 1.0}) - u  # du / dz
        eta = core.X @ point["beta"] + core.offset + core.X[:, 0] * np.append(u, 0.0)[core.group[:, 0]]
        own = core.weights @ check_family("logistic").log_p(eta, core.y)
        own += stats.norm.logpdf(point["beta"], 0.0, 2.0).sum() + stats.norm.logpdf(u, 0.0, sigma).sum()
        half = stats.t(3.0, scale=2.5) if isinstance(group_prior, bc.priors.HalfStudentT) else stats.norm(scale=0.8)
        own += half.logpdf(sigma) + point["sigma_county_log__"] + np.log(slope).sum()
        gaps.append(float(model.compile_logp()(point)) - own)
    assert gaps[0] == pytest.approx(gaps[1], abs=1e-6)


@pytest.mark.statistical(rate=5e-6)
def test_nuts_draws_what_sample_draws(core):
    """33 means within 5.5 standard errors: 4e-8 each; no ridge: half the draws are effective."""
    nuts = bc.sample(core, sampler="nuts", draws=500, tune=500, chains=2, random_seed=1, progressbar=False)
    assert nuts.posterior.attrs["group_terms"] == "(1 | county)"
    own = bc.sample(core, random_seed=2, progressbar=False)
    for name in ("beta", "u_county"):
        a, b = nuts.posterior[name].values, own.posterior[name].values
        assert ess(a, "bulk").min() > 500
        gap = (a.mean(axis=(0, 1)) - b.mean(axis=(0, 1))) / np.hypot(mcse_mean(a), mcse_mean(b))
        assert np.abs(gap).max() < 5.5
    assert list(nuts.posterior["county"].values) == list(core.groups[0].levels)


def test_arguments_that_do_not_fit_the_data_are_refused(core):
    rows, _ = grouped(200, 5)
    flat = bc.all_rows(rows.X, rows.y, progressbar=False)
    with pytest.raises(DataError, match="group_prior is given, and the data have no groups"):
        bc.model(flat, group_prior=bc.priors.HalfNormal(1))
    with pytest.raises(DataError, match="Horseshoe is not for models with groups"):
        bc.model(core, prior=bc.priors.Horseshoe())
