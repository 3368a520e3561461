"""Arrays and tables in memory (NumPy, SciPy, pandas, polars, Arrow) as sources, and weighted rows."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.sparse import issparse

from bayescore.data.column_kinds import as_table
from bayescore.data.columns import Columns, ColumnSource
from bayescore.data.design import Design, Grouping
from bayescore.data.factors import Selection
from bayescore.data.groups import GROUP, GivenGroups, coded, groupers_of, groups_seen, known_groupers
from bayescore.data.responses import (
    MEASURED,
    ROLE_BESIDE,
    TIMES,
    check_numbers,
    signed_labels,
    two_rows_each,
    with_response,
)
from bayescore.data.roles import OFFSET, Roles, named_roles, resolve
from bayescore.data.source import InMemory
from bayescore.data.survey import DistinctValues, Survey, labels_of, merged
from bayescore.data.tables import check_csr, check_dense, dense
from bayescore.types import NO_GROUP, FloatArray, IntArray, LabelArray, WeightedData
from bayescore.validation import (
    DataError,
    check_matrix,
    check_offset,
    check_unmasked,
    check_weights,
    native,
    numbers_of_objects,
)


@dataclass(frozen=True, eq=False)
class ArraySource(InMemory):
    """Rows held in memory as a matrix of any numeric type, dense or CSR; blocks are cut and converted on the way."""

    X: Any
    y: LabelArray
    weights: FloatArray
    classes: tuple[Any, Any]
    label: str
    design: Design
    index: IntArray | None = None
    offset: FloatArray | None = None
    sides: FloatArray | None = None  # weights of the two rows that each is, shape (2, n)
    numbers: FloatArray | None = None  # responses that are numbers, shape (n,)
    group: IntArray | None = None
    survey: Survey = field(default_factory=Survey)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    def rows(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1."""
        cut = slice(low, high)
        rows = WeightedData(
            np.ascontiguousarray(dense(self.X[cut]), dtype=np.float64),
            self.y[cut],
            np.ascontiguousarray(self.weights[cut]),
            np.arange(low, high) if self.index is None else self.index[cut],
            offset=None if self.offset is None else self.offset[cut],
            group=None if self.group is None else self.group[cut],
        )
        if self.numbers is not None:
            rows = with_response(rows, self.numbers[cut])
        yield rows if self.sides is None else two_rows_each(rows, self.sides[:, cut])


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


def array_source(data: Any, roles: Roles, selection: Selection | None = None) -> ArraySource:  # noqa: ARG001
    """Return an array, dense or sparse, and one of labels as a source; all its columns are features, x0, x1, ..."""
    X = check_csr(data) if issparse(data) else check_matrix(data, "data")
    n_rows, drop = X.shape[0], roles.drop
    if roles.label is not None:
        raise DataError(f"label={roles.label!r} names a column, but data is an array; give the labels as y")
    if roles.y is None:
        raise DataError("y is missing: give the labels, one for each row of data")
    second = ROLE_BESIDE[roles.response]
    for name, values in (("weights", roles.weights), ("offset", roles.offset), (second, roles.beside)):
        if isinstance(values, str):
            raise DataError(f"{name}={values!r} names a column, but data is an array; give the {name} as an array")
    weights, sides, numbers, offset = np.broadcast_to(np.float64(1.0), n_rows), None, None, None
    if (paired := roles.paired) is not None:
        pair = paired.read(roles.y, roles.beside, ("y", second), n_rows)
        if paired == MEASURED:
            numbers = check_numbers(pair[0], "y", drop=drop)
        else:
            sides = paired.weights(pair, ("y", second), 0, drop=drop)
        y, labels_seen, classes = np.ones(n_rows, dtype=np.int8), DistinctValues.of(paired.classes), paired.classes
    else:
        labels, labels_seen = labels_of(roles.y, n_rows)
        classes = Survey(n_rows, labels_seen).classes("y", roles.positive, drop=drop)
        y, labelled = np.zeros(n_rows, dtype=np.int8), ~pd.isna(labels) if labels_seen.missing else slice(None)
        y[labelled] = signed_labels(labels[labelled], classes, 0)
    given = GivenGroups.of(roles.groups, n_rows)
    if given.names and given.columns is None:
        raise DataError(f"groups={roles.groups!r} names a column, but data is an array; give the groups as an array")
    known_by = known_groupers(roles.groupers, given.names)
    new = {} if known_by or given.columns is None else groups_seen(given.columns, given.names)
    if roles.weights is not None:
        weights = check_weights(roles.weights, n_rows, zero=True, drop=drop)
    survey = merged(
        [Survey(n_rows, labels_seen, new, roles.weights is not None and bool((weights == 0.0).any()))], given.names
    )
    groupers = known_by or groupers_of(survey, given.names)
    if roles.offset is not None:
        offset = check_offset(roles.offset, n_rows, drop=drop)
    if paired == TIMES:
        offset = -np.log(pair[1])
    design = Design(
        tuple(f"x{j}" for j in range(X.shape[1])),
        offset=None if roles.offset is None else OFFSET,
        exposure=None if roles.exposure is None else "exposure",
        groups=tuple(by.grouping for by in groupers),
    )
    return ArraySource(
        X,
        y,
        weights,
        classes,
        "y",
        design,
        offset=offset,
        sides=sides,
        numbers=numbers,
        group=coded(given, groupers, drop=drop),
        survey=survey,
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
    table = as_table(data)
    n_rows = table.num_rows
    if n_rows == 0:
        raise DataError("data is an empty table; it needs at least one row")
    if isinstance(data, pd.DataFrame) and roles.label is not None:
        roles = replace(roles, label=str(roles.label))  # as Arrow names the columns
    names = table.column_names
    named, extra = named_roles(roles, names, n_rows)
    arguments = {named.label: "y", named.weights: "weights", named.offset: "offset", named.trials: "trials"}
    arguments[named.exposure] = "exposure"
    for name, values in extra.items():
        if name not in arguments:  # groups, which have their type
            table = table.append_column(name, values)
            continue
        if name == named.weights:
            values = check_weights(values, n_rows, zero=True, drop=roles.drop)
        elif name == named.offset:
            values = check_offset(values, n_rows, drop=roles.drop)
        table = _appended(table, name, values, arguments[name])
    columns = resolve(named, table.schema, selection, only=names)
    survey = columns.survey(table)
    if roles.y is not None and roles.paired is None:
        survey = replace(survey, labels=labels_of(roles.y, n_rows)[1])  # with the order of a categorical
    return TableSource(table, columns.learnt(columns.merged([survey]), roles.positive, table), survey)


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
        if array.dtype == object and (numbers := numbers_of_objects(array)) is not None:
            return table.append_column(column, pa.array(numbers, from_pandas=True))
        raise DataError(f"{argument} holds values of mixed types ({error}); make them alike") from None
