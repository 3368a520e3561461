r"""Probit coresets of a stream, in one pass (Peters 2021, Algorithms 4 and 5).

A block of rows is first added to the R factor of X'WX and to the total weight, and then scored against both,

.. math:: \hat l_n = w_n x_n' (X'WX)_{\text{so far}}^+ x_n, \qquad \hat a_n = \hat l_n + w_n / W_{\text{so far}}.

Both only grow, so the scores are no less than the final ones and still bound the sensitivities; the source divides by
the final W, which a stream does not know, and the running one adds O(log N) to the sum. Once scored, a row has a rate
that never changes, and the earliest M arrivals (`draw`) of the rates so far are a coreset of the rows so far.

When to use it: rows that come once and are not kept. Where they can be read twice, `leverage` is sharper.
"""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bayescore.coresets.draw import Draw, block_draw, merge, weighted
from bayescore.coresets.factor import block_factor, join, whitening
from bayescore.coresets.finish import check_names, finish
from bayescore.coresets.leverage_coreset import check_rank, rates_of, score_total
from bayescore.coresets.separability import warn_if_rows_separable
from bayescore.data.blocks import LABEL, Intake
from bayescore.data.coreset import Coreset
from bayescore.data.cutter import Cutter
from bayescore.data.passes import block_rows, map_blocks, one_blas_thread
from bayescore.models.likelihoods import check_likelihood
from bayescore.types import Design, FloatArray, Rows, WeightedData
from bayescore.validation import DataError, RandomState, check_integer, check_seed, two_classes


@dataclass(frozen=True, eq=False)
class Stream:
    """All that is kept of the rows so far: R factor, total weight, count, and the earliest arrivals."""

    size: int
    seed: int
    factor: FloatArray
    weight: float = 0.0
    n_rows: int = 0
    drawn: Draw | None = None

    def absorb(self, block: WeightedData, part: FloatArray) -> Self:
        """Return the stream with another canonical block, whose R factor is `part`."""
        factor, weight = join(self.factor, part), self.weight + float(block.weights.sum())
        rates = rates_of(whitening(factor).leverage(block), block.weights, weight)
        before = [] if self.drawn is None else [self.drawn]
        late = min((drawn.horizon(self.size) for drawn in before), default=np.inf)
        new = block_draw(block, self.n_rows, rates, self.size, self.seed, late=late)
        return replace(
            self,
            factor=factor,
            weight=weight,
            n_rows=self.n_rows + len(block),
            drawn=merge([*before, new], self.size),
        )

    def result(self) -> tuple[WeightedData, dict[str, Any]]:
        """Return the coreset of the rows so far, and params: draws, rank, score_total (sum of the s_n)."""
        white = whitening(self.factor)
        check_rank(white)
        assert self.drawn is not None
        params = {"draws": self.size, "rank": white.rank, "score_total": score_total(self.drawn.total)}
        return weighted(self.drawn, self.size), params

    def cut(self, size: int) -> Self:
        """Return the stream as it would be had `size`, no more than it has, been asked for."""
        return replace(self, size=size, drawn=self.drawn and self.drawn.earliest(size))


def empty_stream(size: int, seed: int, n_features: int) -> Stream:
    """Return the stream before its first row."""
    return Stream(size, seed, np.empty((0, n_features)))


def online_pass(rows: Rows, size: int, seed: int, progressbar: bool) -> Stream:
    """Draw on-line, in one pass.

    Each block is scored against all blocks before it, so the rows come to this process, wherever they are kept.
    """
    stream = empty_stream(size, seed, len(rows.design.names))
    for block, part in map_blocks(
        rows,
        lambda _, block: (block, block_factor(block)),
        description="drawing rows",
        progressbar=progressbar,
        canonical=True,
        here=True,
    ):
        stream = stream.absorb(block, part)
    return stream


def online_coreset(source: Rows, size: int, seed: int, progressbar: bool) -> tuple[WeightedData, dict[str, Any]]:
    """Draw a coreset on-line, in one pass over a source."""
    return online_pass(source, size, seed, progressbar).result()


