"""Rows that come as Arrow batches from whatever reads them anew for each pass: a query, a text file, a dataset.

A pass asks for the columns that it needs, and the batches are read in the calling thread and mapped in threads, so that
no more than a few of them are in memory. Opening is one pass more, over the labels and columns of text. Whether later
passes give the same labels in the same order is checked: queries promise no order unless they sort.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bayescore.data.factors import Selection
from bayescore.data.passes.cutter import block_rows
from bayescore.data.sources.columns import Columns, ColumnSource, coded
from bayescore.data.sources.resolve import resolve
from bayescore.data.sources.roles import Roles
from bayescore.data.sources.survey import Survey
from bayescore.types import WeightedData
from bayescore.validation import DataError

Read = Callable[[list[str]], Iterable[pa.RecordBatch]]
"""Returns a fresh iterator of batches with the columns asked for."""


@dataclass(frozen=True, eq=False)
class BatchSource(ColumnSource):
    """Rows that `read` gives; `order` is the checksum of their labels, None where these are counts or may miss."""

    read: Read
    columns: Columns
    survey: Survey
    order: int | None

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order.

        Raises
        ------
        DataError
            If they are not those of the first pass.
        """
        start, order, step = 0, 0, block_rows(len(self.columns.features))
        marks = _marks(self.classes)
        for batch in self.read(self.columns.names):
            for low in range(0, batch.num_rows, step):
                part = batch.slice(low, step)
                block = self.columns.block(part, start)
                order = crc32(marks[(block.y > 0).view(np.int8)].tobytes(), order)
                start += part.num_rows
                yield block
        if start != self.n_rows or self.order not in (None, order):
            raise DataError(
                f"data gave {self.n_rows} rows first and {start} now, or others, or in another order: a query must "
                "give the same rows in the same order each time; sort it by a unique key, or collect it into a table"
            )


def _marks(labels: Iterable[Any]) -> NDArray[np.uint32]:
    """Return a number for each label, alike for labels that are equal: 1 and 1.0, and True."""
    shown = [repr(float(label) if isinstance(label, int | float) else label) for label in labels]
    return np.array([crc32(text.encode()) for text in shown], dtype=np.uint32)


def batch_source(read: Read, schema: pa.Schema, roles: Roles, selection: Selection | None) -> BatchSource:
    """Return the rows of a reader, whose columns have this schema, as a source; one pass, over labels and text.

    Raises
    ------
    DataError
        If the columns or the labels cannot be used, or there are no rows.
    """
    columns, order = resolve(roles, schema, selection), 0
    checked = columns.trials is None and not columns.drop

    def surveys() -> Iterator[Survey]:
        nonlocal order
        for batch in read(columns.surveyed):
            if checked:
                values, codes = coded(batch.column(columns.label))
                order = crc32(_marks(values)[codes].tobytes(), order)
            yield columns.survey(batch)

    survey = columns.merged(surveys())
    if not survey.n_rows:
        raise DataError("data have no rows; at least one is needed")
    return BatchSource(read, columns.learnt(survey, roles.positive), survey, order if checked else None)


def is_instance(data: Any, module: str, name: str) -> bool:
    """Whether `data` is of a class of a module, which is not imported to know."""
    known = getattr(sys.modules.get(module), name, None)
    return known is not None and isinstance(data, known)
