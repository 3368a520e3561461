"""What the full data and the coreset say of each group's effect at draws of (beta, log sigma).

Log terms of the groups at their nodes take 8 (G + 1) K bytes a draw and are kept once, of the full data; all else is
found from pieces of the draws.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.diagnostics.certificate.weigh import EffectMoments
from bayescore.diagnostics.full_pass import check_finite, check_weight
from bayescore.models.collapsed import CollapsedArguments, nodes_at
from bayescore.models.collapsed_target import CollapsedTarget
from bayescore.models.effect_draws import effects_given
from bayescore.models.group_sums import DrawNodes, values_at
from bayescore.models.quadrature import LOG_WEIGHTS, N_NODES, NODES, astray, log_terms
from bayescore.types import FloatArray, IntArray
from bayescore.validation import DataError

MAX_BYTES = 8 << 30
"""Bytes of a certificate's figures of all groups and draws above which they are refused before the pass."""

FEWEST_DRAWS = 100
"""Draws that importance weights need at least."""

_NUMBERS = 3 * N_NODES  # of 8 bytes for a group and draw at most: log terms, of corrected draws too, and moments
_PIECE = 1 << 24  # bytes of the log terms of a piece of the draws
_COVERED = 6.0  # mean of posterior over quadrature weights above which the coreset's nodes miss a group's effect


@dataclass(frozen=True, eq=False)
class NodeMoments:
    """At each draw: log-likelihood of each group, shape (S, G + 1), and moments of its effect, (S, G).

    `astray` says where the nodes miss the effect.
    """

    log_p: FloatArray
    effects: EffectMoments
    astray: NDArray[np.bool_]

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> "NodeMoments":
        """Return figures to be filled by `fill`, given the shape (S, G + 1)."""
        of_groups = shape[0], shape[1] - 1
        effects = EffectMoments(np.empty(of_groups), np.empty(of_groups))
        return cls(np.empty(shape), effects, np.zeros(of_groups, dtype=bool))

    def fill(self, cut: slice, terms: FloatArray, center: FloatArray, scale: FloatArray) -> None:
        """Write those of some draws from log terms at their nodes, shape (s, G + 1, K)."""
        self.log_p[cut], share = _log_sums(terms)
        with np.errstate(invalid="ignore"):
            share = share[:, :-1]
            self.astray[cut] = astray(share, _COVERED)
            z = share @ NODES
            self.effects.mean[cut] = center[:, :-1] + scale[:, :-1] * z
            self.effects.variance[cut] = scale[:, :-1] ** 2 * (share @ NODES**2 - z**2)


class Sample(NamedTuple):
    """Groups that were evaluated where the others were not: places, 1 / probability, log-likelihoods, shape (S, m).

    `error`, shape (S,), is the standard error of the ratio, up to a constant for all draws.
    """

    places: IntArray
    each: FloatArray
    log_p: FloatArray
    error: FloatArray


@dataclass(frozen=True, eq=False)
class NodeSums:
    """What rows say of the groups at draws theta of (beta, log sigma), shape (S, p + 1).

    `ratio`, shape (S,), is the log-likelihood of the full data less the coreset's. `labels` are the weights of rows of
    +1 and of -1 in each group, shape (G, 2).
    """

    theta: FloatArray
    ratio: FloatArray
    full: NodeMoments
    core: NodeMoments
    labels: FloatArray
    arguments: CollapsedArguments  # of the coreset's density
    exact: tuple[FloatArray, FloatArray, FloatArray] | None = None  # all groups' log terms, centres and scales
    sample: Sample | None = None  # where `full` is the coreset's, moved

    def draw_effects(self, s: int, uniforms: FloatArray) -> FloatArray:
        """Return a draw of each effect given the full data and draw s, shape (G,).

        Without log terms of all groups it is one given the coreset, moved to mean and sd given the full data.
        """
        at, given = slice(s, s + 1), uniforms[None]
        if self.exact is not None:
            terms, center, scale = (each[at, :-1] for each in self.exact)
            return np.asarray(effects_given(terms, center, scale, given)[0])
        center, scale, terms = (each[:, :-1] for each in nodes_at(self.theta[at], self.arguments))
        u = effects_given(terms, center, scale, given)[0]
        own, full = self.core.effects, self.full.effects
        return np.asarray(full.mean[s] + (u - own.mean[s]) * np.sqrt(full.variance[s] / own.variance[s]))


