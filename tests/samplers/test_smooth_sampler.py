"""The sampler of smooth terms: its density by differences, and draws beside quadrature over sigma."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.compiled import StoredDensity
from bayescore.families.family import check_family
from bayescore.models.modes import smooth_mode
from bayescore.models.posterior import likelihood_terms, log_likelihoods, posterior
from bayescore.numerics.chains import ess
from bayescore.priors.groups import log_sigma_terms, prior_for
from bayescore.samplers import smooths
from bayescore.samplers.adaptive import compiled_density
from tests.samplers.frames import density_at

SD, FAR = 1.5, 5.5
QUIET = {"progressbar": False}


def made(curve, n=2000, *, seed=0):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"x": rng.uniform(0.0, 10.0, n), "z": rng.normal(size=n)})
    eta = {"wave": np.sin(rows["x"]), "line": 0.2 * rows["x"]}[curve] + 0.4 * rows["z"]
    return rows.assign(y=eta + SD * rng.normal(size=n), won=(eta + rng.logistic(size=n) > 0).astype(int))


def by_quadrature(core, prior):
    """Return mean and sd of the coefficients and of log sigma, of a normal likelihood whose sd is known."""
    A = core.X.T @ (core.weights[:, None] * core.X) / SD**2
    r = core.X.T @ (core.weights * -core.offset) / SD**2
    log_sigmas, log_p, means, variances = np.linspace(-16.0, 5.0, 2101), [], [], []
    for t in log_sigmas:
        given = prior.given(np.exp([t]))
        mu, sigma = np.array(given.mu), np.array(given.sigma)
        precision = A + np.diag(sigma**-2.0)
        mean = np.linalg.solve(precision, r + mu / sigma**2)
        bend = 0.5 * (r + mu / sigma**2) @ mean - 0.5 * np.linalg.slogdet(precision)[1]
        log_p.append(bend - np.log(sigma).sum() + log_sigma_terms(t, prior.bends[0].nu, prior.bends[0].scale)[0])
        means.append(np.append(mean, t))
        variances.append(np.append(np.diagonal(np.linalg.inv(precision)), 0.0))
    w = np.exp(np.array(log_p) - max(log_p))
    w /= w.sum()
    mean = w @ np.array(means)
    return mean, np.sqrt(w @ np.array(variances) + w @ (np.array(means) - mean) ** 2)


def drawn(core, **options):
    found = bc.sample(core, family=f"normal({SD})", draws=2000, **QUIET, **options).posterior
    return np.concatenate([found["beta"].values, np.log(found["sigma_s(x)"].values)[..., None]], axis=2)


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("curve", ["wave", "line"])
def test_draws_are_those_of_quadrature_over_sigma(curve):
    """Twelve means each at 5.5 standard errors of draws at their effective size: 5e-7."""
    core = bc.all_rows(made(curve), formula="y ~ s(x) + z", standardize=True, family=f"normal({SD})", **QUIET)
    prior = prior_for(None, core, check_family(f"normal({SD})"))
    mean, sd = by_quadrature(core, prior)
    draws = drawn(core, random_seed=1)
    size = ess(draws, "bulk")
    assert size.min() >= 400.0
    gap = np.abs(draws.mean(axis=(0, 1)) - mean) / sd
    assert (gap < FAR / np.sqrt(size)).all()
    np.testing.assert_allclose(draws.std(axis=(0, 1)) / sd, 1.0, atol=0.2)
    # draws are told apart from those under another prior of sigma
    other = mean.copy()
    other[-1] += 0.5 * sd[-1]
    assert not (np.abs(draws.mean(axis=(0, 1)) - other) / sd < FAR / np.sqrt(size)).all()


def test_the_density_in_its_coordinates_has_the_gradient_of_differences_and_its_jacobian():
    core = bc.all_rows(made("wave", 300), formula="won ~ s(x, k=6) + s(z, k=5)", standardize=True, **QUIET)
    family = check_family("logistic")
    prior = prior_for(None, core, family)
    target = posterior(core, family, prior)
    mode = smooth_mode(partial(likelihood_terms, data=core, family=family), prior)
    bends, center, factor = smooths._frame(StoredDensity.of(*compiled_density(target)), prior, mode)
    density, rng, gaps = StoredDensity.of(smooths._bent_density, bends), np.random.default_rng(0), []
    D, J = core.n_features, len(prior.bends)

    def value(theta):
        gradient = np.empty_like(theta)
        return density_at(density.function, density.data, theta, gradient), gradient

    def beta_of(theta):
        return smooths._coefficients(theta[None], D, bends)[0]

    for _ in range(4):
        theta = center + factor @ rng.normal(size=len(center))
        moves = 1e-5 * np.eye(len(theta))
        differences = [(value(theta + step)[0] - value(theta - step)[0]) / 2e-5 for step in moves]
        np.testing.assert_allclose(value(theta)[1], differences, rtol=1e-5, atol=1e-5)
        # log p(beta | sigma) + log p(log sigma), and the determinant of beta in u
        at, log_sds = beta_of(theta), theta[D:]
        whole = float(log_likelihoods(at[None], core, family)[0] + prior.given(np.exp(log_sds)).log_density(at))
        whole += sum(log_sigma_terms(t, each.nu, each.scale)[0] for t, each in zip(log_sds, prior.bends, strict=True))
        change = np.array([(beta_of(theta + step) - beta_of(theta - step)) / 2e-5 for step in moves[:D]])
        gaps.append(value(theta)[0] - whole - np.linalg.slogdet(change)[1])
    assert len(log_sds) == J
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-6)
