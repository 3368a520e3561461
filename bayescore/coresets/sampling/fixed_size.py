"""Draws of a fixed number of rows without replacement, with unequal probabilities, in one pass (Ohlsson 1998).

Row n gets a number u_n in (0, 1), a hash of (seed, position). With inclusion probabilities pi_n = min(1, t p_n),
sum pi = M, the rows with t p >= 1 are in for certain, and of the others those with the smallest u / p. Keeping the
largest p and the smallest u / p is associative, and the candidates for M rows hold those for every smaller M.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.coresets.sampling.draw import hash_uniforms
from bayescore.data.dataset import Dataset
from bayescore.types import FloatArray, IntArray, WeightedData, stack

Probability = Callable[[WeightedData], FloatArray]


class Candidates(NamedTuple):
    """Rows that may be in the sample, in order: probabilities, keys u / p, positions in the source."""

    probability: FloatArray
    key: FloatArray
    position: IntArray
    rows: WeightedData

    def best(self, size: int) -> "Candidates":
        """Keep the `size` largest probabilities and the `size` smallest keys, and one more of each.

        So no more than `size` are kept only where there are no more.
        """
        size += 1
        if len(self.key) <= size:
            return self
        return self.at(np.flatnonzero(_smallest(-self.probability, size) | _smallest(self.key, size)))

    def at(self, kept: IntArray) -> "Candidates":
        """Return some of them."""
        return Candidates(self.probability[kept], self.key[kept], self.position[kept], self.rows.take(kept))


def _smallest(values: FloatArray, size: int) -> NDArray[np.bool_]:
    """Return which are the `size` smallest, of equal ones the first."""
    bound = np.partition(values, size - 1)[size - 1]
    chosen = values < bound
    ties = np.flatnonzero(values == bound)
    chosen[ties[: size - np.count_nonzero(chosen)]] = True
    return np.asarray(chosen)


def stack_candidates(parts: list[Candidates]) -> Candidates:
    """Put candidates below each other."""
    return Candidates(
        np.concatenate([part.probability for part in parts]),
        np.concatenate([part.key for part in parts]),
        np.concatenate([part.position for part in parts]),
        stack([part.rows for part in parts]),
    )


class Bar(NamedTuple):
    """What a row must exceed, or come below, to be among the candidates of all rows so far."""

    probability: float = 0.0
    key: float = math.inf


NO_BAR = Bar()


def candidates(
    p: FloatArray, start: int, block: WeightedData, size: int, seed: int, *, bar: Bar = NO_BAR
) -> Candidates:
    """Return the rows of a block, its first at position `start`, that a draw of at most `size` rows may need.

    Only speed depends on the `bar` of rows before the block.
    """
    key = hash_uniforms(start, len(block), seed) / p
    rows = np.flatnonzero((p > bar.probability) | (key < bar.key))
    if len(rows) == len(block):
        return Candidates(p, key, np.arange(start, start + len(block)), block).best(size)
    return Candidates(p[rows], key[rows], start + rows, block.take(rows)).best(size)


def distinct(parts: list[Candidates]) -> Candidates:
    """Put candidates below each other, each row once."""
    whole = stack_candidates(parts)
    _, first = np.unique(whole.position, return_index=True)
    return Candidates(whole.probability[first], whole.key[first], whole.position[first], whole.rows.take(first))


class Chosen(NamedTuple):
    """Rows with their own weights, their inclusion probabilities pi, and how many are in for certain."""

    rows: WeightedData
    inclusion: FloatArray
    certain: int

    def expanded(self) -> WeightedData:
        """Return the rows with weights w / pi."""
        return self.rows.with_weights(self.rows.weights / self.inclusion)


def select(candidates: Candidates, size: int, total: float) -> Chosen:
    """Return `size` rows, or all there are; `total` is the sum of p over all rows of the source."""
    if len(candidates.key) <= size:
        return Chosen(candidates.rows, np.ones(len(candidates.key)), len(candidates.key))
    order = np.lexsort((candidates.position, -candidates.probability))
    p = candidates.probability[order]
    certain, left = 0, total
    while certain < min(size, len(p)) and p[certain] * (size - certain) >= left:
        left -= p[certain]
        certain += 1
    inside = order[:certain]
    others = order[certain:]
    by_key = others[np.lexsort((candidates.position[others], candidates.key[others]))][: size - certain]
    chosen = np.concatenate([inside, by_key])
    inclusion = np.ones(len(chosen))
    inclusion[certain:] = candidates.probability[by_key] * ((size - certain) / left)
    rank = np.argsort(candidates.position[chosen])
    return Chosen(candidates.rows.take(chosen[rank]), inclusion[rank], certain)


def choose(candidates: Candidates, size: int, total: float) -> tuple[WeightedData, int]:
    """Return the rows of `select` with weights w / pi, and how many of them are in for certain."""
    chosen = select(candidates, size, total)
    return chosen.expanded(), chosen.certain


def draw_candidates(dataset: Dataset, probability: Probability, size: int, seed: int) -> tuple[Candidates, float]:
    """Return in one pass all rows that a draw of at most `size` rows may need, and the sum of p; see `select`.

    ``probability(block)`` gives the rows' p, shape (n,), up to a factor.
    """
    pool, total, bar = Pool(size), 0.0, NO_BAR

    def one(start: int, block: WeightedData) -> tuple[Candidates, float]:
        p = probability(block)
        return candidates(p, start, block, size, seed, bar=bar), float(p.sum())

    for part, share in dataset.map(one, "drawing rows", canonical=True):
        bar = pool.add(part)
        total += share
    return pool.best(), total


class Pool:
    """The candidates of the rows so far for draws of at most `size` rows; it stays where the pass is begun."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._kept: list[Candidates] = []
        self._keys: list[tuple[FloatArray, FloatArray]] = []  # -p and u / p of rows that may set the bar
        self._bar = NO_BAR

    def add(self, part: Candidates) -> Bar:
        """Take in the candidates of a block; return the bar that rows of other blocks must pass."""
        self._kept.append(part)
        if sum(len(each.key) for each in self._kept) > 4 * self.size + 1000:
            self._kept = [_best_of(self._kept, self.size)]
        self._keys.append((-part.probability, part.key))
        if sum(len(each) for _, each in self._keys) > self.size + self.size // 4:
            p, key = (
                np.partition(np.concatenate(each), self.size)[: self.size + 1] for each in zip(*self._keys, strict=True)
            )
            self._keys, self._bar = [(p, key)], Bar(-float(p[-1]), float(key[-1]))
        return self._bar

    def best(self) -> Candidates:
        """Return the candidates of all rows."""
        return _best_of(self._kept, self.size)


def _best_of(parts: list[Candidates], size: int) -> Candidates:
    """Return `Candidates.best` of the parts below each other; other rows are not copied."""
    probability, key = (np.concatenate([each[i] for each in parts]) for i in (0, 1))
    if len(key) <= size + 1:
        return stack_candidates(parts)
    kept = _smallest(-probability, size + 1) | _smallest(key, size + 1)
    cuts = np.split(kept, np.cumsum([len(each.key) for each in parts])[:-1])
    return stack_candidates([each.at(np.flatnonzero(own)) for each, own in zip(parts, cuts, strict=True)])
