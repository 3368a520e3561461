"""Quantiles of each row of many draws, by counting instead of sorting: several times faster than NumPy's."""

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.types import FloatArray

_CELLS = 512  # of equal width, from the least draw of a row to the largest
_LANES = 8  # least and largest draws that are found beside each other, so that the loop vectorises
_FEW = 1 << 15  # entries that NumPy sorts in the time that loading the kernel takes


def row_quantiles(draws: FloatArray, probs: FloatArray) -> FloatArray:
    """Return quantiles of each row of draws, shape (len(probs), n), to the bit those of `np.quantile`."""
    if draws.size < _FEW or draws.shape[1] < _LANES:
        return np.quantile(draws, probs, axis=1)
    places = (draws.shape[1] - 1) * probs
    ranks = np.floor(places)
    ends = np.empty((2, len(probs), len(draws)))
    left = _neighbours(np.ascontiguousarray(draws), ranks.astype(np.int64), ends)
    step, part = ends[1] - ends[0], (places - ranks)[:, None]
    # rounded as NumPy rounds
    found: FloatArray = np.where(part < 0.5, ends[0] + step * part, ends[1] - step * (1.0 - part))
    if left.any():
        found[:, left] = np.quantile(draws[left], probs, axis=1)
    return found


@jit
def _neighbours(draws: FloatArray, ranks: NDArray[np.int64], ends: FloatArray) -> NDArray[np.bool_]:
    """Write the draws of each row at the ranks and at the next ones; return which rows are left out.

    A row is left out if its draws are equal, or they or their range are not finite. Others are counted in cells, and
    only the draws of the cells that have the two ranks are sorted.
    """
    n_draws = draws.shape[1]
    left = np.zeros(len(draws), np.bool_)
    lows, highs, zeros = np.empty(_LANES), np.empty(_LANES), np.empty(_LANES)
    cell, counts, kept = np.empty(n_draws, np.int32), np.empty(_CELLS + 1, np.int64), np.empty(n_draws)
    for n in range(len(draws)):
        row = draws[n]
        for lane in range(_LANES):
            lows[lane] = highs[lane] = row[lane]
            zeros[lane] = 0.0
        for start in range(0, n_draws - _LANES + 1, _LANES):
            for lane in range(_LANES):
                value = row[start + lane]
                lows[lane] = value if value < lows[lane] else lows[lane]
                highs[lane] = value if value > highs[lane] else highs[lane]
                zeros[lane] += value - value  # NaN if it is not finite
        for i in range(n_draws - n_draws % _LANES, n_draws):
            lows[0], highs[0] = min(lows[0], row[i]), max(highs[0], row[i])
            zeros[0] += row[i] - row[i]
        low = lows.min()
        scale = _CELLS / (highs.max() - low)
        if zeros.sum() != 0.0 or not 0.0 < scale < np.inf:
            left[n] = True
            continue
        for i in range(n_draws):
            cell[i] = np.int32((row[i] - low) * scale)
        counts[:] = 0
        for i in range(n_draws):
            counts[cell[i]] += 1
        for q in range(len(ranks)):
            rank, after = ranks[q], min(ranks[q] + 1, n_draws - 1)
            first, before = 0, 0
            while before + counts[first] <= rank:
                before += counts[first]
                first += 1
            last, up_to = first, before + counts[first]
            while up_to <= after:
                last += 1
                up_to += counts[last]
            size = 0
            for i in range(n_draws):
                kept[size] = row[i]
                size += (cell[i] >= first) & (cell[i] <= last)
            _sort(kept[:size])
            ends[0, q, n], ends[1, q, n] = kept[rank - before], kept[after - before]
    return left


@jit
def _sort(values: FloatArray) -> None:
    """Sort a few values, of more by numba's own sort."""
    if values.size > 64:
        values.sort()
        return
    for i in range(1, values.size):
        value, j = values[i], i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value
