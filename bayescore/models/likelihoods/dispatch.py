"""How compiled code calls a likelihood: the one dispatch on the link.

A kernel takes the likelihood itself as an argument and calls ``link.rows(eta, log_p)`` and the like. Its numba type is
its name and a digest of its source, so that numba compiles each kernel once for each likelihood that it meets, with no
branch left inside, and keeps the machine code on the disk; a likelihood whose file has changed is another type. The
index of that code is read by all processes, also those that know nothing of some user's link: hence the type holds
text only, and what it calls is looked up in the registry when something is compiled.

Whoever is not registered is no type of numba's either: the call raises.
"""

import linecache
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

from bayescore.models.likelihoods.registry import COMPILED, LIKELIHOODS, check_likelihood
from bayescore.types import Likelihood


def _digest(likelihood: Likelihood) -> str:
    """Return a digest of the files that hold the compiled functions of `likelihood`."""
    codes = [getattr(likelihood, name).py_func.__code__ for name in COMPILED]
    lines = [line for file in sorted({code.co_filename for code in codes}) for line in linecache.getlines(file)]
    return sha256("".join([*lines, *(code.co_code.hex() for code in codes)]).encode()).hexdigest()[:16]


class LinkType(types.Type):
    """The numba type of one likelihood."""

    def __init__(self, likelihood: str, digest: str) -> None:
        self.likelihood = likelihood
        super().__init__(f"Likelihood({likelihood}, {digest})")


register_model(LinkType)(models.OpaqueModel)


@cache
def _link_type(likelihood: Likelihood) -> LinkType:
    return LinkType(likelihood.name, _digest(likelihood))


@typeof_impl.register(Likelihood)
def _type_of(likelihood: Likelihood, _context: Any) -> LinkType:
    return _link_type(check_likelihood(likelihood))


@unbox(LinkType)
def _unbox(_type: LinkType, _value: Any, context: Any) -> NativeValue:
    return NativeValue(context.context.get_dummy_value())


@infer_getattr
class _Functions(AttributeTemplate):
    key = LinkType

    def generic_resolve(self, link: LinkType, name: str) -> Any:
        """Return the type of a compiled function of the likelihood; None if it has none of that name."""
        return types.Dispatcher(getattr(LIKELIHOODS[link.likelihood], name)) if name in COMPILED else None


@lower_getattr_generic(LinkType)
def _get(context: Any, _builder: Any, _type: LinkType, _value: Any, _name: str) -> Any:
    return context.get_dummy_value()
