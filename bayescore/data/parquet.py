"""Parquet files and folders of them, local or in object stores, read by row groups: never the whole table in memory.

A folder is read in the natural order of its paths (part-2 before part-10); files and folders whose names begin with
"_" or "." are skipped, as Spark, Arrow and Dask do. Names such as ``year=2020`` of folders are columns (Hive).
From a store a worker fetches whole row groups, in every pass, and the next one while it works on one:
it holds the decoded columns of two, 16 bytes a row and column. Workers far away need more threads than cores.

Where Parquet files are: local folders, and object stores by their address (``s3://``, ``gs://``, ``https://``, ...).

Arrow's file systems are used where they support the address, fsspec's elsewhere. Both take credentials, regions and
endpoints from the environment, or behind the address: ``s3://bucket/rows?region=eu-west-1``. What fails is tried
again, after a pause.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from glob import glob, has_magic
from itertools import chain
from os.path import exists  # of a name too long for a file, too
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from bayescore.compiled import available_cores
from bayescore.data.column_kinds import common_schema
from bayescore.data.columns import Columns, ColumnSource
from bayescore.data.factors import Selection
from bayescore.data.roles import Roles, resolve_columns
from bayescore.data.source import Division, WorkerPool, block_rows
from bayescore.data.survey import Survey
from bayescore.text import first_line
from bayescore.types import WeightedData
from bayescore.validation import DataError

T = TypeVar("T")


ATTEMPTS = 4  # of a request to an object store, on top of its client's attempts


PAUSE = 0.5  # seconds before the second attempt, doubled before each one after: 3.5 s in all


_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Listing:
    """Files to read, in order."""

    name: str
    paths: tuple[Any, ...]
    hive: dict[str, pa.Array] = field(default_factory=dict)  # columns with a value of each file
    store: Any = None  # None for local files


def is_address(data: Any) -> bool:
    """Whether `data` is an address such as ``s3://bucket/rows``."""
    return isinstance(data, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", data) is not None


def safe_address(address: str) -> str:
    """Return an address without the keys that may stand in it, and without what follows a question mark."""
    return without_keys(address.split("?")[0])


def without_keys(address: str) -> str:
    """Return an address without the keys that may stand before its host."""
    return re.sub(r"//[^/@]*@", "//", address)


def local_listing(path: Path) -> Listing:
    """Return a file, or the Parquet files of a folder in the natural order of their paths."""
    if not exists(path):
        hint = "; give an address as text, not as a Path" if re.match(r"[A-Za-z0-9+.-]{2,}:/", str(path)) else ""
        raise FileNotFoundError(f"data: no file or folder {str(path)!r}{hint}")
    if not path.is_dir():
        return Listing(str(path), (path,))
    inside = _ordered(file.relative_to(path) for file in path.rglob("*.parquet") if file.is_file())
    return Listing(str(path), tuple(path / file for file in inside), _hive_columns(inside, str(path)))


def remote_listing(address: str) -> Listing:
    """Return a file, or the files of a folder, of an object store, as `local_listing` does."""
    name = safe_address(address)
    store, base = retried(lambda: _located(address), name)
    if isinstance(store, pafs.LocalFileSystem):
        return local_listing(Path(base))
    return listing_of(store, base, name)


def listing_of(store: Any, base: str, name: str) -> Listing:
    """Return the file, or the files of the folder, at a path of a file system of Arrow."""
    info = retried(lambda: store.get_file_info(base), name)
    if info.type == pafs.FileType.NotFound:
        raise FileNotFoundError(f"data: no file or folder {name!r}")
    if info.type == pafs.FileType.File:
        return Listing(name, (base,), store=store)
    inside = retried(lambda: store.get_file_info(pafs.FileSelector(base, recursive=True)), name)
    top = PurePosixPath(base)
    files = _ordered(
        PurePosixPath(each.path).relative_to(top)
        for each in inside
        if each.type == pafs.FileType.File and each.path.endswith(".parquet")
    )
    return Listing(name, tuple(str(top / file) for file in files), _hive_columns(files, name), store)


def dataset_listing(data: Any) -> Listing | None:
    """Return the files of a dataset of whole Parquet files of the same columns; None for other datasets."""
    from pyarrow.dataset import FileSystemDataset, ParquetFileFormat, get_partition_keys

    if not isinstance(data, FileSystemDataset) or not isinstance(data.format, ParquetFileFormat):
        return None
    try:
        fragments = list(data.get_fragments())
    except ValueError:  # it is filtered, or its columns are made of others
        return None
    if not fragments:
        return None
    stored = fragments[0].physical_schema
    computed = [name for name in data.schema.names if name not in stored.names]
    schema = pa.schema([data.schema.field(name) for name in data.schema.names if name not in computed])
    whole = all(
        part.physical_schema.equals(stored) and part.num_row_groups == part.metadata.num_row_groups
        for part in fragments
    )
    if not whole or not stored.equals(schema):
        return None
    keys = [get_partition_keys(part.partition_expression) for part in fragments]
    hive = {name: pa.array([each.get(name) for each in keys], data.schema.field(name).type) for name in computed}
    local = isinstance(data.filesystem, pafs.LocalFileSystem)
    paths = tuple(Path(part.path) if local else part.path for part in fragments)
    return Listing("the dataset", paths, hive, None if local else data.filesystem)


def arrow_store(store: Any) -> Any:
    """Return a file system of Arrow or fsspec as one of Arrow."""
    return store if isinstance(store, pafs.FileSystem) else pafs.PyFileSystem(pafs.FSSpecHandler(store))


def _located(address: str) -> tuple[Any, str]:
    """Return the file system that an address names, and the path in it."""
    try:
        store, path = pafs.FileSystem.from_uri(address)
        return store, path
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem" not in str(error):
            raise DataError(f"data={safe_address(address)!r} is no address that can be read ({error})") from None
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]

        store, path = url_to_fs(address)
    except ImportError as error:
        raise ImportError(f"data={safe_address(address)!r} needs fsspec and what reads it there ({error})") from None
    except ValueError as error:
        raise DataError(f"data={safe_address(address)!r} is no address that can be read ({error})") from None
    return arrow_store(store), path


