"""Compiled passes over the rows of a block against the plain formulas."""

from dataclasses import replace

import numpy as np
import pytest

from bayescore.data.passes import TILE
from bayescore.families import Symmetric
from bayescore.families.family import FAMILIES, check_family
from bayescore.models.posterior import WIDE, likelihood_terms, log_likelihood_tiles, score
from bayescore.models.row_kernels import log_p_near, remainders_near
from bayescore.types import WeightedData

LINKS = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
ETA = np.concatenate([np.linspace(-690.0, 690.0, 80), np.linspace(-30.0, 30.0, 47), [0.0]])


def data(n, n_features, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) * 3.0
    y = np.where(rng.random(n) < 0.4, 1, -1).astype(np.int8)
    return WeightedData(X, y, rng.uniform(0.1, 5.0, n), np.arange(n))


@LINKS
@pytest.mark.parametrize(("n", "n_features"), [(1, 1), (TILE, 2), (3 * TILE + 5, 7), (200, 60), (1200, WIDE)])
def test_terms_are_sums_over_the_rows(family, n, n_features):
    rows, beta = data(n, n_features), np.random.default_rng(1).normal(size=n_features)
    terms = likelihood_terms(beta, rows, family)
    eta, y, w = rows.X @ beta, rows.y, rows.weights
    assert terms.value == pytest.approx(w @ family.log_p(eta, y), rel=1e-12)
    np.testing.assert_allclose(terms.gradient, (w * family.score(eta, y)) @ rows.X, rtol=1e-10, atol=1e-10 * n)
    curved = (rows.X.T * (w * family.curvature(eta, y))) @ rows.X
    np.testing.assert_allclose(terms.precision, curved, rtol=1e-9, atol=1e-10 * n)
    if isinstance(family, Symmetric):  # rows folded by their sides give the same bits: negation is exact
        folded = likelihood_terms(beta, replace(rows, X=rows.Z, y=np.ones(n, dtype=np.int8)), family)
        assert (folded.value, *folded.gradient) == (terms.value, *terms.gradient)


@LINKS
@pytest.mark.parametrize("spread", [1e-4, 0.02, 0.05, 3.0])
def test_the_series_is_as_near_as_it_says(family, spread):
    eta = np.concatenate([ETA, [-150.0, 5.0]])
    moves = np.random.default_rng(0).uniform(-spread, spread, (len(eta), 60))
    side = np.where(np.arange(len(eta)) % 2, 1, -1).astype(np.int8)
    exact = family.log_p(eta[:, None] + moves, side[:, None])
    log_p_near(eta, side, family, moves)
    np.testing.assert_allclose(moves, exact, rtol=1e-14, atol=2e-10)


@LINKS
@pytest.mark.parametrize("spread", [1e-3, 0.05, 3.0])
def test_remainders_are_what_is_left_of_log_p(family, spread):
    curved = np.maximum(family.curvature(ETA, -1), family.curvature(ETA, 1))
    eta = ETA[(np.abs(ETA) < 20.0) & (curved < 10.0)]  # beyond it differences have lost all digits
    moves = np.random.default_rng(0).uniform(-spread, spread, (len(eta), 60))
    x = moves.copy()
    at, y = eta[:, None], np.where(np.arange(len(eta)) % 2, 1, -1).astype(np.int8)
    side = y[:, None]
    exact = family.log_p(at + x, side) - family.log_p(at, side)
    exact -= x * (family.score(at, side) - 0.5 * x * family.curvature(at, side))
    remainders_near(eta, y, family, moves)
    np.testing.assert_allclose(moves, exact, rtol=1e-6, atol=2e-10 if spread > 1e-3 else 1e-12)
    if spread == 1e-3:  # of the third order: differences have lost most digits, the series has not
        third = family.third(at, side) * x**3 / 6.0
        assert (np.abs(moves - third) <= 1e-14 + 1e-13 * family.curvature(at, side)).all()


def test_the_series_is_used_up_to_its_limit_and_no_further():
    """At the limit it is the series of degree 5 and not log p: its error, seen only where log p is small, is there."""
    probit = FAMILIES["probit"]
    eta = np.full(1, 1.95)  # where the sixth derivative is largest
    for move, low, high in ((probit.near, 2e-12, 2e-10), (1.01 * probit.near, 0.0, 1e-15)):
        moves = np.full((1, 8), move)
        log_p_near(eta, np.ones(1, dtype=np.int8), probit, moves)
        error = np.abs(moves - probit.log_p(eta + move, 1)).max()
        assert low <= error <= high


@LINKS
def test_between_the_series_and_far_moves_log_p_is_interpolated_to_rounding(family):
    eta, reach = np.linspace(-4.0, 4.0, 41), 7.0 * family.near if np.isfinite(family.near) else 1.0
    moves = np.random.default_rng(0).uniform(-reach, reach, (len(eta), 200))
    y = np.where(np.arange(len(eta)) % 2, 1, -1).astype(np.int8)
    at, side, rest, exact = eta[:, None], y[:, None], moves.copy(), family.log_p(eta[:, None] + moves, y[:, None])
    quadratic = family.log_p(at, side) + moves * (family.score(at, side) - 0.5 * moves * family.curvature(at, side))
    log_p_near(eta, y, family, moves)
    remainders_near(eta, y, family, rest)
    np.testing.assert_allclose(moves, exact, rtol=1e-14, atol=5e-13)
    np.testing.assert_allclose(rest, exact - quadratic, rtol=0.0, atol=5e-13)


@pytest.mark.parametrize("name", [*FAMILIES, "negative_binomial(2.5)"])
@pytest.mark.parametrize(("n_features", "filled"), [(3, 1.0), (WIDE, 1.0), (WIDE, 0.03)])
def test_gradients_at_draws_are_sums_over_the_rows(name, n_features, filled):
    family, rng = check_family(name), np.random.default_rng(3)
    rows = data(1500, n_features)
    rows = replace(rows, X=rows.X * (rng.random(rows.X.shape) < filled), offset=rng.normal(size=1500))
    draws = 0.1 * rng.normal(size=(150, n_features))
    eta = rows.with_offset(rows.X @ draws.T)
    expected = (rows.weights[:, None] * family.score(eta, rows.y[:, None])).T @ rows.X
    np.testing.assert_allclose(score(draws, rows, family), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@LINKS
@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_tiles_of_log_p_over_draws(family, scale):
    rows, rng = data(700, 3), np.random.default_rng(2)
    draws = rng.normal(size=3) + scale * rng.normal(size=(500, 3))
    tiles = list(log_likelihood_tiles(draws, rows, family))
    assert len(tiles) > 1
    found = np.concatenate([log_p for _, log_p in tiles])
    np.testing.assert_allclose(found, family.log_p(rows.X @ draws.T, rows.y[:, None]), rtol=1e-11, atol=2e-10)
    one = next(log_likelihood_tiles(draws[:1], rows, family))[1]
    np.testing.assert_allclose(one[:, 0], family.log_p(rows.X @ draws[0], rows.y), rtol=1e-11, atol=1e-300)
