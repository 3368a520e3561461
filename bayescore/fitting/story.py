"""What `fit` did, step by step."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from bayescore.validation import warn


@dataclass(frozen=True)
class Step:
    """A step of a fit.

    Parameters
    ----------
    what : str
        "build", "update", "sample", "certify", "cluster" or "stop".
    rows : int
        Rows that the step worked on: those of the data where it read them, else those of the coreset.
    passes : int
        Passes over the data.
    seconds : float
        Wall time.
    why : str
        What was chosen, and for which reason.

    Examples
    --------
    >>> print(Step("certify", 1_000_000, 1, 0.4, "certified"))
    certify     1,000,000 rows, 1 pass, 0.4 s: certified
    """

    what: str
    rows: int
    passes: int
    seconds: float
    why: str

    def __str__(self) -> str:
        read = f", {self.passes} pass{'es' * (self.passes != 1)}" if self.passes else ""
        return f"{self.what:<8}{self.rows:>13,} rows{read}, {self.seconds:.1f} s: {self.why}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return asdict(self)


@contextmanager
def overheard() -> Iterator[list[str]]:
    """Yield bayescore's warnings of the body as they come; they are given after it, unless it raises."""
    caught: list[str] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=UserWarning)
        show = warnings.showwarning

        def hear(message: Any, category: Any, *where: Any, **more: Any) -> None:
            if category is UserWarning:
                caught.append(str(message))
            else:
                show(message, category, *where, **more)

        warnings.showwarning = hear
        yield caught
    for text in caught:
        warn(text)


def words(caught: list[str]) -> str:
    """Return warnings as the end of a step's words."""
    return "".join(f"; warning: {text}" for text in dict.fromkeys(caught))
