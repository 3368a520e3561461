"""`stream`, the one door for rows that come in blocks."""

from collections.abc import Iterable
from typing import Any

from bayescore.coresets.method import Method
from bayescore.coresets.methods import method_of
from bayescore.coresets.streaming_coreset import StreamingCoreset as StreamingCoreset  # its public place
from bayescore.validation import RandomState, one_seed


def stream(
    method: str | Method = "merge_reduce",
    *,
    size: int,
    family: str = "logistic",
    intercept: bool = False,
    classes: Iterable[Any] | None = None,
    random_state: RandomState = None,
    random_seed: RandomState = None,
    **options: Any,
) -> StreamingCoreset:
    """Return an empty coreset of a stream: feed it blocks of rows, ask for the coreset at any moment, and go on.

    Parameters
    ----------
    method : {"merge_reduce", "online"} or Method
        ``"merge_reduce"`` keeps a tree of reductions: a leaf of rows and log2(leaves) + 1 nodes of 4 `size` rows.
        ``"online"`` draws rows, and keeps `size` of them and a block of about 8 MB. A method may come with its options,
        ``MergeReduce("condensed")``.
    size : int
        Rows of the coreset, at most.
    family : name of a registered likelihood
        Model that the coreset is for.
    intercept : bool
        Put a column of ones, named "Intercept", first.
    classes : pair of labels, optional
        The two labels; the second in sorted order is +1. By default they are learnt from the rows: a block may have
        one of them only.
    random_state, random_seed : int, Generator, SeedSequence or None
        Seed, by either name; the one used is kept as ``core.random_state``.
    **options
        Options of a method that is given by its name; its class documents them.

    Returns
    -------
    StreamingCoreset
        Its coreset is that of ``build_coreset`` by the same method and options over the rows so far, however they were
        cut into blocks.

    Raises
    ------
    TypeError, ValueError
        If an option is of the wrong kind or out of its range, or the method takes no stream.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> rows = bc.stream(size=60, leaf_rows=1000, intercept=True, random_state=1)
    >>> for _ in range(50):
    ...     X = rng.normal(size=(100, 2))
    ...     rows = rows.partial_fit(X, X[:, 0] + rng.logistic(size=100) > 0)
    >>> core = rows.coreset()
    >>> core.n_total, core.method, core.params["leaves"]
    (5000, 'merge_reduce', 5)
    """
    seed = one_seed(random_state, random_seed)
    return StreamingCoreset(method_of(method, options), size, family, seed, intercept=intercept, classes=classes)
