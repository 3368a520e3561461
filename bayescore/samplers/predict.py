r"""Predicted probabilities of new rows, from the draws.

A row of a known group has the mean of p(eta) over the draws, its group's effect included. The effect b of a new group
is not known, and an interval of p has its part in it: with each draw goes a draw of b ~ N(0, sigma^2), or p is averaged
over b (`Predictor.average`) for the share among rows of many new groups. The mean is the same, and has no Monte Carlo
error of b.

New rows of a posterior's model: their columns in its design, their offsets and their groups.

Raw columns of data that the columns of a design matrix tell.

What draws say about labelled rows: their pointwise log-likelihood, and labels that the model would give them.

.. math:: y^{rep}_{ns} \sim \mathrm{Bernoulli}\, p(\eta_{ns}), \quad \eta_{ns} = x_n \cdot \beta_s + o_n + u_{s,g(n)}

A row of a known group has its effect u; one of a new group has one of its own, drawn from N(0, sigma^2) in each draw.

`pm.sample_posterior_predictive` cannot draw them, as a weighted potential has no observed variable. A weighted
log-likelihood is no predictive density and must not reach `az.loo`; that of `log_likelihood` is unweighted.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from bayescore.compiled import available_cores, jit_sums, one_blas_thread
from bayescore.data.column_kinds import as_floats, as_table, check_numeric
from bayescore.data.coreset import check_no_pseudo, check_same_design
from bayescore.data.design import Design, Grouping, one_intercept
from bayescore.data.factors import column_of, values
from bayescore.data.formula_design import categories_of, formula_of
from bayescore.data.groups import Grouper
from bayescore.data.open import open_in
from bayescore.data.responses import Expression, events_of, numbers_of
from bayescore.data.tables import feature_matrix, finite_csr, is_table
from bayescore.families import Family
from bayescore.models.posterior import log_likelihood_tiles
from bayescore.models.predictor import Predictor
from bayescore.numerics.chains import row_quantiles
from bayescore.numerics.elementary import exp_minus
from bayescore.samplers.posterior import Posterior, made_here, read_posterior
from bayescore.text import listed
from bayescore.types import NO_GROUP, FloatArray, IntArray, WeightedData
from bayescore.validation import (
    DataError,
    Places,
    RandomState,
    check_choice,
    check_finite,
    check_integer,
    check_offset,
    check_positive,
    check_seed,
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
    names = [own.name for own in design.groups]
    if one_intercept(design.groups) and given is not None and not isinstance(given, Mapping):
        given = {names[0]: given}
    known = f"give a dict with the levels of the rows, or their column, by the names {', '.join(map(repr, names))}"
    if given is not None and not isinstance(given, Mapping):
        raise DataError(f"groups is a {type(given).__name__}; {known}")
    by_name = {} if given is None else given
    if unknown := [name for name in by_name if name not in names]:
        raise DataError(f"groups names {unknown[0]!r}, no grouping factor of the posterior; {known}")
    return np.stack([_codes(own, X, n_rows, by_name.get(own.name)) for own in design.groups], axis=1)


def numbers_of_new(posterior: Posterior, X: Any, group: IntArray, given: Any) -> IntArray:
    """Return a number of each row's group, the same for a level whatever the other rows are, shape (n, F)."""
    found, design = np.zeros_like(group), posterior.design
    assert design is not None
    for f, own in enumerate(design.groups):
        if (new := np.flatnonzero(group[:, f] == NO_GROUP)).size:
            each = given.get(own.name) if isinstance(given, Mapping) else given
            levels = values(_levels_of(own, X, len(group), each), own.name)  # 7.0 is the level 7, as among those drawn
            distinct, place = np.unique(levels.take(new).to_pandas().astype(str), return_inverse=True)
            digests = [blake2b(level.encode(), digest_size=7).digest() for level in distinct]
            found[new, f] = np.array([int.from_bytes(digest, "big") for digest in digests], dtype=np.int64)[place]
    return found


def _codes(own: Grouping, X: Any, n_rows: int, given: Any) -> IntArray:
    """Return the place of each row's group among the levels drawn, shape (n,), `NO_GROUP` for a new one."""
    return Grouper(own, new=True).codes(_levels_of(own, X, n_rows, given), 0, hint=_MISSING_HINT)


