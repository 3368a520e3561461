r"""Sums of predicted probabilities over rows, at many draws: of the rows of each value of a column, or of changed rows.

Near the mean t of the draws most probabilities are almost quadratic. With value, gradient and second derivatives of

.. math:: P_k(\theta) = \sum_{n \in k} w_n \sum_v c_v\, p(\eta_n^v(\theta))

at t by one pass, v the ways in which a row is changed and c_v their factors, what is left of P_k at a draw is summed
over a sample of the cell's rows, each over its inclusion probability, as `row_sums` does for log-likelihoods. A row is
drawn by its reach w (|p'''| + `_FLOOR`) r^3 / 6, r the sd of its predictor over the draws, so that rows which move far
are in the sample for certain. The sample tells its standard error. Where groups have effects, the pass takes the first
derivatives alone, as the second are a matrix of all effects, and rows are drawn by |p''| r^2 / 2. So they are where the
second derivatives of all cells would take more than `_MOST_BYTES`, which bounds the rows of all samples, too.

When to use it: for averages over many rows; over few, each row is evaluated at each draw.

Reference: Quiroz, Kohn, Villani and Tran (2019), Speeding up MCMC by efficient data subsampling, JASA 114.

What averages are of: rows as they are or with a raw column changed, all of them or by the values of another column.

.. math:: P_k = \sum_{n \in k} w_n \sum_v c_v\, p(\eta_n^v)

k is a cell, v a change of row n, c_v its factor: a contrast of two levels has the factors 1 and -1, a central
difference 1 / 2h and -1 / 2h.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.responses import LABELS, numbers_of
from bayescore.diagnostics.row_sums import DrawnApproximation, effects_at
from bayescore.families import Family
from bayescore.models.laplace import LaplaceApproximation
from bayescore.models.posterior import Derivatives
from bayescore.models.predictor import Predictor
from bayescore.models.row_kernels import derivatives_of
from bayescore.numerics.sampling import Bar, Candidates, Pool, candidates, select
from bayescore.samplers.poststratify import sums_of_piece
from bayescore.samplers.predict import finite_design, raw_column
from bayescore.types import NO_GROUP, FloatArray, IntArray, WeightedData
from bayescore.validation import DataError


@dataclass(frozen=True)
class Change:
    """A row with its raw column at `value`, or moved by `shift`, counts `factor` times in a sum."""

    factor: float = 1.0
    value: float | None = None
    shift: float = 0.0


@dataclass(frozen=True, eq=False)
class Cells:
    """What is summed: contrasts of the raw column `variable`, each over the rows of each value of the column `by`.

    A contrast adds up changes of a row. Blocks are raw rows, or with `designed` rows of the design matrix, whose
    columns tell the raw ones.
    """

    design: Design
    designed: bool
    by: str | None = None
    values: tuple[float, ...] = (0.0,)  # of `by`; of text and of groups the codes
    variable: str | None = None
    contrasts: tuple[tuple[Change, ...], ...] = ((Change(),),)
    response: str = LABELS  # what the rows' responses are

    def __len__(self) -> int:
        return len(self.contrasts) * len(self.values)

    def counted(self, block: WeightedData) -> WeightedData:
        """Return a block without its responses: of counts the exposures alone, as averages are of rates by exposure."""
        if self.response == "numbers":
            return numbers_of(block)[0]
        return block.with_weights(np.where(block.y < 0, block.weights, 0.0)) if self.response == "counts" else block

    def column(self, block: WeightedData, name: str) -> FloatArray:
        """Return a raw column, or the codes of groups, shape (n,)."""
        if name not in self.design.raw_names:
            assert block.group is not None
            return np.asarray(block.group[:, [own.name for own in self.design.groups].index(name)])
        if not self.designed:
            return np.asarray(block.X[:, self.design.raw_names.index(name)])
        found = raw_column(self.design, block.X, name)
        assert found is not None
        return found

    def parts(self, block: WeightedData) -> IntArray:
        """Return the place of each row's value of `by`, shape (n,)."""
        if self.by is None:
            return np.zeros(len(block), dtype=np.int64)
        column = self.column(block, self.by)
        if self.by not in self.design.raw_names and (column == NO_GROUP).any():
            raise DataError(
                f"by={self.by!r}: row {block.index[(column == NO_GROUP).argmax()]} of data is of a group that the "
                "posterior does not know; leave such rows out"
            )
        return np.searchsorted(self.values, np.round(column, 9))

    def terms(self, block: WeightedData, contrast: int) -> list[tuple[float, WeightedData]]:
        """Return the factors of a contrast, and the changed rows in the design, in the block's order."""
        changes = self.contrasts[contrast]
        if self.variable is None:
            X = block.X if self.designed else self._designed(block, block.X, "data")
            return [(change.factor, replace(block, X=X)) for change in changes]
        raw, place = self._raw(block), self.design.raw_names.index(self.variable)
        own, found = raw[:, place].copy(), []
        for change in changes:
            raw[:, place] = own + change.shift if change.value is None else change.value
            moved = f"moved by {change.shift:g}" if change.value is None else f"set to {change.value:g}"
            where = f"data with {self.variable!r} {moved}"
            found.append((change.factor, replace(block, X=self._designed(block, raw, where))))
        return found

    def _designed(self, block: WeightedData, raw: FloatArray, where: str) -> FloatArray:
        return finite_design(self.design, raw, block.index, where)

    def _raw(self, block: WeightedData) -> FloatArray:
        if not self.designed:
            return np.array(block.X)
        told = (raw_column(self.design, block.X, own) for own in self.design.raw_names)
        return np.column_stack([np.zeros(len(block)) if own is None else own for own in told])


