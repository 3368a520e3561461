r"""Multilevel coresets: pseudo-rows for the effects of each group, or cell of groups, and for beta within them.

.. math:: \eta_n = x_n \beta + o_n + \sum_f z_{fn} \cdot u_{f, g_f(n)}

The rows of a cell, a combination of all factors' levels that occurs, see the same effects, which add up to one vector
b_c in the columns z whose coefficients vary. At the normal density nearest the posterior (`cell_centre`) each cell
becomes up to as many binomial pseudo-rows as coefficients vary (`cell_rows`), or keeps its rows where they are few or
have another shape. What rows say within cells becomes pseudo-rows of no cell, one for each direction of beta
(`cell_rows.rows_within`). Nearest published: Limpoco, Faes and Hens (2024), arXiv 2411.04002.

Rows of several grouping factors, or with slopes that vary, condensed by cell: pseudo-rows for each cell's effects.

The rows of a cell, a combination of all factors' levels that occurs, see the same effects: those of all factors add
up to one vector b_c, in the columns whose coefficients vary (the intercept alone: one number). So whatever the factors
are, nested, crossed or one, the likelihood of a cell's rows depends on them by b_c alone. Pseudo-rows have its score,
curvature and third derivatives, averaged over a normal density (`CellPosterior`) of a model that knows cells only,
b_c ~ N(0, S). That density of b_c is wider than what the factors say together, and covers it.

Cells of few rows keep them, and so do those whose pseudo-rows miss the shape of their log-likelihood: the sd of the
difference over the effects given the data, by points of the density, is the error that is predicted. Where most rows
lie in cells of so few rows there is nothing to gain: all are kept, and a warning says so.

Passes: the first checks the rows, counts cells and keeps a sample of groups, whose own centre is where the search
begins. Two or more add up derivatives by cell, one or more evaluate cells' log-likelihoods at nodes. The last takes
scores, kept rows and what is left within cells at once. Five are enough as a rule. Memory: some blocks of rows,
and a cell some (p + 20) Q numbers of 8 bytes, 64 (Q + 3) more while shapes are compared.

`Start`: where rows of a stream, or of a posterior so far, have their centre, and how far later rows move it.

Earlier rows stand by pseudo-rows that were made about an earlier centre. Where coefficients, effects or the sds of
effects move far from it, in sds of the posterior then, pseudo-rows no longer tell what the rows say.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bayescore.compiled import one_blas_thread
from bayescore.coresets.calibrated import check_one_mode, mode_prior
from bayescore.coresets.cell_centre import LEAST_SD, NEAR, approach_centre, find_centre
from bayescore.coresets.cell_rows import assemble_cell_rows, last_pass, rows_within
from bayescore.coresets.cells import CellPosterior, Cells, count_cells, key_of
from bayescore.coresets.drift import mode_of
from bayescore.coresets.method import BuildInfo, BuildResult, Method, rows_from_arrays, rows_to_arrays
from bayescore.coresets.pseudo_rows import averages
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.source import block_rows
from bayescore.data.sources import ArraySource
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.files import Arrays
from bayescore.limits import MAX_ROWS_BYTES
from bayescore.models.laplace import NoModeError
from bayescore.numerics.sampling import draw_by_column, sample_by_column
from bayescore.priors import Prior
from bayescore.priors.groups import PriorOfDesign
from bayescore.types import FloatArray, IntArray, WeightedData, stack
from bayescore.validation import DataError, LittleGainWarning, warn

SEED = 0  # of the sample that the search begins with: a centre is a fact of the data


_REACH = 4.0  # sds about a condensing; the narrowest set the limits that are kept


_BEYOND = 0.001  # probability that the furthest move is beyond its limit


class Move(NamedTuple):
    """A move in sds, its limit, and its place among the coefficients and the log sds of effects, None for an effect."""

    sds: float
    limit: float
    place: int | None


@dataclass(frozen=True, eq=False)
class Start:
    """The centre of the rows so far, where the search for that of more rows begins, and where it was before.

    The centre has the coefficients `beta`, shape (p,), the covariance of effects S, `prior`, and the means of effects,
    shape (C, Q), of cells with codes, shape (C, F). Pseudo-rows are not nearly normal far from where they were made:
    `common`, shape (2, 2, p + Q), of beta and the log sds of effects, and `effects`, shape (2, 2, C, Q), hold mean and
    sd of the two condensings that set the lower and the upper limit of later means. The sd is infinite where there
    was none, and for effects of cells that kept their rows.
    """

    beta: FloatArray
    prior: FloatArray
    codes: IntArray
    mean: FloatArray
    common: FloatArray
    effects: FloatArray

    @classmethod
    def of(cls, at: CellPosterior, cells: Cells, merged: NDArray[np.bool_], before: "Start | None" = None) -> "Start":
        """Return the start at a density, about which the cells `merged`, shape (C,), and those `before` are condensed.

        The log sd of effects has the information of a cell 2 r^2, r the share of the prior's variance that its rows
        take away.
        """
        V, S = np.diagonal(at.variance[:-1], axis1=1, axis2=2), np.diagonal(at.prior)
        informed = 2.0 * (np.clip(1.0 - V / S, 0.0, 1.0) ** 2).sum(axis=0)
        start = cls.near(at.beta, cells.codes, at.mean[:-1], at.prior)
        common, effects = start.common, start.effects
        if before is not None:
            common = before.common
            places, present = before.places(cells)
            effects[:, :, places] = before.effects[:, :, present]
        sd = np.append(at.sds, 1.0 / np.sqrt(np.maximum(informed, np.finfo(float).tiny)))
        spread = np.where(merged[:, None], np.sqrt(V + (at.pull[:-1] ** 2).sum(axis=2)), np.inf)
        return replace(
            start,
            common=_tighten_limits(common, start.shared, sd),
            effects=_tighten_limits(effects, start.mean, spread),
        )

    @classmethod
    def near(cls, beta: FloatArray, codes: IntArray, mean: FloatArray, prior: FloatArray | None = None) -> "Start":
        """Return the start at means of coefficients and effects, as those of draws."""
        if prior is None:
            prior = (mean.T @ mean + LEAST_SD**2 * np.eye(mean.shape[1])) / len(mean)
        return cls(beta, prior, codes, mean, _no_limits(len(beta) + len(prior)), _no_limits(*mean.shape))

    def check(self, n_columns: int, n_factors: int) -> None:
        """Raise `ValueError` if the arrays do not fit each other, the columns or the factors."""
        C, Q = len(self.codes), len(self.prior)
        shapes = (n_columns,), (Q, Q), (C, n_factors), (C, Q), (2, 2, n_columns + Q), (2, 2, C, Q)
        if tuple(array.shape for array in vars(self).values()) != shapes:
            raise ValueError

    @property
    def shared(self) -> FloatArray:
        """The coefficients and the log sds of effects, shape (p + Q,)."""
        return np.append(self.beta, 0.5 * np.log(np.diagonal(self.prior)))

    def moved(self, later: "Start", cells: Cells) -> Move:
        """Return the move since some condensing, of what all cells share or of an effect, furthest for its limit."""
        places, present = self.places(cells)
        effects = self.effects[:, :, present]
        finite = np.isfinite(effects[0, 1])
        common, moved_effects = (
            _sds_beyond_limits(self.common, later.shared),
            _sds_beyond_limits(effects, later.mean[places])[finite],
        )
        moves = [Move(float(common.max()), _normal_limit(len(common)), int(common.argmax()))]
        if len(moved_effects):
            moves.append(Move(float(moved_effects.max()), _normal_limit(len(moved_effects)), None))
        return max(moves, key=lambda one: one.sds / one.limit)

    def places(self, cells: Cells) -> tuple[IntArray, NDArray[np.bool_]]:
        """Return places in `cells` of cells that are there, and which these are, shape (C,)."""
        keys = key_of(self.codes, cells.sizes)
        places = np.minimum(np.searchsorted(cells.keys, keys), len(cells) - 1)
        present = cells.keys[places] == keys
        return places[present], present

    def density(self, cells: Cells, columns: IntArray) -> CellPosterior:
        """Return the density to begin at; effects of cells that were not there are 0."""
        at = CellPosterior.start(self.beta, self.prior, len(cells), columns)
        places, present = self.places(cells)
        at.mean[places] = self.mean[present]
        return at


def mode_without_effects(dataset: Dataset, family: Family, prior: Prior) -> FloatArray:
    """Return the mode of the coefficients of a sample of rows without effects, shape (p,); 0 if there is none."""
    try:
        return mode_of(sample_by_column(dataset, SEED).expanded(), family, prior).beta
    except NoModeError:
        return np.zeros(dataset.n_features)


def _no_limits(*shape: int) -> FloatArray:
    """Return means and sds that limit nothing, shape (2, 2, ...)."""
    limits = np.zeros((2, 2, *shape))
    limits[:, 1] = np.inf
    return limits


def _tighten_limits(limits: FloatArray, mean: FloatArray, sd: FloatArray) -> FloatArray:
    """Return the means and sds, shape (2, 2, ...), of the tightest lower and upper limit, with another mean and sd."""
    (low, high), now = limits, np.stack([mean, sd])
    return np.stack(
        [
            np.where(mean - _REACH * sd > low[0] - _REACH * low[1], now, low),
            np.where(mean + _REACH * sd < high[0] + _REACH * high[1], now, high),
        ]
    )


def _sds_beyond_limits(limits: FloatArray, mean: FloatArray) -> FloatArray:
    """Return by how many sds means are beyond those that set the limits."""
    low, high = limits
    return np.asarray(np.maximum((low[0] - mean) / low[1], (mean - high[0]) / high[1]))


def _normal_limit(size: int) -> float:
    """Return the limit in sds that the furthest of so many normal variables passes with a probability of `_BEYOND`."""
    return float(-ndtri(0.5 * _BEYOND / size))


SHAPE = 0.005  # sd, in nats over the effects given the data, by which pseudo-rows may differ from their cell's rows,


TOGETHER = 0.3  # or this over the root of the number of cells if that is less: errors of cells may have one sign


GAIN = 0.9  # share of rows in cells of so few that they keep them, from which nothing is condensed


HALF = 0.5  # share of rows that condensing leaves at least, from which it is not worth its error


FEW_ROWS = 100_000  # most rows for which that holds: sampling more takes longer than it saves


FAR = 0.05  # distance of the coefficients' means from the full data's, in posterior sds, that is warned of


MOST_EFFECTS = 3


_FIRST_SD = 0.5  # of effects, on a row of root mean square


_FIRST_STEPS = 12  # of intercepts to their first places


_DOUBT = 0.3  # sd of these, on a row of root mean square: a cell's rows are not as those of the sample


_WIDEST = 1.0  # the same, of the density at which all effects begin: log-likelihoods are no polynomials over wider ones


@dataclass(frozen=True)
class MultilevelInfo(BuildInfo):
    """The prior; factors and cells, merged and kept; rows of each kind; by how many sds the mean of beta is off.

    `merged_cells` are pseudo-rows, one for each effect; `kept_small` and `kept_shape` have kept their `kept_rows`
    because they are few, or because pseudo-rows do not tell their shape. `pseudo_rows` counts a row of successes and
    one of failures as one; `effect_sds` are those of cells' effects, about; `shape_error` is the largest in nats,
    `bytes` the memory of sums by cell. In a stream `mode_error`, `cells`, what is kept and `pseudo_rows` are those of
    the last condensing. `moved` is how far, in sds of the posterior then, a coefficient, an effect or the log sd of
    effects has moved since earlier rows were condensed: the one that is furthest for its limit, `moved_limit`.
    """

    prior: str
    levels: list[int]
    cells: int
    merged_cells: int
    kept_small: int
    kept_shape: int
    kept_rows: int
    pseudo_rows: int
    effect_sds: list[float] | None
    mode_error: float
    shape_error: float
    bytes: int
    moved: float | None = None
    moved_limit: float | None = None


class CondensedCells(NamedTuple):
    """Rows, what is known about them, their cells, and their centre, None where all rows are kept.

    `doubts` say that the centre is off; `notes` that little is gained.
    """

    rows: WeightedData
    info: MultilevelInfo
    cells: Cells
    centre: Start | None
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def warn_of(self, *, gain: bool = True) -> None:
        """Warn of doubts, and with `gain` that little is gained."""
        for text in self.doubts:
            warn(text)
        for text in self.notes if gain else ():
            warn(text, LittleGainWarning)


def varying_columns(design: Design) -> IntArray:
    """Return the columns whose coefficients vary by group, the intercept's first; -1 for one without a column."""
    asked = {effect: None for own in design.groups for effect in own.effects}
    if list(asked) == ["1"] and design.constant is None:
        return np.array([-1])
    if "1" in asked and design.constant is None:
        raise DataError(
            "intercept and slopes vary by group, (1 + x | g), the intercept about a mean that is no column: give "
            "intercept=True, or leave + 0 out of the formula"
        )
    places = {place for own in design.groups for effect in own.effects for place in design.columns_of(own, effect)}
    if len(places) > MOST_EFFECTS:
        raise DataError(
            f"{len(places)} coefficients vary by group ({', '.join(asked)}); method='multilevel' condenses groups in "
            f"at most {MOST_EFFECTS}: let fewer vary, or sample all_rows(...)"
        )
    return np.array(sorted(places), dtype=np.int64)


