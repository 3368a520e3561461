r"""Priors of the sd of group effects: half Student t and half normal, as brms, rstanarm and bambi have them.

The sd is sampled as log sigma, whose density is that of sigma times sigma.

The default prior of coefficients, of `fit`, `build_coreset`, `sample`, `model`, `find_map` and `log_evidence`:

.. math:: \beta_d \sim N(0, (2.5 \, u / s_d)^2), \qquad
          \alpha \sim N(m, (2.5 \, u)^2 (1 + \textstyle\sum_d \bar x_d^2 / s_d^2))

s_d is the sd of a column given the others. With numbers and normal noise u = sd(y) and m is y's mean, else they are 1
and 0. If columns are uncorrelated these are rstanarm's. `Design.given_others` and `Design.means` keep s_d and the
means over all rows. If a coreset is of rows that came once, its weighted rows stand for them, and where these are
pseudo-rows, which do not tell s_d, the default is Normal(0, 4).

With Student t noise `Design.response` keeps y's mean and sd.

\alpha is the coefficient of the column of ones; its factor is 1 where columns have the mean 0, as those that `fit`
standardises do, and covers the line's extension to 0 elsewhere. Means and sds are weighted ones over all rows, which
sums of rows tell, too. Sds of groups' effects, and of the noise where it is not given, have the prior HalfStudentT(3,
2.5 sd(y)), as in brms.

Reference: Gabry and Goodrich, Prior distributions for rstanarm models (vignette of rstanarm 2.32).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit, one_blas_thread
from bayescore.data.coreset import Coreset, feature_names
from bayescore.data.design import Design
from bayescore.data.passes import Comoments, comoments_of
from bayescore.data.responses import AMOUNTS, TIMES, response_of
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.priors.by_name import DEFAULT, ByName, check_unnamed, needs_default, prior_of
from bayescore.priors.normal import Normal
from bayescore.priors.prior import Prior
from bayescore.priors.smooths import Smooths, with_smooths
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


INTERCEPT_SCALES = dict.fromkeys((AMOUNTS.classes, TIMES.classes), 10.0)
"""That of the intercept, by the classes of the response, where it is another: positive numbers have any unit."""


_ROUNDING = 1e-14  # share of the mean of y, below which its sd is 0


STILL = 1e-12
"""Share of a column's mean, below which its sd is 0."""


_SAME = 1e-9  # relative difference of two priors that is rounding, of another machine or of other units


