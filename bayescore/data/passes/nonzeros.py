"""Rows whose entries are mostly 0, by their other entries, for products of many columns, which BLAS computes else.

Work quadratic in the columns becomes quadratic in those entries: rows of factors with many levels have few of them.
The values decide, not the source: sparse and dense sources of the same rows give the same bits.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayescore.compiled import jit
from bayescore.types import FloatArray

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
