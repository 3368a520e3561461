r"""Multilevel coresets: one binomial pseudo-row a group, and one for each direction of beta within groups.

Rows of several grouping factors, and with slopes that vary, are condensed by cell: see `cells.condense`. For models
eta_n = x_n beta + o_n + b_g(n), b_g ~ N(0, sigma^2) (`(1 | g)` in a formula):

1. The mode of the marginal posterior of (beta, log sigma), effects integrated out by quadrature (`models.marginal`);
   mean m_g and variance of each effect given the data.
2. Each group becomes one pseudo-row (`pseudo_rows`), successes and failures at the weighted mean row x_g of the group
   with an offset: it gives the group's effect the same mean and variance, has the rows' third derivative in it, and x_g
   makes the cross derivatives with beta right. Scores are averaged over the effect given the data, not taken at the
   joint mode, which is 1 to 2 sd off the marginal posterior of beta where groups are small.
   Where one does not tell the shape of the group's likelihood (of rows of one label), a few do.
3. Groups of few rows, and those of which no few pseudo-rows tell the shape, keep their rows.
4. What rows say within groups becomes p pseudo-rows without group (`within_groups`), with the score that makes the
   gradient of the coreset's marginal posterior that of the full data's.

Nothing is drawn. Pseudo-rows are no rows of the data: `index` is -1, the rows have offsets. Passes: 8 to 17 in all, a
scan and four for the sums among them, the others for the mode; 43 where that is far (probit, sigma = 2). Memory: a
block of rows, and (3 p + 40) numbers of 8 bytes a group.

Nearest published: pseudo-data by Limpoco, Faes and Hens (2024), arXiv 2411.04002.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bayescore.coresets.calibration.search import check_one_mode, mode_prior
from bayescore.coresets.cells.condense import CellInfo, condense
from bayescore.coresets.method import BuildInfo, BuildResult, Method
from bayescore.coresets.pseudo_rows import PseudoRows, for_effects, log_p_of, several
from bayescore.coresets.within_groups import Directions, directions_of, rows_of_groups
from bayescore.data.design import one_intercept
from bayescore.data.opened import Opened
from bayescore.data.passes.threads import one_blas_thread
from bayescore.models.gaussian import factor_of_inverse
from bayescore.models.group_priors import GroupPrior, check_group_prior
from bayescore.models.group_terms import INFORMATION, ROWS, SLOPE, THIRD
from bayescore.models.marginal import Look, MarginalPoint, Nodes, at_point, look_at, look_at_rows, marginal_mode
from bayescore.models.priors import Prior
from bayescore.types import NO_ROW, FloatArray, IntArray, Likelihood, WeightedData, stack
from bayescore.validation import DataError, warn

SMALL = 2  # rows of a group that keeps them: a pseudo-row has two weights, and saves nothing
SHAPE = 0.01  # sd, in nats over the effect given the data, by which a pseudo-row may differ from its group's rows
NEAR = 0.2  # distance from the marginal mode, in posterior sds, from which rows condensed there are warned of
FAR = 0.05  # distance of the coreset's own mode from the full data's, in posterior sds, that is warned of
_REBALANCINGS = 3  # of the score within groups
_START = -0.7  # log sigma at which the mode is sought first


@dataclass(frozen=True)
class MultilevelInfo(BuildInfo):
    """Priors; groups merged and kept; rows of each kind; the mode, and by how many sds the coreset's is off.

    `merged_groups` are one pseudo-row each, or of `mixed_groups` a few; `kept_small` and `kept_shape` have kept their
    `kept_rows` because they are few, or because no few pseudo-rows tell their shape. `pseudo_rows` counts a row of
    successes and one of failures as one, `shape_error` is the largest in nats, `bytes` the memory of sums by group.
    """

    prior: str
    group_prior: str
    groups: int
    merged_groups: int
    mixed_groups: int
    kept_small: int
    kept_shape: int
    kept_rows: int
    pseudo_rows: int
    group_sd: float
    mode_error: float
    shape_error: float
    bytes: int


@dataclass(frozen=True)
class Multilevel(Method):
    """Condenses rows into a pseudo-row for each group, and one for each direction within: for effects of groups.

    For random intercepts, `(1 | g)`. Of slopes, `(1 + x | g)`, up to as many pseudo-rows as coefficients vary; of
    several factors, `(1 | a) + (1 | b)`, for each cell, a combination of their levels that occurs.

    Parameters
    ----------
    prior : prior or dict of str to prior, default Normal(0, 4)
        Prior under which the mode is sought; only the likelihood is condensed, so that the coreset serves other priors
        of like strength too.
    group_prior : HalfStudentT or HalfNormal, default HalfStudentT(3, 2.5)
        Prior of the sd of the groups' effects, for the same purpose; cells are condensed without.

    Raises
    ------
    TypeError, ValueError
        If an option is of the wrong kind or out of its range.

    Examples
    --------
    >>> import numpy as np, pandas as pd, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"age": rng.normal(size=5000), "county": rng.integers(0, 20, 5000)})
    >>> rows["vote"] = 0.5 * rows["age"] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(rows, formula="vote ~ age + (1 | county)", random_state=1, progressbar=False)
    >>> core.method, core.groups[0].name, core.n_total
    ('multilevel', 'county', 5000)
    """

    prior: Prior | Mapping[str, Prior] | None = None
    group_prior: GroupPrior | None = None

    name: ClassVar[str] = "multilevel"
    takes_size: ClassVar[bool] = False
    knows_groups: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_one_mode(self.prior, "condensed")
        check_group_prior(self.group_prior)

    def build(
        self, opened: Opened, size: int | None, seed: int, likelihood: Likelihood
    ) -> "BuildResult[MultilevelInfo] | BuildResult[CellInfo]":
        """Condense groups, or cells of all grouping factors.

        Raises
        ------
        DataError
            If rows have no groups, one group, or more coefficients that vary than can be condensed.
        """
        n_groups = check_grouped(opened)
        priors = (mode_prior(self.prior), check_group_prior(self.group_prior))
        priors[0].parts(opened.n_features)  # shapes
        if not one_intercept(opened.design.groups):
            with one_blas_thread():
                return BuildResult(*condense(opened, priors[0], likelihood), self)
        point = full_point(opened, likelihood, priors, n_groups)
        gradient = point.terms.gradient
        away = math.sqrt(max(float(gradient @ np.linalg.solve(point.terms.precision, gradient)), 0.0))
        if not away < NEAR:
            warn(
                f"the mode of the marginal posterior was not reached, {away:.2g} sds are left: look at what certify "
                "says, or give narrower priors"
            )
        groups = _condensed(point, likelihood)
        merged = np.append(groups.merged, True)
        factor = factor_of_inverse(point.terms.precision)[:-1, :-1]
        within = directions_of(opened, point, likelihood, merged.astype(float), factor)
        kept = rows_of_groups(opened, ~merged, "rows of small groups")
        fixed = [groups.rows(point)] if kept is None else [groups.rows(point), kept]
        rows, error = _rebalanced(fixed, within, point, likelihood, priors, n_groups)
        if not error <= FAR:
            warn(
                f"the mode of the coreset's marginal posterior is {error:.2g} sds off the full data's: look at what "
                "certify says, give narrower priors, or sample full_data(...)"
            )
        if opened.design.offset is None and not rows.pseudo.any():
            rows = replace(rows, offset=None)
        info = MultilevelInfo(
            prior=repr(priors[0]),
            group_prior=repr(priors[1]),
            groups=n_groups,
            merged_groups=int(groups.merged.sum()),
            mixed_groups=len(np.unique(groups.mixed[:, 0])),
            kept_small=int(groups.small.sum()),
            kept_shape=int((~groups.merged & ~groups.small).sum()),
            kept_rows=0 if kept is None else len(kept),
            pseudo_rows=groups.n_rows + within.v.shape[1],
            group_sd=float(np.exp(point.log_sigma)),
            mode_error=error,
            shape_error=float(groups.shape[groups.merged].max(initial=0.0)),
            bytes=8 * (n_groups + 1) * (3 * opened.n_features + 40),
        )
        if info.kept_rows > 0.5 * opened.scan.n_rows:
            warn(
                f"{info.kept_rows:,} of {opened.scan.n_rows:,} rows are kept as they are: groups of few rows cannot "
                "be condensed honestly; where all columns are discrete method='aggregate' is lossless"
            )
        return BuildResult(rows, info, self)


def check_grouped(opened: Opened) -> int:
    """Return the number of groups of the first grouping factor.

    Raises
    ------
    DataError
        If there is no factor, or one of one level.
    """
    groups = opened.design.groups
    if not groups:
        raise DataError(
            "method='multilevel' needs groups: give groups='column', or a term (1 | column) in the formula; without "
            "groups method='calibrated' fits"
        )
    for own in groups:
        if len(own) < 2:
            raise DataError(f"groups={own.name!r} has one level; the sd of one effect is no fact of the data: drop it")
    return len(groups[0])


def full_point(opened: Opened, link: Likelihood, priors: tuple[Prior, GroupPrior], n_groups: int) -> MarginalPoint:
    """Return the mode of the marginal posterior of the full data, averages there over the effects given the data."""
    look = look_at(opened, link, n_groups)
    found = marginal_mode(look, np.zeros(opened.n_features), _START, priors, n_groups)
    return exact_point(found, look, priors)


def exact_point(point: MarginalPoint, look: Look, priors: tuple[Prior, GroupPrior]) -> MarginalPoint:
    """Return a point with its averages over the effects given the data, not over normal ones; one pass."""
    nodes = Nodes(point.nodes.center, point.nodes.scale, point.effects.share)
    return at_point(look, point.beta, point.log_sigma, nodes, priors)


@dataclass(frozen=True, eq=False)
class _Groups:
    """Pseudo-rows of all groups, which of them stand for their rows, and the sd of what they miss, in nats.

    `mixed` has group, linear predictor, label and weight of each pseudo-row of groups that have a few.
    """

    found: PseudoRows
    mixed: FloatArray
    merged: np.ndarray
    small: np.ndarray
    shape: FloatArray

    def rows(self, point: MarginalPoint) -> WeightedData:
        """Return the pseudo-rows as weighted rows with offsets, each successes, then failures, where there are any."""
        n_groups, which, mixed = len(self.merged), self.single, self.mixed[:, 0].astype(np.int64)
        group = np.concatenate([which, which, mixed])
        eta = np.concatenate([self.found.eta[which], self.found.eta[which], self.mixed[:, 1]])
        w = np.concatenate([self.found.successes[which], self.found.failures[which], self.mixed[:, 3]])
        y = np.concatenate([np.ones(len(which)), -np.ones(len(which)), self.mixed[:, 2]]).astype(np.int8)
        X = point.sums.middle[group]
        offset = eta - X @ point.beta - point.effects.mean[group]
        rows = WeightedData(X, y, w, np.full(len(w), NO_ROW), offset=offset, group=group[:, None])
        pairs = np.argsort(np.concatenate([which, which, n_groups + np.arange(len(mixed))]), kind="stable")
        return rows.take(pairs[w[pairs] > 0.0])

    @property
    def single(self) -> IntArray:
        """Groups of one pseudo-row."""
        merged = self.merged.copy()
        merged[self.mixed[:, 0].astype(np.int64)] = False
        return np.flatnonzero(merged)

    @property
    def n_rows(self) -> int:
        """Number of pseudo-rows, successes and failures of one counted once."""
        return len(self.single) + len(self.mixed)


def _condensed(point: MarginalPoint, link: Likelihood) -> _Groups:
    own, found, nodes = point.sums.own, point.effects, point.nodes
    rows, moves = for_effects(
        own[:, [SLOPE, INFORMATION, THIRD]], nodes.center, nodes.scale, point.log_sigma, found, link
    )
    gap = point.sums.values - log_p_of(rows, moves, link)
    gap = gap - (found.share * gap).sum(axis=1)[:, None]
    with np.errstate(invalid="ignore"):
        shape = np.sqrt((found.share * gap**2).sum(axis=1))[:-1]
    few = own[:-1, ROWS] <= SMALL
    mixed = [np.empty((0, 4))]
    for g in np.flatnonzero(~few & ~(shape < SHAPE)):
        several_rows, miss = several(point.sums.values[g], moves[g], found.share[g], link)
        if miss < SHAPE and len(several_rows) < own[g, ROWS]:
            shape[g] = miss
            mixed.append(np.column_stack([np.full(len(several_rows), g), several_rows]))
    return _Groups(rows, np.concatenate(mixed), ~few & (shape < SHAPE), few, shape)


def _rebalanced(
    fixed: list[WeightedData],
    within: Directions,
    point: MarginalPoint,
    link: Likelihood,
    priors: tuple[Prior, GroupPrior],
    n_groups: int,
) -> tuple[WeightedData, float]:
    """Return all rows, with the score within groups that makes the marginal gradient that of the full data.

    Beside them by how many posterior sds the mode is off at most, by the gradient's rest.
    """
    score, p = within.score, len(point.beta)
    covariance = np.linalg.inv(point.terms.precision)
    for left in reversed(range(_REBALANCINGS)):
        rows = stack([*fixed, within.rows(point.beta, score, link)])
        look = look_at_rows(rows, link, n_groups)
        own = at_point(look, point.beta, point.log_sigma, Nodes.normal(point.nodes.center, point.nodes.scale), priors)
        own = exact_point(own, look, priors)
        miss = point.terms.gradient - own.terms.gradient
        if left:
            score = score + miss[:p]
    step = covariance @ miss
    return rows, float(np.abs(step / np.sqrt(np.diagonal(covariance))).max())
