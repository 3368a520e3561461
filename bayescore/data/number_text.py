"""Columns of text whose levels are numbers: one wrong entry makes a column of numbers text.

Coded as a factor, such a column has a coefficient for each number, and no word of the fit says so. Levels with leading
zeros, such as the postal code 06510, are codes, and a factor of them is what was meant.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from bayescore.limits import MIN_NUMBER_LEVELS, MIN_NUMBER_SHARE
from bayescore.validation import DataError, warn

_POINT = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_COMMA = re.compile(r"\s*[+-]?(\d+,?\d*|,\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_CODE = re.compile(r"\s*0\d+\s*", re.ASCII)


class NumberText(NamedTuple):
    """Levels of text, nearly all of them numbers in one notation."""

    n_levels: int
    others: tuple[str, ...]  # levels that are no numbers
    comma: bool  # whether numbers have decimal commas


def number_text(levels: Iterable[str]) -> NumberText | None:
    """Return what levels of text have of numbers; None where they are few, not nearly all numbers, or codes.

    >>> number_text([*map(str, range(18, 58)), "forty"])
    NumberText(n_levels=41, others=('forty',), comma=False)
    >>> number_text(["06510", *map(str, range(10001, 10041))]) is None
    True
    """
    found = [level for level in levels if isinstance(level, str)]
    if len(found) < MIN_NUMBER_LEVELS or any(_CODE.fullmatch(level) for level in found):
        return None
    points, commas = ([own.fullmatch(level) is None for level in found] for own in (_POINT, _COMMA))
    comma = sum(commas) < sum(points)
    others = tuple(level for level, is_other in zip(found, commas if comma else points, strict=True) if is_other)
    if len(others) > (1.0 - MIN_NUMBER_SHARE) * len(found) * (1.0 + 1e-12):  # 1 of 10 is a tenth
        return None
    return NumberText(len(found), others, comma)


def check_number_text(
    name: str, levels: Iterable[str], row_of: Callable[[str], int] | None = None, *, limit: int | None = None
) -> None:
    """Raise if nearly all levels of a column of text are numbers, and warn if all are.

    `row_of` finds the first row of a level, which an error names. Levels above a `limit` are too many for a factor:
    those of all numbers raise.
    """
    found = number_text(levels)
    if found is None:
        return
    numbers = f"{found.n_levels - len(found.others):,} of its {found.n_levels:,} levels are numbers"
    reader = "read it with decimal=','" if found.comma else "pandas.to_numeric"
    commas = " with decimal commas" if found.comma else ""
    factor = f"C({name if name.isidentifier() else f'`{name}`'}) in a formula, or make it a categorical"
    many = limit is not None and found.n_levels > limit
    if found.others:
        missing = "" if found.comma else ", where errors='coerce' makes the other entries missing"
        remedy = "name it as groups" if many else f"write {factor}"
        place = "" if row_of is None else f" (row {row_of(found.others[0])})"
        raise DataError(
            f"column {name!r} is text, but {numbers}{commas}, and the first other is {found.others[0]!r}{place}: turn "
            f"it into numbers ({reader}{missing}); if it is a factor, {remedy}"
        )
    if many:
        raise DataError(
            f"column {name!r} has more than {limit} levels, and all are numbers{commas}: turn it into numbers "
            f"({reader}), or name it as groups, (1 | {name}) in a formula"
        )
    warn(
        f"column {name!r} is text, and all its {found.n_levels:,} levels are numbers{commas}: it is coded as a factor, "
        f"with a coefficient for each level but the first. Turn it into numbers ({reader}) for one coefficient; "
        f"if it is a factor, write {factor}"
    )
