"""The one place that configures numba: compiled, kept on disk, free of the GIL.

No kernel calls BLAS: numba's np.dot takes the GIL back and keeps the machine code off the disk.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numba
from numba.core.event import install_timer

F = TypeVar("F", bound=Callable[..., object])


def jit(function: F) -> F:
    """Compile `function` so that a row gives the same bits whatever block it stands in.

    Sums keep their order; a product and a sum may become one operation. The flags are named because a function without
    any takes over those of whatever caller is compiled first.
    """
    return _compiled(function, fastmath={"contract"})


def jit_sums(function: F) -> F:
    """Compile `function` with sums that may be reordered, so that they vectorise; for densities of fixed data.

    It becomes part of each compiled caller: else there would be two copies with sums in two orders, and which one runs
    would depend on whether the caller was compiled now or read from the disk.
    """
    return _compiled(function, fastmath={"reassoc", "contract"}, forceinline=True)


def _compiled(function: F, **options: Any) -> F:
    """Return the kernel of a function.

    It travels to workers by its name, as functions do: numba's own copies are compiled anew, and never kept on disk.
    """
    kernel: Any = numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function)
    if function.__module__.startswith("bayescore.") and "<locals>" not in function.__qualname__:
        kernel.__reduce_ex__ = lambda _: function.__qualname__
    return cast(F, kernel)


@contextmanager
def compile_seconds() -> Iterator[list[float]]:
    """Yield a list whose sum, after the block, is the seconds in which kernels were compiled in it, by any thread.

    A kernel is compiled at its first use and kept on disk, so that what comes after takes that much less.
    """
    found: list[float] = []
    with install_timer("numba:compile", found.append):
        yield found
