"""Coreset MCMC, a rival: its moves against quadrature, its weights against those it began with."""

import numpy as np
import pytest
from scipy import special, stats

import bayescore as bc
from bayescore.numerics.chains import ess_mean
from benchmarks.rivals.coreset_mcmc import coreset_mcmc, move

SD = 4.0
WEIGHTS = np.array([3.0, 0.0, 1.0, 2.0, 0.5, 1.0])


def by_quadrature(Z, w):
    """Return the posterior's mean and mean square, D = 1."""
    grid = np.linspace(-25.0, 45.0, 70_001)
    p = special.softmax(-np.logaddexp(0.0, -np.outer(grid, Z[:, 0])) @ w - 0.5 * (grid / SD) ** 2)
    return p @ grid, p @ grid**2


@pytest.mark.slow
@pytest.mark.parametrize(("turn", "control"), [(1.0, False), (0.2, False), (1.0, True)])
def test_moves_keep_the_posterior(turn, control):
    """False-alarm rate 1e-4 for two moments; the control is drawn with other weights."""
    rng = np.random.default_rng(0)
    Z, draws = np.abs(rng.standard_normal((6, 1))) + 0.2, np.empty((2, 10_000))
    for chain in draws:
        theta = np.zeros(1)
        for i in range(draws.shape[1]):
            move(rng, theta, Z, WEIGHTS + control, turn * np.eye(1), SD)
            chain[i] = theta[0]
    z = []
    for values, expected in zip((draws, draws**2), by_quadrature(Z, WEIGHTS), strict=True):
        size = float(ess_mean(values[:, :, None])[0])
        assert size > 2000
        z.append(abs(values.mean() - expected) / values.std() * np.sqrt(size))
    limit = stats.norm.isf(1e-4 / 4)
    assert max(z) > 2 * limit if control else max(z) < limit


@pytest.mark.slow
def test_weights_are_learnt():
    """Begun as published, half of the rows of each label with equal weights, the mean is 15 sds off and more."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(5000), rng.standard_normal((5000, 3))])
    y = np.where(rng.random(5000) < special.expit(X @ [-1.5, 1.0, -0.5, 0.0]), 1, -1)
    full = bc.all_rows(X, y, progressbar=False)
    mode = bc.find_map(full, "logistic", bc.priors.Normal(0, SD))

    def error(steps):
        draws, w, passes = coreset_mcmc(full, SD, 80, 0, root=mode.factor, steps=steps, draws=1000)
        assert draws.shape == (2, 1000, 4)
        assert w.shape == (80,)
        assert (w >= 0.0).all()
        assert passes == steps * 400 / 5000
        return np.linalg.norm(np.linalg.solve(mode.factor, draws.mean(axis=(0, 1)) - mode.beta)) / 2.0

    assert error(0) > 15.0
    assert error(2500) < 1.0
