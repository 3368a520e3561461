"""Canonical blocks: rows cut anew, so that results do not depend on how rows arrive; how long blocks are."""

from collections.abc import Iterator

import numpy as np

from bayescore.types import WeightedData, stack

MAX_BLOCK_ROWS = 1 << 16


def block_rows(n_columns: int) -> int:
    """Rows of a block of 4 to 8 MB, at most `MAX_BLOCK_ROWS`: a power of two, for row groups are multiples of one."""
    return max(256, min(MAX_BLOCK_ROWS, 1 << ((1 << 20) // max(n_columns, 1)).bit_length() >> 1))


class Cutter:
    """Cuts blocks of any length anew, into canonical blocks of `size` rows."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._parts: list[WeightedData] = []
        self._held = 0

    def cut(self, block: WeightedData) -> list[WeightedData]:
        """Return the blocks that `block` completes; keep the rows left over."""
        self._parts = [*self._parts, block]  # a copy of the cutter keeps its own
        self._held += len(block)
        if self._held < self.size:
            # parts of like size are put together, so that there are few however small the blocks
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
    """Cut blocks anew, into blocks of `step` rows."""
    cutter = Cutter(step)
    for block in blocks:
        yield from cutter.cut(block)
    if (rest := cutter.rest) is not None:
        yield rest
