"""`stream`: an empty coreset of a stream, by the options that users give.

`StreamingCoreset`: a coreset of rows that come in blocks.

Blocks are checked as they come and cut anew into canonical ones; labels are learnt on the way, or with a formula from
the first block. The state of the method goes to a checkpoint and back, after which the coresets are the same to the
last bit.

Options of a stream that do not go together are refused before the first block; its columns may be warned of.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np

from bayescore.compiled import one_blas_thread
from bayescore.coresets.build import check_names, make_stream_coreset, resolve_family, warn_if_groups_ignored
from bayescore.coresets.calibrated import WEAK
from bayescore.coresets.checks import warn_of_dependent_columns
from bayescore.coresets.method import (
    Method,
    Streamed,
    StreamState,
    check_serves,
    check_stored,
    rows_from_arrays,
    rows_to_arrays,
)
from bayescore.coresets.methods import METHODS, method_from_dict, method_of, method_to_dict
from bayescore.coresets.separation import warn_if_separable
from bayescore.data.blocks import Block, Intake
from bayescore.data.coreset import Coreset
from bayescore.data.design import Design, check_design
from bayescore.data.formula_parsing import has_dot, parsed, without_group_terms
from bayescore.data.open import DesignedIntake
from bayescore.data.responses import LABELS, Classes, two_classes
from bayescore.data.roles import Roles
from bayescore.data.source import Cutter
from bayescore.families import Family
from bayescore.families.family import check_exposure, check_family
from bayescore.files import Arrays, check_path, read_checkpoint, write_checkpoint
from bayescore.types import WeightedData
from bayescore.validation import DataError, EarlierDesignError, RandomState, check_integer, check_seed, one_seed, warn

FAR = 20.0  # sds of a column between its mean and 0


_ROUNDING = 1e-9  # share of a mean, below which an sd is rounding


ROLES = ("label", "weights", "offset", "trials", "exposure", "groups", "positive", "missing")


def check_roles(roles: Mapping[str, Any], family: Family, classes: object) -> None:
    """Raise for a role that there is not, and for labels of counts or numbers."""
    for name in roles:
        if name not in ROLES:
            raise TypeError(f"roles has {name!r}; the names are {', '.join(ROLES)}")
    for name, value in (("classes", classes), ("positive", roles.get("positive"))):
        if family.response != LABELS and value is not None:
            raise DataError(
                f"{name}={value!r} is given, but family={family.name!r} takes {family.response}, which have no "
                "positive label; leave it out"
            )


def check_designed(formula: str | None, design: Design | None, classes: object, *, intercept: bool) -> None:
    """Raise if a formula or a design says already what another option says."""
    if formula is not None and design is not None:
        raise TypeError(f"formula={formula!r} and design are both given; give one of them")
    given = "design" if formula is None else f"formula={formula!r}"
    if intercept:
        raise ValueError(f"intercept=True is given beside {given}, which says whether there is one; leave it out")
    if design is not None and design.classes is not None and classes is not None:
        raise ValueError(f"classes={classes!r} is given beside design, which has {design.classes}; leave it out")


def warn_if_far(rows: WeightedData, design: Design) -> None:
    """Warn if a column is so far from 0 that the default prior of the intercept decides where a mode is sought.

    The intercept is the predictor where all columns are 0. Its posterior sd grows with their distance from there, and a
    weak prior of it is weak no more.
    """
    if design.constant is None or not len(rows):
        return
    w = rows.weights / rows.weights.sum()
    mean = w @ rows.X
    sd = np.sqrt(w @ (rows.X - mean) ** 2)
    varies = sd > _ROUNDING * np.abs(mean)
    far = np.where(varies, np.abs(mean) / np.where(varies, sd, 1.0), np.abs(mean))  # of one value: from 0 itself
    far[np.isin(rows.X, (0.0, 1.0)).all(axis=0)] = 0.0  # of yes and no, and the intercept
    d = int(far.argmax())
    if far[d] > FAR:
        name, near = design.names[d], f"{float(f'{mean[d]:.3g}'):.10g}"
        spread = (
            f"the mean {mean[d]:.4g} and the sd {sd[d]:.2g}" if varies[d] else f"the one value {mean[d]:.4g} so far"
        )
        term = f"as in I({name} - {near})" if name.isidentifier() else f"such as {near}"
        warn(
            f"column {name!r} has {spread}: 0 is far away, where the prior of the intercept, {WEAK}, is not weak, and "
            f"moves the mode about which the stream condenses rows. Subtract a number near the mean, {term}, or "
            "certify and update with all rows"
        )


class StreamingCoreset:
    """A coreset of rows that come in blocks, as `stream` returns it; `read_stream` reads one from a file.

    Parameters
    ----------
    method, size, family, random_state, intercept, classes, formula, design
        As in `stream`; `method` is a `Method`.
    roles : dict, optional
        The other arguments of `stream`, such as the name of the weights' column, by name.

    Raises
    ------
    TypeError, ValueError
        As `stream`.

    Examples
    --------
    >>> import bayescore as bc
    >>> rows = bc.StreamingCoreset(bc.methods.Online(), size=60, random_state=1)
    >>> _ = rows.partial_fit(*bc.datasets.probit(300, [1.0, 0.0], random_state=0))
    >>> rows.n_rows
    300
    >>> rows.save("stream.ckpt")  # doctest: +SKIP
    """

    def __init__(
        self,
        method: Method,
        size: int | None = None,
        family: str | Family = "logistic",
        random_state: RandomState = None,
        *,
        intercept: bool = False,
        classes: Iterable[Any] | None = None,
        formula: str | None = None,
        design: Design | None = None,
        roles: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(method, Streamed):
            streamed = (name for name, kind in METHODS.items() if issubclass(kind, Streamed) and not kind.sums)
            fit = ", ".join(map(repr, streamed))
            raise ValueError(f"method={method.name!r} takes no stream; give one of {fit}, or build_coreset the rows")
        self._method, self._streamed = method, method
        if size is None and method.takes_size:
            raise TypeError(f"size is missing: method={method.name!r} keeps so many rows")
        self.size = None if size is None else check_integer(size, "size", low=1)
        sought = resolve_family(family, design, (roles or {}).get("exposure"))
        self.family = sought.name
        self.random_state = check_seed(random_state)
        if not isinstance(intercept, bool | np.bool_):
            raise TypeError(f"intercept={intercept!r} must be True or False")
        self.intercept = bool(intercept)
        check_serves(method, self.family, METHODS)
        method.check(self.size, self.family)
        if not method.knows_groups:
            _ = self._begin_state(Design(("x",)))  # raises errors that no rows are needed for
        check_roles(roles or {}, sought, classes)
        labels = () if classes is None else two_classes(classes, "classes", (roles or {}).get("positive"))
        self._intake: Intake | DesignedIntake
        if formula is not None or design is not None:
            check_designed(formula, design, classes, intercept=self.intercept)
            all_roles = {**(roles or {}), **({"positive": Classes(*labels)} if labels else {})}
            self._intake = DesignedIntake(all_roles, formula, sought.response, design)
        else:
            for name, value in (roles or {}).items():
                raise TypeError(
                    f"{name}={value!r} goes with a formula or a design: give one, or arrays in each partial_fit(X, y)"
                )
            self._intake = Intake.of(sought.response, labels, symmetric=sought.symmetric)
        self._design: Design | None = None
        self._cutter: Cutter
        self._state: StreamState

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        return self._intake.n_rows

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        weights: Any = None,
        offset: Any = None,
        trials: Any = None,
        *,
        exposure: Any = None,
        groups: Any = None,
    ) -> Self:
        """Add a block of rows.

        Parameters
        ----------
        X : array or data frame, shape (n, D)
            Rows, at least one. A data frame names the columns. With a formula or a design whatever `build_coreset`
            takes that can be read again, such as a table or the path of a Parquet file.
        y : array, shape (n,)
            Labels. With a formula or a design they may be a column of the table, as may what follows.
        weights, offset, trials, exposure : array, shape (n,), optional
            Weights, 1 by default, known parts of linear predictors, binomial trials, and exposures of counts or times
            of events, as in `build_coreset`. Which label is +1 must be known for an offset, and for a family whose
            sides differ: begin with a block that has both labels, or name them as `classes`.
        groups : array, shape (n,), or dict of such, optional
            Levels of grouping factors. Groups and offset come in every block or in none.

        Raises
        ------
        DataError
            If the block cannot be used; blocks and their rows are counted from 0. The stream is then as it was.
        """
        sought = check_exposure(check_family(self.family, seek=True), exposure)
        roles = Roles(offset=offset, trials=trials, exposure=exposure, response=sought.response)
        intake, design, blocks = self._take_block(Block(X, y, weights, offset, roles.beside, groups))
        if self._design is None:
            check_names(design, intake.label, self.intercept)
            cutter = Cutter(self._streamed.stream_block(self.size or 0, len(design.names)))
            state = self._begin_state(design)
        else:
            cutter, state = copy(self._cutter), self._state
        with one_blas_thread():
            for i, block in enumerate(blocks):
                if self._design is None and i == 0 and self._method.about_weak_mode:
                    warn_if_far(block, design)
                for full in cutter.cut(block) if len(block) else []:
                    state = state.absorbed(full)
        self._intake, self._design, self._cutter, self._state = intake, design, cutter, state  # last, for interrupts
        return self

    def _take_block(self, block: Block) -> tuple[Intake | DesignedIntake, Design, Iterable[WeightedData]]:
        """Return what is known after a block, the design, and the block's rows in it."""
        if isinstance(self._intake, DesignedIntake):
            taken, rows = self._intake.take(block)
            assert taken.design is not None
            return taken, taken.design, rows
        if block.y is None:
            raise DataError("y is missing: give the labels of the block, or stream(formula=...) and tables")
        intake, raw = self._intake.take(block)
        design = self._design or intake.design(intercept=self.intercept)
        return intake, design, [design.rows(raw)]

    def _begin_state(self, design: Design) -> StreamState:
        return self._streamed.begin(self.size or 0, design, self.random_state, self.family)

    def coreset(self) -> Coreset:
        """Return the coreset of the rows so far; more rows may follow.

        Raises
        ------
        RuntimeError, ArithmeticError, DataError
            Before the first block; if the centre of a posterior of groups is not found; if all rows so far have one
            label and `classes` was not given, or every entry is 0.

        Warns
        -----
        UserWarning
            If a hyperplane separates the labels of the coreset's rows, where that voids a guarantee; if errors of the
            posterior's means or sds above 0.1 sd, or 10%, are expected.
        """
        if self._design is None:
            raise RuntimeError("no block has come yet: call partial_fit(X, y) before coreset()")
        facts = self._intake
        if len(facts.labels) == 1:
            raise DataError(
                f"only the label {facts.labels[0]!r} has been met in {facts.n_rows} rows; add rows of the other class, "
                "or name both in stream(..., classes=)"
            )
        with one_blas_thread():
            built = self._state.answer(self._cutter.rest)
        if built.caution:
            warn(built.caution)
        if self._method.needs_overlap:
            warn_if_separable(built.rows)
        core = make_stream_coreset(
            built.rows,
            facts,
            self._design,
            label=facts.label,
            method=self._method.name,
            family=self.family,
            params=built.info.params(),
            random_state=self.random_state,
            shortfall=built.shortfall,
        )
        warn_if_groups_ignored(core, built.method)
        warn_of_dependent_columns(core, built)
        return core

    def save(self, path: str | Path) -> None:
        """Write a checkpoint that `read_stream` reads; it goes on from there with the same coresets to the last bit.

        A file of that name is replaced once the new one is complete.

        Raises
        ------
        RuntimeError, OSError
            Before the first block; if the file cannot be written, and an earlier one is then untouched.
        TypeError
            If the method is not registered, or an option of it is neither a number, a word, an array, a prior nor a
            method.
        """
        if self._design is None:
            raise RuntimeError("no block has come yet, there is nothing to save")
        rest = self._cutter.rest
        header = {
            "method": method_to_dict(self._method),
            "options": {name: getattr(self, name) for name in ("size", "family", "random_state", "intercept")},
            "intake": self._intake.to_dict(),
            "design": self._design.to_dict(),
            "block_rows": self._cutter.size,
            "version": version("bayescore"),
        }
        arrays = {**self._state.to_arrays(), **({} if rest is None else rows_to_arrays("rest", rest))}
        write_checkpoint(path, type(self).__name__, header, arrays)

    @classmethod
    def _loaded(cls, header: dict[str, Any], arrays: Arrays) -> Self:
        """Return the stream of a checkpoint; content that does not fit raises one of many errors."""
        stream = cls(method_from_dict(header["method"]), **header["options"])
        facts, design = header["intake"], header["design"]
        if "formula" in facts:
            intake = DesignedIntake.from_dict(facts, design, response=check_family(stream.family, seek=True).response)
            assert intake.design is not None
            stream._intake, stream._design = intake, intake.design
        else:
            assert isinstance(stream._intake, Intake)
            stream._intake, stream._design = Intake.from_dict(facts, like=stream._intake), Design.from_dict(design)
            if stream._design.raw_names != stream._intake.names:
                raise ValueError
        if not isinstance(header["version"], str):
            raise ValueError
        check_stored(arrays, len(stream._design.names), len(stream._intake.groupings))
        stream._cutter = Cutter(check_integer(header["block_rows"], "block_rows", low=1))
        if "rest_X" in arrays:
            stream._cutter.cut(rows_from_arrays("rest", arrays))
        stream._state = stream._begin_state(stream._design).from_arrays(arrays)
        return stream