def condense(dataset: Dataset, prior: Prior, family: Family, start: Start | None = None) -> CondensedCells:
    """Return the condensed rows, and their centre; all rows, and a note, where there is nothing to gain.

    `start` is the centre of a part of the rows.
    """
    columns = varying_columns(dataset.design)
    # before the scan, which draws a sample
    beta = mode_without_effects(dataset, family, prior) if start is None else start.beta
    cells = Cells.of(dataset)
    few = cells.counts <= 2 * len(columns)  # pseudo-rows would be as many rows
    n_rows, sizes = dataset.scan.n_rows, [len(group) for group in dataset.design.groups]
    left = int(np.minimum(cells.counts, 2 * len(columns)).sum())
    if cells.counts[few].sum() > GAIN * n_rows or (left > HALF * n_rows and n_rows <= FEW_ROWS):
        note = (
            f"groups, or cells of groups, have so few rows that condensing them would leave at least {left:,} of "
            f"{n_rows:,} rows: all rows are kept as they are; where all columns are discrete method='aggregate' merges "
            "those that repeat"
        )
        if (n_bytes := 8 * n_rows * dataset.n_features) > MAX_ROWS_BYTES:
            raise DataError(
                f"{note}, and they take {n_bytes / 1e9:.1f} GB of memory: give fewer rows, or sample all_rows(...)"
            )
        n_few, rows = int(few.sum()), dataset.load()
        info = MultilevelInfo(
            repr(prior), sizes, len(cells), 0, n_few, len(cells) - n_few, n_rows, 0, None, 0.0, 0.0, 0
        )
        return CondensedCells(rows, info, cells, None, notes=(note,))
    seen = cells.coded_by_cell(dataset)
    unit = _unit_effects(dataset, columns)
    if start is None:
        point, zero = (
            CellPosterior.start(place, np.diag((_FIRST_SD * unit) ** 2), len(cells), columns)
            for place in (beta, np.zeros_like(beta))
        )
        # a sample of groups may say too little of rare labels, and one of rows have counts of a level without exposure
        begin = list(dict.fromkeys([_starting_density(dataset, cells, point, family, (prior, unit)), point, zero]))
    else:
        begin = [start.density(cells, columns)]
    limit = min(SHAPE, TOGETHER / math.sqrt(len(few)))
    find = partial(find_centre, seen, family=family, priors=(prior, unit), finish=partial(last_pass, seen, few, limit))
    for place in begin:
        try:
            about, draft = find(place)
            break
        except (ArithmeticError, np.linalg.LinAlgError):
            if place is begin[-1]:
                raise
    doubts, notes = [], []
    if not about.last < NEAR:
        doubts.append(
            f"the posterior's centre was not reached, the last step was {about.last:.2g} sds: compare with "
            "all_rows(...) on fewer rows, or give a narrower prior="
        )
    inside, higher = assemble_cell_rows(about, draft, few, limit)
    within, error = rows_within(seen, about, draft, (inside, higher))
    rows = stack([inside.pseudo, within, inside.kept])
    info = MultilevelInfo(
        prior=repr(prior),
        levels=sizes,
        cells=len(cells),
        merged_cells=int(inside.merged[:-1].sum()),
        kept_small=int(few.sum()),
        kept_shape=int((~inside.merged[:-1] & ~few).sum()),
        kept_rows=len(inside.kept),
        pseudo_rows=sum(_n_distinct_rows(part) for part in (inside.pseudo, within)),
        effect_sds=np.sqrt(np.diagonal(about.points.at.prior)).tolist(),
        mode_error=error,
        shape_error=float(inside.missed[inside.merged[:-1]].max(initial=0.0)),
        bytes=8 * len(inside.merged) * len(columns) * (3 * dataset.n_features + 20),
    )
    if not info.mode_error <= FAR:
        doubts.append(
            f"the mean of the coreset's coefficients is {info.mode_error:.2g} sds off the full data's: give narrower "
            "priors, or sample all_rows(...)"
        )
    if info.kept_rows > 0.5 * n_rows:
        notes.append(
            f"{info.kept_rows:,} of {n_rows:,} rows are kept as they are: groups, or cells of groups, of few rows "
            "cannot be condensed honestly; where all columns are discrete method='aggregate' is lossless"
        )
    rows = replace(rows, group=cells.groups_of(rows.group_codes[:, 0]))
    centre = Start.of(about.points.at, cells, inside.merged[:-1], start)
    return CondensedCells(rows, info, cells, centre, tuple(doubts), tuple(notes))


