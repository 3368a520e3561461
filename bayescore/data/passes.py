"""Passes over rows: a function of each block, in threads or in workers elsewhere, results in block order.

`Dataset.map` is how to ask for a pass. Rows that come in pieces are read *and* mapped by the workers: threads of this
process, or workers of the source's pool, to which the function and descriptors of the rows travel. Other rows are
read in the calling thread and mapped in threads. A result depends neither on the cut into blocks nor on the number of
threads: scores come from row-wise kernels, and sums over rows are taken in fixed point (`exact`). Where that will not
do, blocks are *canonical*: the rows are cut again at multiples of a number of rows, and BLAS has one thread.

How passes over rows are run: cut, sent to workers, summed exactly.

`Scan`: what the first pass over rows learns, after a check of every entry.

Exact sums over rows: the same for every order and every cut into blocks.

Sums of numbers of a known range are whole multiples of a `quantum`, where addition is associative. `exact_total` adds
numbers of any size: a float is a whole number of 53 bits times a power of two, and the parts of each power are added as
whole numbers (Kulisch's accumulator). A square is the sum of two floats (Dekker 1971, Numerische Mathematik 18), so
that `ExactMoments` have no cancellation and need no range.

Tiles: rows as columns, so that an inner loop over rows vectorises, few enough to stay in the cache.

A row's numbers do not depend on where in a block, and so in a tile, the row stands.

Rows whose entries are mostly 0, by their other entries, for products of many columns, which BLAS computes else.

Work quadratic in the columns becomes quadratic in those entries: rows of factors with many levels have few of them.
The values decide, not the source: sparse and dense sources of the same rows give the same bits.
"""

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from queue import SimpleQueue
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayescore.compiled import jit, jit_inner, one_blas_thread
from bayescore.data.design import Design
from bayescore.data.responses import numbers_of
from bayescore.data.source import Division, Future, Task, plan, recut
from bayescore.types import NO_OFFSET, NO_ROW, FloatArray, IntArray, LabelArray, WeightedData, read_only
from bayescore.validation import DataError, RowError, check_finite, check_total_weight

TILE = 128


@jit
def _transpose(columns: NDArray[Any], rows: FloatArray) -> None:
    for n in range(rows.shape[0]):
        for d in range(rows.shape[1]):
            rows[n, d] = columns[d, n]


def rows_of(columns: Sequence[NDArray[Any]], n_rows: int) -> FloatArray:
    """Return columns of n numbers of any kind as rows of float64, shape (n, D); D may be 0."""
    single = all(column.dtype == np.float32 for column in columns)
    # in one piece, and no wider than they come: the strided half of the work is then the compiled loop's
    together = np.empty((len(columns), n_rows), dtype=np.float32 if single else np.float64)
    for d, column in enumerate(columns):
        together[d] = column
    rows = np.empty(together.shape[::-1])
    _transpose(together, rows)
    return rows


@jit_inner
def new_tile(n_features: int) -> FloatArray:
    """Return a tile of zeros; its rows are longer than TILE, or many of them would share few sets of the cache."""
    tile = np.empty((n_features, TILE + 8))
    for d in range(n_features):
        for lane in range(TILE + 8):
            tile[d, lane] = 0.0
    return tile


class TileRows(NamedTuple):
    """Rows of a block as compiled passes take them, their arrays contiguous; `offset` is empty without offsets."""

    X: FloatArray
    side: LabelArray
    weights: FloatArray
    offset: FloatArray

    @classmethod
    def of(cls, rows: WeightedData) -> "TileRows":
        """Return the rows of a block."""
        contiguous = np.ascontiguousarray
        offset = NO_OFFSET if rows.offset is None else contiguous(rows.offset)
        return cls(contiguous(rows.X), contiguous(rows.y), contiguous(rows.weights), offset)


@jit_inner
def load_tile(X: FloatArray, start: int, width: int, tile: FloatArray) -> None:
    """Write the rows start, ..., start + width - 1 as the first columns of `tile`."""
    for lane in range(width):
        for d in range(X.shape[1]):
            tile[d, lane] = X[start + lane, d]


