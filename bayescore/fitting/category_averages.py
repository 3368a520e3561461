r"""Averages of fits of ordered categories over rows: predictions, comparisons and slopes of each category.

A row's probability of the category k is a product over its steps,

.. math:: P_k = (1 - p_k) r_k, \qquad P_k' = (1 - p_k) r_k' - p_k' r_k, \qquad r_k = \prod_{j < k} p_j,

p_j that of going past the threshold j, and p_K = 0; so each row has a step for every threshold here, whatever its
category. What is compared, and how a slope is taken, is as in `fitting.predictions`; each row is evaluated at each
draw.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayescore.data.dataset import Dataset
from bayescore.data.steps import STEP, check_columns, every_step, plain
from bayescore.data.tables import is_table
from bayescore.diagnostics.averages import MAX_EVALUATED, AveragedRows, ContrastCells, averaged_rows, check_by
from bayescore.fitting.parts import interval_names, labelled, rows_of_fit
from bayescore.fitting.predictions import MAX_BYTES, AverageDraws, Contrasts, by_chain, predictions_of
from bayescore.samplers.predict import cells_of_population
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError, check_integer

if TYPE_CHECKING:
    from bayescore.fitting.ordered import OrderedFit

_NUMBERS = 1 << 18  # probabilities of steps at a time
CATEGORY = "category"


def averages(
    fit: "OrderedFit",
    asked: Callable[[AveragedRows], Contrasts],
    by: str | Sequence[str] | None,
    data: Any,
    *,
    draws: bool,
    prob: float,
    max_draws: int,
) -> Any:
    """Return contrasts of each category, averaged over all rows of the fit, or others, as a table or as draws."""
    interval_names(prob)
    names = _checked(check_by(by), max_draws)
    rows = _rows(fit, names, data)
    average_draws = _drawn(asked(rows), rows, names, fit.categories, max_draws=max_draws)
    return by_chain(fit, average_draws, max_draws) if draws else labelled(fit, average_draws.table(prob))


def poststratified(
    fit: "OrderedFit", cells: Any, by: str | Sequence[str], weights: str, *, draws: bool, prob: float, max_draws: int
) -> Any:
    """Return the shares of the categories in a population, or in parts of it; arguments as of `Fit.poststratify`."""
    interval_names(prob)
    names = _checked(check_by(by or None), max_draws)
    table, sizes = cells_of_population(cells, weights)
    if not sizes.any():
        raise DataError(f"weights (column {weights!r}) are all 0; drop these cells")
    rows = _rows(fit, names, plain(table))
    shares = _drawn(predictions_of(rows, None), rows, names, fit.categories, max_draws=max_draws, sizes=sizes)
    if draws:
        return by_chain(fit, shares, max_draws)
    return labelled(fit, shares.figures(prob).set_axis(pd.Index([]) if shares.parts is None else shares.parts))


def check_variable(name: str | None) -> None:
    """Raise if a column that is changed is that of the thresholds."""
    if name == STEP:
        raise DataError(f"{STEP!r} is which threshold a step is at, and no column of the rows: name another")


def _checked(by: tuple[str, ...], max_draws: int) -> tuple[str, ...]:
    check_integer(max_draws, "max_draws", low=1)
    for name in by:
        check_variable(name)
    if CATEGORY in by:
        raise DataError(f"by={CATEGORY!r} has the name of the column of categories in what is returned: rename it")
    return by


def _rows(fit: "OrderedFit", by: tuple[str, ...], data: Any) -> AveragedRows:
    """Return rows to average over, as a step for each threshold, in blocks of whole rows."""
    if data is None:
        given = fit._rows_of_data
        check_columns(by, given.data.rows.schema.names)
        whole = replace(given, data=replace(given.data, every=True), known=True)
        rows = rows_of_fit(replace(fit.steps, _given=whole), by)
    elif is_table(data) or hasattr(data, "shape"):
        table = fit._as_rows(data)
        check_columns((*by, *fit.coreset.design.raw_names), table.column_names)
        rows = averaged_rows(fit._posterior(), every_step(table, fit.categories), by=by)
    else:
        rows = averaged_rows(fit._posterior(), replace(fit.ordered.steps(data), every=True), by=by)
    n = len(fit.categories) - 1
    size = max(rows.dataset.block_rows // n, 1) * n
    return rows._replace(dataset=Dataset(rows.dataset.rows, progress=rows.dataset.progress, block_rows=size))


def _drawn(
    contrasts: Contrasts,
    rows: AveragedRows,
    by: tuple[str, ...],
    categories: Sequence[Any],
    *,
    max_draws: int,
    sizes: FloatArray | None = None,
) -> AverageDraws:
    """Return each contrast of each category over each part of the rows, at draws; `sizes` are weights of the rows."""
    labels, cells = rows.parts(by, variable=contrasts.variable, contrasts=contrasts.changes, along=contrasts.along)
    n_draws, K, P = len(rows.posterior.positions(max_draws)), len(categories), cells.n_parts
    most = max(len(contrasts.names), len(contrasts.changes)) * P * K
    evaluated = rows.dataset.source.n_rows * float(n_draws) * sum(map(len, contrasts.changes))
    if 8 * most * n_draws > MAX_BYTES or evaluated > MAX_EVALUATED:
        raise DataError(
            f"{most:,} averages at {n_draws:,} draws are over {evaluated:.1g} probabilities of steps (limit "
            f"{MAX_EVALUATED:.1g}; {MAX_BYTES:,} bytes of averages): give a smaller max_draws, a sample of the rows as "
            "data, or part the rows by columns of fewer values"
        )
    sums, weight = _sums(rows, cells, max_draws, K, sizes)
    seen = np.flatnonzero(weight > 0.0)
    means = (sums.reshape(K, len(contrasts.changes), P, n_draws) / np.maximum(weight, 1e-300)[:, None])[:, :, seen]
    none = np.zeros(means.shape[1:3])
    values = np.stack([contrasts.figures(each, none)[0] for each in means], axis=2)
    levels = {name: [level[place] for place in seen for _ in range(K)] for name, level in labels.items()}
    levels[CATEGORY] = list(categories) * len(seen)
    parts: pd.Index = pd.Index(levels[CATEGORY], name=CATEGORY)
    if by:
        parts = pd.MultiIndex.from_arrays(list(levels.values()), names=list(levels))
    C = len(values)
    more = {"sampling_se": np.zeros(C * len(parts))} if sizes is None else {"weight": np.repeat(weight[seen], K)}
    names = None if contrasts.column is None else pd.Index(contrasts.names, name=contrasts.column)
    return AverageDraws(values.reshape(C, len(parts), n_draws), names, parts, more, contrasts.null)


def _sums(
    rows: AveragedRows, cells: ContrastCells, max_draws: int, K: int, sizes: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return sums over rows at draws, of each category, contrast and part, shape (K, C * P, S), and weights, (P,)."""
    predictor, family, n = rows.posterior.predictor(max_draws), rows.posterior.family, K - 1
    size = max(_NUMBERS // (n * len(predictor)), 1) * n

    def of_block(start: int, block: WeightedData) -> tuple[FloatArray, FloatArray]:
        block = cells.counted(block)
        if rows.posterior.terms and predictor.unknown(cells.modelled(block)).any():
            raise DataError(
                "data has a group that the fit does not know, whose effect its rows share: average draws of "
                "fit.predict(rows, kind='draws')"
            )
        parts, w = cells.parts(block)[::n], block.weights[::n]
        if sizes is not None:
            w = sizes[start // n : start // n + len(w)]
        sums = np.zeros((len(cells.contrasts), cells.n_parts, K, len(predictor)))
        for contrast in range(len(cells.contrasts)):
            terms = cells.terms(block, contrast)
            for low in range(0, len(block), size):
                cut = slice(low, low + size)
                factors = [factor[cut].reshape(-1, n, 1) for factor, _ in terms]
                p = np.stack([predictor.average(each.take(cut), family) for _, each in terms])
                p = p.reshape(len(terms), -1, n, len(predictor))
                if cells.along is None:
                    parts_of = [factor[:, :1] * by_category(each) for factor, each in zip(factors, p, strict=True)]
                    values = np.sum(parts_of, axis=0)
                else:  # a step has a move of its own
                    values = slopes_by_category(p.mean(axis=0), (np.stack(factors) * p).sum(axis=0))
                piece = slice(low // n, low // n + len(values))
                for part in np.unique(parts[piece]):
                    counted = np.where(parts[piece] == part, w[piece], 0.0)
                    sums[contrast, part] += np.tensordot(counted, values, axes=1)
        return sums, np.asarray(np.bincount(parts, w, cells.n_parts), dtype=np.float64)

    total, weight = np.zeros((len(cells.contrasts), cells.n_parts, K, len(predictor))), np.zeros(cells.n_parts)
    for sums, of_parts in rows.dataset.map(of_block, "averaging", canonical=True):
        total, weight = total + sums, weight + of_parts
    return np.moveaxis(total, 2, 0).reshape(K, -1, len(predictor)), weight


def by_category(p: FloatArray) -> FloatArray:
    """Return probabilities of categories, shape (n, K, S), given those of going past each threshold, (n, K - 1, S)."""
    reached = np.concatenate([np.ones_like(p[:, :1]), np.cumprod(p, axis=1)], axis=1)
    reached[:, :-1] *= 1.0 - p
    return reached


def slopes_by_category(p: FloatArray, slope: FloatArray) -> FloatArray:
    """Return derivatives of what `by_category` returns, given those of `p`."""
    slopes = np.empty((len(p), p.shape[1] + 1, p.shape[2]))
    reached, rise = np.ones_like(p[:, 0]), np.zeros_like(p[:, 0])
    for k in range(p.shape[1]):
        slopes[:, k] = rise * (1.0 - p[:, k]) - reached * slope[:, k]
        reached, rise = reached * p[:, k], rise * p[:, k] + reached * slope[:, k]
    slopes[:, -1] = rise
    return slopes
