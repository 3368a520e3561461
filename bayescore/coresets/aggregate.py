"""Lossless coresets: identical rows of one label, offset and group become one row of the sum of their weights.

The posterior is exactly that of the full data. When to use it: discrete data, where it is the best coreset
there is (the binary data of Huggins et al. 2016 at N = 1e6 have some 370 distinct rows).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.coresets.method import BuildResult, Method
from bayescore.coresets.sums import LosslessInfo, Sums, SumsState, cells_apart, summed
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.passes.cutter import block_rows
from bayescore.data.passes.tiles import TILE
from bayescore.models.elementary import mix
from bayescore.models.families import Family, check_family
from bayescore.types import FloatArray, IntArray, LabelArray, WeightedData, stack


@jit
def hash_rows(X: FloatArray, y: LabelArray, salt: np.uint64, out: NDArray[np.uint64]) -> None:
    """Write two independent 64-bit hashes, shape (n, 2), of each row's bits, shape (n, D), and label."""
    values = np.empty(TILE)
    bits, g, h = values.view(np.uint64), np.empty(TILE, dtype=np.uint64), np.empty(TILE, dtype=np.uint64)
    for start in range(0, len(y), TILE):
        width = min(TILE, len(y) - start)
        for lane in range(width):
            g[lane] = mix(salt + np.uint64(y[start + lane] + 2))
            h[lane] = mix(~g[lane])
        for d in range(X.shape[1]):
            for lane in range(width):
                values[lane] = X[start + lane, d] + 0.0  # -0.0 and 0.0 are the same number
            for lane in range(TILE):
                g[lane] = mix(g[lane] ^ bits[lane])
                h[lane] = mix(h[lane] + bits[lane])
        for lane in range(width):
            out[start + lane, 0] = g[lane]
            out[start + lane, 1] = h[lane]


@jit
def group_rows(keys: NDArray[np.uint64], weights: FloatArray, first: IntArray, total: FloatArray) -> int:
    """Write each group's first row and sum of weights, by hash; return how many, -1 if only first parts agree."""
    slots = 1
    while slots < 2 * len(keys):
        slots *= 2
    table = np.full(slots, -1)
    count = 0
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


# why a pass ends early: values, as a cluster prints the traceback of whatever a worker raises
_COLLISION, _TOO_MANY = "two different rows agree in the first hash", "more rows are distinct than may be"


def _group(block: WeightedData, salt: int, limit: float) -> tuple[WeightedData, NDArray[np.uint64]] | str:
    """Return a block's distinct rows in order, their weights added up, and hashes."""
    keys = np.empty((len(block), 2), dtype=np.uint64)
    beside = [part for part in (block.offset, block.group) if part is not None]
    columns: FloatArray = np.column_stack([block.X, *beside]) if beside else block.X  # codes are exact as floats
    hash_rows(columns, block.y, np.uint64(salt), keys)
    first, total = np.empty(len(block), dtype=np.int64), np.empty(len(block))
    count = group_rows(keys, block.weights, first, total)
    if count < 0:
        return _COLLISION
    if count > limit:
        return _TOO_MANY
    return block.take(first[:count]).with_weights(total[:count]), keys[first[:count]]


def aggregate(dataset: Dataset, limit: float = math.inf) -> WeightedData | None:
    """Merge identical rows, in order of their first appearance; None if more than `limit` are distinct.

    Rows count as identical if 128 bits of hash agree: for 1e9 rows the chance of an error is 1e-21.
    """
    salt = 0
    while (found := _aggregate(dataset, limit, salt)) == _COLLISION:
        salt += 1
    return None if isinstance(found, str) else found


def _aggregate(dataset: Dataset, limit: float, salt: int) -> WeightedData | str:
    number: dict[int, tuple[int, int]] = {}  # first hash -> place among the distinct rows, second hash
    kept: list[WeightedData] = []
    total = np.zeros(1024)
    for grouped in dataset.map(
        lambda _, block: _group(block, salt, limit),
        "merging rows",
        canonical=True,  # weights are added in the order of the blocks
    ):
        if isinstance(grouped, str):
            return grouped
        rows, hashes = grouped
        pairs = hashes.tolist()
        fresh = np.array([i for i, (g, _) in enumerate(pairs) if g not in number], dtype=np.int64)
        for i in fresh.tolist():
            number[pairs[i][0]] = (len(number), pairs[i][1])
        if len(number) > limit:
            return _TOO_MANY
        kept.append(rows.take(fresh))
        known = [number[g] for g, _ in pairs]
        if any(h != second for (_, h), (_, second) in zip(pairs, known, strict=True)):
            return _COLLISION
        if len(number) > len(total):
            total = np.concatenate([total, np.zeros(2 * len(number) - len(total))])
        total[[place for place, _ in known]] += rows.weights
    merged = stack(kept)
    return merged.with_weights(total[: len(merged)].copy())


@dataclass(frozen=True)
class Aggregate(Method):
    """Merges identical rows, or adds up all rows of numbers with normal noise: lossless. No options, and no size.

    Numbers of a normal family become a row a column and one more, or as many a group (`coresets.sums`); only of these a
    `stream` may have it.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 3, size=(5000, 2)).astype(float)
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> len(bc.build_coreset(X, y, method="aggregate", progressbar=False))
    18
    """

    name: ClassVar[str] = "aggregate"
    one_pass: ClassVar[bool] = True
    takes_size: ClassVar[bool] = False
    sums: ClassVar[bool] = True
    knows_groups: ClassVar[bool] = True
    keeps_curvature: ClassVar[bool] = True

    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> BuildResult[LosslessInfo]:
        """Merge identical rows, or add up rows of numbers."""
        if family.quadratic:
            return BuildResult(summed(dataset), LosslessInfo(), self)
        built = self.within(dataset, math.inf)
        assert built is not None
        return built

    def within(self, dataset: Dataset, limit: float) -> BuildResult[LosslessInfo] | None:
        """Merge identical rows, unless more than `limit` are distinct."""
        rows = aggregate(dataset, limit)
        return None if rows is None else BuildResult(rows, LosslessInfo(), self)

    def stream_block(self, size: int, n_features: int) -> int:
        """Return the rows of a canonical block."""
        return block_rows(n_features)

    def begin(self, size: int, design: Design, seed: int, family: str) -> SumsState:
        """Return the sums before the first row; raise `ValueError` unless responses are numbers."""
        if not check_family(family, seek=True).quadratic:
            raise ValueError(
                f"method='aggregate' keeps every distinct row of family={family!r}, however many a stream brings: "
                "give method='merge_reduce', or build_coreset the rows"
            )
        return SumsState(self, Sums.empty(len(design.names), len(design.groups), apart=cells_apart(design)))
