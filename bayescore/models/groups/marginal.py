r"""The marginal posterior of (beta, log sigma): rows in groups, each group's effect integrated out by quadrature.

.. math:: \log\pi(\beta, \log\sigma) =
          \sum_g \log \int \prod_{n \in g} e^{w_n \ell(x_n \beta + o_n + b, y_n)} N(b; 0, \sigma^2) db +
          \log\pi_0(\beta) + \log\pi_0(\log\sigma)

Samplers, certificates and `find_map` take `CollapsedTarget`.

The compiled marginal density of (beta, log sigma), each group's effect integrated out.

Nodes of each group's quadrature are those of `nodes`. Centres of Gauss and Hermite's follow the point: two Newton steps
take them from `marginal_mode.EffectLikelihoods`, normal likelihoods, to the effect's mode given beta and sigma, and
half the third derivative over the squared curvature from there near the mean. The density is a function of the point
alone, and its gradient is the average over the same nodes of that of the joint density.

Which groups need the trapezoid for their effect, its step, and the stretch it covers (`nodes`).

The trapezoid's error for an analytic integrand is exp(-2 pi d / h) up to a constant, d the distance of the poles
from the real line, whatever the shape (Trefethen and Weideman 2014). It is measured: at four times as many nodes as a
step h needs, the four lattices of step h that these are made of differ by it. From one such measurement the formula
gives the step whose error is what is asked. Groups keep Gauss and Hermite's nodes while their errors, at the mode of
sigma and two sds above, add up to a fifth of `SUM_ERROR`; that needs no check where an effect is narrow and its
likelihood hardly skew.

The collapsed posterior of very many groups: a quadratic of all of them, and a sample of groups for what is left.

The log posterior of theta = (beta, log sigma) is a sum over groups of m_g, the log-likelihood of the group's rows with
its effect integrated out. Near the mode t each m_g is almost a quadratic, and what is left of it is small and alike
from group to group. With q the quadratic at t, by gradients there and their differences about it, the density

.. math:: q_{all}(\theta) + \sum_{g \in S} \frac{m_g(\theta)}{\pi_g} - q_S(\theta)

has the exact gradient and curvature of all groups, and takes from a sample S of groups only what is no quadratic.
Where that is much, as of small groups whose effects vary widely, a cubic fitted to gradients takes the quadratic's
place: of D coordinates, D^2 / 2 gradients of all groups determine it.
Group g is in S with probability pi_g, which grows with the share of the curvature that is its own. Groups are chosen by
systematic sampling in a random order, the same for the same rows. `SampledGroups.error` compares it with all groups.

References
----------
Särndal, Swensson and Wretman (1992), Model Assisted Survey Sampling,
chapter 6. Bardenet, Doucet and Holmes (2017), JMLR 18, on such control variates in sampling.
"""

import math
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, permutations
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import linalg

from bayescore.compiled import StoredDensity, at_address, evaluate_stored, jit, jit_inner
from bayescore.data.coreset import Coreset
from bayescore.data.passes import TILE
from bayescore.families import Family
from bayescore.models.groups.marginal_mode import EffectLikelihoods, MarginalPoint, evaluate_at, marginal_mode
from bayescore.models.groups.nodes import (
    GAUSS_HERMITE_BELOW,
    TRAPEZOID_CUT,
    DrawNodes,
    NodeRows,
    NodeSet,
    Rules,
    add_log_weights,
    add_values,
    lay_out_nodes,
    place_trapezoids,
    write_effects,
)
from bayescore.models.groups.rows import THIRD, effect_multipliers, sums_over_rows
from bayescore.models.laplace import Mode, NoModeError, factor_of_inverse, find_mode
from bayescore.models.posterior import Derivatives, add_predictors, add_scores, prior_part, prior_terms
from bayescore.numerics.elementary import (
    LOG_WEIGHTS,
    N_NODES,
    NODES,
    exp_minus,
    fill,
    largest,
    largest_count,
    normal_nodes,
)
from bayescore.priors import Prior
from bayescore.priors.groups import GroupPrior, log_sigma_terms
from bayescore.priors.prior import Part, check_density
from bayescore.types import NO_OFFSET, FloatArray, IntArray, WeightedData, read_only

_NEWTON_STEPS = 2


_MAX_NEWTON_SDS = 3.0  # sds of an effect, of a Newton step


