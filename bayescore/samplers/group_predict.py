r"""Predicted probabilities from draws with groups: of known groups by their effects, of new ones averaged.

A row of a known group has the mean of p(x . beta + o + u_g) over the draws, one of a new group that of

.. math:: \int p(x \cdot \beta + o + b) N(b; 0, \sigma^2) db,

by quadrature at each draw: not p at b = 0, which is too far from one half. Of several factors, or effects of columns z,
b is the sum of the effects that are not known, of variance z' S z each.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bayescore.data.design import Grouping, one_intercept
from bayescore.data.sources.groups import Grouper
from bayescore.data.tables import as_table, is_table
from bayescore.models.quadrature import normal_nodes
from bayescore.samplers.inference_data import Posterior, flat_draws
from bayescore.types import NO_GROUP, FloatArray, IntArray, Likelihood
from bayescore.validation import DataError

_NODES = 41  # of a new group's effect, whose density no data have made narrow: 1e-6 at sigma = 2
_CELLS = 1 << 20  # entries of a block of rows and draws


def has_groups(posterior: Posterior) -> bool:
    """Whether `sample` drew the posterior of rows with groups."""
    return "group_terms" in posterior.attrs


def told_groups(posterior: Posterior) -> str:
    """Return what rows were grouped by."""
    return str(posterior.attrs.get("group_terms"))


def check_no_groups(posterior: Posterior, purpose: str) -> None:
    """Raise `DataError` of a posterior with group effects, of which `purpose` would know nothing."""
    if has_groups(posterior):
        raise DataError(
            f"{posterior.name} has effects of {told_groups(posterior)}, of which {purpose} knows "
            "nothing; predict_proba and poststratify do"
        )


def group_codes(name: str, levels: list[Any], X: Any, n_rows: int, given: Any) -> IntArray:
    """Return the place of each row's group among the levels drawn, shape (n,), `NO_GROUP` for a new one.

    Raises
    ------
    DataError
        If groups are missing.
    """
    column = name if given is None else given
    if isinstance(column, str):
        if not is_table(X) or column not in (table := as_table(X, "X")).column_names:
            raise DataError(
                f"X has no column {column!r} with the group of each row; give groups=, a level for each row, or any "
                "other value for a new group"
            )
        found = table.column(column)
    else:
        found = as_table(pd.DataFrame({name: np.asarray(column)}), "groups").column(name)
    if len(found) != n_rows:
        raise DataError(f"groups has {len(found)} entries and X {n_rows} rows; give one for each row")
    return Grouper(Grouping(name, tuple(levels)), new=True).codes(found, 0)


def group_probabilities(
    idata: Any,
    posterior: Posterior,
    rows: FloatArray,
    offset: FloatArray | None,
    X: Any,
    given: Any,
    tail: float | None,
) -> FloatArray:
    """Return mean, and quantiles `tail` and 1 - `tail` if given, of p over the draws, shape (n, 1 or 3).

    `rows` are those of the design matrix, shape (n, D); `X` and `given` tell their groups.
    """
    link: Likelihood = posterior.likelihood
    factors = _factors(idata, posterior, rows, X, given)
    beta, (nodes, log_weights), parts = posterior.flat, normal_nodes(_NODES), []
    for start in range(0, max(len(rows), 1), step := max(1, _CELLS // len(beta))):
        cut = slice(start, start + step)
        eta = rows[cut] @ beta.T
        if offset is not None:
            eta += offset[cut, None]
        variance = np.zeros_like(eta)
        for factor in factors:
            factor.add(cut, eta, variance)
        p, new = np.empty_like(eta), variance.any(axis=1)
        p[~new] = link.probability(eta[~new])
        sd = np.sqrt(variance[new])
        p[new] = sum(w * link.probability(eta[new] + sd * z) for w, z in zip(np.exp(log_weights), nodes, strict=True))
        columns = [p.mean(axis=1)]
        if tail is not None:
            columns += list(np.quantile(p, [tail, 1.0 - tail], axis=1))
        parts.append(np.stack(columns, axis=1))
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class _Factor:
    """Codes of rows, shape (n,); multipliers of effects, (n, q); draws of effects, (S, G, q), and of S, (S, q, q)."""

    codes: IntArray
    multipliers: FloatArray
    effects: FloatArray
    covariance: FloatArray

    def add(self, cut: slice, eta: FloatArray, variance: FloatArray) -> None:
        """Add effects of known groups to predictors, shape (n, S), and the variance of those of new ones."""
        codes, z = self.codes[cut], self.multipliers[cut]
        known = codes != NO_GROUP
        eta[known] += np.einsum("sgq,gq->gs", self.effects[:, codes[known]], z[known])
        variance[~known] += np.einsum("nq,sqr,nr->ns", z[~known], self.covariance, z[~known])


def _factors(idata: Any, posterior: Posterior, rows: FloatArray, X: Any, given: Any) -> list[_Factor]:
    n = len(rows)
    flat = partial(flat_draws, idata)
    design = posterior.design
    assert design is not None
    if one_intercept(design.groups) and given is not None and not isinstance(given, Mapping):
        given = {design.groups[0].name: given}
    by_name = _by_name({} if given is None else given, [own.name for own in design.groups])
    found = []
    for own in design.groups:
        q, sd = len(own.effects), flat(f"sigma_{own.name}").reshape(-1, len(own.effects))
        correlation = np.tile(np.eye(q), (len(sd), 1, 1))
        if q > 1:
            i, j = np.triu_indices(q, 1)
            correlation[:, i, j] = correlation[:, j, i] = flat(f"rho_{own.name}")
        columns = [np.ones(n) if name == "1" else rows[:, design.names.index(name)] for name in own.effects]
        codes = group_codes(own.name, list(own.levels), X, n, by_name.get(own.name))
        covariance = sd[:, :, None] * correlation * sd[:, None]
        effects = flat(f"u_{own.name}").reshape(len(sd), len(own), q)
        found.append(_Factor(codes, np.stack(columns, axis=1), effects, covariance))
    return found


def _by_name(given: Any, names: list[str]) -> Mapping[str, Any]:
    """Return groups= that are given by names of factors, once they are."""
    known = f"give a dict with the levels of the rows, or their column, by the names {', '.join(map(repr, names))}"
    if not isinstance(given, Mapping):
        raise DataError(f"groups is a {type(given).__name__}; {known}")
    if unknown := [name for name in given if name not in names]:
        raise DataError(f"groups names {unknown[0]!r}, no grouping factor of the posterior; {known}")
    return given
