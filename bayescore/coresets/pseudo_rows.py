r"""Binomial pseudo-rows of given score, curvature and third derivative, averaged over nodes of a move e.

A pseudo-row is a_+ successes and a_- failures at eta = o + e. With s, c, t score, curvature and third derivative of
log p, and bars for averages,

.. math:: a_+ \bar s(o) - a_- \bar s(-o) = S, \quad a_+ \bar c(o) + a_- \bar c(-o) = D, \quad
          a_+ \bar t(o) - a_- \bar t(-o) = T

Given o, the first two are linear in a; the third is solved in o on a grid, then by bisection. Where no a >= 0 has all
three, score and curvature are met, and the third derivative as nearly as a >= 0 allows. For any symmetric likelihood.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from bayescore.compiled import jit
from bayescore.data.passes.tiles import TILE
from bayescore.models.quadrature import NODES, EffectMoments, effect_moments
from bayescore.types import FloatArray, Likelihood

_REACH, _STEP = 14.0, 0.25  # of the grid of o: beyond, successes or failures are one in a million
_FLAT = 1e-6  # of the largest, sd over the nodes below which a row says nothing
_MENDINGS = 4  # of the targets, until the effect's mean and variance are right


class PseudoRows(NamedTuple):
    """Linear predictors o, successes and failures of pseudo-rows, shape (G,); NaN where there are none."""

    eta: FloatArray
    successes: FloatArray
    failures: FloatArray


@jit
def _counts(
    o: float,
    targets: FloatArray,
    moves: FloatArray,
    share: FloatArray,
    link: Likelihood,
    eta: FloatArray,
    terms: FloatArray,
    scratch: FloatArray,
) -> tuple[float, float, float]:
    """Return successes and failures with the first two targets, and by how much the third is missed."""
    K = moves.size
    for k in range(K):
        eta[k] = o + moves[k]
        eta[K + k] = -o - moves[k]
    link.derivatives(eta, terms, scratch)
    s, c, t, s_, c_, t_ = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(K):
        s += share[k] * terms[1, k]
        c += share[k] * terms[2, k]
        t += share[k] * terms[3, k]
        s_ += share[k] * terms[1, K + k]
        c_ += share[k] * terms[2, K + k]
        t_ += share[k] * terms[3, K + k]
    determinant = s * c_ + s_ * c
    successes = (targets[0] * c_ + s_ * targets[1]) / determinant
    failures = (s * targets[1] - c * targets[0]) / determinant
    return successes, failures, successes * t - failures * t_ - targets[2]


@jit
def _solve(
    targets: FloatArray,
    moves: FloatArray,
    share: FloatArray,
    link: Likelihood,
    out: FloatArray,
) -> None:
    eta, terms, scratch = np.zeros(TILE), np.empty((4, TILE)), np.empty((3, TILE))
    n_steps = round(2.0 * _REACH / _STEP) + 1
    for g in range(len(targets)):
        out[g] = np.nan
        nearest, before, before_o = np.inf, np.nan, 0.0
        for i in range(n_steps):
            o = _STEP * i - _REACH
            a, b, miss = _counts(o, targets[g], moves[g], share[g], link, eta, terms, scratch)
            if not (a >= 0.0 and b >= 0.0 and abs(miss) < np.inf):
                before = np.nan
                continue
            if abs(miss) < nearest:
                nearest = abs(miss)
                out[g, 0], out[g, 1], out[g, 2] = o, a, b
            if before * miss < 0.0:
                low, high = before_o, o
                for _ in range(40):
                    middle = 0.5 * (low + high)
                    a, b, value = _counts(middle, targets[g], moves[g], share[g], link, eta, terms, scratch)
                    if value * before > 0.0:
                        low = middle
                    else:
                        high = middle
                out[g, 0], out[g, 1], out[g, 2] = middle, a, b
                break
            before, before_o = miss, o


def pseudo_rows(targets: FloatArray, moves: FloatArray, share: FloatArray, link: Likelihood) -> PseudoRows:
    """Return pseudo-rows of G groups with these targets.

    Parameters
    ----------
    targets : array, shape (G, 3)
        Score, curvature and third derivative.
    moves, share : arrays, shape (G, K)
        Nodes of e, and their probabilities.
    link : Likelihood
        The likelihood.
    """
    out = np.empty((len(targets), 3))
    contiguous = np.ascontiguousarray
    _solve(contiguous(targets), contiguous(moves), contiguous(share), link, out)
    out[~((out[:, 1] >= 0.0) & (out[:, 2] >= 0.0))] = np.nan
    return PseudoRows(*out.T)


def log_p_of(rows: PseudoRows, moves: FloatArray, link: Likelihood) -> FloatArray:
    """Return the log-likelihood of pseudo-rows at e, shape (G, K)."""
    eta = rows.eta[:, None] + moves
    return np.asarray(rows.successes[:, None] * link.log_p(eta) + rows.failures[:, None] * link.log_p(-eta))


def for_effects(
    targets: FloatArray, center: FloatArray, scale: FloatArray, log_sigma: float, found: EffectMoments, link: Likelihood
) -> tuple[PseudoRows, FloatArray]:
    """Return pseudo-rows, one a group, that give its effect the mean and variance `found`, and nodes less that mean.

    The targets are those of the group's rows to begin with, shape (G, 3); averages of a pseudo-row are over its own
    group's posterior, not quite that of the rows, so score and curvature are moved until its moments are right.
    """
    moves = center[:, None] + scale[:, None] * NODES - found.mean[:, None]
    aims = targets.copy()
    for _ in range(_MENDINGS):
        rows = pseudo_rows(aims, moves, found.share, link)
        own = effect_moments(log_p_of(rows, moves, link), center, scale, log_sigma, aims[:, 0], aims[:, 1])
        with np.errstate(invalid="ignore"):
            change = np.stack([(found.mean - own.mean) / found.variance, 1.0 / found.variance - 1.0 / own.variance], 1)
        aims[:, :2] += np.where(np.isfinite(change), change, 0.0)
    return pseudo_rows(aims, moves, found.share, link), moves


def several(values: FloatArray, moves: FloatArray, share: FloatArray, link: Likelihood) -> tuple[FloatArray, float]:
    """Return a few pseudo-rows whose log-likelihood over the nodes is `values`, shape (K,), up to a constant.

    For groups of one label, say, which no single pseudo-row tells the shape of: non-negative least squares over labels
    and a grid of o, weighted by the nodes' probabilities.

    Returns
    -------
    rows : array, shape (r, 3)
        o, label and weight of each.
    miss : float
        Sd over the nodes of what they leave.
    """
    grid = np.arange(-_REACH, _REACH + 0.5 * _STEP, _STEP)
    eta = np.concatenate([grid, grid])
    labels = np.repeat([1.0, -1.0], len(grid))
    columns = link.log_p(labels * (eta + moves[:, None]))
    centered = columns - share @ columns
    size = np.sqrt(share @ centered**2)
    is_known = size > _FLAT * size.max()
    root = np.sqrt(share)[:, None]
    weights, _ = nnls(
        root * centered[:, is_known] / size[is_known], root[:, 0] * (values - share @ values), maxiter=2000
    )
    weights = weights / size[is_known]
    left = values - share @ values - centered[:, is_known] @ weights
    rows = np.stack([eta[is_known], labels[is_known], weights], axis=1)[weights > 0.0]
    return rows, float(np.sqrt(share @ left**2))
