"""Marginal densities of coefficients whose priors have long tails, against quadrature."""

import numpy as np
import pytest
from scipy import stats

import bayescore as bc
from bayescore.diagnostics.certificate.provenance import marginal_density, weakly_informed
from bayescore.families.family import check_family
from bayescore.models.posterior import log_likelihoods

MADE = {
    "logistic": lambda eta, rng: eta + rng.logistic(size=len(eta)) > 0,
    "probit": lambda eta, rng: eta + rng.normal(size=len(eta)) > 0,
    "poisson": lambda eta, rng: rng.poisson(np.exp(eta)),
}


def rows_of(family, columns, slope, seed=0):
    rng = np.random.default_rng(seed)
    x = 0.014 * rng.normal(size=(120, columns))
    return bc.all_rows(x, MADE[family](slope * x[:, 0], rng), family=family, intercept=False, progressbar=False)


def grid(scale):
    far = np.sinh(np.linspace(0.0, 9.0, 900))
    return scale * np.concatenate([-far[:0:-1], far])


@pytest.mark.parametrize("family", MADE)
@pytest.mark.parametrize("prior", [bc.priors.StudentT(5, 0.0, 1.0), bc.priors.StudentT(3, -2.0, 0.5)], ids=["t5", "t3"])
@pytest.mark.parametrize("slope", [0.0, 60.0])
def test_a_marginal_density_of_one_coefficient_is_the_density(family, prior, slope):
    core = rows_of(family, 1, slope)
    assert weakly_informed(core, check_family(family), prior).tolist() == [0]
    c = prior.mu + grid(prior.sigma)
    log_p = log_likelihoods(c[:, None], core, check_family(family)) + stats.t.logpdf(c, prior.nu, prior.mu, prior.sigma)
    weights = np.exp(log_p - log_p.max()) * np.gradient(c)
    weights /= weights.sum()
    mean = weights @ c
    found = marginal_density(core, check_family(family), prior, 0)
    assert found.sd == pytest.approx(np.sqrt(weights @ (c - mean) ** 2), rel=0.01)
    assert found.mean == pytest.approx(mean, abs=0.01 * found.sd)


def test_a_marginal_density_beside_another_coefficient_has_its_second_mode():
    core, family = rows_of("logistic", 2, 40.0), check_family("logistic")
    prior = bc.priors.Cauchy(0.0, 0.6)
    c, other = grid(0.6)[::4], grid(0.6)[::4]
    log_p = np.stack([log_likelihoods(np.column_stack([np.full_like(other, each), other]), core, family) for each in c])
    log_p += stats.cauchy.logpdf(c, 0.0, 0.6)[:, None] + stats.cauchy.logpdf(other, 0.0, 0.6)
    mass = (np.exp(log_p - log_p.max()) * np.gradient(other)).sum(axis=1) * np.gradient(c)
    far = mass[c > 15.0].sum() / mass.sum()
    assert 0.2 < far < 0.8  # two modes
    assert 1.0 - marginal_density(core, family, prior, 0).below(15.0) == pytest.approx(far, abs=0.02)


def test_coefficients_that_rows_tell_are_not_scanned():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=2000), rng.random(2000) < 0.002])
    core = bc.all_rows(x, x[:, 0] + rng.logistic(size=2000) > 0, progressbar=False)
    for prior, places in ((bc.priors.Cauchy(0.0, 2.5), [1]), (bc.priors.Normal(0.0, 2.5), [])):
        assert weakly_informed(core, check_family("logistic"), prior).tolist() == places
