"""The full data of a coreset, as the passes of certificate and evidence read them."""

import math
from typing import Any

import numpy as np

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.designed import open_in
from bayescore.data.sources import Roles
from bayescore.data.sources.paired import described
from bayescore.types import FloatArray
from bayescore.validation import DataError


def full_rows(core: Coreset, data: Any, y: Any, *, progress: bool, **beside: Any) -> Dataset:
    """Return the full data in the design of `core`.

    Raises
    ------
    DataError
        If they have other features or labels than the data that `core` was built from, or if y or another of `Roles`
        is given beside a `Coreset`, which has its own.
    """
    if isinstance(data, Coreset):
        Roles(y, **beside).check_none("a Coreset")
        if data.design != core.design:
            raise DataError("data has another design than the coreset; build both with the same intercept and scaling")
        if data.classes != core.classes:
            raise DataError(
                f"data has {described(data.classes)}, the coreset {described(core.classes)}; give the data it came from"
            )
        design = core.design.with_weights() if data.design.weighted else core.design
        return Dataset(data.as_source(), design, progress=progress)
    return open_in(core.design, data, y, progress=progress, whose="the coreset was built from", **beside)


def has_weights(data: Any, weights: Any) -> bool:
    """Whether the full data are given with weights, or are a coreset of rows that had some."""
    return weights is not None or (isinstance(data, Coreset) and data.design.weighted)


def check_finite(dataset: Dataset, sums: FloatArray | float) -> None:
    """Check the rows where sums over them are not finite; elsewhere a pass that looks at each entry is saved.

    Raises
    ------
    DataError
        If an entry is NaN, infinite or too large; the message names its column and counts the rows.
    """
    if not np.isfinite(sums).all():
        _ = dataset.scan


def check_weight(core: Coreset, weight: float) -> None:
    """Raise `DataError` unless the data that were passed over weigh as much as those that `core` stands for."""
    if not math.isclose(weight, core.weight_total, rel_tol=1e-6):
        raise DataError(
            f"data has the total weight {weight:,.10g}, the coreset stands for {core.weight_total:,.10g}; give the "
            "rows that it was built from, with their weights"
        )
