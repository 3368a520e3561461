"""Chains that have not mixed are told. False-alarm rate: below 1e-6, of chains with ten times the size asked for."""

import warnings

import numpy as np
import pytest

from bayescore.samplers.adaptive import MIN_DRAWS_FOR_ESS
from bayescore.samplers.sample import warn_unless_mixed
from tests.arviz_draws import inference_data


def chains(draws, shift=0.0, correlation=0.0, seed=1):
    """Four chains of two coordinates, the second a process of that correlation, and one chain `shift` away."""
    noise = np.random.default_rng(seed).normal(size=(4, draws, 2))
    beta = noise.copy()
    for i in range(1, draws):
        beta[:, i, 1] = correlation * beta[:, i - 1, 1] + np.sqrt(1 - correlation**2) * noise[:, i, 1]
    beta[0, :, 1] += shift
    return inference_data(
        {"posterior": {"beta": beta}}, coords={"feature": ["first", "second"]}, dims={"beta": ["feature"]}
    )


@pytest.mark.parametrize("draws", [MIN_DRAWS_FOR_ESS, 1000])
def test_independent_draws_pass(draws):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_unless_mixed(chains(draws), "'nuts'")


def test_the_coordinate_is_named_with_what_to_do():
    with pytest.warns(UserWarning, match=r"effective sample size of second is \d+ of 4000 .* or sampler='nuts'"):
        warn_unless_mixed(chains(1000, correlation=0.995), "'nuts'")
    with pytest.warns(UserWarning, match=r"R-hat of second is 1\.\d+: take more draws"):
        warn_unless_mixed(chains(1000, shift=3.0), "'nuts'")


def test_a_chain_that_stood_still_is_told_and_few_draws_tell_nothing():
    still = chains(1000)
    still.posterior["beta"].values[:, :, 1] = 2.0
    with pytest.warns(UserWarning, match="of second is"):
        warn_unless_mixed(still, "'nuts'")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_unless_mixed(chains(MIN_DRAWS_FOR_ESS - 1, shift=9.0), "'nuts'")


def test_the_sd_of_effects_is_looked_at_on_its_logarithm():
    idata = chains(1000)
    slow = chains(1000, correlation=0.995).posterior["beta"][:, :, 1]
    idata["posterior"]["sigma_county"] = np.exp(slow)
    with pytest.warns(UserWarning, match="effective sample size of log sigma_county is"):
        warn_unless_mixed(idata, "'nuts'")
