r"""Reductions: fewer weighted rows that stand for given ones, which may be a coreset themselves.

What a node of a merge-and-reduce tree (`tree`) does. An eps'-coreset of an eps-coreset is a coreset with
(1 + eps)(1 + eps') - 1; the epsilons here are those that the sizes' theorems give, with their constant c = 1.

A calibrated reduction meets the totals of the rows that it replaces at a point near the mode of *all* rows so far:
their score, curvature, third derivatives and log-likelihood there. So errors do not pile up with the height of the
tree: what a node misses is of third order in the distance from that point to the final mode, and no reduction draws
anew what the one before it left to chance.
"""

import math
from dataclasses import dataclass

import numpy as np

from bayescore.coresets.aggregate import aggregate
from bayescore.coresets.calibrated import Calibration
from bayescore.coresets.drift import whitened
from bayescore.coresets.fixed_size import draw_candidates
from bayescore.coresets.leverage_coreset import leverage_coreset, leverage_epsilon
from bayescore.coresets.pilot import sums_at
from bayescore.coresets.sensitivity import sensitivity_coreset, sensitivity_epsilon
from bayescore.data.opened import Opened
from bayescore.data.sources import as_source
from bayescore.models.likelihoods import LIKELIHOODS
from bayescore.models.newton import Mode, find_mode
from bayescore.models.posterior import posterior
from bayescore.models.priors import Normal
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import check_choice, check_positive

REDUCTIONS = ("calibrated", "sensitivity", "leverage")
MAX_LEAF = 1 << 31
WEAK = Normal(0.0, 4.0)  # under which calibrated reductions seek the mode


@dataclass(frozen=True, eq=False)
class Reduced:
    """Rows that stand for others, and what was lost.

    Parameters
    ----------
    rows : WeightedData
        The rows.
    loss : float
        Epsilon; of a calibrated reduction the largest whitened score that the weights miss, in posterior sds.
    radius : float
        Radius of the ball that epsilon holds on, for "sensitivity"; else infinite.
    anchor : array, shape (D,), optional
        Where a calibrated reduction meets the totals.
    kept : bool
        Whether there were no more rows than asked for, so that all are there as they were.
    """

    rows: WeightedData
    loss: float
    radius: float = math.inf
    anchor: FloatArray | None = None
    kept: bool = False


@dataclass(frozen=True)
class Reducer:
    """How rows are reduced: "sensitivity", "leverage" or "calibrated", to how many, for which likelihood.

    `mu`, for the epsilons of "leverage", is a bound of the complexity of every leaf and node.
    """

    method: str
    size: int
    likelihood: str
    mu: float | None = None

    def __call__(self, rows: WeightedData, seed: int, delta: float, anchor: FloatArray | None = None) -> Reduced:
        """Return at most `size` rows in place of `rows`; their epsilon fails with probability delta."""
        # identical rows are one with their weights: nothing is lost, and what is left can be told apart
        few = max(self.size, len(rows) // 4)
        if len(rows) > self.size and (merged := aggregate(Opened(as_source(rows)), few)) is not None:
            rows = merged
        if len(rows) <= self.size:
            needed = anchor is None and self.method == "calibrated"
            return Reduced(rows, 0.0, anchor=self.mode(rows).beta if needed else anchor, kept=True)
        opened = Opened(as_source(rows))
        if self.method == "sensitivity":
            chosen, params = sensitivity_coreset(opened, self.size, seed)
            epsilon = sensitivity_epsilon(params["mean_sensitivity"], rows.n_features, self.size, delta)
            return Reduced(chosen, epsilon, params["radius"])
        if self.method == "leverage":
            chosen, params = leverage_coreset(opened, self.size, seed)
            if self.mu is None or abs(int(rows.y.sum(dtype=np.int64))) == len(rows):  # of one label mu is infinite
                return Reduced(chosen, math.nan)
            span = opened.scan.weight_total / opened.scan.smallest_weight
            epsilon = leverage_epsilon(rows.n_features, self.size, delta, self.mu, span, params["score_total"])
            return Reduced(chosen, epsilon)
        return self._calibrated(opened, rows, seed, anchor)

    def mode(self, rows: WeightedData) -> Mode:
        """Return the mode of the posterior of rows, to 0.01 sd."""
        target = posterior(rows, self.likelihood, WEAK)
        return find_mode(target.terms, np.zeros(rows.n_features), tolerance=0.01)

    def _calibrated(self, opened: Opened, rows: WeightedData, seed: int, anchor: FloatArray | None) -> Reduced:
        theta = self.mode(rows).beta if anchor is None else anchor
        link = LIKELIHOODS[self.likelihood]
        white, part = whitened(rows, theta, link, WEAK)
        sums = sums_at(opened, white)
        draw_seed, own_seed = np.random.default_rng(seed).integers(2**62, size=2).tolist()
        candidates = draw_candidates(opened, sums.probability, self.size, draw_seed)
        calibration = Calibration(opened, link, WEAK, sums, part, candidates, own_seed, draw_seed, self.size)
        fitted = calibration.fit(self.size)
        return Reduced(fitted.rows, fitted.residual_mean, anchor=theta)


def check_reduction(method: str, likelihood: str, size: int, mu: float | None) -> Reducer:
    """Return a reducer.

    Raises
    ------
    ValueError
        If the method is unknown or does not fit the likelihood, or mu is below 1 or serves nothing.
    """
    check_choice(method, "reduce", REDUCTIONS)
    if method == "sensitivity" and likelihood != "logistic":
        raise ValueError(
            f"reduce='sensitivity' bounds the logistic likelihood only; likelihood={likelihood!r}: use 'calibrated'"
        )
    if mu is not None:
        if method != "leverage" or likelihood != "probit":
            raise ValueError(
                f"mu={mu} serves the epsilon of reduce='leverage' with likelihood='probit'; with reduce={method!r} and "
                f"likelihood={likelihood!r} leave it out"
            )
        if not check_positive(mu, "mu") >= 1.0:
            raise ValueError(f"mu={mu:g} must be at least 1, as for all data")
    return Reducer(method, size, likelihood, None if mu is None else float(mu))
