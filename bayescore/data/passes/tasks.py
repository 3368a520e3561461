"""Tasks: stretches of rows that a worker reads and maps on its own, whatever the worker is.

A source that can be read in pieces (row groups of a file, slices of an array, partitions of a collection) says so by
its `Division`. `plan` cuts the pieces into tasks. Where canonical blocks are asked for, of `step` rows each, task k has
the rows from the end of piece k - 1 to the end of piece k, both rounded up to a multiple of `step`: so a worker reads
its own piece and the head of the next, fewer than `step` rows, and every canonical block has one worker.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from bayescore.data.design import Design
from bayescore.data.passes.cutter import Cutter
from bayescore.data.source import Readable
from bayescore.types import WeightedData


class Piece(Protocol):
    """Consecutive rows of a source that can be read on their own, in any thread; picklable where workers need that."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def read(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1 of the piece, in order."""
        ...

    def place(self, row: int) -> str:
        """Say where row `row` of the piece is to be found."""
        ...


class Sliced(Protocol):
    """Rows in memory."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def rows(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1."""
        ...


class Slice(NamedTuple):
    """Rows start, ..., stop - 1 of a source in memory."""

    source: Sliced
    start: int
    stop: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.stop - self.start

    def read(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1 of the slice."""
        return self.source.rows(self.start + low, self.start + high)

    def place(self, row: int) -> str:  # noqa: ARG002
        """Say nothing: the row's number says it."""
        return ""


def slices(source: Sliced, step: int) -> list[Slice]:
    """Cut rows in memory into slices of `step`."""
    return [Slice(source, low, min(low + step, source.n_rows)) for low in range(0, source.n_rows, step)]


class Part(NamedTuple):
    """Rows low, ..., high - 1 of a piece."""

    piece: Piece
    low: int
    high: int


@dataclass(frozen=True)
class Task:
    """Consecutive rows from `start` on, put through `transform` where there is one."""

    start: int
    n_rows: int
    parts: Sequence[Part]
    transform: Design | None = None

    def blocks(self, step: int | None) -> Iterator[WeightedData]:
        """Yield the rows in blocks of `step`, or as they come if it is None."""
        blocks = (block for part in self.parts for block in part.piece.read(part.low, part.high))
        for block in blocks if step is None else recut(blocks, step):
            yield block if self.transform is None else self.transform.rows(block)


class Future(Protocol):
    """The part of ``concurrent.futures.Future`` that passes use."""

    def result(self) -> Any:
        """Wait for the result and return it, or raise its error."""
        ...

    def cancel(self) -> Any:
        """Stop the work if it has not begun."""
        ...


class Pool(Protocol):
    """Workers elsewhere."""

    @property
    def n_workers(self) -> int:
        """Number of tasks that run at a time."""
        ...

    def submit(self, run: Callable[..., Any], task: Task, /, *arguments: Any) -> Future:
        """Run ``run(task, *arguments)`` on a worker."""
        ...


@dataclass(frozen=True)
class Division:
    """The rows of a source in pieces; read by threads of this process unless there is a `pool`.

    A pass goes over the rows low, ..., high - 1, all by default.
    """

    pieces: Sequence[Piece]
    pool: Pool | None = None
    transform: Design | None = None
    low: int = 0
    high: int | None = None

    def place(self, row: int) -> str:
        """Say where a row of the source is to be found."""
        for piece in self.pieces:
            if row < piece.n_rows:
                return piece.place(row)
            row -= piece.n_rows
        return ""


@runtime_checkable
class Divisible(Protocol):
    """A source that can be read in pieces."""

    def division(self, step: int) -> Division | None:
        """Return the pieces, in blocks of at most `step` rows; or None where the rows come in one stream only."""
        ...


def division_of(rows: Readable, step: int) -> Division | None:
    """Return how `rows` can be divided, None if they cannot."""
    return rows.division(step) if isinstance(rows, Divisible) else None


def plan(division: Division, step: int | None) -> list[Task]:
    """Cut the rows into tasks of whole blocks of `step` rows from `low` on, or of whole pieces if it is None."""
    ends = np.cumsum([piece.n_rows for piece in division.pieces])
    starts = np.concatenate([[0], ends[:-1]])
    whole = 1 if step is None else step
    end = ends[-1] if division.high is None else min(division.high, ends[-1])
    bounds = np.unique(np.minimum(-(-ends // whole) * whole, end))
    tasks = []
    for low, high in pairwise([division.low, *bounds[bounds > division.low].tolist()]):
        first, last = np.searchsorted(ends, low, "right"), np.searchsorted(starts, high, "left")
        cuts = [(i, max(low - int(starts[i]), 0), min(high, int(ends[i])) - int(starts[i])) for i in range(first, last)]
        parts = [Part(division.pieces[i], a, b) for i, a, b in cuts if a < b]
        tasks.append(Task(low, high - low, parts, division.transform))
    return tasks


def recut(blocks: Iterator[WeightedData], step: int) -> Iterator[WeightedData]:
    """Cut blocks anew, into blocks of `step` rows."""
    cutter = Cutter(step)
    for block in blocks:
        yield from cutter.cut(block)
    if (rest := cutter.rest) is not None:
        yield rest
