r"""Effects of one of several grouping factors, or of several columns, in a PyMC model, in coordinates that NUTS likes.

The effects of a level, u_g in R^q, are N(0, S), S = diag(sigma) R diag(sigma) with an LKJ prior of R. Let the rows of a
level say r_g(beta) . u - u' H_g u / 2 of its effects, S = F F' and L L' = I + F' H_g F. NUTS moves z_g, where

.. math:: u_g = F w_g, \qquad w_g = L^{-\prime} (L^{-1} F' r_g(\beta) + z_g).

z is nearly N(0, I) a posteriori and hardly depends on beta and S: centred where rows say much, non-centred where the
prior does or an sd is near 0 (Papaspiliopoulos, Roberts and Skold 2007). With the Jacobian, |F| / |L|, the posterior is
exact whatever r and H are. They come from the joint mode of beta and the factor's effects, with S by the EM algorithm
(Laplace's approximation, other factors left out).
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayescore.data.coreset import Coreset
from bayescore.models.families import Family
from bayescore.models.gaussian import factor_of_inverse
from bayescore.models.group_priors import LKJ_ETA, GroupPrior, HalfNormal
from bayescore.models.posterior import prior_part
from bayescore.models.predictor import multipliers
from bayescore.models.priors import Prior
from bayescore.types import FloatArray

_STEPS = 60
_NEAR = 1e-3
_LONGEST = 10.0  # posterior sds, of a step
_EM_STEPS = 5  # a step


@dataclass(frozen=True, eq=False)
class EffectScales:
    """What the rows say about a factor's effects; q effects of each of G levels."""

    beta: FloatArray  # at the mode, (p,)
    factor: FloatArray  # L, L L' the covariance of beta
    information: FloatArray  # H, (G, q, q)
    pull: FloatArray  # r at the mode, (G, q)
    slope: FloatArray  # the loss of r for each unit of beta, (G, q, p)


def scales_of(rows: Coreset, place: int, family: Family, prior: Prior) -> EffectScales:
    """Return what rows say about the effects of the factor at `place`; the prior of beta is smooth."""
    assert rows.group is not None
    grouping, codes = rows.groups[place], rows.group[:, place]
    X, Z, n_groups = rows.X, multipliers(rows.X, rows.design, grouping), len(grouping)
    q, p = Z.shape[1], rows.n_features
    own = np.where(codes < 0, n_groups, codes)
    beta, u, covariance = np.zeros(p), np.zeros((n_groups + 1, q)), np.eye(q)
    offset = 0.0 if rows.offset is None else rows.offset
    for _ in range(_STEPS):
        eta = X @ beta + offset + (Z * u[own]).sum(axis=1)
        score = rows.weights * family.score(eta, rows.y)
        c = rows.weights * np.maximum(family.curvature(eta, rows.y), 0.0)
        S, B = np.zeros((n_groups + 1, q)), np.zeros((n_groups + 1, q, p))
        H = np.zeros((n_groups + 1, q, q))
        np.add.at(S, own, score[:, None] * Z)
        for i in range(q):
            np.add.at(B[:, i], own, (c * Z[:, i])[:, None] * X)
            np.add.at(H[:, i], own, (c * Z[:, i])[:, None] * Z)
        S[-1], B[-1], H[-1] = 0.0, 0.0, 0.0
        terms = prior_part(beta, prior)
        for _ in range(_EM_STEPS):
            inverse = np.linalg.inv(covariance)
            V = np.linalg.inv(H + inverse)
            W, pull = V @ B, S - u @ inverse
            precision = (X * c[:, None]).T @ X + terms.precision - np.einsum("gqp,gqr->pr", B, W)
            move = np.linalg.solve(precision, score @ X + terms.gradient - np.einsum("gqp,gq->p", W, pull))
            there = u + np.einsum("gqr,gr->gq", V, pull) - W @ move
            there[-1] = 0.0
            covariance = (there.T @ there + V[:-1].sum(axis=0) + 0.01 * np.eye(q)) / (n_groups + 1)
        length = float(np.sqrt(move @ precision @ move))
        share = min(1.0, _LONGEST / length) if length > 0.0 else 1.0
        at, before = beta, u
        beta, u = beta + share * move, u + share * (there - u)
        if length < _NEAR:
            break
    pull = S[:-1] + np.einsum("gqr,gr->gq", H[:-1], before[:-1])
    return EffectScales(at, factor_of_inverse(precision), H[:-1], pull, B[:-1])


def group_sd(prior: GroupPrior) -> tuple[Any, dict[str, float]]:
    """Return PyMC's class of the sd of effects, and its parameters."""
    if isinstance(prior, HalfNormal):
        return pm.HalfNormal, {"sigma": prior.sigma}
    return pm.HalfStudentT, {"nu": prior.nu, "sigma": prior.sigma}


def varying_effects(core: Coreset, place: int, beta: Any, family: Family, priors: tuple[Prior, GroupPrior]) -> Any:
    """Add sd, correlations and effects of a factor to the model of the `with` block; return the effects, (G, q)."""
    grouping, scales = core.groups[place], scales_of(core, place, family, priors[0])
    name, q = grouping.name, len(grouping.effects)
    model, (sd, parameters) = pm.modelcontext(None), group_sd(priors[1])
    model.add_coord(name, list(grouping.levels))
    if q == 1:
        factor: Any = sd(f"sigma_{name}", **parameters)[None, None]
    else:
        model.add_coord(f"{name}_effect", list(grouping.effects))
        model.add_coord(f"{name}_pair", [f"{a}, {b}" for a, b in combinations(grouping.effects, 2)])
        sds = sd(f"sigma_{name}", dims=f"{name}_effect", **parameters)
        root = correlated(f"rho_{name}_standardised", q)
        factor = sds[:, None] * root
        pairs = [root[i] @ root[j] for i, j in combinations(range(q), 2)]
        pm.Deterministic(f"rho_{name}", pt.stack(pairs), dims=f"{name}_pair")
    dims = (name,) if q == 1 else (name, f"{name}_effect")
    z = pm.Normal(f"u_{name}_standardised", dims=dims)
    u, density = _placed(z if q > 1 else z[:, None], beta, factor, scales)
    pm.Potential(f"density_{name}", density)
    return pm.Deterministic(f"u_{name}", u if q > 1 else u[:, 0], dims=dims)


def correlated(name: str, q: int) -> Any:
    r"""Add correlations with an LKJ prior to the model of the `with` block; return their Cholesky factor, (q, q).

    Partial correlations of j and i > j given those before j are independent, (1 + rho) / 2 ~ Beta(a, a) with
    a = eta + (q - 2 - j) / 2, j from 0 (Lewandowski, Kurowicka and Joe 2009). They are free of the sds: entries of
    the factor of S are not, and one of them narrows as an sd goes to 0.
    """
    shape = np.array([LKJ_ETA + 0.5 * (q - 2 - j) for i in range(q) for j in range(i)])
    unit = pm.Beta(name, shape, shape)
    partial = iter([2.0 * unit[k] - 1.0 for k in range(len(shape))])
    rows = []
    for i in range(q):
        left: Any = 1.0
        own = []
        for _ in range(i):
            rho = next(partial)
            own.append(rho * pt.sqrt(left))
            left = left * (1.0 - rho**2)
        rows.append(pt.stack([*own, pt.sqrt(left), *[0.0] * (q - i - 1)]))
    return pt.stack(rows)


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
