r"""What the full data say about (1 | g) at draws, where groups are few and large: one pass, and a sample of their rows.

At the coreset's mode t of beta, and the mean effect m_g there, a pass finds value, gradient and curvature of each
group's log-likelihood by (beta, b). What rows are beyond second order is summed over a sample of them
(`diagnostics.row_sums`), so that at draws and nodes b of the group's effect

.. math:: \ell_g(\beta, b) \approx Q_g(\beta, b) + \sum_{n \in S} \frac{w_n}{\pi_n} \ell(x_n \beta + b + o_n, y_n),

Q_g the second-order terms of all rows of the group less those of its weighted sample. Integrals over b, moments of
effects and draws of them follow as from all rows. The sample tells the standard error of the sum over groups.

When to use it: where a sample of whole groups would be most of the rows (`sampled_groups`).
"""

from dataclasses import dataclass
from functools import partial, reduce
from operator import add

import numpy as np

from bayescore.coresets.calibration.remainder import largest_sample, with_remainders
from bayescore.coresets.sampling.fixed_size import Chosen
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.diagnostics.certificate.nodes import NodeMoments, NodeSums, core_moments
from bayescore.diagnostics.full_pass import check_finite, check_weight
from bayescore.diagnostics.joint_sums import SAVES
from bayescore.diagnostics.row_sums import Look, gather
from bayescore.limits import MAX_SUM_ERROR
from bayescore.models.collapsed_target import CollapsedTarget
from bayescore.models.effect_nodes import DrawNodes, weigh_nodes
from bayescore.models.families import Family
from bayescore.models.group_sums import effect_multipliers, label_weights, values_at
from bayescore.models.row_kernels import derivatives_of
from bayescore.types import FloatArray, IntArray, WeightedData

_MOST_NUMBERS = 1 << 22  # of all groups' curvatures: 32 MB


def sampled_row_sums(theta: FloatArray, core: Coreset, dataset: Dataset, target: CollapsedTarget) -> NodeSums | None:
    """Return the sums at draws of (beta, log sigma), shape (S, p + 1), by one pass; None where a sample won't do."""
    p, G = core.n_features, target.n_groups
    if core.n_total <= SAVES * largest_sample(p) or (G + 1) * (p + 1) ** 2 > _MOST_NUMBERS:
        return None
    near = MarginalApproximation.of(target)

    def labels_of(_: int, block: WeightedData) -> FloatArray:
        return label_weights(block, near.codes(block), G + 1)

    gathered, labels = gather(dataset, Look.near(near, core), labels_of, partial(reduce, add))
    check_weight(core, float(labels.sum()))
    sample = gathered.sample()
    rows, arguments = sample.expanded(), target.arguments()
    at, of_core = core_moments(theta, arguments)
    if not (error := near.error(theta, sample, of_core)) <= MAX_SUM_ERROR:
        return None
    values = values_at(Dataset(as_source(rows)), at, target.family, column=target.column)[0]
    (gathered.terms - near.terms(rows)).add_to(values, near, at)
    weigh_nodes(values, at)
    full = NodeMoments.of_terms(values, at)
    ratio = full.log_p.sum(axis=1) - of_core.log_p.sum(axis=1)
    check_finite(dataset, ratio)
    return NodeSums(theta, ratio, full, of_core, labels[:-1], arguments, (values, at), error=error)


@dataclass(frozen=True, eq=False)
class MarginalApproximation:
    """The `row_sums.Approximation` of beta and effects at the mode of their marginal posterior.

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
        assert rows.group is not None
        own = rows.group[:, 0]
        return np.where(own < 0, len(self.center) - 1, own)

    def _eta(self, rows: WeightedData, codes: IntArray) -> FloatArray:
        z = effect_multipliers(rows, self.column)
        return np.asarray(rows.with_offset(rows.X @ self.theta) + z * self.center[codes])

    def predictors(self, block: WeightedData) -> tuple[FloatArray, FloatArray]:
        """Return rows' predictors at the mode and their variances, shape (n,) each."""
        codes, z = self.codes(block), effect_multipliers(block, self.column)
        moves = block.X @ self.factor - z[:, None] * (self.slope @ self.factor)[codes]
        return self._eta(block, codes), np.vecdot(moves, moves) + (z * self.spread[codes]) ** 2

    def terms(self, block: WeightedData) -> "GroupTerms":
        """Return the log-likelihoods of groups and their derivatives at the mode."""
        codes = self.codes(block)
        log_p, score, curvature, _ = derivatives_of(self._eta(block, codes), block.y, self.family)
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(self.center) + 1))
        X = np.column_stack([block.X, effect_multipliers(block, self.column)])[order]
        w, n, p = block.weights[order], len(self.center), X.shape[1]
        value, slope, bend = np.zeros(n), np.zeros((n, p)), np.zeros((n, p, p))
        for g in np.flatnonzero(np.diff(ends)):
            cut = slice(ends[g], ends[g + 1])
            own, which = X[cut], order[cut]
            value[g] = w[cut] @ log_p[which]
            slope[g] = (w[cut] * score[which]) @ own
            bend[g] = own.T @ ((w[cut] * curvature[which])[:, None] * own)
        return GroupTerms(value, slope, bend)

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


@dataclass(frozen=True, eq=False)
class GroupTerms:
    """Log-likelihoods of groups, gradients and minus Hessians by (beta, b): (G + 1,), (G + 1, p + 1), two axes more."""

    value: FloatArray
    slope: FloatArray
    bend: FloatArray

    def __add__(self, other: "GroupTerms") -> "GroupTerms":
        return GroupTerms(self.value + other.value, self.slope + other.slope, self.bend + other.bend)

    def __sub__(self, other: "GroupTerms") -> "GroupTerms":
        return GroupTerms(self.value - other.value, self.slope - other.slope, self.bend - other.bend)

    def add_to(self, values: FloatArray, near: MarginalApproximation, at: DrawNodes) -> None:
        """Add the second-order terms to log-likelihoods at nodes, shape (S, M)."""
        step = at.theta[:, :-1] - near.theta
        for g, (value, slope, bend) in enumerate(zip(self.value, self.slope, self.bend, strict=True)):
            move = at.effects(g) - near.center[g]
            flat = value + step @ slope[:-1] - 0.5 * np.vecdot(step @ bend[:-1, :-1], step)
            pull = slope[-1] - step @ bend[:-1, -1]
            part = values[:, at.first[g] : at.first[g + 1]]
            part += flat[:, None] + (pull[:, None] - 0.5 * bend[-1, -1] * move) * move