def check_bytes(n_draws: int, n_groups: int, name: str = "max_draws") -> None:
    """Raise `DataError` where figures of so many draws, the argument `name`, and groups take more than `MAX_BYTES`."""
    each = 8 * _NUMBERS * (n_groups + 1)
    if n_draws * each <= MAX_BYTES:
        return
    most = MAX_BYTES // each
    remedy = f"give {name}={most}" if most >= FEWEST_DRAWS else "build with fewer groups"
    raise DataError(
        f"{name}={n_draws} of {n_groups:,} groups take {n_draws * each:,} bytes, more than {MAX_BYTES:,}: {remedy}"
    )


def node_sums(theta: FloatArray, core: Coreset, dataset: Dataset, target: CollapsedTarget) -> NodeSums:
    """Return the sums at draws of (beta, log sigma), shape (S, p + 1); one pass, or as `values_at` says."""
    arguments, shape = target.arguments(), (len(theta), target.n_groups + 1)
    center, scale, own = core_moments(theta, arguments)
    full = NodeMoments.empty(shape)
    terms, weight = values_at(dataset, DrawNodes(theta[:, :-1], center, scale), target.family)
    check_weight(core, float(weight.sum()))
    for cut in _pieces(*shape):
        part = terms[cut]
        part[:, :-1] = log_terms(part[:, :-1], center[cut, :-1], scale[cut, :-1], theta[cut, -1:])
        part[:, -1] += LOG_WEIGHTS
        full.fill(cut, part, center[cut], scale[cut])
    ratio = full.log_p.sum(axis=1) - own.log_p.sum(axis=1)
    check_finite(dataset, ratio)
    return NodeSums(theta, ratio, full, own, weight[:-1], arguments, (terms, center, scale))


def core_moments(theta: FloatArray, arguments: CollapsedArguments) -> tuple[FloatArray, FloatArray, NodeMoments]:
    """Return centres and scales of the nodes at draws, shape (S, G + 1), and what the coreset says there."""
    shape = len(theta), len(arguments.peak)
    center, scale, own = np.empty(shape), np.empty(shape), NodeMoments.empty(shape)
    for cut in _pieces(*shape):
        center[cut], scale[cut], there = nodes_at(theta[cut], arguments)
        there[:, -1] += LOG_WEIGHTS  # rows of no group: one value at all nodes
        own.fill(cut, there, center[cut], scale[cut])
    return center, scale, own


def marginal_log_likelihoods(theta: FloatArray, target: CollapsedTarget) -> FloatArray:
    """Return the coreset's log-likelihood at draws of (beta, log sigma), effects integrated out, shape (S,)."""
    arguments, found = target.arguments(), np.empty(len(theta))
    for cut in _pieces(len(theta), target.n_groups + 1):
        terms = nodes_at(theta[cut], arguments)[2]
        terms[:, -1] += LOG_WEIGHTS
        found[cut] = _log_sums(terms)[0].sum(axis=1)
    return found


def _log_sums(terms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the logarithms of the sums over nodes, shape (s, G + 1), and the nodes' shares, (s, G + 1, K).

    SciPy's `logsumexp` and `softmax` take three times as long.
    """
    top = terms.max(axis=2, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):  # of a log-likelihood that is not finite
        power = np.exp(terms - top)
        total = power.sum(axis=2, keepdims=True)
        return (top + np.log(total))[:, :, 0], power / total


def _pieces(n_draws: int, n_groups: int) -> Iterator[slice]:
    step = max(1, _PIECE // (8 * N_NODES * n_groups))
    return (slice(start, start + step) for start in range(0, n_draws, step))
