"""Exact sums over rows: the same for every order and every cut into blocks.

Sums of numbers of a known range are whole multiples of a `quantum`, where addition is associative. `exact_total` adds
numbers of any size: a float is a whole number of 53 bits times a power of two, and those of each power are added as
whole numbers (Kulisch's accumulator). A square is the sum of two floats (Dekker 1971, Numerische Mathematik 18), so
that `Moments` have no cancellation and need no range.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.types import FloatArray, IntArray

_FIXED_POINT_BITS = 36  # 2^16 rows of 2^36 quanta add without rounding in a float64
_HALF = 26  # bits; sums of 2^36 halves stay below 2^63
_SPLIT = 134217729.0  # 2^27 + 1


def quantum(largest: FloatArray) -> FloatArray:
    """Return the fixed-point unit (a power of two) for numbers of at most `largest` in size."""
    _, exponent = np.frexp(np.maximum(largest, np.finfo(float).tiny))
    return np.asarray(np.ldexp(1.0, np.maximum(exponent, -900) - _FIXED_POINT_BITS), dtype=np.float64)


def as_integers(whole: FloatArray) -> NDArray[np.object_]:
    """Turn floats that hold whole numbers into Python integers."""
    return np.asarray(whole).astype(np.int64).astype(object)


def from_integers(total: NDArray[np.object_], unit: FloatArray) -> FloatArray:
    """Turn whole multiples of `unit` back into floats."""
    return np.asarray(np.asarray(total, dtype=np.float64) * unit, dtype=np.float64)


@jit
def _add_digits(bits: IntArray, sums: IntArray) -> None:
    for n in range(bits.size):
        word = bits[n]
        exponent = (word >> 52) & 2047
        digits = word & 4503599627370495  # 2^52 - 1
        if exponent > 0:
            digits += 4503599627370496
        else:
            exponent = 1
        if word < 0:
            digits = -digits
        sums[exponent, 0] += digits >> 26
        sums[exponent, 1] += digits & 67108863  # 2^26 - 1


def exact_total(values: FloatArray) -> int:
    """Return the sum of finite numbers in units of 2^-1074."""
    sums = np.zeros((2048, 2), dtype=np.int64)
    _add_digits(np.ascontiguousarray(values, dtype=np.float64).view(np.int64), sums)
    used = np.flatnonzero(sums.any(axis=1))
    return sum(((int(sums[e, 0]) << _HALF) + int(sums[e, 1])) << (int(e) - 1) for e in used)


def exact_weight(weights: FloatArray) -> int:
    """Return the sum of weights in units of 2^-1074; see `total_weight`."""
    return len(weights) << 1074 if (weights == 1.0).all() else exact_total(weights)


def total_weight(parts: Iterable[int]) -> float:
    """Return the sum of exact sums, rounded once: the same for every order and every cut into blocks."""
    return sum(parts) / (1 << 1074)


def _squares(values: FloatArray) -> tuple[FloatArray, NDArray[np.float64]]:
    """Return the squares, and what was rounded off them."""
    wide = _SPLIT * values
    high = wide - (wide - values)
    low = values - high
    square = values * values
    return square, ((high * high - square) + 2.0 * high * low) + low * low


@dataclass(frozen=True)
class Moments:
    """Number of rows, and the sums of values and squares in units of 2^-1074."""

    n_rows: int
    total: int
    squares: int

    @classmethod
    def of(cls, values: FloatArray) -> Self:
        """Return the moments of finite numbers below 1e150 in size."""
        square, rest = _squares(values)
        return cls(len(values), exact_total(values), exact_total(square) + exact_total(rest))

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.n_rows + other.n_rows, self.total + other.total, self.squares + other.squares)

    def mean(self) -> float:
        """Return the mean, rounded once."""
        return float(Fraction(self.total, self.n_rows << 1074))

    def spread(self, center: float, ddof: float) -> float:
        """Return the root of the sum of squares about `center` over the number of rows less `ddof`."""
        c = Fraction(center)
        total, squares = Fraction(self.total, 1 << 1074), Fraction(self.squares, 1 << 1074)
        return sqrt((squares - 2 * c * total + self.n_rows * c * c) / (self.n_rows - Fraction(ddof)))
