"""Parquet files and folders of them, read by row groups: never the whole table in memory.

A folder is read in the natural order of its paths (part-2 before part-10); files and folders whose names begin with
"_" or "." are skipped, as Spark, Arrow and Dask do. Names such as ``year=2020`` of folders are columns (Hive).
"""

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from bayescore.data.passes.cutter import block_rows
from bayescore.data.passes.tasks import Division, Pool
from bayescore.data.sources.columns import Columns, ColumnSource, add_labels, chosen_columns, survey
from bayescore.data.sources.factors import Selection
from bayescore.data.sources.roles import Roles
from bayescore.types import WeightedData
from bayescore.validation import DataError

CORESET_KEY = b"bayescore"  # of the metadata of a coreset's Parquet file
_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class File:
    """A Parquet file: the rows of its row groups, and the values that its folders' names give it."""

    path: Path
    groups: tuple[int, ...]
    fixed: tuple[tuple[str, pa.Scalar], ...] = ()


@dataclass(frozen=True)
class RowGroups:
    """Row groups first, ..., last - 1 of a file, the first at position `start` of the data: a picklable descriptor."""

    file: File
    first: int
    last: int
    start: int
    columns: Columns
    step: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.file.groups[self.first : self.last])

    def read(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1, decoding no more than it needs."""
        at = 0
        text = [name for name, _ in self.columns.levels]
        groups = range(self.first, self.last)
        for batch in batches(self.file, self.columns.names, self.step, groups, text=text):
            a, b = max(low - at, 0), min(high - at, batch.num_rows)
            if a < b:
                yield self.columns.block(batch.slice(a, b - a), self.start + at + a)
            at += batch.num_rows
            if at >= high:
                return

    def place(self, row: int) -> str:
        """Name the file and the row group."""
        group = self.first
        while row >= self.file.groups[group]:
            row -= self.file.groups[group]
            group += 1
        return f"row {row} of row group {group} of {str(self.file.path)!r}"


@dataclass(frozen=True, eq=False)
class ParquetSource(ColumnSource):
    """Rows of Parquet files; `pool` reads them elsewhere, from descriptors of row groups."""

    files: tuple[File, ...]
    columns: Columns
    pool: Pool | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(sum(file.groups) for file in self.files)

    def division(self, step: int) -> Division:
        """Return pieces of one row group each, or of several small ones in a row."""
        pieces, start = [], 0
        for file in self.files:
            first = 0
            while first < len(file.groups):
                last, n_rows = first + 1, file.groups[first]
                while last < len(file.groups) and n_rows + file.groups[last] <= step:
                    n_rows += file.groups[last]
                    last += 1
                pieces.append(RowGroups(file, first, last, start, self.columns, step))
                first, start = last, start + n_rows
        return Division(pieces, self.pool)

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order; a thread reads one block ahead."""
        pieces = self.division(block_rows(len(self.columns.features))).pieces
        blocks = chain.from_iterable(piece.read(0, piece.n_rows) for piece in pieces)
        with ThreadPoolExecutor(1, "read") as reader:
            ahead = reader.submit(next, blocks, None)
            while (block := ahead.result()) is not None:
                ahead = reader.submit(next, blocks, None)
                yield block


def path_source(data: str | Path, roles: Roles, selection: Selection | None = None) -> ParquetSource:
    """Return the Parquet file or folder at a path as a source; labels and weights are columns of it."""
    if "~" in str(data) and not Path(data).exists():
        raise DataError(
            f"data={str(data)!r} reads like a formula; give the rows as data and their labels as y or label"
        )
    if roles.y is not None:
        raise DataError("y is given beside the path of a Parquet file; name the column of the labels as label")
    for name, given in (("weights", roles.weights), ("offset", roles.offset)):
        if given is not None and not isinstance(given, str):
            raise DataError(f"{name} of a Parquet file must be the name of a column")
    return parquet_source(Path(data), roles.label, roles.weights, offset=roles.offset, selection=selection)


def parquet_source(
    path: Path,
    label: str | None,
    weights: str | None,
    *,
    offset: str | None = None,
    only: list[str] | None = None,
    selection: Selection | None = None,
    pool: Pool | None = None,
) -> ParquetSource:
    """Return a file, or a folder of files, as a source; reads the footers and the columns of labels and new text.

    Parameters
    ----------
    path : Path
        File or folder.
    label, weights, offset : str
        Columns of the labels, the weights and the offsets.
    only : list of str, optional
        Columns to read; all by default.
    selection : Selection, optional
        Which of them are features, where they may hold text.
    pool : Pool, optional
        Who reads the rows; threads of this process by default.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    DataError
        If a file cannot be read, files differ in their columns, or the columns cannot be used.
    """
    if not path.exists():
        raise FileNotFoundError(f"data: no file or folder {str(path)!r}")
    paths = _files_of(path) if path.is_dir() else [path]
    if not paths:
        raise DataError(f"data: the folder {str(path)!r} holds no .parquet files")
    keys = [_hive(file.relative_to(path)) for file in paths] if path.is_dir() else [{}]
    groups, schema = [], None
    for file, own in zip(paths, keys, strict=True):
        with parquet_file(file, "is not a readable Parquet file") as parquet:
            if schema is not None and not parquet.schema_arrow.equals(schema):
                raise DataError(f"{str(file)!r} has other columns than {str(paths[0])!r}; make them alike")
            if own.keys() != keys[0].keys():
                raise DataError(f"{str(file)!r} has other partition columns than {str(paths[0])!r}; make them alike")
            schema, footer = parquet.schema_arrow, parquet.metadata
            groups.append(tuple(footer.row_group(i).num_rows for i in range(footer.num_row_groups)))
    assert schema is not None
    if not any(map(sum, groups)):
        raise DataError(f"{str(path)!r} holds no rows")
    if CORESET_KEY in (schema.metadata or {}) and weights is None:
        raise DataError(f"{str(path)!r} is a coreset; read it with read_coreset, or name its weights: weights='weight'")
    hive = {name: _typed([own[name] for own in keys]) for name in keys[0] if name not in schema.names}
    for name, values in hive.items():
        schema = schema.append(pa.field(name, values.type))
    columns = chosen_columns(schema, label, weights, only, selection, offset=offset)
    wanted = [name for name in hive if name in columns.names]
    files = tuple(
        File(file, rows, tuple((name, hive[name][i]) for name in wanted))
        for i, (file, rows) in enumerate(zip(paths, groups, strict=True))
    )
    found: dict[Any, None] = {}
    surveyed = [columns.label, *columns.text]
    parts = (batch for f in files for batch in batches(f, surveyed, 1 << 20, threads=True, text=columns.text))
    if not columns.text:
        any(add_labels(found, batch.column(0)) for batch in parts)
    else:
        columns = columns.with_levels(survey(batch, columns.text) for batch in _labelled(parts, found))
    return ParquetSource(files, columns.with_classes(found), pool)


def _labelled(parts: Iterator[pa.RecordBatch], found: dict[Any, None]) -> Iterator[pa.RecordBatch]:
    """Yield batches, the labels in their first column added to those found."""
    for batch in parts:
        add_labels(found, batch.column(0))
        yield batch


@contextmanager
def parquet_file(path: Path, problem: str, text: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; what fails inside is an error of that file."""
    try:
        with pq.ParquetFile(path, read_dictionary=list(text) or None) as parquet:
            yield parquet
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise DataError(f"{str(path)!r} {problem} ({reason}); write it again") from None


def batches(
    file: File,
    columns: list[str],
    n_rows: int,
    groups: range | None = None,
    *,
    threads: bool = False,
    text: Sequence[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most `n_rows` rows of some columns of a file; those of text with dictionaries."""
    fixed = [(name, value) for name, value in file.fixed if name in columns]
    stored = [name for name in columns if name not in dict(fixed)]
    which = range(len(file.groups)) if groups is None else groups
    with parquet_file(file.path, "is damaged", [name for name in text if name in stored]) as parquet:
        for batch in parquet.iter_batches(n_rows, list(which), stored, use_threads=threads):
            for name, value in fixed:
                batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
            yield batch


def _files_of(folder: Path) -> list[Path]:
    files = [file.relative_to(folder) for file in folder.rglob("*.parquet") if file.is_file()]
    shown = [file for file in files if not any(part.startswith(("_", ".")) for part in file.parts)]
    return [folder / file for file in sorted(shown, key=_natural)]


def _natural(path: Path) -> list[list[Any]]:
    """Return a key that sorts the numbers within names as numbers."""
    split = [re.split(r"(\d+)", part) for part in path.parts]
    return [[int(word) if i % 2 else word for i, word in enumerate(words)] for words in split]


def _hive(path: Path) -> dict[str, str | None]:
    """Return the columns that the folders' names of a path give, as text."""
    pairs = [part.split("=", 1) for part in path.parts[:-1] if "=" in part]
    return {name: None if value == _NULL else unquote(value) for name, value in pairs}


def _typed(values: list[str | None]) -> pa.Array:
    """Return the values as whole numbers if they all are, else as numbers, else as text."""
    text = pa.array(values, pa.string())
    for kind in (pa.int64(), pa.float64()):
        try:
            return text.cast(kind)
        except pa.ArrowInvalid:
            continue
    return text