class CollapsedArguments(NamedTuple):
    """What the density takes after the point and the gradient; four of the last are `EffectLikelihoods`."""

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

    def of_groups(self, groups: IntArray, counts: FloatArray) -> "CollapsedArguments":
        """Return those of some groups, in that order, each counted as often as it says, and of rows of no group."""
        n_groups = len(self.peak) - 1
        at, place = np.append(groups, n_groups), np.full(n_groups + 1, -1)
        place[at] = np.arange(len(at))
        kept = np.flatnonzero(place[self.codes] >= 0)
        some = self._replace(
            columns=np.ascontiguousarray(self.columns[:, kept]),
            side=self.side[kept],
            z=self.z[kept],
            weights=self.weights[kept],
            offset=read_only(self.offset[kept]) if self.offset.size else self.offset,
            codes=place[self.codes[kept]],
            rules=Rules(*(each[at] for each in self.rules)),
            peak=self.peak[at],
            information=self.information[at],
            slope=np.ascontiguousarray(self.slope[at]),
            counts=np.append(counts, 1.0),
        )
        return at_address(some)


@jit_inner
def place_nodes(
    eta: FloatArray, a: CollapsedArguments, precision: float, center: FloatArray, scale: FloatArray
) -> None:
    """Move centres, shape (G + 1,), near the effects' means given the rest, and write their scales."""
    n_groups = center.size - 1
    lanes, terms, scratch = np.empty((2, TILE)), np.empty((4, TILE)), np.empty((3, TILE))
    sums, tile, side = np.empty((n_groups + 1, 3)), lanes[0], lanes[1]
    for lane in range(TILE):
        tile[lane], side[lane] = 0.0, 1.0
    for _ in range(_NEWTON_STEPS):
        for g in range(n_groups + 1):
            sums[g, 0] = sums[g, 1] = sums[g, 2] = 0.0
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
            center[g] += min(max(step, -_MAX_NEWTON_SDS * scale[g]), _MAX_NEWTON_SDS * scale[g])
    for g in range(n_groups):
        skew = 0.5 * sums[g, 2] * scale[g] ** 4
        center[g] += min(max(skew, -0.5 * scale[g]), 0.5 * scale[g])
    center[n_groups] = scale[n_groups] = 0.0


@jit_inner
def center_nodes(theta: FloatArray, a: CollapsedArguments, start: FloatArray, at: NodeSet) -> FloatArray:
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
    place_trapezoids(math.exp(theta[p]), a.rules, start, center, scale)
    return eta


@jit
def collapsed_density(theta: FloatArray, gradient: FloatArray, a: CollapsedArguments) -> float:
    """Return the log marginal posterior density at (beta, log sigma), and write its gradient, shape (p + 1,)."""
    p, n_groups, n = theta.size - 1, a.peak.size - 1, a.weights.size
    first, start = lay_out_nodes(math.exp(theta[p]), a.rules, a.nodes.size)
    at = NodeSet(first, np.empty(n_groups + 1), np.empty(n_groups + 1), a.rules.step, a.nodes, a.log_weights)
    eta, terms, pairs = center_nodes(theta, a, start, at), np.zeros(first[-1]), 0
    for i in range(n):
        pairs += first[a.codes[i] + 1] - first[a.codes[i]]
    scores = np.empty(pairs)
    add_values(eta, NodeRows(a.side, a.weights, a.z, a.codes), at, a.family, (terms, scores))
    add_log_weights(theta[p], at, terms)
    precision = math.exp(-2.0 * theta[p])
    own, slope, _ = log_sigma_terms(theta[p], a.nu, a.group_scale)
    total = own + prior_terms(theta[:p], a.prior, gradient[:p]) + terms[first[n_groups]]
    terms[first[n_groups]] = 1.0  # the only node of rows of no group
    gradient[p] = slope
    b = np.empty(largest_count(first))
    for g in range(n_groups):
        part = terms[first[g] : first[g + 1]]
        top = largest(part)
        total += a.counts[g] * top
        for k in range(part.size):
            part[k] = exp_minus(top - part[k])
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
        eta = center_nodes(draws[s], a, start, at)
        add_values(eta, NodeRows(a.side, a.weights, a.z, a.codes), at, a.family, (terms[s], none))
        add_log_weights(draws[s, -1], at, terms[s])


def nodes_at(draws: FloatArray, a: CollapsedArguments, *, sigma: float | None = None) -> tuple[DrawNodes, FloatArray]:
    """Return the nodes of the groups at draws of theta, and log terms there, shape (S, M).

    `sigma` is the largest one of the draws that share places in the flat arrays, by default that of these draws.
    """
    most = float(np.exp(draws[:, -1].max())) if sigma is None else sigma
    first, start = lay_out_nodes(most, a.rules, a.nodes.size)
    shape = len(draws), len(start)
    center, scale, terms = np.empty(shape), np.empty(shape), np.zeros((len(draws), int(first[-1])))
    _fill_terms(np.ascontiguousarray(draws), a, first, start, (center, scale, terms))
    return DrawNodes(draws, center, scale, first, a.rules.step), terms


