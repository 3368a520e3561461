"""How compiled code calls a family or a prior that it gets as an argument.

A kernel takes the object itself and calls ``family.rows(eta, side, log_p)`` and the like. The numba type of the object
is its name and a digest of its source. So numba compiles each kernel once for each object, without branches, and keeps
machine code on the disk; an object whose file has changed has another type. All processes read the index of that code,
also those that do not know some user's object: hence the type holds text only, and compiling looks the functions up
among the registered objects. An object that is not registered has no numba type: the call raises.
"""

import linecache
from collections.abc import Callable, Mapping
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

_KINDS: dict[str, tuple[Mapping[str, Any], tuple[str, ...]]] = {}
"""Registered objects by name, and the names of their compiled functions."""


class CompiledArgument(types.Type):
    """The numba type of one family or prior."""

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
    _KINDS[kind.__name__] = known, functions

    @typeof_impl.register(kind)
    def _type_of(value: Any, _context: Any) -> CompiledArgument:
        return _type(kind.__name__, *own(value))


@cache
def _type(kind: str, name: str, owner: Any) -> CompiledArgument:
    held = [getattr(owner, function) for function in _KINDS[kind][1] if hasattr(owner, function)]
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
        known, functions = _KINDS[argument.kind]
        return types.Dispatcher(getattr(known[argument.name_of_own], name)) if name in functions else None


@lower_getattr_generic(CompiledArgument)
def _get(context: Any, _builder: Any, _type: CompiledArgument, _value: Any, _name: str) -> Any:
    return context.get_dummy_value()
