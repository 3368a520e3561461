r"""Log-likelihoods of all rows at many draws of coefficients and effects, for about the price of one pass.

As in `row_sums`, with the effects' columns beside those of the coefficients. A row has few of them, so the exact totals
to second order are sparse (`models.joint_terms`); they are taken at the draws' mean. The variances of rows' predictors,
which say how likely a row is in the sample for what is left, are those over a few of the draws. Only these travel to
workers; what comes back are sums and rows of the sample.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from bayescore.coresets.calibration.remainder import with_remainders
from bayescore.coresets.sampling.draw import Draw
from bayescore.coresets.sampling.fixed_size import Chosen
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.design import Grouping
from bayescore.diagnostics.elpd import PassSums, left_out_of, rows_left_out
from bayescore.diagnostics.row_sums import Look, gather
from bayescore.limits import MAX_SUM_ERROR
from bayescore.models.families import Family
from bayescore.models.joint_terms import JointTerms, joint_terms
from bayescore.models.predictor import Factor, Predictor
from bayescore.types import FloatArray, WeightedData

_DRAWS = 8  # that tell the variance of a row's predictor: within a half, enough for a probability
SAVES = 2  # times the sample's rows, below which evaluating all of them is as cheap
_PIECE = 1 << 21  # numbers of an array of effects at some draws


@dataclass(frozen=True, eq=False)
class DrawnApproximation:
    """The `row_sums.Approximation` of draws: their mean, the first draw of `predictor`, and a few of them."""

    family: Family
    predictor: Predictor

    @classmethod
    def of(cls, family: Family, draws: Predictor) -> "DrawnApproximation":
        """Return that of draws, without what a pass does not ask for: the names of levels."""
        middle = draws.means()
        some = draws.take(np.linspace(0, len(draws) - 1, _DRAWS).round().astype(np.int64))
        factors = [
            Factor(
                Grouping(own.grouping.name, (), own.grouping.effects),
                np.concatenate([mean.effects, own.effects[some.at]]),
            )
            for own, mean in zip(draws.factors, middle.factors, strict=True)
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
        here = np.ascontiguousarray(eta[:, 0])
        eta -= here[:, None]
        return here, np.asarray(np.vecdot(eta, eta) / _DRAWS)

    def terms(self, block: WeightedData) -> JointTerms:
        """Return the log-likelihood of rows and its derivatives at the mean."""
        return joint_terms(self.predictor, block, self.family)


@dataclass(frozen=True, eq=False)
class JointSums:
    """Sums over all rows at the mean of draws, and a sample of the rows for what is beyond second order.

    `beside` is the sum of what the pass was asked for beside. The others are as in `RowSums`.
    """

    near: DrawnApproximation
    terms: JointTerms
    sample: Chosen
    weight: float
    variance: float
    square: float
    left_out: Draw
    beside: Any

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        core: Coreset,
        family: Family,
        draws: Predictor,
        beside: Callable[[WeightedData], Any],
    ) -> "JointSums":
        """Look at all rows at the mean of the draws; one pass. ``beside(block)`` is added up over the blocks."""
        near = DrawnApproximation.of(family, draws)

        def of_block(start: int, block: WeightedData) -> tuple[Draw, Any]:
            return rows_left_out(start, block), beside(block)

        def together(parts: list[tuple[Draw, Any]]) -> tuple[Draw, Any]:
            left, others = zip(*parts, strict=True)
            return left_out_of(list(left)), reduce(add, others)

        gathered, found = gather(dataset, Look.near(near, core), of_block, together)
        return cls(near, gathered.terms, gathered.sample(), *gathered.sums, *found)

    def at(self, draws: Predictor) -> PassSums | None:
        """Return the sums at draws without a pass; None where the sample does not tell them."""
        middle, n = self.near.middle, len(draws)
        values, step = np.empty(n), max(1, _PIECE // max(len(self.terms.slope), 1))
        center = effects_at(self.near.predictor)[0]
        for start in range(0, n, step):
            cut = slice(start, start + step)
            part = draws.take(cut)
            values[cut] = self.terms.at(part.beta - self.near.theta, effects_at(part) - center)

        def predictors(rows: WeightedData) -> tuple[FloatArray, FloatArray]:
            eta = middle.eta(rows)
            return eta[:, 0], draws.eta(rows) - eta

        sample, inclusion = self.sample.expanded(), self.sample.inclusion
        values, error = with_remainders(values, sample, inclusion, self.near.family, predictors)
        if not error <= MAX_SUM_ERROR:
            return None
        return PassSums(values, self.variance, self.square, self.weight, self.left_out, self.near, error)


def effects_at(draws: Predictor) -> FloatArray:
    """Return all effects at draws, shape (S, E)."""
    at = slice(None) if draws.at is None else draws.at
    n = len(draws)
    return np.concatenate([np.empty((n, 0)), *(own.effects[at].reshape(n, -1) for own in draws.factors)], axis=1)
