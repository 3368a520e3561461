"""What the full data and the coreset say about each group's effect at draws of (beta, log sigma).

Log terms at the M nodes of all groups take 8 M bytes a draw and are kept once, of the full data; all else is found from
pieces of the draws or of the groups.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.diagnostics.certificate.weigh import Columns, DrawnEffectMoments, effect_columns, joined, pieces_of
from bayescore.diagnostics.row_sums import check_finite, check_weight
from bayescore.models.groups.effects import effects_given
from bayescore.models.groups.marginal import CollapsedArguments, CollapsedTarget, n_nodes, nodes_at
from bayescore.models.groups.nodes import DrawNodes, figures, weigh_nodes
from bayescore.models.groups.rows import values_at
from bayescore.types import FloatArray, IntArray
from bayescore.validation import DataError

MAX_BYTES = 8 << 30
"""Bytes of a certificate's figures of all groups and draws above which they are refused before the pass."""

FEWEST_DRAWS = 100
"""Draws that importance weights need at least."""

_NUMBERS = 11  # of 8 bytes for a group and draw beside log terms: nodes, and figures on both sides
_PIECE = 1 << 24  # bytes of the log terms of a piece of the draws


@dataclass(frozen=True, eq=False)
class NodeMoments:
    """At each draw: log-likelihood of each group, shape (S, G + 1), and moments of its effect, (S, G).

    `astray` says where the nodes miss the effect.
    """

    log_p: FloatArray
    effects: DrawnEffectMoments
    astray: NDArray[np.bool_]

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> "NodeMoments":
        """Return figures to be filled by `put`, given the shape (S, G + 1)."""
        of_groups = shape[0], shape[1] - 1
        return cls(np.empty(shape), DrawnEffectMoments.empty(of_groups), np.zeros(of_groups, dtype=bool))

    @classmethod
    def of_terms(cls, terms: FloatArray, at: DrawNodes) -> "NodeMoments":
        """Return figures from log terms at nodes, shape (S, M)."""
        found = figures(terms, at)
        return cls(found.log_p, DrawnEffectMoments(found.mean, found.variance), found.astray)

    def put(self, cut: slice, own: "NodeMoments") -> None:
        """Write those of some draws."""
        self.log_p[cut], self.astray[cut] = own.log_p, own.astray
        self.effects.put(cut, own.effects)

    def of(self, groups: slice) -> "NodeMoments":
        """Return those of some groups."""
        return NodeMoments(self.log_p[:, groups], self.effects.of(groups), self.astray[:, groups])


@dataclass(frozen=True, eq=False)
class CoreMoments:
    """What the coreset says about the groups at draws, of many groups: of some of them when asked."""

    theta: FloatArray
    arguments: CollapsedArguments

    def of(self, groups: slice) -> NodeMoments:
        """Return that of some groups, given a slice with start and stop."""
        which = np.arange(groups.start, groups.stop)
        some = self.arguments.of(which, np.ones(len(which)))
        return core_moments(self.theta, some)[1].of(slice(0, len(which)))


@dataclass(frozen=True, eq=False)
class Moves:
    """What a pass at one point adds to the coreset's figures, to give the full data's.

    `gain`, `shift` and `ratio`, shape (G,), are what it adds to log-likelihoods and means and multiplies variances by;
    `poor` says where nodes missed the effect there. Effects of groups at `places`, in order, were `evaluated`, and
    `missed` where the nodes miss them. Their log-likelihoods stay moved, as the others': a sample says how far these
    are off.
    """

    gain: FloatArray
    shift: FloatArray
    ratio: FloatArray
    poor: NDArray[np.bool_]
    places: IntArray
    evaluated: DrawnEffectMoments
    missed: NDArray[np.bool_]

    def moved(self, own: NodeMoments, groups: slice) -> NodeMoments:
        """Return the full data's figures of some groups, given the coreset's of these."""
        mean, variance = own.effects.mean + self.shift[groups], own.effects.variance * self.ratio[groups]
        log_p, astray = own.log_p + self.gain[groups], own.astray | self.poor[groups]
        here = slice(*np.searchsorted(self.places, [groups.start, groups.stop]))
        k = self.places[here] - groups.start
        astray[:, k] = self.missed[:, here]
        mean[:, k], variance[:, k] = self.evaluated.of(here)
        return NodeMoments(log_p, DrawnEffectMoments(mean, variance), astray)


