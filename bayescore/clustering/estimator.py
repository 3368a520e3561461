"""`KVariates`: k-variates++ as a scikit-learn estimator, with optional Lloyd steps."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bayescore.clustering.divergences import (
    SQUARED_EUCLIDEAN,
    Divergence,
    Nearest,
    check_divergence,
    check_trials,
    divergences,
)
from bayescore.clustering.peers import next_center
from bayescore.clustering.variates import Densities, PointMasses, Probe, Rows, k_variates
from bayescore.types import FloatArray
from bayescore.validation import check_generator, check_integer


class KVariates(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Cluster by k-variates++ seeding.

    Parameters
    ----------
    n_clusters : int
        Number k of clusters.
    probe, density, divergence, n_local_trials
        See `k_variates`. For d-means++ on rows in memory: ``density=functools.partial(UniformDraw, groups=peers)``.
    lloyd_steps : int
        Lloyd steps by scikit-learn's KMeans after the seeding, at most; squared Euclidean only. 0 keeps the seeds.
    random_state : int, Generator, RandomState or None
        Seed.

    Attributes
    ----------
    cluster_centers_ : array, shape (k, D)
        Centers; after `partial_fit` on fewer than k minibatches, one for each.
    labels_ : array, shape (n,)
        Number of each row's nearest center; of the last minibatch after `partial_fit`.
    inertia_ : float
        Weighted sum of the rows' divergences from their nearest centers, likewise.

    Raises
    ------
    DataError
        If fewer than k rows are distinct, or the rows lie outside the divergence's domain.
    ValueError, TypeError
        For parameters out of range.

    References
    ----------
    Nock, Canyasse, Boreli and Nielsen (2016), k-variates++: more pluses in the k-means++.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import KVariates
    >>> X = np.random.default_rng(0).normal(size=(500, 2)) + np.repeat([[0.0], [9.0]], 250, axis=0)
    >>> KVariates(2, lloyd_steps=10, random_state=0).fit(X).cluster_centers_.shape
    (2, 2)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        probe: Probe | None = None,
        density: Densities = PointMasses,
        divergence: Divergence | str = "squared_euclidean",
        n_local_trials: int | None = 1,
        lloyd_steps: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.probe = probe
        self.density = density
        self.divergence = divergence
        self.n_local_trials = n_local_trials
        self.lloyd_steps = lloyd_steps
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Seed k centers on X, shape (n, D), with weights, shape (n,)."""
        rows = validate_data(self, X, dtype=np.float64, order="C")
        weights = _check_sample_weight(sample_weight, rows, dtype=np.float64)
        steps = check_integer(self.lloyd_steps, "lloyd_steps", low=0)
        if steps and check_divergence(self.divergence) != SQUARED_EUCLIDEAN:
            raise ValueError(
                f"lloyd_steps={steps} asks for Lloyd steps, but divergence={self.divergence!r}: leave lloyd_steps=0"
            )
        clustering = k_variates(
            rows,
            self.n_clusters,
            weights=weights,
            probe=self.probe,
            density=self.density,
            divergence=self.divergence,
            n_local_trials=self.n_local_trials,
            random_state=self._generator(),
        )
        self.cluster_centers_, self.labels_, self.inertia_ = clustering.centers, clustering.labels, clustering.cost
        if steps:
            lloyd = KMeans(len(clustering.centers), init=clustering.centers, n_init=1, max_iter=steps)
            lloyd.fit(rows, sample_weight=weights)
            self.cluster_centers_, self.labels_ = lloyd.cluster_centers_, lloyd.labels_
            self.inertia_ = float(lloyd.inertia_)
        return self

    def partial_fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Draw one more center from a minibatch X, shape (n, D): ol-means++; k centers stay as they are."""
        k = check_integer(self.n_clusters, "n_clusters", low=1)
        first = not hasattr(self, "cluster_centers_")
        rows = validate_data(self, X, dtype=np.float64, order="C", reset=first)
        weights = _check_sample_weight(sample_weight, rows, dtype=np.float64)
        centers = np.empty((0, rows.shape[1])) if first else self.cluster_centers_
        batch = Rows(
            rows,
            weights,
            probe=self.probe,
            density=self.density,
            divergence=check_divergence(self.divergence),
            n_local_trials=check_trials(self.n_local_trials, k),
        )
        if first:
            self._rng = self._generator()
        if len(centers) < k:
            center = next_center(batch, centers, self._rng)
            centers = centers if center is None else np.vstack([centers, center])
        self.cluster_centers_ = centers
        nearest = self._nearest(rows, weights)
        self.labels_, self.inertia_ = nearest.owner, nearest.total
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int32]:
        """Return the number of the nearest center of each row of X, shape (n, D)."""
        rows = self._rows(X)
        return self._nearest(rows, np.ones(len(rows))).owner

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the root of the divergence of each row from each center, shape (n, k): by default the distance."""
        return np.sqrt(divergences(self._rows(X), self.cluster_centers_, check_divergence(self.divergence)))

    def _rows(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        rows: FloatArray = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        check_divergence(self.divergence).check(rows, "X")
        return rows

    def _nearest(self, rows: FloatArray, weights: FloatArray) -> Nearest:
        return Nearest(rows, weights, check_divergence(self.divergence), self.cluster_centers_)

    def _generator(self) -> np.random.Generator:
        """Return the generator; a RandomState, which scikit-learn passes around, gives a seed."""
        state = self.random_state
        return check_generator(int(state.randint(2**31)) if isinstance(state, np.random.RandomState) else state)

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)
