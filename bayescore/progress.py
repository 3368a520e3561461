"""Progress bars of long work: in terminals and notebooks, silent elsewhere."""

from importlib.util import find_spec

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def progress(enabled: bool) -> Progress:
    """Return a rich progress display on standard error; it shows nothing unless somebody is watching."""
    console = Console(stderr=True)
    # without ipywidgets rich can only print a warning into the notebook
    watched = console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not (enabled and watched),
    )
