"""Trying a coreset out: predicted errors against exact ones, the sampled log-likelihood, and rows that move."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bayescore.coresets.predicted_error import N_DRAWS, FullDataPosterior, tempered, try_out
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.families.family import FAMILIES
from bayescore.limits import MIN_ESS_SHARE
from bayescore.models.laplace import Expansion, Transport, find_mode
from bayescore.models.posterior import likelihood_terms, log_likelihoods, posterior
from bayescore.numerics.moments import WeightedDraws, _correlation_noise, _moments, errors_between, importance
from bayescore.numerics.sampling import distinct, draw_candidates, hash_uniforms, select
from bayescore.priors import Laplace, Normal
from bayescore.types import WeightedData, stack

logistic = FAMILIES["logistic"]
PRIOR = Normal(0.0, 4.0)


def normal_pair(shift, covariance, seed=0, n=2000):
    """Return draws of N(0, I_3) and, moved, of N(shift e_1, covariance)."""
    draws = np.random.default_rng(seed).standard_normal((n, 3))
    mean = np.array([shift, 0.0, 0.0])
    moved = Transport.between(np.zeros(3), np.eye(3), mean, np.linalg.inv(covariance))(draws)
    return WeightedDraws(draws, np.zeros(n)), WeightedDraws(moved, np.zeros(n))


@pytest.mark.parametrize(("shift", "scale", "r"), [(0.3, 1.0, 0.0), (0.0, 0.8, 0.3), (-0.5, 0.9, -0.1), (0.0, 1, 0.0)])
def test_predicted_errors_of_normal_posteriors(shift, scale, r):
    """The draws' noise is shared: errors are known to some 0.001 from 2000 draws, whose own means are off by 0.02."""
    covariance = np.array([[scale**2, scale * r, 0.0], [scale * r, 1.0, 0.0], [0.0, 0.0, 1.0]])
    found = errors_between(*normal_pair(shift, covariance))
    # the difference of means of draws with other sds has some of their noise left
    assert found.mean == pytest.approx(abs(shift) / scale, abs=0.005 + 0.1 * abs(1.0 - scale))
    assert found.sd == pytest.approx(abs(1.0 / scale - 1.0), abs=0.005 + 0.05 * abs(r))
    assert found.correlation == pytest.approx(abs(r), abs=0.02 * (r != 0) + 1e-9)


@pytest.mark.statistical(rate=1e-6)
def test_weights_tell_errors_of_shape():
    """Importance weights of N(0.2, 1) on draws of N(0, 1): 0.2; over 200 seeds the sd is 0.0011, and 9 are allowed."""
    draws = np.random.default_rng(1).standard_normal((20_000, 2))
    other = WeightedDraws(draws, 0.2 * draws[:, 0])
    assert errors_between(WeightedDraws(draws, np.zeros(20_000)), other).mean == pytest.approx(0.2, abs=0.01)
    assert errors_between(other, other) == (0.0, 0.0, 0.0)


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("spread", [0.0, 0.2, 0.4])
def test_a_lone_error_among_thousands_is_told(spread):
    """One correlation of 4,950 off by 0.4, one mean of 100 by 0.3, log weights of both posteriors with this sd.

    Over 200 seeds either has an sd of 0.03 at most; 6 of them allowed. Shrunk by the noise of all, the correlation was
    said to be off by 0.03. Without them noise alone, the largest of 100 means and of 4,950 correlations, is not told as
    an error of 0.2, which is 7 sds of one.
    """
    rng = np.random.default_rng(3)
    S, D = 500, 100
    draws, u, v = rng.standard_normal((S, D)), rng.normal(0, spread, S), rng.normal(0, spread, S)
    off = draws.copy()
    off[:, 1] = 0.4 * draws[:, 0] + math.sqrt(1.0 - 0.4**2) * draws[:, 1]
    off[:, 7] += 0.3
    other = WeightedDraws(draws, v)
    found = errors_between(WeightedDraws(off, u), other)
    assert found.mean == pytest.approx(0.3, abs=0.18)
    assert found.correlation == pytest.approx(0.4, abs=0.18)
    alone = errors_between(WeightedDraws(draws, u), other)
    assert alone.mean < 0.2
    assert alone.correlation < 0.2


@pytest.mark.statistical(rate=1e-6)
def test_noise_of_correlations():
    """Standard errors of differences of correlations, r = 0.9 too: those of 400 repeats, within 25%.

    The sd of 400 repeats is known to 3.5%, so that 25% are 7 of its errors.
    """
    rng = np.random.default_rng(4)
    cut = np.linalg.cholesky(np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.0], [0.1, 0.0, 1.0]]))
    differences, variances = [], []
    for _ in range(400):
        draws, u = rng.standard_normal((300, 3)) @ cut.T, rng.normal(0, 0.4, (2, 300))
        a, b = (_moments(WeightedDraws(draws, each)) for each in u)
        differences.append(a.correlation - b.correlation)
        variances.append(_correlation_noise(a, b))
    lower = np.tril_indices(3, -1)
    np.testing.assert_allclose(
        np.sqrt(np.mean(variances, axis=0))[lower], np.std(differences, axis=0)[lower], rtol=0.25
    )


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


def problem_of(rows, size=len, prior=PRIOR, seed=5):
    """Return the posterior of rows about its mode, and the sample of them that remainders are estimated from."""
    mode = find_mode(posterior(rows, logistic, prior).terms, np.zeros(rows.n_features), tolerance=0.01)
    part = likelihood_terms(mode.beta, rows, logistic)
    found, total = draw_candidates(Dataset(as_source(rows)), lambda block: 0.1 + np.abs(block.X[:, 0]), size, seed)
    sample = select(found, size, total)
    return FullDataPosterior(logistic, prior, Expansion(logistic, mode.beta, part, sample.expanded(), sample.inclusion))


