"""Sensitivity bounds against their formula, against the sensitivities themselves, and in coresets."""

import math

import numpy as np
import pytest
from sklearn.cluster import KMeans

from bayescore import build_coreset
from bayescore.coresets.sensitivity import sensitivity_bounds, sensitivity_size
from bayescore.methods import Sensitivity
from bayescore.numerics.elementary import exp_minus
from bayescore.validation import DataError


def formula(Z, w, centers, radius, theta, leave_one_out=True):
    """The bound, straight from its definition: for each row every cluster's mean is taken anew."""
    which = [min(range(len(centers)), key=lambda i: sum((z - centers[i]) ** 2)) for z in Z]
    bounds = []
    for n, z in enumerate(Z):
        denominator = w[n]
        for i in set(which):
            members = [m for m in range(len(Z)) if which[m] == i and (m != n or not leave_one_out)]
            if members:
                mass = math.fsum(w[m] for m in members)
                gap = sum(w[m] * Z[m] for m in members) / mass - z
                denominator += mass * math.exp(-radius * math.sqrt(gap @ gap) - abs(gap @ theta))
        bounds.append(math.fsum(w) / denominator)
    return np.array(bounds)


def rows(n=60, n_features=3, seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, n_features)) + 2.0 * rng.integers(0, 2, (n, 1))
    return Z, rng.uniform(0.05, 8.0, n) if weighted else np.ones(n)


def test_the_published_example():
    Z = np.repeat([[0.0, 0.0, 0.0], [2.0, 2.0, 2.0]], 50, axis=0)
    bounds = sensitivity_bounds(Z, centers=[[0.0, 0.0, 0.0], [2.0, 2.0, 2.0]], radius=2.0)
    np.testing.assert_allclose(bounds, 2.0 / (1.0 + math.exp(-4.0 * math.sqrt(3.0))), rtol=1e-12)
    assert bounds[0] == pytest.approx(1.99804, abs=5e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize(("n", "n_features", "k"), [(60, 3, 4), (300, 1, 1), (130, 12, 6), (40, 2, 40), (9, 2, 5)])
def test_each_bound_is_the_formula(weighted, shifted, n, n_features, k):
    Z, w = rows(n, n_features, n, weighted)
    centers = Z[:k] + (0.01 if k < n else 0.0)  # k = n: every row is a cluster of its own
    theta = np.linspace(-1.0, 2.0, n_features) if shifted else np.zeros(n_features)
    bounds = sensitivity_bounds(Z, w, centers=centers, radius=0.7, center=theta if shifted else None)
    np.testing.assert_allclose(bounds, formula(Z, w, centers, 0.7, theta), rtol=1e-9)
    assert (bounds >= 1.0).all()
    assert (bounds <= w.sum() / w * (1.0 + 1e-12)).all()
    assert np.ptp(bounds) > 0.0


def test_a_row_alone_in_its_cluster_and_centers_without_rows():
    Z = np.array([[0.0], [0.2], [9.0]])
    w = np.array([1.0, 2.0, 5.0])
    bounds = sensitivity_bounds(Z, w, centers=[[0.0], [9.0], [1e6]], radius=1.0)
    np.testing.assert_allclose(bounds[2], 8.0 / (5.0 + 3.0 * math.exp(-(9.0 - 0.4 / 3.0))), rtol=1e-6)
    np.testing.assert_allclose(bounds[0], 8.0 / (1.0 + 2.0 * math.exp(-0.2) + 5.0 * math.exp(-9.0)), rtol=1e-6)


# --- do they bound? ----------------------------------------------------------------------------------------


def largest_excess(bounds, Z, w, radius, theta):
    """Largest sampled sensitivity over its bound: above 1, the bound is refuted.

    Coefficients come from the ball's surface and inside, many along differences of rows, where the
    suprema are.
    """
    rng = np.random.default_rng(5)
    pairs = rng.integers(0, len(Z), (2, 4000))
    steps = np.concatenate([Z[pairs[0]] - Z[pairs[1]], Z, -Z, rng.normal(size=(2000, Z.shape[1]))])
    steps /= np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), 1e-300)
    lengths = np.where(np.arange(len(steps)) % 3 > 0, 1.0, rng.random(len(steps)))
    betas = theta + radius * lengths[:, None] * steps
    losses = np.logaddexp(0.0, -Z @ betas.T)
    sensitivities = (w.sum() * losses / (w @ losses)).max(axis=1)
    return float((sensitivities / bounds).max())


