"""Compiled sensitivity bound of the rows of a block; tiles and fixed point as in `clustering.kernels`."""

import math

import numpy as np
from numpy.typing import NDArray

from bayescore.clustering.kernels import TILE, load_tile, nearest, squared_distances
from bayescore.compiled import jit
from bayescore.types import FloatArray, IntArray, LabelArray

_TAYLOR = np.array([1.0 / math.factorial(j) for j in range(13, -1, -1)])


@jit
def exp_minus(x: FloatArray, powers: FloatArray, bits: NDArray[np.int64]) -> None:
    """Replace each x >= 0 by exp(-x), to 4e-16, in loops that the compiler vectorises (libm's exp does not).

    exp(-x) = 2^n exp(r), abs(r) <= log(2) / 2. Adding 1.5 * 2^52 leaves n in the low bits of `powers`, and
    `bits`, the same memory as integers, shifts it into the exponent.
    """
    for lane in range(x.size):
        t = max(-x[lane], -700.0)
        shifted = t * 1.4426950408889634 + 6755399441055744.0
        n = shifted - 6755399441055744.0
        powers[lane] = shifted
        x[lane] = (t - n * 0.6931471803691238) - n * 1.9082149292705877e-10
    for lane in range(x.size):
        bits[lane] = (bits[lane] + 1023) << 52
    for lane in range(x.size):
        r = x[lane]
        total = _TAYLOR[0]
        for j in range(1, 14):
            total = total * r + _TAYLOR[j]
        x[lane] = total * powers[lane]


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
