"""Responses that are numbers: successes of trials and counts of an exposure, two rows each, and numbers with noise.

A binomial count k of n has the log-likelihood k l+ + (n - k) l-, a count y of exposure E has y l+ + E l-. So the row of
label +1 weighs k or y, and that of label -1 weighs n - k or E, each times the row's weight.

A positive number y has y l+ + l-, as a count of the exposure 1 has.

A time t at risk that ends with the event, d = 1, or without it, d = 0, has d l+ + l- at the offset -log t.

A number y with noise is one row of label +1 with the offset -y, so that its linear predictor is minus the residual.

Labels: the two classes among them, and labels as signs.

Weighted rows as counts: as R's ``glm`` takes them (`Coreset.to_counts`), and events with their exposure.

Offsets, and responses that are numbers, by the name of a column, or by an expression of columns such as ``log(years)``.

An expression may come from a file, so that numbers, columns, arithmetic and the functions named below are computed here
and nothing else is.
"""

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescore.limits import MAX_NUMBER
from bayescore.text import free_name
from bayescore.types import NO_GROUP, FloatArray, LabelArray, WeightedData
from bayescore.validation import DataError, OneOnlyError, RowError, check_numbers_of_rows, check_offset

LEFT_OUT = "missing='drop' leaves missing ones out"
MENDED = f"drop or mend such rows; {LEFT_OUT}"
"""What messages on responses that cannot be used end with."""


@dataclass(frozen=True)
class Paired:
    """One kind of response that is a number."""

    beside: str | None  # role of the number that goes with the response
    classes: tuple[Any, Any]  # what the sides are called

    def read(self, response: Any, second: Any, names: tuple[str, str], n_rows: int) -> FloatArray:
        """Return the response and its second number as floats, shape (2, n_rows); without `second` it is 1."""
        y = check_numbers_of_rows(response, n_rows, names[0])
        if self == TIMES and second is None:
            raise DataError(
                f"{names[0]} says whether there was the event, 1 or 0, and times are missing: write Surv(time, event) "
                "on the left side of the formula, Surv(time) where all times end with the event, or give exposure="
            )
        return np.stack([y, np.ones(n_rows) if second is None else check_numbers_of_rows(second, n_rows, names[1])])

    def rows(
        self, rows: WeightedData, pair: FloatArray, names: tuple[str, str], start: int, *, drop: bool
    ) -> WeightedData:
        """Return rows start, start + 1, ... with their responses; see `weights` for what is raised."""
        if self == MEASURED:
            return with_response(rows, check_numbers(pair[0], names[0], start, drop=drop))
        rows = two_rows_each(rows, self.weights(pair, names, start, drop=drop))
        return replace(rows, offset=-np.log(np.repeat(pair[1], 2))) if self == TIMES else rows

    def weights(self, pair: FloatArray, names: tuple[str, str], start: int, *, drop: bool) -> FloatArray:
        """Return the weights of the sides +1 and -1 of rows start, start + 1, ..., shape (2, n).

        Raises `RowError` for numbers out of range; with `drop` NaN stays, for rows that will be left out.
        """
        y, other = pair
        if self == RATES:  # workers have a copy
            _check_whole(y, names[0], start, f"counts are whole numbers, at least 0: {MENDED}", drop=drop)
            bad = ~((other > 0.0) & np.isfinite(other)) & ~(np.isnan(other) & drop)
            remedy = f"an exposure is a positive number: {MENDED}"
            _refuse_rows(bad, other, f"{names[1]} is no exposure", start, remedy)
            return pair
        if self == TIMES:
            remedy = (
                "an event is 1 or True, a time that is censored has 0 or False: if 2 is the event and 1 censored, give "
                f"status - 1; {LEFT_OUT}"
            )
            _refuse_rows(~np.isin(y, (0.0, 1.0)) & ~(np.isnan(y) & drop), y, f"{names[0]} is no event", start, remedy)
            bad = ~((other > 0.0) & (other <= MAX_NUMBER)) & ~(np.isnan(other) & drop)
            remedy = (
                f"times are above 0 and at most {MAX_NUMBER:g}: drop such rows, or give a time within the first unit, "
                f"such as 0.5; {LEFT_OUT}"
            )
            _refuse_rows(bad, other, f"{names[1]} is no time", start, remedy)
            return np.stack([y, np.ones_like(other)])  # a missing time is a missing offset
        if self == AMOUNTS:
            bad = ~((y <= MAX_NUMBER) | (np.isnan(y) & drop))
            _refuse_rows(~(np.isfinite(y) | (np.isnan(y) & drop)), y, f"{names[0]} is no finite number", start, MENDED)
            remedy = (
                "the family takes positive numbers: drop such rows; where zeros are many fit whether a number is above "
                "0 by family='logistic', and those that are by this family"
            )
            _refuse_rows(y <= 0.0, y, f"{names[0]} is not above 0", start, remedy)
            _refuse_rows(y > MAX_NUMBER, y, f"{names[0]} is above {MAX_NUMBER:g}", start, "rescale it")
            return pair
        if self == TRUNCATED:
            _check_whole(y, names[0], start, f"counts are whole numbers: {MENDED}", drop=drop)
            remedy = "drop such rows, and fit whether a count is above 0, y > 0, by family='logistic'"
            _refuse_rows(y == 0.0, y, f"{names[0]} is not above 0", start, f"the family is of counts above 0: {remedy}")
            return np.stack([y - 1.0, other])
        remedy = (
            "successes and trials are whole numbers, 0 <= successes <= trials: give fractions as weights of rows with "
            f"labels, and {MENDED}"
        )
        for name, counts in zip(names, pair, strict=True):
            _check_whole(counts, name, start, remedy, drop=drop)
        _refuse_rows(y > other, y, f"{names[0]} is above {names[1]}", start, remedy)
        return np.stack([y, other - y])


