"""Coresets of rows that come once: an iterator of blocks (X, y) or (X, y, weights).

The builders are those that need no second look at the rows. Labels are intake on the way, and each block is checked as
it comes. Rows and weights are those that the same seed gives from any other source.
"""

from typing import Any

from bayescore.coresets.aggregate import aggregate
from bayescore.coresets.finish import check_names, finish
from bayescore.coresets.merge_reduce import tree_coreset
from bayescore.coresets.online import online_pass
from bayescore.coresets.sensitivity import uniform_coreset
from bayescore.coresets.separability import warn_if_rows_separable
from bayescore.data.blocks import LABEL, Stream
from bayescore.data.coreset import Coreset
from bayescore.data.opened import Opened
from bayescore.types import Design
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
    opened: Opened,
    method: str,
    link: str,
    size: int | str,
    intercept: bool,
    seed: int,
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
    rows = opened.rows
    assert isinstance(rows, Stream)
    design = Design(rows.design.raw_names, intercept)
    check_names(design, LABEL, intercept)
    opened = opened.through(design)
    draws = max(1000, 20 * opened.n_features) if size == "auto" else int(size)
    params: dict[str, Any]
    if method == "aggregate":
        merged = aggregate(opened)
        assert merged is not None
        chosen, params = merged, {"lossless": True}
    elif method == "uniform":
        chosen, params = uniform_coreset(opened, draws, seed)
    elif method == "merge_reduce":
        chosen, params = tree_coreset(opened, draws, seed, likelihood=link, **options)
    else:
        stream = online_pass(opened, draws, seed)
        chosen, params = stream.cut(min(draws, stream.n_rows)).result()
    if method == "online" or params.get("reduce") == "leverage":
        warn_if_rows_separable(chosen)
    intake = rows.intake
    if method in ("online", "uniform") and size != "auto":
        check_integer(size, "size", low=1, high=intake.n_rows, why=", the rows of the data")
    return finish(
        intake.settled(chosen),
        design=design,
        classes=intake.classes,
        label=LABEL,
        n_total=intake.n_rows,
        weight_total=intake.weight_total,
        method=method,
        likelihood=link,
        params={**params, "passes": 1},
        random_state=seed,
    )
