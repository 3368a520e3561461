"""Leverage scores against the dense SVD and their own laws; sketches; on-line scores; coresets drawn by them."""

import math

import numpy as np
import pytest

from bayescore import build_coreset
from bayescore.coresets import leverage as leverage_coreset
from bayescore.coresets import scores as factor
from bayescore.coresets.leverage import RATE_BITS, leverage_scores, leverage_size, rates_of, scorer, scores_of
from bayescore.coresets.scores import block_factor, joined_factor, r_factor, whitening
from bayescore.data.dataset import Dataset
from bayescore.data.source import MAX_BLOCK_ROWS
from bayescore.data.sources import as_source, unlabelled
from bayescore.papers import online_scores_by_row
from bayescore.types import WeightedData
from bayescore.validation import DataError
from tests.cuts import Recut, build_in_blocks


def dense(X, w=None, rank=None):
    """Leverage scores from the singular vectors of the whole matrix, columns at unit length."""
    X = X if w is None else np.sqrt(w)[:, None] * X
    length = np.linalg.norm(X, axis=0)
    U, values, _ = np.linalg.svd(X / np.where(length > 0.0, length, 1.0), full_matrices=False)
    rank = int((values > 1e-12 * values[0]).sum()) if rank is None else rank
    return (U[:, :rank] ** 2).sum(axis=1), rank


def extended(X):
    """Leverage scores of a matrix of full rank in extended precision, by Gram-Schmidt done twice."""
    Q = X.astype(np.longdouble)
    for _ in range(2):
        for j in range(Q.shape[1]):
            for i in range(j):
                Q[:, j] -= (Q[:, i] @ Q[:, j]) * Q[:, i]
            Q[:, j] /= np.sqrt(Q[:, j] @ Q[:, j])
    return (Q**2).sum(axis=1).astype(float)


def relative(scores, truth):
    return float(np.abs(scores / truth - 1.0).max())


_rng = np.random.default_rng(4)
N = 3000
NORMAL = _rng.normal(size=(N, 6))
W = _rng.uniform(0.05, 50.0, N)
LEVELS = np.column_stack([np.arange(N) % 7 == k for k in range(6)] + [np.arange(N) == 17]).astype(float)
LEVELS[:, 6] += np.arange(N) % 7 == 6  # row 17 has two levels
DESIGNS = {
    "full rank": (NORMAL, 6),
    "column scales from 1e-4 to 1e4": (NORMAL * np.logspace(-4.0, 4.0, 6), 6),
    "all levels beside an intercept": (np.column_stack([np.ones(N), LEVELS[:, :6], np.arange(N) % 7 == 6]), 7),
    "repeated and dependent columns": (
        np.column_stack([NORMAL, 3e6 * NORMAL[:, 0], NORMAL[:, 1] + 1e3 * NORMAL[:, 2], np.zeros(N)]),
        6,
    ),
    "a level of one row": (np.column_stack([np.ones(N), LEVELS]), 8),
    "fewer rows than columns": (_rng.normal(size=(5, 9)), 5),
    "one column": (NORMAL[:, :1], 1),
    "heavy tails": (_rng.standard_cauchy((N, 5)), 5),
}