@jit_inner
def load_signed_tile(X: FloatArray, y: LabelArray, start: int, width: int, tile: FloatArray) -> None:
    """Write the signed rows start, ..., start + width - 1 as the first columns of `tile`."""
    for lane in range(width):
        sign = float(y[start + lane])
        for d in range(X.shape[1]):
            tile[d, lane] = sign * X[start + lane, d]


MAX_FILL = 0.05  # share of entries that are not 0: BLAS is as fast from 0.05 of 1,000 columns, 0.1 of 100


MIN_COLUMNS = 96  # fewer gain little


Places = NDArray[np.int32]


@jit
def _fill_csr(X: FloatArray, ends: Places, columns: Places, values: FloatArray) -> int:
    """Write the entries that are not 0; return their number, -1 as soon as there are more than fit."""
    count = 0
    for n in range(X.shape[0]):
        for d in range(X.shape[1]):
            if X[n, d] != 0.0:
                if count == len(values):
                    return -1
                columns[count], values[count] = d, X[n, d]
                count += 1
        ends[n + 1] = count
    return count


def csr_if_sparse(X: FloatArray) -> FloatArray | sparse.csr_array:
    """Return rows, shape (n, D), in CSR form if they are wide and at most `MAX_FILL` of their entries are not 0."""
    if X.shape[1] < MIN_COLUMNS:
        return X
    most = int(MAX_FILL * X.size)
    ends, columns, values = np.zeros(len(X) + 1, dtype=np.int32), np.empty(most, dtype=np.int32), np.empty(most)
    count = _fill_csr(np.ascontiguousarray(X), ends, columns, values)
    return X if count < 0 else sparse.csr_array((values[:count], columns[:count], ends), shape=X.shape)


@jit
def _add_gram(ends: Places, columns: Places, values: FloatArray, weights: FloatArray, out: FloatArray) -> None:
    for n in range(len(weights)):
        for a in range(ends[n], ends[n + 1]):
            part = weights[n] * values[a]
            out[columns[a], columns[a]] += part * values[a]
            for b in range(ends[n], a):
                product = part * values[b]
                out[columns[a], columns[b]] += product
                out[columns[b], columns[a]] += product


def add_gram(X: sparse.csr_array, weights: FloatArray, out: FloatArray) -> None:
    """Add the sum over rows of w x x' to `out`, shape (D, D); weights, shape (n,), may be negative."""
    _add_gram(X.indptr, X.indices, X.data, np.ascontiguousarray(weights), out)


R = TypeVar("R")


Work = Callable[[int, WeightedData], R]


def map_pieces(division: Division, function: Work[R], step: int | None, cores: int) -> Iterator[tuple[int, R]]:
    """Yield for each block its number of rows and ``function(start, block)``, `start` the position of its first row.

    `step` is the number of rows of a canonical block, None for blocks as they come. To run in parallel the function
    must release the GIL, as numba kernels and NumPy do. What it refers to and returns travels to and from the workers
    of a pool: keep both smaller than a block. A `DataError` says where its row stands.
    """
    tasks, pool = plan(division, step), division.pool
    one_block = pool is None and step is not None and len(tasks) == 1 and tasks[0].n_rows <= step
    with _blas(step), ThreadPoolExecutor(cores, "pass") as threads:
        try:
            if pool is not None:
                yield from _in_order(pool.submit(_run_task, tasks, function, step), 3 * pool.n_workers)
            elif one_block:  # has nothing to wait for that a thread could do meanwhile
                yield from _run(tasks[0].blocks(step), tasks[0].start, function)
            else:
                yield from _in_order((_StreamedTask(threads, task, function, step) for task in tasks), 2 * cores)
        except RowError as error:
            place = division.place(error.row)
            raise (DataError(f"{error} ({place})") if place else error) from None


def map_stream(
    blocks: Iterator[WeightedData], function: Work[R], step: int | None, cores: int
) -> Iterator[tuple[int, R]]:
    """Yield what `map_pieces` does, of blocks that are read in the calling thread."""
    with _blas(step), ThreadPoolExecutor(cores, "pass") as threads:

        def futures() -> Iterator[Future]:
            start = 0
            for block in blocks if step is None else recut(blocks, step):
                yield threads.submit(lambda at, rows: [(len(rows), function(at, rows))], start, block)
                start += len(block)

        try:
            yield from _in_order(futures(), 2 * cores)
        finally:
            if isinstance(blocks, Generator):  # whatever it reads from is free again, after an error too
                blocks.close()


