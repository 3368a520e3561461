"""KVariates: scikit-learn's own checks, and what they do not cover."""

import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayescore import build_coreset
from bayescore.clustering import KVariates, k_variates, ol_means
from bayescore.validation import DataError
from tests.clustering.helpers import blobs, cost

X = blobs()


@parametrize_with_checks(
    [KVariates(3, random_state=0), KVariates(3, n_local_trials=None, lloyd_steps=20, random_state=0)],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": "a random draw: weights count as copies in law, see "
        "test_variates.py",
    },
)
def test_scikit_learn_s_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns of checks that it skips
        check(estimator)


def test_fit_is_k_variates_and_lloyd_steps_are_scikit_learn_s():
    seeds = k_variates(X, 4, random_state=3)
    plain = KVariates(4, random_state=3).fit(X)
    np.testing.assert_array_equal(plain.cluster_centers_, seeds.centers)
    assert plain.inertia_ == pytest.approx(cost(X, seeds.centers))
    np.testing.assert_array_equal(plain.predict(X), plain.labels_)
    lloyd = KVariates(4, lloyd_steps=50, random_state=3).fit(X)
    theirs = KMeans(4, init=seeds.centers, n_init=1, max_iter=50).fit(X)
    np.testing.assert_allclose(lloyd.cluster_centers_, theirs.cluster_centers_)
    assert lloyd.inertia_ < plain.inertia_
    distances = np.linalg.norm(X[:, None] - lloyd.cluster_centers_, axis=2)
    np.testing.assert_allclose(lloyd.transform(X), distances)
    assert list(lloyd.get_feature_names_out()) == [f"kvariates{i}" for i in range(4)]


def test_minibatches_are_ol_means():
    parts = [X[:150], X[150:200], X[200:]]
    model = KVariates(3, random_state=np.random.RandomState(1))
    for t, part in enumerate(parts):
        model.partial_fit(part)
        assert model.cluster_centers_.shape == (t + 1, 2)
        assert model.labels_.shape == (len(part),)
    kept = model.cluster_centers_
    np.testing.assert_array_equal(model.partial_fit(X).cluster_centers_, kept)
    assert model.inertia_ == pytest.approx(cost(X, kept))
    seed = np.random.RandomState(1).randint(2**31)
    np.testing.assert_array_equal(kept, ol_means(parts, 3, random_state=int(seed)))


def test_bad_parameters():
    for options, error, message in (
        ({"n_clusters": 0}, ValueError, "n_clusters=0 must be at least 1"),
        ({"n_clusters": 301}, DataError, "301, but the data have 300 distinct rows"),
        ({"lloyd_steps": -1}, ValueError, "lloyd_steps=-1"),
        ({"divergence": "cosine"}, ValueError, "divergence='cosine' is unknown"),
        ({"divergence": "kullback_leibler", "lloyd_steps": 3}, ValueError, "leave lloyd_steps=0"),
    ):
        with pytest.raises(error, match=message):
            KVariates(**options).fit(X)
    with pytest.raises(ValueError, match="at least one non-zero"):  # scikit-learn's words
        KVariates(2).fit(X, sample_weight=np.zeros(300))


# --- in the pipeline ---------------------------------------------------------------------------------------


def build(clustering):
    y = np.random.default_rng(0).integers(0, 2, 300)
    options = {"method": "sensitivity", "size": 50, "progressbar": False, "random_state": 3}
    return build_coreset(X, y, clustering=clustering, **options)


def test_every_clustering_feeds_the_sensitivity_bound():
    y = np.random.default_rng(0).integers(0, 2, 300)
    Z = X * np.where(y > 0, 1.0, -1.0)[:, None]
    seeds = k_variates(Z, 4, random_state=0)
    given = build(seeds.centers)
    for same in (seeds, KVariates(4, random_state=0).fit(Z)):
        np.testing.assert_array_equal(build(same).weights, given.weights)


def test_an_unfitted_clusterer_is_fitted_to_signed_rows():
    for clusterer in (KVariates(3), KMeans(3, n_init=1)):
        core, again = build(clusterer), build(clusterer)
        assert core.params["clusters"] == 3
        np.testing.assert_array_equal(core.weights, again.weights)  # one seed repeats all
        assert not hasattr(clusterer, "cluster_centers_")
