"""The one place that configures numba: compiled, kept on disk, free of the GIL.

No kernel calls BLAS: numba's np.dot takes the GIL back and keeps the machine code off the disk.

How compiled code calls a family or a prior that it gets as an argument.

A kernel takes the object itself and calls ``family.rows(eta, side, log_p)`` and the like, of a tile of rows at a time,
by the address of its machine code. All families have one numba type, a table of addresses, and all priors another:
numba compiles each kernel once, whatever the object, and keeps machine code on the disk. An object that is not
registered has no numba type: the call raises.

How many threads: the cores there are, and one of BLAS where its sums count.

Sums of BLAS depend on its number of threads, which belongs to the whole process. Passes and tasks of several threads
overlap: the first to begin sets the number to one, and the last to end sets it back.
"""

import gc
import linecache
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from hashlib import sha256
from threading import Lock
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.caching import IndexDataCacheFile
from numba.core.dispatcher import Dispatcher as CPUDispatcher
from numba.core.errors import TypingError
from numba.core.event import Listener, install_listener
from numba.core.registry import cpu_target
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from threadpoolctl import ThreadpoolController

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")


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


def jit_inner(function: F) -> F:
    """Compile `function` as `jit` does, for kernels alone: called from Python it runs as Python.

    It has none of the code that unpacks Python's arguments, a third of what a small function takes to compile.
    """
    return _compiled(function, fastmath={"contract"}, no_cpython_wrapper=True)


def jit_inner_sums(function: F) -> F:
    """Compile `function` as `jit_sums` does, for kernels alone, as `jit_inner` does."""
    return _compiled(function, fastmath={"reassoc", "contract"}, forceinline=True, no_cpython_wrapper=True)


class _Inner(CPUDispatcher):
    """A kernel that has no code for a call from Python."""

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)


class _Index(IndexDataCacheFile):
    """The list of a kernel's machine code on the disk; one that cannot be read counts as empty.

    It names types of arguments, and is read before it says which source file it is of: after an upgrade these types may
    have other names.
    """

    def _load_index(self) -> dict[Any, str]:
        try:
            return cast(dict[Any, str], super()._load_index())
        except Exception:  # whatever unpickling raises
            return {}


def _compiled(function: F, **options: Any) -> F:
    """Return the kernel of a function.

    It travels to workers by its name, as functions do: numba's own copies are compiled anew, and never kept on disk.
    """
    kernel: Any = numba.njit(nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True, **options)(function)
    kernel._cache._cache_file.__class__ = _Index
    if options.get("no_cpython_wrapper"):
        kernel.__class__ = _Inner
    if function.__module__.startswith("bayescore.") and "<locals>" not in function.__qualname__:
        kernel.__reduce_ex__ = lambda _: function.__qualname__
    return cast(F, kernel)


class _Compilation(Listener):
    """Kernels that are compiled, by any thread: seconds in all. Garbage collection is off while one is under way.

    Compiling makes so many objects that full collections, each through all of them, took a tenth of the first fit. They
    go on between one kernel and the next, so that memory stays bounded.
    """

    def __init__(self, started: Callable[[], None], ended: Callable[[], None]) -> None:
        self.started, self.ended, self.seconds = started, ended, 0.0
        self._under_way, self._begin, self._switched_off, self._lock = 0, 0.0, False, Lock()

    def on_start(self, _: Any) -> None:
        with self._lock:
            if self._under_way == 0:
                self._begin = time.perf_counter()
            self._under_way += 1
            if gc.isenabled():
                gc.disable()
                self._switched_off = True
        self.started()

    def on_end(self, _: Any) -> None:
        with self._lock:
            if self._under_way == 1:
                self.seconds += time.perf_counter() - self._begin
                self.collect()
            self._under_way = max(self._under_way - 1, 0)  # 0 where it began before this listened
        self.ended()

    def collect(self) -> None:
        """Switch collection on again, if it was on."""
        if self._switched_off:
            self._switched_off = False
            gc.enable()