BINOMIAL = Paired("trials", (0, 1))


RATES = Paired("exposure", ("exposure", "events"))


TRUNCATED = Paired(None, ("counted row", "events"))


AMOUNTS = Paired(None, ("observation", "amount"))


TIMES = Paired("exposure", ("time at risk", "event"))


MEASURED = Paired(None, (None, "number"))  # None is no label of data


LABELS, POSITIVE, TIMED, ABOVE = "labels", "positive numbers", "times", "counts above 0"


PAIRED = {"counts": RATES, ABOVE: TRUNCATED, POSITIVE: AMOUNTS, TIMED: TIMES, "numbers": MEASURED}
"""Kinds of response by what a family calls them; labels are not here."""


TWO_SIDED = ("counts", ABOVE, POSITIVE, TIMED)
"""Responses with a log link: each row of the data is two."""


SECOND_ROLE = {LABELS: "trials"} | {name: paired.beside or "trials" for name, paired in PAIRED.items()}
"""The argument that has the number beside a response."""


def response_of(classes: Sequence[Any] | None) -> str:
    """Return what responses with these two classes are called."""
    pair = None if classes is None else tuple(classes)
    return next((name for name, paired in PAIRED.items() if paired.classes == pair), LABELS)


def response_text(classes: Sequence[Any] | None) -> str:
    """Return what responses with these two classes are, for a message."""
    kind = response_of(classes)
    return f"the labels {None if classes is None else tuple(classes)}" if kind == LABELS else kind


def with_response(rows: WeightedData, y: FloatArray) -> WeightedData:
    """Return rows whose responses are the numbers y, shape (n,); the label is 0 where one is missing."""
    observed = ~np.isnan(y)
    return replace(rows, y=observed.astype(np.int8), offset=np.where(observed, -y, 0.0))


def numbers_of(rows: WeightedData) -> tuple[WeightedData, FloatArray]:
    """Return rows without their responses, and the responses, shape (n,): `with_response` backwards."""
    return WeightedData(rows.X, rows.y, rows.weights, rows.index, group=rows.group), -rows.offsets


