"""k-variates++: its k-means++ case against scikit-learn, weights, probes, densities, errors."""

import numpy as np
import pytest
from scipy.stats import chisquare
from sklearn.cluster import kmeans_plusplus

from bayescore.clustering import SQUARED_EUCLIDEAN, PointMasses, UniformDraw, k_variates
from bayescore.clustering.divergences import BLOCK, Nearest
from bayescore.clustering.variates import Held, Rows, seed
from bayescore.validation import DataError
from tests.clustering.helpers import DATA, blobs, cost, differ

RUNS = 400  # so that wrong seedings are rejected by 4 sds more than are asked for


def costs(X, k, runs=RUNS, start=0, **options):
    return [k_variates(X, k, random_state=start + s, **options).cost for s in range(runs)]


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("name", list(DATA))
@pytest.mark.parametrize("trials", [1, None])
def test_costs_are_those_of_scikit_learn(name, trials):
    """Rate: that of `differ`."""
    X = DATA[name]
    theirs = [cost(X, kmeans_plusplus(X, 5, n_local_trials=trials, random_state=s)[0]) for s in range(RUNS)]
    assert not differ(costs(X, 5, n_local_trials=trials), theirs)


@pytest.mark.statistical(rate=1e-6)
def test_the_same_test_rejects_other_seedings():
    """Both are refuted by 11 standard errors and more, where 5 are asked for: a miss in less than a million."""
    X = DATA["blobs"]
    plain = costs(X, 5)
    rng = np.random.default_rng(0)
    assert differ([cost(X, X[rng.choice(len(X), 5, replace=False)]) for _ in range(RUNS)], plain)  # without D^2
    assert differ(costs(X, 5, n_local_trials=None), plain)  # greedy


@pytest.mark.statistical(rate=1e-6)
def test_weights_count_as_copies():
    """Rate: that of `differ`. Seeding that forgets the weights is rejected."""
    X = DATA["blobs"]
    w = np.random.default_rng(0).integers(0, 4, len(X))
    w[-5:] = 60
    copies = np.repeat(X, w, axis=0)
    weighted = costs(X, 4, weights=w)
    assert not differ(weighted, costs(copies, 4, start=1000))
    assert differ(weighted, [cost(copies, k_variates(X, 4, random_state=s).centers) for s in range(RUNS)])


def test_cost_and_labels_are_those_of_the_centers():
    X = np.random.default_rng(0).normal(size=(2 * BLOCK + 77, 3))  # more than one block, the last not full
    w = np.random.default_rng(1).uniform(0.0, 3.0, len(X))
    found = k_variates(X, 7, weights=w, n_local_trials=3, random_state=5)
    squares = ((X[:, None] - found.centers) ** 2).sum(axis=2)
    np.testing.assert_array_equal(found.labels, squares.argmin(axis=1))
    assert found.cost == pytest.approx(w @ squares.min(axis=1), rel=1e-12)
    assert {tuple(c) for c in found.centers} <= {tuple(x) for x in X}
    again = k_variates(X, 7, weights=w, n_local_trials=3, random_state=5)
    np.testing.assert_array_equal(found.centers, again.centers)
    assert (k_variates(X, 7, weights=w, random_state=6).centers != found.centers).any()


