"""What `python -m benchmarks` can run: functions that a decorator has made commands, where they are written."""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import benchmarks
from benchmarks.tables import ALL

Run = Callable[..., None]


@dataclass(frozen=True, eq=False)
class Command:
    """A command: its function, its question, the sets that it can run apart and as evidence, and whether it is last."""

    name: str
    run: Run
    asks: str
    sets: tuple[str, ...]
    evidence: tuple[str, ...]
    last: bool

    @property
    def folder(self) -> str:
        """The folder of its file, which is the kind of question that it answers."""
        return self.run.__module__.split(".")[1]

    @property
    def module(self) -> Any:
        """Its module, whose docstring has the protocol."""
        return importlib.import_module(self.run.__module__)

    @property
    def question(self) -> str:
        """Its own question, or the first line of the protocol."""
        return self.asks or str(self.module.__doc__).strip().partition("\n")[0]


COMMANDS: dict[str, Command] = {}


def command(
    name: str,
    *,
    asks: str = "",
    sets: Sequence[str] = (),
    evidence: bool | Sequence[str] = False,
    last: bool = False,
) -> Callable[[Run], Run]:
    """Register a function under a name.

    `asks` is its question, where its file answers more than one. `sets` are names that the function takes as ``only``.
    `evidence` is what ``make evidence`` runs: all sets, or some, so that all takes three hours at most on two cores. A
    command that is `last` reads what others wrote.
    """

    def registered(run: Run) -> Run:
        if name in COMMANDS:
            raise ValueError(f"two commands are called {name!r}; rename one")
        chosen = (tuple(sets) or (ALL,) if evidence else ()) if isinstance(evidence, bool) else tuple(evidence)
        COMMANDS[name] = Command(name, run, asks, tuple(sets), chosen, last)
        return run

    return registered


def commands() -> dict[str, Command]:
    """Return all commands by name, folder by folder; those that read what others wrote are last."""
    for found in pkgutil.walk_packages(benchmarks.__path__, "benchmarks."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    return dict(sorted(COMMANDS.items(), key=lambda item: (item[1].last, item[1].folder, item[1].run.__module__)))
