r"""How surely rows tell the effects of one grouping factor, and where: what NUTS' coordinates are made of.

At the joint mode of beta and the factor's effects u_g, of q columns each, with their covariance S by the EM algorithm
(Laplace's approximation, other factors left out), the rows of a level say of its effects about

.. math:: r_g(\beta) \cdot u_g - \tfrac12 u_g' H_g u_g

Coordinates that are built on these are exact whatever they are; they need only be near.
"""

from dataclasses import dataclass

import numpy as np

from bayescore.models.families import Family
from bayescore.models.gaussian import factor_of_inverse
from bayescore.models.posterior import prior_part
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, IntArray, WeightedData

_STEPS = 60
_NEAR = 1e-3
_LONGEST = 10.0  # posterior sds, of a step
_EM_STEPS = 5  # a step


@dataclass(frozen=True, eq=False)
class EffectScales:
    """beta at the mode, shape (p,), and L, L L' its covariance; H, (G, q, q).

    `pull`, shape (G, q), is r at the mode, `slope`, (G, q, p), what it loses for each unit of beta.
    """

    beta: FloatArray
    factor: FloatArray
    information: FloatArray
    pull: FloatArray
    slope: FloatArray


def effect_scales(
    rows: WeightedData, codes: IntArray, Z: FloatArray, n_groups: int, family: Family, prior: Prior
) -> EffectScales:
    """Return what rows say of one factor's effects.

    Parameters
    ----------
    rows : WeightedData
        All rows.
    codes : array, shape (n,)
        Level of each row, negative for none.
    Z : array, shape (n, q)
        What effects are multiplied by.
    n_groups : int
        Levels.
    link, prior
        Family, and a smooth prior of beta.
    """
    X, q, p = rows.X, Z.shape[1], rows.n_features
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
