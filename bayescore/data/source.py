"""`Source`: rows that can be read block by block, again and again; `Readable` ones perhaps once only."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from bayescore.data.design import Design
from bayescore.types import WeightedData


class Readable(Protocol):
    """Rows that come block by block, in order; perhaps once only.

    How the rows are cut into blocks is the source's own affair: no result may depend on it.
    """

    @property
    def design(self) -> Design:
        """How the columns of the blocks came from raw features."""
        ...

    @property
    def label(self) -> str:
        """Name of the label column."""
        ...

    def blocks(self) -> Iterator[WeightedData]:
        """Yield all rows, in order, in blocks."""
        ...


@runtime_checkable
class Source(Readable, Protocol):
    """Rows that can be read block by block, again and again.

    `blocks` starts a fresh pass over the same rows in the same order each time it is called.
    """

    @property
    def classes(self) -> tuple[Any, Any]:
        """The two labels as given; the second is +1."""
        ...

    @property
    def n_rows(self) -> int:
        """Number of rows of one pass."""
        ...