def _blas(step: int | None) -> AbstractContextManager[object]:
    """Return the context of a pass: one thread of BLAS for canonical blocks, whose sums depend on the number."""
    return nullcontext() if step is None else one_blas_thread()


def _in_order(futures: Iterator[Future], ahead: int) -> Iterator[tuple[int, R]]:
    """Yield the results of tasks; at most `ahead` are begun and not waited for, which bounds the memory."""
    waiting: deque[Future] = deque()
    try:
        for future in futures:
            waiting.append(future)
            while len(waiting) > ahead:
                yield from _results(waiting[0])
                waiting.popleft()
        while waiting:
            yield from _results(waiting[0])
            waiting.popleft()
    finally:
        for future in waiting:
            future.cancel()


def _results(future: Future) -> Iterable[tuple[int, R]]:
    results: Iterable[tuple[int, R]] | DataError = future.result()
    if isinstance(results, DataError):
        raise results
    return results


class _StreamedTask:
    """A task in a thread that hands out each result at once, so that those of the first task do not pile up."""

    def __init__(self, threads: ThreadPoolExecutor, task: Task, function: Work[Any], step: int | None) -> None:
        self._results: SimpleQueue[tuple[int, Any] | None] = SimpleQueue()
        self._cancelled = False
        self._future = threads.submit(self._run, task, function, step)

    def _run(self, task: Task, function: Work[Any], step: int | None) -> None:
        try:
            with _blas(step):
                for result in _run(task.blocks(step), task.start, function):
                    self._results.put(result)
                    if self._cancelled:
                        return
        finally:
            self._results.put(None)

    def result(self) -> Iterator[tuple[int, Any]]:
        """Yield the results, and raise the error of the task at its end."""
        yield from iter(self._results.get, None)
        self._future.result()

    def cancel(self) -> None:
        """Stop the work after the block that it has begun."""
        self._cancelled = True
        self._future.cancel()


def _run(blocks: Iterable[WeightedData], start: int, function: Work[R]) -> Iterator[tuple[int, R]]:
    for block in blocks:
        yield len(block), function(start, block)
        start += len(block)


def _run_task(task: Task, function: Work[R], step: int | None) -> list[tuple[int, R]] | DataError:
    """Return the results of a task, or its error: a cluster prints the traceback of whatever a worker raises."""
    try:
        with _blas(step):
            return list(_run(task.blocks(step), task.start, function))
    except DataError as error:
        return error


_FIXED_POINT_BITS = 36  # 2^16 rows of 2^36 quanta add without rounding in a float64


_HALF_BITS = 26  # bits; sums of 2^36 halves stay below 2^63


_SPLIT = 134217729.0  # 2^27 + 1


def quantum(largest: FloatArray) -> FloatArray:
    """Return the fixed-point unit (a power of two) for numbers of at most `largest` in size."""
    _, exponent = np.frexp(np.maximum(largest, np.finfo(float).tiny))
    return np.asarray(np.ldexp(1.0, np.maximum(exponent, -900) - _FIXED_POINT_BITS), dtype=np.float64)


def as_integers(whole: FloatArray) -> NDArray[np.object_]:
    """Turn floats that hold whole numbers into Python integers."""
    return np.asarray(whole).astype(np.int64).astype(object)


def from_integers(total: NDArray[np.object_], unit: FloatArray) -> FloatArray:
    """Turn whole multiples of `unit` back into floats."""
    return np.asarray(np.asarray(total, dtype=np.float64) * unit, dtype=np.float64)


@jit
def _add_digits(bits: IntArray, sums: IntArray) -> None:
    for n in range(bits.size):
        word = bits[n]
        exponent = (word >> 52) & 2047
        digits = word & 4503599627370495  # 2^52 - 1
        if exponent > 0:
            digits += 4503599627370496
        else:
            exponent = 1
        if word < 0:
            digits = -digits
        sums[exponent, 0] += digits >> 26
        sums[exponent, 1] += digits & 67108863  # 2^26 - 1


