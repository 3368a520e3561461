"""What ArviZ says of draws, at any scale."""

import numpy as np
import pytest

from bayescore.limits import MIN_DRAWS
from bayescore.numerics.chains import ess, mcse_mean, quantile_errors, rhat
from bayescore.numerics.moments import moments_mcse
from bayescore.samplers.posterior import read_posterior


@pytest.mark.parametrize("scale", [2.0**-70, 2.0**70])  # powers of 2 lose no digits
def test_statistics_do_not_depend_on_the_scale(posterior, scale):
    plain = read_posterior(posterior(3, rho=0.5), "it").draws
    for statistic in (mcse_mean, lambda x: moments_mcse(x).sd, lambda x: quantile_errors(x, 0.1)):
        np.testing.assert_allclose(statistic(scale * plain), scale * statistic(plain), rtol=1e-9)
    for statistic in (lambda x: ess(x, "mean"), rhat, lambda x: ess(x, "tail")):
        np.testing.assert_allclose(statistic(scale * plain), statistic(plain), rtol=1e-9)


def test_a_single_chain_is_compared_with_itself_and_a_constant_one_with_nothing():
    rng = np.random.default_rng(0)
    drift = rng.normal(size=(1, 400, 2)) + [[0.0, 3.0]] * (np.arange(400) >= 200)[None, :, None]
    drift = np.concatenate([drift, np.ones((1, 400, 1))], axis=2)
    found = rhat(drift)
    assert found[0] < 1.05
    assert found[1] > 1.5
    assert np.isnan(found[2])
    assert np.isnan(rhat(drift[:, :MIN_DRAWS])).all()
