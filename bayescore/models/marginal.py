r"""The marginal posterior of (beta, log sigma): rows in groups, each group's effect integrated out by quadrature.

.. math:: \log\pi(\beta, \log\sigma) =
          \sum_g \log \int \prod_{n \in g} e^{w_n \ell(x_n \beta + o_n + b, y_n)} N(b; 0, \sigma^2) db +
          \log\pi_0(\beta) + \log\pi_0(\log\sigma)

Gradient and Hessian by the identities of Fisher and Louis (1982): means and variances, over the effects given the data,
of those of the joint density; in the Hessian the scores of a group's rows are taken as linear in its effect. Sums over
rows add up over blocks (`GroupSums`), so the same serves rows in memory and a pass over a large source.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from bayescore.data.passes.tiles import TileRows
from bayescore.models.families import Family
from bayescore.models.group_priors import GroupPrior, log_sigma_terms
from bayescore.models.group_terms import INFORMATION, SLOPE, THIRD, add_group_terms
from bayescore.models.posterior import Terms, prior_part
from bayescore.models.priors import Prior
from bayescore.models.quadrature import LOG_WEIGHTS, N_NODES, NODES, EffectMoments, effect_moments
from bayescore.types import FloatArray, IntArray, WeightedData

TOLERANCE = 0.02  # distance from the mode, in posterior sds, at which the steps end
MAX_PASSES = 40
_LEAST_INFORMATION = 1e-4  # of a group's rows on its effect, in units of the prior's


@dataclass(frozen=True, eq=False)
class Nodes:
    """Where the effects of G groups are looked at: centre and scale, shape (G + 1,), and node probabilities.

    The last entry is that of rows of no group: 0.
    """

    center: FloatArray
    scale: FloatArray
    share: FloatArray

    @classmethod
    def normal(cls, center: FloatArray, scale: FloatArray) -> "Nodes":
        """Return nodes of normal effects."""
        return cls(center, scale, np.broadcast_to(np.exp(LOG_WEIGHTS), (len(center), N_NODES)))

    def take(self, which: IntArray) -> "Nodes":
        """Return those of some groups."""
        return Nodes(self.center[which], self.scale[which], np.ascontiguousarray(self.share[which]))


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Sums over rows by group, see `group_terms.add_group_terms`: shapes (G + 1, ...), (p,) and (p, p).

    `moments` are what they say of the effects; added by `of`.
    """

    values: FloatArray
    own: FloatArray
    cross: FloatArray
    pull: FloatArray
    gradient: FloatArray
    precision: FloatArray

    @classmethod
    def zeros(cls, n_groups: int, p: int) -> "GroupSums":
        """Return the sums of no rows."""
        shapes = (n_groups + 1, N_NODES), (n_groups + 1, 4), (n_groups + 1, p), (n_groups + 1, p), (p,), (p, p)
        return cls(*map(np.zeros, shapes))

    @property
    def middle(self) -> FloatArray:
        """Weighted mean row of each group, sum w c x / sum w c, shape (G + 1, p); 0 for rows of no group."""
        mean = self.cross / np.maximum(self.own[:, INFORMATION, None], np.finfo(float).tiny)
        mean[-1] = 0.0
        return np.asarray(mean)

    def add(self, codes: IntArray, part: "GroupSums") -> None:
        """Add the sums of a block, whose groups are `codes`."""
        for name in ("values", "own", "cross", "pull"):
            getattr(self, name)[codes] += getattr(part, name)[:-1]
        self.gradient[:] += part.gradient
        self.precision[:] += part.precision


def local_codes(block: WeightedData, n_groups: int) -> tuple[IntArray, IntArray]:
    """Return the groups of a block, in order, and of each row the place of its own; rows of none have n_groups."""
    assert block.group is not None
    own = block.group[:, 0]
    known = np.where(own < 0, n_groups, own)
    if n_groups > 4 * len(own):  # a table of all groups would be longer than the sort
        found, places = np.unique(known, return_inverse=True)
        return found, places.astype(np.int64)
    table = np.zeros(n_groups + 1, dtype=np.int64)
    table[known] = 1
    found = np.flatnonzero(table)
    table[found] = np.arange(len(found))
    return found, table[known]