@contextmanager
def compilation(
    started: Callable[[], None] = lambda: None, ended: Callable[[], None] = lambda: None
) -> Iterator[_Compilation]:
    """Yield the `seconds` in which kernels are compiled in the body, by any thread, without garbage collection.

    A kernel is compiled at its first use and kept on disk, so that what comes after takes that much less. `started` and
    `ended` are called whenever one begins and ends to be compiled.
    """
    compiled = _Compilation(started, ended)
    try:
        with install_listener("numba:compile", compiled):
            yield compiled
    finally:  # after Ctrl-C another thread may still be compiling
        compiled.collect()


VECTOR, MATRIX, PLACES = types.float64[::1], types.float64[:, ::1], types.int64[::1]


_KNOWN: dict[str, Mapping[str, Any]] = {}
"""What holds the functions of `CompiledArgument`, by kind and name."""


class CompiledArgument(types.Type):
    """The numba type of one object whose compiled functions are known when a kernel is compiled, once for each.

    All processes read the index of kernels on the disk, also those that do not know some user's object. So the type
    holds text only: the object's name among those of its kind, and a digest of its source, which tells changed files.
    """

    def __init__(self, kind: str, name: str, digest: str) -> None:
        self.kind, self.name_of_object = kind, name
        super().__init__(f"{kind}({name}, {digest})")

    @staticmethod
    @cache
    def of(kind: str, name: str, owner: Any, functions: tuple[str, ...]) -> "CompiledArgument":
        """Return the type of the object `name` of a kind; `owner` holds its functions."""
        held = [getattr(owner, function) for function in functions if hasattr(owner, function)]
        return CompiledArgument(kind, name, digest(function.py_func for function in held))


register_model(CompiledArgument)(models.OpaqueModel)


@infer_getattr
class _Functions(AttributeTemplate):
    key = CompiledArgument

    def generic_resolve(self, argument: CompiledArgument, name: str) -> Any:
        """Return the type of a compiled function; None if there is none of that name."""
        function = getattr(_KNOWN[argument.kind][argument.name_of_object], name, None)
        return types.Dispatcher(function) if hasattr(function, "py_func") else None


@lower_getattr_generic(CompiledArgument)
def _dummy_value(context: Any, _builder: Any, _type: CompiledArgument, _value: Any, _name: str) -> Any:
    return context.get_dummy_value()


_NUMBERS = "size", "scale"
"""What a table has beside addresses: numbers that functions take last, as many as a family is given."""

_FIELDS = [(name, types.float64) for name in _NUMBERS]


class FunctionTable(types.Type):
    """The numba type of all families, or of all priors: addresses of compiled functions, a size and a scale.

    Parameters
    ----------
    kind : str
        Name of the base class.
    functions : mapping
        What kernels call, by name, and its signature without the object itself and without its numbers.
    inner : tuple of str
        Names of functions that those called by kernels call in turn: they take the object as their first argument.
    """

    def __init__(self, kind: str, functions: Mapping[str, Any], inner: tuple[str, ...]) -> None:
        self.kind, self.functions, self.inner = kind, functions, inner
        super().__init__(f"{kind}(any)")

    def signature(self, name: str, itself: types.Type = types.none, *, n_numbers: int = 0) -> Any:
        """Return the whole signature of a function; `itself` is the type of the object."""
        declared = self.functions[name]
        first, last = (itself,) if self.inner else (), (types.float64,) * n_numbers
        return declared.return_type(*first, *declared.args, *last)

    @cache  # noqa: B019 there are two tables
    def addresses(self, owner: type, *, n_numbers: int) -> tuple[int, ...]:
        """Return the addresses of the functions of a class, 0 of those that it lacks."""
        names = (*self.functions, *self.inner)
        itself = CompiledArgument.of(self.kind, owner.__name__, owner, names) if self.inner else types.none
        addresses = []
        for name in self.functions:
            function = getattr(owner, name, None)
            compiled = function and function.get_compile_result(self.signature(name, itself, n_numbers=n_numbers))
            addresses.append(compiled.library.get_pointer_to_function(compiled.fndesc.mangled_name) if compiled else 0)
        return tuple(addresses)


@register_model(FunctionTable)
class _TableModel(models.StructModel):
    def __init__(self, manager: Any, table: FunctionTable) -> None:
        super().__init__(manager, table, [*((name, types.uintp) for name in table.functions), *_FIELDS])


