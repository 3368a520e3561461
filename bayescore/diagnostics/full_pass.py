"""The full data of a coreset, as the passes of certificate and evidence read them."""

import math
from typing import Any

from bayescore.data.coreset import Coreset
from bayescore.data.designed import open_in
from bayescore.data.opened import Opened
from bayescore.validation import DataError, check_alone


def full_rows(
    core: Coreset, data: Any, y: Any, *, label: str | None, weights: Any, progress: bool, offset: Any = None
) -> Opened:
    """Return the full data in the design of `core`.

    Raises
    ------
    DataError
        If they have other features or labels than the data that `core` was built from, or if y, label, weights or
        offset are given beside a `Coreset`, which has its own.
    """
    if isinstance(data, Coreset):
        check_alone("a Coreset", y=y, label=label, weights=weights, offset=offset)
        if data.design != core.design:
            raise DataError("data has another design than the coreset; build both with the same intercept and scaling")
        opened = Opened(data.as_source(), core.design, progress=progress)
    else:
        whose = "the coreset was built from"
        opened = open_in(
            core.design, data, y, label=label, weights=weights, offset=offset, progress=progress, whose=whose
        )
    source = opened.source
    if tuple(source.classes) != tuple(core.classes):
        raise DataError(f"data has the labels {source.classes}, the coreset {core.classes}; give the data it came from")
    return opened


def check_weight(core: Coreset, weight: float) -> None:
    """Raise `DataError` unless the data that were passed over weigh as much as those that `core` stands for."""
    if not math.isclose(weight, core.weight_total, rel_tol=1e-6):
        raise DataError(
            f"data has the total weight {weight:,.10g}, the coreset stands for {core.weight_total:,.10g}; give the "
            "rows that it was built from, with their weights"
        )
