"""Rows that come as Arrow batches from whatever reads them again for each pass: a query, a text file, a dataset.

A pass asks for the columns that it needs. The batches are read in the calling thread and mapped in threads, so that a
few of them are in memory. Opening is one pass more, over the labels and columns of text. Later passes must give the
same labels in the same order, which is checked: queries promise no order unless they sort. A query that computes much
is better run once, into a table or a Parquet file: a coreset takes three passes or more.

CSV files, plain or compressed, read by Arrow's parser in blocks; names of columns stand in the first line.

The first megabytes give the types; numbers are floats. Every pass parses the text again: for many passes, or text that
appears late in a column of numbers, write Parquet once (``pyarrow.parquet``, polars and DuckDB convert).
"""

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
from numpy.typing import NDArray

from bayescore.data.column_kinds import as_table, common_schema
from bayescore.data.columns import Columns, ColumnSource, label_codes
from bayescore.data.factors import Selection
from bayescore.data.parquet import ParquetSource, check_once, dataset_listing, named_files, parquet_source
from bayescore.data.roles import Roles, resolve_columns
from bayescore.data.source import MAX_BLOCK_ROWS, block_rows
from bayescore.data.survey import Survey
from bayescore.text import first_line, listed
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
        """Yield the rows in order; raise `DataError` at the end if they differ from the first pass."""
        start, order, step = 0, 0, block_rows(len(self.columns.features))
        marks = _label_checksums(self.classes)
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


def _label_checksums(labels: Iterable[Any]) -> NDArray[np.uint32]:
    """Return a number for each label, alike for labels that are equal: 1 and 1.0, and True."""
    shown = [repr(float(label) if isinstance(label, int | float) else label) for label in labels]
    return np.array([crc32(text.encode()) for text in shown], dtype=np.uint32)


def batch_source(read: Read, schema: pa.Schema, roles: Roles, selection: Selection | None) -> BatchSource:
    """Return the rows of a reader, whose columns have this schema, as a source; one pass, over labels and text."""
    columns, order = resolve_columns(roles, schema, selection), 0
    checked = columns.paired is None and not columns.drop

    def surveys() -> Iterator[Survey]:
        nonlocal order
        for batch in read(columns.survey_columns):
            if checked:
                values, codes = label_codes(batch.column(columns.label))
                order = crc32(_label_checksums(values)[codes].tobytes(), order)
            yield columns.survey(batch)

    survey = columns.merged(surveys())
    if not survey.n_rows:
        raise DataError("data have no rows; at least one is needed")
    return BatchSource(read, columns.with_survey(survey, roles.positive), survey, order if checked else None)


def lazy_source(data: Any, roles: Roles, selection: Selection | None = None) -> BatchSource:
    """Return a LazyFrame of polars as a source; labels and weights are columns of it."""
    roles.check_named("a LazyFrame")
    if not hasattr(data, "collect_batches"):
        raise TypeError("data is a LazyFrame, and this polars cannot read one in batches; install polars>=1.34")

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        for frame in data.select(columns).collect_batches(chunk_size=MAX_BLOCK_ROWS, maintain_order=True):
            yield from as_table(frame).combine_chunks().to_batches()

    return batch_source(read, as_table(data.limit(0).collect()).schema, roles, selection)


def relation_source(data: Any, roles: Roles, selection: Selection | None = None) -> BatchSource:
    """Return a relation of DuckDB as a source; labels and weights are columns of it.

    Its connection runs one query at a time: leave it alone until the coreset is built.
    """
    roles.check_named("a relation of DuckDB")

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        query = data.project(quoted)
        # `__arrow_c_stream__` would hold the whole result; DuckDB 1 calls the reader by its second name
        with (getattr(query, "to_arrow_reader", None) or query.fetch_record_batch)(MAX_BLOCK_ROWS) as reader:
            for batch in reader:
                yield (
                    batch.cast(pa.schema([_with_level_order(field, enums) for field in batch.schema]))
                    if enums
                    else batch
                )

    enums = {name for name, kind in zip(data.columns, data.types, strict=True) if kind.id == "enum"}
    schema = pa.table(data.limit(0)).schema
    return batch_source(read, pa.schema([_with_level_order(field, enums) for field in schema]), roles, selection)


def _with_level_order(field: pa.Field, enums: set[str]) -> pa.Field:
    """Return a field whose dictionary, from an ENUM, has the order of the levels."""
    kind = field.type
    if field.name not in enums or not pa.types.is_dictionary(kind):
        return field
    return field.with_type(pa.dictionary(kind.index_type, kind.value_type, ordered=True))


def dataset_source(data: Any, roles: Roles, selection: Selection | None = None) -> BatchSource | ParquetSource:
    """Return a dataset of Arrow as a source; labels and weights are columns of it.

    It is read by row groups if it has whole Parquet files of the same columns, else (filtered, joined, CSV with another
    separator, ORC, Feather) in batches. Rows keep the dataset's order.
    """
    roles.check_named("a dataset")
    if (listing := dataset_listing(data)) is not None:
        return parquet_source(listing, roles, selection)

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        try:
            yield from data.to_batches(columns=columns, batch_size=MAX_BLOCK_ROWS)
        except pa.ArrowInvalid as error:
            raise DataError(
                f"the dataset is not read in its schema ({error}); give one that all fit, or the path of the folder"
            ) from None

    return batch_source(read, data.schema, roles, selection)


_BLOCK_BYTES = 1 << 23  # bytes: the first block decides the types; some are read ahead


_FIRST_LINE_BYTES = 1 << 20  # bytes that hold the first line