class OnlineCoreset:
    """A coreset of a stream: feed it blocks of rows, ask for the coreset at any moment, and go on.

    The coreset is that of ``build_coreset(..., method="online")`` over the rows so far, however they were cut into
    blocks: rows wait until a block of about 8 MB is full. Memory is bounded by that block and `size` rows.

    Parameters
    ----------
    size : int
        Rows to draw, with replacement: the coreset can have fewer.
    likelihood : {"probit", "logistic"}
        Model that the coreset is for; the guarantee (`leverage_size`) is for the probit.
    random_state : int, Generator, SeedSequence or None
        Seed; the one used is kept as ``core.random_state``.
    intercept : bool
        Put a column of ones, named "intercept", first.
    classes : pair of labels, optional
        The two labels; the second in sorted order is +1. By default they are found as they are met: a block may have
        one of them only.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore import OnlineCoreset
    >>> rng = np.random.default_rng(0)
    >>> stream = OnlineCoreset(size=200, intercept=True, random_state=1)
    >>> for _ in range(50):
    ...     X = rng.normal(size=(100, 2))
    ...     stream = stream.partial_fit(X, X[:, 0] + rng.normal(size=100) > 0)
    >>> core = stream.coreset()
    >>> core.n_total, core.method
    (5000, 'online')
    """

    def __init__(
        self,
        size: int,
        likelihood: str = "probit",
        random_state: RandomState = None,
        *,
        intercept: bool = False,
        classes: Iterable[Any] | None = None,
    ) -> None:
        self.size = check_integer(size, "size", low=1)
        self.likelihood = check_likelihood(likelihood).name
        self.random_state = check_seed(random_state)
        self.intercept = intercept
        self._intake = Intake(met=() if classes is None else two_classes(classes, "classes"))
        self._design: Design | None = None
        self._cutter: Cutter
        self._stream: Stream

    def partial_fit(self, X: Any, y: Any, weights: Any = None) -> Self:
        """Add a block of rows.

        Parameters
        ----------
        X : array or data frame, shape (n, D)
            Rows, at least one. A data frame names the columns.
        y : array, shape (n,)
            Labels.
        weights : array, shape (n,), optional
            Positive weights, 1 by default.

        Raises
        ------
        DataError
            If the block cannot be used; blocks and their rows are counted from 0. The stream is then as it was.
        """
        intake, raw = self._intake.take(X, y, weights)
        assert intake.names is not None
        if self._design is None:
            design = Design(intake.names, self.intercept)
            check_names(design, LABEL, self.intercept)
            cutter = Cutter(block_rows(len(design.names)))
            stream = empty_stream(self.size, self.random_state, len(design.names))
        else:
            design, cutter, stream = self._design, copy(self._cutter), self._stream
        for full in cutter.cut(replace(raw, X=design.transform(raw.X))):
            stream = _absorbed(stream, full)
        # last of all, so that an interrupt leaves the stream as it was
        self._intake, self._design, self._cutter, self._stream = intake, design, cutter, stream
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
            If a hyperplane separates the labels of the coreset's rows, and so perhaps those of all.
        """
        if self._design is None:
            raise RuntimeError("no block has come yet: call partial_fit(X, y) before coreset()")
        known = self._intake
        if len(known.met) == 1:
            raise DataError(
                f"only the label {known.met[0]!r} has been met in {known.n_rows} rows; add rows of the other class, or "
                "name both in OnlineCoreset(..., classes=)"
            )
        stream = self._stream if (rest := self._cutter.rest) is None else _absorbed(self._stream, rest)
        rows, params = stream.result()
        warn_if_rows_separable(rows)
        return finish(
            known.settled(rows),
            design=self._design,
            classes=known.classes,
            label=LABEL,
            n_total=known.n_rows,
            weight_total=known.weight_total,
            method="online",
            likelihood=self.likelihood,
            params=params,
            random_state=self.random_state,
        )


def _absorbed(stream: Stream, block: WeightedData) -> Stream:
    with one_blas_thread():
        return stream.absorb(block, block_factor(block))
