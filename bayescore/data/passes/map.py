"""Passes over rows: a function of each block, in threads or in workers elsewhere, results in block order.

Here is the one place that knows who runs a pass; `Dataset.map` is how to ask for one. Rows that come in pieces are read
*and* mapped by the workers: threads of this process, or those of the source's own pool, to which descriptors of the
rows travel, and the function. Others are read in the calling thread and mapped in threads.

Two rules make a result independent of how the rows are cut into blocks and of the number of threads: scores come from
row-wise kernels, and sums over rows are taken in fixed point, where addition is associative (`exact`). Where that will
not do, blocks are *canonical*: the rows are cut anew at multiples of a number of rows, and BLAS has one thread.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from bayescore.data.passes.tasks import Division, Future, Task, plan, recut
from bayescore.data.passes.threads import one_blas_thread
from bayescore.progress import progress
from bayescore.types import WeightedData
from bayescore.validation import DataError, RowError

R = TypeVar("R")
Work = Callable[[int, WeightedData], R]


def map_pieces(division: Division, function: Work[R], step: int | None, cores: int) -> Iterator[tuple[int, R]]:
    """Yield for each block its number of rows and ``function(start, block)``, `start` the position of its first row.

    Parameters
    ----------
    division : Division
        The rows, and who reads and maps them.
    function : callable
        To run in parallel it must release the GIL, as numba kernels and NumPy do. What it refers to and what it returns
        travel to and from the workers of a pool: neither should be as large as a block.
    step : int or None
        Rows of a canonical block; None for blocks as they come.
    cores : int
        Number of threads.

    Raises
    ------
    DataError
        If a row cannot be used; the message says where it is to be found.
    """
    with _blas(step), ThreadPoolExecutor(cores, "pass") as threads:
        begin: Callable[..., Future] = partial(_Streamed, threads)
        ahead = 2 * cores
        if division.pool is not None:
            begin, ahead = partial(division.pool.submit, _run_task), 3 * division.pool.n_workers
        try:
            yield from _in_order((begin(task, function, step) for task in plan(division, step)), ahead)
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
                yield threads.submit(_run_block, block, start, function)
                start += len(block)

        try:
            yield from _in_order(futures(), 2 * cores)
        finally:
            if isinstance(blocks, Generator):  # whatever it reads from is free again, after an error too
                blocks.close()


def _blas(step: int | None) -> AbstractContextManager[object]:
    """Return a context for a pass: its blocks run in parallel, and BLAS threads on top would also fight for cores."""
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
    """A task in a thread, whose results can be had as they come: those of the first task in line do not pile up.

    Those of the next ones do, so that no thread waits for another.
    """

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


def _run_block(block: WeightedData, start: int, function: Work[R]) -> list[tuple[int, R]]:
    return [(len(block), function(start, block))]


def _run_task(task: Task, function: Work[R], step: int | None) -> list[tuple[int, R]] | DataError:
    """Return the results of a task, or what is wrong with its rows.

    That is returned and not raised, as a cluster prints the traceback of whatever a worker raises.
    """
    try:
        with _blas(step):
            return list(_run(task.blocks(step), task.start, function))
    except DataError as error:
        return error


def tracked(results: Iterator[tuple[int, R]], total: int | None, description: str, *, shown: bool) -> Iterator[R]:
    """Yield results that come with their numbers of rows, under a progress bar."""
    with progress(shown, "rows") as bar:
        task = bar.add_task(description, total=total)
        for n_rows, result in results:
            bar.advance(task, n_rows)
            yield result
