"""Checkpoints: what was written is read back; damaged, cut and foreign files are refused; nothing partial is left."""

import zipfile

import numpy as np
import pytest

from bayescore import files as checkpoint
from bayescore.files import read_checkpoint, write_checkpoint
from bayescore.validation import DataError

HEADER = {"names": ["a", "b"], "weight": 3 << 1126, "third": 1 / 3, "none": None}
ARRAYS = {
    "x": np.arange(6.0).reshape(2, 3),
    "y": np.array([1, -1], dtype=np.int8),
    "none": np.empty((0, 3)),
    "text": np.array("12"),
}


@pytest.fixture
def path(tmp_path):
    write_checkpoint(tmp_path / "stream.ckpt", "Kind", HEADER, ARRAYS)
    return tmp_path / "stream.ckpt"


def test_round_trip(path):
    header, arrays = read_checkpoint(path, "Kind")
    assert {name: header[name] for name in HEADER} == HEADER
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array, strict=True)
    assert [file.name for file in path.parent.iterdir()] == ["stream.ckpt"]


def test_every_damaged_byte_and_every_cut_is_noticed(path):
    whole = path.read_bytes()
    unharmed = 0
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            header, arrays = read_checkpoint(path, "Kind")
        except DataError:
            continue
        unharmed += 1  # dates and attributes of the archive's entries mean nothing
        assert {name: header[name] for name in HEADER} == HEADER
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(arrays[name], array)
    assert unharmed < 0.2 * len(whole)
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        with pytest.raises(DataError, match=r"stream.ckpt' is damaged"):
            read_checkpoint(path, "Kind")


def test_foreign_files(path, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_checkpoint(tmp_path / "nowhere", "Kind")
    with pytest.raises(DataError, match=r"is a checkpoint of Kind, not of Other; load it with Kind.load"):
        read_checkpoint(path, "Other")
    np.savez(tmp_path / "other.npz", x=np.arange(3))
    np.savez(tmp_path / "pickled.npz", header=np.array([{}], dtype=object))
    np.save(tmp_path / "single.npy", np.arange(3))
    (tmp_path / "text").write_text("a,b\n1,2\n")
    for name in ("other.npz", "pickled.npz", "single.npy", "text"):
        with pytest.raises(DataError, match="damaged, or no checkpoint of bayescore"):
            read_checkpoint(tmp_path / name, "Kind")
    monkeypatch.setattr(checkpoint, "_FORMAT", 2)
    with pytest.raises(DataError, match="has checkpoint format 1; this version reads 2"):
        read_checkpoint(path, "Kind")


def test_an_earlier_file_survives_a_failure(path, monkeypatch):
    whole = path.read_bytes()

    def full_disk(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full_disk)
    with pytest.raises(OSError, match="no space is left on its disk"):
        write_checkpoint(path, "Kind", HEADER, ARRAYS)
    assert path.read_bytes() == whole
    assert [file.name for file in path.parent.iterdir()] == ["stream.ckpt"]


@pytest.mark.parametrize("claim", ["zeros", "a shape"])
def test_a_file_that_unpacks_to_far_more_than_its_size_is_not_read(path, claim, monkeypatch):
    """Of a member that is packed, and of one whose header claims more numbers than it has."""
    if claim == "zeros":
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("more.npy", "w") as member:
            np.lib.format.write_array(member, np.zeros(2_000_000))
    else:
        with zipfile.ZipFile(path, "a") as archive, archive.open("more.npy", "w") as member:
            about = {"descr": "<f8", "fortran_order": False, "shape": (1 << 50,)}
            np.lib.format.write_array_header_1_0(member, about)
    monkeypatch.setattr(checkpoint, "digest", lambda *_: pytest.fail("all of it was read"))
    with pytest.raises(DataError, match=r"would unpack from .* bytes to 16,|is damaged"):
        read_checkpoint(path, "Kind")
