"""`build_coreset`, the one verb, and `full_data`, its counterpart for the whole data."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from bayescore.coresets.aggregate import aggregate
from bayescore.coresets.calibrated import calibrated_coreset
from bayescore.coresets.finish import check_names, finish
from bayescore.coresets.leverage_coreset import leverage_coreset
from bayescore.coresets.merge_reduce import tree_coreset
from bayescore.coresets.one_pass import check_stream, stream_coreset
from bayescore.coresets.online import online_coreset
from bayescore.coresets.options import METHODS, check_options
from bayescore.coresets.sensitivity import sensitivity_coreset, uniform_coreset
from bayescore.coresets.separability import warn_if_separable
from bayescore.data.blocks import is_stream
from bayescore.data.coreset import Coreset
from bayescore.data.opened import Opened, open_rows
from bayescore.data.threads import one_blas_thread
from bayescore.models.likelihoods import check_likelihood
from bayescore.types import Design, WeightedData
from bayescore.validation import (
    DataError,
    RandomState,
    check_choice,
    check_integer,
    check_seed,
    warn,
)


def build_coreset(
    data: Any,
    y: Any = None,
    *,
    likelihood: str | None = None,
    method: str = "auto",
    size: int | str = "auto",
    label: str | None = None,
    weights: Any = None,
    intercept: bool = False,
    standardize: bool = False,
    random_state: RandomState = None,
    progressbar: bool = True,
    **options: Any,
) -> Coreset:
    r"""Shrink a data set to a few hundred weighted rows with nearly the same posterior.

    Parameters
    ----------
    data : array, data frame, Arrow table, path, Dask collection, callable, iterator, Coreset or Source
        Rows: a 2-D array; a pandas, polars, Arrow or Dask table, or the path of a Parquet file or folder, with
        `label` naming the column of the labels; a callable that returns a fresh iterator of blocks, (X, y) or
        (X, y, weights), each time; such an iterator, which is read once; or a coreset, to shrink it further.
        `bayescore.data.sources` says which method goes with which.
    y : array, shape (N,), optional
        Labels, any two classes; the second in sorted order is +1.
    likelihood : name of a registered likelihood, such as "probit", optional
        Model that the coreset is for; by default that of `data` where it is a coreset, else "logistic".
    method : {"auto", "uniform", "sensitivity", "leverage", "online", "merge_reduce", "calibrated", "aggregate"}
        * ``"aggregate"`` merges identical rows: lossless, whatever their number.
        * ``"calibrated"`` draws by score and curvature at the full data's mode and fits the weights so that mode
          and curvature of the full data are met: by far the most accurate where rows do not repeat.
        * ``"sensitivity"`` draws by the bound of Huggins et al. (2016); logistic only.
        * ``"leverage"`` draws by leverage scores (Peters 2021), in two passes after the check of the rows that every
          method makes; unbiased for every likelihood, its guarantee is for the probit.
        * ``"online"`` does so in one pass, by scores against the rows so far; `OnlineCoreset` takes a stream.
        * ``"merge_reduce"`` calibrates in one pass, block by block, and puts blocks together in a tree: nearly as
          accurate as ``"calibrated"``; `StreamingCoreset` takes a stream.
        * ``"uniform"`` draws rows with equal probability, without replacement.
        * ``"auto"`` merges identical rows where at most `size` (1000 for "auto") are distinct; else it calibrates. Of
          an iterator, whose rows come once, it is ``"merge_reduce"``. ``core.method`` says which.
    size : int or "auto"
        Rows to draw; by scores a row may be drawn more than once, so there can be fewer. "auto" is, for
        ``"calibrated"``, the smallest of the sizes tried, from max(50, 5 D) to 80 D, whose predicted error is within
        `tolerance` (they and their errors are in ``core.params["size_curve"]``); for ``"sensitivity"`` and
        ``"leverage"`` the one that `epsilon` asks for where it is given; else 1000, or 20 rows for each column if that
        is more. ``"aggregate"`` takes no size.
    label : str, optional
        Column of the labels.
    weights : array or str, optional
        Positive weights of the rows, or the name of their column.
    intercept : bool
        Put a column of ones, named "intercept", first.
    standardize : bool
        Center the columns and divide them by their (weighted, population) standard deviation; constant
        columns stay as they are.
    random_state : int, Generator, SeedSequence or None
        Seed; the one used is kept as ``core.random_state``. The same seed gives the same coreset whatever
        the source, its blocks and the number of threads.
    progressbar : bool
        Show progress in terminals and notebooks.
    **options
        For ``"sensitivity"``: `clusters` (number k; default 4 up to 10 columns, else 6), `radius` (R, or
        "auto" for 3 / sqrt(normalised k-means cost)), `center` (theta*, shape (D,); default 0), `clustering` of the
        signed rows in place of greedy k-means++ on a subsample (centers of shape (k, D); what a function of
        `bayescore.clustering` returns; a scikit-learn clusterer with ``cluster_centers_``, fitted, or not: then it is
        fitted to the subsample; or "d-means++", whose peers are the partitions, row groups or blocks of the data: no
        row but the centers comes here, and the coreset then depends on how the rows are cut), `epsilon` and `delta`
        (default 0.05) for ``size="auto"``. For ``"leverage"``: `scores`, "exact" or "sketch" (estimates, for which
        there is no guarantee), `project` (see `leverage_scores`), `epsilon`, `delta`
        and `mu`, the complexity of the data, for ``size="auto"`` (see `leverage_size`). For ``"calibrated"`` and
        ``"auto"``: `prior`, under which the mode is sought (default Normal(0, 4)); only the likelihood is
        calibrated, so that the coreset serves other priors of like strength too; and `tolerance`, the error to aim
        at, of means in posterior sds and of sds relatively (default 0.05). For ``"merge_reduce"``: `reduce`, `mu` and
        `leaf_rows`, see `StreamingCoreset`.

    Returns
    -------
    Coreset

    Raises
    ------
    DataError
        If the data cannot be used; the message names the place and the remedy.
    ValueError, TypeError
        For arguments that are out of range, of the wrong kind, or do not fit the method.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="sensitivity", size=200, intercept=True, random_state=1)
    >>> core.n_total, core.feature_names
    (5000, ('intercept', 'x0', 'x1'))
    """
    chosen = check_choice(method, "method", METHODS)
    link = _likelihood_of(data, likelihood)
    seed = check_seed(random_state)
    check_options(chosen, link, size, options)
    if is_stream(data):
        chosen = check_stream(chosen, standardize, y=y, label=label, weights=weights)
    opened = _open(data, y, label, weights, intercept, standardize, progressbar, once=True)
    design = {"intercept": intercept, "standardize": standardize}
    core = build_opened(opened, chosen, size, link, seed, design, options)
    return _of(data, core)


def build_opened(
    opened: Opened, method: str, size: int | str, link: str, seed: int, asked: dict[str, bool], options: dict[str, Any]
) -> Coreset:
    """Build a coreset of opened rows; see `build_coreset`."""
    if not opened.again:
        return stream_coreset(opened, method, link, size, asked["intercept"], seed, options)
    n_rows = opened.source.n_rows
    if size != "auto":
        check_integer(size, "size", low=1, high=n_rows, why=", the rows of the data; full_data keeps them all")
    opened = _designed(opened, **asked)
    rows: WeightedData | None = None
    params: dict[str, Any] = {}
    if method in ("auto", "aggregate"):
        limit = math.inf if method == "aggregate" else 1000 if size == "auto" else int(size)
        rows = aggregate(opened, limit)
        method, params = ("calibrated", {}) if rows is None else ("aggregate", {"lossless": True})
    draws = min(n_rows, max(1000, 20 * opened.n_features)) if size == "auto" else int(size)
    if rows is None and method in ("sensitivity", "leverage"):
        wanted = None if size == "auto" and "epsilon" in options else draws
        builder = sensitivity_coreset if method == "sensitivity" else leverage_coreset
        rows, params = builder(opened, wanted, seed, **options)
    elif rows is None and method == "online":
        rows, params = online_coreset(opened, draws, seed)
    elif rows is None and method == "merge_reduce":
        rows, params = tree_coreset(opened, draws, seed, likelihood=link, **options)
    elif rows is None and method == "calibrated":
        with one_blas_thread():
            rows, params = calibrated_coreset(
                opened, None if size == "auto" else draws, seed, likelihood=check_likelihood(link), **options
            )
    elif rows is None:
        rows, params = uniform_coreset(opened, draws, seed)
    if (
        method in ("leverage", "online") or params.get("reduce") == "leverage"
    ):  # what their guarantee needs is a finite mu
        warn_if_separable(opened, rows, seed)
    params = {**params, "passes": opened.n_passes}
    return _finished(rows, opened, method=method, likelihood=link, params=params, random_state=seed)


def full_data(
    data: Any,
    y: Any = None,
    *,
    likelihood: str | None = None,
    label: str | None = None,
    weights: Any = None,
    intercept: bool = False,
    standardize: bool = False,
    design: Design | None = None,
    progressbar: bool = True,
) -> Coreset:
    """Return all rows as a `Coreset` with their own weights (1 by default), read into memory.

    Models, samplers and comparisons take it as they take a coreset; it is also the door for weighted rows
    that were made elsewhere. The arguments are those of `build_coreset`, and for test rows `design`: with
    ``design=core.design`` they get the coreset's intercept, centers and scales in place of their own.
    """
    link = _likelihood_of(data, likelihood)
    opened = _open(data, y, label, weights, intercept, standardize, progressbar)
    if design is None:
        opened = _designed(opened, intercept, standardize)
    else:
        if intercept or standardize:
            raise ValueError("design brings its own intercept and scales; leave out intercept and standardize")
        names = opened.design.raw_names
        if names != design.raw_names:
            raise DataError(
                f"data has the features {', '.join(names[:5])}, the design {', '.join(design.raw_names[:5])}; give the "
                "same columns in the same order"
            )
        opened = Opened(opened.rows, design, progress=progressbar)
    _ = opened.scan  # checks the rows
    return _of(data, _finished(opened.gathered(), opened, method="full", likelihood=link, params={}, random_state=0))


def _likelihood_of(data: Any, likelihood: str | None) -> str:
    inherited = data.likelihood if isinstance(data, Coreset) else "logistic"
    return check_likelihood(inherited if likelihood is None else likelihood).name


def _open(
    data: Any,
    y: Any,
    label: str | None,
    weights: Any,
    intercept: bool,
    standardize: bool,
    progress: bool,
    once: bool = False,
) -> Opened:
    opened = open_rows(data, y, label=label, weights=weights, once=once, progress=progress)
    if isinstance(data, Coreset) and (intercept or standardize):
        raise ValueError("intercept and standardize belong to the raw data; the coreset's design stays as it is")
    return opened


def _designed(opened: Opened, intercept: bool, standardize: bool) -> Opened:
    """Check every row of raw data and put them through the design asked for."""
    design = opened.design
    check_names(design, opened.source.label, intercept)
    constant = opened.scan.constant
    names = np.asarray(design.names)[constant]
    if intercept and len(names):
        warn(f"column {str(names[0])!r} is constant, as the intercept is: the prior alone tells the two apart; drop it")
    if standardize:
        mean, sd = opened.moments()
        center = np.where(constant, 0.0, mean)
        scale = np.where(constant | (sd == 0.0), 1.0, sd)
        design = replace(design, center=tuple(center.tolist()), scale=tuple(scale.tolist()))
    if intercept:
        design = replace(design, intercept=True)
    return opened if design is opened.design else opened.through(design)


def _finished(rows: WeightedData, opened: Opened, **about: Any) -> Coreset:
    """Return rows as a coreset, with what the data say of it."""
    return finish(
        rows,
        design=opened.design,
        classes=opened.source.classes,
        label=opened.source.label,
        n_total=opened.scan.n_rows,
        weight_total=opened.scan.weight_total,
        **about,
    )


def _of(data: Any, core: Coreset) -> Coreset:
    """Return a coreset of `data`; that of a coreset stands for the first one's data."""
    if not isinstance(data, Coreset):
        return core
    return replace(core, n_total=data.n_total, weight_total=data.weight_total)
