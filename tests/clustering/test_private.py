"""Private seeding: budget, clipping, an audit that the right noise passes and too little noise fails, Theorem 12."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import beta, kstest, laplace

from bayescore import build_coreset
from bayescore.clustering.peers import clip_to_ball, opendp, private_k_variates
from bayescore.clustering.peers import laplace as mechanism
from bayescore.papers import pd_means
from bayescore.papers.nock_private import calibrated_noise, spread, spread_calibrated
from bayescore.validation import DataError
from tests.clustering.helpers import FALSE_ALARM, blobs

pytest.importorskip("opendp", reason="opendp is not installed: private seeding was NOT checked")

X = blobs() / 12.0


def least_epsilon(likely, unlikely):
    """Lower confidence bound of log P(event) / P'(event) from hits of either data set (Clopper and Pearson)."""
    a, n, b, m = sum(likely), len(likely), sum(unlikely), len(unlikely)
    low = beta.ppf(FALSE_ALARM / 2.0, a, n - a + 1)
    high = beta.isf(FALSE_ALARM / 2.0, b + 1, m - b)
    return math.log(low / high)


def hits(rows, k, epsilon, runs=800, **options):
    """Whether a center lies beyond the ball's corner (1, 0), in many runs."""
    return [(private_k_variates(rows, k, epsilon=epsilon, radius=1.0, random_state=s, **options).centers > 1.0).all()
            for s in range(runs)]  # fmt: skip


@pytest.mark.statistical(rate=1e-6)
def test_the_audit_passes_the_mechanism_and_fails_too_little_noise():
    """One row, at either end of the ball: the event's probabilities differ by exactly exp(epsilon).

    Rate: that of the bounds of Clopper and Pearson; too little noise goes undetected in 2e-16.
    """
    right, left = np.array([[1.0]]), np.array([[-1.0]])
    claimed = 1.0
    assert least_epsilon(hits(right, 1, 1.0), hits(left, 1, 1.0)) <= claimed
    assert least_epsilon(hits(right, 1, 3.0), hits(left, 1, 3.0)) > claimed  # a third of the noise


@pytest.mark.slow
@pytest.mark.statistical(rate=2e-6)
def test_the_audit_over_several_centers_needs_the_factor_k():
    """Rate: twice that of the bounds; too little noise goes undetected in 6e-11."""
    right, left = np.array([[1.0], [1.0]]), np.array([[-1.0], [-1.0]])  # any two data sets, so these two
    claimed = 1.5
    assert least_epsilon(hits(right, 2, 1.5), hits(left, 2, 1.5)) <= claimed
    undernoised = (hits(rows, 2, 3.0, runs=3000) for rows in (right, left))  # noise without the factor k
    assert least_epsilon(*undernoised) > claimed
    one, other = np.array([[1.0], [0.9]]), np.array([[-1.0], [0.9]])  # one row replaced
    assert least_epsilon(hits(one, 2, 1.5, n_local_trials=3), hits(other, 2, 1.5, n_local_trials=3)) <= claimed


@pytest.mark.statistical(rate=1e-6)
def test_the_noise_is_laplace_of_the_stated_scale():
    """Kolmogorov-Smirnov, rate: that of the p value; half the scale is rejected."""
    found = private_k_variates(np.zeros((1, 1500)), 1, epsilon=0.5, radius=3.0)
    assert found.scale == pytest.approx(2 * 1 * 3.0 / 0.5, rel=1e-6)
    assert kstest(found.centers[0], laplace(scale=found.scale).cdf).pvalue > FALSE_ALARM
    assert kstest(found.centers[0], laplace(scale=found.scale / 2.0).cdf).pvalue < FALSE_ALARM