def in_blocks(X, w, scores="exact", **cut):
    return scores_of(Dataset(unlabelled(X, w), **cut), scores, project=False, seed=0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("design", DESIGNS)
def test_exact_scores_are_those_of_the_dense_svd(design, weighted):
    X, rank = DESIGNS[design]
    w = W[: len(X)] if weighted else None
    truth, found = dense(X, w)
    assert found == rank
    for step in (10**6, 700, 20):
        scores = in_blocks(X, w, block_rows=step)
        assert relative(scores, truth) < 1e-10
        assert scores.sum() == pytest.approx(rank, rel=1e-10)


def test_condition_number_1e8():
    """1e-10 where scales make the condition number; where collinearity does, no worse than the dense SVD.

    There the dense SVD itself is off by the machine epsilon times the condition number.
    """
    scales = NORMAL * np.logspace(-4.0, 4.0, 6)
    assert np.linalg.cond(scales) > 5e7
    assert relative(leverage_scores(scales), dense(scales)[0]) < 1e-12
    assert relative(leverage_scores(scales), extended(scales)) < 1e-12
    left, right = np.linalg.qr(NORMAL)[0], np.linalg.qr(NORMAL[:6])[0]
    collinear = left * np.logspace(0.0, -8.0, 6) @ right.T
    assert np.linalg.cond(collinear) > 5e7
    truth = extended(collinear)
    ours, theirs = relative(leverage_scores(collinear), truth), relative(dense(collinear, rank=6)[0], truth)
    assert 1e-10 < theirs < 1e-6
    assert ours < max(theirs, 5e-8)
    normal_equations = np.einsum("nd,de,ne->n", collinear, np.linalg.pinv(collinear.T @ collinear), collinear)
    assert relative(normal_equations, truth) > 1e-3  # what X'X would have cost


def test_factors_merge_in_any_order():
    a, b, c = (block_factor(WeightedData(NORMAL[i::3], np.ones(1000), W[i::3], np.arange(1000))) for i in range(3))
    whole = r_factor(np.sqrt(W)[:, None] * NORMAL)
    for merged in (joined_factor(a, joined_factor(b, c)), joined_factor(joined_factor(c, a), b)):
        np.testing.assert_allclose(merged.T @ merged, whole.T @ whole, rtol=1e-10)
    empty = np.empty((0, 6))
    np.testing.assert_allclose(np.abs(joined_factor(empty, a)), np.abs(a), rtol=1e-12)
    assert whitening(r_factor(np.zeros((5, 3)))).rank == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_signs_order_and_scales_change_nothing(weighted):
    X, w = DESIGNS["a level of one row"][0], W if weighted else None
    scores = leverage_scores(X, w)
    signs, order = np.where(np.arange(N) % 3 == 0, -1.0, 1.0), np.random.default_rng(0).permutation(N)
    assert relative(leverage_scores(X * signs[:, None], w), scores) < 1e-11
    assert relative(leverage_scores(X[order], None if w is None else w[order]), scores[order]) < 1e-11
    assert relative(leverage_scores(X * np.logspace(-30.0, 30.0, 8), w), scores) < 1e-11
    assert relative(leverage_scores(X, 1e-9 * (np.ones(N) if w is None else w)), scores) < 1e-11
    assert scores[17] == pytest.approx(1.0, abs=1e-12) or weighted


@pytest.mark.parametrize("scores", ["exact", "online"])
def test_weight_w_is_w_copies(scores):
    counts = 1 + np.arange(400) % 5
    one = leverage_scores(NORMAL[:400], counts.astype(float), scores)
    copies = leverage_scores(np.repeat(NORMAL[:400], counts, axis=0), scores=scores)
    np.testing.assert_allclose(np.bincount(np.repeat(np.arange(400), counts), copies), one, rtol=1e-11)
    equal = [leverage_scores(NORMAL[:400], weights, scores) for weights in (np.full(400, 7.0), None)]
    np.testing.assert_allclose(*equal, rtol=1e-11)


# --- sketches -----------------------------------------------------------------------------------------------


def share_within(scores, truth, factor):
    ratio = scores / truth
    return float(((ratio >= 1.0 / factor) & (ratio <= factor)).mean())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("design", ["full rank", "all levels beside an intercept", "repeated and dependent columns"])
def test_sketched_scores_are_within_a_factor_2(design, weighted):
    X, _ = DESIGNS[design]
    w = W if weighted else None
    truth = leverage_scores(X, w)
    shares = [share_within(leverage_scores(X, w, "sketch", random_state=seed), truth, 2.0) for seed in range(20)]
    assert min(shares) > 0.99
    estimates = leverage_scores(X, w, "sketch", random_state=1)
    assert share_within(estimates, truth, 1.01) < 0.9  # estimates, not the scores
    assert (estimates < truth).any()


def test_the_sketch_depends_on_seed_and_position_alone():
    X, _ = DESIGNS["a level of one row"]
    whole = leverage_scores(X, W, "sketch", random_state=3)
    for step, workers in ((1, 2), (77, 1), (2048, 5)):
        cut = Dataset(Recut(unlabelled(X, W), step), cores=workers)
        np.testing.assert_array_equal(scores_of(cut, "sketch", project=False, seed=3), whole)
    assert not np.array_equal(leverage_scores(X, W, "sketch", random_state=4), whole)


def test_a_projection_is_used_where_it_is_smaller():
    wide = _rng.normal(size=(N, 20))  # ceil(log 3000) = 9
    truth = leverage_scores(wide)
    sketched, projected = (leverage_scores(wide, None, "sketch", project=p, random_state=0) for p in (False, True))
    assert share_within(sketched, truth, 2.0) > 0.99
    assert 0.8 < share_within(projected, truth, 2.0) < share_within(sketched, truth, 1.9)
    assert projected.sum() == pytest.approx(20.0, rel=0.6)
    same = (leverage_scores(NORMAL, None, "sketch", project=p, random_state=0) for p in (False, True))
    np.testing.assert_array_equal(*same)


def test_rows_that_share_a_bucket_are_not_lost(monkeypatch):
    """Two levels of one row each: where the sketch adds them up, it lacks a direction, and both leave its span."""
    monkeypatch.setattr(factor, "_LEAST", 3)
    source = unlabelled(np.column_stack([np.ones(500), np.arange(500) == 100, np.arange(500) == 300]))
    block, alone = next(source.blocks()), [100, 300]
    lost = 0
    for seed in range(60):
        white, score = scorer(Dataset(source), "sketch", project=False, seed=seed)
        assert (score(block)[alone] > 0.9).all()
        if white.rank < 3:
            lost += 1
            assert (white.leverage(block)[alone] < 0.5).all()
    assert 1 <= lost <= 20  # one in 9


# --- on-line ------------------------------------------------------------------------------------------------


def test_rows_that_cancel_are_not_lost(monkeypatch):
    """A level of two rows that meet in one bucket with opposite signs: its column of the sketch is all zeros."""
    monkeypatch.setattr(factor, "_LEAST", 2)
    source = unlabelled(np.column_stack([np.ones(500), np.isin(np.arange(500), [100, 300])]))
    block = next(source.blocks())
    scores = np.array(
        [scorer(Dataset(source), "sketch", project=False, seed=seed)[1](block)[[100, 300]] for seed in range(60)]
    )
    assert (scores > 0.2).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("design", DESIGNS)
def test_online_scores_are_upper_bounds_from_the_first_row_on(design, weighted, monkeypatch):
    X, rank = DESIGNS[design][0][:500], DESIGNS[design][1]
    w = W[: len(X)] if weighted else None
    exact = leverage_scores(X, w)
    by_row = online_scores_by_row(X, w)
    assert (by_row >= exact - 1e-6).all()
    assert by_row[0] == (1.0 if X[0].any() else 0.0)
    assert (by_row <= 1.0).all()
    assert (by_row == 1.0).sum() == rank  # while X'X is singular
    before = by_row
    for step in (1, 10, 333, 10**6):
        scores = in_blocks(X, w, "online", block_rows=step)
        assert (scores >= exact - 1e-6).all()
        assert (scores <= before + 1e-6).all() or step == 333  # whole blocks first: tighter
        if step == 1:
            np.testing.assert_allclose(scores, by_row, rtol=1e-6, atol=1e-9)
            assert scores.sum() > 1.5 * exact.sum() or len(X) < 100
        before = scores
    np.testing.assert_array_equal(scores, exact)


def test_the_check_refutes_scores_that_are_no_bounds():
    exact, by_row = leverage_scores(NORMAL[:500]), online_scores_by_row(NORMAL[:500])
    last = online_scores_by_row(NORMAL[:500][::-1])[::-1]  # against the rows to come: bounds as well
    assert (last >= exact - 1e-6).all()
    ahead = np.append(by_row[1:], by_row[0])  # the next row's
    assert (ahead < exact - 1e-6).any()


def test_the_sum_of_online_scores():
    """Its bound by determinants; and Lemma 9 as printed, with the rows' lengths for distances, is too small."""
    step = np.append(0.0, 2.0 ** np.arange(45))
    X = np.column_stack([np.ones(46), 1e-14 * step])
    total, distance = online_scores_by_row(X).sum(), 1e-14 / math.sqrt(2.0)  # of row 1 from row 0, about
    assert total > 0.7 * len(X)
    assert total <= 2.0 + np.linalg.slogdet(X.T @ X)[1] - 2.0 * math.log(distance * math.sqrt(2.0))
    printed = 2.0 + 2.0 * math.log(np.linalg.norm(X, 2) / np.linalg.norm(X, axis=1).min())
    assert total > 3.0 * printed


# --- bad arguments ------------------------------------------------------------------------------------------


def test_bad_arguments_of_the_scores():
    for arguments, error, message in (
        ({"scores": "lewis"}, ValueError, "scores='lewis' is unknown; choose one of 'exact', 'sketch', 'online'"),
        ({"project": True}, ValueError, "project=True goes with scores='sketch', not scores='exact'; leave it out"),
        ({"weights": [1.0, 0.0]}, DataError, "weights is 0 in row 1"),
        ({"random_state": -1}, ValueError, "random_state=-1"),
    ):
        with pytest.raises(error, match=message):
            leverage_scores(NORMAL[:2], **arguments)
    for scores in (leverage_scores, online_scores_by_row):
        with pytest.raises(DataError, match="column 'x1' is nan in row 2"):
            scores([[1.0, 1.0], [1.0, 2.0], [1.0, np.nan]])
    np.testing.assert_array_equal(leverage_scores(np.zeros((3, 2))), 0.0)


# --- rates and sizes ----------------------------------------------------------------------------------------


def test_rates_are_the_scores_rounded_up_to_powers_of_two():
    leverage = np.array([0.0, 0.25, 0.2500001, 1.0, 1e-9, 0.24])
    for weights, total in ((np.ones(6), 2.0**20), (np.array([1.0, 3.0, 0.1, 1e-3, 700.0, 5.0]), 12345.678)):
        a = leverage + weights / total
        s = rates_of(leverage, weights, total) / 2.0**RATE_BITS
        assert (s >= a * (1.0 - 1e-15)).all()
        assert (s < 2.0 * a * (1.0 + 1e-9)).all()
        np.testing.assert_allclose(np.log2(s / weights), np.rint(np.log2(s / weights)), atol=1e-8)
    assert rates_of(np.zeros(1), np.ones(1), 2.0**RATE_BITS).tolist() == [1]
    assert rates_of(np.zeros(1), np.ones(1), 2.0**20).tolist() == [2 ** (RATE_BITS - 20)]  # a power of two stays
    most = rates_of(np.ones(MAX_BLOCK_ROWS), np.full(MAX_BLOCK_ROWS, 0.999), 1.0)
    assert int(most.sum()) == sum(most.tolist())  # a block of the largest fits


def test_size_for_a_guarantee():
    base = {"n_features": 9, "epsilon": 0.1, "delta": 0.05, "mu": 2.0, "weight_span": 1e6}
    S, vc = (80.0 + 32.0) * 2.0 * 10.0, 10.0 * (3.0 + math.log2(1e6))
    size = math.ceil(S / 0.01 * (vc * math.log(S) + math.log(20.0)))
    assert leverage_size(**base) == size
    assert leverage_size(**base, c=0.5) == pytest.approx(size / 2, abs=1)
    assert S <= 2.0 * 192.0 * 2.0 * 9.0
    assert leverage_size(**base, total=15.0) < size < leverage_size(**base, total=30.0)
    for name, value in {"n_features": 10, "epsilon": 0.09, "delta": 0.04, "mu": 2.1, "weight_span": 2e6}.items():
        assert leverage_size(**{**base, name: value}) > size
    wrong = {"epsilon": (0.0, 0.5), "delta": (0.5,), "mu": (0.9,), "weight_span": (0.0,), "total": (0.0,), "c": (0.0,)}
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match=f"{name}={value:g} must be"):
                leverage_size(**{**base, name: value})


