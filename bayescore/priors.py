"""Priors of coefficients and of the sds of groups, and what adds one of your own."""

from bayescore.models.group_priors import HalfNormal, HalfStudentT
from bayescore.models.priors import (
    Cauchy,
    Horseshoe,
    Independent,
    Laplace,
    MultivariateNormal,
    Normal,
    Prior,
    SpikeAndSlab,
    StudentT,
    register,
)

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
