r"""Cells: the combinations of all grouping factors' levels that occur, and rows seen with their cell as group.

Rows of several grouping factors, or of effects of columns, condensed by cell: see `condense`.

Sums over rows by cell, averaged over a normal density of the coefficients and the cells' effects.

A row of cell c has the predictor eta = x . beta + o + z . b_c, z those columns of x whose coefficients vary. Over
beta ~ N(t, C) and b_c given beta ~ N(m_c - W_c (beta - t), V_c) it is normal,

.. math:: \eta \sim N\bigl(x t + o + z m_c, \; z' V_c z + (x - W_c' z)' C (x - W_c' z)\bigr),

so that averages of derivatives of log p are over one number a row (`pseudo_rows.averages`).
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from itertools import combinations_with_replacement, permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.coresets.pseudo_rows import averages
from bayescore.data.dataset import CellCounts, Dataset
from bayescore.data.design import Design, Grouping
from bayescore.data.sources import ArraySource
from bayescore.families import Family
from bayescore.models.groups.rows import add_lines, codes_among, local_codes
from bayescore.models.posterior import weighted_gram
from bayescore.numerics.sampling import hash_uniforms, hash_uniforms_of
from bayescore.types import NO_GROUP, FloatArray, IntArray, WeightedData, stack
from bayescore.validation import DataError

_KEYS_PER_CELL = 8  # possible keys for each cell, up to which a table of them all is small
_LEAST_WAITING = 1 << 18  # keys of blocks, 4 MB, before they are merged
_SAMPLE = 1 << 15  # rows from which a search begins
_LEAST_SAMPLE = 1 << 13  # of fewer rows none is taken
_LEAST_OVER_SAMPLE = 4  # times as many rows that there must be
_MOST_OF_SAMPLE = 8  # times as many rows that are kept, where a level of very many is in it
_LEVELS = 300  # the least number whose rows the sample has, if there are as many
_SEED = 0  # of the sample: where a search begins is a fact of the data


@dataclass(frozen=True, eq=False)
class CellDesign(Design):
    """A design that gives each row one code, of its cell, in place of those of its groups.

    `base` makes the columns, `keys` are those of the cells, in order, and `sizes` the numbers of levels.
    """

    base: Design = field(default_factory=lambda: Design(()))
    keys: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    sizes: tuple[int, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels to workers, who make tables of their own."""
        return {name: value for name, value in vars(self).items() if name != "_by_key"}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the design matrix's columns."""
        return self.base.names

    @cached_property
    def _by_key(self) -> IntArray | None:
        """The cell of each possible key, if these are not many more than cells."""
        if (size := math.prod(self.sizes)) > _KEYS_PER_CELL * len(self.keys):
            return None
        table = np.zeros(size, dtype=np.int64)
        table[self.keys] = np.arange(len(self.keys))
        return table

    def rows(self, block: WeightedData) -> WeightedData:
        """Return a block of raw features as rows of the design matrix, with the cell of each."""
        outside, key = block.group_codes[:, 0] == NO_GROUP, key_of(block.group_codes, self.sizes)
        key[outside] = 0
        cell = np.searchsorted(self.keys, key) if self._by_key is None else self._by_key[key]
        cell[outside] = NO_GROUP
        return replace(self.base.rows(block), group=cell[:, None])


