"""Cells: the combinations of all grouping factors' levels that occur, and rows seen with their cell as group."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

from bayescore.data.dataset import Dataset
from bayescore.data.design import Design, Grouping
from bayescore.models.group_sums import codes_among
from bayescore.types import NO_GROUP, IntArray, WeightedData
from bayescore.validation import DataError

_LEAST_WAITING = 1 << 18  # keys of blocks, 4 MB, before they are merged


@dataclass(frozen=True, eq=False)
class Celled(Design):
    """A design that gives each row one code, of its cell, in place of those of its groups.

    `base` makes the columns, `keys` are those of the cells, in order, and `sizes` the numbers of levels.
    """

    base: Design = field(default_factory=lambda: Design(()))
    keys: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    sizes: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the design matrix's columns."""
        return self.base.names

    def rows(self, block: WeightedData) -> WeightedData:
        """Return a block of raw features as rows of the design matrix, with the cell of each."""
        assert block.group is not None
        own = np.searchsorted(self.keys, key_of(block.group, self.sizes))
        own[block.group[:, 0] == NO_GROUP] = NO_GROUP
        return replace(self.base.rows(block), group=own[:, None])


def key_of(codes: IntArray, sizes: tuple[int, ...]) -> IntArray:
    """Return one number for each combination of codes, shape (n, F), smaller ones first."""
    return reduce(lambda key, f: key * sizes[f] + codes[:, f], range(len(sizes)), np.zeros(len(codes), dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells that occur: codes of their groups, shape (C, F), and number of rows, shape (C,)."""

    codes: IntArray
    counts: IntArray
    keys: IntArray
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, dataset: Dataset) -> "Cells":
        """Return those that `count_cells` left with the data, or find them; one pass."""
        sizes, possible = _sizes(dataset)
        if not possible:
            shown = " x ".join(f"{size:,}" for size in sizes)
            raise DataError(f"groups have {shown} combinations of levels, too many to tell apart: take fewer factors")
        if dataset.cells is None:
            counter = _Counter()
            for part in dataset.map(lambda _, block: _counted(block, sizes), "cells of groups", canonical=True):
                counter.take(part)
            dataset.cells = counter.total()
        keys, counts = dataset.cells
        codes, left = np.empty((len(keys), len(sizes)), dtype=np.int64), keys.copy()
        for f in reversed(range(len(sizes))):
            left, codes[:, f] = np.divmod(left, sizes[f])
        return cls(codes, counts, keys, sizes)

    def __len__(self) -> int:
        return len(self.keys)

    def seen(self, dataset: Dataset) -> Dataset:
        """Return the rows with the cell of each as its one group."""
        design = dataset.design
        view = Celled(
            design.raw_names,
            offset=design.offset,
            groups=(Grouping("cell", tuple(range(len(self)))),),
            base=Design(design.names) if dataset.transform is None else design,  # of a coreset, rows are in it
            keys=self.keys,
            sizes=self.sizes,
        )
        return dataset.view(view)

    def groups_of(self, cell: IntArray) -> IntArray:
        """Return the codes of the groups, shape (n, F), of rows of these cells; -1 means no group."""
        return np.where(cell[:, None] < 0, NO_GROUP, self.codes[cell])


@contextmanager
def count_cells(dataset: Dataset) -> Iterator[None]:
    """Leave the cells with the data, and their numbers of rows, as the body checks the rows."""
    (sizes, possible), counter = _sizes(dataset), _Counter()
    if not possible:
        yield
        return
    with dataset.beside(lambda _, block: _counted(block, sizes), counter.take):
        yield
    dataset.cells = counter.total()


def _sizes(dataset: Dataset) -> tuple[tuple[int, ...], bool]:
    """Return the numbers of levels, and whether there is a number for each combination."""
    sizes = tuple(len(own) for own in dataset.design.groups)
    return sizes, bool(np.prod([float(size) for size in sizes]) <= 2.0**62)


def _counted(block: WeightedData, sizes: tuple[int, ...]) -> tuple[IntArray, IntArray]:
    assert block.group is not None
    own = block.group[block.group[:, 0] != NO_GROUP]  # pseudo-rows of a coreset may have none
    found, places = codes_among(key_of(own, sizes), math.prod(sizes))
    return found, np.bincount(places, minlength=len(found)).astype(np.int64)


class _Counter:
    """Different keys of all parts in order, and how often each occurs.

    Parts wait until they are as many as the keys known, so that each key is sorted a few times only.
    """

    def __init__(self) -> None:
        self._known = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        self._waiting: list[tuple[IntArray, IntArray]] = []

    def take(self, part: tuple[IntArray, IntArray]) -> None:
        """Add a part."""
        self._waiting.append(part)
        if sum(len(keys) for keys, _ in self._waiting) > max(len(self._known[0]), _LEAST_WAITING):
            self._known, self._waiting = self.total(), []

    def total(self) -> tuple[IntArray, IntArray]:
        """Return keys and counts of all parts."""
        parts = [self._known, *self._waiting]
        keys, places = np.unique(np.concatenate([found for found, _ in parts]), return_inverse=True)
        return keys, np.bincount(places, np.concatenate([count for _, count in parts])).astype(np.int64)
