"""Compiled scores of the rows of a block, tile by tile (`data.passes.tiles`)."""

import math
from typing import NamedTuple

import numpy as np

from bayescore.clustering.assignment import nearest, squared_distances
from bayescore.compiled import jit
from bayescore.data.passes.tiles import TILE, TileRows, load_signed_tile, load_tile, new_tile
from bayescore.models.elementary import exp_minus
from bayescore.models.families import Family
from bayescore.models.row_kernels import add_offset, predictor, squared_lengths
from bayescore.types import FloatArray, IntArray, LabelArray


class Clusters(NamedTuple):
    """A `Clustering` as compiled code takes it."""

    centers: FloatArray
    means: FloatArray
    masses: FloatArray
    counts: IntArray


@jit
def sensitivity_block(
    rows: TileRows, clusters: Clusters, radius: float, theta: FloatArray, weight_total: float
) -> FloatArray:
    """Return the bounds m_n of `sensitivity` for the rows of a block, shape (n,).

    Without row n its own cluster's mean is farther from z_n by the factor W_i / (W_i - w_n).
    """
    means, masses = clusters.means, clusters.masses
    k, n_features = means.shape
    shifted = theta.any()
    products = (means * theta).sum(axis=1)
    bounds = np.empty(len(rows.weights))
    tile = np.zeros((n_features, TILE))
    scratch, best = np.empty(TILE), np.empty(TILE)
    which = np.empty(TILE, dtype=np.int64)
    total, product = np.empty(TILE), np.zeros(TILE)
    exponents, others = np.empty((k, TILE)), np.empty((k, TILE))
    powers = np.empty(TILE)
    bits = powers.view(np.int64)
    for start in range(0, len(rows.weights), TILE):
        width = min(TILE, len(rows.weights) - start)
        load_signed_tile(rows.X, rows.side, start, width, tile)
        nearest(tile, clusters.centers, scratch, best, which)
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
            i, weight = which[lane], rows.weights[start + lane]
            rest = masses[i] - weight
            if clusters.counts[i] == 1 or rest <= 0.0:  # alone, or beside less weight than rounding
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


@jit
def leverage_rows(X: FloatArray, weights: FloatArray, basis: FloatArray) -> FloatArray:
    """Return w abs(x' basis)^2 of each row, at most 1, shape (n,); basis has shape (D, r)."""
    out = np.empty(len(X))
    tile, scratch, squares = new_tile(X.shape[1]), np.empty(TILE), np.empty(TILE)
    for start in range(0, len(X), TILE):
        width = min(TILE, len(X) - start)
        load_tile(X, start, width, tile)
        squared_lengths(tile, basis, scratch, squares)
        for lane in range(width):
            out[start + lane] = min(weights[start + lane] * squares[lane], 1.0)
    return out


@jit
def predictors(rows: TileRows, theta: FloatArray, factor: FloatArray) -> FloatArray:
    """Return the predictor x . theta, and offset, and abs(xL)^2 of each row, shape (2, n); L = `factor`, (D, D)."""
    n = len(rows.weights)
    out = np.empty((2, n))
    tile, eta, squares = new_tile(rows.X.shape[1]), np.empty(TILE), np.empty(TILE)
    for start in range(0, n, TILE):
        width = min(TILE, n - start)
        load_tile(rows.X, start, width, tile)
        squared_lengths(tile, factor, eta, squares)
        predictor(tile, theta, eta)
        add_offset(rows.offset, start, width, eta)
        out[0, start : start + width] = eta[:width]
        out[1, start : start + width] = squares[:width]
    return out


@jit
def score_rows(
    eta: FloatArray, side: LabelArray, squares: FloatArray, weights: FloatArray, family: Family
) -> FloatArray:
    """Return g, h, the reach and the pull's factor of each row, shape (4, n); see `pilot.LaplaceApproximation`."""
    n = len(eta)
    out = np.empty((4, n))
    tile, sides = np.zeros(TILE), np.ones(TILE)
    terms, scratch, higher = np.empty((4, TILE)), np.empty((3, TILE)), np.empty(TILE)
    for start in range(0, n, TILE):
        width = min(TILE, n - start)
        tile[:width] = eta[start : start + width]
        sides[:width] = side[start : start + width]
        family.derivatives(tile, sides, terms, scratch)
        for lane in range(width):
            higher[lane] = math.sqrt(squares[start + lane])
        for lane in range(width):
            w, square, length = weights[start + lane], squares[start + lane], higher[lane]
            curvature = abs(terms[2, lane])  # some likelihoods are not log-concave
            out[0, start + lane] = w * abs(terms[1, lane]) * length
            out[1, start + lane] = w * curvature * square
            out[2, start + lane] = w * square * (abs(terms[3, lane]) * length / 6.0 + curvature * square / 24.0)
            out[3, start + lane] = 0.5 * w * terms[3, lane] * square
    return out
