"""Progress of long work: in terminals and notebooks, silent elsewhere.

A pass or a sampler shows a bar (`progress`). In a `step` of a longer job its bar is a line of the step's display.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import find_spec

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

_STEP: ContextVar[Progress | None] = ContextVar("step", default=None)  # the display of the step under way
_WIDTH = 20  # characters of a bar, so that a line fits a terminal of 80


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


@dataclass(frozen=True)
class Bar:
    """A line of a display."""

    display: Progress
    task: TaskID

    def advance(self, n: float) -> None:
        """Add what was done; any thread may."""
        self.display.advance(self.task, n)

    def expect(self, more: float, description: str) -> None:
        """Set how much is to come, and the name of the work."""
        done = next(task.completed for task in self.display.tasks if task.id == self.task)
        self.display.update(self.task, total=done + more, description=description)


@contextmanager
def progress(enabled: bool, description: str, total: float | None, unit: str | None = None) -> Iterator[Bar]:
    """Show a bar on standard error while the body runs, if somebody is watching; a `unit` is that of its rate."""
    step = _STEP.get()
    with _display(enabled) if step is None else nullcontext(step) as display:
        name = description if step is None else f"  {description}"
        task = display.add_task(name, total=total, unit=unit, visible=enabled)
        try:
            yield Bar(display, task)
        finally:
            display.remove_task(task)


@contextmanager
def step(enabled: bool, description: str) -> Iterator[Callable[[str], None]]:
    """Show that a step is under way, and how long it has been, with the bars of the work inside it beneath.

    Yields a function that changes the description.
    """
    with _display(enabled) as display:
        task = display.add_task(description, total=None)
        before = _STEP.set(display)
        try:
            yield lambda text: display.update(task, description=text)
        finally:
            _STEP.reset(before)


def stop_display() -> None:
    """End the display of the step under way, for what shows its own progress."""
    if (display := _STEP.get()) is not None:
        display.stop()


def say(text: str) -> None:
    """Write a line that stays, if somebody is watching."""
    console = Console(stderr=True)
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
