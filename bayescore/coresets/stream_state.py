"""What a method keeps of a stream: a state of bounded size, which absorbs blocks and goes to checkpoints as arrays."""

from typing import Any, Protocol, Self, runtime_checkable

from bayescore.coresets.method import BuildResult
from bayescore.data.checkpoint import Arrays
from bayescore.data.design import Design
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

    def begin(self, size: int, design: Design, seed: int, family: str) -> StreamState:
        """Return the state before the first row; `design` has the names of grouping factors, not yet all levels."""


def rows_to_arrays(name: str, rows: WeightedData) -> Arrays:
    """Return rows as arrays whose names begin with `name`."""
    parts = {part: getattr(rows, part) for part in (*_PARTS, "offset", "group")}
    return {f"{name}_{part}": array for part, array in parts.items() if array is not None}


def rows_from_arrays(name: str, arrays: Arrays) -> WeightedData:
    """Return the rows of `rows_to_arrays`."""
    offset, group = arrays.get(f"{name}_offset"), arrays.get(f"{name}_group")
    return WeightedData(*(arrays[f"{name}_{part}"] for part in _PARTS), offset=offset, group=group)


def check_stored(arrays: Arrays, n_columns: int, n_groups: int) -> None:
    """Raise `ValueError` if rows of a checkpoint do not fit each other, the columns or the grouping factors."""
    for name in (name.removesuffix("_X") for name in arrays if name.endswith("_X")):
        rows = rows_from_arrays(name, arrays)
        offset = rows.y if rows.offset is None else rows.offset
        parts = {part.shape for part in (rows.y, rows.weights, rows.index, offset)}
        if rows.X.shape != (len(rows.y), n_columns) or len(parts) != 1:
            raise ValueError
        if (() if rows.group is None else rows.group.shape) != ((len(rows.y), n_groups) if n_groups else ()):
            raise ValueError
