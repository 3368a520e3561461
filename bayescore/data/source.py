"""`Source`: rows that can be read block by block, again and again; `Readable`: perhaps only once."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from bayescore.data.design import Design
from bayescore.types import WeightedData


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
