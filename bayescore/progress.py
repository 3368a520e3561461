"""Progress of long work: in terminals and notebooks, silent elsewhere.

A pass or a sampler shows a bar (`progress`). In a `step` of a longer job its bar is a line of the step's display.

Work that will take longer than `LONG` seconds says so in a line that stays. The pace of a pass is that of the last pass
of the same job, that of draws is that of warm-up; before there is one, the first second of the work tells it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.util import find_spec
from threading import Lock

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from bayescore.compiled import compilation

LONG = 10.0  # seconds of work that are said beforehand
_ENOUGH = 1.0  # seconds of work that tell its pace
_WIDTH = 20  # characters of a bar, so that a line fits a terminal of 80


@dataclass(eq=False)
class Pace:
    """Seconds that a row took in the last pass of a job; 0 before there was one."""

    row: float = 0.0


@dataclass(eq=False)
class _StepUnderWay:
    """A step under way: its display, about how many passes are to come in it, and whether it has said how long."""

    display: Progress
    name: str
    passes: int
    pace: Pace
    said: bool = False


_STEP: ContextVar[_StepUnderWay | None] = ContextVar("step", default=None)


class _Done(ProgressColumn):
    """How much is done, and how much in a second."""

    def render(self, task: Task) -> Text:
        """Return the share, or the number where the total is not known, and the rate, as "46% 1.2e+07 rows/s"."""
        unit = task.fields.get("unit")
        words = [f"{task.percentage:.0f}%"] if task.total is not None else []
        if unit and task.total is None:
            words.append(f"{task.completed:,.0f} {unit}")
        if unit and task.speed:
            words.append(f"{task.speed:.2g} {unit}/s")
        return Text(" ".join(words))


@dataclass(eq=False)
class Bar:
    """A line of a display, which any thread may advance; `say` is called, once, with name and seconds of long work.

    The work is what is left of `total`, in any unit, and what comes `after` it in the same step.
    """

    display: Progress
    task: TaskID
    name: str
    total: float | None
    say: Callable[[str, float], None]
    after: float = 0.0
    pace: float = 0.0  # seconds of a unit; 0 if not known
    _done: float = 0.0
    _said: bool = False
    _begin: float | None = None  # of the clock: the end of a first piece of work, as kernels are compiled in it
    _timed: float = 0.0  # what was done since
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._announce_if_long()

    def advance(self, n: float) -> None:
        """Add what was done."""
        self.display.advance(self.task, n)
        with self._lock:
            now = time.perf_counter()
            self._done += n
            if self._begin is None:
                self._begin = now
                return
            self._timed += n
            self.pace = (now - self._begin) / self._timed
            if now - self._begin > _ENOUGH:
                self._announce_if_long()

    def expect(self, more: float, description: str) -> None:
        """Set how much is to come, at the pace since the last `restart`, and the name of the work."""
        with self._lock:
            self.name, self.total, self._said = description, self._done + more, False
            self.display.update(self.task, total=self.total, description=description)
            self._announce_if_long()

    def restart(self) -> None:
        """Let the work from here on tell the pace."""
        with self._lock:
            self._begin, self._timed = None, 0.0

    def _announce_if_long(self) -> None:
        if self._said or self.total is None:
            return
        if (seconds := (self.total - self._done + self.after) * self.pace) > LONG:
            self._said = True
            self.say(self.name, seconds)


@contextmanager
def progress(enabled: bool, description: str, total: float | None, unit: str | None = None) -> Iterator[Bar]:
    """Show a bar on standard error while the body runs, if somebody is watching; a `unit` is that of its rate.

    What counts "rows" is a pass.
    """
    step = _STEP.get()
    with _display(enabled) if step is None else nullcontext(step.display) as display:
        name = description if step is None else f"  {description}"
        task = display.add_task(name, total=total, unit=unit, visible=enabled)
        passing = step if unit == "rows" and total is not None else None

        def foretell(what: str, seconds: float) -> None:
            if passing is not None:  # one line for all passes of a step
                if passing.said:
                    return
                what, passing.said = passing.name, True
            if enabled:
                _write(display.console, f"bayescore: {what or 'a pass'} takes about {float(f'{seconds:.2g}'):,.0f} s")

        after, pace = 0.0, 0.0
        if passing is not None and total is not None:
            passing.passes = max(passing.passes - 1, 0)
            after, pace = passing.passes * total, passing.pace.row
        bar = Bar(display, task, description, total, foretell, after, pace)
        try:
            with compilation(bar.restart, bar.restart):  # which is no part of a bar's pace
                yield bar
            if passing is not None:
                passing.pace.row = bar.pace
        finally:
            display.remove_task(task)


@contextmanager
def step(
    enabled: bool, description: str, *, passes: int = 1, pace: Pace | None = None
) -> Iterator[Callable[[str], None]]:
    """Show that a step is under way, and how long it has been, with the bars of the work inside it beneath.

    Yields a function that changes the description. `passes` is about how many the step makes, and `pace` that of the
    passes of earlier steps of the same job, which this one's passes bring up to date.
    """
    with _display(enabled) as display:
        task = display.add_task(description, total=None)
        before = _STEP.set(_StepUnderWay(display, description, passes, pace or Pace()))
        try:
            yield lambda text: display.update(task, description=text)
        finally:
            _STEP.reset(before)


def stop_display() -> None:
    """End the display of the step under way, for what shows its own progress."""
    if (step := _STEP.get()) is not None:
        step.display.stop()


def say(text: str) -> None:
    """Write a line that stays, if somebody is watching."""
    _write(Console(stderr=True), text)


def _write(console: Console, text: str) -> None:
    if console.is_terminal or console.is_jupyter:
        console.print(text, markup=False, highlight=False)


@contextmanager
def _display(enabled: bool) -> Iterator[Progress]:
    """Show bars while the body runs."""
    console = Console(stderr=True)
    # without ipywidgets rich can only print a warning into the notebook
    watched = console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
    display = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(_WIDTH),
        _Done(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not (enabled and watched),
    )
    try:
        display.start()  # hides the cursor, and so stands where Ctrl-C is followed by `stop`
        yield display
    finally:
        display.stop()