def without_response(rows: WeightedData, response: str) -> WeightedData:
    """Return rows without the offsets that are their responses, which numbers and times are."""
    if response == "numbers":
        return numbers_of(rows)[0]
    return replace(rows, offset=None) if response == TIMED else rows


def check_numbers(y: FloatArray, name: str, start: int = 0, *, drop: bool = False) -> FloatArray:
    """Return numbers; raise `RowError` where one is too large or not finite; with `drop` NaN stays."""
    bad = ~np.isfinite(y) & ~(np.isnan(y) & drop)
    _refuse_rows(bad, y, f"{name} is no finite number", start, MENDED)
    _refuse_rows(
        np.abs(y) > MAX_NUMBER, y, f"{name} is above {MAX_NUMBER:g} in size", start, f"rescale {name}, and the sd"
    )
    return y


def two_rows_each(rows: WeightedData, weights: FloatArray) -> WeightedData:
    """Return for each row one of label +1 and one of label -1, whose weights are the rows' times `weights`, (2, n).

    Labels are 0 if a number is missing.
    """
    twice = rows.take(np.repeat(np.arange(len(rows)), 2))
    missing = np.isnan(weights).any(axis=0)
    y = np.where(np.repeat(missing, 2), 0, np.tile([1, -1], len(rows))).astype(np.int8)
    return replace(twice, y=y, weights=twice.weights * np.where(missing, 0.0, weights).T.ravel())


def _check_whole(counts: FloatArray, name: str, start: int, remedy: str, *, drop: bool) -> None:
    bad = ~((counts >= 0.0) & (counts == np.floor(counts)) & np.isfinite(counts))
    _refuse_rows(bad & ~np.isnan(counts) if drop else bad, counts, f"{name} is no count", start, remedy)