@pytest.mark.statistical(rate=1e-6)
def test_rows_are_drawn_by_weight_times_distance():
    """Chi-squared test of 20,000 draws over 2.5 blocks; rate: that of the p value."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(int(2.5 * BLOCK), 2)), rng.uniform(0.0, 2.0, int(2.5 * BLOCK))
    state = Nearest(X, w, SQUARED_EUCLIDEAN, X[:2])
    drawn = state.draw(rng, 20_000)
    bins = np.argsort(np.argsort(X[:, 0])) * 20 // len(X)
    p = np.bincount(bins, w * state.closest) / (w @ state.closest)
    assert chisquare(np.bincount(bins[drawn], minlength=20), 20_000 * p).pvalue > 1e-6
    assert chisquare(np.bincount(bins[drawn], minlength=20), np.full(20, 1_000.0)).pvalue < 1e-6  # uniform: rejected


def test_rows_of_weight_zero_and_rows_at_a_center_are_never_drawn():
    X = np.array([[0.0], [0.0], [1.0], [5.0]])
    for s in range(50):
        centers = k_variates(X, 2, weights=[1.0, 3.0, 1.0, 0.0], random_state=s).centers
        assert sorted(centers.ravel()) == [0.0, 1.0]


@pytest.mark.parametrize("probe", [None, lambda X, _: X + 10.0])
def test_rows_of_weight_zero_are_no_points_of_their_own(probe):
    """Probes, which are at no center, do not tell that no row is left."""
    X, weights = np.array([[0.0], [1.0], [5.0], [5.0]]), [1.0, 3.0, 0.0, 0.0]
    with pytest.raises(DataError, match=r"n_clusters=3, but the data have 2 distinct rows"):
        k_variates(X, 3, weights=weights, probe=probe)
    found = k_variates(X, 3, weights=[1.0, 3.0, 1.0, 0.0], probe=probe, random_state=0)
    assert len(found.centers) == 3  # the control


def test_fixed_probes_are_seeding_of_the_probes():
    X = DATA["blobs"]
    rounded = np.round(X / 4.0) * 4.0
    found = k_variates(X, 4, probe=lambda X, centers: rounded, random_state=1)
    assert found.cost == pytest.approx(cost(X, found.centers))  # of the rows, not of the probes

    class Rounded(PointMasses):
        def draw(self, row, rng):
            return rounded[row]

    shifted = k_variates(X, 4, probe=lambda X, centers: rounded, density=Rounded, random_state=1)
    plain = k_variates(rounded, 4, random_state=1)
    np.testing.assert_array_equal(shifted.centers, plain.centers)


def test_probes_that_move_are_measured_anew():
    X = DATA["blobs"]
    seen = []

    def probe(X, centers):
        seen.append(len(centers))
        return X + 100.0 * len(centers)

    rows = Rows(X, probe=probe)
    centers, potential = seed(Held([rows]), 3, np.random.default_rng(0))
    assert seen == [1, 2, 3]
    assert potential == pytest.approx(cost(X + 300.0, centers))


@pytest.mark.statistical(rate=1e-5)
def test_the_uniform_density_draws_from_the_row_s_group_by_weight():
    X, groups = np.arange(6.0)[:, None], np.array([7, 7, 3, 3, 3, 7])
    density = UniformDraw(X, np.array([1.0, 0.0, 1.0, 1.0, 0.0, 3.0]), groups)
    rng = np.random.default_rng(0)
    assert {float(density.draw(2, rng)[0]) for _ in range(100)} == {2.0, 3.0}
    drawn = [float(density.draw(1, rng)[0]) for _ in range(400)]
    assert set(drawn) == {0.0, 5.0}
    assert 0.65 < np.mean(np.array(drawn) == 5.0) < 0.85  # 4.6 standard deviations: 4e-6
    np.testing.assert_allclose(density.means()[:, 0], [3.75, 3.75, 2.5, 2.5, 2.5, 3.75])
    np.testing.assert_allclose(density.variances()[[0, 2]], [(3.75**2 + 3 * 1.25**2) / 4.0, 0.25])


X_OK = blobs()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n_clusters": 0}, ValueError, "n_clusters=0 must be at least 1"),
        ({"n_clusters": 2.5}, TypeError, "n_clusters=2.5 must be a whole number"),
        ({"n_clusters": 301}, DataError, "n_clusters=301, but the data have 300 distinct rows; ask for n_clusters=300"),
        ({"X": np.zeros((9, 2))}, DataError, "n_clusters=3, but the data have 1 distinct rows"),
        ({"X": np.zeros((0, 2))}, DataError, r"X has shape \(0, 2\)"),
        ({"X": np.full((9, 2), np.nan)}, DataError, "X is nan in row 0, column 0"),
        ({"X": [[1e200, 0.0]] * 9}, DataError, r"X is 1e\+200 in row 0"),
        ({"weights": np.zeros(300)}, DataError, "weights of X sum to 0; at least one row needs a positive weight"),
        ({"weights": np.full(300, -1.0)}, DataError, "weights of X is -1 in row 0; .* not negative"),
        ({"weights": np.full(300, np.inf)}, DataError, "weights of X is inf in row 0"),
        ({"weights": np.ones(3)}, DataError, r"weights of X has shape \(3,\); it must be \(300,\)"),
        ({"weights": ["a"] * 300}, DataError, "weights of X must be numbers"),
        ({"weights": np.eye(1, 300)[0]}, DataError, "n_clusters=3, but the data have 1 distinct rows"),
        ({"n_local_trials": 0}, ValueError, "n_local_trials=0 must be at least 1"),
        ({"probe": lambda X, c: X[:5]}, DataError, r"probe returned shape \(5, 2\) for X of shape \(300, 2\)"),
        ({"probe": lambda X, c: X * np.nan}, DataError, "what probe returned is nan in row 0"),
        (
            {"density": lambda X, w: UniformDraw(X, w, [0, 1])},
            DataError,
            r"groups has shape \(2,\); it must be \(300,\)",
        ),
        ({"random_state": -1}, ValueError, "random_state=-1"),
    ],
)
def test_bad_input(change, error, message):
    options = {"X": X_OK, "n_clusters": 3, **change}
    with pytest.raises(error, match=message):
        k_variates(options.pop("X"), options.pop("n_clusters"), **options)