def exact_total(values: FloatArray) -> int:
    """Return the sum of finite numbers in units of 2^-1074."""
    sums = np.zeros((2048, 2), dtype=np.int64)
    _add_digits(read_only(np.ascontiguousarray(values, dtype=np.float64).view(np.int64)), sums)  # one type to numba
    used = np.flatnonzero(sums.any(axis=1))
    return sum(((int(sums[e, 0]) << _HALF_BITS) + int(sums[e, 1])) << (int(e) - 1) for e in used)


def exact_weight(weights: FloatArray) -> int:
    """Return the sum of weights in units of 2^-1074; see `total_weight`."""
    return len(weights) << 1074 if (weights == 1.0).all() else exact_total(weights)


def total_weight(parts: Iterable[int]) -> float:
    """Return the sum of exact sums, rounded once: the same for every order and every cut into blocks."""
    return sum(parts) / (1 << 1074)


def _squares(values: FloatArray) -> tuple[FloatArray, NDArray[np.float64]]:
    """Return the squares, and what was rounded off them."""
    wide = _SPLIT * values
    high = wide - (wide - values)
    low = values - high
    square = values * values
    return square, ((high * high - square) + 2.0 * high * low) + low * low


@dataclass(frozen=True)
class ExactMoments:
    """Number of rows, and the sums of values and squares in units of 2^-1074."""

    n_rows: int
    total: int
    squares: int

    @classmethod
    def of(cls, values: FloatArray) -> Self:
        """Return the moments of finite numbers below 1e150 in size."""
        square, rest = _squares(values)
        return cls(len(values), exact_total(values), exact_total(square) + exact_total(rest))

    def __add__(self, other: "ExactMoments") -> "ExactMoments":
        return ExactMoments(self.n_rows + other.n_rows, self.total + other.total, self.squares + other.squares)

    def mean(self) -> float:
        """Return the mean, rounded once."""
        return float(Fraction(self.total, self.n_rows << 1074))

    def spread(self, center: float, ddof: float) -> float:
        """Return the root of the sum of squares about `center` over the number of rows less `ddof`."""
        c = Fraction(center)
        total, squares = Fraction(self.total, 1 << 1074), Fraction(self.squares, 1 << 1074)
        return math.sqrt((squares - 2 * c * total + self.n_rows * c * c) / (self.n_rows - Fraction(ddof)))


MAX_ENTRY = 1e100  # squared distances and their fixed-point sums stay finite


@dataclass(frozen=True)
class ObservationTotals:
    """Number of observations, of those with two rows each once, and the exact weight of rows of label +1.

    Parts add up in the order of the rows, whose first and last numbers in the data they keep: a cut may fall between
    the two rows of an observation.
    """

    n: int = 0
    positive: int = 0  # see `exact_weight`
    first: int = NO_ROW
    last: int = NO_ROW

    @classmethod
    def of(cls, rows: WeightedData) -> Self:
        """Count the observations of rows, at least one, in the order of the data."""
        index = rows.index
        n = 1 + int(np.count_nonzero(index[1:] != index[:-1]))
        return cls(n, exact_weight(rows.weights[rows.y > 0]), int(index[0]), int(index[-1]))

    def __add__(self, other: "ObservationTotals") -> "ObservationTotals":
        """Return the totals of both, which have no observation in common."""
        return ObservationTotals(
            self.n + other.n, self.positive + other.positive, self.first if self.n else other.first, other.last
        )

    def __sub__(self, first: "ObservationTotals") -> "ObservationTotals":
        """Return the totals without the first rows, which share no observation with the others."""
        return ObservationTotals(self.n - first.n, self.positive - first.positive)

    def then(self, other: "ObservationTotals") -> "ObservationTotals":
        """Return the totals of these rows and of those that follow them in the data."""
        both = self + other
        return replace(both, n=both.n - 1) if self.n and self.last == other.first else both

    def to_list(self) -> list[int]:
        """Return the counts as plain JSON values."""
        return [self.n, self.positive]

    @classmethod
    def from_list(cls, counts: list[int] | None) -> Self | None:
        """Return the totals of `to_list`; None of an older version's file, which has none."""
        return None if counts is None else cls(*counts)

    def facts(self, weight_total: float, *, flipped: bool = False) -> dict[str, Any]:
        """Return the facts of a coreset; `flipped` where the label -1 is that of events."""
        positive = total_weight([self.positive])
        return {"n_observations": self.n, "event_total": weight_total - positive if flipped else positive}


