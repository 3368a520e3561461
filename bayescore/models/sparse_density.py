"""The compiled log posterior density of rows whose columns mostly have one value: 0/1 columns, standardised or not.

A column is its most frequent value and what the other rows differ from it by. So a gradient reads those rows alone.
The density is that of `density.log_density` but for rounding.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit_sums
from bayescore.models.density import prior_terms
from bayescore.types import FloatArray

MAX_FILL = 0.08  # share of entries that differ from the usual one of their column, up to which whole columns are slower


class SparseColumns(NamedTuple):
    """Columns of X: the usual value of each, (D,), and its other rows and their differences to it, column by column."""

    usual: FloatArray
    ends: NDArray[np.int64]  # (D + 1,)
    rows: NDArray[np.int32]
    values: FloatArray


def sparse_columns(X: FloatArray) -> SparseColumns | None:
    """Return the columns of rows, shape (n, D), by what differs from the usual; None where that is too much."""
    most = int(MAX_FILL * X.size)
    usual, rows, values, count = np.empty(X.shape[1]), [], [], 0
    for d, column in enumerate(X.T):
        found, times = np.unique(column, return_counts=True)
        usual[d] = found[times.argmax()]
        own = np.flatnonzero(column != usual[d])
        count += len(own)
        if count > most:
            return None
        rows.append(own.astype(np.int32))
        values.append(column[own] - usual[d])
    ends = np.concatenate([[0], np.cumsum([len(own) for own in rows])]).astype(np.int64)
    return SparseColumns(usual, ends, np.concatenate(rows), np.concatenate(values))


@jit_sums
def sparse_log_density(beta: FloatArray, gradient: FloatArray, arguments: Any) -> float:
    """Return what `log_density` does; `arguments` are its own with `SparseColumns` for the columns."""
    columns, side, weights, offset, family, prior = arguments
    total, level = prior_terms(beta, prior, gradient), 0.0
    for d in range(beta.size):
        level += columns.usual[d] * beta[d]
    eta, log_p = np.full(weights.size, level), np.empty(weights.size)
    for d in range(beta.size):
        for k in range(columns.ends[d], columns.ends[d + 1]):
            eta[columns.rows[k]] += columns.values[k] * beta[d]
    for n in range(offset.size):
        eta[n] += offset[n]
    family.rows(eta, side, log_p)
    whole = 0.0
    for n in range(weights.size):
        total += weights[n] * log_p[n]
        eta[n] *= weights[n]
        whole += eta[n]
    for d in range(beta.size):
        part = columns.usual[d] * whole
        for k in range(columns.ends[d], columns.ends[d + 1]):
            part += columns.values[k] * eta[columns.rows[k]]
        gradient[d] += part
    return total
