"""`METHODS`: every method of `build_coreset` by its name, and how a name and options become one."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from bayescore.coresets.auto import Auto
from bayescore.coresets.merge_reduce import MergeReduce
from bayescore.coresets.method import Method
from bayescore.coresets.single import SINGLE
from bayescore.validation import check_choice

METHODS: dict[str, type[Method]] = {"auto": Auto, **SINGLE, "merge_reduce": MergeReduce}


def method_of(method: str | Method, options: Mapping[str, Any]) -> Method:
    """Return a method; a name is looked up, and takes the options.

    Raises
    ------
    ValueError
        If the name is unknown, or an option is out of range.
    TypeError
        If the method has no such option, or options are given beside a method that has its own.
    """
    if isinstance(method, Method):
        if options:
            raise TypeError(f"{next(iter(options))!r} is given beside method={method!r}; give it there")
        return method
    kind = METHODS[check_choice(method, "method", METHODS)]
    known = [field.name for field in fields(kind)]
    for name in options:
        if name not in known:
            takes = ", ".join(known) or "no options"
            raise TypeError(f"{name!r} is not an option of method={method!r}, which takes {takes}")
    return kind(**options)


def check_once(method: Method, standardize: bool) -> None:
    """Raise `ValueError` if a method, or standardising, needs rows more than once that come once."""
    if not method.one_pass or standardize:
        asked = "standardize=True" if method.one_pass else f"method={method.name!r}"
        fit = ", ".join(repr(name) for name, kind in METHODS.items() if kind.one_pass)
        raise ValueError(
            f"{asked} reads the rows more than once, and an iterator gives them once: the methods {fit} fit, with "
            "standardize=False; or give a callable that returns a fresh iterator each time, or a Parquet file"
        )
