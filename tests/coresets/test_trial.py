"""Trying a coreset out: predicted errors against exact ones of normal posteriors, and the draw of rows that move."""

import numpy as np
import pytest

from bayescore.coresets.calibration.trial import N_DRAWS, Trial, importance, tempered, try_out
from bayescore.coresets.draws.draw import hash_uniforms
from bayescore.coresets.draws.fixed_size import Candidates, distinct, draw_candidates
from bayescore.data.opened import Opened
from bayescore.data.sources import as_source
from bayescore.limits import MIN_ESS_SHARE
from bayescore.models.likelihoods import LIKELIHOODS
from bayescore.models.posterior import log_likelihoods
from bayescore.models.priors import Normal
from bayescore.types import WeightedData, stack

logistic = LIKELIHOODS["logistic"]


def normal_trial(shift, scale, seed=0, n=20_000):
    """Return a trial whose draws are N(0, I_3); the full data's posterior is N(shift e_1, diag(scale^2, 1, 1))."""
    draws = np.random.default_rng(seed).standard_normal((n, 3))
    own = np.zeros(n)
    full = 0.5 * draws[:, 0] ** 2 - 0.5 * (draws[:, 0] - shift) ** 2 / scale**2
    nothing = WeightedData(np.zeros((1, 3)), np.ones(1, np.int8), np.ones(1), np.zeros(1, np.int64))
    empty = Candidates(np.ones(1), np.ones(1), np.zeros(1, np.int64), nothing)
    return Trial(logistic, draws, own, full, empty, 1.0), nothing


@pytest.mark.statistical
@pytest.mark.parametrize(("shift", "scale"), [(0.3, 1.0), (0.0, 0.8), (-0.5, 0.9)])
def test_predicted_errors_of_normal_posteriors(shift, scale):
    """Errors to first order, with Monte Carlo sds of at most 0.01: 5 of them are allowed, false alarm 1e-6 each."""
    trial, nothing = normal_trial(shift, scale)
    mean, sd = trial.errors(nothing)  # rows of zeros: a constant log-likelihood, so the posterior of the draws
    assert mean == pytest.approx(abs(shift) / scale, abs=0.05)
    assert sd == pytest.approx(abs(1 + (shift / scale) ** 2 - 1 + (1 / scale**2 - 1)) / 2, abs=0.08)
    wrong, _ = normal_trial(0.05, 1.0)  # negative control: a full-data posterior with a far smaller error
    assert wrong.errors(nothing)[0] == pytest.approx(0.05, abs=0.03)


def test_posteriors_that_do_not_overlap_are_said_to_be_far_apart():
    """By the sd of the difference of the log-likelihoods, here 6 x - 18: 6, known to 0.03 (five of them allowed)."""
    trial, nothing = normal_trial(6.0, 1.0)
    assert trial.errors(nothing) == pytest.approx((6.0, 6.0), abs=0.15)


def test_importance_weights_are_cut_off_and_tempered():
    ratio = np.zeros(400)
    ratio[7] = 6.0
    weights = importance(ratio)
    assert weights.sum() == pytest.approx(1.0)
    assert weights[7] < 0.2 < np.exp(6.0) / (np.exp(6.0) + 399)
    ratio[7] = 50.0
    soft = tempered(ratio)
    assert 1 / (soft**2).sum() >= MIN_ESS_SHARE * 400
    np.testing.assert_allclose(tempered(np.zeros(400)), 1 / 400)


@pytest.fixture(scope="module")
def tried():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5000, 3))
    source = as_source(X, X[:, 0] + rng.logistic(size=5000) > 0, label=None, weights=None)
    rows = stack(list(source.blocks()))
    few = rows.take(slice(0, 300)).with_weights(np.full(300, 5000 / 300))
    return (
        source,
        rows,
        few,
        try_out(Opened(source), few, logistic, Normal(0.0, 4.0), np.zeros(3), seed=0, draw_seed=1, size=100),
    )


def test_a_trial_passes_over_all_rows(tried):
    _, rows, few, trial = tried
    np.testing.assert_allclose(trial.full, log_likelihoods(trial.draws, rows, logistic), rtol=1e-10)
    np.testing.assert_allclose(trial.own, log_likelihoods(trial.draws, few, logistic), rtol=1e-10)
    moves = rows.weights * logistic.log_p(rows.Z @ trial.draws.T).std(axis=1)
    np.testing.assert_allclose(trial.probability(rows), moves, rtol=1e-6)
    assert trial.total == pytest.approx(moves.sum())
    assert len(trial.draws) == N_DRAWS
    # of the 100 rows with the largest moves and the 100 with the smallest keys, and one more of each; no others
    keys = hash_uniforms(0, len(rows), 1) / moves
    expected = np.union1d(np.argsort(-moves)[:101], np.argsort(keys)[:101])
    np.testing.assert_array_equal(trial.candidates.position, expected)


def test_shares_of_all_rows_meet_the_totals(tried):
    _, rows, few, trial = tried
    shares, totals = trial.shares_and_totals(rows)
    np.testing.assert_allclose(shares.sum(axis=1), totals, atol=1e-8)
    shares, totals = trial.shares_and_totals(few)  # negative control: a sample misses them
    assert np.abs(shares.sum(axis=1) - totals).max() > 0.1


def test_candidates_of_several_draws_hold_each_row_once(tried):
    source, _, _, trial = tried
    both = distinct([trial.candidates, draw_candidates(Opened(source), lambda block: block.weights, 100, 1)])
    assert len(set(both.position.tolist())) == len(both.position) == len(both.rows)
    np.testing.assert_array_equal(both.rows.index, both.position)
