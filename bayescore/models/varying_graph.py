r"""Effects of one of several grouping factors, or of several columns, in a PyMC model, in coordinates that NUTS likes.

The effects of a level, u_g in R^q, are N(0, S), S = diag(sigma) R diag(sigma) with an LKJ prior of R. What NUTS moves
is z_g: in the basis T_g in which prior and rows are diagonal where the rows have S (`effect_scales`), u_g = T_g y_g and

.. math:: y = \frac{s^2 r(\beta) + s \sqrt{1 + s^2 \kappa} z}{1 + s^2 \kappa}, \qquad
          s^2 = \operatorname{diag}(T_g^{-1} S T_g^{-\prime}),

entry by entry, with r the pull of the rows on y and kappa their information. z is nearly N(0, I) a posteriori and
hardly depends on beta and S: centred where rows say much, non-centred where the prior does (Papaspiliopoulos, Roberts
and Skold 2007). Exact whatever r, kappa and T are, by the Jacobian.
"""

from itertools import combinations
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayescore.data.coreset import Coreset
from bayescore.models.effect_scales import EffectScales, effect_scales
from bayescore.models.graph import multipliers
from bayescore.models.group_priors import GroupPrior, HalfNormal
from bayescore.models.priors import Prior
from bayescore.types import Likelihood

LKJ_ETA = 2.0
"""Of the prior of correlations, proportional to det(R)^(eta - 1): weakly against those near 1."""


def one_sd(prior: GroupPrior) -> Any:
    """Return the distribution of an sd of effects."""
    if isinstance(prior, HalfNormal):
        return pm.HalfNormal.dist(sigma=prior.sigma)
    return pm.HalfStudentT.dist(nu=prior.nu, sigma=prior.sigma)


def group_sd(name: str, prior: GroupPrior) -> Any:
    """Add the sd of effects to the model of the `with` block."""
    if isinstance(prior, HalfNormal):
        return pm.HalfNormal(name, sigma=prior.sigma)
    return pm.HalfStudentT(name, nu=prior.nu, sigma=prior.sigma)


def scales_of(core: Coreset, place: int, link: Likelihood, prior: Prior) -> EffectScales:
    """Return what the rows say of the effects of a factor."""
    assert core.group is not None
    grouping = core.groups[place]
    return effect_scales(core, core.group[:, place], multipliers(core, grouping), len(grouping), link, prior)


def varying_effects(core: Coreset, place: int, beta: Any, link: Likelihood, priors: tuple[Prior, GroupPrior]) -> Any:
    """Add sd, correlations and effects of a factor to the model of the `with` block; return the effects, (G, q)."""
    grouping, scales = core.groups[place], scales_of(core, place, link, priors[0])
    name, q = grouping.name, len(grouping.effects)
    model = pm.modelcontext(None)
    model.add_coord(name, list(grouping.levels))
    if q == 1:
        sigma = group_sd(f"sigma_{name}", priors[1])
        factor: Any = sigma[None, None]
    else:
        model.add_coord(f"{name}_effect", list(grouping.effects))
        model.add_coord(f"{name}_pair", [f"{a}, {b}" for a, b in combinations(grouping.effects, 2)])
        factor, corr, sds = pm.LKJCholeskyCov(
            f"cholesky_{name}", n=q, eta=LKJ_ETA, sd_dist=one_sd(priors[1]), compute_corr=True, store_in_trace=False
        )
        pm.Deterministic(f"sigma_{name}", sds, dims=f"{name}_effect")
        pm.Deterministic(f"rho_{name}", corr[np.triu_indices(q, 1)], dims=f"{name}_pair")
    dims = (name,) if q == 1 else (name, f"{name}_effect")
    z = pm.Normal(f"u_{name}_standardised", dims=dims)
    u, density = _placed(z if q > 1 else z[:, None], beta, factor, scales)
    pm.Potential(f"density_{name}", density)
    return pm.Deterministic(f"u_{name}", u if q > 1 else u[:, 0], dims=dims)


def _placed(z: Any, beta: Any, factor: Any, scales: EffectScales) -> tuple[Any, Any]:
    """Return effects, shape (G, q), and log N(u; 0, S) + log |du / dz| - log N(z; 0, I), of all, up to a constant."""
    G, q, p = scales.slope.shape
    inverse = np.linalg.inv(scales.basis)
    products = np.einsum("gki,gkj->gkij", inverse, inverse).reshape(G * q, q * q)
    square = pt.dot(products, pt.dot(factor, factor.T).reshape((q * q,))).reshape((G, q))
    slope = np.ascontiguousarray(scales.slope.reshape(G * q, p))
    pull = scales.pull - pt.dot(slope, beta - scales.beta).reshape((G, q))
    told = 1.0 + square * scales.information
    y = (square * pull + pt.sqrt(square * told) * z) / told
    u = sum(y[:, k, None] * scales.basis[:, :, k] for k in range(q))
    white = pt.linalg.solve_triangular(factor, u.T, lower=True)
    log_jacobian = 0.5 * (pt.log(square) - pt.log(told)).sum() - G * pt.log(pt.diag(factor)).sum()
    return u, log_jacobian + 0.5 * ((z**2).sum() - (white**2).sum())
