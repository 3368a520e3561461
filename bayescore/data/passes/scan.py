"""`Scan`: what the first pass over rows learns, after a check of every entry."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.data.design import Design
from bayescore.data.passes.exact import exact_weight, total_weight
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError, check_finite, check_total_weight

MAX_ENTRY = 1e100  # squared distances and their fixed-point sums stay finite


@dataclass(frozen=True, eq=False)
class Scan:
    """Range of the columns and of the weights of rows whose entries are finite; arrays have shape (D,)."""

    n_rows: int
    low: FloatArray
    high: FloatArray
    smallest_weight: float
    largest_weight: float
    weight: int  # exact sum of the weights, see `exact_weight`
    squares: FloatArray  # sum w x^2 of each column, added up in the order of the blocks

    @property
    def weight_total(self) -> float:
        """Sum of the weights, rounded once."""
        return total_weight([self.weight])

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
        whole = cls(
            n_rows=sum(block.n_rows for block in blocks),
            low=low,
            high=high,
            smallest_weight=min(block.smallest_weight for block in blocks),
            largest_weight=max(block.largest_weight for block in blocks),
            weight=sum(block.weight for block in blocks),
            squares=np.sum([block.squares for block in blocks], axis=0),
        )
        check_total_weight(whole.weight_total)
        return whole

    def through(self, design: Design) -> Self:
        """Return the scan of the design matrix of these raw columns.

        Centers and scales are taken to be the rows' means and sds: a sum of squares is then the sum of the weights.
        """
        low, high = (design.transform(bound[None, :])[0] for bound in (self.low, self.high))
        moved = np.zeros(len(self.squares), dtype=bool)
        if design.center is not None:
            moved |= np.array(design.center) != 0.0
        if design.scale is not None:
            moved |= np.array(design.scale) != 1.0
        squares = np.where(moved, self.weight_total, self.squares)
        if design.intercept:
            squares = np.append(self.weight_total, squares)
        return replace(self, low=low, high=high, squares=squares)


@jit
def _column_range(X: FloatArray, weights: FloatArray, low: FloatArray, high: FloatArray, squares: FloatArray) -> bool:
    """Widen `low` and `high` to the range of each column, add w x^2; return whether every entry is finite."""
    total = np.zeros(X.shape[1])
    for n in range(X.shape[0]):
        for d in range(X.shape[1]):
            x = X[n, d]
            low[d] = min(low[d], x)
            high[d] = max(high[d], x)
            squares[d] += weights[n] * (x * x)
            total[d] += x - x  # NaN for NaN and infinity
    return not np.isnan(total.sum())


def check_reach(low: FloatArray, high: FloatArray, names: tuple[str, ...], where: str = "the data") -> None:
    """Raise if a column with this range, shapes (D,), has entries whose squares overflow."""
    if max(float(high.max()), -float(low.min())) > MAX_ENTRY:
        d = int(np.argmax(np.maximum(high, -low)))
        raise DataError(
            f"{where}: column {names[d]!r} has entries above {MAX_ENTRY:g} in size; rescale it: squares overflow"
        )


def block_range(names: tuple[str, ...], start: int, block: WeightedData) -> Scan:
    """Return the scan of a block whose first row stands at `start`; raise if an entry is NaN or infinite."""
    w = block.weights
    low, high, squares = block.X[0].copy(), block.X[0].copy(), np.zeros(block.n_features)
    if not _column_range(block.X, w, low, high, squares):
        check_finite(block.X, names, start)
    return Scan(len(block), low, high, float(w.min()), float(w.max()), exact_weight(w), squares)
