"""What a method keeps of a stream: a state of bounded size, which absorbs blocks and goes to checkpoints as arrays."""

from typing import Any, Protocol, Self, runtime_checkable

from bayescore.coresets.method import BuildResult
from bayescore.data.checkpoint import Arrays
from bayescore.types import WeightedData

_PARTS = ("X", "y", "weights", "index")


class StreamState(Protocol):
    """All that is kept of the rows so far; it never changes, so that an interrupt leaves a stream as it was."""

    def absorbed(self, block: WeightedData) -> Self:
        """Return the state with a canonical block more."""

    def answer(self, rest: WeightedData | None) -> BuildResult[Any]:
        """Return the coreset of the rows absorbed and of the rest, fewer rows than a block."""

    def to_arrays(self) -> Arrays:
        """Return the state as arrays."""

    def from_arrays(self, arrays: Arrays) -> Self:
        """Return the state of `to_arrays`, given that before the first row."""


@runtime_checkable
class Streamed(Protocol):
    """A method that takes rows in blocks, as they come."""

    def stream_block(self, size: int, n_features: int) -> int:
        """Return the rows of a canonical block."""

    def begin(self, size: int, n_features: int, seed: int, likelihood: str) -> StreamState:
        """Return the state before the first row."""


def rows_to_arrays(name: str, rows: WeightedData) -> Arrays:
    """Return rows as arrays whose names begin with `name`."""
    parts = {part: getattr(rows, part) for part in (*_PARTS, "offset", "group")}
    return {f"{name}_{part}": array for part, array in parts.items() if array is not None}


def rows_from_arrays(name: str, arrays: Arrays) -> WeightedData:
    """Return the rows of `rows_to_arrays`."""
    offset, group = arrays.get(f"{name}_offset"), arrays.get(f"{name}_group")
    return WeightedData(*(arrays[f"{name}_{part}"] for part in _PARTS), offset=offset, group=group)
