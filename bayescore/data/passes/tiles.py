"""Tiles: rows as columns, so that an inner loop over rows vectorises, few enough to stay in the cache.

A row's numbers do not depend on where in a block, and so in a tile, the row stands.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.types import NO_OFFSET, FloatArray, LabelArray, WeightedData

TILE = 128


@jit
def _turn(columns: NDArray[Any], rows: FloatArray) -> None:
    for n in range(rows.shape[0]):
        for d in range(rows.shape[1]):
            rows[n, d] = columns[d, n]


def rows_of(columns: Sequence[NDArray[Any]], n_rows: int) -> FloatArray:
    """Return columns of n numbers of any kind as rows of float64, shape (n, D); D may be 0."""
    single = all(column.dtype == np.float32 for column in columns)
    # in one piece, and no wider than they come: the strided half of the work is then the compiled loop's
    together = np.empty((len(columns), n_rows), dtype=np.float32 if single else np.float64)
    for d, column in enumerate(columns):
        together[d] = column
    rows = np.empty(together.shape[::-1])
    _turn(together, rows)
    return rows


@jit
def new_tile(n_features: int) -> FloatArray:
    """Return a tile of zeros; its rows are longer than TILE, or many of them would share few sets of the cache."""
    return np.zeros((n_features, TILE + 8))


class TileRows(NamedTuple):
    """Rows of a block as compiled passes take them, their arrays contiguous; `offset` is empty where there are none."""

    X: FloatArray
    side: LabelArray
    weights: FloatArray
    offset: FloatArray

    @classmethod
    def of(cls, rows: WeightedData) -> "TileRows":
        """Return the rows of a block."""
        contiguous = np.ascontiguousarray
        offset = NO_OFFSET if rows.offset is None else contiguous(rows.offset)
        return cls(contiguous(rows.X), contiguous(rows.y), contiguous(rows.weights), offset)


@jit
def load_tile(X: FloatArray, start: int, width: int, tile: FloatArray) -> None:
    """Write the rows start, ..., start + width - 1 as the first columns of `tile`."""
    for lane in range(width):
        for d in range(X.shape[1]):
            tile[d, lane] = X[start + lane, d]


@jit
def load_signed_tile(X: FloatArray, y: LabelArray, start: int, width: int, tile: FloatArray) -> None:
    """Write the signed rows start, ..., start + width - 1 as the first columns of `tile`."""
    for lane in range(width):
        sign = float(y[start + lane])
        for d in range(X.shape[1]):
            tile[d, lane] = sign * X[start + lane, d]
