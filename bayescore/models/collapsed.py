r"""The compiled marginal density of (beta, log sigma), each group's effect integrated out.

Nodes of each group's quadrature are those of `effect_nodes`. Centres of Gauss and Hermite's follow the point: two
Newton steps take them from `collapsed_target.Effects`, normal likelihoods, to the effect's mode given beta and sigma,
and half the third derivative over the squared curvature from there near the mean. The density is a function of the
point alone, and its gradient is the average over the same nodes of that of the joint density.
"""

import math
from typing import NamedTuple

import numpy as np

from bayescore.compiled import jit
from bayescore.data.passes.tiles import TILE
from bayescore.models.density import add_predictors, add_scores, prior_terms
from bayescore.models.effect_nodes import (
    DrawNodes,
    NodeSet,
    Rules,
    add_log_weights,
    hold_still,
    lay_out,
    write_effects,
)
from bayescore.models.elementary import exp_minus
from bayescore.models.families import Family
from bayescore.models.group_priors import log_sigma_terms
from bayescore.models.node_values import NodeRows, add_values
from bayescore.models.priors import Part
from bayescore.models.quadrature import N_NODES
from bayescore.types import FloatArray, IntArray

_NEWTON_STEPS = 2
_LONGEST = 3.0  # sds of an effect, of a Newton step


class CollapsedArguments(NamedTuple):
    """What the density takes after the point and the gradient; four of the last are `collapsed_target.Effects`."""

    columns: FloatArray  # X transposed, (p, n)
    side: FloatArray
    z: FloatArray  # what rows multiply their effect by
    weights: FloatArray
    offset: FloatArray  # may be empty
    codes: IntArray  # G for rows of no group
    family: Family
    nodes: FloatArray
    log_weights: FloatArray
    rules: Rules
    prior: tuple[Part, ...]
    nu: float  # of the group prior
    group_scale: float
    origin: FloatArray
    peak: FloatArray
    information: FloatArray
    slope: FloatArray
    counts: FloatArray  # how often the integral of each group counts, (G + 1,): 1, but in a sample of groups

    def of(self, groups: IntArray, counts: FloatArray) -> "CollapsedArguments":
        """Return those of some groups, in that order, each counted as often as it says, and of rows of no group."""
        n_groups = len(self.peak) - 1
        at, place = np.append(groups, n_groups), np.full(n_groups + 1, -1)
        place[at] = np.arange(len(at))
        kept = np.flatnonzero(place[self.codes] >= 0)
        return self._replace(
            columns=np.ascontiguousarray(self.columns[:, kept]),
            side=self.side[kept],
            z=self.z[kept],
            weights=self.weights[kept],
            offset=self.offset[kept] if self.offset.size else self.offset,
            codes=place[self.codes[kept]],
            rules=Rules(*(each[at] for each in self.rules)),
            peak=self.peak[at],
            information=self.information[at],
            slope=np.ascontiguousarray(self.slope[at]),
            counts=np.append(counts, 1.0),
        )


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
def place(theta: FloatArray, a: CollapsedArguments, start: FloatArray, at: NodeSet) -> FloatArray:
    """Write centres and scales of the nodes; return x . beta + offset of the rows, shape (n,)."""
    center, scale, p, n_groups = at.center, at.scale, theta.size - 1, start.size - 1
    beta, precision = theta[:p], math.exp(-2.0 * theta[p])
    for g in range(n_groups):
        peak = a.peak[g]
        for d in range(p):
            peak -= a.slope[g, d] * (beta[d] - a.origin[d])
        center[g] = a.information[g] * peak / (a.information[g] + precision)
    center[n_groups] = 0.0
    eta = np.zeros(a.weights.size)
    add_predictors(beta, a.columns, a.offset, eta)
    place_nodes(eta, a, precision, center, scale)
    hold_still(math.exp(theta[p]), a.rules, start, center, scale)
    return eta


