r"""R factors of weighted rows: small, mergeable summaries that leverage scores are read from.

With R from the QR decomposition of :math:`\sqrt{W} X`, X'WX = R'R, and the factor of two data sets below each other is
that of their factors below each other (TSQR). So one pass and D x D numbers do, X'X with its squared condition number
is never formed, and a fold over a stream and a tree over machines use the same `join`.

A count sketch (`sketch_factor`) takes the place of the rows where QR of all of them costs too much.

References
----------
Demmel, Grigori, Hoemmen and Langou (2012), Communication-optimal parallel and sequential QR and LU factorizations.
Clarkson and Woodruff (2017), Low-rank approximation and regression in input sparsity time, J. ACM 63(6).
"""

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.coresets.draw import hash_uniform
from bayescore.data.passes import map_blocks
from bayescore.types import FloatArray, Source, WeightedData

# Columns of unit length count as dependent below this singular value, relative to the largest: rounding leaves about
# 1e-15 of a dependent column; a direction of 1e-13 has leverages of three digits.
RANK_TOLERANCE = 1e-13
_OUTSIDE = 1e-8  # null directions are known to RANK_TOLERANCE over the smallest singular value kept
_LEAST = 20  # square root of the least number of buckets
_CHUNK = 1024  # rows that stay in the cache


def r_factor(rows: FloatArray) -> FloatArray:
    """Return R of the QR decomposition of `rows`, shape (n, D), as an array of shape (min(n, D), D)."""
    n, n_features = rows.shape
    whole = n // _CHUNK * _CHUNK
    if whole and n_features < _CHUNK:  # D columns pass through the cache once, not D times
        parts = np.asarray(np.linalg.qr(rows[:whole].reshape(-1, _CHUNK, n_features), mode="r"))
        rows = np.concatenate([parts.reshape(-1, n_features), rows[whole:]])
    return np.asarray(np.linalg.qr(rows, mode="r"))


def block_factor(block: WeightedData) -> FloatArray:
    """Return the factor of a block's weighted rows, sqrt(w_n) x_n."""
    return r_factor(np.sqrt(block.weights)[:, None] * block.X)


def join(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the factor of two data sets below each other."""
    return r_factor(np.concatenate([first, second]))


def data_factor(source: Source, progressbar: bool = False) -> FloatArray:
    """Return the factor of all rows, shape (min(N, D), D); one pass."""
    parts = map_blocks(
        source,
        lambda _, block: block_factor(block),
        description="QR of the rows",
        progressbar=progressbar,
        canonical=True,
    )
    return reduce(join, parts)


@dataclass(frozen=True, eq=False)
class Whitening:
    """Coordinates in which X'WX is the identity on the span of the rows.

    Parameters
    ----------
    basis : array, shape (D, r)
        |x' basis|^2 = x'(X'WX)^+ x; r is the rank, or less after `projected`.
    null : array, shape (D, D - rank)
        Orthonormal directions, of columns scaled to unit length, in which the rows have no part.
    scale : array, shape (D,)
        One over the length of each column; 1 for a column of zeros.
    """

    basis: FloatArray
    null: FloatArray
    scale: FloatArray

    @property
    def rank(self) -> int:
        """Rank of X'WX."""
        return int(self.null.shape[0] - self.null.shape[1])

    def leverage(self, block: WeightedData) -> FloatArray:
        """Return w_n x_n'(X'WX)^+ x_n, at most 1, shape (n,)."""
        white = block.X @ self.basis
        return np.asarray(np.minimum(block.weights * np.einsum("nr,nr->n", white, white), 1.0))

    def outside(self, block: WeightedData) -> NDArray[np.bool_]:
        """Return which rows leave the span, by more than rounding, shape (n,)."""
        if self.null.shape[1] == 0:
            return np.zeros(len(block), dtype=np.bool_)
        scaled = block.X * self.scale
        apart = np.linalg.norm(scaled @ self.null, axis=1)
        return np.asarray(apart > _OUTSIDE * np.linalg.norm(scaled, axis=1))

    def projected(self, n_columns: int, rng: np.random.Generator) -> "Whitening":
        """Return a Johnson-Lindenstrauss projection of the basis to `n_columns` random columns."""
        mixing = rng.standard_normal((self.basis.shape[1], n_columns)) / np.sqrt(n_columns)
        return replace(self, basis=self.basis @ mixing)


def whitening(factor: FloatArray) -> Whitening:
    """Return the whitening of the rows that have the factor R, shape (m, D), by the pseudo-inverse of R.

    The columns are first scaled to unit length, which changes no leverage but makes the rank a matter of angles: a
    column in micrometres is not dependent. The error of a leverage is the machine epsilon times the condition number
    of the scaled columns.
    """
    length = np.linalg.norm(factor, axis=0)
    scale = 1.0 / np.where(length > 0.0, length, 1.0)
    _, values, directions = np.linalg.svd(factor * scale)
    rank = int((values > RANK_TOLERANCE * values[0]).sum())
    basis = scale[:, None] * directions[:rank].T / values[:rank]
    return Whitening(basis, directions[rank:].T, scale)


@jit
def _choose_buckets(start: int, seed: np.uint64, n_buckets: int, bucket: NDArray[np.int64], factor: FloatArray) -> None:
    """Write the bucket of each row, the first at position `start`, and turn the sign of its factor or leave it."""
    for n in range(len(bucket)):
        position = np.uint64(start + n)
        bucket[n] = int(hash_uniform(seed, position, np.uint64(0)) * n_buckets)
        if hash_uniform(seed, position, np.uint64(1)) < 0.5:
            factor[n] = -factor[n]


@jit
def _add_rows(X: FloatArray, factor: FloatArray, place: NDArray[np.int64], out: FloatArray) -> None:
    for n in range(X.shape[0]):
        for d in range(X.shape[1]):
            out[place[n], d] += factor[n] * X[n, d]


def _block_sketch(start: int, block: WeightedData, seed: int, n_buckets: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the buckets that a block's rows fall into, and their sums: never larger than the block."""
    bucket, factor = np.empty(len(block), dtype=np.int64), np.sqrt(block.weights)
    _choose_buckets(start, np.uint64(seed), n_buckets, bucket, factor)
    kept, place = np.unique(bucket, return_inverse=True)
    sums = np.zeros((len(kept), block.n_features))
    _add_rows(block.X, factor, place, sums)
    return kept, sums


def sketch_factor(source: Source, seed: int, progressbar: bool = False) -> FloatArray:
    """Return the factor of a count sketch of the weighted rows, shape (D, D); one pass.

    Each row is added, with a random sign, to one of D^2 buckets, 400 at least: with t of them X'WX is off by about
    2 sqrt(D / t), too much for D^2 where D is small. Bucket and sign are hashes of (seed, position), and canonical
    blocks are added in their order, so that cuts into blocks change nothing.
    """
    n_features = len(source.design.names)
    n_buckets = max(n_features, _LEAST) ** 2
    sketch = np.zeros((n_buckets, n_features))
    for kept, sums in map_blocks(
        source,
        lambda start, block: _block_sketch(start, block, seed, n_buckets),
        description="sketching",
        progressbar=progressbar,
        canonical=True,
    ):
        sketch[kept] += sums
    return r_factor(sketch)
