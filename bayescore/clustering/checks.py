"""Checks of the arguments of seedings."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayescore.clustering.divergences import SQUARED_EUCLIDEAN, Divergence
from bayescore.data.passes.scan import MAX_ENTRY
from bayescore.types import FloatArray
from bayescore.validation import DataError, check_integer, check_matrix

_CHUNK = 4096


def distinct_rows(X: FloatArray, enough: int) -> int:
    """Return the number of distinct rows of X, shape (n, D), counting no further than `enough`."""
    seen: set[bytes] = set()
    for start in range(0, len(X), _CHUNK):  # seldom more than one
        seen.update(row.tobytes() for row in np.ascontiguousarray(X[start : start + _CHUNK] + 0.0))  # -0 and 0 are one
        if len(seen) >= enough:
            break
    return min(len(seen), enough)


def too_few(n_clusters: int, found: int) -> str:
    """Return the message for data with fewer distinct rows than clusters."""
    return f"n_clusters={n_clusters}, but the data have {found} distinct rows; ask for n_clusters={found} or fewer"


def check_trials(n_local_trials: int | None, n_clusters: int) -> int:
    """Return the number of rows tried for each center."""
    if n_local_trials is None:
        return 2 + int(math.log(n_clusters))
    return check_integer(n_local_trials, "n_local_trials", low=1)


def check_rows(X: Any, name: str, divergence: Divergence = SQUARED_EUCLIDEAN) -> FloatArray:
    """Return X, shape (n, D), as finite C-contiguous floats in the divergence's domain."""
    matrix = np.ascontiguousarray(check_matrix(X, name), dtype=np.float64)
    if not (matrix.min() >= -MAX_ENTRY and matrix.max() <= MAX_ENTRY):  # false for NaN
        row, column = (int(i) for i in np.argwhere(~(np.abs(matrix) <= MAX_ENTRY))[0])
        raise DataError(
            f"{name} is {matrix[row, column]:g} in row {row}, column {column}; entries must be finite and at most "
            f"{MAX_ENTRY:g} in size: drop such rows, impute or rescale them"
        )
    divergence.check(matrix, name)
    return matrix


def check_peers(peers: Sequence[Any], divergence: Divergence = SQUARED_EUCLIDEAN) -> list[FloatArray]:
    """Return the rows of each peer, shapes (n_i, D): at least one peer, none of them empty, all of one D."""
    if not hasattr(peers, "__len__"):
        raise TypeError(f"peers is a {type(peers).__name__}; give a sequence of arrays, the rows of each peer")
    if not len(peers):
        raise DataError("peers is empty; give at least one peer")
    held: list[FloatArray] = []
    for i, X in enumerate(peers):
        if not len(np.atleast_1d(X)):
            raise DataError(f"peers[{i}] is empty; leave peers without rows out")
        held.append(check_rows(X, f"peers[{i}]", divergence))
        here, first = held[i].shape[1], held[0].shape[1]
        if here != first:
            raise DataError(f"peers[{i}] has {here} columns, peers[0] has {first}; give all the same features")
    return held


def check_masses(weights: Any, n_rows: int, name: str = "X") -> FloatArray:
    """Return weights, shape (n,), finite, not negative, with a positive sum; ones for None."""
    if weights is None:
        return np.ones(n_rows)
    try:
        masses = np.ascontiguousarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"weights of {name} must be numbers, one for each row") from None
    if masses.shape != (n_rows,):
        raise DataError(f"weights of {name} has shape {masses.shape}; it must be ({n_rows},), one weight for each row")
    if not (masses >= 0.0).all() or not np.isfinite(masses.sum()):
        row = int(np.argmin(np.isfinite(masses) & (masses >= 0.0)))
        raise DataError(f"weights of {name} is {masses[row]:g} in row {row}; weights must be finite and not negative")
    if not masses.sum() > 0.0:
        raise DataError(f"weights of {name} sum to 0; at least one row needs a positive weight")
    return masses