def test_the_budget_is_accounted_and_printed():
    for seeded in (
        private_k_variates(X, 3, epsilon=0.7, radius=1.5),
        pd_means([X[:200], X[200:]], 3, epsilon=0.7, radius=1.5),
    ):
        assert seeded.centers.shape == (3, 2)
        assert 0.699 < seeded.spent <= 0.7
        assert seeded.scale == pytest.approx(2 * 3 * 1.5 / 0.7, rel=1e-6)
        assert seeded.n_clipped == (np.abs(X).sum(axis=1) > 1.5).sum()
        text = repr(seeded)
        assert "epsilon = 0.7 for any two data sets (3 centers, 0.233333 each)" in text
        assert f"{seeded.n_clipped} of 300 rows (not for release)" in text
    noise = mechanism(1.0, 0.5)
    assert noise.variance(3) == pytest.approx(3 * 2 * noise.scale**2)


def test_rows_outside_the_ball_are_clipped_to_its_border():
    rows, outside = clip_to_ball(np.array([[3.0, -1.0], [0.2, 0.1], [0.0, 0.0]]), 2.0)
    np.testing.assert_allclose(rows, [[1.5, -0.5], [0.2, 0.1], [0.0, 0.0]])
    assert outside == 1


def test_private_centers_feed_the_sensitivity_bound():
    """The coreset's rows are real ones, and not private."""
    y = np.arange(300) % 2
    for seeded in (
        private_k_variates(X, 3, epsilon=50.0, radius=1.0, random_state=0),
        pd_means([X[:200], X[200:]], 3, epsilon=50.0, radius=1.0, random_state=0),
    ):
        options = {"method": "sensitivity", "size": 50, "progressbar": False, "random_state": 3}
        core = build_coreset(X, y, clustering=seeded, **options)
        np.testing.assert_array_equal(core.weights, build_coreset(X, y, clustering=seeded.centers, **options).weights)
        assert {tuple(x) for x in core.X} <= {tuple(x) for x in X}


def test_noise_is_fresh_even_with_a_seed():
    a, b = (private_k_variates(X, 2, epsilon=1.0, radius=1.0, random_state=0).centers for _ in range(2))
    assert (a != b).all()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"epsilon": 0.0}, ValueError, "epsilon=0 must be positive"),
        ({"epsilon": -1.0}, ValueError, "epsilon=-1 must be positive"),
        ({"epsilon": math.inf}, ValueError, "epsilon=inf must be positive and finite"),
        ({"radius": -1.0}, ValueError, "radius=-1 must be positive"),
        ({"n_clusters": 0}, ValueError, "n_clusters=0"),
        ({"X": X * np.nan}, DataError, "X is nan in row 0"),
    ],
)
def test_bad_input(change, error, message):
    options = {"X": X, "n_clusters": 2, "epsilon": 1.0, "radius": 1.0, **change}
    with pytest.raises(error, match=message):
        private_k_variates(options.pop("X"), options.pop("n_clusters"), **options)


@pytest.mark.parametrize(
    ("peers", "message"),
    [
        ([], "peers is empty; give at least one peer"),
        ([X, X[:0]], r"peers\[1\] is empty; leave peers without rows out"),
        ([X, X[:, :1]], r"peers\[1\] has 1 columns, peers\[0\] has 2"),
        ([X, X * np.nan], r"peers\[1\] is nan in row 0, column 0"),
    ],
)
def test_bad_peers(peers, message):
    with pytest.raises(DataError, match=message):
        pd_means(peers, 2, epsilon=1.0, radius=1.0)


def test_without_opendp_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "opendp.prelude", None)
    with pytest.raises(ImportError, match=r"pip install 'bayescore\[private\]'"):
        opendp()


# --- Theorem 12 --------------------------------------------------------------------------------------------


