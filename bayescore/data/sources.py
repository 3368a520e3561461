"""Where rows come from: whatever `build_coreset` takes becomes a `Source`.

`as_source` is the one door. It checks types, shapes, labels and weights before any work; `Dataset.scan` then checks
every entry during the first pass. Nothing is copied as a whole: blocks are cut, converted to float64 and, by `Dataset`,
put through the `Design` one at a time. The same seed gives the same coreset from all of them.

=========================================  =======================  ================================================
data                                       read                     methods
=========================================  =======================  ================================================
array; pandas, polars or Arrow table       in memory, in threads    all
SciPy sparse matrix or array               in memory, in threads    all; dense a block at a time
Parquet file or folder (Hive columns too)  row groups, in threads   all; never the whole table in memory
the same at ``s3://``, ``https://``, ...   row groups, in threads   all; fetched in every pass
Arrow dataset of Parquet files             row groups, in threads   all; any file system of Arrow or fsspec
LazyFrame, DuckDB relation, CSV files      here, mapped in threads  all; never the whole table in memory
Dask DataFrame of Parquet                  row groups, by workers   all; file names travel, rows do not
Dask DataFrame or Array                    partitions, by workers   all; heads of partitions move between workers
callable that returns a fresh iterator     here, mapped in threads  all; one pass more, for labels and number of rows
iterator of blocks                         once, mapped in threads  merge_reduce ("auto"), online, uniform, aggregate
coreset                                    in memory                all
=========================================  =======================  ================================================

``"online"`` reads the rows in the calling process whatever the source, for it scores each block against all before
it: on a cluster, ``"leverage"`` is sharper and moves nothing. ``standardize=True`` needs rows that can be read again.

Rows of weight 0 are left out, and if asked for rows that miss something; counts become two rows each (`columns`).
Columns of text come as codes of their levels where a `Selection` is given (`factors`); `data.open` asks for them.

A new kind of data is one file beside this one and one line in `KINDS`.

Arrays and tables in memory (NumPy, SciPy, pandas, polars, Arrow) and weighted rows are read here.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.sparse import issparse

from bayescore.data.batches import csv_source, dataset_source, is_csv, lazy_source, relation_source
from bayescore.data.blocks import BlockSource, callable_source, is_stream, refuse_stream
from bayescore.data.column_kinds import as_table
from bayescore.data.columns import Columns, ColumnSource, filtered_source
from bayescore.data.design import Design, Grouping
from bayescore.data.factors import Selection
from bayescore.data.groups import GROUP, GivenGroups, coded, groupers_of, groups_seen, known_groupers
from bayescore.data.parquet import files_source, is_files, path_source
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
from bayescore.data.source import InMemory, Source
from bayescore.data.survey import DistinctValues, Survey, labels_of, merged
from bayescore.data.tables import check_csr, check_dense, dense, is_dask, is_table
from bayescore.types import NO_GROUP, FloatArray, IntArray, LabelArray, WeightedData
from bayescore.validation import (
    DataError,
    NoLabelError,
    check_aligned,
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


__all__ = ["KINDS", "ArraySource", "Kind", "Roles", "as_source", "has_named_columns", "unlabelled"]


class Kind(NamedTuple):
    """One kind of data: whether something is of that kind, and how to open it as a source."""

    fits: Callable[[Any], bool]
    open: Callable[[Any, Roles, Selection | None], Source]
    named: bool = False  # whether its columns, labels, weights and offsets among them, have names


def _of_class(module: str, name: str) -> Callable[[Any], bool]:
    """Return whether something is of a class of a module, which is not imported to know."""
    return lambda data: isinstance(data, getattr(sys.modules.get(module), name, ()))


def _ready(data: Any, roles: Roles, _: Selection | None) -> Source:
    roles.check_none(f"a {type(data).__name__}")
    return rows_source(data) if isinstance(data, WeightedData) else data


def _dask(data: Any, roles: Roles, selection: Selection | None) -> Source:
    from bayescore.data.dask import dask_source  # Dask is optional

    return dask_source(data, roles, selection)


def _steps(data: Any, roles: Roles, selection: Selection | None) -> Source:
    from bayescore.data.steps import steps_source  # of ordered categories alone

    return steps_source(data, roles, selection)


# the first that fits opens the data
KINDS: tuple[Kind, ...] = (
    Kind(lambda data: isinstance(data, Source | WeightedData), _ready),
    Kind(_of_class("bayescore.data.steps", "Steps"), _steps, named=True),
    Kind(is_csv, csv_source, named=True),
    Kind(lambda data: isinstance(data, str | Path), path_source, named=True),
    Kind(is_files, files_source, named=True),
    Kind(_of_class("pyarrow.dataset", "Dataset"), dataset_source, named=True),
    Kind(_of_class("polars", "LazyFrame"), lazy_source, named=True),
    Kind(_of_class("duckdb", "DuckDBPyRelation"), relation_source, named=True),
    Kind(is_table, table_source, named=True),
    Kind(is_stream, refuse_stream),
    Kind(lambda data: is_dask(data) and hasattr(data, "columns"), _dask, named=True),
    Kind(is_dask, _dask),
    Kind(callable, callable_source),
    Kind(lambda _: True, array_source),
)


def has_named_columns(data: Any) -> bool:
    """Whether the columns of `data`, the labels' too, have names."""
    return _kind(data).named


def column_names(data: Any) -> tuple[str, ...]:
    """Return the names of the columns of data that have names, of whatever source, without their rows."""
    try:
        _kind(data).open(data.head(1) if isinstance(data, pd.DataFrame) else data, Roles(), None)
    except NoLabelError as error:
        return error.columns
    raise DataError(f"data is a {type(data).__name__}, whose columns have no names")


def _kind(data: Any) -> Kind:
    return next(kind for kind in KINDS if kind.fits(data))


def as_source(data: Any, y: Any = None, *, selection: Selection | None = None, **others: Any) -> Source:
    """Turn `data` into a `Source` with the identity design.

    `data` is one of the kinds that the module lists. Blocks are (X, y), (X, y, weights) or (X, y, weights, offset). `y`
    are labels, two classes of any kind, where neither `label` names a column nor blocks bring theirs. Rows go together
    by position: pandas objects whose indexes differ are refused. `selection` says which columns of tables are features,
    by default all, which must then be numbers. `others` are the other fields of `Roles`: label, weights and so on. What
    cannot be used raises `DataError`, data of no kind `TypeError`.
    """
    if isinstance(y, str):
        raise DataError(f"y={y!r} is text; give the labels as y, or the name of their column as label={y!r}")
    roles = Roles(y, **others)
    groups = {"groups": roles.groups}
    if isinstance(roles.groups, dict):
        groups = {f"groups[{name!r}]": column for name, column in roles.groups.items()}
    arrays = {name: getattr(roles, name) for name in ("weights", "offset", "trials", "exposure")}
    check_aligned(data=data, y=y, **arrays, **groups)
    source = _kind(data).open(data, roles, selection)
    survey: Survey | None = getattr(source, "survey", None)
    left_out = roles.paired is not None or roles.drop or (survey is not None and survey.zero_weights)
    # blocks of a callable leave out themselves
    return filtered_source(source, drop=roles.drop) if left_out and not isinstance(source, BlockSource) else source
