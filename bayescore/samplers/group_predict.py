r"""Predicted probabilities from draws with groups: of known groups by their effects, of new ones averaged.

A row of a known group has the mean of p(x . beta + o + u_g) over the draws, one of a new group that of

.. math:: \int p(x \cdot \beta + o + b) N(b; 0, \sigma^2) db,

by quadrature at each draw: not p at b = 0, which is too far from one half.
"""

from typing import Any

import numpy as np
import pandas as pd

from bayescore.data.sources.groups import Grouper
from bayescore.data.sources.tables import as_table, is_table
from bayescore.models.quadrature import normal_nodes
from bayescore.samplers.inference_data import Posterior
from bayescore.types import NO_GROUP, FloatArray, Grouping, IntArray, Likelihood
from bayescore.validation import DataError

_NODES = 41  # of a new group's effect, whose density no data have made narrow: 1e-6 at sigma = 2
_CELLS = 1 << 20  # entries of a block of rows and draws


def has_groups(posterior: Posterior) -> bool:
    """Whether `sample` drew the posterior of rows with groups."""
    return "group" in posterior.attrs


def check_no_groups(posterior: Posterior, purpose: str) -> None:
    """Raise `DataError` of a posterior with group effects, of which `purpose` would know nothing."""
    if has_groups(posterior):
        raise DataError(
            f"{posterior.name} has effects of the groups of {posterior.attrs['group']!r}, of which {purpose} knows "
            "nothing; predict_proba and poststratify do"
        )


def group_codes(idata: Any, posterior: Posterior, X: Any, n_rows: int, given: Any) -> IntArray:
    """Return the place of each row's group among those drawn, shape (n,), `NO_GROUP` for a new one.

    Raises
    ------
    DataError
        If groups are missing.
    """
    name = str(posterior.attrs["group"])
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
    levels = idata["posterior"]["group"].values.tolist()
    return Grouper(Grouping(name, tuple(levels)), new=True).codes(found, 0)


def group_probabilities(
    idata: Any, posterior: Posterior, eta_of: FloatArray, offset: FloatArray | None, codes: IntArray, tail: float | None
) -> FloatArray:
    """Return mean, and quantiles `tail` and 1 - `tail` if given, of p over the draws, shape (n, 1 or 3).

    `eta_of` are rows of the design matrix, shape (n, D).
    """
    link: Likelihood = posterior.likelihood
    beta = posterior.flat
    source = idata["posterior"]
    sigma = source["sigma"].transpose("chain", "draw").values.reshape(-1)
    u = source["u"].transpose("chain", "draw", "group").values.reshape(len(sigma), -1)
    (nodes, log_weights), parts = normal_nodes(_NODES), []
    for start in range(0, len(codes), step := max(1, _CELLS // len(beta))):
        cut = slice(start, start + step)
        eta, new = eta_of[cut] @ beta.T, codes[cut] == NO_GROUP
        if offset is not None:
            eta += offset[cut, None]
        p = np.empty_like(eta)
        p[~new] = link.probability(eta[~new] + u[:, codes[cut][~new]].T)
        shares = zip(np.exp(log_weights), nodes, strict=True)
        p[new] = sum(w * link.probability(eta[new] + sigma * z) for w, z in shares)
        columns = [p.mean(axis=1)]
        if tail is not None:
            columns += list(np.quantile(p, [tail, 1.0 - tail], axis=1))
        parts.append(np.stack(columns, axis=1))
    return np.concatenate(parts)
