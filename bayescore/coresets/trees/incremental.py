"""`BlockStream`: what coresets of streams have in common, whatever they keep of the rows.

Blocks are checked as they come and cut anew into canonical ones; labels are found on the way; the state can be written
to a checkpoint and read back, after which all goes on as if nothing had happened.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from copy import copy
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np

from bayescore.coresets.finish import check_names, finish, with_word_of_groups
from bayescore.coresets.method import BuildResult, Method
from bayescore.coresets.separation.separability import warn_if_rows_separable
from bayescore.data.checkpoint import Arrays, read_checkpoint, write_checkpoint
from bayescore.data.coreset import Coreset
from bayescore.data.passes.cutter import Cutter
from bayescore.data.passes.threads import one_blas_thread
from bayescore.data.sources.blocks import LABEL, Intake
from bayescore.data.sources.met_groups import MetGroups
from bayescore.models.likelihoods import check_likelihood
from bayescore.types import Design, WeightedData
from bayescore.validation import DataError, RandomState, check_integer, check_seed, two_classes

State = TypeVar("State")
_PARTS = ("X", "y", "weights", "index")


class BlockStream(ABC, Generic[State]):
    """Rows that come in blocks, of which a state of bounded size is kept."""

    def __init__(
        self,
        method: Method,
        size: int,
        likelihood: str,
        random_state: RandomState,
        *,
        intercept: bool,
        classes: Iterable[Any] | None,
    ) -> None:
        self._method = method
        self.size = check_integer(size, "size", low=1)
        self.likelihood = check_likelihood(likelihood).name
        self.random_state = check_seed(random_state)
        if not isinstance(intercept, bool | np.bool_):
            raise TypeError(f"intercept={intercept!r} must be True or False")
        self.intercept = bool(intercept)
        self._intake = Intake(met=() if classes is None else two_classes(classes, "classes"))
        self._design: Design | None = None
        self._cutter: Cutter
        self._state: State

    @abstractmethod
    def _block_rows(self, n_features: int) -> int:
        """Return the rows of a canonical block."""

    @abstractmethod
    def _empty(self, n_features: int) -> State:
        """Return the state before the first row."""

    @abstractmethod
    def _absorbed(self, state: State, block: WeightedData) -> State:
        """Return the state with a canonical block more; `state` stays as it is."""

    @abstractmethod
    def _answer(self, state: State, rest: WeightedData | None) -> BuildResult[Any]:
        """Return the coreset of the rows absorbed and of the rest, fewer rows than a block."""

    @abstractmethod
    def _options(self) -> dict[str, Any]:
        """Return the arguments that make another one like this, but for `classes`, as plain JSON values."""

    @abstractmethod
    def _to_arrays(self, state: State) -> Arrays:
        """Return the state as arrays."""

    @abstractmethod
    def _from_arrays(self, arrays: Arrays) -> State:
        """Return the state of `_to_arrays`."""

    @classmethod
    def _from_options(cls, options: dict[str, Any]) -> Self:
        """Return another one, of `_options`."""
        return cls(**options)

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        return self._intake.n_rows

    def partial_fit(
        self, X: Any, y: Any, weights: Any = None, offset: Any = None, trials: Any = None, *, groups: Any = None
    ) -> Self:
        """Add a block of rows.

        Parameters
        ----------
        X : array or data frame, shape (n, D)
            Rows, at least one. A data frame names the columns.
        y : array, shape (n,)
            Labels.
        weights : array, shape (n,), optional
            Weights, 1 by default; rows of weight 0 are left out.
        offset : array, shape (n,), optional
            Known parts of the linear predictors, in every block or in none. Which label is +1 must be known then: begin
            with a block of both, or name them as `classes`.
        trials : array, shape (n,), optional
            Binomial trials; `y` are then the successes.
        groups : array, shape (n,), or dict of such, optional
            Levels of grouping factors, in every block or in none.

        Raises
        ------
        DataError
            If the block cannot be used; blocks and their rows are counted from 0. The stream is then as it was.
        """
        intake, raw = self._intake.take(X, y, weights, offset, trials, groups)
        assert intake.names is not None
        if self._design is None:
            design = Design(intake.names, self.intercept, offset=intake.offset, groups=intake.groupings)
            check_names(design, LABEL, self.intercept)
            cutter = Cutter(self._block_rows(len(design.names)))
            state = self._empty(len(design.names))
        else:
            design, cutter, state = self._design, copy(self._cutter), self._state
        with one_blas_thread():
            for full in cutter.cut(design.rows(raw)) if len(raw) else []:
                state = self._absorbed(state, full)
        # last of all, so that an interrupt leaves the stream as it was
        self._intake, self._design, self._cutter, self._state = intake, design, cutter, state
        return self

    def coreset(self) -> Coreset:
        """Return the coreset of the rows so far; more rows may follow.

        Raises
        ------
        RuntimeError
            Before the first block.
        DataError
            If one label only has been met and `classes` was not given, or if every entry so far is 0.

        Warns
        -----
        UserWarning
            If a hyperplane separates the labels of the coreset's rows, and so perhaps those of all, where that voids a
            guarantee; if the posterior's means or sds are expected to be off by more than 0.1 sd, or 10%.
        """
        if self._design is None:
            raise RuntimeError("no block has come yet: call partial_fit(X, y) before coreset()")
        known = self._intake
        if len(known.met) == 1:
            raise DataError(
                f"only the label {known.met[0]!r} has been met in {known.n_rows} rows; add rows of the other class, or "
                f"name both in {type(self).__name__}(..., classes=)"
            )
        with one_blas_thread():
            built = self._answer(self._state, self._cutter.rest)
        if self._method.needs_overlap:
            warn_if_rows_separable(built.rows)
        core = finish(
            known.settled(built.rows),
            design=replace(self._design, groups=known.groupings),
            classes=known.classes,
            label=LABEL,
            n_total=known.n_rows,
            weight_total=known.weight_total,
            method=self._method.name,
            likelihood=self.likelihood,
            params=built.info.params(),
            random_state=self.random_state,
        )
        return with_word_of_groups(core, built.method)

    def save(self, path: str | Path) -> None:
        """Write a checkpoint; `load` goes on from there, and gives the same coresets to the last bit.

        A file of that name is replaced once the new one is complete.

        Raises
        ------
        RuntimeError
            Before the first block.
        OSError
            If the file cannot be written; an earlier one is then untouched.
        TypeError
            If an option of the method that reduces is neither a number, a word, an array nor a prior.
        """
        if self._design is None:
            raise RuntimeError("no block has come yet, there is nothing to save")
        rest = self._cutter.rest
        header = {
            "options": self._options(),
            "intake": asdict(self._intake),
            "design": self._design.to_dict(),
            "block_rows": self._cutter.size,
            "version": version("bayescore"),
        }
        arrays = {**self._to_arrays(self._state), **({} if rest is None else rows_to_arrays("rest", rest))}
        write_checkpoint(path, type(self).__name__, header, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the stream that `save` wrote; `n_rows` tells how many rows it has had.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        DataError
            If the file is damaged, or no checkpoint of such a stream.

        Warns
        -----
        UserWarning
            If another version of bayescore wrote it.
        """
        header, arrays = read_checkpoint(path, cls.__name__)
        try:
            stream = cls._loaded(header, arrays)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise DataError(
                f"{str(path)!r} has a hash that fits and content that does not: it was not written by bayescore, or by "
                "another version; begin anew"
            ) from None
        if header["version"] != version("bayescore"):
            warnings.warn(
                f"{str(path)!r} was written by bayescore {header['version']}: from here on the coreset may differ from "
                "that of one version in its last digits, or in its draws",
                UserWarning,
                stacklevel=2,
            )
        return stream

    @classmethod
    def _loaded(cls, header: dict[str, Any], arrays: Arrays) -> Self:
        """Return the stream of a checkpoint; what does not fit raises one of many errors."""
        stream = cls._from_options(header["options"])
        intake = header["intake"]
        groups = tuple(MetGroups.from_dict(own) for own in intake.get("groups", ()))
        known = {"names": tuple(intake["names"]), "met": tuple(intake["met"]), "group_columns": (), "groups": groups}
        stream._intake = Intake(**{**intake, **known})
        stream._design = Design.from_dict(header["design"])
        if not isinstance(header["version"], str) or stream._design.raw_names != stream._intake.names:
            raise ValueError
        for name in (name.removesuffix("_X") for name in arrays if name.endswith("_X")):
            rows = rows_from_arrays(name, arrays)
            offset = rows.y if rows.offset is None else rows.offset
            parts = {part.shape for part in (rows.y, rows.weights, rows.index, offset)}
            if rows.X.shape != (len(rows.y), len(stream._design.names)) or len(parts) != 1:
                raise ValueError
            if (() if rows.group is None else rows.group.shape) != ((len(rows.y), len(groups)) if groups else ()):
                raise ValueError
        stream._cutter = Cutter(check_integer(header["block_rows"], "block_rows", low=1))
        if "rest_X" in arrays:
            stream._cutter.cut(rows_from_arrays("rest", arrays))
        stream._state = stream._from_arrays(arrays)
        return stream


def rows_to_arrays(name: str, rows: WeightedData) -> Arrays:
    """Return rows as arrays whose names begin with `name`."""
    parts = {part: getattr(rows, part) for part in (*_PARTS, "offset", "group")}
    return {f"{name}_{part}": array for part, array in parts.items() if array is not None}


def rows_from_arrays(name: str, arrays: Arrays) -> WeightedData:
    """Return the rows of `rows_to_arrays`."""
    offset, group = arrays.get(f"{name}_offset"), arrays.get(f"{name}_group")
    return WeightedData(*(arrays[f"{name}_{part}"] for part in _PARTS), offset=offset, group=group)
