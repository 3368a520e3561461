"""Rows of a fit: all of them for averages; for checks and pictures `MAX_ROWS` of them, or those that a user gives.

The rows are drawn without replacement by a hash of their places, so that they are the same whatever the source.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bayescore.coresets.sampling.draw import merge, uniform_rows
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.sources.paired import numbers_of, response_of, two_rows_each, with_response
from bayescore.data.tables import feature_matrix
from bayescore.diagnostics.averages import AveragedRows
from bayescore.diagnostics.responses import sampled_counts
from bayescore.fitting.given import Given
from bayescore.fitting.parts import FitParts
from bayescore.listing import listed
from bayescore.samplers.new_rows import groups_of, offset_of, positive_rows
from bayescore.samplers.raw_columns import factor_levels
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError

MAX_ROWS = 20_000
"""Rows that stand for all: a share among them is known to 0.004."""
_SEED = 7041  # of the sample


@dataclass(frozen=True, eq=False)
class RawRows:
    """Rows with X in the data's own columns, text as codes; `n_total` is how many they stand for."""

    rows: WeightedData
    design: Design
    n_total: int
    events: FloatArray | None = None  # of counts, where known; weights are then exposures. Of numbers the responses

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> FloatArray:
        """Return a raw column, shape (n,); of text the places of its levels."""
        return self.rows.X[:, self._place(name)]

    def designed(self, raw: FloatArray | None = None) -> WeightedData:
        """Return the rows in the design."""
        return replace(self.rows, X=self.design.transform(self.rows.X if raw is None else raw))

    def sides(self) -> WeightedData:
        """Return the rows in the design, of counts both sides of each, of numbers with these."""
        rows = self.designed()
        if self.events is None:
            return rows
        if response_of(self.design.classes) == "numbers":
            return with_response(rows, self.events)
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

    def _place(self, name: str) -> int:
        if name not in self.design.raw_names:
            if name in [own.name for own in self.design.groups]:
                raise DataError(
                    f"{name!r} is a grouping factor: fit.effects({name!r}) has its effects and their intervals"
                )
            known = listed(self.design.raw_names, 10)
            raise DataError(
                f"{name!r} is no column that the fit knows; {f'they are {known}' if known else 'it has none'}"
            )
        return self.design.raw_names.index(name)


def raw_rows(fit: FitParts, data: Any, *, others: bool = False) -> RawRows:
    """Return rows that are given, each of weight 1, or a sample of all rows of the fit, or of others."""
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


def rows_of_fit(fit: FitParts) -> AveragedRows:
    """Return all rows that a fit was made of."""
    return _opened(fit.rows_given, fit)


def _opened(given: Given, fit: FitParts) -> AveragedRows:
    if given.once:
        raise DataError("the rows came once and are gone; give data, rows to average over")
    own = given.data
    if isinstance(own, Coreset) and own.numbers and own.pseudo.any():
        raise DataError(
            "the fit has sums of its rows alone, pseudo-rows, and not the rows' columns; give rows as "
            "data, data=rows, or the fit all of them, fit.update(data=rows)"
        )
    found = given.rows(fit.coreset).rows
    rows = Dataset(found, progress=given.progressbar)
    return AveragedRows(fit.posterior(), rows, found.design == fit.coreset.design)


def _sample(given: Given, fit: FitParts) -> RawRows:
    opened, design = _opened(given, fit), fit.coreset.design
    if opened.designed and not design.is_identity:
        raise DataError("the rows are those of a coreset, which do not tell the data's columns; give data, raw rows")
    if fit.coreset.counts:
        found = sampled_counts(opened.dataset, fit.posterior().family, MAX_ROWS, _SEED)
        return RawRows(found.responses.rows, design, found.n_rows, found.responses.events)
    one = partial(uniform_rows, size=MAX_ROWS, seed=_SEED)
    drawn = merge(list(opened.dataset.map(one, "drawing rows", canonical=True)), MAX_ROWS)
    if fit.coreset.numbers:
        rows, y = numbers_of(drawn.rows)
        return RawRows(rows, design, drawn.total, y)
    return RawRows(drawn.rows, design, drawn.total)