def let_kernels_call(
    kind: type,
    known: Mapping[str, Any],
    functions: Mapping[str, Any],
    check: Callable[[Any], Any],
    *,
    sized: type | None = None,
    inner: tuple[str, ...] = (),
) -> None:
    """Let kernels take instances of `kind` and call those of its compiled `functions` that it has, by their addresses.

    A kernel is so compiled once for all of them. `known` are the registered ones, or their classes, by name; `check`
    raises for an instance that is not one of them; one of the class `sized` has numbers, those that it is `given`.
    Others: see `FunctionTable`.
    """
    _KNOWN[kind.__name__] = known
    table = FunctionTable(kind.__name__, functions, inner)

    @typeof_impl.register(kind)
    def _type_of(value: Any, _context: Any) -> FunctionTable:
        check(value)
        return table

    def held(value: Any) -> tuple[Any, ...]:
        owner: Any = type(value)
        numbers = value.given() if sized and issubclass(owner, sized) else ()
        missing = (math.nan,) * (len(_NUMBERS) - len(numbers))
        return *table.addresses(owner, n_numbers=len(numbers)), *numbers, *missing

    kind.held_by_kernels = property(held)  # type: ignore[attr-defined]


def digest(functions: Any) -> str:
    """Return a digest of the files that hold `functions`, and of their code."""
    codes = [function.__code__ for function in functions]
    lines = [line for file in sorted({code.co_filename for code in codes}) for line in linecache.getlines(file)]
    return sha256("".join([*lines, *(code.co_code.hex() for code in codes)]).encode()).hexdigest()[:16]


@unbox(FunctionTable)
def _unbox(table: FunctionTable, value: Any, c: Any) -> NativeValue:
    """Read addresses and numbers; one that is NaN says that there is none."""
    made = cgutils.create_struct_proxy(table)(c.context, c.builder)
    held = c.pyapi.object_getattr_string(value, "held_by_kernels")
    failed = cgutils.is_null(c.builder, held)
    with c.builder.if_then(c.builder.not_(failed), likely=True):
        for place, name in enumerate(table.functions):
            setattr(made, name, c.pyapi.long_as_ulonglong(c.pyapi.tuple_getitem(held, place)))
        for place, name in enumerate(_NUMBERS, len(table.functions)):
            setattr(made, name, c.pyapi.float_as_double(c.pyapi.tuple_getitem(held, place)))
        c.pyapi.decref(held)
    return NativeValue(made._getvalue(), is_error=failed)


@infer_getattr
class _TableFunctions(AttributeTemplate):
    key = FunctionTable

    def generic_resolve(self, table: FunctionTable, name: str) -> Any:
        """Return the type of a function that a table has; None if it has none of that name."""
        return types.BoundFunction(_template(name), table) if name in table.functions else None


@cache
def _template(name: str) -> type[AbstractTemplate]:
    """Return what types a call of the function `name` of a table, and have it written as `_write_call` does."""

    class Template(AbstractTemplate):
        key = f"FunctionTable.{name}"

        def generic(self, given: Any, _: Any) -> Any:
            expected = self.this.functions[name]
            # arrays that may not be written are laid out as others
            facts = [[(one.dtype, one.ndim, one.layout) for one in arrays] for arrays in (given, expected.args)]
            if facts[0] != facts[1]:
                raise TypingError(f"{name} takes {expected.args}, and here is called with {given}")
            return signature(expected.return_type, *given, recvr=self.this)

    lower_builtin(Template.key, FunctionTable, types.VarArg(types.Any))(partial(_write_call, name))
    return Template


def _write_call(name: str, context: Any, builder: Any, given: Any, values: Any) -> Any:
    """Write a call of the function `name` of a table by its address."""
    table = given.args[0]
    returned = table.functions[name].return_type
    made = cgutils.create_struct_proxy(table)(context, builder, value=values[0])
    first = [context.get_dummy_value()] if table.inner else []
    result = cgutils.alloca_once(builder, context.get_value_type(returned))

    def call(n_numbers: int) -> None:
        whole = table.signature(name, n_numbers=n_numbers)
        passed = [*first, *values[1:], *(getattr(made, number) for number in _NUMBERS[:n_numbers])]
        value = _call_address(context, builder, getattr(made, name), whole, passed)
        if returned != types.none:
            builder.store(value, result)

    def choose(n_numbers: int) -> None:
        """Write the call with so many numbers where there are these, else that with one less, and so on."""
        if n_numbers == 0:
            call(0)
            return
        last = getattr(made, _NUMBERS[n_numbers - 1])
        with builder.if_else(builder.fcmp_ordered("ord", last, last)) as (there, missing):
            with there:
                call(n_numbers)
            with missing:
                choose(n_numbers - 1)

    choose(0 if table.inner else len(_NUMBERS))
    return context.get_dummy_value() if returned == types.none else builder.load(result)


