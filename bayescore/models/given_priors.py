"""Priors as they are given and kept: by the names of coefficients, and as JSON.

A name is that of a coefficient, or of a term: with factors "device" is every "device[phone]", with interactions
"age:device" every "age:device[phone]". "Intercept" is the intercept, whether a formula made it or
``intercept=True``. "*" are all that have no prior of their own: Normal(0, 4) unless it is given too.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from bayescore.models.priors import PRIORS, ByName, Cauchy, Laplace, Normal, Prior, StudentT, check_prior

DEFAULT = Normal(0.0, 4.0)
OTHERS = "*"
_SIMPLE = (Normal, StudentT, Cauchy, Laplace)
_LEVEL = re.compile(r"\[[^\]]*\]")


def prior_of(given: Any, names: Sequence[str]) -> Prior:
    """Return the prior of coefficients with these names; by default Normal(0, 4).

    Raises
    ------
    ValueError
        If a name is that of no coefficient and no term, or a prior of a dict is not that of one coefficient.
    TypeError
        If what is given is no prior.

    Examples
    --------
    >>> from bayescore.models.priors import StudentT
    >>> prior_of({"Intercept": StudentT(3, 0, 2.5)}, ["Intercept", "age"])
    {'Intercept': StudentT(nu=3, mu=0, sigma=2.5), '*': Normal(mu=0.0, sigma=4.0)}
    """
    if given is None:
        return DEFAULT
    if not isinstance(given, Mapping):
        return check_prior(given)
    own = {str(name): _of_one(str(name), prior) for name, prior in given.items()}
    own[OTHERS] = own.pop(OTHERS, DEFAULT)  # last, wherever it stood
    order, which = list(own), [len(own) - 1] * len(names)
    called = [(name, _LEVEL.sub("", name)) for name in names]
    for d, each in enumerate(called):  # a coefficient's own name counts first
        which[d] = next((order.index(name) for name in each if name in own), which[d])
    known = {name for each in called for name in each}
    unknown = [name for name in order[:-1] if name not in known]
    if unknown:
        shown = ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
        raise ValueError(
            f"prior: {unknown[0]!r} is no coefficient; they are {shown}. A term's name stands for all of its "
            f"coefficients, {OTHERS!r} for those not named"
        )
    return ByName(tuple(own.items()), tuple(which))


def _of_one(name: str, prior: Any) -> Prior:
    if not isinstance(prior, _SIMPLE):
        names = ", ".join(kind.__name__ for kind in _SIMPLE)
        if isinstance(prior, PRIORS):
            raise ValueError(f"prior[{name!r}] is {prior}, a prior of all coefficients; by name give {names}")
        raise TypeError(f"prior[{name!r}]={prior!r} is not a prior of bayescore; use one of {names}")
    for field in fields(prior):
        if np.ndim(getattr(prior, field.name)):
            raise ValueError(f"prior[{name!r}] is {prior}; by name give numbers, a prior for each name")
    return prior


def prior_to_dict(prior: Prior) -> dict[str, Any]:
    """Return a prior's class and parameters as plain JSON values."""
    if isinstance(prior, ByName):
        each = [[name, prior_to_dict(part)] for name, part in prior.priors]
        return {"kind": ByName.__name__, "priors": each, "which": list(prior.which)}
    values = {name: np.asarray(value).tolist() for name, value in asdict(prior).items()}  # type: ignore[call-overload]
    return {"kind": type(prior).__name__, **values}


def prior_from_dict(stored: Mapping[str, Any]) -> Prior:
    """Return the prior that `prior_to_dict` told of.

    Raises
    ------
    KeyError, ValueError, TypeError
        If it is none of bayescore's, or its parameters do not fit.
    """
    if stored.get("kind") == ByName.__name__:
        each = tuple((str(name), prior_from_dict(part)) for name, part in stored["priors"])
        return ByName(each, tuple(int(place) for place in stored["which"]))
    kinds = {kind.__name__: kind for kind in PRIORS}
    parameters = {name: value for name, value in stored.items() if name != "kind"}
    if stored.get("kind") not in kinds:
        raise ValueError(f"prior {stored.get('kind')!r} is unknown; one of {', '.join(kinds)} was expected")
    prior: Prior = kinds[stored["kind"]](**parameters)
    return prior
