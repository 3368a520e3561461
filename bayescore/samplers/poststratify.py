r"""Poststratification: predicted probabilities of cells, averaged over a population by how many it has in each.

.. math:: \theta_k = \frac{\sum_{c \in k} N_c \, p(x_c \cdot \beta + \sum_f z_{fc} \cdot b_{f, g_f(c)})}
                          {\sum_{c \in k} N_c}

With a multilevel model this is MRP: cells of few or no rows borrow from their groups, and the census says how many
people stand behind each. Every draw gives one theta, so that intervals are the posterior's; N_c are taken as known.

References: Gelman and Little (1997), Poststratification into many categories using hierarchical logistic regression,
Survey Methodology 23; Ghitza and Gelman (2013), Deep interactions with MRP, American Journal of Political Science 57.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayescore.compiled import available_cores, one_blas_thread
from bayescore.data.column_kinds import as_floats, as_table, check_numeric
from bayescore.data.coreset import Coreset
from bayescore.data.design import Grouping, terms_text
from bayescore.data.factors import column_of, values
from bayescore.data.groups import Grouper
from bayescore.data.tables import feature_matrix, is_table
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.models.groups.effects import EffectDraws
from bayescore.models.predictor import Factor, Predictor
from bayescore.samplers.posterior import Posterior, flat_draws, read_posterior
from bayescore.samplers.predict import column_offset, finite_design, positive_rows
from bayescore.text import listed
from bayescore.types import FloatArray, IntArray, Parts, WeightedData
from bayescore.validation import DataError, check_integer, check_weights

_ROWS = 1024  # of a thread's piece: fixed, so that the number of threads changes no bit


class PopulationShares(NamedTuple):
    """Shares of K parts of a population at S draws, shape (K, S), their weight, shape (K,), and their names."""

    shares: FloatArray
    weight: FloatArray
    parts: pd.Index


def population_shares(
    idata: Any, core: Coreset, cells: Any, by: str | Sequence[str] = (), *, weights: str, max_draws: int = 1000
) -> PopulationShares:
    """Return the shares of the class that is +1 in parts of a population, at draws evenly spaced within each chain.

    Parameters
    ----------
    idata : InferenceData
        Draws of the coefficients and of the effects of groups, from `sample` or a model of your own around
        `weighted_potential`, effects called `u_g`, as `sample`
        calls those of g, or having a dimension of its name.
    core : Coreset
        What they were drawn from: it tells the likelihood, the design and the levels of groups.
    cells : data frame or Arrow table
        A row for each cell of the population: the raw columns of the design, its groups, its offset where it has one.
    by : str or list of str, optional
        Columns of `cells`, of any kind, that part the population; without it there is one share.
    weights : str
        Column of `cells` with their sizes in the population.
    max_draws : int
        Draws used.

    Raises
    ------
    DataError
        If there are no cells, or they lack a column, miss an entry, have a level that `core` does not know, or weights
        that are not positive; if the posterior lacks effects of a factor, or has those of other levels.
    """
    posterior = read_posterior(idata, "idata", min_draws=1)
    design, family = core.design, check_family(core.family)
    expected = terms_text(design.groups)
    if posterior.terms not in ("", expected):
        raise DataError(
            f"idata has effects of {posterior.terms}, and core has {expected or 'no groups'}; give the one that it was "
            "drawn from"
        )
    if posterior.draws.shape[2] != len(design.names):
        raise DataError(
            f"idata has {posterior.draws.shape[2]} coefficients 'beta', and core {len(design.names)}; give the "
            "coreset that it was drawn from"
        )
    if not is_table(cells):
        raise DataError(f"cells is a {type(cells).__name__}; give a data frame with a row for each cell")
    table = as_table(cells, "cells")
    if table.num_rows == 0:
        raise DataError("cells is an empty table, so there is no average; give at least one cell")
    parts = (by,) if isinstance(by, str) else tuple(by)
    columns = {grouping.name: grouping.columns for grouping in design.groups}
    for name in (weights, *(name for part in (*parts, *columns) for name in columns.get(part, (part,)))):
        if name not in table.column_names:
            raise DataError(f"cells has no column {name!r}; it has {listed(table.column_names, 10)}")
    check_numeric(table.schema, (weights,))
    sizes = check_weights(as_floats(table.column(weights)), table.num_rows, f"weights (column {weights!r})", zero=True)
    X = finite_design(design, feature_matrix(table, design.raw_names, design.raw_levels))
    known = None if design.offset is None else column_offset(table, design.offset, "cells")
    group = [Grouper(own).codes(column_of(table, own.name, own.parts), 0) for own in design.groups]
    rows = positive_rows(X, known, np.stack(group, axis=1) if group else None)
    chosen = posterior.positions(check_integer(max_draws, "max_draws", low=1))
    effects = [_effects(idata, posterior, grouping) for grouping in design.groups]
    predictor = Predictor(posterior.flat[chosen], effects, design, chosen)
    codes, index = _parts(table, parts, {own.name: own.parts for own in design.groups})
    sums = sums_of_levels(predictor, family, rows.with_weights(sizes), codes, len(index))
    total = np.asarray(np.bincount(codes, sizes, len(index)), dtype=np.float64)
    if not (total > 0.0).all():
        raise DataError(f"weights (column {weights!r}) are all 0 in {index[int(np.argmin(total))]!r}; drop these cells")
    return PopulationShares(sums / total[:, None], total, index)


def _effects(idata: Any, posterior: Posterior, grouping: Grouping) -> Factor:
    """Return the effects of a factor at all draws: of the variable `u_g`, or of that which has its dimension."""
    variables, factor = idata["posterior"], grouping.name
    name = f"u_{factor}"
    if isinstance(unkept := posterior.variables.get(name), EffectDraws):
        return Factor(grouping, unkept)
    if name not in variables:
        named = [str(key) for key, each in variables.data_vars.items() if factor in each.dims or key == factor]
        if len(named) != 1:
            known = f"variables {', '.join(map(repr, named))}" if named else "no variable"
            raise DataError(f"idata has {known} of the dimension {factor!r}; call its effects {name!r}")
        name = named[0]
    variable, draws = variables[name].transpose("chain", "draw", ...), flat_draws(idata, name)
    draws = draws[..., None] if draws.ndim == 2 else draws
    coordinate = variable.coords.get(variable.dims[2]) if variable.ndim > 2 else None
    levels = list(range(len(grouping))) if coordinate is None else coordinate.values.tolist()
    if draws.shape[1:] != (len(grouping), len(grouping.effects)) or (
        levels not in (list(grouping.levels), list(range(len(grouping))))
    ):
        raise DataError(
            f"effects {name!r} have shape {draws.shape[1:]} or other levels than {factor!r} of core, which has "
            f"{len(grouping)} in the order {', '.join(map(repr, grouping.levels[:3]))}, ...; give dims of core.groups"
        )
    return Factor(grouping, draws)


def _parts(table: Any, names: Sequence[str], joined: Mapping[str, Parts]) -> tuple[IntArray, pd.Index]:
    """Return each row's part of the population, and the names of the parts; of factors the columns that they join."""
    if not names:
        return np.zeros(table.num_rows, dtype=np.int64), pd.Index(["all"], name="population")
    found = {name: column_of(table, name, joined.get(name, ())) for name in names}
    columns = pd.DataFrame({name: values(column, name).to_pandas() for name, column in found.items()})
    if (holes := columns.isna().any()).any():
        raise DataError(
            f"cells miss {holes.idxmax()!r} in some row; drop such cells, or give them a level of their own"
        )
    grouped = columns.groupby(list(names), sort=True, observed=True)
    index = grouped.size().index
    return np.asarray(grouped.ngroup(), dtype=np.int64), index


def sums_of_levels(
    predictor: Predictor, family: Family, rows: WeightedData, codes: IntArray, n_levels: int
) -> FloatArray:
    """Return sum w p over the rows of each level under each draw, shape (K, S), on all cores."""

    def piece(cut: slice) -> tuple[IntArray, FloatArray]:
        return sums_of_piece(predictor, family, rows.take(cut), codes[cut])

    cuts = [slice(start, start + _ROWS) for start in range(0, len(rows), _ROWS)]
    sums = np.zeros((n_levels, len(predictor)))
    with one_blas_thread(), ThreadPoolExecutor(available_cores(), "predict") as threads:
        for levels, own in threads.map(piece, cuts):
            sums[levels] += own
    return sums


def sums_of_piece(
    predictor: Predictor, family: Family, rows: WeightedData, codes: IntArray
) -> tuple[IntArray, FloatArray]:
    """Return the levels of few rows, shape (K,), and sum w p over the rows of each under each draw, (K, S)."""
    levels, places = np.unique(codes, return_inverse=True)
    shares = np.zeros((len(levels), len(rows)))
    shares[places, np.arange(len(rows))] = rows.weights
    return levels, np.asarray(shares @ predictor.average(rows, family))