def read_stream(path: str | Path) -> StreamingCoreset:
    """Read a stream that `StreamingCoreset.save` wrote, to go on from there.

    Parameters
    ----------
    path : str or Path
        A checkpoint.

    Returns
    -------
    StreamingCoreset
        `n_rows` is the number of its rows so far.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    TypeError
        If `path` is no name of a file.
    DataError
        If the file is damaged, or is not a checkpoint of a stream.

    Warns
    -----
    UserWarning
        If another version of bayescore wrote it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import bayescore as bc
    >>> rows = bc.stream("online", size=60, random_state=1)
    >>> rows = rows.partial_fit(*bc.datasets.probit(300, [1.0, 0.0], random_state=0))
    >>> path = Path(tempfile.mkdtemp()) / "stream.ckpt"
    >>> rows.save(path)
    >>> bc.read_stream(path).n_rows
    300
    """
    header, arrays = read_checkpoint(check_path(path), StreamingCoreset.__name__)
    try:
        stream_read = StreamingCoreset._loaded(header, arrays)
    except EarlierDesignError as error:
        raise EarlierDesignError(f"{str(path)!r}: {error}") from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise DataError(
            f"{str(path)!r} has a hash that fits and content that does not: it was not written by bayescore, or by "
            "another version; begin anew"
        ) from None
    if header["version"] != version("bayescore"):
        warn(
            f"{str(path)!r} was written by bayescore {header['version']}: from here on the coreset may differ from "
            "that of one version in its last digits, or in its draws"
        )
    return stream_read


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
        ``"multilevel"`` is the default where there are groups, else ``"merge_reduce"``. For numbers with normal noise,
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
        Model that the coreset is for. The sd of ``"normal"`` is estimated at each `coreset()`, from the rows so far.
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
        the first block determines the design. ``"multilevel"`` condenses some 260,000 rows, or 32 MB, at a time, about
        the posterior so far. If that moves later, means have errors, of about 0.01 sd for rows in random order.
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
        if formula is None:
            terms: Any = design is not None and design.groups
        else:
            terms = without_group_terms(formula)[1] if has_dot(formula) else parsed(formula).groups
        method = "multilevel" if terms or groups is not None else "merge_reduce"
    named = {"label": label, "weights": weights, "offset": offset, "trials": trials, "exposure": exposure}
    for name, value in {**named, "groups": groups}.items():
        columns = value if name == "groups" and isinstance(value, list) else [value]
        if not all(column is None or isinstance(column, str) for column in columns):
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
