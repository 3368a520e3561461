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
the same at ``s3://``, ``https://``, ...   row groups, in threads   all; fetched anew in every pass
Arrow dataset of Parquet files             row groups, in threads   all; any file system of Arrow or fsspec
LazyFrame, DuckDB relation, CSV, others    here, mapped in threads  all; never the whole table in memory
Dask DataFrame of Parquet                  row groups, by workers   all; file names travel, rows do not
Dask DataFrame or Array                    partitions, by workers   all; heads of partitions move between workers
callable that returns a fresh iterator     here, mapped in threads  all; one pass more, for labels and number of rows
iterator of blocks                         once, mapped in threads  merge_reduce ("auto"), online, uniform, aggregate
coreset                                    in memory                all
=========================================  =======================  ================================================

``"online"`` reads the rows in the calling process whatever the source, for it scores each block against all before
it: on a cluster, ``"leverage"`` is sharper and moves nothing. ``standardize=True`` needs rows that can be read again.

Rows of weight 0, and if asked for rows that miss something, are left out, and counts become two rows each (`kept`).

Columns of text come as codes of their levels where a `Selection` is given (`factors`); `data.designed` asks for them.

A new kind of data is one file here and one line in `KINDS`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bayescore.data.factors import Selection
from bayescore.data.source import Source
from bayescore.data.sources.array import ArraySource, array_source, rows_source, unlabelled
from bayescore.data.sources.arrow_dataset import dataset_source, is_dataset
from bayescore.data.sources.blocks import BlockSource, callable_source, is_stream, refuse_stream
from bayescore.data.sources.csv_file import csv_source, is_csv
from bayescore.data.sources.kept import kept_source
from bayescore.data.sources.parquet import path_source
from bayescore.data.sources.queries import is_lazy, is_relation, lazy_source, relation_source
from bayescore.data.sources.roles import Roles
from bayescore.data.sources.survey import Survey
from bayescore.data.sources.table_source import table_source
from bayescore.data.tables import is_dask, is_table
from bayescore.types import WeightedData
from bayescore.validation import DataError, check_aligned

__all__ = ["KINDS", "ArraySource", "Kind", "Roles", "as_source", "has_named_columns", "unlabelled"]


class Kind(NamedTuple):
    """One kind of data: whether something is of it, and how that, with roles and a selection, is a source.

    `named` says that its columns have names, those of the labels, weights and offsets among them.
    """

    fits: Callable[[Any], bool]
    open: Callable[[Any, Roles, Selection | None], Source]
    named: bool = False


def _ready(data: Any, roles: Roles, _: Selection | None) -> Source:
    roles.check_none(f"a {type(data).__name__}")
    return rows_source(data) if isinstance(data, WeightedData) else data


def _dask(data: Any, roles: Roles, selection: Selection | None) -> Source:
    from bayescore.data.sources.dask_source import dask_source  # Dask is optional

    return dask_source(data, roles, selection)


# the first that fits opens the data
KINDS: tuple[Kind, ...] = (
    Kind(lambda data: isinstance(data, Source | WeightedData), _ready),
    Kind(is_csv, csv_source, named=True),
    Kind(lambda data: isinstance(data, str | Path), path_source, named=True),
    Kind(is_dataset, dataset_source, named=True),
    Kind(is_lazy, lazy_source, named=True),
    Kind(is_relation, relation_source, named=True),
    Kind(is_table, table_source, named=True),
    Kind(is_stream, refuse_stream),
    Kind(lambda data: is_dask(data) and hasattr(data, "columns"), _dask, named=True),
    Kind(is_dask, _dask),
    Kind(callable, callable_source),
    Kind(lambda _: True, array_source),
)


def has_named_columns(data: Any) -> bool:
    """Whether the columns of `data` have names, the labels' among them."""
    return _kind(data).named


def _kind(data: Any) -> Kind:
    return next(kind for kind in KINDS if kind.fits(data))


def as_source(data: Any, y: Any = None, *, selection: Selection | None = None, **beside: Any) -> Source:
    """Turn `data` into a `Source` with the identity design.

    Parameters
    ----------
    data : array, data frame, Arrow table, path, query, callable, Dask collection or Source
        A 2-D array of numbers, dense or sparse; a pandas, polars or Arrow table; the path or address of a Parquet file
        or of a folder of them, or the path of a CSV file; a dataset of Arrow, a LazyFrame of polars or a relation of
        DuckDB; a callable that returns a fresh iterator of blocks, (X, y), (X, y, weights) or (X, y, weights, offset),
        each time; a Dask data frame or array; or a ready `Source`.
    y : array, optional
        Labels, two classes of any kind. Not needed where `label` names a column or blocks bring theirs. Rows go
        together by position: pandas objects whose indexes differ are refused.
    selection : Selection, optional
        Which columns of tables are features; those of text then come as codes, and the source knows their `levels`.
        By default all are, and must be numbers.
    **beside
        The other fields of `Roles`: label, weights, offset and so on.

    Raises
    ------
    DataError
        For wrong shapes, non-numeric columns, labels that are not of two classes, bad weights or offsets, a file
        that cannot be read, an iterator, whose rows come once, masked entries, or pandas objects whose indexes differ.
    TypeError
        For data of another kind.
    """
    if isinstance(y, str):
        raise DataError(f"y={y!r} is text; give the labels as y, or the name of their column as label={y!r}")
    roles = Roles(y, **beside)
    own = roles.groups if isinstance(roles.groups, dict) else {"": roles.groups}
    groups = {f"groups[{name!r}]" if name else "groups": column for name, column in own.items()}
    check_aligned(data=data, y=y, weights=roles.weights, offset=roles.offset, trials=roles.trials, **groups)
    source = _kind(data).open(data, roles, selection)
    survey: Survey | None = getattr(source, "survey", None)
    left_out = roles.trials is not None or roles.drop or (survey is not None and survey.zero_weights)
    # blocks of a callable leave out themselves
    return kept_source(source, drop=roles.drop) if left_out and not isinstance(source, BlockSource) else source
