"""Draws out of InferenceData, and what ArviZ says of them at any scale."""

import numpy as np
import pytest

from bayescore.diagnostics import draws as module
from bayescore.diagnostics.draws import ess, ess_mean, is_posterior, mcse_mean, mcse_quantile, mcse_sd, rhat
from bayescore.diagnostics.draws import read_posterior as read
from bayescore.validation import DataError


def test_all_that_is_known_of_a_posterior_is_read(posterior):
    idata = posterior(3, coreset={"method": "uniform", "size": 4})
    found = read(idata, "it")
    np.testing.assert_array_equal(found.draws, idata.posterior["beta"].values)
    assert (found.name, found.features, found.divergences) == ("it", ("a", "b", "c"), 0)
    assert found.coreset == {"method": "uniform", "size": 4}
    np.testing.assert_array_equal(found.weights, [1, 2, 3, 4])
    assert found.attrs["random_seed"] == "3"
    assert is_posterior(idata)
    assert not is_posterior({"it": idata})


def test_foreign_posteriors_need_beta_only(posterior):
    idata = posterior(3)
    del idata.sample_stats
    found = read(idata, "it")
    assert found.divergences is found.acceptance_rate is found.weights is None
    assert found.coreset == {}


def test_other_dims_are_refused(posterior):
    idata = posterior(3)
    idata.posterior["beta"] = idata.posterior["beta"].transpose("draw", "chain", "feature")
    with pytest.raises(DataError, match=r"it: 'beta' has dims .*; they must be \(chain, draw, feature\)"):
        read(idata, "it")


def test_thinned_draws_are_spread_over_each_chain(posterior):
    found = read(posterior(3, draws=100), "it")
    kept = found.thinned(20)
    np.testing.assert_array_equal(kept, found.draws[:, [0, 25, 50, 74, 99]])
    np.testing.assert_array_equal(found.thinned(10**6), found.draws)
    assert found.thinned(1).shape == (4, 1, 3)


def test_coordinates_follow_their_names(posterior):
    found = read(posterior(3), "it")
    np.testing.assert_array_equal(found.aligned(("c", "a", "b")).draws, found.draws[:, :, [2, 0, 1]])
    with pytest.raises(DataError, match="it: 3 features where 2 are expected; it has the extra 'c'"):
        found.aligned(("a", "b"))


@pytest.mark.parametrize("scale", [2.0**-70, 2.0**70])  # powers of 2 lose no digits
def test_statistics_do_not_depend_on_the_scale(posterior, scale):
    plain = read(posterior(3, rho=0.5), "it").draws
    for statistic in (mcse_mean, mcse_sd, lambda x: mcse_quantile(x, 0.1)):
        np.testing.assert_allclose(statistic(scale * plain), scale * statistic(plain), rtol=1e-9)
    for statistic in (ess_mean, rhat, lambda x: ess(x, "tail")):
        np.testing.assert_allclose(statistic(scale * plain), statistic(plain), rtol=1e-9)


def test_a_single_chain_is_compared_with_itself_and_a_constant_one_with_nothing():
    rng = np.random.default_rng(0)
    drift = rng.normal(size=(1, 400, 2)) + [[0.0, 3.0]] * (np.arange(400) >= 200)[None, :, None]
    drift = np.concatenate([drift, np.ones((1, 400, 1))], axis=2)
    found = rhat(drift)
    assert found[0] < 1.05
    assert found[1] > 1.5
    assert np.isnan(found[2])
    assert np.isnan(rhat(drift[:, : module.MIN_DRAWS])).all()