def _call_address(context: Any, builder: Any, address: Any, called: Any, values: Any) -> Any:
    """Write a call of the function of a signature at an address; return its value."""
    kind = context.call_conv.get_function_type(called.return_type, called.args).as_pointer()
    function = builder.inttoptr(address, kind)
    status, value = context.call_conv.call_function(builder, function, called.return_type, called.args, values)
    with cgutils.if_unlikely(builder, status.is_error):
        context.call_conv.return_status_propagate(builder, status)
    return value


class Stored(types.Type):
    """The numba type of the address of a value in memory; of a named tuple kernels read the fields that they use.

    By value every array of a tuple would be seven arguments of every call, which take long to compile.
    """

    def __init__(self, held: types.Type) -> None:
        self.held = held
        super().__init__(f"Stored({held})")

    @property
    def key(self) -> Any:
        """What tells types apart: names of named tuples may be alike."""
        return self.held


@register_model(Stored)
class _StoredModel(models.PrimitiveModel):
    def __init__(self, manager: Any, stored: Stored) -> None:
        super().__init__(manager, stored, cgutils.intp_t)


class AtAddress:
    """A value in memory, which kernels take by its address, as `Stored`; attributes are those of the value.

    Parameters
    ----------
    value : tuple
        Numbers, arrays, families, densities, values in memory, and tuples of these.
    """

    def __init__(self, value: Any) -> None:
        self.value, self.type = value, Stored(numba.typeof(value))
        self.memory = np.array(_words(value, self.type.held), dtype=np.int64)
        self.address = self.memory.ctypes.data
        context = cpu_target.target_context
        assert self.memory.nbytes == context.get_abi_sizeof(context.get_value_type(self.type.held))

    def __getattr__(self, name: str) -> Any:
        field = getattr(self.value, name)
        return AtAddress(field) if isinstance(field, tuple) and hasattr(field, "_fields") else field

    def _replace(self, **fields: Any) -> "AtAddress":
        return AtAddress(self.value._replace(**fields))

    def __reduce__(self) -> tuple[type["AtAddress"], tuple[Any]]:
        return AtAddress, (self.value,)


def _words(value: Any, kind: types.Type) -> list[int]:
    """Return a value as the words of 8 bytes that numba has of it, of arrays not counted: Python keeps them."""
    if isinstance(kind, types.Array):
        return [0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides]
    if isinstance(kind, types.BaseTuple):
        return [word for part, its in zip(value, kind.types, strict=True) for word in _words(part, its)]
    if isinstance(kind, FunctionTable):
        return [_bits(part) if isinstance(part, float) else part for part in value.held_by_kernels]
    if isinstance(kind, Stored):
        return [value.address]
    if kind == types.float64:
        return [_bits(value)]
    if kind == types.int64:
        return [int(value)]
    raise TypeError(f"data of a kernel may be numbers of 8 bytes, arrays and tuples of them, and this is {kind}")


def _bits(value: float) -> int:
    return int(np.float64(value).view(np.int64))


def at_address(value: T) -> T:
    """Return a value that kernels take by its address: see `AtAddress`."""
    return cast(T, AtAddress(value))


@typeof_impl.register(AtAddress)
def _type_in_memory(value: AtAddress, _context: Any) -> Stored:
    return value.type


@unbox(Stored)
def _unbox_address(_type: Stored, value: Any, c: Any) -> NativeValue:
    address = c.pyapi.object_getattr_string(value, "address")
    failed = cgutils.is_null(c.builder, address)
    pointer = cgutils.alloca_once_value(c.builder, ir.Constant(cgutils.intp_t, 0))
    with c.builder.if_then(c.builder.not_(failed), likely=True):
        c.builder.store(c.pyapi.long_as_longlong(address), pointer)
        c.pyapi.decref(address)
    return NativeValue(c.builder.load(pointer), is_error=failed)


