r"""Log-likelihoods of all rows at many draws, for about the price of one pass.

Near the posterior almost all rows are almost quadratic. With value, score g and curvature F of all rows at a point t,

.. math:: L(\theta) = L(t) + g'\delta - \tfrac12 \delta' F \delta + \sum_n w_n R_n(\theta), \qquad \delta = \theta - t,

and the remainders R_n are summed over a sample of the rows, weighted by one over their inclusion probabilities
(`coresets.calibration.remainder`). A row's remainder is at most of the order of

.. math:: k_n = w_n c^*_n r_n^3,

r_n the sd of its predictor over the posterior and c* the largest curvature within 4 r_n. The sample has a fixed size,
so rows of large k, such as those behind walls or of rare columns, are in it for certain, and their remainders are
exact. The size is what half of `MAX_SUM_ERROR` needs by the coreset's rows (`sample_rows`), from 2,000 to 20,000.
The sum is unbiased, and the sample tells its standard error; where that is above `MAX_SUM_ERROR`, all rows are to be
evaluated.

References
----------
Quiroz, Kohn, Villani and Tran (2019), Speeding up MCMC by efficient data subsampling, JASA 114. Ohlsson (1998),
Sequential Poisson sampling, Journal of Official Statistics 14.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from bayescore.coresets.calibration.pilot import LaplaceApproximation
from bayescore.coresets.calibration.remainder import EQUAL_SHARE, Expansion, sample_rows
from bayescore.coresets.sampling.draw import Draw
from bayescore.coresets.sampling.fixed_size import Bar, Candidates, Chosen, Pool, candidates, select
from bayescore.coresets.scores.row_scores import score_rows
from bayescore.data.dataset import Dataset
from bayescore.diagnostics.elpd import Approximation, PassSums, expected_moments, left_out_of, rows_left_out
from bayescore.limits import MAX_SUM_ERROR
from bayescore.models.posterior import Derivatives
from bayescore.models.row_kernels import derivatives_of, largest_curvature
from bayescore.types import FloatArray, WeightedData

_SEED = 2019  # of the sample: the same data give the same rows
_AIM = 0.5 * MAX_SUM_ERROR  # standard error of the sums that the size of the sample is for
FINE = 0.1 * MAX_SUM_ERROR
"""The same where differences of sums are what is asked for, not weights of draws."""

_WITHIN = 4.0  # sds of its predictor within which a row's largest curvature counts
_WIDE = 0.05  # sd of a predictor from which its curvature may change within these

T = TypeVar("T")


class Looked(NamedTuple):
    """What a pass says about some rows: sums, rows that the sample may need, and c_n of `elpd`, shape (n,)."""

    terms: Any  # `Derivatives`, or what `Approximation.terms` gives
    sums: FloatArray  # of w, of w var l_n, of w c_n^2 and of p
    candidates: Candidates
    first: FloatArray


@dataclass(frozen=True, eq=False)
class Look:
    """What a pass asks of each row, given a normal approximation; `shares` scale k_n and weights to probabilities."""

    laplace: Approximation
    shares: tuple[float, float]
    size: int

    @classmethod
    def near(cls, laplace: Approximation, core: WeightedData, aim: float = _AIM) -> Self:
        """Return what is asked of rows that `core` stands for, for sums with the standard error `aim`."""
        eta, squares, derivatives = _at_mode(laplace, core)
        of_core = float(_reach(laplace, core, eta, squares, derivatives).sum())
        shares = 1.0 / max(of_core, np.finfo(float).tiny), EQUAL_SHARE / float(core.weights.sum())
        expected = float(score_rows(eta, core.y, squares, core.weights, laplace.family)[2].sum())
        return cls(laplace, shares, sample_rows(expected, aim, len(laplace.theta)))

    def __call__(self, start: int, block: WeightedData, bar: Bar) -> Looked:
        """Look at a block, its first row at position `start` of the data."""
        eta, squares, derivatives = _at_mode(self.laplace, block)
        w = block.weights
        p = self.shares[0] * _reach(self.laplace, block, eta, squares, derivatives) + self.shares[1] * w
        mean, variance = expected_moments(derivatives, squares)
        first = mean - 0.5 * variance
        sums = np.array([w.sum(), w @ variance, w @ first**2, p.sum()])
        return Looked(self.laplace.terms(block), sums, candidates(p, start, block, self.size, _SEED, bar=bar), first)


class Gathered:
    """What was seen of the rows so far; it stays where the pass is begun."""

    def __init__(self, look: Look) -> None:
        self._look, self._pool, self._sums = look, Pool(look.size), np.zeros(4)
        self.terms: Any = None  # of no rows

    def add(self, one: Looked) -> Bar:
        """Take in a block; return the bar that rows of other blocks must pass."""
        self.terms = one.terms if self.terms is None else self.terms + one.terms
        self._sums = self._sums + one.sums
        return self._pool.add(one.candidates)

    @property
    def sums(self) -> tuple[float, float, float]:
        """Sums of w, of w var l_n and of w c_n^2 over the rows."""
        weight, variance, square, _ = map(float, self._sums)
        return weight, variance, square

    def sample(self) -> Chosen:
        """Return the sample of the rows."""
        return select(self._pool.best(), self._look.size, float(self._sums[3]))

    def row_sums(self, left_out: Draw) -> "RowSums":
        """Return the sums over the rows; the draws `left_out` are for the elpd."""
        laplace, sample = self._look.laplace, self.sample()
        assert isinstance(laplace, LaplaceApproximation)
        expansion = Expansion(laplace.family, laplace.theta, self.terms, sample.expanded(), sample.inclusion)
        return RowSums(laplace, expansion, *self.sums, left_out)


def gather(
    dataset: Dataset,
    look: Look,
    beside: Callable[[int, WeightedData], T],
    together: Callable[[list[T]], T],
    doing: str = "certifying",
) -> tuple[Gathered, T]:
    """Look at all rows, and at what ``beside(start, block)`` finds in each block, which `together` unites; one pass."""
    gathered, bar, parts = Gathered(look), Bar(), list[T]()

    def one(start: int, block: WeightedData) -> tuple[Looked, T]:
        return look(start, block, bar), beside(start, block)

    for found, other in dataset.map(one, doing, canonical=True):
        bar = gathered.add(found)
        parts = [together([*parts, other])]
    return gathered, parts[0]


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
    def of(
        cls,
        dataset: Dataset,
        laplace: LaplaceApproximation,
        core: WeightedData,
        doing: str = "certifying",
        *,
        aim: float = _AIM,
    ) -> "RowSums":
        """Look at all rows at the mode of `laplace`; one pass. `core` stands for them, to scale probabilities."""
        gathered, left_out = gather(dataset, Look.near(laplace, core, aim), rows_left_out, left_out_of, doing)
        return gathered.row_sums(left_out)

    def at(self, draws: FloatArray) -> PassSums | None:
        """Return the sums at draws, shape (S, D), without a pass; None where the sample does not tell them."""
        values, error = self.expansion.at_draws(draws)
        if not error <= MAX_SUM_ERROR:
            return None
        return PassSums(values, self.variance, self.square, self.weight, self.left_out, self.laplace, error)


def _at_mode(laplace: Approximation, rows: WeightedData) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return rows' predictors and their variances, shape (n,) each, and `derivatives_of`, shape (4, n)."""
    eta, squares = laplace.predictors(rows)
    return eta, squares, derivatives_of(eta, rows.y, laplace.family)


def _reach(
    laplace: Approximation,
    rows: WeightedData,
    eta: FloatArray,
    squares: FloatArray,
    derivatives: FloatArray,
) -> FloatArray:
    """Return k_n of rows, shape (n,), given what `_at_mode` says about them."""
    family, r, curvature = laplace.family, np.sqrt(squares), np.abs(derivatives[2])
    if (wide := np.flatnonzero(r > _WIDE)).size:
        curvature[wide] = largest_curvature(eta[wide], rows.y[wide], _WITHIN * r[wide], family)
    return np.asarray(rows.weights * curvature * squares * r)
