"""The log-likelihood of each group at nodes of its effect, at many draws of (beta, log sigma), in a pass over rows."""

from collections.abc import Iterable
from functools import partial

import numpy as np

from bayescore.compiled import jit
from bayescore.data.dataset import Dataset
from bayescore.data.passes.tiles import TILE, TileRows, load_tile, new_tile
from bayescore.models.families import Family
from bayescore.models.marginal import local_codes
from bayescore.models.quadrature import NODES
from bayescore.models.terms import add_offset, predictor
from bayescore.types import FloatArray, IntArray, WeightedData

BLOCK_BYTES = 1 << 25
"""Bytes of what a block of rows returns in a pass, beyond which the draws are cut into several passes."""


@jit
def _add(
    rows: TileRows,
    codes: IntArray,
    draws: FloatArray,
    family: Family,
    center: FloatArray,
    scale: FloatArray,
    nodes: FloatArray,
    values: FloatArray,
) -> None:
    """Add to `values`, shape (S, G, K), for rows in the order of their groups."""
    tile, eta, moved, log_p = new_tile(draws.shape[1]), np.empty(TILE), np.empty(TILE), np.empty(TILE)
    place, spread, side, n = np.zeros(TILE), np.zeros(TILE), np.ones(TILE), len(rows.weights)
    for start in range(0, n, TILE):
        width = min(TILE, n - start)
        load_tile(rows.X, start, width, tile)
        side[:width] = rows.side[start : start + width]
        for s in range(len(draws)):
            predictor(tile, draws[s], eta)
            add_offset(rows.offset, start, width, eta)
            for lane in range(width):
                g = codes[start + lane]
                place[lane] = eta[lane] + center[s, g]
                spread[lane] = scale[s, g]
            for k in range(nodes.size):
                for lane in range(TILE):
                    moved[lane] = place[lane] + spread[lane] * nodes[k]
                family.rows(moved, side, log_p)
                for lane in range(width):
                    values[s, codes[start + lane], k] += rows.weights[start + lane] * log_p[lane]


def _of_block(
    draws: FloatArray, family: Family, center: FloatArray, scale: FloatArray, _: int, block: WeightedData
) -> tuple[IntArray, FloatArray, FloatArray]:
    found, places = local_codes(block, center.shape[1] - 1)
    order = np.argsort(places, kind="stable")  # sums of a group stay in the cache
    rows, contiguous = block.take(order), np.ascontiguousarray
    values = np.zeros((len(draws), len(found), len(NODES)))
    _add(
        TileRows.of(rows), places[order], draws, family,
        contiguous(center[:, found]), contiguous(scale[:, found]), NODES, values,
    )  # fmt: skip
    either = [np.bincount(places, np.where(block.y == sign, block.weights, 0.0), len(found)) for sign in (1, -1)]
    return found, values, np.stack(either, axis=1)


def values_at(
    dataset: Dataset, draws: FloatArray, family: Family, center: FloatArray, scale: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return log-likelihoods at the nodes, shape (S, G + 1, K), and weights of +1 and of -1 by group, (G + 1, 2).

    Draws of beta have shape (S, p), centres and scales (S, G + 1). One pass, or as many as `BLOCK_BYTES` asks for;
    8 (G + 1) K bytes a draw are kept.
    """
    n_groups = center.shape[1]
    step = max(1, BLOCK_BYTES // (8 * n_groups * len(NODES)))
    values, weight = np.zeros((len(draws), n_groups, len(NODES))), np.zeros((n_groups, 2))
    # a thread that has a whole piece of the rows would hold results of all its blocks, each larger than the block
    here = not dataset.elsewhere
    for start in range(0, len(draws), step):
        cut = slice(start, start + step)
        work = partial(_of_block, np.ascontiguousarray(draws[cut]), family, center[cut], scale[cut])
        parts = dataset.map(work, "certifying", canonical=True, here=here)
        weight = _collect(parts, values[cut])
    return values, weight


def _collect(parts: Iterable[tuple[IntArray, FloatArray, FloatArray]], values: FloatArray) -> FloatArray:
    weight = np.zeros((values.shape[1], 2))
    for found, own, part in parts:
        values[:, found] += own
        weight[found] += part
    return weight
