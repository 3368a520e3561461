"""Polya-Gamma Gibbs sampling.

Rates: see `exactness.check` and `exactness.P_VALUE`; 4e-8 for each of the 5.5 standard errors allowed to moments.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special, stats

import bayescore as bc
from bayescore.models.posterior import posterior, prior_part
from bayescore.priors import MultivariateNormal, Normal
from bayescore.samplers import polya_gamma
from bayescore.samplers.method import run_chains
from benchmarks.accuracy.reference_posteriors.data import WEIGHTED
from tests.conftest import make_rows
from tests.samplers.exactness import P_VALUE, check, known, rank_p_values
from tests.samplers.problems import problem

ETA = (0.0, 0.09, 0.11, -1.5, 6.0, 25.0)
COUNTS = {"unit": np.ones(30, dtype=int), "integer": np.arange(30) % 5 * 4 + 1}


def chains(data, prior, sampler=polya_gamma, *, draws=3000, thin=2, seed=0, cores=2, chunk=256):
    target = posterior(data, "logistic", prior)
    arguments = sampler.prepare(target.rows.Z, target.rows.weights, prior_part(np.zeros(data.n_features), prior))
    return run_chains(
        sampler.advance,
        arguments,
        np.tile(bc.find_map(data, "logistic", prior).beta, (4, 1)),
        None,
        draws=draws,
        tune=50,
        thin=thin,
        cores=cores,
        seeds=np.random.SeedSequence(seed).spawn(4),
        progressbar=False,
        chunk=chunk,
    )


def z_scores(omega, w, eta):
    """Return by how many standard errors mean, variance and Laplace transform of draws of PG(w, eta) are off.

    The sampler needs E exp(-s omega) at s = (eta'^2 - eta^2) / 2; eta' is one larger here, less for large weights.
    """
    mean, variance = (w * moment for moment in polya_gamma.moments(eta))
    s = min(abs(eta) + 0.5, 1.0 / np.sqrt(variance))
    figures = [omega - mean, (omega - mean) ** 2 - variance]
    log_laplace = w * (np.log(np.cosh(0.5 * eta)) - np.log(np.cosh(np.sqrt(0.25 * eta * eta + 0.5 * s))))
    figures.append(np.exp(s * (mean - omega)) - np.exp(s * mean + log_laplace))
    return [figure.mean() / figure.std() * np.sqrt(len(omega)) for figure in figures]


def test_moments():
    for eta in (1e-3, 0.098, 0.102, 2.0, 30.0):
        mean, variance = polya_gamma.moments(eta)
        assert mean == pytest.approx(np.tanh(eta / 2) / (2 * eta), rel=1e-9)
        h = 1e-3 * max(eta, 0.1)  # the variance is minus the derivative of the mean by eta^2 / 2
        slope = (polya_gamma.moments(eta + h)[0] - polya_gamma.moments(abs(eta - h))[0]) / (2 * h * eta)
        assert variance == pytest.approx(-slope, rel=1e-4)


@pytest.mark.statistical(rate=2e-6)
@pytest.mark.parametrize("w", [0.05, 0.6, 0.999, 1.0, 2.7, 4.0, 5000.3])
def test_omega(w):
    n = 100_000
    counts = (n if w in (1.0, 4.0) else 0, n if w < 1.0 else 0)
    for eta in ETA:
        rng = np.random.default_rng(4)
        omega = polya_gamma.draw_omega(rng, np.full(n, w), np.full(n, eta), counts)
        assert np.abs(z_scores(omega, w, eta)).max() < 5.5, eta


@pytest.mark.statistical(rate=1e-6)
def test_omega_one_percent_too_large_fails_the_same_test():
    """Negative control: the mean is then off by 13 standard errors, as with the bias of the package's own default."""
    omega = polya_gamma.draw_omega(np.random.default_rng(4), np.full(400_000, 2.7), np.full(400_000, 0.11), (0, 0))
    assert np.abs(z_scores(1.01 * omega, 2.7, 0.11)).max() > 5.5


def distribution(x, w, eta):
    """Return P(omega <= x): 1 / cosh^w as a binomial series, each term of which is that of a first passage time."""
    n, root = np.arange(80)[:, None], np.sqrt(x)
    level = n + 0.5 * w
    log_size = special.gammaln(n + w) - special.gammaln(w) - special.gammaln(n + 1) - n * eta
    later = np.exp(2.0 * level * eta + special.log_ndtr(-(eta * x + level) / root))
    passed = special.ndtr((eta * x - level) / root) + later
    return (1.0 + np.exp(-eta)) ** w * ((-1.0) ** n * np.exp(log_size) * passed).sum(axis=0)


SHAPES = (1e-3, 0.02, 0.3, 0.999, 2.0)


def distance(omega, w, eta):
    """Return the p value of draws of PG(w, eta) by Kolmogorov and Smirnov's test."""
    return stats.kstest(omega, lambda x: distribution(x, w, eta)).pvalue


@pytest.mark.statistical(rate=4e-6)
@pytest.mark.parametrize("w", [pytest.param(w, marks=pytest.mark.slow) if w != 0.02 else w for w in SHAPES])
def test_omega_has_its_distribution_and_the_series_does_not_where_shapes_are_small(w):
    """Rate: four p values at 1e-6. Control: gamma variables alone are off by 0.8 at w = 1e-3, by 0.2 at w = 0.02."""
    n = 100_000
    for eta in (0.0, 1.0, 5.0, 20.0):
        at = np.full(n, w), np.full(n, eta)
        counts = (0, n if w < polya_gamma._SMALL else 0)
        assert distance(polya_gamma.draw_omega(np.random.default_rng(6), *at, counts), w, eta) > 1e-6, eta
        if w < 0.1:
            assert distance(polya_gamma.draw_omega(np.random.default_rng(6), *at, (0, 0)), w, eta) < 1e-6, eta


@pytest.mark.slow
def test_the_exact_distribution_has_the_exact_mean():
    x = np.linspace(1e-6, 12.0, 200_001)
    for w, eta in ((0.3, 0.0), (2.0, 1.0)):
        assert np.trapezoid(1.0 - distribution(x, w, eta), x) == pytest.approx(
            w * polya_gamma.moments(eta)[0], rel=1e-4
        )


def test_rows_are_sorted_by_how_they_are_drawn():
    weights = np.array([7.5, 0.2, 3.0, 1.5, 1e-200, 1.0])
    _, counts, sorted_weights, *_ = polya_gamma.prepare(np.ones((6, 2)), weights, prior_part(np.zeros(2), Normal()))
    assert counts == (2, 2)
    assert sorted_weights.tolist() == [3.0, 1.0, 0.2, 1e-200, 7.5, 1.5]
    omega = polya_gamma.draw_omega(np.random.default_rng(0), sorted_weights, np.zeros(6), counts)
    assert np.isfinite(omega).all()
    assert (omega >= 0).all()


def test_omega_is_finite_far_out():
    rng = np.random.default_rng(0)
    eta = np.array([-1e4, 1e4, -800.0, 1e4, 0.0, 1e-9])
    omega = polya_gamma.draw_omega(rng, np.array([1.0, 3.0, 0.05, 0.3, 5000.0, 1e7]), eta, (2, 2))
    assert np.isfinite(omega).all()
    assert (omega > 0).all()


def test_log_density_threads_and_chunks():
    rows, prior = make_rows(), MultivariateNormal([0.5, 0, 0], [[2, 0.5, 0], [0.5, 1, -0.3], [0, -0.3, 3]])
    data = rows.with_weights(np.where(np.arange(60) % 3 == 0, 2.0, rows.weights))
    one, three = (chains(data, prior, draws=100, cores=cores, chunk=chunk) for cores, chunk in ((1, 256), (3, 7)))
    np.testing.assert_array_equal(one.theta, three.theta)
    value, _ = posterior(data, "logistic", prior).log_density(one.theta[1, 7])
    assert one.log_density[1, 7] == pytest.approx(value, rel=1e-10)


# weights as precisions, p(sqrt(w) eta) for p(eta)^w
SQRT = SimpleNamespace(
    prepare=lambda Z, w, prior: polya_gamma.prepare(Z * np.sqrt(w)[:, None], np.ones(len(w)), prior),
    advance=polya_gamma.advance,
)


@pytest.mark.statistical(rate=2e-6)
@pytest.mark.slow
@pytest.mark.parametrize("name", WEIGHTED)
def test_against_nuts(name):
    positive = WEIGHTED[name]
    data, prior, figures = problem("logistic", positive), Normal(0, 4), known(name, "logistic")
    check(chains(data, prior, thin=8 if positive < 0.5 else 1).theta, *figures)
    with pytest.raises(AssertionError, match=r"mean|sd"):
        check(chains(data, prior, SQRT).theta, *figures)


@pytest.mark.statistical(rate=3e-6)
@pytest.mark.slow
@pytest.mark.parametrize("weights", COUNTS)
def test_ranks_are_uniform(weights):
    assert rank_p_values(polya_gamma, "logistic", COUNTS[weights]).min() > P_VALUE


@pytest.mark.statistical(rate=1e-6)
def test_a_wrong_kernel_has_other_ranks():
    assert rank_p_values(SQRT, "logistic", COUNTS["integer"], n_sims=300).min() < P_VALUE