def _levels_of(own: Grouping, X: Any, n_rows: int, given: Any) -> Any:
    """Return the group of each row, a column of Arrow."""
    column, known, read = (own.name, own.parts, own.columns) if given is None else (given, (), (given,))
    if isinstance(column, str):
        table = as_table(X, "X") if is_table(X) else None
        names = [] if table is None else table.column_names
        if table is None or (missing := [name for name in read if name not in names]):
            lacking = column if table is None else missing[0]
            raise DataError(
                f"X has no column {lacking!r} with the group of each row; add it, or where the function takes it give "
                "groups=, a level for each row, or any other value for a new group"
            )
        found = column_of(table, column, known)
    else:
        found = as_table(pd.DataFrame({own.name: np.asarray(column)}), "groups").column(own.name)
    if len(found) != n_rows:
        raise DataError(f"groups has {len(found)} entries and X {n_rows} rows; give one for each row")
    return found


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
    own = Expression.of(text, [] if table is None else table.column_names)
    for name in own.columns:
        if table is None or name not in table.column_names:
            raise DataError(
                f"{argument} has no column {name!r} of the offset {text!r}{whence}: add the column, or where the "
                "function takes it give offset=, a number for each row, 0 for none"
            )
    assert table is not None
    check_numeric(table.schema, own.columns)
    return own.values(lambda name: as_floats(table.column(name)), table.num_rows)


_ROWS = 4096  # of a thread's piece: fixed, so that the number of threads changes no bit


_LOG_HALF = math.log(0.5)


_SPARSE_ROWS = 4 * _ROWS  # that are dense at a time: 130 MB of 1,000 columns


_CELLS = 1 << 17  # entries of a (rows, draws) block whose quantiles are taken at a time: 1 MB


def predict(
    idata: Any,
    X: Any,
    *,
    offset: ArrayLike | str | None = None,
    groups: ArrayLike | str | Mapping[str, Any] | None = None,
    prob: float | None = None,
    new_groups: str = "sample",
    random_state: RandomState = 0,
    var_name: str = "beta",
) -> pd.DataFrame:
    r"""Return the posterior of P(y = +1 | x), or of the rate of counts, for new rows, from the draws.

    .. math:: P(y = 1 \mid x) = \frac1S \sum_s p(x \cdot \beta_s + o)

    to 1e-9, by one matrix product of rows and draws, in blocks and on all cores. Intervals sort the draws of each row,
    which takes several times as long.

    Parameters
    ----------
    idata : InferenceData
        From `sample`.
    X : array, sparse matrix or data frame, shape (n, D_raw)
        Raw features, as given to `build_coreset`: the formula, intercept and standardisation that the coreset
        remembers are applied here.
    offset : array, shape (n,), or str, optional
        Offsets o of the rows, or their column in X, where the posterior's rows had some; by default the column,
        or the columns of the expression, that theirs had.
    groups : array, shape (n,), str or dict, optional
        Group of each row, or their column in X, where the posterior's rows had groups; by default the column of the
        name that theirs had; of several factors, or effects of columns, a dict of them by name.
    prob : float, optional
        Probability of the equal-tailed interval; without it there is none.
    new_groups : {"sample", "average"}
        What the interval of a group that the posterior does not know is of: with "sample" its probability, a draw of
        its effects from N(0, sigma^2) going with each draw; with "average" the average probability of many such groups.
        The mean is the same.
    random_state : int, Generator, SeedSequence or None
        Seed of these effects.
    var_name : str
        Name of the vector of coefficients in a posterior of your own model. That tells neither likelihood nor design:
        set ``idata.posterior.attrs["family"]``, and give rows of the design matrix, ``core.design.transform(X)``.

    Returns
    -------
    DataFrame, n rows
        Column `mean` (the predictive probability), and with `prob` also `lower` and `upper`; empty where X has no
        rows.

    Raises
    ------
    TypeError, DataError
        If `idata` is no posterior, or does not tell its family; if rows lack a column or the offset, or have a
        level that the coreset's data had not.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, progressbar=False)
    >>> idata = bc.sample(core, random_seed=2, progressbar=False)
    >>> bc.predict(idata, np.array([[0.0, 0.0], [2.0, 0.0]]), prob=0.9).round(1)
       mean  lower  upper
    0   0.5    0.5    0.5
    1   0.9    0.9    0.9
    """
    posterior = read_posterior(idata, "idata", min_draws=1, var_name=var_name)
    tail = None if prob is None else 0.5 * (1.0 - check_positive(prob, "prob", below=1.0))
    seed = new_groups_seed(new_groups, random_state)
    found = of_rows(posterior, X, partial(_figures, tail=tail, seed=seed), offset, groups)
    columns = ["mean"] if tail is None else ["mean", "lower", "upper"]
    return pd.DataFrame(found, columns=columns, index=X.index if isinstance(X, pd.DataFrame) else None)


