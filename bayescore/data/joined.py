"""Rows of a coreset, and new rows after them, as one source: what an update reads in place of all rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.types import WeightedData


@dataclass(frozen=True, eq=False)
class Joined:
    """A source of the rows of `before`, then of the rows of `new`, in the design of `new`.

    `start`: where a method may begin to look for the mode of all, such as that of the rows of `before`.
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
    """Return the rows of a coreset and new ones as a data set; `start` as in `Joined`."""
    return Dataset(Joined(before, new, start), progress=new.progress)
