"""The prior of bends: its density against quadrature, derivatives by differences, JSON."""

import itertools
import json
from functools import partial

import numpy as np
import pytest
from scipy import integrate, stats

import bayescore as bc
from bayescore.priors.by_name import prior_from_dict
from bayescore.priors.prior import Prior
from bayescore.priors.smooths import Bends, Smooths

BENDS = Bends("s(x)", (1, 2, 3, 5), (1.0, 2.0, 0.5, 1.5), 3.0, 2.5)
TWO = Bends("s(z)", (6, 7), (1.0, 1.0), np.inf, 1.0)
PRIOR = Smooths(bc.priors.Normal((0.0, 1.0), (2.5, 0.5)), (0, 4), (BENDS, TWO))


def log_integral(bends, beta):
    """Return the log density of bends by quadrature over log sigma."""
    b = bends.raw(beta)

    def density(t):
        sigma = np.exp(t)
        half = stats.norm.logpdf if np.isinf(bends.nu) else partial(stats.t.logpdf, df=bends.nu)
        sd = half(sigma / bends.scale) + np.log(2.0 / bends.scale)
        return np.exp(stats.norm.logpdf(b, 0.0, sigma).sum() + sd + t)

    middle = np.log(np.linalg.norm(b) / np.sqrt(len(b)))
    ends = middle + np.array([-6.0, -1.0, 0.0, 1.0, 4.0, 12.0, 40.0])
    total = sum(integrate.quad(density, *pair, epsabs=0.0)[0] for pair in itertools.pairwise(ends))
    return np.log(total) - np.log(bends.scales).sum()


@pytest.mark.parametrize("size", [1e-4, 0.3, 2.0, 30.0])
@pytest.mark.parametrize("bends", [BENDS, TWO])
def test_density_is_the_integral_over_sigma(bends, size):
    beta = size * np.random.default_rng(0).normal(size=8)
    assert bends.log_density(beta) == pytest.approx(log_integral(bends, beta), abs=2e-5)


def test_gradient_and_curvature_are_those_of_the_density():
    beta, step = np.random.default_rng(1).normal(size=PRIOR.n_features), 1e-5
    moves = step * np.eye(len(beta))
    gradient = [(PRIOR.log_density(beta + e) - PRIOR.log_density(beta - e)) / (2.0 * step) for e in moves]
    np.testing.assert_allclose(PRIOR.gradient(beta), gradient, rtol=1e-6, atol=1e-7)
    hessian = [(PRIOR.gradient(beta + e) - PRIOR.gradient(beta - e)) / (2.0 * step) for e in moves]
    np.testing.assert_allclose(PRIOR.precision(beta), -np.array(hessian), rtol=1e-6, atol=1e-6)


def test_density_is_of_many_draws_at_once():
    draws = np.random.default_rng(2).normal(size=(3, 5, PRIOR.n_features))
    one_by_one = [[PRIOR.log_density(beta) for beta in chain] for chain in draws]
    np.testing.assert_allclose(PRIOR.log_density(draws), one_by_one, rtol=1e-12)
    np.testing.assert_allclose(PRIOR.gradient(draws)[1, 2], PRIOR.gradient(draws[1, 2]), rtol=1e-12)


def test_given_sigma_it_is_normal_with_that_sd():
    given = PRIOR.given(np.array([0.3, 2.0]))
    assert isinstance(given, bc.priors.Normal)
    np.testing.assert_allclose(given.sigma, [2.5, 0.3, 0.6, 0.15, 0.5, 0.45, 2.0, 2.0])
    assert given.mu[4] == 1.0


def test_it_is_read_back_from_json():
    stored = json.loads(json.dumps(PRIOR.to_dict()))
    assert prior_from_dict(stored) == PRIOR
    assert isinstance(PRIOR, Prior)
    assert "sigma_s(z) ~ HalfNormal(sigma=1)" in str(PRIOR)


@pytest.mark.parametrize("bends", [BENDS, TWO])
def test_sds_of_moved_coefficients_have_their_quantile_given_these(bends):
    """Quantiles by quadrature of the density of sigma given the coefficients, before and after the move."""
    rng = np.random.default_rng(3)
    before, sds = rng.normal(size=(2, 3, 8)), np.exp(rng.normal(size=(2, 3)))
    after = before * rng.uniform(0.2, 3.0, (2, 3, 1))

    def quantile(sigma, beta):
        b, half = bends.raw(beta), stats.norm.pdf if np.isinf(bends.nu) else partial(stats.t.pdf, df=bends.nu)

        def density(t):
            return np.exp(stats.norm.logpdf(b, 0.0, np.exp(t)).sum() + t) * half(np.exp(t) / bends.scale)

        at = np.log(np.linalg.norm(b)) + np.array([-4.0, -1.0, 0.0, 1.0, 4.0, 14.0])
        total = sum(integrate.quad(density, *pair)[0] for pair in itertools.pairwise(at))
        ends = [*at[at < np.log(sigma)], np.log(sigma)]
        return sum(integrate.quad(density, *pair)[0] for pair in itertools.pairwise(ends)) / total

    moved = bends.moved_sds(sds, before, after)
    for place in np.ndindex(2, 3):
        assert quantile(moved[place], after[place]) == pytest.approx(quantile(sds[place], before[place]), abs=1e-3)
    np.testing.assert_allclose(bends.moved_sds(sds, before, before), sds, rtol=1e-9)
