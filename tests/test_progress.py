"""What a line of progress says of a step."""

import io
import re

import numba
import pytest
from rich.console import Console

from bayescore import progress
from bayescore.compiled import compilation


class Clock:
    """A clock that goes on when it is told to, and the lines of a terminal that say how long work takes."""

    def __init__(self):
        self.now, self.screen = 0.0, io.StringIO()

    def perf_counter(self):
        return self.now

    def console(self, **_):
        return Console(file=self.screen, force_terminal=self.watched, width=200)

    watched = True

    @property
    def said(self):
        return re.findall("bayescore: (.*? takes about .*? s)", self.screen.getvalue())

    def work(self, bar, pieces, n, seconds):
        for _ in range(pieces):
            self.now += seconds
            bar.advance(n)

    def a_pass(self, n_rows, seconds, enabled=True, blocks=100):
        """Make a pass in some seconds, as `Dataset.map` shows it."""
        with progress.progress(enabled, "scores", n_rows, "rows") as bar:
            self.work(bar, blocks, n_rows / blocks, seconds / blocks)


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(progress, "time", found)
    monkeypatch.setattr(progress, "Console", found.console)
    return found


def test_a_step_can_change_its_description():
    with progress.step(False, "build") as describe:
        describe("build, compiling")
        assert [task.description for task in progress._STEP.get().display.tasks] == ["build, compiling"]


def test_a_step_says_once_how_long_its_passes_take_after_a_second_of_the_first(clock):
    with progress.step(True, "build", passes=3):
        with progress.progress(True, "scores", 1000, "rows") as bar:
            clock.work(bar, 4, 100, 0.4)
            assert clock.said == ["build takes about 10 s"]  # 600 rows left, and 2,000 of two passes
            clock.work(bar, 6, 100, 0.4)
        clock.a_pass(1000, 4.0)
        clock.a_pass(1000, 40.0)
    assert len(clock.said) == 1


def test_a_step_says_before_its_first_pass_how_long_passes_take_as_the_last_one_did(clock):
    pace = progress.Pace()
    with progress.step(True, "build", passes=3, pace=pace):
        clock.a_pass(1_000, 1.2)
    with progress.step(True, "certify", pace=pace), progress.progress(True, "sums", 50_000, "rows"):
        assert clock.said == ["certify takes about 60 s"]


def test_a_sampler_says_before_it_draws_how_long_that_takes_as_the_last_of_warm_up_did(clock):
    with progress.progress(True, "sampling", 40) as bar:
        clock.work(bar, 1, 1, 30.0)  # compiles
        clock.work(bar, 19, 1, 0.1)
        bar.restart()
        clock.work(bar, 11, 1, 0.03)
        assert not clock.said
        bar.expect(1000, "sampling by langevin")
        assert clock.said == ["sampling by langevin takes about 30 s"]
        bar.expect(2000, "sampling on")
    assert clock.said[1:] == ["sampling on takes about 60 s"]


@pytest.mark.parametrize(("enabled", "watched", "seconds"), [(False, True, 90.0), (True, False, 90.0), (True, True, 9)])
def test_nothing_is_said_of_short_work_or_without_a_progress_bar_or_a_terminal(clock, enabled, watched, seconds):
    clock.watched = watched
    with progress.step(enabled, "certify"):
        clock.a_pass(1000, seconds, enabled)
    clock.a_pass(1000, seconds, enabled)
    with progress.progress(enabled, "sampling", 1000) as bar:
        clock.work(bar, 100, 1, seconds / 1000)
        bar.expect(900, "sampling on")
    assert not clock.said


def test_what_begins_to_be_compiled_is_said_and_timed():
    kernel, said = numba.njit(lambda x: x + 1.0), []
    with compilation(lambda: said.append("compiling")) as compiled:
        assert kernel(1.0) == 2.0
    assert said
    assert compiled.seconds > 0.0
    said.clear()
    with compilation(lambda: said.append("compiling")) as compiled:
        kernel(2.0)
    assert not said
    assert compiled.seconds == 0.0


def test_what_is_compiled_meanwhile_is_not_in_the_pace_of_work(clock):
    with progress.progress(True, "sampling", 1000) as bar:
        clock.work(bar, 10, 1, 0.001)
        numba.njit(lambda x: x - 1.0)(1.0)
        clock.work(bar, 1, 1, 20.0)
        clock.work(bar, 10, 1, 0.2)
    assert clock.said == ["sampling takes about 200 s"]
