r"""Log-likelihoods of all rows at many draws, for about the price of one pass.

Near the posterior almost all rows are almost quadratic. With value, score g and curvature F of all rows at a point t,

.. math:: L(\theta) = L(t) + g'\delta - \tfrac12 \delta' F \delta + \sum_n w_n R_n(\theta), \qquad \delta = \theta - t,

and the remainders R_n are summed over a sample of the rows, weighted by one over their inclusion probabilities
(`models.laplace`). A row's remainder is at most of the order of

.. math:: k_n = w_n c^*_n r_n^3,

r_n the sd of its predictor over the posterior and c* the largest curvature within 4 r_n. The sample has a fixed size,
so rows of large k, such as those behind walls or of rare columns, are in it for certain, and their remainders are
exact. The size is what half of `MAX_SUM_ERROR` needs by the coreset's rows (`sample_rows`), from 2,000 to 20,000.
The sum is unbiased, and the sample tells its standard error; where that is above `MAX_SUM_ERROR`, all rows are to be
evaluated. A plan says what a pass asks of a block: `RowSumsPlan` of a sample, `EveryRowPlan` where every row is
evaluated at every draw. `Gathered` adds blocks up, and `RowSums` answers at draws.

With effects of groups their columns stand with those of the coefficients. A row has few of them, so the exact totals to
second order are sparse (`models.groups.rows`); they are taken at the draws' mean. The variances of rows' predictors,
which say how likely a row is in the sample for what is left, are those over a few of the draws. Only these travel to
workers; what comes back are sums and rows of the sample.

References
----------
Quiroz, Kohn, Villani and Tran (2019), Speeding up MCMC by efficient data subsampling, JASA 114. Ohlsson (1998),
Sequential Poisson sampling, Journal of Official Statistics 14.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.open import open_in
from bayescore.data.responses import response_text
from bayescore.data.roles import Roles
from bayescore.diagnostics.elpd import (
    ROWS,
    Approximation,
    PassSums,
    cumulants,
    expected_moments,
    left_out_of,
    rows_left_out,
)
from bayescore.families import Family
from bayescore.limits import MAX_SUM_ERROR
from bayescore.models.groups.rows import JointTerms, joint_terms
from bayescore.models.laplace import (
    EQUAL_SHARE,
    Estimate,
    Expansion,
    LaplaceApproximation,
    sample_rows,
    with_remainders,
)
from bayescore.models.predictor import Factor, Predictor
from bayescore.models.row_kernels import derivatives_of, largest_curvature, score_rows
from bayescore.numerics.chains import evenly_spaced
from bayescore.numerics.sampling import CandidatePool, Candidates, Chosen, Draw, Threshold, candidates, select
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError

_SEED = 2019  # of the sample: the same data give the same rows


_AIM = 0.5 * MAX_SUM_ERROR  # standard error of the sums that the size of the sample is for


FINE = 0.1 * MAX_SUM_ERROR
"""The same where differences of sums are what is asked for, not weights of draws."""


_WITHIN_SDS = 4.0  # sds of its predictor within which a row's largest curvature counts


_WIDE = 0.05  # sd of a predictor from which its curvature may change within these


T = TypeVar("T")


Predictors = Callable[[WeightedData], tuple[FloatArray, FloatArray]]
"""Of rows: their predictors at a point, shape (n,), and how draws move these, shape (n, S)."""


class BlockPart(NamedTuple):
    """What a block adds to a pass: sums, rows that the sample may need, and c_n of `elpd`, shape (n,)."""

    terms: Any  # `Derivatives`, what `Approximation.terms` gives, or log-likelihoods at draws
    sums: FloatArray  # of w, of w var l_n, of w c_n^2 and of p
    candidates: Candidates | None
    first: FloatArray


@dataclass(frozen=True, eq=False)
class RowSumsPlan:
    """What a pass asks of each row, given a normal approximation; `shares` scale k_n and weights to probabilities."""

    laplace: Approximation
    shares: tuple[float, float]
    size: int

    @classmethod
    def near(cls, laplace: Approximation, core: WeightedData, aim: float = _AIM) -> Self:
        """Plan a sample of the rows that `core` stands for, whose estimated sums have the standard error `aim`."""
        eta, squares, derivatives = _at_mode(laplace, core)
        of_core = float(_remainder_sizes(laplace, core, eta, squares, derivatives).sum())
        shares = 1.0 / max(of_core, np.finfo(float).tiny), EQUAL_SHARE / float(core.weights.sum())
        expected = float(score_rows(eta, core.y, squares, core.weights, laplace.family)[2].sum())
        return cls(laplace, shares, sample_rows(expected, aim, len(laplace.theta)))

    def __call__(self, start: int, block: WeightedData, bar: Threshold) -> BlockPart:
        """Return the sums of a block, its first row at position `start` of the data."""
        eta, squares, derivatives = _at_mode(self.laplace, block)
        w = block.weights
        p = self.shares[0] * _remainder_sizes(self.laplace, block, eta, squares, derivatives) + self.shares[1] * w
        mean, variance = expected_moments(derivatives, squares)
        first = mean - 0.5 * variance
        sums = np.array([w.sum(), w @ variance, w @ first**2, p.sum()])
        return BlockPart(self.laplace.terms(block), sums, candidates(p, start, block, self.size, _SEED, bar=bar), first)


@dataclass(frozen=True, eq=False)
class EveryRowPlan:
    """Evaluate every row at every draw: the plan where a sample does not tell enough."""

    draws: FloatArray | Predictor
    family: Family
    size = 0

    def __call__(self, _start: int, block: WeightedData, _bar: Threshold) -> BlockPart:
        """Return the sums of a block."""
        values, variance, first = cumulants(self.draws, block, self.family)
        w = block.weights
        return BlockPart(values, np.array([w.sum(), variance, w @ first**2, 0.0]), None, first)


class Gathered:
    """Sums over the rows so far; it stays where the pass is begun."""

    def __init__(self, plan: RowSumsPlan | EveryRowPlan) -> None:
        self._plan, self._pool, self._sums = plan, CandidatePool(plan.size), np.zeros(4)
        self.terms: Any = None  # of no rows

    def add(self, one: BlockPart) -> Threshold:
        """Take in a block; return the bar that rows of other blocks must pass."""
        self.terms = one.terms if self.terms is None else self.terms + one.terms
        self._sums = self._sums + one.sums
        return Threshold() if one.candidates is None else self._pool.add(one.candidates)

    def sample(self) -> Chosen:
        """Return the sample of the rows."""
        return select(self._pool.best(), self._plan.size, float(self._sums[3]))

    def row_sums(self, left_out: Draw, extra: Any = None) -> "RowSums":
        """Return the sums over the rows; the draws `left_out` are for the elpd."""
        plan, (weight, variance, square) = self._plan, map(float, self._sums[:3])
        near, sample = (plan.laplace, self.sample()) if isinstance(plan, RowSumsPlan) else (None, None)
        return RowSums(near, self.terms, sample, weight, variance, square, left_out, extra)


def gather(
    dataset: Dataset,
    plan: RowSumsPlan | EveryRowPlan,
    extra: Callable[[int, WeightedData], T],
    together: Callable[[list[T]], T],
    doing: str = "certifying",
) -> tuple[Gathered, T]:
    """Return sums over all rows, and ``extra(start, block)`` of each block, which `together` unites; one pass."""
    gathered, bar, parts = Gathered(plan), Threshold(), list[T]()

    def one(start: int, block: WeightedData) -> tuple[BlockPart, T]:
        return plan(start, block, bar), extra(start, block)

    for sums, other in dataset.map(one, doing, canonical=True):
        bar = gathered.add(sums)
        parts = [together([*parts, other])]
    return gathered, parts[0]


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums over all rows: to second order `near` a point, with a sample of the rows for what is beyond, or at draws.

    `terms` are the rows' log-likelihood and its derivatives at the point; without a point, those at the draws of
    `EveryRowPlan`. `variance` and `square` are those of `PassSums`. `extra` sums what else the pass was asked for.
    """

    near: Any  # `LaplaceApproximation`, `DrawnApproximation` or None
    terms: Any
    sample: Any  # `Chosen`, or None
    weight: float
    variance: float
    square: float
    left_out: Draw
    extra: Any = None

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        plan: RowSumsPlan | EveryRowPlan,
        doing: str = "certifying",
        *,
        extra: Callable[[WeightedData], Any] = len,
    ) -> "RowSums":
        """Return the sums of a plan; one pass. ``extra(block)`` is added up over the blocks."""
        late = math.inf

        def of_block(start: int, block: WeightedData) -> tuple[Draw, Any]:
            return rows_left_out(start, block, late), extra(block)

        def together(parts: list[tuple[Draw, Any]]) -> tuple[Draw, Any]:
            nonlocal late
            left, others = zip(*parts, strict=True)
            rows = left_out_of(list(left))
            late = rows.horizon(ROWS)
            return rows, reduce(add, others)

        gathered, others = gather(dataset, plan, of_block, together, doing)
        return gathered.row_sums(*others)

    def estimate(self, draws: Any, most: float = math.inf) -> Estimate:
        """Return log-likelihoods of all rows at draws, from the second-order terms and the sample.

        The standard error is infinite if it is above `most`.
        """
        sample, inclusion = self.sample.expanded(), self.sample.inclusion
        if isinstance(self.near, LaplaceApproximation):
            return Expansion(self.near.family, self.near.theta, self.terms, sample, inclusion).at_draws(draws, most)
        values, predictors = self.near.expanded(self.terms, draws)
        return with_remainders(values, sample, inclusion, self.near.family, predictors, most=most)

    def at(self, draws: FloatArray | Predictor) -> PassSums | None:
        """Return the sums at draws without a pass; None where the sample does not tell them."""
        values, error = Estimate(self.terms, 0.0) if self.near is None else self.estimate(draws, MAX_SUM_ERROR)
        if not error <= MAX_SUM_ERROR:
            return None
        return PassSums(values, self.variance, self.square, self.weight, self.left_out, self.near, error)