def test_theorem_12_s_noise_is_its_formula_and_warned_of():
    k, eps, w, s, f = 3, 1.0, 0.01, 0.5, 2.0
    tilde = math.log((math.exp(eps) - (1 + w) ** (k - 1)) / (f * w * (1 + s) ** (k - 1)))
    noise = calibrated_noise(k, eps, 2.0, delta_w=w, delta_s=s, f=f)
    assert noise.scale == pytest.approx(2 * 2.0 / tilde, rel=1e-6)
    ratio = (1 + w) ** (k - 1) + f * w * (1 + s) ** (k - 1) * math.exp(2 * 2.0 / noise.scale)
    assert ratio == pytest.approx(math.exp(eps), rel=1e-6)  # Theorem 9 is met with equality
    with pytest.warns(UserWarning, match="is not differentially private"):
        found = spread_calibrated(X, k, epsilon=eps, radius=2.0, delta_w=w, delta_s=s, f=f)
    assert found.spent is None
    assert "NOT differential privacy" in repr(found)
    with pytest.raises(ValueError, match=r"delta_w=1 and delta_s=0 are too large for epsilon=1 and n_clusters=3"):
        calibrated_noise(k, eps, 2.0, delta_w=1.0, delta_s=0.0)
    with pytest.raises(ValueError, match="delta_w=0 must be positive"):
        calibrated_noise(k, eps, 2.0, delta_w=0.0, delta_s=0.0)
    with pytest.raises(ValueError, match="epsilon=0 must be positive"):
        spread_calibrated(X, k, epsilon=0.0, radius=2.0, delta_w=w, delta_s=s)


def test_exact_spread_is_its_definition():
    rows, _ = clip_to_ball(X[::20], 1.0)
    n, k = len(rows), 3
    squares = ((rows[:, None] - rows) ** 2).sum(axis=2)

    def near(N):
        return squares[:, list(N)].min(axis=1)

    w = max(4.0 / (near(N).sum() - near(N).max()) for N in combinations(range(n), 2))
    s = max(near(N).sum() / near((*N, x)).sum() for j in (1, 2) for N in combinations(range(n), j) for x in range(n))
    found = spread(X[::20], k, radius=1.0)
    assert found.exact
    assert found.delta_w == pytest.approx(w)
    assert found.delta_s == pytest.approx(2.0 * s - 1.0)


def test_delta_s_bounds_what_means_of_packed_rows_do():
    """16 rows on a circle and one far away: rows alone give 98.5, the circle's mean 197 (Definition 8)."""
    angles = np.arange(16) * math.pi / 8
    rows = np.vstack([np.stack([np.cos(angles), np.sin(angles)], axis=1), [[14.0, 0.0]]])
    from_far = ((rows - rows[-1]) ** 2).sum()
    with_mean = (rows[:-1] ** 2).sum()  # the circle's mean is 0
    assert from_far / with_mean == pytest.approx(197.0)
    found = spread(rows, 2, radius=20.0)
    assert found.exact
    assert 1.0 + found.delta_s >= 197.0 * (1.0 - 1e-12)


def test_no_point_lowers_the_potential_more_than_delta_s_says():
    rng = np.random.default_rng(0)
    for seed in range(20):
        rows = np.random.default_rng(seed).standard_t(2, size=(7, 2))
        bound = 1.0 + spread(rows, 2, radius=1e6).delta_s
        near = ((rows - rows[seed % 7]) ** 2).sum(axis=1)
        subsets = [rows[rng.random(7) < 0.5] for _ in range(200)]
        means = np.array([part.mean(axis=0) for part in subsets if len(part)])
        with_mean = np.minimum(near, ((rows - means[:, None]) ** 2).sum(axis=2)).sum(axis=1)
        assert near.sum() / with_mean.min() <= bound * (1.0 + 1e-12)


def test_estimated_spread_stays_below_the_exact_one():
    exact = spread(X[::3], 3, radius=1.0)
    rows = np.repeat(X[::3], 11, axis=0)  # the same ratios at eleven times the mass, too many rows to enumerate
    guess = spread(rows, 3, radius=1.0, samples=300, random_state=0)
    assert exact.exact
    assert not guess.exact
    assert exact.delta_w / 22.0 < guess.delta_w < exact.delta_w / 10.0
    assert 0.0 < guess.delta_s <= exact.delta_s
    assert guess == spread(rows, 3, radius=1.0, samples=300, random_state=0)
    assert spread(np.zeros((5, 1)), 2, radius=1.0).delta_w == math.inf
    with pytest.raises(ValueError, match="n_clusters=1 must be between 2 and 300, the rows of X"):
        spread(X, 1, radius=1.0)
