r"""The compiled marginal density of (beta, log sigma), each group's effect integrated out.

Nodes of each group's quadrature follow the point. Two Newton steps take their centre from `collapsed_target.Effects`,
normal likelihoods, to the effect's mode given beta and sigma. Half the third derivative over the squared curvature
takes it from there near the mean. The density is a function of the point alone.
"""

import math
from typing import NamedTuple

import numpy as np

from bayescore.compiled import jit
from bayescore.data.passes.tiles import TILE
from bayescore.models.density import add_predictors, add_scores, prior_terms
from bayescore.models.families import Family
from bayescore.models.group_priors import log_sigma_terms
from bayescore.models.priors import Part
from bayescore.types import FloatArray, IntArray

_NEWTON_STEPS = 2
_LONGEST = 3.0  # sds of an effect, of a Newton step


class CollapsedArguments(NamedTuple):
    """What the density takes after the point and the gradient; the last four are `collapsed_target.Effects`."""

    columns: FloatArray  # X transposed, (p, n)
    side: FloatArray
    z: FloatArray  # what rows multiply their effect by
    weights: FloatArray
    offset: FloatArray  # may be empty
    codes: IntArray  # G for rows of no group
    family: Family
    nodes: FloatArray
    log_weights: FloatArray
    prior: tuple[Part, ...]
    nu: float  # of the group prior
    group_scale: float
    origin: FloatArray
    peak: FloatArray
    information: FloatArray
    slope: FloatArray


class NodeTerms(NamedTuple):
    """Nodes of each group, shape (G + 1,), logarithms of their terms, (G + 1, K), and scores of rows, (K, n)."""

    center: FloatArray
    scale: FloatArray
    terms: FloatArray
    scores: FloatArray


@jit
def place_nodes(
    eta: FloatArray, a: CollapsedArguments, precision: float, center: FloatArray, scale: FloatArray
) -> None:
    """Move centres, shape (G + 1,), near the effects' means given the rest, and write their scales."""
    n_groups = center.size - 1
    tile, side, terms, scratch = np.zeros(TILE), np.ones(TILE), np.empty((4, TILE)), np.empty((3, TILE))
    sums = np.empty((n_groups + 1, 3))
    for _ in range(_NEWTON_STEPS):
        sums[:] = 0.0
        for start in range(0, eta.size, TILE):
            width = min(TILE, eta.size - start)
            for lane in range(width):
                n = start + lane
                tile[lane], side[lane] = eta[n] + a.z[n] * center[a.codes[n]], a.side[n]
            a.family.derivatives(tile, side, terms, scratch)
            for lane in range(width):
                n = start + lane
                g, w, r = a.codes[n], a.weights[n], a.z[n]
                sums[g, 0] += w * r * terms[1, lane]
                sums[g, 1] += w * r * r * terms[2, lane]
                sums[g, 2] += w * r * r * r * terms[3, lane]
        for g in range(n_groups):
            curvature = max(sums[g, 1], 0.0) + precision
            scale[g] = 1.0 / math.sqrt(curvature)
            step = (sums[g, 0] - center[g] * precision) / curvature
            center[g] += min(max(step, -_LONGEST * scale[g]), _LONGEST * scale[g])
    for g in range(n_groups):
        skew = 0.5 * sums[g, 2] * scale[g] ** 4
        center[g] += min(max(skew, -0.5 * scale[g]), 0.5 * scale[g])
    center[n_groups] = scale[n_groups] = 0.0


@jit
def node_terms(theta: FloatArray, a: CollapsedArguments, out: NodeTerms) -> float:
    """Write the nodes and their terms; return the log-likelihood of rows of no group."""
    center, scale, terms, scores = out
    p, n_groups, K, n = theta.size - 1, center.size - 1, a.nodes.size, a.weights.size
    beta, log_sigma = theta[:p], theta[p]
    precision = math.exp(-2.0 * log_sigma)
    for g in range(n_groups):
        at = a.peak[g]
        for d in range(p):
            at -= a.slope[g, d] * (beta[d] - a.origin[d])
        center[g] = a.information[g] * at / (a.information[g] + precision)
    center[n_groups] = 0.0
    eta = np.zeros(n)
    add_predictors(beta, a.columns, a.offset, eta)
    place_nodes(eta, a, precision, center, scale)
    log_p = np.empty(n)
    terms[:] = 0.0
    for k in range(K):
        for i in range(n):
            g = a.codes[i]
            scores[k, i] = eta[i] + a.z[i] * (center[g] + scale[g] * a.nodes[k])
        a.family.rows(scores[k], a.side, log_p)
        for i in range(n):
            terms[a.codes[i], k] += a.weights[i] * log_p[i]
    for g in range(n_groups):
        log_scale = math.log(scale[g]) - log_sigma
        for k in range(K):
            z = a.nodes[k]
            b = center[g] + scale[g] * z
            terms[g, k] += log_scale - 0.5 * b * b * precision + 0.5 * z * z + a.log_weights[k]
    return float(terms[n_groups, 0])


@jit
def collapsed_density(theta: FloatArray, gradient: FloatArray, a: CollapsedArguments) -> float:
    """Return the log marginal posterior density at (beta, log sigma), and write its gradient, shape (p + 1,)."""
    p, n_groups, K, n = theta.size - 1, a.peak.size - 1, a.nodes.size, a.weights.size
    center, scale, terms = np.empty(n_groups + 1), np.empty(n_groups + 1), np.empty((n_groups + 1, K))
    scores = np.empty((K, n))
    total = node_terms(theta, a, NodeTerms(center, scale, terms, scores))
    precision = math.exp(-2.0 * theta[p])
    own, slope, _ = log_sigma_terms(theta[p], a.nu, a.group_scale)
    total += own + prior_terms(theta[:p], a.prior, gradient[:p])
    gradient[p] = slope
    for g in range(n_groups):
        top = terms[g].max()
        whole = 0.0
        for k in range(K):
            terms[g, k] = math.exp(terms[g, k] - top)
            whole += terms[g, k]
        total += top + math.log(whole)
        square = 0.0
        for k in range(K):
            terms[g, k] /= whole
            b = center[g] + scale[g] * a.nodes[k]
            square += terms[g, k] * b * b
        gradient[p] += square * precision - 1.0
    terms[n_groups] = 1.0 / K
    mean = np.zeros(n)
    for k in range(K):
        for i in range(n):
            mean[i] += terms[a.codes[i], k] * scores[k, i]
    for i in range(n):
        mean[i] *= a.weights[i]
    add_scores(a.columns, mean, gradient[:p])
    return total


@jit
def _all_node_terms(
    draws: FloatArray, a: CollapsedArguments, center: FloatArray, scale: FloatArray, values: FloatArray
) -> None:
    scores = np.empty((a.nodes.size, a.weights.size))
    for s in range(len(draws)):
        node_terms(draws[s], a, NodeTerms(center[s], scale[s], values[s], scores))


def nodes_at(draws: FloatArray, a: CollapsedArguments) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return centres and scales, shape (S, G + 1), and log terms, (S, G + 1, K), of the groups at draws of theta."""
    shape = len(draws), a.peak.size
    found = np.empty(shape), np.empty(shape), np.empty((*shape, a.nodes.size))
    _all_node_terms(np.ascontiguousarray(draws), a, *found)
    return found