def retried(work: Callable[[], T], name: str) -> T:
    """Return the result of `work`, which asks an object store; a failure is tried again, `ATTEMPTS` times in all."""
    for attempt in range(ATTEMPTS):
        try:
            return work()
        except (DataError, ImportError, FileNotFoundError, PermissionError, pa.ArrowInvalid):
            raise
        except Exception as error:  # each file system of fsspec raises other errors
            if attempt == ATTEMPTS - 1:
                raise DataError(
                    f"{name!r} could not be read in {ATTEMPTS} attempts ({first_line(error)}); see that the store can "
                    "be reached, and try again"
                ) from None
            time.sleep(PAUSE * 2**attempt)
    raise AssertionError


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield items, none of them None, in order; a thread makes the next one while the caller uses one."""
    with ThreadPoolExecutor(1, "read") as reader:
        ahead = reader.submit(next, items, None)
        while (item := ahead.result()) is not None:
            ahead = reader.submit(next, items, None)
            yield item


def _ordered(files: Iterable[Any]) -> list[Any]:
    """Return relative paths but for hidden ones, in natural order: part-2 before part-10."""
    return sorted(
        (file for file in files if not any(part.startswith(("_", ".")) for part in file.parts)), key=_sort_key
    )


def _sort_key(path: PurePath) -> list[list[Any]]:
    """Return a key that sorts the numbers within names as numbers."""
    split = [re.split(r"(\d+)", part) for part in path.parts]
    return [[int(word) if i % 2 else word for i, word in enumerate(words)] for words in split]


def _hive_columns(files: list[Any], folder: str) -> dict[str, pa.Array]:
    """Return the columns that the names of folders between `folder` and its files give."""
    if not files:
        raise DataError(f"data: the folder {folder!r} holds no .parquet files")
    keys = [_hive_values(file) for file in files]
    for file, values in zip(files, keys, strict=True):
        if values.keys() != keys[0].keys():
            raise DataError(f"{str(file)!r} has other partition columns than {str(files[0])!r}; make them alike")
    return {name: _typed_values([values[name] for values in keys]) for name in keys[0]}


def _hive_values(path: PurePath) -> dict[str, str | None]:
    """Return the columns that the folders' names of a path give, as text."""
    pairs = [part.split("=", 1) for part in path.parts[:-1] if "=" in part]
    return {name: None if value == _NULL else unquote(value) for name, value in pairs}


