"""Compiled scores of the rows of a block, tile by tile (`data.passes.tiles`)."""

import math

import numpy as np

from bayescore.clustering.kernels import nearest, squared_distances
from bayescore.compiled import jit, jit_sums
from bayescore.data.passes.tiles import TILE, load_tile, new_tile
from bayescore.models.elementary import exp_minus
from bayescore.models.terms import predictor, squared_lengths
from bayescore.types import FloatArray, IntArray, LabelArray, Likelihood


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


@jit
def leverage_rows(X: FloatArray, y: LabelArray, weights: FloatArray, basis: FloatArray) -> FloatArray:
    """Return w abs(x' basis)^2 of each row, at most 1, shape (n,); basis has shape (D, r)."""
    out = np.empty(len(y))
    tile, scratch, squares = new_tile(X.shape[1]), np.empty(TILE), np.empty(TILE)
    for start in range(0, len(y), TILE):
        width = min(TILE, len(y) - start)
        load_tile(X, y, start, width, tile)
        squared_lengths(tile, basis, scratch, squares)
        for lane in range(width):
            out[start + lane] = min(weights[start + lane] * squares[lane], 1.0)
    return out


@jit
def column_squares(X: FloatArray, weights: FloatArray) -> FloatArray:
    """Return sum w x^2 of each column, shape (D,)."""
    total = np.zeros(X.shape[1])
    for n in range(X.shape[0]):
        for d in range(X.shape[1]):
            total[d] += weights[n] * X[n, d] * X[n, d]
    return total


@jit
def _score_tile(
    tile: FloatArray, weights: FloatArray, theta: FloatArray, factor: FloatArray, link: Likelihood, work: FloatArray
) -> None:
    """Turn the first three of nine rows of `work` into g, h and w l''' abs(zL)^2 / 2; see `pilot.PosteriorScale`."""
    g, h, pull, eta, squares = work[0], work[1], work[2], work[3], work[4]
    squared_lengths(tile, factor, eta, squares)
    predictor(tile, theta, eta)
    link.derivatives(eta, work[5:9], work[0:3])
    for lane in range(TILE):
        w, square = weights[lane], squares[lane]
        g[lane] = w * work[6, lane] * math.sqrt(square)
        h[lane] = w * abs(work[7, lane]) * square  # some likelihoods are not log-concave
        pull[lane] = 0.5 * w * work[8, lane] * square


@jit
def score_rows(
    X: FloatArray, y: LabelArray, weights: FloatArray, theta: FloatArray, factor: FloatArray, link: Likelihood
) -> FloatArray:
    """Return g and h of each row, shape (2, n)."""
    out = np.empty((2, len(y)))
    tile, own, work = new_tile(X.shape[1]), np.ones(TILE), np.empty((9, TILE))
    for start in range(0, len(y), TILE):
        width = min(TILE, len(y) - start)
        load_tile(X, y, start, width, tile)
        own[:width] = weights[start : start + width]
        _score_tile(tile, own, theta, factor, link, work)
        out[:, start : start + width] = work[:2, :width]
    return out


@jit_sums
def _add_scores(tile: FloatArray, work: FloatArray, totals: FloatArray) -> None:
    g, h, pull = work[0], work[1], work[2]
    squares, norms, leverages = 0.0, 0.0, 0.0
    for lane in range(TILE):
        squares += g[lane] * g[lane]
        norms += g[lane]
        leverages += h[lane]
    totals[0] += squares
    totals[1] += norms
    totals[2] += leverages
    for d in range(tile.shape[0]):
        total = 0.0
        for lane in range(TILE):
            total += pull[lane] * tile[d, lane]
        totals[3 + d] += total


@jit
def score_sums(
    X: FloatArray, y: LabelArray, weights: FloatArray, theta: FloatArray, factor: FloatArray, link: Likelihood
) -> FloatArray:
    """Return sums over rows of g^2, g and h, and of w l''' abs(zL)^2 / 2 times the signed row, shape (3 + D,)."""
    totals = np.zeros(3 + X.shape[1])
    tile, own, work = new_tile(X.shape[1]), np.zeros(TILE), np.empty((9, TILE))
    for start in range(0, len(y), TILE):
        width = min(TILE, len(y) - start)
        load_tile(X, y, start, width, tile)
        own[:width] = weights[start : start + width]
        own[width:] = 0.0
        _score_tile(tile, own, theta, factor, link, work)
        _add_scores(tile, work, totals)
    return totals
