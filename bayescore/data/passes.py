"""One pass over the rows of a source: a function of each block, in threads, results in block order.

Every builder is made of such passes. Two rules make a result independent of how the rows are cut into
blocks and of the number of threads: scores come from row-wise kernels, and sums over rows are taken in
fixed point, where addition is associative (`exact_sum`).
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.data.tasks import Future, Task, division_of, plan, recut
from bayescore.data.threads import ONE_BLAS_THREAD
from bayescore.progress import progress
from bayescore.types import Design, FloatArray, Rows, Source, WeightedData
from bayescore.validation import DataError, RowError, check_finite

R = TypeVar("R")

MAX_BLOCK_ROWS = 1 << 16
MAX_ENTRY = 1e100  # squared distances and their fixed-point sums stay finite
_FIXED_POINT_BITS = 36  # 2^16 rows of 2^36 quanta add without rounding in a float64


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread: its sums depend on their number, which is the whole process's."""
    return ONE_BLAS_THREAD


def block_rows(n_columns: int) -> int:
    """Rows of a block of 4 to 8 MB, at most `MAX_BLOCK_ROWS`: a power of two, for row groups are multiples of one."""
    return max(256, min(MAX_BLOCK_ROWS, 1 << ((1 << 20) // n_columns).bit_length() >> 1))


def map_blocks(
    source: Rows,
    function: Callable[[int, WeightedData], R],
    *,
    description: str = "",
    progressbar: bool = False,
    canonical: bool | int = False,
    here: bool = False,
) -> Iterator[R]:
    """Yield ``function(start, block)`` for each block of `source`, in order.

    This is the one place that knows who runs a pass. Rows that come in pieces are read *and* mapped by the workers:
    threads of this process, or those of the source's own pool, to which descriptors of the rows travel, and `function`.
    Others are read in the calling thread and mapped in threads.

    Parameters
    ----------
    source : Rows
        Rows.
    function : callable
        Called as ``function(start, block)`` in workers; `start` is the position of the block's first row. To run in
        parallel it must release the GIL, as numba kernels and NumPy do. What it refers to and what it returns travel
        to and from the workers of a pool: neither should be as large as a block.
    description : str
        Text of the progress bar.
    progressbar : bool
        Whether to show one.
    canonical : bool or int
        Whether to cut the rows anew at multiples of `block_rows`, or of a number of rows: then BLAS and sums in block
        order give the same bits for every source.
    here : bool
        Whether to read the rows in the calling thread in any case, for results that are as large as the rows.

    Raises
    ------
    DataError
        If a row cannot be used; the message says where it is to be found.
    """
    step = block_rows(len(source.design.names)) if canonical is True else canonical or None
    division = None if here else division_of(source)
    cores = available_cores()
    waiting: deque[Future] = deque()
    # blocks run in parallel already: BLAS threads on top would also fight for the cores
    with one_blas_thread() if canonical else nullcontext(), ThreadPoolExecutor(cores, "pass") as threads:
        submit: Callable[..., Future] = threads.submit
        ahead = 2 * cores
        if division is not None and division.pool is not None:
            submit, ahead = division.pool.submit, 3 * division.pool.n_workers

        def futures() -> Iterator[Future]:
            if division is not None:
                for task in plan(division, step):
                    yield submit(_run_task, task, function, step)
                return
            start = 0
            for block in source.blocks() if step is None else recut(source.blocks(), step):
                yield submit(_run, [block], start, function)
                start += len(block)

        def results() -> Iterator[tuple[int, R]]:
            for future in futures():
                waiting.append(future)
                while len(waiting) > ahead:  # bounds the memory
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()

        try:
            total = source.n_rows if isinstance(source, Source) else None
            yield from tracked(results(), total, description, progressbar)
        except RowError as error:
            place = "" if division is None else division.place(error.row)
            raise (DataError(f"{error} ({place})") if place else error) from None
        finally:
            for future in waiting:
                future.cancel()


def _run(blocks: Iterable[WeightedData], start: int, function: Callable[[int, WeightedData], R]) -> list[tuple[int, R]]:
    done = []
    for block in blocks:
        done.append((len(block), function(start, block)))
        start += len(block)
    return done


def _run_task(task: Task, function: Callable[[int, WeightedData], R], step: int | None) -> list[tuple[int, R]]:
    with nullcontext() if step is None else one_blas_thread():
        return _run(task.blocks(step), task.start, function)


def tracked(results: Iterator[tuple[int, R]], total: int | None, description: str, enabled: bool) -> Iterator[R]:
    """Yield results that come with their numbers of rows, under a progress bar."""
    with progress(enabled, "rows") as bar:
        task = bar.add_task(description, total=total)
        for n_rows, result in results:
            bar.advance(task, n_rows)
            yield result


def quantum(largest: FloatArray) -> FloatArray:
    """Return the fixed-point unit (a power of two) for numbers of at most `largest` in size."""
    _, exponent = np.frexp(np.maximum(largest, np.finfo(float).tiny))
    return np.asarray(np.ldexp(1.0, np.maximum(exponent, -900) - _FIXED_POINT_BITS), dtype=np.float64)


@jit
def _add_exactly(
    X: FloatArray, weights: FloatArray, origin: FloatArray, square: bool, shift: FloatArray, total: FloatArray
) -> None:
    for n in range(X.shape[0]):
        for d in range(X.shape[1]):
            gap = X[n, d] - origin[d]
            value = weights[n] * (gap * gap if square else gap)
            total[d] += (value + shift[d]) - shift[d]


def exact_sum(
    X: FloatArray, weights: FloatArray, origin: FloatArray, unit: FloatArray, *, square: bool = False
) -> NDArray[np.object_]:
    """Sum w (x - origin), or w (x - origin)^2, over at most `MAX_BLOCK_ROWS` rows in whole multiples of `unit`.

    The sums, shape (D,), are Python integers: adding them up gives the same total in every order. Adding and
    subtracting 1.5 * 2^52 * unit rounds a number to a multiple of `unit`, and multiples add exactly.
    """
    total = np.zeros(X.shape[1])
    _add_exactly(X, weights, origin, square, unit * 6755399441055744.0, total)
    return as_integers(total / unit)


def as_integers(whole: FloatArray) -> NDArray[np.object_]:
    """Turn floats that hold whole numbers into Python integers."""
    return np.asarray(whole).astype(np.int64).astype(object)


def from_integers(total: NDArray[np.object_], unit: FloatArray) -> FloatArray:
    """Turn a total of `exact_sum` back into floats."""
    return np.asarray(np.asarray(total, dtype=np.float64) * unit, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Scan:
    """What the first pass over a source learns, having checked that every entry is finite."""

    n_rows: int
    low: FloatArray
    high: FloatArray
    smallest_weight: float
    largest_weight: float
    weight_total: float

    @property
    def largest(self) -> FloatArray:
        """Largest size of an entry of each column, shape (D,)."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Which columns are constant, shape (D,)."""
        return np.asarray(self.low == self.high)

    def through(self, design: Design) -> "Scan":
        """Return the scan of the design matrix made of these raw columns."""
        low, high = (design.transform(bound[None, :])[0] for bound in (self.low, self.high))
        return replace(self, low=low, high=high)


@jit
def _column_range(X: FloatArray, low: FloatArray, high: FloatArray) -> bool:
    """Widen `low` and `high` to the range of each column; return whether every entry is finite."""
    total = np.zeros(X.shape[1])
    for n in range(X.shape[0]):
        for d in range(X.shape[1]):
            x = X[n, d]
            low[d] = min(low[d], x)
            high[d] = max(high[d], x)
            total[d] += x - x  # NaN for NaN and infinity
    return not np.isnan(total.sum())


def check_reach(low: FloatArray, high: FloatArray, names: tuple[str, ...], where: str = "the data") -> None:
    """Raise if a column with this range, shapes (D,), has entries whose squares overflow."""
    if max(float(high.max()), -float(low.min())) > MAX_ENTRY:
        d = int(np.argmax(np.maximum(high, -low)))
        raise DataError(
            f"{where}: column {names[d]!r} has entries above {MAX_ENTRY:g} in size; rescale it: squares overflow"
        )


def scan(source: Source, progressbar: bool = False) -> Scan:
    """Check the rows of `source` and return their count, range and total weight.

    Raises
    ------
    DataError
        If an entry is NaN or infinite; the message names its row and column.
    """
    names = source.design.names

    def summary(start: int, block: WeightedData) -> tuple[int, float, float, FloatArray, FloatArray, int]:
        low, high = block.X[0].copy(), block.X[0].copy()
        if not _column_range(block.X, low, high):
            check_finite(block.X, names, start)
        w = block.weights
        return len(block), float(w.min()), float(w.max()), low, high, exact_weight(w)

    parts = list(map_blocks(source, summary, description="checking rows", progressbar=progressbar))
    low: FloatArray = np.stack([part[3] for part in parts]).min(axis=0)
    high: FloatArray = np.stack([part[4] for part in parts]).max(axis=0)
    check_reach(low, high, names)
    return Scan(
        n_rows=sum(part[0] for part in parts),
        low=low,
        high=high,
        smallest_weight=min(part[1] for part in parts),
        largest_weight=max(part[2] for part in parts),
        weight_total=total_weight(part[5] for part in parts),
    )


def exact_weight(weights: FloatArray) -> int:
    """Return the exact sum of weights, at most `MAX_BLOCK_ROWS` of them, in units of 2^-1126; see `total_weight`."""
    if (weights == 1.0).all():
        return len(weights) << 1126
    fraction, exponent = np.frexp(weights)  # the exponent is -1073 or more
    digits = np.ldexp(fraction, 53).astype(np.int64)
    total = 0
    for e in np.unique(exponent).tolist():
        own = digits[exponent == e]  # in halves, or 2^11 of them overflow
        total += ((int((own >> 27).sum()) << 27) + int((own & ((1 << 27) - 1)).sum())) << (e + 1073)
    return total


def total_weight(parts: Iterable[int]) -> float:
    """Return the sum of exact sums, rounded once: the same for every order and every cut into blocks."""
    return sum(parts) / (1 << 1126)


def column_moments(source: Source, found: Scan, progressbar: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return the weighted mean and population standard deviation of each column, shapes (D,), in two passes."""
    reach = found.high - found.low  # not the entries themselves: a spread far below the mean keeps its digits
    unit = quantum(reach * found.largest_weight)
    sums = map_blocks(
        source,
        lambda _, block: exact_sum(block.X, block.weights, found.low, unit),
        description="means of columns",
        progressbar=progressbar,
    )
    above: FloatArray = from_integers(sum(sums), unit) / found.weight_total  # type: ignore[arg-type]
    mean: FloatArray = found.low + above
    spread = quantum(reach**2 * found.largest_weight)
    squares = map_blocks(
        source,
        lambda _, block: exact_sum(block.X, block.weights, mean, spread, square=True),
        description="spread of columns",
        progressbar=progressbar,
    )
    variance = from_integers(sum(squares), spread) / found.weight_total  # type: ignore[arg-type]
    return mean, np.sqrt(variance)
