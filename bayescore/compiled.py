"""The one place that configures numba: compiled, kept on disk, free of the GIL.

No kernel calls BLAS: numba's np.dot takes the GIL back and keeps the machine code off the disk.

How compiled code calls a family or a prior that it gets as an argument.

A kernel takes the object itself and calls ``family.rows(eta, side, log_p)`` and the like. The numba type of the object
is its name and a digest of its source. So numba compiles each kernel once for each object, without branches, and keeps
machine code on the disk; an object whose file has changed has another type. All processes read the index of that code,
also those that do not know some user's object. So the type holds text only, and compiling looks the functions up
among the registered objects. An object that is not registered has no numba type: the call raises.

How many threads: the cores there are, and one of BLAS where its sums count.

Sums of BLAS depend on its number of threads, which belongs to the whole process. Passes and tasks of several threads
overlap: the first to begin sets the number to one, and the last to end sets it back.
"""

import linecache
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache, lru_cache
from hashlib import sha256
from threading import Lock
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.core import cgutils
from numba.core.event import install_timer
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    make_attribute_wrapper,
    models,
    overload_method,
    register_model,
    typeof_impl,
    unbox,
)
from threadpoolctl import ThreadpoolController

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


_KINDS: dict[str, tuple[Mapping[str, Any], tuple[str, ...], Mapping[str, Any]]] = {}
"""Registered objects by name, the names of their compiled functions, and classes of objects with a size by name."""


class CompiledArgument(types.Type):
    """The numba type of one family or prior."""

    def __init__(self, kind: str, name: str, digest: str) -> None:
        self.kind, self.name_of_own = kind, name
        super().__init__(f"{kind}({name}, {digest})")


class SizedArgument(CompiledArgument):
    """That of a kind of families with a size, which is what compiled code holds of one."""


register_model(CompiledArgument)(models.OpaqueModel)


@register_model(SizedArgument)
class _SizedModel(models.StructModel):
    def __init__(self, manager: Any, own: SizedArgument) -> None:
        super().__init__(manager, own, [("size", types.float64)])


make_attribute_wrapper(SizedArgument, "size", "size")


def teach(
    kind: type,
    known: Mapping[str, Any],
    functions: tuple[str, ...],
    own: Callable[[Any], tuple[str, Any]],
    *,
    sized: Mapping[str, Any] | None = None,
) -> None:
    """Let kernels take instances of `kind` and call those of its compiled `functions` that it has.

    `own` returns the name of an object among the `known` ones, and what holds its functions; or the name of a class
    among the `sized` ones, and the class. It raises if the object is not registered.
    """
    _KINDS[kind.__name__] = known, functions, {} if sized is None else sized

    @typeof_impl.register(kind)
    def _type_of(value: Any, _context: Any) -> CompiledArgument:
        return _type(kind.__name__, *own(value))


@cache
def _type(kind: str, name: str, owner: Any) -> CompiledArgument:
    _known, functions, sized = _KINDS[kind]
    held = [getattr(owner, function) for function in functions if hasattr(owner, function)]
    argument = SizedArgument if name in sized else CompiledArgument
    return argument(kind, name, digest(function.py_func for function in held))


def digest(functions: Any) -> str:
    """Return a digest of the files that hold `functions`, and of their code."""
    codes = [function.__code__ for function in functions]
    lines = [line for file in sorted({code.co_filename for code in codes}) for line in linecache.getlines(file)]
    return sha256("".join([*lines, *(code.co_code.hex() for code in codes)]).encode()).hexdigest()[:16]


@unbox(CompiledArgument)
def _unbox(_type: CompiledArgument, _value: Any, context: Any) -> NativeValue:
    return NativeValue(context.context.get_dummy_value())


@unbox(SizedArgument)
def _unbox_size(own_type: SizedArgument, value: Any, context: Any) -> NativeValue:
    size = context.pyapi.object_getattr_string(value, "size")
    own = cgutils.create_struct_proxy(own_type)(context.context, context.builder)
    own.size = context.pyapi.float_as_double(size)
    context.pyapi.decref(size)
    return NativeValue(own._getvalue())


@infer_getattr
class _Functions(AttributeTemplate):
    key = CompiledArgument

    def generic_resolve(self, argument: CompiledArgument, name: str) -> Any:
        """Return the type of a compiled function; None if there is none of that name."""
        if isinstance(argument, SizedArgument) or name not in _KINDS[argument.kind][1]:
            return None
        return types.Dispatcher(_function(argument, name))


def _function(argument: CompiledArgument, name: str) -> Any:
    known, _functions, sized = _KINDS[argument.kind]
    return getattr((sized if isinstance(argument, SizedArgument) else known)[argument.name_of_own], name)


def _method(name: str) -> Any:
    """Return what compiles a call of one of the functions: that of the kind, with the size as its last argument."""

    def compiled(family, *_arguments):  # type: ignore[no-untyped-def]
        function = _function(family, name)
        return lambda family, *_arguments: function(*_arguments, family.size)

    return compiled


for _name in ("rows", "derivatives", "higher"):
    overload_method(SizedArgument, _name)(_method(_name))


@lower_getattr_generic(CompiledArgument)
def _get(context: Any, _builder: Any, _type: CompiledArgument, _value: Any, _name: str) -> Any:
    return context.get_dummy_value()


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
