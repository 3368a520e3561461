"""Draws by matrix products: the density and its gradient, a skewed posterior, and independence of threads."""

import numpy as np
import pytest

from bayescore.coresets import predicted_error
from bayescore.coresets.predicted_error import _WhitenedDensity, batched_hmc
from bayescore.families.family import FAMILIES
from bayescore.models.laplace import factor_of_inverse, find_mode
from bayescore.models.posterior import posterior
from bayescore.priors import Normal, StudentT
from bayescore.types import WeightedData

PRIOR = Normal(0.0, 4.0)


def skewed(family="logistic", prior=PRIOR, n=40):
    """Return the posterior of rows of which four are positive, its mode and scale, and the rows."""
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    rows = WeightedData(X, np.where(np.arange(n) % 10 == 0, 1, -1).astype(np.int8), np.ones(n), np.arange(n))
    target = posterior(rows, FAMILIES[family], prior)
    mode = find_mode(target.terms, np.zeros(2))
    return target, mode.beta, factor_of_inverse(mode.terms.precision), rows


def drawn(size=4000, seed=0):
    target, mode, scale, _ = skewed()
    return batched_hmc(target, mode, scale, size, np.random.SeedSequence(seed))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("prior", [Normal(0.0, 4.0), StudentT(4.0, 0.0, 2.5)])
def test_the_density_and_its_gradient(family, prior):
    target, mode, scale, _ = skewed(family, prior)
    u = np.random.default_rng(1).normal(size=(5, 2))
    values, gradients = _WhitenedDensity(target, mode, scale).at(u)
    for point, value, gradient in zip(u, values, gradients, strict=True):
        expected, slope = target.log_density(mode + scale @ point)
        assert value == pytest.approx(expected, rel=1e-10)
        np.testing.assert_allclose(gradient, slope @ scale, rtol=1e-7, atol=1e-9)


@pytest.mark.statistical(rate=1e-6)
def test_draws_of_a_skewed_posterior():
    """Means and sds by a grid, to 6 standard errors of 4000 independent draws."""
    target, mode, scale, _ = skewed()
    u = np.linspace(-9.0, 9.0, 181)
    grid = np.stack(np.meshgrid(u, u), axis=-1).reshape(-1, 2)
    log_p = _WhitenedDensity(target, mode, scale).at(grid)[0]
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ grid
    sd = np.sqrt(p @ (grid - mean) ** 2)
    draws, values = drawn()
    found = np.linalg.solve(scale, (draws - mode).T).T
    np.testing.assert_allclose(found.mean(axis=0), mean, atol=0.095)
    np.testing.assert_allclose(found.std(axis=0), sd, rtol=0.12)
    assert np.abs(mean).max() > 0.2  # the normal approximation is off by more
    np.testing.assert_allclose(values[:3], [target.log_density(draw)[0] for draw in draws[:3]], rtol=1e-10)


def test_same_draws_for_every_number_of_threads(monkeypatch):
    several = drawn(300)[0]
    monkeypatch.setattr(predicted_error, "available_cores", lambda: 1)
    np.testing.assert_array_equal(several, drawn(300)[0])
    assert len(np.unique(several, axis=0)) == 300