def _refuse_rows(bad: NDArray[np.bool_], numbers: FloatArray, problem: str, start: int, remedy: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise RowError(
            f"{problem} in {int(bad.sum())} of rows {start} to {start + len(bad) - 1}, first {numbers[row]:g} in row "
            f"{start + row}; {remedy}",
            start + row,
        )


SHOWN = 5
"""Labels that a message names."""


class Classes(NamedTuple):
    """The two labels of an earlier data set, the second +1."""

    negative: Any
    positive: Any


def sorted_labels(occurring: Iterable[Any], name: str = "y") -> list[Any]:
    """Return distinct labels in sorted order, numbers before text; raise if one is missing or of another type."""
    labels = list(occurring)
    if any(label is None or label != label for label in labels):
        raise DataError(f"{name} has missing labels; drop those rows")
    for label in labels:  # what a coreset's file can hold
        if not isinstance(label, bool | int | float | str):
            raise DataError(f"{name} has labels of type {type(label).__name__}; turn them into numbers or text")
        if isinstance(label, int) and not -(2**63) <= label < 2**63:
            raise DataError(f"{name} has the label {label}, beyond 64 bits with a sign; turn the labels into text")
    return sorted(labels, key=lambda label: (isinstance(label, str), label))


def two_classes(
    occurring: Iterable[Any], name: str = "y", positive: Any = None, order: Sequence[Any] | None = None
) -> tuple[Any, Any]:
    """Return the two labels; the second becomes +1. It is `positive`, or by default the second in `order`, or sorted.

    If `positive` is the two `Classes`, other labels are refused, and one of the two may be missing.
    """
    labels = sorted_labels(occurring, name)
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
        numbers = ", for counts family='poisson', for other numbers 'normal'"
        raise DataError(
            f"{name} has {f'more than {SHOWN}' if many else len(labels)} classes ({shown}); two are needed: "
            "compare one class with the rest, or give the label column; ordered categories take family='sratio' in fit"
            f"{'' if isinstance(labels[0], str) else numbers}"
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
    is_class = positive | (labels == classes[0])
    if not is_class.all():
        row = int(np.argmin(is_class))
        raise RowError(
            f"{name} is {labels.tolist()[row]!r} in row {start + row}, neither {classes[0]!r} nor {classes[1]!r}",
            start + row,
        )
    return np.asarray(2 * positive.view(np.int8) - 1, dtype=np.int8)  # five times as fast as np.where


def counts_of(rows: WeightedData, frame: pd.DataFrame, left_out: list[str], names: Sequence[str]) -> pd.DataFrame:
    """Return rows as counts: of adjacent ones that differ only in the label, weights of +1 and -1 in one row.

    `frame` has their columns as `Coreset.to_frame` gives them; labels and weights are `left_out`, and the weights get
    two `names`.
    """
    if rows.group is not None and (rows.group == NO_GROUP).any():
        raise DataError(
            "the coreset has rows without a group beside rows with one (pseudo-rows within groups), which R's "
            "na.omit would drop: use bayescore.sample or bayescore.model"
        )
    alike = frame.drop(columns=left_out)
    parts = [part for part in (rows.X, rows.offset, rows.group, rows.index) if part is not None]
    values = np.column_stack(parts)
    first = np.append(True, (values[1:] != values[:-1]).any(axis=1))
    group = np.cumsum(first) - 1
    counts = alike[first].copy()
    place = rows.n_features
    for name, kept in zip(names, (rows.y > 0, rows.y < 0), strict=True):
        counts.insert(place, free_name(name, counts.columns), np.bincount(group, np.where(kept, rows.weights, 0.0)))
        place += 1
    return counts


def events_of(rows: WeightedData) -> tuple[WeightedData, FloatArray]:
    """Return rows of counts, each with its exposure as weight, and their events, shape (n,).

    Raises `DataError` for rows that are one side of a count alone, as a coreset's are.
    """
    at_risk, event = rows.y < 0, np.flatnonzero(rows.y > 0)
    partner = np.minimum(event + 1, len(rows) - 1)
    if (lone := ~at_risk[partner] | (rows.index[partner] != rows.index[event])).any():
        raise DataError(
            f"data has the events of row {rows.index[event[lone.argmax()]]} without their exposure, as a coreset has: "
            "give rows of the data, such as all_rows(rows, family=core.family, design=core.design)"
        )
    events = np.zeros(int(at_risk.sum()))
    events[(np.cumsum(at_risk) - 1)[partner]] = rows.weights[event]
    return rows.take(at_risk), events


def in_domain(values: Any) -> FloatArray:
    """Return 1 for rows in a domain and 0 for others; raise `DataError` for other numbers."""
    if not np.isin(values, (0.0, 1.0)).all():
        other = float(np.asarray(values)[~np.isin(values, (0.0, 1.0))][0])
        raise DataError(f"domain has a row of {other:g}; give True or 1 inside, False or 0 outside")
    return np.asarray(values, dtype=np.float64)


_FUNCTIONS = {name: getattr(np, name) for name in ("log", "log10", "log2", "log1p", "exp", "sqrt")} | {
    "I": np.positive,  # R's, around arithmetic
    "in_domain": in_domain,
    "Surv": lambda times: np.where(np.isnan(times), np.nan, 1.0),  # without events all times end with one
}


_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
}


_DOTTED = re.compile(r"(?<![\w.`])[^\W\d]\w*(?:\.\w+)+(?![\w.(`])")  # a name of R, no function of np


@dataclass(frozen=True)
class Expression:
    """Numbers of rows by a text, such as ``log(years)``, and the columns that it is made of."""

    text: str
    columns: tuple[str, ...]
    role: str = "offset"  # the argument that it is given as

    @classmethod
    def of(cls, text: str, names: Sequence[str], role: str = "offset") -> Self:
        """Return what a text means where the data have columns of these names; a column's name goes first.

        The columns of an expression need not be among `names`.
        """
        if text in names or re.fullmatch(r"[^\W\d][\w.]*", text):
            return cls(text, (text,), role)
        try:
            tree, named = _tree(text)
        except SyntaxError:
            return cls(text, (text,), role)
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        functions = {id(node.value if isinstance(node, ast.Attribute) else node) for node in calls}
        names_in_text = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in functions]
        columns = tuple(dict.fromkeys(named.get(name, name) for name in names_in_text))
        with np.errstate(all="ignore"):
            _value(f"{role}={text!r}", tree, dict.fromkeys(names_in_text, np.ones(1)))
        if not columns:
            why = "; the same number for all rows is a part of the intercept" if role == "offset" else ""
            raise DataError(f"{role}={text!r} names no column{why}")
        return cls(text, columns, role)

    @property
    def plain(self) -> bool:
        """Whether it is a column as it is."""
        return self.columns == (self.text,)

    @property
    def shown(self) -> str:
        """What an error calls it."""
        return f"{self.role} (column {self.text!r})" if self.plain else f"{self.role} {self.text!r}"

    def numbers(self, column: Callable[[str], FloatArray], start: int = 0) -> FloatArray:
        """Return the numbers of rows start, start + 1, ..., shape (n,), given their columns.

        Raises `RowError` where columns are numbers, and the expression is not one, as the logarithm of -1.
        """
        if self.plain:
            return column(self.text)
        tree, named = _tree(self.text)
        columns_read = {name: column(name) for name in self.columns}
        held = {**columns_read, **{alias: columns_read[name] for alias, name in named.items()}}
        with np.errstate(all="ignore"):
            numbers = np.asarray(_value(f"{self.role}={self.text!r}", tree, held), dtype=np.float64)
        missing = np.any([np.isnan(values) for values in columns_read.values()], axis=0)
        if (bad := np.isnan(numbers) & ~missing).any():  # which missing='drop' would leave out
            row = int(np.argmax(bad))
            shown = ", ".join(f"{name!r} is {values[row]:g}" for name, values in columns_read.items())
            raise RowError(
                f"{self.shown} is no number in row {start + row}, where {shown}; drop such rows", start + row
            )
        return numbers

    def values(
        self, column: Callable[[str], FloatArray], n_rows: int, start: int = 0, *, drop: bool = False
    ) -> FloatArray:
        """Return the offsets of rows start, start + 1, ..., shape (n,), given their columns; see `check_offset`."""
        return check_offset(self.numbers(column, start), n_rows, self.shown, start, drop=drop)


