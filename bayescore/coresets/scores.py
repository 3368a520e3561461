r"""Compiled scores of the rows of a block, tile by tile (`data.passes`).

Scores of rows, and bounds of their sensitivities: by leverage and by clustering.

R factors of weighted rows: small, mergeable summaries that leverage scores are read from.

With R from the QR decomposition of :math:`\sqrt{W} X`, X'WX = R'R, and the factor of two data sets below each other is
that of their factors below each other (Demmel et al. 2012). So X'X with its squared condition number is never formed.
A count sketch (Clarkson and Woodruff 2017) takes the place of the rows where QR of all of them costs too much.
"""

import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.clustering.assignment import nearest, squared_distances
from bayescore.compiled import jit, jit_inner_sums
from bayescore.data.dataset import Dataset
from bayescore.data.passes import TILE, TileRows, load_signed_tile, load_tile, new_tile
from bayescore.models.row_kernels import squared_lengths
from bayescore.numerics.elementary import exp_minus, hash_uniform
from bayescore.types import FloatArray, IntArray, LabelArray, WeightedData


class Clusters(NamedTuple):
    """A `Clustering` as compiled code takes it."""

    centers: FloatArray
    means: FloatArray
    masses: FloatArray
    counts: IntArray


@jit
def sensitivity_block(
    rows: TileRows, clusters: Clusters, radius: float, theta: FloatArray, weight_total: float
) -> FloatArray:
    """Return the bounds m_n of `sensitivity` for the rows of a block, shape (n,).

    Without row n its own cluster's mean is farther from z_n by the factor W_i / (W_i - w_n).
    """
    means, masses = clusters.means, clusters.masses
    k, n_features = means.shape
    shifted = theta.any()
    products = (means * theta).sum(axis=1)
    bounds = np.empty(len(rows.weights))
    tile = np.zeros((n_features, TILE))
    scratch, best = np.empty(TILE), np.empty(TILE)
    which = np.empty(TILE, dtype=np.int64)
    total, product = np.empty(TILE), np.zeros(TILE)
    exponents, others = np.empty((k, TILE)), np.empty((k, TILE))
    for start in range(0, len(rows.weights), TILE):
        width = min(TILE, len(rows.weights) - start)
        load_signed_tile(rows.X, rows.side, start, width, tile)
        nearest(tile, clusters.centers, scratch, best, which)
        if shifted:
            product[:] = 0.0
            for d in range(n_features):
                for lane in range(TILE):
                    product[lane] += tile[d, lane] * theta[d]
        for i in range(k):
            squared_distances(tile, means[i], scratch)
            for lane in range(TILE):
                exponents[i, lane] = radius * math.sqrt(scratch[lane]) + abs(products[i] - product[lane])
                others[i, lane] = masses[i]
        for lane in range(width):
            i, weight = which[lane], rows.weights[start + lane]
            rest = masses[i] - weight
            if clusters.counts[i] == 1 or rest <= 0.0:  # alone, or beside less weight than rounding
                others[i, lane] = 0.0
            else:
                others[i, lane] = rest
                exponents[i, lane] *= masses[i] / rest
            total[lane] = weight
        for i in range(k):
            for lane in range(TILE):
                total[lane] += others[i, lane] * exp_minus(exponents[i, lane])
        for lane in range(width):
            bounds[start + lane] = weight_total / total[lane]
    return bounds


@jit
def leverage_rows(X: FloatArray, weights: FloatArray, basis: FloatArray) -> FloatArray:
    """Return w abs(x' basis)^2 of each row, at most 1, shape (n,); basis has shape (D, r)."""
    out = np.empty(len(X))
    tile, scratch, squares = new_tile(X.shape[1]), np.empty(TILE), np.empty(TILE)
    for start in range(0, len(X), TILE):
        width = min(TILE, len(X) - start)
        load_tile(X, start, width, tile)
        squared_lengths(tile, basis, scratch, squares)
        for lane in range(width):
            out[start + lane] = min(weights[start + lane] * squares[lane], 1.0)
    return out


# Columns of unit length count as dependent below this singular value, relative to the largest: rounding leaves about
# 1e-15 of a dependent column; a direction of 1e-13 has leverages of three digits.
RANK_TOLERANCE = 1e-13


_OUTSIDE = 1e-8  # null directions are known to RANK_TOLERANCE over the smallest singular value kept


_LEAST = 20  # square root of the least number of buckets


@jit_inner_sums
def _absorb(tile: FloatArray, factor: FloatArray) -> None:
    """Replace `factor`, upper triangular, by that of its rows and those of `tile`: Householder reflections in place."""
    for j in range(tile.shape[0]):
        column = tile[j]
        square = 0.0
        for lane in range(TILE):
            square += column[lane] * column[lane]
        if square == 0.0:
            continue
        pivot = factor[j, j]
        length = -math.copysign(math.sqrt(pivot * pivot + square), pivot)
        share, first = (length - pivot) / length, 1.0 / (pivot - length)  # the reflection is of (1, first * column)
        factor[j, j] = length
        for k in range(j + 1, tile.shape[0]):
            other = tile[k]
            product = 0.0
            for lane in range(TILE):
                product += column[lane] * other[lane]
            step = share * (factor[j, k] + first * product)
            factor[j, k] -= step
            step *= first
            for lane in range(TILE):
                other[lane] -= step * column[lane]


