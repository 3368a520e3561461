"""Files are whole or not there, and where they cannot be written is said before work starts."""

import errno
import os
import re
import subprocess
import sys

import pytest

from bayescore import files


def test_output_paths(tmp_path):
    assert files.check_output_path(str(tmp_path / "new.parquet")) == tmp_path / "new.parquet"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
        files.check_output_path(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"output='.*missing.*does not exist; create it"):
        files.check_output_path(tmp_path / "missing" / "x.parquet", "output")


def test_only_regular_files_are_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "family").symlink_to("/dev/full")
    for name in ("pipe", "family"):
        with pytest.raises(OSError, match=f"output='.*{name}' is no regular file; give the name of a new file"):
            files.check_output_path(tmp_path / name, "output")
    for name in ("/dev/null", "/dev/full"):
        with pytest.raises(OSError, match="is no regular file"), files.whole_file(name):
            pytest.fail("a device must not be written to")
    with pytest.raises(
        ValueError, match=r"output='-' is no file name: nothing is written to standard output; .*'\./-'"
    ):
        files.check_output_path("-", "output")
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "family"}


def test_left_overs_of_processes_that_are_gone_are_removed_at_the_next_write(tmp_path):
    target = tmp_path / "core.parquet"
    write = "import os, sys, bayescore.files as v\nwith v.whole_file(sys.argv[1]) as p:\n p.write_text('half')\n {}"
    killed = subprocess.run([sys.executable, "-c", write.format("os.kill(os.getpid(), 9)"), target], check=False)
    assert killed.returncode == -9
    assert len(list(tmp_path.iterdir())) == 1
    alive = subprocess.Popen(
        [sys.executable, "-c", write.format("print(flush=True); input()"), target],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert alive.stdout.readline()
    other = tmp_path / ".other.parquet.host.1.part"
    other.touch()
    with files.whole_file(target) as partial:
        partial.write_text("whole")
    left = {path.name for path in tmp_path.iterdir()}
    assert {other.name, "core.parquet"} < left
    assert len(left) == 3  # the one that a live process writes
    alive.communicate("\n")
    assert {path.name for path in tmp_path.iterdir()} == {other.name, "core.parquet"}
    assert target.read_text() == "half"


def test_an_unwritable_folder_is_found_out_before_work(tmp_path, monkeypatch):
    def refuse(self):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(files.Path, "touch", refuse)
    with pytest.raises(PermissionError, match=r"x\.parquet' cannot be written: Read-only file system"):
        files.check_output_path(tmp_path / "x.parquet")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_folders_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError, match="cannot be written"):
            files.check_output_path(tmp_path / "x.parquet")
    finally:
        tmp_path.chmod(0o700)


def test_files_are_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "x.txt"
    with files.whole_file(target) as partial:
        partial.write_text("one")
        assert not target.exists()
        assert partial.parent == tmp_path
    assert target.read_text() == "one"

    def fail(error):
        with files.whole_file(target) as partial:
            partial.write_text("half")
            raise error

    full = re.escape(f"path={str(target)!r} is not written: no space is left on its disk; free some")
    for error, message in (
        (OSError("gone"), "gone"),
        (OSError(errno.ENOSPC, "No space left on device"), full),
        (KeyboardInterrupt("stopped"), "stopped"),
    ):
        with pytest.raises(type(error), match=message):
            fail(error)
        assert target.read_text() == "one"
        assert list(tmp_path.iterdir()) == [target]
    with files.whole_file(target) as partial:
        partial.write_text("two")
    assert target.read_text() == "two"
    assert list(tmp_path.iterdir()) == [target]
