r"""Which groups need the trapezoid for their effect, its step, and the stretch it covers (`effect_nodes`).

The trapezoid's error for an analytic integrand is exp(-2 pi d / h) up to a constant, d the distance of the poles
from the real line, whatever the shape (Trefethen and Weideman 2014). It is measured: at four times as many nodes as a
step h needs, the four lattices of step h that these are made of differ by it. From one such measurement the formula
gives the step whose error is what is asked. Groups keep Gauss and Hermite's nodes while their errors, at the mode of
sigma and two sds above, add up to a fifth of `SUM_ERROR`; that needs no look where an effect is narrow and its
likelihood hardly skew.
"""

import math
from typing import NamedTuple

import numpy as np

from bayescore.compiled import jit
from bayescore.models.collapsed import CollapsedArguments, nodes_at
from bayescore.models.effect_nodes import CUT, NORMAL_BELOW, Rules
from bayescore.types import FloatArray, IntArray

SUM_ERROR = 1e-3
"""Nats, of the log-likelihood of all groups."""

_MOST_ERROR = 1e-4  # nats, of one group, however few there are
_SHARE = 0.05  # of a group's part of `SUM_ERROR` if errors have random signs: they are alike in groups alike
_STRAIGHT, _NARROW = 0.1, 0.3  # skewness and sd of an effect up to which nine nodes are right to 1e-6
_SDS = 5.0  # of log sigma and of beta: how far from the mode steps and stretches hold
_MOST_RISE = 2.0  # of log sigma
_FLAT = 1.0  # nats below the largest likelihood, up to which the prior alone makes a stretch end
_FURTHER = 8.0  # how much longer such a stretch is, for sigmas in the far tail
_ASYMPTOTIC = 0.05  # error below which the formula holds
_FIRST_STEP = 2.0  # of eta; shorter where effects are narrower
_SEARCH_CUT = 18.0  # nats, of the stretch on which errors are measured
_BLOCK, _MOST_BLOCKS = 32, 512  # of nodes looked at together, and their number on either side
_HALVINGS = 12


class Doubtful(NamedTuple):
    """Groups that are looked at, and where: shape (D,) each; `order` and `ends` find their rows."""

    groups: IntArray
    center: FloatArray
    sd: FloatArray
    margin: FloatArray  # of effects, by which beta moves their likelihood
    order: IntArray  # rows by group
    ends: IntArray  # (G + 2,)


@jit
def _values(eta: FloatArray, which: IntArray, a: CollapsedArguments, b: FloatArray, out: FloatArray) -> None:
    """Write phi of some rows at effects b, shape (_BLOCK,)."""
    out[:] = 0.0
    own, side, log_p = np.empty(b.size), np.empty(b.size), np.empty(b.size)
    for n in which:
        for k in range(b.size):
            own[k] = eta[n] + a.z[n] * b[k]
        side[:] = a.side[n]
        a.family.rows(own, side, log_p)
        for k in range(b.size):
            out[k] += a.weights[n] * log_p[k]