# --- coresets -----------------------------------------------------------------------------------------------

Y = NORMAL[:, 0] + np.random.default_rng(1).normal(size=N) > 0.0


def build(X=NORMAL, y=Y, **options):
    return build_coreset(X, y, **{"method": "leverage", "random_state": 3, "progressbar": False, **options})


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", ["probit", "logistic"])
def test_weights_are_draws_over_probabilities(weighted, family):
    w = W if weighted else np.ones(N)
    core = build(weights=w, size=250, family=family)
    s = rates_of(leverage_scores(NORMAL, w), w, w.sum()).astype(float)
    draws = core.weights * (s / s.sum())[core.index] * 250 / w[core.index]
    np.testing.assert_allclose(draws, np.rint(draws), rtol=1e-9)
    assert np.rint(draws).sum() == 250
    assert core.params == {
        "draws": 250,
        "scores": "exact",
        "rank": 6,
        "score_total": pytest.approx(s.sum() / 2.0**RATE_BITS, rel=1e-12),
        "passes": 3,  # checks, factor, draw
    }
    assert 7.0 <= core.params["score_total"] <= 14.0
    assert len(np.unique(np.rint(np.log2(s / w)))) < 30
    assert (np.diff(core.index) > 0).all()
    assert core.family == family


def test_scores_of_a_sketch_draw_too():
    core = build(scores="sketch", size=250)
    assert core.params["scores"] == "sketch"
    assert core.weights.sum() == pytest.approx(N, rel=0.3)
    assert not np.array_equal(core.index, build(size=250).index)


