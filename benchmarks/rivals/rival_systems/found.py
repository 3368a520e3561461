"""What systems are given and what they return."""

from dataclasses import dataclass
from math import nan

import numpy as np

import bayescore as bc

PRIOR = bc.priors.Normal(0, 4)


@dataclass(frozen=True)
class Rows:
    """The design with its intercept, shape (N, D), labels -1 and 1, and the seed of whatever is random."""

    X: np.ndarray
    y: np.ndarray
    seed: int = 0

    @property
    def full(self) -> bc.Coreset:
        """All rows, each of weight 1."""
        return bc.all_rows(self.X, self.y, progressbar=False)


@dataclass(frozen=True)
class Found:
    """Mean, shape (D,), and covariance of a posterior as a system sees it, and what is to be said of the run.

    Of a mode there is no covariance. Runs that were scaled from few gradients have `ess`, the effective sample sizes
    of their draws' means and sds, shape (2, D), and their own processor seconds.
    """

    mean: np.ndarray | None = None
    covariance: np.ndarray | None = None
    timed: str = "whole"
    passes: float = nan
    ess: np.ndarray | None = None
    cpu: float | None = None


def of_draws(draws: np.ndarray, timed: str = "whole", passes: float = nan) -> Found:
    """Return the moments of draws, shape (..., D)."""
    flat = draws.reshape(-1, draws.shape[-1])
    return Found(flat.mean(axis=0), np.cov(flat.T), timed, passes)
