r"""Rows of ordered categories as the steps between them: each row becomes a row of two labels for each of its steps.

A row of the k-th of K categories went past the thresholds 1, ..., k - 1 and stopped at the k-th:

.. math:: P(y = k) = P(y = k \mid y \ge k) \prod_{j < k} P(y > j \mid y \ge j),

so that its likelihood is that of min(k, K - 1) labels, "continued" or not. They are made batch by batch while rows are
read; a row's steps stand beside each other.

Reference: Tutz (1991), Sequential models in categorical regression, Computational Statistics & Data Analysis 11.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.dataset as ds
from numpy.typing import NDArray

from bayescore.data.batches import BatchSource, batch_source, csv_files, csv_schema, is_csv, separator_of, unreadable
from bayescore.data.column_kinds import as_floats, as_table, check_read, common_schema, keeps_order, level_values
from bayescore.data.columns import BIAS, DROPPED
from bayescore.data.factors import Selection, columns_of, level_codes
from bayescore.data.parquet import Listing, files_listing, footers
from bayescore.data.responses import Expression
from bayescore.data.roles import Roles
from bayescore.data.source import MAX_BLOCK_ROWS
from bayescore.data.tables import is_table
from bayescore.text import first_line, listed
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, RowError, check_aligned, check_matrix, check_weights, warn

STEP, CONTINUED = "step", "continued"
"""Columns of the steps: which threshold, and whether the row went past it."""

MAX_CATEGORIES = 50
_ORDER = "rows[{0!r}] = pd.Categorical(rows[{0!r}], categories=[...], ordered=True)"


def threshold_names(categories: Sequence[Any]) -> list[str]:
    """Return what the thresholds between categories are called, each by the two that it parts."""
    return [f"{one}|{other}" for one, other in pairwise(categories)]


@dataclass(frozen=True, eq=False)
class Steps:
    """Rows of ordered categories, which are read as their steps; `drop` leaves out rows that miss one of `columns`.

    With `every` a row has a step for each threshold, whatever its category: what averages over categories take.
    """

    rows: ds.Dataset | pa.Table  # a table in memory, which can be pickled
    response: str
    columns: tuple[str, ...]
    categories: tuple[Any, ...] = ()
    drop: bool = False
    every: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The columns of the steps."""
        schema = self.rows.schema
        if taken := [name for name in (STEP, CONTINUED) if name in schema.names]:
            raise DataError(f"data has a column {taken[0]!r}, as the steps between categories do: rename it")
        threshold = pa.field(STEP, pa.dictionary(pa.int32(), pa.string(), ordered=True))
        return schema.append(pa.field(CONTINUED, pa.bool_())).append(threshold)

    def batches(self, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows as they are, with these columns, without those that are left out."""
        for batch, keep in self.with_completeness(columns):
            yield batch.filter(pa.array(keep)) if self.drop else batch

    def with_completeness(self, columns: Iterable[str]) -> Iterator[tuple[pa.RecordBatch, NDArray[np.bool_]]]:
        """Yield all rows with these columns, and whether each is not left out."""
        for batch in self._batches([*columns, *(self.columns if self.drop else ())]):
            complete = np.ones(batch.num_rows, dtype=np.bool_)
            if self.drop:
                complete &= ~_missing_entries(batch, self.columns).any(axis=1)
            yield batch, complete

    def _batches(self, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
        names = list(dict.fromkeys(columns))
        if isinstance(self.rows, pa.Table):
            yield from self.rows.select(names).to_batches(max_chunksize=MAX_BLOCK_ROWS)
            return
        for part in _files(self.rows):
            try:
                schema = {} if part is self.rows else {"schema": self.rows.schema}
                yield from part.to_batches(columns=names, batch_size=MAX_BLOCK_ROWS, **schema)
            except (pa.ArrowInvalid, OSError) as error:
                raise _unreadable_error(part, error) from None

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows as they are, with the columns that the model reads, as tables."""
        for batch in self.batches(self.columns):
            if batch.num_rows:
                yield pa.Table.from_batches([batch])

    def check_complete(self) -> None:
        """Raise `DataError` if rows miss one of the columns; warn if these are left out. One pass."""
        counts, n_missing, n_rows = np.zeros(len(self.columns), dtype=np.int64), 0, 0
        for batch in self._batches(self.columns):
            holes = _missing_entries(batch, self.columns)
            counts, n_rows = counts + holes.sum(axis=0), n_rows + len(holes)
            n_missing += int(holes.any(axis=1).sum())
        if not n_missing:
            return
        which = [f"{name!r} in {count:,}" for name, count in zip(self.columns, counts, strict=True) if count]
        said = f"{n_missing:,} of {n_rows:,} rows miss something ({listed(which, shown=str)})"
        if not self.drop:
            raise DataError(f"{said}: impute it; {DROPPED}")
        warn(f"{said}, and missing='drop' left them out: {BIAS}")

    def coded(self, column: pa.Array, start: int = 0) -> IntArray:
        """Return the places of a response's entries among the categories."""
        return category_codes(column, self.response, self.categories, start)

    @contextmanager
    def naming_rows(self) -> Iterator[None]:
        """Have an error of a step name the row that it is a step of."""
        try:
            yield
        except RowError as error:
            row = self._row_of(error.row)
            if row is not None:
                said = f"{error} (rows are here steps between categories, and this one is of row {row} of the data)"
                error.args, error.row = (said,), row
            raise

    def _row_of(self, step: int) -> int | None:
        """Return the position of the row that a step is of, among all rows; None if there is no such step."""
        start, first = 0, 0
        for batch, keep in self.with_completeness([self.response]):
            code = self.coded(batch.column(self.response).filter(pa.array(keep)), start)
            ends = first + np.cumsum(self._lengths(code))
            if len(ends) and first <= step < ends[-1]:
                return start + int(np.flatnonzero(keep)[np.searchsorted(ends, step, "right")])
            start, first = start + batch.num_rows, int(ends[-1]) if len(ends) else first
        return None

    def _lengths(self, code: IntArray) -> IntArray:
        """Return how many steps rows of these categories have."""
        most = len(self.categories) - 1
        return np.full(len(code), most) if self.every else np.minimum(code + 1, most)

    def read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the steps of all rows, with these columns."""
        start = 0
        given = [name for name in columns if name not in (STEP, CONTINUED)]
        for batch in self.batches([self.response, *given]):
            code = self.coded(batch.column(self.response), start)
            start += batch.num_rows
            lengths = self._lengths(code)
            place, at = np.repeat(np.arange(len(code)), lengths), np.arange(lengths.sum())
            at -= np.repeat(np.cumsum(lengths) - lengths, lengths)
            made = {CONTINUED: pa.array(code[place] > at), STEP: _thresholds(at, self.categories)}
            taken = batch.select(given).take(pa.array(place))
            yield pa.RecordBatch.from_pydict(
                {name: made[name] if name in made else taken.column(name) for name in columns},
                schema=pa.schema([self.schema.field(name) for name in columns]),
            )

    def on_first_steps(self, work: Callable[[int, WeightedData], Any], names: Sequence[str]) -> Callable[..., Any]:
        """Return work on blocks of the steps, with these columns, as work on their rows: the first steps of each."""
        place = tuple(names).index(STEP)
        return lambda start, block: work(start, block.take(block.X[:, place] == 0.0))


def _files(rows: ds.Dataset) -> Sequence[Any]:
    """Return the files of a dataset, so that one that is not read can be named; else the dataset."""
    if not isinstance(rows, ds.FileSystemDataset):
        return [rows]
    try:
        return list(rows.get_fragments())
    except ValueError:  # it is filtered, or its columns are made of others
        return [rows]


def _unreadable_error(part: Any, error: Exception) -> DataError:
    path = getattr(part, "path", None)
    if path is not None and is_csv(path):
        return unreadable(path, error)
    what = "the dataset" if path is None else repr(path)
    return DataError(f"{what} is damaged, or not read in the columns' types ({first_line(error)}); write it again")


def _missing_entries(batch: pa.RecordBatch, names: Sequence[str]) -> NDArray[np.bool_]:
    """Return whether each row misses each of some columns, shape (n, C)."""
    return np.column_stack([np.asarray(batch.column(name).is_null(nan_is_null=True)) for name in names])


def category_codes(column: pa.Array, response: str, categories: Sequence[Any], start: int = 0) -> IntArray:
    """Return the places of a response's entries among the categories; the first row is the one at `start`."""
    code = level_codes(column, response, categories, start)
    if np.isnan(code).any():
        raise DataError(f"column {response!r} has missing entries; drop those rows")
    return code.astype(np.int64)


def check_columns(columns: Iterable[str], names: Sequence[str]) -> None:
    """Raise `DataError` if rows with columns of these names lack one, before the columns of steps are added."""
    read = [part for name in columns for part in columns_of(name, names)]
    if missing := [name for name in read if name not in (*names, STEP)]:
        raise DataError(f"{missing[0]!r} is no column of the rows; the columns are {listed(names, 10, str)}")


def every_step(table: pa.Table, categories: Sequence[Any]) -> pa.Table:
    """Return each row of a table at each threshold, whatever its category."""
    return _rows_at_thresholds(table, np.arange(len(categories) - 1), categories)


def first_step(table: pa.Table, categories: Sequence[Any]) -> pa.Table:
    """Return each row of a table at the first threshold, so that positions are those of the rows."""
    return _rows_at_thresholds(table, np.zeros(1, dtype=np.int64), categories)


def _rows_at_thresholds(table: pa.Table, thresholds: IntArray, categories: Sequence[Any]) -> pa.Table:
    n = table.num_rows
    if STEP in table.column_names:  # of the caller, which no fit has read
        table = table.drop_columns([STEP])
    rows = table.take(pa.array(np.repeat(np.arange(n), len(thresholds))))
    return rows.append_column(STEP, _thresholds(np.tile(thresholds, n), categories))


def _thresholds(at: IntArray, categories: Sequence[Any]) -> pa.DictionaryArray:
    names = pa.array(threshold_names(categories), pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(at, pa.int32()), names, ordered=True)


@dataclass(frozen=True)
class Ordered:
    """What a fit of steps does not know of its rows: categories, how many rows have each, what they weigh, formula."""

    link: str
    response: str
    formula: str
    categories: list[Any]
    counts: list[int]
    weight: float
    columns: list[str]  # that the model reads
    drop: bool = False  # whether rows that miss something are left out
    weights: list[float] | None = None  # of the rows of each category, by which `weight` is; None in older files

    @property
    def shares(self) -> FloatArray:
        """The share of each category in the weight of the rows, shape (K,)."""
        each = np.array(self.weights or self.counts, dtype=np.float64)
        return np.asarray(each / each.sum())

    def with_rows(self, seen: "CategoryCounts") -> "Ordered":
        """Return what is known with the rows of new ones."""
        more = [(seen.counts.get(level, 0), seen.weights.get(level, 0.0)) for level in self.categories]
        counts = [n + each for n, (each, _) in zip(self.counts, more, strict=True)]
        weights = self.weights and [w + each for w, (_, each) in zip(self.weights, more, strict=True)]
        return replace(self, counts=counts, weights=weights, weight=self.weight + sum(seen.weights.values()))

    def steps(self, data: Any, y: Any = None, *, missing: str = "raise") -> Steps:
        """Return the steps of other rows."""
        data, y = data if isinstance(data, tuple) else (data, y)
        rows, _ = as_rows(data, y, self.response)
        if self.response not in rows.schema.names:
            raise DataError(f"the response {self.response!r} is no column of the rows; add it, or give y")
        check_columns(self.columns, rows.schema.names)
        drop = self.drop or missing == "drop"
        return Steps(rows, self.response, tuple(self.columns), tuple(self.categories), drop=drop)


def steps_source(data: Steps, roles: Roles, selection: Selection | None = None) -> BatchSource:
    """Return steps as a source; labels and weights are columns of the rows."""
    roles.check_named("rows of ordered categories")
    return batch_source(data.read, data.schema, roles, selection)


def views_as_text(table: pa.Table) -> pa.Table:
    """Return a table whose views of text are text, which Arrow's `take` knows."""
    return table.cast(_without_views(table.schema))


def _without_views(schema: pa.Schema) -> pa.Schema:
    for place, column in enumerate(schema):
        if column.type == pa.string_view():
            schema = schema.set(place, column.with_type(pa.string()))
    return schema


def as_rows(
    data: Any, y: Any = None, response: str | None = None, *, left: str | None = None
) -> tuple[ds.Dataset | pa.Table, str | None]:
    """Return rows as a table or a dataset of Arrow, and the column of their responses.

    `y` becomes that column if it is given. `left` is what stands left of a formula.
    """
    if isinstance(data, np.ndarray):
        X = check_matrix(data, "data")
        data = pd.DataFrame({f"x{d}": X[:, d] for d in range(X.shape[1])})
    if y is not None:
        response = response or str(getattr(y, "name", None) or "y")
    if is_table(data):
        table = views_as_text(as_table(data))
        if y is not None:
            check_aligned(data=data, y=y)
            column = as_table(pd.DataFrame({response: y})).column(0)
            if response in table.column_names or len(column) != table.num_rows:
                has = f"{table.num_rows:,} rows{' and a column of its name' if response in table.column_names else ''}"
                raise DataError(f"y, called {response!r}, has {len(column):,} entries, and data {has}")
            table = table.append_column(response, column)
        return table, response
    if y is not None and not hasattr(data, "shape"):
        raise DataError("y is given beside rows of files; name the column of the categories as label")
    if isinstance(data, ds.Dataset):
        return data.replace_schema(_without_views(data.schema)), response
    if is_csv(data):
        return _of_csv(csv_files(data), response or left), response
    if isinstance(data, str | Path | list):
        listing = files_listing(data if isinstance(data, list) else [data])
        return as_rows(_of_parquet(listing), None, response)
    raise DataError(
        f"data is a {type(data).__name__}, which is not read as ordered categories: give a table in memory, as "
        ".collect(), .compute() or .arrow() return it, an array, or Parquet or CSV files"
    )


def _of_csv(paths: list[Path], label: str | None) -> ds.Dataset:
    """Return CSV files as a dataset; whole numbers of some files are those of others."""
    schema = common_schema([csv_schema(path, label) for path in paths], paths)
    parsing = csv.ParseOptions(delimiter=separator_of(paths[0]), newlines_in_values=True)
    form = ds.CsvFileFormat(parsing, convert_options=csv.ConvertOptions(strings_can_be_null=True))
    return ds.dataset([str(path) for path in paths], schema, form)


def _of_parquet(listing: Listing) -> ds.Dataset:
    """Return Parquet files as a dataset, with the columns that the names of their folders give."""
    _, schema, hive = footers(listing)
    folders = ds.partitioning(pa.schema([schema.field(name) for name in hive]), flavor="hive")
    paths = [str(path) for path in listing.paths]
    return ds.dataset(paths, schema, "parquet", listing.store, partitioning=folders)


@dataclass
class CategoryCounts:
    """How often categories occur in rows of positive weight, in which order they are given, and what rows weigh."""

    counts: dict[Any, int]
    order: list[Any] | None
    weights: dict[Any, float] = field(default_factory=dict)
    n_rows: dict[Any, int] = field(default_factory=dict)  # of any weight


def count_categories(steps: Steps, weights: str | None = None) -> CategoryCounts:
    """Return which categories occur; two passes.

    Raises `DataError` for missing entries that are not dropped, and for weights that are negative or not finite.
    """
    steps.check_complete()
    schema, response = steps.rows.schema, steps.response
    factor, fixed = pa.types.is_dictionary(schema.field(response).type), keeps_order(schema, response)
    occurring = CategoryCounts({}, list(fixed) if isinstance(fixed, tuple) else None)
    of_weights = None if weights is None else Expression.of(weights, schema.names, "weights")
    start = 0
    for batch, keep in steps.with_completeness([response, *(() if of_weights is None else of_weights.columns)]):
        column, w = batch.column(response).filter(pa.array(keep)), np.ones(batch.num_rows)
        if of_weights is not None:
            given, name = of_weights.numbers(partial(_floats, batch), start), of_weights.shown
            w = check_weights(given, batch.num_rows, name, start, zero=True, drop=steps.drop)
        w, start = w[keep], start + batch.num_rows
        coded = column if factor else column.dictionary_encode()
        levels = level_values(coded.dictionary)
        if factor and not isinstance(fixed, tuple):
            occurring.order = occurring.order or levels
            if levels != occurring.order:
                raise DataError(f"column {response!r} has its categories in another order in another part of the data")
        code = coded.indices.to_numpy(zero_copy_only=False)
        size = len(levels)
        sums: list[tuple[dict[Any, Any], IntArray | FloatArray]] = [
            (occurring.n_rows, np.bincount(code, minlength=size)),
            (occurring.counts, np.bincount(code[w > 0.0], minlength=size)),
            (occurring.weights, np.bincount(code, w, size)),
        ]
        for by_level, more in sums:
            for level, each in zip(levels, more.tolist(), strict=True):
                by_level[level] = by_level.get(level, 0) + each
    return occurring


def _floats(batch: pa.RecordBatch, name: str) -> FloatArray:
    return as_floats(batch.column(name))


def with_categories(steps: Steps, weights: str | None) -> tuple[Steps, CategoryCounts]:
    """Return steps whose categories were not known with them, and how often these occur; two passes.

    Raises `DataError` unless the response is an ordered factor or whole numbers, of three categories or more.
    """
    response, names, types = steps.response, steps.rows.schema.names, pa.types
    if response not in names:
        raise DataError(f"the response {response!r} is no column of the data, which has {listed(names)}")
    kind = steps.rows.schema.field(response).type
    numbers = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    if not (numbers or (types.is_dictionary(kind) and kind.ordered)):
        raise DataError(
            f"column {response!r} is {kind}, which has no order. Give that of its categories, from low to high: "
            f"{_ORDER.format(response)}, an Enum in polars, or numbers 1, 2, ..."
        )
    check_read(steps.rows.schema, steps.columns)
    occurring = count_categories(steps, weights)
    if lost := [level for level, n in occurring.n_rows.items() if n and not occurring.counts[level]]:
        raise DataError(f"column {response!r} has {lost[0]!r} in rows of weight 0 alone: leave these rows out")
    categories = [level for level in occurring.order or sorted(occurring.counts) if occurring.counts.get(level)]
    if numbers and (parts := [level for level in categories if not float(level).is_integer()]):
        raise DataError(
            f"column {response!r} has numbers that are not whole, as {parts[0]:g}: cut them into bands, pd.cut(...), "
            "or give family='normal'"
        )
    if len(categories) < 3:
        two = f"two categories, {listed(categories)}: give family='logistic'"
        raise DataError(f"column {response!r} has {two if len(categories) == 2 else 'one category, or none'}")
    if len(categories) > MAX_CATEGORIES:
        raise DataError(
            f"column {response!r} has {len(categories):,} categories (limit {MAX_CATEGORIES}), each with a threshold: "
            "cut them into bands, pd.cut(...), or give family='normal' for numbers, 'poisson' for counts"
        )
    if unused := [level for level in occurring.order or () if not occurring.counts.get(level)]:
        warn(f"categories of {response!r} that no row has are left out, and have no threshold: {listed(unused)}")
    return replace(steps, categories=tuple(int(level) if numbers else level for level in categories)), occurring
