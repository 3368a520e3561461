r"""The density of beta and the cells' effects about which rows are condensed: where their posterior is.

Every effect is b_c ~ N(0, S). First the normal density nearest that posterior: averaged over it (`sums`), the
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
variance that quadrature finds (`points`), and with its score of beta.

What rows say about their cells' effects at quadrature nodes, where their posterior is not normal.

Nodes b_ck stand about the normal density of the effects of cell c at beta = t (`sums.Density`), with probabilities q_k
under it. With phi_c(b) the log-likelihood of the cell's rows, averaged over beta given b, and S the covariance of the
effects, the effects given the cell's rows have the probabilities

.. math:: w_{ck} \propto q_k \, e^{\phi_c(b_{ck})} N(b_{ck}; 0, S) / N(b_{ck}; m_c, V_c)

With the effects integrated out rows say less of beta than their curvature: Louis (1982), Finding the observed
information matrix when using the EM algorithm, Journal of the Royal Statistical Society B 44.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import special

from bayescore.compiled import jit, jit_inner
from bayescore.coresets.cells import BlockSums, CellPosterior, CellSums, Predicted, block_sums, sums_of, total
from bayescore.data.dataset import Dataset
from bayescore.data.passes import TILE, new_tile
from bayescore.data.source import MAX_BLOCK_ROWS
from bayescore.families import Family
from bayescore.models.groups.nodes import NORMAL_BELOW
from bayescore.models.groups.rows import add_lines
from bayescore.models.laplace import factor_of_inverse
from bayescore.models.posterior import Derivatives, prior_part, weighted_gram
from bayescore.numerics.elementary import normal_nodes, normal_steps
from bayescore.priors import Prior
from bayescore.types import FloatArray, IntArray, LabelArray, WeightedData
from bayescore.validation import DataError

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

    at: CellPosterior
    family: Family
    effects: FloatArray
    mass: FloatArray
    log_prior: FloatArray

    @classmethod
    def of(cls, at: CellPosterior, family: Family) -> "Points":
        """Return the nodes about a density."""
        Q = len(at.columns)
        sd = math.sqrt(float(at.prior[0, 0]))
        axis, log_mass = normal_nodes(_NODES[Q]) if Q > 1 or sd < NORMAL_BELOW else normal_steps(_STEP / sd)
        grid, masses = (np.stack([part.ravel() for part in np.meshgrid(*[each] * Q)]) for each in (axis, log_mass))
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
            for part, sums_of_block in dataset.map(partial(_look, self), "effects of cells", canonical=True, here=True):
                add_lines(values, part.cells, sums_of_block)
                yield part

        return total(sums(), self.at), values

    def values_of(self, rows: WeightedData) -> FloatArray:
        """Return phi of rows in memory, shape (C + 1, K)."""
        values = np.zeros_like(self.log_prior)
        for start in range(0, len(rows), MAX_BLOCK_ROWS):
            block = self.at.predict(rows.take(slice(start, start + MAX_BLOCK_ROWS)))
            add_lines(values, block.occupied, _values(self, block))
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

    def integrated(self, shares: FloatArray, dataset: Dataset) -> "Integrated":
        """Return by how much score and information of beta change as effects are integrated out; one pass.

        Score and curvature are averages over w, less those over q. From the curvature goes the variance over w of each
        cell's score of beta (Louis 1982), by the least squares polynomial of degree 2 in b.
        """
        work = partial(_block_scores, self, self._score_tables(shares))
        return self._integrated(dataset.map(work, "scores within cells", canonical=True, here=True))

    def integrated_of(self, shares: FloatArray, rows: WeightedData) -> "Integrated":
        """Return the same of rows in memory."""
        return self._integrated([_block_scores(self, self._score_tables(shares), 0, rows)])

    def _integrated(self, parts: Iterable["BlockScores"]) -> "Integrated":
        """Return the same of blocks' scores."""
        (C, Q, _), p = self.effects.shape, len(self.at.beta)
        scores, gradient, curvature = np.zeros((C, Q + Q * (Q + 1) // 2, p)), np.zeros(p), np.zeros((p, p))
        for part in parts:
            add_lines(scores.reshape(C, -1), part.cells, part.by_cell.reshape(len(part.cells), -1))
            gradient += part.score
            curvature += part.curvature
        return Integrated(gradient, np.asarray(curvature - np.einsum("cjp,cjr->pr", scores[:-1], scores[:-1])))

    def _score_tables(self, shares: FloatArray) -> FloatArray:
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
        block = rows.block
        return _RowNodes(rows.eta, rows.variance, rows.z, rows.cell, self.effects, block.y, block.weights)


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
    """Rows' predictors at beta = t, the variance that beta adds to them, multipliers, cells, sides and weights."""

    eta: FloatArray
    variance: FloatArray
    z: FloatArray
    own: IntArray
    effects: FloatArray
    side: LabelArray
    weights: FloatArray


@jit_inner
def _load_nodes(rows: _RowNodes, start: int, width: int, eta: FloatArray, side: FloatArray) -> None:
    """Write predictors of some rows at the nodes, shape (K, TILE), and their sides: each row's nodes are read once."""
    for lane in range(width):
        n = start + lane
        side[lane] = rows.side[n]
        for k in range(len(eta)):
            eta[k, lane] = rows.eta[n]
        for q in range(rows.z.shape[1]):
            effects, z = rows.effects[rows.own[n], q], rows.z[n, q]
            for k in range(len(eta)):
                eta[k, lane] += z * effects[k]


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


def _values(points: Points, rows: Predicted) -> FloatArray:
    """Return phi at the nodes of the cells among rows, shape (C, K)."""
    out = np.zeros((len(rows.occupied), len(points.mass)))
    _add_values(points._nodes(rows), points.family, rows.places, out)
    return out


def _look(points: Points, _: int, block: WeightedData) -> tuple[BlockSums, FloatArray]:
    """Return the sums of a block, and phi of its cells at their nodes."""
    rows = points.at.predict(block)
    return block_sums(points.at, points.family, rows), _values(points, rows)


@jit
def _add_products(scores: FloatArray, X: FloatArray, place: IntArray, out: FloatArray) -> None:
    """Add products of scores, shape (n, J), and features, (n, p), of rows to the lines `place` of `out`, (C, J, p)."""
    for n in range(len(place)):
        for j in range(scores.shape[1]):
            line, score = out[place[n], j], scores[n, j]
            for d in range(X.shape[1]):
                line[d] += score * X[n, d]


def _block_scores(points: Points, tables: FloatArray, _: int, block: WeightedData) -> BlockScores:
    """Return the scores of a block given tables of its cells' nodes, shape (C + 1, K, 1 + J)."""
    rows, J = points.at.predict(block), tables.shape[2]
    sums, of_rows = np.zeros((len(rows.occupied), J - 1, block.X.shape[1])), np.zeros((len(block), J + 1))
    _add_scores(points._nodes(rows), points.family, tables, of_rows)
    _add_products(np.ascontiguousarray(of_rows[:, 1:J]), block.X, rows.places, sums)
    return BlockScores(rows.occupied, sums, of_rows[:, 0] @ block.X, weighted_gram(block.X, of_rows[:, J]))


def shapes(shares: FloatArray, gap: FloatArray) -> FloatArray:
    """Return the sds over the effects, given w, of differences at nodes, both of shape (C, K)."""
    gap = gap - (shares * gap).sum(axis=1)[:, None]
    return np.asarray(np.sqrt((shares * gap**2).sum(axis=1)))


MAX_PASSES = 25


NEAR = 0.3  # sds of a coefficient, or of the log sd of effects, of the last step


_NEARLY = 2.0  # the same before quadrature, if steps that shrink as the last one did lead no further than `NEAR`


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


_LEAST_INFORMATION = 1e-6  # of a cell's rows on its effects, in units of the prior's


@dataclass(frozen=True, eq=False)
class Centre:
    """A density, and what passes found about it.

    `values` and `shares`, shape (C + 1, K), are phi and w at the nodes; `last` is how far the next step would go, in
    sds.
    """

    points: Points
    sums: CellSums
    values: FloatArray
    shares: FloatArray
    integrated: Integrated
    last: float


def _solved(
    sums: CellSums, at: CellPosterior, prior_terms: Derivatives, covariance: FloatArray, unit: FloatArray
) -> CellPosterior:
    """Return the density in balance if slopes were linear, given S and the prior's terms at beta.

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


def _step(sums: CellSums, at: CellPosterior, prior: Prior, unit: FloatArray) -> CellPosterior:
    """Return the density, and S, that would be in balance if slopes were linear, or what is as far on the way there."""
    covariance, prior_terms = at.prior, prior_part(at.beta, prior)
    for _ in range(_SCORINGS):
        root, change = _scored(_solved(sums, at, prior_terms, covariance, unit), unit)
        values, vectors = np.linalg.eigh(change)
        root = root @ (vectors * np.exp(0.5 * np.clip(values, -_LONGEST, _LONGEST)))
        root *= np.minimum(1.0, MOST_SD * unit / np.sqrt((root**2).sum(axis=1)))[:, None]
        before, covariance = covariance, root @ root.T
        sd = np.sqrt(np.diagonal(covariance))
        if (np.abs(covariance - before) < _STILL * math.sqrt(2.0 / len(at.mean)) * np.outer(sd, sd)).all():
            break
    return _solved(sums, at, prior_terms, covariance, unit)


def _scored(at: CellPosterior, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return L, L L' = S, and X of the scoring step to L exp(X) L', of a density in balance given S."""
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


def _by_quadrature(centre: Centre) -> tuple[CellSums, CellPosterior]:
    """Return sums whose effects, given them, have the moments that quadrature finds, and the density there."""
    sums, at = centre.sums, centre.points.at
    mean, precision = centre.points.moments(centre.shares)
    inverse = np.linalg.inv(at.prior)
    least = _LEAST_INFORMATION * np.linalg.eigvalsh(inverse)[0]
    values, vectors = np.linalg.eigh(precision - inverse)
    information = np.einsum("cqk,ck,crk->cqr", vectors, np.maximum(values, least), vectors)
    slope = np.linalg.solve(sums.information + least * np.eye(len(inverse)), sums.cross)
    information[-1] = slope[-1] = 0.0
    cross = information @ slope
    curvature = sums.precision + np.einsum("cqp,cqr->pr", slope, cross - sums.cross)
    summed = sums._replace(
        score=mean @ inverse,
        information=information,
        cross=cross,
        gradient=sums.gradient + centre.integrated.score,
        precision=curvature,
    )
    return summed, replace(at, mean=mean)


def centre_of(dataset: Dataset, start: CellPosterior, family: Family, prior: Prior, *, unit: FloatArray) -> Centre:
    """Return the density about which to condense. Effects of `unit`, shape (Q,), move a row of root mean square by 1.

    Raises `ArithmeticError` where it is not found.
    """
    way = _Way(start, unit)
    for _ in range(MAX_PASSES):
        if way.go(_ahead(sums_of(dataset, way.at, family), way.at, prior, unit)):
            break
    else:
        way.back()
    at, before, best = way.at, None, None
    for _ in range(_MAX_TURNS):
        try:
            centre = _about(dataset, at, family)
            ahead = _ahead(*_by_quadrature(centre), prior, unit)
        except np.linalg.LinAlgError:  # a variance with no inverse
            break
        last = math.inf if ahead is None else _gap(at, ahead, unit)
        best = replace(centre, last=last) if best is None or last < best.last else best
        if ahead is None or last < NEAR or not last < _APART * best.last:
            break
        before, at = at, ahead if before is None else _damped(before, at, ahead)
    if best is None or not best.last < _LOST:
        raise ArithmeticError(
            "the posterior's centre, about which groups are condensed, was not found: give a narrower prior=, or "
            "sample all_rows(...)"
        )
    return best


def _about(dataset: Dataset, at: CellPosterior, family: Family) -> Centre:
    """Return a density with its sums and values at its nodes; two passes."""
    points = Points.of(at, family)
    sums, values = points.look(dataset)
    shares = points.shares(values)
    return Centre(points, sums, values, shares, points.integrated(shares, dataset), math.inf)


class _Way:
    """Where steps have led: if the next is much longer, or there is none, one was too long, and a part of it is taken.

    Log-likelihoods of counts, and of pseudo-rows of large weight, are exponentials where rows have not been.
    """

    def __init__(self, at: CellPosterior, unit: FloatArray) -> None:
        self.at, self._origin, self._end, self._unit = at, at, at, unit
        self._share, self._last = 1.0, math.inf

    def go(self, ahead: CellPosterior | None) -> bool:
        """Go on to `ahead`, None if there is no step, or back; return whether it is near the end."""
        step = math.inf if ahead is None else _gap(self.at, ahead, self._unit)
        if ahead is None or not step < max(_FURTHER * self._last, NEAR):
            self._share *= _SHORTER
            self.at = _between(self._origin, self._end, self._share)
            return False
        # as far as the steps after this one lead, if they shrink as this one did
        left = step * step / (self._last - step) if self._share == 1.0 and step < self._last < math.inf else math.inf
        near = (step < NEAR and self._last < math.inf) or (step < _NEARLY and left < NEAR)  # the first is from a point
        near = near and _gap_of_effects(self.at, ahead) < _COVERED
        if self._origin.factor.any():  # else the last step was from a point, and knew no variances
            ahead = _damped(self._origin, self.at, ahead)
        self._origin, self._end, self._share, self._last = self.at, ahead, 1.0, step
        self.at = ahead
        return near

    def back(self) -> None:
        """Go back to the last place from which there was a step."""
        self.at = self._origin


def _ahead(sums: CellSums, at: CellPosterior, prior: Prior, unit: FloatArray) -> CellPosterior | None:
    """Return the density of the next step, or None where the sums have no finite balance."""
    if not all(np.isfinite(part).all() for part in sums):
        return None
    try:
        return _step(sums, at, prior, unit)
    except (np.linalg.LinAlgError, DataError):  # curvatures of very different sizes
        return None


def _between(one: CellPosterior, other: CellPosterior, share: float) -> CellPosterior:
    """Return the density at a share of the way from one to another."""
    parts = ("beta", "factor", "mean", "variance", "slope", "prior")
    return replace(one, **{name: (1.0 - share) * getattr(one, name) + share * getattr(other, name) for name in parts})


def _damped(before: CellPosterior, at: CellPosterior, ahead: CellPosterior) -> CellPosterior:
    """Return the density to go on to: half the way where an sd of effects turns round and goes back far."""
    sizes = np.log([np.diagonal(posterior.prior) for posterior in (before, at, ahead)])
    first, second = np.diff(sizes, axis=0)
    return _between(at, ahead, 0.5) if (first * second < -_TURNED * first**2).any() else ahead


def _gap(one: CellPosterior, other: CellPosterior, unit: FloatArray) -> float:
    """Return by how many sds a coefficient, or the log sd of effects, moves at most.

    The log sd has the information of a cell 2 r^2, r the share that its rows take away of a variance of `LEAST_SD` or
    more: where they say little the sd wanders, and of a smaller one they would seem to say nothing.
    """
    moved = np.abs(other.beta - one.beta) / other.sds
    variance = np.diagonal(other.prior)
    information = 1.0 / np.diagonal(other.variance[:-1], axis1=1, axis2=2) - 1.0 / variance
    share = np.clip(information / (information + 1.0 / np.maximum(variance, (LEAST_SD * unit) ** 2)), 0.0, 1.0)
    turned = 0.5 * np.abs(np.log(variance / np.diagonal(one.prior))) * np.sqrt(2.0 * (share**2).sum(axis=0))
    return float(max(moved.max(), turned.max()))


def _gap_of_effects(one: CellPosterior, other: CellPosterior) -> float:
    """Return by how many sds of its own an effect moves at most."""
    variance = np.diagonal(other.variance, axis1=1, axis2=2) + (other.pull**2).sum(axis=2)
    return float((np.abs(other.mean - one.mean)[:-1] / np.sqrt(variance[:-1])).max())