def _typed_values(values: list[str | None]) -> pa.Array:
    """Return the values as whole numbers if they all are, else as numbers, else as text."""
    text = pa.array(values, pa.string())
    for kind in (pa.int64(), pa.float64()):
        try:
            return text.cast(kind)
        except pa.ArrowInvalid:
            continue
    return text


CORESET_KEY = b"bayescore"  # of the metadata of a coreset's Parquet file


LONGEST_TEXT = 2**31 - 1  # bytes of an entry of a footer: a coreset's shortfall has 8 D^2 / 2, Arrow's limit is 100 MB


_GROUPS_PER_PIECE = 4  # row groups of a store that one worker reads in a row at most, so that it can fetch ahead


_FOOTERS = 16  # footers that are read at a time


_BUFFER = 1 << 17  # bytes of a column of a local file to read at a time, what disks read ahead: 64 MB of 500 columns


@dataclass(frozen=True)
class File:
    """A Parquet file."""

    path: Any
    groups: tuple[int, ...]  # rows of each row group
    fixed: tuple[tuple[str, pa.Scalar], ...] = ()  # columns from the names of its folders
    store: Any = None


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
        ends = np.cumsum(self.file.groups[self.first : self.last])
        first, last = int(np.searchsorted(ends, low, "right")), int(np.searchsorted(ends, high, "left")) + 1
        at = int(ends[first - 1]) if first else 0
        text = [name for name, _ in self.columns.levels]
        groups = range(self.first + first, self.first + last)
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
    survey: Survey
    pool: WorkerPool | None = None

    def division(self, step: int) -> Division:
        """Return pieces of one row group each, or of several small ones in a row; of a store of a few."""
        pieces, start = [], 0
        workers = available_cores() if self.pool is None else self.pool.n_workers
        share = min(_GROUPS_PER_PIECE, sum(len(file.groups) for file in self.files) // workers)
        for file in self.files:
            first, run = 0, 1 if file.store is None else share
            while first < len(file.groups):
                last, n_rows = first + 1, file.groups[first]
                while last < len(file.groups) and (n_rows + file.groups[last] <= step or last - first < run):
                    n_rows += file.groups[last]
                    last += 1
                pieces.append(RowGroups(file, first, last, start, self.columns, step))
                first, start = last, start + n_rows
        return Division(pieces, self.pool)

    def blocks(self) -> Iterator[WeightedData]:
        """Return the rows in order; a thread reads one block ahead."""
        pieces = self.division(block_rows(len(self.columns.features))).pieces
        return read_ahead(chain.from_iterable(piece.read(0, piece.n_rows) for piece in pieces))


def path_source(data: str | Path, roles: Roles, selection: Selection | None = None) -> ParquetSource:
    """Return the Parquet file or folder at a path or address as a source; labels and weights are columns of it."""
    if reads_like_formula(str(data)):
        raise DataError(
            f"data={str(data)!r} reads like a formula; give the rows as data and their labels as y or label"
        )
    roles.check_named("the path of a Parquet file")
    if is_address(data):
        return parquet_source(remote_listing(str(data)), roles, selection)
    paths = named_files(data)
    if len(paths) > 1:
        return files_source(paths, roles, selection)
    return parquet_source(local_listing(paths[0]), roles, selection)


def reads_like_formula(text: str) -> bool:
    """Whether text with a tilde is a formula: no address, and neither ~/rows nor a file that exists."""
    home = re.match(r"~[\w.-]*[/\\]", text)
    return "~" in text and home is None and not is_address(text) and not exists(text)


def named_files(location: str | Path) -> list[Path]:
    """Return a path, ~ expanded, or the files that a pattern such as ``rows/*.parquet`` names, in natural order."""
    try:
        path = Path(location).expanduser()
    except RuntimeError:  # no such user
        path = Path(location)
    if exists(path) or not has_magic(str(path)):
        return [path]
    paths = sorted(map(Path, glob(str(path), recursive=True)), key=_sort_key)
    if not paths:
        raise FileNotFoundError(f"data: no file is named as {str(path)!r}")
    return paths


def check_once(paths: Sequence[Any]) -> None:
    """Raise if a file is named twice."""
    if twice := [path for k, path in enumerate(paths) if path in paths[:k]]:
        raise DataError(
            f"{str(twice[0])!r} stands twice in the list of files, whose rows would count twice; name it once"
        )


def is_files(data: Any) -> bool:
    """Whether `data` is a list of paths."""
    if not (isinstance(data, list | tuple) and data and all(isinstance(one, str | Path) for one in data)):
        return False
    ends = (".parquet", ".pq")
    return all(isinstance(one, Path) or is_address(one) or Path(one).suffix in ends or has_magic(one) for one in data)


def files_source(data: Sequence[str | Path], roles: Roles, selection: Selection | None = None) -> ParquetSource:
    """Return Parquet files, in the order given, as a source."""
    roles.check_named("a list of Parquet files")
    return parquet_source(files_listing(data), roles, selection)


def files_listing(data: Sequence[str | Path]) -> Listing:
    """Return the files of paths, patterns, folders and addresses, in the order given."""
    listings = []
    for location in data:
        if is_address(location):
            listings.append(remote_listing(str(location)))
        else:
            listings += map(local_listing, named_files(location))
    first = listings[0]
    for other in listings[1:]:
        if other.store is not first.store or other.hive.keys() != first.hive.keys():
            raise DataError(
                f"{other.name!r} lies elsewhere than {first.name!r}, or has other partitions; give one folder"
            )
    values = {name: [v for listing in listings for v in listing.hive[name].to_pylist()] for name in first.hive}
    hive = {name: _typed_values([None if v is None else str(v) for v in each]) for name, each in values.items()}
    paths = tuple(path for listing in listings for path in listing.paths)
    check_once(paths)
    name = first.name if len(listings) == 1 else f"{first.name} and {len(listings) - 1} more"
    return Listing(name, paths, hive, first.store)


def parquet_source(
    listing: Listing,
    roles: Roles,
    selection: Selection | None = None,
    *,
    only: list[str] | None = None,
    pool: WorkerPool | None = None,
) -> ParquetSource:
    """Return files as a source; reads the footers and the columns of labels, weights, groups and new text.

    `only` are the columns to read, all by default; `pool` reads the rows, threads of this process by default.
    """
    groups, schema, hive = footers(listing)
    if CORESET_KEY in (schema.metadata or {}) and roles.weights is None:
        raise DataError(
            f"{listing.name!r} is a coreset; read it with read_coreset, or name its weights: weights='weight'"
        )
    columns = resolve_columns(roles, schema, selection, only=only)
    wanted = [name for name in hive if name in columns.names]
    files = tuple(
        File(file, rows, tuple((name, hive[name][i]) for name in wanted), listing.store)
        for i, (file, rows) in enumerate(zip(listing.paths, groups, strict=True))
    )
    wanted, text = columns.survey_columns, columns.text
    parts = (batch for file in files for batch in batches(file, wanted, 1 << 20, threads=True, text=text))
    survey = columns.merged(map(columns.survey, parts))
    return ParquetSource(files, columns.with_survey(survey, roles.positive), survey, pool)


def footers(listing: Listing) -> tuple[list[tuple[int, ...]], pa.Schema, dict[str, pa.Array]]:
    """Return the rows of files' row groups, the columns of all, and those that the names of folders give."""
    with ThreadPoolExecutor(_FOOTERS, "footers") as threads:
        read = list(threads.map(partial(_footer, listing.store), listing.paths))
    groups, schema = [rows for _, rows in read], common_schema([one for one, _ in read], listing.paths)
    if not any(map(sum, groups)):
        raise DataError(f"{listing.name!r} holds no rows")
    hive = {name: values for name, values in listing.hive.items() if name not in schema.names}
    for name, values in hive.items():
        schema = schema.append(pa.field(name, values.type))
    return groups, schema, hive


def _footer(store: Any, path: Any) -> tuple[pa.Schema, tuple[int, ...]]:
    """Return the columns of a file, and the rows of its row groups."""

    def read() -> tuple[pa.Schema, tuple[int, ...]]:
        with parquet_file(path, "is not a readable Parquet file", store=store) as parquet:
            return parquet.schema_arrow, _rows_of(parquet)

    return read() if store is None else retried(read, str(path))


@contextmanager
def parquet_file(path: Any, problem: str, text: Sequence[str] = (), *, store: Any = None) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; a failure inside is a `DataError` of that file, but for errors of a store."""
    # else Arrow holds whole row groups of a local file, which writers make as large as they like
    how: dict[str, Any] = {"pre_buffer": False, "buffer_size": _BUFFER} if store is None else {}
    how |= {"filesystem": store, "thrift_string_size_limit": LONGEST_TEXT}
    try:
        with pq.ParquetFile(path, read_dictionary=list(text) or None, **how) as parquet:
            yield parquet
    except (pa.ArrowInvalid, OSError) as error:
        if store is not None and not isinstance(error, pa.ArrowInvalid):
            raise
        raise DataError(f"{str(path)!r} {problem} ({first_line(error)}); write it again") from None


def _rows_of(parquet: pq.ParquetFile) -> tuple[int, ...]:
    """Return the number of rows of each row group."""
    return tuple(parquet.metadata.row_group(i).num_rows for i in range(parquet.num_row_groups))


def _check_unchanged(parquet: pq.ParquetFile, file: File, names: list[str]) -> None:
    """Raise if a file is no longer the one whose footer was read first."""
    rows = _rows_of(parquet)
    if absent := [name for name in names if name not in parquet.schema_arrow.names]:
        what = f"lacks the column {absent[0]!r}"
    elif rows != file.groups:
        what = f"has other rows: {sum(rows):,}, and {sum(file.groups):,} before"
    else:
        return
    raise DataError(
        f"{str(file.path)!r} has changed since it was read first, and {what}: begin again, with files that stay"
    )


def batches(
    file: File,
    columns: list[str],
    n_rows: int,
    groups: range | None = None,
    *,
    threads: bool = False,
    text: Sequence[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most `n_rows` rows of some columns of a file; text has dictionaries."""
    fixed = [(name, value) for name, value in file.fixed if name in columns]
    stored = [name for name in columns if name not in dict(fixed)]
    which = range(len(file.groups)) if groups is None else groups
    opened = partial(parquet_file, file.path, "is damaged", [name for name in text if name in stored], store=file.store)

    def local() -> Iterator[pa.RecordBatch]:
        with opened() as parquet:
            _check_unchanged(parquet, file, stored)
            yield from parquet.iter_batches(n_rows, list(which), stored, use_threads=threads)

    def fetched(group: int) -> pa.Table:
        with opened() as parquet:
            _check_unchanged(parquet, file, stored)
            return parquet.read_row_group(group, stored, use_threads=False)

    tables = (retried(partial(fetched, group), str(file.path)) for group in which)
    remote = (batch for table in read_ahead(tables) for batch in table.to_batches(n_rows))
    for batch in local() if file.store is None else remote:
        for name, value in fixed:
            batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
        yield batch
