"""Names: that are not taken; lists of them in messages and tables, the first few of many.

Numbers as people read them: as many digits as their Monte Carlo error allows.
"""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

PAGES = "docs"
"""Where the pages of the documentation stand: a folder of the repository, until the site has an address."""


def see(page: str) -> str:
    """Return the end of a message about which a page says more, by its place in the documentation."""
    return f"; see {PAGES}/{page}"


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name, with underscores until it is not among those that are taken."""
    while name in taken:
        name += "_"
    return name


def listed(things: Sequence[Any], most: int = 5, shown: Callable[[Any], str] = repr) -> str:
    """Return the first few of some things in one line, and how many there are besides."""
    text = ", ".join(map(shown, things[:most]))
    return f"{text} and {len(things) - most:,} more" if len(things) > most else text


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message without its full stop, or its class if it has no message."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def counted(n: int, one: str, many: str = "") -> str:
    """Return a number and what is counted, in the singular or plural.

    >>> counted(1, "pass", "passes"), counted(2000, "chain")
    ('1 pass', '2,000 chains')
    """
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def first_difference(one: Sequence[str], other: Sequence[str]) -> tuple[str, str]:
    """Return names of two lists that are not the same, five of each with the first that differs among them."""
    first = next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, first - 4)

    def shown(names: Sequence[str]) -> str:
        head, tail = ("..., " if start else ""), (", ..." if len(names) > start + 5 else "")
        return head + ", ".join(names[start : start + 5]) + tail

    return shown(one), shown(other)


def number(value: float | None, digits: int = 3) -> str:
    """Return `value` with `digits` significant digits, no exponent where a few more digits do; a dash if missing."""
    if value is None or math.isnan(value):
        return "–"
    if value == 0.0 or not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{digits}g}".replace("-", "−")
    decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    return f"{value:,.{decimals}f}".replace("-", "−")


def with_error(value: float, mcse: float, *, signed: bool = False, digits: int = 2) -> tuple[str, str]:
    """Return `value` and its standard error, both to `digits` significant digits of the error.

    The error is empty, and the value has three significant digits, where the error is missing or zero.
    """
    if not (math.isfinite(mcse) and math.isfinite(value) and mcse > 0.0):
        return number(value), ""
    decimals = digits - 1 - math.floor(math.log10(mcse))
    if decimals > 6 or abs(value) >= 1e7:
        return f"{value:{'+' if signed else ''}.3g}".replace("-", "−"), f"{mcse:.{digits}g}"
    decimals = max(decimals, 0)
    return f"{value:{'+' if signed else ''}z,.{decimals}f}".replace("-", "−"), f"{mcse:,.{decimals}f}"
