"""How compiled code calls a likelihood or a prior that it gets as an argument.

A kernel takes the object itself and calls ``family.rows(eta, log_p)`` and the like. Its numba type is its name and a
digest of its source, so that numba compiles each kernel once for each object that it meets, with no branch left inside,
and keeps the machine code on the disk; an object whose file has changed is another type. The index of that code is read
by all processes, also those that know nothing of some user's object: hence the type holds text only, and the functions
are looked up among the registered objects when something is compiled.

An object that is not registered has no numba type: the call raises.
"""

import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from numba import types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)


@dataclass(frozen=True)
class _Kind:
    """Registered objects by name, and the names of their compiled functions."""

    known: Mapping[str, Any]
    functions: tuple[str, ...]


_KINDS: dict[str, _Kind] = {}


class CompiledArgument(types.Type):
    """The numba type of one likelihood or prior."""

    def __init__(self, kind: str, name: str, digest: str) -> None:
        self.kind, self.name_of_own = kind, name
        super().__init__(f"{kind}({name}, {digest})")


register_model(CompiledArgument)(models.OpaqueModel)


def teach(
    kind: type, known: Mapping[str, Any], functions: tuple[str, ...], own: Callable[[Any], tuple[str, Any]]
) -> None:
    """Let kernels take instances of `kind` and call those of its compiled `functions` that it has.

    `own` returns the name of an object among the `known` ones, and what holds its functions; it raises if the object
    is not registered.
    """
    _KINDS[kind.__name__] = _Kind(known, functions)

    @typeof_impl.register(kind)
    def _type_of(value: Any, _context: Any) -> CompiledArgument:
        return _type(kind.__name__, *own(value))


@cache
def _type(kind: str, name: str, owner: Any) -> CompiledArgument:
    held = [getattr(owner, function) for function in _KINDS[kind].functions if hasattr(owner, function)]
    return CompiledArgument(kind, name, digest(function.py_func for function in held))


def digest(functions: Any) -> str:
    """Return a digest of the files that hold `functions`, and of their code."""
    codes = [function.__code__ for function in functions]
    lines = [line for file in sorted({code.co_filename for code in codes}) for line in linecache.getlines(file)]
    return sha256("".join([*lines, *(code.co_code.hex() for code in codes)]).encode()).hexdigest()[:16]


@unbox(CompiledArgument)
def _unbox(_type: CompiledArgument, _value: Any, context: Any) -> NativeValue:
    return NativeValue(context.context.get_dummy_value())


@infer_getattr
class _Functions(AttributeTemplate):
    key = CompiledArgument

    def generic_resolve(self, argument: CompiledArgument, name: str) -> Any:
        """Return the type of a compiled function; None if there is none of that name."""
        kind = _KINDS[argument.kind]
        return types.Dispatcher(getattr(kind.known[argument.name_of_own], name)) if name in kind.functions else None


@lower_getattr_generic(CompiledArgument)
def _get(context: Any, _builder: Any, _type: CompiledArgument, _value: Any, _name: str) -> Any:
    return context.get_dummy_value()
