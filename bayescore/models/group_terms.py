"""Sums over the rows of groups, averaged over nodes of the group's effect: compiled, row by row, in any order.

Group codes are 0 to G - 1, and G for rows of no group, whose effect is 0: their nodes have centre and scale 0.
"""

import numpy as np

from bayescore.compiled import jit
from bayescore.data.passes.tiles import TILE, TileRows, load_tile, new_tile
from bayescore.models.families import Family
from bayescore.models.terms import add_offset, predictor
from bayescore.types import FloatArray, IntArray

ROWS, SLOPE, INFORMATION, THIRD = range(4)  # columns of `own`


@jit
def add_group_terms(
    rows: TileRows,
    codes: IntArray,
    z: FloatArray,
    beta: FloatArray,
    family: Family,
    center: FloatArray,
    scale: FloatArray,
    share: FloatArray,
    nodes: FloatArray,
    values: FloatArray,
    own: FloatArray,
    cross: FloatArray,
    pull: FloatArray,
    gradient: FloatArray,
    precision: FloatArray,
) -> None:
    """Add, for each group, phi at its nodes to `values`, shape (G, K), and averages over the nodes by `share`.

    With s, c, t score, curvature and third derivative of log p in x . beta + z b: the number of rows, sum w s z,
    sum w c z^2 and sum w t z^3 to `own`, shape (G, 4), sum w c z x to `cross`, and sum w t z^2 x to `pull`, shape
    (G, p). Over all groups sum w s x to `gradient`, shape (p,), and the lower half of sum w c x x' to `precision`.
    """
    p, n = len(beta), len(rows.weights)
    tile, eta, moved, side = new_tile(p), np.empty(TILE), np.empty(TILE), np.ones(TILE)
    terms, scratch, mean = np.empty((4, TILE)), np.empty((3, TILE)), np.empty((3, TILE))
    for start in range(0, n, TILE):
        width = min(TILE, n - start)
        load_tile(rows.X, start, width, tile)
        side[:width] = rows.side[start : start + width]
        predictor(tile, beta, eta)
        add_offset(rows.offset, start, width, eta)
        mean[:] = 0.0
        moved[width:] = 0.0
        for k in range(nodes.size):
            for lane in range(width):
                g = codes[start + lane]
                moved[lane] = eta[lane] + z[start + lane] * (center[g] + scale[g] * nodes[k])
            family.derivatives(moved, side, terms, scratch)
            for lane in range(width):
                g = codes[start + lane]
                values[g, k] += rows.weights[start + lane] * terms[0, lane]
                for j in range(3):
                    mean[j, lane] += share[g, k] * terms[j + 1, lane]
        for lane in range(width):
            g, w, r = codes[start + lane], rows.weights[start + lane], z[start + lane]
            s, c, t = w * mean[0, lane], w * mean[1, lane], w * mean[2, lane]
            own[g, 0] += 1.0
            own[g, 1] += s * r
            own[g, 2] += c * r * r
            own[g, 3] += t * r * r * r
            for i in range(p):
                x = tile[i, lane]
                gradient[i] += s * x
                cross[g, i] += c * r * x
                pull[g, i] += t * r * r * x
                for j in range(i + 1):
                    precision[i, j] += c * x * tile[j, lane]
