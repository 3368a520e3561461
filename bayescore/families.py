"""Families: the distribution of a row's response given its linear predictor, and what adds one of your own."""

from bayescore.models.families import Family, Sized, Symmetric, register
from bayescore.models.families.cloglog import Cloglog
from bayescore.models.families.logistic import Logistic
from bayescore.models.families.negative_binomial import NegativeBinomial
from bayescore.models.families.normal import Normal
from bayescore.models.families.poisson import Poisson
from bayescore.models.families.probit import Probit

__all__ = [
    "Cloglog",
    "Family",
    "Logistic",
    "NegativeBinomial",
    "Normal",
    "Poisson",
    "Probit",
    "Sized",
    "Symmetric",
    "register",
]
