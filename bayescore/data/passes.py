"""One pass over the rows of a source: a function of each block, in threads, results in block order.

Every builder is made of such passes. Two rules make a result independent of how the rows are cut into
blocks and of the number of threads: scores come from row-wise kernels, and sums over rows are taken in
fixed point, where addition is associative (`exact_sum`).
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from bayescore.compiled import jit
from bayescore.progress import progress
from bayescore.types import Design, FloatArray, Source, WeightedData, stack
from bayescore.validation import DataError, check_finite

R = TypeVar("R")

MAX_BLOCK_ROWS = 1 << 16
MAX_ENTRY = 1e100  # squared distances and their fixed-point sums stay finite
_FIXED_POINT_BITS = 36  # 2^16 rows of 2^36 quanta add without rounding in a float64


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    # blocks run in parallel already: BLAS threads on top would fight for the cores
    return ThreadpoolController()


def block_rows(n_columns: int) -> int:
    """Rows of a block of about 8 MB, at most `MAX_BLOCK_ROWS`."""
    return max(256, min(MAX_BLOCK_ROWS, (1 << 20) // n_columns))


def map_blocks(
    source: Source,
    function: Callable[[int, WeightedData], R],
    *,
    description: str = "",
    progressbar: bool = False,
    canonical: bool = False,
) -> Iterator[R]:
    """Yield ``function(start, block)`` for each block of `source`, in order.

    Parameters
    ----------
    source : Source
        Rows; read in the calling thread.
    function : callable
        Called as ``function(start, block)`` in worker threads; `start` is the position of the block's first
        row. To run in parallel it must release the GIL, as numba kernels and NumPy do.
    description : str
        Text of the progress bar.
    progressbar : bool
        Whether to show one.
    canonical : bool
        Whether to cut the rows anew at multiples of `block_rows`: then BLAS and sums in block order give the
        same bits for every source.
    """
    workers = available_cores()
    waiting: deque[tuple[int, Future[R]]] = deque()
    with _blas().limit(limits=1, user_api="blas") if canonical else nullcontext(), ThreadPoolExecutor(workers) as pool:

        def results() -> Iterator[tuple[int, R]]:
            start = 0
            for block in _recut(source) if canonical else source.blocks():
                waiting.append((len(block), pool.submit(function, start, block)))
                start += len(block)
                while len(waiting) > 2 * workers:  # bounds the memory
                    n_rows, future = waiting.popleft()
                    yield n_rows, future.result()
            while waiting:
                n_rows, future = waiting.popleft()
                yield n_rows, future.result()

        try:
            yield from _tracked(results(), source.n_rows, description, progressbar)
        finally:
            for _, future in waiting:
                future.cancel()


def _recut(source: Source) -> Iterator[WeightedData]:
    size = block_rows(len(source.design.names))
    parts: list[WeightedData] = []
    held = 0
    for block in source.blocks():
        if held == 0 and len(block) == size:
            yield block
            continue
        parts.append(block)
        held += len(block)
        while held >= size:
            rows = stack(parts) if len(parts) > 1 else parts[0]
            yield rows.take(slice(0, size))
            parts, held = [rows.take(slice(size, None))], held - size
    if held:
        yield stack(parts)


def _tracked(results: Iterator[tuple[int, R]], total: int, description: str, enabled: bool) -> Iterator[R]:
    with progress(enabled) as bar:
        task = bar.add_task(description, total=total)
        for n_rows, result in results:
            bar.advance(task, n_rows)
            yield result


def quantum(largest: FloatArray) -> FloatArray:
    """Return the fixed-point unit (a power of two) for numbers of at most `largest` in size."""
    _, exponent = np.frexp(np.maximum(largest, np.finfo(float).tiny))
    return np.asarray(np.ldexp(1.0, np.maximum(exponent, -900) - _FIXED_POINT_BITS), dtype=np.float64)


def exact_sum(values: FloatArray, unit: FloatArray) -> NDArray[np.object_]:
    """Sum `values`, at most `MAX_BLOCK_ROWS` of them, over the first axis in whole multiples of `unit`.

    The sums are Python integers: adding them up gives the same total in every order.
    """
    return as_integers(np.rint(values / unit).sum(axis=0))


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


def scan(source: Source, progressbar: bool = False) -> Scan:
    """Check the rows of `source` and return their count, range and total weight.

    Raises
    ------
    DataError
        If an entry is NaN or infinite; the message names its row and column.
    """
    names = source.design.names

    def summary(start: int, block: WeightedData) -> tuple[int, bool, float, FloatArray, FloatArray]:
        low, high = block.X[0].copy(), block.X[0].copy()
        if not _column_range(block.X, low, high):
            check_finite(block.X, names, start)
        heaviest = float(block.weights.max())
        unit = heaviest == 1.0 and float(block.weights.min()) == 1.0
        return len(block), unit, heaviest, low, high

    parts = list(map_blocks(source, summary, description="checking rows", progressbar=progressbar))
    n_rows = sum(part[0] for part in parts)
    unit_weights = all(part[1] for part in parts)
    heaviest = max(part[2] for part in parts)
    low = np.min([part[3] for part in parts], axis=0)
    high = np.max([part[4] for part in parts], axis=0)
    if max(float(high.max()), -float(low.min())) > MAX_ENTRY:
        d = int(np.argmax(np.maximum(high, -low)))
        raise DataError(f"column {names[d]!r} has entries above {MAX_ENTRY:g} in size; rescale it: squares overflow")
    total = float(n_rows)
    if not unit_weights:
        unit_of_weight = quantum(np.float64(heaviest))  # type: ignore[arg-type]
        sums = map_blocks(source, lambda _, block: exact_sum(block.weights, unit_of_weight))
        total = float(from_integers(sum(sums), unit_of_weight))  # type: ignore[arg-type]
    return Scan(
        n_rows=n_rows,
        low=low,
        high=high,
        largest_weight=heaviest,
        weight_total=total,
    )


def column_moments(source: Source, found: Scan, progressbar: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return the weighted mean and population standard deviation of each column, shapes (D,), in two passes."""
    reach = found.high - found.low  # not the entries themselves: a spread far below the mean keeps its digits
    unit = quantum(reach * found.largest_weight)
    sums = map_blocks(
        source,
        lambda _, block: exact_sum((block.X - found.low) * block.weights[:, None], unit),
        description="means of columns",
        progressbar=progressbar,
    )
    above: FloatArray = from_integers(sum(sums), unit) / found.weight_total  # type: ignore[arg-type]
    mean: FloatArray = found.low + above
    spread = quantum(reach**2 * found.largest_weight)
    squares = map_blocks(
        source,
        lambda _, block: exact_sum((block.X - mean) ** 2 * block.weights[:, None], spread),
        description="spread of columns",
        progressbar=progressbar,
    )
    variance = from_integers(sum(squares), spread) / found.weight_total  # type: ignore[arg-type]
    return mean, np.sqrt(variance)
