r"""What the full data and the coreset say about each group's effect at draws of (beta, log sigma).

Log terms at the M nodes of all groups take 8 M bytes a draw and are kept once, of the full data; all else is found from
pieces of the draws or of the groups.

All rows are evaluated (`node_sums`), or whole groups of a sample (`sampled_sums`), or a sample of rows
(`sampled_row_sums`).

A sample of groups: let d_g(theta) be the log-likelihood of group g by the full data less that by the coreset, effects
integrated out, and q_g its quadratic at the coreset's mode t, by Louis' identities. A pass at t gives the sum of the
quadratics; what is left is estimated from a sample that has group g with probability pi_g,

.. math:: \sum_g d_g(\theta) \approx \sum_g q_g(\theta) + \sum_{g \in S} \frac{d_g(\theta) - q_g(\theta)}{\pi_g}.

pi_g grows with how far the coreset's effect at t is off, in mean and sd, and with the skewness of the group's
likelihood, so that groups that the coreset does not fit are in for certain. The others' effects, and their
log-likelihoods for the elpd, are the coreset's moved by what the pass at t says. Sampled groups tell the standard error
of the sum, and how good the moved effects are. A larger sample is drawn, once, where the error is too large; where that
does not do, or has most of the rows, all rows are to be evaluated.

A sample of rows, where groups are few and large: at the coreset's mode t of beta, and the mean effect m_g there, a pass
finds value, gradient and curvature of each group's log-likelihood by (beta, b). What rows are beyond second order is
summed over a sample of them (`diagnostics.row_sums`), so that at draws and nodes b of the group's effect

.. math:: \ell_g(\beta, b) \approx Q_g(\beta, b) + \sum_{n \in S} \frac{w_n}{\pi_n} \ell(x_n \beta + b + o_n, y_n),

Q_g the second-order terms of all rows of the group less those of its weighted sample. Integrals over b, moments of
effects and draws of them follow as from all rows. The sample tells the standard error of the sum over groups.

When to use it: where a sample of whole groups would be most of the rows.

References
----------
Louis (1982), Finding the observed information matrix when using the EM algorithm, JRSS B 44. Ohlsson (1998), Sequential
Poisson sampling, Journal of Official Statistics 14.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.diagnostics.certificate.weigh import Columns, DrawnEffectMoments, effect_columns, effect_slices, joined
from bayescore.diagnostics.row_sums import MIN_SAVING, RowSumsPlan, check_finite, check_weight, gather
from bayescore.families import Family
from bayescore.limits import MAX_SUM_ERROR
from bayescore.models.groups.effects import effects_given
from bayescore.models.groups.marginal import CollapsedArguments, CollapsedTarget, inclusion_of, n_nodes, nodes_at
from bayescore.models.groups.marginal_mode import MarginalPoint, TermsByGroup, evaluate_at, terms_by_group
from bayescore.models.groups.nodes import DrawNodes, effect_summaries, weigh_nodes
from bayescore.models.groups.rows import (
    THIRD,
    effect_multipliers,
    label_weights,
    sum_groups_of_source,
    values_at,
)
from bayescore.models.laplace import largest_sample, with_remainders
from bayescore.models.row_kernels import derivatives_of
from bayescore.numerics.chains import evenly_spaced
from bayescore.numerics.elementary import EffectNodes
from bayescore.numerics.sampling import Chosen, hash_uniforms
from bayescore.types import NO_GROUP, FloatArray, IntArray, WeightedData, stack
from bayescore.validation import DataError

MAX_BYTES = 8 << 30
"""Bytes of a certificate's figures of all groups and draws above which they are refused before the pass."""

MIN_FIGURE_DRAWS = 100
"""Draws that importance weights need at least."""

_NUMBERS = 11  # of 8 bytes for a group and draw beside log terms: nodes, and figures on both sides
_PIECE_BYTES = 1 << 24  # bytes of the log terms of a piece of the draws


