"""Step methods in PyMC against NUTS on all variables, and against the samplers of their own.

Moments of NUTS's draws are kept: ``python -m tests.reference_moments hierarchy-probit`` draws them again.
"""

import math

import numpy as np
import pymc as pm
import pytest

import bayescore as bc
from bayescore.numerics.chains import ess, mcse_mean
from bayescore.samplers.steps import AlbertChibGibbs, PolyaGammaGibbs
from bayescore.validation import DataError
from tests.conftest import make_rows
from tests.reference_moments import Moments, moments

STEPS = {"probit": AlbertChibGibbs, "logistic": PolyaGammaGibbs}


def hierarchy(data, family):
    """Partial pooling: location and scale of the coefficients are random, the scale is sampled as its logarithm."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        tau = pm.LogNormal("tau", -0.5, 0.5)
        beta = pm.Normal("beta", mu, tau, shape=data.n_features)
        bc.weighted_potential("loglik", data, beta, family)
    return model


def run(model, draws, seed, *, chains=2, **options):
    with model:
        idata = pm.sample(draws, tune=500, chains=chains, cores=1, random_seed=seed, progressbar=False, **options)
    return np.concatenate(
        [idata.posterior[name].values.reshape(chains, draws, -1) for name in ("mu", "tau", "beta")], axis=-1
    )


def rows_of_reference():
    return make_rows(60, 5, rng=np.random.Generator(np.random.PCG64(0)))


def reference_draws(name):
    """Return draws of NUTS, and rows, for `tests.reference_moments`."""
    data = rows_of_reference()
    model = hierarchy(data, name.removeprefix("hierarchy-"))
    return run(model, 5000, 2, chains=4, target_accept=0.95), (data.X, data.y, data.weights)


@pytest.mark.statistical(rate=5e-6)
@pytest.mark.slow
@pytest.mark.parametrize("family", STEPS)
def test_hierarchy_against_nuts(family):
    """14 means and sds within 5.5 standard errors of either: 4e-8 each; tenfold for estimated errors of short runs.

    The rows are the same under every shift of the seeds: references belong to them. Control: the wrong family's.
    """
    data = rows_of_reference()
    model = hierarchy(data, family)
    with model:
        step = STEPS[family](model["beta"], data)
    draws = run(model, 1500, 1, step=step)
    assert ess(draws, "mean").min() > 500
    ours = Moments.of(draws)
    for own in STEPS:
        theirs = moments(f"hierarchy-{own}", (data.X, data.y, data.weights))
        means = (ours.mean - theirs.mean) / np.hypot(ours.mean_error, theirs.mean_error)
        sds = (ours.sd - theirs.sd) / np.hypot(ours.sd_error, theirs.sd_error)
        assert (np.abs([means, sds]).max() < 5.5) == (own == family)


def test_prior_is_taken_at_the_current_hyperparameters():
    data = make_rows()
    model = hierarchy(data, "probit")
    with model:
        step = AlbertChibGibbs([model["beta"]], data)
    prior = step.prior_at({"mu": np.array(0.3), "tau_log__": np.array(-1.0), "beta": np.zeros(3)})
    assert prior == bc.priors.Normal([0.3] * 3, [math.exp(-1.0)] * 3)


@pytest.mark.parametrize("log_tau", [-800.0, -400.0, 800.0], ids=["tau = 0", "1 / tau^2 = inf", "tau = inf"])
@pytest.mark.parametrize("family", STEPS)
def test_no_prior_at_extreme_hyperparameters(family, log_tau):
    data = make_rows()
    model = hierarchy(data, family)
    with model:
        step = STEPS[family]([model["beta"]], data, rng=np.random.default_rng(0))
    beta = np.array([0.1, 0.2, 0.3])
    point, (stats,) = step.step({"mu": np.array(0.3), "tau_log__": np.array(log_tau), "beta": beta})
    assert (point["beta"] == beta).all()
    assert stats["accept"] == 0
    point, (stats,) = step.step({**point, "tau_log__": np.array(0.0)})
    assert (point["beta"] != beta).all()
    assert stats["accept"] > 0.5


def test_no_prior_where_the_covariance_is_indefinite():
    data = make_rows()
    with pm.Model():
        scale = pm.HalfNormal("scale", 1, initval=0.5)
        beta = pm.MvNormal("beta", np.zeros(3), pm.math.stack([[1, 0, 0], [0, 1, scale], [0, scale, 1]]))
        bc.weighted_potential("loglik", data, beta, "probit")
        step = AlbertChibGibbs(beta, data, rng=np.random.default_rng(0))
    here = {"scale_log__": np.array(1.0), "beta": np.zeros(3)}
    point, (stats,) = step.step(here)
    assert (point["beta"] == 0).all()
    assert stats["accept"] == 0


def test_full_covariance_and_several_processes():
    """A fixed prior: the step's chain is that of `sample`, but for its random numbers."""
    data, covariance = make_rows(), np.eye(3) + 0.5
    with pm.Model():
        beta = pm.MvNormal("beta", np.zeros(3), covariance)
        bc.weighted_potential("loglik", data, beta, "probit")
        idata = pm.sample(
            500, tune=20, chains=2, cores=2, step=AlbertChibGibbs(beta, data), random_seed=1, progressbar=False
        )
    draws = idata.posterior["beta"].values
    assert not (draws[0] == draws[1]).any()
    assert 0.9 < float(idata.sample_stats["accept"].mean()) <= 1
    prior = bc.priors.MultivariateNormal(0, covariance)
    own = (
        bc.sample(data, "probit", prior, sampler="gibbs", thin=10, random_seed=2, progressbar=False)
        .posterior["beta"]
        .values
    )
    errors = np.hypot(mcse_mean(draws), mcse_mean(own))
    assert np.abs((draws.mean(axis=(0, 1)) - own.mean(axis=(0, 1))) / errors).max() < 4


@pytest.mark.parametrize(
    ("prior", "family", "offset", "error", "message"),
    [
        (lambda: pm.StudentT("beta", 4, shape=3), "probit", None, TypeError, "AlbertChibGibbs needs pm.Normal"),
        (lambda: pm.Normal("beta", shape=3), "logistic", None, ValueError, "is not its prior times the probit"),
        (lambda: pm.Normal("beta", shape=3), "probit", np.linspace(-1, 1, 60), ValueError, "without offset"),
    ],
    ids=["prior", "family", "offset"],
)
def test_models_that_do_not_fit(prior, family, offset, error, message):
    data = make_rows()
    with pm.Model():
        beta = prior()
        bc.weighted_potential("loglik", data, beta, family, offset=offset)
        with pytest.raises(error, match=message):
            AlbertChibGibbs(beta, data)


def test_data_and_variables_that_do_not_fit():
    data = make_rows()
    with pm.Model():
        beta, other = pm.Normal("beta", shape=3), pm.Normal("other", shape=3)
        bc.weighted_potential("loglik", data, beta)
        with pytest.raises(DataError, match=r"beta has shape \(3,\); the data have 4 features"):
            PolyaGammaGibbs(beta, make_rows(n_features=4))
        with pytest.raises(ValueError, match="is not its prior times the logistic likelihood of data"):
            PolyaGammaGibbs(beta, data.with_weights(2 * data.weights))
        with pytest.raises(ValueError, match="vars has 2 variables; give the one vector"):
            PolyaGammaGibbs([beta, other], data)
        with pytest.raises(ValueError, match="sweeps=0 must be at least 1"):
            PolyaGammaGibbs(beta, data, sweeps=0)
