"""The mode of the full data in few passes, and one more pass there for the draws that a calibration needs.

Newton's method on the full data starts from the mode of a *pilot*, some thousands of rows: first drawn by the size of
the row, then by score at the mode of the first. A plain uniform pilot knows nothing of rare columns, and Newton's
method can need 30 passes from where it ends. A pilot that turns out to have missed something is drawn anew.

Passes: one for each pilot (two, as a rule), one for each Newton step (three), one at the mode (`survey`). The sums that
scale the terms of a row's probability are estimated from the pilot, as no draw needs them exactly; totals are exact.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dtrmm
from scipy.sparse import issparse

from bayescore.coresets.calibration.remainder import EQUAL_SHARE
from bayescore.coresets.sampling.fixed_size import (
    Bar,
    Candidates,
    Chosen,
    Pool,
    Probability,
    candidates,
    draw_candidates,
    select,
)
from bayescore.coresets.scores.row_scores import leverage_rows, predictors, score_rows
from bayescore.data.dataset import Dataset
from bayescore.data.passes.nonzeros import compact
from bayescore.data.passes.tiles import TileRows
from bayescore.models.families import Family
from bayescore.models.newton import Mode, cholesky_and_decrement, find_mode
from bayescore.models.posterior import WIDE, Derivatives, full_terms, likelihood_terms, posterior, prior_part
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, WeightedData

MAX_PILOTS = 5
_STRETCH = 512  # rows of a product that stays in the cache


class RowScores(NamedTuple):
    """Scores of rows, shape (n,): g, h, the reach (`remainder`), and w l''' abs(xL)^2 / 2, the pull per unit of xL."""

    g: FloatArray
    h: FloatArray
    reach: FloatArray
    third: FloatArray


@dataclass(frozen=True, eq=False)
class LaplaceApproximation:
    """The normal approximation N(theta, LL') of a posterior: theta, shape (D,), and its factor L, shape (D, D)."""

    family: Family
    theta: FloatArray
    factor: FloatArray

    def predictors(self, block: WeightedData) -> tuple[FloatArray, FloatArray]:
        """Return predictors at theta, and abs(xL)^2, shape (n,) each."""
        if len(self.theta) >= WIDE:
            eta, squares = block.with_offset(block.X @ self.theta), _squared_lengths(block.X, self.factor)
        else:
            eta, squares = predictors(TileRows.of(block), self.theta, np.ascontiguousarray(self.factor))
        return eta, squares

    def terms(self, block: WeightedData) -> Derivatives:
        """Return the log-likelihood of rows, and its derivatives at theta."""
        return likelihood_terms(self.theta, block, self.family)

    def row_scores(self, block: WeightedData) -> RowScores:
        """Return the scores by which rows are drawn."""
        return self.row_scores_at(block, *self.predictors(block))

    def row_scores_at(self, block: WeightedData, eta: FloatArray, squares: FloatArray) -> RowScores:
        """Return the same, given the rows' predictors and squared lengths."""
        return RowScores(*score_rows(eta, block.y, squares, block.weights, self.family))

    def scores(self, block: WeightedData) -> tuple[FloatArray, FloatArray]:
        """Return whitened score norms g = w |s| |xL| and curvature leverages h = w |c| |xL|^2, shape (n,) each."""
        return self.row_scores(block)[:2]

    def pulls(self, block: WeightedData) -> FloatArray:
        r"""Return each row's part of the mean's distance from the mode, in posterior sds, shape (D, n).

        To second order E[theta] - mode = L sum_n w_n l'''_n |x_n L|^2 (x_n L) / 2 (Tierney and Kadane 1986).
        """
        return np.asarray(self.row_scores(block).third * (compact(block.X) @ self.factor).T)


def _squared_lengths(X: FloatArray, factor: FloatArray) -> FloatArray:
    """Return abs(xL)^2 of rows, shape (n,), by BLAS: half the work for a lower triangular L, less for rows of zeros."""
    triangular, L = not np.triu(factor, 1).any(), np.asfortranarray(factor)
    out = np.empty(len(X))
    for start in range(0, len(X), _STRETCH):
        rows = X[start : start + _STRETCH]
        few = compact(rows)
        by_blas = triangular and not issparse(few)
        white = dtrmm(1.0, L, rows.T, lower=1, trans_a=1).T if by_blas else few @ factor
        out[start : start + _STRETCH] = np.vecdot(white, white)
    return out


@dataclass(frozen=True, eq=False)
class Shares:
    """What the terms of a row's probability are divided by: sums over all rows of g^2, g, h, reach and w, about."""

    laplace: LaplaceApproximation
    squares: float
    norms: float
    leverages: float
    reach: float
    weights: float

    @classmethod
    def estimated(cls, laplace: LaplaceApproximation, sample: Chosen, weight_total: float) -> "Shares":
        """Return the sums as a sample of the rows has them."""
        g, h, reach, _ = laplace.row_scores(sample.rows)
        least = np.finfo(float).tiny  # columns may all be zero
        sums = (max(float((value / sample.inclusion).sum()), least) for value in (g**2, g, h, reach))
        squares, norms, leverages, far = sums
        return cls(laplace, squares, norms, leverages, far, weight_total)

    def of(self, found: RowScores, weights: FloatArray) -> FloatArray:
        """Return p = g^2 / sum g^2 + g / sum g + h / sum h + 0.1 w / W, shape (n,)."""
        g, h = found.g, found.h
        rest = h * (1.0 / self.leverages) + weights * (0.1 / self.weights)
        return np.asarray(g * (g * (1.0 / self.squares) + 1.0 / self.norms) + rest)

    def probability(self, block: WeightedData) -> FloatArray:
        """Return p of the rows of a block, shape (n,)."""
        return self.of(self.laplace.row_scores(block), block.weights)

    def far(self, found: RowScores, weights: FloatArray) -> FloatArray:
        """Return the probabilities by reach, shape (n,), of the sample that estimates remainders."""
        return np.asarray(found.reach * (1.0 / self.reach) + weights * (EQUAL_SHARE / self.weights))