@dataclass(frozen=True, eq=False)
class NodeMoments:
    """At each draw: log-likelihood of each group, shape (S, G + 1), and moments of its effect, (S, G).

    `missed` says where the nodes miss the effect.
    """

    log_p: FloatArray
    effects: DrawnEffectMoments
    missed: NDArray[np.bool_]

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> "NodeMoments":
        """Return figures to be filled by `put`, given the shape (S, G + 1)."""
        of_groups = shape[0], shape[1] - 1
        return cls(np.empty(shape), DrawnEffectMoments.empty(of_groups), np.zeros(of_groups, dtype=bool))

    @classmethod
    def of_terms(cls, terms: FloatArray, at: DrawNodes) -> "NodeMoments":
        """Return figures from log terms at nodes, shape (S, M)."""
        moments = effect_summaries(terms, at)
        return cls(moments.log_p, DrawnEffectMoments(moments.mean, moments.variance), moments.missed)

    def put(self, cut: slice, moments: "NodeMoments") -> None:
        """Write those of some draws."""
        self.log_p[cut], self.missed[cut] = moments.log_p, moments.missed
        self.effects.put(cut, moments.effects)

    def of(self, groups: slice) -> "NodeMoments":
        """Return those of some groups."""
        return NodeMoments(self.log_p[:, groups], self.effects.of(groups), self.missed[:, groups])


@dataclass(frozen=True, eq=False)
class CoreMoments:
    """What the coreset says about the groups at draws, of many groups: of some of them when asked."""

    theta: FloatArray
    arguments: CollapsedArguments

    def of(self, groups: slice) -> NodeMoments:
        """Return that of some groups, given a slice with start and stop."""
        which = np.arange(groups.start, groups.stop)
        some = self.arguments.of_groups(which, np.ones(len(which)))
        return core_moments(self.theta, some)[1].of(slice(0, len(which)))


