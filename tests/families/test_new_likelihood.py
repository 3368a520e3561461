"""A likelihood registered from a file of its own gets modes, samplers, coresets and certificates, all of them right.

Against quadrature in two dimensions. A probit analysis of the same rows, which must be rejected, is the control: a link
that some file forgot would be another link's.
"""

import numpy as np
import pytensor
import pytest
from scipy import optimize

import bayescore as bc
from bayescore.families import register
from bayescore.families.family import FAMILIES
from bayescore.models.laplace import LaplaceApproximation
from bayescore.models.posterior import posterior
from bayescore.numerics.chains import ess, mcse_mean
from bayescore.numerics.moments import moments_mcse
from bayescore.types import WeightedData
from tests.families.cauchit import Cauchit

N = 2000
PRIOR = bc.priors.Normal(0, 4)


@pytest.fixture(autouse=True, scope="module")
def _cauchit():
    register(Cauchit())
    yield
    del FAMILIES["cauchit"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(N), rng.standard_t(3, N)])
    y = np.where(X @ [0.5, 1.5] + rng.standard_cauchy(N) > 0, 1, -1).astype(np.int8)
    return WeightedData(X, y, np.ones(N), np.arange(N))


def log_posterior(data, family, beta):
    """Return the log posterior density at points, shape (S, 2), by the NumPy formulas."""
    return (
        np.array([data.weights @ FAMILIES[family].log_p(data.X @ b, data.y) for b in beta]) - (beta**2).sum(axis=1) / 32
    )


def quadrature(data, family):
    """Return mode, means and sds of the posterior on a grid of 6 sds on each side, refined once."""
    mode = optimize.minimize(lambda b: -log_posterior(data, family, b[None])[0], np.zeros(2), method="BFGS").x
    centre, width = mode, np.full(2, 0.5)
    for _ in range(2):
        axes = [np.linspace(c - w, c + w, 81) for c, w in zip(centre, width, strict=True)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        log_p = log_posterior(data, family, grid)
        p = np.exp(log_p - log_p.max())
        p /= p.sum()
        centre = p @ grid
        sd = np.sqrt(p @ (grid - centre) ** 2)
        width = 6 * sd
    return mode, centre, sd


@pytest.fixture(scope="module")
def truth(data):
    return quadrature(data, "cauchit")


def test_the_rows_make_the_log_likelihood_bend_upwards(data, truth):
    assert (FAMILIES["cauchit"].curvature(data.X @ truth[0], data.y) < -0.05).sum() > 20


def test_rows_that_bend_upwards_are_drawn_by_their_absolute_curvature(data, truth):
    """A signed one would make negative probabilities, and totals that cancel."""
    family = FAMILIES["cauchit"]
    _, h = LaplaceApproximation(family, truth[0], np.eye(2)).row_scores(data)[:2]
    expected = np.abs(family.curvature(data.X @ truth[0], data.y)) * (data.X**2).sum(axis=1)
    np.testing.assert_allclose(h, expected, rtol=1e-9, atol=1e-15)


def test_find_map(data, truth):
    mode, _, sd = truth
    found = bc.find_map(data, "cauchit", PRIOR)
    np.testing.assert_allclose(found.beta, mode, atol=1e-4 * sd.min())
    np.testing.assert_allclose(found.sd, sd, rtol=0.05)
    assert np.abs(bc.find_map(data, "probit", PRIOR).beta - mode).max() > 3 * sd.min()


def check(draws, truth):
    """Means and sds within 5.5 standard errors: 4e-8 each."""
    _, mean, sd = truth
    assert min(ess(draws, "mean").min(), ess(draws, "sd").min()) > 1000
    assert (np.abs(draws.mean(axis=(0, 1)) - mean) < 5.5 * mcse_mean(draws)).all()
    assert (np.abs(draws.std(axis=(0, 1)) - sd) < 5.5 * moments_mcse(draws).sd).all()


@pytest.mark.essential("that a likelihood from outside is compiled for samplers")
@pytest.mark.statistical(rate=1e-6)
def test_samplers(data, truth):
    options = {"sampler": "mala", "random_seed": 1, "progressbar": False}
    check(bc.sample(data, "cauchit", PRIOR, **options).posterior["beta"].values, truth)
    with pytest.raises(AssertionError):
        check(bc.sample(data, "probit", PRIOR, **options).posterior["beta"].values, truth)


def test_pymcs_model_has_the_density(data):
    """Which NUTS draws from."""
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        model = bc.model(data, PRIOR, family="cauchit")
        log_p, slope = model.compile_logp(), model.compile_dlogp()
    target = posterior(data, "cauchit", PRIOR)
    for beta in np.random.default_rng(0).normal(size=(3, 2)):
        value, gradient = target.log_density(beta)
        assert float(log_p({"beta": beta})) == pytest.approx(value, rel=1e-10)
        np.testing.assert_allclose(slope({"beta": beta}), gradient, rtol=1e-8)
        assert value != pytest.approx(posterior(data, "probit", PRIOR).log_density(beta)[0], rel=1e-3)


def test_a_calibrated_coreset_and_its_certificate(data, truth):
    _, mean, sd = truth
    options = {"family": "cauchit", "random_state": 2, "progressbar": False}
    core = bc.build_coreset(data.X, data.y, size=100, **options)
    assert core.family == "cauchit"
    _, own_mean, own_sd = quadrature(core, "cauchit")
    assert (np.abs(own_mean - mean) < 0.15 * sd).all()
    np.testing.assert_allclose(own_sd, sd, rtol=0.1)
    idata = bc.sample(core, prior=PRIOR, sampler="mala", random_seed=1, progressbar=False)
    certificate = bc.certify(idata, core, data.X, data.y, progressbar=False)
    assert certificate.level == "certified"
    # 500 draws: 0.2 sd are four standard errors of a mean
    assert (np.abs(certificate.coordinates["corrected_mean"] - mean) < 0.2 * sd).all()
    np.testing.assert_allclose(certificate.coordinates["corrected_sd"], sd, rtol=0.15)
    flipped = np.where(np.arange(N) % 20 == 0, -data.y, data.y)
    assert bc.certify(idata, core, data.X, flipped, progressbar=False).level in ("corrected", "not certified")
