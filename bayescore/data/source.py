"""`Source`: rows that can be read block by block, again and again; `Readable`: perhaps only once.

Tasks: consecutive rows that one worker reads and maps, whatever the worker is.

A source that can be read in pieces (row groups of a file, slices of an array, partitions of a collection) gives a
`Division`, and `plan` cuts its pieces into tasks. Where blocks are canonical, of `step` rows each, task k has the rows
from the end of piece k - 1 to the end of piece k, both rounded up to a multiple of `step`. So a worker reads its
piece and the head of the next, fewer than `step` rows, and every canonical block has one worker.

Canonical blocks: rows cut again, so that results do not depend on how rows arrive; how long blocks are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from bayescore.data.design import Design
from bayescore.types import WeightedData, stack


class Readable(Protocol):
    """Rows that come block by block, in order, perhaps only once.

    The source chooses how rows are cut into blocks; no result may depend on it.
    """

    @property
    def design(self) -> Design:
        """How the columns of the blocks came from raw features."""

    @property
    def label(self) -> str:
        """Name of the label column."""

    def blocks(self) -> Iterator[WeightedData]:
        """Yield all rows, in order, in blocks."""


@runtime_checkable
class Source(Readable, Protocol):
    """Rows that can be read again and again: each call of `blocks` starts a new pass in the same order."""

    @property
    def classes(self) -> tuple[Any, Any]:
        """The two labels as given; the second is +1."""

    @property
    def n_rows(self) -> int:
        """Number of rows of one pass."""


MAX_BLOCK_ROWS = 1 << 16


def block_rows(n_columns: int) -> int:
    """Rows of a block of 4 to 8 MB, at most `MAX_BLOCK_ROWS`: a power of two, for row groups are multiples of one."""
    return max(256, min(MAX_BLOCK_ROWS, 1 << ((1 << 20) // max(n_columns, 1)).bit_length() >> 1))


class Cutter:
    """Cuts blocks of any length into canonical blocks of `size` rows."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._parts: list[WeightedData] = []
        self._held = 0

    def cut(self, block: WeightedData) -> list[WeightedData]:
        """Return the blocks that `block` completes; keep the rows left over."""
        self._parts = [*self._parts, block]  # a copy of the cutter keeps its list
        self._held += len(block)
        if self._held < self.size:
            # parts of like size are joined, so that few remain however small the blocks
            while len(self._parts) > 1 and len(self._parts[-2]) <= len(self._parts[-1]):
                self._parts[-2:] = [stack(self._parts[-2:])]
            return []
        rows = self._parts[0] if len(self._parts) == 1 else stack(self._parts)
        whole = len(rows) // self.size * self.size
        # a copy, or the few rows left over would keep all of them in memory
        self._parts = [rows.take(np.arange(whole, len(rows)))] if whole < len(rows) else []
        self._held = len(rows) - whole
        return [rows.take(slice(start, start + self.size)) for start in range(0, whole, self.size)]

    @property
    def rest(self) -> WeightedData | None:
        """The rows left over, if any."""
        return stack(self._parts) if self._parts else None


def recut(blocks: Iterator[WeightedData], step: int) -> Iterator[WeightedData]:
    """Cut blocks into blocks of `step` rows."""
    cutter = Cutter(step)
    for block in blocks:
        yield from cutter.cut(block)
    if (rest := cutter.rest) is not None:
        yield rest


def between(blocks: Iterable[WeightedData], low: int, high: int) -> Iterator[WeightedData]:
    """Yield the rows low, ..., high - 1 of blocks; blocks beyond them are not read."""
    at = 0
    for block in blocks:
        a, b = max(low - at, 0), min(high - at, len(block))
        if a < b:
            yield block.take(slice(a, b))
        at += len(block)
        if at >= high:
            return


Future = Any
"""Has `result` and `cancel`, as ``concurrent.futures.Future`` does."""


class Piece(Protocol):
    """Consecutive rows of a source that any thread can read; picklable where workers need that.

    A piece that can name the place of its rows better than the source has a method ``place(row)`` that says so.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def read(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1 of the piece, in order."""


class Slice(NamedTuple):
    """Rows start, ..., stop - 1 of a source in memory."""

    source: Any  # an `InMemory`
    start: int
    stop: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.stop - self.start

    def read(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1 of the slice."""
        yield from self.source.rows(self.start + low, self.start + high)


class Part(NamedTuple):
    """Rows low, ..., high - 1 of a piece."""

    piece: Piece
    low: int
    high: int


@dataclass(frozen=True)
class Task:
    """Consecutive rows from `start` on, put through `transform` if given."""

    start: int
    n_rows: int
    parts: Sequence[Part]
    transform: Design | None = None

    def blocks(self, step: int | None) -> Iterator[WeightedData]:
        """Yield the rows in blocks of `step`, or as they come if it is None."""
        blocks = (block for part in self.parts for block in part.piece.read(part.low, part.high))
        for block in blocks if step is None else recut(blocks, step):
            yield block if self.transform is None else self.transform.rows(block)


class WorkerPool(Protocol):
    """Workers elsewhere."""

    @property
    def n_workers(self) -> int:
        """Number of tasks that run at a time."""

    def submit(self, run: Callable[..., Any], tasks: Sequence[Task], /, *arguments: Any) -> Iterator[Future]:
        """Yield promises of ``run(task, *arguments)``; a task begins when its promise is asked for."""


@dataclass(frozen=True)
class Division:
    """The rows of a source in pieces; threads of this process read them unless a `pool` is given.

    A pass goes over the rows low, ..., high - 1, all by default.
    """

    pieces: Sequence[Piece]
    pool: WorkerPool | None = None
    transform: Design | None = None
    low: int = 0
    high: int | None = None

    def place(self, row: int) -> str:
        """Say where a row of the source stands; "" if its number says enough."""
        for piece in self.pieces:
            if row < piece.n_rows:
                place: Callable[[int], str] | None = getattr(piece, "place", None)
                return "" if place is None else place(row)
            row -= piece.n_rows
        return ""


@runtime_checkable
class Divisible(Protocol):
    """A source that can be read in pieces."""

    def division(self, step: int) -> Division | None:
        """Return the pieces, in blocks of at most `step` rows; or None where the rows come in one stream only."""


class InMemory:
    """Base of sources in memory, with ``rows(low, high)``, which yields the rows low, ..., high - 1."""

    def division(self: Any, step: int) -> Division:
        """Return a piece for each block."""
        return Division([Slice(self, low, min(low + step, self.n_rows)) for low in range(0, self.n_rows, step)])

    def blocks(self: Any) -> Iterator[WeightedData]:
        """Yield the rows in order."""
        for piece in self.division(block_rows(len(self.design.raw_names))).pieces:
            yield from piece.read(0, piece.n_rows)


def division_of(rows: Readable, step: int) -> Division | None:
    """Return the pieces of `rows`; None where they come in one stream only."""
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
