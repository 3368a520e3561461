r"""Lossless coresets: identical rows of one label, offset and group become one row of the sum of their weights.

The posterior is exactly that of the full data. When to use it: discrete data, where it is the best coreset
there is (the binary data of Huggins et al. 2016 at N = 1e6 have some 370 distinct rows).

Sums of rows whose responses are numbers with normal noise: a few rows with exactly the likelihood of all.

With a_n = (x_n, -y_n) the log-likelihood is a quadratic in A'WA alone. With T'T = A'WA, T triangular of at most D + 1
rows, the rows of T times sqrt((D + 1) / W), of weight W / (D + 1) each, W the sum of weights, have the same
log-likelihood, constants included.

Effects of groups are parameters beside the coefficients. Rows that agree in their groups are a cell.

- Where only intercepts vary, a cell's rows say W_c and the mean of a_n of its effects, and all cells together one sum
  of squares about these means: a row for each cell, and at most D + 1 rows of no group and of next to no weight.
- Where slopes vary the rows of each cell become at most D + 1, by its own triangle.

Triangles of two parts are joined by another QR decomposition, so that sums of squares are never formed and an answer
is as accurate as the rows. Means of parts are joined as in Chan, Golub and LeVeque (1983), Algorithms for computing the
sample variance, The American Statistician 37. `stream` keeps the same sums.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np

from bayescore.coresets.method import BuildInfo, BuildResult, Method
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design, terms_text
from bayescore.data.source import block_rows
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.files import Arrays
from bayescore.limits import MAX_FAR
from bayescore.numerics.identical_rows import COLLISION, TOO_MANY, merge_identical
from bayescore.priors.groups import does_not_vary
from bayescore.types import NO_GROUP, NO_ROW, FloatArray, IntArray, WeightedData, stack
from bayescore.validation import DataError

WITHIN = 1e-6
"""Weight of rows that say a sum of squares about cells' means: it should add nothing to the sum of weights."""


@dataclass(frozen=True)
class LosslessInfo(BuildInfo):
    """That nothing was lost."""

    lossless: bool = True


