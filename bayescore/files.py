"""Files are written under a temporary name, and get their own once they are complete.

Checkpoints: a JSON header and plain arrays in one npz file, read without pickle.

The file is written under another name and renamed when complete. It carries a hash of its contents.
"""

import errno
import glob
import hashlib
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from bayescore.validation import DataError


def check_path(path: object, name: str = "path") -> Path:
    """Return `path` if it names a file."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} is a {type(path).__name__}; give the name of a file")
    return Path(path)


def check_output_path(path: str | Path, name: str = "path") -> Path:
    """Return `path` if a file can be written there."""
    if str(path) == "-":
        raise ValueError(
            f"{name}='-' is no file name: nothing is written to standard output; name a file ('./-' if so)"
        )
    target = check_path(path, name)
    if target.is_dir():
        raise IsADirectoryError(f"{name}={str(target)!r} is a folder; give the name of a file")
    if target.exists() and not target.is_file():  # a device or a pipe, which a file would replace
        raise FileExistsError(f"{name}={str(target)!r} is no regular file; give the name of a new file")
    check_writable(target, name)
    return target


def check_writable(target: Path, name: str) -> None:
    """Raise unless something can be written into the folder in which `target` is to stand."""
    folder = target.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{name}={str(target)!r}: the folder {str(folder)!r} does not exist; create it")
    try:
        probe = folder / f".{target.name}.probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or error
        raise PermissionError(f"{name}={str(target)!r} cannot be written: {reason}; choose another folder") from None


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; the file written there replaces `path` once it is complete.

    What processes that were killed left of theirs is removed.
    """
    target = check_output_path(path)
    host = platform.node()
    partial = target.with_name(f".{target.name}.{host}.{os.getpid()}.part")
    for other in target.parent.glob(f".{glob.escape(f'{target.name}.{host}')}.*.part"):
        if not is_alive(other.suffixes[-2][1:]):
            other.unlink(missing_ok=True)
    try:
        yield partial
        with partial.open("r+b") as written:  # on the disk before it gets its name, or a power cut leaves it empty
            os.fsync(written.fileno())
        os.replace(partial, target)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise no_space(error, path, "path") from error
    finally:
        partial.unlink(missing_ok=True)


def no_space(error: OSError, path: str | Path, name: str) -> OSError:
    """Return the error of a disk that is full."""
    said = f"{name}={str(path)!r} is not written: no space is left on its disk; free some, or name another folder"
    return OSError(error.errno, said)


def is_alive(pid: str) -> bool:
    """Whether a process of this number runs here; True where that cannot be told."""
    if os.name != "posix" or not pid.isdecimal():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


_FORMAT = 1


_HEADER = "header"


# what NumPy raises of other files, and of archives that are not whole
_DAMAGED = (BadZipFile, ValueError, LookupError, TypeError, AttributeError, OSError, EOFError, RuntimeError)


Arrays = dict[str, NDArray[Any]]


def digest(header: dict[str, Any], arrays: Arrays) -> str:
    """Return the SHA-256 of a header and arrays: their names, types, shapes, and bytes in little-endian order."""
    sha = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        sha.update(f"{name} {array.dtype.kind}{array.dtype.itemsize} {array.shape}".encode())
        sha.update(array.astype(array.dtype.newbyteorder("<"), copy=False).data)
    return sha.hexdigest()


def write_checkpoint(path: str | Path, kind: str, header: dict[str, Any], arrays: Arrays) -> None:
    """Write a checkpoint of an object of class `kind`; if that fails, an earlier file of that name stays."""
    whole = {"kind": kind, "format": _FORMAT, **header}
    text = json.dumps({**whole, "sha256": digest(whole, arrays)})
    with whole_file(path) as partial, partial.open("wb") as file:
        np.savez(file, **{_HEADER: np.frombuffer(text.encode(), dtype=np.uint8)}, **arrays)  # type: ignore[arg-type]


class UnpacksError(DataError):
    """A file says that it holds far more than its size."""


_SPARE_BYTES = 1 << 20


def check_packed(size: int, path: Path, times: float) -> None:
    """Raise if a file unpacks to more than so many times its size, as none of bayescore does: it is not read."""
    packed = path.stat().st_size
    if size > times * packed + _SPARE_BYTES:
        raise UnpacksError(
            f"{str(path)!r} would unpack from {packed:,} bytes to {size:,}, as no file of bayescore does: it is "
            "damaged, or was changed; use an earlier one, or begin anew"
        )


def read_checkpoint(path: str | Path, kind: str) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays; raise `DataError` for a file that is damaged, of another kind or of another format."""
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"path={str(source)!r}: no such file")
    try:
        # opened here, for NumPy leaves the file open where it is no archive
        with source.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            check_packed(sum(member.file_size for member in archive.zip.infolist()), source, 1.0)
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop(_HEADER).tobytes())
        stored_kind, version, stated = header["kind"], header["format"], header.pop("sha256")
    except UnpacksError:
        raise
    except (*_DAMAGED, MemoryError):
        raise DataError(
            f"{str(source)!r} is damaged, or no checkpoint of bayescore: use an earlier one, or begin anew"
        ) from None
    if stored_kind != kind:
        raise DataError(
            f"{str(source)!r} is a checkpoint of {stored_kind}, not of {kind}; load it with {stored_kind}.load"
        )
    if version != _FORMAT:
        raise DataError(f"{str(source)!r} has checkpoint format {version}; this version reads {_FORMAT}")
    if stated != digest(header, arrays):
        raise DataError(f"{str(source)!r} is damaged, its hash does not fit: use an earlier checkpoint, or begin anew")
    return header, arrays
