r"""Families: the distribution of a row's response given its linear predictor, and what adds one of your own.

The families of bayescore: one file each, and its place in one line below.

========  ======================  ==================================  =====================
family    log p(eta)              score s                             curvature c = -log p''
========  ======================  ==================================  =====================
logistic  -log(1 + exp(-eta))     1 / (1 + exp(eta))                  s (1 - s)
probit    log Phi(eta)            phi(eta) / Phi(eta)                 s (s + eta)
========  ======================  ==================================  =====================

of the label +1; of -1 those of -eta. The two sides of `cloglog` and `loglog`, of `poisson`, `truncated_poisson` and
`negative_binomial`, whose responses are counts, of `gamma`, whose are positive numbers, and of `weibull`, whose are
times, differ; their files have both. Those of `normal` and `student_t`, whose responses are numbers, are one. A file
holds all that the project needs of its family: see `Family`.
"""

from bayescore.compiled import let_kernels_call
from bayescore.families.cloglog import Cloglog, Loglog
from bayescore.families.family import (
    COMPILED,
    FAMILIES,
    SIZED,
    Family,
    Sized,
    Symmetric,
    Varying,
    check_family,
    register,
)
from bayescore.families.gamma import Gamma
from bayescore.families.logistic import Logistic
from bayescore.families.negative_binomial import NegativeBinomial
from bayescore.families.normal import Gaussian
from bayescore.families.poisson import Poisson
from bayescore.families.probit import Probit
from bayescore.families.student_t import StudentT
from bayescore.families.truncated_poisson import TruncatedPoisson
from bayescore.families.weibull import Weibull

__all__ = [
    "Cloglog",
    "Family",
    "Gamma",
    "Gaussian",
    "Logistic",
    "Loglog",
    "NegativeBinomial",
    "Poisson",
    "Probit",
    "Sized",
    "StudentT",
    "Symmetric",
    "TruncatedPoisson",
    "Varying",
    "Weibull",
    "register",
]


let_kernels_call(Family, FAMILIES, COMPILED, check_family, sized=Sized)


# without the checks of `register`, which tests make: they would compile kernels at each first import
_NAMED = (Logistic(), Probit(), Cloglog(), Loglog(), Poisson(), TruncatedPoisson())
FAMILIES.update((family.name, family) for family in _NAMED)


SIZED.update((kind.kind, kind) for kind in (NegativeBinomial, Gamma, Weibull, Gaussian, StudentT))
