"""Sums over the rows of groups: averages over nodes of the group's effect, and log-likelihoods at the nodes.

Group codes are 0 to G - 1, and G for rows of no group. Their effect is 0, so their nodes have centre and scale 0.
Sums add up over blocks, so the same functions serve rows in memory and a pass over a large source.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from bayescore.compiled import jit
from bayescore.data.dataset import Dataset
from bayescore.data.passes.tiles import TILE, TileRows, load_tile, new_tile
from bayescore.models.effect_nodes import DrawNodes, NodeSet
from bayescore.models.families import Family
from bayescore.models.node_values import NodeRows, add_values
from bayescore.models.quadrature import LOG_WEIGHTS, N_NODES, NODES, WEIGHTS, Nodes
from bayescore.models.row_kernels import add_offset, predictor
from bayescore.types import FloatArray, IntArray, WeightedData

SLOPE, INFORMATION, THIRD = range(3)  # columns of `own`

BLOCK_BYTES = 1 << 25
"""Bytes of what a block of rows returns in a pass, beyond which the draws are cut into several passes."""


class GroupRows(NamedTuple):
    """Rows of a block, their group codes, and z, what they multiply their effect by, shape (n,) each."""

    tiles: TileRows
    codes: IntArray
    z: FloatArray


class GroupSums(NamedTuple):
    """Sums over rows by group, with s, c, t score, curvature and third derivative of log p in x . beta + z b.

    s, c and t are averages over the nodes, by the weights of the quadrature.
    """

    values: FloatArray  # log-likelihood at the nodes, (G + 1, K)
    own: FloatArray  # sum w s z, sum w c z^2, sum w t z^3: (G + 1, 3)
    cross: FloatArray  # sum w c z x, (G + 1, p)
    pull: FloatArray  # sum w t z^2 x, (G + 1, p)
    gradient: FloatArray  # sum w s x over all groups, (p,)
    precision: FloatArray  # sum w c x x' over all groups, (p, p)

    @classmethod
    def zeros(cls, n_groups: int, p: int) -> "GroupSums":
        """Return the sums of no rows."""
        shapes = (n_groups + 1, N_NODES), (n_groups + 1, 3), (n_groups + 1, p), (n_groups + 1, p), (p,), (p, p)
        return cls(*map(np.zeros, shapes))

    @property
    def middle(self) -> FloatArray:
        """Weighted mean row of each group, sum w c x / sum w c, shape (G + 1, p); 0 for rows of no group."""
        mean = self.cross / np.maximum(self.own[:, INFORMATION, None], np.finfo(float).tiny)
        mean[-1] = 0.0
        return np.asarray(mean)


@jit
def _add_sums(rows: GroupRows, beta: FloatArray, nodes: Nodes, family: Family, sums: GroupSums) -> None:
    """Add the sums of a block, and the lower half of the precision."""
    tiles, codes, z = rows.tiles, rows.codes, rows.z
    p, n = len(beta), len(tiles.weights)
    tile, eta, moved, side = new_tile(p), np.empty(TILE), np.empty(TILE), np.ones(TILE)
    terms, scratch, mean = np.empty((4, TILE)), np.empty((3, TILE)), np.empty((3, TILE))
    for start in range(0, n, TILE):
        width = min(TILE, n - start)
        load_tile(tiles.X, start, width, tile)
        side[:width] = tiles.side[start : start + width]
        predictor(tile, beta, eta)
        add_offset(tiles.offset, start, width, eta)
        mean[:] = 0.0
        moved[width:] = 0.0
        for k in range(NODES.size):
            for lane in range(width):
                g = codes[start + lane]
                moved[lane] = eta[lane] + z[start + lane] * (nodes.center[g] + nodes.scale[g] * NODES[k])
            family.derivatives(moved, side, terms, scratch)
            for lane in range(width):
                g = codes[start + lane]
                sums.values[g, k] += tiles.weights[start + lane] * terms[0, lane]
                for j in range(3):
                    mean[j, lane] += WEIGHTS[k] * terms[j + 1, lane]
        for lane in range(width):
            g, w, r = codes[start + lane], tiles.weights[start + lane], z[start + lane]
            s, c, t = w * mean[0, lane], w * mean[1, lane], w * mean[2, lane]
            sums.own[g, 0] += s * r
            sums.own[g, 1] += c * r * r
            sums.own[g, 2] += t * r * r * r
            for i in range(p):
                x = tile[i, lane]
                sums.gradient[i] += s * x
                sums.cross[g, i] += c * r * x
                sums.pull[g, i] += t * r * r * x
                for j in range(i + 1):
                    sums.precision[i, j] += c * x * tile[j, lane]


def local_codes(block: WeightedData, n_groups: int) -> tuple[IntArray, IntArray]:
    """Return the groups of a block, in order, and of each row the place of its own; rows of none have n_groups."""
    assert block.group is not None
    return codes_among(block.group[:, 0], n_groups)


def codes_among(own: IntArray, n_groups: int) -> tuple[IntArray, IntArray]:
    """Return the groups among codes, in order, and of each code the place of its own; -1 counts as n_groups."""
    known = np.where(own < 0, n_groups, own)
    if n_groups > 4 * len(own):  # a table of all groups would be longer than the sort
        found, places = np.unique(known, return_inverse=True)
        return found, places.astype(np.int64)
    table = np.zeros(n_groups + 1, dtype=np.int64)
    table[known] = 1
    found = np.flatnonzero(table)
    table[found] = np.arange(len(found))
    return found, table[known]


@jit
def add_lines(out: FloatArray, places: IntArray, part: FloatArray) -> None:
    """Add lines of `part` to those of `out` at places: in one go over the memory, where NumPy takes three."""
    for i in range(len(places)):
        for j in range(part.shape[1]):
            out[places[i], j] += part[i, j]


Look = Callable[[FloatArray, Nodes], GroupSums]  # (beta, nodes) -> the sums of all rows: one pass


def look_at_rows(rows: WeightedData, family: Family, n_groups: int, z: FloatArray | None = None) -> Look:
    """Return the function that adds up rows in memory, which multiply their effect by z, shape (n,), by default 1."""
    assert rows.group is not None
    codes = np.where(rows.group[:, 0] < 0, n_groups, rows.group[:, 0])
    own = GroupRows(TileRows.of(rows), codes, np.ones(len(rows)) if z is None else np.ascontiguousarray(z))

    def look(beta: FloatArray, nodes: Nodes) -> GroupSums:
        sums = GroupSums.zeros(n_groups, len(beta))
        _add_sums(own, beta, nodes, family, sums)
        return sums._replace(precision=np.tril(sums.precision) + np.tril(sums.precision, -1).T)

    return look


class GroupPass(NamedTuple):
    """What one pass over a source finds of its groups."""

    sums: GroupSums
    weight: FloatArray  # of rows of +1 and of -1, (G + 1, 2)
    n_rows: FloatArray  # (G + 1,)


def effect_multipliers(rows: WeightedData, column: int) -> FloatArray:
    """Return what rows multiply their effect by, shape (n,): a column, or 1 where it is -1.

    It is that of the intercept, 1 but for pseudo-rows of a coreset.
    """
    return np.ones(len(rows)) if column < 0 else np.ascontiguousarray(rows.X[:, column])


def look_at_source(dataset: Dataset, family: Family, beta: FloatArray, nodes: Nodes, *, column: int = -1) -> GroupPass:
    """Return the sums of all rows of a source where one intercept varies; one pass."""
    n_groups, p = len(nodes.center) - 1, len(beta)

    def of_block(_: int, block: WeightedData) -> tuple[IntArray, GroupPass]:
        found, places = local_codes(block, n_groups)
        sums, own = (
            GroupSums.zeros(len(found) - 1, p),
            GroupRows(TileRows.of(block), places, effect_multipliers(block, column)),
        )
        _add_sums(own, beta, Nodes(nodes.center[found], nodes.scale[found]), family, sums)
        count = np.bincount(places, minlength=len(found)).astype(np.float64)
        return found, GroupPass(sums, label_weights(block, places, len(found)), count)

    total = GroupPass(GroupSums.zeros(n_groups, p), np.zeros((n_groups + 1, 2)), np.zeros(n_groups + 1))
    gradient, precision = total.sums.gradient, total.sums.precision
    for found, part in dataset.map(of_block, "certifying", canonical=True, here=not dataset.remote):
        for whole, own in zip(total.sums[:4], part.sums[:4], strict=True):
            add_lines(whole, found, own)
        gradient += part.sums.gradient
        precision += part.sums.precision
        add_lines(total.weight, found, part.weight)
        total.n_rows[found] += part.n_rows
    lower = np.tril(precision)
    return total._replace(sums=total.sums._replace(precision=lower + np.tril(precision, -1).T))


def label_weights(block: WeightedData, places: IntArray, n_groups: int) -> FloatArray:
    """Return the weights of rows of +1 and of -1 in each group, shape (n_groups, 2)."""
    either = [np.bincount(places, np.where(block.y == sign, block.weights, 0.0), n_groups) for sign in (1, -1)]
    return np.stack(either, axis=1)


@jit
def _add_values(rows: TileRows, codes: IntArray, at: DrawNodes, family: Family, tables: tuple[FloatArray, ...]) -> None:
    """Add to values, shape (S, M), for rows in the order of their groups.

    `tables` are nodes, log weights, what rows multiply their effect by and these values.
    """
    nodes, log_weights, z, values = tables
    p, n, none = at.theta.shape[1] - 1, len(rows.weights), np.empty(0)
    tile, eta, side = new_tile(p), np.empty(TILE), np.ones(TILE)
    for start in range(0, n, TILE):
        width = min(TILE, n - start)
        cut = slice(start, start + width)
        load_tile(rows.X, start, width, tile)
        side[:width] = rows.side[cut]
        own = NodeRows(side[:width], rows.weights[cut], z[cut], codes[cut])
        for s in range(len(at.theta)):
            predictor(tile, at.theta[s, :p], eta)
            add_offset(rows.offset, start, width, eta)
            there = NodeSet(at.first, at.center[s], at.scale[s], at.step, nodes, log_weights)
            add_values(eta[:width], own, there, family, (values[s], none))


def _values_of_block(
    at: DrawNodes, family: Family, column: int, _: int, block: WeightedData
) -> tuple[IntArray, FloatArray, FloatArray]:
    found, places = local_codes(block, len(at.step) - 1)
    order = np.argsort(places, kind="stable")  # sums of a group stay in the cache
    own = at.of(found)
    values = np.zeros((len(at.theta), int(own.first[-1])))
    rows = block.take(order)
    tables = NODES, LOG_WEIGHTS, effect_multipliers(rows, column), values
    _add_values(TileRows.of(rows), places[order], own, family, tables)
    return found, values, label_weights(block, places, len(found))


def values_at(dataset: Dataset, at: DrawNodes, family: Family, *, column: int = -1) -> tuple[FloatArray, FloatArray]:
    """Return log-likelihoods at the nodes, shape (S, M), and weights of +1 and of -1 by group, (G + 1, 2).

    One pass, or as many as `BLOCK_BYTES` asks for; 8 M bytes a draw are kept.
    """
    n_draws, n_values = len(at.theta), int(at.first[-1])
    step = max(1, BLOCK_BYTES // (8 * n_values))
    values, weight = np.zeros((n_draws, n_values)), np.zeros((len(at.step), 2))
    # a thread that has a whole piece of the rows would hold results of all its blocks, each larger than the block
    here = not dataset.remote
    for start in range(0, n_draws, step):
        cut = slice(start, start + step)
        own = at._replace(theta=at.theta[cut], center=at.center[cut], scale=at.scale[cut])
        weight[:] = 0.0
        work = partial(_values_of_block, own, family, column)
        for found, part, of_labels in dataset.map(work, "certifying", canonical=True, here=here):
            values[cut, at.places(found)] += part
            add_lines(weight, found, of_labels)
    return values, weight
