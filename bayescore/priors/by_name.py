"""Priors by the names of coefficients.

A name is that of a coefficient, or of a term: "device" is every "device[phone]", "age:device" every
"age:device[phone]". "Intercept" is the intercept of a formula and of ``intercept=True``. "*" are all coefficients
without a prior of their own: they have the default one unless the dict has another.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from bayescore.data.design import LINEAR, Design
from bayescore.priors.normal import Normal
from bayescore.priors.prior import OF_DESIGN, PRIORS, Independent, Part, Prior, check_prior
from bayescore.priors.prior import names as known_names
from bayescore.text import listed
from bayescore.types import FloatArray

DEFAULT = Normal(0.0, 4.0)
OTHERS = "*"
_LEVEL = re.compile(r"\[[^\]]*\]")


@dataclass(frozen=True, repr=False)
class ByName(Independent):
    """Priors of named coefficients, as `prior_of` makes them of a dict."""

    priors: tuple[tuple[str, Prior], ...]  # names and their priors, the one of all others last
    which: tuple[int, ...]  # the place of each coefficient's prior among them

    of_design = True

    def __post_init__(self) -> None:
        each = [prior for _, prior in self.priors]
        for fact in ("unimodal", "gaussian", "finite_variance"):
            object.__setattr__(self, fact, all(getattr(prior, fact) for prior in each))
        for fact in ("kinked", "long_tails"):
            object.__setattr__(self, fact, any(getattr(prior, fact) for prior in each))

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: {prior}" for name, prior in self.priors) + "}"

    def table(self, n_features: int) -> FloatArray:
        """Raise: there is a table of each part."""
        raise NotImplementedError

    def parts(self, n_features: int) -> tuple[Part, ...]:
        """Return the classes of prior among the coefficients, each with the coefficients that have it."""
        if len(self.which) != n_features:
            raise ValueError(
                f"prior: {self} was made for {len(self.which)} coefficients, and there are {n_features}; give the dict"
            )
        each: dict[type[Prior], list[tuple[int, Prior]]] = {}
        for d, k in enumerate(self.which):
            prior = self.priors[k][1]
            each.setdefault(type(prior), []).append((d, prior))
        return tuple(
            (
                priors_of_part[0][1],
                np.array([d for d, _ in priors_of_part]),
                np.hstack([prior.table(1) for _, prior in priors_of_part]),
            )
            for priors_of_part in each.values()
        )

    def smoothed(self) -> "ByName":
        """Return the priors with their kinks rounded off."""
        return replace(self, priors=tuple((name, prior.smoothed()) for name, prior in self.priors))

    def covering(self) -> "ByName":
        """Return priors of one mode that are as wide."""
        return replace(self, priors=tuple((name, prior.covering()) for name, prior in self.priors))

    def distribution(self, n_features: int) -> tuple[Any, dict[str, Any]]:
        """Return the distribution of coefficients that are drawn run by run and joined."""
        import pymc as pm
        import pytensor.tensor as pt

        self.parts(n_features)  # the number of coefficients

        def joined(size: Any) -> Any:  # noqa: ARG001 - PyMC's signature
            runs = [(self.priors[k][1], len(list(run))) for k, run in groupby(self.which)]
            each = [(*prior.distribution(length), length) for prior, length in runs]
            return pt.concatenate([kind.dist(shape=length, **parameters) for kind, parameters, length in each])

        # PyMC finds no starting point of a mixture that is joined to others
        start = {} if self.unimodal else {"support_point": lambda rv, size: pt.zeros(n_features)}  # noqa: ARG005
        return pm.CustomDist, {"dist": joined, **start}

    @property
    def unnamed(self) -> list[int]:
        """Coefficients that no name is of."""
        return [d for d, place in enumerate(self.which) if self.priors[place][0] == OTHERS]

    def of_coefficient(self, d: int, name: str, n_features: int) -> Prior:
        """Return the prior of a coefficient."""
        return self.priors[self.which[d]][1]

    def to_dict(self) -> dict[str, Any]:
        """Return names, priors and places as plain JSON values."""
        each = [[name, prior.to_dict()] for name, prior in self.priors]
        return {"kind": ByName.__name__, "priors": each, "which": list(self.which)}


def check_unnamed(given: Any, design: Design) -> None:
    """Raise if a prior by names names a smooth term, or one of its bends, whose prior has an sd of its own."""
    for term in design.smooths if isinstance(given, Mapping) else ():
        line = f"{term}[{LINEAR}]"
        for name in given:
            whole = str(name) in (term, _LEVEL.sub("", term))
            if whole or (str(name).startswith(f"{term}[") and name != line):
                raise ValueError(
                    f"prior: {name!r} has coefficients of one sd, sigma_{term}, whose prior is group_prior=; leave it "
                    f"out, or give one of {line!r}, the straight part"
                )


def needs_default(given: Any) -> bool:
    """Return whether a prior, as users give it, leaves coefficients that need the default one."""
    return given is None or (isinstance(given, Mapping) and OTHERS not in given)


def prior_of(given: Any, names: Sequence[str]) -> Prior:
    """Return the prior of coefficients with these names, Normal(0, 4) where none is given: see `groups.complete_prior`.

    >>> from bayescore.priors import StudentT
    >>> prior_of({"Intercept": StudentT(3, 0, 2.5)}, ["Intercept", "age"])
    {'Intercept': StudentT(nu=3, mu=0, sigma=2.5), '*': Normal(mu=0.0, sigma=4.0)}
    """
    if given is None:
        return DEFAULT
    if not isinstance(given, Mapping):
        return given if isinstance(given, Prior) and given.of_design else check_prior(given)
    prior_of_name = {str(name): _check_one(str(name), prior) for name, prior in given.items()}
    prior_of_name[OTHERS] = prior_of_name.pop(OTHERS, DEFAULT)  # last, wherever it stood
    order, which = list(prior_of_name), [len(prior_of_name) - 1] * len(names)
    called = [(name, _LEVEL.sub("", name)) for name in names]
    for d, each in enumerate(called):  # a coefficient's own name counts first
        which[d] = next((order.index(name) for name in each if name in prior_of_name), which[d])
    all_names = {name for each in called for name in each}
    unknown = [name for name in order[:-1] if name not in all_names]
    if unknown:
        raise ValueError(
            f"prior: {unknown[0]!r} is no coefficient; they are {listed(names, 10)}. A term's name stands for all "
            f"of its coefficients, {OTHERS!r} for those not named"
        )
    return ByName(tuple(prior_of_name.items()), tuple(which))


def _check_one(name: str, given: Any) -> Prior:
    simple = known_names(lambda kind: issubclass(kind, Independent))
    try:
        prior = check_prior(given)
    except TypeError:
        raise TypeError(f"prior[{name!r}]={given!r} is not a prior of bayescore; use one of {simple}") from None
    if not isinstance(prior, Independent) or isinstance(prior, ByName):
        raise ValueError(f"prior[{name!r}] is {prior}, a prior of all coefficients; by name give {simple}")
    if any(np.ndim(value) for value in prior.parameters().values()):
        raise ValueError(f"prior[{name!r}] is {prior}; by name give numbers, a prior for each name")
    return prior


def given_to_dict(prior: Prior | Mapping[str, Prior]) -> dict[str, Any]:
    """Return a prior as users give it, one or by name, as plain JSON values."""
    if isinstance(prior, Mapping):
        return {"by_name": {str(name): value.to_dict() for name, value in prior.items()}}
    return prior.to_dict()


def given_from_dict(stored: Mapping[str, Any]) -> Prior | dict[str, Prior]:
    """Return the prior of `given_to_dict`."""
    if "by_name" in stored:
        return {name: prior_from_dict(stored_prior) for name, stored_prior in stored["by_name"].items()}
    return prior_from_dict(stored)


def prior_from_dict(stored: Mapping[str, Any]) -> Prior:
    """Return the prior that `Prior.to_dict` wrote; raise ValueError if its class is not registered."""
    kind = stored.get("kind")
    if kind == ByName.__name__:
        each = tuple((str(name), prior_from_dict(part)) for name, part in stored["priors"])
        return ByName(each, tuple(int(place) for place in stored["which"]))
    if kind in OF_DESIGN:
        return OF_DESIGN[kind](stored)
    if kind not in PRIORS:
        raise ValueError(f"prior {kind!r} is unknown; one of {known_names()} was expected")
    return PRIORS[kind](**{name: value for name, value in stored.items() if name != "kind"})
