import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import durations


@pytest.fixture(scope="module")
def made_once() -> int:
    return 1


def test_what_takes_long_by_the_record_is_slow(request: pytest.FixtureRequest, made_once: int) -> None:
    fixture = f"{request.node.nodeid.partition('::')[0]}::made_once (fixture)"
    for part, limit in ((request.node.nodeid, durations.SLOW), (fixture, durations.SLOW_FIXTURE)):
        assert durations.takes_long(request.node, {part: limit + 0.1})
        assert not durations.takes_long(request.node, {part: limit})


def test_the_longest_files_are_first_and_those_without_a_record_before_them() -> None:
    """One that was new, and last, took the last two minutes of `make slow` alone."""
    items: list[Any] = [
        SimpleNamespace(nodeid=f"{file}::{k}", get_closest_marker={"slow": which == "slow"}.get)
        for k in range(2)
        for file, which in (("a", "quick"), ("b", "quick"), ("b", "slow"), ("c", "slow"), ("d", "quick"))
    ]
    durations.sort_longest_first(items, {"a": {"quick": 1.0}, "b": {"quick": 2.0, "slow": 3.0}, "c": {"quick": 9.0}})
    assert [item.nodeid[0] for item in items] == ["c", "c", "d", "d", "b", "b", "b", "b", "a", "a"]


def test_essential_tests_say_what_they_alone_see(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        if marker := item.get_closest_marker("essential"):
            assert len(marker.args) == 1, item.nodeid


BUSY = """
import pytest
from tests.durations import cpu

def work(seconds):
    end = cpu() + seconds
    while cpu() < end:
        pass

@pytest.fixture(scope="module")
def shared():
    work(0.3)

@pytest.mark.slow
def test_first(shared):
    work(0.1)

def test_second(shared):
    pass
"""
RECORDS_BESIDE = """
from pathlib import Path
from tests import durations

durations.RECORD = Path(__file__).with_name("durations.json")
durations.RECORDED = 0.0
"""


@pytest.mark.slow
def test_the_record_tells_tests_fixtures_and_tiers_apart(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durations, "RECORD", pytester.path / "durations.json")
    monkeypatch.setenv("PYTHONPATH", str(Path(durations.__file__).parents[1]))
    pytester.makeconftest(RECORDS_BESIDE)
    pytester.makeini("[pytest]\nmarkers = slow")
    pytester.makepyfile(test_busy=BUSY)
    run = ("-p", "tests.durations", "--record-durations", "-p", "no:cacheprovider")
    assert pytester.runpytest_subprocess(*run).ret == 0
    found = durations.load()
    assert list(found["tests"]) == [
        "test_busy.py::shared (fixture)", "test_busy.py::test_first", "test_busy.py::test_second"
    ]  # fmt: skip
    assert found["tests"]["test_busy.py::test_first"] == pytest.approx(0.1, abs=0.1)
    assert found["files"]["test_busy.py"]["slow"] >= 0.4 > found["files"]["test_busy.py"]["quick"]
    assert pytester.runpytest_subprocess(*run, "-m", "not slow").ret == 0
    again = durations.load()
    assert again["tests"]["test_busy.py::test_first"] == found["tests"]["test_busy.py::test_first"]
    assert again["files"]["test_busy.py"]["quick"] >= 0.3
    assert again["files"]["test_busy.py"]["slow"] == found["files"]["test_busy.py"]["slow"]
    for chosen in (["-k", "second"], ["test_busy.py::test_second"]):
        refused = pytester.runpytest_subprocess(*run, *chosen)
        assert refused.ret == pytest.ExitCode.USAGE_ERROR
        refused.stderr.fnmatch_lines(["*give whole files or folders*"])
    assert durations.load() == again
    durations.RECORD.write_text(
        json.dumps({"files": {}, "tests": {"test_busy.py::test_second": durations.SLOW + 0.1}}), encoding="utf-8"
    )
    left = pytester.runpytest_subprocess(*run[:2], *run[3:], "-m", "not slow")
    left.assert_outcomes(deselected=2)
    pytester.makepyfile(test_busy="def test_only(): pass")
    assert pytester.runpytest_subprocess(*run).ret == 0
    assert list(durations.load()["tests"]) == ["test_busy.py::test_only"]
