"""Compiled passes over the rows of a block against the plain formulas."""

import numpy as np
import pytest

from bayescore.data.passes.tiles import TILE
from bayescore.models.likelihoods import LIKELIHOODS
from bayescore.models.posterior import WIDE, likelihood_terms, log_likelihood_tiles
from bayescore.models.terms import log_p_near, remainders_near
from bayescore.types import WeightedData

LINKS = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
ETA = np.concatenate([np.linspace(-690.0, 690.0, 80), np.linspace(-30.0, 30.0, 47), [0.0]])


def data(n, n_features, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) * 3.0
    y = np.where(rng.random(n) < 0.4, 1, -1).astype(np.int8)
    return WeightedData(X, y, rng.uniform(0.1, 5.0, n), np.arange(n))


@LINKS
@pytest.mark.parametrize(("n", "n_features"), [(1, 1), (TILE, 2), (3 * TILE + 5, 7), (200, 60), (1200, WIDE)])
def test_terms_are_sums_over_the_rows(likelihood, n, n_features):
    rows, beta = data(n, n_features), np.random.default_rng(1).normal(size=n_features)
    terms = likelihood_terms(beta, rows, likelihood)
    eta, w = rows.Z @ beta, rows.weights
    assert terms.value == pytest.approx(w @ likelihood.log_p(eta), rel=1e-12)
    np.testing.assert_allclose(terms.gradient, (w * likelihood.score(eta)) @ rows.Z, rtol=1e-10, atol=1e-10 * n)
    curved = (rows.Z.T * (w * likelihood.curvature(eta))) @ rows.Z
    np.testing.assert_allclose(terms.precision, curved, rtol=1e-9, atol=1e-10 * n)
    signed = likelihood_terms(beta, rows.signed.with_weights(w), likelihood)
    assert (signed.value, *signed.gradient) == (terms.value, *terms.gradient)


@LINKS
@pytest.mark.parametrize("spread", [1e-4, 0.02, 0.05, 3.0])
def test_the_series_is_as_near_as_it_says(likelihood, spread):
    eta = np.concatenate([ETA, [-150.0, 5.0]])
    moves = np.random.default_rng(0).uniform(-spread, spread, (len(eta), 60))
    exact = likelihood.log_p(eta[:, None] + moves)
    log_p_near(eta, likelihood, likelihood.near, moves)
    np.testing.assert_allclose(moves, exact, rtol=1e-14, atol=2e-10)


@LINKS
@pytest.mark.parametrize("spread", [1e-3, 0.05, 3.0])
def test_remainders_are_what_is_left_of_log_p(likelihood, spread):
    eta = ETA[np.abs(ETA) < 20.0]
    moves = np.random.default_rng(0).uniform(-spread, spread, (len(eta), 60))
    x = moves.copy()
    at = eta[:, None]
    exact = likelihood.log_p(at + x) - likelihood.log_p(at)
    exact -= x * (likelihood.score(at) - 0.5 * x * likelihood.curvature(at))
    remainders_near(eta, likelihood, likelihood.near, moves)
    np.testing.assert_allclose(moves, exact, rtol=1e-6, atol=2e-10 if spread > 1e-3 else 1e-12)
    if spread == 1e-3:  # of the third order: differences have lost most digits, the series has not
        third = likelihood.third(at) * x**3 / 6.0
        np.testing.assert_allclose(moves, third, atol=1e-14)


def test_the_series_is_used_up_to_its_limit_and_no_further():
    """At the limit it is the series of degree 5 and not log p: its error, seen only where log p is small, is there."""
    probit = LIKELIHOODS["probit"]
    eta = np.full(1, 1.95)  # where the sixth derivative is largest
    for move, low, high in ((probit.near, 2e-12, 2e-10), (1.01 * probit.near, 0.0, 1e-15)):
        moves = np.full((1, 8), move)
        log_p_near(eta, probit, probit.near, moves)
        error = np.abs(moves - probit.log_p(eta + move)).max()
        assert low <= error <= high


@LINKS
@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_tiles_of_log_p_over_draws(likelihood, scale):
    rows, rng = data(700, 3), np.random.default_rng(2)
    draws = rng.normal(size=3) + scale * rng.normal(size=(500, 3))
    tiles = list(log_likelihood_tiles(draws, rows, likelihood))
    assert len(tiles) > 1
    found = np.concatenate([log_p for _, log_p in tiles])
    np.testing.assert_allclose(found, likelihood.log_p(rows.Z @ draws.T), rtol=1e-11, atol=2e-10)
    one = next(log_likelihood_tiles(draws[:1], rows, likelihood))[1]
    np.testing.assert_allclose(one[:, 0], likelihood.log_p(rows.Z @ draws[0]), rtol=1e-11, atol=1e-300)
