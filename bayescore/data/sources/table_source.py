"""Tables in memory (pandas, polars, Arrow) as sources."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from bayescore.data.factors import Selection
from bayescore.data.passes.cutter import block_rows
from bayescore.data.passes.tasks import Division, slices
from bayescore.data.sources.columns import Columns, ColumnSource
from bayescore.data.sources.resolve import named_roles, resolve
from bayescore.data.sources.roles import Roles
from bayescore.data.sources.survey import Survey, labels_of
from bayescore.data.tables import as_table
from bayescore.types import WeightedData
from bayescore.validation import DataError, check_offset, check_unmasked, check_weights, native


@dataclass(frozen=True, eq=False)
class TableSource(ColumnSource):
    """Rows of an Arrow table in memory."""

    table: pa.Table
    columns: Columns
    survey: Survey

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
    table = as_table(data)
    n_rows = table.num_rows
    if n_rows == 0:
        raise DataError("data is an empty table; it needs at least one row")
    if isinstance(data, pd.DataFrame) and roles.label is not None:
        roles = replace(roles, label=str(roles.label))  # as Arrow names the columns
    named, beside = named_roles(roles, table.column_names, n_rows)
    arguments = {named.label: "y", named.weights: "weights", named.offset: "offset", named.trials: "trials"}
    for name, values in beside.items():
        if name not in arguments:  # groups, which have their type
            table = table.append_column(name, values)
            continue
        if name == named.weights:
            values = check_weights(values, n_rows, zero=True, drop=roles.drop)
        elif name == named.offset:
            values = check_offset(values, n_rows, drop=roles.drop)
        table = _appended(table, name, values, arguments[name])
    columns = resolve(named, table.schema, selection)
    survey = columns.survey(table)
    if roles.y is not None and roles.trials is None:
        survey = replace(survey, labels=labels_of(roles.y, n_rows)[1])  # which knows an order
    return TableSource(table, columns.learnt(columns.merged([survey]), roles.positive), survey)


def _appended(table: pa.Table, column: str, values: Any, argument: str) -> pa.Table:
    check_unmasked(values, argument)
    array = native(np.asarray(values))
    if array.shape != (table.num_rows,):
        raise DataError(f"{argument} has shape {array.shape}; it must be ({table.num_rows},), one for each row")
    try:
        return table.append_column(column, pa.array(array, from_pandas=True))
    except (pa.ArrowNotImplementedError, OverflowError) as error:
        raise DataError(f"{argument} is not read ({error}); give numbers of at most 64 bits, or text") from None
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(f"{argument} holds values of mixed types ({error}); make them alike") from None