def _starting_density(
    dataset: Dataset, cells: Cells, point: CellPosterior, family: Family, priors: tuple[Prior, FloatArray]
) -> CellPosterior:
    """Return the density to begin at: about that of a sample of groups, or `point` where that has no centre."""
    assert dataset.cells is not None
    sample = dataset.cells.sample
    if sample is None:
        return point
    rows = cells.sample_by_cell(sample)
    start = CellPosterior.start(point.beta, point.prior, len(rows.design.groups[0]), point.columns)
    near, settled = approach_centre(rows, start, family, priors, nearly=False)
    if not settled:  # the sds of effects that it reached may be far off
        return point
    mean, variance = _starting_effects(near, rows.load(), dataset.cells.label_weights, family, priors[1])
    return near.with_effects(mean, variance)


def _starting_effects(
    near: CellPosterior, sample: WeightedData, label_weights: FloatArray, family: Family, unit: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return means and variances of cells' effects, shapes (C, Q) and (C, Q, Q), to begin at.

    Intercepts are where `label_weights` of a cell's failures and successes, shape (C, 2), and the prior put them if the
    other part of its rows' predictors is as in the sample.
    """
    C, Q = len(label_weights), len(unit)
    narrower = np.minimum(1.0, _WIDEST * unit / np.sqrt(np.diagonal(near.prior)))
    mean, scale = np.zeros((C, Q)), np.tile(narrower, (C, 1))
    ones = near.columns < 0 if near.free else (sample.X[:, near.columns] == 1.0).all(axis=0)
    if ones.any():
        place = int(ones.argmax())
        prior, eta = float(near.prior[place, place]), sample.with_offset(sample.X @ near.beta)
        spread, b = np.full(C, eta.std()), np.zeros(C)
        for _ in range(_FIRST_STEPS):
            parts = [averages(eta.mean() + b, spread, np.full(C, side, dtype=np.int8), family) for side in (-1, 1)]
            score, curvature, *_ = label_weights[:, 0] * parts[0] + label_weights[:, 1] * parts[1]
            precision = np.maximum(curvature, 0.0) + 1.0 / prior
            b += np.clip((score - b / prior) / precision, -1.0, 1.0)
        variance = np.minimum(1.0 / precision + (_DOUBT * unit[place]) ** 2, prior)
        mean[:, place], scale[:, place] = b, np.sqrt(variance / prior)
    return mean, near.prior * scale[:, :, None] * scale[:, None, :]


def _unit_effects(dataset: Dataset, columns: IntArray) -> FloatArray:
    """Return the effects in `columns` that move a row of root mean square by 1.

    Pseudo-rows of a stream are in units of their own: a column's size is that beside the column of ones.
    """
    scan, constant = dataset.scan, dataset.design.constant
    ones = scan.weight_total if constant is None else scan.squares[constant]
    size = np.sqrt(scan.squares / max(float(ones), np.finfo(float).tiny))
    return np.asarray(1.0 / np.where(columns < 0, 1.0, np.maximum(size[columns], np.finfo(float).tiny)))


def _n_distinct_rows(rows: WeightedData) -> int:
    """Count the rows, with neighbours of the same predictor as one: its successes and failures."""
    predictor = np.column_stack([rows.X, np.zeros(len(rows)) if rows.offset is None else rows.offset])
    return int(np.count_nonzero(np.diff(predictor, axis=0, prepend=np.nan).any(axis=1)))


_BLOCKS = 4  # condensed together, of 8 MB: earlier rows have errors of second order in how far the centre moves later


@dataclass(frozen=True)
class Multilevel(Method):
    """Condenses rows into pseudo-rows for the effects of groups, and for the coefficients within groups.

    For random intercepts, `(1 | g)`, one a group. For slopes, `(1 + x | g)`, up to as many as coefficients vary. For
    several factors, `(1 | a) + (1 | b)`, those of each cell, a combination of their levels that occurs. Nothing is
    random: every `random_state` gives the same rows.

    Parameters
    ----------
    prior : prior or dict of str to prior, default that of `fit`
        Prior under which the mode is sought; only the likelihood is condensed, so that the coreset serves other priors
        of like strength too, and any prior of the effects' sds.

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

    prior: Prior | Mapping[str, Prior] | PriorOfDesign | None = None

    name: ClassVar[str] = "multilevel"
    takes_size: ClassVar[bool] = False
    knows_groups: ClassVar[bool] = True
    keeps_curvature: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_one_mode(self.prior, "condensed")

    def first_look(self, dataset: Dataset, seed: int) -> None:
        """Count cells, and draw the sample with which the search for the centre begins, too."""
        self._check_has_groups(dataset.design)
        with count_cells(dataset):
            draw_by_column(dataset, SEED)

    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> BuildResult[MultilevelInfo]:
        """Condense the rows by group, or by cell of all grouping factors."""
        self._check_groups(dataset.design)
        check_levels(dataset.design)
        prior = mode_prior(self.prior)
        prior.parts(dataset.n_features)  # shapes
        with one_blas_thread():
            condensed = condense(dataset, prior, family, getattr(dataset.rows, "start", None))
        condensed.warn_of()
        return BuildResult(condensed.rows, condensed.info, self)

    @staticmethod
    def _check_has_groups(design: Design) -> None:
        if not design.groups:
            raise DataError(
                "method='multilevel' needs groups: give groups='column', or a term (1 | column) in the formula; "
                "without groups method='calibrated' fits, or 'merge_reduce' to a stream"
            )

    def _check_groups(self, design: Design) -> None:
        self._check_has_groups(design)
        varying_columns(design)  # raises where effects cannot be condensed

    def stream_block(self, size: int, n_features: int) -> int:
        """Return the rows that are condensed together."""
        return _BLOCKS * block_rows(n_features)

    def begin(self, size: int, design: Design, seed: int, family: str) -> "MultilevelState":
        """Return the state before the first row; raise `DataError` without groups."""
        self._check_groups(design)
        return MultilevelState(self.named(design), design, family)


def check_levels(design: Design) -> None:
    """Raise if a grouping factor has one level."""
    if few := [group.name for group in design.groups if len(group) < 2]:
        raise DataError(f"groups={few[0]!r} has one level; the sd of one effect is no fact of the data: drop it")


@dataclass(frozen=True, eq=False)
class MultilevelState:
    """The rows of a stream: those of earlier blocks condensed, and the last block, so that an answer has new rows."""

    method: Multilevel
    design: Design
    family: str
    condensed: WeightedData | None = None
    last: WeightedData | None = None
    start: Start | None = None  # where those that are condensed have their centre

    def absorbed(self, block: WeightedData) -> Self:
        """Return the state with a block more; where rows so far cannot be condensed well they wait for others."""
        if self.last is None:
            return replace(self, last=block)
        rows, start = self._rows(None), self.start
        try:
            condensed = self._condense(rows)
        except (ArithmeticError, np.linalg.LinAlgError):
            pass
        else:
            if condensed.centre is not None and not condensed.doubts:
                rows, start = condensed.rows, condensed.centre
        return replace(self, condensed=rows, last=block, start=start)

    def answer(self, rest: WeightedData | None) -> BuildResult[MultilevelInfo]:
        """Return the rows of all blocks and the rest condensed."""
        rows = self._rows(rest)
        check_levels(self._dataset(rows).design)
        condensed = self._condense(rows)
        condensed.warn_of(gain=not rows.pseudo.any())  # pseudo-rows are few
        if self.start is None or condensed.centre is None:
            return BuildResult(condensed.rows, condensed.info, self.method)
        move = self.start.moved(condensed.centre, condensed.cells)
        info = replace(condensed.info, moved=move.sds, moved_limit=move.limit)
        return BuildResult(condensed.rows, info, self.method, self._caution(move) if move.sds > move.limit else None)

    def _caution(self, move: Move) -> str:
        if move.place is None:
            what = "an effect of a group"
        elif move.place < len(self.design.names):
            what = f"the mean of {self.design.names[move.place]!r}"
        else:
            what = "the log sd of effects of groups"
        return (
            f"{what} has moved by {move.sds:.2g} sds (limit {move.limit:.2g}) of the posterior about which earlier "
            "rows were condensed (are the rows sorted?), and means and effects may be off by sds: shuffle the rows, "
            "begin with rows of all kinds, or give build_coreset all rows"
        )

    def _condense(self, rows: WeightedData) -> CondensedCells:
        return condense(self._dataset(rows), mode_prior(self.method.prior), check_family(self.family), self.start)

    def _rows(self, rest: WeightedData | None) -> WeightedData:
        return stack([part for part in (self.condensed, self.last, rest) if part is not None])

    def _dataset(self, rows: WeightedData) -> Dataset:
        sizes = rows.group_codes.max(axis=0, initial=0) + 1
        groups = [
            replace(group, levels=tuple(range(size)))
            for group, size in zip(self.design.groups, sizes.tolist(), strict=True)
        ]
        design, arrays = replace(self.design, groups=tuple(groups)), (rows.index, rows.offset)
        return Dataset(ArraySource(rows.X, rows.y, rows.weights, (-1, 1), "y", design, *arrays, group=rows.group_codes))

    def to_arrays(self) -> Arrays:
        """Return the rows as arrays."""
        arrays: Arrays = {}
        for part, rows in (("condensed", self.condensed), ("last", self.last)):
            arrays |= {} if rows is None else rows_to_arrays(part, rows)
        return arrays | ({} if self.start is None else {f"start_{name}": one for name, one in vars(self.start).items()})

    def from_arrays(self, arrays: Arrays) -> Self:
        """Return the state of `to_arrays`."""
        parts = {part: rows_from_arrays(part, arrays) for part in ("condensed", "last") if f"{part}_X" in arrays}
        begin = {name.removeprefix("start_"): array for name, array in arrays.items() if name.startswith("start_")}
        start = Start(**begin) if begin else None
        if start is not None:
            start.check(len(self.design.names), len(self.design.groups))
        return replace(self, condensed=parts.get("condensed"), last=parts.get("last"), start=start)