@pytest.fixture(scope="module")
def tried():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5000, 3))
    source = as_source(X, X[:, 0] + rng.logistic(size=5000) > 0, label=None, weights=None)
    rows = stack(list(source.blocks()))
    few = rows.take(slice(0, 300)).with_weights(np.full(300, 5000 / 300))
    trial = try_out(problem_of(rows, 1000), few, 0)
    return source, rows, few, trial, trial.over_all_rows(Dataset(source), draw_seed=1, size=100)


@pytest.mark.statistical(rate=1e-6)
def test_a_sample_of_rows_tells_the_log_likelihood_within_its_standard_error(tried):
    """Errors over 40 samples: their root mean square, known to some 6%, is the one stated, within 40%."""
    _, rows, _, trial, _ = tried
    truth = log_likelihoods(trial.full.draws, rows, logistic)
    squares, stated = [], []
    for seed in range(40):
        values, error = problem_of(rows, 1000, seed=seed).expansion.at_draws(trial.full.draws)
        squares.append(((values - truth) - (values - truth).mean()).var())
        stated.append(error)
    assert np.sqrt(np.mean(squares)) == pytest.approx(np.mean(stated), rel=0.4)
    assert np.mean(stated) < 0.1 * truth.std()
    # all rows: no error, and the same values
    values, error = problem_of(rows, 5000).expansion.at_draws(trial.full.draws)
    assert error == 0.0
    np.testing.assert_allclose(values, truth, rtol=1e-9)


def test_a_trial_passes_over_all_rows(tried):
    _, rows, _, first, trial = tried
    assert first.candidates is None
    assert first.error > trial.error == 0.0
    draws = trial.full.draws
    np.testing.assert_allclose(trial.values, log_likelihoods(draws, rows, logistic), rtol=1e-10)
    ratio = trial.values + trial.problem.log_prior(draws) - trial.base.log_density
    np.testing.assert_allclose(trial.full.log_weights - ratio, (trial.full.log_weights - ratio)[0], atol=1e-8)
    moves = rows.weights * logistic.log_p(rows.X @ draws.T, rows.y[:, None]).std(axis=1)
    np.testing.assert_allclose(trial.probability(rows), moves, rtol=1e-6)
    assert trial.total == pytest.approx(moves.sum())
    assert len(draws) == N_DRAWS
    # of the 100 rows with the largest moves and the 100 with the smallest keys, and one more of each; no others
    keys = hash_uniforms(0, len(rows), 1) / moves
    expected = np.union1d(np.argsort(-moves)[:101], np.argsort(keys)[:101])
    np.testing.assert_array_equal(trial.candidates.position, expected)


@pytest.mark.parametrize("prior", [PRIOR, Laplace(0.0, 0.05)])
def test_errors_of_a_sample_and_of_all_rows(tried, prior):
    """A uniform draw of 300 is off by about sqrt(5000 / 300) = 4 sd where the prior is weak; all rows by nothing."""
    _, rows, few, _, _ = tried
    trial = try_out(problem_of(rows, 5000, prior=prior), few, 0)
    own, full = (find_mode(posterior(data, logistic, prior).terms, np.zeros(3)) for data in (few, rows))
    found = trial.errors(few)
    if prior == PRIOR:
        assert found.mean == pytest.approx(np.abs((own.beta - full.beta) / full.sd).max(), rel=0.1)
        assert found.sd == pytest.approx(np.abs(own.sd / full.sd - 1.0).max(), abs=0.03)
    assert found.mean > 0.5
    assert max(trial.errors(rows)) < 0.01
    assert trial.shape_error(rows) < 0.01


def test_posteriors_that_do_not_overlap_are_said_to_be_far_apart(tried):
    """By the sd of the log weights, which moved draws leave at 0 here: 6, by construction."""
    _, rows, few, _, trial = tried
    first = trial.full.draws[:, 0]
    apart = WeightedDraws(trial.full.draws, 6.0 * (first - first.mean()) / first.std())
    found = replace(
        trial,
        full=WeightedDraws(apart.draws, trial.problem.weighted_draws(few, trial.base).log_weights + apart.log_weights),
    )
    assert found.errors(few) == pytest.approx((6.0, 6.0, 6.0))
    assert found.shape_error(few) == math.inf
    # whereas a posterior 28 sd away, of rows of one label, is moved over: the error is known
    one = few.take(few.y > 0)
    one = WeightedData(one.X * np.array([50.0, 1.0, 1.0]), one.y, one.weights, one.index)
    far = try_out(problem_of(rows, 5000), one, 0)
    assert far.errors(one).mean == pytest.approx(27.6, rel=0.1)


def test_shares_of_all_rows_meet_the_totals(tried):
    _, rows, few, _, trial = tried
    shares, totals = trial.shares_and_totals(rows)
    np.testing.assert_allclose(shares.sum(axis=1), totals, atol=1e-8)
    shares, totals = trial.shares_and_totals(few)  # negative control: a sample misses them
    assert np.abs(shares.sum(axis=1) - totals).max() > 0.1


def test_candidates_of_several_draws_hold_each_row_once(tried):
    source, _, _, _, trial = tried
    more, _ = draw_candidates(Dataset(source), lambda block: block.weights, 100, 1)
    both = distinct([trial.candidates, more])
    assert len(set(both.position.tolist())) == len(both.position) == len(both.rows)
    np.testing.assert_array_equal(both.rows.index, both.position)
