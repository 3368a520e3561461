"""Rows for averages and checks: those that a user gives, or a random sample of all rows, each as its raw columns.

Averages over all rows come from `MAX_ROWS` of them, drawn without replacement by a hash of their places, so that the
same rows are drawn whatever the source. The standard error of that is stated with each average.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bayescore.coresets.sampling.draw import merge, uniform_rows
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.sources.paired import two_rows_each
from bayescore.data.tables import feature_matrix
from bayescore.diagnostics.averages import MAX_VALUES
from bayescore.diagnostics.dispersion import sampled_counts
from bayescore.fitting.given import Given
from bayescore.fitting.parts import FitParts
from bayescore.samplers.new_rows import groups_of, offset_of, positive_rows
from bayescore.samplers.raw_columns import factor_levels
from bayescore.types import NO_GROUP, FloatArray, IntArray, WeightedData
from bayescore.validation import DataError

MAX_ROWS = 20_000
"""Rows that stand for all: an average of effects as spread as their own size is then known to 0.7% of it."""
_SEED = 7041  # of the sample


@dataclass(frozen=True, eq=False)
class RawRows:
    """Rows with X in the data's own columns, text as codes; `n_total` is how many they stand for."""

    rows: WeightedData
    design: Design
    n_total: int
    events: FloatArray | None = None  # of counts, where known; weights are then exposures

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> FloatArray:
        """Return a raw column, shape (n,); of text the places of its levels."""
        return self.rows.X[:, self._place(name)]

    def with_column(self, name: str, values: FloatArray | float) -> WeightedData:
        """Return the rows in the design, with a raw column replaced."""
        raw = self.rows.X.copy()
        raw[:, self._place(name)] = values
        return self.designed(raw)

    def designed(self, raw: FloatArray | None = None) -> WeightedData:
        """Return the rows in the design."""
        return replace(self.rows, X=self.design.transform(self.rows.X if raw is None else raw))

    def sides(self) -> WeightedData:
        """Return the rows in the design, of counts both sides of each."""
        rows = self.designed()
        if self.events is None:
            return rows
        return two_rows_each(rows.with_weights(np.ones(len(rows))), np.stack([self.events, rows.weights]))

    def levels(self, name: str) -> tuple[list[Any], IntArray] | None:
        """Return the levels of a factor and each row's place among them; None of a column of numbers."""
        column = self.column(name)
        known = factor_levels(self.design, name)
        if not known:
            return None
        if name in dict(self.design.raw_levels):
            return list(known), np.rint(column).astype(np.int64)
        return list(known), np.searchsorted(np.asarray(known, dtype=np.float64), column).astype(np.int64)

    def parts(self, name: str | None) -> tuple[pd.Index | None, IntArray]:
        """Return the values of a column that parts the rows, and each row's place among them."""
        if name is None:
            return None, np.zeros(len(self), dtype=np.int64)
        for place, own in enumerate(self.design.groups):
            if own.name == name and self.rows.group is not None:
                codes = self.rows.group[:, place]
                if (new := np.flatnonzero(codes == NO_GROUP)).size:
                    raise DataError(f"by={name!r}: row {new[0]} of data is of a group that the fit does not know")
                return pd.Index(own.levels, name=name), codes
        found = self.levels(name)
        if found is None:
            values, codes = np.unique(self.column(name), return_inverse=True)
            if len(values) > MAX_VALUES:
                raise DataError(f"by={name!r} has {len(values):,} values, more than {MAX_VALUES}; give a factor")
            found = values.tolist(), codes
        return pd.Index(found[0], name=name), found[1]

    def _place(self, name: str) -> int:
        if name not in self.design.raw_names:
            known = ", ".join(map(repr, self.design.raw_names[:10]))
            raise DataError(f"{name!r} is no column that the fit knows; they are {known}")
        return self.design.raw_names.index(name)


def raw_rows(fit: FitParts, data: Any, *, others: bool = False) -> RawRows:
    """Return rows that are given, each of weight 1, or a sample of all rows that the fit was made of, or of others."""
    design = fit.coreset.design
    if data is None:
        found = _sample(fit.rows_given, fit)
        if not (others or fit.coreset.counts) and found.n_total != fit.coreset.n_total:
            raise DataError(
                f"the rows are {found.n_total:,}, and the fit was made of {fit.coreset.n_total:,}: give the same rows"
            )
        return found
    raw = feature_matrix(data, design.raw_names, design.raw_levels)
    if not len(raw):
        raise DataError("data has no rows, so there is no average; give at least one")
    posterior = fit.posterior()
    beside = offset_of(posterior, data, len(raw), None), groups_of(posterior, data, len(raw), None)
    return RawRows(positive_rows(raw, *beside), design, len(raw))


def _sample(given: Given, fit: FitParts) -> RawRows:
    if given.once:
        raise DataError("the rows came once and are gone; give data, rows to average over")
    dataset, design = given.rows(fit.coreset), fit.coreset.design
    own = dataset.rows.design == design  # a coreset's rows are those of the design
    raw = Dataset(dataset.rows, progress=given.progressbar)
    if own and not design.is_identity:
        raise DataError("the rows are those of a coreset, which do not tell the data's columns; give data, raw rows")
    if fit.coreset.counts:
        rows, events, n_total = sampled_counts(raw, MAX_ROWS, _SEED)
        return RawRows(rows, design, n_total, events)
    one = partial(uniform_rows, size=MAX_ROWS, seed=_SEED)
    drawn = merge(list(raw.map(one, "drawing rows", canonical=True)), MAX_ROWS)
    return RawRows(drawn.rows, design, drawn.total)
