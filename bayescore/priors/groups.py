r"""Priors of the sd of group effects: half Student t and half normal, as brms, rstanarm and bambi have them.

The sd is sampled as log sigma, whose density is that of sigma times sigma.

Default priors: Normal(0, 4) of coefficients, and of numbers with normal noise those of rstanarm, in units of y.

.. math:: \beta_d \sim N(0, (2.5 \, \mathrm{sd}(y) / \mathrm{sd}(x_d))^2), \qquad
          \alpha \sim N(\bar y, (2.5 \, \mathrm{sd}(y))^2 (1 + \textstyle\sum_d \bar x_d^2 / \mathrm{sd}(x_d)^2))

\alpha is the coefficient of the column of ones; its factor is 1 where columns have the mean 0, as those that `fit`
standardises do, and covers the line's extension to 0 elsewhere. Means and sds are weighted ones over all rows, which
sums of rows tell, too. Sds of groups' effects have the prior HalfStudentT(3, 2.5 sd(y)).

Reference: Gabry and Goodrich, Prior distributions for rstanarm models (vignette of rstanarm 2.32).
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np

from bayescore.compiled import jit
from bayescore.data.coreset import Coreset, feature_names
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.priors.by_name import ByName, leaves_out, prior_of
from bayescore.priors.normal import Normal
from bayescore.priors.prior import Prior
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError, check_positive


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


DEFAULT_SCALE = 2.5
"""Sd of the default prior of a coefficient, in units of the linear predictor for one sd of its column."""


_ROUNDING = 1e-14  # share of the mean of y, below which its sd is 0


_SAME = 1e-9  # relative difference of two priors that is rounding, of another machine or of other units


def moments(rows: WeightedData) -> tuple[FloatArray, FloatArray]:
    """Return means and sds of the columns of (X, y), shape (D + 1,), of rows whose responses are numbers.

    Without a column of ones means are 0, and sds root mean squares.
    """
    values, w = np.column_stack([rows.X, _responses(rows)]), rows.weights
    constant = rows.design.constant if isinstance(rows, Coreset) else None
    total = rows.weight_total if isinstance(rows, Coreset) else w.sum()
    mean = np.zeros(values.shape[1])
    if constant is not None:
        ones = values[:, constant]
        total = w @ ones**2
        mean = (w * ones) @ values / total
        values = values - ones[:, None] * mean
        mean[constant] = values[:, constant] = 0.0
    return mean, np.sqrt(w @ values**2 / total)


def _responses(rows: WeightedData) -> FloatArray:
    """Return responses that are numbers."""
    if rows.offset is None:
        raise DataError("the rows have no offset, and those of a normal family have their responses y as -y there")
    return -rows.offset


def _varying(rows: WeightedData) -> tuple[FloatArray, FloatArray]:
    """Return `moments`; raise if responses do not vary beyond rounding, so that they give a prior no scale."""
    mean, sd = moments(rows)
    if sd[-1] <= _ROUNDING * abs(mean[-1]):
        raise DataError(does_not_vary(mean[-1]))
    return mean, sd


def does_not_vary(y: float) -> str:
    """Return what is wrong with responses that are all y."""
    return (
        f"every response is {y:g}: numbers that do not vary tell no effect; look at y, or at the filter that left "
        "these rows"
    )


def autoscaled(rows: WeightedData) -> Normal:
    """Return the default prior of the coefficients of rows whose responses are numbers."""
    mean, sd = _varying(rows)
    constant = rows.design.constant if isinstance(rows, Coreset) else None
    return on_columns(mean[:-1], sd[:-1], constant, (mean[-1], sd[-1]))


def on_columns(
    mean: FloatArray, sd: FloatArray, constant: int | None, response: tuple[float, float] = (0.0, 1.0)
) -> Normal:
    """Return the default prior given means and sds of columns, shape (D,), and of the response in units of eta."""
    columns = np.where(sd > 0.0, sd, 1.0)
    location, scale = np.zeros(len(columns)), DEFAULT_SCALE * response[1] / columns
    if constant is not None:
        far = np.where(sd > 0.0, mean / columns, 0.0)
        location[constant] = response[0]
        scale[constant] = DEFAULT_SCALE * response[1] * np.sqrt(1.0 + (far**2).sum())
    return Normal(tuple(location.tolist()), tuple(scale.tolist()))


def prior_for(given: Prior | Mapping[str, Prior] | None, rows: WeightedData, family: Family) -> Prior:
    """Return the prior of the coefficients of rows: that given, the default one of coefficients that it leaves out."""
    names = feature_names(rows)
    prior, D = prior_of(given, names), len(names)
    if not family.quadratic:
        return prior
    _ = _responses(rows)
    if not leaves_out(given):
        return prior
    rest = autoscaled(rows)
    if not isinstance(prior, ByName):
        return rest
    own = {name: prior.of_coefficient(d, name, D) for d, name in enumerate(names)}
    own |= {names[d]: rest.of_coefficient(d, names[d], D) for d in prior.unnamed}
    return prior_of(own, names)


def group_prior_for(given: Any, rows: WeightedData, family: Family) -> GroupPrior:
    """Return the prior of the sds of groups' effects: that given, or the default one."""
    if given is not None or not family.quadratic:
        return check_group_prior(given)
    return HalfStudentT(3.0, DEFAULT_SCALE * float(_varying(rows)[1][-1]))


def is_default(prior: Prior | GroupPrior | None, core: Coreset) -> bool:
    """Return whether a prior of coefficients, or of sds of effects, is the default one of a coreset of numbers."""
    if prior is None or not core.numbers:
        return False
    default = autoscaled(core) if isinstance(prior, Prior) else group_prior_for(None, core, check_family(core.family))
    own, other = prior.parameters(), default.parameters()
    return type(prior) is type(default) and all(
        np.shape(own[name]) == np.shape(value) and np.allclose(own[name], value, rtol=_SAME, atol=0.0)
        for name, value in other.items()
    )
