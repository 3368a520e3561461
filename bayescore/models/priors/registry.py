"""The priors that there are, by the name of their class, and the checks that each of them passes."""

from collections.abc import Callable
from typing import Any, TypeVar

from bayescore.models.priors.prior import Prior

PRIORS: dict[str, type[Prior]] = {}
COMPILED = ("terms", "each")  # what kernels call

P = TypeVar("P", bound=Prior)


def register(kind: type[P]) -> type[P]:
    """Make a class of priors known in this process, and return it: a decorator.

    Parameters
    ----------
    kind : class
        A frozen dataclass derived from `Prior` or `Independent`, which say what it must have.

    Returns
    -------
    class
        The same.

    Raises
    ------
    TypeError
        If it is not a frozen dataclass derived from `Prior`, or lacks compiled functions.
    ValueError
        If another class of this name is registered.

    Notes
    -----
    Other processes, such as workers of Dask, must import the module that registers it.

    Examples
    --------
    >>> from bayescore.models.priors import Normal, register
    >>> register(Normal) is Normal  # again: that changes nothing
    True
    """
    if not (isinstance(kind, type) and issubclass(kind, Prior)):
        raise TypeError(f"kind={kind!r} is not a class of priors; derive it from bayescore.models.priors.Prior")
    name = kind.__name__
    if not getattr(getattr(kind, "__dataclass_params__", None), "frozen", False):
        raise TypeError(f"prior {name} is not a frozen dataclass; decorate it with @dataclass(frozen=True)")
    for function in ("terms", *(["each"] if hasattr(kind, "each") else [])) if kind.closed_form else ():
        if not hasattr(getattr(kind, function, None), "py_func"):
            raise TypeError(f"prior {name} lacks the compiled function {function}; see bayescore.models.priors.Prior")
    if PRIORS.get(name, kind) is not kind:
        raise ValueError(f"prior {name} is registered already, as {PRIORS[name]!r}; choose another name")
    PRIORS[name] = kind
    return kind


def names(suits: Callable[[type[Prior]], bool] = lambda kind: True) -> str:  # noqa: ARG005
    """Return the names of the registered priors that suit, for a message."""
    return ", ".join(name for name, kind in PRIORS.items() if suits(kind))


def check_prior(prior: Any) -> Prior:
    """Return `prior` if its class is registered."""
    if not isinstance(prior, Prior):
        raise TypeError(f"prior={prior!r} is not a prior of bayescore; use one of {names()}")
    if PRIORS.get(type(prior).__name__) is not type(prior):
        raise TypeError(f"prior={prior!r} is not registered; call bayescore.priors.register({type(prior).__name__})")
    return prior


def check_density(prior: Prior, purpose: str) -> Prior:
    """Return `prior` if its density has a closed form, which `purpose` needs."""
    if not prior.closed_form:
        raise ValueError(f"{purpose} needs a prior with a density in closed form; {prior} has none: use sampler='nuts'")
    return prior
