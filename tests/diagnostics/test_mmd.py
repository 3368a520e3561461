import numpy as np
import pytest
from scipy.signal import lfilter

from bayescore.diagnostics import mmd
from bayescore.diagnostics.mmd import Kernel, batch_edges, block_sums, mmd_of_sums


def direct(a, b, degree=3, gamma=1.0, coef0=1.0):
    def k(x, y):
        return (gamma * x @ y.T + coef0) ** degree

    return np.sqrt(k(a, a).mean() + k(b, b).mean() - 2.0 * k(a, b).mean())


def with_error(a, b):
    edges_a, edges_b = batch_edges(1, len(a)), batch_edges(1, len(b))
    kernel = Kernel()
    sums = [block_sums(a, a, edges_a, edges_a, kernel), block_sums(b, b, edges_b, edges_b, kernel)]
    ab = block_sums(a, b, edges_a, edges_b, kernel)
    return mmd_of_sums(*sums, ab, np.diff(edges_a), np.diff(edges_b))


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    return rng.normal(size=(1500, 3)), 0.3 + 1.2 * rng.normal(size=(1100, 3))


@pytest.mark.parametrize("kernel", [(3, 1.0, 1.0), (2, 0.5, 0.2), (1, 2.0, 0.0), (5, 0.1, 1.0)])
def test_equals_the_double_sum(pair, kernel):
    degree, gamma, coef0 = kernel
    assert mmd(*pair, degree=degree, gamma=gamma, coef0=coef0) == pytest.approx(direct(*pair, *kernel), rel=1e-9)


def test_degree_two_equals_its_explicit_features(pair):
    def features(x):
        squares = np.einsum("ni,nj->nij", x, x).reshape(len(x), -1)
        return np.hstack([np.ones((len(x), 1)), np.sqrt(2.0) * x, squares]).mean(axis=0)

    a, b = pair
    assert mmd(a, b, degree=2) == pytest.approx(np.linalg.norm(features(a) - features(b)), rel=1e-9)


def test_whitening_removes_affine_maps(pair):
    a, b = pair
    A = np.array([[2.0, 0.5, 0.0], [0.0, 1e-3, 1e-4], [30.0, 0.0, 400.0]])
    shift = np.array([5.0, -1.0, 1000.0])
    assert mmd(a @ A + shift, b @ A + shift, whiten=a @ A + shift) == pytest.approx(mmd(a, b, whiten=a), rel=1e-6)


def test_whitening_drops_directions_without_variance(pair):
    a, b = (np.hstack([x, x[:, :1], np.ones((len(x), 1))]) for x in pair)
    root = np.hstack([pair[0], pair[0][:, :1]])
    assert mmd(a, b, whiten=a) == pytest.approx(mmd(*pair, whiten=root[:, :3]), rel=1e-8)


def test_posteriors_are_matched_by_feature_name(posterior):
    forward = posterior(1, mean=[0.0, 1.0, 2.0])
    back = forward.isel(feature=[2, 1, 0])
    assert mmd(forward, back, whiten=back) == pytest.approx(0.0, abs=1e-5)
    assert mmd(forward, back.posterior["beta"].values.reshape(-1, 3)) > 1.0


def test_equal_sets_have_no_distance(pair):
    assert mmd(pair[0], pair[0]) == 0.0


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
def test_jackknife_error_matches_replications():
    """The sd over 250 replications against the mean jackknife error: their ratio, 0.95 over 400, has an sd of 0.045, of
    which 0.35 allows over six. Negative control: shuffled autocorrelated draws, whose ratio is 0.34.
    """
    rng = np.random.default_rng(3)

    def chain():
        return lfilter([0.6], [1.0, -0.8], rng.normal(size=(600, 2)), axis=0)

    def ratio(change):
        runs = np.array([with_error(change(chain()), change(chain() + 0.6)) for _ in range(250)])
        return runs[:, 1].mean() / runs[:, 0].std(ddof=1)

    assert ratio(lambda draws: draws) == pytest.approx(1.0, abs=0.35)
    assert ratio(rng.permutation) < 0.6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"degree": 0}, "degree=0 must be at least 1"),
        ({"gamma": -1.0}, "gamma=-1 must be positive"),
        ({"coef0": -1.0}, "coef0=-1 must be positive"),
        ({"a": np.zeros(3)}, "a has shape .* reshape"),
        ({"b": np.zeros((5, 2))}, "b has 2 columns, but 3"),
        ({"b": np.full((5, 3), np.nan)}, "b holds NaN"),
        ({"whiten": np.zeros((1, 3))}, "whiten has one draw"),
    ],
)
def test_bad_arguments_are_named(pair, change, message):
    with pytest.raises(ValueError, match=message):
        mmd(**{"a": pair[0], "b": pair[1], **change})
