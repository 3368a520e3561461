"""Rows that come as Arrow batches from whatever reads them anew for each pass: a query, a text file, a dataset.

A pass asks for the columns that it needs, and the batches are read in the calling thread and mapped in threads, so that
no more than a few of them are in memory. Opening is one pass more, over the labels and columns of text. Whether later
passes give the same labels in the same order is checked: queries promise no order unless they sort.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from bayescore.data.passes.cutter import block_rows
from bayescore.data.sources.columns import (
    Columns,
    ColumnSource,
    Found,
    add_labels,
    chosen_columns,
    coded,
    survey,
    weightless,
)
from bayescore.data.sources.factors import Seen, Selection
from bayescore.data.sources.roles import Roles
from bayescore.types import WeightedData
from bayescore.validation import DataError

Read = Callable[[list[str]], Iterable[pa.RecordBatch]]
"""Returns a fresh iterator of batches with the columns asked for."""


@dataclass(frozen=True, eq=False)
class BatchSource(ColumnSource):
    """Rows that `read` gives; `labels` is the checksum of y in their order, None where they are counts or may miss."""

    read: Read
    columns: Columns
    n_rows: int
    labels: int | None
    zero_weights: bool = False

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order.

        Raises
        ------
        DataError
            If they are not those of the first pass.
        """
        start, labels, step = 0, 0, block_rows(len(self.columns.features))
        for batch in self.read(self.columns.names):
            for low in range(0, batch.num_rows, step):
                part = batch.slice(low, step)
                block = self.columns.block(part, start)
                labels = crc32(block.y.tobytes(), labels)
                start += part.num_rows
                yield block
        if start != self.n_rows or self.labels not in (None, labels):
            raise DataError(
                f"data gave {self.n_rows} rows first and {start} now, or others, or in another order: a query must "
                "give the same rows in the same order each time; sort it by a unique key, or collect it into a table"
            )


@dataclass
class _First:
    """What the first pass learns: labels, number of rows, checksums of y and of -y with +1 for the second label met."""

    found: Found = field(default_factory=dict)
    zero_weights: bool = False
    n_rows: int = 0
    labels: int = 0
    flipped: int = 0

    def parts(self, batches: Iterable[pa.RecordBatch], columns: Columns) -> Iterator[dict[str, Seen]]:
        """Yield what each batch tells of columns of text, having learnt the rest of it."""
        for batch in batches:
            column = batch.column(columns.label)
            self.n_rows += batch.num_rows
            self.zero_weights |= columns.weights is not None and weightless(batch.column(columns.weights))
            if columns.trials is None:
                if add_labels(self.found, column):
                    return
                order = {label: 2 * place - 1 for place, label in enumerate(self.found)}
                values, codes = coded(column)
                y = np.array([order.get(value, 0) for value in values], dtype=np.int8)[codes]
                self.labels, self.flipped = crc32(y.tobytes(), self.labels), crc32((-y).tobytes(), self.flipped)
            yield survey(batch, columns.text, columns.new_groups)


def batch_source(read: Read, schema: pa.Schema, roles: Roles, selection: Selection | None) -> BatchSource:
    """Return the rows of a reader, whose columns have this schema, as a source; one pass, over labels and text.

    Raises
    ------
    DataError
        If the columns or the labels cannot be used, or there are no rows.
    """
    columns = chosen_columns(schema, roles.label, roles.weights, None, selection, roles=roles)
    first = _First()
    weights = [] if columns.weights is None else [columns.weights]
    wanted = [columns.label, *columns.text, *columns.new_groups, *weights]
    columns = columns.with_levels(first.parts(read(wanted), columns))
    if not first.n_rows:
        raise DataError("data have no rows; at least one is needed")
    columns, settled = columns.with_classes(first.found, roles.positive), None
    if columns.trials is None and not columns.drop:
        settled = first.labels if columns.classes[1] == list(first.found)[1] else first.flipped
    return BatchSource(read, columns, first.n_rows, settled, first.zero_weights)


def is_instance(data: Any, module: str, name: str) -> bool:
    """Whether `data` is of a class of a module, which is not imported to know."""
    known = getattr(sys.modules.get(module), name, None)
    return known is not None and isinstance(data, known)
