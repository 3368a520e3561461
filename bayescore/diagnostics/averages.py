r"""Average predicted probabilities by the levels of a factor, from the draws, over rows in memory or of any source.

.. math:: \bar p_k = \frac{\sum_{n \in k} w_n \, p(x_n \cdot \beta)}{\sum_{n \in k} w_n}

k is a level: the rows that have it (``by=``), or all rows as if they had it, the rest as it is (``variables=``), which
tells the factor's own part apart from what goes with it. Each draw of the posterior gives one figure, so that intervals
are the posterior's; the rows are taken as they are. Of more than `EVERY_ROW` rows a sample stands for what is beyond
second order (`sampled`); where it does not tell enough, each row is evaluated at each draw after all.

A coreset stands for all rows in the likelihood, not in averages of probabilities, so that its rows are refused here.

Reference: Arel-Bundock, Greifer and Heiss (2024), How to interpret statistical models using marginaleffects, Journal of
Statistical Software 111, whose `avg_predictions` has the same two arguments.

Sums of predicted probabilities over rows, at many draws: of the rows of each value of a column, or of changed rows.

Near the mean t of the draws most probabilities are almost quadratic. With value, gradient and second derivatives of

.. math:: P_k(\theta) = \sum_{n \in k} w_n \sum_v c_v\, p(\eta_n^v(\theta))

at t by one pass, v the ways in which a row is changed and c_v their factors, what is left of P_k at a draw is summed
over a sample of the cell's rows, each over its inclusion probability, as `row_sums` does for log-likelihoods. A row is
drawn by its reach w (|p'''| + `_MIN_THIRD_DERIVATIVE`) r^3 / 6, r the sd of its predictor over the draws, so that rows
which move far are in the sample for certain. The sample tells its standard error. Where groups have effects, the pass
takes the first derivatives alone, as the second are a matrix of all effects, and rows are drawn by |p''| r^2 / 2. So
they are where the second derivatives of all cells would take more than `_MOST_BYTES`, which bounds the rows of all
samples, too.

When to use it: for averages over many rows; over few, each row is evaluated at each draw.

Reference: Quiroz, Kohn, Villani and Tran (2019), Speeding up MCMC by efficient data subsampling, JASA 114.

What averages are of: rows as they are or with a raw column changed, all of them or by the values of another column.

.. math:: P_k = \sum_{n \in k} w_n \sum_v c_v\, p(\eta_n^v)

k is a cell, v a change of row n, c_v its factor: a contrast of two levels has the factors 1 and -1. A slope is that of
p along the row's derivative in the design, x_n' = dx_n / dr by the raw column r,

.. math:: \frac{d p(\eta_n)}{dr} = \frac{p(x_n + t_n x_n') - p(x_n - t_n x_n')}{2 t_n} + O(t_n^2),

where t_n moves eta by about 1e-5 at any draw; a step in r itself would leave the domains of terms.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bayescore.data.coreset import Coreset, check_same_design
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design, Grouping
from bayescore.data.factors import columns_of
from bayescore.data.formula_design import formula_of
from bayescore.data.groups import coded_columns
from bayescore.data.open import open_in
from bayescore.data.passes import weigh_one_side
from bayescore.data.responses import LABELS, TWO_SIDED, response_of, without_response
from bayescore.data.sources import column_names, has_named_columns, rows_source
from bayescore.data.tables import feature_matrix, is_dask, is_table
from bayescore.diagnostics.row_sums import DrawnApproximation, check_finite, effects_at, laplace_of_draws
from bayescore.families import Family
from bayescore.models.laplace import LaplaceApproximation
from bayescore.models.posterior import Derivatives
from bayescore.models.predictor import Predictor
from bayescore.models.row_kernels import derivatives_of
from bayescore.numerics.sampling import CandidatePool, Candidates, Threshold, candidates, select
from bayescore.samplers.posterior import Posterior
from bayescore.samplers.predict import finite_design, groups_of, offset_of, positive_rows, raw_column, sums_of_piece
from bayescore.text import listed
from bayescore.types import NO_GROUP, FloatArray, IntArray, WeightedData
from bayescore.validation import DataError


@dataclass(frozen=True)
class Change:
    """A row with its raw column at `value`, or moved by `shift`, counts `factor` times in a sum."""

    factor: float = 1.0
    value: float | None = None
    shift: float = 0.0


@dataclass(frozen=True, eq=False)
class SlopeDirection:
    """What a slope needs to know: the raw column's range or sd, and the size of each column's coefficient, shape (D,).

    The size is the root mean square over draws, of effects of groups too.
    """

    spread: float
    coefficients: FloatArray

    def rows(self, X: FloatArray, derivative: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Return the factors of moved rows, shape (n,), and these, shape (n, D)."""
        moves = np.abs(derivative) @ self.coefficients
        t = _ETA_STEP / np.where(moves > 0.0, moves, _ETA_STEP)
        half = 0.5 / t
        return [(sign * half, X + sign * t[:, None] * derivative) for sign in (1.0, -1.0)]


