"""`StreamingCoreset`: a coreset of rows that come in blocks.

Blocks are checked as they come and cut anew into canonical ones; labels are learnt on the way, or with a formula from
the first block. The state of the method goes to a checkpoint and back, after which the coresets are the same to the
last bit.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np

from bayescore.coresets.dependent import warn_of_dependent_columns
from bayescore.coresets.finish import check_names, finish_stream, sought_family, warn_if_groups_ignored
from bayescore.coresets.method import Method, check_serves
from bayescore.coresets.methods import METHODS, method_from_dict, method_to_dict
from bayescore.coresets.separation.separability import warn_if_separable
from bayescore.coresets.stream_options import check_designed, check_roles, warn_if_far
from bayescore.coresets.stream_state import Streamed, StreamState, check_stored, rows_from_arrays, rows_to_arrays
from bayescore.data.checkpoint import Arrays, read_checkpoint, write_checkpoint
from bayescore.data.coreset import Coreset
from bayescore.data.design import Design
from bayescore.data.designed_blocks import DesignedIntake
from bayescore.data.labels import Classes, two_classes
from bayescore.data.passes.cutter import Cutter
from bayescore.data.passes.threads import one_blas_thread
from bayescore.data.sources.intake import Block, Intake
from bayescore.models.families import Family, check_exposure, check_family
from bayescore.types import WeightedData
from bayescore.validation import DataError, RandomState, check_integer, check_seed, warn


class StreamingCoreset:
    """A coreset of rows that come in blocks, as `stream` returns it; ``StreamingCoreset.load`` reads a checkpoint.

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
    >>> rows.save("stream.ckpt")  # doctest: +SKIP
    >>> bc.StreamingCoreset.load("stream.ckpt").n_rows  # doctest: +SKIP
    300
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
            fit = " or ".join(
                kind.__name__ for kind in METHODS.values() if issubclass(kind, Streamed) and not kind.sums
            )
            raise ValueError(f"method={method!r} takes no stream; give {fit}, or build_coreset the rows")
        self._method, self._streamed = method, method
        if size is None and method.takes_size:
            raise TypeError(f"size is missing: method={method.name!r} keeps so many rows")
        self.size = None if size is None else check_integer(size, "size", low=1)
        known = sought_family(family, design, (roles or {}).get("exposure"))
        self.family = known.name
        self.random_state = check_seed(random_state)
        if not isinstance(intercept, bool | np.bool_):
            raise TypeError(f"intercept={intercept!r} must be True or False")
        self.intercept = bool(intercept)
        check_serves(method, self.family, METHODS)
        method.check(self.size, self.family)
        if not method.knows_groups:
            _ = self._begun(Design(("x",)))  # raises errors that no rows are needed for
        check_roles(roles or {}, known, classes)
        labels = () if classes is None else two_classes(classes, "classes", (roles or {}).get("positive"))
        self._intake: Intake | DesignedIntake
        if formula is not None or design is not None:
            check_designed(formula, design, classes, intercept=self.intercept)
            own = {**(roles or {}), **({"positive": Classes(*labels)} if labels else {})}
            self._intake = DesignedIntake(own, formula, known.response, design)
        else:
            for name, value in (roles or {}).items():
                raise TypeError(
                    f"{name}={value!r} goes with a formula or a design: give one, or arrays in each partial_fit(X, y)"
                )
            self._intake = Intake.of(known.response, labels, symmetric=known.symmetric)
        self._design: Design | None = None
        self._cutter: Cutter
        self._state: StreamState

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        return self._intake.n_rows

    def partial_fit(
        self, X: Any, y: Any = None, weights: Any = None, offset: Any = None, trials: Any = None, *, groups: Any = None
    ) -> Self:
        """Add a block of rows.

        Parameters
        ----------
        X : array or data frame, shape (n, D)
            Rows, at least one. A data frame names the columns. With a formula or a design whatever `build_coreset`
            takes that can be read again, such as a table or the path of a Parquet file.
        y : array, shape (n,)
            Labels. With a formula or a design they may be a column of the table, as may what follows.
        weights, offset, trials : array, shape (n,), optional
            Weights, 1 by default, known parts of linear predictors, and binomial trials, or the exposures of counts.
            Which label is +1 must be known for an offset, and for a family whose sides differ: begin with a block that
            has both labels, or name them as `classes`.
        groups : array, shape (n,), or dict of such, optional
            Levels of grouping factors. Groups and offset come in every block or in none.

        Raises
        ------
        DataError
            If the block cannot be used; blocks and their rows are counted from 0. The stream is then as it was.
        """
        check_exposure(check_family(self.family, seek=True), trials)
        intake, design, blocks = self._taken(Block(X, y, weights, offset, trials, groups))
        if self._design is None:
            check_names(design, intake.label, self.intercept)
            cutter = Cutter(self._streamed.stream_block(self.size or 0, len(design.names)))
            state = self._begun(design)
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

    def _taken(self, block: Block) -> tuple[Intake | DesignedIntake, Design, Iterable[WeightedData]]:
        """Return what is known after a block, the design, and the block's rows in it."""
        if isinstance(self._intake, DesignedIntake):
            known, rows = self._intake.take(block)
            assert known.design is not None
            return known, known.design, rows
        if block.y is None:
            raise DataError("y is missing: give the labels of the block, or stream(formula=...) and tables")
        intake, raw = self._intake.take(block)
        design = self._design or intake.design(intercept=self.intercept)
        return intake, design, [design.rows(raw)]

    def _begun(self, design: Design) -> StreamState:
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
        known = self._intake
        if len(known.labels) == 1:
            raise DataError(
                f"only the label {known.labels[0]!r} has been met in {known.n_rows} rows; add rows of the other class, "
                "or name both in stream(..., classes=)"
            )
        with one_blas_thread():
            built = self._state.answer(self._cutter.rest)
        if built.caution:
            warn(built.caution)
        if self._method.needs_overlap:
            warn_if_separable(built.rows)
        core = finish_stream(
            built.rows,
            known,
            self._design,
            label=known.label,
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
        """Write a checkpoint; `load` goes on from there, and gives the same coresets to the last bit.

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
    def load(cls, path: str | Path) -> Self:
        """Return the stream that `save` wrote; `n_rows` is the number of its rows.

        Raises
        ------
        FileNotFoundError, DataError
            If there is no such file; if it is damaged, or is not a checkpoint of a stream.

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
            warn(
                f"{str(path)!r} was written by bayescore {header['version']}: from here on the coreset may differ from "
                "that of one version in its last digits, or in its draws"
            )
        return stream

    @classmethod
    def _loaded(cls, header: dict[str, Any], arrays: Arrays) -> Self:
        """Return the stream of a checkpoint; content that does not fit raises one of many errors."""
        stream = cls(method_from_dict(header["method"]), **header["options"])
        known, design = header["intake"], header["design"]
        if "formula" in known:
            intake = DesignedIntake.from_dict(known, design, response=check_family(stream.family, seek=True).response)
            assert intake.design is not None
            stream._intake, stream._design = intake, intake.design
        else:
            assert isinstance(stream._intake, Intake)
            stream._intake, stream._design = Intake.from_dict(known, like=stream._intake), Design.from_dict(design)
            if stream._design.raw_names != stream._intake.names:
                raise ValueError
        if not isinstance(header["version"], str):
            raise ValueError
        check_stored(arrays, len(stream._design.names), len(stream._intake.groupings))
        stream._cutter = Cutter(check_integer(header["block_rows"], "block_rows", low=1))
        if "rest_X" in arrays:
            stream._cutter.cut(rows_from_arrays("rest", arrays))
        stream._state = stream._begun(stream._design).from_arrays(arrays)
        return stream