_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def separator_of(path: Path) -> str | None:
    """Return what parts the columns of a file, by its name; None if it is no CSV file."""
    names = path.suffixes[-2:] if path.suffix in (".gz", ".bz2", ".zst", ".lz4") else path.suffixes[-1:]
    return _SEPARATORS.get(names[0].lower()) if names else None


def is_csv(data: Any) -> bool:
    """Whether `data` is the path of a CSV file, a pattern of such paths, or a list of them."""
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(path, str | Path) and is_csv(path) for path in data)
    return isinstance(data, str | Path) and "://" not in str(data) and separator_of(Path(data)) is not None


def csv_source(data: Any, roles: Roles, selection: Selection | None = None) -> BatchSource:
    """Return CSV files, in the order given, as a source; labels and weights are columns of them."""
    roles.check_named("a CSV file")
    paths = csv_files(data)
    schemas = [csv_schema(path, roles.label) for path in paths]
    wide = common_schema([pa.schema([_as_float_field(field, roles) for field in schema]) for schema in schemas], paths)
    groups = resolve_columns(roles, wide, selection).group_columns  # whose whole numbers may be too large for floats
    exact = [name for name in groups if len({schema.field(name).type for schema in schemas}) == 1]
    schema = pa.schema([schemas[0].field(field.name) if field.name in exact else field for field in wide])

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([schema.field(name) for name in columns])
        for path in paths:
            try:
                yield from _open_csv(path, wanted)
            except pa.ArrowInvalid as error:
                raise unreadable(path, error) from None

    return batch_source(read, schema, roles, selection)


def csv_files(data: Any) -> list[Path]:
    """Return the paths of CSV files, in the order given."""
    paths = [path for each in (data if isinstance(data, list | tuple) else [data]) for path in named_files(each)]
    check_once(paths)
    return paths


def csv_schema(path: Path, label: str | None) -> pa.Schema:
    """Return names and types of the columns of a file, from its first block."""
    if not path.is_file():
        raise FileNotFoundError(f"data: no file {str(path)!r}")
    _check_first_line(path, separator_of(path), label)
    schema = _open_csv(path, None).schema
    if other := [field.name for field in schema if pa.types.is_binary(field.type)]:
        raise DataError(
            f"{str(path)!r} is not in UTF-8: column {other[0]!r} has other bytes, as of Latin-1; convert the file, "
            f"iconv -f latin1 -t utf-8, or read it by pandas.read_csv(path, encoding='latin-1')"
        )
    return schema


def _open_csv(path: Path, schema: pa.Schema | None) -> pc.CSVStreamingReader:
    """Open a file; with a schema only its columns are read."""
    parse = pc.ParseOptions(delimiter=separator_of(path), newlines_in_values=True)
    convert = pc.ConvertOptions(
        strings_can_be_null=True, column_types=schema, include_columns=None if schema is None else schema.names
    )
    try:
        return pc.open_csv(path, pc.ReadOptions(block_size=_BLOCK_BYTES), parse, convert)
    except pa.ArrowInvalid as error:
        raise unreadable(path, error) from None


def read_csv(path: Path) -> pd.DataFrame:
    """Return the rows of a CSV file, with the types and missing entries that `csv_source` gives them."""
    separator = separator_of(path)
    _check_first_line(path, separator, None)
    parse = pc.ParseOptions(delimiter=separator, newlines_in_values=True)
    try:
        table = pc.read_csv(path, pc.ReadOptions(), parse, pc.ConvertOptions(strings_can_be_null=True))
    except pa.ArrowInvalid as error:
        raise unreadable(path, error) from None
    frame: pd.DataFrame = table.to_pandas(integer_object_nulls=True)
    return frame


def _as_float_field(field: pa.Field, roles: Roles) -> pa.Field:
    """Return a column of whole numbers, or without entries, as one of floats, for what follows further down.

    Labels stay as they are.
    """
    if field.name == roles.label:
        return field
    return field.with_type(pa.float64()) if pa.types.is_integer(field.type) or pa.types.is_null(field.type) else field


def unreadable(path: Any, error: Exception) -> DataError:
    """Return the error for a CSV file whose text is not read."""
    return DataError(
        f"{str(path)!r} is not read as CSV ({first_line(error)}); mend it, or read it by a program that is told its "
        "types and write Parquet"
    )


def _check_first_line(path: Path, separator: str | None, label: str | None) -> None:
    """Raise unless the first line holds names, separated as expected."""
    try:
        with pa.input_stream(str(path), compression="detect") as file:
            head = file.read(_FIRST_LINE_BYTES)
    except OSError as error:
        raise unreadable(path, error) from None
    line = head.decode("utf-8-sig", "replace").splitlines()[0] if head else ""
    names = next(csv.reader([line], delimiter=separator or ","), [])
    if not names:
        raise DataError(f"{str(path)!r} is empty; it needs a line of names and rows")
    other = next((mark for mark in ",;\t|" if mark != separator and mark in line), None)
    if len(names) == 1 and other is not None:
        raise DataError(
            f"{str(path)!r} has the one column {names[0]!r}: it is separated by {other!r}, not {separator!r}; give "
            f"pyarrow.dataset.dataset(path, format=pyarrow.dataset.CsvFileFormat(pyarrow.csv.ParseOptions({other!r})))"
        )
    numbers = [name for name in names if _is_number(name)]
    if label not in names and 2 * len(numbers) > len(names):
        raise DataError(
            f"{str(path)!r} begins with {listed(names, shown=str)}, numbers where the names of the columns should "
            "stand; write the names as its first line"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
