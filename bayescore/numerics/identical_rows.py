"""Identical rows of a block become one row of their weight."""

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.numerics.elementary import mix
from bayescore.types import FloatArray, IntArray, LabelArray, WeightedData


@jit
def hash_rows(X: FloatArray, y: LabelArray, salt: np.uint64, out: NDArray[np.uint64]) -> None:
    """Write two independent 64-bit hashes, shape (n, 2), of each row's bits, shape (n, D), and label."""
    for n in range(len(y)):
        g = mix(salt + np.uint64(y[n] + 2))
        h = mix(~g)
        for d in range(X.shape[1]):
            bits = np.float64(X[n, d] + 0.0).view(np.uint64)  # -0.0 and 0.0 are the same number
            g, h = mix(g ^ bits), mix(h + bits)
        out[n, 0], out[n, 1] = g, h


@jit
def group_rows(
    keys: NDArray[np.uint64], weights: FloatArray, table: IntArray, first: IntArray, total: FloatArray
) -> int:
    """Write each group's first row and sum of weights, by hash; return how many, -1 if only first parts agree.

    `table` has -1 everywhere, and a power of two of entries, more than there are rows.
    """
    slots, count = len(table), 0
    for n in range(len(keys)):
        slot = np.int64(keys[n, 0] & np.uint64(slots - 1))
        while table[slot] >= 0 and keys[first[table[slot]], 0] != keys[n, 0]:
            slot = (slot + 1) & (slots - 1)
        group = table[slot]
        if group < 0:
            group = table[slot] = count
            first[group], total[group] = n, 0.0
            count += 1
        elif keys[first[group], 1] != keys[n, 1]:
            return -1
        total[group] += weights[n]
    return count


# why a merge ends early: values, as a cluster prints the traceback of whatever a worker raises
COLLISION, TOO_MANY = "two different rows agree in the first hash", "more rows are distinct than may be"


def merge_identical(block: WeightedData, limit: float, salt: int = 0) -> tuple[WeightedData, NDArray[np.uint64]] | str:
    """Return a block's distinct rows in order, their weights added up, and hashes; or why there are none.

    Rows count as identical if 128 bits of hash agree: for 1e9 rows the chance of an error is 1e-21.
    """
    if _has_many_values(block.X, limit):
        return TOO_MANY
    keys = np.empty((len(block), 2), dtype=np.uint64)
    parts = [part for part in (block.offset, block.group) if part is not None]
    columns: FloatArray = np.column_stack([block.X, *parts]) if parts else block.X  # codes are exact as floats
    hash_rows(columns, block.y, np.uint64(salt), keys)
    first, total = np.empty(len(block), dtype=np.int64), np.empty(len(block))
    table = np.full(2 << len(block).bit_length(), -1)
    count = group_rows(keys, block.weights, table, first, total)
    if count < 0:
        return COLLISION
    if count > limit:
        return TOO_MANY
    return block.take(first[:count]).with_weights(total[:count]), keys[first[:count]]


_FEW = 32  # first rows, in which a column of measurements has as many values; of counts, two rows each, half as many


def _has_many_values(X: FloatArray, limit: float) -> bool:
    """Whether a column of measurements alone has more than `limit` values, which needs no hashes and no kernels."""
    enough = 2.0 * limit + _FEW
    if enough > len(X):
        return False
    first = np.sort(X[:_FEW], axis=0)
    measured = np.flatnonzero((first[1:] != first[:-1]).sum(axis=0) >= _FEW // 2 - 1)
    return any(len(np.unique(X[: int(enough), d])) > limit for d in measured)
