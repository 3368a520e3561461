r"""Draws of rows in one pass, the same for every cut into blocks, number of workers and order of finish.

*With replacement.* Row n gets a Poisson process of integer rate q_n, its gaps from a hash of (seed, position n,
arrival number). The first M arrivals over all rows are M independent draws with probability q_n / sum q. To keep the
M smallest times is associative. *Without replacement.* One arrival a row and equal rates: a uniform sample.

Draws of rows in one pass: with replacement by rates, and of a fixed number without.

Draws of a fixed number of rows without replacement, with unequal probabilities, in one pass (Ohlsson 1998).

Row n gets a number u_n in (0, 1), a hash of (seed, position). With inclusion probabilities pi_n = min(1, t p_n),
sum pi = M, the rows with t p >= 1 are in for certain, and of the others those with the smallest u / p. Keeping the
largest p and the smallest u / p is associative, and the candidates for M rows hold those for every smaller M.

A sample with rows of both labels for every column, drawn in the pass that checks the rows (Cohen 2015).

Row n gets one number u_n in (0, 1), a hash of (seed, position). For each label there are 1 + D measures of its rows:
m_0 = w, and m_d = w x_d^2 of each column but that of ones. By each measure the k rows with the smallest u / m are
drawn, and the sample is their union:

.. math:: \pi_n = \min\bigl(1, \max_d \tau_d\, m_d(n)\bigr), \qquad
          \tau_d \text{ the } (k + 1)\text{st smallest } u / m_d.

So rows of a rare category are in the sample, with both labels, and no scale of a column need be known beforehand. To
keep the smallest u / m is associative: the sample does not depend on how rows are cut into blocks.

When to use it: for a first fit to data that nobody has looked at yet. Reference: Cohen (2015), Multi-objective weighted
sampling, HotWeb, arXiv:1509.07445.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.passes import TILE
from bayescore.numerics.elementary import hash_uniform
from bayescore.types import FloatArray, IntArray, LabelArray, WeightedData, read_only, stack, stack_some

Rates = Callable[[WeightedData], IntArray]
D = TypeVar("D", "Candidates", "Drawn")


def _concatenate(parts: Sequence[D]) -> D:
    """Concatenate parts of rows that may be in a sample, with the arrays about them."""
    fields: list[Any] = [
        stack(each) if isinstance(each[0], WeightedData) else np.concatenate(each) for each in zip(*parts, strict=True)
    ]
    return type(parts[0])(*fields)


def hash_uniforms(start: int, n: int, seed: int) -> FloatArray:
    """Return the uniform numbers of the rows start, ..., start + n - 1, shape (n,)."""
    return hash_uniforms_of(np.arange(start, start + n, dtype=np.int64), seed)


@jit
def _hash_uniforms(numbers: IntArray, seed: np.uint64, out: FloatArray) -> None:
    for n in range(out.size):
        out[n] = hash_uniform(seed, np.uint64(numbers[n]), np.uint64(0))


def hash_uniforms_of(numbers: IntArray, seed: int) -> FloatArray:
    """Return the uniform numbers of observations, shape (n,): the rows that one observation is made into have one."""
    out = np.empty(len(numbers))
    _hash_uniforms(read_only(numbers), np.uint64(seed), out)  # of one type to numba, whose they may be
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


def uniform_rows(start: int, block: WeightedData, size: int, seed: int, late: float = math.inf) -> Draw:
    """Return `size` rows of a block with equal probability; `merge` of such draws is one of all rows.

    The block's first row stands at position `start` of the data. Hashes order the rows, without arrivals; those from
    `late` on, the `Draw.horizon` of other blocks, are left out.
    """
    hashes, enough = hash_uniforms(start, len(block), seed), 1.25 * size / max(len(block), 1)
    first = np.flatnonzero(hashes < min(late, enough))  # as a rule more than enough, and few to sort
    if enough < late and len(first) <= size:
        first = np.flatnonzero(hashes < late)
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
        return _best_of([self], size)

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


class Threshold(NamedTuple):
    """What a row must exceed, or come below, to be among the candidates of all rows so far."""

    probability: float = 0.0
    key: float = math.inf


NO_BAR = Threshold()


def candidates(
    p: FloatArray, start: int, block: WeightedData, size: int, seed: int, *, bar: Threshold = NO_BAR
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
    whole = _concatenate(parts)
    return whole.at(np.unique(whole.position, return_index=True)[1])


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
    pool, total, bar = CandidatePool(size), 0.0, NO_BAR

    def one(start: int, block: WeightedData) -> tuple[Candidates, float]:
        p = probability(block)
        return candidates(p, start, block, size, seed, bar=bar), float(p.sum())

    for part, share in dataset.map(one, "drawing rows", canonical=True):
        bar = pool.add(part)
        total += share
    return pool.best(), total


class CandidatePool:
    """The candidates of the rows so far for draws of at most `size` rows; it stays where the pass is begun."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._kept: list[Candidates] = []
        self._keys: list[tuple[FloatArray, FloatArray]] = []  # -p and u / p of rows that may set the bar
        self._bar = NO_BAR

    def add(self, part: Candidates) -> Threshold:
        """Take in the candidates of a block; return the bar that rows of other blocks must pass."""
        self._kept.append(part)
        if sum(len(each.key) for each in self._kept) > 4 * self.size + 1000:
            self._kept = [_best_of(self._kept, self.size)]
        self._keys.append((-part.probability, part.key))
        if sum(len(each) for _, each in self._keys) > self.size + self.size // 4:
            p, key = (
                np.partition(np.concatenate(each), self.size)[: self.size + 1] for each in zip(*self._keys, strict=True)
            )
            self._keys, self._bar = [(p, key)], Threshold(-float(p[-1]), float(key[-1]))
        return self._bar

    def best(self) -> Candidates:
        """Return the candidates of all rows."""
        return _best_of(self._kept, self.size)


