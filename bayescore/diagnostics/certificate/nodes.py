"""What the full data and the coreset say about each group's effect at draws of (beta, log sigma).

Log terms at the M nodes of all groups take 8 M bytes a draw and are kept once, of the full data; all else is found from
pieces of the draws.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.diagnostics.certificate.weigh import EffectMoments, pieces_of
from bayescore.diagnostics.full_pass import check_finite, check_weight
from bayescore.models.collapsed import CollapsedArguments, n_nodes, nodes_at
from bayescore.models.collapsed_target import CollapsedTarget
from bayescore.models.effect_inversion import effects_given
from bayescore.models.effect_nodes import DrawNodes, figures, weigh_nodes
from bayescore.models.group_sums import values_at
from bayescore.types import FloatArray, IntArray
from bayescore.validation import DataError

MAX_BYTES = 8 << 30
"""Bytes of a certificate's figures of all groups and draws above which they are refused before the pass."""

FEWEST_DRAWS = 100
"""Draws that importance weights need at least."""

_NUMBERS = 12  # of 8 bytes for a group and draw beside log terms: nodes, figures on both sides, copies for the elpd
_PIECE = 1 << 24  # bytes of the log terms of a piece of the draws


@dataclass(frozen=True, eq=False)
class NodeMoments:
    """At each draw: log-likelihood of each group, shape (S, G + 1), and moments of its effect, (S, G).

    `astray` says where the nodes miss the effect.
    """

    log_p: FloatArray
    effects: EffectMoments
    astray: NDArray[np.bool_]

    @classmethod
    def empty(cls, shape: tuple[int, ...], dtype: type = np.float64) -> "NodeMoments":
        """Return figures to be filled by `put`, given the shape (S, G + 1), and the type of the moments."""
        of_groups = shape[0], shape[1] - 1
        effects = EffectMoments(np.empty(of_groups, dtype), np.empty(of_groups, dtype))
        return cls(np.empty(shape), effects, np.zeros(of_groups, dtype=bool))

    @classmethod
    def of_terms(cls, terms: FloatArray, at: DrawNodes) -> "NodeMoments":
        """Return figures from log terms at nodes, shape (S, M)."""
        found = figures(terms, at)
        return cls(found.log_p, EffectMoments(found.mean, found.variance), found.astray)

    def put(self, cut: slice, own: "NodeMoments") -> None:
        """Write those of some draws."""
        self.log_p[cut], self.astray[cut] = own.log_p, own.astray
        self.effects.mean[cut], self.effects.variance[cut] = own.effects.mean, own.effects.variance

    def of(self, groups: slice) -> "NodeMoments":
        """Return those of some groups."""
        return NodeMoments(self.log_p[:, groups], self.effects.of(groups), self.astray[:, groups])


