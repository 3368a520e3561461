r"""The families of bayescore: one file each, and its place in one line below.

========  ======================  ==================================  =====================
family    log p(eta)              score s                             curvature c = -log p''
========  ======================  ==================================  =====================
logistic  -log(1 + exp(-eta))     1 / (1 + exp(eta))                  s (1 - s)
probit    log Phi(eta)            phi(eta) / Phi(eta)                 s (s + eta)
========  ======================  ==================================  =====================

of the label +1; of -1 those of -eta. The two sides of `cloglog` and of `poisson`, whose responses are counts, differ;
their files have both. A file holds all that the
project needs of its family: see `Family`.
"""

from bayescore.models.dispatch import teach
from bayescore.models.families.cloglog import Cloglog
from bayescore.models.families.family import Family, Symmetric
from bayescore.models.families.logistic import Logistic
from bayescore.models.families.poisson import Poisson
from bayescore.models.families.probit import Probit
from bayescore.models.families.registry import COMPILED, FAMILIES, check_family, register

teach(Family, FAMILIES, COMPILED, lambda family: (check_family(family).name, family))
# without the checks of `register`, which tests make: they would compile kernels at each first import
FAMILIES.update((family.name, family) for family in (Logistic(), Probit(), Cloglog(), Poisson()))

__all__ = ["FAMILIES", "Family", "Symmetric", "check_family", "register"]
