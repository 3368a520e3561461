r"""Predicted probabilities of new rows, from the draws.

A row of a known group has the mean of p(eta) over the draws, its group's effect included. The effect b of a new group
is not known, and an interval of p has its part in it: with each draw goes a draw of b ~ N(0, sigma^2), or p is averaged
over b (`Predictor.average`) for the share among rows of many new groups. The mean is the same, and has no Monte Carlo
error of b.

New rows of a posterior's model: their columns in its design, their offsets and their groups.

Raw columns of data that the columns of a design matrix tell.

Poststratification: predicted probabilities of cells, averaged over a population by how many it has in each.

.. math:: \theta_k = \frac{\sum_{c \in k} N_c \, p(x_c \cdot \beta + \sum_f z_{fc} \cdot b_{f, g_f(c)})}
                          {\sum_{c \in k} N_c}

With a multilevel model this is MRP: cells of few or no rows borrow from their groups, and the census says how many
people stand behind each. Every draw gives one theta, so that intervals are the posterior's; N_c are taken as known.

References: Gelman and Little (1997), Poststratification into many categories using hierarchical logistic regression,
Survey Methodology 23; Ghitza and Gelman (2013), Deep interactions with MRP, American Journal of Political Science 57.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from bayescore.compiled import available_cores, jit_sums, one_blas_thread
from bayescore.data.column_kinds import as_floats, as_table, check_numeric
from bayescore.data.coreset import Coreset
from bayescore.data.design import Design, Grouping, one_intercept, terms_text
from bayescore.data.factors import column_of, factor_values
from bayescore.data.formula_design import categories_of, formula_of
from bayescore.data.groups import Grouper
from bayescore.data.responses import Expression
from bayescore.data.tables import feature_matrix, finite_csr, is_table
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.models.groups.effects import EffectDraws
from bayescore.models.posterior import log_likelihood_tiles
from bayescore.models.predictor import Factor, Predictor
from bayescore.numerics.elementary import exp_minus
from bayescore.samplers.posterior import Posterior, flat_draws, read_posterior
from bayescore.text import listed
from bayescore.types import NO_GROUP, FloatArray, IntArray, Parts, WeightedData
from bayescore.validation import (
    DataError,
    Places,
    RandomState,
    check_choice,
    check_finite,
    check_integer,
    check_offset,
    check_seed,
    check_weights,
)

_MISSING_HINT = "drop such rows, or give them a level that the fit does not know, which stands for a new group"


def design_rows(posterior: Posterior, X: Any) -> FloatArray:
    """Return rows of the design matrix, shape (n, D)."""
    design = posterior.design
    if design is None:
        return feature_matrix(X, posterior.features)
    return finite_design(design, feature_matrix(X, design.raw_names, design.raw_levels))


def finite_design(design: Design, raw: FloatArray, start: Places = 0, where: str = "X") -> FloatArray:
    """Return finite raw rows, numbered from or by `start`, in the design; raise `RowError` if a term is not."""
    rows = design.transform(raw)
    if formula_of(design) is not None:
        check_finite(rows, design.names, start, where, given=design.raw_names)
    return rows


def positive_rows(X: FloatArray, offset: FloatArray | None, group: IntArray | None = None) -> WeightedData:
    """Return rows of a design matrix, shape (n, D), with labels +1 and weights 1."""
    n = len(X)
    return WeightedData(X, np.ones(n, np.int8), np.ones(n), np.arange(n), offset=offset, group=group)


def groups_of(posterior: Posterior, X: Any, n_rows: int, given: Any) -> IntArray | None:
    """Return the groups of new rows, shape (n, F), `NO_GROUP` for a new one: those given, or columns of X."""
    if not posterior.terms:
        if given is not None:
            raise DataError(
                f"groups is given, but the rows that {posterior.name} was drawn from had none; leave it out"
            )
        return None
    design = posterior.design
    assert design is not None
    names = [grouping.name for grouping in design.groups]
    if one_intercept(design.groups) and given is not None and not isinstance(given, Mapping):
        given = {names[0]: given}
    remedy = f"give a dict with the levels of the rows, or their column, by the names {', '.join(map(repr, names))}"
    if given is not None and not isinstance(given, Mapping):
        raise DataError(f"groups is a {type(given).__name__}; {remedy}")
    by_name = {} if given is None else given
    if unknown := [name for name in by_name if name not in names]:
        raise DataError(f"groups names {unknown[0]!r}, no grouping factor of the posterior; {remedy}")
    levels = [_levels_of(grouping, X, n_rows, by_name.get(grouping.name)) for grouping in design.groups]
    groupers = [Grouper(grouping, new=True) for grouping in design.groups]  # which have no place for a new level
    codes = [by.codes(each, 0, hint=_MISSING_HINT) for by, each in zip(groupers, levels, strict=True)]
    return np.stack(codes, axis=1)


def new_group_numbers(posterior: Posterior, X: Any, group: IntArray, given: Any) -> IntArray:
    """Return a number of each row's group, the same for a level whatever the other rows are, shape (n, F)."""
    numbers, design = np.zeros_like(group), posterior.design
    assert design is not None
    for f, by in enumerate(design.groups):
        if (new := np.flatnonzero(group[:, f] == NO_GROUP)).size:
            each = given.get(by.name) if isinstance(given, Mapping) else given
            # 7.0 is the level 7, as among those drawn
            levels = factor_values(_levels_of(by, X, len(group), each), by.name)
            distinct, place = np.unique(levels.take(new).to_pandas().astype(str), return_inverse=True)
            digests = [blake2b(level.encode(), digest_size=7).digest() for level in distinct]
            numbers[new, f] = np.array([int.from_bytes(digest, "big") for digest in digests], dtype=np.int64)[place]
    return numbers


