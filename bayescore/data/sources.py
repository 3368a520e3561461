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
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from bayescore.data.arrays import ArraySource, array_source, rows_source, table_source, unlabelled
from bayescore.data.batches import csv_source, dataset_source, is_csv, lazy_source, relation_source
from bayescore.data.blocks import BlockSource, callable_source, is_stream, refuse_stream
from bayescore.data.columns import filtered_source
from bayescore.data.factors import Selection
from bayescore.data.parquet import files_source, is_files, path_source
from bayescore.data.roles import Roles
from bayescore.data.source import Source
from bayescore.data.survey import Survey
from bayescore.data.tables import is_dask, is_table
from bayescore.types import WeightedData
from bayescore.validation import DataError, NoLabelError, check_aligned

__all__ = ["KINDS", "ArraySource", "Kind", "Roles", "array_source", "as_source", "has_named_columns"]
__all__ += ["rows_source", "unlabelled"]


class Kind(NamedTuple):
    """One kind of data: whether something is of that kind, and how to open it as a source."""

    fits: Callable[[Any], bool]
    open: Callable[[Any, Roles, Selection | None], Source]
    named: bool = False  # whether its columns, labels, weights and offsets among them, have names


def _of_class(module: str, name: str) -> Callable[[Any], bool]:
    """Return whether something is of a class of a module, which is not imported to know."""
    return lambda data: isinstance(data, getattr(sys.modules.get(module), name, ()))


def _open_source(data: Any, roles: Roles, _: Selection | None) -> Source:
    roles.check_none(f"a {type(data).__name__}")
    return rows_source(data) if isinstance(data, WeightedData) else data


def _open_dask(data: Any, roles: Roles, selection: Selection | None) -> Source:
    from bayescore.data.dask import dask_source  # Dask is optional

    return dask_source(data, roles, selection)


def _open_steps(data: Any, roles: Roles, selection: Selection | None) -> Source:
    from bayescore.data.steps import steps_source  # of ordered categories alone

    return steps_source(data, roles, selection)


# the first that fits opens the data
KINDS: tuple[Kind, ...] = (
    Kind(lambda data: isinstance(data, Source | WeightedData), _open_source),
    Kind(_of_class("bayescore.data.steps", "Steps"), _open_steps, named=True),
    Kind(is_csv, csv_source, named=True),
    Kind(lambda data: isinstance(data, str | Path), path_source, named=True),
    Kind(is_files, files_source, named=True),
    Kind(_of_class("pyarrow.dataset", "Dataset"), dataset_source, named=True),
    Kind(_of_class("polars", "LazyFrame"), lazy_source, named=True),
    Kind(_of_class("duckdb", "DuckDBPyRelation"), relation_source, named=True),
    Kind(is_table, table_source, named=True),
    Kind(is_stream, refuse_stream),
    Kind(lambda data: is_dask(data) and hasattr(data, "columns"), _open_dask, named=True),
    Kind(is_dask, _open_dask),
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