def log_predictive(idata: Any, X: Any) -> FloatArray:
    r"""Return the log posterior means of P(y = -1 | x) and P(y = +1 | x) of new rows, shape (n, 2).

    .. math:: \log \frac1S \sum_s p(\pm x \cdot \beta_s)

    Small probabilities are those of draws, to 1e-9 of themselves, the others what is left of 1.
    """
    return of_rows(read_posterior(idata, "idata", min_draws=1), X, _log_means, None, None)


def new_groups_seed(new_groups: object, random_state: RandomState) -> int | None:
    """Return the seed of new groups' effects; None where these are averaged over."""
    check_choice(new_groups, "new_groups", ("sample", "average"))
    return check_seed(random_state) if new_groups == "sample" else None


def of_rows(posterior: Posterior, X: Any, function: Callable[..., FloatArray], offset: Any, groups: Any) -> FloatArray:
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
    known, group = offset_of(posterior, X, n_rows, offset), groups_of(posterior, X, n_rows, groups)
    new = None if group is None else numbers_of_new(posterior, X, group, groups)
    found, end = [], 0
    for block in blocks:
        part = slice(end, end := end + len(block))
        own = positive_rows(block, None if known is None else known[part], None if group is None else group[part])
        which = None if new is None else new[part]
        pieces = [slice(start, start + _ROWS) for start in range(0, max(len(own), 1), _ROWS)]

        def piece(cut: slice, own: WeightedData = own, which: IntArray | None = which) -> FloatArray:
            return function(predictor, family, own.take(cut), None if which is None else which[cut])

        with one_blas_thread(), ThreadPoolExecutor(available_cores(), "predict") as threads:
            found += list(threads.map(piece, pieces))
    return np.concatenate(found)


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


def _figures(
    predictor: Predictor,
    family: Family,
    rows: WeightedData,
    new: IntArray | None,
    *,
    tail: float | None,
    seed: int | None,
) -> FloatArray:
    """Return the mean of p over draws of each of the rows, labels +1, and quantiles `tail` and 1 - `tail`, if given."""
    if tail is None:
        if family.response == "labels" and not predictor.unknown(rows).any():  # a rate may be above 1
            return np.exp(_log_mean(predictor, family, rows))[:, None]
        return np.concatenate([mean for mean, _ in probability_tiles(predictor, family, rows, None, None)])[:, None]
    tiles = probability_tiles(predictor, family, rows, new, seed)
    ends = ((mean, row_quantiles(p, np.array([tail, 1.0 - tail]))) for mean, p in tiles)
    return np.concatenate([np.column_stack([mean, *both]) for mean, both in ends])


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
    powers = np.empty(log_p.shape[1])
    for n in range(len(log_p)):
        row = log_p[n]
        top = min(row.max(), 0.0)
        for i in range(row.size):
            row[i] = max(top - row[i], 0.0)
        exp_minus(row, powers, powers.view(np.int64))
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

    found = column(name)
    if found is not None:
        return found
    for term, levels in _factors(design, name).items():
        ones = [(place, column(f"{term}[{level}]")) for place, level in enumerate(levels)]
        told = [(place, own) for place, own in ones if own is not None]
        if len(told) == len(levels) - 1 and ones[0][1] is None:  # coded against the first
            codes = np.sum([place * np.rint(own) for place, own in told], axis=0)
            text = name in dict(design.raw_levels)
            return np.asarray(codes if text else np.asarray(levels)[codes.astype(np.int64)], dtype=np.float64)
    return None


