"""What a fit prints, without its line breaks."""

from typing import Any


def one_line(fit: Any) -> str:
    """Return the text in one line, each run of blanks one blank."""
    return " ".join(repr(fit).split())
