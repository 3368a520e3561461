"""Weighted rows as counts: as R's ``glm`` takes them (`Coreset.to_counts`), and events beside their exposure."""

import numpy as np
import pandas as pd

from bayescore.types import NO_GROUP, FloatArray, WeightedData
from bayescore.validation import DataError


def counts_of(rows: WeightedData, frame: pd.DataFrame, label: str, *, rates: bool) -> pd.DataFrame:
    """Return rows as counts: of adjacent ones that differ only in the label, weights of +1 and -1 in one row.

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
    names = ("events", "exposure") if rates else ("successes", "failures")
    for name, own in zip(names, (rows.y > 0, rows.y < 0), strict=True):
        if name in counts.columns:
            raise DataError(f"a feature is named {name!r}, as a column of the counts; rename the feature")
        counts.insert(place, name, np.bincount(group, np.where(own, rows.weights, 0.0)))
        place += 1
    return counts


def events_of(rows: WeightedData) -> tuple[WeightedData, FloatArray]:
    """Return rows of counts, each with its exposure as weight, and their events, shape (n,).

    Raises `DataError` for rows that are one side of a count alone, as a coreset's are.
    """
    at_risk, event = rows.y < 0, np.flatnonzero(rows.y > 0)
    partner = np.minimum(event + 1, len(rows) - 1)
    if (lone := ~at_risk[partner] | (rows.index[partner] != rows.index[event])).any():
        raise DataError(
            f"data has the events of row {rows.index[event[lone.argmax()]]} without their exposure, as a coreset has: "
            "give rows of the data, such as all_rows(rows, family=core.family, design=core.design)"
        )
    events = np.zeros(int(at_risk.sum()))
    events[(np.cumsum(at_risk) - 1)[partner]] = rows.weights[event]
    return rows.take(at_risk), events