def n_nodes(sigma: float, a: CollapsedArguments) -> int:
    """Return the number of nodes of all groups at a sigma."""
    return int(lay_out_nodes(sigma, a.rules, a.nodes.size)[0][-1])


SUM_ERROR = 1e-3
"""Nats, of the log-likelihood of all groups."""


_MOST_ERROR = 1e-4  # nats, of one group, however few there are


_ERROR_SHARE = 0.05  # of a group's part of `SUM_ERROR` if errors have random signs: they are alike in groups alike


_MAX_SKEW, _MAX_SD = 0.1, 0.3  # skewness and sd of an effect up to which nine nodes are right to 1e-6


_RANGE_SDS = 5.0  # of log sigma and of beta: how far from the mode steps and stretches hold


_MAX_LOG_SIGMA_SHIFT = 2.0  # of log sigma


_FLAT_NATS = 1.0  # nats below the largest likelihood, up to which the prior alone makes a stretch end


_FLAT_EXTENSION = 8.0  # how much longer such a stretch is, for sigmas in the far tail


_ASYMPTOTIC = 0.05  # error below which the formula holds


_FIRST_STEP = 2.0  # of eta; shorter where effects are narrower


_SEARCH_CUT = 18.0  # nats, of the stretch on which errors are measured


_BLOCK, _MOST_BLOCKS = 32, 512  # of nodes looked at together, and their number on either side


_HALVINGS = 12


class TrapezoidCandidates(NamedTuple):
    """Groups that may need the trapezoid, and where their integrand lies: shape (D,) each.

    `order` and `ends` find their rows.
    """

    groups: IntArray
    center: FloatArray
    sd: FloatArray
    margin: FloatArray  # of effects, by which beta moves their likelihood
    order: IntArray  # rows by group
    ends: IntArray  # (G + 2,)


@jit_inner
def _log_likelihoods(eta: FloatArray, which: IntArray, a: CollapsedArguments, b: FloatArray, out: FloatArray) -> None:
    """Write phi of some rows at effects b, shape (_BLOCK,)."""
    own, side, log_p = np.empty(b.size), np.empty(b.size), np.empty(b.size)
    fill(out, 0.0)
    for n in which:
        for k in range(b.size):
            own[k], side[k] = eta[n] + a.z[n] * b[k], a.side[n]
        a.family.rows(own, side, log_p)
        for k in range(b.size):
            out[k] += a.weights[n] * log_p[k]


@jit_inner
def _scan_integrand(
    rows: tuple[FloatArray, IntArray], a: CollapsedArguments, steps: tuple[float, float, float], phi: FloatArray
) -> tuple[int, FloatArray]:
    """Return phi at multiples of a step that cover the integrand at the largest sigma, and the place of the first.

    `steps` are the step, where to start and that sigma. Of the last argument the result is a part.
    """
    eta, which = rows
    h, center, sigma = steps
    begin = math.floor(center / h) - _BLOCK // 2
    size, first, top = phi.size, _MOST_BLOCKS * _BLOCK, -np.inf
    origin = begin - first
    b, left, right = np.empty(_BLOCK), first, first
    while True:  # to the right, then to the left, until both ends are low
        if right == first or (right < size and _log_integrand(phi, right - 1, origin, h, sigma) > top - _SEARCH_CUT):
            place, right = right, right + _BLOCK
        elif left > 0 and _log_integrand(phi, left, origin, h, sigma) > top - _SEARCH_CUT:
            left -= _BLOCK
            place = left
        else:
            break
        for k in range(_BLOCK):
            b[k] = (origin + place + k) * h
        _log_likelihoods(eta, which, a, b, phi[place : place + _BLOCK])
        for k in range(place, place + _BLOCK):
            top = max(top, _log_integrand(phi, k, origin, h, sigma))
    return origin + left, phi[left:right]


@jit_inner
def _log_integrand(phi: FloatArray, k: int, origin: int, h: float, sigma: float) -> float:
    b = (origin + k) * h
    return float(phi[k] - 0.5 * (b / sigma) ** 2)


