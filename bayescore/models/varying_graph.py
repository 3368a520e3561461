r"""Effects of one of several grouping factors, or of several columns, in a PyMC model, in coordinates that NUTS likes.

The effects of a level, u_g in R^q, are N(0, S), S = diag(sigma) R diag(sigma) with an LKJ prior of R. What NUTS moves
is z_g: with S = F F', rows that say r_g(beta) . u - u' H_g u / 2 of u_g, and L L' = I + F' H_g F,

.. math:: u_g = F w_g, \qquad w_g = L^{-\prime} (L^{-1} F' r_g(\beta) + z_g).

z is nearly N(0, I) a posteriori and hardly depends on beta and S: centred where rows say much, non-centred where the
prior does, an sd near 0 among it (Papaspiliopoulos, Roberts and Skold 2007). Exact whatever r and H are, by the
Jacobian, |F| / |L|.
"""

from itertools import combinations
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayescore.data.coreset import Coreset
from bayescore.models.effect_scales import EffectScales, effect_scales
from bayescore.models.families import Family
from bayescore.models.group_priors import LKJ_ETA, GroupPrior, HalfNormal
from bayescore.models.predictor import multipliers
from bayescore.models.priors import Prior


def one_sd(prior: GroupPrior) -> Any:
    """Return the distribution of an sd of effects."""
    kind, parameters = _half(prior)
    return kind.dist(**parameters)


def group_sd(name: str, prior: GroupPrior) -> Any:
    """Add the sd of effects to the model of the `with` block."""
    kind, parameters = _half(prior)
    return kind(name, **parameters)


def _half(prior: GroupPrior) -> tuple[Any, dict[str, float]]:
    """Return PyMC's class of a prior, and its parameters."""
    if isinstance(prior, HalfNormal):
        return pm.HalfNormal, {"sigma": prior.sigma}
    return pm.HalfStudentT, {"nu": prior.nu, "sigma": prior.sigma}


def scales_of(core: Coreset, place: int, family: Family, prior: Prior) -> EffectScales:
    """Return what the rows say of the effects of a factor."""
    assert core.group is not None
    grouping = core.groups[place]
    return effect_scales(
        core, core.group[:, place], multipliers(core.X, core.design, grouping), len(grouping), family, prior
    )


def varying_effects(core: Coreset, place: int, beta: Any, family: Family, priors: tuple[Prior, GroupPrior]) -> Any:
    """Add sd, correlations and effects of a factor to the model of the `with` block; return the effects, (G, q)."""
    grouping, scales = core.groups[place], scales_of(core, place, family, priors[0])
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
    both = (factor[:, None, :, None] * factor[None, :, None, :]).reshape((q * q, q * q))
    A = np.eye(q) + pt.dot(scales.information.reshape(G, q * q), both).reshape((G, q, q))
    slope = np.ascontiguousarray(scales.slope.reshape(G * q, p))
    pull = pt.dot(scales.pull - pt.dot(slope, beta - scales.beta).reshape((G, q)), factor)
    L: dict[tuple[int, int], Any] = {}  # entries of all levels: q is small
    for j in range(q):
        L[j, j] = pt.sqrt(A[:, j, j] - sum(L[j, k] ** 2 for k in range(j)))
        for i in range(j + 1, q):
            L[i, j] = (A[:, i, j] - sum(L[i, k] * L[j, k] for k in range(j))) / L[j, j]
    there: list[Any] = []
    w: list[Any] = [None] * q
    for i in range(q):
        there.append((pull[:, i] - sum(L[i, k] * there[k] for k in range(i))) / L[i, i])
    for i in reversed(range(q)):
        w[i] = (there[i] + z[:, i] - sum(L[k, i] * w[k] for k in range(i + 1, q))) / L[i, i]
    white = pt.stack(w, axis=1)
    density = 0.5 * ((z**2).sum() - (white**2).sum()) - sum(pt.log(L[j, j]).sum() for j in range(q))
    return pt.dot(white, factor.T), density
