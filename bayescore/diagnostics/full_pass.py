"""The full data of a coreset, as the passes of certificate and evidence read them."""

from typing import Any

from bayescore.data.coreset import Coreset
from bayescore.data.sources import DesignedSource, as_source
from bayescore.validation import DataError


def full_source(core: Coreset, data: Any, y: Any, label: str | None, weights: Any) -> DesignedSource:
    """Return the full data in the design of `core`.

    Raises
    ------
    DataError
        If they have other features or labels than the data that `core` was built from.
    """
    if isinstance(data, Coreset):
        if data.design != core.design:
            raise DataError("data has another design than the coreset; build both with the same intercept and scaling")
        return DesignedSource(data.as_source(), core.design)
    raw = as_source(data, y, label=label, weights=weights)
    if raw.design.raw_names != core.design.raw_names:
        raise DataError(
            f"data has the features {', '.join(raw.design.raw_names[:5])}, the coreset was built from "
            f"{', '.join(core.design.raw_names[:5])}; give the data it was built from"
        )
    if tuple(raw.classes) != tuple(core.classes):
        raise DataError(f"data has the labels {raw.classes}, the coreset {core.classes}; give the data it came from")
    return DesignedSource(raw, core.design, core.design)
