"""The weighted log-likelihood as one PyMC potential, for any model; `pymc_model` has whole models."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Constant

from bayescore.data.coreset import Coreset
from bayescore.data.matching import check_flat
from bayescore.models.families import Family, check_family
from bayescore.models.predictor import multipliers
from bayescore.types import NO_GROUP, WeightedData
from bayescore.validation import DataError, warn


def weighted_potential(
    name: str,
    data: WeightedData,
    beta: Any,
    family: str | Family | None = None,
    offset: Any = None,
    *,
    groups: Mapping[str, Any] | None = None,
) -> Any:
    r"""Add the weighted log-likelihood of `data` to the model of the `with` block.

    .. math:: \sum_n w_n \log p\Bigl(y_n \Big| x_n \cdot \beta + o_n + \sum_f z_{fn} \cdot b_{f, g_f(n)}\Bigr)

    Parameters
    ----------
    name : str
        Name of the Potential.
    data : WeightedData
        A coreset or any weighted rows.
    beta : tensor, shape (D,)
        Coefficients, with any prior or hierarchy the model gives them.
    family : str, optional
        Name of a registered family, such as "logistic" or "cloglog"; by default that of the coreset, or "logistic" of
        other rows.
    offset : tensor, shape () or (n,), optional
        Added to the linear predictor of each row, which has the rows' own offsets already. One that differs from row to
        row needs all rows, or a coreset that knows groups: see Notes.
    groups : dict of str to tensor, optional
        Effects by the names of grouping factors of a coreset (``core.groups``), shape (G,), added to the linear
        predictors of rows by their groups; or shape (G, q) for a factor of q effects, each multiplied by its column. A
        row of no group has none.

    Returns
    -------
    tensor
        The Potential.

    Raises
    ------
    TypeError
        If `name` is no string, or `data` no weighted rows.
    DataError
        If beta or effects have other shapes than the data, or the data know no such factor. If an offset differs from
        row to row, and the rows were chosen without it or are pseudo-rows. If rows have groups and neither `groups` nor
        an offset by row is given.

    Notes
    -----
    A coreset's rows stand for all rows in the columns that it was built of, and in no others: rows of one group stand
    for rows of all. With ``offset=alpha + u[group[core.index]]``, effects u of groups that the coreset does not know,
    the posterior is off by hundreds of its sds. Build with ``groups=``, or ``(1 | g)`` in a formula, by
    ``method="aggregate"`` where columns are discrete, and give the effects as `groups`; a known offset is given to
    `build_coreset`.

    A Potential is no observed variable: `pm.sample_posterior_predictive` has nothing to draw and returns an empty
    object, and there is no pointwise log-likelihood. Use `posterior_predictive`, `predict` and `log_likelihood`,
    which take the name of your vector as ``var_name``.

    Examples
    --------
    >>> import bayescore as bc, pandas as pd, pymc as pm
    >>> votes = pd.DataFrame({"age": [0, 1, 0, 1, 1, 0], "state": list("aabbcc"), "vote": [0, 1, 0, 0, 1, 1]})
    >>> core = bc.build_coreset(votes, formula="vote ~ age + (1 | state)", method="aggregate")
    >>> with pm.Model(coords={"state": core.groups[0].levels}):
    ...     beta = pm.Normal("beta", 0, 2.5, shape=core.n_features)
    ...     b = pm.Normal("b", 0, pm.HalfNormal("sigma"), dims="state")
    ...     _ = bc.weighted_potential("votes", core, beta, groups={"state": b})
    """
    if not isinstance(name, str):
        raise TypeError(f"name is a {type(name).__name__}; give the Potential a name, such as 'votes'")
    if not isinstance(data, WeightedData):
        raise TypeError(f"data is a {type(data).__name__}; give a coreset, or the rows of all_rows")
    own = getattr(data, "family", "logistic") if family is None else family
    family = check_family(own, rows=data)
    beta = pt.as_tensor_variable(beta)
    static = beta.type.shape
    if len(static) != 1 or static[0] not in (None, data.n_features):
        raise DataError(f"beta has shape {static}; the data have {data.n_features} features")
    eta = pt.dot(pt.as_tensor_variable(np.ascontiguousarray(data.X)), beta)
    if data.offset is not None:
        eta = eta + data.offset
    if not groups and (offset is None or pt.as_tensor_variable(offset).ndim == 0):
        check_flat(data, "weighted_potential without groups=")
    if offset is not None:
        if data.pseudo.any():
            raise DataError(
                "offset is given, but the data have pseudo-rows, which stand for many rows and know nothing of it; "
                "give it to build_coreset, or take a method that keeps rows"
            )
        _check_offset(data, offset)
        eta = eta + offset
    for factor, effects in (groups or {}).items():
        eta = eta + _of_groups(data, factor, pt.as_tensor_variable(effects))
    return pm.Potential(name, pt.dot(data.weights, family.log_p_graph(eta, data.y.astype(np.float64))))


def _check_offset(data: WeightedData, offset: Any) -> None:
    """Raise if an offset differs from row to row, and those of a coreset were chosen without it; warn if merged."""
    given = pt.as_tensor_variable(offset)
    known = np.asarray(given.data) if isinstance(given, Constant) else None
    if given.ndim == 0 or given.type.shape == (1,) or (known is not None and np.ptp(known) == 0.0):
        return
    if not isinstance(data, Coreset) or data.method == "full" or (data.groups and known is None):
        return
    chosen = f"offset differs from row to row, and the coreset's rows ({data.method}) were "
    remedy = (
        "for effects of groups build it with groups=, or (1 | g) in a formula, by method='aggregate' or of all_rows, "
        "and give them as groups={name: effects}; a known offset is given to build_coreset(offset=)"
    )
    if data.params.get("lossless"):
        warn(f"{chosen}merged without it: right only if it depends on the coreset's own columns; {remedy}")
        return
    raise DataError(f"{chosen}chosen and weighted without it, so that the posterior would be another one: {remedy}")


def _of_groups(data: WeightedData, name: str, effects: Any) -> Any:
    """Return what the effects of a grouping factor add to the linear predictor of each row, shape (n,)."""
    names = [grouping.name for grouping in data.groups] if isinstance(data, Coreset) else []
    if not isinstance(data, Coreset) or data.group is None or name not in names:
        known = f"it knows {', '.join(map(repr, names))}" if names else "it knows no groups: build it with groups="
        raise DataError(f"groups has effects of {name!r}, and the coreset no such factor; {known}")
    place = names.index(name)
    grouping, codes = data.groups[place], data.group[:, place]
    n_effects, static = len(grouping.effects), effects.type.shape
    fits = (len(static) == 2) if n_effects > 1 else (len(static) in (1, 2))
    if not fits or any(a not in (None, b) for a, b in zip(static, (len(grouping), n_effects), strict=False)):
        wanted = f"({len(grouping)},)" if n_effects == 1 else f"({len(grouping)}, {n_effects})"
        raise DataError(f"groups[{name!r}] has shape {static}; it must be {wanted}, an effect for each of its levels")
    table = effects if effects.ndim == 2 else effects[:, None]
    if (codes == NO_GROUP).any():  # which is the last place
        table = pt.concatenate([table, pt.zeros((1, n_effects))])
    return (table[codes] * multipliers(data.X, data.design, grouping)).sum(axis=1)
