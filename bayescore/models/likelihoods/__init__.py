r"""The likelihoods of bayescore: one file each, and one line below that registers it.

========  ======================  ==================================  =====================
link      log p(eta)              score s                             curvature c = -log p''
========  ======================  ==================================  =====================
logistic  -log(1 + exp(-eta))     1 / (1 + exp(eta))                  s (1 - s)
probit    log Phi(eta)            phi(eta) / Phi(eta)                 s (s + eta)
========  ======================  ==================================  =====================

with eta = y (x . beta). A file holds all that the project needs of its likelihood, see `bayescore.types.Likelihood`.
"""

from bayescore.models.dispatch import teach
from bayescore.models.likelihoods.logistic import Logistic
from bayescore.models.likelihoods.probit import Probit
from bayescore.models.likelihoods.registry import COMPILED, LIKELIHOODS, check_likelihood, register
from bayescore.types import Likelihood

teach(Likelihood, LIKELIHOODS, COMPILED, lambda link: (check_likelihood(link).name, link))
register(Logistic())
register(Probit())

__all__ = ["LIKELIHOODS", "check_likelihood", "register"]
