"""Priors of the coefficients: one file each, and one line below that registers it.

A file holds all that the project needs of its prior, see `prior.Prior`; `named` has priors by the names of
coefficients. Every parameter is a number for all coefficients or a vector with one entry for each. All but the
horseshoe have a density in closed form, which MALA, the mode and the evidence need; `Normal(0, 4)` has standard
deviation 4.
"""

from bayescore.models.dispatch import teach
from bayescore.models.priors.horseshoe import Horseshoe
from bayescore.models.priors.laplace import Laplace
from bayescore.models.priors.multivariate_normal import MultivariateNormal
from bayescore.models.priors.named import (
    DEFAULT,
    ByName,
    given_from_dict,
    given_to_dict,
    leaves_out,
    prior_from_dict,
    prior_of,
)
from bayescore.models.priors.normal import Normal
from bayescore.models.priors.prior import Independent, Part, Prior
from bayescore.models.priors.registry import COMPILED, PRIORS, check_density, check_prior, names, register
from bayescore.models.priors.spike_and_slab import SpikeAndSlab
from bayescore.models.priors.student_t import Cauchy, StudentT

teach(Prior, PRIORS, COMPILED, lambda prior: (type(prior).__name__, type(check_prior(prior))))
for _kind in (Normal, MultivariateNormal, StudentT, Cauchy, Laplace, Horseshoe, SpikeAndSlab):
    register(_kind)

__all__ = [
    "DEFAULT",
    "PRIORS",
    "ByName",
    "Cauchy",
    "Horseshoe",
    "Independent",
    "Laplace",
    "MultivariateNormal",
    "Normal",
    "Part",
    "Prior",
    "SpikeAndSlab",
    "StudentT",
    "check_density",
    "check_prior",
    "given_from_dict",
    "given_to_dict",
    "leaves_out",
    "names",
    "prior_from_dict",
    "prior_of",
    "register",
]