@dataclass(frozen=True, eq=False)
class ContrastCells:
    """What is summed: contrasts of the raw column `variable`, each over the rows of each value of the columns `by`.

    A contrast adds up changes of a row. Blocks are raw rows, or with `designed` rows of the design matrix, whose
    columns tell the raw ones. Codes of the factors `added` follow those of the design's groups.
    """

    design: Design
    designed: bool
    by: tuple[str, ...] = ()
    values: tuple[tuple[float, ...], ...] = ()  # of each of `by`; of text and of groups the codes
    combinations: IntArray | None = None  # of values that rows have, in order; None for all
    added: tuple[Grouping, ...] = ()
    variable: str | None = None
    contrasts: tuple[tuple[Change, ...], ...] = ((Change(),),)
    along: SlopeDirection | None = None  # of the one contrast that is a slope
    response: str = LABELS  # what the rows' responses are

    def __len__(self) -> int:
        return len(self.contrasts) * self.n_parts

    @property
    def n_parts(self) -> int:
        """Number of parts of the rows."""
        return math.prod(map(len, self.values)) if self.combinations is None else len(self.combinations)

    def without_responses(self, block: WeightedData) -> WeightedData:
        """Return a block without its responses: averages of counts are of rates, weighted by exposure."""
        block = without_response(block, self.response)
        return weigh_one_side(block) if self.response in TWO_SIDED else block

    def column(self, block: WeightedData, name: str) -> FloatArray:
        """Return a raw column, or the codes of groups, shape (n,)."""
        if name not in self.design.raw_names:
            return np.asarray(block.group_codes[:, [by.name for by in (*self.design.groups, *self.added)].index(name)])
        if not self.designed:
            return np.asarray(block.X[:, self.design.raw_names.index(name)])
        values = raw_column(self.design, block.X, name)
        assert values is not None
        return values

    def parts(self, block: WeightedData) -> IntArray:
        """Return the place of each row's values of `by`, shape (n,)."""
        places = np.zeros(len(block), dtype=np.int64)
        for name, levels in zip(self.by, self.values, strict=True):
            column = self.column(block, name)
            if name not in self.design.raw_names and (column == NO_GROUP).any():
                raise DataError(
                    f"by={name!r}: row {block.index[(column == NO_GROUP).argmax()]} of data is of a group that the "
                    "posterior does not know; leave such rows out"
                )
            values = np.asarray(levels)
            places = places * len(values) + np.searchsorted(0.5 * (values[1:] + values[:-1]), column)
        return places if self.combinations is None else np.searchsorted(self.combinations, places)

    def rounding(self, name: str) -> float:
        """Return the size of the numbers that a raw column was computed of, in whose last digits it is not exact."""
        lead = int(self.design.intercept)
        if not self.designed or self.design.center is None or name not in self.design.names[lead:]:
            return 0.0
        return abs(float(self.design.center[self.design.names.index(name, lead) - lead]))

    def terms(self, block: WeightedData, contrast: int) -> list[tuple[FloatArray, WeightedData]]:
        """Return the factors of a contrast's rows, shape (n,), and changed rows in the design, in the block's order."""
        changes, ones, block = self.contrasts[contrast], np.ones(len(block)), self.with_model_groups(block)
        if self.variable is None:
            X = block.X if self.designed else self._designed(block, block.X, "data")
            return [(change.factor * ones, replace(block, X=X)) for change in changes]
        raw, place = self._raw(block), self.design.raw_names.index(self.variable)
        if self.along is not None:
            X = self._designed(block, raw, "data")
            moved = self.along.rows(X, self._derivative(block, raw, self.along.spread))
            return [(factor, replace(block, X=rows)) for factor, rows in moved]
        starting, terms = self._starting_values(raw, place), []
        for change in changes:
            raw[:, place] = starting + change.shift if change.value is None else change.value
            by = f"moved by {change.shift:g}" if change.value is None else f"set to {change.value:g}"
            where = f"data with {self.variable!r} {by}"
            terms.append((change.factor * ones, replace(block, X=self._designed(block, raw, where))))
        return terms

    def with_model_groups(self, block: WeightedData) -> WeightedData:
        """Return rows with the codes of the model's groups alone."""
        n = len(self.design.groups)
        if not self.added or block.group is None:
            return block
        return replace(block, group=block.group[:, :n] if n else None)

    def _starting_values(self, raw: FloatArray, place: int) -> FloatArray:
        """Return the entries that a column is moved from, shape (n,): a step back where the step leaves a domain."""
        column = raw[:, place].copy()
        step = max(change.shift for changes in self.contrasts for change in changes)
        if step == 0.0 or formula_of(self.design) is None:
            return column
        ahead, back = np.array(raw), np.array(raw)
        ahead[:, place], back[:, place] = column + step, column - step
        beyond = np.flatnonzero(~np.isfinite(self.design.transform(ahead)).all(axis=1))
        if len(beyond):
            inside = np.isfinite(self.design.transform(back[beyond])).all(axis=1)
            column[beyond[inside]] -= step
        return column

    def _derivative(self, block: WeightedData, raw: FloatArray, spread: float) -> FloatArray:
        """Return the derivative of rows in the design by the raw column, shape (n, D)."""
        name = str(self.variable)
        slope = self.design.derivative(raw, name, spread)
        if (none := np.flatnonzero(np.isnan(slope).any(axis=1))).size:
            row = int(none[0])
            raise DataError(
                f"variable={name!r}: {self.design.names[np.isnan(slope[row]).argmax()]!r} has no derivative by it in "
                f"row {block.index[row]}, where it is {raw[row, self.design.raw_names.index(name)]:g}, nor in "
                f"{len(none) - 1:,} others of the {len(block):,} rows looked at, as it jumps there or its slope is "
                "infinite; leave such rows out of data=, or see comparisons, which takes steps"
            )
        return slope

    def _designed(self, block: WeightedData, raw: FloatArray, where: str) -> FloatArray:
        return finite_design(self.design, raw, block.index, where)

    def _raw(self, block: WeightedData) -> FloatArray:
        if not self.designed:
            return np.array(block.X)
        columns = (raw_column(self.design, block.X, name) for name in self.design.raw_names)
        return np.column_stack([np.zeros(len(block)) if column is None else column for column in columns])