@jit
def _choose_trapezoids(
    sigmas: FloatArray, error: float, candidates: TrapezoidCandidates, eta: FloatArray, a: CollapsedArguments
) -> tuple[Rules, FloatArray]:
    """Return rules of candidate groups, shape (D,), and their log integrals at the sigmas, shape (D, 4)."""
    n, widest = candidates.groups.size, largest(sigmas)
    rules = Rules(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n))
    integrals, parts = np.empty((n, sigmas.size)), np.empty(4)
    room = np.empty((2 * _MOST_BLOCKS + 1) * _BLOCK)
    for i in range(n):
        g = candidates.groups[i]
        which = candidates.order[candidates.ends[g] : candidates.ends[g + 1]]
        h = min(_FIRST_STEP, 1.6 * candidates.sd[i])
        for _ in range(_HALVINGS):
            fine = 0.25 * h
            origin, phi = _scan_integrand((eta, which), a, (fine, candidates.center[i], widest), room)
            worst = 0.0
            for s in range(sigmas.size):
                top = -np.inf
                for k in range(phi.size):
                    top = max(top, _log_integrand(phi, k, origin, fine, sigmas[s]))
                fill(parts, 0.0)
                for k in range(phi.size):
                    parts[k % 4] += math.exp(_log_integrand(phi, k, origin, fine, sigmas[s]) - top)
                whole = parts[0] + parts[1] + parts[2] + parts[3]
                worst = max(worst, 2.0 * math.hypot(parts[0] - parts[2], parts[1] - parts[3]) / whole)
                integrals[i, s] = top + math.log(whole * fine / (sigmas[s] * math.sqrt(2.0 * math.pi)))
            if worst < _ASYMPTOTIC:
                break
            h *= 0.5
        if worst > error:
            h *= math.log(0.5 * min(worst, _ASYMPTOTIC)) / math.log(0.5 * error)
        top, highest, k_top = -np.inf, largest(phi), 0
        for k in range(phi.size):
            term = _log_integrand(phi, k, origin, fine, widest)
            if term > top:
                top, k_top = term, k
        low, high = phi.size, 0
        for k in range(phi.size):
            if _log_integrand(phi, k, origin, fine, widest) >= top - TRAPEZOID_CUT:
                low, high = min(low, k), max(high, k)
        rules.step[i] = h
        rules.low[i] = (origin + low - 1) * fine - candidates.margin[i]
        rules.high[i] = (origin + high + 1) * fine + candidates.margin[i]
        if highest - phi[low] < _FLAT_NATS:
            rules.low[i] *= _FLAT_EXTENSION
        if highest - phi[high] < _FLAT_NATS:
            rules.high[i] *= _FLAT_EXTENSION
        rules.mode[i], rules.slack[i] = (origin + k_top) * fine, highest - phi[k_top]
    return rules, integrals


class ModeMoments(NamedTuple):
    """Moments of the effects at the mode of (beta, log sigma), shape (G,) but for the first two fields."""

    theta: FloatArray  # (p + 1,)
    factor: FloatArray  # L, L L' the covariance of theta
    mean: FloatArray
    variance: FloatArray
    third: FloatArray  # derivative of the log-likelihood by the effect
    poor: FloatArray  # whether the moments are a Newton step's, which may be far off


def choose_rules(known: ModeMoments, a: CollapsedArguments) -> Rules:
    """Return the rule of each group; Gauss and Hermite's for all where sigma is small all over the posterior."""
    n_groups = len(known.mean)
    rules = Rules.normal(n_groups)
    sd = math.sqrt(float(known.factor[-1] @ known.factor[-1]))
    moves = np.clip(sd * np.array([-_RANGE_SDS, 0.0, 2.0, _RANGE_SDS]), -_MAX_LOG_SIGMA_SHIFT, _MAX_LOG_SIGMA_SHIFT)
    sigmas = np.exp(known.theta[-1] + moves)
    if sigmas.max() < GAUSS_HERMITE_BELOW:
        return rules
    sigmas = np.maximum(sigmas, GAUSS_HERMITE_BELOW)
    skewness = np.abs(known.third) * known.variance**1.5
    groups = np.flatnonzero(~((skewness < _MAX_SKEW) & (known.variance < _MAX_SD**2)) | known.poor.astype(bool))
    if not groups.size:
        return rules
    codes, middle = a.codes, np.exp(known.theta[-1])
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(n_groups + 2))
    information = np.where(known.poor, 0.0, np.maximum(1.0 / known.variance - middle**-2.0, 0.0))[groups]
    margin = _RANGE_SDS * np.sqrt(((a.slope[groups] @ known.factor[:-1]) ** 2).sum(axis=1))
    narrow = (information + sigmas[0] ** -2.0) ** -0.5
    candidates = TrapezoidCandidates(groups, known.mean[groups], narrow, margin, order, ends)
    eta = known.theta[:-1] @ a.columns + (a.offset if a.offset.size else 0.0)
    error = _ERROR_SHARE * min(SUM_ERROR / math.sqrt(n_groups), _MOST_ERROR)
    found, exact = _choose_trapezoids(sigmas, error, candidates, eta, a)
    at = np.column_stack([np.tile(known.theta[:-1], (2, 1)), np.log(sigmas[1:3])])
    nodes, terms = nodes_at(at, a)
    own = np.logaddexp.reduceat(terms, nodes.first[:-1], axis=1)[:, groups]
    gap = np.abs(own.T - exact[:, 1:3]).max(axis=1, initial=0.0)
    gap[~np.isfinite(gap)] = np.inf
    best = np.argsort(gap, kind="stable")
    wrong = np.ones(len(groups), dtype=bool)
    wrong[best] = np.cumsum(gap[best]) > 0.2 * SUM_ERROR
    for whole, part in zip(rules, found, strict=True):
        whole[groups[wrong]] = part[wrong]
    return rules


