"""Files are written under a temporary name, and get their own once they are complete."""

import errno
import glob
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
    return target


@contextmanager
def whole_file(path: str | Path, name: str = "path") -> Iterator[Path]:
    """Yield a temporary name beside `path`; the file written there replaces `path` once it is complete.

    What processes that were killed left of theirs is removed.
    """
    target = check_output_path(path, name)
    host = platform.node()
    partial = target.with_name(f".{target.name}.{host}.{os.getpid()}.part")
    for other in target.parent.glob(f".{glob.escape(f'{target.name}.{host}')}.*.part"):
        if not _is_alive(other.suffixes[-2][1:]):
            other.unlink(missing_ok=True)
    try:
        yield partial
        with partial.open("r+b") as written:  # on the disk before it gets its name, or a power cut leaves it empty
            os.fsync(written.fileno())
        os.replace(partial, target)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        told = f"{name}={str(path)!r} is not written: no space is left on its disk; free some, or name another folder"
        raise OSError(error.errno, told) from error
    finally:
        partial.unlink(missing_ok=True)


def _is_alive(pid: str) -> bool:
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
