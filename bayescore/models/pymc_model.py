"""Whole PyMC models of weighted rows, with effects of groups parametrised as NUTS samples them best."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayescore.data.coreset import Coreset
from bayescore.data.design import one_intercept
from bayescore.data.matching import check_flat, feature_names, own_family
from bayescore.models.collapsed_target import CollapsedTarget
from bayescore.models.default_priors import group_prior_for, prior_for
from bayescore.models.families import Family, check_family
from bayescore.models.group_priors import GroupPrior
from bayescore.models.modes import find_map
from bayescore.models.potential import weighted_potential
from bayescore.models.priors import Prior
from bayescore.models.varying_graph import group_sd, scales_of, varying_effects
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError


def model(
    data: WeightedData,
    prior: Prior | Mapping[str, Prior] | None = None,
    *,
    group_prior: GroupPrior | None = None,
    family: "str | Family | None" = None,
) -> pm.Model:
    r"""Return the regression of weighted rows as a `pm.Model`; use it in a `with` block.

    .. math:: \eta_n = x_n \beta + o_n + \sum_f z_{fn} \cdot u_{f, g_f(n)}, \qquad u_{f, g} \sim N(0, S_f)

    The effects u_f exist where the data have grouping factors f: `(1 | g)`, slopes `(1 + x | g)`, several factors
    `(1 | a) + (1 | b)`, nested or crossed. Draw predictions with `posterior_predictive`:
    `pm.sample_posterior_predictive` has nothing to draw from a potential.

    Parameters
    ----------
    data : WeightedData
        A coreset or all rows, D columns.
    prior : prior or dict of str to prior, default Normal(0, 4)
        Prior of the coefficients `beta`, dims "feature", or priors by name, as in `sample`. Under the horseshoe `beta`
        is deterministic: an affine function of `beta_standardised`, which NUTS moves.
    group_prior : HalfStudentT or HalfNormal, default HalfStudentT(3, 2.5)
        Prior of each sd of effects; correlations have LKJ(2).
    family : str, optional
        By default the one that the coreset was built for.

    Returns
    -------
    pm.Model
        With `beta` and the weighted log-likelihood as a Potential. For each factor g also `sigma_g` and `u_g`, dims
        "g"; of several effects dims "g_effect" too, and their correlations `rho_g`. NUTS moves `u_g_standardised`, and
        `rho_g_standardised`, partial correlations on (0, 1).
        `bc.sample(core)` samples this model, or integrates the effects of `(1 | g)` out, which is faster.

    Raises
    ------
    TypeError, ValueError
        If a prior is not one of bayescore's, or does not fit the columns.
    DataError
        If `group_prior` is given for data without groups, or a prior without a closed form for data with groups.

    References
    ----------
    Papaspiliopoulos, Roberts and Skold (2007), Statistical Science 22.

    Examples
    --------
    >>> import numpy as np, pandas as pd, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"age": rng.normal(size=2000), "county": rng.integers(0, 10, 2000)})
    >>> rows["vote"] = 0.5 * rows["age"] + rng.logistic(size=2000) > 0
    >>> core = bc.build_coreset(rows, formula="vote ~ age + (1 | county)", random_state=1, progressbar=False)
    >>> model = bc.model(core, prior=bc.priors.Normal(0, 2.5), group_prior=bc.priors.HalfNormal(1))
    >>> [variable.name for variable in model.free_RVs]
    ['beta', 'sigma_county', 'u_county_standardised']
    """
    if not isinstance(data, WeightedData):
        raise TypeError(f"data is {data!r:.60}; give a coreset, or the rows of all_rows")
    own = own_family(data, family) if family is None or isinstance(family, str) else family
    known = check_family(own, rows=data)
    chosen, names = prior_for(prior, data, known), feature_names(data)
    groups = data.groups if isinstance(data, Coreset) else ()
    if not groups:
        check_flat(data, "a model")
        if group_prior is not None:
            raise DataError(
                "group_prior is given, and the data have no groups: build them with groups=, or leave it out"
            )
        with pm.Model(coords={"feature": names}) as built:
            beta = chosen.variable(lambda: _mode_of_rows(data, known))
            weighted_potential("log_likelihood", data, beta, known)
        return built
    if not chosen.closed_form:
        raise DataError(
            f"prior={type(chosen).__name__} is not for models with groups; use a prior with a density in closed form"
        )
    core, spread = cast(Coreset, data), group_prior_for(group_prior, data, known)
    with pm.Model(coords={"feature": names}) as built:
        beta = chosen.variable()
        if one_intercept(groups):
            effects = {groups[0].name: _one_intercept(core, beta, known, (chosen, spread))}
        else:
            effects = {
                factor.name: varying_effects(core, place, beta, known, (chosen, spread))
                for place, factor in enumerate(groups)
            }
        weighted_potential("log_likelihood", core, beta, known, groups=effects)
    return built


def _mode_of_rows(data: WeightedData, family: Family) -> tuple[FloatArray, FloatArray]:
    """Return mode and sds of the coefficients under a weak prior, which keeps the mode finite."""
    mode = find_map(data, family.name)
    return mode.beta, mode.sd


def start_of(core: Coreset, prior: Prior, family: str) -> tuple[FloatArray, FloatArray]:
    """Return about the mode of beta, shape (p,), and the factor L of its covariance, for chains to start from."""
    scales = scales_of(core, 0, check_family(family), prior)
    return scales.beta, scales.factor


def _one_intercept(core: Coreset, beta: Any, family: Family, priors: tuple[Prior, GroupPrior]) -> Any:
    r"""Add sd and effects of the factor to the model of the `with` block; return the effects, (G,).

    Let the rows alone say that u_g is m_g(beta), with sd h_g, and a = sigma^2 / (sigma^2 + h^2). u = a m + sqrt(a) h z
    has a z that is nearly N(0, 1) a posteriori. It is exact whatever m and h are, with z ~ N(-sqrt(a) m / h,
    (sigma^2 + h^2) / h^2). `varying_graph` does the same with matrices.
    """
    grouping = core.groups[0]
    effects = CollapsedTarget.of(core, family, priors, len(grouping)).effects
    h = effects.information[:-1] ** -0.5
    name = grouping.name
    pm.modelcontext(None).add_coord(name, list(grouping.levels))
    sd, parameters = group_sd(priors[1])
    sigma = sd(f"sigma_{name}", **parameters)
    m = effects.peak[:-1] - pt.dot(np.ascontiguousarray(effects.slope[:-1]), beta - effects.beta)
    root = sigma / pt.sqrt(sigma**2 + h**2)
    z = pm.Normal(f"u_{name}_standardised", -root * m / h, pt.sqrt(sigma**2 + h**2) / h, dims=name)
    return pm.Deterministic(f"u_{name}", root**2 * m + root * h * z, dims=name)
