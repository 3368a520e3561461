"""CSV files, plain or compressed, read by Arrow's parser in blocks; names of columns stand in the first line.

The first megabytes tell the types; numbers are floats. Every pass parses the text anew: for many passes, or text that
appears late in a column of numbers, write Parquet once (``pyarrow.parquet``, polars and DuckDB convert).
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc

from bayescore.data.factors import Selection
from bayescore.data.sources.batches import BatchSource, batch_source
from bayescore.data.sources.roles import Roles
from bayescore.listing import listed
from bayescore.validation import DataError

_BLOCK = 1 << 23  # bytes: the first block tells the types; some are read ahead
_HEAD = 1 << 20  # bytes that hold the first line
_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def _separator(path: Path) -> str | None:
    names = path.suffixes[-2:] if path.suffix in (".gz", ".bz2", ".zst", ".lz4") else path.suffixes[-1:]
    return _SEPARATORS.get(names[0].lower()) if names else None


def is_csv(data: Any) -> bool:
    """Whether `data` is the path of a CSV file."""
    return isinstance(data, str | Path) and "://" not in str(data) and _separator(Path(data)) is not None


def csv_source(data: str | Path, roles: Roles, selection: Selection | None = None) -> BatchSource:
    """Return a CSV file as a source; labels and weights are columns of it."""
    path = Path(data)
    roles.check_named("a CSV file")
    if not path.is_file():
        raise FileNotFoundError(f"data: no file {str(path)!r}")
    separator = _separator(path)
    _check_first_line(path, separator, roles.label)
    parse = pc.ParseOptions(delimiter=separator, newlines_in_values=True)
    found = _typed(path, parse, None).schema
    schema = pa.schema([field if field.name == roles.label else _wide(field) for field in found])

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([schema.field(name) for name in columns])
        try:
            yield from _typed(path, parse, wanted)
        except pa.ArrowInvalid as error:
            raise _unreadable(path, error) from None

    return batch_source(read, schema, roles, selection)


def _typed(path: Path, parse: pc.ParseOptions, schema: pa.Schema | None) -> pc.CSVStreamingReader:
    """Open a file; with a schema only its columns are read."""
    convert = pc.ConvertOptions(
        strings_can_be_null=True,
        column_types=schema,
        include_columns=None if schema is None else schema.names,
    )
    try:
        return pc.open_csv(path, pc.ReadOptions(block_size=_BLOCK), parse, convert)
    except pa.ArrowInvalid as error:
        raise _unreadable(path, error) from None


def _wide(field: pa.Field) -> pa.Field:
    """Return a column of whole numbers, or without entries, as one of floats, for what follows further down."""
    return field.with_type(pa.float64()) if pa.types.is_integer(field.type) or pa.types.is_null(field.type) else field


def _unreadable(path: Path, error: Exception) -> DataError:
    reason = str(error).splitlines()[0].rstrip(".")
    return DataError(
        f"{str(path)!r} is not read as CSV ({reason}); mend it, or read it by a program that is told its types and "
        "write Parquet"
    )


def _check_first_line(path: Path, separator: str | None, label: str | None) -> None:
    """Raise unless the first line holds names, separated as expected."""
    try:
        with pa.input_stream(str(path), compression="detect") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise _unreadable(path, error) from None
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
