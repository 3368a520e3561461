"""The number of BLAS threads, which belongs to the whole process, kept in one hand.

Sums of BLAS depend on it. Passes of several threads, and tasks of several threads of a worker, overlap: the first to
begin sets it to one and the last to end puts it back. Kernels of numba run in the thread that calls them.
"""

from functools import lru_cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


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


ONE_BLAS_THREAD = _OneThread()
