"""Progress bars of long work: in terminals and notebooks, silent elsewhere."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def progress(enabled: bool) -> Progress:
    """Return a rich progress display on standard error; it shows nothing unless somebody is watching."""
    console = Console(stderr=True)
    watched = console.is_terminal or console.is_jupyter
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
