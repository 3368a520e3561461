"""What a method is that trees reduce by: it puts fewer weighted rows in place of others, and says what that costs.

A method declares itself fit by being `Reducing`; one whose rows meet totals at a point is `Anchored`.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayescore.coresets.calibration.drift import scale_at
from bayescore.coresets.method import BuildInfo, Method
from bayescore.data.opened import Opened
from bayescore.data.sources import as_source
from bayescore.models.newton import Mode, find_mode
from bayescore.models.posterior import posterior
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, Likelihood, WeightedData

# covariance, shape (D, D), of the error at the second point of the score of rows that meet totals at the first
Missed = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class ReduceResult:
    """Rows that stand for others, and what was lost.

    Parameters
    ----------
    rows : WeightedData
        The rows.
    loss : float
        Epsilon, NaN if unknown; of a calibrated reduction the largest whitened score that the weights miss, in
        posterior sds.
    radius : float
        Radius of the ball that epsilon holds on; infinite if on all points.
    anchor : array, shape (D,), optional
        Where a calibrated reduction meets the totals.
    kept : bool
        Whether there were no more rows than asked for, so that all are there as they were.
    lost : array, shape (D, D), optional
        Covariance of what the score of pseudo-rows misses away from the anchor, for each unit of the square of their
        own whitened remainder there (`condensing.drift`).
    """

    rows: WeightedData
    loss: float
    radius: float = math.inf
    anchor: FloatArray | None = None
    kept: bool = False
    lost: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class ReduceRequest:
    """What a reduction is asked: how many rows, its seed, the likelihood, and what its epsilon depends on.

    `delta` is the probability with which epsilon may fail, `mu` a bound of the complexity of the rows, `anchor` the
    point where calibrated rows meet the totals; None for the mode of the rows themselves. It is the mode of more rows,
    of which these are about `share`.
    """

    size: int
    seed: int
    likelihood: Likelihood
    delta: float
    mu: float | None = None
    anchor: FloatArray | None = None
    share: float = 1.0


@dataclass(frozen=True)
class Reducing(Method):
    """A method fit to reduce weighted rows, which may be a coreset themselves: what nodes of a tree do (`tree`).

    Attributes
    ----------
    loss : str
        What a node's loss is called.
    """

    loss: ClassVar[str] = "epsilon"

    @property
    def mu_likelihoods(self) -> tuple[str, ...]:
        """Links for which a bound mu of the complexity gives a reduction's epsilon."""
        return ()

    def check_nodes(self, size: int, n_features: int) -> None:
        """Raise `ValueError` if a coreset of `size` rows is too small for rows of so many columns."""
        return

    def reduced(self, rows: WeightedData, asked: ReduceRequest) -> ReduceResult:
        """Return fewer rows in place of `rows`; what that costs is not known unless the method says."""
        built = self.build(Opened(as_source(rows)), asked.size, asked.seed, asked.likelihood)
        return ReduceResult(built.rows, math.nan)

    def composed(self, below: float, own: float) -> float:
        """Return the loss of a reduction of what has a loss already."""
        return (1.0 + below) * (1.0 + own) - 1.0


@dataclass(frozen=True, eq=False)
class TreeAnswer:
    """Rows that stand for all nodes of a tree, the errors to expect of that, and what else is known.

    `mean_error` is that of a mean, in posterior sds, `sd_error` relative.
    """

    rows: WeightedData
    mean_error: float
    sd_error: float
    info: BuildInfo


@dataclass(frozen=True)
class Anchored(Reducing):
    """A method whose rows meet totals at a point: a tree keeps it, and tells what they miss elsewhere (`drift`)."""

    loss: ClassVar[str] = "residual"

    @property
    @abstractmethod
    def mode_prior(self) -> Prior:
        """Prior under which modes are sought."""

    @abstractmethod
    def answered(self, rows: WeightedData, asked: ReduceRequest) -> TreeAnswer:
        """Return the last reduction of a tree, and what it costs beside what the nodes lost."""

    @abstractmethod
    def missed(self, rows: WeightedData, likelihood: Likelihood, lost: FloatArray | None) -> Missed:
        """Return the covariance of what the score of `rows` misses, as a function of where they meet totals and where.

        `lost` is that of `ReduceResult`.
        """

    def scale(self, rows: WeightedData, theta: FloatArray, likelihood: Likelihood) -> FloatArray:
        """Return the scale, shape (D, D), in which the posterior of rows is round at theta."""
        return scale_at(rows, theta, likelihood, self.mode_prior)[0].factor

    def mode(self, rows: WeightedData, likelihood: Likelihood) -> Mode:
        """Return the mode of the posterior of rows, to 0.01 sd: where those that are kept as they are meet totals."""
        terms = posterior(rows, likelihood, self.mode_prior).terms
        return find_mode(terms, np.zeros(rows.n_features), tolerance=0.01)

    def composed(self, below: float, own: float) -> float:
        """Return the loss of a reduction of what has a loss already: scores missed add up."""
        return below + own