def _at_mode(laplace: Approximation, rows: WeightedData) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return rows' predictors and their variances, shape (n,) each, and `derivatives_of`, shape (4, n)."""
    eta, squares = laplace.predictors(rows)
    return eta, squares, derivatives_of(eta, rows.y, laplace.family)


def _remainder_sizes(
    laplace: Approximation, rows: WeightedData, eta: FloatArray, squares: FloatArray, derivatives: FloatArray
) -> FloatArray:
    """Return k_n of rows, shape (n,), given what `_at_mode` says about them."""
    family, r, curvature = laplace.family, np.sqrt(squares), np.abs(derivatives[2])
    if (wide := np.flatnonzero(r > _WIDE)).size:
        curvature[wide] = largest_curvature(eta[wide], rows.y[wide], _WITHIN_SDS * r[wide], family)
    return np.asarray(rows.weights * curvature * squares * r)


_DRAWS = 8  # that tell the variance of a row's predictor: within a half, enough for a probability


MIN_SAVING = 2  # times the sample's rows, below which evaluating all of them is as cheap


_PIECE = 1 << 21  # numbers of an array of effects at some draws


@dataclass(frozen=True, eq=False)
class DrawnApproximation:
    """The `elpd.Approximation` of draws: their mean, the first draw of `predictor`, and a few of them."""

    family: Family
    predictor: Predictor

    @classmethod
    def of(cls, family: Family, draws: Predictor) -> "DrawnApproximation":
        """Return that of draws, without what a pass does not ask for: the names of levels."""
        middle = draws.means()
        some = draws.take(evenly_spaced(len(draws), _DRAWS))
        factors = [
            Factor(replace(factor.grouping, levels=()), np.concatenate([mean.effects, factor.effects[some.at]]))
            for factor, mean in zip(draws.factors, middle.factors, strict=True)
        ]
        design = None if draws.design is None else replace(draws.design, groups=())
        return cls(family, Predictor(np.concatenate([middle.beta, some.beta]), factors, design))

    @property
    def theta(self) -> FloatArray:
        """The mean coefficients, shape (p,)."""
        return np.asarray(self.predictor.beta[0])

    @property
    def middle(self) -> Predictor:
        """The mean of the draws."""
        return self.predictor.take(slice(0, 1))

    def predictors(self, block: WeightedData) -> tuple[FloatArray, FloatArray]:
        """Return rows' predictors at the mean and their variances, shape (n,) each."""
        eta = self.predictor.eta(block)
        at_mean = np.ascontiguousarray(eta[:, 0])
        eta -= at_mean[:, None]
        return at_mean, np.asarray(np.vecdot(eta, eta) / _DRAWS)

    def terms(self, block: WeightedData) -> JointTerms:
        """Return the log-likelihood of rows and its derivatives at the mean."""
        return joint_terms(self.predictor, block, self.family)

    def expanded(self, terms: JointTerms, draws: Predictor) -> tuple[FloatArray, Predictors]:
        """Return the second-order log-likelihood at draws, shape (S,), and how draws move rows' predictors."""
        return second_order(terms, self.middle, draws)


