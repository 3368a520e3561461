r"""Probit coresets of a stream, in one pass (Peters 2021, Algorithms 4 and 5).

A block of rows is first added to the R factor of X'WX and to the total weight, and then scored against both,

.. math:: \hat l_n = w_n x_n' (X'WX)_{\text{so far}}^+ x_n, \qquad \hat a_n = \hat l_n + w_n / W_{\text{so far}}.

Both only grow, so the scores still bound the sensitivities; the source divides by the final W, and the running one adds
O(log N) to the sum. A row's rate never changes, and the earliest M arrivals (`draw`) of the rates so far are a coreset
of the rows so far. When to use it: rows that come once and are not kept; elsewhere `leverage` is sharper.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from bayescore.coresets.leverage import check_rank, rates_of, score_total
from bayescore.coresets.method import BuildInfo, BuildResult, Method, check_enough, rows_from_arrays, rows_to_arrays
from bayescore.coresets.scores import block_factor, joined_factor, whitening
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design, append_offset
from bayescore.data.source import block_rows
from bayescore.families import Family
from bayescore.files import Arrays
from bayescore.numerics.sampling import Draw, block_draw, merge, weighted
from bayescore.types import FloatArray, WeightedData


@dataclass(frozen=True)
class OnlineInfo(BuildInfo):
    """Draws, rank of the rows, and sum of the s_n."""

    draws: int
    rank: int
    score_total: float


@dataclass(frozen=True, eq=False)
class OnlineState:
    """All that is kept of the rows so far: R factor, total weight, count, and the earliest arrivals."""

    size: int
    seed: int
    factor: FloatArray
    weight: float = 0.0
    n_rows: int = 0
    drawn: Draw | None = None

    def absorbed(self, block: WeightedData) -> Self:
        """Return the state with another canonical block."""
        return self.with_factor(block, block_factor(append_offset(block)))

    def with_factor(self, block: WeightedData, part: FloatArray) -> Self:
        """Return the state with another canonical block, whose R factor is `part`: an offset is a column to both."""
        before_it = self.factor if self.n_rows else np.empty((0, part.shape[1]))
        factor, weight = joined_factor(before_it, part), self.weight + float(block.weights.sum())
        rates = rates_of(whitening(factor).leverage(append_offset(block)), block.weights, weight)
        before = [] if self.drawn is None else [self.drawn]
        late = min((drawn.horizon(self.size) for drawn in before), default=np.inf)
        new = block_draw(block, self.n_rows, rates, self.size, self.seed, late=late)
        return replace(
            self, factor=factor, weight=weight, n_rows=self.n_rows + len(block), drawn=merge([*before, new], self.size)
        )

    def answer(self, rest: WeightedData | None = None) -> BuildResult[OnlineInfo]:
        """Return the coreset of the rows so far."""
        if rest is not None:
            return self.absorbed(rest).answer()
        white = whitening(self.factor)
        check_rank(white)
        assert self.drawn is not None
        info = OnlineInfo(self.size, white.rank, score_total(self.drawn.total))
        return BuildResult(weighted(self.drawn, self.size), info, Online())

    def cut(self, size: int) -> Self:
        """Return the state as if `size`, no more than it has, had been asked for."""
        return replace(self, size=size, drawn=self.drawn and self.drawn.earliest(size))

    def to_arrays(self) -> Arrays:
        """Return the state as arrays."""
        counts = {"n_rows": np.array(self.n_rows), "weight": np.array(self.weight), "factor": self.factor}
        if (drawn := self.drawn) is None:
            return counts
        arrays = {"times": drawn.times, "positions": drawn.positions, "rates": drawn.rates}
        total = np.array(str(drawn.total))  # may be above 2^63
        return {**counts, **arrays, "total": total, **rows_to_arrays("drawn", drawn.rows)}

    def from_arrays(self, arrays: Arrays) -> Self:
        """Return the state of `to_arrays`, given that before the first row."""
        drawn = None
        if "times" in arrays:
            rows, total = rows_from_arrays("drawn", arrays), int(str(arrays["total"]))
            drawn = Draw(arrays["times"], arrays["positions"], arrays["rates"], rows, total)
        n_rows, weight = int(arrays["n_rows"]), float(arrays["weight"])
        return replace(self, factor=arrays["factor"], weight=weight, n_rows=n_rows, drawn=drawn)


def online_pass(dataset: Dataset, size: int, seed: int) -> OnlineState:
    """Draw on-line, in one pass.

    Each block is scored against all blocks before it, so the rows come to this process, wherever they are kept.
    """
    state = OnlineState(size, seed, np.empty((0, dataset.n_features)))
    for block, part in dataset.map(
        lambda _, block: (block, block_factor(append_offset(block))), "drawing rows", canonical=True, here=True
    ):
        state = state.with_factor(block, part)
    return state


@dataclass(frozen=True)
class Online(Method):
    """Draws by leverage scores against the rows so far (Peters 2021): one pass, also of a `stream`.

    No options. The guarantee (`leverage_size`) is for the probit.

    Examples
    --------
    >>> import bayescore as bc
    >>> X, y = bc.datasets.probit(5000, [1.0, 0.0], random_state=0)
    >>> core = bc.build_coreset(X, y, method="online", size=100, family="probit", random_state=1, progressbar=False)
    >>> core.method, core.n_total
    ('online', 5000)
    """

    name: ClassVar[str] = "online"
    one_pass: ClassVar[bool] = True
    needs_mu: ClassVar[bool] = True

    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> BuildResult[OnlineInfo]:
        """Draw on-line, in one pass."""
        draws = self.draws(dataset, size)
        state = online_pass(dataset, draws, seed)
        check_enough(size, state.n_rows)
        return state.cut(min(draws, state.n_rows)).answer()

    def stream_block(self, size: int, n_features: int) -> int:
        """Return the rows of a canonical block."""
        return block_rows(n_features)

    def begin(self, size: int, design: Design, seed: int, family: str) -> OnlineState:
        """Return the state before the first row."""
        return OnlineState(size, seed, np.empty((0, len(design.names))))
