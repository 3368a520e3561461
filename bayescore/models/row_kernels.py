"""Compiled likelihoods of the rows of a block, tile by tile (`data.passes`): each row is read once, uncopied.

The family is an argument, and calls of its functions are compiled for it: see `compiled`.
"""

import numpy as np

from bayescore.compiled import jit, jit_inner, jit_inner_sums
from bayescore.data.passes import TILE, TileRows, new_tile
from bayescore.families import Family
from bayescore.types import FloatArray, LabelArray


@jit_inner
def predictor(tile: FloatArray, beta: FloatArray, eta: FloatArray) -> None:
    """Write eta = x . beta for each column of `tile`, shape (TILE,)."""
    for lane in range(TILE):
        eta[lane] = 0.0
    for d in range(tile.shape[0]):
        for lane in range(TILE):
            eta[lane] += beta[d] * tile[d, lane]


@jit_inner
def add_offset(offset: FloatArray, start: int, width: int, eta: FloatArray) -> None:
    """Add the offsets of the rows start, ..., start + width - 1 to eta; `offset` may be empty (`NO_OFFSET`)."""
    if offset.size > 0:
        for lane in range(width):
            eta[lane] += offset[start + lane]


@jit_inner
def squared_lengths(tile: FloatArray, basis: FloatArray, scratch: FloatArray, out: FloatArray) -> None:
    """Write abs(x' basis)^2 for each column of `tile`, shape (TILE,); basis has shape (D, r)."""
    for lane in range(TILE):
        out[lane] = 0.0
    for i in range(basis.shape[1]):
        for lane in range(TILE):
            scratch[lane] = 0.0
        for d in range(tile.shape[0]):
            entry = basis[d, i]
            if entry != 0.0:  # half of a triangular one
                for lane in range(TILE):
                    scratch[lane] += entry * tile[d, lane]
        for lane in range(TILE):
            out[lane] += scratch[lane] * scratch[lane]


@jit_inner_sums
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


@jit_inner
def load_rows(rows: TileRows, beta: FloatArray, start: int, tile: FloatArray, lanes: FloatArray) -> int:
    """Load rows from `start` on into the columns of `tile`, as many as it has or there are; return their number.

    Rows of `lanes` become x . beta + offset, weights and sides; beyond the last row of the block weights are 0.
    """
    width = min(TILE, len(rows.weights) - start)
    for lane in range(width):
        n, total = start + lane, 0.0
        for d in range(rows.X.shape[1]):
            tile[d, lane] = rows.X[n, d]
            total += beta[d] * rows.X[n, d]
        lanes[0, lane], lanes[1, lane], lanes[2, lane] = total, rows.weights[n], rows.side[n]
        if rows.offset.size > 0:
            lanes[0, lane] += rows.offset[n]
    for lane in range(width, TILE):
        lanes[0, lane], lanes[1, lane], lanes[2, lane] = 0.0, 0.0, 1.0
    return width


@jit
def add_terms(rows: TileRows, beta: FloatArray, family: Family, gradient: FloatArray, precision: FloatArray) -> float:
    """Return the weighted log-likelihood at beta; add its gradient, (D,), and the lower half of minus its Hessian."""
    value, tile, lanes = 0.0, new_tile(len(beta)), np.empty((3, TILE))
    terms, scratch = np.empty((4, TILE)), np.empty((3, TILE))
    for start in range(0, len(rows.weights), TILE):
        load_rows(rows, beta, start, tile, lanes)
        family.derivatives(lanes[0], lanes[2], terms, scratch)
        value += _add(tile, lanes[1], terms, gradient, precision)
    return value


