"""`Dataset`: rows with their design, and passes over them.

``dataset.map(function, "scores")`` is the one way to run a pass. The function may travel to other processes, so it
takes numbers from a `Dataset` and never refers to the `Dataset` itself, which cannot be pickled.

Rows of a coreset, and new rows after them, as one source: what an update reads in place of all rows.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, TypeVar

import numpy as np

from bayescore.compiled import available_cores
from bayescore.data.blocks import Stream, is_stream
from bayescore.data.columns import missing_counted
from bayescore.data.coreset import Coreset
from bayescore.data.design import Design, OffsetColumnDesign
from bayescore.data.factors import Selection
from bayescore.data.formula_design import formula_of
from bayescore.data.groups import GivenGroups
from bayescore.data.passes import Comoments, Scan, comoments_of, map_pieces, map_stream, scan_block
from bayescore.data.roles import OFFSET, Roles
from bayescore.data.source import MAX_BLOCK_ROWS, Division, Readable, Source, block_rows, division_of
from bayescore.data.sources import as_source
from bayescore.progress import progress
from bayescore.types import FloatArray, IntArray, WeightedData, stack
from bayescore.validation import DataError

R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class CellCounts:
    """The combinations of groups that occur, as numbers, their numbers of rows, and the rows of a sample of groups.

    `label_weights`, shape (C, 2), are those of failures and of successes. There is no sample where rows are so few
    that it would be a large part of them.
    """

    keys: IntArray
    counts: IntArray
    label_weights: FloatArray
    sample: WeightedData | None

    def in_design(self, design: Design) -> "CellCounts":
        """Return the same of rows put through a design."""
        return self if self.sample is None else replace(self, sample=design.rows(self.sample))


class Dataset:
    """Rows put through a design, and passes over them.

    By default the rows bring their design, `block_rows` (rows of a canonical block, and the most of any block) is
    `cutter.block_rows`, and a pass uses all cores.
    """

    def __init__(
        self,
        rows: Readable,
        design: Design | None = None,
        *,
        progress: bool = False,
        block_rows: int | None = None,
        cores: int | None = None,
    ) -> None:
        self.rows = rows
        self.design = rows.design if design is None else design
        self.progress = progress
        self._passes = [0]  # which views share
        self.cores = cores or available_cores()
        self._block_rows = block_rows
        self._scan: Scan | None = None
        # what the pass that checks the rows is to do too: a function of a block, and what takes its results
        self._beside: list[tuple[Callable[[int, WeightedData], Any], Callable[[Any], None]]] = []
        # rows drawn while they were checked, in columns of the design, and their inclusion probabilities, shape (n,)
        self.sample: tuple[WeightedData, FloatArray] | None = None
        self.cells: CellCounts | None = None  # counted while rows were checked

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Dataset stays in its process: give the function of a pass the numbers that it needs of it")

    @property
    def n_passes(self) -> int:
        """Number of passes until now."""
        return self._passes[0]

    @property
    def n_features(self) -> int:
        """Number of columns of the design matrix."""
        return len(self.design.names)

    @property
    def block_rows(self) -> int:
        """Rows of a canonical block."""
        return self._block_rows or block_rows(self.n_features)

    @property
    def rereadable(self) -> bool:
        """Whether the rows can be read more than once."""
        return isinstance(self.rows, Source)

    @property
    def source(self) -> Source:
        """The rows, if they can be read more than once."""
        assert isinstance(self.rows, Source)
        return self.rows

    @property
    def transform(self) -> Design | None:
        """The design that raw rows are put through; None if they stay as they are."""
        return None if self.design == self.rows.design else self.design

    def map(
        self,
        function: Callable[[int, WeightedData], R],
        description: str = "",
        *,
        canonical: bool = False,
        here: bool = False,
    ) -> Iterator[R]:
        """Yield ``function(start, block)`` for each block, in order; one pass.

        `description` names the progress bar. With `canonical`, blocks are cut at multiples of `block_rows`, so that
        BLAS and sums in block order give the same bits for every source. With `here`, the calling thread reads the
        rows; use it for results as large as the rows.
        """
        step = self.block_rows if canonical else None
        division = None if here else self.division()
        if division is not None:
            results = map_pieces(division, function, step, self.cores)
        else:
            results = map_stream(self.blocks(), function, step, self.cores)
        yield from self.tracked(results, description)

    def tracked(self, results: Iterator[tuple[int, R]], description: str) -> Iterator[R]:
        """Yield results, which come with their numbers of rows, and show a progress bar if asked."""
        total = self.rows.n_rows if isinstance(self.rows, Source) else None
        with progress(self.progress, description, total, "rows") as bar:
            for n_rows, result in results:
                bar.advance(n_rows)
                yield result

    def division(self) -> Division | None:
        """Begin a pass: return the rows in pieces, or None, without a pass, if they come in one stream."""
        division = division_of(self.rows, self.block_rows)
        if division is None:
            return None
        self._passes[0] += 1
        return replace(division, transform=self.transform)

    @property
    def remote(self) -> bool:
        """Whether workers outside this process read and map the rows."""
        division = division_of(self.rows, self.block_rows)
        return division is not None and division.pool is not None

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order, in this thread; one pass."""
        self._passes[0] += 1
        transform = self.transform
        for block in self.rows.blocks():
            for start in range(0, len(block), MAX_BLOCK_ROWS):  # exact sums need short blocks
                part = block if len(block) <= MAX_BLOCK_ROWS else block.take(slice(start, start + MAX_BLOCK_ROWS))
                part = replace(part, X=np.ascontiguousarray(part.X, dtype=np.float64))
                yield part if transform is None else transform.rows(part)

    def load(self) -> WeightedData:
        """Return all rows, in memory; one pass."""
        return stack(list(self.blocks()))

    @property
    def scan(self) -> Scan:
        """What the first pass learns. Raises `DataError` if an entry is NaN, infinite or too large."""
        if self._scan is None:
            deque(self.scan_and_map(lambda *_: None), maxlen=0)
        assert self._scan is not None
        return self._scan

    def scan_and_map(self, function: Callable[[int, WeightedData], R]) -> Iterator[R]:
        """Yield ``function(start, block)`` of canonical blocks, in a pass that learns the `scan` as well.

        What is to be done with each block as well is done, too (`beside`).
        """
        names, scans = self.design.names, []
        given = self.design.raw_names if formula_of(self.design) is not None else ()
        others = [other for other, _ in self._beside]

        def both(start: int, block: WeightedData) -> tuple[Scan, R, list[Any]]:
            range_of_block = scan_block(names, block, given=given)  # first, for the others need numbers
            return range_of_block, function(start, block), [other(start, block) for other in others]

        with self.counting_missing():
            for scan, result, more in self.map(both, "checking rows", canonical=True):
                scans.append(scan)
                for (_, take), range_of_block in zip(self._beside, more, strict=True):
                    take(range_of_block)
                yield result
            self._scan = Scan.of(scans, names)

    @contextmanager
    def map_alongside(self, function: Callable[[int, WeightedData], R], take: Callable[[R], None]) -> Iterator[None]:
        """Call ``take(function(start, block))`` in the body, for the blocks of a pass that checks the rows."""
        self._beside.append((function, take))
        try:
            yield
        finally:
            self._beside.pop()

    @contextmanager
    def counting_missing(self) -> Iterator[None]:
        """If the body fails because of missing values, add their number by raw column to the error; one more pass."""
        try:
            yield
        except DataError as error:
            raw = Dataset(self.rows, progress=self.progress, cores=self.cores)
            try:
                tally = list(raw.map(_count_missing_entries, "counting missing values")) if self.rereadable else []
            except DataError:  # it is something else
                tally = []
            n_rows, columns = sum(n for n, _ in tally), sum((gaps for _, gaps in tally), np.zeros(1, dtype=np.int64))
            raise missing_counted(error, n_rows, raw.source.n_rows, columns, raw.design.names) from None

    def with_design(self, design: Design) -> "Dataset":
        """Return the rows put through another design, with their offset and groups; see `view` for passes.

        If the rows have been scanned, the design is theirs with an intercept, centers and scales, through which
        their scan and sample go too.
        """
        now = self.design
        groups = design.groups or now.groups
        design = replace(design, offset=now.offset, exposure=now.exposure, groups=groups, roles=now.roles)
        other = self.view(design)
        if self._scan is not None:
            affine = Design(self.design.names, design.intercept, design.center, design.scale)
            other._scan = self._scan.in_design(affine)
            other.cells = self.cells.in_design(affine) if self.cells is not None and groups is now.groups else None
            if self.sample is not None:
                rows, inclusion = self.sample
                other.sample = affine.rows(rows), inclusion
        return other

    def append_offset(self) -> "Dataset":
        """Append the offset as a last column, for bounds that do not support offsets; without an offset return self.

        The result is scanned separately. Its passes count here too.
        """
        name = self.design.offset
        if name is None:
            if getattr(self.rows, "offset", None) is None:  # that pseudo-rows of a coreset have
                return self
            name = OFFSET
        return self.view(OffsetColumnDesign(self.design.raw_names, base=replace(self.design, offset=name)))

    def view(self, design: Design) -> "Dataset":
        """Return the rows in another design; passes over them count here too."""
        other = Dataset(self.rows, design, progress=self.progress, block_rows=self._block_rows, cores=self.cores)
        other._passes = self._passes
        return other


