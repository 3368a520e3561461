"""Lists of names in messages and tables: the first few of many."""

from collections.abc import Callable, Sequence
from typing import Any


def listed(things: Sequence[Any], most: int = 5, shown: Callable[[Any], str] = repr) -> str:
    """Return the first few of some things in one line, and how many there are besides."""
    text = ", ".join(map(shown, things[:most]))
    return f"{text} and {len(things) - most:,} more" if len(things) > most else text


def shown_apart(one: Sequence[str], other: Sequence[str]) -> tuple[str, str]:
    """Return names of two lists that are not the same, five of each with the first that differs among them."""
    first = next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, first - 4)

    def shown(names: Sequence[str]) -> str:
        head, tail = ("..., " if start else ""), (", ..." if len(names) > start + 5 else "")
        return head + ", ".join(names[start : start + 5]) + tail

    return shown(one), shown(other)
