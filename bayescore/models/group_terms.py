"""Sums over the rows of groups, averaged over nodes of the group's effect: compiled, row by row, in any order.

Group codes are 0 to G - 1, and G for rows of no group, whose effect is 0: their nodes have centre and scale 0.
"""

import numpy as np

from bayescore.compiled import jit
from bayescore.data.passes.tiles import TILE, load_tile, new_tile
from bayescore.models.terms import add_shift, predictor
from bayescore.types import FloatArray, IntArray, LabelArray, Likelihood

ROWS, SLOPE, INFORMATION, THIRD = range(4)  # columns of `own`


@jit
def add_group_terms(
    X: FloatArray,
    y: LabelArray,
    weights: FloatArray,
    shift: FloatArray,
    codes: IntArray,
    z: FloatArray,
    beta: FloatArray,
    link: Likelihood,
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
    p = len(beta)
    tile, eta, moved = new_tile(p), np.empty(TILE), np.empty(TILE)
    terms, scratch, mean = np.empty((4, TILE)), np.empty((3, TILE)), np.empty((3, TILE))
    for start in range(0, len(y), TILE):
        width = min(TILE, len(y) - start)
        load_tile(X, y, start, width, tile)
        predictor(tile, beta, eta)
        add_shift(shift, start, width, eta)
        mean[:] = 0.0
        moved[width:] = 0.0
        for k in range(nodes.size):
            for lane in range(width):
                g = codes[start + lane]
                moved[lane] = eta[lane] + y[start + lane] * z[start + lane] * (center[g] + scale[g] * nodes[k])
            link.derivatives(moved, terms, scratch)
            for lane in range(width):
                g = codes[start + lane]
                values[g, k] += weights[start + lane] * terms[0, lane]
                for j in range(3):
                    mean[j, lane] += share[g, k] * terms[j + 1, lane]
        for lane in range(width):
            g, w, sign = codes[start + lane], weights[start + lane], float(y[start + lane])
            s, c, t = w * sign * mean[0, lane], w * mean[1, lane], w * sign * mean[2, lane]
            r = z[start + lane]
            own[g, 0] += 1.0
            own[g, 1] += s * r
            own[g, 2] += c * r * r
            own[g, 3] += t * r * r * r
            for i in range(p):
                x = sign * tile[i, lane]
                gradient[i] += s * x
                cross[g, i] += c * r * x
                pull[g, i] += t * r * r * x
                for j in range(i + 1):
                    precision[i, j] += c * x * (sign * tile[j, lane])