_START_LOG_SIGMA = -0.7  # log sigma at which the mode is sought first


_MODE_TOLERANCE = 1e-3  # posterior sds


_MODE_SDS, _MAX_ROUNDS = 0.1, 4  # posterior sds by which the mode may be off, and turns of quadrature and mode


_FINE_NODES = 41  # of `mode`


_FINE_TOLERANCE, _FINE_ACCEPTED = 1e-4, 1e-2  # posterior sds: to stop at, and to accept after all steps
_FINE_STEPS = 20


_DIFFERENCE = 1e-3  # posterior sds, of the gradients whose differences are the Hessian


_LEAST_PRECISION = 0.5  # of log sigma: where rows say nothing about it the density is no normal one


def effect_column(rows: WeightedData) -> int:
    """Return the column by which rows multiply the effect of their group, see `effect_multipliers`."""
    constant = rows.design.constant if isinstance(rows, Coreset) else None
    return -1 if constant is None else constant


@dataclass(frozen=True, eq=False)
class CollapsedTarget:
    """The marginal posterior of (beta, log sigma) of weighted rows with groups."""

    rows: WeightedData  # `group` has one column
    family: Family
    priors: tuple[Prior, GroupPrior]  # of beta and of sigma
    n_groups: int
    point: MarginalPoint  # the mode
    rules: Rules  # of the groups' quadrature

    @classmethod
    def of(
        cls, rows: WeightedData, family: Family, priors: tuple[Prior, GroupPrior], n_groups: int
    ) -> "CollapsedTarget":
        """Find the mode of rows in memory."""
        check_density(priors[0], "sampling with groups").parts(rows.n_features)
        sum_groups = sums_over_rows(rows, family, n_groups, effect_multipliers(rows, effect_column(rows)))
        start = np.append(np.zeros(rows.n_features), _START_LOG_SIGMA + math.log(family.unit))
        point = marginal_mode(sum_groups, start, priors, n_groups, tolerance=_MODE_TOLERANCE)
        target = cls(rows, family, priors, n_groups, point, Rules.normal(n_groups))
        for _ in range(_MAX_ROUNDS):  # where effects are not normal the steps above end some sds off, or do not begin
            target = replace(target, rules=target.chosen_rules())
            gradient = np.empty(rows.n_features + 1)
            collapsed_density(target.point.theta, gradient, target.arguments())
            if np.linalg.norm(target.factor.T @ gradient) < _MODE_SDS:
                break
            try:
                mode = target.mode()
            except NoModeError:
                break
            point = evaluate_at(sum_groups, mode.beta, target.point.likelihoods.nodes(mode.beta), priors)
            target = replace(target, point=replace(point, terms=mode.terms))
        return target

    def chosen_rules(self) -> Rules:
        """Return the rule that each group's effect asks for."""
        if self.family.quadratic:  # effects are normal
            return Rules.normal(self.n_groups)
        real, effects, third = slice(None, -1), self.point.effects, self.point.sums.by_effect[:-1, THIRD]
        known = ModeMoments(
            self.point.theta, self.factor, effects.mean[real], effects.variance[real], third, effects.poor[real]
        )
        return choose_rules(known, replace(self, rules=Rules.normal(self.n_groups)).arguments())

    @property
    def column(self) -> int:
        """The column by which rows multiply the effect of their group."""
        return effect_column(self.rows)

    @property
    def effects(self) -> EffectLikelihoods:
        """Normal likelihoods of the effects at the mode."""
        return self.point.likelihoods

    @property
    def kernel(self) -> Any:
        """`collapsed_density`."""
        return collapsed_density

    @property
    def middle(self) -> FloatArray:
        """(beta, log sigma) at the mode."""
        return self.point.theta

    @property
    def wide(self) -> bool:
        """Whether sigma is hardly known."""
        return bool(np.linalg.norm(self.factor[-1]) > _MAX_LOG_SIGMA_SD)

    def leverage(self) -> FloatArray:
        """Return the share of each group in the curvature at the mode, shape (G,), up to what rows within it say."""
        effects, factor = self.effects, self.factor
        moments, prior = self.point.effects, np.exp(-2.0 * self.point.log_sigma)
        between = effects.information * prior / (effects.information + prior)
        of_beta = between * ((effects.slope @ factor[:-1]) ** 2).sum(axis=1)
        of_sigma = float(factor[-1] @ factor[-1]) * (1.0 - np.minimum(moments.variance * prior, 1.0)) ** 2
        return np.asarray((of_beta + 2.0 * of_sigma)[:-1])

    def log_densities(self, theta: FloatArray, log_likelihoods: FloatArray) -> FloatArray:
        """Return log densities at draws, given the log-likelihoods of all groups there, shape (S,)."""
        prior, group_prior = self.priors
        of_sigma = [log_sigma_terms(float(each), *group_prior.table)[0] for each in theta[:, -1]]
        return np.asarray(log_likelihoods + prior.log_density(theta[:, :-1]) + of_sigma)

    @property
    def factor(self) -> FloatArray:
        """Lower triangular L, L L' the inverse of minus the Hessian at the mode, shape (p + 1, p + 1)."""
        precision = self.point.terms.precision
        try:
            linalg.cholesky(precision)
        except linalg.LinAlgError:
            precision = precision.copy()
            precision[-1, :-1] = precision[:-1, -1] = 0.0
            precision[-1, -1] = max(precision[-1, -1], _LEAST_PRECISION)
        return factor_of_inverse(precision)

    def arguments(self) -> CollapsedArguments:
        """Return what the compiled density takes after the point and the gradient."""
        rows, effects, (prior, group_prior) = self.rows, self.effects, self.priors
        codes = np.where(rows.group_codes[:, 0] < 0, self.n_groups, rows.group_codes[:, 0])
        fields = CollapsedArguments(
            np.array(rows.X.T, order="C"),  # a copy, as a view of one column is read-only: another type to numba
            rows.y.astype(np.float64),
            effect_multipliers(rows, effect_column(rows)),
            np.array(rows.weights),
            NO_OFFSET if rows.offset is None else rows.offset,
            codes.astype(np.int64),
            self.family,
            NODES,
            LOG_WEIGHTS,
            self.rules,
            prior.parts(rows.n_features),
            *group_prior.table,
            effects.beta,
            effects.peak,
            effects.information,
            np.ascontiguousarray(effects.slope),
            np.ones(self.n_groups + 1),
        )
        return at_address(fields)

    def mode(self) -> Mode:
        """Return the mode by finer quadrature than samplers need, and the Hessian by differences of gradients."""
        nodes, log_weights = normal_nodes(_FINE_NODES)
        fine = self.arguments()._replace(nodes=nodes, log_weights=log_weights)
        h = _DIFFERENCE * np.sqrt((self.factor**2).sum(axis=1))

        def terms(theta: FloatArray) -> Derivatives:
            return terms_by_differences(collapsed_density, fine, theta, h, (self.priors[0], len(theta) - 1))

        try:
            return find_mode(terms, self.point.theta, tolerance=_FINE_TOLERANCE, max_steps=_FINE_STEPS)
        except NoModeError as error:  # rounding errors of quadrature can hide the last gains of the value
            if error.reached is None or error.reached.decrement > _FINE_ACCEPTED:
                raise
            return error.reached


