"""What stands beside the features of rows: labels, weights and offsets, as arrays or as names of columns."""

from dataclasses import dataclass, fields
from typing import Any

from bayescore.validation import check_alone

OFFSET = "offset"  # what offsets are called that come as arrays


@dataclass(frozen=True, eq=False)
class Roles:
    """Who plays which role beside the features; see `as_source`. None where nobody does.

    Parameters
    ----------
    y : array, optional
        Labels beside the rows.
    label : str, optional
        Column of the labels.
    weights, offset : array or str, optional
        Weights and offsets of the rows, or the names of their columns.
    """

    y: Any = None
    label: str | None = None
    weights: Any = None
    offset: Any = None

    def check_none(self, what: str) -> None:
        """Raise `DataError` if anything is given beside data, which are `what` and have their own."""
        check_alone(what, **{field.name: getattr(self, field.name) for field in fields(self)})
