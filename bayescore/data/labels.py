"""Labels: the two classes among them, and labels as signs."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.types import LabelArray
from bayescore.validation import DataError, OneOnlyError, RowError

SHOWN = 5
"""Labels that a message names."""


class Classes(NamedTuple):
    """The two labels of an earlier data set, the second +1."""

    negative: Any
    positive: Any


def sorted_labels(found: Iterable[Any], name: str = "y") -> list[Any]:
    """Return distinct labels in sorted order, numbers before text; raise if one is missing or of another type."""
    labels = list(found)
    if any(label is None or label != label for label in labels):
        raise DataError(f"{name} has missing labels; drop those rows")
    for label in labels:  # what a coreset's file can hold
        if not isinstance(label, bool | int | float | str):
            raise DataError(f"{name} has labels of type {type(label).__name__}; turn them into numbers or text")
        if isinstance(label, int) and not -(2**63) <= label < 2**63:
            raise DataError(f"{name} has the label {label}, beyond 64 bits with a sign; turn the labels into text")
    return sorted(labels, key=lambda label: (isinstance(label, str), label))


def two_classes(
    found: Iterable[Any], name: str = "y", positive: Any = None, order: Sequence[Any] | None = None
) -> tuple[Any, Any]:
    """Return the two labels; the second becomes +1. It is `positive`, or by default the second in `order`, or sorted.

    If `positive` is the two `Classes`, other labels are refused, and one of the two may be missing.
    """
    labels = sorted_labels(found, name)
    if isinstance(positive, Classes):
        other = [label for label in labels if label not in positive]
        if other:
            raise DataError(
                f"{name} has the label {other[0]!r}, and the coreset was built with {positive.negative!r} and "
                f"{positive.positive!r} (which is +1): give the same labels, of the same type"
            )
        return positive.negative, positive.positive
    if len(labels) == 1:
        raise OneOnlyError(
            f"{name} has one class only, {labels[0]!r}; both classes are needed (is the data sorted by label and cut?)"
        )
    if len(labels) != 2:
        many = len(labels) > SHOWN  # not all of them are looked at
        shown = ", ".join(repr(label) for label in labels[:SHOWN]) + (", ..." if many else "")
        numbers = "; for counts give family='poisson', for other numbers 'normal'"
        raise DataError(
            f"{name} has {f'more than {SHOWN}' if many else len(labels)} classes ({shown}); two are needed: "
            f"compare one class with the rest, or give the label column{'' if isinstance(labels[0], str) else numbers}"
        )
    if isinstance(labels[0], str) != isinstance(labels[1], str):
        raise DataError(f"{name} mixes numbers and text: {labels[0]!r} and {labels[1]!r}; make them alike")
    if order is not None:
        labels.sort(key=order.index)
    if positive is None:
        return labels[0], labels[1]
    chosen = [label for label in labels if label == positive] or [n for n in labels if str(n) == positive]
    if not chosen:
        raise DataError(f"positive={positive!r} is no class of {name}, which has {labels[0]!r} and {labels[1]!r}")
    return labels[labels[0] == chosen[0]], chosen[0]


def signed_labels(labels: NDArray[Any], classes: tuple[Any, Any], start: int, name: str = "y") -> LabelArray:
    """Map `labels` to -1 (first class) and +1 (second class)."""
    positive = labels == classes[1]
    known = positive | (labels == classes[0])
    if not known.all():
        row = int(np.argmin(known))
        raise RowError(
            f"{name} is {labels[row]!r} in row {start + row}, neither {classes[0]!r} nor {classes[1]!r}", start + row
        )
    return np.asarray(2 * positive.view(np.int8) - 1, dtype=np.int8)  # five times as fast as np.where
