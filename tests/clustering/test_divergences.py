"""Divergences against their formulas, and their domains."""

from functools import partial

import numpy as np
import pytest
from scipy.special import rel_entr

from bayescore.clustering import ITAKURA_SAITO, KULLBACK_LEIBLER, SQUARED_EUCLIDEAN, Noisy, k_variates, total_jensen
from bayescore.clustering.divergences import check_divergence, divergences
from bayescore.validation import DataError

GENERATOR = {
    "square": lambda t: (t**2).sum(-1),
    "entropy": lambda t: (t * np.log(t)).sum(-1),
    "burg": lambda t: -np.log(t).sum(-1),
}


def rows(n=70, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 5.0, (n, 3)), rng.uniform(0.1, 5.0, (4, 3))


def test_bregman_divergences_are_their_formulas():
    X, C = rows()
    x, c = X[:, None, :], C[None, :, :]
    for divergence, expected in (
        (SQUARED_EUCLIDEAN, (x - c) ** 2),
        (KULLBACK_LEIBLER, rel_entr(x, c) - x + c),
        (ITAKURA_SAITO, x / c - np.log(x / c) - 1.0),
    ):
        np.testing.assert_allclose(divergences(X, C, divergence), expected.sum(axis=2), rtol=1e-12)
        assert (np.diag(divergences(X, X, divergence)) == 0.0).all()


@pytest.mark.parametrize("generator", list(GENERATOR))
@pytest.mark.parametrize("alpha", [0.5, 0.2])
def test_the_total_jensen_divergence_is_its_formula(generator, alpha):
    X, C = rows()
    F = GENERATOR[generator]
    x, c = X[:, None, :], C[None, :, :]
    jensen = (alpha * F(x) + (1 - alpha) * F(c) - F(alpha * x + (1 - alpha) * c)) / (alpha * (1 - alpha))
    square = ((x - c) ** 2).sum(axis=2)
    expected = np.sqrt(square / (square + (F(x) - F(c)) ** 2)) * jensen
    divergence = total_jensen(generator, alpha)
    np.testing.assert_allclose(divergences(X, C, divergence), expected, rtol=1e-9)
    assert (np.diag(divergences(X, X, divergence)) == 0.0).all()


def test_the_mean_is_the_best_center_of_a_bregman_divergence():
    X, C = rows()
    for divergence in (SQUARED_EUCLIDEAN, KULLBACK_LEIBLER, ITAKURA_SAITO):
        best = divergences(X, X.mean(axis=0)[None], divergence).sum()
        assert best < divergences(X, np.vstack([C, X.mean(axis=0) + 0.01]), divergence).sum(axis=0).min()


@pytest.mark.parametrize("divergence", [KULLBACK_LEIBLER, ITAKURA_SAITO, total_jensen()])
def test_seeding_by_a_divergence_finds_clusters_at_its_scale(divergence):
    rng = np.random.default_rng(1)
    levels = np.array([1e-3, 1.0, 1e3]) if divergence is ITAKURA_SAITO else np.array([1.0, 30.0, 1000.0])
    X = np.repeat(levels, 50)[:, None] * rng.uniform(0.9, 1.1, (150, 2))
    hits = [len(set(k_variates(X, 3, divergence=divergence, random_state=s).labels[[0, 50, 100]])) for s in range(20)]
    assert np.mean(hits) > 2.8


def test_rows_outside_the_domain_and_unknown_divergences():
    X = np.array([[1.0, 2.0], [3.0, 0.0], [4.0, 1.0]])
    for divergence in ("itakura_saito", KULLBACK_LEIBLER, total_jensen("burg")):
        with pytest.raises(DataError, match=r"X is 0 in row 1, column 1; .* positive entries: add a small constant"):
            k_variates(X, 2, divergence=divergence)
    k_variates(X, 2, divergence=total_jensen("square"))
    below = partial(Noisy, noise=lambda center, rng: center - 9.0)
    with pytest.raises(DataError, match=r"a center drawn from the density is -.* needs positive entries"):
        k_variates(X + 1.0, 2, density=below, divergence="kullback_leibler")
    with pytest.raises(ValueError, match=r"divergence='cosine' is unknown; choose one of 'squared_euclidean'"):
        check_divergence("cosine")
    with pytest.raises(ValueError, match="generator='log' is unknown"):
        total_jensen("log")
    with pytest.raises(ValueError, match="alpha=1 must be above 0 and below 1"):
        total_jensen(alpha=1.0)
