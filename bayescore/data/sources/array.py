"""Arrays in memory as sources, and weighted rows that are there already."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from bayescore.data.passes.cutter import block_rows
from bayescore.data.passes.tasks import Division, slices
from bayescore.data.sources.blocks import as_counts, labels_of
from bayescore.data.sources.factors import Selection
from bayescore.data.sources.groups import GROUP, Given, coded, grouped, known_groupers
from bayescore.data.sources.kept import check_counts, two_rows_each
from bayescore.data.sources.roles import COUNTS, OFFSET, Roles
from bayescore.data.sources.sparse import check_csr, check_dense, dense
from bayescore.types import NO_GROUP, Design, FloatArray, Grouping, IntArray, LabelArray, WeightedData
from bayescore.validation import DataError, check_matrix, check_offset, check_weights, signed_labels, two_classes


@dataclass(frozen=True, eq=False)
class ArraySource:
    """Rows held in memory as a matrix of any numeric type, dense or CSR; blocks are cut and converted on the way."""

    X: Any
    y: LabelArray
    weights: FloatArray
    classes: tuple[Any, Any]
    label: str
    design: Design
    index: IntArray | None = None
    offset: FloatArray | None = None
    counts: FloatArray | None = None  # successes and trials, shape (2, n)
    group: IntArray | None = None

    @property
    def zero_weights(self) -> bool:
        """Whether some rows weigh nothing."""
        return bool(self.weights.strides[0] and (self.weights == 0.0).any())

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    def division(self, step: int) -> Division:
        """Return a piece for each block."""
        return Division(slices(self, step))

    def rows(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1."""
        cut = slice(low, high)
        raw = np.ascontiguousarray(dense(self.X[cut]), dtype=np.float64)
        index = np.arange(low, high) if self.index is None else self.index[cut]
        offset = None if self.offset is None else self.offset[cut]
        group = None if self.group is None else self.group[cut]
        w = np.ascontiguousarray(self.weights[cut])
        rows = WeightedData(raw, self.y[cut], w, index, offset=offset, group=group)
        yield rows if self.counts is None else two_rows_each(rows, *self.counts[:, cut])

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order."""
        for piece in self.division(block_rows(self.X.shape[1])).pieces:
            yield from piece.read(0, piece.n_rows)


def unlabelled(X: Any, weights: Any = None, name: str = "X") -> ArraySource:
    """Return a matrix as a source whose labels are all +1, for scores that need none."""
    matrix = np.ascontiguousarray(check_dense(X, name), dtype=np.float64)
    n_rows, n_columns = matrix.shape
    w = np.ones(n_rows) if weights is None else check_weights(weights, n_rows)
    design = Design(tuple(f"{name.lower()}{d}" for d in range(n_columns)))
    return ArraySource(matrix, np.ones(n_rows, dtype=np.int8), w, (-1, 1), "y", design)


def rows_source(data: WeightedData) -> ArraySource:
    """Return weighted rows as a source whose labels are -1 and +1."""
    names, offset = tuple(f"x{j}" for j in range(data.n_features)), None if data.offset is None else OFFSET
    codes: Sequence[IntArray] = () if data.group is None else list(data.group.T)
    groups = tuple(
        Grouping(GROUP if len(codes) == 1 else f"{GROUP}{k}", tuple(range(own.max(initial=NO_GROUP) + 1)))
        for k, own in enumerate(codes)
    )
    design = Design(names, offset=offset, groups=groups)
    return ArraySource(data.X, data.y, data.weights, (-1, 1), "y", design, data.index, data.offset, group=data.group)


def array_source(data: Any, roles: Roles, selection: Selection | None = None) -> ArraySource:  # noqa: ARG001
    """Return an array, dense or sparse, and one of labels as a source; all its columns are features, x0, x1, ...

    Raises
    ------
    TypeError
        If `data` is no array.
    DataError
        For wrong shapes, labels that are missing or not of two classes, bad weights or offsets, or names of columns.
    """
    X = check_csr(data) if issparse(data) else check_matrix(data, "data")
    n_rows = X.shape[0]
    weights, offset = roles.weights, roles.offset
    if roles.label is not None:
        raise DataError(f"label={roles.label!r} names a column, but data is an array; give the labels as y")
    if roles.y is None:
        raise DataError("y is missing: give the labels, one for each row of data")
    for name, given in (("weights", weights), ("offset", offset), ("trials", roles.trials)):
        if isinstance(given, str):
            raise DataError(f"{name}={given!r} names a column, but data is an array; give the {name} as an array")
    unit, drop, counts = np.broadcast_to(np.float64(1.0), n_rows), roles.drop, None
    if roles.trials is None:
        y, classes = labelled(roles.y, n_rows, roles)
    else:
        counts = np.stack([as_counts(roles.y, n_rows, "y"), as_counts(roles.trials, n_rows, "trials")])
        check_counts(counts[0], counts[1], ("y", "trials"), 0, drop=drop)
        y, classes = np.ones(n_rows, dtype=np.int8), COUNTS
    given = Given.of(roles.groups, n_rows)
    if given.names and given.columns is None:
        raise DataError(f"groups={roles.groups!r} names a column, but data is an array; give the groups as an array")
    groupers = known_groupers(roles.groupers, given.names) or grouped(given)
    design = Design(
        tuple(f"x{j}" for j in range(X.shape[1])),
        offset=None if offset is None else OFFSET,
        groups=tuple(by.grouping for by in groupers),
    )
    return ArraySource(
        X=X,
        y=y,
        weights=unit if weights is None else check_weights(weights, n_rows, zero=True, drop=drop),
        classes=classes,
        label="y",
        design=design,
        offset=None if offset is None else check_offset(offset, n_rows, drop=drop),
        counts=counts,
        group=coded(given, groupers, drop=drop),
    )


def labelled(y: Any, n_rows: int, roles: Roles) -> tuple[LabelArray, tuple[Any, Any]]:
    """Return labels as signs, 0 where they are missing and may be, and the two classes."""
    labels, found = labels_of(y, n_rows)
    missing = np.asarray(pd.isna(labels)) if roles.drop else np.zeros(0, dtype=np.bool_)
    if not missing.any():
        classes = two_classes(found, positive=roles.positive)
        return signed_labels(labels, classes, 0), classes
    classes = two_classes({v: place for v, place in found.items() if not pd.isna(v)}, positive=roles.positive)
    signs = np.zeros(n_rows, dtype=np.int8)
    signs[~missing] = signed_labels(labels[~missing], classes, 0)
    return signs, classes