class Survey(NamedTuple):
    """The results of one pass at a point.

    `candidates` of draws by score and curvature and the sum `total` of their p over all rows; the exact total of the
    pulls, shape (D,); a sample by reach.
    """

    candidates: Candidates
    total: float
    pull: FloatArray
    sample: Chosen


def survey(dataset: Dataset, shares: Shares, size: int, sample_size: int, seeds: tuple[int, int]) -> Survey:
    """Return candidates for up to `size` rows, the pulls' total, and a sample for remainders; one pass."""
    laplace = shares.laplace
    near, far = Pool(size), Pool(sample_size)
    bars = Bar(), Bar()

    def one(start: int, block: WeightedData) -> tuple[Candidates, Candidates, FloatArray]:
        found = laplace.row_scores(block)
        p, q = shares.of(found, block.weights), shares.far(found, block.weights)
        pull = found.third @ block.X
        close = candidates(p, start, block, size, seeds[0], bar=bars[0])
        reaching = candidates(q, start, block, sample_size, seeds[1], bar=bars[1])
        return close, reaching, np.append(pull, [p.sum(), q.sum()])

    sums: FloatArray = np.zeros(len(laplace.theta) + 2)
    for close, reaching, part in dataset.map(one, "scores", canonical=True):
        bars = near.add(close), far.add(reaching)
        sums = sums + part
    sample = select(far.best(), sample_size, float(sums[-1]))
    return Survey(near.best(), float(sums[-2]), sums[:-2] @ laplace.factor, sample)


def by_size(dataset: Dataset) -> Probability:
    """Return p = (1/2 + |x / rms|^2 / (2 D)) w / W, which sums to 1.

    Rows of rare categories are large once their columns are scaled, so a pilot drawn so sees every column.
    """
    squares = np.maximum(dataset.scan.squares, np.finfo(float).tiny)
    share = 0.5 / dataset.scan.weight_total
    if len(squares) >= WIDE:
        each = 0.5 / (squares * len(squares))
        return lambda block: np.minimum(block.weights * (block.X**2 @ each), 1.0) + block.weights * share
    scaled = np.diag(np.sqrt(0.5 / (squares * len(squares))))
    return lambda block: leverage_rows(block.X, block.weights, scaled) + block.weights * share


def full_mode(dataset: Dataset, family: Family, prior: Prior, seeds: list[int]) -> tuple[Mode, Shares]:
    """Return the MAP of the full data to 0.01 posterior sd, and the shares of its rows there by the last pilot.

    `seeds` has `MAX_PILOTS` entries.
    """
    n_features, weight = dataset.n_features, dataset.scan.weight_total
    size = min(dataset.scan.n_rows, max(5000, 30 * n_features))

    def pilot(probability: Probability, seed: int, start: FloatArray) -> tuple[Chosen, LaplaceApproximation]:
        found, total = draw_candidates(dataset, probability, size, seed)
        chosen = select(found, size, total)
        mode = find_mode(posterior(chosen.expanded(), family, prior).terms, start, tolerance=1e-3)
        return chosen, LaplaceApproximation(family, mode.beta, mode.factor)

    def terms(beta: FloatArray) -> Derivatives:
        return full_terms(beta, dataset, family, prior_part(beta, prior))

    chosen, laplace = pilot(by_size(dataset), seeds[0], np.zeros(n_features))
    for seed in seeds[1:]:
        shares = Shares.estimated(laplace, chosen, weight)
        chosen, laplace = pilot(shares.probability, seed, laplace.theta)
        here = terms(laplace.theta)
        # a pilot that saw everything ends where the full score is about as large as the pilot's own standard error
        spread = (laplace.scores(chosen.expanded())[0] ** 2).sum()
        if cholesky_and_decrement(here)[1] <= 2.0 * math.sqrt(float(spread)):
            break
    mode = find_mode(terms, laplace.theta, first=here, tolerance=0.01)
    return mode, Shares.estimated(LaplaceApproximation(family, mode.beta, mode.factor), chosen, weight)
