"""The mode of the full data in few passes, and what a draw by score and curvature needs to know there.

Newton's method on the full data starts from the mode of a *pilot*, some thousands of rows: first drawn by the size of
the row, then by score at the mode of the first. A plain uniform pilot knows nothing of rare columns, and Newton's
method can need 30 passes from where it ends. A pilot that turns out to have missed something is drawn anew.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayescore.coresets.draws.fixed_size import Probability, choose, draw_candidates
from bayescore.coresets.scores.row_scores import column_squares, leverage_rows, score_rows, score_sums
from bayescore.data.opened import Opened
from bayescore.models.newton import Mode, cholesky_and_decrement, find_mode
from bayescore.models.posterior import Terms, likelihood_terms, posterior, prior_part
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, Likelihood, WeightedData

MAX_PILOTS = 5
SCORE_TOTAL = 3.1  # sum over all rows of `Sums.probability`


@dataclass(frozen=True, eq=False)
class PosteriorScale:
    """A point theta, shape (D,), and the scale L, shape (D, D), in which it is one posterior sd to the next."""

    likelihood: Likelihood
    theta: FloatArray
    factor: FloatArray

    def scores(self, block: WeightedData) -> tuple[FloatArray, FloatArray]:
        """Return whitened score norms g = w s |zL| and curvature leverages h = w |c| |zL|^2, shape (n,) each."""
        g, h = score_rows(*self._arguments(block))
        return g, h

    def pulls(self, block: WeightedData) -> FloatArray:
        r"""Return each row's part of the mean's distance from the mode, in posterior sds, shape (D, n).

        To second order E[theta] - mode = L sum_n w_n l'''_n |z_n L|^2 (z_n L) / 2 (Tierney and Kadane 1986).
        """
        rows = block.Z
        white = rows @ self.factor
        third = block.weights * self.likelihood.third(rows @ self.theta)
        return np.asarray((0.5 * third * (white**2).sum(axis=1)) * white.T)

    def sums(self, block: WeightedData) -> FloatArray:
        """Return the sums over rows of g^2, g, h and the pulls, shape (3 + D,)."""
        totals = score_sums(*self._arguments(block))
        return np.concatenate([totals[:3], totals[3:] @ self.factor])

    def _arguments(self, block: WeightedData) -> tuple[Any, ...]:
        factor = np.ascontiguousarray(self.factor)
        return block.X, block.y, block.weights, self.theta, factor, self.likelihood


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over all rows at a point: g^2, g, h, w, and the pulls, shape (D,)."""

    white: PosteriorScale
    squares: float
    norms: float
    leverages: float
    weights: float
    pull: FloatArray

    def probability(self, block: WeightedData) -> FloatArray:
        """Return p = g^2 / sum g^2 + g / sum g + h / sum h + 0.1 w / W, shape (n,)."""
        g, h = self.white.scores(block)
        rest = h * (1.0 / self.leverages) + block.weights * (0.1 / self.weights)
        return np.asarray(g * (g * (1.0 / self.squares) + 1.0 / self.norms) + rest)


def sums_at(opened: Opened, white: PosteriorScale) -> Sums:
    """Return the sums at `white`; one pass."""
    total = np.sum(list(opened.map(lambda _, block: white.sums(block), "scores", canonical=True)), axis=0)
    squares, norms, leverages = np.maximum(total[:3], np.finfo(float).tiny).tolist()  # columns may all be zero
    return Sums(white, squares, norms, leverages, opened.scan.weight_total, total[3:])


def by_size(opened: Opened) -> Probability:
    """Return p = (1/2 + |x / rms|^2 / (2 D)) w / W, which sums to 1; one pass.

    Rows of rare categories are large once their columns are scaled, so a pilot drawn so sees every column.
    """
    parts = opened.map(lambda _, block: column_squares(block.X, block.weights), "sizes of rows", canonical=True)
    squares: FloatArray = np.maximum(sum(parts), np.finfo(float).tiny)
    share = 0.5 / opened.scan.weight_total
    scaled = np.diag(np.sqrt(0.5 / (squares * len(squares))))
    return lambda block: leverage_rows(block.X, block.y, block.weights, scaled) + block.weights * share


def full_mode(opened: Opened, likelihood: Likelihood, prior: Prior, seeds: list[int]) -> Mode:
    """Return the MAP of the full data to 0.01 posterior sd; `seeds` has `MAX_PILOTS` entries."""
    n_features = opened.n_features
    size = min(opened.scan.n_rows, max(5000, 30 * n_features))

    def pilot(
        probability: Probability, total: float, seed: int, start: FloatArray
    ) -> tuple[WeightedData, PosteriorScale]:
        rows, _ = choose(draw_candidates(opened, probability, size, seed), size, total)
        mode = find_mode(posterior(rows, likelihood, prior).terms, start, tolerance=1e-3)
        return rows, PosteriorScale(likelihood, mode.beta, mode.factor)

    def full_terms(beta: FloatArray) -> Terms:
        total = prior_part(beta, prior)
        for part in opened.map(
            lambda _, block: likelihood_terms(beta, block.X, block.weights, likelihood, block.y),
            "Newton pass",
            canonical=True,
        ):
            total = total + part
        return total

    _, white = pilot(by_size(opened), 1.0, seeds[0], np.zeros(n_features))
    for seed in seeds[1:]:
        sums = sums_at(opened, white)
        rows, white = pilot(sums.probability, SCORE_TOTAL, seed, white.theta)
        here = full_terms(white.theta)
        # a pilot that saw everything ends where the full score is about as large as the pilot's own standard error
        if cholesky_and_decrement(here)[1] <= 2.0 * math.sqrt(float((white.scores(rows)[0] ** 2).sum())):
            break
    return find_mode(full_terms, white.theta, first=here, tolerance=0.01)
