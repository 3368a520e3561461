"""Compiled likelihoods of the rows of a block, tile by tile (`data.passes`): each row is read once, uncopied.

The family is an argument, and calls of its functions are compiled for it: see `compiled`.
"""

import math

import numpy as np

from bayescore.compiled import jit, jit_sums
from bayescore.data.passes import TILE, TileRows, load_tile, new_tile
from bayescore.families import Family
from bayescore.numerics.elementary import load
from bayescore.types import FloatArray, LabelArray, read_only


@jit
def predictor(tile: FloatArray, beta: FloatArray, eta: FloatArray) -> None:
    """Write eta = x . beta for each column of `tile`, shape (TILE,)."""
    eta[:] = 0.0
    for d in range(tile.shape[0]):
        for lane in range(TILE):
            eta[lane] += beta[d] * tile[d, lane]


@jit
def add_offset(offset: FloatArray, start: int, width: int, eta: FloatArray) -> None:
    """Add the offsets of the rows start, ..., start + width - 1 to eta; `offset` may be empty (`NO_OFFSET`)."""
    if offset.size > 0:
        for lane in range(width):
            eta[lane] += offset[start + lane]


@jit
def squared_lengths(tile: FloatArray, basis: FloatArray, scratch: FloatArray, out: FloatArray) -> None:
    """Write abs(x' basis)^2 for each column of `tile`, shape (TILE,); basis has shape (D, r)."""
    out[:] = 0.0
    for i in range(basis.shape[1]):
        scratch[:] = 0.0
        for d in range(tile.shape[0]):
            entry = basis[d, i]
            if entry != 0.0:  # half of a triangular one
                for lane in range(TILE):
                    scratch[lane] += entry * tile[d, lane]
        for lane in range(TILE):
            out[lane] += scratch[lane] * scratch[lane]


@jit_sums
def _add(
    tile: FloatArray, weights: FloatArray, terms: FloatArray, gradient: FloatArray, precision: FloatArray
) -> float:
    log_p, score, curvature, weighted = terms[0], terms[1], terms[2], terms[3]
    value = 0.0
    for lane in range(TILE):
        value += weights[lane] * log_p[lane]
        score[lane] *= weights[lane]
        curvature[lane] *= weights[lane]
    for i in range(tile.shape[0]):
        slope = 0.0
        for lane in range(TILE):
            slope += score[lane] * tile[i, lane]
        gradient[i] += slope
        for lane in range(TILE):
            weighted[lane] = curvature[lane] * tile[i, lane]
        for j in range(i + 1):
            total = 0.0
            for lane in range(TILE):
                total += weighted[lane] * tile[j, lane]
            precision[i, j] += total
    return value


@jit
def add_terms(rows: TileRows, beta: FloatArray, family: Family, gradient: FloatArray, precision: FloatArray) -> float:
    """Return the weighted log-likelihood at beta; add its gradient, (D,), and the lower half of minus its Hessian."""
    value, n = 0.0, len(rows.weights)
    tile, own, side = new_tile(len(beta)), np.empty(TILE), np.ones(TILE)
    eta, terms, scratch = np.empty(TILE), np.empty((4, TILE)), np.empty((3, TILE))
    for start in range(0, n, TILE):
        width = min(TILE, n - start)
        load_tile(rows.X, start, width, tile)
        load(rows.weights, start, width, own)
        own[width:] = 0.0
        load(rows.side, start, width, side)
        predictor(tile, beta, eta)
        add_offset(rows.offset, start, width, eta)
        family.derivatives(eta, side, terms, scratch)
        value += _add(tile, own, terms, gradient, precision)
    return value


def derivatives_of(eta: FloatArray, side: LabelArray, family: Family) -> FloatArray:
    """Return log p, score, curvature and l''' at eta, shape (n,), as the rows of a matrix, shape (4, n)."""
    return np.asarray(_derivatives(read_only(eta), read_only(side), family))


@jit
def _derivatives(eta: FloatArray, side: LabelArray, family: Family) -> FloatArray:
    out = np.empty((4, len(eta)))
    tile, sides, terms, scratch = np.zeros(TILE), np.ones(TILE), np.empty((4, TILE)), np.empty((3, TILE))
    for start in range(0, len(eta), TILE):
        width = min(TILE, len(eta) - start)
        load(eta, start, width, tile)
        load(side, start, width, sides)
        family.derivatives(tile, sides, terms, scratch)
        for k in range(4):
            load(terms[k], 0, width, out[k, start:])
    return out