def _best_of(parts: list[Candidates], size: int) -> Candidates:
    """Return `Candidates.best` of the parts below each other; other rows are not copied."""
    if len(parts) == 1 and len(parts[0].key) <= size + 1:
        return parts[0]
    probability, key, position = (np.concatenate([each[i] for each in parts]) for i in range(3))
    if len(key) <= size + 1:
        return Candidates(probability, key, position, stack([each.rows for each in parts]))
    chosen = _smallest(-probability, size + 1) | _smallest(key, size + 1)
    cuts = np.split(chosen, np.cumsum([len(each.key) for each in parts])[:-1])
    rows = stack_some([each.rows for each in parts], [np.flatnonzero(cut) for cut in cuts])
    return Candidates(probability[chosen], key[chosen], position[chosen], rows)


ROWS = 5000, 50_000  # of a sample, about, at least and at most


SHARE = 0.02  # of all rows, between the two: the mode of so many takes a fraction of a pass


ENTRIES = 4_000_000  # of a sample of wide rows, 32 MB,


ROWS_PER_COLUMN = 30  # but at least so many rows for each column


_CACHE = 1 << 17  # numbers of an array of some measures: 1 MB


_SLACK = 1.0 + 1e-12  # so that rounding keeps out no row that the exact comparison lets in


class Drawn(NamedTuple):
    """Rows, some of them among the smallest by a measure: their uniform numbers and positions."""

    u: FloatArray
    position: IntArray
    rows: WeightedData


