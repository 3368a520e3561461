"""Draws with several effects of a group integrated out beside those of all parameters at once."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.numerics.chains import mcse_mean
from bayescore.priors import Normal
from bayescore.samplers import groups as samplers
from bayescore.samplers.groups import falls_off
from tests.samplers.test_joint import log_density

TOLD = {"random_seed": 4, "progressbar": False}
N_GROUPS = 1000


@pytest.fixture(scope="module")
def rows():
    return made(12, [0.8, 0.5])


def made(per_group, sds):
    rng = np.random.default_rng(1)
    n = N_GROUPS * per_group
    g, x = np.arange(n) % N_GROUPS, rng.normal(size=n)
    u = rng.normal(size=(N_GROUPS, 2)) * sds
    frame = pd.DataFrame({"x": x, "g": g, "y": rng.logistic(size=n) < 0.3 + 0.5 * x + u[g, 0] + u[g, 1] * x})
    return bc.all_rows(frame, formula="y ~ x + (1 + x | g)", progressbar=False)


def test_log_densities_are_the_models_and_chains_do_not_depend_on_cores(rows):
    told = {"draws": 20, "tune": 60, "chains": 2, "prior": Normal(0.0, 4.0), **TOLD}
    one, two = (bc.sample(rows, cores=cores, **told) for cores in (1, 2))
    assert one.posterior.attrs["sampled_groups"] < N_GROUPS
    assert one.posterior.attrs["density_error"] < 0.02
    gap = one["sample_stats"]["lp"].values[0] - log_density(rows, one["posterior"])
    assert np.ptp(gap) < 1e-6
    for name in one.posterior.data_vars:
        np.testing.assert_array_equal(one.posterior[name], two.posterior[name])


def test_effects_that_take_many_nodes_are_drawn_with_the_rest():
    """With sds of 6 and two rows a group hardly any effect is like a normal."""
    idata = bc.sample(made(2, [6.0, 6.0]), draws=10, tune=20, chains=1, **TOLD)
    assert "sampled_groups" not in idata.posterior.attrs


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-5)
def test_draws_are_those_of_all_parameters_at_once(rows, monkeypatch):
    """Means of 60 figures in Monte Carlo errors, each beyond 5.3 once in 1e7; sds within their errors."""
    some = bc.sample(rows, **TOLD)
    monkeypatch.setattr(samplers, "MANY_GROUPS", 10**9)
    whole = bc.sample(rows, **TOLD)
    assert "sampled_groups" in some.posterior.attrs
    assert "sampled_groups" not in whole.posterior.attrs
    one, two = figures(some), figures(whole)
    assert gap(one, two).max() < 5.3
    assert np.abs(np.log(one.std(axis=(0, 1)) / two.std(axis=(0, 1)))).max() < 0.15  # 5 errors of 1,000 effective draws
    assert gap(one + 0.3 * one.std(axis=(0, 1)), two).min() > 5.3  # a control


def gap(one, two):
    """Return distances of means, in Monte Carlo errors."""
    return np.abs((one.mean(axis=(0, 1)) - two.mean(axis=(0, 1))) / np.hypot(mcse_mean(one), mcse_mean(two)))


def figures(idata):
    posterior = idata.posterior
    values = [posterior["beta"].values, np.log(posterior["sigma_g"].values), posterior["rho_g"].values]
    values += [posterior["u_g"].values[:, :, ::40].reshape(*values[0].shape[:2], -1)]
    return np.concatenate(values, axis=2)


@pytest.mark.parametrize("third", [0.0, 1.0])
def test_a_sample_whose_cubic_rises_far_out_is_turned_down(third):
    def kernel(z, gradient, _):
        return -0.5 * float(z @ z) + third * z[0] ** 3 / 12.0  # within a nat of the quadratic up to 2 sds, and then up

    target = SimpleNamespace(middle=np.zeros(2), factor=np.eye(2), n_groups=2)
    chosen = SimpleNamespace(target=target, density=(kernel, None), n_sampled=1)
    assert falls_off(chosen, np.ones((1, 2))) == (third == 0.0)