def terms_by_differences(
    kernel: Any, arguments: Any, theta: FloatArray, h: FloatArray, prior: tuple[Prior, int]
) -> Derivatives:
    """Return value and gradient of a compiled density, and minus the Hessian by differences of gradients.

    `h`, shape (D,), is half the distance of these. Those of the prior of the first coordinates, so many, are added as
    they are, since it may have a kink.
    """
    of_beta, p = prior

    def at(point: FloatArray) -> tuple[float, FloatArray]:
        gradient = np.empty(len(point))
        value = kernel(point, gradient, arguments) - float(of_beta.log_density(point[:p]))
        gradient[:p] -= of_beta.gradient(point[:p])
        return value, gradient

    value, gradient = at(theta)
    rows = [(at(theta - move)[1] - at(theta + move)[1]) / (2.0 * move.sum()) for move in np.diag(h)]
    precision, own = 0.5 * (np.array(rows) + np.array(rows).T), prior_part(theta[:p], of_beta)
    gradient[:p] += own.gradient
    precision[:p, :p] += own.precision
    return Derivatives(value + own.value, gradient, precision)


MANY_GROUPS = 1000
"""Groups from which a sample of them is drawn."""


FIRST_SAMPLE_SIZE = 256
"""Groups of the first sample; each later one has four times as many."""