def moments_with_response(rows: WeightedData) -> tuple[FloatArray, FloatArray]:
    """Return means, shape (D + 1,), and covariance, (D + 1, D + 1), of (X, y) of rows whose responses are numbers.

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
    values *= np.sqrt(w)[:, None]
    return mean, values.T @ values / total


def _responses(rows: WeightedData) -> FloatArray:
    """Return responses that are numbers."""
    if rows.offset is None:
        raise DataError("the rows have no offset, and those of a normal family have their responses y as -y there")
    return -rows.offset


def _moments_that_vary(rows: WeightedData) -> tuple[FloatArray, FloatArray]:
    """Return `moments_with_response`; raise if responses vary only by rounding, which gives a prior no scale."""
    mean, covariance = moments_with_response(rows)
    if np.sqrt(covariance[-1, -1]) <= _ROUNDING * abs(mean[-1]):
        raise DataError(does_not_vary(mean[-1]))
    return mean, covariance


def response_moments(total: Comoments, *, constant: bool) -> tuple[float, float]:
    """Return mean and sd of responses that are numbers, without a `constant` column 0 and the root mean square.

    Raises `DataError` if they do not vary beyond rounding.
    """
    mean, variance = float(total.mean[0]), max(float(total.covariance[0, 0]), 0.0)
    sd = math.sqrt(variance if constant else variance + mean**2)
    if sd <= _ROUNDING * abs(mean):
        raise DataError(does_not_vary(mean))
    return (mean if constant else 0.0), sd


def moments_of_response(rows: WeightedData) -> tuple[float, float]:
    """Return the same of rows in memory, or of exact sums of rows."""
    mean, covariance = _moments_that_vary(rows)
    return float(mean[-1]), math.sqrt(covariance[-1, -1])


def does_not_vary(y: float) -> str:
    """Return what is wrong with responses that are all y."""
    return (
        f"every response is {y:g}: numbers that do not vary tell no effect; look at y, or at the filter that left "
        "these rows"
    )


NULL = 5e-13
"""Eigenvalue of a matrix of correlations up to which columns are combinations of others: float32 leaves about 2e-13."""


_PART = 1e-3  # of the largest part that a column has in such combinations, below which it has none


PriorOfDesign = Callable[[Design], Prior]
"""What returns the prior of the coefficients of a design whose columns are known."""


def conditional_sds(
    covariance: FloatArray, mean: FloatArray | None = None, *, still: NDArray[np.bool_] | None = None
) -> FloatArray:
    r"""Return the sd of each column given the others, shape (D,), from their covariance, or second moments, (D, D).

    .. math:: \mathrm{sd}(x_d | x_{-d}) = (\Sigma^{-1})_{dd}^{-1/2}

    is what remains of a column after its regression on the others. Of a column that is a combination of others nothing
    does, and it has its sd. Its share of the sd has four digits, as many as are shown of a prior. Of a covariance that
    was found as a difference of sums, with a `mean`, fewer combinations can be told from rounding. Columns that stand
    `still` have 0.
    """
    sd = np.sqrt(np.diagonal(covariance))
    sd = sd if still is None else np.where(still, 0.0, sd)
    varies, share = sd > 0.0, np.ones(len(sd))
    if not varies.any():
        return sd
    limit = NULL if mean is None else NULL * (1.0 + float(((mean / np.where(varies, sd, np.inf)) ** 2).max()))
    correlation = covariance[np.ix_(varies, varies)] / np.outer(sd[varies], sd[varies])
    with one_blas_thread():
        values, axes = np.linalg.eigh(correlation)
    null = values < limit
    part = np.sqrt((axes[:, null] ** 2).sum(axis=1))
    inverse = (axes[:, ~null] ** 2 / values[~null]).sum(axis=1)
    with np.errstate(divide="ignore"):
        shares = np.where(part > _PART * part.max(initial=0.0), 1.0, np.minimum(1.0 / np.sqrt(inverse), 1.0))
    share[varies] = [float(f"{value:.4g}") for value in shares]
    return np.asarray(sd * share)


def standard_prior(design: Design) -> Normal:
    """Return the default prior of the coefficients of a design that knows the spread of its columns, or scaled them."""
    sd, mean, lead = np.ones(len(design.names)), np.zeros(len(design.names)), int(design.intercept)
    if design.given_others is not None:
        sd[lead:] = design.given_others
    if design.means is not None:
        mean[lead:] = design.means
    if design.constant is not None:
        mean[design.constant] = 0.0
    return prior_on_columns(
        mean,
        sd,
        design.constant,
        design.response or (0.0, 1.0),
        intercept=INTERCEPT_SCALES.get(tuple(design.classes or ()), DEFAULT_SCALE),
    )


def default_prior(rows: WeightedData) -> Normal:
    """Return the default prior of the coefficients of rows."""
    design = rows.design if isinstance(rows, Coreset) else None
    if design is not None and design.response is None and response_of(design.classes) == "numbers":
        return autoscaled_prior(rows)
    if design is not None and (design.given_others is not None or design.scale is not None):
        return standard_prior(design)
    if rows.pseudo.any():
        return DEFAULT
    counts = isinstance(rows, Coreset) and rows.counts
    return prior_of_comoments(comoments_of(0, rows, counts=counts), design)


def prior_of_comoments(comoments: Comoments, design: Design | None) -> Normal:
    """Return the default prior of coefficients of columns that were not standardised, given their moments."""
    constant, classes = (None, None) if design is None else (design.constant, design.classes)
    sd = sds_from_comoments(comoments, constant=constant is not None)
    return prior_on_columns(
        comoments.mean, sd, constant, intercept=INTERCEPT_SCALES.get(tuple(classes or ()), DEFAULT_SCALE)
    )


def autoscaled_prior(rows: WeightedData) -> Normal:
    """Return the default prior of the coefficients of rows whose responses are numbers."""
    mean, covariance = _moments_that_vary(rows)
    constant = rows.design.constant if isinstance(rows, Coreset) else None
    response = float(mean[-1]), math.sqrt(covariance[-1, -1])
    return prior_on_columns(mean[:-1], conditional_sds(covariance[:-1, :-1], mean[:-1]), constant, response)


def prior_on_columns(
    mean: FloatArray,
    sd: FloatArray,
    constant: int | None,
    response: tuple[float, float] = (0.0, 1.0),
    *,
    intercept: float = DEFAULT_SCALE,
) -> Normal:
    """Return the default prior given means of columns, shape (D,), sds given the others, and those of the response.

    The response is in units of eta; `intercept` is the scale of the intercept's prior in sds of it.
    """
    columns = np.where(sd > 0.0, sd, 1.0)
    location, scale = np.zeros(len(columns)), DEFAULT_SCALE * response[1] / columns
    if constant is not None:
        far = np.where(sd > 0.0, mean / columns, 0.0)
        location[constant] = response[0]
        scale[constant] = intercept * response[1] * np.sqrt(1.0 + (far**2).sum())
    return Normal(tuple(location.tolist()), tuple(scale.tolist()))


def sds_from_comoments(comoments: Comoments, *, constant: bool) -> FloatArray:
    """Return the sds given the others of columns with these moments, which were not standardised; 0 of constant ones.

    Without a column of ones it is what the others leave of a column about 0, and the column's sd if that is less.
    """
    covariance, mean = comoments.covariance, comoments.mean
    sd = np.sqrt(np.diagonal(covariance))
    still = sd <= STILL * np.abs(mean)
    if constant:
        return conditional_sds(covariance, still=still)
    left = conditional_sds(covariance + np.outer(mean, mean))
    return np.where(still, 0.0, np.minimum(sd, left))


def complete_prior(
    given: Prior | Mapping[str, Prior] | None, names: Sequence[str], default: Callable[[], Prior]
) -> Prior:
    """Return the prior of coefficients with these names, the default one of those that the prior given leaves out."""
    prior, D = prior_of(given, names), len(names)
    if not needs_default(given):
        return prior
    rest = default()
    if not isinstance(prior, ByName):
        return rest
    by_name = {name: prior.of_coefficient(d, name, D) for d, name in enumerate(names)}
    by_name |= {names[d]: rest.of_coefficient(d, names[d], D) for d in prior.unnamed}
    return prior_of(by_name, names)


def prior_for(
    given: Prior | Mapping[str, Prior] | None, rows: WeightedData, family: Family, sd_prior: GroupPrior | None = None
) -> Prior:
    """Return the prior of the coefficients of rows: that given, the default one of coefficients that it leaves out.

    `sd_prior` is that of the sds of smooth terms, where there are some.
    """
    if family.quadratic:
        _ = _responses(rows)
    prior = complete_prior(
        given, feature_names(rows), lambda: autoscaled_prior(rows) if family.quadratic else default_prior(rows)
    )
    has_bends = isinstance(rows, Coreset) and bool(rows.design.smooths)
    return with_bends(prior, cast(Coreset, rows), given, sd_prior) if has_bends else prior


def with_bends(prior: Prior, core: Coreset, given: Any, sd_prior: GroupPrior | None) -> Prior:
    """Return the prior of all coefficients of a model with smooth terms, given that of those that are no bends.

    `given` is what the user gave, whose names must be of these; `sd_prior` is that of sds, by default that of groups'.
    """
    check_unnamed(given, core.design)
    return with_smooths(prior, core.design, group_prior_for(sd_prior, core, check_family(core.family)).table)


def bends_prior(prior: Prior) -> GroupPrior:
    """Return the prior of the sds of a model's smooth terms."""
    nu, scale = prior.bends[0].nu, prior.bends[0].scale
    return HalfNormal(scale) if math.isinf(nu) else HalfStudentT(nu, scale)


