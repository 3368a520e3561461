r"""Default priors: Normal(0, 4) of coefficients, and of numbers with normal noise those of rstanarm, in units of y.

.. math:: \beta_d \sim N(0, (2.5 \, \mathrm{sd}(y) / \mathrm{sd}(x_d))^2), \qquad
          \alpha \sim N(\bar y, (2.5 \, \mathrm{sd}(y))^2 (1 + \textstyle\sum_d \bar x_d^2 / \mathrm{sd}(x_d)^2))

\alpha is the coefficient of the column of ones; its factor is 1 where columns have the mean 0, as those that `fit`
standardises do, and covers the line's extension to 0 elsewhere. Means and sds are weighted ones over all rows, which
sums of rows tell, too. Sds of groups' effects have the prior HalfStudentT(3, 2.5 sd(y)).

Reference: Gabry and Goodrich, Prior distributions for rstanarm models (vignette of rstanarm 2.32).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayescore.data.coreset import Coreset, feature_names
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.priors.by_name import ByName, leaves_out, prior_of
from bayescore.priors.groups import GroupPrior, HalfStudentT, check_group_prior
from bayescore.priors.normal import Normal
from bayescore.priors.prior import Prior
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError

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
