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
from bayescore.types import NO_GROUP, FloatArray, IntArray, WeightedData, stack
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
    """A sample of the counts of data, the number of all, and the sums of their constants by the first factor's groups.

    The last sum, shape (G + 1,), is of counts in no group; without groups it is of all.
    """

    responses: Responses
    n_rows: int
    constants: FloatArray

    @property
    def constant(self) -> float:
        """The sum of all constants."""
        return float(self.constants.sum())

    def some(self, size: int) -> "SampledCounts":
        """Return a sample of at most `size` of the sample."""
        chosen = np.sort(np.random.default_rng(size).permutation(len(self.responses))[:size])
        rows, events = self.responses.rows.take(chosen), self.responses.events
        assert events is not None
        return replace(self, responses=Responses(rows, events[chosen]))


class _Block(NamedTuple):
    """Of a block: sampled sides, the number of exposures, groups and sums of their constants, the sides at both ends.

    Its last row may be the events of a count whose exposure is the first row of the next block.
    """

    drawn: WeightedData
    n: int
    groups: IntArray
    constants: FloatArray
    first: WeightedData
    last: WeightedData


def sampled_counts(dataset: Dataset, family: Family, size: int, seed: int, n_groups: int = 0) -> SampledCounts:
    """Return about `size` counts, chosen by a hash of their places, which keeps their sides together; one pass.

    `n_groups` is how many the first factor has.

    Raises `DataError` where rows have one side alone, as a coreset's have, or there are none.
    """
    share = min(1.0, 2.0 * size / max(dataset.source.n_rows, 1))  # of sides, two of most rows
    parts = list(dataset.map(partial(_of_block, share, seed, family), "drawing rows", canonical=True))
    rows, events = events_of(stack([part.drawn for part in parts]))
    if not len(rows):
        raise DataError("data has no rows of counts; give at least one")
    constants = np.zeros(n_groups + 1)
    for part in parts:
        constants[part.groups] += part.constants
    for part, after in pairwise(parts):
        if part.last.y[0] > 0:
            y, exposure = part.last.weights, after.first.weights
            more = family.log_constant(y, exposure) - family.log_constant(np.zeros(1), exposure)
            constants[_first_groups(part.last)] += more
    return SampledCounts(Responses(rows, events), sum(part.n for part in parts), constants)


def _first_groups(rows: WeightedData) -> IntArray:
    """Return codes of the first factor, shape (n,), -1 without one."""
    return np.full(len(rows), NO_GROUP) if rows.group is None else rows.group[:, 0]


def _of_block(share: float, seed: int, family: Family, _start: int, block: WeightedData) -> _Block:
    first = int(block.index.min())
    uniform = hash_uniforms(first, int(block.index.max()) - first + 1, seed)
    rows, events = events_of(block.take(slice(0, len(block) - int(block.y[-1] > 0))))
    groups, places = np.unique(_first_groups(rows), return_inverse=True)
    constants = np.zeros(len(groups))
    np.add.at(constants, places, family.log_constant(events, rows.weights))
    ends = block.take(slice(0, 1)), block.take(slice(len(block) - 1, None))
    return _Block(block.take(uniform[block.index - first] < share), len(rows), groups, constants, *ends)


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
