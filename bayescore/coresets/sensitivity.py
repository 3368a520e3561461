r"""Logistic coresets by sensitivity sampling (Huggins, Campbell and Broderick 2016, Algorithm 1).

The sensitivity of row n over the ball of radius R around theta* is at most

.. math:: m_n = \frac{W}{w_n + \sum_i W_i^{(-n)}
          \exp(-R\,|\bar Z_i^{(-n)} - z_n| - |(\bar Z_i^{(-n)} - z_n) \cdot \theta^*|)}

for any k-clustering of the signed rows, Zbar_i and W_i the clusters' means and weights, "(-n)" without row n
(Lemmas 3.1 and B.5; with unit weights their formula). M rows are drawn with p_n proportional to w_n m_n and
row n, drawn K_n times, gets weight w_n K_n / (M p_n): the weighted log-likelihood is unbiased.

When to use it: it needs no fit of the model and has a guarantee, but its posterior means are off by about
sqrt(N / M) posterior standard deviations.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayescore.clustering.assignment import Clustering, assign, fit_centers, seed_centers
from bayescore.clustering.partitions import seed_peers
from bayescore.coresets.draw import draw, equal_rates, weighted
from bayescore.coresets.kernels import sensitivity_block
from bayescore.data.opened import Opened
from bayescore.data.sources import unlabelled
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, check_integer, check_matrix, check_positive

D_MEANS = "d-means++"  # the clustering that is named, not given
RESOLUTION = 1024  # rates are w m in units of mean weight / 1024, rounded up


def bounds_of(block: WeightedData, clusters: Clustering, radius: float, theta: FloatArray, total: float) -> FloatArray:
    """Return the sensitivity bounds of the rows of a block, shape (n,)."""
    parts = clusters.centers, clusters.means, clusters.masses, clusters.counts
    return sensitivity_block(block.X, block.y, block.weights, *parts, radius, theta, total)


def sensitivity_bounds(
    Z: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    centers: ArrayLike,
    radius: float,
    center: ArrayLike | None = None,
) -> FloatArray:
    """Return upper bounds of the sensitivities of signed rows.

    Parameters
    ----------
    Z : array, shape (n, D)
        Signed rows z_n = y_n x_n.
    weights : array, shape (n,), optional
        Positive weights, 1 by default.
    centers : array, shape (k, D)
        Points that define the clustering: each row belongs to the nearest.
    radius : float
        Radius R of the ball of coefficients that the bound holds on.
    center : array, shape (D,), optional
        Center theta* of the ball, 0 by default.

    Returns
    -------
    array, shape (n,)
        m_n, between the sensitivity and W / w_n.

    References
    ----------
    Huggins, Campbell and Broderick (2016), Lemma 3.1 and Lemma B.5.
    """
    opened = Opened(unlabelled(Z, weights, "Z"))
    n_features = opened.n_features
    points = check_centers(centers, n_features)
    theta = check_theta(center, n_features)
    R = check_positive(radius, "radius")
    total, clusters = opened.scan.weight_total, assign(opened, points)
    return np.concatenate(list(opened.map(lambda _, block: bounds_of(block, clusters, R, theta, total))))


def sensitivity_size(mean_sensitivity: float, n_features: int, epsilon: float, delta: float, c: float = 1.0) -> int:
    r"""Return the number of draws that makes an epsilon-coreset with probability 1 - delta.

    M = ceil(c mbar / epsilon^2 ((D + 1) log mbar + log(1 / delta))), mbar the mean bound. The theorem leaves
    the constant c open: c = 1 is a convention, not a guarantee.

    References
    ----------
    Huggins, Campbell and Broderick (2016), Theorem 3.2 and Algorithm 1.
    """
    epsilon, delta = check_positive(epsilon, "epsilon", below=1.0), check_positive(delta, "delta", below=1.0)
    return math.ceil(check_positive(c, "c") * _draws(mean_sensitivity, n_features, delta) / epsilon**2)


def sensitivity_epsilon(mean_sensitivity: float, n_features: int, size: int, delta: float) -> float:
    """Return the epsilon of `size` draws, by `sensitivity_size` with c = 1; from 1 on it promises nothing."""
    return math.sqrt(_draws(mean_sensitivity, n_features, delta) / size)


def _draws(mean_sensitivity: float, n_features: int, delta: float) -> float:
    return mean_sensitivity * ((n_features + 1) * math.log(max(mean_sensitivity, 1.0)) + math.log(1.0 / delta))


def check_centers(clustering: Any, n_features: int) -> FloatArray:
    """Return the centers of a clustering, shape (k, D): an array, a seeding, or a fitted scikit-learn clusterer."""
    centers = getattr(clustering, "cluster_centers_", getattr(clustering, "centers", clustering))
    if hasattr(centers, "fit"):
        raise TypeError(
            f"clustering is a {type(centers).__name__}, which has no cluster_centers_; give a clusterer that has them, "
            "such as KMeans or KVariates, or an array of centers"
        )
    points = check_matrix(centers, "clustering", n_columns=n_features)
    if not np.isfinite(points).all():
        raise DataError("clustering has centers with NaN or infinity")
    return np.ascontiguousarray(points, dtype=np.float64)


def check_theta(center: ArrayLike | None, n_features: int) -> FloatArray:
    """Return the center of the ball of coefficients, shape (D,)."""
    theta = np.zeros(n_features) if center is None else np.asarray(center, dtype=np.float64)
    if theta.shape != (n_features,) or not np.isfinite(theta).all():
        raise ValueError(f"center has shape {theta.shape}; it must be ({n_features},), finite, one for each column")
    return np.ascontiguousarray(theta)


def _default_clusters(n_features: int) -> int:
    return 4 if n_features <= 10 else 6


def _seeding(opened: Opened, clusters: int | None, clusterer: Any, rng: np.random.Generator) -> Any:
    """Seed (or fit the clusterer) on a uniform subsample of min(1000 k, N / 40) rows, enlarged till k are distinct."""
    k = _default_clusters(opened.n_features) if clusters is None else clusters
    n_rows = opened.scan.n_rows
    size = min(n_rows, max(min(1000 * k, n_rows // 40), 20 * k))
    seed = int(rng.integers(2**63))
    while True:
        sample = draw(opened, equal_rates, size, seed, replace=False, description="subsample").rows
        try:
            return seed_centers(sample, k, rng) if clusterer is None else fit_centers(clusterer, sample, rng)
        except DataError:
            if size < n_rows:
                size = min(n_rows, 8 * size)
            elif clusters is None and k > 1:
                k -= 1
            else:
                raise


def sensitivity_coreset(
    opened: Opened,
    size: int | None,
    seed: int,
    *,
    clusters: int | None = None,
    radius: float | str = "auto",
    center: ArrayLike | None = None,
    clustering: Any = None,
    epsilon: float | None = None,
    delta: float = 0.05,
) -> tuple[WeightedData, dict[str, Any]]:
    """Draw a coreset by sensitivity; see `build_coreset` for the options.

    Returns
    -------
    rows : WeightedData
        The coreset.
    params : dict
        clusters, radius, cost (normalised k-means cost), mean_sensitivity (rounded up by at most 1/1024),
        draws; center, clustering, epsilon and delta where they were given.
    """
    n_features, n_rows, weight_total = opened.n_features, opened.scan.n_rows, opened.scan.weight_total
    rng = np.random.default_rng(seed)
    theta = check_theta(center, n_features)
    if clusters is not None:
        clusters = check_integer(clusters, "clusters", low=1)
        if clusters > n_rows:
            raise DataError(f"clusters={clusters} exceeds the {n_rows} rows; ask for fewer")
    fitted = clustering
    if isinstance(clustering, str):
        k = _default_clusters(n_features) if clusters is None else clusters
        fitted = seed_peers(opened, k, rng)
    elif clustering is None or (hasattr(clustering, "fit") and not hasattr(clustering, "cluster_centers_")):
        clusters = getattr(clustering, "n_clusters", clusters)
        fitted = _seeding(opened, clusters, clustering, rng)
    centers = check_centers(fitted, n_features)
    part = assign(opened, centers)
    # with cost 0 every row sits on a center: the distances in the bound vanish, and any radius will do
    R = 3.0 / math.sqrt(part.cost or 1.0) if radius == "auto" else check_positive(radius, "radius")
    per_weight = n_rows / weight_total

    def rates(block: WeightedData) -> IntArray:
        bounds = bounds_of(block, part, R, theta, weight_total)
        return np.ceil(RESOLUTION * per_weight * block.weights * bounds).astype(np.int64)

    if size is None:
        assert epsilon is not None
        total = sum(opened.map(lambda _, block: int(rates(block).sum()), "scores"))
        size = sensitivity_size(total / (RESOLUTION * n_rows), n_features, epsilon, delta)
        if size > n_rows:
            raise ValueError(
                f"epsilon={epsilon:g} needs {size} draws, more than the {n_rows} rows; "
                "give a larger epsilon, a smaller radius, or a size"
            )
    drawn = draw(opened, rates, size, int(rng.integers(2**63)))
    params = {
        "draws": size,
        "clusters": len(part.centers),
        "radius": R,
        "cost": part.cost,
        "mean_sensitivity": drawn.total / (RESOLUTION * n_rows),
    }
    if center is not None:
        params["center"] = theta.tolist()
    if clustering is not None:
        params["clustering"] = centers.tolist()
    if epsilon is not None:
        params |= {"epsilon": epsilon, "delta": delta}
    return weighted(drawn, size), params


def uniform_coreset(opened: Opened, size: int, seed: int) -> tuple[WeightedData, dict[str, Any]]:
    """Draw `size` different rows, or all if they are fewer, with equal probability; each stands for N / M rows."""
    drawn = draw(opened, equal_rates, size, seed, replace=False)
    rows = drawn.rows.take(np.argsort(drawn.rows.index, kind="stable"))
    return rows.with_weights(rows.weights * (drawn.total / len(rows))), {}
