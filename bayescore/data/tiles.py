"""Tiles: rows as columns, so that an inner loop over rows vectorises, few enough to stay in the cache.

A row's numbers do not depend on where in a block, and so in a tile, the row stands.

Rows whose entries are mostly 0, by their other entries, for products of many columns, which BLAS computes else.

Work quadratic in the columns becomes quadratic in those entries: rows of factors with many levels have few of them.
The values decide, not the source: sparse and dense sources of the same rows give the same bits.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

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


MAX_FILL = 0.05  # share of entries that are not 0: BLAS is as fast from 0.05 of 1,000 columns, 0.1 of 100


MIN_COLUMNS = 96  # fewer gain little


Places = NDArray[np.int32]


@jit
def _fill(X: FloatArray, ends: Places, columns: Places, values: FloatArray) -> int:
    """Write the entries that are not 0; return their number, -1 as soon as there are more than fit."""
    count = 0
    for n in range(X.shape[0]):
        for d in range(X.shape[1]):
            if X[n, d] != 0.0:
                if count == len(values):
                    return -1
                columns[count], values[count] = d, X[n, d]
                count += 1
        ends[n + 1] = count
    return count


def compact(X: FloatArray) -> FloatArray | sparse.csr_array:
    """Return rows, shape (n, D), in CSR form if they are wide and at most `MAX_FILL` of their entries are not 0."""
    if X.shape[1] < MIN_COLUMNS:
        return X
    most = int(MAX_FILL * X.size)
    ends, columns, values = np.zeros(len(X) + 1, dtype=np.int32), np.empty(most, dtype=np.int32), np.empty(most)
    count = _fill(np.ascontiguousarray(X), ends, columns, values)
    return X if count < 0 else sparse.csr_array((values[:count], columns[:count], ends), shape=X.shape)


@jit
def _add_gram(ends: Places, columns: Places, values: FloatArray, weights: FloatArray, out: FloatArray) -> None:
    for n in range(len(weights)):
        for a in range(ends[n], ends[n + 1]):
            part = weights[n] * values[a]
            out[columns[a], columns[a]] += part * values[a]
            for b in range(ends[n], a):
                product = part * values[b]
                out[columns[a], columns[b]] += product
                out[columns[b], columns[a]] += product


def add_gram(X: sparse.csr_array, weights: FloatArray, out: FloatArray) -> None:
    """Add the sum over rows of w x x' to `out`, shape (D, D); weights, shape (n,), may be negative."""
    _add_gram(X.indptr, X.indices, X.data, np.ascontiguousarray(weights), out)