@pytest.mark.filterwarnings("ignore:quasi-complete separation:UserWarning")  # which is what such a row makes
def test_a_row_that_alone_carries_a_direction_is_drawn():
    X = np.column_stack([np.ones(N), NORMAL[:, 0], np.arange(N) == 1234])
    for method in ("leverage", "online"):
        for seed in range(10):
            assert 1234 in build(X, method=method, size=60, random_state=seed).index
    drawn = [1234 in build(X, method="uniform", size=60, random_state=seed).index for seed in range(10)]
    assert sum(drawn) < 5


def test_epsilon_gives_the_size_of_the_formula(monkeypatch):
    monkeypatch.setattr(leverage_coreset, "leverage_size", lambda *args, **given: leverage_size(*args, **given, c=1e-3))
    options = {"family": "probit", "epsilon": 0.45, "delta": 0.1, "mu": 1.5}
    core = build(NORMAL[:, :1], weights=W, **options)
    asked = leverage_size(1, 0.45, 0.1, 1.5, W.sum() / W.min(), c=1e-3)
    assert core.params["draws"] == asked
    assert 10 < asked < N
    assert [core.params[name] for name in ("epsilon", "delta", "mu")] == [0.45, 0.1, 1.5]
    same = build(NORMAL[:, :1], weights=W, size=asked, family="probit")
    np.testing.assert_array_equal(core.index, same.index)
    np.testing.assert_array_equal(core.weights, same.weights)
    with pytest.raises(ValueError, match=r"epsilon=0.01 and mu=1.5 need \d+ draws, more than the 3000 rows; give"):
        build(NORMAL[:, :1], **{**options, "epsilon": 0.01})