def _tree(text: str) -> tuple[ast.expr, dict[str, str]]:
    """Return the expression, and the columns in backticks, or with dots, by the names that they have in it."""
    named: dict[str, str] = {}

    def plain(match: re.Match[str]) -> str:
        alias = f"column_in_backticks_{len(named)}"
        named[alias] = match[1]
        return alias

    quoted = _DOTTED.sub(lambda match: f"`{match[0]}`", text.strip())
    return ast.parse(re.sub("`([^`]+)`", plain, quoted), mode="eval").body, named


def _value(text: str, node: ast.expr, columns: Mapping[str, FloatArray]) -> Any:
    """Return the value of a node of an expression, which an error calls `text`, such as "offset='log(years)'"."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name) if name in columns:
            return columns[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(text, left, columns), _value(text, right, columns))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(text, operand, columns))
        case ast.Call(func=ast.Name(id=name), args=[own], keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_value(text, own, columns))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr=name), args=[own], keywords=[]) if (
            name in _FUNCTIONS
        ):
            return _FUNCTIONS[name](_value(text, own, columns))
    what = "an offset" if text.startswith("offset=") else "a response"
    raise DataError(
        f"{text} has {ast.unparse(node)!r}; {what} is made of columns, numbers, + - * / ** and "
        f"{', '.join(name for name in _FUNCTIONS if name != 'in_domain')}: make a column of it and name that"
    )