@jit
def _stretch(
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
        if right == first or (right < size and _term(phi, right - 1, origin, h, sigma) > top - _SEARCH_CUT):
            place, right = right, right + _BLOCK
        elif left > 0 and _term(phi, left, origin, h, sigma) > top - _SEARCH_CUT:
            left -= _BLOCK
            place = left
        else:
            break
        for k in range(_BLOCK):
            b[k] = (origin + place + k) * h
        _values(eta, which, a, b, phi[place : place + _BLOCK])
        for k in range(place, place + _BLOCK):
            top = max(top, _term(phi, k, origin, h, sigma))
    return origin + left, phi[left:right]


@jit
def _term(phi: FloatArray, k: int, origin: int, h: float, sigma: float) -> float:
    b = (origin + k) * h
    return float(phi[k] - 0.5 * (b / sigma) ** 2)


@jit
def _choose(
    sigmas: FloatArray, error: float, doubtful: Doubtful, eta: FloatArray, a: CollapsedArguments
) -> tuple[Rules, FloatArray]:
    """Return rules of doubtful groups, shape (D,), and their log integrals at the sigmas, shape (D, 4)."""
    n, widest = doubtful.groups.size, sigmas.max()
    rules = Rules(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n))
    integrals, parts = np.full((n, sigmas.size), np.nan), np.empty(4)
    room = np.empty((2 * _MOST_BLOCKS + 1) * _BLOCK)
    for i in range(n):
        g = doubtful.groups[i]
        which = doubtful.order[doubtful.ends[g] : doubtful.ends[g + 1]]
        h = min(_FIRST_STEP, 1.6 * doubtful.sd[i])
        for _ in range(_HALVINGS):
            fine = 0.25 * h
            origin, phi = _stretch((eta, which), a, (fine, doubtful.center[i], widest), room)
            worst = 0.0
            for s in range(sigmas.size):
                top = -np.inf
                for k in range(phi.size):
                    top = max(top, _term(phi, k, origin, fine, sigmas[s]))
                parts[:] = 0.0
                for k in range(phi.size):
                    parts[k % 4] += math.exp(_term(phi, k, origin, fine, sigmas[s]) - top)
                whole = parts.sum()
                worst = max(worst, 2.0 * math.hypot(parts[0] - parts[2], parts[1] - parts[3]) / whole)
                integrals[i, s] = top + math.log(whole * fine / (sigmas[s] * math.sqrt(2.0 * math.pi)))
            if worst < _ASYMPTOTIC:
                break
            h *= 0.5
        if worst > error:
            h *= math.log(0.5 * min(worst, _ASYMPTOTIC)) / math.log(0.5 * error)
        top, highest, k_top = -np.inf, phi.max(), 0
        for k in range(phi.size):
            term = _term(phi, k, origin, fine, widest)
            if term > top:
                top, k_top = term, k
        low, high = phi.size, 0
        for k in range(phi.size):
            if _term(phi, k, origin, fine, widest) >= top - CUT:
                low, high = min(low, k), max(high, k)
        rules.step[i] = h
        rules.low[i] = (origin + low - 1) * fine - doubtful.margin[i]
        rules.high[i] = (origin + high + 1) * fine + doubtful.margin[i]
        if highest - phi[low] < _FLAT:
            rules.low[i] *= _FURTHER
        if highest - phi[high] < _FLAT:
            rules.high[i] *= _FURTHER
        rules.mode[i], rules.slack[i] = (origin + k_top) * fine, highest - phi[k_top]
    return rules, integrals


class Known(NamedTuple):
    """What is known of the groups at the mode of (beta, log sigma), shape (G,) but for the first two."""

    theta: FloatArray  # (p + 1,)
    factor: FloatArray  # L, L L' the covariance of theta
    mean: FloatArray
    variance: FloatArray
    third: FloatArray  # derivative of the log-likelihood by the effect
    poor: FloatArray  # whether the moments are a Newton step's, which may be far off


def choose_rules(known: Known, a: CollapsedArguments) -> Rules:
    """Return the rule of each group; Gauss and Hermite's for all where sigma is small all over the posterior."""
    n_groups = len(known.mean)
    rules = Rules.normal(n_groups)
    sd = math.sqrt(float(known.factor[-1] @ known.factor[-1]))
    moves = np.clip(sd * np.array([-_SDS, 0.0, 2.0, _SDS]), -_MOST_RISE, _MOST_RISE)
    sigmas = np.exp(known.theta[-1] + moves)
    if sigmas.max() < NORMAL_BELOW:
        return rules
    sigmas = np.maximum(sigmas, NORMAL_BELOW)
    skewness = np.abs(known.third) * known.variance**1.5
    groups = np.flatnonzero(~((skewness < _STRAIGHT) & (known.variance < _NARROW**2)) | known.poor.astype(bool))
    codes, middle = a.codes, np.exp(known.theta[-1])
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(n_groups + 2))
    information = np.where(known.poor, 0.0, np.maximum(1.0 / known.variance - middle**-2.0, 0.0))[groups]
    margin = _SDS * np.sqrt(((a.slope[groups] @ known.factor[:-1]) ** 2).sum(axis=1))
    narrow = (information + sigmas[0] ** -2.0) ** -0.5
    doubtful = Doubtful(groups, known.mean[groups], narrow, margin, order, ends)
    eta = known.theta[:-1] @ a.columns + (a.offset if a.offset.size else 0.0)
    error = _SHARE * min(SUM_ERROR / math.sqrt(n_groups), _MOST_ERROR)
    found, exact = _choose(sigmas, error, doubtful, eta, a)
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