REFUSED = {
    "scores": ({"scores": "online"}, ValueError, "scores='online' is unknown; choose one of 'exact', 'sketch'"),
    "epsilon of logistic": (
        {"epsilon": 0.3, "mu": 2.0},
        ValueError,
        "bound sensitivities under family='probit' only, and this one is 'logistic'; give a size",
    ),
    "epsilon of a sketch": (
        {"epsilon": 0.3, "mu": 2.0, "family": "probit", "scores": "sketch"},
        ValueError,
        "epsilon=0.3 needs bounds, and scores='sketch' are estimates; give a size",
    ),
    "no mu": ({"epsilon": 0.3, "family": "probit"}, ValueError, "epsilon=0.3 needs mu, the complexity of the data"),
    "mu": ({"epsilon": 0.3, "mu": 0.5, "family": "probit"}, ValueError, "mu=0.5 must be at least 1"),
    "mu alone": ({"mu": 2.0}, ValueError, "mu=2.0 is given without epsilon; give both, or a size"),
    "epsilon too large": ({"epsilon": 0.5, "mu": 2.0}, ValueError, "epsilon=0.5 must be above 0 and below 0.5"),
    "size and epsilon": ({"size": 50, "epsilon": 0.1}, ValueError, "size=50 and epsilon=0.1 are both given"),
    "option": ({"clusters": 3}, TypeError, "'clusters' is not an option of method='leverage', which takes scores, eps"),
    "option of online": ({"method": "online", "scores": "exact"}, TypeError, "method='online', which takes no options"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_bad_options_are_refused_with_the_remedy(kind):
    options, error, message = REFUSED[kind]
    with pytest.raises(error, match=message):
        build(**options)


@pytest.mark.parametrize("options", [{}, {"scores": "sketch"}, {"method": "online"}])
def test_a_design_of_zeros_is_refused(options):
    with pytest.raises(DataError, match="every entry of the design matrix is 0: no row has leverage; give other"):
        build(np.zeros((50, 2)), Y[:50], size=10, **options)
    assert len(build(np.zeros((50, 2)), Y[:50], size=10, intercept=False, method="uniform")) == 10


@pytest.mark.parametrize("options", [{}, {"scores": "sketch"}, {"method": "online"}])
@pytest.mark.parametrize("weighted", [False, True])
def test_cuts_within_and_across_canonical_blocks_change_nothing(options, weighted):
    weights = W if weighted else None
    asked = {"method": "leverage", "size": 100, "block_rows": 256, **options}
    core = build_in_blocks(as_source(NORMAL, Y, weights=weights), **asked)
    for step, workers in ((1, 2), (97, 1), (256, 5), (1000, 2)):
        other = build_in_blocks(Recut(as_source(NORMAL, Y, weights=weights), step), cores=workers, **asked)
        for name in ("X", "y", "weights", "index"):
            np.testing.assert_array_equal(getattr(other, name), getattr(core, name))
        assert other.params == core.params
