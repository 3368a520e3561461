r"""Exact means, masses and cost of a clustering given by its centers, in one pass.

The clustering of signed rows z_n assigns each to its nearest center Q_i. The normalised cost is
I = sum_n w_n min_i |z_n - Q_i|^2 / W.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayescore.clustering.checks import check_trials, distinct_rows
from bayescore.clustering.coordinator import Held, seed
from bayescore.clustering.kernels import assign_block
from bayescore.clustering.variates import Rows
from bayescore.data.dataset import Dataset
from bayescore.data.passes.exact import as_integers, from_integers, quantum
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError


@dataclass(frozen=True, eq=False)
class Clustering:
    """Non-empty clusters of signed rows.

    Parameters
    ----------
    centers : array, shape (k, D)
        Points that rows are assigned to by distance.
    means : array, shape (k, D)
        Weighted means of the clusters.
    masses : array, shape (k,)
        Total weights of the clusters.
    counts : array, shape (k,)
        Rows in the clusters.
    cost : float
        Normalised k-means cost of `centers`.
    """

    centers: FloatArray
    means: FloatArray
    masses: FloatArray
    counts: IntArray
    cost: float


def seed_centers(sample: WeightedData, n_clusters: int, rng: np.random.Generator) -> FloatArray:
    """Choose k centers among the signed rows of `sample` by greedy k-means++.

    Raises
    ------
    DataError
        If the sample has fewer than k distinct rows.

    References
    ----------
    Arthur and Vassilvitskii (2007), k-means++: the advantages of careful seeding.
    """
    Z = sample.Z
    n_distinct = distinct_rows(Z, n_clusters)
    if n_distinct < n_clusters:
        raise DataError(
            f"clusters={n_clusters}, but the data have {n_distinct} distinct signed rows; ask for "
            f"clusters={n_distinct} or fewer, or merge repeated rows with method='aggregate'"
        )
    rows = Rows(Z, sample.weights, n_local_trials=check_trials(None, n_clusters), name="the signed rows")
    return seed(Held([rows]), n_clusters, rng)[0]


def fit_centers(clusterer: Any, sample: WeightedData, rng: np.random.Generator) -> Any:
    """Return a copy of a scikit-learn clusterer, fitted to the signed rows of `sample`; without a seed it gets one.

    Weights go to clusterers that take them: the bound holds for any clustering.
    """
    from sklearn.base import clone  # it takes a second, which workers do without
    from sklearn.utils.validation import has_fit_parameter

    fresh = clone(clusterer)
    if fresh.get_params().get("random_state", 0) is None:
        fresh.set_params(random_state=int(rng.integers(2**31)))
    weights = {"sample_weight": sample.weights} if has_fit_parameter(fresh, "sample_weight") else {}
    return fresh.fit(sample.Z, **weights)


def assign(dataset: Dataset, centers: FloatArray) -> Clustering:
    """Assign every row to its nearest center; clusters without rows drop out.

    The sums are exact in fixed point, so the result is the same for all cuts into blocks.
    """
    largest, largest_weight = dataset.scan.largest, dataset.scan.largest_weight
    units = quantum(largest * largest_weight)
    weight_unit = float(quantum(np.asarray(largest_weight)))
    reach = float(((largest + np.abs(centers).max(axis=0)) ** 2).sum())
    cost_unit = float(quantum(np.asarray(reach * largest_weight)))
    sums = np.zeros(centers.shape, dtype=object)
    masses = np.zeros(len(centers), dtype=object)
    counts = np.zeros(len(centers), dtype=np.int64)
    cost = 0
    for part in dataset.map(
        lambda _, block: assign_block(block.X, block.y, block.weights, centers, units, weight_unit, cost_unit),
        "clustering",
    ):
        sums += as_integers(part[0] / units)
        masses += as_integers(part[1] / weight_unit)
        counts += part[2]
        cost += (int(part[3] / cost_unit) << 36) + int(part[4] / (cost_unit * 2.0**-36))
    kept = (counts > 0) & (masses > 0)  # a mass far below the largest weight rounds to nothing
    mass = from_integers(masses[kept], np.asarray(weight_unit))
    return Clustering(
        centers=np.ascontiguousarray(centers[kept]),
        means=np.ascontiguousarray(from_integers(sums[kept], units) / mass[:, None]),
        masses=mass,
        counts=counts[kept],
        cost=float(cost) * 2.0**-36 * cost_unit / dataset.scan.weight_total,
    )
