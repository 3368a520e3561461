"""Python's garbage collection waits while a kernel is compiled.

Compiling makes so many objects that full collections, each through all of them, took a tenth of the first fit. They go
on between one kernel and the next, so that memory stays bounded.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from numba.core.event import Listener, install_listener


class _Waits(Listener):  # type: ignore[misc] # numba has no types
    """Switches collection off from the first kernel that begins to be compiled until none is under way."""

    def __init__(self) -> None:
        self.under_way, self.switched_off, self.lock = 0, False, Lock()

    def on_start(self, _: Any) -> None:
        with self.lock:
            self.under_way += 1
            if gc.isenabled():
                gc.disable()
                self.switched_off = True

    def on_end(self, _: Any) -> None:
        with self.lock:
            self.under_way -= 1
            if self.under_way <= 0:
                self.switch_on()

    def switch_on(self) -> None:
        """Switch collection on again, if it was on."""
        if self.switched_off:
            self.switched_off = False
            gc.enable()


@contextmanager
def no_collection_while_compiling() -> Iterator[None]:
    """Let garbage collection wait for kernels that are compiled in the body, by any thread."""
    waits = _Waits()
    try:
        with install_listener("numba:compile", waits):
            yield
    finally:  # after Ctrl-C another thread may still be compiling
        waits.switch_on()
