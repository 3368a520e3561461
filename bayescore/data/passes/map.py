"""Passes over rows: a function of each block, in threads or in workers elsewhere, results in block order.

`Dataset.map` is how to ask for a pass. Rows that come in pieces are read *and* mapped by the workers: threads of this
process, or those of the source's own pool, to which the function and descriptors of the rows travel. Other rows are
read in the calling thread and mapped in threads. A result depends neither on the cut into blocks nor on the number of
threads: scores come from row-wise kernels, and sums over rows are taken in fixed point (`exact`). Where that will not
do, blocks are *canonical*: the rows are cut anew at multiples of a number of rows, and BLAS has one thread.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from typing import Any, TypeVar

from bayescore.data.passes.cutter import recut
from bayescore.data.passes.tasks import Division, Future, Task, plan
from bayescore.data.passes.threads import one_blas_thread
from bayescore.progress import progress
from bayescore.types import WeightedData
from bayescore.validation import DataError, RowError

R = TypeVar("R")
Work = Callable[[int, WeightedData], R]


def map_pieces(division: Division, function: Work[R], step: int | None, cores: int) -> Iterator[tuple[int, R]]:
    """Yield for each block its number of rows and ``function(start, block)``, `start` the position of its first row.

    `step` is the number of rows of a canonical block, None for blocks as they come. To run in parallel the function
    must release the GIL, as numba kernels and NumPy do. What it refers to and returns travels to and from the workers
    of a pool: keep both smaller than a block. A `DataError` says where its row is to be found.
    """
    with _blas(step), ThreadPoolExecutor(cores, "pass") as threads:
        tasks, pool = plan(division, step), division.pool
        try:
            if pool is not None:
                yield from _in_order(pool.submit(_run_task, tasks, function, step), 3 * pool.n_workers)
            else:
                yield from _in_order((_Streamed(threads, task, function, step) for task in tasks), 2 * cores)
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
    found: Iterable[tuple[int, R]] | DataError = future.result()
    if isinstance(found, DataError):
        raise found
    return found


class _Streamed:
    """A task in a thread that hands out each result at once: so those of the first task in line do not pile up."""

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


def tracked(results: Iterator[tuple[int, R]], total: int | None, description: str, *, shown: bool) -> Iterator[R]:
    """Yield results that come with their numbers of rows, under a progress bar."""
    with progress(shown, description, total, "rows") as bar:
        for n_rows, result in results:
            bar.advance(n_rows)
            yield result