def far_rows(weighted):
    """Rows close to zero beside rows far away: here the bound is nearly reached."""
    Z, w = rows(80, 3, 2, weighted)
    Z[:5] *= 1e-3
    Z[5:] += 2.0
    return Z, w


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("theta", [(0.0, 0.0, 0.0), (0.5, -0.2, 0.1)])
@pytest.mark.parametrize("radius", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("k", [1, 4])
def test_bounds_hold_over_the_ball(weighted, theta, radius, k):
    Z, w = far_rows(weighted)
    theta = np.array(theta)
    centers = Z[[0, 10, 20, 30][:k]]
    bounds = sensitivity_bounds(Z, w, centers=centers, radius=radius, center=theta)
    assert 0.3 < largest_excess(bounds, Z, w, radius, theta) <= 1.0


def test_the_same_check_refutes_wrong_bounds():
    Z, w = far_rows(weighted=False)
    zero = np.zeros(3)
    half = sensitivity_bounds(Z, w, centers=Z[[0, 10]], radius=0.5)
    assert largest_excess(half, Z, w, 1.0, zero) > 1.0  # half the radius
    tight, theta = np.where(np.arange(80)[:, None] < 5, 0.01 * Z, 3.0 + 0.01 * Z), np.full(3, 1.5)
    right = sensitivity_bounds(tight, w, centers=tight[[0, 10]], radius=0.5, center=theta)
    assert largest_excess(right, tight, w, 0.5, theta) <= 1.0
    unshifted = sensitivity_bounds(tight, w, centers=tight[[0, 10]], radius=0.5)
    assert largest_excess(unshifted, tight, w, 0.5, theta) > 1.0
    Z = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]])  # without leaving the row out of its cluster's mean
    kept_in = formula(Z, np.ones(2), Z[:1], 3.0, zero, leave_one_out=False)
    assert largest_excess(kept_in, Z, np.ones(2), 3.0, zero) > 1.0
    assert largest_excess(sensitivity_bounds(Z, centers=Z[:1], radius=3.0), Z, np.ones(2), 3.0, zero) <= 1.0


def test_the_kernel_s_exponential():
    x = np.concatenate([np.linspace(0.0, 50.0, 5001), np.geomspace(1e-20, 690.0, 1000)])
    out = [exp_minus(each) for each in x]
    np.testing.assert_allclose(out, np.exp(-x), rtol=1e-15)
    assert all(0.0 <= exp_minus(far) < 1e-300 for far in (800.0, 1e300, np.inf))


def test_bad_arguments_of_the_bounds():
    Z = np.ones((4, 2))
    good = {"centers": [[0.0, 0.0]], "radius": 1.0}
    for change, error, message in (
        ({"radius": -1.0}, ValueError, "radius=-1 must be positive"),
        ({"centers": [[0.0]]}, DataError, "1 columns, but 2 features"),
        ({"centers": [[np.nan, 0.0]]}, DataError, "NaN or infinity"),
        ({"center": [1.0]}, ValueError, r"center has shape \(1,\); it must be \(2,\)"),
        ({"center": [1.0, np.inf]}, ValueError, "finite"),
        ({"weights": [1.0, 1.0, 1.0, 0.0]}, DataError, "weights is 0 in row 3"),
    ):
        with pytest.raises(error, match=message):
            sensitivity_bounds(Z, **{**good, **change})
    with pytest.raises(DataError, match="column 'z1' is nan in row 2"):
        sensitivity_bounds([[1.0, 1.0], [1.0, 1.0], [1.0, np.nan]], **good)
    with pytest.raises(DataError, match="Z has shape"):
        sensitivity_bounds(Z[0], **good)


# --- sizes -------------------------------------------------------------------------------------------------


