"""Options of a stream that do not go together are refused before the first block; its columns may be warned of."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayescore.coresets.calibration.search import WEAK
from bayescore.data.design import Design
from bayescore.data.sources.paired import LABELS
from bayescore.models.families import Family
from bayescore.types import WeightedData
from bayescore.validation import DataError, warn

FAR = 20.0  # sds of a column between its mean and 0
_ROUNDING = 1e-9  # share of a mean, below which an sd is rounding
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


def warn_if_far(rows: WeightedData, design: Design) -> None:
    """Warn if a column is so far from 0 that the default prior of the intercept decides where a mode is sought.

    The intercept is the predictor where all columns are 0. Its posterior sd grows with their distance from there, and a
    weak prior of it is weak no more.
    """
    if design.constant is None or not len(rows):
        return
    w = rows.weights / rows.weights.sum()
    mean = w @ rows.X
    sd = np.sqrt(w @ (rows.X - mean) ** 2)
    varies = sd > _ROUNDING * np.abs(mean)
    far = np.where(varies, np.abs(mean) / np.where(varies, sd, 1.0), np.abs(mean))  # of one value: from 0 itself
    far[np.isin(rows.X, (0.0, 1.0)).all(axis=0)] = 0.0  # of yes and no, and the intercept
    d = int(far.argmax())
    if far[d] > FAR:
        name, near = design.names[d], f"{float(f'{mean[d]:.3g}'):.10g}"
        spread = (
            f"the mean {mean[d]:.4g} and the sd {sd[d]:.2g}" if varies[d] else f"the one value {mean[d]:.4g} so far"
        )
        term = f"as in I({name} - {near})" if name.isidentifier() else f"such as {near}"
        warn(
            f"column {name!r} has {spread}: 0 is far away, where the prior of the intercept, {WEAK}, is not weak, and "
            f"moves the mode about which the stream condenses rows. Subtract a number near the mean, {term}, or "
            "certify and update with all rows"
        )
