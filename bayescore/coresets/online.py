r"""Probit coresets of a stream, in one pass (Peters 2021, Algorithms 4 and 5).

A block of rows is first added to the R factor of X'WX and to the total weight, and then scored against both,

.. math:: \hat l_n = w_n x_n' (X'WX)_{\text{so far}}^+ x_n, \qquad \hat a_n = \hat l_n + w_n / W_{\text{so far}}.

Both only grow, so the scores are no less than the final ones and still bound the sensitivities; the source divides by
the final W, which a stream does not know, and the running one adds O(log N) to the sum. Once scored, a row has a rate
that never changes, and the earliest M arrivals (`draw`) of the rates so far are a coreset of the rows so far.

When to use it: rows that come once and are not kept. Where they can be read twice, `leverage` is sharper.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from bayescore.coresets.leverage import check_rank, rates_of, score_total
from bayescore.coresets.method import BuildInfo, BuildResult, Method, check_enough
from bayescore.coresets.sampling.draw import Draw, block_draw, merge, weighted
from bayescore.coresets.scores.factor import block_factor, joined_factor, whitening
from bayescore.coresets.trees.incremental import BlockStream, rows_from_arrays, rows_to_arrays
from bayescore.data.checkpoint import Arrays
from bayescore.data.opened import Opened
from bayescore.data.passes.cutter import block_rows
from bayescore.types import FloatArray, Likelihood, WeightedData, lifted
from bayescore.validation import RandomState, one_seed


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

    def absorb(self, block: WeightedData, part: FloatArray) -> Self:
        """Return the state with another canonical block, whose R factor is `part`: an offset is a column to both."""
        before_it = self.factor if self.n_rows else np.empty((0, part.shape[1]))
        factor, weight = joined_factor(before_it, part), self.weight + float(block.weights.sum())
        rates = rates_of(whitening(factor).leverage(lifted(block)), block.weights, weight)
        before = [] if self.drawn is None else [self.drawn]
        late = min((drawn.horizon(self.size) for drawn in before), default=np.inf)
        new = block_draw(block, self.n_rows, rates, self.size, self.seed, late=late)
        return replace(
            self,
            factor=factor,
            weight=weight,
            n_rows=self.n_rows + len(block),
            drawn=merge([*before, new], self.size),
        )

    def result(self) -> BuildResult[OnlineInfo]:
        """Return the coreset of the rows so far."""
        white = whitening(self.factor)
        check_rank(white)
        assert self.drawn is not None
        info = OnlineInfo(self.size, white.rank, score_total(self.drawn.total))
        return BuildResult(weighted(self.drawn, self.size), info, Online())

    def cut(self, size: int) -> Self:
        """Return the state as it would be had `size`, no more than it has, been asked for."""
        return replace(self, size=size, drawn=self.drawn and self.drawn.earliest(size))


def empty_state(size: int, seed: int, n_features: int) -> OnlineState:
    """Return the state before the first row."""
    return OnlineState(size, seed, np.empty((0, n_features)))


def online_pass(opened: Opened, size: int, seed: int) -> OnlineState:
    """Draw on-line, in one pass.

    Each block is scored against all blocks before it, so the rows come to this process, wherever they are kept.
    """
    state = empty_state(size, seed, opened.n_features)
    for block, part in opened.map(
        lambda _, block: (block, block_factor(lifted(block))), "drawing rows", canonical=True, here=True
    ):
        state = state.absorb(block, part)
    return state


@dataclass(frozen=True)
class Online(Method):
    """Draws by leverage scores against the rows so far, in one pass (Peters 2021); `OnlineCoreset` takes a stream.

    No options. The guarantee (`leverage_size`) is for the probit.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> options = {"intercept": True, "random_state": 1, "progressbar": False}
    >>> core = bc.build_coreset(X, y, method="online", size=100, likelihood="probit", **options)
    >>> core.method, core.n_total
    ('online', 5000)
    """

    name: ClassVar[str] = "online"
    one_pass: ClassVar[bool] = True
    needs_mu: ClassVar[bool] = True

    def build(self, opened: Opened, size: int | None, seed: int, likelihood: Likelihood) -> BuildResult[OnlineInfo]:
        """Draw on-line, in one pass."""
        draws = self.draws(opened, size)
        state = online_pass(opened, draws, seed)
        check_enough(size, state.n_rows)
        return state.cut(min(draws, state.n_rows)).result()


class OnlineCoreset(BlockStream[OnlineState]):
    """A coreset of a stream: feed it blocks of rows, ask for the coreset at any moment, and go on.

    The coreset is that of ``build_coreset(..., method="online")`` over the rows so far, however they were cut into
    blocks: rows wait until a block of about 8 MB is full. Memory is bounded by that block and `size` rows.

    Parameters
    ----------
    size : int
        Rows to draw, with replacement: the coreset can have fewer.
    likelihood : name of a registered likelihood
        Model that the coreset is for; the guarantee (`leverage_size`) is for the probit.
    random_state, random_seed : int, Generator, SeedSequence or None
        Seed, by either name; the one used is kept as ``core.random_state``.
    intercept : bool
        Put a column of ones, named "Intercept", first.
    classes : pair of labels, optional
        The two labels; the second in sorted order is +1. By default they are found as they are met: a block may have
        one of them only.

    Raises
    ------
    TypeError, ValueError
        If an option is of the wrong kind or out of its range.
    DataError
        Of `partial_fit`, if a block cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore import OnlineCoreset
    >>> rng = np.random.default_rng(0)
    >>> stream = OnlineCoreset(size=200, intercept=True, random_state=1)
    >>> for _ in range(50):
    ...     X = rng.normal(size=(100, 2))
    ...     stream = stream.partial_fit(X, X[:, 0] + rng.normal(size=100) > 0)
    >>> core = stream.coreset()
    >>> core.n_total, core.method
    (5000, 'online')
    """

    def __init__(
        self,
        size: int,
        likelihood: str = "probit",
        random_state: RandomState = None,
        *,
        random_seed: RandomState = None,
        intercept: bool = False,
        classes: Iterable[Any] | None = None,
    ) -> None:
        super().__init__(
            Online(), size, likelihood, one_seed(random_state, random_seed), intercept=intercept, classes=classes
        )

    def _block_rows(self, n_features: int) -> int:
        return block_rows(n_features)

    def _empty(self, n_features: int) -> OnlineState:
        return empty_state(self.size, self.random_state, n_features)

    def _absorbed(self, state: OnlineState, block: WeightedData) -> OnlineState:
        return state.absorb(block, block_factor(lifted(block)))

    def _answer(self, state: OnlineState, rest: WeightedData | None) -> BuildResult[OnlineInfo]:
        return (state if rest is None else self._absorbed(state, rest)).result()

    def _options(self) -> dict[str, Any]:
        return {
            "size": self.size,
            "likelihood": self.likelihood,
            "random_state": self.random_state,
            "intercept": self.intercept,
        }

    def _to_arrays(self, state: OnlineState) -> Arrays:
        counts = {"n_rows": np.array(state.n_rows), "weight": np.array(state.weight), "factor": state.factor}
        if (drawn := state.drawn) is None:
            return counts
        own = {"times": drawn.times, "positions": drawn.positions, "rates": drawn.rates}
        total = np.array(str(drawn.total))  # may be above 2^63
        return {**counts, **own, "total": total, **rows_to_arrays("drawn", drawn.rows)}

    def _from_arrays(self, arrays: Arrays) -> OnlineState:
        drawn = None
        if "times" in arrays:
            rows, total = rows_from_arrays("drawn", arrays), int(str(arrays["total"]))
            drawn = Draw(arrays["times"], arrays["positions"], arrays["rates"], rows, total)
        n_rows, weight = int(arrays["n_rows"]), float(arrays["weight"])
        return OnlineState(self.size, self.random_state, arrays["factor"], weight, n_rows, drawn)
