r"""The nearest center of each row, kept up to date as centers are added: the hot loop of every seeding.

D(a) = min_c d(a, c) falls only when a center is added, so a new center costs one pass. The rows are kept by columns:
the inner loop of a pass runs over rows and vectorises. Sums of w D are kept for each 1024 rows, so that a row is drawn
with probability proportional to w D without another pass.
"""

import numpy as np
from numpy.typing import NDArray

from bayescore.clustering.divergences import Divergence, diverge
from bayescore.compiled import jit_sums
from bayescore.types import FloatArray, IntArray

BLOCK = 1024


@jit_sums
def _lower(
    columns: FloatArray,
    weights: FloatArray,
    center: FloatArray,
    number: int,
    code: int,
    alpha: float,
    closest: FloatArray,
    owner: NDArray[np.int32],
    sums: FloatArray,
) -> None:
    """Take note of the center with this number."""
    scratch = np.empty(BLOCK)
    for block in range(sums.size):
        start, stop = block * BLOCK, min((block + 1) * BLOCK, closest.size)
        found, best, own, w = scratch[: stop - start], closest[start:stop], owner[start:stop], weights[start:stop]
        diverge(columns, start, center, code, alpha, found)
        total = 0.0
        for n in range(found.size):
            nearer = found[n] < best[n]
            best[n] = found[n] if nearer else best[n]
            own[n] = number if nearer else own[n]
            total += w[n] * best[n]
        sums[block] = total


@jit_sums
def _potentials(
    columns: FloatArray,
    weights: FloatArray,
    candidates: FloatArray,
    code: int,
    alpha: float,
    closest: FloatArray,
    out: FloatArray,
) -> None:
    """Write the sum of w D that each candidate, shape (m, D), would leave, shape (m,)."""
    scratch = np.empty(BLOCK)
    out[:] = 0.0
    for start in range(0, closest.size, BLOCK):
        stop = min(start + BLOCK, closest.size)
        found, best, w = scratch[: stop - start], closest[start:stop], weights[start:stop]
        for i in range(out.size):
            diverge(columns, start, candidates[i], code, alpha, found)
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
        diverge(columns, 0, np.ascontiguousarray(center), divergence.code, divergence.alpha, found)
    return out.T


class Nearest:
    """Rows and their nearest center among those chosen.

    Parameters
    ----------
    X : array, shape (n, D)
        Rows.
    weights : array, shape (n,)
        Their weights; 0 is allowed.
    divergence : Divergence
        What "near" means.
    centers : array, shape (t, D), optional
        Centers to begin with.

    Attributes
    ----------
    closest : array, shape (n,)
        D of each row; infinite before the first center.
    owner : int32 array, shape (n,)
        Number of its nearest center, of equally near ones the first.
    """

    def __init__(
        self, X: FloatArray, weights: FloatArray, divergence: Divergence, centers: FloatArray | None = None
    ) -> None:
        self.columns, self.weights, self.divergence = _transposed(X), weights, divergence
        self.closest = np.full(len(X), np.inf)
        self.owner = np.zeros(len(X), dtype=np.int32)
        self._sums = np.add.reduceat(weights, np.arange(0, len(X), BLOCK))
        self._count = 0
        for center in () if centers is None else centers:
            self.add(center)

    @property
    def total(self) -> float:
        """Sum of w D over the rows; before the first center the sum of w."""
        return float(self._sums.sum())

    def add(self, center: FloatArray) -> None:
        """Take note of a new center, shape (D,)."""
        of = self.divergence
        _lower(self.columns, self.weights, center, self._count, of.code, of.alpha, self.closest, self.owner, self._sums)
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
        of, out = self.divergence, np.empty(len(rows))
        candidates = np.ascontiguousarray(self.columns[:, rows].T)
        _potentials(self.columns, self.weights, candidates, of.code, of.alpha, self.closest, out)
        return int(rows[np.argmin(out)])
