"""What is equal but for rounding is chosen alike, whatever the processor."""

import numpy as np
import pytest

from bayescore.coresets.condensed import Condensation
from bayescore.coresets.pilot import Shares
from bayescore.coresets.pseudo_rows import GaussianDensity, Solved, as_rows, largest, oriented, root_of, rounded
from bayescore.families.family import check_family
from bayescore.models.laplace import LaplaceApproximation, factor_of_inverse
from bayescore.models.posterior import Derivatives
from bayescore.numerics.sampling import Candidates
from tests.conftest import make_rows

SIGNS = [1.0, -1.0]


def jittered(values, seed=0):
    """Return values moved by some units in the last place, as another BLAS kernel would."""
    return values * (1.0 + 4e-16 * np.random.default_rng(seed).integers(-3, 4, np.shape(values)))


def test_rounded_values_tie_and_keep_nine_digits():
    values = np.random.default_rng(0).lognormal(0.0, 20.0, 1000)
    np.testing.assert_allclose(rounded(values), values, rtol=1e-9)
    assert (rounded(jittered(values)) == rounded(values)).mean() > 0.999
    assert (rounded(values * (1.0 + 3e-9)) > rounded(values)).all()
    assert rounded(np.array([0.0, np.inf])).tolist() == [0.0, np.inf]


def test_the_first_of_the_largest_is_taken():
    assert largest(np.array([0.5, 1.0, 1.0 + 1e-15])) == 1
    assert largest(np.array([0.5, 1.0, 1.0 + 1e-5])) == 2
    assert largest(np.zeros(3)) == 0


@pytest.mark.parametrize("sign", SIGNS)
def test_signs_of_eigenvectors_do_not_hang_on_their_last_bits(sign):
    """Two entries of the same size and of unlike sign: the larger of them by rounding must not decide."""
    Q = sign * np.array([[1.0, 1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) / np.sqrt(2.0)
    for seed in range(5):
        np.testing.assert_allclose(oriented(jittered(Q, seed)), sign * Q, atol=1e-14)


def columns(kind):
    """Return columns that leave a direction out: one of zeros, which rounding fills, or one that is there twice."""
    X = np.random.default_rng(1).normal(size=(200, 4))
    extra = 1e-17 * np.random.default_rng(2).normal(size=200) if kind == "zeros" else X[:, 1]
    return np.column_stack([X[:, :2], extra, X[:, 2:]])


@pytest.mark.parametrize("kind", ["zeros", "twice"])
def test_roots_of_too_few_directions_do_not_hang_on_last_bits(kind):
    """Rounding in a column of zeros, scaled to length 1, chose the directions of all others."""
    X = columns(kind)
    roots = []
    for seed in range(4):
        moved = jittered(X, seed) if kind == "twice" else X + 1e-17 * np.random.default_rng(seed).normal(size=X.shape)
        precision = moved.T @ moved
        roots.append(root_of(precision, factor_of_inverse(precision + np.eye(5))))
    assert roots[0].root.shape == (5, 4)
    np.testing.assert_allclose(roots[0].root @ roots[0].root.T, X.T @ X, atol=1e-10)
    for root in roots[1:]:
        np.testing.assert_allclose(root.root, roots[0].root, atol=1e-8)
        np.testing.assert_allclose(root.dual, roots[0].dual, atol=1e-8)


def test_a_pseudo_row_has_no_row_whose_weight_is_rounding():
    half = np.full(3, 0.5)
    solved = Solved(4.0 * half, 0.0 * half, half, np.array([0.0, 1e-17, 1e-3]), np.ones(3))
    rows = as_rows(np.eye(3), np.zeros(3), solved)
    assert rows.weights.tolist() == [0.5, 0.5, 1e-3, 0.5]
    assert rows.y.tolist() == [1, 1, -1, 1]


def kept_rows(monkeypatch, seed):
    """Return which 25 of 600 rows are kept, sixty distinct ones ten times each, if their reach is moved by rounding."""
    rows = make_rows(60, weights=False).take(np.tile(np.arange(60), 10))
    at = LaplaceApproximation(check_family("logistic"), np.zeros(3), np.eye(3))
    shares = Shares(at, 1.0, 1.0, 1.0, 1.0, float(len(rows)))
    monkeypatch.undo()
    reach = shares.far(at.row_scores(rows), rows.weights)
    far = Candidates(reach, np.arange(600.0), np.arange(600), rows)
    monkeypatch.setattr(Shares, "far", lambda *_: jittered(reach, seed))
    terms = Derivatives(0.0, np.zeros(3), np.eye(3))
    found = Condensation(GaussianDensity(at), terms, terms, far, float(reach.sum()), 10, shares)
    return found.split(25)[0].index


def test_of_equal_rows_the_first_are_kept(monkeypatch):
    first = kept_rows(monkeypatch, 0)
    for seed in (1, 2):
        np.testing.assert_array_equal(kept_rows(monkeypatch, seed), first)