@dataclass(frozen=True, eq=False)
class CellMoments:
    """Moments of rows by cell: codes, in order, weights, means of (x, -y), and Cholesky triangles about these.

    Triangles are one for each cell where slopes vary (`apart`), else one of all, in `triangle`, shape (1, ...).
    """

    apart: bool
    codes: IntArray  # (C, F)
    weight: FloatArray  # (C,)
    mean: FloatArray  # (C, D + 1)
    triangle: FloatArray  # (C or 1, k, D + 1)
    ends: FloatArray  # smallest and largest y

    @classmethod
    def empty(cls, n_columns: int, n_factors: int, *, apart: bool) -> Self:
        """Return empty moments."""
        width, n_triangles = n_columns + 1, 0 if apart else 1
        codes, weight, mean = np.empty((0, n_factors), dtype=np.int64), np.empty(0), np.empty((0, width))
        ends = np.array([np.inf, -np.inf])
        return cls(apart, codes, weight, mean, np.zeros((n_triangles, width, width)), ends)

    @classmethod
    def of(cls, rows: WeightedData, *, apart: bool) -> Self:
        """Return those of some rows.

        Rows of no known group are a cell too, but for those that `rows` made of the sum of squares about cells' means.
        """
        a = np.column_stack([rows.X, rows.offsets])
        group = np.empty((len(a), 0), dtype=np.int64) if rows.group is None else np.asarray(rows.group)
        ends = np.array([-rows.offsets.max(), -rows.offsets.min()]) if len(a) else np.array([np.inf, -np.inf])
        inside = np.ones(len(a), dtype=bool)
        if group.shape[1] and not apart:
            inside = (group != NO_GROUP).any(axis=1) | (rows.index != NO_ROW) | (rows.weights > WITHIN)
        w = rows.weights
        codes, place = np.unique(group[inside], axis=0, return_inverse=True)
        place, n_cells = place.reshape(-1), len(codes)
        weight = np.asarray(np.bincount(place, w[inside], n_cells), dtype=np.float64)
        order = np.argsort(place, kind="stable")
        first = np.searchsorted(place[order], np.arange(n_cells))
        summed = np.add.reduceat((w[:, None] * a)[inside][order], first) if n_cells else np.empty((0, a.shape[1]))
        mean = summed / weight[:, None]
        about = (a[inside] - mean[place]) * np.sqrt(w[inside])[:, None]
        if apart:
            parts = np.split(about[order], first[1:])
            triangle = np.array([triangles(part) for part in parts]).reshape(-1, *2 * a.shape[1:])
        else:
            squares = a[~inside] * np.sqrt(w[~inside])[:, None]
            triangle = triangles(np.vstack([about, squares]))[None]
        return cls(apart, codes, weight, mean, triangle, ends)

    def __add__(self, other: "CellMoments") -> "CellMoments":
        codes, place = np.unique(np.vstack([self.codes, other.codes]), axis=0, return_inverse=True)
        place, width = place.reshape(-1), self.mean.shape[1]
        parts = []
        for moments, at in ((self, place[: len(self.codes)]), (other, place[len(self.codes) :])):
            weight, mean = np.zeros(len(codes)), np.zeros((len(codes), width))
            weight[at], mean[at] = moments.weight, moments.mean
            triangle = moments.triangle
            if self.apart:
                triangle = np.zeros((len(codes), width, width))
                triangle[at] = moments.triangle
            parts.append((weight, mean, triangle))
        (w, m, t), (v, n, u) = parts
        total = w + v
        share = v / total
        both = (w > 0.0) & (v > 0.0)
        between = (np.sqrt(w * share)[:, None] * (n - m))[both]
        if self.apart:
            triangle = t + u  # one of them is 0, but of cells that both have
            triangle[both] = triangles(np.concatenate([t[both], u[both], between[:, None]], axis=1))
        else:
            triangle = triangles(np.vstack([t[0], u[0], between]))[None]
        ends = np.array([min(self.ends[0], other.ends[0]), max(self.ends[1], other.ends[1])])
        mean = np.where((w > 0.0)[:, None], m + share[:, None] * (n - m), n)
        return CellMoments(self.apart, codes, total, mean, triangle, ends)

    def check_vary(self) -> None:
        """Raise if all responses are one number, or nearly; of a part of the rows they may be."""
        if self.ends[0] == self.ends[1]:
            raise DataError(does_not_vary(self.ends[0]))
        if (size := np.abs(self.ends).max()) > MAX_FAR * (width := self.ends[1] - self.ends[0]):
            raise DataError(
                f"responses y are up to {size:g} in size, and their range is {width:g}: above {MAX_FAR:g} times it "
                "rounding errors show; subtract the mean of y"
            )

    def rows(self) -> WeightedData:
        """Return weighted rows that have these moments."""
        F = self.codes.shape[1]
        if F and not self.apart:
            keep = self.triangle[0].any(axis=1)
            a = np.vstack([self.mean, self.triangle[0][keep] / np.sqrt(WITHIN)])
            weights = np.append(self.weight, np.full(keep.sum(), WITHIN))
            group = np.vstack([self.codes, np.full((keep.sum(), F), NO_GROUP)])
        else:
            whole = np.concatenate([np.sqrt(self.weight)[:, None, None] * self.mean[:, None], self.triangle], axis=1)
            factors = triangles(whole)
            keep = np.asarray(factors.any(axis=2))
            keep[:, 0] |= ~keep.any(axis=1)
            each = self.weight / keep.sum(axis=1)
            cell = np.repeat(np.arange(len(whole)), keep.sum(axis=1))
            weights = each[cell]
            a, group = factors[keep] / np.sqrt(weights)[:, None], self.codes[cell]
        n = len(a)
        X, offset = np.ascontiguousarray(a[:, :-1]), np.ascontiguousarray(a[:, -1])
        index = np.full(n, NO_ROW)
        return WeightedData(
            X,
            np.ones(n, dtype=np.int8),
            weights,
            index,
            offset=offset,
            group=np.ascontiguousarray(group) if F else None,
        )


def triangles(rows: FloatArray) -> FloatArray:
    """Return square triangles T, shape (..., K, K), with T'T that of rows, (..., n, K), and no negative diagonal."""
    T: FloatArray = np.asarray(np.linalg.qr(rows, mode="r"))
    signs = np.where(np.diagonal(T, axis1=-2, axis2=-1) < 0.0, -1.0, 1.0)
    triangle = np.zeros((*rows.shape[:-2], rows.shape[-1], rows.shape[-1]))
    triangle[..., : T.shape[-2], :] = T * signs[..., None]
    return triangle


def needs_cell_triangles(design: Design) -> bool:
    """Return whether slopes vary, so that sums are kept by cell; raise if effects vary without a common intercept."""
    effects = {effect for group in design.groups for effect in group.effects}
    if effects <= {"1"}:
        return False
    if "1" in effects and design.constant is None:
        raise DataError(
            f"the effects {terms_text(design.groups)} are beside no common intercept, and sums of numbers need one: "
            "leave '0 +' out of the formula"
        )
    return True


def sum_rows(dataset: Dataset) -> WeightedData:
    """Return few weighted rows with the moments of all rows, by cell; one pass."""
    design = dataset.design
    total = CellMoments.empty(dataset.n_features, len(design.groups), apart=needs_cell_triangles(design))
    for part in dataset.map(partial(_block_moments, total.apart), "adding up rows", canonical=True):
        total = total + part
    if design.classes is None:  # rows in a design of others are a part
        total.check_vary()
    return total.rows()