class Sample(NamedTuple):
    """Groups that were evaluated where the others were not: places, 1 / probability, log-likelihoods, shape (S, m).

    `error`, shape (S,), is the standard error of the ratio, up to a constant for all draws.
    """

    places: IntArray
    each: FloatArray
    log_p: FloatArray
    error: FloatArray


class GroupFigures(NamedTuple):
    """What all G groups are like, under weights of draws.

    `columns` are those of `effects_table`. `shift` and `stretch` are what the full data add to the mean of each effect
    given (beta, log sigma), and multiply its sd by. `n_astray` counts the groups whose effect the nodes miss at draws
    with more than a share of the weights. `left_out`, shape (G,), is the log predictive density of each group without
    its rows, by weights that nothing smooths.
    """

    columns: Columns
    shift: FloatArray
    stretch: FloatArray
    left_out: FloatArray
    n_astray: int


@dataclass(frozen=True, eq=False)
class NodeSums:
    """What rows say about the groups at draws theta of (beta, log sigma), shape (S, p + 1).

    `ratio`, shape (S,), is the log-likelihood of the full data less the coreset's. `labels` are the weights of rows of
    +1 and of -1 in each group, shape (G, 2). `error` is the standard error of the ratio by a sample of the rows. `full`
    and `core` are of the draws at `at`; all where that is None.
    """

    theta: FloatArray
    ratio: FloatArray
    full: NodeMoments | Moves
    core: NodeMoments | CoreMoments
    labels: FloatArray
    arguments: CollapsedArguments  # of the coreset's density
    exact: tuple[FloatArray, DrawNodes] | None = None  # log terms of all groups, and their nodes
    sample: Sample | None = None  # where `full` is `Moves`
    error: float = 0.0
    at: IntArray | None = None

    def of(self, groups: slice) -> tuple[NodeMoments, NodeMoments]:
        """Return what the coreset and the full data say about some groups, given a slice with start and stop."""
        own = self.core.of(groups)
        return own, self.full.moved(own, groups) if isinstance(self.full, Moves) else self.full.of(groups)

    def group_figures(self, weights: FloatArray, share: float) -> GroupFigures:
        """Return what all groups are like, given weights of all draws, from pieces that take little memory."""
        some, ratio = (each if self.at is None else each[self.at] for each in (weights, self.ratio))
        w, columns, others, n_astray = some / some.sum(), list[Columns](), list[Columns](), 0
        for cut in pieces_of(len(self.labels), len(w)):
            core, full = self.of(cut)
            ours, theirs = core.effects, full.effects
            columns.append(effect_columns(w, ours, theirs, self.labels[cut]))
            other = {
                "shift": (theirs.mean - ours.mean).mean(axis=0),
                "stretch": np.sqrt(theirs.variance.mean(axis=0) / ours.variance.mean(axis=0)),
                "left_out": special.logsumexp(ratio) - special.logsumexp(ratio[:, None] - full.log_p, axis=0),
            }
            others.append(other)
            n_astray += int(np.count_nonzero(w @ full.astray > share))
        return GroupFigures(joined(columns), **joined(others), n_astray=n_astray)

    def draw_effects(self, s: int, uniforms: FloatArray, found: GroupFigures) -> FloatArray:
        """Return a draw of each effect given the full data and draw s, shape (G,).

        Without log terms of all groups it is one given the coreset, moved to mean and sd given the full data.
        """
        cut, given = slice(s, s + 1), uniforms[None]
        if self.exact is not None:
            terms, at = self.exact
            own = at._replace(theta=at.theta[cut], center=at.center[cut], scale=at.scale[cut])
            return np.asarray(effects_given(terms[cut], own, given)[0])
        at, terms = nodes_at(self.theta[cut], self.arguments)
        u, mean = effects_given(terms, at, given)[0], figures(terms, at).mean[0]
        return np.asarray(mean + found.shift + (u - mean) * found.stretch)


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
