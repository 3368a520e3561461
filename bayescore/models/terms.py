"""Compiled likelihoods of the rows of a block, tile by tile (`data.tiles`): a pass reads each row once, with no copy.

The formulas are those of `likelihoods`. The logistic ones start from the score at abs(eta), at most 1/2, so that 1 - s
keeps its relative accuracy where s is near 1.
"""

import numpy as np

from bayescore.compiled import jit, jit_sums
from bayescore.data.tiles import TILE, load_tile, new_tile
from bayescore.models.kernels import logistic_rows, logistic_tile, probit_rows, probit_tile
from bayescore.models.likelihoods import PROBIT_TAIL
from bayescore.types import FloatArray, LabelArray

NEAR = 0.08


@jit
def predictor(tile: FloatArray, beta: FloatArray, eta: FloatArray) -> None:
    """Write eta = z . beta for each column of `tile`, shape (TILE,)."""
    eta[:] = 0.0
    for d in range(tile.shape[0]):
        for lane in range(TILE):
            eta[lane] += beta[d] * tile[d, lane]


@jit
def squared_lengths(tile: FloatArray, basis: FloatArray, scratch: FloatArray, out: FloatArray) -> None:
    """Write abs(z' basis)^2 for each column of `tile`, shape (TILE,); basis has shape (D, r)."""
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


@jit
def derivatives(link: int, eta: FloatArray, out: FloatArray, scratch: FloatArray) -> None:
    """Write log p and its derivatives s, c and l''' at eta, shape (TILE,), to the rows of `out`; scratch has 3 rows."""
    log_p, score, curvature, third = out[0], out[1], out[2], out[3]
    if link == 0:
        for lane in range(TILE):
            score[lane] = abs(eta[lane])
        logistic_tile(score, log_p, scratch[0], scratch[1])
        for lane in range(TILE):
            small = score[lane]
            left = 1.0 if eta[lane] < 0.0 else 0.0  # choices are sums, as in `kernels`
            log_p[lane] += min(eta[lane], 0.0)
            score[lane] = left * (1.0 - small) + (1.0 - left) * small
            curvature[lane] = small * (1.0 - small)
            third[lane] = curvature[lane] * ((1.0 - 2.0 * left) * (1.0 - 2.0 * small))
        return
    score[:] = eta
    probit_tile(score, log_p, scratch[0], scratch[1], scratch[1].view(np.int64), scratch[2])
    for lane in range(TILE):
        x, s = eta[lane], score[lane]
        far = min(x, PROBIT_TAIL) ** -2
        tail = 1.0 - far * (1.0 - 6.0 * far * (1.0 - 50.0 / 6.0 * far))
        left = 1.0 if x < PROBIT_TAIL else 0.0
        curvature[lane] = left * tail + (1.0 - left) * (s * (s + x))
        third[lane] = (1.0 - left) * (curvature[lane] * (2.0 * s + x) - s)


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
def add_terms(
    X: FloatArray,
    y: LabelArray,
    weights: FloatArray,
    beta: FloatArray,
    link: int,
    gradient: FloatArray,
    precision: FloatArray,
) -> float:
    """Return sum w log p(z . beta); add to its gradient, shape (D,), and the lower half of minus its Hessian."""
    value = 0.0
    tile, own = new_tile(len(beta)), np.empty(TILE)
    eta, terms, scratch = np.empty(TILE), np.empty((4, TILE)), np.empty((3, TILE))
    for start in range(0, len(y), TILE):
        width = min(TILE, len(y) - start)
        load_tile(X, y, start, width, tile)
        own[:width] = weights[start : start + width]
        own[width:] = 0.0
        predictor(tile, beta, eta)
        derivatives(link, eta, terms, scratch)
        value += _add(tile, own, terms, gradient, precision)
    return value


@jit
def log_p_near(eta: FloatArray, link: int, moves: FloatArray) -> None:
    """Replace moves of eta, shape (n, S), by log p(eta + move); eta has shape (n,).

    Of a row that moves by at most `NEAR` by its Taylor series of degree 5, in a third of the time: the sixth derivative
    of log p is below 0.5, so the error is below 2e-10.
    """
    n_draws = moves.shape[1]
    tile, terms, scratch = np.zeros(TILE), np.empty((4, TILE)), np.empty((3, TILE))
    exact = np.empty(n_draws)
    for start in range(0, len(eta), TILE):
        width = min(TILE, len(eta) - start)
        tile[:width] = eta[start : start + width]
        derivatives(link, tile, terms, scratch)
        for lane in range(width):
            row, far = moves[start + lane], 0
            for i in range(n_draws):
                far += abs(row[i]) > NEAR
            if far:
                for i in range(n_draws):
                    row[i] += tile[lane]
                if link == 0:
                    logistic_rows(row, exact)
                else:
                    probit_rows(row, exact)
                row[:] = exact
                continue
            log_p, s, c, third = terms[0, lane], terms[1, lane], terms[2, lane], terms[3, lane]
            if link == 0:
                fourth, fifth = c * (6.0 * c - 1.0), third * (1.0 - 12.0 * c)
            elif tile[lane] < PROBIT_TAIL:
                fourth, fifth = 0.0, 0.0
            else:
                m = 2.0 * s + tile[lane]
                fourth = 2.0 * c * (1.0 - c) - third * m
                fifth = -3.0 * third * (1.0 - 2.0 * c) - fourth * m
            for i in range(n_draws):
                x = row[i]
                rest = third / 6.0 + x * (fourth / 24.0 + x * (fifth / 120.0))
                row[i] = log_p + x * (s + x * (-0.5 * c + x * rest))