def values_of(dataset: Dataset, cells: Cells, name: str, most: int) -> tuple[float, ...] | None:
    """Return the distinct values of a raw column, by a pass; None as soon as there are more than `most`."""

    def one(_: int, block: WeightedData) -> FloatArray:
        return np.unique(np.round(cells.column(block, name), 9))[: most + 1]

    values: FloatArray = np.zeros(0)
    for found in dataset.map(one, "learning levels"):
        values = np.union1d(values, found)
        if len(values) > most:
            return None
    return tuple(map(float, values))


EVERY_ROW = 50_000  # rows up to which each is evaluated at each draw: a sample would save little


SAMPLE_ROWS = 2000  # of each cell; ten times as many where these do not tell enough


MAX_EVALUATED = 2e10  # probabilities of all rows at all draws: minutes; beyond that the sample's error is handed over


_SHARE = 0.1  # of the posterior sd of a figure that the sample's error may be


_NEGLIGIBLE = 1e-6  # share of a figure that it may be off by in any case


_FLOOR = 0.01  # third derivative that rows far out are taken to have, a tenth of the logistic one at 0


_MOST_BYTES = 2**28  # of second derivatives of all cells, and of all rows drawn


_FEWEST = 50  # rows of a cell's sample in any case


_SEED = 2021  # of the sample: the same data give the same rows


_WITHIN = 4.0  # sds of its predictor within which a row's largest third derivative counts


_CACHE = 1 << 17  # entries of a tile of rows: 1 MB


