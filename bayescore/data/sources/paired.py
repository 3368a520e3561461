"""Responses that are numbers: successes of trials and counts of an exposure, two rows each, and numbers with noise.

A binomial count k of n has the log-likelihood k l+ + (n - k) l-, a count y of exposure E has y l+ + E l-. So the row of
label +1 weighs k or y, and that of label -1 weighs n - k or E, each times the row's own weight.

A number y with noise is one row of label +1 with the offset -y, so that its linear predictor is minus the residual.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescore.limits import MAX_NUMBER
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError, RowError, check_unmasked


@dataclass(frozen=True)
class Paired:
    """One kind of response that is a number."""

    beside: str | None  # role of the number beside the response
    classes: tuple[Any, Any]  # what the sides are called

    def read(self, response: Any, beside: Any, names: tuple[str, str], n_rows: int) -> FloatArray:
        """Return response and the number beside it as floats, shape (2, n_rows); without `beside` it is 1."""
        y = as_floats(response, n_rows, names[0])
        return np.stack([y, np.ones(n_rows) if beside is None else as_floats(beside, n_rows, names[1])])

    def rows(
        self, rows: WeightedData, pair: FloatArray, names: tuple[str, str], start: int, *, drop: bool
    ) -> WeightedData:
        """Return rows start, start + 1, ... with their responses; see `weights` for what is raised."""
        if self == MEASURED:
            return with_response(rows, check_numbers(pair[0], names[0], start, drop=drop))
        return two_rows_each(rows, self.weights(pair, names, start, drop=drop))

    def weights(self, pair: FloatArray, names: tuple[str, str], start: int, *, drop: bool) -> FloatArray:
        """Return the weights of the sides +1 and -1 of rows start, start + 1, ..., shape (2, n).

        Raises `RowError` for numbers out of range; with `drop` NaN stays, for rows that will be left out.
        """
        y, other = pair
        if self == RATES:  # workers have a copy
            _check_whole(y, names[0], start, "counts are whole numbers, at least 0: drop or mend such rows", drop=drop)
            bad = ~((other > 0.0) & np.isfinite(other)) & ~(np.isnan(other) & drop)
            remedy = (
                "an exposure is a positive number: drop such rows; with missing='drop' those that miss it are left out"
            )
            _refuse(bad, other, f"{names[1]} is no exposure", start, remedy)
            return pair
        remedy = (
            "successes and trials are whole numbers, 0 <= successes <= trials: drop or mend such rows, and give "
            "fractions as weights of rows with labels"
        )
        for name, counts in zip(names, pair, strict=True):
            _check_whole(counts, name, start, remedy, drop=drop)
        _refuse(y > other, y, f"{names[0]} is above {names[1]}", start, remedy)
        return np.stack([y, other - y])


BINOMIAL = Paired("trials", (0, 1))
RATES = Paired("exposure", ("exposure", "events"))
MEASURED = Paired(None, (None, "number"))  # None is no label of data
LABELS = "labels"
PAIRED = {"counts": RATES, "numbers": MEASURED}
"""Kinds of response by what a family calls them; labels are not here."""


def response_of(classes: Sequence[Any] | None) -> str:
    """Return what responses with these two classes are called."""
    own = None if classes is None else tuple(classes)
    return next((name for name, paired in PAIRED.items() if paired.classes == own), LABELS)


def described(classes: Sequence[Any] | None) -> str:
    """Return what responses with these two classes are, for a message."""
    kind = response_of(classes)
    return f"the labels {None if classes is None else tuple(classes)}" if kind == LABELS else kind


def with_response(rows: WeightedData, y: FloatArray) -> WeightedData:
    """Return rows whose responses are the numbers y, shape (n,); the label is 0 where one is missing."""
    there = ~np.isnan(y)
    return replace(rows, y=there.astype(np.int8), offset=np.where(there, -y, 0.0))


def numbers_of(rows: WeightedData) -> tuple[WeightedData, FloatArray]:
    """Return rows without their responses, and the responses, shape (n,): `with_response` backwards."""
    assert rows.offset is not None
    return WeightedData(rows.X, rows.y, rows.weights, rows.index, group=rows.group), -rows.offset


def check_numbers(y: FloatArray, name: str, start: int = 0, *, drop: bool = False) -> FloatArray:
    """Return numbers; raise `RowError` where one is too large or not finite; with `drop` NaN stays."""
    bad = ~np.isfinite(y) & ~(np.isnan(y) & drop)
    _refuse(
        bad, y, f"{name} is no finite number", start, "drop or mend such rows; missing='drop' leaves missing ones out"
    )
    _refuse(np.abs(y) > MAX_NUMBER, y, f"{name} is above {MAX_NUMBER:g} in size", start, f"rescale {name}, and the sd")
    return y


def two_rows_each(rows: WeightedData, weights: FloatArray) -> WeightedData:
    """Return for each row one of label +1 and one of label -1, whose weights are the rows' times `weights`, (2, n).

    Labels are 0 if a number is missing.
    """
    twice = rows.take(np.repeat(np.arange(len(rows)), 2))
    missing = np.isnan(weights).any(axis=0)
    y = np.where(np.repeat(missing, 2), 0, np.tile([1, -1], len(rows))).astype(np.int8)
    return replace(twice, y=y, weights=twice.weights * np.where(missing, 0.0, weights).T.ravel())


def as_floats(values: Any, n_rows: int, name: str) -> FloatArray:
    """Return numbers beside rows as floats, shape (n_rows,)."""
    check_unmasked(values, name)
    try:
        found = np.asarray(pd.to_numeric(np.asarray(values)))
        counts = np.asarray(found.real, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be numbers, one for each row") from None
    if np.iscomplexobj(found):
        raise DataError(f"{name} has complex numbers; give real ones")
    if counts.shape != (n_rows,):
        raise DataError(f"{name} has shape {counts.shape}; it must be ({n_rows},), one number for each row")
    return counts


def _check_whole(counts: FloatArray, name: str, start: int, remedy: str, *, drop: bool) -> None:
    bad = ~((counts >= 0.0) & (counts == np.floor(counts)) & np.isfinite(counts))
    _refuse(bad & ~np.isnan(counts) if drop else bad, counts, f"{name} is no count", start, remedy)


def _refuse(bad: NDArray[np.bool_], numbers: FloatArray, problem: str, start: int, remedy: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise RowError(
            f"{problem} in {int(bad.sum())} of rows {start} to {start + len(bad) - 1}, first {numbers[row]:g} in row "
            f"{start + row}; {remedy}",
            start + row,
        )