def _factors(design: Design, name: str) -> dict[str, tuple[Any, ...]]:
    """Return the terms that a column may make as a factor, and its levels."""
    return {term: categories_of(design, name, term) for term in (name, f"C({name})")}


def factor_levels(design: Design, name: str) -> tuple[Any, ...]:
    """Return the levels of a raw column that is a factor of the design; empty of a column of numbers."""
    return next((levels for levels in _factors(design, name).values() if levels), ())


def log_likelihood(idata: Any, data: WeightedData, *, var_name: str = "beta") -> xr.DataArray:
    r"""Return log p(y_n | x_n, beta_s, u_s) of each row of `data` under each draw, without weights.

    Of a model with groups it is conditional, given the effect of the row's group, as bambi's and brms's are.

    Parameters
    ----------
    idata : InferenceData
        From `sample`.
    data : WeightedData
        Rows of the same design matrix, for example ``all_rows(...)``. For leave-one-out cross-validation
        they must be the full data: the rows of a coreset are no random sample.
    var_name : str
        Name of the vector of coefficients, as in `predict`.

    Returns
    -------
    DataArray, dims (chain, draw, row)
        Memory: 8 bytes for each draw and row.

    Raises
    ------
    TypeError, DataError
        If `idata` is no posterior or does not tell its family, or `data` have another design or pseudo-rows.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, progressbar=False)
    >>> idata = bc.sample(core, random_seed=2, progressbar=False)
    >>> rows = bc.all_rows(X[:100], y[:100], design=core.design, progressbar=False)
    >>> idata["log_likelihood"] = bc.log_likelihood(idata, rows).to_dataset()
    >>> idata["log_likelihood"]["y"].shape
    (4, 1000, 100)
    """
    posterior = read_posterior(idata, "idata", min_draws=1, var_name=var_name)
    check_same_design(data, posterior.features, posterior.design, "data")
    check_no_pseudo(data, "data")
    predictor = posterior.predictor()
    if (new := predictor.unknown(data)).any():
        raise DataError(
            f"data has rows of new groups, row {data.index[new.argmax()]} first, whose effects no draw has; leave them "
            "out, or use predict, which averages over them"
        )
    log_p = predictor.at_draws(posterior.family).log_p(predictor.eta(data), data.y[:, None]).T
    return xr.DataArray(
        log_p.reshape(*posterior.draws.shape[:2], len(data)),
        dims=("chain", "draw", "row"),
        coords={"chain": idata.posterior.chain, "draw": idata.posterior.draw, "row": data.index},
        name="y",
    )