@dataclass(frozen=True, eq=False)
class MomentShifts:
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
        log_p, missed = own.log_p + self.gain[groups], own.missed | self.poor[groups]
        evaluated = slice(*np.searchsorted(self.places, [groups.start, groups.stop]))
        k = self.places[evaluated] - groups.start
        missed[:, k] = self.missed[:, evaluated]
        mean[:, k], variance[:, k] = self.evaluated.of(evaluated)
        return NodeMoments(log_p, DrawnEffectMoments(mean, variance), missed)


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
    given (beta, log sigma), and multiply its sd by. `n_missed` counts the groups whose effect the nodes miss at draws
    with more than a share of the weights. `left_out`, shape (G,), is the log predictive density of each group without
    its rows, by weights that nothing smooths.
    """

    columns: Columns
    shift: FloatArray
    stretch: FloatArray
    left_out: FloatArray
    n_missed: int


@dataclass(frozen=True, eq=False)
class NodeSums:
    """What rows say about the groups at draws theta of (beta, log sigma), shape (S, p + 1).

    `ratio`, shape (S,), is the log-likelihood of the full data less the coreset's. `labels` are the weights of rows of
    +1 and of -1 in each group, shape (G, 2). `error` is the standard error of the ratio by a sample of the rows. `full`
    and `core` are of the draws at `at`; all where that is None.
    """

    theta: FloatArray
    ratio: FloatArray
    full: NodeMoments | MomentShifts
    core: NodeMoments | CoreMoments
    labels: FloatArray
    arguments: CollapsedArguments  # of the coreset's density
    exact: tuple[FloatArray, DrawNodes] | None = None  # log terms of all groups, and their nodes
    sample: Sample | None = None  # where `full` is `MomentShifts`
    error: float = 0.0
    at: IntArray | None = None

    def of(self, groups: slice) -> tuple[NodeMoments, NodeMoments]:
        """Return what the coreset and the full data say about some groups, given a slice with start and stop."""
        by_core = self.core.of(groups)
        return by_core, self.full.moved(by_core, groups) if isinstance(self.full, MomentShifts) else self.full.of(
            groups
        )

    def group_figures(self, weights: FloatArray, share: float) -> GroupFigures:
        """Return what all groups are like, given weights of all draws, from pieces that take little memory."""
        some, ratio = (each if self.at is None else each[self.at] for each in (weights, self.ratio))
        w, columns, others, n_missed = some / some.sum(), list[Columns](), list[Columns](), 0
        for cut in effect_slices(len(self.labels), len(w)):
            core, full = self.of(cut)
            ours, theirs = core.effects, full.effects
            columns.append(effect_columns(w, ours, theirs, self.labels[cut]))
            other = {
                "shift": (theirs.mean - ours.mean).mean(axis=0),
                "stretch": np.sqrt(theirs.variance.mean(axis=0) / ours.variance.mean(axis=0)),
                "left_out": special.logsumexp(ratio) - special.logsumexp(ratio[:, None] - full.log_p, axis=0),
            }
            others.append(other)
            n_missed += int(np.count_nonzero(w @ full.missed > share))
        return GroupFigures(joined(columns), **joined(others), n_missed=n_missed)

    def draw_effects(self, s: int, uniforms: FloatArray, found: GroupFigures) -> FloatArray:
        """Return a draw of each effect given the full data and draw s, shape (G,).

        Without log terms of all groups it is one given the coreset, moved to mean and sd given the full data.
        """
        cut, given = slice(s, s + 1), uniforms[None]
        if self.exact is not None:
            terms, at = self.exact
            nodes_of_draw = at._replace(theta=at.theta[cut], center=at.center[cut], scale=at.scale[cut])
            return np.asarray(effects_given(terms[cut], nodes_of_draw, given)[0])
        at, terms = nodes_at(self.theta[cut], self.arguments)
        u, mean = effects_given(terms, at, given)[0], effect_summaries(terms, at).mean[0]
        return np.asarray(mean + found.shift + (u - mean) * found.stretch)


def check_bytes(theta: FloatArray, arguments: CollapsedArguments, name: str = "max_draws") -> None:
    """Raise `DataError` where figures of draws take more than `MAX_BYTES`, with a number for the argument `name`."""
    n_draws, n_groups = len(theta), len(arguments.peak) - 1
    each = 8 * (n_nodes(float(np.exp(theta[:, -1].max())), arguments) + _NUMBERS * (n_groups + 1))
    if n_draws * each <= MAX_BYTES:
        return
    most = MAX_BYTES // each
    remedy = f"give {name}={most}" if most >= MIN_FIGURE_DRAWS else "build with fewer groups"
    raise DataError(
        f"{name}={n_draws} of {n_groups:,} groups take {n_draws * each:,} bytes, more than {MAX_BYTES:,}: {remedy}"
    )


def node_sums(theta: FloatArray, core: Coreset, dataset: Dataset, target: CollapsedTarget) -> NodeSums:
    """Return the sums at draws of (beta, log sigma), shape (S, p + 1); one pass, or as `values_at` says."""
    arguments = target.arguments()
    at, by_core = core_moments(theta, arguments)
    terms, weight = values_at(dataset, at, target.family, column=target.column)
    check_weight(core, float(weight.sum()))
    sums = _sums_of_terms((terms, at), by_core, weight, arguments)
    check_finite(dataset, sums.ratio)
    return sums


def _sums_of_terms(
    exact: tuple[FloatArray, DrawNodes], core: NodeMoments, labels: FloatArray, arguments: CollapsedArguments
) -> NodeSums:
    """Return the sums from log-likelihoods of all rows at nodes, to which the nodes' weights are added."""
    terms, at = exact
    weigh_nodes(terms, at)
    full = NodeMoments.of_terms(terms, at)
    ratio = full.log_p.sum(axis=1) - core.log_p.sum(axis=1)
    return NodeSums(at.theta, ratio, full, core, labels[:-1], arguments, exact)


def core_moments(theta: FloatArray, arguments: CollapsedArguments) -> tuple[DrawNodes, NodeMoments]:
    """Return the nodes of the groups at draws, and what the coreset says there."""
    shape = len(theta), len(arguments.peak)
    moments, center, scale = NodeMoments.empty(shape), np.empty(shape), np.empty(shape)
    for cut, at, terms in _pieces(theta, arguments):
        moments.put(cut, NodeMoments.of_terms(terms, at))
        center[cut], scale[cut], last = at.center, at.scale, at
    return last._replace(theta=np.ascontiguousarray(theta), center=center, scale=scale), moments


def marginal_log_likelihoods(theta: FloatArray, target: CollapsedTarget) -> FloatArray:
    """Return the coreset's log-likelihood at draws of (beta, log sigma), effects integrated out, shape (S,)."""
    pieces = _pieces(theta, target.arguments())
    return np.concatenate([effect_summaries(terms, at).log_p.sum(axis=1) for _, at, terms in pieces])


