r"""Average comparisons and slopes, as marginaleffects has them, from the draws.

.. math:: \Delta_k = \frac{\sum_{n \in k} w_n \, [p(x_n^{+}) - p(x_n^{-})]}{\sum_{n \in k} w_n}

x+ and x- are a row with one raw column changed. Each draw gives one figure, so that intervals are the posterior's. The
sums are over all rows, by `average_sums`, which says their error where a sample stands for many rows.

Reference: Arel-Bundock, Greifer and Heiss (2024), Journal of Statistical Software 111.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayescore.data.coreset import Coreset
from bayescore.diagnostics.average_sums import CellSums
from bayescore.diagnostics.averages import AveragedRows
from bayescore.diagnostics.contrasts import Change, values_of
from bayescore.diagnostics.full_pass import check_weight
from bayescore.fitting.units import described
from bayescore.samplers.raw_columns import factor_levels
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError

_BINARY = ({"value": 0.0}, {"value": 1.0})
_STEP = 1e-4  # of a slope, in ranges of the column: marginaleffects' own


class Options(NamedTuple):
    """Probability of the equal-tailed intervals, and most draws that are used."""

    prob: float
    max_draws: int


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Names of contrasts, what the rows are changed to for them, and how averages over these become figures."""

    variable: str | None
    names: list[Any]
    changes: tuple[tuple[Change, ...], ...]
    figures: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
    column: str | None = "contrast"  # of the names

    def table(self, rows: AveragedRows, by: str | None, options: Options, core: Coreset | None) -> pd.DataFrame:
        """Return a table with a row for each contrast and part of the rows; `core` stands for them if it is given."""
        parts, cells = rows.parts(by)
        cells = rows.cells(by=by, values=cells.values, variable=self.variable, contrasts=self.changes)
        n = len(parts)

        def figures(found: CellSums) -> tuple[FloatArray, FloatArray, IntArray]:
            seen = np.flatnonzero(found.weight[:n] > 0.0)
            values, error = found.averages()
            values, error = values.reshape(len(self.changes), n, -1)[:, seen], error.reshape(-1, n)[:, seen]
            return (*self.figures(values, error), seen)

        found = rows.sums(cells, options.max_draws, lambda sums: [_flat(*figures(sums)[:2])])
        if core is not None and not core.counts:  # whose weight has events, too
            check_weight(core, float(found.weight[:n].sum()))
        values, error, seen = figures(found)
        figure, se = _flat(values, error)
        table = pd.DataFrame(described(figure, options.prob)).assign(sampling_se=se)
        if by is not None:
            table.insert(0, by, [parts[place] for place in seen] * len(self.names))
        if self.column is not None:
            table.insert(0, self.column, [name for name in self.names for _ in seen])
        return table


def predictions_of(rows: AveragedRows, variable: str | None) -> Contrasts:
    """Return all rows as they are, or as if they had each level of a factor in turn."""
    if variable is None:
        return Contrasts(None, ["all"], ((Change(),),), _as_they_are, None)
    names, values = rows.levels(variable, "variables")
    return Contrasts(variable, names, tuple((Change(value=value),) for value in values), _as_they_are, variable)


def comparisons_of(rows: AveragedRows, variable: str, step: float, *, ratio: bool) -> Contrasts:
    """Return the levels of a factor against the first, 1 against 0, or `step` more of a column of numbers."""
    rows.check_column(variable, "variable")
    levels, sign = factor_levels(rows.design, variable), "/" if ratio else "-"
    if levels:
        text = variable in dict(rows.design.raw_levels)
        ways = [{"value": float(place) if text else float(level)} for place, level in enumerate(levels)]
        names = [f"{level} {sign} {levels[0]}" for level in levels[1:]]
        return _against_first(variable, names, ways, ratio=ratio)
    if step == 1.0 and _is_binary(rows, variable):
        return _against_first(variable, [f"1 {sign} 0"], _BINARY, ratio=ratio)
    name = f"+{step:g} / +0" if ratio else f"+{step:g}"
    return _against_first(variable, [name], [{"shift": 0.0}, {"shift": step}], ratio=ratio)


def _against_first(variable: str, names: list[Any], ways: Sequence[Mapping[str, float]], *, ratio: bool) -> Contrasts:
    """Return contrasts of ways to change a column with the first of them."""
    if ratio:
        return Contrasts(variable, names, tuple((Change(**way),) for way in ways), _ratios)
    below = Change(-1.0, **ways[0])
    return Contrasts(variable, names, tuple((Change(1.0, **way), below) for way in ways[1:]), _as_they_are)


def effect_of(rows: AveragedRows, variable: str) -> Contrasts:
    """Return the levels of a factor against the first, 1 against 0, or the derivative by another column of numbers."""
    if factor_levels(rows.design, variable):
        return comparisons_of(rows, variable, 1.0, ratio=False)
    if _is_binary(rows, variable):
        return _against_first(variable, ["1 - 0"], _BINARY, ratio=False)
    return slopes_of(rows, variable)


def _is_binary(rows: AveragedRows, variable: str) -> bool:
    return set(values_of(rows.dataset, rows.cells(by=variable), variable, 2) or [2.0]) <= {0.0, 1.0}


def slopes_of(rows: AveragedRows, variable: str) -> Contrasts:
    """Return the derivative by a column of numbers, as a central difference."""
    rows.check_column(variable, "variable")
    if factor_levels(rows.design, variable):
        raise DataError(f"variable={variable!r} is a factor, which has no slope; see comparisons")
    half = 0.5 * _STEP * (_range(rows, variable) or 1.0)
    central = tuple(Change(sign * 0.5 / half, shift=sign * half) for sign in (1.0, -1.0))
    return Contrasts(variable, ["dp/dx"], (central,), _as_they_are)


def _range(rows: AveragedRows, variable: str) -> float:
    """Return the sd of a standardised column, or the range of another, by a pass."""
    design = rows.design
    lead = int(design.intercept)
    if design.scale is not None and variable in design.names[lead:]:
        return float(design.scales[design.names.index(variable, lead)])
    cells = rows.cells(by=variable)

    def ends(_: int, block: WeightedData) -> FloatArray:
        column = cells.column(block, variable)
        return np.array([column.min(), column.max()])

    low, high = np.transpose(list(rows.dataset.map(ends, "learning a range")))
    return float(high.max() - low.min())


def _as_they_are(values: FloatArray, error: FloatArray) -> tuple[FloatArray, FloatArray]:
    return values, error


def _ratios(values: FloatArray, error: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ratios to the first, and their errors by the delta method."""
    ratio, mean = values[1:] / values[0], values.mean(axis=2)
    share = error / np.maximum(np.abs(mean), np.finfo(float).tiny)
    return ratio, np.abs(ratio.mean(axis=2)) * np.hypot(share[1:], share[0])


def _flat(values: FloatArray, error: FloatArray) -> tuple[FloatArray, Any]:
    return values.reshape(-1, values.shape[2]), error.ravel()
