import numpy as np
import pytest
from scipy import optimize

from bayescore.models.laplace import find_mode
from bayescore.models.modes import find_map
from bayescore.models.posterior import Derivatives, likelihood_terms, posterior
from bayescore.priors import Cauchy, Horseshoe, Laplace, MultivariateNormal, Normal, SpikeAndSlab, StudentT
from bayescore.types import WeightedData
from tests.conftest import make_rows

LINKS = ["logistic", "probit"]
CORRELATED = MultivariateNormal((0.5, 0, -1), [[2, 0.5, 0], [0.5, 1, -0.3], [0, -0.3, 3]])
PRIORS = [Normal(0, 4), CORRELATED, StudentT(4), Cauchy(0, 2.5), SpikeAndSlab(), Laplace(0, 1)]


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
@pytest.mark.parametrize("family", LINKS)
def test_kernel_equals_terms_and_finite_differences(rows, family, prior):
    target = posterior(rows, family, prior)
    beta = np.array([0.4, -1.1, 0.8])
    value, gradient = target.log_density(beta)
    terms = target.terms(beta)
    tolerance = 1e-3 if isinstance(prior, Laplace) else 1e-11  # the mode's Laplace has its kink rounded off
    assert value == pytest.approx(terms.value, rel=tolerance, abs=0.03 if isinstance(prior, Laplace) else 0)
    np.testing.assert_allclose(gradient, terms.gradient, rtol=tolerance)
    h = 1e-5
    for d in range(3):
        up, down = beta + h * np.eye(3)[d], beta - h * np.eye(3)[d]
        slope = (target.log_density(up)[0] - target.log_density(down)[0]) / (2 * h)
        assert gradient[d] == pytest.approx(slope, rel=1e-6, abs=1e-6)
        bend = -(target.terms(up).gradient - target.terms(down).gradient) / (2 * h)
        np.testing.assert_allclose(terms.precision[d], bend, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", LINKS)
def test_terms_of_blocks_add_up(rows, family):
    target = posterior(rows, family, Normal(0, 4))
    beta = np.array([0.4, -1.1, 0.8])
    whole = likelihood_terms(beta, target.rows, target.family)
    parts = [likelihood_terms(beta, target.rows.take(cut), target.family) for cut in (slice(0, 7), slice(7, 60))]
    total = parts[0] + parts[1]
    assert total.value == pytest.approx(whole.value, rel=1e-12)
    np.testing.assert_allclose(total.gradient, whole.gradient, rtol=1e-10)
    np.testing.assert_allclose(total.precision, whole.precision, rtol=1e-10)


@pytest.mark.parametrize("family", LINKS)
def test_integer_weight_equals_copies(family):
    rows = make_rows(weights=False)
    counts = np.arange(60) % 4 + 1
    weighted = rows.with_weights(counts.astype(float))
    copies = rows.take(np.repeat(np.arange(60), counts))
    beta = np.array([0.3, 0.2, -0.5])
    a, b = (posterior(data, family, Normal(0, 4)).log_density(beta) for data in (weighted, copies))
    assert a[0] == pytest.approx(b[0], rel=1e-12)
    np.testing.assert_allclose(a[1], b[1], rtol=1e-10)
    np.testing.assert_allclose(find_map(weighted, family).beta, find_map(copies, family).beta, rtol=1e-7)
    np.testing.assert_allclose(find_map(weighted, family).covariance, find_map(copies, family).covariance, rtol=1e-7)


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
@pytest.mark.parametrize("family", LINKS)
def test_map_is_the_mode(rows, family, prior):
    mode = find_map(rows, family, prior)
    target = posterior(rows, family, prior)
    best = optimize.minimize(
        lambda b: -target.terms(b).value, mode.beta + 0.3, jac=lambda b: -target.terms(b).gradient, tol=1e-12
    )
    assert mode.terms.value >= -best.fun - 1e-7
    assert mode.decrement < 1e-6
    np.testing.assert_allclose(mode.covariance @ target.terms(mode.beta).precision, np.eye(3), atol=1e-8)


@pytest.mark.parametrize("prior", [Normal(0, 4), Cauchy(0, 2.5)], ids=repr)
@pytest.mark.parametrize("family", LINKS)
def test_map_is_finite_on_separable_data(family, prior):
    X = np.column_stack([np.ones(40), np.linspace(-1, 1, 40)])
    data = WeightedData(X, np.where(X[:, 1] > 0, 1, -1).astype(np.int8), np.full(40, 1000.0), np.arange(40))
    mode = find_map(data, family, prior)
    assert np.isfinite(mode.beta).all()
    assert np.isfinite(mode.sd).all()
    assert mode.beta[1] > 5


def test_map_on_wild_scales_and_rank_deficient_rows():
    rows = make_rows(200, 4, seed=3)
    X = rows.X * np.array([1.0, 1e4, 1e-3, 1.0])
    X = np.column_stack([X, X[:, 0]])
    mode = find_map(WeightedData(X, rows.y, rows.weights * 1e4, rows.index), "logistic")
    assert mode.decrement < 1e-6
    assert mode.beta[0] == pytest.approx(mode.beta[4], rel=1e-6)  # twin columns share their coefficient


@pytest.mark.parametrize("seed", [57, 389])
def test_map_where_curvature_dies_away_on_the_way(seed):
    """Rare columns, one row short of separated, probit: steps need damping far below the curvature at the start."""
    rng, rare = np.random.default_rng(seed), np.geomspace(0.5, 0.02, 6)
    X = np.column_stack([np.ones(150), (rng.random((150, 6)) < rare) * 10.0 / np.sqrt(rare)])
    eta = X @ rng.normal(0.0, 3.0, 7)
    y = np.where(eta > np.median(eta), 1, -1)
    y[0] *= -1
    mode = find_map(WeightedData(X, y, np.full(150, 250.0), np.arange(150)), "probit", Normal(0, 100))
    assert mode.decrement < 1e-5
    assert mode.n_steps < 100


def test_mode_not_found_says_what_to_do():
    with pytest.raises(RuntimeError, match=r"no mode found in 20 Newton steps .*standardise the features"):
        find_mode(lambda b: Derivatives(float(b.sum()), np.ones(1), np.full((1, 1), 1e-9)), np.zeros(1), max_steps=20)


def test_density_needs_a_closed_form_and_a_likelihood(rows):
    with pytest.raises(ValueError, match="the MAP estimate needs a prior with a density in closed form"):
        find_map(rows, "logistic", Horseshoe())
    with pytest.raises(ValueError, match="family is missing"):
        find_map(rows)
