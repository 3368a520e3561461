"""Priors of coefficients and of the sds of groups, and what adds one of your own.

Priors of the coefficients: one file each, and one line below that registers it.

A file holds all that the project needs of its prior, see `prior.Prior`; `named` has priors by the names of
coefficients. Every parameter is a number for all coefficients or a vector with one entry for each. All but the
horseshoe have a density in closed form, which MALA, the mode and the evidence need; `Normal(0, 4)` has standard
deviation 4.
"""

from bayescore.compiled import let_kernels_call
from bayescore.priors.groups import HalfNormal, HalfStudentT
from bayescore.priors.horseshoe import Horseshoe
from bayescore.priors.laplace import Laplace
from bayescore.priors.multivariate_normal import MultivariateNormal
from bayescore.priors.normal import Normal
from bayescore.priors.prior import COMPILED, PRIORS, Independent, Prior, check_prior, register
from bayescore.priors.spike_and_slab import SpikeAndSlab
from bayescore.priors.student_t import Cauchy, StudentT

__all__ = [
    "Cauchy",
    "HalfNormal",
    "HalfStudentT",
    "Horseshoe",
    "Independent",
    "Laplace",
    "MultivariateNormal",
    "Normal",
    "Prior",
    "SpikeAndSlab",
    "StudentT",
    "register",
]


let_kernels_call(Prior, PRIORS, COMPILED, check_prior, inner=("each",))


for _kind in (Normal, MultivariateNormal, StudentT, Cauchy, Laplace, Horseshoe, SpikeAndSlab):
    register(_kind)
