"""The transport meets mode and Hessian, is its own inverse both ways, and is the map nearest the identity."""

import numpy as np
import pytest

from bayescore.models.laplace import Transport
from bayescore.validation import DataError


def spd(rng, D, spread):
    root = rng.standard_normal((D, D)) * spread
    return root @ root.T + np.eye(D)


@pytest.fixture
def pair():
    rng = np.random.default_rng(4)
    return rng.normal(size=5), spd(rng, 5, 1.0), rng.normal(size=5), spd(rng, 5, 10.0)


def test_moved_covariance_is_the_targets(pair):
    t0, H0, t1, H1 = pair
    move = Transport.between(t0, H0, t1, H1)
    np.testing.assert_allclose(move(t0[None])[0], t1)
    np.testing.assert_allclose(move.matrix @ np.linalg.inv(H0) @ move.matrix.T, np.linalg.inv(H1), rtol=1e-8)
    log_det = np.linalg.slogdet(np.stack([move.matrix, H0, H1]))[1]
    np.testing.assert_allclose(log_det[0], 0.5 * (log_det[1] - log_det[2]))


def test_the_way_back_is_the_inverse(pair):
    t0, H0, t1, H1 = pair
    draws = np.random.default_rng(1).normal(size=(2, 7, 5))
    there, back = Transport.between(t0, H0, t1, H1), Transport.between(t1, H1, t0, H0)
    np.testing.assert_allclose(back(there(draws)), draws, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(there.inverse(there(draws)), draws, rtol=1e-8, atol=1e-8)


def test_equal_posteriors_stay_where_they_are_and_the_map_is_symmetric_in_the_targets_scale(pair):
    t0, H0, t1, H1 = pair
    np.testing.assert_allclose(Transport.between(t0, H0, t0, H0).matrix, np.eye(5), atol=1e-10)
    move = Transport.between(t0, H0, t1, H1)
    F = np.linalg.cholesky(np.linalg.inv(H1))
    white = np.linalg.solve(F, move.matrix @ F)  # the symmetric root, hence nearest to the identity
    np.testing.assert_allclose(white, white.T, atol=1e-8)
    assert np.linalg.eigvalsh(white).min() > 0.0
    np.testing.assert_allclose(move.stretch, np.linalg.eigvalsh(white), rtol=1e-8)
    np.testing.assert_allclose(move.inverse.stretch, 1.0 / move.stretch)
    np.testing.assert_allclose(move.inverse.root @ move.inverse.root.T, np.linalg.inv(H0), rtol=1e-6, atol=1e-9)


def test_a_saddle_is_refused(pair):
    t0, H0, t1, H1 = pair
    with pytest.raises(DataError, match="positive definite"):
        Transport.between(t0, H0 - 1e3 * np.eye(5), t1, H1)
    with pytest.raises(DataError, match="positive definite"):
        Transport.between(t0, H0, t1, -H1)
