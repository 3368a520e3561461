"""Raw columns of data that the columns of a design matrix tell."""

from typing import Any

import numpy as np

from bayescore.data.design import Design
from bayescore.data.formulas.design import categories_of
from bayescore.types import FloatArray


def raw_column(design: Design, X: FloatArray, name: str) -> FloatArray | None:
    """Return a raw column, of a factor the places of its levels, told by columns of the design; None if none tells."""
    names = list(design.names)
    lead = int(design.intercept)

    def column(of: str) -> FloatArray | None:
        if of not in names[lead:]:
            return None
        d = names.index(of, lead)
        scale = 1.0 if design.scale is None else design.scale[d - lead]
        center = 0.0 if design.center is None else design.center[d - lead]
        return np.asarray(X[:, d] * scale + center)

    found = column(name)
    if found is not None:
        return found
    for term, levels in _factors(design, name).items():
        ones = [(place, column(f"{term}[{level}]")) for place, level in enumerate(levels)]
        told = [(place, own) for place, own in ones if own is not None]
        if len(told) == len(levels) - 1 and ones[0][1] is None:  # coded against the first
            codes = np.sum([place * np.rint(own) for place, own in told], axis=0)
            text = name in dict(design.raw_levels)
            return np.asarray(codes if text else np.asarray(levels)[codes.astype(np.int64)], dtype=np.float64)
    return None


def _factors(design: Design, name: str) -> dict[str, tuple[Any, ...]]:
    """Return the terms that a column may make as a factor, and its levels."""
    return {term: categories_of(design, name, term) for term in (name, f"C({name})")}


def factor_levels(design: Design, name: str) -> tuple[Any, ...]:
    """Return the levels of a raw column that is a factor of the design; empty of a column of numbers."""
    return next((levels for levels in _factors(design, name).values() if levels), ())