def _levels_of(grouping: Grouping, X: Any, n_rows: int, given: Any) -> Any:
    """Return the group of each row, a column of Arrow."""
    column, parts, read = (grouping.name, grouping.parts, grouping.columns) if given is None else (given, (), (given,))
    if isinstance(column, str):
        table = as_table(X, "X") if is_table(X) else None
        names = [] if table is None else table.column_names
        if table is None or (missing := [name for name in read if name not in names]):
            lacking = column if table is None else missing[0]
            raise DataError(
                f"X has no column {lacking!r} with the group of each row; add it, or where the function takes it give "
                "groups=, a level for each row, or any other value for a new group"
            )
        levels = column_of(table, column, parts)
    else:
        given_levels = np.asarray(column)
        if given_levels.ndim != 1:
            raise DataError(f"groups has shape {given_levels.shape}; it must be ({n_rows},), a level for each row")
        levels = as_table(pd.DataFrame({grouping.name: given_levels}), "groups").column(grouping.name)
    if len(levels) != n_rows:
        raise DataError(f"groups has {len(levels)} entries and X {n_rows} rows; give one for each row")
    return levels


def offset_of(posterior: Posterior, X: Any, n_rows: int, given: Any) -> FloatArray | None:
    """Return the offsets of new rows: those given, or the column of X that is named."""
    if posterior.offset is None:
        if given is not None:
            raise DataError(
                f"offset is given, but the rows that {posterior.name} was drawn from had none; leave it out"
            )
        return None
    name = posterior.offset if given is None else given
    if not isinstance(name, str):
        return check_offset(name, n_rows)
    return column_offset(X, name, "X", f", which {posterior.name} was drawn with")


def column_numbers(data: Any, name: str, argument: str) -> FloatArray:
    """Return a column of numbers of new rows, which plays the role of an argument."""
    table = as_table(data, "new") if is_table(data) else None
    if table is None or name not in table.column_names:
        has = listed([] if table is None else table.column_names, 10) or "no names of columns"
        raise DataError(f"{argument}={name!r} is no column of the rows, which have {has}; give one, or an array")
    check_numeric(table.schema, (name,))
    return as_floats(table.column(name))


