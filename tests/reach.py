"""Which functions of the package each test file enters, as a plugin of pytest for `tests.mutants`.

It does nothing unless a variable of the environment below is set.
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from functools import _lru_cache_wrapper
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORDS = "MUTANTS_RECORDS"  # the folder in which each process of pytest leaves its record
TREE = "MUTANTS_TREE"  # the only tree from which the package may be imported


class Recorder:
    """Notes which functions of the package are entered, by test file, by wider fixture and by import."""

    def __init__(self) -> None:
        self.package = str(ROOT / "bayescore") + os.sep
        self.entered: dict[str, set[str]] = defaultdict(set)
        self.needs: dict[str, set[str]] = defaultdict(set)
        self.codes: dict[int, Any] = {}
        self.key = "import"
        if sys.version_info >= (3, 12):
            sys.monitoring.use_tool_id(sys.monitoring.PROFILER_ID, "mutants")
            sys.monitoring.register_callback(
                sys.monitoring.PROFILER_ID, sys.monitoring.events.PY_START, lambda code, _: self.enter(code)
            )
            sys.monitoring.set_events(sys.monitoring.PROFILER_ID, sys.monitoring.events.PY_START)
        else:
            threading.setprofile(self.profile)
            sys.setprofile(self.profile)

    def profile(self, frame: Any, event: str, _: Any) -> None:
        if event == "call":
            self.enter(frame.f_code)

    def enter(self, code: Any) -> Any:
        """Note a function, once until the next `turn`; what a module does when it is imported serves all files."""
        if id(code) not in self.codes:
            self.codes[id(code)] = code
            if code.co_filename.startswith(self.package) and code.co_name != "<module>":
                frame, key = sys._getframe(1), self.key
                while frame is not None and key != "import":
                    if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(self.package):
                        key = "import"
                    frame = frame.f_back
                path = Path(code.co_filename).relative_to(ROOT).as_posix()
                self.entered[key].add(f"{path}::{code.co_qualname}")
        return getattr(getattr(sys, "monitoring", None), "DISABLE", None)

    def turn(self, key: str) -> str:
        """Begin to note for another file or fixture, with the package's caches empty; return the one before."""
        before, self.key = self.key, key
        if key != before:
            self.codes.clear()
            for each in gc.get_objects():
                if type(each) is _lru_cache_wrapper and str(getattr(each, "__module__", "")).startswith("bayescore"):
                    each.cache_clear()
            if sys.version_info >= (3, 12):
                sys.monitoring.restart_events()
        return before

    def pytest_collectstart(self, collector: Any) -> None:
        if isinstance(collector, pytest.Module):
            self.turn(collector.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: Any) -> None:
        self.turn(item.nodeid.partition("::")[0])
        self.needs[self.key].update(item.fixturenames)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Any:
        wide = fixturedef.scope in ("session", "package")
        before = self.turn(f"fixture {fixturedef.argname}") if wide else ""
        try:
            return (yield)
        finally:
            if wide:
                self.turn(before)

    def pytest_sessionfinish(self) -> None:
        if self.needs:
            record = {key: sorted(names) for key, names in self.entered.items()}
            needs = {key: sorted(names) for key, names in self.needs.items()}
            target = Path(os.environ[RECORDS]) / f"{os.getpid()}.json"
            target.write_text(json.dumps({"entered": record, "needs": needs}), encoding="utf-8")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> None:
    """Begin to record before anything of the package is imported."""
    if RECORDS in os.environ:
        early_config.pluginmanager.register(Recorder(), "recorder")


def pytest_sessionstart() -> None:
    """Refuse to try a mutant on another copy of the package."""
    if TREE in os.environ:
        import bayescore

        if not Path(bayescore.__file__).is_relative_to(os.environ[TREE]):
            raise pytest.UsageError(f"imported {bayescore.__file__}, which is not in {os.environ[TREE]}")


def merged(records: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the functions that each test file enters, from what the processes wrote; "import" has those of imports."""
    entered: dict[str, set[str]] = defaultdict(set)
    for record in records:
        for key, names in record["entered"].items():
            entered[key].update(names)
    for record in records:
        for file, fixtures in record["needs"].items():
            entered[file].update(*(entered.get(f"fixture {name}", ()) for name in fixtures))
    return {key: sorted(names) for key, names in sorted(entered.items()) if not key.startswith("fixture ")}


def reach(output: Path, arguments: list[str]) -> int:
    """Run the quick tests, and write which functions each file enters; return pytest's exit status."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"OMP_NUM_THREADS": "1", **os.environ, RECORDS: folder, "PYTHONPATH": str(ROOT)}
        options = ["-p", "tests.reach", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-m", "not slow"]
        command = [sys.executable, "-m", "pytest", *options, *arguments]
        status = subprocess.run(command, cwd=ROOT, env=environment).returncode
        files = merged([json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(folder).glob("*.json"))])
    output.write_text(json.dumps(files, indent=1) + "\n", encoding="utf-8")
    print(f"{len(files.keys() - {'import'})} test files in {output}")
    return status
