r"""Average comparisons and slopes, as marginaleffects has them, from the draws.

.. math:: \Delta_k = \frac{\sum_{n \in k} w_n \, [p(x_n^{+}) - p(x_n^{-})]}{\sum_{n \in k} w_n}

x+ and x- are a row with one raw column changed. Each draw gives one figure, so that intervals are the posterior's. The
rows' part in the error, where they are a sample of all rows, is that of a mean of so many rows drawn without
replacement.

Reference: Arel-Bundock, Greifer and Heiss (2024), Journal of Statistical Software 111.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayescore.fitting.rows import RawRows
from bayescore.fitting.units import described
from bayescore.models.families import Family
from bayescore.models.predictor import Predictor
from bayescore.samplers.poststratify import sums_of_levels
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import warn

_STEP = 1e-4  # of a slope, in ranges of the column: marginaleffects' own


@dataclass(frozen=True, eq=False)
class Contrast:
    """Rows with a column changed to two values, and what the difference is divided by."""

    name: str
    above: WeightedData
    below: WeightedData
    unit: float = 1.0


def contrasts_of(rows: RawRows, variable: str, step: float) -> list[Contrast]:
    """Return the levels of a factor against the first, 1 against 0, or `step` more of a column of numbers."""
    column, found = rows.column(variable), rows.levels(variable)
    if found is not None:
        levels = found[0]
        text = variable in dict(rows.design.raw_levels)
        values = [float(place) if text else float(level) for place, level in enumerate(levels)]
        below = rows.with_column(variable, values[0])
        named = zip(levels[1:], values[1:], strict=True)
        return [Contrast(f"{level} - {levels[0]}", rows.with_column(variable, at), below) for level, at in named]
    if step == 1.0 and set(np.unique(column)) <= {0.0, 1.0}:
        return [Contrast("1 - 0", rows.with_column(variable, 1.0), rows.with_column(variable, 0.0))]
    return [Contrast(f"+{step:g}", rows.with_column(variable, column + step), rows.designed())]


def slope_of(rows: RawRows, variable: str) -> Contrast:
    """Return the derivative by a column of numbers, as a central difference."""
    column = rows.column(variable)
    half = 0.5 * _STEP * (float(np.ptp(column)) or 1.0)
    above, below = (rows.with_column(variable, column + move) for move in (half, -half))
    return Contrast("dp/dx", above, below, 2.0 * half)


def averages(
    draws: tuple[Predictor, Family],
    rows: RawRows,
    contrasts: list[Contrast],
    by: str | None,
    prob: float,
    *,
    ratio: bool,
) -> pd.DataFrame:
    """Return a table with a row for each contrast and part of the rows."""
    predictor, family = draws
    parts, codes = rows.parts(by)
    n_parts, w = 1 if parts is None else len(parts), rows.rows.weights
    total = np.asarray(np.bincount(codes, w, n_parts), dtype=np.float64)
    seen, tables = total > 0.0, []
    if parts is not None and not seen.all() and len(rows) < rows.n_total:
        missed = ", ".join(map(repr, parts[~seen][:5]))
        warn(f"by={by!r}: no row of {missed} is in the sample of {len(rows):,} rows; give data")
    for contrast in contrasts:
        above, below = (
            sums_of_levels(predictor, family, each, codes, n_parts)[seen] / total[seen, None]
            for each in (contrast.above, contrast.below)
        )
        figures = above / below if ratio else (above - below) / contrast.unit
        table = pd.DataFrame(described(figures, prob))
        table["rows_se"] = _rows_error((predictor.means(), family), contrast, rows, codes, total, ratio=ratio)[seen]
        table.insert(0, "contrast", contrast.name)
        if parts is not None:
            table.insert(1, str(by), parts[seen])
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def _rows_error(
    mean: tuple[Predictor, Family],
    contrast: Contrast,
    rows: RawRows,
    codes: IntArray,
    total: FloatArray,
    *,
    ratio: bool,
) -> FloatArray:
    """Return the standard error of each part's average that comes from sampled rows, at the mean coefficients."""
    (predictor, family), n_parts = mean, len(total)
    w = rows.rows.weights
    left = max(1.0 - len(rows) / rows.n_total, 0.0)
    above, below = (predictor.average(each, family.mean)[:, 0] for each in (contrast.above, contrast.below))
    with np.errstate(invalid="ignore", divide="ignore"):
        each = (above - below) / contrast.unit
        if ratio:  # delta method
            top, bottom = (np.bincount(codes, w * p, n_parts) for p in (above, below))
            each = (above - (top / bottom)[codes] * below) / (bottom / total)[codes]
        center = np.bincount(codes, w * each, n_parts) / total
        squares = np.bincount(codes, w**2 * (each - center[codes]) ** 2, n_parts)
        error = np.sqrt(left * squares) / total
    # one row of a part does not tell how much others differ
    return np.where((np.bincount(codes, minlength=n_parts) < 2) & (left > 0.0), np.nan, error)