def posterior_predictive(
    idata: Any,
    data: Any,
    *,
    max_draws: int = 500,
    random_state: RandomState = None,
    var_name: str = "beta",
) -> Any:
    """Return the posterior with replicated and observed labels of `data` added to it, for ArviZ's predictive plots.

    Parameters
    ----------
    idata : InferenceData
        From `sample`; it is left as it is.
    data : data frame or WeightedData
        Rows, each of which counts once: test rows or a sample of the data. A pandas, polars or Arrow table has the raw
        columns and labels by the names that the coreset's data had; arrays come as ``all_rows(X, y,
        design=core.design)``. The rows of a coreset are no random sample, and plots know no weights.
    max_draws : int
        Draws used, evenly spaced; a byte of memory for each of them and each row.
    random_state : int, Generator, SeedSequence or None
        Seed of the labels, kept in the group's attributes.
    var_name : str
        Name of the vector of coefficients in a posterior of your own model, as in `predict`.

    Returns
    -------
    InferenceData
        All groups of `idata`, and `posterior_predictive` and `observed_data`, each with a variable ``y`` of dims
        (chain, draw, row) and (row,): 1 for the class that is +1, 0 for the other; or counts, at the rows'
        exposures, or numbers.

    Notes
    -----
    ArviZ 0.23 has ``plot_ppc``, ``plot_separation(..., y="y")`` and ``plot_bpv``. In ArviZ 1
    ``plot_ppc_pava(..., data_type="binary")`` stands for the first two and ``plot_ppc_tstat`` for the third.

    Raises
    ------
    TypeError, DataError
        If `idata` is no posterior or does not tell its family, or `data` have no labels, another design, or
        weights.

    References
    ----------
    Gelman, Meng and Stern (1996), Posterior predictive assessment of model fitness, Statistica Sinica 6, 733-807.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, progressbar=False)
    >>> idata = bc.sample(core, random_seed=2, progressbar=False)
    >>> rows = bc.all_rows(X[:100], y[:100], design=core.design, progressbar=False)
    >>> check = bc.posterior_predictive(idata, rows, random_state=3)  # for az.plot_separation(check, y="y")
    >>> check["posterior_predictive"]["y"].shape
    (4, 125, 100)
    """
    posterior = read_posterior(idata, "idata", min_draws=1, var_name=var_name)
    data = data if isinstance(data, WeightedData) else _labelled_rows(posterior, data)
    check_same_design(data, posterior.features, posterior.design, "data")
    check_integer(max_draws, "max_draws", low=1)
    data, observed = _observed(data, posterior.family.response)
    other = np.flatnonzero(data.weights != 1.0)
    if len(other) and not posterior.family.exponential:  # whose weights are exposures
        raise DataError(
            f"data has rows of weight other than 1, row {data.index[other[0]]} of {data.weights[other[0]]:g}: a "
            "predictive check counts rows, so give unweighted ones, such as all_rows(rows, design=core.design)"
        )
    seed = check_seed(random_state)
    rng, predictor = np.random.default_rng(seed), posterior.predictor(max_draws)
    labels = np.empty((len(predictor), len(data)), dtype=observed.dtype)
    new = predictor.unknown(data).any()
    for place in range(len(predictor)):  # a draw at a time: 8 bytes a row beside the result
        at = predictor.take(slice(place, place + 1))
        eta = at.eta(data)[:, 0]
        if new:
            eta += np.sqrt(at.variance(data)[:, 0]) * rng.standard_normal(len(data))
        labels[place] = at.at_draws(posterior.family).draw(eta, rng, data.weights)
    drawn = labels.reshape(len(posterior.draws), -1, len(data))
    rows = {"row": data.index}
    used = posterior.positions(max_draws)[: drawn.shape[1]]  # of the first chain, as of all
    found = idata.copy()
    found["posterior_predictive"] = xr.Dataset(
        {"y": (("chain", "draw", "row"), drawn)},
        coords={"chain": idata["posterior"]["chain"].values, "draw": idata["posterior"]["draw"].values[used], **rows},
        attrs={**made_here(), "random_state": str(seed), "family": posterior.family.name},
    )
    found["observed_data"] = xr.Dataset({"y": ("row", observed)}, coords=rows, attrs=made_here())
    return found


def _observed(rows: WeightedData, response: str) -> tuple[WeightedData, NDArray[Any]]:
    """Return rows, one for each response, and the responses."""
    if response == "numbers":
        return numbers_of(rows)
    if response == "counts":
        rows, events = events_of(rows)
        return rows, events.astype(np.int64)
    return rows, (rows.y > 0).astype(np.int8)


def _labelled_rows(posterior: Posterior, data: Any) -> WeightedData:
    """Return the rows of a table of raw columns and labels in the posterior's design."""
    design, label = posterior.design, posterior.coreset.get("label")
    if design is None or not is_table(data):
        raise TypeError(
            f"data is a {type(data).__name__}; give a data frame of raw columns and labels, where {posterior.name} "
            "tells its design, or all_rows(X, y, design=core.design)"
        )
    table = as_table(data)
    columns = table.column_names
    if label not in columns:
        raise DataError(
            f"data has no column {label!r} of labels, which replicated ones stand beside; it has "
            f"{listed(columns, 10)}: add it, or use predict, which needs none"
        )
    offset = () if design.offset is None else Expression.of(design.offset, columns).columns
    groups = [name for own in design.groups for name in own.columns]
    used = (*design.raw_names, label, *offset, design.exposure, *groups)  # others, as weights, are left aside
    dataset = open_in(
        design,
        table.select([name for name in columns if name in used]),
        label=label,
        whose=posterior.name,
        new_groups=True,
    )
    _ = dataset.scan  # checks the rows
    return dataset.load()
