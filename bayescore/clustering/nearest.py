"""The nearest center of each row, updated as centers are added: the hot loop of every seeding.

D(a) = min_c d(a, c) can only fall when a center is added, so a new center costs one pass. Rows are stored by columns,
so that the inner loop runs over rows and vectorises. Sums of w D are kept for each 1024 rows, so that drawing a row
with probability proportional to w D needs no other pass.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.clustering.divergences import Divergence, Form, diverge
from bayescore.compiled import jit_sums
from bayescore.types import FloatArray, IntArray

BLOCK = 1024


class _State(NamedTuple):
    """Arrays of `Nearest` for compiled kernels."""

    columns: FloatArray  # (D, n)
    weights: FloatArray
    closest: FloatArray
    owner: NDArray[np.int32]
    sums: FloatArray  # of w D, of each block


@jit_sums
def _lower(rows: _State, center: FloatArray, number: int, form: Form) -> None:
    """Add the center with this number."""
    scratch = np.empty(BLOCK)
    for block in range(rows.sums.size):
        start, stop = block * BLOCK, min((block + 1) * BLOCK, rows.closest.size)
        found, best = scratch[: stop - start], rows.closest[start:stop]
        own, w = rows.owner[start:stop], rows.weights[start:stop]
        diverge(rows.columns, start, center, form, found)
        total = 0.0
        for n in range(found.size):
            nearer = found[n] < best[n]
            best[n] = found[n] if nearer else best[n]
            own[n] = number if nearer else own[n]
            total += w[n] * best[n]
        rows.sums[block] = total


@jit_sums
def _potentials(rows: _State, candidates: FloatArray, form: Form, out: FloatArray) -> None:
    """Write the sum of w D that each candidate, shape (m, D), would leave, shape (m,)."""
    scratch = np.empty(BLOCK)
    out[:] = 0.0
    for start in range(0, rows.closest.size, BLOCK):
        stop = min(start + BLOCK, rows.closest.size)
        found, best, w = scratch[: stop - start], rows.closest[start:stop], rows.weights[start:stop]
        for i in range(out.size):
            diverge(rows.columns, start, candidates[i], form, found)
            total = 0.0
            for n in range(found.size):
                total += w[n] * min(found[n], best[n])
            out[i] += total


def pick(masses: FloatArray, rng: np.random.Generator, size: int = 1) -> IntArray:
    """Draw `size` positions with probability proportional to `masses`, shape (size,)."""
    cumulated = np.cumsum(masses)
    return np.asarray(np.searchsorted(cumulated, rng.random(size) * cumulated[-1], side="right"), dtype=np.int64)


def _transposed(X: FloatArray) -> FloatArray:
    columns = np.empty(X.shape[::-1])
    for start in range(0, len(X), BLOCK):  # block by block, which the caches like
        columns[:, start : start + BLOCK] = X[start : start + BLOCK].T
    return columns


def divergences(X: FloatArray, centers: FloatArray, divergence: Divergence) -> FloatArray:
    """Return the divergence of each row from each center, shape (n, k)."""
    columns, out = _transposed(X), np.empty((len(centers), len(X)))
    for center, found in zip(centers, out, strict=True):
        diverge(columns, 0, np.ascontiguousarray(center), divergence.form, found)
    return out.T


class Nearest:
    """Rows, weights and the nearest chosen center of each row.

    `closest`, shape (n,), is D of each row, infinite before the first center. `owner`, shape (n,), is the number of the
    nearest center, the first of equally near ones.
    """

    def __init__(
        self, X: FloatArray, weights: FloatArray, divergence: Divergence, centers: FloatArray | None = None
    ) -> None:
        self.weights, self.divergence = weights, divergence
        self.closest, self.owner = np.full(len(X), np.inf), np.zeros(len(X), dtype=np.int32)
        self._sums = np.add.reduceat(weights, np.arange(0, len(X), BLOCK))
        self._state = _State(_transposed(X), weights, self.closest, self.owner, self._sums)
        self._count = 0
        for center in () if centers is None else centers:
            self.add(center)

    @property
    def total(self) -> float:
        """Sum of w D over the rows; before the first center the sum of w."""
        return float(self._sums.sum())

    def add(self, center: FloatArray) -> None:
        """Add a center, shape (D,)."""
        _lower(self._state, center, self._count, self.divergence.form)
        self._count += 1

    def draw(self, rng: np.random.Generator, size: int = 1) -> IntArray:
        """Draw rows with probability proportional to w D (to w before the first center), shape (size,)."""
        rows = np.empty(size, dtype=np.int64)
        for i, block in enumerate(pick(self._sums, rng, size)):
            cut = slice(block * BLOCK, (block + 1) * BLOCK)
            masses = self.weights[cut] * self.closest[cut] if self._count else self.weights[cut]
            rows[i] = block * BLOCK + pick(masses, rng)[0]
        return rows

    def best(self, rows: IntArray) -> int:
        """Return the one of `rows` that would leave the least sum of w D as a center."""
        out = np.empty(len(rows))
        candidates = np.ascontiguousarray(self._state.columns[:, rows].T)
        _potentials(self._state, candidates, self.divergence.form, out)
        return int(rows[np.argmin(out)])
