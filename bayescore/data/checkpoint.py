"""Checkpoints: a JSON header and plain arrays in one npz file, read without pickle.

The file is written under another name and renamed when complete. It carries a hash of its contents.
"""

import hashlib
import json
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from bayescore.files import whole_file
from bayescore.validation import DataError

_FORMAT = 1
_HEADER = "header"

Arrays = dict[str, NDArray[Any]]


def digest(header: dict[str, Any], arrays: Arrays) -> str:
    """Return the SHA-256 of a header and arrays: their names, types, shapes, and bytes in little-endian order."""
    found = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype.kind}{array.dtype.itemsize} {array.shape}".encode())
        found.update(array.astype(array.dtype.newbyteorder("<"), copy=False).data)
    return found.hexdigest()


def write_checkpoint(path: str | Path, kind: str, header: dict[str, Any], arrays: Arrays) -> None:
    """Write a checkpoint of an object of class `kind`; if that fails, an earlier file of that name stays."""
    whole = {"kind": kind, "format": _FORMAT, **header}
    text = json.dumps({**whole, "sha256": digest(whole, arrays)})
    with whole_file(path) as partial, partial.open("wb") as file:
        np.savez(file, **{_HEADER: np.frombuffer(text.encode(), dtype=np.uint8)}, **arrays)  # type: ignore[arg-type]


def read_checkpoint(path: str | Path, kind: str) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays; raise `DataError` for a file that is damaged, of another kind or of another format."""
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"path={str(source)!r}: no such file")
    try:
        # opened here, for NumPy leaves the file open where it is no archive
        with source.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop(_HEADER).tobytes())
        found, version, stated = header["kind"], header["format"], header.pop("sha256")
    except (BadZipFile, ValueError, KeyError, TypeError, AttributeError, EOFError, OSError, RuntimeError):
        raise DataError(
            f"{str(source)!r} is damaged, or no checkpoint of bayescore: use an earlier one, or begin anew"
        ) from None
    if found != kind:
        raise DataError(f"{str(source)!r} is a checkpoint of {found}, not of {kind}; load it with {found}.load")
    if version != _FORMAT:
        raise DataError(f"{str(source)!r} has checkpoint format {version}; this version reads {_FORMAT}")
    if stated != digest(header, arrays):
        raise DataError(f"{str(source)!r} is damaged, its hash does not fit: use an earlier checkpoint, or begin anew")
    return header, arrays
