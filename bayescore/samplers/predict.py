r"""Predicted probabilities of new rows, from the draws.

A row of a known group has the mean of p(eta) over the draws, its group's effect included. A row of a new group is
averaged over its effect, too (`Predictor.average`).
"""

import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from bayescore.compiled import jit_sums
from bayescore.data.design import Grouping, one_intercept
from bayescore.data.passes.threads import available_cores, one_blas_thread
from bayescore.data.sources.groups import Grouper
from bayescore.data.sparse import finite_csr
from bayescore.data.tables import as_floats, as_table, check_numeric, feature_matrix, is_table
from bayescore.models.elementary import exp_minus
from bayescore.models.families import Family
from bayescore.models.posterior import log_likelihood_tiles
from bayescore.models.predictor import Predictor
from bayescore.samplers.inference_data import Posterior, read_posterior
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, check_offset, check_positive

_ROWS = 4096  # of a thread's piece: fixed, so that the number of threads changes no bit
_LOG_HALF = math.log(0.5)
_SPARSE_ROWS = 4 * _ROWS  # that are dense at a time: 130 MB of 1,000 columns
_CELLS = 1 << 17  # entries of a (rows, draws) block of which quantiles are sorted: 1 MB


def predict(
    idata: Any,
    X: Any,
    *,
    offset: ArrayLike | str | None = None,
    groups: ArrayLike | str | Mapping[str, Any] | None = None,
    ci_prob: float | None = None,
    var_name: str = "beta",
) -> pd.DataFrame:
    r"""Return the posterior of P(y = +1 | x) for new rows, from the draws.

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
        Offsets o of the rows, or their column in X, where the posterior's rows had some; by default the column of the
        name that theirs had.
    groups : array, shape (n,), str or dict, optional
        Group of each row, or their column in X, where the posterior's rows had groups; by default the column of the
        name that theirs had; of several factors, or effects of columns, a dict of them by name. The probability of a
        group that it does not know is averaged over N(0, sigma^2).
    ci_prob : float, optional
        Probability of the equal-tailed interval; without it there is none.
    var_name : str
        Name of the vector of coefficients in a posterior of your own model. That tells neither likelihood nor design:
        set ``idata.posterior.attrs["family"]``, and give rows of the design matrix, ``core.design.transform(X)``.

    Returns
    -------
    DataFrame, n rows
        Column `mean` (the predictive probability), and with `ci_prob` also `lower` and `upper`; empty where X has no
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
    >>> bc.predict(idata, np.array([[0.0, 0.0], [2.0, 0.0]]), ci_prob=0.9).round(1)
       mean  lower  upper
    0   0.5    0.5    0.5
    1   0.9    0.9    0.9
    """
    posterior = read_posterior(idata, "idata", min_draws=1, var_name=var_name)
    tail = None if ci_prob is None else 0.5 * (1.0 - check_positive(ci_prob, "ci_prob", below=1.0))
    found = _of_rows(posterior, X, partial(_figures, tail=tail), offset, groups)
    columns = ["mean"] if tail is None else ["mean", "lower", "upper"]
    return pd.DataFrame(found, columns=columns, index=X.index if isinstance(X, pd.DataFrame) else None)


def log_predictive(idata: Any, X: Any) -> FloatArray:
    r"""Return the log posterior means of P(y = -1 | x) and P(y = +1 | x) of new rows, shape (n, 2).

    .. math:: \log \frac1S \sum_s p(\pm x \cdot \beta_s)

    Small probabilities are those of draws, to 1e-9 of themselves, the others what is left of 1.
    """
    return _of_rows(read_posterior(idata, "idata", min_draws=1), X, _log_means, None, None)


def _of_rows(posterior: Posterior, X: Any, function: Callable[..., FloatArray], offset: Any, groups: Any) -> FloatArray:
    """Return function(predictor, family, rows) of the rows, shape (n, ...), in blocks on all cores."""
    piece = partial(function, posterior.predictor(), posterior.family)
    sparse = bool(issparse(X))
    csr = finite_csr(X, "X") if sparse and X.shape[0] > 0 else None  # without rows it is as an array without rows
    if csr is None:
        blocks: Iterable[FloatArray] = [rows := _design_rows(posterior, X)]
        n_rows = len(rows)
    else:
        n_rows = csr.shape[0]
        cuts = [slice(low, low + _SPARSE_ROWS) for low in range(0, n_rows, _SPARSE_ROWS)]
        blocks = (_design_rows(posterior, csr[cut].toarray()) for cut in cuts)
    known, group = offset_of(posterior, X, n_rows, offset), groups_of(posterior, X, n_rows, groups)
    found, end = [], 0
    for block in blocks:
        part = slice(end, end := end + len(block))
        own = positive_rows(block, None if known is None else known[part], None if group is None else group[part])
        pieces = (own.take(slice(start, start + _ROWS)) for start in range(0, max(len(own), 1), _ROWS))
        with one_blas_thread(), ThreadPoolExecutor(available_cores(), "predict") as threads:
            found += list(threads.map(piece, pieces))
    return np.concatenate(found)


def _design_rows(posterior: Posterior, X: Any) -> FloatArray:
    """Return rows of the design matrix, shape (n, D)."""
    design = posterior.design
    if design is None:
        return feature_matrix(X, posterior.features)
    return design.transform(feature_matrix(X, design.raw_names, design.raw_levels))


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


def _codes(own: Grouping, X: Any, n_rows: int, given: Any) -> IntArray:
    """Return the place of each row's group among the levels drawn, shape (n,), `NO_GROUP` for a new one."""
    column = own.name if given is None else given
    if isinstance(column, str):
        if not is_table(X) or column not in (table := as_table(X, "X")).column_names:
            raise DataError(
                f"X has no column {column!r} with the group of each row; give groups=, a level for each row, or any "
                "other value for a new group"
            )
        found = table.column(column)
    else:
        found = as_table(pd.DataFrame({own.name: np.asarray(column)}), "groups").column(own.name)
    if len(found) != n_rows:
        raise DataError(f"groups has {len(found)} entries and X {n_rows} rows; give one for each row")
    return Grouper(own, new=True).codes(found, 0)


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
    if not is_table(X) or name not in (table := as_table(X, "X")).column_names:
        raise DataError(
            f"X has no offset {name!r}, which {posterior.name} was drawn with: give offset=, a number for each row, 0 "
            "for none"
        )
    check_numeric(table.schema, (name,))
    return check_offset(as_floats(table.column(name)), n_rows, f"offset (column {name!r})")


def _figures(predictor: Predictor, family: Family, rows: WeightedData, *, tail: float | None) -> FloatArray:
    """Return the mean of p over draws of each of the rows, labels +1, and quantiles `tail` and 1 - `tail`, if given."""
    new = predictor.unknown(rows)
    if tail is None and not new.any():
        return np.exp(_log_mean(predictor, family, rows))[:, None]
    parts = []
    step = max(1, _CELLS // len(predictor))
    for start in range(0, max(len(rows), 1), step):
        p = predictor.average(rows.take(slice(start, start + step)), family.mean)
        columns = [p.mean(axis=1)]
        if tail is not None:
            columns += list(np.quantile(p, [tail, 1.0 - tail], axis=1, overwrite_input=True))
        parts.append(np.stack(columns, axis=1))
    return np.concatenate(parts)


def _log_means(predictor: Predictor, family: Family, rows: WeightedData) -> FloatArray:
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
