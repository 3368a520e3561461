"""`stream`: an empty coreset of a stream, by the options that users give."""

from collections.abc import Iterable
from typing import Any

from bayescore.coresets.method import Method
from bayescore.coresets.methods import method_of
from bayescore.coresets.streaming import StreamingCoreset
from bayescore.data.design import Design, check_design
from bayescore.data.formulas.parsing import parsed
from bayescore.models.families import Family, check_family
from bayescore.validation import RandomState, one_seed


def stream(
    method: str | Method | None = None,
    *,
    size: int | None = None,
    formula: str | None = None,
    design: Design | None = None,
    family: str | Family = "logistic",
    intercept: bool = False,
    classes: Iterable[Any] | None = None,
    random_state: RandomState = None,
    random_seed: RandomState = None,
    label: str | None = None,
    weights: str | None = None,
    offset: str | None = None,
    trials: str | None = None,
    exposure: str | None = None,
    groups: str | list[str] | None = None,
    positive: Any = None,
    missing: str | None = None,
    **options: Any,
) -> StreamingCoreset:
    """Return an empty coreset of a stream: feed it blocks of rows, ask for the coreset at any moment, and go on.

    Parameters
    ----------
    method : {"merge_reduce", "online", "multilevel", "aggregate"} or Method, optional
        ``"merge_reduce"`` keeps a tree of reductions: a leaf of rows and log2(leaves) + 1 nodes of 4 `size` rows.
        ``"online"`` draws rows, and keeps `size` of them and a block of about 8 MB. ``"multilevel"`` keeps pseudo-rows
        of groups and up to eight such blocks. A method may come with its options, ``MergeReduce("condensed")``.
        ``"multilevel"`` is the default where there are groups, else ``"merge_reduce"``. Of numbers with normal noise,
        ``"normal"`` or ``"normal(2.5)"``, ``"aggregate"`` keeps exact sums, and is the default.
    size : int, optional
        Rows of the coreset, at most; ``"multilevel"`` takes none, the others need one.
    formula : str, optional
        Label and terms, "clicked ~ age * device + (1 | county)", as in `build_coreset`. Blocks are then tables with
        these columns, or whatever else `build_coreset` takes. Levels, knots and centers are those of the first block; a
        level that is new later is an error, and a new group is welcome.
    design : Design, optional
        ``core.design`` of an earlier coreset, in place of a formula: columns, levels, knots and scales are its own.
    family : str or Family
        Model that the coreset is for. The sd of ``"normal"`` is found anew at each `coreset()`, of the rows so far.
    intercept : bool
        Put a column of ones, named "Intercept", first; a formula has its own.
    classes : pair of labels, optional
        The two labels; the second in sorted order is +1. By default they are learnt from the rows, with a formula from
        the first block.
    random_state, random_seed : int, Generator, SeedSequence or None
        Seed, by either name, kept as ``core.random_state``.
    label, weights, offset, trials, exposure : str, optional
        With a formula or a design: columns of every block, as in `build_coreset`.
    groups : str or list of str, optional
        With a formula that has no group terms: columns of grouping factors, whose intercepts vary.
    positive, missing : optional
        With a formula or a design: as in `build_coreset`.
    **options
        Options of a method that is given by its name, as in its class.

    Returns
    -------
    StreamingCoreset
        Its coreset is that of `build_coreset` over the rows so far, however they were cut into blocks. With a formula
        the first block tells the design. ``"multilevel"`` condenses some 260,000 rows, or 32 MB, at a time, about the
        posterior of the rows so far: means are off where that moves later, by 0.01 sd or so for rows in random order.
        Groups of few rows, and blocks whose centre is not found, stay whole, so that memory grows with them.

    Raises
    ------
    TypeError, ValueError
        If an option is of the wrong kind or out of its range, or the method takes no stream.

    Examples
    --------
    >>> import numpy as np, pandas as pd, bayescore as bc
    >>> rows = bc.stream(size=60, leaf_rows=1000, intercept=True, random_state=1)
    >>> for X in np.random.default_rng(0).normal(size=(50, 100, 2)):
    ...     rows = rows.partial_fit(X, X[:, 0] + np.sin(9 * X[:, 1]) > 0)
    >>> core = rows.coreset()
    >>> core.n_total, core.method, core.params["leaves"]
    (5000, 'merge_reduce', 5)
    >>> months = bc.stream(formula="vote ~ age + (1 | county)", random_state=1)
    >>> for seed in range(3):
    ...     rng = np.random.default_rng(seed)
    ...     month = pd.DataFrame({"age": rng.normal(size=500), "county": rng.integers(0, 10 + seed, 500)})
    ...     months = months.partial_fit(month.assign(vote=month["age"] + rng.logistic(size=500) > 0))
    >>> core = months.coreset()
    >>> core.n_total, core.method, len(core.groups[0])
    (1500, 'multilevel', 12)
    """
    if design is not None:
        check_design(design)
    seed = one_seed(random_state, random_seed)
    if method is None and check_family(family, seek=True).quadratic:
        method = "aggregate"
    if method is None:
        terms = design is not None and design.groups if formula is None else parsed(formula).groups
        method = "multilevel" if terms or groups is not None else "merge_reduce"
    named = {"label": label, "weights": weights, "offset": offset, "trials": trials, "exposure": exposure}
    for name, value in {**named, "groups": groups}.items():
        columns = value if name == "groups" and isinstance(value, list) else [value]
        if not all(own is None or isinstance(own, str) for own in columns):
            raise TypeError(f"{name} must be the name of a column: give an array of a block's rows to partial_fit")
    roles = {**named, "groups": groups, "positive": positive, "missing": missing}
    return StreamingCoreset(
        method_of(method, options),
        size,
        family,
        seed,
        intercept=intercept,
        classes=classes,
        formula=formula,
        design=design,
        roles={name: value for name, value in roles.items() if value is not None},
    )
