r"""Sums of predicted probabilities over the rows of each level of a factor, at many draws.

Near the mean t of the draws most probabilities are almost quadratic. With value, gradient and second derivatives of

.. math:: P_k(\theta) = \sum_{n \in k} w_n\, p(\eta_n(\theta))

at t by one pass, what is left of P_k at a draw is summed over a sample of the level's rows, each over its inclusion
probability, as `row_sums` does for log-likelihoods. A row is drawn by its reach w (|p'''| + `_FLOOR`) r^3 / 6, r the
sd of its predictor over the draws, so that rows which move far are in the sample for certain. The sample tells its
standard error.

When to use it: for averages over many rows; over few, and where groups have effects, each row is evaluated at each
draw.

Reference: Quiroz, Kohn, Villani and Tran (2019), Speeding up MCMC by efficient data subsampling, JASA 114.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bayescore.coresets.calibration.pilot import LaplaceApproximation
from bayescore.coresets.sampling.fixed_size import Bar, Candidates, Pool, candidates, select
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.models.families import Family
from bayescore.models.posterior import Derivatives
from bayescore.models.predictor import Predictor
from bayescore.models.row_kernels import derivatives_of
from bayescore.samplers.poststratify import sums_of_piece
from bayescore.samplers.raw_columns import raw_column
from bayescore.types import FloatArray, IntArray, WeightedData

SAMPLE_ROWS = 2000  # of each level
_FLOOR = 0.01  # third derivative that rows far out are taken to have, a tenth of the logistic one at 0
_SEED = 2021  # of the sample: the same data give the same rows
_WITHIN = 4.0  # sds of its predictor within which a row's largest third derivative counts
_CACHE = 1 << 17  # entries of a tile of rows: 1 MB


@dataclass(frozen=True, eq=False)
class Levels:
    """A factor's levels, and which rows count for each: its own, or with `everyone` all as if they had it.

    Blocks are raw rows, or with `designed` rows of the design matrix, whose columns tell the factor.
    """

    design: Design
    name: str
    values: tuple[float, ...]  # of a column of text the codes
    everyone: bool
    designed: bool
    sides: bool = False  # whether rows are sides of counts

    def column(self, block: WeightedData) -> FloatArray:
        """Return the factor's raw column, shape (n,)."""
        if not self.designed:
            return np.asarray(block.X[:, self.design.raw_names.index(self.name)])
        found = raw_column(self.design, block.X, self.name)
        assert found is not None
        return found

    def parts(self, block: WeightedData) -> Iterator[tuple[WeightedData, IntArray]]:
        """Yield rows of the design matrix, in the block's order, and the place of the level that each counts for.

        Of counts, rows of both sides, only those of the exposure do: the average is of rates by exposure.
        """
        if self.sides:
            block = block.take(block.y < 0)
        if not self.everyone:
            values = np.round(self.column(block), 9)
            X = block.X if self.designed else self.design.transform(block.X)
            yield replace(block, X=X), np.searchsorted(self.values, values)
            return
        raw = np.array(block.X)
        if self.designed:
            found = (raw_column(self.design, block.X, own) for own in self.design.raw_names)
            raw = np.column_stack([np.zeros(len(block)) if own is None else own for own in found])
        for place, value in enumerate(self.values):
            raw[:, self.design.raw_names.index(self.name)] = value
            yield replace(block, X=self.design.transform(raw)), np.full(len(block), place)


class LevelSums(NamedTuple):
    """Of each of K levels: the sums at S draws, shape (K, S), the rows' weight and the sums' standard error, (K,)."""

    values: FloatArray
    weight: FloatArray
    error: FloatArray


