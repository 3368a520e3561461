"""Rows in memory: arrays (NumPy, SciPy), tables (pandas, polars, Arrow) and weighted rows.

Labels, weights and other roles that come as arrays become columns of an Arrow table, so that they are checked and read
as columns of a table are; features of an array stay a matrix.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.sparse import issparse

from bayescore.data.column_kinds import as_table, check_read
from bayescore.data.columns import Columns, ColumnSource
from bayescore.data.design import Design, Grouping
from bayescore.data.factors import Selection
from bayescore.data.groups import GROUP
from bayescore.data.responses import SECOND_ROLE
from bayescore.data.roles import OFFSET, Roles, named_roles, resolve_columns
from bayescore.data.source import InMemory
from bayescore.data.survey import Survey
from bayescore.data.tables import check_csr, check_dense, dense
from bayescore.types import NO_GROUP, FloatArray, IntArray, LabelArray, WeightedData, stack
from bayescore.validation import (
    DataError,
    check_matrix,
    check_numbers_of_rows,
    check_offset,
    check_unmasked,
    check_weights,
)


@dataclass(frozen=True, eq=False)
class ArraySource(InMemory):
    """Rows held in memory as a matrix of any numeric type, dense or CSR; blocks are cut and converted on the way.

    Of counts, which are two rows each, all but the matrix has an entry for each of the two.
    """

    X: Any
    y: LabelArray
    weights: FloatArray
    classes: tuple[Any, Any]
    label: str
    design: Design
    index: IntArray | None = None
    offset: FloatArray | None = None
    group: IntArray | None = None
    survey: Survey = field(default_factory=Survey)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    def rows(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1."""
        each = len(self.y) // max(self.n_rows, 1)
        cut = slice(each * low, each * high)
        X = np.ascontiguousarray(dense(self.X[low:high]), dtype=np.float64)
        yield WeightedData(
            X if each == 1 else np.repeat(X, each, axis=0),
            self.y[cut],
            np.ascontiguousarray(self.weights[cut]),
            np.arange(low, high) if self.index is None else self.index[cut],
            offset=None if self.offset is None else self.offset[cut],
            group=None if self.group is None else self.group[cut],
        )


def unlabelled(X: Any, weights: Any = None, name: str = "X") -> ArraySource:
    """Return a matrix as a source whose labels are all +1, for scores that need none."""
    matrix = np.ascontiguousarray(check_dense(X, name), dtype=np.float64)
    n_rows, n_columns = matrix.shape
    w = np.ones(n_rows) if weights is None else check_weights(weights, n_rows)
    design = Design(tuple(f"{name.lower()}{d}" for d in range(n_columns)))
    return ArraySource(matrix, np.ones(n_rows, dtype=np.int8), w, (-1, 1), "y", design)


def rows_source(data: WeightedData) -> ArraySource:
    """Return weighted rows as a source whose labels are -1 and +1."""
    codes = [] if data.group is None else list(data.group.T)
    groups = tuple(
        Grouping(GROUP if len(codes) == 1 else f"{GROUP}{k}", tuple(range(column.max(initial=NO_GROUP) + 1)))
        for k, column in enumerate(codes)
    )
    names, offset = tuple(f"x{j}" for j in range(data.n_features)), None if data.offset is None else OFFSET
    return ArraySource(
        data.X,
        data.y,
        data.weights,
        (-1, 1),
        "y",
        Design(names, offset=offset, groups=groups),
        index=data.index,
        offset=data.offset,
        group=data.group,
        survey=Survey(len(data), zero_weights=bool((data.weights == 0.0).any())),
    )