class ComomentsTotal:
    """The sum of the comoments of blocks that come in order, during another pass or in a separate one.

    Of columns, or with `responses` of responses that are numbers. `counts` says whether responses have a side of events
    and one of exposure (`weigh_one_side`).
    """

    def __init__(self, *, counts: bool = False, responses: bool = False) -> None:
        self._sum: Comoments | None = None
        self.of_block = partial(comoments_of, counts=counts, responses=responses)

    def add(self, part: Comoments) -> None:
        """Add the comoments of another block."""
        self._sum = part if self._sum is None else self._sum + part

    def of(self, dataset: Dataset) -> Comoments:
        """Return the sum; if no block came, by a pass over the rows of a data set."""
        if self._sum is None:
            for part in dataset.map(self.of_block, "adding up columns", canonical=True):
                self.add(part)
        assert self._sum is not None
        return self._sum


def _count_missing_entries(_: int, block: WeightedData) -> tuple[int, IntArray]:
    """Return the number of incomplete rows of a block, and of missing entries in each column."""
    holes = np.isnan(block.X)
    return int(holes.any(axis=1).sum()), holes.sum(axis=0)


def open_rows(
    data: Any,
    y: Any = None,
    *,
    intercept: bool = False,
    once: bool = False,
    progress: bool = False,
    block_rows: int | None = None,
    cores: int | None = None,
    selection: Selection | None = None,
    **others: Any,
) -> Dataset:
    """Open data of any kind that `build_coreset` takes; with `once` also an iterator of blocks.

    With `intercept` a column of ones comes first. `others` are the other fields of `Roles`, such as label and weights.
    """
    rows: Readable
    roles = Roles(y, **others)
    if isinstance(data, Coreset):
        roles.check_none("a coreset")
        rows = data.as_source()
    elif once and is_stream(data):
        roles.check_none("an iterator of blocks (X, y) or (X, y, weights)", "positive", "groups")
        rows = Stream(data, roles.positive, GivenGroups.of(roles.groups, None).names, response=roles.response)
    else:
        rows = as_source(data, y, selection=selection, **others)
    if intercept and not rows.design.is_identity:
        raise ValueError("intercept=True, but the data have a design of their own; leave it out")
    design = replace(rows.design, intercept=True) if intercept else None
    return Dataset(rows, design, progress=progress, block_rows=block_rows, cores=cores)


@dataclass(frozen=True, eq=False)
class JoinedSource:
    """A source of the rows of `before`, then of the rows of `new`, in the design of `new`.

    `start`: where a method may begin to look for the mode of all, such as the mode of the rows of `before`.
    """

    before: Coreset
    new: Dataset
    start: Any = None

    @property
    def design(self) -> Design:
        """The design that the rows are in."""
        return self.new.design

    @property
    def label(self) -> str:
        """Name of the label column."""
        return self.before.label

    @property
    def classes(self) -> tuple[Any, Any]:
        """The two labels; the second is +1."""
        return self.before.classes

    @property
    def n_rows(self) -> int:
        """Number of rows of a pass."""
        return len(self.before) + self.new.source.n_rows

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows of the coreset, then the new ones."""
        yield from self.before.as_source().rows(0, len(self.before))
        yield from self.new.blocks()


def joined(before: Coreset, new: Dataset, start: Any = None) -> Dataset:
    """Return the rows of a coreset and new ones as a data set; `start` as in `JoinedSource`."""
    return Dataset(JoinedSource(before, new, start), progress=new.progress)
