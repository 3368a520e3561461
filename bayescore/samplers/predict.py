r"""Predicted probabilities of new rows, from the draws.

A row of a known group has the mean of p(eta) over the draws, its group's effect included. The effect b of a new group
is not known, and an interval of p has its part in it: with each draw goes a draw of b ~ N(0, sigma^2), or p is averaged
over b (`Predictor.average`) for the share among rows of many new groups. The mean is the same, and has no Monte Carlo
error of b.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from bayescore.compiled import jit_sums
from bayescore.data.passes.threads import available_cores, one_blas_thread
from bayescore.data.sparse import finite_csr
from bayescore.models.elementary import exp_minus
from bayescore.models.families import Family
from bayescore.models.posterior import log_likelihood_tiles
from bayescore.models.predictor import Predictor
from bayescore.samplers.inference_data import Posterior, read_posterior
from bayescore.samplers.new_rows import design_rows, groups_of, numbers_of_new, offset_of, positive_rows
from bayescore.samplers.row_quantiles import row_quantiles
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import RandomState, check_choice, check_positive, check_seed

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
