"""Coresets of rows that come once: an iterator of blocks (X, y) or (X, y, weights).

The builders are those that need no second look at the rows. Labels are found on the way, and each block is checked as
it comes. Rows and weights are those that the same seed gives from any other source.
"""

from collections.abc import Iterator
from typing import Any

from bayescore.coresets.aggregate import aggregate
from bayescore.coresets.finish import check_names, finish
from bayescore.coresets.merge_reduce import tree_coreset
from bayescore.coresets.online import online_pass
from bayescore.coresets.sensitivity import uniform_coreset
from bayescore.coresets.separability import warn_if_rows_separable
from bayescore.data.blocks import LABEL, Stream
from bayescore.data.coreset import Coreset
from bayescore.validation import check_alone, check_integer

ONE_PASS = ("merge_reduce", "online", "uniform", "aggregate")


def check_stream(method: str, standardize: bool, **beside: object) -> str:
    """Return the method for rows that come once, "merge_reduce" for "auto"; no row is read.

    Raises
    ------
    DataError
        If labels or weights are given beside the blocks, which bring theirs.
    ValueError
        If the method, or standardising, needs the rows more than once.
    """
    check_alone("an iterator of blocks (X, y) or (X, y, weights)", **beside)
    asked = f"method={method!r}" if method not in ("auto", *ONE_PASS) else "standardize=True" if standardize else ""
    if asked:
        fit = ", ".join(repr(name) for name in ONE_PASS)
        raise ValueError(
            f"{asked} reads the rows more than once, and an iterator gives them once: the methods {fit} fit, with "
            "standardize=False; or give a callable that returns a fresh iterator each time, or a Parquet file"
        )
    return "merge_reduce" if method == "auto" else method


def stream_coreset(
    data: Iterator[Any],
    method: str,
    link: str,
    size: int | str,
    intercept: bool,
    seed: int,
    progressbar: bool,
    options: dict[str, Any],
) -> Coreset:
    """Build a coreset of an iterator of blocks; see `build_coreset`, and `check_stream` for the methods.

    Raises
    ------
    DataError
        If a block cannot be read or used, or the labels are not of two classes; blocks are counted from 0.
    TypeError
        If a block is no tuple.
    ValueError
        If `size` is more than there are rows.
    """
    rows = Stream(data, intercept=intercept)
    check_names(rows.design, LABEL, intercept)
    draws = max(1000, 20 * len(rows.design.names)) if size == "auto" else int(size)
    params: dict[str, Any]
    if method == "aggregate":
        merged = aggregate(rows, progressbar=progressbar)
        assert merged is not None
        chosen, params = merged, {"lossless": True}
    elif method == "uniform":
        chosen, params = uniform_coreset(rows, draws, seed, progressbar)
    elif method == "merge_reduce":
        chosen, params = tree_coreset(rows, draws, seed, progressbar, likelihood=link, **options)
    else:
        stream = online_pass(rows, draws, seed, progressbar)
        chosen, params = stream.cut(min(draws, stream.n_rows)).result()
    if method == "online" or params.get("reduce") == "leverage":
        warn_if_rows_separable(chosen)
    found = rows.intake
    if method in ("online", "uniform") and size != "auto":
        check_integer(size, "size", low=1, high=found.n_rows, why=", the rows of the data")
    return finish(
        found.settled(chosen),
        design=rows.design,
        classes=found.classes,
        label=LABEL,
        n_total=found.n_rows,
        weight_total=found.weight_total,
        method=method,
        likelihood=link,
        params={**params, "passes": 1},
        random_state=seed,
    )
