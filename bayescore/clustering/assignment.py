"""Exact means, masses and cost of a clustering given by its centers, in one pass.

Each signed row z_n belongs to its nearest center Q_i. The normalised cost is I = sum_n w_n min_i |z_n - Q_i|^2 / W.

Compiled kernels work on tiles of transposed rows, so the inner loop runs over rows and vectorises, and a row's numbers
do not depend on its place in a block. Sums are exact in fixed point: adding and subtracting 1.5 * 2^52 * unit rounds a
number to a multiple of `unit`, and multiples add exactly.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayescore.clustering.divergences import check_trials, distinct_rows
from bayescore.clustering.variates import Held, Rows, seed
from bayescore.compiled import jit
from bayescore.data.dataset import Dataset
from bayescore.data.passes import TILE, as_integers, from_integers, load_signed_tile, quantum
from bayescore.types import FloatArray, IntArray, LabelArray, WeightedData
from bayescore.validation import DataError


class Units(NamedTuple):
    """Units of the exact sums: of rows, shape (D,), of weights, and of the cost."""

    rows: FloatArray
    weight: float
    cost: float


@dataclass(frozen=True, eq=False)
class Clustering:
    """Non-empty clusters of signed rows."""

    centers: FloatArray
    means: FloatArray
    masses: FloatArray
    counts: IntArray
    cost: float


def seed_centers(sample: WeightedData, n_clusters: int, rng: np.random.Generator) -> FloatArray:
    """Choose k centers among the signed rows of `sample` by greedy k-means++ (Arthur and Vassilvitskii 2007).

    Raises `DataError` if fewer than k rows are distinct.
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
    """Fit a copy of a scikit-learn clusterer to the rows, with weights if it takes them, and a seed if it has none."""
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
    reach = float(((largest + np.abs(centers).max(axis=0)) ** 2).sum())
    weight_unit, cost_unit = (float(quantum(np.asarray(size * largest_weight))) for size in (1.0, reach))
    units = Units(quantum(largest * largest_weight), weight_unit, cost_unit)
    sums = np.zeros(centers.shape, dtype=object)
    masses = np.zeros(len(centers), dtype=object)
    counts = np.zeros(len(centers), dtype=np.int64)
    cost = 0
    for part in dataset.map(
        lambda _, block: assign_block(block.X, block.y, block.weights, centers, units), "clustering"
    ):
        sums += as_integers(part[0] / units.rows)
        masses += as_integers(part[1] / weight_unit)
        counts += part[2]
        cost += (int(part[3] / cost_unit) << 36) + int(part[4] / (cost_unit * 2.0**-36))
    kept = (counts > 0) & (masses > 0)  # a mass far below the largest weight rounds to nothing
    mass = from_integers(masses[kept], np.asarray(weight_unit))
    return Clustering(
        centers=np.ascontiguousarray(centers[kept]),
        means=np.ascontiguousarray(from_integers(sums[kept], units.rows) / mass[:, None]),
        masses=mass,
        counts=counts[kept],
        cost=float(cost) * 2.0**-36 * cost_unit / dataset.scan.weight_total,
    )


@jit
def squared_distances(tile: FloatArray, point: FloatArray, out: FloatArray) -> None:
    """Write the squared distance of each column of `tile` from `point` to `out`, shape (TILE,)."""
    out[:] = 0.0
    for d in range(tile.shape[0]):
        center = point[d]
        for lane in range(tile.shape[1]):
            gap = tile[d, lane] - center
            out[lane] += gap * gap


@jit
def nearest(tile: FloatArray, centers: FloatArray, scratch: FloatArray, best: FloatArray, which: IntArray) -> None:
    """Write the squared distance to the nearest center, and its number, for each column of `tile`."""
    squared_distances(tile, centers[0], best)
    which[:] = 0
    for i in range(1, centers.shape[0]):
        squared_distances(tile, centers[i], scratch)
        for lane in range(tile.shape[1]):
            if scratch[lane] < best[lane]:
                best[lane] = scratch[lane]
                which[lane] = i


@jit
def assign_block(
    X: FloatArray, y: LabelArray, weights: FloatArray, centers: FloatArray, units: Units
) -> tuple[FloatArray, FloatArray, IntArray, float, float]:
    """Assign each signed row of a block to its nearest center.

    Returns, rounded to multiples of the units: weighted sums of each cluster's rows (k, D), their weights (k,), their
    counts (k,), and the weighted sum of squared distances in two parts, the second in units 2^-36 as large.
    """
    k, n_features = centers.shape
    sums, masses = np.zeros((k, n_features)), np.zeros(k)
    counts = np.zeros(k, dtype=np.int64)
    cost, cost_rest = 0.0, 0.0
    tile = np.zeros((n_features, TILE))
    scratch, best = np.empty(TILE), np.empty(TILE)
    which = np.empty(TILE, dtype=np.int64)
    shifts = units.rows * 6755399441055744.0  # 1.5 * 2^52
    weight_shift = units.weight * 6755399441055744.0
    cost_shift = units.cost * 6755399441055744.0
    rest_shift = cost_shift * 2.0**-36
    for start in range(0, len(y), TILE):
        width = min(TILE, len(y) - start)
        load_signed_tile(X, y, start, width, tile)
        nearest(tile, centers, scratch, best, which)
        for lane in range(width):
            i = which[lane]
            weight = weights[start + lane]
            signed = weight * y[start + lane]
            for d in range(n_features):
                sums[i, d] += (signed * X[start + lane, d] + shifts[d]) - shifts[d]
            masses[i] += (weight + weight_shift) - weight_shift
            counts[i] += 1
            whole = (weight * best[lane] + cost_shift) - cost_shift
            cost += whole
            cost_rest += ((weight * best[lane] - whole) + rest_shift) - rest_shift
    return sums, masses, counts, cost, cost_rest
