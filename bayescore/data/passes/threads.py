"""How many threads: the cores there are, and one of BLAS where its sums count.

Sums of BLAS depend on its number of threads, which belongs to the whole process. Passes and tasks of several threads
overlap: the first to begin sets the number to one, and the last to end sets it back.
"""

import os
from contextlib import AbstractContextManager
from functools import lru_cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _OneThread:
    """A context in which BLAS uses one thread, until the last of the threads that entered it has left."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = _blas().limit(limits=1, user_api="blas").__enter__()
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.__exit__(*error)


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


_ONE_THREAD = _OneThread()


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread; contexts of several threads may overlap."""
    return _ONE_THREAD