def column_offset(data: Any, text: str, argument: str, whence: str = "") -> FloatArray:
    """Return the offsets of rows of a table, the argument called so: a column, or an expression of columns."""
    table = as_table(data, argument) if is_table(data) else None
    expression = Expression.of(text, [] if table is None else table.column_names)
    for name in expression.columns:
        if table is None or name not in table.column_names:
            raise DataError(
                f"{argument} has no column {name!r} of the offset {text!r}{whence}: add the column, or where the "
                "function takes it give offset=, a number for each row, 0 for none"
            )
    assert table is not None
    check_numeric(table.schema, expression.columns)
    return expression.values(lambda name: as_floats(table.column(name)), table.num_rows)


_ROWS = 4096  # of a thread's piece: fixed, so that the number of threads changes no bit


_LOG_HALF = math.log(0.5)


_SPARSE_ROWS = 4 * _ROWS  # that are dense at a time: 130 MB of 1,000 columns


_CELLS = 1 << 17  # entries of a (rows, draws) block whose quantiles are taken at a time: 1 MB


def log_predictive(idata: Any, X: Any) -> FloatArray:
    r"""Return the log posterior means of P(y = -1 | x) and P(y = +1 | x) of new rows, shape (n, 2).

    .. math:: \log \frac1S \sum_s p(\pm x \cdot \beta_s)

    Small probabilities are those of draws, to 1e-9 of themselves, the others what is left of 1.
    """
    return map_new_rows(read_posterior(idata, "idata", min_draws=1), X, _log_means, None, None)


def new_groups_seed(new_groups: object, random_state: RandomState) -> int | None:
    """Return the seed of new groups' effects; None where these are averaged over."""
    check_choice(new_groups, "new_groups", ("sample", "average"))
    return check_seed(random_state) if new_groups == "sample" else None


def map_new_rows(
    posterior: Posterior, X: Any, function: Callable[..., FloatArray], offset: Any, groups: Any
) -> FloatArray:
    """Return function(predictor, family, rows, new) of new rows, shape (n, ...), in blocks on all cores.

    `new` numbers the groups that the posterior does not know, as `Predictor.sampled` takes them.
    """
    predictor, family = posterior.predictor(), posterior.family
    sparse = bool(issparse(X))
    csr = finite_csr(X, "X") if sparse and X.shape[0] > 0 else None  # without rows it is as an array without rows
    if csr is None:
        blocks: Iterable[FloatArray] = [rows := design_rows(posterior, X)]
        n_rows = len(rows)
    else:
        n_rows = csr.shape[0]
        cuts = [slice(low, low + _SPARSE_ROWS) for low in range(0, n_rows, _SPARSE_ROWS)]
        blocks = (design_rows(posterior, csr[cut].toarray()) for cut in cuts)
    predictor = predictor.for_rows(n_rows)
    offsets, group = offset_of(posterior, X, n_rows, offset), groups_of(posterior, X, n_rows, groups)
    new = None if group is None else new_group_numbers(posterior, X, group, groups)
    pieces_done, end = [], 0
    for block in blocks:
        part = slice(end, end := end + len(block))
        part_rows = positive_rows(
            block, None if offsets is None else offsets[part], None if group is None else group[part]
        )
        which = None if new is None else new[part]
        pieces = [slice(start, start + _ROWS) for start in range(0, max(len(part_rows), 1), _ROWS)]

        def piece(cut: slice, part_rows: WeightedData = part_rows, which: IntArray | None = which) -> FloatArray:
            return function(predictor, family, part_rows.take(cut), None if which is None else which[cut])

        with one_blas_thread(), ThreadPoolExecutor(available_cores(), "predict") as threads:
            pieces_done += list(threads.map(piece, pieces))
    return np.concatenate(pieces_done)


def probabilities(
    predictor: Predictor, family: Family, rows: WeightedData, new: IntArray | None, seed: int | None
) -> FloatArray:
    """Return p of each of the rows, labels +1, at each draw, shape (n, S); a seed samples new groups."""
    if seed is None or new is None or not predictor.unknown(rows).any():
        return predictor.average(rows, family)
    return family.mean(predictor.sampled(rows, new, seed))


