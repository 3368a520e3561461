r"""Bounds of sensitivities under the logistic likelihood, and how many draws they ask for (Huggins et al. 2016).

The sensitivity of row n over the ball of radius R around theta* is at most

.. math:: m_n = \frac{W}{w_n + \sum_i W_i^{(-n)}
          \exp(-R\,|\bar Z_i^{(-n)} - z_n| - |(\bar Z_i^{(-n)} - z_n) \cdot \theta^*|)}

for any k-clustering of the signed rows, Zbar_i and W_i the clusters' means and weights, "(-n)" without row n
(Lemmas 3.1 and B.5; with unit weights their formula).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayescore.clustering.assignment import Clustering, assign
from bayescore.coresets.scores.row_scores import Clusters, sensitivity_block
from bayescore.data.dataset import Dataset
from bayescore.data.passes.tiles import TileRows
from bayescore.data.sources import unlabelled
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError, check_matrix, check_positive


def bounds_of(block: WeightedData, clusters: Clustering, radius: float, theta: FloatArray, total: float) -> FloatArray:
    """Return the sensitivity bounds of the rows of a block, shape (n,)."""
    compiled = Clusters(clusters.centers, clusters.means, clusters.masses, clusters.counts)
    return sensitivity_block(TileRows.of(block), compiled, radius, theta, total)


def sensitivity_bounds(
    Z: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    centers: ArrayLike,
    radius: float,
    center: ArrayLike | None = None,
) -> FloatArray:
    """Return the bounds m_n, shape (n,), of the signed rows Z, shape (n, D), on the ball of a radius about `center`.

    Each row belongs to the nearest of the `centers`, shape (k, D).

    Examples
    --------
    >>> sensitivity_bounds([[1.0, 0.0], [1.1, 0.0], [-5.0, 0.0]], centers=[[0.0, 0.0]], radius=1.0).round(2)
    array([2.72, 2.75, 2.99])
    """
    dataset = Dataset(unlabelled(Z, weights, "Z"))
    n_features = dataset.n_features
    points = check_centers(centers, n_features)
    theta = np.zeros(n_features) if center is None else np.array(center, dtype=np.float64, order="C")
    if theta.shape != (n_features,) or not np.isfinite(theta).all():
        raise ValueError(f"center has shape {theta.shape}; it must be ({n_features},), finite, one for each column")
    R = check_positive(radius, "radius")
    total, clusters = dataset.scan.weight_total, assign(dataset, points)
    return np.concatenate(list(dataset.map(lambda _, block: bounds_of(block, clusters, R, theta, total))))


def sensitivity_size(mean_sensitivity: float, n_features: int, epsilon: float, delta: float, c: float = 1.0) -> int:
    """Return the number of draws M that makes an epsilon-coreset on the ball with probability 1 - delta.

    M = ceil(c mbar / epsilon^2 ((D + 1) log mbar + log(1 / delta))), mbar >= 1 the mean bound (Theorem 3.2). The
    theorem leaves c open: 1 is a convention, not a guarantee.

    Examples
    --------
    >>> sensitivity_size(5.0, 10, epsilon=0.5, delta=0.05)
    414
    """
    epsilon, delta = check_positive(epsilon, "epsilon", below=1.0), check_positive(delta, "delta", below=1.0)
    return math.ceil(check_positive(c, "c") * _draws(mean_sensitivity, n_features, delta) / epsilon**2)


def sensitivity_epsilon(mean_sensitivity: float, n_features: int, size: int, delta: float) -> float:
    """Return the epsilon of `size` draws, by `sensitivity_size` with c = 1; from 1 on it promises nothing.

    Examples
    --------
    >>> round(sensitivity_epsilon(5.0, 10, size=1000, delta=0.05), 2)
    0.32
    """
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