MAX_DENSITY_ERROR = 0.02
"""Nats, sd over draws of the error of a sample's log density: means then move by less than 0.02 sd.

The mean of theta moves by cov(theta, error) to first order, which is at most sd(theta) sd(error).
"""


_MAX_LOG_SIGMA_SD = 0.1  # sd of log sigma at most: towards sigma = 0 a quadratic grows beyond what the sample can hold


_UNIFORM_SHARE = 0.5  # share of the sampling probabilities that all groups have alike


_STEP = 0.5  # posterior sds, of the differences of gradients


_CHECK_POINTS = 16  # points at which a quadratic is tried


_FIT_INFLATION = 1.3  # sds of points by which a cubic is fitted, over those of the posterior: its tails count


_EQUATIONS = 3  # equations for each coefficient of a cubic


_MOST_COLUMNS = 20  # of a cubic, which has D^3 / 6 coefficients


_SEED = 1992  # of the order of groups: the same rows give the same sample


class Remainder(NamedTuple):
    """A cubic in d = theta - t to be added to a density, g . d - d . H d / 2 + sum T_ijk d_i d_j d_k / 6.

    T is empty where the quadratic does.
    """

    middle: FloatArray
    gradient: FloatArray
    precision: FloatArray
    third: FloatArray


class SampledArguments(NamedTuple):
    """What `sampled_density` takes after the point and the gradient."""

    rest: Remainder
    density: StoredDensity  # of the sample, which so is compiled once

    @classmethod
    def of(cls, kernel: Any, arguments: Any, rest: Remainder) -> "SampledArguments":
        """Return those of a density and its arguments for the sample, in memory."""
        return at_address(cls(rest, StoredDensity.of(kernel, arguments)))


@jit
def sampled_density(theta: FloatArray, gradient: FloatArray, sampled: SampledArguments) -> float:
    """Return the log density of a sample of groups with the cubic of the others, and write its gradient."""
    rest = sampled.rest
    value = evaluate_stored(sampled.density.function, sampled.density.data, theta, gradient)
    d, cubic = theta - rest.middle, rest.third.size > 0
    for i in range(theta.size):
        bend, turn = 0.0, 0.0
        for j in range(theta.size):
            bend += rest.precision[i, j] * d[j]
            if cubic:
                for k in range(theta.size):
                    turn += rest.third[i, j, k] * d[j] * d[k]
        value += (rest.gradient[i] - 0.5 * bend + turn / 6.0) * d[i]
        gradient[i] += rest.gradient[i] - bend + 0.5 * turn
    return float(value)


def densities(theta: FloatArray, density: tuple[Any, Any]) -> tuple[FloatArray, FloatArray]:
    """Return log densities at draws, shape (S,), and their gradients, (S, D), by a kernel and its data."""
    kernel, data = density
    points, gradients = np.ascontiguousarray(theta), np.empty(theta.shape)
    values = [kernel(at, slope, data) for at, slope in zip(points, gradients, strict=True)]
    return np.array(values), gradients


class GroupTarget(Protocol):
    """A density that is a sum over groups, and what `SampledGroups` asks of it."""

    @property
    def n_groups(self) -> int:
        """Number of groups."""

    @property
    def kernel(self) -> Any:
        """The compiled function (theta, gradient, arguments) -> log density."""

    @property
    def middle(self) -> FloatArray:
        """The mode, shape (D,)."""

    @property
    def factor(self) -> FloatArray:
        """Lower triangular L, L L' the inverse of minus the Hessian there."""

    @property
    def wide(self) -> bool:
        """Whether the posterior is so wide that no quadratic does."""

    def arguments(self) -> Any:
        """Return the arguments of all groups, which have the method `of_groups`."""

    def leverage(self) -> FloatArray:
        """Return about the share of each group in the curvature, shape (G,)."""


