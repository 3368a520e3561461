"""Priors of the sd of group effects: half Student t and half normal, as brms, rstanarm and bambi have them.

The sd is sampled as log sigma, whose density is that of sigma times sigma.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, cast

from bayescore.compiled import jit
from bayescore.validation import check_positive


class GroupPrior:
    """A prior of the sd of group effects, as a frozen dataclass of positive parameters."""

    nu: float
    sigma: float

    def __post_init__(self) -> None:
        for name, value in self.parameters().items():
            object.__setattr__(self, name, check_positive(value, f"group_prior: {name}"))

    def parameters(self) -> dict[str, float]:
        """Return the parameters by name."""
        return asdict(cast(Any, self))

    @property
    def table(self) -> tuple[float, float]:
        """Degrees of freedom and scale, as `log_sigma_terms` takes them."""
        return self.nu, self.sigma


@dataclass(frozen=True)
class HalfStudentT(GroupPrior):
    """Student t of location 0, cut at 0, with `nu` degrees of freedom and scale `sigma`: brms's default (3, 2.5).

    Parameters
    ----------
    nu : float, default 3
        Degrees of freedom, positive.
    sigma : float, default 2.5
        Scale, positive, in units of the effects.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a positive number.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.priors.HalfStudentT(sigma=0.5)
    HalfStudentT(nu=3.0, sigma=0.5)
    """

    nu: float = 3.0
    sigma: float = 2.5


@dataclass(frozen=True)
class HalfNormal(GroupPrior):
    """Normal of mean 0, cut at 0, with standard deviation `sigma` before it is cut.

    Parameters
    ----------
    sigma : float, default 1
        Standard deviation before the cut, positive, in units of the effects.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a positive number.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.priors.HalfNormal(sigma=0.5)
    HalfNormal(sigma=0.5)
    """

    sigma: float = 1.0
    nu = math.inf


GROUP_PRIORS: dict[str, type[GroupPrior]] = {"HalfStudentT": HalfStudentT, "HalfNormal": HalfNormal}
DEFAULT_GROUP_PRIOR = HalfStudentT()
LKJ_ETA = 2.0
"""Of the prior of correlations, proportional to det(R)^(eta - 1): weakly against those near 1."""


@jit
def log_sigma_terms(log_sigma: float, nu: float, scale: float) -> tuple[float, float, float]:
    """Return the log density of log sigma, its derivative, and minus its second derivative."""
    square = math.exp(2.0 * (log_sigma - math.log(scale)))
    if nu == math.inf:
        constant = 0.5 * math.log(2.0 / math.pi) - math.log(scale)
        return constant + log_sigma - 0.5 * square, 1.0 - square, 2.0 * square
    constant = math.log(2.0) + math.lgamma(0.5 * (nu + 1.0)) - math.lgamma(0.5 * nu)
    constant -= 0.5 * math.log(nu * math.pi) + math.log(scale)
    value = constant + log_sigma - 0.5 * (nu + 1.0) * math.log1p(square / nu)
    share = square / (nu + square)
    return value, 1.0 - (nu + 1.0) * share, 2.0 * (nu + 1.0) * share * (1.0 - share)


def check_group_prior(prior: Any) -> GroupPrior:
    """Return a prior of the sd of group effects; by default `HalfStudentT(3, 2.5)`."""
    if prior is None:
        return DEFAULT_GROUP_PRIOR
    if not isinstance(prior, GroupPrior):
        raise TypeError(f"group_prior={prior!r} is no prior of a group sd; use HalfStudentT or HalfNormal")
    return prior


def group_prior_to_dict(prior: GroupPrior) -> dict[str, Any]:
    """Return class and parameters as plain JSON values."""
    return {"kind": type(prior).__name__, **prior.parameters()}


def group_prior_from_dict(stored: dict[str, Any]) -> GroupPrior:
    """Return the prior that `group_prior_to_dict` stored."""
    return GROUP_PRIORS[stored["kind"]](**{name: float(value) for name, value in stored.items() if name != "kind"})
