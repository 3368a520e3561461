r"""Nodes of each group's effect, as many as its integrand asks for; `add_values` sums rows over them.

The integrand of group g is exp(phi(b)) N(b; 0, sigma^2), phi the log-likelihood of its rows. A group has nodes by one
of two rules. Both have the form b_k = c + d_k and a log weight v_k, so that the integral is

.. math:: \sum_k e^{\phi(b_k) + v_k}, \qquad
          v_k = -\tfrac12 b_k^2 / \sigma^2 - \log\sigma + \begin{cases}
          \log s + z_k^2 / 2 + \log\omega_k & \text{Gauss and Hermite, } d_k = s z_k \\
          \log h - \tfrac12 \log 2\pi & \text{trapezoid, } d_k = h k \end{cases}

with z_k, omega_k nodes and weights for N(0, 1). Nodes of Gauss and Hermite follow the point (beta, log sigma). Those of
the trapezoid are multiples of h that do not move: a point only says which of them are needed. So the density is smooth,
but for terms of less than e^-14 of the largest, `TRAPEZOID_CUT`.

Log-likelihoods of groups at the nodes of their effects, and the scores of rows there.

References
----------
Pinheiro and Bates (1995), Journal of Computational and Graphical Statistics 4, 12-35. Trefethen and Weideman (2014),
The exponentially convergent trapezoidal rule, SIAM Review 56.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit, jit_inner
from bayescore.families import Family
from bayescore.numerics.elementary import LOG_WEIGHTS, N_NODES, NARROW, NODES, WEIGHTS, largest, largest_count
from bayescore.types import FloatArray, IntArray

TRAPEZOID_CUT = 14.0
"""Nats below the largest term of a group at which the trapezoid ends."""


GAUSS_HERMITE_BELOW = 0.8
"""Sigma below which nine nodes of Gauss and Hermite are right to 2e-5 nats, whatever the rows."""


_MAX_WEIGHT_RATIO = 6.0  # mean of posterior over quadrature weights above which nodes miss an effect


_MAX_END_SHARE = 1e-3  # share of the first and last node above which a trapezoid misses some of the effect


_MIN_SD_STEPS = 0.5  # sd of an effect in steps of the trapezoid, below which it may lie between nodes


_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Rules(NamedTuple):
    """The rule of each group, shape (G + 1,); the last entry is of rows of no group.

    The trapezoid's nodes lie between `low` and `high`. Those with b^2 > mode^2 + 2 sigma^2 (`TRAPEZOID_CUT` + slack)
    are left out: there the prior alone makes the integrand negligible.
    """

    step: FloatArray  # of the trapezoid; 0 where the rule is Gauss and Hermite's
    low: FloatArray
    high: FloatArray
    mode: FloatArray  # of the integrand at some sigma
    slack: FloatArray  # largest phi less phi there

    @classmethod
    def normal(cls, n_groups: int) -> "Rules":
        """Return Gauss and Hermite's rule for all groups."""
        return cls(*np.zeros((5, n_groups + 1)))


class NodeSet(NamedTuple):
    """Where the nodes of groups are: places in flat arrays, centres and scales; scale 0 is the trapezoid's mark."""

    first: IntArray  # (G + 2,)
    center: FloatArray  # (G + 1,); of the trapezoid its first node
    scale: FloatArray  # (G + 1,)
    step: FloatArray  # (G + 1,)
    nodes: FloatArray  # of Gauss and Hermite, (K,)
    log_weights: FloatArray


