"""Multilevel models in PyMC: random intercepts over a coreset with groups, as NUTS samples them best."""

from collections.abc import Mapping

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayescore.data.coreset import Coreset
from bayescore.models.collapsed_target import CollapsedTarget
from bayescore.models.given_priors import prior_of
from bayescore.models.graph import coefficients, weighted_potential
from bayescore.models.group_priors import GroupPrior, HalfNormal, check_group_prior
from bayescore.models.likelihoods import check_likelihood
from bayescore.models.priors import Horseshoe, Normal, Prior, parts
from bayescore.types import Grouping
from bayescore.validation import DataError


def multilevel_model(
    core: Coreset,
    prior: Prior | Mapping[str, Prior] | None = None,
    group_prior: GroupPrior | None = None,
    likelihood: str | None = None,
) -> pm.Model:
    r"""Return the model of a coreset with one grouping factor, `(1 | g)`, as a `pm.Model`; use it in a `with` block.

    .. math:: \eta_n = x_n \beta + o_n + u_{g(n)}, \qquad u_g \sim N(0, \sigma^2)

    Parameters
    ----------
    core : Coreset
        Built or read with `groups`, by "multilevel" or any other method.
    prior : prior or dict of str to prior, default Normal(0, 4)
        Prior of `beta`, dims "feature".
    group_prior : HalfStudentT or HalfNormal, default HalfStudentT(3, 2.5)
        Prior of `sigma`.
    likelihood : str, optional
        By default the one that the coreset was built for.

    Returns
    -------
    pm.Model
        With `beta`, `sigma` and `u`, dims "group". What NUTS moves is `u_standardised`: with m_g(beta) and h_g where
        the rows alone say that u_g is, and how surely, u = a m + sqrt(a) h z, a = sigma^2 / (sigma^2 + h^2), has a z
        that is nearly N(0, 1) a posteriori, and independent of beta and sigma. Centred where rows say much, non-centred
        where the prior does, and without the ridge of intercept and effects; exact whatever m and h are, for
        z ~ N(-sqrt(a) m / h, (sigma^2 + h^2) / h^2). `bc.sample(core)` does without the effects, and is faster.

    Raises
    ------
    DataError
        If the coreset has no groups, or others than one whose intercept varies.

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
    >>> model = bc.multilevel_model(core, group_prior=bc.HalfNormal(1))
    >>> [variable.name for variable in model.free_RVs]
    ['beta', 'sigma', 'u_standardised']
    """
    grouping = _grouping(core)
    chosen, group_prior = prior_of(prior, core.feature_names), check_group_prior(group_prior)
    if isinstance(chosen, Horseshoe):
        raise DataError("prior=Horseshoe is not for models with groups; use a prior with a density in closed form")
    link = check_likelihood(core.likelihood if likelihood is None else likelihood)
    near = Normal() if any(part.family is None for part in parts(chosen)) else chosen
    effects = CollapsedTarget.of(core, link, (near, group_prior), len(grouping)).effects
    h = effects.information[:-1] ** -0.5
    with pm.Model(coords={"feature": core.feature_names, "group": list(grouping.levels)}) as model:
        beta = coefficients(chosen, "feature", core.n_features)
        scale = group_prior.sigma
        if isinstance(group_prior, HalfNormal):
            sigma = pm.HalfNormal("sigma", scale)
        else:
            sigma = pm.HalfStudentT("sigma", nu=group_prior.nu, sigma=scale)
        m = effects.peak[:-1] - pt.dot(np.ascontiguousarray(effects.slope[:-1]), beta - effects.beta)
        root = sigma / pt.sqrt(sigma**2 + h**2)
        z = pm.Normal("u_standardised", -root * m / h, pt.sqrt(sigma**2 + h**2) / h, dims="group")
        u = pm.Deterministic("u", root**2 * m + root * h * z, dims="group")
        weighted_potential("log_likelihood", core, beta, link, groups={grouping.name: u})
    return model


def _grouping(core: Coreset) -> Grouping:
    groups = core.groups if isinstance(core, Coreset) else ()
    if len(groups) != 1 or tuple(groups[0].effects) != ("1",):
        found = ", ".join(f"({' + '.join(own.effects)} | {own.name})" for own in groups) or "none"
        raise DataError(
            f"multilevel_model takes a coreset with one grouping factor whose intercept varies, (1 | g), and core has "
            f"{found}: for other models use weighted_potential(..., groups=) in your own"
        )
    return groups[0]
