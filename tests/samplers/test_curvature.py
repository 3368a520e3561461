"""The mass matrix of NUTS with effects is the posterior's covariance, ridges among it."""

import numpy as np
import pymc as pm
import pytest

import bayescore as bc
from bayescore.numerics.chains import ess
from bayescore.samplers.nuts import covariance_at_mode
from tests.coresets.celled import TWO, celled


@pytest.mark.slow
def test_covariance_of_a_normal_density_on_a_ridge():
    """Sums of coordinates are known to 0.01, differences to 3; the guess knows of neither."""
    v = np.array([1.0, 1.0, 1.0]) / np.sqrt(3.0)
    precision = np.eye(3) / 9.0 + 1e4 * np.outer(v, v)
    with pm.Model() as model:
        a, b = pm.Flat("a"), pm.Flat("b", shape=2)
        x = pm.math.concatenate([a[None], b]) - np.array([40.0, -3.0, 5.0])
        pm.Potential("density", -0.5 * x @ precision @ x)
    density = model.logp_dlogp_function(ravel_inputs=True)
    density.set_extra_values({})
    found = covariance_at_mode(density, np.array([1.0, 0.0, 0.0]), np.eye(3))
    assert found @ precision == pytest.approx(np.eye(3), abs=0.02)


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
def test_nuts_moves_along_the_ridge_of_two_factors():
    """2 x 300 draws are worth 200 and more; by a mass matrix of blocks 4 x 1000 were worth 9 to 260.

    Of six data sets the least worth was 486 to 766, the sd of its logarithm 0.16: log 200 is 7 sds away.
    """
    frame = celled(n_a=8, n_b=6, nested=True, median=300)
    told = {"formula": f"y ~ w + x + z + {TWO}", "method": "multilevel", "random_state": 0, "progressbar": False}
    idata = bc.sample(bc.build_coreset(frame, **told), draws=300, tune=400, chains=2, random_seed=1, progressbar=False)
    draws = [idata["posterior"][name].values.reshape(2, 300, -1) for name in ("beta", "u_a", "u_b")]
    assert ess(np.concatenate(draws, axis=2), "bulk").min() > 200.0