def block_sums(
    beta: FloatArray, nodes: Nodes, family: Family, z: FloatArray, block: WeightedData
) -> tuple[IntArray, GroupSums]:
    """Return the groups of a block and its sums; z, shape (n,), is what rows multiply their effect by."""
    found, places = local_codes(block, len(nodes.center) - 1)
    own, sums = nodes.take(found), GroupSums.zeros(len(found), len(beta))
    add_group_terms(
        TileRows.of(block), places, z, beta, family, own.center, own.scale, own.share, NODES,
        sums.values, sums.own, sums.cross, sums.pull, sums.gradient, sums.precision,
    )  # fmt: skip
    return found, sums


def total(parts: Iterable[tuple[IntArray, GroupSums]], n_groups: int, p: int) -> GroupSums:
    """Return the sums of all blocks, in their order."""
    whole = GroupSums.zeros(n_groups, p)
    for codes, part in parts:
        whole.add(codes, part)
    whole.precision[:] = np.tril(whole.precision) + np.tril(whole.precision, -1).T
    return whole


Look = Callable[[FloatArray, Nodes], GroupSums]  # (beta, nodes) -> the sums of all rows: one pass


def look_at_rows(rows: WeightedData, family: Family, n_groups: int, z: FloatArray | None = None) -> Look:
    """Return the function that adds up rows in memory, which multiply their effect by z, shape (n,), by default 1."""
    factors = np.ones(len(rows)) if z is None else np.ascontiguousarray(z)

    def look(beta: FloatArray, nodes: Nodes) -> GroupSums:
        return total([block_sums(beta, nodes, family, factors, rows)], n_groups, len(beta))

    return look


@dataclass(frozen=True, eq=False)
class Effects:
    """What the rows say of the effects near a point: normal likelihoods, of which nodes at other points follow.

    Parameters
    ----------
    beta : array, shape (p,)
        The point.
    peak, information : arrays, shape (G + 1,)
        Where the likelihood of each group's effect has its peak, and its precision; 0 for rows of no group.
    slope : array, shape (G + 1, p)
        By how much a peak moves against beta.
    """

    beta: FloatArray
    peak: FloatArray
    information: FloatArray
    slope: FloatArray

    @classmethod
    def of(cls, beta: FloatArray, log_sigma: float, sums: GroupSums, found: EffectMoments) -> "Effects":
        """Return the likelihoods whose posteriors have the moments found."""
        prior = np.exp(-2.0 * log_sigma)
        information = np.maximum(1.0 / found.variance - prior, _LEAST_INFORMATION * prior)
        slope = sums.middle
        peak = found.mean * (information + prior) / information
        peak[-1] = information[-1] = 0.0
        return cls(beta, peak, information, slope)

    def nodes(self, beta: FloatArray, log_sigma: float) -> Nodes:
        """Return nodes at another point, of normal effects."""
        precision = self.information + np.exp(-2.0 * log_sigma)
        center = self.information * (self.peak - self.slope @ (beta - self.beta)) / precision
        scale = precision**-0.5
        scale[-1] = 0.0
        return Nodes.normal(center, scale)


@dataclass(frozen=True, eq=False)
class MarginalPoint:
    """A point (beta, log sigma) and what a pass there found.

    `terms` are those of the marginal posterior, its last coordinate log sigma; `gap` is by how many sds of an effect
    the nodes' centre was off, at most.
    """

    beta: FloatArray
    log_sigma: float
    nodes: Nodes
    sums: GroupSums
    effects: EffectMoments
    terms: Terms
    gap: float

    @property
    def theta(self) -> FloatArray:
        """The point, shape (p + 1,)."""
        return np.append(self.beta, self.log_sigma)

    @property
    def families(self) -> Effects:
        """What the rows say of the effects."""
        return Effects.of(self.beta, self.log_sigma, self.sums, self.effects)


