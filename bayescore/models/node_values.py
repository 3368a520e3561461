"""Log-likelihoods of groups at the nodes of their effects (`effect_nodes`), and the scores of rows there."""

import math
from typing import NamedTuple

import numpy as np

from bayescore.compiled import jit
from bayescore.models.effect_nodes import NodeSet
from bayescore.models.families import Family
from bayescore.models.quadrature import N_NODES
from bayescore.types import FloatArray, IntArray

CERTAIN = 37.0
"""Eta beyond which labels are certain: log p and its score are below 1e-15."""

_NOTHING = 1e-15
_MANY = 128  # nodes of a group; with more, labels are certain at most of them
_CHUNK = 1024  # pairs of a row and a node evaluated at a time


class NodeRows(NamedTuple):
    """What `add_values` reads of rows, shape (n,) each."""

    side: FloatArray
    weights: FloatArray
    z: FloatArray  # what rows multiply their effect by
    codes: IntArray  # G for rows of no group


@jit
def add_values(
    eta: FloatArray, rows: NodeRows, at: NodeSet, family: Family, out: tuple[FloatArray, FloatArray]
) -> None:
    """Add phi at the nodes, shape (M,), and write the scores of rows at them, one row after the other.

    The second array of `out` is for the scores; nothing is kept if it is empty.
    """
    values, scores = out
    most = 0
    for g in range(at.first.size - 1):
        most = max(most, at.first[g + 1] - at.first[g])
    size = max(_CHUNK, most)
    if most > _MANY:
        _add_where_not_certain(eta, rows, at, family, (values, scores, np.empty((3, size))))
        return
    side, log_p, own = np.empty(size), np.empty(size), np.empty(size)
    keep, done, begin, n = scores.size > 0, 0, 0, eta.size
    while begin < n:
        stop, width = begin, 0
        part = scores[done : done + size] if keep else own
        while stop < n:
            g = rows.codes[stop]
            count = at.first[g + 1] - at.first[g]
            if width + count > size:
                break
            z = rows.z[stop]
            middle, own_side = eta[stop] + z * at.center[g], rows.side[stop]
            if count == N_NODES and at.scale[g] > 0.0:  # the usual case: a loop of constant length
                spread = z * at.scale[g]
                for k in range(N_NODES):
                    part[width + k] = middle + spread * at.nodes[k]
                    side[width + k] = own_side
            elif at.scale[g] > 0.0:
                spread = z * at.scale[g]
                for k in range(min(count, at.nodes.size)):
                    part[width + k] = middle + spread * at.nodes[k]
                for k in range(at.nodes.size, count):
                    part[width + k] = middle
                side[width : width + count] = own_side
            else:
                spread = z * at.step[g]
                for k in range(count):
                    part[width + k] = middle + spread * k
                side[width : width + count] = own_side
            width += count
            stop += 1
        family.rows(part[:width], side[:width], log_p[:width])
        place = 0
        for i in range(begin, stop):
            first, w = at.first[rows.codes[i]], rows.weights[i]
            count = at.first[rows.codes[i] + 1] - first
            if count == N_NODES:
                for k in range(N_NODES):
                    values[first + k] += w * log_p[place + k]
            else:
                for k in range(count):
                    values[first + k] += w * log_p[place + k]
            place += count
        begin, done = stop, done + width


@jit
def _add_where_not_certain(
    eta: FloatArray, rows: NodeRows, at: NodeSet, family: Family, out: tuple[FloatArray, FloatArray, FloatArray]
) -> None:
    """Do the same without evaluating rows where their label is certain: at most nodes where sigma is large.

    The third array of `out` is scratch, shape (3, size).
    """
    values, scores, (part, side, log_p) = out
    side[0], part[0], side[1], part[1] = 1.0, CERTAIN, -1.0, -CERTAIN
    family.rows(part[:2], side[:2], log_p[:2])
    ends = max(abs(log_p[0]), abs(log_p[1]), abs(part[0]), abs(part[1])) < _NOTHING  # not so for counts
    keep, done, begin, n = scores.size > 0, 0, 0, eta.size
    spans = np.empty((part.size, 2), dtype=np.int64)
    while begin < n:
        stop, width = begin, 0
        while stop < n and stop - begin < part.size:
            g, z, own_side = rows.codes[stop], rows.z[stop], rows.side[stop]
            count, center, scale = at.first[g + 1] - at.first[g], at.center[g], at.scale[g]
            middle, low, high = eta[stop] + z * center, 0, count
            spread = z * at.step[g]
            if scale == 0.0 and ends and spread != 0.0:
                edge = (own_side * CERTAIN - middle) / spread
                if own_side * spread > 0.0:
                    high = min(max(math.ceil(min(edge, count)), 0), count)
                else:
                    low = min(max(math.floor(max(edge, 0.0)), 0), count)
            if width + high - low > part.size:
                break
            if scale == 0.0:
                for k in range(high - low):
                    part[width + k] = middle + spread * (low + k)
            else:
                for k in range(min(count, at.nodes.size)):
                    part[width + k] = middle + z * scale * at.nodes[k]
                part[width + at.nodes.size : width + count] = middle
            side[width : width + high - low] = own_side
            width += high - low
            spans[stop - begin, 0], spans[stop - begin, 1] = low, high
            stop += 1
        family.rows(part[:width], side[:width], log_p[:width])
        place = 0
        for i in range(begin, stop):
            first, w, low, high = at.first[rows.codes[i]], rows.weights[i], spans[i - begin, 0], spans[i - begin, 1]
            for k in range(low, high):
                values[first + k] += w * log_p[place + k - low]
            if keep:
                count = at.first[rows.codes[i] + 1] - first
                scores[done : done + count] = 0.0
                scores[done + low : done + high] = part[place : place + high - low]
                done += count
            place += high - low
        begin = stop