@jit
def lay_out_nodes(sigma: float, rules: Rules, n_nodes: int) -> tuple[IntArray, FloatArray]:
    """Return the places of each group's nodes, shape (G + 2,), and where the trapezoid begins, (G + 1,).

    The places do for any smaller sigma too.
    """
    n_groups = rules.step.size - 1
    first, start = np.zeros(n_groups + 2, dtype=np.int64), np.zeros(n_groups + 1)
    for g in range(n_groups):
        count, h = n_nodes, rules.step[g]
        if h > 0.0 and sigma >= GAUSS_HERMITE_BELOW:
            reach = math.sqrt(rules.mode[g] ** 2 + 2.0 * sigma * sigma * (TRAPEZOID_CUT + rules.slack[g]))
            begin = math.ceil(max(rules.low[g], -reach) / h)
            count = max(n_nodes, int(math.floor(min(rules.high[g], reach) / h) - begin) + 1)
            start[g] = begin * h
        first[g + 1] = first[g] + count
    first[n_groups + 1] = first[n_groups] + 1  # rows of no group have the effect 0
    return first, start


@jit_inner
def place_trapezoids(sigma: float, rules: Rules, start: FloatArray, center: FloatArray, scale: FloatArray) -> None:
    """Write first nodes, and scale 0, of groups whose rule at this sigma is the trapezoid."""
    for g in range(rules.step.size - 1):
        if rules.step[g] > 0.0 and sigma >= GAUSS_HERMITE_BELOW:
            center[g], scale[g] = start[g], 0.0


@jit_inner
def write_effects(at: NodeSet, g: int, b: FloatArray) -> None:
    """Write b of the nodes of a group."""
    center, scale, h = at.center[g], at.scale[g], at.step[g]
    if scale > 0.0:
        n_nodes = min(b.size, at.nodes.size)
        for k in range(n_nodes):
            b[k] = center + scale * at.nodes[k]
        for k in range(n_nodes, b.size):
            b[k] = center
    else:
        for k in range(b.size):
            b[k] = center + h * k


@jit
def add_log_weights(log_sigma: float, at: NodeSet, terms: FloatArray) -> None:
    """Add the log weights to phi at the nodes, shape (M,)."""
    half = 0.5 * math.exp(-2.0 * log_sigma)
    for g in range(at.step.size - 1):
        part, center, scale, h = terms[at.first[g] : at.first[g + 1]], at.center[g], at.scale[g], at.step[g]
        if scale > 0.0:
            base = math.log(scale) - log_sigma
            for k in range(part.size):
                if k < at.nodes.size:
                    z = at.nodes[k]
                    b = center + scale * z
                    part[k] += base + (at.log_weights[k] + 0.5 * z * z) - half * b * b
                else:
                    part[k] = -math.inf  # room of a trapezoid at a larger sigma
        else:
            base = math.log(h) - _HALF_LOG_2PI - log_sigma
            for k in range(part.size):
                b = center + h * k
                part[k] += base - half * b * b


class DrawNodes(NamedTuple):
    """The nodes of groups at S draws of theta, in the same places of flat arrays."""

    theta: FloatArray  # (S, p + 1)
    center: FloatArray  # (S, G + 1)
    scale: FloatArray  # (S, G + 1)
    first: IntArray  # (G + 2,)
    step: FloatArray  # (G + 1,)

    def effects(self, g: int) -> FloatArray:
        """Return b at the nodes of a group, shape (S, K); what a rule has no use for is its centre."""
        count, scale = int(self.first[g + 1] - self.first[g]), self.scale[:, g, None]
        nodes = np.append(NODES, np.zeros(count))[:count]
        steps = np.where(scale > 0.0, scale * nodes, self.step[g] * np.arange(count))
        return np.asarray(self.center[:, g, None] + steps)

    def of(self, groups: IntArray) -> "DrawNodes":
        """Return the nodes of some groups, the last of them that of rows of no group."""
        first = np.append(0, np.cumsum(np.diff(self.first)[groups]))
        center, scale = (np.ascontiguousarray(each[:, groups]) for each in (self.center, self.scale))
        return DrawNodes(self.theta, center, scale, first, self.step[groups])

    def places(self, groups: IntArray) -> IntArray:
        """Return where the nodes of some groups are in the flat arrays."""
        count = np.diff(self.first)[groups]
        before = np.append(0, np.cumsum(count)[:-1])
        return np.asarray(np.repeat(self.first[groups] - before, count) + np.arange(count.sum()))


