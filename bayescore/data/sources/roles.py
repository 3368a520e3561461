"""What stands beside the features of rows: labels, weights and offsets, as arrays or as names of columns."""

from dataclasses import dataclass, fields
from typing import Any

from bayescore.data.sources.groups import Given, Grouper
from bayescore.validation import DataError, check_alone, check_choice

OFFSET = "offset"  # what offsets are called that come as arrays
TRIALS = "trials"
MISSING = ("raise", "drop")
COUNTS = (0, 1)  # labels of failures and successes


@dataclass(frozen=True, eq=False)
class Roles:
    """What plays which role beside the features, None where nothing does; `build_coreset` explains each to users.

    Parameters
    ----------
    y : array, optional
        Labels beside the rows.
    label : str, optional
        Column of the labels.
    weights, offset : array or str, optional
        Weights and offsets of the rows, or the names of their columns.
    trials : array or str, optional
        Trials of each row, or the name of their column; the labels are then successes.
    positive : label, optional
        The label that is +1.
    missing : "raise" or "drop"
        What becomes of rows that miss something.
    groups : str, array, or several in a list of names or a dict, optional
        Grouping factors of the rows.
    groupers : tuple of Grouper, optional
        Those whose levels are known, one for each of `groups`; by default the source learns levels as it is opened.
    """

    y: Any = None
    label: str | None = None
    weights: Any = None
    offset: Any = None
    trials: Any = None
    positive: Any = None
    missing: str = "raise"
    groups: Any = None
    groupers: tuple[Grouper, ...] | None = None

    def __post_init__(self) -> None:
        check_choice(self.missing, "missing", MISSING)
        if self.trials is not None and self.positive is not None:
            raise DataError(
                f"positive={self.positive!r} is given beside trials, of which successes are +1; leave it out"
            )

    @property
    def drop(self) -> bool:
        """Whether rows that miss something are left out."""
        return self.missing == "drop"

    def check_named(self, what: str) -> None:
        """Raise `DataError` unless labels, weights, offsets and trials are columns of the data, which are `what`."""
        if self.y is not None:
            raise DataError(f"y is given beside {what}; name the column of the labels as label")
        for name, given in (("weights", self.weights), ("offset", self.offset), ("trials", self.trials)):
            if given is not None and not isinstance(given, str):
                raise DataError(f"{name} of {what} must be the name of a column")
        Given.of(self.groups, None)

    def check_none(self, what: str, *allowed: str) -> None:
        """Raise `DataError` if more than what is `allowed` is given beside data that are `what` and have their own."""
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in allowed}
        check_alone(what, **{name: value for name, value in given.items() if name != "missing"})
        if self.drop:
            raise DataError(
                f"missing='drop' is given, but data is {what}: leave rows that miss something out where they are made, "
                "of a block those of ~numpy.isnan(X).any(axis=1)"
            )
