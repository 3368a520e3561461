r"""Whether rows that a fit is given again are those that it was made of, by sums over them in one pass.

The coreset knows their number and their weight. Without groups, and of sums of all rows, it also knows their score at
one point, the gradient of their log-likelihood: its own rows' score with the shortfall that the build left. It is
compared in units of the roots of the curvatures there,

.. math:: |g_d - g'_d| / \sqrt{F_{dd}},

by so many sds the mode moves along a coefficient, the others known. The limit is 0.01: rounding, as of another type of
storage, makes less of it. Pseudo-rows without a shortfall, and coresets united since, know the score to second order,
and the limit is 0.5; opposite labels of n rows make about the root of n. With groups the certificate knows the weights
of the two labels by group.

Coresets of other methods, and groups of a fit that was updated, are held against number and weight alone.
"""

import math
import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from bayescore.data.coreset import Coreset
from bayescore.data.tables import is_table
from bayescore.diagnostics.formatting import number
from bayescore.fitting.given import Given
from bayescore.models.families import Family, check_family
from bayescore.models.group_sums import label_weights
from bayescore.models.moving import missed_terms
from bayescore.models.posterior import Derivatives, likelihood_terms
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError

_EXACT, _NEAR = 0.01, 0.5  # limits of the score, in sds
_SHARE = 1e-6  # of a weight, that rounding may make
_REMEDY = "give the rows that the fit was made of, or leave data out"


class _Sums(NamedTuple):
    """Sums over rows: number, weight, terms of the log-likelihood at a point, and weights by group and label."""

    n_rows: int
    weight: float
    terms: Derivatives | None
    labels: FloatArray | None  # of +1 and of -1, shape (G, 2)


def in_memory(data: Any) -> bool:
    """Whether rows are in this process's memory, so that a pass takes no time to speak of."""
    return is_table(data) or isinstance(data, np.ndarray | list | tuple | WeightedData) or sparse.issparse(data)


def check_same_rows(given: Given, core: Coreset, effects: Any, point: FloatArray, *, updated: bool) -> None:
    """Raise `DataError` unless rows add up to what is known of those of a fit; one pass.

    Parameters
    ----------
    given : Given
        The rows; of those that come once nothing is asked.
    core : Coreset
        The fit's.
    effects : DataFrame
        `CertificateData.effects`.
    point : array, shape (D,)
        The mean of the draws.
    updated : bool
        Whether some rows were not there when the certificate was made.
    """
    if given.once:
        return
    family, own, limit = check_family(core.family), None, _EXACT
    if core.group is None or core.lossless:
        if core.shortfall is not None:
            point = core.shortfall.point
            own = likelihood_terms(point, core, family) + missed_terms(core.shortfall, point)
        elif core.lossless or core.method == "condensed":
            own = likelihood_terms(point, core, family)
        if "parts" in core.params or (core.shortfall is None and not core.lossless):
            limit = _NEAR
    known = None
    if own is None and core.groups and len(effects) and not updated:
        first = core.groups[0]
        table = effects.iloc[: len(first) * len(first.effects) : len(first.effects)]
        ups = (table["weight"] * table["share"].fillna(0.0)).to_numpy(float)
        known = np.stack([ups, table["weight"].to_numpy(float) - ups], axis=1)
    sizes = 0 if known is None else len(known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit gave them
        dataset = given.rows(core)
        of_block = partial(_sums, family=family, point=None if own is None else point, n_groups=sizes)
        found = _total(list(dataset.map(of_block, "checking rows", canonical=True)))
    _compare(found, core, own, known, limit)


def _sums(_: int, block: WeightedData, family: Family, point: FloatArray | None, n_groups: int) -> _Sums:
    terms = None if point is None else likelihood_terms(point, block, family)
    labels = None
    if n_groups:
        assert block.group is not None
        labels = label_weights(block, block.group[:, 0], n_groups)
    return _Sums(len(block), float(block.weights.sum()), terms, labels)


def _total(parts: list[_Sums]) -> _Sums:
    first = parts[0]
    terms, labels = first.terms, first.labels
    for own in parts[1:]:
        terms = None if terms is None or own.terms is None else terms + own.terms
        labels = None if labels is None or own.labels is None else labels + own.labels
    return _Sums(sum(own.n_rows for own in parts), math.fsum(own.weight for own in parts), terms, labels)


def _compare(found: _Sums, core: Coreset, own: Derivatives | None, known: FloatArray | None, limit: float) -> None:
    """Raise unless sums are those that are known: `own` terms and weights by label and group where there are any."""
    if found.n_rows != core.n_total:
        raise DataError(f"data has {found.n_rows:,} rows, and the fit was made of {core.n_total:,}: {_REMEDY}")
    if not math.isclose(found.weight, core.weight_total, rel_tol=_SHARE):
        raise DataError(
            f"data has the total weight {found.weight:,.10g}, and the rows of the fit {core.weight_total:,.10g}: "
            f"{_REMEDY}, with their weights"
        )
    if found.labels is not None and known is not None:
        size = max(core.weight_total, 1.0) * _SHARE
        off = np.abs(found.labels - known).max(axis=1)
        if not off.max() <= size:
            grouping, k = core.groups[0], int(off.argmax())
            what = {"labels": f"labels {core.classes[1]!r}", "counts": "events"}.get(core.response, "rows")
            there, then = found.labels[k, 0], known[k, 0]
            if abs(there - then) <= size:
                there, then, what = found.labels[k].sum(), known[k].sum(), "rows"
            raise DataError(
                f"data has {what} of weight {there:,.10g} in {grouping.name}={grouping.levels[k]!r}, and the fit "
                f"{then:,.10g}: {_REMEDY}"
            )
    if found.terms is None or own is None:
        return
    F = np.abs(np.diagonal(own.precision))
    with np.errstate(divide="ignore", invalid="ignore"):  # of a column of zeros
        gap = np.where(F > 0.0, np.abs(found.terms.gradient - own.gradient) / np.sqrt(F), 0.0)
    if not gap.max() <= limit:
        name = core.feature_names[int(gap.argmax())]
        raise DataError(
            f"data has as many rows as the fit, and other labels or columns: the score of {name!r} at the mode is off "
            f"by {number(float(gap.max()), 2)} sds (limit {limit:g}): {_REMEDY}"
        )
