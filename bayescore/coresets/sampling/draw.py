"""Draws of rows in one pass, the same for every cut into blocks, number of workers and order of finish.

*With replacement.* Row n gets a Poisson process of integer rate q_n, its gaps from a hash of (seed, position n,
arrival number). The first M arrivals over all rows are M independent draws with probability q_n / sum q. To keep the
M smallest times is associative. *Without replacement.* One arrival a row and equal rates: a uniform sample.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.data.dataset import Dataset
from bayescore.data.passes.tiles import TILE
from bayescore.models.elementary import hash_uniform
from bayescore.types import FloatArray, IntArray, WeightedData, stack

Rates = Callable[[WeightedData], IntArray]


@jit
def _hash_uniforms(start: int, seed: np.uint64, out: FloatArray) -> None:
    for n in range(out.size):
        out[n] = hash_uniform(seed, np.uint64(start + n), np.uint64(0))


def hash_uniforms(start: int, n: int, seed: int) -> FloatArray:
    """Return the uniform numbers of the rows start, ..., start + n - 1, shape (n,)."""
    out = np.empty(n)
    _hash_uniforms(start, np.uint64(seed), out)
    return out


def equal_rates(block: WeightedData) -> IntArray:
    """Return rate 1 for each row."""
    return np.ones(len(block), dtype=np.int64)


class Limits(NamedTuple):
    """Where `arrivals_before` stops."""

    horizon: float  # time
    most: int  # arrivals of one row
    room: int  # arrivals that are written; counting goes on


@jit
def arrivals_before(rates: IntArray, start: int, seed: np.uint64, limits: Limits) -> tuple[int, FloatArray, IntArray]:
    """Return the number of arrivals before the horizon, and the times and rows of those that there is room for."""
    horizon = limits.horizon
    times, rows = np.empty(limits.room), np.empty(limits.room, dtype=np.int64)
    count = 0
    first = np.empty(TILE)
    for n in range(rates.size):
        lane = n % TILE
        if lane == 0:  # those of many rows at once, in a loop that vectorises
            for i in range(TILE):
                first[i] = hash_uniform(seed, np.uint64(start + n + i), np.uint64(0))
        rate, time, u = float(rates[n]), 0.0, first[lane]
        for j in range(1, limits.most + 1):
            if u <= 1.0 - rate * (horizon - time):  # -log u >= 1 - u: too late, no logarithm needed
                break
            time -= math.log(u) / rate
            if time >= horizon:
                break
            if count < times.size:
                times[count] = time
                rows[count] = n
            count += 1
            u = hash_uniform(seed, np.uint64(start + n), np.uint64(j))
    return count, times[:count], rows[:count]


@dataclass(frozen=True, eq=False)
class Draw:
    """The earliest arrivals of some rows: a row stands here as often as it arrived."""

    times: FloatArray
    positions: IntArray
    rates: IntArray
    rows: WeightedData
    total: int  # sum of the rates of all rows seen

    def earliest(self, size: int) -> "Draw":
        """Keep the `size` earliest arrivals; ties go to the lower position."""
        order = np.lexsort((self.positions, self.times))[:size]
        return Draw(self.times[order], self.positions[order], self.rates[order], self.rows.take(order), self.total)

    def horizon(self, size: int) -> float:
        """Return the time from which on no arrival can be among the `size` earliest; only speed depends on it."""
        return float(self.times[-1]) * (1.0 + 1e-12) if len(self.times) == size else math.inf


def merge(draws: Iterable[Draw], size: int) -> Draw:
    """Return the `size` earliest arrivals of several draws of disjoint rows."""
    parts = list(draws)
    return Draw(
        np.concatenate([part.times for part in parts]),
        np.concatenate([part.positions for part in parts]),
        np.concatenate([part.rates for part in parts]),
        stack([part.rows for part in parts]),
        sum(part.total for part in parts),
    ).earliest(size)


def block_draw(
    block: WeightedData,
    start: int,
    rates: IntArray,
    size: int,
    seed: int,
    *,
    most: int = 1 << 62,
    late: float = math.inf,
) -> Draw:
    """Return the `size` earliest arrivals before `late` of a block's rows, at most `most` a row.

    The first row stands at position `start` of the data.
    """
    total = int(rates.sum())
    # expected to hold the size earliest arrivals of the block; doubled until it does
    horizon = (size + 6.0 * math.sqrt(size) + 20.0) / total
    if most == 1:
        size = min(size, len(block))
    capacity = int(2.5 * size) + 200
    while True:
        limit = min(horizon, late)
        count, times, rows = arrivals_before(rates, start, np.uint64(seed), Limits(limit, most, capacity))
        if count > capacity:
            capacity = count
        elif count < size and limit < late:
            horizon *= 2.0
        else:
            return Draw(times, start + rows, rates[rows], block.take(rows), total).earliest(size)


def uniform_rows(start: int, block: WeightedData, size: int, seed: int) -> Draw:
    """Return `size` rows of a block with equal probability; `merge` of such draws is one of all rows.

    The block's first row stands at position `start` of the data. Hashes order the rows, without arrivals.
    """
    hashes = hash_uniforms(start, len(block), seed)
    first = np.flatnonzero(hashes < 1.25 * size / max(len(block), 1))  # as a rule more than enough, and few to sort
    first = first if len(first) > size or len(first) == len(block) else np.arange(len(block))
    if len(first) > size:
        first = first[np.argpartition(hashes[first], size)[:size]]
    return Draw(hashes[first], start + first, np.ones_like(first), block.take(first), len(block))


def draw(
    dataset: Dataset,
    rates: Rates,
    size: int,
    seed: int,
    *,
    replace: bool = True,
    canonical: bool = False,
    description: str = "drawing rows",
) -> Draw:
    """Draw `size` rows in one pass, with probabilities proportional to `rates` of a block, int64 and at least 1.

    Without replacement all rates must be equal. `canonical` is for rates from BLAS, see `Dataset.map`.
    """
    most = 1 << 62 if replace else 1
    late = math.inf

    def one(start: int, block: WeightedData) -> Draw:
        return block_draw(block, start, rates(block), size, seed, most=most, late=late)

    kept: list[Draw] = []
    for part in dataset.map(one, description, canonical=canonical):
        kept.append(part)
        if sum(len(each.times) for each in kept) >= (size if late == math.inf else 2 * size):
            kept = [merge(kept, size)]
            late = kept[0].horizon(size)
    return merge(kept, size)


def collect(drawn: Draw) -> tuple[WeightedData, NDArray[np.int64], IntArray]:
    """Return the distinct rows of a draw in order of position, how often each was drawn, and their rates."""
    _, first, counts = np.unique(drawn.positions, return_index=True, return_counts=True)
    return drawn.rows.take(first), counts, drawn.rates[first]


def weighted(drawn: Draw, size: int) -> WeightedData:
    """Return the distinct rows of a draw of `size` with replacement, with unbiased weights w_n K_n T / (q_n M)."""
    rows, counts, rates = collect(drawn)
    return rows.with_weights(rows.weights * counts * (drawn.total / (rates * float(size))))
