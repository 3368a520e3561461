r"""Reductions: fewer weighted rows that stand for given ones, which may be a coreset themselves.

What a node of a merge-and-reduce tree (`tree`) does, by any method that is `Reducing`. An eps'-coreset of an
eps-coreset is a coreset with (1 + eps)(1 + eps') - 1; the epsilons here are those that the sizes' theorems give, with
their constant c = 1.

A calibrated reduction meets the totals of the rows that it replaces at a point near the mode of *all* rows so far:
their score, curvature, third derivatives and log-likelihood there. So errors do not pile up with the height of the
tree: what a node misses is of third order in the distance from that point to the final mode, and no reduction draws
anew what the one before it left to chance.
"""

from dataclasses import dataclass

from bayescore.coresets.aggregate import aggregate
from bayescore.coresets.reducing import Anchored, ReduceRequest, ReduceResult, Reducing
from bayescore.data.opened import Opened
from bayescore.data.sources import as_source
from bayescore.models.likelihoods import check_likelihood
from bayescore.types import FloatArray, Likelihood, WeightedData


@dataclass(frozen=True)
class Reducer:
    """How rows are reduced: by which method, to how many, for which likelihood.

    `mu`, for the epsilons of methods that need it, is a bound of the complexity of every leaf and node.
    """

    method: Reducing
    size: int
    likelihood: str
    mu: float | None = None

    @property
    def link(self) -> Likelihood:
        """The likelihood; a worker elsewhere must have registered it too."""
        return check_likelihood(self.likelihood)

    def __call__(
        self, rows: WeightedData, seed: int, delta: float, anchor: FloatArray | None = None, share: float = 1.0
    ) -> ReduceResult:
        """Return at most `size` rows in place of `rows`; their epsilon fails with probability delta.

        `anchor` and `share` are those of `ReduceRequest`.
        """
        # identical rows are one with their weights: nothing is lost, and what is left can be told apart
        few = max(self.size, len(rows) // 4)
        if len(rows) > self.size and (merged := aggregate(Opened(as_source(rows)), few)) is not None:
            rows = merged
        if len(rows) <= self.size:
            if anchor is None and isinstance(self.method, Anchored):
                anchor = self.method.mode(rows, self.link).beta
            return ReduceResult(rows, 0.0, anchor=anchor, kept=True)
        return self.method.reduced(rows, ReduceRequest(self.size, seed, self.link, delta, self.mu, anchor, share))
