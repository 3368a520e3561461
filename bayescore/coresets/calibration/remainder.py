r"""What is left of the full data's log-likelihood beyond second order, estimated from some of its rows.

With value, gradient g and minus the Hessian H of the log-likelihood known at a point t,

.. math:: L(\theta) = L(t) + g'\delta - \tfrac12 \delta' H \delta + \sum_n w_n e_n(\theta), \qquad \delta = \theta - t,

so that only the remainders e_n have to be summed. A row's is of the order of its `reach`,

.. math:: w \left(|l'''| |zL|^3 / 6 + |c| |zL|^4 / 24\right),

LL' the posterior's covariance; rows are drawn by that and by 0.1 of an equal share, without replacement, and weigh
w / pi in the sum, whose standard error over rows is known too (Horvitz and Thompson 1952, for Poisson sampling). Where
draws lie far from t, as on separated data, that error is large, and a pass over all rows is needed. Neither sum nor
error includes what the sample missed: a few rows that contribute little at t and much at the draws may be absent.
`certify` passes over all rows.

When to use it: for the log-likelihood of many rows at many points near their mode.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayescore.models.families import Family
from bayescore.models.posterior import Derivatives
from bayescore.models.row_kernels import remainders_near
from bayescore.types import FloatArray, WeightedData

EQUAL_SHARE = 0.1  # of the probabilities, for rows that move only far out
SAMPLE_ROWS = 20_000  # beyond that a pass over all rows is dearer only where there are many
SAMPLE_ENTRIES = 4_000_000  # of the sample, 32 MB
LEAST_ROWS = 2000  # of the sample, 200 of them by equal shares: enough to tell its own standard error
WIDE_ROWS = 5000  # of the sample, however wide: 20 MB at 500 columns
_CACHE = 1 << 17  # entries of a tile of rows: 1 MB


def sample_rows(reach: float, error: float, n_features: int) -> int:
    """Return how many rows a sample needs for half of a standard error, if their reaches add up to `reach`.

    The remainder of a row is about its reach times xi^3, xi standard normal, so that m rows have the standard error
    sqrt(15 / m) times the sum of all reaches: 15 is the variance of xi^3. Where rows do not behave so, the standard
    error of the sample itself decides. The result is at least `LEAST_ROWS`, and at most `SAMPLE_ROWS`, or `WIDE_ROWS`
    where rows are wide.
    """
    return int(min(largest_sample(n_features), max(LEAST_ROWS, 15.0 * (2.0 * reach / error) ** 2)))


def largest_sample(n_features: int) -> int:
    """Return the most rows that a sample of rows with so many columns has."""
    return max(WIDE_ROWS, min(SAMPLE_ROWS, SAMPLE_ENTRIES // n_features))


class Estimate(NamedTuple):
    """Values at draws, shape (S,), up to a constant, and the standard error of their differences."""

    values: FloatArray
    error: float


@dataclass(frozen=True, eq=False)
class Expansion:
    """The log-likelihood of many rows to second order at a point, and a sample of them for what is left.

    `part` is of all rows at `at`; the sample has weights w / pi, with pi = `inclusion`.
    """

    family: Family
    at: FloatArray
    part: Derivatives
    rows: WeightedData
    inclusion: FloatArray

    def at_draws(self, draws: FloatArray) -> Estimate:
        """Return the log-likelihood of all rows at draws, shape (S, D), and its standard error.

        The error is the RMS standard error, over draws, of the centred log-likelihood; it bounds the RMS error, over
        samples, of the mean of any unit-variance function of the draws.
        """
        moves = draws - self.at
        part = self.part
        values = part.value + moves @ part.gradient - 0.5 * ((moves @ part.precision) * moves).sum(axis=1)
        columns = np.ascontiguousarray(moves.T)

        def predictors(rows: WeightedData) -> tuple[FloatArray, FloatArray]:
            return rows.with_offset(rows.X @ self.at), rows.X @ columns

        return with_remainders(values, self.rows, self.inclusion, self.family, predictors)


def with_remainders(
    values: FloatArray,
    sample: WeightedData,
    inclusion: FloatArray,
    family: Family,
    predictors: Callable[[WeightedData], tuple[FloatArray, FloatArray]],
) -> Estimate:
    """Return values to second order at draws, shape (S,), and what rows are beyond, from a sample of weights w / pi.

    ``predictors(rows)`` gives the rows' predictors at the point, shape (n,), and how draws move them, shape (n, S).
    """
    n_draws = len(values)
    variance, step = 0.0, max(1, _CACHE // n_draws)
    for start in range(0, len(sample), step):
        cut = slice(start, start + step)
        rows = sample.take(cut)
        eta, rest = predictors(rows)
        remainders_near(eta, rows.y, family, rest)
        w = rows.weights
        values = values + w @ rest
        spread = np.vecdot(rest, rest) / n_draws - rest.mean(axis=1) ** 2
        variance += float((w**2 * (1.0 - inclusion[cut])) @ np.maximum(spread, 0.0))
    return Estimate(values, float(np.sqrt(variance)))