@jit
def _triangle(X: FloatArray, y: LabelArray, weights: FloatArray, factor: FloatArray) -> None:
    """Write the triangle of weighted rows to `factor`, of zeros."""
    tile = new_tile(X.shape[1])
    for start in range(0, len(y), TILE):
        width = min(TILE, len(y) - start)
        for lane in range(width):
            root = y[start + lane] * math.sqrt(weights[start + lane])
            for d in range(X.shape[1]):
                tile[d, lane] = root * X[start + lane, d]
        for d in range(X.shape[1]):
            for lane in range(width, TILE):
                tile[d, lane] = 0.0
        _absorb(tile, factor)


def block_factor(block: WeightedData) -> FloatArray:
    """Return R of the QR decomposition of a block's weighted rows, sqrt(w_n) x_n, shape (min(n, D), D)."""
    factor = np.zeros((block.n_features, block.n_features))
    _triangle(block.X, block.y, block.weights, factor)
    return factor[: len(block)]


def r_factor(rows: FloatArray) -> FloatArray:
    """Return R of the QR decomposition of `rows`, shape (n, D), as an array of shape (min(n, D), D)."""
    return np.asarray(np.linalg.qr(rows, mode="r"))


def joined_factor(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the factor of two data sets below each other."""
    return r_factor(np.concatenate([first, second]))


def data_factor(dataset: Dataset) -> FloatArray:
    """Return the factor of all rows, shape (min(N, D), D); one pass."""
    return reduce(joined_factor, dataset.map(lambda _, block: block_factor(block), "QR of the rows", canonical=True))


@dataclass(frozen=True, eq=False)
class RowWhitening:
    """Coordinates in which X'WX is the identity on the span of the rows."""

    basis: FloatArray  # shape (D, r): |x' basis|^2 = x'(X'WX)^+ x; r is the rank, or less after `projected`
    null: FloatArray  # shape (D, D - rank): orthonormal directions, of scaled columns, without a part in the rows
    scale: FloatArray  # shape (D,): one over the length of each column; 1 for a column of zeros

    @property
    def rank(self) -> int:
        """Rank of X'WX."""
        return int(self.null.shape[0] - self.null.shape[1])

    def leverage(self, block: WeightedData) -> FloatArray:
        """Return w_n x_n'(X'WX)^+ x_n, at most 1, shape (n,)."""
        return leverage_rows(block.X, block.weights, self.basis)

    def outside(self, block: WeightedData) -> NDArray[np.bool_]:
        """Return which rows leave the span, by more than rounding, shape (n,)."""
        if self.null.shape[1] == 0:
            return np.zeros(len(block), dtype=np.bool_)
        scaled = block.X * self.scale
        distance = np.linalg.norm(scaled @ self.null, axis=1)
        return np.asarray(distance > _OUTSIDE * np.linalg.norm(scaled, axis=1))

    def projected(self, n_columns: int, rng: np.random.Generator) -> "RowWhitening":
        """Return a Johnson-Lindenstrauss projection of the basis to `n_columns` random columns."""
        mixing = rng.standard_normal((self.basis.shape[1], n_columns)) / np.sqrt(n_columns)
        return replace(self, basis=self.basis @ mixing)


def whitening(factor: FloatArray) -> RowWhitening:
    """Return the whitening of the rows that have the factor R, shape (m, D), by the pseudo-inverse of R.

    The columns are first scaled to unit length: the rank is then a matter of angles, and a column in micrometres is not
    dependent. A leverage's relative error is about the machine epsilon times the condition number of these columns.
    """
    length = np.linalg.norm(factor, axis=0)
    scale = 1.0 / np.where(length > 0.0, length, 1.0)
    _, values, directions = np.linalg.svd(factor * scale)
    rank = int((values > RANK_TOLERANCE * values[0]).sum())
    basis = scale[:, None] * directions[:rank].T / values[:rank]
    turned = np.ascontiguousarray(r_factor(basis.T).T)  # any turn will do, and half of this one is zeros
    return RowWhitening(turned, directions[rank:].T, scale)


@jit
def _sketch(
    start: int, X: FloatArray, weights: FloatArray, seed: np.uint64, n_buckets: int
) -> tuple[NDArray[np.int64], FloatArray]:
    """Return the buckets that a block's rows fall into, the first row at position `start`, and their signed sums."""
    place = np.full(n_buckets, -1)
    most = min(n_buckets, len(weights))
    kept, sums = np.empty(most, dtype=np.int64), np.zeros((most, X.shape[1]))
    count = 0
    for n in range(len(weights)):
        position = np.uint64(start + n)
        bucket = int(hash_uniform(seed, position, np.uint64(0)) * n_buckets)
        if place[bucket] < 0:
            place[bucket], kept[count] = count, bucket
            count += 1
        factor = math.sqrt(weights[n])
        if hash_uniform(seed, position, np.uint64(1)) < 0.5:
            factor = -factor
        row = sums[place[bucket]]
        for d in range(X.shape[1]):
            row[d] += factor * X[n, d]
    return kept[:count], sums[:count]


def sketch_factor(dataset: Dataset, seed: int) -> FloatArray:
    """Return the factor of a count sketch of the weighted rows, shape (D, D); one pass.

    Each row is added, with a random sign, to one of t = D^2 buckets, 400 at least, because X'WX is off by about
    2 sqrt(D / t). Bucket and sign are hashes of (seed, position): cuts into blocks change nothing.
    """
    n_features = dataset.n_features
    n_buckets = max(n_features, _LEAST) ** 2
    sketch = np.zeros((n_buckets, n_features))
    for kept, sums in dataset.map(
        lambda start, block: _sketch(start, block.X, block.weights, np.uint64(seed), n_buckets),
        "sketching",
        canonical=True,
    ):
        sketch[kept] += sums
    return r_factor(sketch)
