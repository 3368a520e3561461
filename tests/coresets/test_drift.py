"""Errors of nodes' scores; that they have the right size on trees is tested in `test_tree`."""

import numpy as np
import pytest

from bayescore.coresets.drift import (
    CarriedError,
    add_by_anchor,
    errors_at,
    mode_error,
    scale_at,
    score_covariance,
    score_error_of_rows,
)
from bayescore.families.family import FAMILIES
from bayescore.priors import Normal
from bayescore.types import WeightedData, stack

RNG = np.random.default_rng(4)
X = RNG.normal(size=(200, 3))
ROWS = WeightedData(
    X, np.where(X[:, 0] + RNG.logistic(size=200) > 0, 1, -1).astype(np.int8), RNG.uniform(20, 40, 200), np.arange(200)
)
LINK, PRIOR = FAMILIES["logistic"], Normal(0.0, 4.0)
A, THETA = np.array([0.2, 0.0, 0.0]), np.array([1.0, 0.3, -0.2])


def psd(seed):
    root = np.random.default_rng(seed).normal(size=(3, 3))
    return root @ root.T


def test_the_mode_s_error_is_two_sds_of_the_worst_coordinate():
    precision, parts = psd(1) + np.eye(3), [CarriedError(A, THETA, psd(2)), CarriedError(THETA, THETA, psd(3))]
    inverse = np.linalg.inv(precision)
    draws = np.random.default_rng(5).multivariate_normal(np.zeros(3), psd(2) + psd(3), 400_000) @ inverse
    sds = draws.std(axis=0) / np.sqrt(np.diagonal(inverse))
    assert mode_error(parts, precision) == pytest.approx(2 * sds.max(), rel=0.01)
    assert mode_error([], precision) == 0.0


def test_errors_of_one_anchor_add_up():
    first, second = add_by_anchor(
        [CarriedError(A, THETA, psd(1)), CarriedError(THETA, THETA, psd(2)), CarriedError(A.copy(), THETA, psd(3))]
    )
    np.testing.assert_allclose(first.covariance, psd(1) + psd(3))
    np.testing.assert_array_equal(second.covariance, psd(2))


def test_nothing_is_missed_where_the_totals_were_met_and_more_the_farther_off():
    def missed(theta):
        return np.trace(score_covariance(ROWS, A, theta, LINK, PRIOR))

    here = missed(A)
    near, far = missed(A + 0.2 * (THETA - A)), missed(THETA)
    assert here < 1e-12 * far
    assert 20 * near < far  # of third order: 5^4 in the covariance, and 5^2 at the least


def test_copies_say_nothing_and_few_rows_too_little():
    plain = score_covariance(ROWS, A, THETA, LINK, PRIOR)
    halves = stack([ROWS.with_weights(ROWS.weights / 2), ROWS.with_weights(ROWS.weights / 2)])
    np.testing.assert_allclose(score_covariance(halves, A, THETA, LINK, PRIOR), plain, rtol=1e-6)
    few = ROWS.take(np.arange(12))
    assert np.isnan(score_covariance(few, A, THETA, LINK, PRIOR)).all()


def test_a_node_s_errors_are_its_own_share_and_what_it_carries():
    own = score_covariance(ROWS, A, THETA, LINK, PRIOR)
    carried = CarriedError(THETA, A, psd(6))
    missed, scale = score_error_of_rows(ROWS, LINK, PRIOR), scale_at(ROWS, THETA, LINK, PRIOR)[0].factor
    [mine, before] = errors_at(THETA, A, 0.5, [carried], missed=missed, scale=scale)
    np.testing.assert_array_equal(mine.covariance, 0.5 * own)
    growth = before.covariance / carried.covariance
    assert growth.std() < 1e-9 * growth.mean()
    assert 1.0 <= growth.mean() <= 1e4
    [same] = errors_at(A, A, 0.5, [carried], missed=missed, scale=scale)  # nothing of its own at its anchor
    assert same is carried