@jit
def collapsed_density(theta: FloatArray, gradient: FloatArray, a: CollapsedArguments) -> float:
    """Return the log marginal posterior density at (beta, log sigma), and write its gradient, shape (p + 1,)."""
    p, n_groups, n = theta.size - 1, a.peak.size - 1, a.weights.size
    first, start = lay_out(math.exp(theta[p]), a.rules, a.nodes.size)
    at = NodeSet(first, np.empty(n_groups + 1), np.empty(n_groups + 1), a.rules.step, a.nodes, a.log_weights)
    eta, terms, pairs = place(theta, a, start, at), np.zeros(first[-1]), 0
    for i in range(n):
        pairs += first[a.codes[i] + 1] - first[a.codes[i]]
    scores = np.empty(pairs)
    add_values(eta, NodeRows(a.side, a.weights, a.z, a.codes), at, a.family, (terms, scores))
    add_log_weights(theta[p], at, terms)
    precision = math.exp(-2.0 * theta[p])
    own, slope, _ = log_sigma_terms(theta[p], a.nu, a.group_scale)
    total = own + prior_terms(theta[:p], a.prior, gradient[:p]) + terms[first[n_groups]]
    terms[first[n_groups]] = 0.0
    gradient[p] = slope
    b = np.empty(np.diff(first).max())
    for g in range(n_groups):
        part = terms[first[g] : first[g + 1]]
        top = part.max()
        total += a.counts[g] * top
        for k in range(part.size):
            part[k] = top - part[k]
    powers = np.empty(terms.size)
    exp_minus(terms, powers, powers.view(np.int64))
    for g in range(n_groups):
        part = terms[first[g] : first[g + 1]]
        write_effects(at, g, b[: part.size])
        whole, square = 0.0, 0.0
        for k in range(part.size):
            whole += part[k]
            square += part[k] * b[k] * b[k]
        total += a.counts[g] * math.log(whole)
        for k in range(part.size):
            part[k] *= a.counts[g] / whole
        gradient[p] += a.counts[g] * (square / whole * precision - 1.0)
    done = 0
    for i in range(n):
        begin, mean = first[a.codes[i]], 0.0
        count = first[a.codes[i] + 1] - begin
        if count == N_NODES:  # a loop of constant length
            for k in range(N_NODES):
                mean += terms[begin + k] * scores[done + k]
        else:
            for k in range(count):
                mean += terms[begin + k] * scores[done + k]
        eta[i] = a.weights[i] * mean
        done += count
    add_scores(a.columns, eta, gradient[:p])
    return float(total)


@jit
def _fill_terms(
    draws: FloatArray, a: CollapsedArguments, first: IntArray, start: FloatArray, out: tuple[FloatArray, ...]
) -> None:
    none = np.empty(0)
    center, scale, terms = out
    for s in range(len(draws)):
        at = NodeSet(first, center[s], scale[s], a.rules.step, a.nodes, a.log_weights)
        eta = place(draws[s], a, start, at)
        add_values(eta, NodeRows(a.side, a.weights, a.z, a.codes), at, a.family, (terms[s], none))
        add_log_weights(draws[s, -1], at, terms[s])


def nodes_at(draws: FloatArray, a: CollapsedArguments, *, sigma: float | None = None) -> tuple[DrawNodes, FloatArray]:
    """Return the nodes of the groups at draws of theta, and log terms there, shape (S, M).

    `sigma` is the largest one of the draws that share places in the flat arrays, by default that of these draws.
    """
    most = float(np.exp(draws[:, -1].max())) if sigma is None else sigma
    first, start = lay_out(most, a.rules, a.nodes.size)
    shape = len(draws), len(start)
    center, scale, terms = np.empty(shape), np.empty(shape), np.zeros((len(draws), int(first[-1])))
    _fill_terms(np.ascontiguousarray(draws), a, first, start, (center, scale, terms))
    return DrawNodes(draws, center, scale, first, a.rules.step), terms


def n_nodes(sigma: float, a: CollapsedArguments) -> int:
    """Return the number of nodes of all groups at a sigma."""
    return int(lay_out(sigma, a.rules, a.nodes.size)[0][-1])
