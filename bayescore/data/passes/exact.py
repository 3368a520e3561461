"""Exact sums over rows: the same for every order and every cut into blocks.

Columns are added in fixed point, where addition is associative; weights, which can be of any size, as whole numbers.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.types import FloatArray

_FIXED_POINT_BITS = 36  # 2^16 rows of 2^36 quanta add without rounding in a float64


def quantum(largest: FloatArray) -> FloatArray:
    """Return the fixed-point unit (a power of two) for numbers of at most `largest` in size."""
    _, exponent = np.frexp(np.maximum(largest, np.finfo(float).tiny))
    return np.asarray(np.ldexp(1.0, np.maximum(exponent, -900) - _FIXED_POINT_BITS), dtype=np.float64)


@jit
def _add_exactly(
    X: FloatArray, weights: FloatArray, origin: FloatArray, square: bool, shift: FloatArray, total: FloatArray
) -> None:
    for n in range(X.shape[0]):
        for d in range(X.shape[1]):
            gap = X[n, d] - origin[d]
            value = weights[n] * (gap * gap if square else gap)
            total[d] += (value + shift[d]) - shift[d]


def exact_sum(
    X: FloatArray, weights: FloatArray, origin: FloatArray, unit: FloatArray, *, square: bool = False
) -> NDArray[np.object_]:
    """Sum w (x - origin), or w (x - origin)^2, over at most `MAX_BLOCK_ROWS` rows in whole multiples of `unit`.

    The sums, shape (D,), are Python integers: adding them up gives the same total in every order. Adding and
    subtracting 1.5 * 2^52 * unit rounds a number to a multiple of `unit`, and multiples add exactly.
    """
    total = np.zeros(X.shape[1])
    _add_exactly(X, weights, origin, square, unit * 6755399441055744.0, total)
    return as_integers(total / unit)


def as_integers(whole: FloatArray) -> NDArray[np.object_]:
    """Turn floats that hold whole numbers into Python integers."""
    return np.asarray(whole).astype(np.int64).astype(object)


def from_integers(total: NDArray[np.object_], unit: FloatArray) -> FloatArray:
    """Turn a total of `exact_sum` back into floats."""
    return np.asarray(np.asarray(total, dtype=np.float64) * unit, dtype=np.float64)


def exact_weight(weights: FloatArray) -> int:
    """Return the exact sum of weights, at most `MAX_BLOCK_ROWS` of them, in units of 2^-1126; see `total_weight`."""
    if (weights == 1.0).all():
        return len(weights) << 1126
    fraction, exponent = np.frexp(weights)  # the exponent is -1073 or more
    digits = np.ldexp(fraction, 53).astype(np.int64)
    total = 0
    for e in np.unique(exponent).tolist():
        own = digits[exponent == e]  # in halves, or 2^11 of them overflow
        total += ((int((own >> 27).sum()) << 27) + int((own & ((1 << 27) - 1)).sum())) << (e + 1073)
    return total


def total_weight(parts: Iterable[int]) -> float:
    """Return the sum of exact sums, rounded once: the same for every order and every cut into blocks."""
    return sum(parts) / (1 << 1126)