@dataclass(frozen=True, eq=False)
class SampledGroups:
    """The density of a sample of groups; of all of them where `n_sampled` is the number of all."""

    target: GroupTarget
    n_sampled: int
    arguments: Any
    rest: Remainder

    @classmethod
    def of(cls, target: GroupTarget, size: int) -> "SampledGroups":
        """Return the density of a sample of so many groups; of all where these are few, or the posterior is wide."""
        own, middle, factor = target.arguments(), target.middle, target.factor
        D = len(middle)
        none = Remainder(middle, np.zeros(D), np.zeros((D, D)), np.empty((0, 0, 0)))
        if size > target.n_groups // 2 or target.wide:
            return cls(target, target.n_groups, own, none)
        share = target.leverage()
        inclusion = inclusion_of(_UNIFORM_SHARE / len(share) + (1.0 - _UNIFORM_SHARE) * share / share.sum(), size)
        groups = sample_systematically(inclusion)
        some = own.of_groups(groups, 1.0 / inclusion[groups])
        ends = middle + _STEP * np.vstack([np.zeros(D), factor.T, -factor.T])
        left = densities(ends, (target.kernel, own))[1] - densities(ends, (target.kernel, some))[1]
        bend = np.linalg.solve(factor.T, (left[1 + D :] - left[1 : 1 + D]) / (2.0 * _STEP))
        rest = Remainder(middle, left[0], 0.5 * (bend + bend.T), none.third)
        chosen = cls(target, len(groups), some, rest)
        if D > _MOST_COLUMNS:
            return chosen
        m = _EQUATIONS * math.comb(D + 2, 3) // D + _CHECK_POINTS
        z = _FIT_INFLATION * np.random.default_rng(_SEED).standard_normal((m, D))
        points = middle + z @ factor.T

        def missed(some_points: FloatArray) -> tuple[FloatArray, FloatArray]:
            """Return what the sample misses of log densities, shape (m,), and of gradients, (m, D)."""
            value, slope = densities(some_points, (target.kernel, own))
            part, part_slope = densities(some_points, chosen.density)
            return value - part, slope - part_slope

        gap, slopes = missed(points[:_CHECK_POINTS])
        if np.abs(gap - gap.mean()).max() <= MAX_DENSITY_ERROR:
            return chosen
        slopes = np.vstack([slopes, missed(points[_CHECK_POINTS:])[1]])
        return replace(chosen, rest=_with_cubic(rest, factor, z, slopes))

    def error(self, theta: FloatArray, of_all: FloatArray) -> float:
        """Return the sd of the log density's error over draws, in nats: means are off by at most as many sds.

        `of_all`, shape (S,), are the log densities of all groups at the draws theta.
        """
        if self.n_sampled == self.target.n_groups:
            return 0.0
        return float((densities(theta, self.density)[0] - of_all).std())

    @property
    def density(self) -> tuple[Any, Any]:
        """The compiled density and its data: one kernel less to compile where no group is left out."""
        if self.n_sampled == self.target.n_groups:
            return self.target.kernel, self.arguments
        return sampled_density, self.data

    @property
    def data(self) -> SampledArguments:
        """What `sampled_density` takes after the point and the gradient."""
        return SampledArguments.of(self.target.kernel, self.arguments, self.rest)


def _with_cubic(rest: Remainder, factor: FloatArray, z: FloatArray, slopes: FloatArray) -> Remainder:
    """Add the cubic whose slopes are nearest to `slopes`, shape (m, D), at the points middle + factor z, z (m, D)."""
    m, D = z.shape
    terms = [term for degree in (1, 2, 3) for term in combinations_with_replacement(range(D), degree)]
    derivatives = np.zeros((m, D, len(terms)))
    for t, term in enumerate(terms):
        for d in set(term):
            others = list(term)
            others.remove(d)
            derivatives[:, d, t] = term.count(d) * z[:, others].prod(axis=1)
    values = np.linalg.lstsq(derivatives.reshape(m * D, -1), (slopes @ factor).ravel(), rcond=None)[0]
    tensors = np.zeros(D), np.zeros((D, D)), np.zeros((D, D, D))
    for value, term in zip(values, terms, strict=True):
        orders = set(permutations(term))
        for order in orders:
            tensors[len(term) - 1][order] = value * math.factorial(len(term)) / len(orders)
    first, second, third = tensors
    back = np.linalg.inv(factor)
    return Remainder(
        rest.middle,
        rest.gradient + back.T @ first,
        rest.precision - back.T @ second @ back,
        np.einsum("abc,ai,bj,ck->ijk", third, back, back, back, optimize=True),
    )


def inclusion_of(p: FloatArray, size: int) -> FloatArray:
    """Return probabilities in proportion to p, shape (G,), but for those that would be above 1; they sum to `size`."""
    certain = np.zeros(len(p), dtype=bool)
    while True:
        pi = np.where(certain, 1.0, p * (size - certain.sum()) / p[~certain].sum())
        more = (pi > 1.0) & ~certain
        if not more.any():
            return np.asarray(np.minimum(pi, 1.0))
        certain |= more


def sample_systematically(inclusion: FloatArray) -> IntArray:
    """Return the groups of a sample, in order."""
    order = np.random.default_rng(_SEED).permutation(len(inclusion))
    steps = np.floor(np.cumsum(inclusion[order]) + 0.5)
    return np.sort(order[np.diff(steps, prepend=0.0) > 0.0])
