"""What every builder ends with: checked names, and a `Coreset` of the rows that were chosen."""

from dataclasses import fields
from importlib.metadata import version
from typing import Any

import numpy as np

from bayescore.coresets.method import Method
from bayescore.data.coreset import Coreset
from bayescore.types import INTERCEPT, Design, WeightedData
from bayescore.validation import DataError, warn


def check_names(design: Design, label: str, intercept: bool) -> None:
    """Raise if a column has a name that the coreset needs for one of its own."""
    if intercept and INTERCEPT in (*design.raw_names, label):
        raise DataError(f"intercept=True, but the data have a column {INTERCEPT!r}; drop it or leave intercept=False")
    own = ("weight", label, *([] if design.offset is None else ["offset"]))
    for name in own:
        if name in design.names:
            raise DataError(f"a feature is named {name!r}, as a column of the coreset's file; rename the feature")
    for grouping in design.groups:
        if grouping.name in (*own, *design.names):
            raise DataError(
                f"groups={grouping.name!r} has the name of a feature, or of a column of the coreset's file; rename it"
            )


def finish(rows: WeightedData, **about: Any) -> Coreset:
    """Return `rows` as a coreset with the fields `about`; warn where they are of one class only."""
    if len(set(rows.y.tolist())) < 2:
        warn(
            f"all {len(rows)} rows of the coreset have one label; the posterior will be driven by the prior: "
            "ask for a larger size"
        )
    parts = {field.name: getattr(rows, field.name) for field in fields(WeightedData)}
    return Coreset(**parts, version=version("bayescore"), **about)


def with_word_of_groups(core: Coreset, method: Method) -> Coreset:
    """Return a coreset; warn where its rows have groups of which the method that chose them knew nothing."""
    if core.group is None or method.knows_groups:
        return core
    lost = [
        f"{len(grouping) - len(np.unique(codes)):,} of {len(grouping):,} groups of {grouping.name!r}"
        for grouping, codes in zip(core.groups, core.group.T, strict=True)
    ]
    warn(
        f"method={method.name!r} chooses and weighs rows for the coefficients of the columns alone, and "
        f"{', '.join(lost)} have no row: effects of groups would be far off; use method='multilevel' for (1 | g), "
        "'aggregate', lossless, where rows repeat, or full_data"
    )
    return core
