"""`METHODS`: every method of `build_coreset` by its name; methods from a name and options, and as JSON."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from bayescore.coresets.auto import Auto
from bayescore.coresets.merge_reduce import MergeReduce
from bayescore.coresets.method import Method
from bayescore.coresets.single import SINGLE
from bayescore.models.priors import Prior, given_from_dict, given_to_dict
from bayescore.validation import check_choice

METHODS: dict[str, type[Method]] = {"auto": Auto, **SINGLE, "merge_reduce": MergeReduce}


def listed() -> str:
    """Return the methods with the first line of their documentation, as a list of reStructuredText."""
    lines = ((name, kind, (kind.__doc__ or "").partition("\n")[0]) for name, kind in METHODS.items())
    return "\n".join(f"- ``{name!r}``, `{kind.__name__}`: {line}" for name, kind, line in lines)


def method_of(method: str | Method, options: Mapping[str, Any]) -> Method:
    """Return a method; a name is looked up, and takes the options. Raise if there is no such method or option."""
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


def method_to_dict(method: Method) -> dict[str, Any]:
    """Return name and options of a method as JSON values; raise `TypeError` if one of them cannot be written."""
    if METHODS.get(method.name) is not type(method):
        raise TypeError(f"{method!r} is not registered: a checkpoint could not be read back")
    options: dict[str, Any] = {}
    for name, value in method.given.items():
        if isinstance(value, Method):
            options[name] = {"method": method_to_dict(value)}
        elif isinstance(value, Prior | Mapping):
            options[name] = {"prior": given_to_dict(value)}
        elif isinstance(value, int | float | str | tuple | list):
            options[name] = value
        else:
            raise TypeError(f"{method.described}: a checkpoint cannot hold {name}; give an array or a word for it")
    return {"name": method.name, "options": options}


def method_from_dict(stored: Mapping[str, Any]) -> Method:
    """Return the method of `method_to_dict`; what does not fit raises one of many errors."""

    def option(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return method_from_dict(value["method"]) if "method" in value else given_from_dict(value["prior"])

    return method_of(stored["name"], {name: option(value) for name, value in stored["options"].items()})
