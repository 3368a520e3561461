"""The record of how long tests take, `tests/durations.json`: which files start first, and which tests are slow.

Times are CPU time of the process and its finished children, in seconds, so that a busy machine changes them little.
A fixture that tests share has an entry of its own and counts towards none of them.
"""

import json
import math
import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

RECORD = Path(__file__).with_name("durations.json")
SLOW = 0.5  # s: a test that takes longer belongs to `make check`, unless it is essential
SLOW_FIXTURE = 5.0  # s: so do those that need a fixture that takes longer; quick tests share the others
RECORDED = 0.5  # s: what takes less is only part of its file's sum
SHOWN = 10


def cpu() -> float:
    """Return the CPU time of this process and its finished children in seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def load() -> dict[str, Any]:
    """Return the record: seconds of each file's quick and slow tests, and of what takes long by itself."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {"files": {}, "tests": {}}


def tier(item: pytest.Item) -> str:
    """Return the tier of a test: its column in the record."""
    return "slow" if item.get_closest_marker("slow") else "quick"


def fixture_id(definition: Any, index: int | None) -> str:
    """Return the name of a shared fixture in the record."""
    return f"{definition.baseid}::{definition.argname} (fixture{'' if index is None else f' {index}'})"


def parts(item: pytest.Item) -> list[str]:
    """Return the names in the record of a test and of the fixtures it needs."""
    definitions = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
    indices = getattr(getattr(item, "callspec", None), "indices", {})
    needed = [definitions[name][-1] for name in item.fixturenames if name in definitions]  # type: ignore[attr-defined]
    return [item.nodeid, *(fixture_id(each, indices.get(each.argname)) for each in needed)]


def takes_long(item: pytest.Item, recorded: dict[str, float]) -> bool:
    """Return whether a test, or a shared fixture it needs, takes long by the record."""
    test, *fixtures = parts(item)
    return recorded.get(test, 0.0) > SLOW or any(recorded.get(each, 0.0) > SLOW_FIXTURE for each in fixtures)


def sort_longest_first(items: list[pytest.Item], recorded: dict[str, dict[str, float]]) -> None:
    """Sort tests by the seconds that are recorded of their files; a file with none may be the longest, and is first."""
    cost: dict[str, float] = defaultdict(float)
    for file, which in {(item.nodeid.partition("::")[0], tier(item)) for item in items}:
        cost[file] += recorded.get(file, {}).get(which, math.inf)
    items.sort(key=lambda item: (-cost[item.nodeid.partition("::")[0]], item.nodeid.partition("::")[0]))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests slow that take long by the record, before `-m` chooses."""
    recorded = load()["tests"]
    for item in items:
        if not item.get_closest_marker("essential") and takes_long(item, recorded):
            item.add_marker("slow")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help=f"write the times of the files run to {RECORD}")


def pytest_configure(config: pytest.Config) -> None:
    chosen = config.option.keyword or any("::" in argument for argument in config.args)
    if config.getoption("--record-durations") and chosen:
        raise pytest.UsageError(
            "--record-durations with -k or chosen tests would record parts of files as their sums; give whole files or "
            "folders, with -m if only one tier of them is meant"
        )
    config.pluginmanager.register(Durations(config), "durations")


class Durations:
    """Measures tests where they run; adds up, shows and records where they are reported."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.known = load()
        self.since = cpu()
        self.made: dict[str, float] = {}  # seconds of the shared fixtures made since
        self.files: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.tests: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Start the longest files first, so that no worker is left with one at the end; collecting counts for none."""
        if hasattr(self.config, "workerinput"):
            sort_longest_first(items, self.known["files"])
        self.since = cpu()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Generator[None, Any, Any]:
        """Keep what a shared fixture takes apart from the test that happens to need it first."""
        if fixturedef.scope == "function":
            return (yield)
        began, others = cpu(), sum(self.made.values())
        try:
            return (yield)
        finally:
            index = request.param_index if hasattr(request, "param") else None
            self.made[fixture_id(fixturedef, index)] = cpu() - began - (sum(self.made.values()) - others)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Send the times along with the report of a step of a test."""
        report = yield
        now = cpu()
        own = now - self.since - sum(self.made.values())
        report.user_properties += [("cpu", (tier(item), {item.nodeid: own}, dict(self.made)))]
        self.since = now
        self.made.clear()
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up what the steps of tests took."""
        for name, value in report.user_properties:
            if name == "cpu":
                which, own, made = value
                self.files[report.nodeid.partition("::")[0]][which] += sum(own.values()) + sum(made.values())
                self.tests[report.nodeid] += own[report.nodeid]
                for fixture, seconds in made.items():  # each worker may make it
                    self.tests[fixture] = max(self.tests[fixture], seconds)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the slowest, and write the record if that is asked for."""
        slowest = sorted(self.tests, key=lambda name: -self.tests[name])[:SHOWN]
        if self.config.getoption("numprocesses", None) and slowest:
            terminalreporter.section("slowest, s of CPU time (recorded)")
            for name in slowest:
                terminalreporter.line(f"{self.tests[name]:6.1f} ({self.known['tests'].get(name, '-'):>5})  {name}")
        if self.config.getoption("--record-durations"):
            self.write()

    def write(self) -> None:
        """Write the record, longest first: a run of chosen files or of one tier leaves what it says of others."""
        files = {file: sums for file, sums in self.known["files"].items() if (self.config.rootpath / file).is_file()}
        chosen = self.config.option.markexpr
        kept = {name for name in self.known["tests"] if chosen or name.partition("::")[0] in files.keys() - self.files}
        tests = {name: self.known["tests"][name] for name in kept - self.tests.keys()}
        for file, sums in self.files.items():
            files[file] = files.get(file, {}) | {which: round(seconds, 1) for which, seconds in sums.items()}
        tests |= {name: round(s, 1) for name, s in self.tests.items() if s >= RECORDED}
        record = {
            "files": dict(sorted(files.items(), key=lambda entry: (-sum(entry[1].values()), entry[0]))),
            "tests": dict(sorted(tests.items(), key=lambda entry: (-entry[1], entry[0]))),
        }
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