def _tiles(values: FloatArray | LabelArray, rest: float) -> FloatArray:
    """Return values, shape (n,), in tiles, shape (T, TILE), the last filled up."""
    tiles = np.full((-(-len(values) // TILE), TILE), rest)
    tiles.reshape(-1)[: len(values)] = values
    return tiles


@jit
def _derivatives(eta: FloatArray, side: FloatArray, family: Family, out: FloatArray) -> None:
    scratch = np.empty((3, TILE))
    for t in range(len(eta)):
        family.derivatives(eta[t], side[t], out[t], scratch)


def derivatives_of(eta: FloatArray, side: LabelArray, family: Family) -> FloatArray:
    """Return log p, score, curvature and third derivative at eta, shape (n,), as the rows of a matrix, shape (4, n)."""
    at = _tiles(eta, 0.0)
    out = np.empty((len(at), 4, TILE))
    _derivatives(at, _tiles(side, 1.0), family, out)
    return out.transpose(1, 0, 2).reshape(4, -1)[:, : len(eta)]


@jit
def log_p_and_score(eta: FloatArray, side: FloatArray, family: Family, log_p: FloatArray) -> None:
    """Write log p of n rows at S points, and replace eta by the score; both have shape (S, n), side has (n,)."""
    for s in range(len(eta)):
        family.rows(eta[s], side, log_p[s])


def largest_curvature(eta: FloatArray, side: LabelArray, move: FloatArray, family: Family) -> FloatArray:
    """Return the largest abs(curvature) of log p at eta, eta - move, eta + move and the point of these nearest to 0."""
    largest = np.abs(derivatives_of(eta, side, family)[2])
    for there in (eta - move, eta + move, eta - np.clip(eta, -move, move)):
        there = np.clip(there, -family.reach, family.reach)
        largest = np.maximum(largest, np.abs(derivatives_of(there, side, family)[2]))
    return np.asarray(largest)


_WIDE = 8.0  # times `Family.near`: moves up to which log p at so few nodes tells it at all


_N_NODES = 16


_NODES = np.cos((np.arange(_N_NODES) + 0.5) * np.pi / _N_NODES)  # of Chebyshev's polynomials


_TO_SERIES = np.cos(np.outer(np.arange(_N_NODES) + 0.5, np.arange(_N_NODES)) * np.pi / _N_NODES) * 2.0 / _N_NODES
_TO_SERIES[:, 0] *= 0.5


_TO_POWERS = np.array([np.append(c := np.polynomial.chebyshev.cheb2poly(e[: j + 1]), np.zeros(_N_NODES - len(c)))
                       for j, e in enumerate(np.eye(_N_NODES))])  # fmt: skip


_TAIL = 1e-13  # of the last two terms, above which the series has not ended


@jit_inner
def _interpolated(values: FloatArray, series: FloatArray, powers: FloatArray) -> bool:
    """Write the coefficients of the polynomial through `values` at `_NODES`; return whether its series has ended."""
    for k in range(_N_NODES):
        series[k] = powers[k] = 0.0
    for k in range(_N_NODES):
        for j in range(_N_NODES):
            series[j] += values[k] * _TO_SERIES[k, j]
    for k in range(_N_NODES):
        for j in range(_N_NODES):
            powers[j] += series[k] * _TO_POWERS[k, j]
    return bool(max(abs(series[_N_NODES - 1]), abs(series[_N_NODES - 2])) < _TAIL)


@jit_inner
def _evaluate(p: FloatArray, scale: float, moves: FloatArray) -> None:
    """Replace moves x by the polynomial with the coefficients `p`, lowest first, at x times `scale`."""
    p0, p1, p2, p3, p4, p5, p6, p7 = p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
    p8, p9, p10, p11, p12, p13, p14, p15 = p[8], p[9], p[10], p[11], p[12], p[13], p[14], p[15]
    for i in range(len(moves)):
        t = moves[i] * scale
        high = p8 + t * (p9 + t * (p10 + t * (p11 + t * (p12 + t * (p13 + t * (p14 + t * p15))))))
        moves[i] = p0 + t * (p1 + t * (p2 + t * (p3 + t * (p4 + t * (p5 + t * (p6 + t * (p7 + t * high)))))))


@jit
def _replace_moves(
    eta: FloatArray, side: FloatArray, family: Family, moves: FloatArray, near_and_keep: tuple[float, float]
) -> None:
    """Replace moves x of eta by log p(eta + x) where keep = 1; where it is 0, by that less its series of degree 2.

    `eta` and `side` are in tiles.
    """
    (near, keep), n_draws = near_and_keep, moves.shape[1]
    terms, scratch, higher = np.empty((4, TILE)), np.empty((3, TILE)), np.zeros((2, TILE))
    space, series = np.empty((3, max(n_draws, _N_NODES))), np.empty((2, _N_NODES))
    exact, there, alike = space[0], space[1], space[2]
    for n in range(len(moves)):
        t, lane, far, wide = n // TILE, n % TILE, 0, 0
        if lane == 0:
            family.derivatives(eta[t], side[t], terms, scratch)
            if near > 0.0:  # else only moves of 0 take the series
                family.higher(eta[t], side[t], terms, higher)
        for i in range(n_draws):
            far += abs(moves[n, i]) > near
            wide += abs(moves[n, i]) > _WIDE * near
        log_p, s, c = terms[0, lane], terms[1, lane], -0.5 * terms[2, lane]
        if far and n_draws > 4 * _N_NODES and not wide:
            reach = _WIDE * near
            for k in range(_N_NODES):
                there[k], alike[k] = eta[t, lane] + reach * _NODES[k], side[t, lane]
            family.rows(there[:_N_NODES], alike[:_N_NODES], exact[:_N_NODES])
            for k in range(_N_NODES):  # what is left is small, and keeps its digits
                x = reach * _NODES[k]
                exact[k] -= log_p + x * (s + x * c)
            if _interpolated(exact, series[0], series[1]):
                series[1, 0] += keep * log_p
                series[1, 1] += keep * s * reach
                series[1, 2] += keep * c * reach * reach
                _evaluate(series[1], 1.0 / reach, moves[n])
                continue
        if far:
            log_p, s, c = (1.0 - keep) * log_p, (1.0 - keep) * s, (1.0 - keep) * c
            for i in range(n_draws):
                there[i], alike[i] = moves[n, i] + eta[t, lane], side[t, lane]
            family.rows(there[:n_draws], alike[:n_draws], exact[:n_draws])
            for i in range(n_draws):
                x = moves[n, i]
                moves[n, i] = (exact[i] - log_p) - x * (s + x * c)
            continue
        log_p, s, c = keep * log_p, keep * s, keep * c
        third, fourth, fifth = terms[3, lane], higher[0, lane], higher[1, lane]
        for i in range(n_draws):
            x = moves[n, i]
            rest = third / 6.0 + x * (fourth / 24.0 + x * (fifth / 120.0))
            moves[n, i] = log_p + x * (s + x * (c + x * rest))


def log_p_near(eta: FloatArray, side: LabelArray, family: Family, moves: FloatArray) -> None:
    """Replace moves of eta, shape (n, S), by log p(eta + move); eta has shape (n,).

    A row whose moves are at most `family.near` takes its Taylor series of degree 5: a third of the time, to 2e-10.
    """
    _replace_moves(_tiles(eta, 0.0), _tiles(side, 1.0), family, moves, (family.near, 1.0))


def remainders_near(eta: FloatArray, side: LabelArray, family: Family, moves: FloatArray) -> None:
    """Replace moves x of eta, shape (n, S), by log p(eta + x) less its series of degree 2; eta has shape (n,).

    A row whose moves are at most `family.near` takes the terms of degree 3 to 5, so that nothing cancels.
    """
    _replace_moves(_tiles(eta, 0.0), _tiles(side, 1.0), family, moves, (family.near, 0.0))


@jit
def predictors(rows: TileRows, theta: FloatArray, factor: FloatArray) -> FloatArray:
    """Return the predictor x . theta, and offset, and abs(xL)^2 of each row, shape (2, n); L = `factor`, (D, D)."""
    tile, lanes = new_tile(len(theta)), np.empty((5, TILE))
    out = np.empty((2, len(rows.weights)))
    for start in range(0, len(rows.weights), TILE):
        width = load_rows(rows, theta, start, tile, lanes)
        squared_lengths(tile, factor, lanes[3], lanes[4])
        for lane in range(width):
            out[0, start + lane], out[1, start + lane] = lanes[0, lane], lanes[4, lane]
    return out


def score_rows(
    eta: FloatArray, side: LabelArray, squares: FloatArray, weights: FloatArray, family: Family
) -> FloatArray:
    """Return g, h, the reach and the pull's factor of each row, shape (4, n); see `laplace.RowScores`."""
    _, score, curvature, third = derivatives_of(eta, side, family)
    length, size = np.sqrt(squares), weights * squares
    bend = np.abs(curvature)  # some likelihoods are not log-concave
    reach = size * (np.abs(third) * length / 6.0 + bend * squares / 24.0)
    return np.stack([weights * np.abs(score) * length, size * bend, reach, 0.5 * size * third])