def _block_moments(apart: bool, _start: int, block: WeightedData) -> CellMoments:
    return CellMoments.of(block, apart=apart)


@dataclass(frozen=True, eq=False)
class SumsState:
    """The sums of a stream."""

    method: Method
    sums: CellMoments

    def absorbed(self, block: WeightedData) -> Self:
        """Return the state with a block more."""
        return replace(self, sums=self.sums + CellMoments.of(block, apart=self.sums.apart))

    def answer(self, rest: WeightedData | None) -> BuildResult[LosslessInfo]:
        """Return the rows of all sums, with the rows left over."""
        whole = self if rest is None else self.absorbed(rest)
        whole.sums.check_vary()
        return BuildResult(whole.sums.rows(), LosslessInfo(), self.method)

    def to_arrays(self) -> Arrays:
        """Return the sums as arrays."""
        sums = self.sums
        named = {"codes": sums.codes, "cell_weights": sums.weight, "mean": sums.mean}
        return {**named, "triangle": sums.triangle, "ends": sums.ends}

    def from_arrays(self, arrays: Arrays) -> Self:
        """Return the state of `to_arrays`."""
        parts = (arrays[name] for name in ("codes", "cell_weights", "mean", "triangle", "ends"))
        return replace(self, sums=CellMoments(self.sums.apart, *parts))


def aggregate(dataset: Dataset, limit: float = math.inf) -> WeightedData | None:
    """Merge identical rows, in order of their first appearance; None if more than `limit` are distinct."""
    salt = 0
    while (result := _aggregate(dataset, limit, salt)) == COLLISION:
        salt += 1
    return None if isinstance(result, str) else result


def _aggregate(dataset: Dataset, limit: float, salt: int) -> WeightedData | str:
    number: dict[int, tuple[int, int]] = {}  # first hash -> place among the distinct rows, second hash
    kept: list[WeightedData] = []
    total = np.zeros(1024)
    for grouped in dataset.map(
        lambda _, block: merge_identical(block, limit, salt),
        "merging rows",
        canonical=True,  # weights are added in the order of the blocks
    ):
        if isinstance(grouped, str):
            return grouped
        rows, hashes = grouped
        pairs = hashes.tolist()
        fresh = np.array([i for i, (g, _) in enumerate(pairs) if g not in number], dtype=np.int64)
        for i in fresh.tolist():
            number[pairs[i][0]] = (len(number), pairs[i][1])
        if len(number) > limit:
            return TOO_MANY
        kept.append(rows.take(fresh))
        numbers = [number[g] for g, _ in pairs]
        if any(h != second for (_, h), (_, second) in zip(pairs, numbers, strict=True)):
            return COLLISION
        if len(number) > len(total):
            total = np.concatenate([total, np.zeros(2 * len(number) - len(total))])
        total[[place for place, _ in numbers]] += rows.weights
    rows = stack(kept)
    return rows.with_weights(total[: len(rows)].copy())


@dataclass(frozen=True)
class Aggregate(Method):
    """Merges identical rows, or adds up all rows of numbers with normal noise: lossless. No options, and no size.

    Numbers of a normal family become a row a column and one more, or as many a group (`coresets.aggregate`); only of
    these a `stream` may have it.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 3, size=(5000, 2)).astype(float)
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> len(bc.build_coreset(X, y, method="aggregate", progressbar=False))
    18
    """

    name: ClassVar[str] = "aggregate"
    one_pass: ClassVar[bool] = True
    takes_size: ClassVar[bool] = False
    sums: ClassVar[bool] = True
    knows_groups: ClassVar[bool] = True
    keeps_curvature: ClassVar[bool] = True

    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> BuildResult[LosslessInfo]:
        """Merge identical rows, or add up rows of numbers."""
        if family.quadratic:
            return BuildResult(sum_rows(dataset), LosslessInfo(), self)
        built = self.within(dataset, math.inf)
        assert built is not None
        return built

    def within(self, dataset: Dataset, limit: float) -> BuildResult[LosslessInfo] | None:
        """Merge identical rows, unless more than `limit` are distinct."""
        rows = aggregate(dataset, limit)
        return None if rows is None else BuildResult(rows, LosslessInfo(), self)

    def stream_block(self, size: int, n_features: int) -> int:
        """Return the rows of a canonical block."""
        return block_rows(n_features)

    def begin(self, size: int, design: Design, seed: int, family: str) -> SumsState:
        """Return the sums before the first row; raise `ValueError` unless responses are numbers."""
        if not check_family(family, seek=True).quadratic:
            raise ValueError(
                f"method='aggregate' keeps every distinct row of family={family!r}, however many a stream brings: "
                "give method='merge_reduce', or build_coreset the rows"
            )
        return SumsState(
            self, CellMoments.empty(len(design.names), len(design.groups), apart=needs_cell_triangles(design))
        )
