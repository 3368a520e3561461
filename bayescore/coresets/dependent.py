"""Warns of columns that depend on each other linearly, by the rows of a coreset that keep the curvature of all rows."""

import numpy as np
from scipy import linalg

from bayescore.coresets.method import Method
from bayescore.data.coreset import Coreset
from bayescore.types import FloatArray, IntArray
from bayescore.validation import warn

_NULL = 1e-12  # squared singular value of columns of unit length: columns of float32 are sums of others to 1e-7
_PART = 1e-3  # of the largest entry of a dependence, below which a column is no part of it


def warn_of_dependent_columns(core: Coreset, method: Method) -> None:
    """Warn if some columns are linear combinations of others: priors alone tell their coefficients apart."""
    if not method.keeps_curvature or core.n_total < core.n_features:
        return
    found = dependence(core)
    if not len(found):
        return
    names = [repr(core.design.names[d]) for d in found]
    shown = ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) <= 6 else ", ".join(names[:5]) + ", ..."
    warn(
        f"columns {shown} depend on each other linearly: the prior alone tells their coefficients apart, so that "
        "their sds are its own; drop one"
    )


def dependence(core: Coreset) -> IntArray:
    """Return columns, few of them, where one is a linear combination of the others; or none.

    Left out are columns of zeros, and beside an intercept constant ones, which have warnings of their own.
    """
    own = np.flatnonzero((core.X != 0.0).any(axis=0))
    columns = core.X[:, own] * np.sqrt(core.weights)[:, None]
    columns /= np.sqrt((columns * columns).sum(axis=0))
    if (constant := core.design.constant) is not None:
        others = (own == constant) | (np.abs(columns.T @ columns[:, own == constant]).ravel() < 1.0 - _NULL)
        own, columns = own[others], columns[:, others]
    values, vectors = np.linalg.eigh(columns.T @ columns)
    null = vectors[:, values < _NULL]
    if not null.shape[1]:
        return own[:0]
    parts = np.abs(_simplest(null))
    return np.asarray(own[parts > _PART * parts.max()])


def _simplest(null: FloatArray) -> FloatArray:
    """Return the vector of fewest entries among those that each have one of some pivots alone, shape (D,)."""
    r = null.shape[1]
    pivots = linalg.qr(null.T, mode="r", pivoting=True)[1][:r]
    basis = null @ np.linalg.inv(null[pivots])
    entries = (np.abs(basis) > _PART * np.abs(basis).max(axis=0)).sum(axis=0)
    return np.asarray(basis[:, np.argmin(entries)])
