"""Multilevel models in PyMC: effects of groups over a coreset that knows them, as NUTS samples them best."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayescore.data.coreset import Coreset
from bayescore.data.design import Grouping, one_intercept
from bayescore.models.collapsed_target import CollapsedTarget
from bayescore.models.families import Family, check_likelihood
from bayescore.models.graph import weighted_potential
from bayescore.models.group_priors import GroupPrior, check_group_prior
from bayescore.models.priors import Prior, prior_of
from bayescore.models.varying_graph import group_sd, scales_of, varying_effects
from bayescore.types import FloatArray
from bayescore.validation import DataError


def multilevel_model(
    core: Coreset,
    prior: Prior | Mapping[str, Prior] | None = None,
    group_prior: GroupPrior | None = None,
    likelihood: str | None = None,
) -> pm.Model:
    r"""Return the model of a coreset with grouping factors as a `pm.Model`; use it in a `with` block.

    .. math:: \eta_n = x_n \beta + o_n + \sum_f z_{fn} \cdot u_{f, g_f(n)}, \qquad u_{f, g} \sim N(0, S_f)

    Parameters
    ----------
    core : Coreset
        Built or read with `groups`, by "multilevel" or any other method: `(1 | g)`, slopes `(1 + x | g)`, several
        factors `(1 | a) + (1 | b)`, nested or crossed.
    prior : prior or dict of str to prior, default Normal(0, 4)
        Prior of `beta`, dims "feature".
    group_prior : HalfStudentT or HalfNormal, default HalfStudentT(3, 2.5)
        Prior of each sd of effects; correlations have LKJ(2).
    likelihood : str, optional
        By default the one that the coreset was built for.

    Returns
    -------
    pm.Model
        With `beta`, and for each factor g `sigma_g` and `u_g`, dims "g"; of several effects dims "g_effect" too, and
        then their correlations `rho_g`. What NUTS moves is `u_g_standardised`. For `(1 | g)`, with m_g(beta) and h_g
        where the rows alone say that u_g is, and how surely, u = a m + sqrt(a) h z, a = sigma^2 / (sigma^2 + h^2), has
        a z that is nearly N(0, 1) a posteriori, and independent of beta and sigma. Centred where rows say much,
        non-centred where the prior does, and without the ridge of intercept and effects; exact whatever m and h are,
        for z ~ N(-sqrt(a) m / h, (sigma^2 + h^2) / h^2). Of several effects the same with matrices
        (`models.varying_graph`). `bc.sample(core)` samples it, or for `(1 | g)` does without the effects, and is
        faster.

    Raises
    ------
    DataError
        If the coreset has no groups.

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
    >>> model = bc.multilevel_model(core, group_prior=bc.priors.HalfNormal(1))
    >>> [variable.name for variable in model.free_RVs]
    ['beta', 'sigma_county', 'u_county_standardised']
    """
    groups = _groups(core)
    chosen, group_prior = prior_of(prior, core.feature_names), check_group_prior(group_prior)
    if not chosen.closed_form:
        raise DataError(
            f"prior={type(chosen).__name__} is not for models with groups; use a prior with a density in closed form"
        )
    link = check_likelihood(core.likelihood if likelihood is None else likelihood)
    with pm.Model(coords={"feature": core.feature_names}) as model:
        beta = chosen.variable()
        if one_intercept(core.groups):
            effects = {groups[0].name: _one_intercept(core, beta, link, (chosen, group_prior))}
        else:
            effects = {
                own.name: varying_effects(core, place, beta, link, (chosen, group_prior))
                for place, own in enumerate(groups)
            }
        weighted_potential("log_likelihood", core, beta, link, groups=effects)
    return model


def start_of(core: Coreset, prior: Prior, likelihood: str) -> tuple[FloatArray, FloatArray]:
    """Return about the mode of beta, shape (p,), and the factor L of its covariance, for chains to start from."""
    scales = scales_of(core, 0, check_likelihood(likelihood), prior)
    return scales.beta, scales.factor


def _one_intercept(core: Coreset, beta: Any, link: Family, priors: tuple[Prior, GroupPrior]) -> Any:
    """Add sd and effects of the factor to the model of the `with` block; return the effects, (G,)."""
    grouping = core.groups[0]
    effects = CollapsedTarget.of(core, link, priors, len(grouping)).effects
    h = effects.information[:-1] ** -0.5
    name = grouping.name
    pm.modelcontext(None).add_coord(name, list(grouping.levels))
    sigma = group_sd(f"sigma_{name}", priors[1])
    m = effects.peak[:-1] - pt.dot(np.ascontiguousarray(effects.slope[:-1]), beta - effects.beta)
    root = sigma / pt.sqrt(sigma**2 + h**2)
    z = pm.Normal(f"u_{name}_standardised", -root * m / h, pt.sqrt(sigma**2 + h**2) / h, dims=name)
    return pm.Deterministic(f"u_{name}", root**2 * m + root * h * z, dims=name)


def _groups(core: Coreset) -> tuple[Grouping, ...]:
    groups = core.groups if isinstance(core, Coreset) else ()
    if not groups:
        raise DataError(
            "multilevel_model takes a coreset with grouping factors, as (1 | g), and core has none: build it with "
            "groups=, or use logistic_model or probit_model"
        )
    return groups