class CellSums(NamedTuple):
    """Of each of K cells: the sums at S draws, shape (K, S), the rows' weight and the sums' standard error, (K,)."""

    values: FloatArray
    weight: FloatArray
    error: FloatArray

    def averages(self) -> tuple[FloatArray, FloatArray]:
        """Return the averages over the rows of each cell, shape (K, S), and their standard errors; NaN of no rows."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.values / self.weight[:, None], self.error / self.weight


Figures = Callable[[CellSums], Iterable[tuple[FloatArray, FloatArray]]]
"""What is wanted of sums: figures at draws, shape (F, S), and their standard errors from the sample, shape (F,)."""


def cell_sums(dataset: Dataset, cells: Cells, predictor: Predictor, family: Family, figures: Figures) -> CellSums:
    """Return the sums at the draws, from a sample of many rows where its error is small beside the figures' sds."""
    n_rows, last = dataset.source.n_rows, None
    if n_rows > EVERY_ROW:
        most = max(_FEWEST, _MOST_BYTES // (8 * len(cells) * dataset.n_features))
        for size in dict.fromkeys(min(size, most) for size in (SAMPLE_ROWS, 10 * SAMPLE_ROWS)):
            last = sampled(dataset, cells, predictor, family, size=size)
            if last is None:
                break
            if all(_tells(*found) for found in figures(last)):
                return last
    n_terms = sum(map(len, cells.contrasts))
    if last is not None and n_rows * float(len(predictor)) * n_terms > MAX_EVALUATED:
        return last
    return every_row(dataset, cells, predictor, family)


def _tells(figures: FloatArray, error: FloatArray) -> bool:
    enough = np.maximum(_SHARE * figures.std(axis=1), _NEGLIGIBLE * np.abs(figures.mean(axis=1)))
    return not (error > enough).any()


def every_row(dataset: Dataset, cells: Cells, predictor: Predictor, family: Family) -> CellSums:
    """Return the sums with each row evaluated at each draw; one pass."""
    K, step = len(cells), max(1, _CACHE // len(predictor))

    def one(_: int, block: WeightedData) -> tuple[FloatArray, FloatArray]:
        block = cells.counted(block)
        sums, total, parts = np.zeros((K, len(predictor))), np.zeros(K), cells.parts(block)
        for contrast in range(len(cells.contrasts)):
            codes = contrast * len(cells.values) + parts
            total += np.bincount(codes, block.weights, K)
            for factor, rows in cells.terms(block, contrast):
                for start in range(0, len(rows), step):
                    cut = slice(start, start + step)
                    sums += factor * sums_of_piece(predictor, family, rows.take(cut), codes[cut], K)
        return sums, total

    values, weight = np.zeros((K, len(predictor))), np.zeros(K)
    for sums, total in dataset.map(one, "averaging", canonical=True):
        values, weight = values + sums, weight + total
    return CellSums(values, weight, np.zeros(K))


class _Seen(NamedTuple):
    """Of some rows of a cell: sums of p and its derivatives, by effects too, of weights and reaches, and candidates."""

    place: int
    terms: Derivatives
    effects: FloatArray
    sums: FloatArray
    candidates: Candidates


@dataclass(frozen=True, eq=False)
class _Look:
    """What a pass asks of each row, given an approximation to the draws."""

    near: LaplaceApproximation | DrawnApproximation
    cells: Cells
    size: int

    @property
    def order(self) -> int:
        """Order of the derivatives that the pass sums: 1 where groups have effects, or second ones take too much."""
        too_many = 8 * len(self.cells) * len(self.near.theta) ** 2 > _MOST_BYTES
        return 1 if isinstance(self.near, DrawnApproximation) or too_many else 2

    def __call__(self, start: int, block: WeightedData, bars: list[Bar]) -> list[_Seen] | None:
        """Look at a block, its first row at position `start` of the data; None where groups are not known."""
        found, parts, n = [], self.cells.parts(block), len(self.cells.values)
        for contrast in range(len(self.cells.contrasts)):
            reach, terms = np.zeros(len(block)), []
            for factor, rows in self.cells.terms(block, contrast):
                if isinstance(self.near, DrawnApproximation) and self.near.predictor.unknown(rows).any():
                    return None
                eta, squares = self.near.predictors(rows)
                reach += abs(factor) * self._reach(eta, np.sqrt(squares))
                terms.append((factor, rows, derivatives_of_mean(eta, self.near.family)))
            reach *= block.weights
            for part in np.flatnonzero(np.bincount(parts)):
                own, place = parts == part, contrast * n + int(part)
                sums = np.array([block.weights[own].sum(), reach[own].sum()])
                q = np.where(own, reach, 0.0)
                with np.errstate(divide="ignore"):  # rows of other cells are not drawn
                    drawn = candidates(q, start, block, self.size, _SEED, bar=bars[place])
                found.append(_Seen(place, *self._derivatives(terms, own), sums, drawn))
        return found

    def _derivatives(
        self, terms: list[tuple[float, WeightedData, FloatArray]], own: FloatArray
    ) -> tuple[Derivatives, FloatArray]:
        """Return the sums of rows' p and its derivatives by coefficients and by effects."""
        D = len(self.near.theta)
        precision = np.zeros((D, D) if self.order == 2 else ())
        value, gradient, effects = 0.0, np.zeros(D), np.zeros(0)
        for factor, rows, (p, slope, bend, _) in terms:
            X, w = rows.X[own], factor * rows.weights[own]
            value, pull = value + float(w @ p[own]), w * slope[own]
            gradient += pull @ X
            if isinstance(self.near, DrawnApproximation):
                some = self.near.predictor.columns(rows.take(np.flatnonzero(own))).T @ pull
                effects = effects + some if effects.size else some
            elif self.order == 2:
                precision -= (X * (w * bend[own])[:, None]).T @ X
        return Derivatives(value, gradient, precision), effects

    def _reach(self, eta: FloatArray, r: FloatArray) -> FloatArray:
        """Return what a row of weight 1 may have beyond `order`, up to a factor, shape (n,)."""
        family, power = self.near.family, self.order + 1
        places = (np.clip(eta + x * _WITHIN * r, -family.reach, family.reach) for x in (-1.0, -0.5, 0.0, 0.5, 1.0))
        largest = np.max([np.abs(derivatives_of_mean(at, family)[power]) for at in places], axis=0)
        return np.asarray((largest + _FLOOR) * r**power / 6.0)


def sampled(dataset: Dataset, cells: Cells, predictor: Predictor, family: Family, *, size: int) -> CellSums | None:
    """Return the sums from a sample of `size` rows of each cell; one pass.

    None where the draws of a flat model, shape (S, D), are too few to have scales, or rows are of groups that are not
    known. The error is the RMS over draws of the standard error, from the sample.
    """
    mean, K = predictor.means(), len(cells)
    near: LaplaceApproximation | DrawnApproximation
    if predictor.factors:
        near = DrawnApproximation.of(family, predictor)
    else:
        D = predictor.beta.shape[1]
        try:
            factor = np.linalg.cholesky(np.cov(predictor.beta, rowvar=False).reshape(D, D))
        except np.linalg.LinAlgError:
            return None
        near = LaplaceApproximation(family, mean.beta[0], np.asarray(factor, dtype=np.float64))
    look, bars = _Look(near, cells, size), [Bar()] * K
    pools, sums = [Pool(size) for _ in range(K)], np.zeros((K, 2))
    terms: list[tuple[Derivatives, FloatArray] | None] = [None] * K

    def one_block(start: int, block: WeightedData) -> list[_Seen] | None:
        return look(start, cells.counted(block), bars)

    for found in dataset.map(one_block, "averaging", canonical=True):
        if found is None:
            return None
        for one in found:
            known = terms[one.place]
            terms[one.place] = (one.terms, one.effects) if known is None else (
                known[0] + one.terms, known[1] + one.effects)  # fmt: skip
            sums[one.place] += one.sums
            bars = [*bars[: one.place], pools[one.place].add(one.candidates), *bars[one.place + 1 :]]
    if (sums[sums[:, 0] > 0.0, 1] <= 0.0).any():  # draws do not move the rows
        return None
    values, error, moves = np.zeros((K, len(predictor))), np.zeros(K), predictor.beta - mean.beta
    for place, known in enumerate(terms):
        if known is None or sums[place, 0] <= 0.0:
            continue
        part, of_effects = known
        sample = select(pools[place].best(), size, float(sums[place, 1]))
        changed = cells.terms(sample.expanded(), place // len(cells.values))
        rest, variance = _beyond(changed, sample.inclusion, (mean, predictor), look)
        values[place] = part.value + moves @ part.gradient + rest
        if look.order == 2:
            values[place] -= 0.5 * ((moves @ part.precision) * moves).sum(axis=1)
        if of_effects.size:
            values[place] += _along(predictor, of_effects) - _along(mean, of_effects)
        error[place] = np.sqrt(variance)
    return CellSums(values, sums[:, 0], error)


def derivatives_of_mean(eta: FloatArray, family: Family) -> FloatArray:
    """Return the mean and its first three derivatives at eta, shape (n,), as the rows of a matrix, shape (4, n)."""
    if family.quadratic:  # eta
        return np.stack([eta, np.ones_like(eta), np.zeros_like(eta), np.zeros_like(eta)])
    if family.counts:  # exp(eta)
        return np.tile(family.mean(eta), (4, 1))
    log_p, s, c, third = derivatives_of(eta, np.ones(len(eta), dtype=np.int8), family)
    p = np.exp(log_p)
    return np.stack([p, p * s, p * (s**2 - c), p * (s**3 - 3.0 * s * c + third)])


def _along(predictor: Predictor, gradient: FloatArray) -> FloatArray:
    """Return effects times a gradient, shape (S,), some draws at a time."""
    step = max(1, _CACHE // len(gradient))
    cuts = (slice(start, start + step) for start in range(0, len(predictor), step))
    return np.concatenate([effects_at(predictor.take(cut)) @ gradient for cut in cuts])


def _beyond(
    terms: list[tuple[float, WeightedData]], inclusion: FloatArray, at: tuple[Predictor, Predictor], look: _Look
) -> tuple[FloatArray, float]:
    """Return what a sample says about the sums beyond `order`, shape (S,), and its mean variance over draws."""
    (mean, predictor), family = at, look.near.family
    total, variance, step = np.zeros(len(predictor)), 0.0, max(1, _CACHE // len(predictor))
    for start in range(0, len(inclusion), step):
        cut, rest = slice(start, start + step), np.zeros(())
        for factor, rows in terms:
            part = rows.take(cut)
            eta = mean.eta(part)
            move = predictor.eta(part) - eta
            p, slope, bend, _ = derivatives_of_mean(eta[:, 0], family)[..., None]
            known = slope + 0.5 * move * bend if look.order == 2 else slope
            rest = rest + factor * (family.mean(eta + move) - p - move * known)
        weights = terms[0][1].weights[cut]
        total += weights @ rest
        variance += float((weights**2 * (1.0 - inclusion[cut])) @ (rest**2).mean(axis=1))
    return total, variance