def test_size_for_a_guarantee():
    assert sensitivity_size(2.0, 9, 0.1, 0.05) == math.ceil(200.0 * (10.0 * math.log(2.0) + math.log(20.0)))
    assert sensitivity_size(2.0, 9, 0.1, 0.05, c=3.0) == math.ceil(600.0 * (10.0 * math.log(2.0) + math.log(20.0)))
    base = sensitivity_size(2.0, 9, 0.1, 0.05)
    assert sensitivity_size(2.1, 9, 0.1, 0.05) > base
    assert sensitivity_size(2.0, 10, 0.1, 0.05) > base
    assert sensitivity_size(2.0, 9, 0.09, 0.05) > base
    assert sensitivity_size(2.0, 9, 0.1, 0.04) > base
    for wrong in ({"epsilon": 0.0}, {"epsilon": 1.0}, {"delta": 1.5}, {"c": 0.0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}=.* must be"):
            sensitivity_size(**{"mean_sensitivity": 2.0, "n_features": 3, "epsilon": 0.1, "delta": 0.1, **wrong})


# --- coresets ----------------------------------------------------------------------------------------------


def problem(n=1500, seed=1, n_features=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    return X, (X[:, 0] + rng.logistic(size=n) > 0).astype(int), rng.uniform(0.2, 4.0, n)


def build(X, y, **options):
    return build_coreset(X, y, method="sensitivity", progressbar=False, **{"random_state": 3, **options})


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_are_draws_over_probabilities(weighted):
    X, y, w = problem()
    w = w if weighted else np.ones(len(y))
    Z, centers = X * np.where(y > 0, 1.0, -1.0)[:, None], X[:3]
    core = build(X, y, weights=w, size=200, clustering=centers, radius=0.8)
    bounds = sensitivity_bounds(Z, w, centers=centers, radius=0.8)
    p = w * bounds / (w * bounds).sum()
    draws = core.weights * p[core.index] * 200 / w[core.index]
    np.testing.assert_allclose(draws, np.rint(draws), rtol=4.0 / 1024.0)  # probabilities are rounded up to 1/1024
    assert np.rint(draws).sum() == 200
    assert np.rint(draws).min() == 1
    assert core.params["mean_sensitivity"] == pytest.approx((w * bounds).sum() / w.sum(), rel=1e-3)
    assert core.params["mean_sensitivity"] >= (w * bounds).sum() / w.sum()
    assert (core.params["draws"], core.params["clusters"], core.params["radius"]) == (200, 3, 0.8)
    assert (np.diff(core.index) > 0).all()


def test_the_radius_is_three_over_the_root_of_the_cost():
    X, y, _ = problem()
    Z = X * np.where(y > 0, 1.0, -1.0)[:, None]
    core = build(X, y, size=100, clustering=X[:4])
    cost = ((Z[:, None] - X[:4]) ** 2).sum(axis=2).min(axis=1).mean()
    assert core.params["cost"] == pytest.approx(cost, rel=1e-8)
    assert core.params["radius"] == pytest.approx(3.0 / math.sqrt(cost), rel=1e-8)


def test_a_fitted_clusterer_is_taken_like_its_centers():
    X, y, _ = problem()
    fitted = KMeans(3, n_init=1, random_state=0).fit(X * np.where(y > 0, 1.0, -1.0)[:, None])
    a, b = build(X, y, size=50, clustering=fitted), build(X, y, size=50, clustering=fitted.cluster_centers_.tolist())
    np.testing.assert_array_equal(a.index, b.index)
    np.testing.assert_array_equal(a.weights, b.weights)


def test_epsilon_gives_the_size_of_the_formula():
    X, y, w = problem()
    core = build(X, y, weights=w, epsilon=0.4, delta=0.1, radius=0.2)
    asked = sensitivity_size(core.params["mean_sensitivity"], 3, 0.4, 0.1)
    assert core.params["draws"] == asked
    assert 10 < asked < len(y)
    assert (core.params["epsilon"], core.params["delta"]) == (0.4, 0.1)
    same = build(X, y, weights=w, size=asked, radius=0.2)
    np.testing.assert_array_equal(core.index, same.index)
    np.testing.assert_array_equal(core.weights, same.weights)
    with pytest.raises(ValueError, match="more than the 1500 rows; give a larger epsilon, a smaller radius, or a size"):
        build(X, y, epsilon=0.01)


def test_the_number_of_clusters():
    X, y, _ = problem()
    assert build(X, y, size=50).params["clusters"] == 4
    assert build(X, y, size=50, clusters=7).params["clusters"] == 7
    wide, labels, _ = problem(n_features=11)
    assert build(wide, labels, size=50).params["clusters"] == 6
    for wrong, error, message in (
        (0, ValueError, "clusters=0 must be at least 1"),
        (2.0, TypeError, "must be a whole number"),
        (1501, DataError, "clusters=1501 exceeds the 1500 rows"),
    ):
        with pytest.raises(error, match=message):
            build(X, y, size=50, clusters=wrong)


def test_few_distinct_rows_shrink_the_default_but_not_what_was_asked():
    X, y = np.tile([[1.0], [1.0], [2.0]], (200, 1)), np.tile([0, 1, 1], 200)  # signed: -1, 1, 2
    core = build(X, y, size=50)
    assert core.params["clusters"] == 3
    assert core.params["cost"] == 0.0
    assert core.params["radius"] == 3.0
    with pytest.raises(DataError, match=r"clusters=4, but the data have 3 distinct signed rows; .*method='aggregate'"):
        build(X, y, size=50, clusters=4)


def test_seeding_looks_further_when_distinct_rows_are_rare():
    X, y = np.zeros((20_000, 2)), np.arange(20_000) % 2
    X[[5, 10_000, 19_999]] = [[1.0, 0.0], [0.0, 1.0], [3.0, 3.0]]
    assert build(X, y, size=50, clusters=4).params["clusters"] == 4


def test_methods_with_arrays_compare_by_their_values():
    clustering = np.eye(2)
    method = Sensitivity(clustering=clustering)
    assert method == Sensitivity(clustering=clustering.copy())
    assert method != Sensitivity(clustering=2.0 * clustering)
    assert hash(method) == hash(Sensitivity(clustering=clustering.copy()))
