"""Lossless coresets: identical rows with the same label become one row whose weight is the sum of theirs.

The posterior is exactly that of the full data. When to use it: discrete data, where it is the best coreset
there is (the binary data of Huggins et al. 2016 at N = 1e6 have some 370 distinct rows).
"""

import math

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.coresets.draw import mix
from bayescore.data.passes import map_blocks
from bayescore.types import FloatArray, IntArray, LabelArray, Rows, WeightedData, stack


@jit
def hash_rows(bits: NDArray[np.uint64], y: LabelArray, salt: np.uint64, out: NDArray[np.uint64]) -> None:
    """Write two independent 64-bit hashes, shape (n, 2), of each row's bits, shape (n, D), and label."""
    for n in range(len(y)):
        g = mix(salt + np.uint64(y[n] + 2))
        h = mix(~g)
        for d in range(bits.shape[1]):
            g = mix(g ^ bits[n, d])
            h = mix(h + bits[n, d])
        out[n, 0] = g
        out[n, 1] = h


@jit
def add_in_order(total: FloatArray, group: IntArray, weights: FloatArray) -> None:
    """Add each weight to the total of its group, in the order of the rows."""
    for n in range(len(group)):
        total[group[n]] += weights[n]


class _CollisionError(Exception):
    """Two different rows agree in the first hash; try another salt."""


def _group(block: WeightedData, salt: int, limit: float) -> tuple[WeightedData, NDArray[np.uint64]] | None:
    """Return a block's distinct rows in order, their weights added up, and hashes; None if they are too many."""
    X = block.X + 0.0  # -0.0 and 0.0 are the same number
    keys = np.empty((len(block), 2), dtype=np.uint64)
    hash_rows(X.view(np.uint64), block.y, np.uint64(salt), keys)
    _, first, group = np.unique(keys[:, 0], return_index=True, return_inverse=True)
    if not (keys[first[group], 1] == keys[:, 1]).all():
        raise _CollisionError
    if len(first) > limit:
        return None
    total = np.zeros(len(first))
    add_in_order(total, group, block.weights)
    order = np.argsort(first)
    return block.take(first[order]).with_weights(total[order]), keys[first[order]]


def aggregate(source: Rows, limit: float = math.inf, *, progressbar: bool = False) -> WeightedData | None:
    """Merge identical rows, in order of their first appearance; None if more than `limit` are distinct.

    Rows count as identical if 128 bits of hash agree: for 1e9 rows the chance of an error is 1e-21.
    """
    salt = 0
    while True:
        try:
            return _aggregate(source, limit, salt, progressbar)
        except _CollisionError:
            salt += 1


def _aggregate(source: Rows, limit: float, salt: int, progressbar: bool) -> WeightedData | None:
    number: dict[int, tuple[int, int]] = {}  # first hash -> place among the distinct rows, second hash
    kept: list[WeightedData] = []
    total = np.zeros(1024)
    for part in map_blocks(
        source,
        lambda _, block: _group(block, salt, limit),
        description="merging rows",
        progressbar=progressbar,
        canonical=True,  # weights are added in the order of the blocks
    ):
        if part is None:
            return None
        rows, hashes = part
        pairs = hashes.tolist()
        fresh = np.array([i for i, (g, _) in enumerate(pairs) if g not in number], dtype=np.int64)
        for i in fresh.tolist():
            number[pairs[i][0]] = (len(number), pairs[i][1])
        if len(number) > limit:
            return None
        kept.append(rows.take(fresh))
        found = [number[g] for g, _ in pairs]
        if any(h != second for (_, h), (_, second) in zip(pairs, found, strict=True)):
            raise _CollisionError
        if len(number) > len(total):
            total = np.concatenate([total, np.zeros(2 * len(number) - len(total))])
        total[[place for place, _ in found]] += rows.weights
    merged = stack(kept)
    return merged.with_weights(total[: len(merged)].copy())