@infer_getattr
class _StoredFields(AttributeTemplate):
    key = Stored

    def generic_resolve(self, stored: Stored, name: str) -> Any:
        """Return the type of a field, a named tuple's again of what stays in memory; None if there is none."""
        if not isinstance(stored.held, types.BaseNamedTuple) or name not in stored.held.fields:
            return None
        kind = stored.held.types[stored.held.fields.index(name)]
        return Stored(kind) if isinstance(kind, types.BaseNamedTuple) else kind


@lower_getattr_generic(Stored)
def _read_field(context: Any, builder: Any, stored: Stored, value: Any, name: str) -> Any:
    place = stored.held.fields.index(name)
    pointer = builder.inttoptr(value, context.get_value_type(stored.held).as_pointer())
    at = cgutils.gep_inbounds(builder, pointer, 0, place)
    kind = stored.held.types[place]
    nested = isinstance(kind, types.BaseNamedTuple)
    return builder.ptrtoint(at, cgutils.intp_t) if nested else _read(context, builder, kind, at)


def _read(context: Any, builder: Any, kind: types.Type, at: Any) -> Any:
    """Return what stands at a pointer; nothing changes it, so that loops need not read it again."""
    if isinstance(kind, types.Array):  # its memory counts no references: constants, so that nothing counts them
        array, model = context.make_array(kind)(context, builder), context.data_model_manager[kind]
        for name in ("nitems", "itemsize", "data", "shape", "strides"):
            part = cgutils.gep_inbounds(builder, at, 0, model.get_field_position(name))
            setattr(array, name, _load(builder, part))
        array.meminfo, array.parent = (
            cgutils.get_null_value(getattr(array, each).type) for each in ("meminfo", "parent")
        )
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        parts = [cgutils.gep_inbounds(builder, at, 0, place) for place in range(len(kind))]
        values = [_read(context, builder, its, part) for its, part in zip(kind.types, parts, strict=True)]
        return context.make_tuple(builder, kind, values)
    return _load(builder, at)


def _load(builder: Any, at: Any) -> Any:
    kind = at.type.pointee
    if isinstance(kind, ir.Aggregate):
        made = ir.Constant(kind, ir.Undefined)
        for place in range(len(kind)):
            made = builder.insert_value(made, _load(builder, cgutils.gep_inbounds(builder, at, 0, place)), place)
        return made
    value = builder.load(at)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


class _Addresses(NamedTuple):
    function: int
    data: int


@dataclass(frozen=True, eq=False)
class StoredDensity:
    """A compiled density of x and its data, at addresses, so that kernels are compiled once for all densities.

    Kernels have it, as a field of their own data, as the named tuple of `function` and `data`.
    """

    function: int
    data: int
    held: AtAddress  # alive as long as kernels may read it

    @classmethod
    def of(cls, kernel: Any, data: Any) -> "StoredDensity":
        """Return a density by its kernel, (x, gradient, data) -> float, and its data, a named tuple."""
        held = data if isinstance(data, AtAddress) else AtAddress(data)
        compiled = kernel.get_compile_result(types.float64(VECTOR, VECTOR, held.type))
        function = compiled.library.get_pointer_to_function(compiled.fndesc.mangled_name)
        return cls(int(function), held.address, held)

    def __iter__(self) -> Iterator[int]:
        return iter((self.function, self.data))

    def __reduce__(self) -> Any:
        raise TypeError("addresses hold in this process alone: make the density anew")


@typeof_impl.register(StoredDensity)
def _type_of_density(_value: StoredDensity, _context: Any) -> types.Type:
    return types.NamedUniTuple(types.int64, 2, _Addresses)


@intrinsic
def evaluate_stored(_context, function, data, x, gradient):  # type: ignore[no-untyped-def]
    """Return the log density at x and write its gradient, given the addresses of a `StoredDensity`."""
    if any((each.dtype, each.ndim, each.layout) != (VECTOR.dtype, 1, "C") for each in (x, gradient)):
        raise TypingError(f"a density takes contiguous arrays of float64, and here is called with {x} and {gradient}")
    called = types.float64(VECTOR, VECTOR, data)

    def write(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return _call_address(context, builder, values[0], called, [*values[2:], values[1]])

    return types.float64(function, data, x, gradient), write


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
