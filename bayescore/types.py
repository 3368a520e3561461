"""The few types that every room of bayescore shares.

A block of a stream, a full data set and a coreset are all `WeightedData`: rows, labels in {-1, +1} and
positive weights. Whatever takes one takes the others, so coresets compose.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
LabelArray = NDArray[np.int8]
Parts = tuple[tuple[str, str], ...]
"""Columns that a grouping factor joins, and what kind of levels each has; () of a factor of one column."""

A = TypeVar("A", bound=NDArray[Any])

NO_ROW = -1  # the index of pseudo-rows, which stand for many rows and are not in the data
NO_GROUP = -1  # code of a row that belongs to no group

INTERCEPT = "Intercept"
"""What the column of ones is called, as formulas and bambi call it."""


def read_only(array: A) -> A:
    """Return a view of `array` that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


NO_OFFSET: FloatArray = read_only(np.empty(0))  # what compiled kernels take where rows have no offsets


@dataclass(frozen=True, eq=False)
class WeightedData:
    """Rows of a design matrix with labels and weights; all arrays are read-only.

    Parameters
    ----------
    X : array, shape (n, D)
        Rows of the design matrix.
    y : int8 array, shape (n,)
        Labels, -1 or +1.
    weights : array, shape (n,)
        Positive weights: a row of weight w counts as w rows.
    index : int64 array, shape (n,)
        Number of each row in the data that it comes from; `NO_ROW` of pseudo-rows.
    offset : array, shape (n,), optional
        Known part o_n of each row's linear predictor, x_n . beta + o_n.
    group : int64 array, shape (n, F), optional
        Group of each row for each of F grouping factors: the place of its level in the factor's `Grouping`. `NO_GROUP`
        for a row that belongs to none, as pseudo-rows of a coreset may; data have no such rows.
    """

    X: FloatArray
    y: LabelArray
    weights: FloatArray
    index: IntArray
    offset: FloatArray | None = field(default=None, kw_only=True)
    group: IntArray | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("X", "y", "weights", "index", "offset", "group"):
            if (array := getattr(self, name)) is not None:
                object.__setattr__(self, name, read_only(array))

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_features(self) -> int:
        """Number of columns of the design matrix."""
        return int(self.X.shape[1])

    @property
    def pseudo(self) -> NDArray[np.bool_]:
        """Which rows are pseudo-rows, shape (n,): they stand for many rows, and the data do not have them."""
        return np.asarray(self.index == NO_ROW)

    @property
    def group_codes(self) -> IntArray:
        """`group` of rows that have groups."""
        assert self.group is not None
        return self.group

    @property
    def offsets(self) -> FloatArray:
        """`offset` of rows that have offsets."""
        assert self.offset is not None
        return self.offset

    @property
    def Z(self) -> FloatArray:
        """Signed rows z_n = y_n x_n, shape (n, D), whose half-spaces tell whether labels are separated."""
        return self.X * self.y[:, None]

    def with_offset(self, eta: FloatArray) -> FloatArray:
        """Return x . beta, shape (n,) or (n, S), with the offsets added: the linear predictor."""
        if self.offset is None:
            return eta
        return eta + (self.offset if eta.ndim == 1 else self.offset[:, None])

    def mirrored(self, sign: int) -> Self:
        """Return rows that give -beta the likelihood of beta by these, if `sign` is -1."""
        return replace(self, y=self.y * sign, offset=None if self.offset is None else self.offset * sign)

    def take(self, which: NDArray[Any] | slice) -> Self:
        """Return the rows `which` (integers, a mask or a slice), in that order."""
        offset = None if self.offset is None else self.offset[which]
        group = None if self.group is None else self.group[which]
        X, y, weights, index = self.X[which], self.y[which], self.weights[which], self.index[which]
        return replace(self, X=X, y=y, weights=weights, index=index, offset=offset, group=group)

    def with_weights(self, weights: FloatArray) -> Self:
        """Return the same rows with other weights, shape (n,)."""
        return replace(self, weights=weights)


def stack(parts: Sequence[WeightedData]) -> WeightedData:
    """Put the rows of several data sets below each other."""
    offset = None
    if any(part.offset is not None for part in parts):  # rows beside pseudo-rows may have none
        offset = np.concatenate([np.zeros(len(part)) if part.offset is None else part.offset for part in parts])
    return WeightedData(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.index for part in parts]),
        offset=offset,
        group=None if parts[0].group is None else np.concatenate([part.group for part in parts]),
    )


def stack_some(parts: Sequence[WeightedData], places: Sequence[IntArray]) -> WeightedData:
    """Put the rows at some places of several data sets below each other; their columns are copied once."""
    narrow = [replace(part, X=part.X[:, :0]).take(at) for part, at in zip(parts, places, strict=True)]
    X, start = np.empty((sum(len(at) for at in places), parts[0].n_features)), 0
    for part, at in zip(parts, places, strict=True):
        np.take(part.X, at, axis=0, out=X[start : start + len(at)], mode="clip")  # other modes copy twice
        start += len(at)
    return replace(stack(narrow), X=X)
