r"""Gradients of the log marginal posterior, effects of groups integrated out, from draws that have the effects.

Let t be (beta, log sigma, Fisher's z of rho) and u the effects. For any field f(t, u) that moves u with t,

.. math:: s_j = \partial_{t_j} \log p(t, u) + f_j \cdot \partial_u \log p(t, u) + \partial_u \cdot f_j

has, given t, the mean of the marginal gradient (Fisher's identity, and integration by parts). So Stein's identities
hold for s. f changes its noise alone. With H minus the Hessian of the rows' log p by u, at the draws' mean, and
V = (H_g + S^-1)^-1 of a level,

.. math:: f_\beta = -(H + \bar S^{-1})^{-1} B, \quad B = -\partial_u \partial_\beta' \log p, \qquad
          f_j = \tfrac12 V S^{-1} \dot S_j S^{-1} (u + \bar u)

leave little of it: nothing where p(u | t) is normal and there is one factor.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from bayescore.models.families import Family
from bayescore.models.group_priors import LKJ_ETA, GroupPrior, log_sigma_terms
from bayescore.models.joint_rows import blocks_of
from bayescore.models.predictor import Factor, Predictor
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, IntArray, WeightedData

LEVELS = 100
"""Levels of a factor whose effects are checked one by one, evenly spaced."""

_PIECE = 1 << 21  # numbers of an array of some rows, or some draws, at all draws or levels


class Scores(NamedTuple):
    """Gradients s, shape (S, P), and minus the Hessian of beta by the rows, effects integrated out, shape (p, p).

    `effects` are those of some levels, of unit variance given t, and `effect_scores` their gradients, shape (S, E).
    """

    marginal: FloatArray
    precision: FloatArray
    names: list[str]  # of these effects
    effects: FloatArray
    effect_scores: FloatArray


def scores(predictor: Predictor, core: WeightedData, family: Family, prior: Prior, group_prior: GroupPrior) -> Scores:
    """Return the gradients of the coreset's posterior at draws; `LinAlgError` where effects have no covariance."""
    middle = predictor.means()
    curvature = core.weights * np.maximum(family.curvature(middle.eta(core)[:, 0], core.y), 0.0)
    Z = predictor.columns(core)
    assert predictor.at is not None
    information, first, cuts = (Z.T @ sparse.diags_array(curvature) @ Z).tocsc(), 0, []
    blocks, own_precision = [], []
    for own, mean in zip(predictor.factors, middle.factors, strict=True):
        assert own.covariance is not None
        cuts.append(slice(first, first + mean.effects[0].size))
        first = cuts[-1].stop
        inverse = np.linalg.inv(own.covariance[predictor.at].mean(axis=0))
        own_precision.append(sparse.kron(sparse.eye_array(len(own.grouping)), inverse))
        blocks.append((mean.effects[0], blocks_of(information[cuts[-1], cuts[-1]], len(inverse)), inverse))
    cross = Z.T @ (curvature[:, None] * core.X)
    move = splu((information + sparse.block_diag(own_precision)).tocsc()).solve(cross)
    precision = (core.X.T * curvature) @ core.X - cross.T @ move
    found = []
    step = max(1, _PIECE // Z.shape[1])
    for start in range(0, len(predictor), step):
        part = predictor.take(slice(start, start + step))
        of_beta, of_u = _row_scores(part, core, family, Z)
        of_factors = []
        for own, block, cut in zip(part.factors, blocks, cuts, strict=True):
            assert own.covariance is not None
            covariance = own.covariance[part.at]
            some = Factor(own.grouping, own.effects[part.at], covariance)
            inverse = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
            slope = of_u[cut].T.reshape(some.effects.shape) - np.einsum("sgq,sqr->sgr", some.effects, inverse)
            mean, informed, middle_inverse = block
            of_factors.append(_of_factor(some, mean, slope, _Blocks(informed, inverse, middle_inverse), group_prior))
            of_u[cut] = slope.reshape(len(slope), -1).T
        marginal, effects, slopes = (np.concatenate(each, axis=1) for each in zip(*of_factors, strict=True))
        of_beta = of_beta + prior.gradient(part.beta) - of_u.T @ move
        found.append((np.hstack([of_beta, marginal]), effects, slopes))
    marginal, effects, slopes = (np.concatenate(each) for each in zip(*found, strict=True))
    names = [
        f"u_{each.grouping.name}[{each.grouping.levels[level]}{f', {effect}' * (len(each.grouping.effects) > 1)}]"
        for each in predictor.factors
        for level in checked(len(each.grouping))
        for effect in each.grouping.effects
    ]
    return Scores(marginal, precision, names, effects, slopes)


def _row_scores(
    predictor: Predictor, core: WeightedData, family: Family, Z: sparse.csr_array
) -> tuple[FloatArray, FloatArray]:
    """Return the rows' part of the gradients by beta, shape (S, p), and by the effects, (E, S)."""
    of_beta, of_u = np.zeros_like(predictor.beta), np.zeros((Z.shape[1], len(predictor)))
    step = max(1, _PIECE // len(predictor))
    for start in range(0, len(core), step):
        rows = core.take(slice(start, start + step))
        score = rows.weights[:, None] * family.score(predictor.eta(rows), rows.y[:, None])
        of_beta += score.T @ rows.X
        of_u += Z[start : start + step].T @ score
    return of_beta, of_u


def checked(n_levels: int) -> IntArray:
    """Return the levels of a factor whose effects are checked one by one."""
    return np.unique(np.linspace(0, n_levels - 1, min(n_levels, LEVELS)).round().astype(np.int64))


class _Blocks(NamedTuple):
    """H of each level, shape (G, q, q), S^-1 of each draw, (S, q, q), and that of their mean, (q, q)."""

    information: FloatArray
    inverse: FloatArray
    middle: FloatArray


def _of_factor(
    own: Factor, mean: FloatArray, slope: FloatArray, blocks: _Blocks, prior: GroupPrior
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the gradients of a factor's log sds and z, and effects of some levels with their gradients.

    `mean` is that of the effects, shape (G, q). `slope`, (S, G, q), is the gradient of log p by them. It is
    multiplied by V of each draw over V of the draws' mean, so that f_beta, which is of the mean, becomes each draw's.
    """
    n_draws, G, q = own.effects.shape
    S, levels = own.covariance, checked(G)
    assert S is not None
    precision = blocks.information + blocks.middle
    pull = np.einsum("gqr,gr->gq", precision, mean)
    M, effects, slopes = np.empty_like(S), [], []
    step = max(1, _PIECE // (G * q * q))
    for start in range(0, n_draws, step):
        at = slice(start, start + step)
        u, V = own.effects[at], np.linalg.inv(blocks.information + blocks.inverse[at, None])
        center, moved = np.einsum("sgqr,gr->sgq", V, pull), np.einsum("sgqr,sgr->sgq", V, slope[at])
        M[at] = np.einsum("sgq,sgr->sqr", u, u) + V.sum(axis=1) + np.einsum("sgq,sgr->sqr", moved, u + center)
        root = np.linalg.cholesky(V[:, levels])
        effects.append(np.linalg.solve(root, (u - center)[:, levels, :, None]).reshape(len(u), -1))
        slopes.append(np.einsum("sgqr,sgq->sgr", root, slope[at][:, levels]).reshape(len(u), -1))
        slope[at] = np.einsum("gqr,sgr->sgq", precision, moved)
    Q = blocks.inverse @ (M - G * S) @ blocks.inverse
    Q = 0.5 * (Q + Q.transpose(0, 2, 1))
    sd = np.sqrt(np.diagonal(S, axis1=1, axis2=2))
    of_sd = np.einsum("sqr,srq->sq", S, Q)
    of_sd += [[log_sigma_terms(each, *prior.table)[1] for each in draw] for draw in np.log(sd)]
    i, j = np.triu_indices(q, 1)
    R = S / (sd[:, :, None] * sd[:, None])
    rho = R[:, i, j]
    of_z = (1.0 - rho**2) * (sd[:, i] * sd[:, j] * Q[:, i, j] + 2.0 * (LKJ_ETA - 1.0) * np.linalg.inv(R)[:, i, j])
    return np.concatenate([of_sd, of_z - 2.0 * rho], axis=1), np.concatenate(effects), np.concatenate(slopes)
