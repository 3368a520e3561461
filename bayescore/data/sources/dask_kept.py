"""Rows of Parquet files that the workers of a cluster read once and keep as blocks.

A build makes three to six passes, condensing with groups some ten, and a fifth of the time of each is reading and
decoding. So every row group becomes a promise of its decoded blocks, on workers in turn, so that each has its share of
the rows; tasks run where their rows are. A worker that is lost takes its blocks along, and another one reads them
again. Rows that would take more than `KEPT_SHARE` of the workers' memory are read anew in every pass, as they are
without a cluster.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dask.delayed import delayed

from bayescore.data.passes.cutter import block_rows
from bayescore.data.passes.tasks import Division, Piece
from bayescore.data.sources.columns import Columns, ColumnSource
from bayescore.data.sources.dask_tables import ClusterPool, kept_bytes
from bayescore.data.sources.parquet import ParquetSource
from bayescore.data.sources.survey import Survey
from bayescore.types import WeightedData
from bayescore.validation import DataError

_BESIDE = 3 * 8  # bytes of a row for its label, weight and position
_CELL = 8  # bytes of a decoded number


@dataclass(frozen=True)
class KeptRows:
    """Rows of a piece of files; `table` is a promise of its blocks, or of the error of reading them."""

    table: Any
    n_rows: int
    step: int
    piece: Any  # descriptor of the rows in their file

    def read(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1."""
        blocks = _cut(self.table, low, high)
        if isinstance(blocks, DataError):
            raise blocks
        for block in blocks:
            for start in range(0, len(block), self.step):
                yield block.take(slice(start, start + self.step))

    def cut(self, low: int, high: int) -> "KeptRows":
        """Return a few of the rows as a piece, which the worker that has them cuts out."""
        rows = delayed(_cut)(self.table, low, high)
        return replace(self, table=rows, n_rows=high - low)

    def place(self, row: int) -> str:
        """Name the file and the row group."""
        return str(self.piece.place(row))


@dataclass(frozen=True, eq=False)
class KeptSource(ColumnSource):
    """The rows of `files`, kept by the workers of `pool`."""

    files: ParquetSource
    columns: Columns
    survey: Survey
    pool: ClusterPool

    @cached_property
    def _kept(self) -> list[KeptRows]:
        pieces = self.files.division(block_rows(len(self.columns.features))).pieces
        promises = self.pool.keep(_blocks, pieces)
        return [
            KeptRows(promise, piece.n_rows, piece.n_rows, piece)
            for promise, piece in zip(promises, pieces, strict=True)
        ]

    def division(self, step: int) -> Division:
        """Return the pieces of the files, read by the workers when this is called first."""
        return Division([replace(own, step=step) for own in self._kept], self.pool)

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order, read here."""
        return self.files.blocks()


def kept_source(files: ParquetSource, pool: ClusterPool) -> ParquetSource | KeptSource:
    """Return files as rows that workers keep, where they have the memory."""
    columns = files.columns
    each = _BESIDE + _CELL * (len(columns.features) + len(columns.groupers) + (columns.offset is not None))
    # a row of counts is two rows once it is decoded, which its piece does not count
    if columns.paired is not None or files.n_rows * each > kept_bytes(pool):
        return files
    return KeptSource(files, columns, files.survey, pool)


def _blocks(piece: Piece) -> list[WeightedData] | DataError:
    """Return the blocks of a piece, or why they cannot be read: a cluster prints whatever a worker raises."""
    try:
        return list(piece.read(0, piece.n_rows))
    except DataError as error:
        return error


def _cut(blocks: list[WeightedData] | DataError, low: int, high: int) -> list[WeightedData] | DataError:
    """Return the rows low, ..., high - 1 of blocks."""
    if isinstance(blocks, DataError):
        return blocks
    found, at = [], 0
    for block in blocks:
        a, b = max(low - at, 0), min(high - at, len(block))
        if a < b:
            found.append(block.take(slice(a, b)))
        at += len(block)
    return found
