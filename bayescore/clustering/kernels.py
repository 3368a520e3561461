"""Compiled passes over a block for a k-clustering.

Rows are worked on in tiles, transposed so that the inner loop runs over rows: the compiler vectorises it,
and a row's numbers do not depend on where in a block the row stands. Sums are taken in fixed point: adding
and subtracting 1.5 * 2^52 * unit rounds a number to a multiple of `unit`, and multiples add exactly.
"""

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.data.passes.tiles import TILE, load_signed_tile
from bayescore.types import FloatArray, IntArray, LabelArray


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
    X: FloatArray,
    y: LabelArray,
    weights: FloatArray,
    centers: FloatArray,
    units: FloatArray,
    weight_unit: float,
    cost_unit: float,
) -> tuple[FloatArray, FloatArray, NDArray[np.int64], float, float]:
    """Assign each signed row of a block to its nearest center.

    Returns
    -------
    sums : array, shape (k, D)
        Weighted sums of the rows of each cluster, in multiples of `units`, shape (D,).
    masses : array, shape (k,)
        Weights of the clusters, in multiples of `weight_unit`.
    counts : array, shape (k,)
        Rows in the clusters.
    cost, cost_rest : float
        Weighted sum of squared distances to the centers: multiples of `cost_unit`, and of 2^-36 of it.
    """
    k, n_features = centers.shape
    sums, masses = np.zeros((k, n_features)), np.zeros(k)
    counts = np.zeros(k, dtype=np.int64)
    cost, cost_rest = 0.0, 0.0
    tile = np.zeros((n_features, TILE))
    scratch, best = np.empty(TILE), np.empty(TILE)
    which = np.empty(TILE, dtype=np.int64)
    shifts = units * 6755399441055744.0  # 1.5 * 2^52
    weight_shift = weight_unit * 6755399441055744.0
    cost_shift = cost_unit * 6755399441055744.0
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
