"""Weighted rows as binomial counts, as R's ``glm`` takes them: `Coreset.to_counts`."""

import numpy as np
import pandas as pd

from bayescore.types import NO_GROUP, WeightedData
from bayescore.validation import DataError


def counts_of(rows: WeightedData, frame: pd.DataFrame, label: str) -> pd.DataFrame:
    """Return rows as counts: of adjacent ones that differ only in the label, successes and failures in one row.

    `frame` has their columns as `Coreset.to_frame` gives them, `label` and "weight" among these.
    """
    if rows.group is not None and (rows.group == NO_GROUP).any():
        raise DataError(
            "the coreset has rows without a group beside rows with one (pseudo-rows within groups), which R's "
            "na.omit would drop: use bayescore.sample or bayescore.model"
        )
    alike = frame.drop(columns=[label, "weight"])
    parts = [part for part in (rows.X, rows.offset, rows.group, rows.index) if part is not None]
    values = np.column_stack(parts)
    first = np.append(True, (values[1:] != values[:-1]).any(axis=1))
    group = np.cumsum(first) - 1
    counts = alike[first].copy()
    place = rows.n_features
    for name, own in (("successes", rows.y > 0), ("failures", rows.y < 0)):
        if name in counts.columns:
            raise DataError(f"a feature is named {name!r}, as a column of the counts; rename the feature")
        counts.insert(place, name, np.bincount(group, np.where(own, rows.weights, 0.0)))
        place += 1
    return counts
