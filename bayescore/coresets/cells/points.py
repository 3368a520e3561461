r"""What rows say about their cells' effects at quadrature nodes, where their posterior is not normal.

Nodes b_ck stand about the normal density of the effects of cell c at beta = t (`sums.Density`), with probabilities q_k
under it. With phi_c(b) the log-likelihood of the cell's rows, averaged over beta given b, and S the covariance of the
effects, the effects given the cell's rows have the probabilities

.. math:: w_{ck} \propto q_k \, e^{\phi_c(b_{ck})} N(b_{ck}; 0, S) / N(b_{ck}; m_c, V_c)

With the effects integrated out rows say less of beta than their curvature: Louis (1982), Finding the observed
information matrix when using the EM algorithm, Journal of the Royal Statistical Society B 44.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import special

from bayescore.compiled import jit
from bayescore.coresets.cells.sums import BlockSums, CellSums, Density, block_sums, total
from bayescore.data.dataset import Dataset
from bayescore.data.passes.cutter import MAX_BLOCK_ROWS
from bayescore.data.passes.tiles import TILE
from bayescore.models.effect_nodes import NORMAL_BELOW
from bayescore.models.families import Family
from bayescore.models.group_sums import add_lines, local_codes
from bayescore.models.quadrature import normal_nodes, normal_steps
from bayescore.types import FloatArray, IntArray, LabelArray, WeightedData

_NODES = {1: 15, 2: 9, 3: 5}  # in each of Q dimensions
_LEAST_VARIANCE = 0.04  # of effects, given w, times that of the density: nodes stand too far apart to tell less
_CELLS = 10_000  # whose polynomials are made orthonormal at a time
_STEP = 0.8  # of eta, between nodes of an effect with a large sd, which is like a cut normal where labels agree


@dataclass(frozen=True, eq=False)
class Points:
    """Nodes of the effects of C cells, shape (C + 1, Q, K), about a density; the last entry is of rows of no cell.

    `mass` are the probabilities q of the nodes, shape (K,). `log_prior`, shape (C + 1, K), is log w but for phi and a
    constant.
    """

    at: Density
    family: Family
    effects: FloatArray
    mass: FloatArray
    log_prior: FloatArray

    @classmethod
    def of(cls, at: Density, family: Family) -> "Points":
        """Return the nodes about a density."""
        Q = len(at.columns)
        sd = math.sqrt(float(at.prior[0, 0]))
        axis, log_mass = normal_nodes(_NODES[Q]) if Q > 1 or sd < NORMAL_BELOW else normal_steps(_STEP / sd)
        grid, masses = (np.stack([own.ravel() for own in np.meshgrid(*[each] * Q)]) for each in (axis, log_mass))
        L = np.zeros_like(at.variance)
        L[:-1] = np.linalg.cholesky(at.variance[:-1])
        effects = at.mean[:, :, None] + L @ grid
        narrow = np.einsum("cqk,qr,crk->ck", effects, np.linalg.inv(at.prior), effects)
        log_prior = masses.sum(axis=0) + 0.5 * (grid**2).sum(axis=0) - 0.5 * narrow
        return cls(at, family, effects, np.exp(masses.sum(axis=0)), log_prior)

    def look(self, dataset: Dataset) -> tuple[CellSums, FloatArray]:
        """Return the sums by cell, and phi of each cell at its nodes, shape (C + 1, K); one pass."""
        values = np.zeros_like(self.log_prior)

        def sums() -> Iterator[BlockSums]:
            for part, own in dataset.map(partial(_look, self), "effects of cells", canonical=True, here=True):
                add_lines(values, part.cells, own)
                yield part

        return total(sums(), self.at), values

    def values_of(self, rows: WeightedData) -> FloatArray:
        """Return phi of rows in memory, shape (C + 1, K)."""
        values = np.zeros_like(self.log_prior)
        for start in range(0, len(rows), MAX_BLOCK_ROWS):
            block = rows.take(slice(start, start + MAX_BLOCK_ROWS))
            found, places = local_codes(block, len(self.effects) - 1)
            add_lines(values, found, _values(self, block, found, places))
        return values

    def shares(self, values: FloatArray) -> FloatArray:
        """Return the probabilities w of the nodes, shape (C + 1, K), given phi."""
        return np.asarray(special.softmax(values + self.log_prior, axis=1))

    def moments(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means, shape (C + 1, Q), and precisions, (C + 1, Q, Q), of the effects, given w."""
        mean = np.einsum("ck,cqk->cq", shares, self.effects)
        away = self.effects - mean[:, :, None]
        variance = np.einsum("ck,cqk,crk->cqr", shares, away, away)
        variance[:-1] = _widened(variance[:-1], self.at.variance[:-1])
        variance[-1] = np.eye(variance.shape[1])
        return mean, np.linalg.inv(variance)

    def log_p(self, rows: WeightedData, own: IntArray) -> FloatArray:
        """Return log-likelihoods of rows of cells `own` at the nodes, averaged over beta given those, shape (n, K)."""
        return self._of_rows(rows, own, 0)

    def excess(self, shares: FloatArray, dataset: Dataset) -> FloatArray:
        """Return by how much the score of beta, shape (p,), is more on average over w than over q; one pass."""
        parts = dataset.map(partial(_excess, self, shares), "scores within cells", canonical=True)
        return sum(parts, np.zeros(len(self.at.beta)))

    def excess_of(self, shares: FloatArray, rows: WeightedData) -> FloatArray:
        """Return the same of rows in memory."""
        return _excess(self, shares, 0, rows)

    def information(self, shares: FloatArray, dataset: Dataset) -> FloatArray:
        """Return what rows say about beta with the effects integrated out, less their curvature over q; one pass.

        That is by how much curvatures are more on average over w than over q, less the variance over w of each cell's
        score of beta (Louis 1982), by the least squares polynomial of degree 2 in b. Shape (p, p).
        """
        work = partial(_information, self, shares, self._basis(shares))
        return self._louis(dataset.map(work, "curvature within cells", canonical=True, here=True))

    def information_of(self, shares: FloatArray, rows: WeightedData) -> FloatArray:
        """Return the same of rows in memory."""
        return self._louis([_information(self, shares, self._basis(shares), 0, rows)])

    def _louis(self, parts: Iterable[tuple[IntArray, FloatArray, FloatArray]]) -> FloatArray:
        (C, Q, _), p = self.effects.shape, len(self.at.beta)
        scores, curvature = np.zeros((C, Q + Q * (Q + 1) // 2, p)), np.zeros((p, p))
        for found, own, more in parts:
            add_lines(scores.reshape(C, -1), found, own.reshape(len(found), -1))
            curvature += more
        return np.asarray(curvature - np.einsum("cjp,cjr->pr", scores[:-1], scores[:-1]))

    def _basis(self, shares: FloatArray) -> FloatArray:
        """Return w times polynomials of degree 1 and 2 in b, orthonormal under w and to 1, shape (C + 1, K, J)."""
        mean, precision = self.moments(shares)
        root, inner = np.sqrt(shares)[:, :, None], np.linalg.cholesky(precision).transpose(0, 2, 1)
        (C, Q, K), (i, j) = self.effects.shape, np.triu_indices(self.effects.shape[1])
        out = np.empty((C, K, Q + len(i)))
        for start in range(0, C, _CELLS):
            cut = slice(start, start + _CELLS)
            away = inner[cut] @ (self.effects[cut] - mean[cut, :, None])
            powers = np.concatenate([np.ones_like(away[:, :1]), away, away[:, i] * away[:, j]], axis=1)
            out[cut] = root[cut] * np.linalg.qr(root[cut] * powers.transpose(0, 2, 1))[0][:, :, 1:]
        return out

    def _nodes(self, rows: WeightedData, own: IntArray) -> "_Nodes":
        """Return what the kernel below reads of rows of cells `own`."""
        eta = rows.X @ self.at.beta + (0.0 if rows.offset is None else rows.offset)
        variance, z = self.at.spread(rows.X, own), self.at.multipliers(rows.X)
        return _Nodes(eta, variance, z, own, self.effects, rows.y, rows.weights)

    def _of_rows(self, rows: WeightedData, own: IntArray, order: int) -> FloatArray:
        """Return what `_add` adds of each row, shape (n, K)."""
        out = np.zeros((len(rows), len(self.mass)))
        _add(self._nodes(rows, own), self.family, order, np.arange(len(rows)), out)
        return out


def _widened(variance: FloatArray, about: FloatArray) -> FloatArray:
    """Return variances, shape (C, Q, Q), that are at least `_LEAST_VARIANCE` times those of the nodes' density."""
    L = np.linalg.cholesky(about)
    white = np.linalg.solve(L, np.linalg.solve(L, variance).transpose(0, 2, 1))
    values, vectors = np.linalg.eigh(white)
    lacking = np.maximum(_LEAST_VARIANCE - values, 0.0)
    root = L @ vectors
    return np.asarray(variance + np.einsum("cqk,ck,crk->cqr", root, lacking, root))


class _Nodes(NamedTuple):
    """Rows' predictors at beta = t, the variance that beta adds to them, multipliers, cells, sides and weights."""

    eta: FloatArray
    variance: FloatArray
    z: FloatArray
    own: IntArray
    effects: FloatArray
    side: LabelArray
    weights: FloatArray


@jit
def _add(rows: _Nodes, family: Family, order: int, place: IntArray, out: FloatArray) -> None:
    """Add derivatives of rows' log p at the nodes, averaged over beta, to the lines `place` of `out`, shape (C, K).

    That is log p if `order` is 0, the score if 1, the curvature if 2. Averages add half the variance times the second
    derivative of either of the first two.
    """
    eta, side, scratch, terms = np.zeros(TILE), np.ones(TILE), np.empty((3, TILE)), np.empty((4, TILE))
    half = 0.5 if order == 1 else -0.5  # the curvature is minus a derivative
    for start in range(0, len(rows.eta), TILE):
        width = min(TILE, len(rows.eta) - start)
        for k in range(out.shape[1]):
            for lane in range(width):
                n = start + lane
                eta[lane], side[lane] = rows.eta[n], rows.side[n]
                for q in range(rows.z.shape[1]):
                    eta[lane] += rows.z[n, q] * rows.effects[rows.own[n], q, k]
            family.derivatives(eta, side, terms, scratch)
            for lane in range(width):
                n = start + lane
                averaged = terms[order, lane]
                if order < 2:
                    averaged += half * rows.variance[n] * terms[order + 2, lane]
                out[place[n], k] += rows.weights[n] * averaged


def _values(points: Points, block: WeightedData, found: IntArray, places: IntArray) -> FloatArray:
    """Return phi at their nodes of the cells `found`, those of rows at `places`, shape (C, K)."""
    out = np.zeros((len(found), len(points.mass)))
    _add(points._nodes(block, found[places]), points.family, 0, places, out)
    return out


def _look(points: Points, _: int, block: WeightedData) -> tuple[BlockSums, FloatArray]:
    """Return the sums of a block, and phi of its cells at their nodes."""
    found, places = local_codes(block, len(points.effects) - 1)
    return block_sums(points.at, points.family, block, found, places), _values(points, block, found, places)


@jit
def _dot(values: FloatArray, tables: FloatArray, own: IntArray) -> FloatArray:
    """Return sums over the nodes of values, shape (n, K), times those of the rows' cells, (C, K, J): shape (n, J)."""
    out = np.zeros((len(own), tables.shape[2]))
    for n in range(len(own)):
        for k in range(tables.shape[1]):
            for j in range(tables.shape[2]):
                out[n, j] += values[n, k] * tables[own[n], k, j]
    return out


@jit
def _add_products(scores: FloatArray, X: FloatArray, place: IntArray, out: FloatArray) -> None:
    """Add products of scores, shape (n, J), and features, (n, p), of rows to the lines `place` of `out`, (C, J, p)."""
    for n in range(len(place)):
        for j in range(scores.shape[1]):
            for d in range(X.shape[1]):
                out[place[n], j, d] += scores[n, j] * X[n, d]


def _excess(points: Points, shares: FloatArray, _: int, block: WeightedData) -> FloatArray:
    assert block.group is not None
    own = np.where(block.group[:, 0] < 0, len(shares) - 1, block.group[:, 0])
    score = _dot(points._of_rows(block, own, 1), (shares - points.mass)[:, :, None], own)[:, 0]
    return np.asarray(score @ block.X)


def _information(
    points: Points, shares: FloatArray, basis: FloatArray, _: int, block: WeightedData
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return sums of scores over `basis` by cell, shape (C, J, p), and of curvatures over w less q, (p, p)."""
    found, places = local_codes(block, len(basis) - 1)
    own: IntArray = found[places]
    sums = np.zeros((len(found), basis.shape[2], block.X.shape[1]))
    _add_products(_dot(points._of_rows(block, own, 1), basis, own), block.X, places, sums)
    more = _dot(points._of_rows(block, own, 2), (shares - points.mass)[:, :, None], own)
    return found, sums, block.X.T @ (block.X * more)


def shapes(shares: FloatArray, gap: FloatArray) -> FloatArray:
    """Return the sds over the effects, given w, of differences at nodes, both of shape (C, K)."""
    gap = gap - (shares * gap).sum(axis=1)[:, None]
    return np.asarray(np.sqrt((shares * gap**2).sum(axis=1)))
