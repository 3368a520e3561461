"""Reducers: replace weighted rows by fewer, with an error bound, at the nodes of merge-and-reduce trees.

A method is a `Reducer` if it has `reduce`. It is an `AnchoredReducer` if its rows meet totals at a point, the anchor,
and it can estimate the error of their score at other points.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from bayescore.data.dataset import Dataset
from bayescore.models.families import Family
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, WeightedData

# covariance, shape (D, D), of the error at the second point of the score of rows that meet totals at the first
ScoreError = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class ReduceRequest:
    """A size, and what else a reducer may need."""

    size: int  # rows to keep at most
    seed: int
    family: Family
    delta: float  # probability that epsilon may fail
    anchor: FloatArray | None = None  # shape (D,), where anchored rows meet the totals; None for the rows' own mode
    share: float = 1.0  # share of these rows in those whose mode the anchor is


@dataclass(frozen=True, eq=False)
class ReduceResult:
    """Fewer rows in place of others, and the error of that."""

    rows: WeightedData
    loss: float = math.nan  # epsilon; for anchored rows the largest whitened score that they miss, in posterior sds
    radius: float = math.inf  # of the ball of coefficients that epsilon holds on
    anchor: FloatArray | None = None  # shape (D,), where anchored rows meet the totals
    kept: bool = False  # whether all rows were kept, as there were no more than asked for
    lost: FloatArray | None = None  # shape (D, D), `drift.lost_by`: covariance of the score missed off the anchor


@runtime_checkable
class Reducer(Protocol):
    """A method that can reduce weighted rows, which may be a coreset themselves."""

    def check_size(self, size: int, n_features: int) -> None:
        """Raise `ValueError` if `size` rows cannot stand for rows of so many columns."""

    def reduce(self, rows: WeightedData, request: ReduceRequest) -> ReduceResult:
        """Return fewer rows in place of `rows`."""


@runtime_checkable
class AnchoredReducer(Reducer, Protocol):
    """A reducer whose rows meet totals at a point near the mode of all rows so far; a tree keeps that point."""

    def mode_prior(self) -> Prior:
        """Return the prior under which modes are found."""

    def score_error(self, rows: WeightedData, family: Family, lost: FloatArray | None) -> ScoreError:
        """Return the covariance of what the score of `rows` misses; `lost` is that of `ReduceResult`."""

    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> Any:
        """Return a coreset whose info has `mean_error` and `sd_error`: the answer of the tree."""
