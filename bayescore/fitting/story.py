"""What `fit` did, step by step."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Step:
    """A step of a fit.

    Parameters
    ----------
    what : str
        "build", "update", "sample", "certify" or "stop".
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
