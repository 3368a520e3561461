"""Ties: numbers that are equal but for rounding count as equal, so that no choice hangs on a processor.

Equal rows have equal scores, and equal columns equal lengths, but BLAS and vectorised code may round them apart, by
where they stand and by the processor. Where two numbers tie, the first is taken.
"""

import numpy as np

from bayescore.types import FloatArray

BITS = 30  # of 53 that count: a relative difference of 1e-9 is a difference, one of 1e-12 is rounding
TIED = 1e-6  # relative difference of lengths and of entries of unit vectors, far above rounding


def rounded(values: FloatArray) -> FloatArray:
    """Return values to `BITS` significant bits, for a ranking in which position decides between equal ones.

    Values at an edge between two rounded ones may still part: one in ten thousand of those that differ by 1e-13.
    """
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(np.ldexp(mantissa, BITS)), exponent - BITS))


def largest(values: FloatArray) -> int:
    """Return the place of the first of the largest values, shape (n,), none of which is negative."""
    return int((values >= (1.0 - TIED) * values.max()).argmax())


def oriented(vectors: FloatArray) -> FloatArray:
    """Return the columns of a matrix, shape (D, K), signed so that the first of the largest entries is positive."""
    places = [largest(column) for column in np.abs(vectors).T]
    return np.asarray(vectors * np.where(vectors[places, np.arange(len(places))] < 0.0, -1.0, 1.0))
