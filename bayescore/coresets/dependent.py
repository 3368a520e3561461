"""Warns of columns that depend on each other linearly, by the rows of a coreset that keep the curvature of all rows."""

from typing import Any

import numpy as np
from scipy import linalg

from bayescore.coresets.method import BuildResult
from bayescore.coresets.scores.factor import block_factor
from bayescore.data.coreset import Coreset
from bayescore.listing import listed
from bayescore.types import FloatArray, IntArray
from bayescore.validation import warn

_NULL = 5e-13  # squared singular value of centred columns of unit length: float32 leaves about 2e-13
_PART = 1e-3  # an entry of a dependence below this share of its largest counts as 0
_CENTRED = ("cr(", "cc(", "cs(")  # splines whose columns add up to 1


def warn_of_dependent_columns(core: Coreset, built: BuildResult[Any]) -> None:
    """Warn if some columns are linear combinations of others: rows do not tell their coefficients apart.

    A coreset that misses, whose build says so, cannot tell.
    """
    if built.caution or not built.method.keeps_curvature or len(core) < core.n_features:
        return
    found = dependence(core)
    if not len(found):
        return
    names = [core.design.names[d] for d in found]
    remedy = "drop one"
    if len({name.split("[")[0] for name in names}) == 1 and names[0].startswith(_CENTRED):
        remedy = "give the spline constraints='center'"
    warn(
        f"columns {listed(names)} depend on each other linearly: the rows do not tell their coefficients apart, and "
        f"the prior alone decides between them; {remedy}"
    )


def dependence(core: Coreset) -> IntArray:
    """Return the places of columns, one a linear combination of the others and the intercept; empty without any.

    Left out are columns of zeros, and beside an intercept constant ones, which have warnings of their own.
    """
    factor = block_factor(core)
    length = np.linalg.norm(factor, axis=0)
    own, constant = np.flatnonzero(length > 0.0), core.design.constant
    if constant is not None:
        own = own[own != constant]
    columns = factor[:, own] / length[own]
    if constant is not None:
        one = factor[:, constant] / length[constant]
        columns -= np.outer(one, one @ columns)
    left = np.linalg.norm(columns, axis=0)
    varies = left**2 > _NULL
    own, columns = own[varies], columns[:, varies] / left[varies]
    _, values, turned = np.linalg.svd(columns, full_matrices=False)
    null = turned[values**2 < _NULL].T
    if not null.shape[1]:
        return np.empty(0, dtype=np.int64)
    parts = np.abs(_simplest(null))
    return np.asarray(own[parts > _PART * parts.max()])


def _simplest(null: FloatArray) -> FloatArray:
    """Return the vector with fewest entries of a reduced basis of the null space, shape (D,)."""
    r = null.shape[1]
    pivots = linalg.qr(null.T, mode="r", pivoting=True)[1][:r]
    basis = null @ np.linalg.inv(null[pivots])
    entries = (np.abs(basis) > _PART * np.abs(basis).max(axis=0)).sum(axis=0)
    return np.asarray(basis[:, np.argmin(entries)])