def weigh_nodes(terms: FloatArray, at: DrawNodes) -> None:
    """Add log weights to phi at the nodes, shape (S, M)."""
    for s in range(len(at.theta)):
        nodes = NodeSet(at.first, at.center[s], at.scale[s], at.step, NODES, LOG_WEIGHTS)
        add_log_weights(at.theta[s, -1], nodes, terms[s])


class EffectSummaries(NamedTuple):
    """Log-likelihoods of groups, shape (S, G + 1), mean and variance of effects, and where nodes miss them, (S, G)."""

    log_p: FloatArray
    mean: FloatArray
    variance: FloatArray
    missed: NDArray[np.bool_]


@jit
def _moments(terms: FloatArray, at: DrawNodes, tables: tuple[FloatArray, FloatArray], out: EffectSummaries) -> None:
    nodes, weights = tables
    n_groups = at.step.size - 1
    most = largest_count(at.first)
    b, share = np.empty(most), np.empty(most)
    for s in range(len(terms)):
        nodes_of_draw = NodeSet(at.first, at.center[s], at.scale[s], at.step, nodes, weights)
        out.log_p[s, n_groups] = terms[s, at.first[n_groups]]
        for g in range(n_groups):
            part = terms[s, at.first[g] : at.first[g + 1]]
            count, top, total, mean, square = part.size, largest(part), 0.0, 0.0, 0.0
            write_effects(nodes_of_draw, g, b[:count])
            for k in range(count):
                share[k] = math.exp(part[k] - top)
                total += share[k]
            covered = 0.0
            for k in range(count):
                share[k] /= total
                mean += share[k] * b[k]
            for k in range(count):
                square += share[k] * (b[k] - mean) ** 2
            out.log_p[s, g], out.mean[s, g], out.variance[s, g] = top + math.log(total), mean, square
            scale = at.scale[s, g]
            if scale > 0.0:
                for k in range(nodes.size):
                    covered += share[k] * share[k] / weights[k]
                out.missed[s, g] = not (covered <= _MAX_WEIGHT_RATIO and square > NARROW * scale * (NARROW * scale))
            else:
                ends = share[0] + share[count - 1]
                out.missed[s, g] = not (ends <= _MAX_END_SHARE and square > (_MIN_SD_STEPS * at.step[g]) ** 2)


def effect_summaries(terms: FloatArray, at: DrawNodes) -> EffectSummaries:
    """Return log-likelihoods of groups and moments of their effects from log terms at the nodes, shape (S, M)."""
    shape = at.center.shape[0], at.center.shape[1] - 1
    out = EffectSummaries(np.empty(at.center.shape), np.empty(shape), np.empty(shape), np.zeros(shape, dtype=bool))
    _moments(terms, at, (NODES, WEIGHTS), out)
    return out


CERTAIN_ETA = 37.0
"""Eta beyond which labels are certain: log p and its score are below 1e-15."""


_NOTHING = 1e-15


_CERTAINTY_FROM_NODES = 128  # nodes of a group; with more, labels are certain at most of them


_CHUNK = 1024  # pairs of a row and a node evaluated at a time


class NodeRows(NamedTuple):
    """What `add_values` reads of rows, shape (n,) each."""

    side: FloatArray
    weights: FloatArray
    z: FloatArray  # what rows multiply their effect by
    codes: IntArray  # G for rows of no group