NO_OBSERVATIONS = ObservationTotals()
"""The totals of no rows."""


@dataclass(frozen=True, eq=False)
class Scan:
    """Range and moments of the columns of rows whose entries are finite, and their weights; arrays have shape (D,).

    Means and spreads are added up in the order of the blocks, which are canonical, without cancellation (Chan, Golub
    and LeVeque 1983, The American Statistician 37).
    """

    n_rows: int
    low: FloatArray
    high: FloatArray
    smallest_weight: float
    largest_weight: float
    weight: int  # exact sum of the weights, see `exact_weight`
    observations: ObservationTotals
    mean: FloatArray  # weighted
    spread: FloatArray  # sum w (x - mean)^2

    @property
    def weight_total(self) -> float:
        """Sum of the weights, rounded once."""
        return total_weight([self.weight])

    @property
    def sd(self) -> FloatArray:
        """Weighted population standard deviation of each column, shape (D,)."""
        return np.asarray(np.sqrt(self.spread / self.weight_total))

    @property
    def squares(self) -> FloatArray:
        """Sum w x^2 of each column, shape (D,)."""
        return np.asarray(self.spread + self.weight_total * self.mean**2)

    @property
    def largest(self) -> FloatArray:
        """Largest size of an entry of each column, shape (D,)."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Which columns are constant, shape (D,)."""
        return np.asarray(self.low == self.high)

    @classmethod
    def of(cls, blocks: Sequence["Scan"], names: tuple[str, ...]) -> Self:
        """Return the scan of rows in blocks; raise if an entry, or the sum of the weights, is too large."""
        low: FloatArray = np.stack([block.low for block in blocks]).min(axis=0)
        high: FloatArray = np.stack([block.high for block in blocks]).max(axis=0)
        check_magnitude(low, high, names)
        weights = np.array([[block.weight_total] for block in blocks])
        means, total = np.stack([block.mean for block in blocks]), weights.sum()
        mean = means[0] + (weights * (means - means[0])).sum(axis=0) / total
        spread = np.sum([block.spread for block in blocks], axis=0) + (weights * (means - mean) ** 2).sum(axis=0)
        whole = cls(
            n_rows=sum(block.n_rows for block in blocks),
            low=low,
            high=high,
            smallest_weight=min(block.smallest_weight for block in blocks),
            largest_weight=max(block.largest_weight for block in blocks),
            weight=sum(block.weight for block in blocks),
            observations=reduce(ObservationTotals.then, (block.observations for block in blocks)),
            mean=mean,
            spread=spread,
        )
        check_total_weight(whole.weight_total)
        return whole

    def in_design(self, design: Design) -> Self:
        """Return the scan of the design matrix of these raw columns, each moved and scaled by an affine design."""
        low, high, mean = (design.transform(values[None, :])[0] for values in (self.low, self.high, self.mean))
        spread = self.spread if design.scale is None else self.spread / np.array(design.scale) ** 2
        return replace(self, low=low, high=high, mean=mean, spread=np.append(np.zeros(len(low) - len(spread)), spread))


@jit
def _moments(X: FloatArray, weights: FloatArray, bounds: FloatArray, mean: FloatArray, spread: FloatArray) -> bool:
    """Widen `bounds`, shape (2, D), to the range of each column, add its moments; return whether every entry is finite.

    Rows are taken a tile at a time, so that the second look at them, about the tile's mean, is one at the cache.
    """
    n_rows, D = X.shape
    space, before = np.empty((1, D)), 0.0
    center = space[0]
    for start in range(0, n_rows, TILE):
        stop = min(start + TILE, n_rows)
        weight = 0.0
        for d in range(D):
            center[d] = 0.0
        for n in range(start, stop):
            weight += weights[n]
            for d in range(D):
                x = X[n, d]
                bounds[0, d] = min(bounds[0, d], x)
                bounds[1, d] = max(bounds[1, d], x)
                center[d] += weights[n] * (x - X[0, d])
        for d in range(D):
            gap = center[d] / weight - mean[d]
            mean[d] += gap * (weight / (before + weight))
            spread[d] += gap * gap * (before * weight / (before + weight))
            center[d] = X[0, d] + center[d] / weight
        for n in range(start, stop):
            for d in range(D):
                gap = X[n, d] - center[d]
                spread[d] += weights[n] * (gap * gap)
        before += weight
    finite = True
    for d in range(D):
        mean[d] += X[0, d]
        finite &= abs(mean[d]) < math.inf  # false for NaN; after one NaN or infinity no mean is finite
    return finite


_TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class Comoments:
    """Weight, means, shape (D,), and sums w (x - mean)(x - mean)', shape (D, D), of the columns of rows.

    Blocks add up without cancellation (Chan, Golub and LeVeque 1983, The American Statistician 37).
    """

    weight: float
    mean: FloatArray
    products: FloatArray

    @classmethod
    def of(cls, rows: WeightedData) -> Self:
        """Return the comoments of rows, by BLAS; for wide rows that are mostly 0 by the entries that are not."""
        w, D = rows.weights, rows.n_features
        weight, products = float(w.sum()), np.zeros((D, D))
        mean = w @ rows.X / max(weight, _TINY)  # a block may have no row that weighs
        # a column that is mostly 0 stays so, and its mean is no larger than its spread
        center = np.where(2 * np.count_nonzero(rows.X, axis=0) > len(rows), mean, 0.0)
        moved = rows.X - center
        few = csr_if_sparse(moved)
        if sparse.issparse(few):
            add_gram(few, w, products)
        else:
            moved *= np.sqrt(w)[:, None]
            products += moved.T @ moved
        gap = mean - center
        return cls(weight, mean, products - weight * np.outer(gap, gap))

    def __add__(self, other: "Comoments") -> "Comoments":
        weight, gap = self.weight + other.weight, other.mean - self.mean
        mean = self.mean + gap * (other.weight / max(weight, _TINY))
        between = np.outer(gap, gap) * (self.weight * other.weight / max(weight, _TINY))
        return Comoments(weight, mean, self.products + other.products + between)

    @property
    def covariance(self) -> FloatArray:
        """Weighted population covariance, shape (D, D)."""
        return self.products / self.weight


def comoments_of(_: int, block: WeightedData, *, counts: bool = False, responses: bool = False) -> Comoments:
    """Return the `Comoments` of a block, as a pass asks for them; of `counts` by the side that each has once."""
    if responses:
        without, y = numbers_of(block)
        block = replace(without, X=y[:, None])
    return Comoments.of(weigh_one_side(block) if counts else block)


def weigh_one_side(rows: WeightedData) -> WeightedData:
    """Return rows that stand in pairs, such as counts, with weight 0 for one of each pair, so that each counts once.

    The other side of a count weighs as much as there are events: means of columns by it would depend on the response.
    """
    return rows.with_weights(np.where(rows.y < 0, rows.weights, 0.0))


def check_magnitude(low: FloatArray, high: FloatArray, names: tuple[str, ...], where: str = "the data") -> None:
    """Raise if a column with this range, shapes (D,), has entries whose squares overflow."""
    if max(high.max(initial=0.0), -low.min(initial=0.0)) > MAX_ENTRY:  # rows of a formula may have no raw column
        d = int(np.argmax(np.maximum(high, -low)))
        raise DataError(
            f"{where}: column {names[d]!r} has entries above {MAX_ENTRY:g} in size; rescale it: squares overflow"
        )


def scan_block(names: tuple[str, ...], block: WeightedData, *, given: tuple[str, ...] = ()) -> Scan:
    """Return the scan of a block; raise if an entry is NaN or infinite.

    If the columns `given` are named, which are finite, the others are terms of a formula.
    """
    w, D = block.weights, block.n_features
    bounds, mean, spread = np.stack([block.X[0], block.X[0]]), np.zeros(D), np.zeros(D)
    if not _moments(block.X, w, bounds, mean, spread):
        check_finite(block.X, names, block.index, given=given)
    ends, observations = (float(w.min()), float(w.max())), ObservationTotals.of(block)
    return Scan(len(block), bounds[0], bounds[1], *ends, exact_weight(w), observations, mean, spread)
