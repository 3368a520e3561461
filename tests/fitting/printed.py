"""What a fit prints, without its line breaks, or without the calls that it names as the next ones."""

import re
from typing import Any

_NEXT = re.compile(r";\s+next:.*(?:\n\s*fit\..*)*")


def one_line(fit: Any) -> str:
    """Return the text in one line, each run of blanks one blank."""
    return " ".join(repr(fit).split())


def without_next(text: str) -> str:
    """Return a text without the next calls: a fit that is read without its rows can answer others."""
    return _NEXT.sub("", text)
