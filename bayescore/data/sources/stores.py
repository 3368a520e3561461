"""Where Parquet files are: local folders, and object stores by their address (``s3://``, ``gs://``, ``https://``, ...).

Arrow's own file systems are used where they know the address, fsspec's elsewhere. Both take credentials, regions and
endpoints from the environment, or behind the address: ``s3://bucket/rows?region=eu-west-1``. What fails is tried
again, after a pause.
"""

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from bayescore.validation import DataError

T = TypeVar("T")

ATTEMPTS = 4  # of a request to an object store, beside the attempts of its own client
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


def shown(address: str) -> str:
    """Return an address without the keys that may stand in it, and without what follows a question mark."""
    return without_keys(address.split("?")[0])


def without_keys(address: str) -> str:
    """Return an address without the keys that may stand before its host."""
    return re.sub(r"//[^/@]*@", "//", address)


def local_listing(path: Path) -> Listing:
    """Return a file, or the Parquet files of a folder in the natural order of their paths."""
    if not path.exists():
        hint = "; give an address as text, not as a Path" if re.match(r"[A-Za-z0-9+.-]{2,}:/", str(path)) else ""
        raise FileNotFoundError(f"data: no file or folder {str(path)!r}{hint}")
    if not path.is_dir():
        return Listing(str(path), (path,))
    inside = _ordered(file.relative_to(path) for file in path.rglob("*.parquet") if file.is_file())
    return Listing(str(path), tuple(path / file for file in inside), _hive_columns(inside, str(path)))


def remote_listing(address: str) -> Listing:
    """Return a file of an object store, or those of a folder, as `local_listing` does."""
    name = shown(address)
    store, base = retried(lambda: _located(address), name)
    if isinstance(store, pafs.LocalFileSystem):
        return local_listing(Path(base))
    return listing_of(store, base, name)


def listing_of(store: Any, base: str, name: str) -> Listing:
    """Return the file, or the files of the folder, at a path of a file system of Arrow."""
    found = retried(lambda: store.get_file_info(base), name)
    if found.type == pafs.FileType.NotFound:
        raise FileNotFoundError(f"data: no file or folder {name!r}")
    if found.type == pafs.FileType.File:
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
    beside = [name for name in data.schema.names if name not in stored.names]
    own = pa.schema([data.schema.field(name) for name in data.schema.names if name not in beside])
    whole = all(
        part.physical_schema.equals(stored) and part.num_row_groups == part.metadata.num_row_groups
        for part in fragments
    )
    if not whole or not stored.equals(own):
        return None
    keys = [get_partition_keys(part.partition_expression) for part in fragments]
    hive = {name: pa.array([each.get(name) for each in keys], data.schema.field(name).type) for name in beside}
    local = isinstance(data.filesystem, pafs.LocalFileSystem)
    paths = tuple(Path(part.path) if local else part.path for part in fragments)
    return Listing("the dataset", paths, hive, None if local else data.filesystem)


def arrow_store(store: Any) -> Any:
    """Return a file system of Arrow or fsspec as one of Arrow."""
    return store if isinstance(store, pafs.FileSystem) else pafs.PyFileSystem(pafs.FSSpecHandler(store))


def _located(address: str) -> tuple[Any, str]:
    """Return the file system that an address names, and the path there."""
    try:
        store, path = pafs.FileSystem.from_uri(address)
        return store, path
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem" not in str(error):
            raise DataError(f"data={shown(address)!r} is no address that can be read ({error})") from None
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]

        store, path = url_to_fs(address)
    except ImportError as error:
        raise ImportError(f"data={shown(address)!r} needs fsspec and what reads it there ({error})") from None
    except ValueError as error:
        raise DataError(f"data={shown(address)!r} is no address that can be read ({error})") from None
    return arrow_store(store), path


def retried(work: Callable[[], T], name: str) -> T:
    """Return the result of `work`, which asks an object store; a failure is tried again, `ATTEMPTS` times in all."""
    for attempt in range(ATTEMPTS):
        try:
            return work()
        except (DataError, ImportError, FileNotFoundError, PermissionError, pa.ArrowInvalid):
            raise
        except Exception as error:  # each file system of fsspec has errors of its own
            if attempt == ATTEMPTS - 1:
                reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
                raise DataError(
                    f"{name!r} could not be read in {ATTEMPTS} attempts ({reason}); see that the store can be reached, "
                    "and try again"
                ) from None
            time.sleep(PAUSE * 2**attempt)
    raise AssertionError


def in_advance(work: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Yield the results of functions in order; a thread runs the next one while the caller uses one."""
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(1, "fetch") as thread:
        for each in work:
            waiting.append(thread.submit(each))
            if len(waiting) > 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _ordered(files: Iterable[Any]) -> list[Any]:
    """Return relative paths but for hidden ones, in natural order: part-2 before part-10."""
    return sorted((file for file in files if not any(part.startswith(("_", ".")) for part in file.parts)), key=_natural)


def _natural(path: PurePath) -> list[list[Any]]:
    """Return a key that sorts the numbers within names as numbers."""
    split = [re.split(r"(\d+)", part) for part in path.parts]
    return [[int(word) if i % 2 else word for i, word in enumerate(words)] for words in split]


def _hive_columns(files: list[Any], folder: str) -> dict[str, pa.Array]:
    """Return the columns that the names of folders between `folder` and its files give."""
    if not files:
        raise DataError(f"data: the folder {folder!r} holds no .parquet files")
    keys = [_hive(file) for file in files]
    for file, own in zip(files, keys, strict=True):
        if own.keys() != keys[0].keys():
            raise DataError(f"{str(file)!r} has other partition columns than {str(files[0])!r}; make them alike")
    return {name: _typed([own[name] for own in keys]) for name in keys[0]}


def _hive(path: PurePath) -> dict[str, str | None]:
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