@dataclass(frozen=True, eq=False)
class TableSource(InMemory, ColumnSource):
    """Rows of an Arrow table in memory."""

    table: pa.Table
    columns: Columns
    survey: Survey

    def rows(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1."""
        start = low
        for batch in self.table.select(self.columns.names).slice(low, high - low).to_batches():
            yield self.columns.block(batch, start)
            start += batch.num_rows


def table_source(data: Any, roles: Roles, selection: Selection | None = None) -> TableSource:
    """Return a table as a source; labels, weights and so on are columns of it or separate arrays."""
    if isinstance(data, pd.DataFrame) and roles.label is not None:
        roles = replace(roles, label=str(roles.label))  # as Arrow names the columns
    table = as_table(data)
    table, columns, survey = with_roles(table, table.num_rows, roles, selection)
    return TableSource(table, columns.with_survey(columns.merged([survey]), roles.positive, table), survey)


def array_source(data: Any, roles: Roles, selection: Selection | None = None) -> ArraySource:  # noqa: ARG001
    """Return an array, dense or sparse, and one of labels as a source; all its columns are features, x0, x1, ..."""
    X = check_csr(data) if issparse(data) else check_matrix(data, "data")
    n_rows, D = X.shape
    table, columns, survey = roles_of_array(roles, n_rows)
    source = TableSource(table, columns.with_survey(columns.merged([survey]), roles.positive), survey)
    rows = stack(list(source.blocks()))
    one_each = len(rows) == n_rows
    weights = np.broadcast_to(np.float64(1.0), n_rows) if one_each and roles.weights is None else rows.weights
    design = replace(source.design, raw_names=tuple(f"x{j}" for j in range(D)))
    index = None if one_each else rows.index
    facts = source.classes, source.label, design, index, rows.offset, rows.group
    return ArraySource(X, rows.y, weights, *facts, survey)


def roles_of_array(roles: Roles, n_rows: int) -> tuple[pa.Table, Columns, Survey]:
    """Return the roles of the rows of an array, which are arrays, too, as `with_roles` does."""
    if roles.label is not None:
        raise DataError(f"label={roles.label!r} names a column, but data is an array; give the labels as y")
    if roles.y is None:
        raise DataError("y is missing: give the labels, one for each row of data")
    named = {"weights": roles.weights, "offset": roles.offset, SECOND_ROLE[roles.response]: roles.beside}
    for name, values in named.items():
        if isinstance(values, str):
            raise DataError(f"{name}={values!r} names a column, but data is an array; give the {name} as an array")
    return with_roles(pa.table({}), n_rows, roles, Selection(()), by_argument=True)


def with_roles(
    table: pa.Table, n_rows: int, roles: Roles, selection: Selection | None, *, by_argument: bool = False
) -> tuple[pa.Table, Columns, Survey]:
    """Return a table with roles that are arrays as its last columns, the columns by role, and their survey.

    The table of an array of features has no columns. Of it, and of blocks, roles are called `by_argument`.
    """
    if not n_rows:
        raise DataError("data is an empty table; it needs at least one row")
    names = table.column_names
    named, extra = named_roles(roles, names, n_rows, by_argument=by_argument)
    if not names and (lacking := [name for name in named.groups or () if name not in extra]):
        raise DataError(f"groups={lacking[0]!r} names a column, but data is an array; give the groups as an array")
    arguments = {named.label: "y", named.weights: "weights", named.offset: "offset", named.trials: "trials"}
    arguments[named.exposure] = "exposure"
    fields, arrays = [*table.schema], [*table.columns]
    for name, values in extra.items():
        if name == named.weights:
            values = check_weights(values, n_rows, zero=True, drop=roles.drop)
        elif name == named.offset:
            values = check_offset(values, n_rows, drop=roles.drop)
        elif roles.paired is not None and name in arguments:
            values = check_numbers_of_rows(values, n_rows, arguments[name])
        if name in arguments:  # groups are columns of Arrow
            values = _one_column(values, arguments[name], n_rows).column(0)
        arrays.append(values)
        fields.append(pa.field(name, values.type))
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields, table.schema.metadata))
    columns = replace(resolve_columns(named, table.schema, selection, only=names), by_argument=by_argument)
    return table, columns, columns.survey(table)


def _one_column(values: Any, argument: str, n_rows: int) -> pa.Table:
    """Return an array that has an entry for each row as a table."""
    check_unmasked(values, argument)
    if (shape := np.shape(values)) != (n_rows,):
        raise DataError(f"{argument} has shape {shape}; it must be ({n_rows},), one for each row (np.ravel?)")
    table = as_table(pd.DataFrame({argument: getattr(values, "array", values)}), argument)
    check_read(table.schema, [argument])
    return table
