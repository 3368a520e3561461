"""Points of `joint_target`: what effects, sds and correlations are in its coordinates, and the way back near there."""

import math

import numpy as np

from bayescore.models.group_priors import LKJ_ETA
from bayescore.types import FloatArray


def regressions(information: FloatArray, w: FloatArray, widest: int) -> FloatArray:
    """Return M, shape (G, q, widest): what effects before it, less centred, add to a level's effect by its rows."""
    G, q = w.shape
    M = np.zeros((G, q, widest))
    for i in range(1, q):
        own = np.maximum(information[:, i, i], np.finfo(float).tiny)
        M[:, i, :i] = information[:, i, :i] / own[:, None]
    return M


def of_covariance(
    covariance: FloatArray, signed: np.ndarray, of_log: FloatArray, w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return coordinates of sds and correlations, and about their sds."""
    q, sd = len(covariance), np.sqrt(np.diagonal(covariance))
    C = np.linalg.cholesky(covariance / np.outer(sd, sd))
    own, wide = list(np.where(signed, sd, np.log(sd))), list(np.where(signed, np.hypot(1.0, of_log) * sd, of_log))
    for i in range(q):
        left = 1.0
        for j in range(i):
            own.append(math.atanh(C[i, j] / left))
            left *= math.sqrt(max(1.0 - (C[i, j] / left) ** 2, 1e-12))
            wide.append(1.0 / math.sqrt(2.0 * (LKJ_ETA - 1.0) + 1.0 + float((w[:, i] * w[:, j]).sum())))
    return np.array(own), np.array(wide)


def slopes_of(
    factor: FloatArray, w: FloatArray, M: FloatArray, u: FloatArray, unit: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return du / dv and dz / dv of each level, (G, q, q), and v of effects u, (G, q); `unit` is the family's."""
    G, q = w.shape
    of_u, of_z, v, z = np.zeros((G, q, q)), np.zeros((G, q, q)), np.empty((G, q)), np.zeros((G, q))
    for i in range(q):
        sigma, below = factor[i, i], factor[i, :i]
        narrow = np.where(w[:, i] > 0.0, np.abs(sigma) ** -w[:, i] * unit ** (w[:, i] - 1.0), 1.0)
        mean = np.einsum("j,gjk->gk", below, of_z[:, :i]) + np.einsum("gj,gjk->gk", M[:, i, :i], of_u[:, :i])
        of_z[:, i] = -(w[:, i] * narrow)[:, None] * mean
        of_z[:, i, i] += narrow
        of_u[:, i] = np.einsum("j,gjk->gk", below, of_z[:, :i]) + sigma * of_z[:, i]
        z[:, i] = (u[:, i] - z[:, :i] @ below) / sigma
        v[:, i] = z[:, i] / narrow + w[:, i] * (z[:, :i] @ below + (M[:, i, :i] * u[:, :i]).sum(axis=1))
    return of_u, of_z, v