def _pieces(theta: FloatArray, arguments: CollapsedArguments) -> Iterator[tuple[slice, DrawNodes, FloatArray]]:
    """Give the nodes and log terms of pieces of the draws."""
    sigma = float(np.exp(theta[:, -1].max()))
    step = max(1, _PIECE_BYTES // (8 * n_nodes(sigma, arguments)))
    for start in range(0, len(theta), step):
        cut = slice(start, start + step)
        yield cut, *nodes_at(theta[cut], arguments, sigma=sigma)


MIN_SAMPLED_GROUPS, MAX_SAMPLED_GROUPS = 50, 500
"""Groups of a sample: as many as have `ROWS` rows, within these."""


ROWS = 50_000


LARGEST_SHARE = 0.5  # of all rows, above which a sample of groups saves nothing


EQUAL_SHARE = 0.1  # of the sampling probabilities, that all groups have alike


_SPARE = 1.2  # by which a second, larger sample is to be more exact than asked


_SEED = 1982  # of the sample: the same data give the same groups


_TINY = 1e-300


_FIGURES = 1 << 22  # groups times draws, of all figures of all groups


_FIGURE = 33  # bytes of a sampled group at a draw: log-likelihood, what is left of it, moments and where nodes miss it


_PIECE = 1 << 20  # log terms at the nodes of sampled groups, 8 MB; a block that waits has as many


def sampled_sums(theta: FloatArray, core: Coreset, dataset: Dataset, target: CollapsedTarget) -> NodeSums | None:
    """Return the sums at draws of (beta, log sigma), shape (S, p + 1); two or three passes. None if a sample fails."""
    G, point = target.n_groups, target.point
    if _sample_size(core.n_total / G) >= LARGEST_SHARE * G:
        return None
    pass_at_mode = sum_groups_of_source(dataset, target.family, point.beta, point.nodes, column=target.column)
    check_weight(core, float(pass_at_mode.weight.sum()))
    full = evaluate_at(lambda *_: pass_at_mode.sums, point.theta, point.nodes, target.priors)
    check_finite(dataset, full.terms.gradient)
    reach, count = _reach(full, point), pass_at_mode.n_rows[:-1]
    share = _shares(reach)
    size = _sample_size(float(share @ count))
    # all groups at some of the draws: effects differ little between these and the others
    at = evenly_spaced(len(theta), max(MIN_FIGURE_DRAWS, _FIGURES // G))
    for _ in range(2):
        inclusion = np.ones(G) if size >= G else inclusion_of(share, size)
        if inclusion @ count + pass_at_mode.n_rows[-1] > LARGEST_SHARE * pass_at_mode.n_rows.sum():
            return None
        sample = _draw_groups(inclusion)
        kept = _rows_of(dataset, sample, G)
        groups = _GroupSample(target, core, full, kept, sample, inclusion[sample])
        sums, error = groups.sums(theta, at, pass_at_mode.weight[:-1])
        if error <= MAX_SUM_ERROR:
            return sums
        if not math.isfinite(error):
            return None
        size = math.ceil(len(sample) * (_SPARE * error / MAX_SUM_ERROR) ** 2)
        if size * len(theta) * _FIGURE > MAX_BYTES:
            return None
    return None


def _reach(full: MarginalPoint, core: MarginalPoint) -> FloatArray:
    """Return how far what is left of each group may reach, shape (G,), in shares."""
    a, b, real = full.effects, core.effects, slice(None, -1)
    gap = np.abs(a.mean - b.mean)[real] / np.sqrt(b.variance[real]) + np.abs(np.log(a.variance / b.variance))[real]
    skew = np.abs(full.sums.by_effect[real, THIRD]) * a.variance[real] ** 1.5
    parts = [np.where(np.isfinite(each), each, np.nanmax(each, initial=1.0)) for each in (gap, skew)]
    return np.asarray(sum(each / max(float(each.sum()), _TINY) for each in parts))


def _sample_size(rows: float) -> int:
    """Return the size of a sample of groups that have so many rows each."""
    return int(np.clip(ROWS / max(rows, 1.0), MIN_SAMPLED_GROUPS, MAX_SAMPLED_GROUPS))


def _shares(reach: FloatArray) -> FloatArray:
    """Return the groups' shares in the probabilities that they are in the sample, shape (G,)."""
    p = (1.0 - EQUAL_SHARE) * reach / max(float(reach.sum()), _TINY) + EQUAL_SHARE / len(reach)
    return np.asarray(p / p.sum())


def _draw_groups(inclusion: FloatArray) -> IntArray:
    """Return the groups of a sample of fixed size, in order."""
    key = hash_uniforms(0, len(inclusion), _SEED) / inclusion
    key[inclusion >= 1.0] = -1.0
    size = round(float(inclusion.sum()))
    return np.sort(np.argsort(key, kind="stable")[:size])


def _rows_of(dataset: Dataset, sample: IntArray, n_groups: int) -> WeightedData:
    """Return the rows of sampled groups, their codes places in the sample, and those of no group; one pass."""
    place = np.full(n_groups + 1, -2)
    place[sample], place[-1] = np.arange(len(sample)), NO_GROUP

    def of_block(_: int, block: WeightedData) -> WeightedData:
        codes = place[block.group_codes[:, 0]]
        kept = np.flatnonzero(codes != -2)
        rows = block.take(kept)
        return WeightedData(rows.X, rows.y, rows.weights, rows.index, offset=rows.offset, group=codes[kept, None])

    return stack(list(dataset.map(of_block, "certifying", canonical=True)))


@dataclass(frozen=True, eq=False)
class _GroupSample:
    """A sample of groups, their rows and those of no group; `full` is the pass over all at the coreset's mode."""

    target: CollapsedTarget
    core: Coreset
    full: MarginalPoint
    rows: WeightedData
    sample: IntArray
    inclusion: FloatArray

    @property
    def each(self) -> FloatArray:
        """What a group stands for; the last are the rows of no group, as in `places`."""
        return 1.0 / np.append(self.inclusion, 1.0)

    @property
    def places(self) -> IntArray:
        """Places of the sampled groups among all."""
        return np.append(self.sample, self.target.n_groups)

    def sums(self, theta: FloatArray, at: IntArray, labels: FloatArray) -> tuple[NodeSums | None, float]:
        """Return the sums at draws, and their largest standard error; effects are those at draws `at`, in order.

        None where the other groups' effects are not as near as the sums.
        """
        arguments, each = self.target.arguments().of_groups(self.sample, np.ones(len(self.sample))), self.each
        log_p, quadratics = np.empty((len(theta), len(self.places))), self._terms()
        left, shape = np.empty_like(log_p), (len(at), len(self.sample))
        effects, missed = DrawnEffectMoments.empty(shape), np.zeros(shape, dtype=bool)
        step = max(1, _PIECE // n_nodes(float(np.exp(theta[:, -1].max())), arguments))
        cuts = [slice(start, min(start + step, len(theta))) for start in range(0, len(theta), step)]
        sums = np.zeros((5, len(self.sample)))
        for cut in cuts:
            nodes, by_core = core_moments(theta[cut], arguments)
            terms = values_at(Dataset(as_source(self.rows)), nodes, self.target.family, column=self.target.column)[0]
            weigh_nodes(terms, nodes)
            by_full = NodeMoments.of_terms(terms, nodes)
            log_p[cut] = by_full.log_p
            left[cut] = by_full.log_p - by_core.log_p - _quadratics(quadratics, theta[cut] - self.target.point.theta)
            sums += [part.sum(axis=0) for part in (*by_core.effects, by_core.effects.mean**2, *by_full.effects)]
            some = slice(*np.searchsorted(at, [cut.start, cut.stop]))
            kept = at[some] - cut.start
            effects.put(some, by_full.effects.of_draws(kept))
            missed[some] = by_full.missed[kept]
        left -= left.mean(axis=0)
        left *= each
        open_ = 1.0 - 1.0 / each
        many, square = float((open_ > 0.0).sum()), np.empty(len(theta))
        for cut in cuts:
            middle = left[cut] @ open_ / max(float(open_.sum()), _TINY)
            square[cut] = (left[cut] - middle[:, None]) ** 2 @ open_
        error = np.sqrt(square * many / max(many - 1.0, 1.0))
        if not self._effects_are_near(sums / len(theta)):
            return None, float(error.max())
        point, arguments = self.target.point, self.target.arguments()
        a, b, real = self.full.effects, point.effects, slice(None, -1)
        moves = MomentShifts(
            gain=a.log_marginal[real] - b.log_marginal[real],
            shift=a.mean[real] - b.mean[real],
            ratio=a.variance[real] / b.variance[real],
            poor=a.poor[real].astype(bool),
            places=self.sample,
            evaluated=effects,
            missed=missed,
        )
        whole = self.full.terms - point.terms
        quadratic = TermsByGroup(np.array([whole.value]), whole.gradient[None], whole.precision[None])
        ratio = _quadratics(quadratic, theta - point.theta)[:, 0] + left.sum(axis=1)
        core, sample = CoreMoments(theta[at], arguments), Sample(self.sample, self.each[:-1], log_p[:, :-1], error)
        return NodeSums(theta, ratio, moves, core, labels, arguments, sample=sample, at=at), float(error.max())

    def _effects_are_near(self, means: FloatArray) -> bool:
        """Whether effects of sampled groups are the coreset's, moved, in mean and sd over draws.

        `means` over draws, shape (5, number), are of mean, variance and squared mean of effects by the coreset, and of
        mean and variance by the full data.
        """
        a, b, some = self.full.effects, self.target.point.effects, self.sample
        core, core_variance, square, full_mean, variance = means
        sd = np.sqrt(core_variance + np.maximum(square - core**2, 0.0))
        gaps = core + (a.mean - b.mean)[some] - full_mean
        ratios = core_variance * (a.variance / b.variance)[some] / variance
        fitted = self.each[:-1] > 1.0  # the others are found
        gap = np.maximum(np.abs(gaps / sd), 0.5 * np.abs(np.log(ratios)))
        return bool((gap[fitted] <= MAX_SUM_ERROR).all())

    def _terms(self) -> TermsByGroup:
        """Return value, gradient and minus the Hessian at the mode, full data less coreset, of each sampled group."""
        return self._each(self.rows, np.arange(len(self.sample))) - self._each(self.core, self.sample)

    def _each(self, rows: WeightedData, codes: IntArray) -> TermsByGroup:
        """Return the terms of some groups of rows, by their codes in order; the last those of rows of no group."""
        target, group = self.target, rows.group_codes[:, 0]
        places = np.searchsorted(codes, group)
        places[group == NO_GROUP] = len(codes)
        kept = np.flatnonzero((group == NO_GROUP) | (np.append(codes, NO_GROUP)[places] == group))
        nodes = EffectNodes(*(each[self.places] for each in target.point.nodes))
        z = effect_multipliers(rows, target.column)[kept]
        return terms_by_group(rows.take(kept), places[kept], z, (target.point.theta, nodes), target.family)


def _quadratics(terms: TermsByGroup, step: FloatArray) -> FloatArray:
    """Return values of quadratics at steps from their middle, shape (S, p + 1): (S, number)."""
    bend = np.einsum("sp,gpq,sq->sg", step, terms.precision, step, optimize=True)
    return np.asarray(terms.value + step @ terms.gradient.T - 0.5 * bend)


_MOST_NUMBERS = 1 << 22  # of all groups' curvatures: 32 MB


def sampled_row_sums(theta: FloatArray, core: Coreset, dataset: Dataset, target: CollapsedTarget) -> NodeSums | None:
    """Return the sums at draws of (beta, log sigma), shape (S, p + 1), by one pass; None where a sample won't do."""
    p, G = core.n_features, target.n_groups
    if core.n_total <= MIN_SAVING * largest_sample(p) or (G + 1) * (p + 1) ** 2 > _MOST_NUMBERS:
        return None
    near = MarginalApproximation.of(target)

    def labels_of(_: int, block: WeightedData) -> FloatArray:
        return label_weights(block, near.codes(block), G + 1)

    gathered, labels = gather(dataset, RowSumsPlan.near(near, core), labels_of, partial(reduce, add))
    check_weight(core, float(labels.sum()))
    sample = gathered.sample()
    rows, arguments = sample.expanded(), target.arguments()
    at, of_core = core_moments(theta, arguments)
    if not (error := near.error(theta, sample, of_core)) <= MAX_SUM_ERROR:
        return None
    values = values_at(Dataset(as_source(rows)), at, target.family, column=target.column)[0]
    add_second_order(gathered.terms - near.terms(rows), near, values, at)
    sums = _sums_of_terms((values, at), of_core, labels, arguments)
    check_finite(dataset, sums.ratio)
    return replace(sums, error=error)


@dataclass(frozen=True, eq=False)
class MarginalApproximation:
    """The `elpd.Approximation` of beta and effects at the mode of their marginal posterior.

    Given beta an effect is about normal, with mean center - slope (beta - theta) and the sd spread; shapes (G + 1,),
    (G + 1, p) of the slope. The last entries, of rows of no group, are 0.
    """

    family: Family
    theta: FloatArray  # of beta, (p,)
    factor: FloatArray  # L, (p, p + 1), L L' the covariance of beta
    center: FloatArray
    spread: FloatArray
    slope: FloatArray
    column: int  # by which rows multiply their effect, see `effect_multipliers`

    @classmethod
    def of(cls, target: CollapsedTarget) -> "MarginalApproximation":
        """Return that of a posterior at its mode."""
        point, likelihoods = target.point, target.effects
        information = likelihoods.information
        shrunk = information / (information + np.exp(-2.0 * point.log_sigma))
        center, spread = point.effects.mean.copy(), np.sqrt(point.effects.variance)
        center[-1] = spread[-1] = 0.0
        slope = likelihoods.slope * shrunk[:, None]
        return cls(target.family, point.beta, target.factor[:-1], center, spread, slope, target.column)

    def codes(self, rows: WeightedData) -> IntArray:
        """Return the groups of rows, G for rows of none, shape (n,)."""
        codes = rows.group_codes[:, 0]
        return np.where(codes < 0, len(self.center) - 1, codes)

    def _eta(self, rows: WeightedData, codes: IntArray) -> FloatArray:
        z = effect_multipliers(rows, self.column)
        return np.asarray(rows.with_offset(rows.X @ self.theta) + z * self.center[codes])

    def predictors(self, block: WeightedData) -> tuple[FloatArray, FloatArray]:
        """Return rows' predictors at the mode and their variances, shape (n,) each."""
        codes, z = self.codes(block), effect_multipliers(block, self.column)
        moves = block.X @ self.factor - z[:, None] * (self.slope @ self.factor)[codes]
        return self._eta(block, codes), np.vecdot(moves, moves) + (z * self.spread[codes]) ** 2

    def terms(self, block: WeightedData) -> TermsByGroup:
        """Return the log-likelihoods of groups and their derivatives by (beta, b) at the mode."""
        codes = self.codes(block)
        log_p, score, curvature, _ = derivatives_of(self._eta(block, codes), block.y, self.family)
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(self.center) + 1))
        X = np.column_stack([block.X, effect_multipliers(block, self.column)])[order]
        w, n, p = block.weights[order], len(self.center), X.shape[1]
        value, slope, bend = np.zeros(n), np.zeros((n, p)), np.zeros((n, p, p))
        for g in np.flatnonzero(np.diff(ends)):
            cut = slice(ends[g], ends[g + 1])
            rows_of_group, which = X[cut], order[cut]
            value[g] = w[cut] @ log_p[which]
            slope[g] = (w[cut] * score[which]) @ rows_of_group
            bend[g] = rows_of_group.T @ ((w[cut] * curvature[which])[:, None] * rows_of_group)
        return TermsByGroup(value, slope, bend)

    def error(self, theta: FloatArray, sample: Chosen, core: NodeMoments) -> float:
        """Return the standard error of the sum over groups at draws.

        Remainders are those at a draw of each effect. Their variance is no less than that of their means over effects.
        """
        effects = core.effects
        u = effects.mean + np.sqrt(effects.variance) * np.random.default_rng(0).standard_normal(effects.mean.shape)
        moves = np.append(u - self.center[:-1], np.zeros((len(u), 1)), axis=1).T
        steps = np.ascontiguousarray((theta[:, :-1] - self.theta).T)

        def predictors(rows: WeightedData) -> tuple[FloatArray, FloatArray]:
            codes = self.codes(rows)
            return self._eta(rows, codes), rows.X @ steps + effect_multipliers(rows, self.column)[:, None] * moves[
                codes
            ]

        none = np.zeros(len(theta))
        return with_remainders(none, sample.expanded(), sample.inclusion, self.family, predictors).error


def add_second_order(terms: TermsByGroup, near: MarginalApproximation, values: FloatArray, at: DrawNodes) -> None:
    """Add what terms about `near` are to second order to log-likelihoods at nodes, shape (S, M)."""
    step = at.theta[:, :-1] - near.theta
    for g, (value, slope, bend) in enumerate(zip(*terms, strict=True)):
        move = at.effects(g) - near.center[g]
        flat = value + step @ slope[:-1] - 0.5 * np.vecdot(step @ bend[:-1, :-1], step)
        pull = slope[-1] - step @ bend[:-1, -1]
        part = values[:, at.first[g] : at.first[g + 1]]
        part += flat[:, None] + (pull[:, None] - 0.5 * bend[-1, -1] * move) * move