def at_point(
    look: Look, beta: FloatArray, log_sigma: float, nodes: Nodes, priors: tuple[Prior, GroupPrior]
) -> MarginalPoint:
    """Look at the rows at a point; one pass."""
    sums = look(beta, nodes)
    found = effect_moments(
        sums.values, nodes.center, nodes.scale, log_sigma, sums.own[:, SLOPE], sums.own[:, INFORMATION]
    )
    real = slice(None, -1)  # rows of no group have no effect
    square = np.exp(-2.0 * log_sigma)
    m, v, middle = found.mean[real], found.variance[real], sums.middle[real]
    spread = nodes.scale[real] ** 2 * (nodes.share[real] * NODES**2).sum(axis=1)
    p = len(beta)
    gradient, precision = np.empty(p + 1), np.zeros((p + 1, p + 1))
    # within groups, and between them: a group's mean score is m / sigma^2 (Stein), whatever the nodes' probabilities
    gradient[:p] = sums.gradient - (sums.own[real, SLOPE] - m * square) @ middle
    gradient[:p] += 0.5 * (v - spread) @ (sums.pull[real] - sums.own[real, THIRD, None] * middle)
    gradient[p] = (found.square[real] * square - 1.0).sum()
    precision[:p, :p] = (
        sums.precision - (middle.T * (sums.own[real, INFORMATION] - (1.0 - v * square) * square)) @ middle
    )
    precision[p, :p] = precision[:p, p] = ((2.0 * m - found.with_square[real] * square) * square) @ middle
    precision[p, p] = (2.0 * found.square[real] * square - found.of_square[real] * square**2).sum()
    value = float(found.log_marginal[real].sum() + sums.values[-1, 0])
    terms = Terms(value, gradient, precision) + _log_priors(beta, log_sigma, priors)
    gap = np.abs(found.mean - nodes.center)[real] / np.sqrt(v)
    return MarginalPoint(beta, log_sigma, nodes, sums, found, terms, float(gap.max(initial=0.0)))


def _log_priors(beta: FloatArray, log_sigma: float, priors: tuple[Prior, GroupPrior]) -> Terms:
    own, (value, slope, curvature) = prior_part(beta, priors[0]), log_sigma_terms(log_sigma, *priors[1].table)
    return Terms(
        own.value + value, np.append(own.gradient, slope), linalg.block_diag(own.precision, np.full((1, 1), curvature))
    )


def _step(point: MarginalPoint) -> tuple[FloatArray, float]:
    """Return a Newton step, not long in log sigma, and its length in posterior sds."""
    gradient, precision = point.terms.gradient, point.terms.precision
    least = 0.2 * (point.effects.square[:-1] * np.exp(-2.0 * point.log_sigma)).sum() + 0.5
    for lift in (0.0, 1.0, 10.0, 100.0):
        lifted = precision.copy()
        if lift:  # log sigma alone, by less than an EM step would
            lifted[-1, :-1] = lifted[:-1, -1] = 0.0
            lifted[-1, -1] = max(float(precision[-1, -1]), float(least))
            lifted[:-1, :-1] += (lift - 1.0) * 1e-3 * np.diag(np.abs(np.diagonal(precision)[:-1]))
        try:
            factor = linalg.cho_factor(lifted)
        except linalg.LinAlgError:
            continue
        step = linalg.cho_solve(factor, gradient)
        length = math.sqrt(max(float(gradient @ step), 0.0))
        if abs(step[-1]) > 1.0:
            step = step / abs(step[-1])
        return step, length
    raise linalg.LinAlgError("the marginal posterior has no scale")


def marginal_mode(
    look: Look,
    beta: FloatArray,
    log_sigma: float,
    priors: tuple[Prior, GroupPrior],
    n_groups: int,
    *,
    tolerance: float = TOLERANCE,
) -> MarginalPoint:
    """Climb to the mode of the marginal posterior; one pass a step.

    The first pass has the effects at 0, and Newton steps for all of them; from then on nodes stand where the pass
    before says. The point returned is less than `tolerance` from the mode, with nodes that cover all effects.
    """
    none = np.zeros(n_groups + 1)
    point = at_point(look, beta, log_sigma, Nodes.normal(none, none), priors)
    best: MarginalPoint | None = None
    shrink = 1.0
    for _ in range(MAX_PASSES):
        step, length = _step(point)
        settled = not point.effects.poor[:-1].any()
        if settled and best is not None and point.terms.value < best.terms.value - 0.1 and shrink > 1e-3:
            shrink *= 0.3  # too far: back, by less
            point, (step, length) = best, _step(best)
        elif settled:
            best, shrink = point, min(1.0, 2.0 * shrink)
            if length < tolerance and point.gap < 1.0:
                return point
        theta = point.theta + shrink * step
        nodes = point.families.nodes(theta[:-1], float(theta[-1]))
        point = at_point(look, theta[:-1], float(theta[-1]), nodes, priors)
    return point if best is None else best