def values_of(dataset: Dataset, cells: ContrastCells, name: str, most: int) -> tuple[float, ...] | None:
    """Return the distinct values of a raw column, by a pass; None as soon as there are more than `most`.

    Values are one if they differ by rounding alone, whatever the scale of the column.
    """
    size = cells.rounding(name)

    def one(_: int, block: WeightedData) -> FloatArray:
        return _distinct(cells.column(block, name), size)[: most + 1]

    values: FloatArray = np.zeros(0)
    for of_block in dataset.map(one, "learning levels"):
        values = _distinct(np.concatenate([values, of_block]), size)
        if len(values) > most:
            return None
    return tuple(map(float, values))


_ULPS = 64.0 * float(np.finfo(np.float64).eps)  # relative difference of numbers that are equal but for rounding


def _distinct(values: FloatArray, size: float) -> FloatArray:
    """Return the values that differ by more than rounding, in order: of themselves, and of numbers of some size.

    Whole numbers that are given as they are differ, however large, as identifiers do.
    """
    values = np.unique(values)
    whole = np.rint(values)
    values = np.unique(np.where(np.abs(values - whole) <= _ULPS * (np.abs(values) + size), whole, values))
    allowed = _ULPS * (np.abs(values[1:]) + size)
    if size == 0.0:
        allowed[(values[1:] == np.rint(values[1:])) & (values[:-1] == np.rint(values[:-1]))] = 0.0
    return values[np.append(True, np.diff(values) > allowed)] if len(values) else values


_ETA_STEP = 1e-5  # over which the slope of p is a difference: off by 1e-11, by its third derivative and by rounding


EVERY_ROW = 50_000  # rows up to which each is evaluated at each draw: a sample would save little


