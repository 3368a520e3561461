r"""Log-likelihoods of all rows at many draws, for about the price of one pass.

Near the posterior almost all rows are almost quadratic. With value, score g and curvature F of all rows at a point t,

.. math:: L(\theta) = L(t) + g'\delta - \tfrac12 \delta' F \delta + \sum_n w_n R_n(\theta), \qquad \delta = \theta - t,

and the remainders R_n are summed over a sample of the rows, weighted by one over their inclusion probabilities
(`coresets.calibration.remainder`). A row's remainder is at most of the order of

.. math:: k_n = w_n c^*_n r_n^3,

r_n the sd of its predictor over the posterior and c* the largest curvature within 4 r_n. The sample has a fixed size,
so rows of large k, such as those behind walls or of rare columns, are in it for certain, and their remainders are
exact. The sum is unbiased, and the sample tells its standard error; where that is above `MAX_SUM_ERROR`, all rows are
to be evaluated.

References
----------
Quiroz, Kohn, Villani and Tran (2019), Speeding up MCMC by efficient data subsampling, JASA 114. Ohlsson (1998),
Sequential Poisson sampling, Journal of Official Statistics 14.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from bayescore.coresets.calibration.pilot import LaplaceApproximation
from bayescore.coresets.calibration.remainder import EQUAL_SHARE, SAMPLE_ENTRIES, SAMPLE_ROWS, WIDE_ROWS, Expansion
from bayescore.coresets.sampling.draw import Draw
from bayescore.coresets.sampling.fixed_size import Bar, Candidates, Pool, candidates, select
from bayescore.data.dataset import Dataset
from bayescore.diagnostics.elpd import PassSums, expected_moments, left_out_of, rows_left_out
from bayescore.limits import MAX_SUM_ERROR
from bayescore.models.posterior import Derivatives, likelihood_terms
from bayescore.models.row_kernels import derivatives_of
from bayescore.types import FloatArray, WeightedData

_SEED = 2019  # of the sample: the same data give the same rows
_WITHIN = 4.0  # sds of its predictor within which a row's largest curvature counts
_WIDE = 0.05  # sd of a predictor from which its curvature may change within these


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums over all rows at a point, and a sample of the rows for what is beyond second order.

    `variance` and `square` are those of `PassSums`, with the moments that rows have over the normal approximation.
    """

    laplace: LaplaceApproximation
    expansion: Expansion
    weight: float
    variance: float
    square: float
    left_out: Draw

    @property
    def terms(self) -> Derivatives:
        """Log-likelihood of all rows at the point, and its derivatives."""
        return self.expansion.part

    @classmethod
    def of(cls, dataset: Dataset, laplace: LaplaceApproximation, core: WeightedData) -> Self:
        """Look at all rows at the mode of `laplace`; one pass. `core` stands for them, to scale probabilities."""
        D = len(laplace.theta)
        size = max(WIDE_ROWS, min(SAMPLE_ROWS, SAMPLE_ENTRIES // D))
        pool, bar = Pool(size), Bar()
        of_core = _reach(laplace, core, *_at_mode(laplace, core)).sum()
        each = 1.0 / max(float(of_core), np.finfo(float).tiny), EQUAL_SHARE / float(core.weights.sum())

        def one(start: int, block: WeightedData) -> tuple[Derivatives, FloatArray, Draw, Candidates]:
            eta, squares, derivatives = _at_mode(laplace, block)
            p = each[0] * _reach(laplace, block, eta, squares, derivatives) + each[1] * block.weights
            mean, variance = expected_moments(derivatives, squares)
            w = block.weights
            sums = np.array([w.sum(), w @ variance, w @ (mean - 0.5 * variance) ** 2, p.sum()])
            found = candidates(p, start, block, size, _SEED, bar=bar)
            return likelihood_terms(laplace.theta, block, laplace.family), sums, rows_left_out(start, block), found

        terms, sums, kept = Derivatives(0.0, np.zeros(D), np.zeros((D, D))), np.zeros(4), list[Draw]()
        for part, of_block, left, found in dataset.map(one, "certifying", canonical=True):
            terms, sums, bar = terms + part, sums + of_block, pool.add(found)
            kept = [left_out_of([*kept, left])]
        weight, variance, square, total = map(float, sums)
        sample = select(pool.best(), size, total)
        expansion = Expansion(laplace.family, laplace.theta, terms, sample.expanded(), sample.inclusion)
        return cls(laplace, expansion, weight, variance, square, kept[0])

    def at(self, draws: FloatArray) -> PassSums | None:
        """Return the sums at draws, shape (S, D), without a pass; None where the sample does not tell them."""
        values, error = self.expansion.at_draws(draws)
        if not error <= MAX_SUM_ERROR:
            return None
        return PassSums(values, self.variance, self.square, self.weight, self.left_out, self.laplace, error)


def _at_mode(laplace: LaplaceApproximation, rows: WeightedData) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return rows' predictors and their variances, shape (n,) each, and `derivatives_of`, shape (4, n)."""
    eta, squares = laplace.predictors(rows)
    return eta, squares, derivatives_of(eta, rows.y, laplace.family)


def _reach(
    laplace: LaplaceApproximation,
    rows: WeightedData,
    eta: FloatArray,
    squares: FloatArray,
    derivatives: FloatArray,
) -> FloatArray:
    """Return k_n of rows, shape (n,), given what `_at_mode` says of them."""
    family, r, curvature = laplace.family, np.sqrt(squares), np.abs(derivatives[2])
    if (wide := np.flatnonzero(r > _WIDE)).size:
        center, move, side, largest = eta[wide], _WITHIN * r[wide], rows.y[wide], curvature[wide]
        for there in (center - move, center + move, center - np.clip(center, -move, move)):  # the last nearest to 0
            there = np.clip(there, -family.reach, family.reach)
            largest = np.maximum(largest, np.abs(derivatives_of(there, side, family)[2]))
        curvature[wide] = largest
    return np.asarray(rows.weights * curvature * squares * r)