class DrawPlan(NamedTuple):
    """How many rows of each label to draw by weight, and by the squares of each of some columns."""

    by_weight: int
    by_column: int
    columns: IntArray

    @classmethod
    def of(cls, design: Design, n_rows: int) -> "DrawPlan":
        """Return the plan for `n_rows` rows of a design: half of the sample by weight, half by columns."""
        columns = np.array([d for d in range(len(design.names)) if d != design.constant], dtype=np.intp)
        n = max(1, len(columns))
        wanted = min(max(ROWS[0], int(SHARE * n_rows)), ROWS[1], ENTRIES // n)
        whole = max(wanted, ROWS_PER_COLUMN * n)
        return cls(whole // 4, max(1, whole // (4 * n)), columns)

    @property
    def no_bars(self) -> FloatArray:
        """What every row comes below, shape (2, 1 + n_columns)."""
        return np.full((2, 1 + len(self.columns)), np.inf)


@jit
def _passing(
    X: FloatArray, y: LabelArray, w: FloatArray, u: FloatArray, plan: tuple[IntArray, FloatArray, LabelArray]
) -> None:
    """Write to the last array of `plan` whether rows come below the bars of its first two."""
    columns, bars, out = plan
    for n in range(len(u)):
        side = 1 if y[n] > 0 else 0
        passes = u[n] <= bars[side, 0] * w[n]
        for k in range(len(columns)):
            if passes:
                break
            x = X[n, columns[k]]
            passes = u[n] <= bars[side, k + 1] * (w[n] * (x * x))  # false for NaN, of infinity times 0
        out[n] = passes


class _Measured(NamedTuple):
    """Rows of one label by some of the measures: their places, the measures and u over them, shape (k, n) each.

    `bars` has tau of each measure, infinite where all rows are in.
    """

    side: int
    which: slice
    places: IntArray
    measures: FloatArray
    keys: FloatArray
    bars: FloatArray

    @property
    def below(self) -> NDArray[np.bool_]:
        """Which rows may be in the sample by one of the measures, shape (n,)."""
        return np.asarray((self.keys <= np.minimum(self.bars, np.finfo(float).max)[:, None]).any(axis=0))


def _measure_rows(drawn: Drawn, plan: DrawPlan) -> Iterator[_Measured]:
    """Yield the rows of each label by weight, and by some columns at a time, few enough to stay in the cache."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # a measure of 0 has an infinite key
        for side in (0, 1):
            places = np.flatnonzero((drawn.rows.y > 0) == bool(side))
            u, w = drawn.u[places], drawn.rows.weights[places]
            yield _measure_by((side, slice(0, 1), places), u, w[None], plan.by_weight)
            rows, step = drawn.rows.X[places], max(1, _CACHE // max(len(places), 1))
            for start in range(0, len(plan.columns), step):
                x = np.ascontiguousarray(rows.T[plan.columns[start : start + step]])
                which = slice(1 + start, 1 + start + len(x))
                yield _measure_by((side, which, places), u, w * (x * x), plan.by_column)


def _measure_by(of: tuple[int, slice, IntArray], u: FloatArray, measures: FloatArray, size: int) -> _Measured:
    """Return the keys u / measure of the rows of one label, by some measures, and the bars of a sample by each."""
    side, which, places = of
    keys, bars = u / measures, np.full(len(measures), np.inf)
    if len(places) > size:
        bars = np.partition(keys, size, axis=1)[:, size]
    return _Measured(side, which, places, measures, keys, bars)


def _possible_rows(drawn: Drawn, plan: DrawPlan) -> tuple[Drawn, FloatArray]:
    """Return the rows that the sample of all rows may need, and the bars that others must come below."""
    bars, below = plan.no_bars, np.zeros(len(drawn.u), dtype=bool)
    for each in _measure_rows(drawn, plan):
        bars[each.side, each.which] = each.bars
        below[each.places] |= each.below
    kept = np.flatnonzero(below)
    return Drawn(drawn.u[kept], drawn.position[kept], drawn.rows.take(kept)), bars


def _sample_of(drawn: Drawn, plan: DrawPlan) -> tuple[WeightedData, FloatArray]:
    """Return the sample of the rows that may be in it, and their inclusion probabilities."""
    inside, largest = np.zeros(len(drawn.u), dtype=bool), np.zeros(len(drawn.u))
    for each in _measure_rows(drawn, plan):
        inside[each.places] |= (each.keys < each.bars[:, None]).any(axis=0)
        empty = np.zeros_like(each.keys)
        products = np.multiply(each.bars[:, None], each.measures, out=empty, where=each.measures > 0.0)
        largest[each.places] = np.maximum(largest[each.places], products.max(axis=0))
    return drawn.rows.take(inside), np.minimum(largest[inside], 1.0)


def _possible_rows_of_block(start: int, block: WeightedData, seed: int, plan: DrawPlan, bars: FloatArray) -> Drawn:
    """Return the rows of a block that may be in the sample; only speed depends on the bars."""
    u = hash_uniforms(start, len(block), seed)
    passing = np.empty(len(u), dtype=np.int8)
    _passing(block.X, block.y, block.weights, u, (plan.columns, bars * _SLACK, passing))
    passed = np.flatnonzero(passing)
    drawn = Drawn(u[passed], start + passed, block.take(passed))
    return _possible_rows(drawn, plan)[0] if len(passed) > 2 * plan.by_weight else drawn


def sample_by_column(dataset: Dataset, seed: int) -> Chosen:
    """Return the sample that `draw_by_column` left with the data, or draw it."""
    if dataset.sample is None:
        draw_by_column(dataset, seed)
    assert dataset.sample is not None
    rows, inclusion = dataset.sample
    return Chosen(rows, inclusion, int(np.count_nonzero(inclusion == 1.0)))


def draw_by_column(dataset: Dataset, seed: int, plan: DrawPlan | None = None) -> None:
    """Scan the rows and leave a sample of them with the data; one pass."""
    plan = DrawPlan.of(dataset.design, dataset.source.n_rows) if plan is None else plan
    bars = plan.no_bars
    parts: list[Drawn] = []
    held = 0

    def one(start: int, block: WeightedData) -> Drawn:
        return _possible_rows_of_block(start, block, seed, plan, bars)

    for part in dataset.scan_and_map(one):
        parts.append(part)
        if sum(len(each.u) for each in parts) > 2 * held + 1000:
            best, bars = _possible_rows(_concatenate(parts), plan)
            parts, held = [best], len(best.u)
    dataset.sample = _sample_of(_concatenate(parts), plan)
