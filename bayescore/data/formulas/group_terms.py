"""Takes group terms, ``(1 | county)`` or ``(1 + age | g)``, which formulaic does not read, out of a formula.

Left of the bar is what varies by group: "1" for an intercept, else terms that the formula also has. Right of it is the
column of groups, or the combinations of columns, ``a:b``; ``a/b``, b within a, stands for two terms, of ``a`` and of
``a:b``. Several terms are crossed factors.
"""

import re
from dataclasses import dataclass

from bayescore.data.sources.group_columns import JOINT
from bayescore.validation import DataError

_NAME = re.compile(r"`[^`]+`|[^\W\d][\w.]*")
_COLUMNS = re.compile(rf"\s*(?:{_NAME.pattern})(?:\s*[:/]\s*(?:{_NAME.pattern}))*\s*")  # right of a bar
_JOINED = re.compile(r"^[^(`]*[-*/^]")  # operators of formulas, outside calls and quotes


@dataclass(frozen=True)
class GroupTerm:
    """A group term: the column of the groups, and the terms whose effects vary by group."""

    column: str
    effects: tuple[str, ...]


def without_group_terms(text: str) -> tuple[str, tuple[GroupTerm, ...]]:
    """Return a formula without its group terms, and these; raise `DataError` if one cannot be read."""
    found: list[GroupTerm] = []
    rest, end = "", 0
    for start, bar, stop in _places(text):
        term = text[start : stop + 1]
        head, tail = (rest + text[end:start]).rstrip(), text[stop + 1 :].lstrip()
        if (head and not head.endswith(("+", "~"))) or (tail and not tail.startswith(("+", "-"))):
            raise DataError(f"formula={text!r}: the group term {term!r} must be added, as in y ~ x + {term}")
        end = stop + 1
        if head.endswith("+"):
            rest = head[:-1]
        elif tail.startswith("+"):
            rest, end = head, len(text) - len(tail) + 1
        else:
            rest = f"{head} 1"
        found += _terms(text, term, text[start + 1 : bar], text[bar + 1 : stop])
    twice = [own.column for i, own in enumerate(found) if own.column in [other.column for other in found[:i]]]
    if twice:
        raise DataError(f"formula={text!r} has two group terms of {twice[0]!r}; write one, as (1 + x | {twice[0]})")
    return (rest + text[end:] if found else text), tuple(found)


def _terms(text: str, term: str, left: str, right: str) -> list[GroupTerm]:
    if right.lstrip().startswith("|"):
        raise DataError(
            f"formula={text!r}: {term!r} is not read, as effects of a group are correlated: write one bar; or make a "
            'copy of the column for an effect without correlation, data["g2"] = data["g"], and write '
            "(1 | g) + (0 + x | g2)"
        )
    columns = _columns(right, text)
    if not columns:
        raise DataError(
            f"formula={text!r}: the group term {term!r} needs a column right of its bar, as in (1 | county), or "
            "columns joined by : or /, as in (1 | state/county)"
        )
    effects = tuple(part.strip() for part in _summands(left))
    if "" in effects:
        raise DataError(f"formula={text!r}: the group term {term!r} has nothing that varies by group; write (1 | g)")
    if joined := [part for part in effects if _JOINED.search(part)]:
        raise DataError(
            f"formula={text!r}: {joined[0]!r} in {term!r} stands for several terms, or for one left out; write those "
            "that vary one by one, joined by +, and 0 for no intercept: (1 + x + z + x:z | g), (0 + x | g)"
        )
    intercept = [] if "0" in effects else ["1"]
    varying = (*intercept, *dict.fromkeys(name for name in effects if name not in ("0", "1")))
    if not varying:
        raise DataError(
            f"formula={text!r}: in {term!r} nothing varies by group; write (1 | {columns[0]}), or leave the term out"
        )
    return [GroupTerm(column, varying) for column in columns]


def _columns(text: str, formula: str) -> list[str]:
    """Return the grouping factors right of a bar, the finest last; none if it cannot be read.

    >>> _columns("state", ""), _columns("state / county:`school year`", "")
    (['state'], ['state', 'state:county:school year'])
    """
    found = re.findall(rf"({_NAME.pattern})\s*([:/]?)", text)
    names, marks = [name.strip("`") for name, _ in found], [mark for _, mark in found]
    if _COLUMNS.fullmatch(text) is None or len(set(names)) < len(names):
        return []
    if len(names) > 1 and (colon := [name for name in names if JOINT in name]):
        raise DataError(f"formula={formula!r}: column {colon[0]!r} has a colon in its name, and is joined; rename it")
    ends = [k for k, mark in enumerate(marks) if mark != JOINT]
    return [JOINT.join(names[: k + 1]) for k in ends]


def _places(text: str) -> list[tuple[int, int, int]]:
    """Return the positions of outermost parentheses with a bar: opening, bar, closing."""
    found, depth, start, bar, quoted = [], 0, 0, -1, False
    for i, mark in enumerate(text):
        if mark == "`":
            quoted = not quoted
        elif quoted:
            continue
        elif mark == "(":
            depth += 1
            start, bar = (i, -1) if depth == 1 else (start, bar)
        elif mark == "|" and depth == 1 and bar < 0:
            bar = i
        elif mark == ")":
            depth -= 1
            if depth == 0 and bar >= 0:
                found.append((start, bar, i))
    return found


def _summands(text: str) -> list[str]:
    parts, depth = [""], 0
    for mark in text:
        depth += (mark == "(") - (mark == ")")
        if mark == "+" and depth == 0:
            parts.append("")
        else:
            parts[-1] += mark
    return parts
