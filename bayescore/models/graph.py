"""PyMC models with weighted potentials; `multilevel_graph` has those of groups.

The likelihood enters as one Potential, sum_n w_n log p(z_n . beta + y_n o_n), over signed rows z_n = y_n x_n with
known offsets o_n where they have any, and effects b[g_n] of their groups.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Constant

from bayescore.data.coreset import Coreset
from bayescore.data.matching import check_flat, feature_names
from bayescore.models.families import Family, check_likelihood
from bayescore.models.newton import find_map
from bayescore.models.predictor import multipliers
from bayescore.models.priors import Prior, prior_of
from bayescore.types import NO_GROUP, FloatArray, WeightedData
from bayescore.validation import DataError, warn


def weighted_potential(
    name: str,
    data: WeightedData,
    beta: Any,
    likelihood: str | Family = "logistic",
    offset: Any = None,
    *,
    groups: Mapping[str, Any] | None = None,
) -> Any:
    r"""Add the weighted log-likelihood of `data` to the model of the `with` block.

    .. math:: \sum_n w_n \log p\Bigl(y_n \bigl(x_n \cdot \beta + o_n + \sum_f z_{fn} \cdot b_{f, g_f(n)}\bigr)\Bigr)

    Parameters
    ----------
    name : str
        Name of the Potential.
    data : WeightedData
        A coreset or any weighted rows.
    beta : tensor, shape (D,)
        Coefficients, with any prior or hierarchy the model gives them.
    likelihood : str
        Name of a registered likelihood, such as "logistic" or "probit".
    offset : tensor, shape () or (n,), optional
        Added to the linear predictor of each row, which has the rows' own offsets already. One that differs from row to
        row needs all rows, or a coreset that knows groups: see Notes.
    groups : dict of str to tensor, optional
        Effects by the names of grouping factors of a coreset (``core.groups``), shape (G,), added to the linear
        predictors of rows by their groups; or shape (G, q) for a factor of q effects, of which that of a column is
        multiplied by it. A row that belongs to no group has none.

    Returns
    -------
    tensor
        The Potential.

    Raises
    ------
    DataError
        If beta or effects have other shapes than the data, the data know no such factor, an offset differs from row
        to row and the rows were chosen without it or are pseudo-rows, which stand for rows of any, or rows have
        groups and neither `groups` nor an offset by row is
        given.

    Notes
    -----
    A coreset's rows stand for all rows in the columns that it was built of, and in no others: rows of one group stand
    for rows of all. With ``offset=alpha + u[group[core.index]]``, effects u of groups that the coreset does not know,
    the posterior is off by hundreds of its sds. Build with ``groups=``, or ``(1 | g)`` in a formula, by
    ``method="aggregate"`` where columns are discrete, and give the effects as `groups`; a known offset is given to
    `build_coreset`.

    A Potential is no observed variable: `pm.sample_posterior_predictive` has nothing to draw and returns an empty
    object, and there is no pointwise log-likelihood. Use `posterior_predictive`, `predict_proba` and `log_likelihood`,
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
    link = check_likelihood(likelihood)
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
    return pm.Potential(name, pt.dot(data.weights, link.log_p_graph(eta, data.y.astype(np.float64))))


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
        "for effects of groups build it with groups=, or (1 | g) in a formula, by method='aggregate' or of full_data, "
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


def _mode_of_rows(data: WeightedData, likelihood: str | Family) -> tuple[FloatArray, FloatArray]:
    """Return mode and sds of the coefficients as rows alone say them, but for a prior that keeps the mode finite."""
    mode = find_map(data, check_likelihood(likelihood).name)
    return mode.beta, mode.sd


def regression_model(
    data: WeightedData, likelihood: str | Family, prior: Prior | Mapping[str, Prior] | None = None
) -> pm.Model:
    """Return the regression of `data` under a registered likelihood as a `pm.Model`; use it in a `with` block.

    Parameters
    ----------
    data : WeightedData
        A coreset, full data or any weighted rows.
    likelihood : str or Family
        A registered one, or its name.
    prior : prior or dict of str to prior, default Normal(0, 4)
        Prior of the coefficients `beta`, dims "feature", or priors by name, as in `sample`. Under the horseshoe they
        are deterministic: an affine function of `beta_standardised`, which NUTS moves.

    Raises
    ------
    DataError
        If the rows have groups, of which `multilevel_model` is.
    """
    check_flat(data, "a regression model")
    chosen = prior_of(prior, feature_names(data))
    with pm.Model(coords={"feature": feature_names(data)}) as model:
        beta = chosen.variable(lambda: _mode_of_rows(data, likelihood))
        weighted_potential("log_likelihood", data, beta, likelihood)
    return model


def logistic_model(data: WeightedData, prior: Prior | Mapping[str, Prior] | None = None) -> pm.Model:
    """Return the logistic regression of `data`; see `regression_model`.

    Predictive draws are `posterior_predictive`'s: for `pm.sample_posterior_predictive` a potential has nothing to draw.

    Parameters
    ----------
    data : WeightedData
        A coreset or full data, D columns.
    prior : prior or dict of str to prior, default Normal(0, 4)
        Prior of the coefficients, or priors by name, as in `sample`.

    Returns
    -------
    pm.Model
        With `beta`, dims "feature", and the weighted log-likelihood as a Potential.

    Raises
    ------
    TypeError, ValueError
        If a prior is none of bayescore's, or does not fit the columns.
    DataError
        If the rows have groups, which `multilevel_model` takes.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> full = bc.full_data(X, y, progressbar=False)
    >>> model = bc.logistic_model(full, prior=bc.priors.Normal(0, 2.5))
    >>> [variable.name for variable in model.free_RVs]
    ['beta']
    """
    return regression_model(data, "logistic", prior)


def probit_model(data: WeightedData, prior: Prior | Mapping[str, Prior] | None = None) -> pm.Model:
    """Return the probit regression of `data`; see `regression_model`.

    Predictive draws are `posterior_predictive`'s: for `pm.sample_posterior_predictive` a potential has nothing to draw.

    Parameters
    ----------
    data : WeightedData
        A coreset or full data, D columns.
    prior : prior or dict of str to prior, default Normal(0, 4)
        Prior of the coefficients, or priors by name, as in `sample`.

    Returns
    -------
    pm.Model
        With `beta`, dims "feature", and the weighted log-likelihood as a Potential.

    Raises
    ------
    TypeError, ValueError
        If a prior is none of bayescore's, or does not fit the columns.
    DataError
        If the rows have groups, which `multilevel_model` takes.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> full = bc.full_data(X, y, progressbar=False)
    >>> model = bc.probit_model(full, prior=bc.priors.Normal(0, 2.5))
    >>> [variable.name for variable in model.free_RVs]
    ['beta']
    """
    return regression_model(data, "probit", prior)
