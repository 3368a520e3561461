"""Albert and Chib's sampler: latents, the Metropolis-Hastings step, exactness.

Rates: 1e-7 for each mean and sd, see `exactness.check`; 1e-6 for each rank histogram and Kolmogorov-Smirnov test.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special, stats
from sklearn.datasets import load_iris

import bayescore as bc
from bayescore.compiled import jit
from bayescore.models.posterior import posterior, prior_part
from bayescore.numerics import elementary
from bayescore.priors import MultivariateNormal, Normal
from bayescore.samplers import gibbs, method
from bayescore.samplers.mala import noise_of
from bayescore.samplers.method import run_chains
from benchmarks.accuracy.reference_posteriors.data import WEIGHTED
from tests.conftest import make_rows
from tests.samplers.exactness import P_VALUE, check, known, rank_p_values, weighted
from tests.samplers.problems import problem

FAR = np.array([-1e4, -300.0, -37.5, -5.0, -1.0, 0.0, 0.7, 3.0, 8.5, 40.0, 1e3, 1e4])
COUNTS = {"unit": np.ones(30, dtype=int), "integer": np.arange(30) % 5 * 4 + 1}


def arguments_of(data, prior):
    target = posterior(data, "probit", prior)
    return gibbs.prepare(target.rows.Z, target.rows.weights, prior_part(np.zeros(data.n_features), prior))


def chains(data, prior, sampler=gibbs, *, draws=3000, thin=10, seed=0, cores=2):
    start = bc.find_map(data, "probit", prior).beta
    target = posterior(data, "probit", prior)
    arguments = sampler.prepare(target.rows.Z, target.rows.weights, prior_part(np.zeros(data.n_features), prior))
    return run_chains(
        sampler.advance,
        arguments,
        np.tile(start, (4, 1)),
        None,
        draws=draws,
        tune=100,
        thin=thin,
        cores=cores,
        seeds=np.random.SeedSequence(seed).spawn(4),
        progressbar=False,
    )


def test_normal_quantile():
    log_p = -np.geomspace(1e-300, 1e8, 5000)
    expected = special.ndtri_exp(log_p)
    np.testing.assert_allclose(gibbs.normal_quantile(log_p), expected, rtol=2e-10, atol=2e-10)


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("eta", FAR)
def test_latents_are_truncated_normal(eta):
    n = 20_000
    at = np.full(n, eta)
    t = gibbs.latents(at, special.log_ndtr(at), np.random.default_rng(3).standard_exponential(n))
    assert np.isfinite(t).all()
    u = np.exp(special.log_ndtr(eta - t) - special.log_ndtr(eta)) if eta < 8 else special.ndtr(t - eta)
    assert stats.kstest(u, "uniform").pvalue > 1e-6


def test_step_satisfies_detailed_balance():
    """pi(u) q(u -> u') min(1, r) is symmetric given the latents, with pi and q written out from the definition."""
    rows = make_rows()
    data = rows.with_weights(np.where(np.arange(60) % 3 == 0, 1.0, rows.weights))
    prior = Normal((0.3, 0.0, -0.2), 2.0)
    arguments = arguments_of(data, prior)
    factor = arguments[3]
    own = data.weights == 1.0
    order = np.argsort(own, kind="stable")
    Z, w = data.Z[order], data.weights[order]
    n_own = int(own.sum())
    rng = np.random.default_rng(1)
    B = np.linalg.inv(np.eye(3) / 4 + (Z.T * w) @ Z)
    state = gibbs.init(factor.T @ np.array([0.3, -0.5, 0.2]), arguments)

    def parts(beta, latent):
        """Mean and covariance of the proposal, and the log density of beta and the latents."""
        eta = Z @ beta
        s = np.exp(stats.norm.logpdf(eta) - special.log_ndtr(eta))
        t = np.where(np.arange(60) < 60 - n_own, w * (eta + s), latent)
        v = np.where(np.arange(60) < 60 - n_own, w * (1 - s * (s + eta)), 0.0)
        log_pi = stats.norm(prior.mu, 2.0).logpdf(beta).sum()
        log_pi += (w * special.log_ndtr(eta))[: 60 - n_own].sum() + stats.norm.logpdf(latent - eta)[60 - n_own :].sum()
        return B @ (np.array(prior.mu) / 4 + Z.T @ t), B + B @ ((Z.T * v) @ Z) @ B, log_pi

    for _ in range(20):
        noise, exponentials = rng.standard_normal(3), rng.standard_exponential(n_own)
        there, probability = gibbs.step(noise, -1.0, exponentials, state, arguments)
        latent = np.zeros(60)
        latent[-n_own:] = gibbs.latents(state.eta[-n_own:], state.log_p[-n_own:], exponentials)
        here_beta, there_beta = np.linalg.solve(factor.T, state.u), np.linalg.solve(factor.T, there.u)
        mean, covariance, here_pi = parts(here_beta, latent)
        back, back_covariance, there_pi = parts(there_beta, latent)
        ratio = there_pi - here_pi + stats.multivariate_normal(back, back_covariance).logpdf(here_beta)
        ratio -= stats.multivariate_normal(mean, covariance).logpdf(there_beta)
        assert probability == pytest.approx(min(1.0, math.exp(ratio)), rel=1e-6)
        state = there


def test_unit_weights_accept_always_and_need_no_ratio():
    drawn = chains(make_rows(weights=False), Normal(0, 4), draws=200)
    assert (drawn.acceptance_rate == 1.0).all()


@pytest.mark.parametrize("high", [5000.0, 1.0], ids=["wide", "below 1"])
def test_acceptance_is_high(high):
    rng = np.random.default_rng(2)
    data = make_rows(200, 10, weights=False).with_weights(np.exp(rng.uniform(math.log(0.05), math.log(high), 200)))
    assert chains(data, Normal(0, 4), draws=500).acceptance_rate.mean() > 0.95


def test_log_density_and_threads():
    rows, prior = make_rows(), MultivariateNormal([0.5, 0, 0], [[2, 0.5, 0], [0.5, 1, -0.3], [0, -0.3, 3]])
    data = rows.with_weights(np.where(np.arange(60) % 3 == 0, 1.0, rows.weights))
    one, three = (chains(data, prior, draws=300, cores=cores) for cores in (1, 3))
    np.testing.assert_array_equal(one.theta, three.theta)
    value, _ = posterior(data, "probit", prior).log_density(one.theta[1, 7])
    assert one.log_density[1, 7] == pytest.approx(value, rel=1e-10)


def test_collinear_columns():
    """Two columns of 1e6 that are the same: the data tell their coefficients' sum, the prior their difference."""
    u = np.random.default_rng(0).normal(size=60)
    data = make_rows().with_weights(np.full(60, 1.5))
    data = weighted(np.column_stack([np.ones(60), 1e6 * u, 1e6 * u]), data.y, data.weights)
    idata = bc.sample(data, "probit", Normal(0, 4), sampler="gibbs", random_seed=1, progressbar=False)
    beta = idata.posterior["beta"].values
    assert beta[..., 1:].std(axis=(0, 1)) == pytest.approx(4 / math.sqrt(2), rel=0.1)
    assert (np.abs(beta[..., 1] + beta[..., 2]) < 1e-5).all()
    assert idata.sample_stats["acceptance_rate"].values.mean() > 0.95


def test_many_rows_of_unit_weight_split_the_random_numbers():
    """The random numbers of 256 draws of 5000 latents are made ready some draws at a time."""
    data = make_rows(5000, 2, weights=False)
    drawn = chains(data, Normal(0, 4), draws=60, thin=1)
    assert len(np.unique(drawn.theta[0, :, 0])) == 60
    assert abs(drawn.theta[..., 1].mean() - bc.find_map(data, "probit").beta[1]) < 0.1


def test_chains_that_have_not_mixed_are_told():
    """Weights of 5000 and 0.4 with one label: nearly all of the posterior is where a sweep hardly moves."""
    data = weighted([[1.0], [2.0]], [1, 1], [5000.0, 0.4])
    with pytest.warns(UserWarning, match=r"not mixed, the effective sample size of .* of 4000 draws and R-hat of"):
        bc.sample(data, "probit", sampler="gibbs", random_seed=0, progressbar=False)


@pytest.mark.parametrize(("n_rows", "thin", "chunk"), [(60, 10, 256), (20_000, 10, 33), (20_000, 10**6, 1)])
def test_large_data_look_at_interrupts_more_often(monkeypatch, n_rows, thin, chunk):
    seen = []

    def spy(*_, **options):
        seen.append(options["chunk"])
        raise KeyboardInterrupt

    monkeypatch.setattr(method, "run_chains", spy)
    with pytest.raises(KeyboardInterrupt):
        bc.sample(make_rows(n_rows), "probit", sampler="gibbs", thin=thin, progressbar=False)
    assert seen == [chunk]


@jit
def _leave_out_the_proposal(normals, uniforms, theta, arguments, draws):
    factor = arguments[3]
    state = gibbs.init(elementary.transposed_times(factor, theta), arguments)
    none = np.zeros(state.eta.size - arguments[1].size)
    for i in range(len(draws)):
        for j in range(uniforms.shape[1]):
            there, _ = gibbs.step(normals[i, j], -1.0, none + 1.0, state, arguments)
            if uniforms[i, j] < math.exp(min(0.0, there.value - state.value)):
                state = there
        draws[i] = elementary.transposed_solve(factor, state.u)


def _wrong_advance(rng, theta, tuning, arguments, segment):
    _leave_out_the_proposal(*noise_of(rng, segment), theta, arguments, segment.draws)
    return segment.draws[-1], tuning


# latents of precision w, which have Phi(sqrt(w) eta) for their probability
SQRT = SimpleNamespace(
    prepare=lambda Z, w, prior: gibbs.prepare(Z * np.sqrt(w)[:, None], np.ones(len(w)), prior), advance=gibbs.advance
)
# the ratio of the posterior densities alone, as if the proposal were symmetric
WRONG_RATIO = SimpleNamespace(
    prepare=lambda Z, w, prior: gibbs.prepare(Z, w + 1e-9 * (w == 1.0), prior), advance=_wrong_advance
)


@pytest.mark.statistical(rate=2e-6)
@pytest.mark.slow
@pytest.mark.parametrize("name", WEIGHTED)
def test_against_nuts(name):
    data, prior, figures = problem("probit", WEIGHTED[name]), Normal(0, 4), known(name, "probit")
    check(chains(data, prior, thin=20).theta, *figures)
    for wrong in (SQRT, WRONG_RATIO):
        with pytest.raises(AssertionError, match=r"mean|sd"):
            check(chains(data, prior, wrong, thin=20).theta, *figures)


@pytest.mark.statistical(rate=3e-6)
@pytest.mark.parametrize("weights", COUNTS)
def test_ranks_are_uniform(weights):
    assert rank_p_values(gibbs, "probit", COUNTS[weights]).min() > P_VALUE


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("wrong", [SQRT, WRONG_RATIO], ids=["sqrt(w)", "ratio"])
def test_wrong_kernels_have_other_ranks(wrong):
    assert rank_p_values(wrong, "probit", COUNTS["integer"]).min() < P_VALUE


def test_iris():
    """Versicolor against the rest, no intercept: the figures of a public test suite, means within 0.15."""
    X, species = load_iris(return_X_y=True)
    data = weighted(X, np.where(species == 1, 1, -1))
    mle = bc.find_mle(data, "probit").beta
    np.testing.assert_allclose(mle, [0.42272, -1.11533, 0.64250, -1.71604], atol=2e-5)
    idata = bc.sample(data, "probit", Normal(mle, 10.0), sampler="gibbs", random_seed=0, progressbar=False)
    np.testing.assert_allclose(idata.posterior["beta"].mean(("chain", "draw")), mle, atol=0.15)