@jit_inner
def _evaluate_uncertain(
    pairs: tuple[FloatArray, FloatArray, FloatArray], codes: IntArray, at: NodeSet, family: Family
) -> None:
    """Do what `family.rows` does for rows at their nodes, but at those of a trapezoid where their label is certain.

    From one of these to the next predictors rise, or they fall. Where a label is certain log p and the score are 0.
    """
    (eta, side, log_p), begin = pairs, 0
    for g in codes:
        end = begin + at.first[g + 1] - at.first[g]
        low, high = begin, end
        sure_first, sure_last = side[begin] * eta[begin] > CERTAIN_ETA, side[begin] * eta[end - 1] > CERTAIN_ETA
        if at.scale[g] == 0.0 and sure_first != sure_last:
            one, other = begin, end - 1
            while other - one > 1:
                middle = (one + other) // 2
                if (side[begin] * eta[middle] > CERTAIN_ETA) == sure_first:
                    one = middle
                else:
                    other = middle
            low, high = (other, end) if sure_first else (begin, other)
        elif at.scale[g] == 0.0 and sure_first:
            low = end
        family.rows(eta[low:high], side[low:high], log_p[low:high])
        for k in range(begin, low):
            eta[k] = log_p[k] = 0.0
        for k in range(high, end):
            eta[k] = log_p[k] = 0.0
        begin = end


@jit
def add_values(
    eta: FloatArray, rows: NodeRows, at: NodeSet, family: Family, out: tuple[FloatArray, FloatArray]
) -> None:
    """Add phi at the nodes, shape (M,), and write the scores of rows at them, one row after the other.

    The second array of `out` is for the scores; nothing is kept if it is empty. Where a group has more than
    `_CERTAINTY_FROM_NODES` nodes, rows are not evaluated where their label is certain: at most nodes where sigma is
    large.
    """
    values, scores = out
    most = largest_count(at.first)
    size = max(_CHUNK, most)
    side, log_p, scratch = np.empty(size), np.empty(size), np.empty(size)
    side[0], scratch[0], side[1], scratch[1] = 1.0, CERTAIN_ETA, -1.0, -CERTAIN_ETA
    family.rows(scratch[:2], side[:2], log_p[:2])
    at_ends = max(abs(log_p[0]), abs(log_p[1]), abs(scratch[0]), abs(scratch[1]))  # not small for counts
    some = most > _CERTAINTY_FROM_NODES and at_ends < _NOTHING
    keep, done, begin, n = scores.size > 0, 0, 0, eta.size
    while begin < n:
        stop, width = begin, 0
        part = scores[done : done + size] if keep else scratch
        while stop < n:
            g = rows.codes[stop]
            count = at.first[g + 1] - at.first[g]
            if width + count > size:
                break
            z = rows.z[stop]
            middle, own_side = eta[stop] + z * at.center[g], rows.side[stop]
            if count == N_NODES and at.scale[g] > 0.0:  # the usual case: a loop of constant length
                spread = z * at.scale[g]
                for k in range(N_NODES):
                    part[width + k] = middle + spread * at.nodes[k]
                    side[width + k] = own_side
            elif at.scale[g] > 0.0:
                spread = z * at.scale[g]
                for k in range(min(count, at.nodes.size)):
                    part[width + k] = middle + spread * at.nodes[k]
                for k in range(at.nodes.size, count):
                    part[width + k] = middle
                for k in range(count):
                    side[width + k] = own_side
            else:
                spread = z * at.step[g]
                for k in range(count):
                    part[width + k] = middle + spread * k
                    side[width + k] = own_side
            width += count
            stop += 1
        if some:
            _evaluate_uncertain((part[:width], side[:width], log_p[:width]), rows.codes[begin:stop], at, family)
        else:
            family.rows(part[:width], side[:width], log_p[:width])
        place = 0
        for i in range(begin, stop):
            first, w = at.first[rows.codes[i]], rows.weights[i]
            count = at.first[rows.codes[i] + 1] - first
            if count == N_NODES:
                for k in range(N_NODES):
                    values[first + k] += w * log_p[place + k]
            else:
                for k in range(count):
                    values[first + k] += w * log_p[place + k]
            place += count
        begin, done = stop, done + width
