import numpy as np
import pytest
from scipy import stats

from bayescore.models.posterior import prior_part
from bayescore.priors import Horseshoe, Laplace, MultivariateNormal, Normal, SpikeAndSlab
from bayescore.priors.laplace import LAPLACE_ROUNDING
from bayescore.priors.prior import check_density, check_prior

BETA = np.array([-2.3, 0.04, 0.7, 5.0])


def test_multivariate_normal():
    covariance = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, -0.5], [0.0, -0.5, 1.0]])
    mean, beta = np.array([0.5, 0.0, -1.0]), np.array([-2.3, 0.04, 0.7])
    prior = MultivariateNormal(mean, covariance)
    part = prior_part(beta, prior)
    assert part.value == pytest.approx(stats.multivariate_normal(mean, covariance).logpdf(beta), rel=1e-12)
    np.testing.assert_allclose(part.gradient, np.linalg.solve(covariance, mean - beta), rtol=1e-12)
    np.testing.assert_allclose(part.precision, np.linalg.inv(covariance), rtol=1e-12)
    assert prior == MultivariateNormal(list(mean), covariance.tolist())
    assert hash(prior) == hash(MultivariateNormal(mean, covariance))
    diagonal, same = prior_part(beta, MultivariateNormal(0, 4 * np.eye(3))), prior_part(beta, Normal(0, 2))
    assert diagonal.value == pytest.approx(same.value, rel=1e-12)


@pytest.mark.parametrize(
    ("covariance", "error", "message"),
    [
        (4.0, ValueError, r"covariance has shape \(\), not \(D, D\)"),
        ([[1.0, 0.0]], ValueError, r"covariance has shape \(1, 2\), not \(D, D\)"),
        ([[1.0, 0.5], [0.4, 1.0]], ValueError, "covariance is not symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], ValueError, "covariance is not positive definite"),
        ([[1.0, np.nan], [np.nan, 1.0]], ValueError, "covariance has NaN or infinite entries"),
        ([["a"]], TypeError, "must be a matrix of numbers"),
    ],
)
def test_bad_covariances_are_named(covariance, error, message):
    with pytest.raises(error, match=message):
        MultivariateNormal(0, covariance)


def test_laplace_is_rounded_only_at_its_kink():
    part = prior_part(BETA, Laplace(0.0, 1.5))
    assert part.value == pytest.approx(stats.laplace(0, 1.5).logpdf(BETA).sum(), abs=4 * LAPLACE_ROUNDING)
    np.testing.assert_allclose(part.gradient[[0, 2, 3]], -np.sign(BETA[[0, 2, 3]]) / 1.5, rtol=1e-3)
    assert prior_part(np.zeros(1), Laplace(0.0, 1.5)).gradient == 0.0


@pytest.mark.parametrize("sigma", [np.float64(0.5), np.float32(0.5), np.array(0.5)])
def test_numbers_of_numpy_are_printed_as_numbers(sigma):
    assert repr(Normal(0, sigma)) == "Normal(mu=0, sigma=0.5)"


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match="prior: sigma=0 must be positive"):
        Normal(0, 0)
    with pytest.raises(ValueError, match="prior: inclusion=1 must be below 1"):
        SpikeAndSlab(inclusion=1)
    with pytest.raises(ValueError, match="prior: mu=nan must be finite"):
        Normal(float("nan"), 1)
    with pytest.raises(TypeError, match="prior: sigma='wide' must be a number"):
        Normal(0, "wide")
    with pytest.raises(ValueError, match=r"shape \(2,\); give one number, or one for each of the 3 features"):
        Normal(0, [1, 2]).table(3)


def test_prior_kinds_are_checked():
    with pytest.raises(TypeError, match="is not a prior of bayescore; use one of Normal"):
        check_prior("normal")
    with pytest.raises(ValueError, match="sampler='mala' needs a prior with a density in closed form"):
        check_density(Horseshoe(), "sampler='mala'")


def test_vector_parameters_are_hashable_and_print():
    prior = Normal(0, np.array([1.0, 2.0]))
    assert prior == Normal(0, [1.0, 2.0])
    assert repr(prior) == "Normal(mu=0, sigma=(1.0, 2.0))"


def test_a_covariance_may_be_symmetric_up_to_rounding() -> None:
    covariance = np.array([[2.0, 0.5, 0.1], [0.5, 2.0, 1e-17], [0.1, 0.0, 2.0]])
    stored = np.array(MultivariateNormal(0.0, covariance).covariance)
    np.testing.assert_array_equal(stored, stored.T)


@pytest.mark.parametrize("name", ["tau", "slab"])
def test_the_horseshoe_has_one_scale_for_all(name):
    with pytest.raises(ValueError, match=rf"{name}=.* of the horseshoe must be one number for all"):
        Horseshoe(**{name: [1.0, 2.0]})