def key_of(codes: IntArray, sizes: tuple[int, ...]) -> IntArray:
    """Return one number for each combination of codes, shape (n, F), smaller ones first."""
    return reduce(lambda key, f: key * sizes[f] + codes[:, f], range(len(sizes)), np.zeros(len(codes), dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells that occur: codes of their groups, shape (C, F), and number of rows, shape (C,)."""

    codes: IntArray
    counts: IntArray
    keys: IntArray
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, dataset: Dataset) -> "Cells":
        """Return those that `count_cells` left with the data, or find them; one pass."""
        sizes, possible = _numbers_of_levels(dataset)
        if not possible:
            shown = " x ".join(f"{size:,}" for size in sizes)
            raise DataError(f"groups have {shown} combinations of levels, too many to tell apart: take fewer factors")
        if dataset.cells is None:
            counter, work = _CellCounter(), partial(_count_block, sizes, SamplePlan.of(dataset, sizes))
            for part in dataset.map(work, "cells of groups", canonical=True):
                counter.take(part)
            dataset.cells = counter.total()
        keys, counts = dataset.cells.keys, dataset.cells.counts
        codes, left = np.empty((len(keys), len(sizes)), dtype=np.int64), keys.copy()
        for f in reversed(range(len(sizes))):
            left, codes[:, f] = np.divmod(left, sizes[f])
        return cls(codes, counts, keys, sizes)

    def __len__(self) -> int:
        return len(self.keys)

    def sample_by_cell(self, sample: WeightedData) -> Dataset:
        """Return rows in memory, their cells as their one group, counted anew."""
        keys, cell = np.unique(key_of(sample.group_codes, self.sizes), return_inverse=True)
        groups = (Grouping("cell", tuple(range(len(keys)))),)
        design = Design(tuple(f"x{d}" for d in range(sample.n_features)), groups=groups)
        source = ArraySource(
            sample.X, sample.y, sample.weights, (-1, 1), "y", design, sample.index, sample.offset, group=cell[:, None]
        )
        return Dataset(source)

    def coded_by_cell(self, dataset: Dataset) -> Dataset:
        """Return the data set with the cell of each row as its only group."""
        design = dataset.design
        view = CellDesign(
            design.raw_names,
            offset=design.offset,
            groups=(Grouping("cell", tuple(range(len(self)))),),
            base=Design(design.names) if dataset.transform is None else design,  # of a coreset, rows are in it
            keys=self.keys,
            sizes=self.sizes,
        )
        return dataset.view(view)

    def groups_of(self, cell: IntArray) -> IntArray:
        """Return the codes of the groups, shape (n, F), of rows of these cells; -1 means no group."""
        return np.where(cell[:, None] < 0, NO_GROUP, self.codes[cell])


@contextmanager
def count_cells(dataset: Dataset) -> Iterator[None]:
    """Leave the cells with the data, and their numbers of rows, as the body checks the rows."""
    (sizes, possible), counter = _numbers_of_levels(dataset), _CellCounter()
    if not possible:
        yield
        return
    with dataset.map_alongside(partial(_count_block, sizes, SamplePlan.of(dataset, sizes)), counter.take):
        yield
    dataset.cells = counter.total()


def _numbers_of_levels(dataset: Dataset) -> tuple[tuple[int, ...], bool]:
    """Return the numbers of levels, and whether there is a number for each combination."""
    sizes = tuple(len(group) for group in dataset.design.groups)
    return sizes, bool(np.prod([float(size) for size in sizes]) <= 2.0**62)


class SamplePlan(NamedTuple):
    """Which rows to keep while cells are counted: a share of those of some levels of the `factor` that has most.

    Whole groups determine the sd of effects, as single rows of many groups do not. The two rows of a count stay
    together, for events without their exposure have no mode.
    """

    factor: int
    levels: NDArray[np.bool_]
    share: float

    @classmethod
    def of(cls, dataset: Dataset, sizes: tuple[int, ...]) -> "SamplePlan | None":
        """Return the plan of a source, None if the sample would be more than a part of its rows."""
        n_rows = dataset.source.n_rows if dataset.rereadable else 0
        size = min(_SAMPLE, n_rows // _LEAST_OVER_SAMPLE)
        if size < _LEAST_SAMPLE:
            return None
        factor = int(np.argmax(sizes))
        n_levels = sizes[factor]
        of_level = max(1.0, n_rows / n_levels)
        taken = min(n_levels, max(size / of_level, _LEVELS))
        chosen = hash_uniforms(0, n_levels, _SEED) < taken / n_levels
        return cls(factor, chosen, min(1.0, size / (taken * of_level)))

    def rows(self, block: WeightedData) -> WeightedData:
        """Return the rows of a block that are in the sample: pseudo-rows of its levels all are, for they are few."""
        level = block.group_codes[:, self.factor]
        chosen = self.levels[level] & (level != NO_GROUP)
        if self.share < 1.0:
            chosen &= block.pseudo | (hash_uniforms_of(block.index, _SEED) < self.share)
        return block.take(chosen)


def _count_block(sizes: tuple[int, ...], plan: SamplePlan | None, _: int, block: WeightedData) -> CellCounts:
    some = block.group_codes[:, 0] != NO_GROUP  # pseudo-rows of a coreset may have none
    keys, places = codes_among(key_of(block.group_codes[some], sizes), math.prod(sizes))
    label_weights = np.zeros((len(keys), 2))
    np.add.at(label_weights, (places, (block.y[some] > 0).astype(np.intp)), block.weights[some])
    counts = np.bincount(places, minlength=len(keys)).astype(np.int64)
    return CellCounts(keys, counts, label_weights, None if plan is None else plan.rows(block))


class _CellCounter:
    """Different keys of all parts in order, how often each occurs, and the sample of their rows.

    Parts wait until they are as many as the keys known, so that each key is sorted a few times only.
    """

    def __init__(self) -> None:
        none = np.empty(0, dtype=np.int64)
        self._known = CellCounts(none, none, np.empty((0, 2)), None)
        self._waiting: list[CellCounts] = []
        self._sample: list[WeightedData] = []
        self._held = 0

    def take(self, part: CellCounts) -> None:
        """Add a part."""
        self._waiting.append(replace(part, sample=None))
        if part.sample is not None and self._held < _MOST_OF_SAMPLE * _SAMPLE:
            self._sample.append(part.sample)
            self._held += len(part.sample)
        if sum(len(waiting.keys) for waiting in self._waiting) > max(len(self._known.keys), _LEAST_WAITING):
            self._known, self._waiting = self._merge_counts(), []

    def total(self) -> CellCounts:
        """Return keys and counts of all parts, and the sample."""
        sample = stack(self._sample).take(slice(0, _MOST_OF_SAMPLE * _SAMPLE)) if self._held else None
        return replace(self._merge_counts(), sample=sample)

    def _merge_counts(self) -> CellCounts:
        parts = [self._known, *self._waiting]
        keys, places = np.unique(np.concatenate([part.keys for part in parts]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([part.counts for part in parts])).astype(np.int64)
        label_weights = np.zeros((len(keys), 2))
        np.add.at(label_weights, places, np.concatenate([part.label_weights for part in parts]))
        return CellCounts(keys, counts, label_weights, None)


@dataclass(frozen=True, eq=False)
class CellPosterior:
    """A normal density of beta, shape (p,), and of the effects of C cells, in `columns` of the rows, shape (Q,).

    A column of -1 is one of ones that the rows do not have. `mean`, `variance` and `slope` (m, V and W above) have
    shapes (C + 1, Q), (C + 1, Q, Q) and (C + 1, Q, p), the last entry, of rows of no cell, 0. `factor` is L, L L' = C;
    `prior` the covariance of effects, shape (Q, Q).
    """

    beta: FloatArray
    factor: FloatArray
    mean: FloatArray
    variance: FloatArray
    slope: FloatArray
    prior: FloatArray
    columns: IntArray

    @classmethod
    def start(cls, beta: FloatArray, prior: FloatArray, n_cells: int, columns: IntArray) -> "CellPosterior":
        """Return the point at which all effects are 0, to begin at."""
        C, Q, p = n_cells + 1, len(columns), len(beta)
        effects = np.zeros((C, Q)), np.zeros((C, Q, Q)), np.zeros((C, Q, p))
        return cls(beta, np.zeros((p, p)), *effects, prior, columns)

    def with_effects(self, mean: FloatArray, variance: FloatArray) -> "CellPosterior":
        """Return the same density of beta, and one of other cells' effects, shapes (C, Q) and (C, Q, Q)."""
        start = self.start(self.beta, self.prior, len(mean), self.columns)
        start.mean[:-1], start.variance[:-1] = mean, variance
        return replace(start, factor=self.factor)

    @property
    def from_sample(self) -> bool:
        """Whether the effects are those that `with_effects` has from a sample, which do not follow beta."""
        return bool(self.factor.any()) and not self.slope.any()

    @property
    def free(self) -> bool:
        """Whether the effects multiply a column of ones that the rows do not have."""
        return bool(self.columns[0] < 0)

    @property
    def sds(self) -> FloatArray:
        """Sds of the coefficients, shape (p,)."""
        return np.asarray(np.sqrt((self.factor**2).sum(axis=1)))

    def multipliers(self, X: FloatArray) -> FloatArray:
        """Return what rows multiply the effects by, z, shape (n, Q)."""
        if self.free:
            return np.ones((len(X), 1))
        return np.ascontiguousarray(X[:, self.columns])

    def variances(self, X: FloatArray, cell: IntArray) -> FloatArray:
        """Return the variance of the predictor of rows X, shape (n, p), of cells `cell`."""
        z, cell = self.multipliers(X), np.ascontiguousarray(cell)
        variance = _variances_of_beta(X @ self.factor, z, cell, self.pull)
        _add_variances(z, cell, self.variance, variance)
        return np.asarray(variance)

    def predict(self, block: WeightedData) -> "Predicted":
        """Return rows with their cells and predictors."""
        occupied, places = local_codes(block, len(self.mean) - 1)
        cell, z = occupied[places], self.multipliers(block.X)
        with np.errstate(over="ignore", invalid="ignore"):  # where a step leads too far and is then shortened
            eta = block.X @ self.beta
            if block.offset is not None:
                eta += block.offset
            variance = _variances_of_beta(block.X @ self.factor, z, cell, self.pull)
        return Predicted(block, occupied, places, cell, z, eta, variance)

    @cached_property
    def pull(self) -> FloatArray:
        """W L, shape (C + 1, Q, p)."""
        return np.asarray(self.slope @ self.factor)

    def derivatives(self, rows: "Predicted", family: Family) -> FloatArray:
        """Return averages of score, curvature, third and fourth derivative in eta, times weights, shape (4, n)."""
        eta, variance = rows.eta.copy(), rows.variance.copy()
        add_means(rows.z, rows.cell, self.mean, eta)
        _add_variances(rows.z, rows.cell, self.variance, variance)
        terms = averages(eta, np.sqrt(variance), rows.block.y, family)
        terms *= rows.block.weights
        return terms


class Predicted(NamedTuple):
    """Rows, the cells among them, shape (C,), and of each row the place of its cell there, and the cell, shape (n,).

    `z`, shape (n, Q), is what rows multiply effects by, `eta` their predictors at beta without effects, and `variance`
    what beta adds to those of the predictors if effects follow it by their means, shape (n,).
    """

    block: WeightedData
    occupied: IntArray
    places: IntArray
    cell: IntArray
    z: FloatArray
    eta: FloatArray
    variance: FloatArray


@jit
def add_means(z: FloatArray, cell: IntArray, mean: FloatArray, eta: FloatArray) -> None:
    """Add z' m of rows' cells to their predictors."""
    for n in range(len(eta)):
        for q in range(z.shape[1]):
            eta[n] += z[n, q] * mean[cell[n], q]


@jit
def roots_along(z: FloatArray, cell: IntArray, root: FloatArray) -> FloatArray:
    """Return z' L of rows' cells, shape (n, Q), given L, shape (C + 1, Q, Q)."""
    out = np.zeros(z.shape)
    for n in range(len(cell)):
        for q in range(z.shape[1]):
            for r in range(z.shape[1]):
                out[n, r] += z[n, q] * root[cell[n], q, r]
    return out


@jit
def _add_variances(z: FloatArray, cell: IntArray, variance: FloatArray, out: FloatArray) -> None:
    """Add z' V z of rows' cells."""
    for n in range(len(out)):
        for q in range(z.shape[1]):
            for r in range(z.shape[1]):
                out[n] += z[n, q] * variance[cell[n], q, r] * z[n, r]


@jit
def _variances_of_beta(gap: FloatArray, z: FloatArray, cell: IntArray, pull: FloatArray) -> FloatArray:
    """Return the squared lengths of x L - z' W L, given x L, shape (n, p)."""
    out, left = np.zeros(len(gap)), np.empty(gap.shape[1])
    for n in range(len(gap)):
        for d in range(left.size):
            left[d] = gap[n, d]
        for q in range(z.shape[1]):
            times, line = z[n, q], pull[cell[n], q]
            for d in range(left.size):
                left[d] -= times * line[d]
        for d in range(left.size):
            out[n] += left[d] * left[d]
    return out


class CellSums(NamedTuple):
    """By cell sum s z, shape (C + 1, Q), sum c z z', (C + 1, Q, Q), sum c z x', (C + 1, Q, p); tensors of l''', l''''.

    Of all rows sum s x, shape (p,), and sum c x x', (p, p).
    """

    score: FloatArray
    information: FloatArray
    cross: FloatArray
    third: FloatArray
    fourth: FloatArray
    gradient: FloatArray
    precision: FloatArray


def _entries(Q: int, degree: int) -> list[tuple[int, ...]]:
    return list(combinations_with_replacement(range(Q), degree))


def full_tensor(entries: FloatArray, Q: int, degree: int) -> FloatArray:
    """Return symmetric tensors, shape (C, Q, ..., Q), of their different entries."""
    out = np.empty((len(entries), *[Q] * degree))
    for k, places in enumerate(_entries(Q, degree)):
        for order in set(permutations(places)):
            np.moveaxis(out, 0, -1)[order] = entries[:, k]
    return out


def _widths(Q: int, p: int) -> tuple[int, ...]:
    return Q, Q * Q, Q * p, len(_entries(Q, 3)), len(_entries(Q, 4))


@jit
def _add_sums(
    rows: tuple[FloatArray, FloatArray, IntArray], terms: FloatArray, entries: tuple[IntArray, ...], out: FloatArray
) -> None:
    """Add what rows (multipliers, features, lines of `out`) are to `CellSums`, in the order of its fields."""
    z, X, place = rows
    thirds, fourths = entries
    Q, p = z.shape[1], X.shape[1]
    for n in range(len(place)):
        line, s, c = out[place[n]], terms[0, n], terms[1, n]
        for q in range(Q):
            line[q] += s * z[n, q]
            curvature, at = c * z[n, q], Q + Q * Q + q * p
            for r in range(Q):
                line[Q + q * Q + r] += curvature * z[n, r]
            for d in range(p):
                line[at + d] += curvature * X[n, d]
        at = Q + Q * Q + Q * p
        for e in range(len(thirds)):
            line[at + e] += terms[2, n] * z[n, thirds[e, 0]] * z[n, thirds[e, 1]] * z[n, thirds[e, 2]]
        at += len(thirds)
        for e in range(len(fourths)):
            pair = z[n, fourths[e, 0]] * z[n, fourths[e, 1]]
            line[at + e] += terms[3, n] * pair * z[n, fourths[e, 2]] * z[n, fourths[e, 3]]


class BlockSums(NamedTuple):
    """The cells of a block, a table of their sums, shape (C, width), and those of all its rows."""

    cells: IntArray
    table: FloatArray
    gradient: FloatArray
    precision: FloatArray


def block_sums(density: CellPosterior, family: Family, rows: Predicted) -> BlockSums:
    """Return the sums of a block."""
    X, Q, p = rows.block.X, len(density.columns), len(density.beta)
    entries = np.array(_entries(Q, 3)), np.array(_entries(Q, 4))
    table = np.zeros((len(rows.occupied), sum(_widths(Q, p))))
    with np.errstate(over="ignore", invalid="ignore"):  # of counts, where a step leads too far and is then shortened
        terms = density.derivatives(rows, family)
        _add_sums((rows.z, X, rows.places), terms, entries, table)
        return BlockSums(rows.occupied, table, X.T @ terms[0], weighted_gram(X, terms[1]))


def _sum_block(density: CellPosterior, family: Family, _: int, block: WeightedData) -> BlockSums:
    return block_sums(density, family, density.predict(block))


def total(parts: Iterable[BlockSums], density: CellPosterior) -> CellSums:
    """Return the sums of blocks."""
    C, Q, p = len(density.mean), len(density.columns), len(density.beta)
    widths = _widths(Q, p)
    table, gradient, precision = np.zeros((C, sum(widths))), np.zeros(p), np.zeros((p, p))
    for part in parts:
        add_lines(table, part.cells, part.table)
        with np.errstate(over="ignore", invalid="ignore"):
            gradient += part.gradient
            precision += part.precision
    table[-1] = 0.0  # rows of no cell have no effect
    score, information, cross, third, fourth = np.split(table, np.cumsum(widths)[:-1], axis=1)
    half = 0.5 * (precision + precision.T)
    tensors = full_tensor(third, Q, 3), full_tensor(fourth, Q, 4)
    return CellSums(score, information.reshape(C, Q, Q), cross.reshape(C, Q, p), *tensors, gradient, half)


def sums_of(dataset: Dataset, density: CellPosterior, family: Family) -> CellSums:
    """Return the sums over the rows of a source; one pass."""
    return total(dataset.map(partial(_sum_block, density, family), "sums by cell", canonical=True), density)


def sums_of_rows(rows: WeightedData, density: CellPosterior, family: Family) -> CellSums:
    """Return the sums over rows in memory."""
    return total([_sum_block(density, family, 0, rows)], density)
