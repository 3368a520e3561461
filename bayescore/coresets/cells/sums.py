r"""Sums over rows by cell, averaged over a normal density of the coefficients and the cells' effects.

A row of cell c has the predictor eta = x . beta + o + z . b_c, z those columns of x whose coefficients vary. Over
beta ~ N(t, C) and b_c given beta ~ N(m_c - W_c (beta - t), V_c) it is normal,

.. math:: \eta \sim N\bigl(x t + o + z m_c, \; z' V_c z + (x - W_c' z)' C (x - W_c' z)\bigr),

so that averages of derivatives of log p are over one number a row (`condensing.averages`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement, permutations
from typing import NamedTuple

import numpy as np

from bayescore.coresets.condensing.averages import averages
from bayescore.data.dataset import Dataset
from bayescore.models.families import Family
from bayescore.models.group_sums import local_codes
from bayescore.types import FloatArray, IntArray, WeightedData


@dataclass(frozen=True, eq=False)
class Density:
    """A normal density of beta, shape (p,), and of the effects of C cells, in `columns` of the rows, shape (Q,).

    A column of -1 is one of ones that the rows do not have. `mean`, `variance` and `slope` (m, V and W above) have
    shapes (C + 1, Q), (C + 1, Q, Q) and (C + 1, Q, p), the last entry, of rows of no cell, 0. `factor` is L, L L' = C;
    `prior` the covariance of effects, shape (Q, Q).
    """

    beta: FloatArray
    factor: FloatArray
    mean: FloatArray
    variance: FloatArray
    slope: FloatArray
    prior: FloatArray
    columns: IntArray

    @classmethod
    def start(cls, p: int, n_cells: int, columns: IntArray, sd: float) -> "Density":
        """Return the point at which all coefficients and effects are 0, and effects' sd under their prior is `sd`."""
        Q = len(columns)
        C = n_cells + 1
        effects = np.zeros((C, Q)), np.zeros((C, Q, Q)), np.zeros((C, Q, p))
        return cls(np.zeros(p), np.zeros((p, p)), *effects, sd**2 * np.eye(Q), columns)

    @property
    def free(self) -> bool:
        """Whether the effects multiply a column of ones that the rows do not have."""
        return bool(self.columns[0] < 0)

    @property
    def sds(self) -> FloatArray:
        """Sds of the coefficients, shape (p,)."""
        return np.asarray(np.sqrt((self.factor**2).sum(axis=1)))

    def multipliers(self, X: FloatArray) -> FloatArray:
        """Return what rows multiply the effects by, z, shape (n, Q)."""
        if self.free:
            return np.ones((len(X), 1))
        return np.ascontiguousarray(X[:, self.columns])

    def variances(self, rows: FloatArray, own: IntArray) -> FloatArray:
        """Return the variance of the predictor of `rows`, shape (n, p), of cells `own`."""
        z = self.multipliers(rows)
        return np.asarray(np.einsum("nq,nqr,nr->n", z, self.variance[own], z) + self.spread(rows, own))

    def spread(self, rows: FloatArray, own: IntArray) -> FloatArray:
        """Return the part of that variance that beta has, given which the effects have their means, shape (n,)."""
        z = self.multipliers(rows)
        gap, slope = rows @ self.factor, self.slope @ self.factor
        for q in range(z.shape[1]):
            gap -= z[:, q, None] * slope[own, q]
        return np.asarray(np.einsum("np,np->n", gap, gap))

    def derivatives(self, block: WeightedData, own: IntArray, family: Family) -> FloatArray:
        """Return averages of score, curvature, third and fourth derivative in eta, times weights, shape (4, n)."""
        eta = block.X @ self.beta + (self.multipliers(block.X) * self.mean[own]).sum(axis=1)
        if block.offset is not None:
            eta = eta + block.offset
        return averages(eta, np.sqrt(self.variances(block.X, own)), block.y, family) * block.weights


class CellSums(NamedTuple):
    """By cell sum s z, shape (C + 1, Q), sum c z z', (C + 1, Q, Q), sum c z x', (C + 1, Q, p); tensors of l''', l''''.

    Of all rows sum s x, shape (p,), and sum c x x', (p, p).
    """

    score: FloatArray
    information: FloatArray
    cross: FloatArray
    third: FloatArray
    fourth: FloatArray
    gradient: FloatArray
    precision: FloatArray


def _entries(Q: int, degree: int) -> list[tuple[int, ...]]:
    return list(combinations_with_replacement(range(Q), degree))


def full_tensor(entries: FloatArray, Q: int, degree: int) -> FloatArray:
    """Return symmetric tensors, shape (C, Q, ..., Q), of their different entries."""
    out = np.empty((len(entries), *[Q] * degree))
    for k, places in enumerate(_entries(Q, degree)):
        for order in set(permutations(places)):
            np.moveaxis(out, 0, -1)[order] = entries[:, k]
    return out


def _of_block(density: Density, family: Family, _: int, block: WeightedData) -> tuple[IntArray, FloatArray, CellSums]:
    n_cells, Q = len(density.mean) - 1, len(density.columns)
    found, places = local_codes(block, n_cells)
    s, c, t, f = density.derivatives(block, found[places], family)
    z, X = density.multipliers(block.X).T, block.X.T
    columns = [s * own for own in z]
    columns += [c * z[q] * other for others in (z, X) for q in range(Q) for other in others]
    for terms, degree in ((t, 3), (f, 4)):
        columns += [terms * z[list(entry)].prod(axis=0) for entry in _entries(Q, degree)]
    table: FloatArray = np.stack([np.bincount(places, column, len(found)) for column in columns], axis=1)
    empty = np.empty(0)
    return found, table, CellSums(empty, empty, empty, empty, empty, X @ s, X @ (block.X * c[:, None]))


def _total(parts: Iterable[tuple[IntArray, FloatArray, CellSums]], density: Density) -> CellSums:
    C, Q, p = len(density.mean), len(density.columns), len(density.beta)
    widths = Q, Q * Q, Q * p, len(_entries(Q, 3)), len(_entries(Q, 4))
    table, gradient, precision = np.zeros((C, sum(widths))), np.zeros(p), np.zeros((p, p))
    for found, own, sums in parts:
        table[found] += own
        gradient += sums.gradient
        precision += sums.precision
    table[-1] = 0.0  # rows of no cell have no effect
    score, information, cross, third, fourth = np.split(table, np.cumsum(widths)[:-1], axis=1)
    half = 0.5 * (precision + precision.T)
    tensors = full_tensor(third, Q, 3), full_tensor(fourth, Q, 4)
    return CellSums(score, information.reshape(C, Q, Q), cross.reshape(C, Q, p), *tensors, gradient, half)


def sums_of(dataset: Dataset, density: Density, family: Family) -> CellSums:
    """Return the sums over the rows of a source; one pass."""
    return _total(dataset.map(partial(_of_block, density, family), "sums by cell", canonical=True), density)


def sums_of_rows(rows: WeightedData, density: Density, family: Family) -> CellSums:
    """Return the sums over rows in memory."""
    return _total([_of_block(density, family, 0, rows)], density)
