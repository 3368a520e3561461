"""Golden cases: functions whose numbers and words are recorded, and compared with what they return today.

A case is one function of no arguments with a name, which returns a mapping of fields to arrays or text (`view` makes
them of coresets, draws and so on). ``@case("name")`` registers it in the family named like its module, which is the
file that `recorded` keeps it in.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version

import numpy as np

Fields = Mapping[str, np.ndarray | list[str]]

FAMILIES = (
    "coresets",
    "draws",
    "certificates",
    "predictions",
    "pages",
    "fitted",
    "later",
    "sources",
    "streams",
    "command_line",
)

ROUNDING = 1e-9
"""What may be off, of the largest entry of an array: kernels of BLAS and compilers sum in other orders, which changes
sums of these sizes by 1e-16 to 1e-12, and a Newton step or a solve makes a hundred times as much of it."""

EFFECTS = 1e-7
"""The same of answers by the effects of groups, whose coreset is found in steps that end near: 2.3e-8 (Nehalem)."""

CHAINS = 1e-6
"""The same of draws of NUTS: PyTensor orders sums by hashes that change with every process, and 70 trajectories, which
end where an energy says so, make up to 3e-8 of that (measured, four kernels)."""

STACK = f"pymc-{version('pymc').split('.')[0]}"
"""PyMC 5 comes with ArviZ 0.23, PyMC 6 with ArviZ 1: NUTS and the smoothing of importance weights differ."""


@dataclass(frozen=True)
class Case:
    """A function whose fields are recorded.

    Parameters
    ----------
    family, name : str
        Its file, and its place there.
    make : callable
        Returns the fields.
    tolerance : float
        What numbers may be off, of the largest entry of their array.
    of_stack : bool
        Whether the numbers depend on the versions of PyMC and ArviZ, so that each stack has its own.
    """

    family: str
    name: str
    make: Callable[[], Fields] = field(repr=False)
    tolerance: float = ROUNDING
    of_stack: bool = False

    @property
    def file(self) -> str:
        """Stem of the files that it is recorded in."""
        return f"{self.family}-{STACK}" if self.of_stack else self.family

    def fields(self) -> Fields:
        """Return the fields as they are today."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of coresets and runs as small as these
            return self.make()


CASES: dict[str, Case] = {}


def case(name: str, **options: float | bool) -> Callable[[Callable[[], Fields]], Callable[[], Fields]]:
    """Register a function as a case; `options` are the fields of `Case`."""

    def register(make: Callable[[], Fields]) -> Callable[[], Fields]:
        family = getattr(make, "func", make).__module__.rpartition(".")[2]
        key = f"{family}: {name}"
        assert key not in CASES, f"two cases are named {key!r}"
        CASES[key] = Case(family, name, make, **options)
        return make

    return register


def all_cases() -> dict[str, Case]:
    """Return the cases of all families by name."""
    for family in FAMILIES:
        import_module(f"tests.golden.{family}")
    return CASES
