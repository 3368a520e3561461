"""Options of a stream that do not go together are refused before the first block."""

from collections.abc import Mapping
from typing import Any

from bayescore.data.design import Design
from bayescore.data.sources.paired import LABELS
from bayescore.models.families import Family
from bayescore.validation import DataError

ROLES = ("label", "weights", "offset", "trials", "exposure", "groups", "positive", "missing")


def check_roles(roles: Mapping[str, Any], family: Family, classes: object) -> None:
    """Raise for a role that there is not, and for labels of counts or numbers."""
    for name in roles:
        if name not in ROLES:
            raise TypeError(f"roles has {name!r}; the names are {', '.join(ROLES)}")
    for name, value in (("classes", classes), ("positive", roles.get("positive"))):
        if family.response != LABELS and value is not None:
            raise DataError(
                f"{name}={value!r} is given, but family={family.name!r} takes {family.response}, which have no "
                "positive label; leave it out"
            )


def check_designed(formula: str | None, design: Design | None, classes: object, *, intercept: bool) -> None:
    """Raise if a formula or a design says already what another option says."""
    if formula is not None and design is not None:
        raise TypeError(f"formula={formula!r} and design are both given; give one of them")
    given = "design" if formula is None else f"formula={formula!r}"
    if intercept:
        raise ValueError(f"intercept=True is given beside {given}, which says whether there is one; leave it out")
    if design is not None and design.classes is not None and classes is not None:
        raise ValueError(f"classes={classes!r} is given beside design, which has {design.classes}; leave it out")
