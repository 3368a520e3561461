r"""The families of bayescore: one file each, and its place in one line below.

========  ======================  ==================================  =====================
family    log p(eta)              score s                             curvature c = -log p''
========  ======================  ==================================  =====================
logistic  -log(1 + exp(-eta))     1 / (1 + exp(eta))                  s (1 - s)
probit    log Phi(eta)            phi(eta) / Phi(eta)                 s (s + eta)
========  ======================  ==================================  =====================

of the label +1; of -1 those of -eta. The two sides of `cloglog`, and of `poisson` and `negative_binomial`, whose
responses are counts, differ; their files have both. Those of `normal`, whose responses are numbers, are one. A file
holds all that the project needs of its family: see `Family`.
"""

from typing import Any

from bayescore.models.dispatch import teach
from bayescore.models.families.cloglog import Cloglog
from bayescore.models.families.family import Family, Sized, Symmetric
from bayescore.models.families.logistic import Logistic
from bayescore.models.families.negative_binomial import NegativeBinomial
from bayescore.models.families.normal import Normal
from bayescore.models.families.poisson import Poisson
from bayescore.models.families.probit import Probit
from bayescore.models.families.registry import (
    COMPILED,
    FAMILIES,
    SIZED,
    check_exposure,
    check_family,
    find_family,
    known_names,
    register,
)


def _own(family: Family) -> tuple[str, Any]:
    known = check_family(family)
    return (known.kind, type(known)) if isinstance(known, Sized) else (known.name, known)


teach(Family, FAMILIES, COMPILED, _own, sized=SIZED)
# without the checks of `register`, which tests make: they would compile kernels at each first import
FAMILIES.update((family.name, family) for family in (Logistic(), Probit(), Cloglog(), Poisson()))
SIZED.update((kind.kind, kind) for kind in (NegativeBinomial, Normal))

__all__ = [
    "FAMILIES",
    "SIZED",
    "Family",
    "Sized",
    "Symmetric",
    "check_exposure",
    "check_family",
    "find_family",
    "known_names",
    "register",
]
