r"""Columns of a smooth term ``s(x, k=10)``: x itself, and k - 2 columns of bends whose coefficients have one sd.

A natural cubic spline is determined by its values g at k knots, and straight beyond the first and the last. With D g
what its slope would jump by at the inner knots if it were straight between them, and B the tridiagonal matrix of their
spacings, its integrated squared second derivative is

.. math:: \int f''(x)^2 dx = g' D' B^{-1} D g = |b|^2, \qquad g = D^+ L b, \quad B = L L'

so that independent b_j ~ N(0, sigma^2) are the prior exp(-\int f''^2 / 2 sigma^2) of a penalised spline, whose null
space is a straight line: the intercept and x. Bends are made orthogonal to both over the rows, and scaled so that the
mean over rows of the sum of their squares is 1: sigma is the sd of the bent part of the curve, on average over rows,
in units of the linear predictor.

Knots are quantiles of the distinct values, as those of ``s(x, bs="cr")`` in mgcv.

Reference: Wood (2017), Generalized Additive Models, second edition, sections 5.3.1 and 5.4; Ruppert, Wand and Carroll
(2003), Semiparametric Regression.
"""

from typing import Any

import numpy as np
import pandas as pd
from formulaic.transforms.contrasts import FactorValues
from formulaic.utils.stateful_transforms import stateful_transform

from bayescore.data.design import LINEAR
from bayescore.types import FloatArray
from bayescore.validation import DataError

FEWEST_KNOTS = 4
MOST_KNOTS = 100


@stateful_transform  # type: ignore[untyped-decorator]
def s(x: Any, k: int = 10, by: Any = None, *, _state: dict[str, Any]) -> Any:
    """Return x and its bends by name, of each level of a factor `by`; elsewhere they are 0.

    Knots and bends are learnt from the first rows, within the bounds in `_state`.
    """
    values = np.asarray(getattr(x, "__wrapped__", x), dtype=np.float64)
    factor = getattr(by, "__wrapped__", by)
    if not (by is None or isinstance(factor, pd.Categorical)):
        raise DataError("s(..., by=): by is a column of numbers, and must be a factor: turn it into text")
    parts = {"": np.ones(len(values), dtype=bool)}
    if by is not None:  # fields of names such as s(x, by=f)[a][linear]
        parts = {f"{level}][": factor.codes == code for code, level in enumerate(factor.categories)}
    if "knots" not in _state:
        knots = choose_knots(values, k, _state["lower_bound"], _state["upper_bound"])
        rows = {name: values[part] for name, part in parts.items()}
        if few := [name[:-2] for name, x_of in rows.items() if len(np.unique(x_of)) < FEWEST_KNOTS]:
            raise DataError(
                f"s(..., by=): x has fewer than {FEWEST_KNOTS} distinct values in the level {few[0]!r}, in the rows "
                "that knots are learnt from; merge it with another"
            )
        _state |= {"knots": knots, "values": {name: learn_bends(x_of, knots) for name, x_of in rows.items()}}
    columns: dict[Any, FloatArray] = {}
    for name, part in parts.items():
        columns[f"{name}{LINEAR}"] = np.where(part, values, 0.0)
        bends = evaluate_bends(values, np.asarray(_state["knots"]), np.asarray(_state["values"][name]))
        columns |= {f"{name}{j + 1}": np.where(part, column, 0.0) for j, column in enumerate(bends.T)}
    return FactorValues(columns, kind="numerical")


def choose_knots(x: FloatArray, k: int, low: float, high: float) -> FloatArray:
    """Return the knots, shape (k,): quantiles of the distinct values."""
    distinct = np.unique(np.concatenate([x, [low, high]]))
    if isinstance(k, bool) or not isinstance(k, int) or not FEWEST_KNOTS <= k <= MOST_KNOTS:
        raise DataError(f"s(..., k={k!r}): k, the number of knots, must be from {FEWEST_KNOTS} to {MOST_KNOTS}")
    if len(distinct) < k:
        fewer = f"k={len(distinct)}, x itself, or C(x)" if len(distinct) >= FEWEST_KNOTS else "x itself, or C(x)"
        raise DataError(
            f"s(x) has k={k} knots, and x has {len(distinct)} distinct values in the rows that these are learnt from; "
            f"give {fewer}"
        )
    return np.asarray(np.quantile(distinct, np.linspace(0.0, 1.0, k)), dtype=np.float64)


def learn_bends(x: FloatArray, knots: FloatArray) -> FloatArray:
    """Return the values of the bends at the knots, shape (k, k - 2), those of rows x being orthogonal to a line."""
    k, low, high = len(knots), knots[0], knots[-1]
    gaps = np.diff(knots) / (high - low)
    jumps, inner = np.zeros((k - 2, k)), np.arange(k - 2)
    jumps[inner, inner], jumps[inner, inner + 2] = 1.0 / gaps[:-1], 1.0 / gaps[1:]
    jumps[inner, inner + 1] = -1.0 / gaps[:-1] - 1.0 / gaps[1:]
    off = gaps[1:-1] / 6.0
    B = np.diag((gaps[:-1] + gaps[1:]) / 3.0) + np.diag(off, 1) + np.diag(off, -1)
    values: FloatArray = (np.linalg.pinv(jumps) @ np.linalg.cholesky(B)).astype(np.float64)
    line, line_at_knots = (np.stack([np.ones(len(at)), (at - low) / (high - low)], axis=1) for at in (x, knots))
    values -= line_at_knots @ np.linalg.lstsq(line, evaluate_bends(x, knots, values), rcond=None)[0]
    values /= np.sqrt((evaluate_bends(x, knots, values) ** 2).sum(axis=1).mean())
    return values


def evaluate_bends(x: FloatArray, knots: FloatArray, values: FloatArray) -> FloatArray:
    """Return natural cubic splines at x, shape (n, K), given their `values` at the knots, (k, K); straight beyond."""
    from scipy.interpolate import CubicSpline  # half a second to import

    spline = CubicSpline(knots, values, bc_type="natural")
    inside = np.clip(x, knots[0], knots[-1])
    bends = spline(inside)
    if (beyond := np.flatnonzero(inside != x)).size:
        bends[beyond] += (x - inside)[beyond, None] * spline(inside[beyond], 1)
    return np.asarray(bends)