SAMPLE_ROWS = 2000  # of each cell; ten times as many where these do not tell enough


MAX_EVALUATED = 2e10  # probabilities of all rows at all draws: minutes; beyond that the sample's error is handed over


_ERROR_SHARE = 0.1  # of the posterior sd of a figure that the sample's error may be


_NEGLIGIBLE = 1e-6  # share of a figure that it may be off by in any case


_MIN_THIRD_DERIVATIVE = 0.01  # third derivative that rows far out are taken to have, a tenth of the logistic one at 0


_MOST_BYTES = 2**28  # of second derivatives of all cells, and of all rows drawn


_MIN_ROWS = 50  # rows of a cell's sample in any case


_SEED = 2021  # of the sample: the same data give the same rows


_WITHIN_SDS = 4.0  # sds of its predictor within which a row's largest third derivative counts


_TILE_ENTRIES = 1 << 17  # entries of a tile of rows: 1 MB


class ContrastSums(NamedTuple):
    """Of each of K cells: the sums at S draws, shape (K, S), the rows' weight and the sums' standard error, (K,)."""

    values: FloatArray
    weight: FloatArray
    error: FloatArray

    def averages(self) -> tuple[FloatArray, FloatArray]:
        """Return the averages over the rows of each cell, shape (K, S), and their standard errors; NaN of no rows."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.values / self.weight[:, None], self.error / self.weight


Figures = Callable[[ContrastSums], Iterable[tuple[FloatArray, FloatArray]]]
"""What is wanted of sums: figures at draws, shape (F, S), and their standard errors from the sample, shape (F,)."""


def cell_sums(
    dataset: Dataset, cells: ContrastCells, predictor: Predictor, family: Family, figures: Figures
) -> ContrastSums:
    """Return the sums at the draws, from a sample of many rows where its error is small beside the figures' sds."""
    n_rows, last = dataset.source.n_rows, None
    predictor = predictor.for_rows(n_rows)
    if n_rows > EVERY_ROW:
        most = max(_MIN_ROWS, _MOST_BYTES // (8 * len(cells) * dataset.n_features))
        for size in dict.fromkeys(min(size, most) for size in (SAMPLE_ROWS, 10 * SAMPLE_ROWS)):
            last = sums_by_sample(dataset, cells, predictor, family, size=size)
            if last is None:
                break
            limits = [(e, _ERROR_SHARE * f.std(axis=1), _NEGLIGIBLE * np.abs(f.mean(axis=1))) for f, e in figures(last)]
            if not any((error > np.maximum(sd, size)).any() for error, sd, size in limits):
                return last
    n_terms = sum(map(len, cells.contrasts))
    if last is not None and n_rows * float(len(predictor)) * n_terms > MAX_EVALUATED:
        return last
    return sums_of_every_row(dataset, cells, predictor, family)


def sums_of_every_row(dataset: Dataset, cells: ContrastCells, predictor: Predictor, family: Family) -> ContrastSums:
    """Return the sums with each row evaluated at each draw; one pass."""
    K, step = len(cells), max(1, _TILE_ENTRIES // len(predictor))

    def one(_: int, block: WeightedData) -> tuple[FloatArray, FloatArray]:
        block = cells.without_responses(block)
        sums, total, parts = np.zeros((K, len(predictor))), np.zeros(K), cells.parts(block)
        for contrast in range(len(cells.contrasts)):
            codes = contrast * cells.n_parts + parts
            total += np.bincount(codes, block.weights, K)
            for factor, rows in cells.terms(block, contrast):
                counted = rows.with_weights(factor * rows.weights)
                for start in range(0, len(rows), step):
                    cut = slice(start, start + step)
                    levels, sums_of_cut = sums_of_piece(predictor, family, counted.take(cut), codes[cut])
                    sums[levels] += sums_of_cut
        return sums, total

    values, weight = np.zeros((K, len(predictor))), np.zeros(K)
    for sums, total in dataset.map(one, "averaging", canonical=True):
        values, weight = values + sums, weight + total
    return ContrastSums(values, weight, np.zeros(K))


class _SampledRows(NamedTuple):
    """Of some rows of a cell: sums of p and its derivatives, by effects too, of weights and reaches, and candidates."""

    place: int
    terms: Derivatives
    effects: FloatArray
    sums: FloatArray
    candidates: Candidates


@dataclass(frozen=True, eq=False)
class _AveragesPlan:
    """What a pass asks of each row, given an approximation to the draws."""

    near: LaplaceApproximation | DrawnApproximation
    cells: ContrastCells
    size: int

    @property
    def order(self) -> int:
        """Order of the derivatives that the pass sums: 1 where groups have effects, or second ones take too much."""
        too_many = 8 * len(self.cells) * len(self.near.theta) ** 2 > _MOST_BYTES
        return 1 if isinstance(self.near, DrawnApproximation) or too_many else 2

    def __call__(self, start: int, block: WeightedData, bars: list[Threshold]) -> list[_SampledRows] | None:
        """Look at a block, its first row at position `start` of the data; None where groups are not known."""
        contrasts, parts, n = [], self.cells.parts(block), self.cells.n_parts
        for contrast in range(len(self.cells.contrasts)):
            reach, terms = np.zeros(len(block)), []
            for factor, rows in self.cells.terms(block, contrast):
                if isinstance(self.near, DrawnApproximation) and self.near.predictor.unknown(rows).any():
                    return None
                eta, squares = self.near.predictors(rows)
                reach += np.abs(factor) * self._remainder_bound(eta, np.sqrt(squares))
                terms.append((factor, rows, derivatives_of_mean(eta, self.near.family)))
            reach *= block.weights
            for part in np.flatnonzero(np.bincount(parts)):
                in_part, place = parts == part, contrast * n + int(part)
                sums = np.array([block.weights[in_part].sum(), reach[in_part].sum()])
                q = np.where(in_part, reach, 0.0)
                with np.errstate(divide="ignore"):  # rows of other cells are not drawn
                    drawn = candidates(q, start, block, self.size, _SEED, bar=bars[place])
                contrasts.append(_SampledRows(place, *self._derivatives(terms, in_part), sums, drawn))
        return contrasts

    def _derivatives(
        self, terms: list[tuple[FloatArray, WeightedData, FloatArray]], in_part: FloatArray
    ) -> tuple[Derivatives, FloatArray]:
        """Return the sums of rows' p and its derivatives by coefficients and by effects."""
        D = len(self.near.theta)
        precision = np.zeros((D, D) if self.order == 2 else ())
        value, gradient, effects = 0.0, np.zeros(D), np.zeros(0)
        for factor, rows, (p, slope, bend, _) in terms:
            X, w = rows.X[in_part], (factor * rows.weights)[in_part]
            value, pull = value + float(w @ p[in_part]), w * slope[in_part]
            gradient += pull @ X
            if isinstance(self.near, DrawnApproximation):
                some = self.near.predictor.columns(rows.take(np.flatnonzero(in_part))).T @ pull
                effects = effects + some if effects.size else some
            elif self.order == 2:
                precision -= (X * (w * bend[in_part])[:, None]).T @ X
        return Derivatives(value, gradient, precision), effects

    def _remainder_bound(self, eta: FloatArray, r: FloatArray) -> FloatArray:
        """Return what a row of weight 1 may have beyond `order`, up to a factor, shape (n,)."""
        family, power = self.near.family, self.order + 1
        places = (np.clip(eta + x * _WITHIN_SDS * r, -family.reach, family.reach) for x in (-1.0, -0.5, 0.0, 0.5, 1.0))
        largest = np.max([np.abs(derivatives_of_mean(at, family)[power]) for at in places], axis=0)
        return np.asarray((largest + _MIN_THIRD_DERIVATIVE) * r**power / 6.0)


def sums_by_sample(
    dataset: Dataset, cells: ContrastCells, predictor: Predictor, family: Family, *, size: int
) -> ContrastSums | None:
    """Return the sums from a sample of `size` rows of each cell; one pass.

    None where the draws of a flat model, shape (S, D), are too few to have scales, or rows are of groups that are not
    known. The error is the RMS over draws of the standard error, from the sample.
    """
    mean, K = predictor.means(), len(cells)
    grouped = bool(predictor.factors)
    near = DrawnApproximation.of(family, predictor) if grouped else laplace_of_draws(family, predictor.beta)
    if near is None:
        return None
    look, bars = _AveragesPlan(near, cells, size), [Threshold()] * K
    pools, sums = [CandidatePool(size) for _ in range(K)], np.zeros((K, 2))
    terms: list[tuple[Derivatives, FloatArray] | None] = [None] * K

    def one_block(start: int, block: WeightedData) -> list[_SampledRows] | None:
        return look(start, cells.without_responses(block), bars)

    for of_block in dataset.map(one_block, "averaging", canonical=True):
        if of_block is None:
            return None
        for one in of_block:
            term = terms[one.place]
            terms[one.place] = (one.terms, one.effects) if term is None else (
                term[0] + one.terms, term[1] + one.effects)  # fmt: skip
            sums[one.place] += one.sums
            bars = [*bars[: one.place], pools[one.place].add(one.candidates), *bars[one.place + 1 :]]
    if (sums[sums[:, 0] > 0.0, 1] <= 0.0).any():  # draws do not move the rows
        return None
    values, error, moves = np.zeros((K, len(predictor))), np.zeros(K), predictor.beta - mean.beta
    for place, term in enumerate(terms):
        if term is None or sums[place, 0] <= 0.0:
            continue
        part, of_effects = term
        sample = select(pools[place].best(), size, float(sums[place, 1]))
        changed = cells.terms(sample.expanded(), place // cells.n_parts)
        rest, variance = _remainder_sums(changed, sample.inclusion, (mean, predictor), look)
        values[place] = part.value + moves @ part.gradient + rest
        if look.order == 2:
            values[place] -= 0.5 * ((moves @ part.precision) * moves).sum(axis=1)
        if of_effects.size:
            values[place] += _effects_times(predictor, of_effects) - _effects_times(mean, of_effects)
        error[place] = np.sqrt(variance)
    return ContrastSums(values, sums[:, 0], error)


def derivatives_of_mean(eta: FloatArray, family: Family) -> FloatArray:
    """Return the mean and its first three derivatives at eta, shape (n,), as the rows of a matrix, shape (4, n)."""
    if family.quadratic:  # eta
        return np.stack([eta, np.ones_like(eta), np.zeros_like(eta), np.zeros_like(eta)])
    if family.counts:
        return family.mean_derivatives(eta)
    log_p, s, c, third = derivatives_of(eta, np.ones(len(eta), dtype=np.int8), family)
    p = np.exp(log_p)
    return np.stack([p, p * s, p * (s**2 - c), p * (s**3 - 3.0 * s * c + third)])


def _effects_times(predictor: Predictor, gradient: FloatArray) -> FloatArray:
    """Return effects times a gradient, shape (S,), some draws at a time."""
    step = max(1, _TILE_ENTRIES // len(gradient))
    cuts = (slice(start, start + step) for start in range(0, len(predictor), step))
    return np.concatenate([effects_at(predictor.take(cut)) @ gradient for cut in cuts])


def _remainder_sums(
    terms: list[tuple[FloatArray, WeightedData]],
    inclusion: FloatArray,
    at: tuple[Predictor, Predictor],
    look: _AveragesPlan,
) -> tuple[FloatArray, float]:
    """Return what a sample says about the sums beyond `order`, shape (S,), and its mean variance over draws."""
    (mean, predictor), family = at, look.near.family
    total, variance, step = np.zeros(len(predictor)), 0.0, max(1, _TILE_ENTRIES // len(predictor))
    for start in range(0, len(inclusion), step):
        cut, rest = slice(start, start + step), np.zeros(())
        for factor, rows in terms:
            part = rows.take(cut)
            eta = mean.eta(part)
            move = predictor.eta(part) - eta
            p, slope, bend, _ = derivatives_of_mean(eta[:, 0], family)[..., None]
            expansion = slope + 0.5 * move * bend if look.order == 2 else slope
            rest = rest + factor[cut, None] * (family.mean(eta + move) - p - move * expansion)
        weights = terms[0][1].weights[cut]
        total += weights @ rest
        variance += float((weights**2 * (1.0 - inclusion[cut])) @ (rest**2).mean(axis=1))
    return total, variance


MAX_VALUES = 20  # of a column of numbers that is taken for a factor


_BLOCK = 1024  # rows of a thread's piece in memory


_LOSSLESS_METHODS = ("full", "aggregate")  # methods whose rows miss nothing


class AveragedRows(NamedTuple):
    """Rows to average over, raw or `designed`, those of the design matrix; codes of factors `added` follow groups'."""

    posterior: Posterior
    dataset: Dataset
    designed: bool
    added: tuple[Grouping, ...] = ()

    @property
    def design(self) -> Design:
        """The posterior's design."""
        return design_of(self.posterior)

    def cells(self, **asked: Any) -> ContrastCells:
        """Return `ContrastCells` of these rows, whose columns tell what is asked."""
        response = response_of(self.dataset.source.classes)
        cells = ContrastCells(self.design, self.designed, response=response, added=self.added, **asked)
        wanted = self.design.raw_names if cells.variable is not None else ()
        wanted = (*wanted, *(name for name in cells.by if name in self.design.raw_names))
        if self.designed:
            X = np.zeros((1, len(self.design.names)))
            if lost := [column for column in wanted if raw_column(self.design, X, column) is None]:
                raise DataError(
                    f"the rows of the design matrix do not tell {lost[0]!r} (formula={formula_of(self.design)!r}); "
                    "give raw rows as data, a sample of them"
                )
        return cells

    def parts(self, by: tuple[str, ...], **asked: Any) -> tuple[dict[str, list[Any]], ContrastCells]:
        """Return the parts' values of each column, as they are shown, and cells of what else is `asked`.

        Of several columns a pass finds the combinations that rows have.
        """
        levels_of = {grouping.name: grouping.levels for grouping in (*self.design.groups, *self.added)}
        shown, values = [], []
        for name in by:
            if name in levels_of and name not in self.design.raw_names:
                levels, codes = list(levels_of[name]), tuple(map(float, range(len(levels_of[name]))))
            else:
                levels, codes = self.levels(name, "by")
            shown.append(levels)
            values.append(codes)
        cells = self.cells(by=by, values=tuple(values), **asked)
        if len(by) > 1:
            occurring = self.dataset.map(lambda _, block: np.unique(cells.parts(block)), "learning levels")
            codes_of = np.unique(np.concatenate(list(occurring)))
            cells = replace(cells, combinations=codes_of)
            places = np.unravel_index(codes_of, [len(levels) for levels in shown])
            shown = [[levels[k] for k in place] for levels, place in zip(shown, places, strict=True)]
        return dict(zip(by, shown, strict=True)), cells

    def levels(self, name: str, argument: str) -> tuple[list[Any], tuple[float, ...]]:
        """Return the levels of a raw column, as they are shown and as numbers; of a column of numbers by a pass."""
        self.check_column(name, argument)
        text = dict(self.design.raw_levels).get(name)
        if text is not None:
            return list(text), tuple(map(float, range(len(text))))
        values = values_of(self.dataset, self.cells(by=(name,), values=((0.0,),)), name, MAX_VALUES)
        if values is None:
            raise DataError(
                f"{argument}={name!r} has more than {MAX_VALUES} values in these rows: it is no factor; give a column "
                "that is, such as bins of it (pandas.cut), or rows of few values"
            )
        return [int(v) if v == round(v) else float(v) for v in values], values

    def check_column(self, name: str, argument: str) -> None:
        """Raise unless the data have a column `name`."""
        if name not in self.design.raw_names:
            refuse_grouping_factor(self.design, name, f"{argument}={name!r}")
            names = listed(self.design.raw_names, 10) or "none"
            raise DataError(f"{argument}={name!r} is no column of the data: {names}")

    def coefficient_sizes(self) -> FloatArray:
        """Return the root mean squares over draws of the coefficients, with effects of groups, shape (D,)."""
        design, predictor = self.design, self.posterior.predictor()
        squares = (predictor.beta**2).mean(axis=0)
        for factor in predictor.factors:
            for q, effect in enumerate(factor.grouping.effects):
                assert factor.covariance is not None
                for place, weight in design.columns_of(factor.grouping, effect).items():
                    if place != design.constant:
                        squares[place] += weight**2 * factor.covariance[:, q, q].mean()
        return np.asarray(np.sqrt(squares))

    def sums(self, cells: ContrastCells, max_draws: int, figures: Figures) -> ContrastSums:
        """Return the sums of cells at draws, evenly spaced."""
        sums = cell_sums(self.dataset, cells, self.posterior.predictor(max_draws), self.posterior.family, figures)
        check_finite(self.dataset, sums.values)
        return sums


def refuse_grouping_factor(design: Design, name: str, what: str) -> None:
    """Raise where a column is a grouping factor, or a part of one: its effects are random, and have verbs of their own.

    `what` is what the error calls it.
    """
    for factor in design.groups:
        if name in (factor.name, *factor.columns):
            part = "" if name == factor.name else f"part of {factor.name!r}, "
            raise DataError(
                f"{what} is {part}a grouping factor, whose effects are random: fit.effects({factor.name!r}) has them, "
                f"and fit.average_predictions(by={name!r}) averages over the rows of each level"
            )


def check_by(by: Any) -> tuple[str, ...]:
    """Return the columns that part rows, given None, a name or a list of names."""
    names = () if by is None else (by,) if isinstance(by, str) else tuple(by) if isinstance(by, list | tuple) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise TypeError(f"by={by!r} is no name of a column, nor a list of names")
    if len(set(names)) < len(names):
        raise DataError(f"by={by!r} names a column twice; name each once")
    return names


def added_columns(design: Design, data: Any, by: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of `by` that the model does not have; raise unless data have them."""
    taken = {*design.raw_names, *(grouping.name for grouping in design.groups)}
    added = tuple(name for name in by if name not in taken)
    named = bool(added) and has_named_columns(data)
    names = column_names(data) if named else [*design.raw_names]
    if lacking := [name for name in added if not set(columns_of(name, names)) <= set(names)]:
        remedy = "" if named else "; give rows that have it, a table or a file, as data="
        raise DataError(f"by={lacking[0]!r} is no column of the data: {listed(names, 10) or 'none'}{remedy}")
    return added


def averaged_rows(posterior: Posterior, data: Any, *, by: tuple[str, ...] = ()) -> AveragedRows:
    """Return rows to average over: of the design matrix, or raw ones in memory or of any other source.

    Rows have codes of those columns `by` that the model does not have.
    """
    design = design_of(posterior)
    memory = isinstance(data, WeightedData | list | tuple) or is_table(data)
    added = added_columns(design, data, by)
    if not (memory or (hasattr(data, "shape") and not is_dask(data))):
        opened = open_in(design, data, new_groups=True, whose="the posterior's data", parts=added)
        averaged = AveragedRows(posterior, Dataset(opened.rows), designed=False, added=added_groupings(opened, design))
    else:
        rows, designed = _rows(posterior, data)
        groupings: tuple[Grouping, ...] = ()
        if added:
            groupings, codes = coded_columns(data, added)
            group = codes if rows.group is None else np.concatenate([rows.group, codes], axis=1)
            rows = replace(rows, group=group)
        small = _BLOCK if len(rows) <= EVERY_ROW else None
        averaged = AveragedRows(posterior, Dataset(rows_source(rows), block_rows=small), designed, groupings)
    if not averaged.dataset.source.n_rows:
        raise DataError("data has no rows, so there is no average; give at least one")
    return averaged


def added_groupings(opened: Dataset, design: Design) -> tuple[Grouping, ...]:
    """Return the factors that rows have beside the design's, as they were opened with `parts`."""
    return opened.rows.design.groups[len(design.groups) :]


def design_of(posterior: Posterior) -> Design:
    """Return the design of a posterior; raise if it does not tell it."""
    if posterior.design is None:
        raise DataError("idata does not tell the columns of its data; give what sample returned for a coreset")
    return posterior.design


def _rows(posterior: Posterior, data: Any) -> tuple[WeightedData, bool]:
    """Return rows in memory, labels +1, and whether they are of the design matrix."""
    if not isinstance(data, WeightedData):
        design = design_of(posterior)
        raw = feature_matrix(data, design.raw_names, design.raw_levels)
        offset_and_groups = (
            offset_of(posterior, data, len(raw), None),
            groups_of(posterior, data, len(raw), None),
        )
        return positive_rows(raw, *offset_and_groups), False
    check_same_design(data, posterior.features, posterior.design, "data")
    if data.pseudo.any():
        raise DataError(
            "the coreset has pseudo-rows, which say nothing about the rows' columns; give rows as data, a sample"
        )
    if isinstance(data, Coreset) and data.method not in _LOSSLESS_METHODS:
        raise DataError(
            f"the rows are a coreset's of method {data.method!r}, which stands for all rows in the likelihood and not "
            "in averages; give all rows as data, their file or a random sample of them"
        )
    offset = None if posterior.family.numbers or posterior.family.times else data.offset
    rows = positive_rows(data.X, offset, data.group).with_weights(data.weights)
    if posterior.family.counts:  # averages of rates are by exposure
        rows = rows.take(np.less(data.y, 0))
    return rows, True