def largest_curvature(eta: FloatArray, side: LabelArray, move: FloatArray, family: Family) -> FloatArray:
    """Return the largest abs(curvature) of log p at eta, eta - move, eta + move and the point of these nearest to 0."""
    largest = np.abs(derivatives_of(eta, side, family)[2])
    for there in (eta - move, eta + move, eta - np.clip(eta, -move, move)):
        there = np.clip(there, -family.reach, family.reach)
        largest = np.maximum(largest, np.abs(derivatives_of(there, side, family)[2]))
    return np.asarray(largest)


@jit
def replace_by_derivative(eta: FloatArray, side: LabelArray, family: Family, order: int) -> None:
    """Replace predictors, shape (n, S), by the score of log p there (order 1), or minus its second derivative (2)."""
    tile, sides, terms, scratch = np.zeros(TILE), np.ones(TILE), np.empty((4, TILE)), np.empty((3, TILE))
    for n in range(len(eta)):
        row = eta[n]
        sides[:] = side[n]
        for start in range(0, row.size, TILE):
            width = min(TILE, row.size - start)
            load(row, start, width, tile)
            family.derivatives(tile, sides, terms, scratch)
            load(terms[order], 0, width, row[start:])


@jit
def _replace_moves(
    eta: FloatArray, side: LabelArray, family: Family, moves: FloatArray, near_and_keep: tuple[float, float]
) -> None:
    """Replace moves x of eta by log p(eta + x) where keep = 1; where it is 0, by that less its series of degree 2."""
    (near, keep), n_draws = near_and_keep, moves.shape[1]
    tile, sides, terms, scratch = np.zeros(TILE), np.ones(TILE), np.empty((4, TILE)), np.empty((3, TILE))
    higher, exact, there, alike = np.empty((2, TILE)), np.empty(n_draws), np.empty(n_draws), np.empty(n_draws)
    for start in range(0, len(eta), TILE):
        width = min(TILE, len(eta) - start)
        load(eta, start, width, tile)
        load(side, start, width, sides)
        family.derivatives(tile, sides, terms, scratch)
        family.higher(tile, sides, terms, higher)
        for lane in range(width):
            row, far = moves[start + lane], 0
            for i in range(n_draws):
                far += abs(row[i]) > near
            log_p, s, c = terms[0, lane], terms[1, lane], -0.5 * terms[2, lane]
            if far:
                log_p, s, c = (1.0 - keep) * log_p, (1.0 - keep) * s, (1.0 - keep) * c
                for i in range(n_draws):
                    there[i] = row[i] + tile[lane]
                alike[:] = sides[lane]
                family.rows(there, alike, exact)
                for i in range(n_draws):
                    x = row[i]
                    row[i] = (exact[i] - log_p) - x * (s + x * c)
                continue
            log_p, s, c = keep * log_p, keep * s, keep * c
            third, fourth, fifth = terms[3, lane], higher[0, lane], higher[1, lane]
            for i in range(n_draws):
                x = row[i]
                rest = third / 6.0 + x * (fourth / 24.0 + x * (fifth / 120.0))
                row[i] = log_p + x * (s + x * (c + x * rest))


def log_p_near(eta: FloatArray, side: LabelArray, family: Family, moves: FloatArray) -> None:
    """Replace moves of eta, shape (n, S), by log p(eta + move); eta has shape (n,).

    A row whose moves are at most `family.near` takes its Taylor series of degree 5: a third of the time, to 2e-10.
    """
    _replace_moves(eta, side, family, moves, (family.near, 1.0))


def remainders_near(eta: FloatArray, side: LabelArray, family: Family, moves: FloatArray) -> None:
    """Replace moves x of eta, shape (n, S), by log p(eta + x) less its series of degree 2; eta has shape (n,).

    A row whose moves are at most `family.near` takes the terms of degree 3 to 5, so that nothing cancels.
    """
    _replace_moves(eta, side, family, moves, (family.near, 0.0))


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
        load(eta, 0, width, out[0, start:])
        load(squares, 0, width, out[1, start:])
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
        load(eta, start, width, tile)
        load(side, start, width, sides)
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
