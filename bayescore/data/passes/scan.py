"""`Scan`: what the first pass over rows learns, after a check of every entry."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.data.design import Design
from bayescore.data.passes.exact import exact_weight, total_weight
from bayescore.data.passes.tiles import TILE
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError, check_finite, check_total_weight

MAX_ENTRY = 1e100  # squared distances and their fixed-point sums stay finite


@dataclass(frozen=True, eq=False)
class Scan:
    """Range and moments of the columns of rows whose entries are finite, and their weights; arrays have shape (D,).

    Means and spreads are added up in the order of the blocks, which are canonical, without cancellation (Chan, Golub
    and LeVeque 1983, The American Statistician 37).
    """

    n_rows: int
    low: FloatArray
    high: FloatArray
    smallest_weight: float
    largest_weight: float
    weight: int  # exact sum of the weights, see `exact_weight`
    mean: FloatArray  # weighted
    spread: FloatArray  # sum w (x - mean)^2

    @property
    def weight_total(self) -> float:
        """Sum of the weights, rounded once."""
        return total_weight([self.weight])

    @property
    def sd(self) -> FloatArray:
        """Weighted population standard deviation of each column, shape (D,)."""
        return np.asarray(np.sqrt(self.spread / self.weight_total))

    @property
    def squares(self) -> FloatArray:
        """Sum w x^2 of each column, shape (D,)."""
        return np.asarray(self.spread + self.weight_total * self.mean**2)

    @property
    def largest(self) -> FloatArray:
        """Largest size of an entry of each column, shape (D,)."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Which columns are constant, shape (D,)."""
        return np.asarray(self.low == self.high)

    @classmethod
    def of(cls, blocks: Sequence["Scan"], names: tuple[str, ...]) -> Self:
        """Return the scan of rows in blocks; raise if an entry, or the sum of the weights, is too large."""
        low: FloatArray = np.stack([block.low for block in blocks]).min(axis=0)
        high: FloatArray = np.stack([block.high for block in blocks]).max(axis=0)
        check_reach(low, high, names)
        weights = np.array([[block.weight_total] for block in blocks])
        means, total = np.stack([block.mean for block in blocks]), weights.sum()
        mean = means[0] + (weights * (means - means[0])).sum(axis=0) / total
        spread = np.sum([block.spread for block in blocks], axis=0) + (weights * (means - mean) ** 2).sum(axis=0)
        whole = cls(
            n_rows=sum(block.n_rows for block in blocks),
            low=low,
            high=high,
            smallest_weight=min(block.smallest_weight for block in blocks),
            largest_weight=max(block.largest_weight for block in blocks),
            weight=sum(block.weight for block in blocks),
            mean=mean,
            spread=spread,
        )
        check_total_weight(whole.weight_total)
        return whole

    def through(self, design: Design) -> Self:
        """Return the scan of the design matrix of these raw columns, each moved and scaled by an affine design."""
        low, high, mean = (design.transform(own[None, :])[0] for own in (self.low, self.high, self.mean))
        spread = self.spread if design.scale is None else self.spread / np.array(design.scale) ** 2
        return replace(self, low=low, high=high, mean=mean, spread=np.append(np.zeros(len(low) - len(spread)), spread))


@jit
def _moments(X: FloatArray, weights: FloatArray, bounds: FloatArray, mean: FloatArray, spread: FloatArray) -> bool:
    """Widen `bounds`, shape (2, D), to the range of each column, add its moments; return whether every entry is finite.

    Rows are taken a tile at a time, so that the second look at them, about the tile's mean, is one at the cache.
    """
    n_rows, D = X.shape
    total, center = np.zeros(D), np.empty(D)
    before = 0.0
    for start in range(0, n_rows, TILE):
        stop = min(start + TILE, n_rows)
        weight = 0.0
        center[:] = 0.0
        for n in range(start, stop):
            weight += weights[n]
            for d in range(D):
                x = X[n, d]
                bounds[0, d] = min(bounds[0, d], x)
                bounds[1, d] = max(bounds[1, d], x)
                total[d] += x - x  # NaN for NaN and infinity
                center[d] += weights[n] * (x - X[0, d])
        for d in range(D):
            gap = center[d] / weight - mean[d]
            mean[d] += gap * (weight / (before + weight))
            spread[d] += gap * gap * (before * weight / (before + weight))
            center[d] = X[0, d] + center[d] / weight
        for n in range(start, stop):
            for d in range(D):
                gap = X[n, d] - center[d]
                spread[d] += weights[n] * (gap * gap)
        before += weight
    for d in range(D):
        mean[d] += X[0, d]
    return not np.isnan(total.sum())


def check_reach(low: FloatArray, high: FloatArray, names: tuple[str, ...], where: str = "the data") -> None:
    """Raise if a column with this range, shapes (D,), has entries whose squares overflow."""
    if max(high.max(initial=0.0), -low.min(initial=0.0)) > MAX_ENTRY:  # rows of a formula may have no raw column
        d = int(np.argmax(np.maximum(high, -low)))
        raise DataError(
            f"{where}: column {names[d]!r} has entries above {MAX_ENTRY:g} in size; rescale it: squares overflow"
        )


def block_range(names: tuple[str, ...], block: WeightedData, *, given: tuple[str, ...] = ()) -> Scan:
    """Return the scan of a block; raise if an entry is NaN or infinite.

    If the columns `given` are named, which are finite, the others are terms of a formula.
    """
    w, D = block.weights, block.n_features
    bounds, mean, spread = np.stack([block.X[0], block.X[0]]), np.zeros(D), np.zeros(D)
    if not _moments(block.X, w, bounds, mean, spread):
        check_finite(block.X, names, block.index, given=given)
    return Scan(len(block), bounds[0], bounds[1], float(w.min()), float(w.max()), exact_weight(w), mean, spread)