def laplace_of_draws(family: Family, beta: FloatArray) -> LaplaceApproximation | None:
    """Return the normal density with mean and covariance of draws, shape (S, D); None where that is singular."""
    try:
        factor = np.linalg.cholesky(np.atleast_2d(np.cov(beta, rowvar=False)))
    except np.linalg.LinAlgError:  # draws that are few, or do not move along some direction
        return None
    return LaplaceApproximation(family, beta.mean(axis=0), np.asarray(factor, dtype=np.float64))


def second_order(terms: JointTerms, middle: Predictor, draws: Predictor) -> tuple[FloatArray, Predictors]:
    """Return the log-likelihood to second order at draws, shape (S,), and how draws move rows' predictors.

    `terms` are about the one draw `middle`; of each factor the draws may have more groups, whose effects do not count.
    """
    values, size = np.empty(len(draws)), max(1, _PIECE // max(len(terms.slope), 1))
    n_groups = [factor.n_groups for factor in middle.factors]
    center = effects_at(middle)[0]
    for start in range(0, len(draws), size):
        cut = slice(start, start + size)
        part = draws.take(cut)
        values[cut] = terms.at(part.beta - middle.beta, effects_at(part, n_groups) - center)

    def predictors(rows: WeightedData) -> tuple[FloatArray, FloatArray]:
        eta = middle.eta(rows)
        return eta[:, 0], draws.eta(rows) - eta

    return values, predictors


def effects_at(draws: Predictor, n_groups: Sequence[int] | None = None) -> FloatArray:
    """Return all effects at draws, shape (S, E), or those of the first groups of each factor."""
    places, n = slice(None) if draws.at is None else draws.at, len(draws)
    sizes = n_groups or [factor.n_groups for factor in draws.factors]
    effects = [
        factor.effects[places][:, :size].reshape(n, -1) for factor, size in zip(draws.factors, sizes, strict=True)
    ]
    return np.concatenate([np.empty((n, 0)), *effects], axis=1)


def full_rows(core: Coreset, data: Any, y: Any, *, progress: bool, **roles: Any) -> Dataset:
    """Return the full data in the design of `core`.

    Raises
    ------
    DataError
        If they have other features or labels than the data that `core` was built from, or if y or another of `Roles`
        is given beside a `Coreset`, which has its own.
    """
    if isinstance(data, Coreset):
        Roles(y, **roles).check_none("a Coreset")
        if data.design != core.design:
            raise DataError("data has another design than the coreset; build both with the same intercept and scaling")
        if data.classes != core.classes:
            raise DataError(
                f"data has {response_text(data.classes)}, the coreset {response_text(core.classes)}; give the data it "
                "came from"
            )
        design = core.design.with_weights() if data.design.weighted else core.design
        return Dataset(data.as_source(), design, progress=progress)
    return open_in(core.design, data, y, progress=progress, whose="the coreset was built from", **roles)


def has_weights(data: Any, weights: Any) -> bool:
    """Whether the full data are given with weights, or are a coreset of rows that had some."""
    return weights is not None or (isinstance(data, Coreset) and data.design.weighted)


def check_finite(dataset: Dataset, sums: FloatArray | float) -> None:
    """Check the rows where sums over them are not finite; elsewhere a pass that looks at each entry is saved.

    Raises
    ------
    DataError
        If an entry is NaN, infinite or too large; the message names its column and counts the rows.
    """
    if not np.isfinite(sums).all():
        _ = dataset.scan


def check_weight(core: Coreset, weight: float) -> None:
    """Raise `DataError` unless the data that were passed over weigh as much as those that `core` stands for."""
    if not math.isclose(weight, core.weight_total, rel_tol=1e-6):
        raise DataError(
            f"data has the total weight {weight:,.10g}, the coreset stands for {core.weight_total:,.10g}; give the "
            "rows that it was built from, with their weights"
        )
