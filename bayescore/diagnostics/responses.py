r"""Whole responses and their log density: rows of labels, or counts, which are two rows each.

The two rows of a count y weigh y and its exposure E. Its log probability

.. math:: \log P(y) = y \, \ell_+(\eta) + E \, \ell_-(\eta) + c(y, E)

has both, and the constant `Family.log_constant`, for which elpds are to be compared with those of other programs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bayescore.coresets.sampling.draw import hash_uniforms
from bayescore.data.counts import events_of
from bayescore.data.dataset import Dataset
from bayescore.models.families import Family
from bayescore.models.posterior import log_likelihood_tiles
from bayescore.models.predictor import Predictor
from bayescore.types import FloatArray, WeightedData, stack
from bayescore.validation import DataError


@dataclass(frozen=True, eq=False)
class Responses:
    """Rows that are responses; of counts their weights are exposures, and `events` the counts, shape (n,)."""

    rows: WeightedData
    events: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def weights(self) -> FloatArray:
        """How often each stands in the data, shape (n,)."""
        return self.rows.weights if self.events is None else np.ones(len(self.rows))

    def take(self, which: slice) -> "Responses":
        """Return some of them."""
        return Responses(self.rows.take(which), None if self.events is None else self.events[which])

    def log_p(self, eta: FloatArray, family: Family) -> FloatArray:
        """Return the log density of each at its linear predictor, shape (n, ...)."""
        if self.events is None:
            return family.log_p(eta, self.rows.y.reshape(-1, *np.ones(eta.ndim - 1, dtype=np.int64)))
        y, exposure, constant = self._counts(family, eta.ndim)
        return y * family.log_p(eta, 1) + exposure * family.log_p(eta, -1) + constant

    def tiles(self, draws: FloatArray | Predictor, family: Family) -> Iterator[tuple[slice, FloatArray]]:
        """Yield some of them at a time and their log density at draws, as `log_likelihood_tiles` has it."""
        below = log_likelihood_tiles(draws, self.rows, family)
        if self.events is None:
            yield from below
            return
        y, exposure, constant = self._counts(family, 2)
        above = log_likelihood_tiles(draws, replace(self.rows, y=-self.rows.y), family)
        for (part, down), (_, up) in zip(below, above, strict=True):
            yield part, y[part] * up + exposure[part] * down + constant[part]

    def _counts(self, family: Family, ndim: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        assert self.events is not None
        y, exposure = self.events, self.rows.weights
        shape = -1, *np.ones(ndim - 1, dtype=np.int64)
        return y.reshape(shape), exposure.reshape(shape), family.log_constant(y, exposure).reshape(shape)


@dataclass(frozen=True, eq=False)
class SampledCounts:
    """A sample of the counts of data, the number of all, and the sum of their constants."""

    responses: Responses
    n_rows: int
    constant: float

    def some(self, size: int) -> "SampledCounts":
        """Return a sample of at most `size` of the sample."""
        chosen = np.sort(np.random.default_rng(size).permutation(len(self.responses))[:size])
        rows, events = self.responses.rows.take(chosen), self.responses.events
        assert events is not None
        return SampledCounts(Responses(rows, events[chosen]), self.n_rows, self.constant)


class _Block(NamedTuple):
    """Of a block: sampled sides, the number of exposures, the sum of constants, and the sides at both ends.

    Its last row may be the events of a count whose exposure is the first row of the next block.
    """

    drawn: WeightedData
    n: int
    constant: float
    first: WeightedData
    last: WeightedData


def sampled_counts(dataset: Dataset, family: Family, size: int, seed: int) -> SampledCounts:
    """Return about `size` counts, chosen by a hash of their places, which keeps their sides together; one pass.

    Raises `DataError` where rows have one side alone, as a coreset's have, or there are none.
    """
    share = min(1.0, 2.0 * size / max(dataset.source.n_rows, 1))  # of sides, two of most rows
    parts = list(dataset.map(partial(_of_block, share, seed, family), "drawing rows", canonical=True))
    rows, events = events_of(stack([part.drawn for part in parts]))
    if not len(rows):
        raise DataError("data has no rows of counts; give at least one")
    constant = sum(part.constant for part in parts)
    for part, after in pairwise(parts):
        if part.last.y[0] > 0:
            y, exposure = part.last.weights, after.first.weights
            constant += float((family.log_constant(y, exposure) - family.log_constant(np.zeros(1), exposure)).sum())
    return SampledCounts(Responses(rows, events), sum(part.n for part in parts), constant)


def _of_block(share: float, seed: int, family: Family, _start: int, block: WeightedData) -> _Block:
    first = int(block.index.min())
    uniform = hash_uniforms(first, int(block.index.max()) - first + 1, seed)
    rows, events = events_of(block.take(slice(0, len(block) - int(block.y[-1] > 0))))
    constant = float(family.log_constant(events, rows.weights).sum())
    ends = block.take(slice(0, 1)), block.take(slice(len(block) - 1, None))
    return _Block(block.take(uniform[block.index - first] < share), len(rows), constant, *ends)


def whole_counts(blocks: Iterator[WeightedData]) -> Iterator[WeightedData]:
    """Yield blocks that never part the sides of a count."""
    held: WeightedData | None = None
    for block in blocks:
        own = block if held is None else stack([held, block])
        whole = len(own) - int(own.y[-1] > 0)
        held = own.take(slice(whole, None)) if whole < len(own) else None
        if whole:
            yield own.take(slice(0, whole))
    if held is not None:
        yield held
