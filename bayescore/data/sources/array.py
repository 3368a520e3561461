"""Arrays in memory as sources, and weighted rows that are there already."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from bayescore.data.design import Design, Grouping
from bayescore.data.factors import Selection
from bayescore.data.labels import signed_labels
from bayescore.data.passes.cutter import block_rows
from bayescore.data.passes.tasks import Division, slices
from bayescore.data.sources.groups import GROUP, Given, coded, groupers_of, groups_seen, known_groupers
from bayescore.data.sources.kept import as_counts, check_counts, two_rows_each
from bayescore.data.sources.roles import COUNTS, OFFSET, Roles
from bayescore.data.sources.survey import Seen, Survey, labels_of, merged
from bayescore.data.sparse import check_csr, check_dense, dense
from bayescore.types import NO_GROUP, FloatArray, IntArray, LabelArray, WeightedData
from bayescore.validation import DataError, check_matrix, check_offset, check_weights


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
    survey: Survey = field(default_factory=Survey)  # of rows that are there already nothing is to be learnt

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
    survey = Survey(len(data), zero_weights=bool((data.weights == 0.0).any()))
    beside = (-1, 1), "y", design, data.index, data.offset
    return ArraySource(data.X, data.y, data.weights, *beside, group=data.group, survey=survey)


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
    if roles.trials is not None:
        counts = np.stack([as_counts(roles.y, n_rows, "y"), as_counts(roles.trials, n_rows, "trials")])
        check_counts(counts[0], counts[1], ("y", "trials"), 0, drop=drop)
        y, told, classes = np.ones(n_rows, dtype=np.int8), Seen.of(COUNTS), COUNTS
    else:
        labels, told = labels_of(roles.y, n_rows)
        classes = Survey(n_rows, told).classes("y", roles.positive, drop=drop)
        y, there = np.zeros(n_rows, dtype=np.int8), ~pd.isna(labels) if told.missing else slice(None)
        y[there] = signed_labels(labels[there], classes, 0)
    given = Given.of(roles.groups, n_rows)
    if given.names and given.columns is None:
        raise DataError(f"groups={roles.groups!r} names a column, but data is an array; give the groups as an array")
    known = known_groupers(roles.groupers, given.names)
    new = {} if known or given.columns is None else groups_seen(given.columns, given.names)
    w = unit if weights is None else check_weights(weights, n_rows, zero=True, drop=drop)
    survey = merged([Survey(n_rows, told, new, weights is not None and bool((w == 0.0).any()))], given.names)
    groupers = known or groupers_of(survey, given.names)
    design = Design(
        tuple(f"x{j}" for j in range(X.shape[1])),
        offset=None if offset is None else OFFSET,
        groups=tuple(by.grouping for by in groupers),
    )
    return ArraySource(
        X=X,
        y=y,
        weights=w,
        classes=classes,
        label="y",
        design=design,
        offset=None if offset is None else check_offset(offset, n_rows, drop=drop),
        counts=counts,
        survey=survey,
        group=coded(given, groupers, drop=drop),
    )