def arguments_of_fit(data: Any, prior: Any, group_prior: Any) -> tuple[Any, Any, Any]:
    """Return the coreset of a fit, its prior and group prior unless others are given; other data with what is given."""
    if not hasattr(data, "coreset"):  # `fitting` imports this module
        return data, prior, group_prior
    core = data.coreset
    if group_prior is None and core.groups:
        group_prior = data.group_prior
    return core, data._design_prior if prior is None else prior, group_prior


def group_prior_for(given: Any, rows: WeightedData, family: Family) -> GroupPrior:
    """Return the prior of the sds of groups' effects: that given, or the default one."""
    if given is not None or not family.quadratic:
        return check_group_prior(given)
    return sd_prior_for(rows)


def sd_prior_for(rows: WeightedData) -> HalfStudentT:
    """Return the prior of the sd of the noise of rows whose responses are numbers: that of sds of effects."""
    known = rows.design.response if isinstance(rows, Coreset) else None
    return HalfStudentT(3.0, DEFAULT_SCALE * (known[1] if known else moments_of_response(rows)[1]))


def is_default(prior: Prior | GroupPrior | None, core: Coreset) -> bool:
    """Return whether a prior of coefficients is the default one of a coreset, or that of sds of effects, of numbers."""
    if prior is None or not (core.numbers or isinstance(prior, Prior)):
        return False
    default: Prior | GroupPrior = (
        default_prior(core) if isinstance(prior, Prior) else group_prior_for(None, core, check_family(core.family))
    )
    if core.design.smooths and isinstance(default, Prior):
        default = with_bends(default, core, None, None)
    if isinstance(prior, Smooths) and isinstance(default, Smooths):
        return prior.bends == default.bends and _same_parameters(prior.base, default.base)
    return _same_parameters(prior, default)


def _same_parameters(prior: Prior | GroupPrior, default: Prior | GroupPrior) -> bool:
    given, other = prior.parameters(), default.parameters()
    return type(prior) is type(default) and all(
        np.shape(given[name]) == np.shape(value) and np.allclose(given[name], value, rtol=_SAME, atol=0.0)
        for name, value in other.items()
    )
