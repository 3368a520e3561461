r"""The density of beta and the cells' effects about which rows are condensed: where their posterior is.

Every effect is b_c ~ N(0, S). First the normal density nearest that posterior: averaged over it (`CellSums`), the
log-likelihood has slopes and curvatures in beta and every b_c; where these and the priors' are in balance it stands
(Opper and Archambeau 2009). A step goes there as if slopes were linear: a linear mixed model, whose effects are solved
for cell by cell. S is where its score is 0, by Fisher scoring, held off 0 by one cell's worth of `LEAST_SD`, its sds at
most `MOST_SD`, both on a row of root mean square. With S = L L' and R_c = I - L^-1 V_c L^-T, the share of the prior's
variance that the rows of cell c take away, a step to L exp(X) L' solves, but for the part of that one cell,

.. math:: \sum_c R_c X R_c = \sum_c L^{-1} E[b_c b_c'] L^{-T} - C I.

The EM algorithm has X in place of R_c X R_c, so that it creeps where rows say little of effects. Sums that are averaged
over V_c depend on S: where an sd turns round, half of the step is taken.

Where effects given their rows are far from normal, as of few rows or of one label, that density is biased, by many sds
where there are many cells. So steps are then taken on likelihoods of the effects whose posteriors have the mean and
variance that quadrature finds (`CellNodes`), and with its score of beta.

On the way there nodes are not evaluated. Averages of derivatives over the density are the coefficients of the Hermite
series of phi_c, the log-likelihood of a cell's rows (E L' for degree 1, E L'' / 2 for degree 2, and so on), and the
series to degree 4 takes its place. Where it does not serve, as for effects far from their density, these go to where
the series of their score is in balance with their prior's. Integrating the effects out changes the score of beta by
M_c' (S^-1 E_w[b_c] - E L'), M_c the slopes of the cell, and by little else.

What rows say about their cells' effects at quadrature nodes, where their posterior is not normal.

Nodes b_ck stand about the normal density of the effects of cell c at beta = t (`CellPosterior`), with probabilities q_k
under it. With phi_c(b) the log-likelihood of the cell's rows, averaged over beta given b, and S the covariance of the
effects, the effects given the cell's rows have the probabilities

.. math:: w_{ck} \propto q_k \, e^{\phi_c(b_{ck})} N(b_{ck}; 0, S) / N(b_{ck}; m_c, V_c)

With the effects integrated out rows say less of beta than their curvature: Louis (1982), Finding the observed
information matrix when using the EM algorithm, Journal of the Royal Statistical Society B 44.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bayescore.compiled import jit, jit_inner
from bayescore.coresets.cells import (
    BlockSums,
    CellPosterior,
    CellSums,
    Predicted,
    add_means,
    block_sums,
    roots_along,
    sums_of,
    total,
)
from bayescore.data.dataset import Dataset
from bayescore.data.passes import TILE, new_tile
from bayescore.data.source import MAX_BLOCK_ROWS
from bayescore.families import Family
from bayescore.models.groups.nodes import GAUSS_HERMITE_BELOW
from bayescore.models.groups.rows import add_lines
from bayescore.models.laplace import factor_of_inverse
from bayescore.models.posterior import Derivatives, prior_part, weighted_gram
from bayescore.numerics.elementary import normal_nodes, normal_steps
from bayescore.priors import Prior
from bayescore.types import FloatArray, IntArray, LabelArray, WeightedData
from bayescore.validation import DataError

R = TypeVar("R")


_NODES = {1: 15, 2: 9, 3: 5}  # in each of Q dimensions


_HIGH = 0.25  # variance over the density of degrees 3 and 4, in nats squared, beyond which a series does not serve


_NEAR_NODES = 1.5  # sds of the density, by which effects' mean may differ from its own for their series to serve


_LEAST_VARIANCE = 0.04  # of effects, given w, times that of the density: nodes stand too far apart to tell less


_CELLS = 10_000  # whose polynomials are made orthonormal at a time


_STEP = 0.8  # of eta, between nodes of an effect with a large sd, which is like a cut normal where labels agree


@dataclass(frozen=True, eq=False)
class CellNodes:
    """Nodes of the effects of C cells, shape (C + 1, Q, K), about a density; the last entry is of rows of no cell.

    They are its means plus its roots L, L L' = V, shape (C + 1, Q, Q), times `grid`, shape (Q, K).
    `mass` are the probabilities q of the nodes, shape (K,). `log_prior`, shape (C + 1, K), is log w but for phi and a
    constant.
    """

    at: CellPosterior
    family: Family
    root: FloatArray
    grid: FloatArray
    effects: FloatArray
    mass: FloatArray
    log_prior: FloatArray

    @classmethod
    def of(cls, at: CellPosterior, family: Family) -> "CellNodes":
        """Return the nodes about a density."""
        Q = len(at.columns)
        sd = math.sqrt(float(at.prior[0, 0]))
        axis, log_mass = normal_nodes(_NODES[Q]) if Q > 1 or sd < GAUSS_HERMITE_BELOW else normal_steps(_STEP / sd)
        grid, masses = (np.stack([part.ravel() for part in np.meshgrid(*[each] * Q)]) for each in (axis, log_mass))
        L = np.zeros_like(at.variance)
        L[:-1] = np.linalg.cholesky(at.variance[:-1])
        effects = at.mean[:, :, None] + L @ grid
        narrow = np.einsum("cqk,qr,crk->ck", effects, np.linalg.inv(at.prior), effects)
        log_prior = masses.sum(axis=0) + 0.5 * (grid**2).sum(axis=0) - 0.5 * narrow
        return cls(at, family, L, grid, effects, np.exp(masses.sum(axis=0)), log_prior)

    def series_values(self, sums: CellSums) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return phi at the nodes by its Hermite series to degree 4, shape (C + 1, K), and in which cells that serves.

        The sums, averages of derivatives over the density, are its coefficients. It does not serve where degrees 3 and
        4 are large.
        """
        x, one = self.grid, np.eye(len(self.grid))
        white = [_white(tensor, self.root) for tensor in (sums.score, -sums.information, sums.third, sums.fourth)]
        square = x[:, None] * x
        ones = one[:, :, None, None]
        polynomials = (
            x,
            square - one[:, :, None],
            square[:, :, None] * x - 3.0 * ones * x,
            square[:, :, None, None] * square
            - 6.0 * ones[..., None] * square
            + 3.0 * ones[..., None] * one[:, :, None],
        )
        C, K = self.log_prior.shape
        values, high = np.zeros((C, K)), np.zeros(C)
        for degree, (tensor, polynomial) in enumerate(zip(white, polynomials, strict=True), start=1):
            flat, factorial = tensor.reshape(C, -1), math.factorial(degree)
            if degree > 2:
                high += (flat**2).sum(axis=1) / factorial
            values += flat @ polynomial.reshape(-1, K) / factorial
        return values, high < _HIGH

    def series_score(self, shares: FloatArray, sums: CellSums) -> FloatArray:
        """Return by how much the score of beta changes, shape (p,), about, as effects are integrated out.

        Along a cell's effects, slopes M z of beta, it is their prior's, for the two are in balance; little is left.
        """
        change = np.einsum("ck,cqk->cq", shares, self.effects) @ np.linalg.inv(self.at.prior) - sums.score
        return np.asarray(np.einsum("cqp,cq->p", slopes_of(sums, self.at), change))

    def look(self, dataset: Dataset) -> tuple[CellSums, FloatArray]:
        """Return the sums by cell, and phi of each cell at its nodes, shape (C + 1, K); one pass."""
        values = np.zeros_like(self.log_prior)

        def sums() -> Iterator[BlockSums]:
            for part, sums_of_block in dataset.map(
                partial(_block_sums_and_phi, self), "effects of cells", canonical=True, here=True
            ):
                add_lines(values, part.cells, sums_of_block)
                yield part

        return total(sums(), self.at), values

    def values_of(self, rows: WeightedData) -> FloatArray:
        """Return phi of rows in memory, shape (C + 1, K)."""
        values = np.zeros_like(self.log_prior)
        for start in range(0, len(rows), MAX_BLOCK_ROWS):
            block = self.at.predict(rows.take(slice(start, start + MAX_BLOCK_ROWS)))
            add_lines(values, block.occupied, _phi_at_nodes(self, block))
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

    def log_p(self, rows: WeightedData) -> FloatArray:
        """Return log-likelihoods of rows at the nodes of their cells, averaged over beta given those, shape (n, K)."""
        out = np.zeros((len(rows), len(self.mass)))
        _add_values(self._nodes(self.at.predict(rows)), self.family, np.arange(len(rows)), out)
        return out

    def integrated(self, shares: FloatArray, rows: WeightedData) -> "Integrated":
        """Return by how much score and information of beta change as effects of rows in memory are integrated out.

        Score and curvature are averages over w, less those over q. From the curvature goes the variance over w of each
        cell's score of beta (Louis 1982), by the least squares polynomial of degree 2 in b.
        """
        return self.total([block_scores(self, self.score_tables(shares), self.at.predict(rows))])

    def total(self, parts: Iterable["BlockScores"]) -> "Integrated":
        """Return the same of blocks' scores."""
        (C, Q, _), p = self.effects.shape, len(self.at.beta)
        scores, gradient, curvature = np.zeros((C, Q + Q * (Q + 1) // 2, p)), np.zeros(p), np.zeros((p, p))
        for part in parts:
            add_lines(scores.reshape(C, -1), part.cells, part.by_cell.reshape(len(part.cells), -1))
            gradient += part.score
            curvature += part.curvature
        return Integrated(gradient, np.asarray(curvature - np.einsum("cjp,cjr->pr", scores[:-1], scores[:-1])))

    def score_tables(self, shares: FloatArray) -> FloatArray:
        """Return w - q, and w times polynomials of degree 1 and 2 in b, orthonormal under w and to 1, (C + 1, K, J)."""
        mean, precision = self.moments(shares)
        root, inner = np.sqrt(shares)[:, :, None], np.linalg.cholesky(precision).transpose(0, 2, 1)
        (C, Q, K), (i, j) = self.effects.shape, np.triu_indices(self.effects.shape[1])
        out = np.empty((C, K, 1 + Q + len(i)))
        out[:, :, 0] = shares - self.mass
        for start in range(0, C, _CELLS):
            cut = slice(start, start + _CELLS)
            away = inner[cut] @ (self.effects[cut] - mean[cut, :, None])
            powers = np.concatenate([np.ones_like(away[:, :1]), away, away[:, i] * away[:, j]], axis=1)
            out[cut, :, 1:] = root[cut] * np.linalg.qr(root[cut] * powers.transpose(0, 2, 1))[0][:, :, 1:]
        return out

    def _nodes(self, rows: Predicted) -> "_RowNodes":
        """Return what the kernels below read of rows."""
        block, eta = rows.block, rows.eta.copy()
        add_means(rows.z, rows.cell, self.at.mean, eta)
        along = roots_along(rows.z, rows.cell, self.root)
        return _RowNodes(eta, rows.variance, along, self.grid, rows.cell, block.y, block.weights)


def _white(tensors: FloatArray, root: FloatArray) -> FloatArray:
    """Return tensors, shape (C, Q, ..., Q), along the columns of roots, shape (C, Q, Q)."""
    for _ in range(tensors.ndim - 1):
        tensors = np.einsum("cq...,cqi->c...i", tensors, root)
    return tensors


class Integrated(NamedTuple):
    """Score, shape (p,), and information, (p, p), of beta with effects integrated out, less those averaged over q."""

    score: FloatArray
    information: FloatArray


class BlockScores(NamedTuple):
    """The cells of a block, (C,), its scores over w times polynomials by cell, (C, J, p), and what w adds over q."""

    cells: IntArray
    by_cell: FloatArray
    score: FloatArray
    curvature: FloatArray


def _widened(variance: FloatArray, about: FloatArray) -> FloatArray:
    """Return variances, shape (C, Q, Q), that are at least `_LEAST_VARIANCE` times those of the nodes' density."""
    L = np.linalg.cholesky(about)
    white = np.linalg.solve(L, np.linalg.solve(L, variance).transpose(0, 2, 1))
    values, vectors = np.linalg.eigh(white)
    lacking = np.maximum(_LEAST_VARIANCE - values, 0.0)
    root = L @ vectors
    return np.asarray(variance + np.einsum("cqk,ck,crk->cqr", root, lacking, root))


class _RowNodes(NamedTuple):
    """Rows' predictors at the centre, the variance that beta adds to them, and what nodes on a grid add to them.

    `along`, shape (n, Q), are rows' multipliers times the roots of their cells, `grid` has shape (Q, K).
    """

    eta: FloatArray
    variance: FloatArray
    along: FloatArray
    grid: FloatArray
    own: IntArray
    side: LabelArray
    weights: FloatArray


@jit_inner
def _load_nodes(rows: _RowNodes, start: int, width: int, eta: FloatArray, side: FloatArray) -> None:
    """Write predictors of some rows at the nodes, shape (K, TILE), and their sides."""
    for lane in range(width):
        side[lane] = rows.side[start + lane]
    for k in range(len(eta)):
        for lane in range(width):
            eta[k, lane] = rows.eta[start + lane]
        for q in range(rows.grid.shape[0]):
            x = rows.grid[q, k]
            for lane in range(width):
                eta[k, lane] += rows.along[start + lane, q] * x


@jit
def _add_values(rows: _RowNodes, family: Family, place: IntArray, out: FloatArray) -> None:
    """Add rows' log p at the nodes, averaged over beta, to the lines `place` of `out`, shape (C, K)."""
    eta, side = new_tile(out.shape[1]), np.ones(TILE)
    scratch, terms = np.empty((3, TILE)), np.empty((4, TILE))
    for start in range(0, len(rows.eta), TILE):
        width = min(TILE, len(rows.eta) - start)
        _load_nodes(rows, start, width, eta, side)
        for k in range(len(eta)):
            family.derivatives(eta[k, :TILE], side, terms, scratch)
            for lane in range(width):
                eta[k, lane] = terms[0, lane] - 0.5 * rows.variance[start + lane] * terms[2, lane]
        for lane in range(width):
            line, weight = out[place[start + lane]], rows.weights[start + lane]
            for k in range(len(eta)):
                line[k] += weight * eta[k, lane]


@jit
def _add_scores(rows: _RowNodes, family: Family, tables: FloatArray, out: FloatArray) -> None:
    """Add sums over the nodes to `out`, shape (n, J + 1): rows' scores, averaged over beta, times `tables`, (C, K, J).

    The last is of curvatures times the first of the tables.
    """
    (_, K, J), side = tables.shape, np.ones(TILE)
    scores, curvatures = new_tile(K), new_tile(K)
    scratch, terms = np.empty((3, TILE)), np.empty((4, TILE))
    for start in range(0, len(rows.eta), TILE):
        width = min(TILE, len(rows.eta) - start)
        _load_nodes(rows, start, width, scores, side)
        for k in range(K):
            family.derivatives(scores[k, :TILE], side, terms, scratch)
            for lane in range(width):
                scores[k, lane] = terms[1, lane] + 0.5 * rows.variance[start + lane] * terms[3, lane]
                curvatures[k, lane] = terms[2, lane]
        for lane in range(width):
            line, table, weight = out[start + lane], tables[rows.own[start + lane]], rows.weights[start + lane]
            total = 0.0
            for k in range(K):
                total += table[k, 0] * curvatures[k, lane]
            line[J] += weight * total
            for j in range(J):
                total = 0.0
                for k in range(K):
                    total += table[k, j] * scores[k, lane]
                line[j] += weight * total


def _phi_at_nodes(points: CellNodes, rows: Predicted) -> FloatArray:
    """Return phi at the nodes of the cells among rows, shape (C, K)."""
    out = np.zeros((len(rows.occupied), len(points.mass)))
    _add_values(points._nodes(rows), points.family, rows.places, out)
    return out


def _block_sums_and_phi(points: CellNodes, _: int, block: WeightedData) -> tuple[BlockSums, FloatArray]:
    """Return the sums of a block, and phi of its cells at their nodes."""
    rows = points.at.predict(block)
    return block_sums(points.at, points.family, rows), _phi_at_nodes(points, rows)


@jit
def _add_products(scores: FloatArray, X: FloatArray, place: IntArray, out: FloatArray) -> None:
    """Add products of scores, shape (n, J), and features, (n, p), of rows to the lines `place` of `out`, (C, J, p)."""
    for n in range(len(place)):
        for j in range(scores.shape[1]):
            line, score = out[place[n], j], scores[n, j]
            for d in range(X.shape[1]):
                line[d] += score * X[n, d]


def block_scores(points: CellNodes, tables: FloatArray, rows: Predicted) -> BlockScores:
    """Return the scores of a block given tables of its cells' nodes, shape (C + 1, K, 1 + J)."""
    block, J = rows.block, tables.shape[2]
    sums, of_rows = np.zeros((len(rows.occupied), J - 1, block.X.shape[1])), np.zeros((len(block), J + 1))
    _add_scores(points._nodes(rows), points.family, tables, of_rows)
    _add_products(np.ascontiguousarray(of_rows[:, 1:J]), block.X, rows.places, sums)
    return BlockScores(rows.occupied, sums, of_rows[:, 0] @ block.X, weighted_gram(block.X, of_rows[:, J]))


def sds_over_effects(shares: FloatArray, gap: FloatArray) -> FloatArray:
    """Return the sds over the effects, shape (C,), of differences at nodes, given their shares w, both (C, K)."""
    gap = gap - (shares * gap).sum(axis=1)[:, None]
    return np.asarray(np.sqrt((shares * gap**2).sum(axis=1)))


MAX_PASSES = 25


NEAR = 0.3  # sds of a coefficient, or of the log sd of effects, of the last step


_NEAR_BEFORE_QUADRATURE = 2.0  # the same before quadrature, which makes steps of its own


# the same where steps become much shorter: after a wild one a longer one may, and leads away
_NEAR_WHILE_SHRINKING = 10.0


_SHORTER_STEP = 0.5  # of the step before: while steps shrink so the next one is made before the last pass


_SQUARE = 0.25  # of the effects' last step: Newton's method is then in its last steps


_OF_EFFECTS = 0.15  # sds of a coefficient that count as one of an effect


_ERRORS = 4.0  # sds of a sample, by which the first step may move beta


_COVERED = 2.0  # sds of an effect, by which its nodes may have moved then


_LOST = 100.0  # sds of the last step, from which the centre is not near anything


_MAX_TURNS = 12  # of quadrature, two passes each


_APART = 10.0  # times the smallest step, beyond which steps lead away


_FURTHER = 10.0  # times the step before: a longer step says that the one before went too far,


_SHORTER = 0.25  # and this share of it is taken


_TURNED = 0.5  # of the step before, beyond which an sd of effects that goes back goes to and fro


_FAR = 2.0  # of eta, by which a step moves the effects of a cell at most, on a row of root mean square


_SCORINGS = 30  # steps of S, a pass


_LONGEST = 1.0  # of them, in a log variance


_STILL = 0.05  # sds of a log variance, at which they end


LEAST_SD = 0.5  # of an effect, on a row of root mean square


MOST_SD = 15.0  # of the same: where cells have one label each the likelihood sets none


_LOST_DIGITS = 1e-11  # of the curvature: if effects leave less of it, rounding decides


_BALANCING = 8  # Newton steps of effects to their balance


_BENT = 0.1  # of a cell's averaged information: where the series has less it is not concave, and the average is taken


_SERIES = 4.0  # sds of a density within which its series is used; or, if that is more, what moves eta by 1


_LEAST_INFORMATION = 1e-6  # of a cell's rows on its effects, in units of the prior's


@dataclass(frozen=True, eq=False)
class Centre:
    """A density, and what passes found about it.

    `values` and `shares`, shape (C + 1, K), are phi and w at the nodes; `last` is how far the next step would go, in
    sds.
    """

    points: CellNodes
    sums: CellSums
    values: FloatArray
    shares: FloatArray
    integrated: Integrated
    last: float


def _newton_step(
    sums: CellSums, at: CellPosterior, prior_terms: Derivatives, covariance: FloatArray, unit: FloatArray
) -> CellPosterior:
    """Return the density after a Newton step of beta and the effects, given S and the prior's terms at beta.

    Effects go a part of a long way. Beta goes as if they went all of it; at the end none is far.
    """
    inverse = np.linalg.inv(covariance)
    V = np.linalg.inv(sums.information + inverse)
    V[-1] = 0.0
    pull, W = sums.score - at.mean @ inverse, V @ sums.cross
    precision = sums.precision + prior_terms.precision - np.einsum("cqp,cqr->pr", sums.cross, W)
    if (np.diagonal(precision) < _LOST_DIGITS * np.diagonal(sums.precision)).any():
        raise np.linalg.LinAlgError("what the effects leave of the curvature is lost in rounding")
    gradient = sums.gradient + prior_terms.gradient - np.einsum("cqp,cq->p", W, pull)
    factor = factor_of_inverse(precision)
    move = factor @ (factor.T @ gradient)
    mean = at.mean + np.clip(np.einsum("cqr,cr->cq", V, pull) - W @ move, -_FAR * unit, _FAR * unit)
    return replace(at, beta=at.beta + move, factor=factor, mean=mean, variance=V, slope=W, prior=covariance)


def _joint_step(sums: CellSums, at: CellPosterior, prior: Prior, unit: FloatArray) -> CellPosterior:
    """Return the density after Newton steps of beta and the effects, and scoring steps of S, limited in length."""
    covariance, prior_terms = at.prior, prior_part(at.beta, prior)
    for _ in range(_SCORINGS):
        root, change = _covariance_step(_newton_step(sums, at, prior_terms, covariance, unit), unit)
        values, vectors = np.linalg.eigh(change)
        root = root @ (vectors * np.exp(0.5 * np.clip(values, -_LONGEST, _LONGEST)))
        root *= np.minimum(1.0, MOST_SD * unit / np.sqrt((root**2).sum(axis=1)))[:, None]
        before, covariance = covariance, root @ root.T
        sd = np.sqrt(np.diagonal(covariance))
        if (np.abs(covariance - before) < _STILL * math.sqrt(2.0 / len(at.mean)) * np.outer(sd, sd)).all():
            break
    return _newton_step(sums, at, prior_terms, covariance, unit)


def _covariance_step(at: CellPosterior, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return L, L L' = S, and X of the scoring step of S to L exp(X) L', of a density at its mode given S."""
    one, L = np.eye(len(unit)), np.asarray(np.linalg.cholesky(at.prior))
    inverse = np.linalg.inv(L)
    least = LEAST_SD**2 * (inverse * unit**2) @ inverse.T
    square = at.mean.T @ at.mean + at.variance.sum(axis=0) + np.einsum("cqp,crp->qr", at.pull, at.pull)
    wanted = inverse @ square @ inverse.T + least - len(at.mean) * one
    taken = one - inverse @ at.variance[:-1] @ inverse.T
    sides = np.einsum("ij,kl->ikjl", least, one) + np.einsum("ij,kl->ikjl", one, least)
    curvature = np.einsum("cij,ckl->ikjl", taken, taken) + 0.5 * sides
    change = np.linalg.solve(curvature.reshape(one.size, one.size), wanted.ravel()).reshape(one.shape)
    return L, np.asarray(0.5 * (change + change.T))


def _sums_by_series(
    sums: CellSums, at: CellPosterior, family: Family, unit: FloatArray
) -> tuple[CellSums, CellPosterior]:
    """Return what `_sums_by_quadrature` does, by series in place of rows' log-likelihoods at the nodes; no pass.

    Effects that are far from the density go to where the series of their score is in balance with their prior's.
    """
    if not (at.variance.any() and all(np.isfinite(part).all() for part in sums)):  # at a point there is no density
        return sums, at
    with np.errstate(over="ignore", invalid="ignore"):  # of counts, where a step leads too far and is then shortened
        return _sums_by_series_at(CellNodes.of(at, family), sums, unit)


def _sums_by_series_at(points: CellNodes, sums: CellSums, unit: FloatArray) -> tuple[CellSums, CellPosterior]:
    values, serves = points.series_values(sums)
    shares = points.shares(values)
    serves &= np.linalg.norm(np.einsum("ck,qk->cq", shares, points.grid), axis=1) < _NEAR_NODES
    by_quadrature, modes = _moments(points, shares), _modes_by_series(sums, points, unit)
    effects = (
        np.where(serves.reshape(-1, *[1] * (one.ndim - 1)), one, other)
        for one, other in zip(by_quadrature, modes, strict=True)
    )
    mean, score, information = effects
    gradient = np.einsum("cqp,cq->p", slopes_of(sums, points.at), score - sums.score)
    return _with_effects(sums, points.at, (mean, score, information), gradient)


def _sums_by_quadrature(centre: Centre) -> tuple[CellSums, CellPosterior]:
    """Return sums whose effects, given them, have the moments that quadrature finds, and the density there."""
    effects = _moments(centre.points, centre.shares)
    return _with_effects(centre.sums, centre.points.at, effects, centre.integrated.score)


def _moments(points: CellNodes, shares: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means of effects given w, and the score and information at these that give them their moments.

    Shapes are (C + 1, Q), (C + 1, Q) and (C + 1, Q, Q).
    """
    mean, precision = points.moments(shares)
    inverse = np.linalg.inv(points.at.prior)
    values, vectors = np.linalg.eigh(precision - inverse)
    information = np.einsum("cqk,ck,crk->cqr", vectors, np.maximum(values, _least_information(points.at)), vectors)
    return mean, mean @ inverse, np.asarray(information)


def _modes_by_series(sums: CellSums, points: CellNodes, unit: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return where the series of each cell's score, of degree 3, and its prior's are in balance, and the same there.

    A line would lead past the place.
    """
    at, one, (C, Q) = points.at, np.eye(len(unit)), points.at.mean.shape
    L, inverse = points.root.copy(), np.linalg.inv(at.prior)
    L[-1] = one
    back = np.asarray(np.linalg.inv(L))
    of_prior = L.transpose(0, 2, 1) @ inverse @ L
    score, info, third, fourth = (_white(part, L) for part in (sums.score, sums.information, sums.third, sums.fourth))
    start, least = np.einsum("cqr,cr->cq", back, at.mean), _BENT * np.linalg.eigvalsh(info)[:, 0]
    reach = np.maximum(_SERIES, np.linalg.norm(back * unit, axis=(1, 2)))[:, None]
    x = np.zeros((C, Q))
    for _ in range(_BALANCING):
        square = np.einsum("cq,cr->cqr", x, x)
        slope = score - np.einsum("cqr,cr->cq", info, x) + 0.5 * np.einsum("cqrs,crs->cq", third, square - one)
        slope += np.einsum("cqrst,crs,ct->cq", fourth, square / 6.0 - 0.5 * one, x)
        bent = info - np.einsum("cqrs,cs->cqr", third, x) - 0.5 * np.einsum("cqrst,cst->cqr", fourth, square - one)
        bent = np.where((np.linalg.eigvalsh(bent)[:, 0] < least)[:, None, None], info, bent)
        pull = slope - np.einsum("cqr,cr->cq", of_prior, start + x)
        step = np.linalg.solve(bent + of_prior, pull[:, :, None])[:, :, 0]
        x = np.clip(x + np.clip(step, -0.25 * reach, 0.25 * reach), -reach, reach)
    x[-1] = 0.0
    mean = at.mean + np.einsum("cqr,cr->cq", L, x)
    return mean, np.einsum("cqr,cq->cr", back, slope), _white(bent, back)


def _with_effects(
    sums: CellSums, at: CellPosterior, effects: tuple[FloatArray, FloatArray, FloatArray], gradient: FloatArray
) -> tuple[CellSums, CellPosterior]:
    """Return sums with other scores and informations at other means of effects, and what is added to the gradient."""
    mean, score, information = effects
    slopes = slopes_of(sums, at)
    information[-1] = 0.0
    cross = information @ slopes
    summed = sums._replace(
        score=score,
        information=information,
        cross=cross,
        gradient=sums.gradient + gradient,
        precision=sums.precision + np.einsum("cqp,cqr->pr", slopes, cross - sums.cross),
    )
    return summed, replace(at, mean=mean)


def slopes_of(sums: CellSums, at: CellPosterior) -> FloatArray:
    """Return what a cell's effects take of beta, M = H^-1 B, shape (C + 1, Q, p).

    Cells that say hardly anything of an effect have a little of the prior's information.
    """
    slopes = np.linalg.solve(sums.information + _least_information(at) * np.eye(len(at.prior)), sums.cross)
    slopes[-1] = 0.0
    return np.asarray(slopes)


def _least_information(at: CellPosterior) -> float:
    """Return the least information on an effect that counts, relative to the prior's."""
    return _LEAST_INFORMATION / float(np.linalg.eigvalsh(at.prior)[-1])


def find_centre(
    dataset: Dataset,
    start: CellPosterior,
    family: Family,
    priors: tuple[Prior, FloatArray],
    finish: Callable[[Centre], tuple[Integrated, R]],
) -> tuple[Centre, R]:
    """Return the density about which to condense, and what the last pass found there.

    `priors` are that of beta and the effects, shape (Q,), that move a row of root mean square by 1. `finish` makes the
    last pass, of a centre whose `integrated` is that of a series: it returns the exact one, and whatever else.

    Raises `ArithmeticError` where the centre is not found.
    """
    prior, unit = priors
    at, _ = approach_centre(dataset, start, family, priors)
    before, best, step, missed = None, None, math.inf, np.zeros(len(start.beta))
    for turn in range(_MAX_TURNS):
        try:
            centre = _expand_about(dataset, at, family, missed)
            ahead = _next_density(*_sums_by_quadrature(centre), prior, unit)
            shorter = _SHORTER_STEP * step
            step = (
                math.inf
                if ahead is None
                else max(_largest_move(at, ahead, unit), _OF_EFFECTS * _largest_effect_move(at, ahead))
            )
            if turn < _MAX_TURNS - 1 and ahead is not None and NEAR <= step < shorter:  # the next one will be better
                before, at = at, ahead if before is None else _damped(before, at, ahead, unit)
                continue
            exact, found = finish(centre)
            missed, step = missed + exact.score - centre.integrated.score, math.inf
            centre = replace(centre, integrated=exact)
            ahead = _next_density(*_sums_by_quadrature(centre), prior, unit)
        except np.linalg.LinAlgError:  # a variance with no inverse
            break
        last = math.inf if ahead is None else _largest_move(at, ahead, unit)
        if best is None or last < best[0].last:
            best = replace(centre, last=last), found
        if ahead is None or last < NEAR or not last < _APART * best[0].last:
            break
        before, at = at, ahead if before is None else _damped(before, at, ahead, unit)
    if best is None or not best[0].last < _LOST:
        raise ArithmeticError(
            "the posterior's centre, about which groups are condensed, was not found: give a narrower prior=, or "
            "sample all_rows(...)"
        )
    return best


def approach_centre(
    dataset: Dataset, start: CellPosterior, family: Family, priors: tuple[Prior, FloatArray], *, nearly: bool = True
) -> tuple[CellPosterior, bool]:
    """Return a density near the centre, or `nearly` so, from where one step by quadrature leads there; and if it is."""
    prior, unit = priors
    way = _StepControl(start, unit, nearly=nearly)
    for _ in range(MAX_PASSES):
        at, sums = way.at, sums_of(dataset, way.at, family)
        try:
            expanded = _sums_by_series(sums, at, family, unit)
        except np.linalg.LinAlgError:  # a step led too far
            expanded = sums, at
        ahead = _next_density(*expanded, prior, unit)
        if ahead is None and at is start:
            break  # there is no way back
        if way.take_step(ahead):
            return way.at, True
    way.return_to_origin()
    return way.at, False


def _expand_about(dataset: Dataset, at: CellPosterior, family: Family, missed: FloatArray) -> Centre:
    """Return a density with its sums and values at its nodes, and `missed` by its series' score; one pass."""
    points = CellNodes.of(at, family)
    sums, values = points.look(dataset)
    shares = points.shares(values)
    score = points.series_score(shares, sums) + missed
    return Centre(points, sums, values, shares, Integrated(score, np.zeros_like(sums.precision)), math.inf)


class _StepControl:
    """Step-size control: backtrack to a part of the last step where the next is much longer or does not exist.

    Log-likelihoods of counts, and of pseudo-rows of large weight, are exponentials where rows have not been.
    """

    def __init__(self, at: CellPosterior, unit: FloatArray, *, nearly: bool) -> None:
        self._nearly = nearly
        self.at, self._origin, self._end, self._unit = at, at, at, unit
        self._share, self._last, self._last_of_effects = 1.0, math.inf, math.inf

    def take_step(self, ahead: CellPosterior | None) -> bool:
        """Go on to `ahead`, None if there is no step, or back; return whether it is near the end."""
        step = math.inf if ahead is None else _largest_move(self.at, ahead, self._unit)
        # where S did not move in the last step it may move far
        if ahead is None or not (self._origin.from_sample or step < max(_FURTHER * self._last, NEAR)):
            self._share *= _SHORTER
            self.at = _between(self._origin, self._end, self._share)
            return False
        effects, before = _largest_effect_move(self.at, ahead), self._last_of_effects
        near = step < NEAR
        if self._nearly:
            shorter = step < _SHORTER_STEP * self._last or effects < _SQUARE * before
            near |= step < (_NEAR_WHILE_SHRINKING if shorter else _NEAR_BEFORE_QUADRATURE)
        near = near and min(effects, effects * effects / before) < _COVERED  # Newton's steps shrink so
        near = near and before < math.inf  # the first is from a point
        self._last_of_effects = effects
        if self._origin.factor.any():  # else the last step was from a point, and knew no variances
            ahead = _damped(self._origin, self.at, ahead, self._unit)
        self._origin, self._end, self._share, self._last = self.at, ahead, 1.0, step
        self.at = ahead
        return near

    def return_to_origin(self) -> None:
        """Go back to the last place from which there was a step."""
        self.at = self._origin


def _next_density(sums: CellSums, at: CellPosterior, prior: Prior, unit: FloatArray) -> CellPosterior | None:
    """Return the density of the next step, or None where the sums have no finite balance.

    The first step from a sample's density leaves S, and beta if a line leads further than the sample's error: effects
    are not in their places yet.
    """
    if not all(np.isfinite(part).all() for part in sums):
        return None
    try:
        if not at.from_sample:
            return _joint_step(sums, at, prior, unit)
        ahead = _newton_step(sums, at, prior_part(at.beta, prior), at.prior, unit)
        far = (np.abs(ahead.beta - at.beta) > _ERRORS * at.sds).any()
        return replace(ahead, beta=at.beta, mean=at.mean) if far else ahead
    except (np.linalg.LinAlgError, DataError):  # curvatures of very different sizes
        return None


def _between(one: CellPosterior, other: CellPosterior, share: float) -> CellPosterior:
    """Return the density at a share of the way from one to another."""
    parts = ("beta", "factor", "mean", "variance", "slope", "prior")
    return replace(one, **{name: (1.0 - share) * getattr(one, name) + share * getattr(other, name) for name in parts})


def _damped(before: CellPosterior, at: CellPosterior, ahead: CellPosterior, unit: FloatArray) -> CellPosterior:
    """Return the density to go on to: half the way where an sd of effects turns round and goes back far."""
    sizes = np.log([np.diagonal(posterior.prior) for posterior in (before, at, ahead)])
    first, second = np.diff(sizes, axis=0)
    turned = (first * second < -_TURNED * first**2) & (_moves_of_sds(at, ahead, unit) > NEAR)
    return _between(at, ahead, 0.5) if turned.any() else ahead


def _largest_move(one: CellPosterior, other: CellPosterior, unit: FloatArray) -> float:
    """Return the largest move of a coefficient or of a log sd of effects, in sds."""
    moved = np.abs(other.beta - one.beta) / other.sds
    return float(max(moved.max(), _moves_of_sds(one, other, unit).max()))


def _moves_of_sds(one: CellPosterior, other: CellPosterior, unit: FloatArray) -> FloatArray:
    """Return by how many of its sds the log sd of each effect moves, shape (Q,).

    The log sd has the information of a cell 2 r^2, r the share that its rows take away of a variance of `LEAST_SD` or
    more: where they say little the sd wanders, and of a smaller one they would seem to say nothing.
    """
    variance = np.diagonal(other.prior)
    information = 1.0 / np.diagonal(other.variance[:-1], axis1=1, axis2=2) - 1.0 / variance
    share = np.clip(information / (information + 1.0 / np.maximum(variance, (LEAST_SD * unit) ** 2)), 0.0, 1.0)
    moved = 0.5 * np.abs(np.log(variance / np.diagonal(one.prior)))
    return np.asarray(moved * np.sqrt(2.0 * (share**2).sum(axis=0)))


def _largest_effect_move(one: CellPosterior, other: CellPosterior) -> float:
    """Return the largest move of an effect in posterior sds, the smaller of the two if it has one at both."""
    before, after = (
        (np.diagonal(at.variance, axis1=1, axis2=2) + (at.pull**2).sum(axis=2))[:-1] for at in (one, other)
    )
    variance = np.where(before > 0.0, np.minimum(before, after), after)
    return float((np.abs(other.mean - one.mean)[:-1] / np.sqrt(variance)).max())