@dataclass(frozen=True, eq=False)
class MovedMoments:
    """What the full data say: the coreset's figures, moved by what a pass at one point adds; of some groups when asked.

    `gain`, `shift` and `ratio`, shape (G,), are what it adds to log-likelihoods and means and multiplies variances by;
    `poor` says where nodes missed the effect there. Effects of groups at `places`, in order, were `evaluated`, and
    `missed` where the nodes miss them. Their log-likelihoods stay moved, as the others': a sample says how far these
    are off.
    """

    core: NodeMoments
    gain: FloatArray
    shift: FloatArray
    ratio: FloatArray
    poor: NDArray[np.bool_]
    places: IntArray
    evaluated: EffectMoments
    missed: NDArray[np.bool_]

    def of(self, groups: slice) -> NodeMoments:
        """Return those of some groups, given a slice with start and stop."""
        own = self.core.of(groups)
        mean, variance = own.effects.mean + self.shift[groups], own.effects.variance * self.ratio[groups]
        log_p, astray = own.log_p + self.gain[groups], own.astray | self.poor[groups]
        here = slice(*np.searchsorted(self.places, [groups.start, groups.stop]))
        k = self.places[here] - groups.start
        astray[:, k] = self.missed[:, here]
        mean[:, k], variance[:, k] = self.evaluated.of(here)
        return NodeMoments(log_p, EffectMoments(mean, variance), astray)


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
    """What rows say about the groups at draws theta of (beta, log sigma), shape (S, p + 1).

    `ratio`, shape (S,), is the log-likelihood of the full data less the coreset's. `labels` are the weights of rows of
    +1 and of -1 in each group, shape (G, 2). `error` is the standard error of the ratio by a sample of the rows. `full`
    and `core` are of the draws at `at`; all where that is None. Look at all groups in `pieces`.
    """

    theta: FloatArray
    ratio: FloatArray
    full: NodeMoments | MovedMoments
    core: NodeMoments
    labels: FloatArray
    arguments: CollapsedArguments  # of the coreset's density
    exact: tuple[FloatArray, DrawNodes] | None = None  # log terms of all groups, and their nodes
    sample: Sample | None = None  # where `full` is the coreset's, moved
    error: float = 0.0
    at: IntArray | None = None

    @property
    def n_groups(self) -> int:
        """The number of groups."""
        return int(self.core.log_p.shape[1]) - 1

    @property
    def pieces(self) -> list[slice]:
        """All groups in slices, short enough that figures of one at all draws take little memory."""
        return pieces_of(self.n_groups, len(self.core.log_p))

    def full_over(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and sd of each effect given the full data over weighted draws, shape (G,)."""
        return _joined([self.full.of(cut).effects.over(w) for cut in self.pieces])

    def n_astray(self, w: FloatArray, share: float) -> int:
        """Return the number of groups whose effect the nodes miss at draws with more than a share of the weights."""
        return sum(int((w @ self.full.of(cut).astray > share).sum()) for cut in self.pieces)

    @cached_property
    def moves(self) -> tuple[FloatArray, FloatArray]:
        """What the full data add to the mean of each effect given (beta, log sigma), and multiply its sd by: (G,)."""

        def of(full: EffectMoments, core: EffectMoments) -> tuple[FloatArray, FloatArray]:
            stretch = np.sqrt(full.variance.mean(axis=0) / core.variance.mean(axis=0, dtype=np.float64))
            return (full.mean - core.mean).mean(axis=0), stretch

        return _joined([of(self.full.of(cut).effects, self.core.effects.of(cut)) for cut in self.pieces])

    def draw_effects(self, s: int, uniforms: FloatArray) -> FloatArray:
        """Return a draw of each effect given the full data and draw s, shape (G,).

        Without log terms of all groups it is one given the coreset, moved to mean and sd given the full data.
        """
        cut, given = slice(s, s + 1), uniforms[None]
        if self.exact is not None:
            terms, at = self.exact
            own = at._replace(theta=at.theta[cut], center=at.center[cut], scale=at.scale[cut])
            return np.asarray(effects_given(terms[cut], own, given)[0])
        at, terms = nodes_at(self.theta[cut], self.arguments)
        u, mean, (shift, stretch) = effects_given(terms, at, given)[0], figures(terms, at).mean[0], self.moves
        return np.asarray(mean + shift + (u - mean) * stretch)


def _joined(parts: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    one, other = (np.concatenate(each) for each in zip(*parts, strict=True))
    return one, other


def check_bytes(theta: FloatArray, arguments: CollapsedArguments, name: str = "max_draws") -> None:
    """Raise `DataError` where figures of draws take more than `MAX_BYTES`, with a number for the argument `name`."""
    n_draws, n_groups = len(theta), len(arguments.peak) - 1
    each = 8 * (n_nodes(float(np.exp(theta[:, -1].max())), arguments) + _NUMBERS * (n_groups + 1))
    if n_draws * each <= MAX_BYTES:
        return
    most = MAX_BYTES // each
    remedy = f"give {name}={most}" if most >= FEWEST_DRAWS else "build with fewer groups"
    raise DataError(
        f"{name}={n_draws} of {n_groups:,} groups take {n_draws * each:,} bytes, more than {MAX_BYTES:,}: {remedy}"
    )


def node_sums(theta: FloatArray, core: Coreset, dataset: Dataset, target: CollapsedTarget) -> NodeSums:
    """Return the sums at draws of (beta, log sigma), shape (S, p + 1); one pass, or as `values_at` says."""
    arguments = target.arguments()
    at, own = core_moments(theta, arguments)
    terms, weight = values_at(dataset, at, target.family, column=target.column)
    check_weight(core, float(weight.sum()))
    weigh_nodes(terms, at)
    full = NodeMoments.of_terms(terms, at)
    ratio = full.log_p.sum(axis=1) - own.log_p.sum(axis=1)
    check_finite(dataset, ratio)
    return NodeSums(theta, ratio, full, own, weight[:-1], arguments, (terms, at))


def core_moments(theta: FloatArray, arguments: CollapsedArguments) -> tuple[DrawNodes, NodeMoments]:
    """Return the nodes of the groups at draws, and what the coreset says there."""
    shape = len(theta), len(arguments.peak)
    own, center, scale = NodeMoments.empty(shape), np.empty(shape), np.empty(shape)
    for cut, at, terms in _pieces(theta, arguments):
        own.put(cut, NodeMoments.of_terms(terms, at))
        center[cut], scale[cut], last = at.center, at.scale, at
    return last._replace(theta=np.ascontiguousarray(theta), center=center, scale=scale), own


def own_moments(theta: FloatArray, arguments: CollapsedArguments) -> NodeMoments:
    """Return what the coreset says about the groups at draws, of many groups: moments in numbers of 4 bytes."""
    own = NodeMoments.empty((len(theta), len(arguments.peak)), np.float32)
    for cut, at, terms in _pieces(theta, arguments):
        own.put(cut, NodeMoments.of_terms(terms, at))
    return own


def marginal_log_likelihoods(theta: FloatArray, target: CollapsedTarget) -> FloatArray:
    """Return the coreset's log-likelihood at draws of (beta, log sigma), effects integrated out, shape (S,)."""
    pieces = _pieces(theta, target.arguments())
    return np.concatenate([figures(terms, at).log_p.sum(axis=1) for _, at, terms in pieces])


def _pieces(theta: FloatArray, arguments: CollapsedArguments) -> Iterator[tuple[slice, DrawNodes, FloatArray]]:
    """Give the nodes and log terms of pieces of the draws."""
    sigma = float(np.exp(theta[:, -1].max()))
    step = max(1, _PIECE // (8 * n_nodes(sigma, arguments)))
    for start in range(0, len(theta), step):
        cut = slice(start, start + step)
        yield cut, *nodes_at(theta[cut], arguments, sigma=sigma)
