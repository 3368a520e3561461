"""d-means++, s-means++ and ol-means++: laws, traffic, errors."""

from functools import partial

import numpy as np
import pytest

from bayescore.clustering import PointMasses, UniformDraw, d_means, k_variates, ol_means, s_means
from bayescore.types import WeightedData
from bayescore.validation import DataError
from tests.clustering.helpers import blobs, cost, differ

RUNS = 800  # so that seeding by distance is refuted by 12 standard errors where 5 are asked for
X = blobs()
PARTS = [X[:150], X[150:200], X[200:203], X[203:]]


@pytest.mark.slow
@pytest.mark.statistical(rate=2e-6)
def test_peers_seed_as_k_variates_with_their_uniform_densities():
    """Lemma 16; rate: twice that of `differ`. Peers that answer by D, or other peers, are rejected."""
    w = [np.random.default_rng(0).uniform(0.2, 3.0, len(p)) for p in PARTS]
    groups = np.repeat(range(4), [len(p) for p in PARTS])
    split = [d_means(PARTS, 4, weights=w, random_state=s).cost for s in range(RUNS)]
    whole = partial(k_variates, X, 4, weights=np.concatenate(w))
    density = partial(UniformDraw, groups=groups)
    assert not differ(split, [whole(density=density, random_state=9000 + s).cost for s in range(RUNS)])
    assert differ(split, [whole(random_state=s).cost for s in range(RUNS)])
    by_distance = [d_means(PARTS, 4, weights=w, density=PointMasses, random_state=s).cost for s in range(RUNS)]
    assert not differ(by_distance, [whole(random_state=500 + s).cost for s in range(RUNS)])


def test_the_coordinator_s_cost_and_traffic():
    found = d_means(PARTS, 5, random_state=3)
    assert found.cost == pytest.approx(cost(X, found.centers), rel=1e-12)
    assert {tuple(c) for c in found.centers} <= {tuple(x) for x in X}
    assert found.sent == 8 * 4 * 5 * 2
    assert found.received == 8 * (4 * (5 + 1) + 5 * 2)
    np.testing.assert_array_equal(found.centers, d_means(PARTS, 5, random_state=3).centers)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"peers": []}, DataError, "peers is empty"),
        ({"peers": [X, X[:0]]}, DataError, r"peers\[1\] is empty; leave peers without rows out"),
        ({"peers": [X, []]}, DataError, r"peers\[1\] is empty"),
        ({"peers": [X, X[:, :1]]}, DataError, r"peers\[1\] has 1 columns, peers\[0\] has 2"),
        ({"peers": [X, X[:3] * np.nan]}, DataError, r"peers\[1\] is nan in row 0"),
        ({"peers": [np.zeros((4, 2))] * 2}, DataError, "n_clusters=3, but the data have 1 distinct rows"),
        ({"weights": [np.ones(300)] * 2}, DataError, "weights has 2 entries for 1 peers"),
        ({"weights": [np.zeros(300)]}, DataError, r"weights of peers\[0\] sum to 0"),
        ({"n_clusters": 0}, ValueError, "n_clusters=0"),
        ({"divergence": "itakura_saito"}, DataError, r"peers\[0\] is -.* needs positive entries"),
    ],
)
def test_bad_peers(change, error, message):
    options = {"peers": [X], "n_clusters": 3, **change}
    with pytest.raises(error, match=message):
        d_means(options.pop("peers"), options.pop("n_clusters"), **options)


def test_a_coreset_s_signed_rows_and_weights_are_synopses():
    y = np.where(np.arange(300) % 2, 1, -1).astype(np.int8)
    core = WeightedData(X, y, np.random.default_rng(0).uniform(0.1, 9.0, 300), np.arange(300))
    found = s_means(core, 3, random_state=1)
    plain = s_means(core.Z, 3, masses=core.weights, random_state=1)
    np.testing.assert_array_equal(found.centers, plain.centers)
    assert found.cost == pytest.approx(cost(core.Z, found.centers, core.weights))
    with pytest.raises(DataError, match="masses is given, but data is a coreset"):
        s_means(core, 3, masses=core.weights)
    with pytest.raises(DataError, match="weights of X sum to 0"):
        s_means(X, 3, masses=np.zeros(300))
    with pytest.raises(DataError, match="n_clusters=2, but the data have 1 distinct rows; ask for n_clusters=1"):
        s_means(np.ones((9, 2)), 2)
    with pytest.raises(ValueError, match="n_clusters=0 must be at least 1"):
        s_means(X, 0)


def test_each_minibatch_gives_one_center():
    centers = ol_means(iter(PARTS), 4, random_state=0)
    for center, part in zip(centers, PARTS, strict=True):
        assert (part == center).all(axis=1).any()
    np.testing.assert_array_equal(centers, ol_means(PARTS, 4, random_state=0))

    def endless():
        while True:
            yield X

    assert len(ol_means(endless(), 6, random_state=0)) == 6
    ones = np.ones((5, 2))
    np.testing.assert_array_equal(ol_means([ones, ones, 2 * ones], 2), [[1.0, 1.0], [2.0, 2.0]])
    with pytest.raises(DataError, match=r"n_clusters=5, but the minibatches gave 4 centers; cut the stream into 5"):
        ol_means(PARTS, 5)
    with pytest.raises(DataError, match=r"minibatch 1 has shape \(0, 2\)"):
        ol_means([X, X[:0]], 2)
    with pytest.raises(ValueError, match="n_clusters=0 must be at least 1"):
        ol_means(PARTS, 0)


@pytest.mark.statistical(rate=1e-6)
def test_minibatches_of_all_rows_make_k_means():
    """The same minibatch again and again is k-means++; rate: that of `differ`."""
    online = [cost(X, ol_means([X] * 4, 4, random_state=s)) for s in range(RUNS)]
    assert not differ(online, [k_variates(X, 4, random_state=700 + s).cost for s in range(RUNS)])
