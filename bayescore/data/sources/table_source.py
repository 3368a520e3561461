"""Tables in memory (pandas, polars, Arrow) as sources."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from bayescore.data.passes.cutter import block_rows
from bayescore.data.passes.tasks import Division, slices
from bayescore.data.sources.blocks import labels_of
from bayescore.data.sources.columns import (
    Columns,
    ColumnSource,
    Found,
    add_labels,
    chosen_columns,
    survey,
    weightless,
)
from bayescore.data.sources.factors import Selection
from bayescore.data.sources.groups import Given
from bayescore.data.sources.roles import OFFSET, TRIALS, Roles
from bayescore.data.sources.tables import as_table
from bayescore.types import WeightedData
from bayescore.validation import DataError, check_offset, check_unmasked, check_weights, native


@dataclass(frozen=True, eq=False)
class TableSource(ColumnSource):
    """Rows of an Arrow table in memory."""

    table: pa.Table
    columns: Columns
    zero_weights: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.table.num_rows)

    def division(self, step: int) -> Division:
        """Return a piece for each block."""
        return Division(slices(self, step))

    def rows(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1."""
        start = low
        for batch in self.table.select(self.columns.names).slice(low, high - low).to_batches():
            yield self.columns.block(batch, start)
            start += batch.num_rows

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order."""
        for piece in self.division(block_rows(len(self.columns.features))).pieces:
            yield from piece.read(0, piece.n_rows)


def table_source(data: Any, roles: Roles, selection: Selection | None = None) -> TableSource:
    """Return a table as a source; see `bayescore.data.sources.as_source`."""
    y, label, weights, offset, trials = roles.y, roles.label, roles.weights, roles.offset, roles.trials
    table = as_table(data)
    if isinstance(data, pd.DataFrame) and label is not None:
        label = str(label)  # as Arrow names the columns
    if table.num_rows == 0:
        raise DataError("data is an empty table; it needs at least one row")
    if y is not None:
        if label is not None:
            raise DataError(f"y and label={label!r} are both given; give one of them")
        label = str(getattr(y, "name", None) or "y")
        if label in table.column_names:
            raise DataError(
                f"data has a column {label!r} as y has: drop it from data, or leave y out and give label={label!r}"
            )
        table = _appended(table, label, y, "y")
    if weights is not None and not isinstance(weights, str):
        checked = check_weights(weights, table.num_rows, zero=True, drop=roles.drop)
        table = _appended(table, "weight", checked, "weights")
        weights = "weight"
    if offset is not None and not isinstance(offset, str):
        table = _appended(table, OFFSET, check_offset(offset, table.num_rows, drop=roles.drop), "offset")
        offset = OFFSET
    if trials is not None and not isinstance(trials, str):
        table, trials = _appended(table, TRIALS, trials, "trials"), TRIALS
    groups = Given.of(roles.groups, table.num_rows, table.column_names)
    for field, column in () if groups.columns is None else zip(groups.columns.schema, groups.columns, strict=True):
        if field.name in table.column_names:
            raise DataError(f"data has a column {field.name!r} beside groups; rename it, or give its name as groups")
        table = table.append_column(field, column)
    named = replace(roles, offset=offset, trials=trials, groups=list(groups.names) or None)
    columns = chosen_columns(table.schema, label, weights, None, selection, roles=named)
    found: Found = {}
    any(add_labels(found, chunk) for chunk in table.column(columns.label).chunks)
    if y is not None and trials is None:
        found = labels_of(y, table.num_rows)[1]  # which knows an order
    columns = columns.with_levels([survey(table, columns.text, columns.new_groups)])
    zero = weights is not None and weightless(table.column(weights))
    return TableSource(table, columns.with_classes(found, roles.positive), zero)


def _appended(table: pa.Table, column: str, values: Any, argument: str) -> pa.Table:
    check_unmasked(values, argument)
    array = native(np.asarray(values))
    if array.shape != (table.num_rows,):
        raise DataError(f"{argument} has shape {array.shape}; it must be ({table.num_rows},), one for each row")
    if column in table.column_names:
        raise DataError(f"data has a column {column!r} beside {argument}; rename it, or give its name as the argument")
    try:
        return table.append_column(column, pa.array(array, from_pandas=True))
    except (pa.ArrowNotImplementedError, OverflowError) as error:
        raise DataError(f"{argument} is not read ({error}); give numbers of at most 64 bits, or text") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(f"{argument} holds values of mixed types ({error}); make them alike") from None
