"""Coefficients with a prior of long tails that rows hardly tell: no certificate of draws that miss what is far out."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayescore as bc
from bayescore.diagnostics.certificate.provenance import missed_tails
from bayescore.diagnostics.results import Need
from bayescore.families.family import check_family
from bayescore.models.posterior import log_likelihoods
from bayescore.samplers.posterior import read_posterior


def shelf():
    """Rows that want a slope of about 30, a prior that wants one near 0: 1% of the mass has most of the variance."""
    rng = np.random.default_rng(0)
    x = 0.014 * rng.normal(size=(400, 1))
    y = 18.0 * x[:, 0] + rng.normal(size=400) > 0
    core = bc.all_rows(x, y, family="probit", intercept=False, progressbar=False)
    far = np.sinh(np.linspace(0.0, 7.0, 700))
    c = 0.3 * np.concatenate([-far[:0:-1], far])
    log_p = log_likelihoods(c[:, None], core, check_family("probit")) + stats.t.logpdf(c, 5, 0.0, 0.3)
    weights = np.exp(log_p - log_p.max()) * np.gradient(c)
    weights /= weights.sum()
    return core, float(np.sqrt(weights @ (c - weights @ c) ** 2)), float(weights[c > 5.0].sum())


def test_what_no_chain_visited_is_not_certified():
    core, sd, far = shelf()
    assert far < 0.03
    assert sd > 1.0
    refused = 0
    for seed in range(8):
        idata = bc.sample(core, prior=bc.priors.StudentT(5, 0.0, 0.3), random_seed=seed, progressbar=False)
        found = bc.certify(idata, core, core, progressbar=False)
        drawn = float(idata.posterior["beta"].values.std())
        if abs(np.log(drawn / sd)) > 0.25:
            refused += 1
            assert not found.trusted
            assert found.remedy.need in (Need.DRAWS, Need.CHAINS)
    assert refused  # else the test says nothing


def test_draws_of_one_mode_of_two_are_refused_by_the_quantile_that_is_off():
    rng = np.random.default_rng(0)
    x = 0.014 * rng.normal(size=(120, 1))
    core = bc.all_rows(x, 40.0 * x[:, 0] + rng.logistic(size=120) > 0, intercept=False, progressbar=False)
    prior = bc.priors.Cauchy(0.0, 0.6)
    read = read_posterior(bc.sample(core, prior=prior, random_seed=1, progressbar=False), "idata")
    family = check_family("logistic")
    assert missed_tails(read, read.flat, core, family, prior) is None
    text, remedy = missed_tails(read, read.flat[read.flat[:, 0] > 10.0], core, family, prior)
    assert "quantile" in text
    assert remedy.draws == 4000


@pytest.mark.parametrize("groups", ["", " + (1 | g)"])
def test_fit_takes_more_draws_where_a_separated_column_has_a_long_tail(groups):
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"x": rng.normal(size=300), "rare": (rng.random(300) < 0.015) * 1.0, "g": np.arange(300) % 6})
    rows["y"] = ((rows.x + rng.logistic(size=300) > 0) | (rows.rare > 0)).astype(int)
    prior = {"rare": bc.priors.StudentT(4, 0, 2.5), "*": bc.priors.Normal(0, 2.5)}
    fit = bc.fit(f"y ~ x + rare{groups}", rows, prior=prior, random_state=1, progressbar=False)
    assert fit.certificate.trusted
