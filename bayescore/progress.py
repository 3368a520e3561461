"""Progress bars of long work: in terminals and notebooks, silent elsewhere."""

from importlib.util import find_spec

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class _Rate(ProgressColumn):
    """How many units are done in a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        """Return the rate, such as "1.2e+07 rows/s"."""
        return Text(f"{task.speed:.2g} {self.unit}/s" if task.speed else "")


def progress(enabled: bool, unit: str | None = None) -> Progress:
    """Return a rich progress display on standard error; it shows nothing unless somebody is watching.

    With a `unit`, "rows" say, it shows their rate too; the time left is there either way, if the total is known.
    """
    console = Console(stderr=True)
    # without ipywidgets rich can only print a warning into the notebook
    watched = console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *([] if unit is None else [_Rate(unit)]),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not (enabled and watched),
    )