def every_row(dataset: Dataset, levels: Levels, predictor: Predictor, family: Family) -> LevelSums:
    """Return the sums with each row evaluated at each draw; one pass."""
    K, step = len(levels.values), max(1, _CACHE // len(predictor))

    def one(_: int, block: WeightedData) -> tuple[FloatArray, FloatArray]:
        sums, total = np.zeros((K, len(predictor))), np.zeros(K)
        for rows, codes in levels.parts(block):
            total += np.bincount(codes, rows.weights, K)
            for start in range(0, len(rows), step):
                cut = slice(start, start + step)
                sums += sums_of_piece(predictor, family, rows.take(cut), codes[cut], K)
        return sums, total

    values, weight = np.zeros((K, len(predictor))), np.zeros(K)
    for sums, total in dataset.map(one, "averaging", canonical=True):
        values, weight = values + sums, weight + total
    return LevelSums(values, weight, np.zeros(K))


class _Seen(NamedTuple):
    """Of some rows that count for a level: sums of p and its derivatives, of weights and of reaches, and candidates."""

    place: int
    terms: Derivatives
    sums: FloatArray
    candidates: Candidates


@dataclass(frozen=True, eq=False)
class _Look:
    """What a pass asks of each row, given a normal approximation to the draws."""

    laplace: LaplaceApproximation
    levels: Levels

    def __call__(self, start: int, block: WeightedData, bars: list[Bar]) -> list[_Seen]:
        """Look at a block, its first row at position `start` of the data."""
        found = []
        for rows, codes in self.levels.parts(block):
            eta, squares = self.laplace.predictors(rows)
            p, slope, bend, _ = derivatives_of_mean(eta, self.laplace.family)
            reach = rows.weights * (_third(eta, np.sqrt(squares), self.laplace.family) + _FLOOR) * squares**1.5 / 6.0
            for place in np.flatnonzero(np.bincount(codes)):
                own = codes == place
                X, w = rows.X[own], rows.weights[own]
                curvature = (X * (w * bend[own])[:, None]).T @ X
                terms = Derivatives(float(w @ p[own]), (w * slope[own]) @ X, -curvature)
                q = np.where(own, reach, 0.0)
                with np.errstate(divide="ignore"):  # rows of other levels are not drawn
                    drawn = candidates(q, start, rows, SAMPLE_ROWS, _SEED, bar=bars[place])
                found.append(_Seen(int(place), terms, np.array([w.sum(), q.sum()]), drawn))
        return found


def sampled(dataset: Dataset, levels: Levels, draws: FloatArray, family: Family) -> LevelSums | None:
    """Return the sums from a sample of the rows; one pass. None where draws, shape (S, D), are too few to have scales.

    The error is the RMS over draws of the standard error, from the sample.
    """
    mean, D, K = draws.mean(axis=0), draws.shape[1], len(levels.values)
    try:
        factor = np.asarray(np.linalg.cholesky(np.cov(draws, rowvar=False).reshape(D, D)), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    look, bars = _Look(LaplaceApproximation(family, mean, factor), levels), [Bar()] * K
    pools, sums = [Pool(SAMPLE_ROWS) for _ in range(K)], np.zeros((K, 2))
    terms = [Derivatives(0.0, np.zeros(D), np.zeros((D, D)))] * K

    def one_block(start: int, block: WeightedData) -> list[_Seen]:
        return look(start, block, bars)

    for found in dataset.map(one_block, "averaging", canonical=True):
        for one in found:
            terms[one.place] = terms[one.place] + one.terms
            sums[one.place] += one.sums
            bars = [*bars[: one.place], pools[one.place].add(one.candidates), *bars[one.place + 1 :]]
    values, error, moves = np.zeros((K, len(draws))), np.zeros(K), draws - mean
    for place in np.flatnonzero(sums[:, 0] > 0.0):
        part = terms[place]
        sample = select(pools[place].best(), SAMPLE_ROWS, float(sums[place, 1]))
        rest, variance = _beyond(sample.expanded(), sample.inclusion, look.laplace, moves)
        quadratic = 0.5 * ((moves @ part.precision) * moves).sum(axis=1)
        values[place] = part.value + moves @ part.gradient - quadratic + rest
        error[place] = np.sqrt(variance)
    return LevelSums(values, sums[:, 0], error)


def derivatives_of_mean(eta: FloatArray, family: Family) -> FloatArray:
    """Return P(y = +1) and its first three derivatives at eta, shape (n,), as the rows of a matrix, shape (4, n)."""
    log_p, s, c, third = derivatives_of(eta, np.ones(len(eta), dtype=np.int8), family)
    p = np.exp(np.minimum(log_p, family.reach))  # the log of a rate may be above 0
    return np.stack([p, p * s, p * (s**2 - c), p * (s**3 - 3.0 * s * c + third)])


def _third(eta: FloatArray, r: FloatArray, family: Family) -> FloatArray:
    """Return the largest of some third derivatives of p, in size, where a row's predictor may be, shape (n,)."""
    move = _WITHIN * r
    places = (np.clip(eta + x * move, -family.reach, family.reach) for x in (-1.0, -0.5, 0.0, 0.5, 1.0))
    return np.asarray(np.max([np.abs(derivatives_of_mean(at, family)[3]) for at in places], axis=0))


def _beyond(
    rows: WeightedData, inclusion: FloatArray, laplace: LaplaceApproximation, moves: FloatArray
) -> tuple[FloatArray, float]:
    """Return what a sample says of the sums beyond second order, shape (S,), and its mean variance over draws."""
    total, variance, family = np.zeros(len(moves)), 0.0, laplace.family
    step = max(1, _CACHE // len(moves))
    for start in range(0, len(rows), step):
        part = rows.take(cut := slice(start, start + step))
        eta, move = part.with_offset(part.X @ laplace.theta), part.X @ moves.T
        p, slope, bend, _ = derivatives_of_mean(eta, family)[..., None]
        rest = family.mean(eta[:, None] + move) - p - move * (slope + 0.5 * move * bend)
        total += part.weights @ rest
        variance += float((part.weights**2 * (1.0 - inclusion[cut])) @ (rest**2).mean(axis=1))
    return total, variance