def probability_tiles(
    predictor: Predictor, family: Family, rows: WeightedData, new: IntArray | None, seed: int | None
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield the mean of p over draws, shape (t,), and p at each draw, (t, S), of some rows after others.

    The mean is without the Monte Carlo error of new groups' effects, which a seed samples in p.
    """
    step = max(1, _CELLS // len(predictor))
    for start in range(0, max(len(rows), 1), step):
        cut = slice(start, start + step)
        part = rows.take(cut)
        p = predictor.average(part, family)
        mean = p.mean(axis=1)
        if seed is not None and new is not None and predictor.unknown(part).any():
            p = family.mean(predictor.sampled(part, new[cut], seed))
        yield mean, p


def _log_means(predictor: Predictor, family: Family, rows: WeightedData, new: IntArray | None) -> FloatArray:  # noqa: ARG001
    """Return the log means of 1 - p and p over draws of each of the rows, shape (n, 2): first the smaller one."""
    log_p = _log_mean(predictor, family, rows)
    log_q, likely = np.log1p(-np.exp(np.minimum(log_p, _LOG_HALF))), log_p > _LOG_HALF
    log_q[likely] = _log_mean(predictor, family, replace(rows, y=-rows.y).take(likely))
    log_p[likely] = np.log1p(-np.exp(log_q[likely]))
    return np.stack([log_q, log_p], axis=1)


def _log_mean(predictor: Predictor, family: Family, rows: WeightedData) -> FloatArray:
    """Return the log mean over draws of the probability of each row's label, shape (n,)."""
    out = np.empty(len(rows))
    for part, log_p in log_likelihood_tiles(predictor, rows, family):
        _log_mean_exp(log_p, out[part])
    return out


@jit_sums
def _log_mean_exp(log_p: FloatArray, out: FloatArray) -> None:
    """Write the log mean of exp(log_p), shape (n, S), over draws; `log_p` is overwritten."""
    for n in range(len(log_p)):
        row = log_p[n]
        top = min(row.max(), 0.0)
        for i in range(row.size):
            row[i] = exp_minus(max(top - row[i], 0.0))
        total = 0.0
        for i in range(row.size):
            total += row[i]
        out[n] = top + math.log(total / row.size)


def raw_column(design: Design, X: FloatArray, name: str) -> FloatArray | None:
    """Return a raw column, of a factor the places of its levels, told by columns of the design; None if none tells."""
    names = list(design.names)
    lead = int(design.intercept)

    def column(of: str) -> FloatArray | None:
        if of not in names[lead:]:
            return None
        d = names.index(of, lead)
        scale = 1.0 if design.scale is None else design.scale[d - lead]
        center = 0.0 if design.center is None else design.center[d - lead]
        return np.asarray(X[:, d] * scale + center)

    read = column(name)
    if read is not None:
        return read
    for term, levels in _factors(design, name).items():
        ones = [(place, column(f"{term}[{level}]")) for place, level in enumerate(levels)]
        indicators = [(place, indicator) for place, indicator in ones if indicator is not None]
        if len(indicators) == len(levels) - 1 and ones[0][1] is None:  # coded against the first
            codes = np.sum([place * np.rint(indicator) for place, indicator in indicators], axis=0)
            text = name in dict(design.raw_levels)
            return np.asarray(codes if text else np.asarray(levels)[codes.astype(np.int64)], dtype=np.float64)
    return None


def _factors(design: Design, name: str) -> dict[str, tuple[Any, ...]]:
    """Return the terms that a column may make as a factor, and its levels."""
    return {term: categories_of(design, name, term) for term in (name, f"C({name})")}


def factor_levels(design: Design, name: str) -> tuple[Any, ...]:
    """Return the levels of a raw column that is a factor of the design; empty of a column of numbers."""
    return next((levels for levels in _factors(design, name).values() if levels), ())


_SUMMED_ROWS = 1024  # of a thread's piece: fixed, so that the number of threads changes no bit


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
    parts = (by,) if isinstance(by, str) else tuple(by)
    columns = {grouping.name: grouping.columns for grouping in design.groups}
    read = [name for part in (*parts, *columns) for name in columns.get(part, (part,))]
    table, sizes = cells_of_population(cells, weights, read)
    X = finite_design(design, feature_matrix(table, design.raw_names, design.raw_levels))
    offset = None if design.offset is None else column_offset(table, design.offset, "cells")
    group = [Grouper(factor).codes(column_of(table, factor.name, factor.parts), 0) for factor in design.groups]
    rows = positive_rows(X, offset, np.stack(group, axis=1) if group else None)
    chosen = posterior.positions(check_integer(max_draws, "max_draws", low=1))
    effects = [_effects(idata, posterior, grouping) for grouping in design.groups]
    predictor = Predictor(posterior.flat[chosen], effects, design, chosen)
    codes, index = _population_parts(table, parts, {factor.name: factor.parts for factor in design.groups})
    sums = sums_of_levels(predictor, family, rows.with_weights(sizes), codes, len(index))
    total = np.asarray(np.bincount(codes, sizes, len(index)), dtype=np.float64)
    if not (total > 0.0).all():
        raise DataError(f"weights (column {weights!r}) are all 0 in {index[int(np.argmin(total))]!r}; drop these cells")
    return PopulationShares(sums / total[:, None], total, index)


def cells_of_population(cells: Any, weights: str, columns: Sequence[str] = ()) -> tuple[Any, FloatArray]:
    """Return cells as a table of Arrow that has some columns, and their sizes, the column `weights`."""
    if not is_table(cells):
        raise DataError(f"cells is a {type(cells).__name__}; give a data frame with a row for each cell")
    table = as_table(cells, "cells")
    if table.num_rows == 0:
        raise DataError("cells is an empty table, so there is no average; give at least one cell")
    for name in (weights, *columns):
        if name not in table.column_names:
            raise DataError(f"cells has no column {name!r}; it has {listed(table.column_names, 10)}")
    check_numeric(table.schema, (weights,))
    numbers = as_floats(table.column(weights))
    return table, check_weights(numbers, table.num_rows, f"weights (column {weights!r})", zero=True)


def _effects(idata: Any, posterior: Posterior, grouping: Grouping) -> Factor:
    """Return the effects of a factor at all draws: of the variable `u_g`, or of that which has its dimension."""
    variables, factor = idata["posterior"], grouping.name
    name = f"u_{factor}"
    if isinstance(unkept := posterior.variables.get(name), EffectDraws):
        return Factor(grouping, unkept)
    if name not in variables:
        named = [str(key) for key, each in variables.data_vars.items() if factor in each.dims or key == factor]
        if len(named) != 1:
            candidates = f"variables {', '.join(map(repr, named))}" if named else "no variable"
            raise DataError(f"idata has {candidates} of the dimension {factor!r}; call its effects {name!r}")
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


def _population_parts(table: Any, names: Sequence[str], joined: Mapping[str, Parts]) -> tuple[IntArray, pd.Index]:
    """Return each row's part of the population, and the names of the parts; of factors the columns that they join."""
    if not names:
        return np.zeros(table.num_rows, dtype=np.int64), pd.Index(["all"], name="population")
    columns_of_parts = {name: column_of(table, name, joined.get(name, ())) for name in names}
    columns = pd.DataFrame({name: factor_values(column, name).to_pandas() for name, column in columns_of_parts.items()})
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

    cuts = [slice(start, start + _SUMMED_ROWS) for start in range(0, len(rows), _SUMMED_ROWS)]
    sums = np.zeros((n_levels, len(predictor)))
    with one_blas_thread(), ThreadPoolExecutor(available_cores(), "predict") as threads:
        for levels, part in threads.map(piece, cuts):
            sums[levels] += part
    return sums


def sums_of_piece(
    predictor: Predictor, family: Family, rows: WeightedData, codes: IntArray
) -> tuple[IntArray, FloatArray]:
    """Return the levels of few rows, shape (K,), and sum w p over the rows of each under each draw, (K, S)."""
    levels, places = np.unique(codes, return_inverse=True)
    shares = np.zeros((len(levels), len(rows)))
    shares[places, np.arange(len(rows))] = rows.weights
    return levels, np.asarray(shares @ predictor.average(rows, family))
