"""Compiled sensitivity bound of the rows of a block; tiles and fixed point as in `clustering.kernels`."""

import math

import numpy as np

from bayescore.clustering.kernels import TILE, load_tile, nearest, squared_distances
from bayescore.compiled import jit
from bayescore.models.kernels import exp_minus
from bayescore.types import FloatArray, IntArray, LabelArray


@jit
def sensitivity_block(
    X: FloatArray,
    y: LabelArray,
    weights: FloatArray,
    centers: FloatArray,
    means: FloatArray,
    masses: FloatArray,
    counts: IntArray,
    radius: float,
    theta: FloatArray,
    weight_total: float,
) -> FloatArray:
    """Return the bounds m_n of `sensitivity` for the rows of a block, shape (n,).

    Leaving row n out of its own cluster moves the cluster's mean away from z_n by the factor
    W_i / (W_i - w_n), so the own cluster's term costs no more than the others.
    """
    k, n_features = means.shape
    shifted = theta.any()
    products = (means * theta).sum(axis=1)
    bounds = np.empty(len(y))
    tile = np.zeros((n_features, TILE))
    scratch, best = np.empty(TILE), np.empty(TILE)
    which = np.empty(TILE, dtype=np.int64)
    total, product = np.empty(TILE), np.zeros(TILE)
    exponents, others = np.empty((k, TILE)), np.empty((k, TILE))
    powers = np.empty(TILE)
    bits = powers.view(np.int64)
    for start in range(0, len(y), TILE):
        width = min(TILE, len(y) - start)
        load_tile(X, y, start, width, tile)
        nearest(tile, centers, scratch, best, which)
        if shifted:
            product[:] = 0.0
            for d in range(n_features):
                for lane in range(TILE):
                    product[lane] += tile[d, lane] * theta[d]
        for i in range(k):
            squared_distances(tile, means[i], scratch)
            for lane in range(TILE):
                exponents[i, lane] = radius * math.sqrt(scratch[lane]) + abs(products[i] - product[lane])
                others[i, lane] = masses[i]
        for lane in range(width):
            i, weight = which[lane], weights[start + lane]
            rest = masses[i] - weight
            if counts[i] == 1 or rest <= 0.0:  # alone, or beside less weight than rounding
                others[i, lane] = 0.0
            else:
                others[i, lane] = rest
                exponents[i, lane] *= masses[i] / rest
            total[lane] = weight
        for i in range(k):
            exp_minus(exponents[i], powers, bits)
            for lane in range(TILE):
                total[lane] += others[i, lane] * exponents[i, lane]
        for lane in range(width):
            bounds[start + lane] = weight_total / total[lane]
    return bounds
