r"""What draws say about labelled rows: their pointwise log-likelihood, and labels that the model would give them.

.. math:: y^{rep}_{ns} \sim \mathrm{Bernoulli}\, p(\eta_{ns}), \quad \eta_{ns} = x_n \cdot \beta_s + o_n + u_{s,g(n)}

A row of a known group has its effect u; one of a new group has one of its own, drawn from N(0, sigma^2) in each draw.

`pm.sample_posterior_predictive` cannot draw them, as a weighted potential has no observed variable. A weighted
log-likelihood is no predictive density and must not reach `az.loo`; that of `log_likelihood` is unweighted.
"""

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayescore.data.coreset import check_no_pseudo, check_same_design
from bayescore.data.open import open_in
from bayescore.data.responses import Offset, events_of, numbers_of
from bayescore.data.tables import as_table, is_table
from bayescore.samplers.posterior import Posterior, made_here, read_posterior
from bayescore.text import listed
from bayescore.types import WeightedData
from bayescore.validation import DataError, RandomState, check_integer, check_seed


def log_likelihood(idata: Any, data: WeightedData, *, var_name: str = "beta") -> xr.DataArray:
    r"""Return log p(y_n | x_n, beta_s, u_s) of each row of `data` under each draw, without weights.

    Of a model with groups it is conditional, given the effect of the row's group, as bambi's and brms's are.

    Parameters
    ----------
    idata : InferenceData
        From `sample`.
    data : WeightedData
        Rows of the same design matrix, for example ``all_rows(...)``. For leave-one-out cross-validation
        they must be the full data: the rows of a coreset are no random sample.
    var_name : str
        Name of the vector of coefficients, as in `predict`.

    Returns
    -------
    DataArray, dims (chain, draw, row)
        Memory: 8 bytes for each draw and row.

    Raises
    ------
    TypeError, DataError
        If `idata` is no posterior or does not tell its family, or `data` have another design or pseudo-rows.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, progressbar=False)
    >>> idata = bc.sample(core, random_seed=2, progressbar=False)
    >>> rows = bc.all_rows(X[:100], y[:100], design=core.design, progressbar=False)
    >>> idata["log_likelihood"] = bc.log_likelihood(idata, rows).to_dataset()
    >>> idata["log_likelihood"]["y"].shape
    (4, 1000, 100)
    """
    posterior = read_posterior(idata, "idata", min_draws=1, var_name=var_name)
    check_same_design(data, posterior.features, posterior.design, "data")
    check_no_pseudo(data, "data")
    predictor = posterior.predictor()
    if (new := predictor.unknown(data)).any():
        raise DataError(
            f"data has rows of new groups, row {data.index[new.argmax()]} first, whose effects no draw has; leave them "
            "out, or use predict, which averages over them"
        )
    family, eta = posterior.family, predictor.eta(data).T
    return xr.DataArray(
        family.log_p(eta, data.y).reshape(*posterior.draws.shape[:2], len(data)),
        dims=("chain", "draw", "row"),
        coords={"chain": idata.posterior.chain, "draw": idata.posterior.draw, "row": data.index},
        name="y",
    )


def posterior_predictive(
    idata: Any,
    data: Any,
    *,
    max_draws: int = 500,
    random_state: RandomState = None,
    var_name: str = "beta",
) -> Any:
    """Return the posterior with replicated and observed labels of `data` added to it, for ArviZ's predictive plots.

    Parameters
    ----------
    idata : InferenceData
        From `sample`; it is left as it is.
    data : data frame or WeightedData
        Rows, each of which counts once: test rows or a sample of the data. A pandas, polars or Arrow table has the raw
        columns and labels by the names that the coreset's data had; arrays come as ``all_rows(X, y,
        design=core.design)``. The rows of a coreset are no random sample, and plots know no weights.
    max_draws : int
        Draws used, evenly spaced; a byte of memory for each of them and each row.
    random_state : int, Generator, SeedSequence or None
        Seed of the labels, kept in the group's attributes.
    var_name : str
        Name of the vector of coefficients in a posterior of your own model, as in `predict`.

    Returns
    -------
    InferenceData
        All groups of `idata`, and `posterior_predictive` and `observed_data`, each with a variable ``y`` of dims
        (chain, draw, row) and (row,): 1 for the class that is +1, 0 for the other; or counts, at the rows'
        exposures, or numbers.

    Notes
    -----
    ArviZ 0.23 has ``plot_ppc``, ``plot_separation(..., y="y")`` and ``plot_bpv``. In ArviZ 1
    ``plot_ppc_pava(..., data_type="binary")`` stands for the first two and ``plot_ppc_tstat`` for the third.

    Raises
    ------
    TypeError, DataError
        If `idata` is no posterior or does not tell its family, or `data` have no labels, another design, or
        weights.

    References
    ----------
    Gelman, Meng and Stern (1996), Posterior predictive assessment of model fitness, Statistica Sinica 6, 733-807.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, progressbar=False)
    >>> idata = bc.sample(core, random_seed=2, progressbar=False)
    >>> rows = bc.all_rows(X[:100], y[:100], design=core.design, progressbar=False)
    >>> check = bc.posterior_predictive(idata, rows, random_state=3)  # for az.plot_separation(check, y="y")
    >>> check["posterior_predictive"]["y"].shape
    (4, 125, 100)
    """
    posterior = read_posterior(idata, "idata", min_draws=1, var_name=var_name)
    data = data if isinstance(data, WeightedData) else _labelled_rows(posterior, data)
    check_same_design(data, posterior.features, posterior.design, "data")
    check_integer(max_draws, "max_draws", low=1)
    data, observed = _observed(data, posterior.family.response)
    other = np.flatnonzero(data.weights != 1.0)
    if len(other) and not posterior.family.exponential:  # whose weights are exposures
        raise DataError(
            f"data has rows of weight other than 1, row {data.index[other[0]]} of {data.weights[other[0]]:g}: a "
            "predictive check counts rows, so give unweighted ones, such as all_rows(rows, design=core.design)"
        )
    seed = check_seed(random_state)
    rng, predictor = np.random.default_rng(seed), posterior.predictor(max_draws)
    labels = np.empty((len(predictor), len(data)), dtype=observed.dtype)
    new = predictor.unknown(data).any()
    for place in range(len(predictor)):  # a draw at a time: 8 bytes a row beside the result
        at = predictor.take(slice(place, place + 1))
        eta = at.eta(data)[:, 0]
        if new:
            eta += np.sqrt(at.variance(data)[:, 0]) * rng.standard_normal(len(data))
        labels[place] = posterior.family.draw(eta, rng, data.weights)
    drawn = labels.reshape(len(posterior.draws), -1, len(data))
    rows = {"row": data.index}
    used = posterior.positions(max_draws)[: drawn.shape[1]]  # of the first chain, as of all
    found = idata.copy()
    found["posterior_predictive"] = xr.Dataset(
        {"y": (("chain", "draw", "row"), drawn)},
        coords={"chain": idata["posterior"]["chain"].values, "draw": idata["posterior"]["draw"].values[used], **rows},
        attrs={**made_here(), "random_state": str(seed), "family": posterior.family.name},
    )
    found["observed_data"] = xr.Dataset({"y": ("row", observed)}, coords=rows, attrs=made_here())
    return found


def _observed(rows: WeightedData, response: str) -> tuple[WeightedData, NDArray[Any]]:
    """Return rows, one for each response, and the responses."""
    if response == "numbers":
        return numbers_of(rows)
    if response == "counts":
        rows, events = events_of(rows)
        return rows, events.astype(np.int64)
    return rows, (rows.y > 0).astype(np.int8)


def _labelled_rows(posterior: Posterior, data: Any) -> WeightedData:
    """Return the rows of a table of raw columns and labels in the posterior's design."""
    design, label = posterior.design, posterior.coreset.get("label")
    if design is None or not is_table(data):
        raise TypeError(
            f"data is a {type(data).__name__}; give a data frame of raw columns and labels, where {posterior.name} "
            "tells its design, or all_rows(X, y, design=core.design)"
        )
    table = as_table(data)
    columns = table.column_names
    if label not in columns:
        raise DataError(
            f"data has no column {label!r} of labels, which replicated ones stand beside; it has "
            f"{listed(columns, 10)}: add it, or use predict, which needs none"
        )
    offset = () if design.offset is None else Offset.of(design.offset, columns).columns
    groups = [name for own in design.groups for name in own.columns]
    used = (*design.raw_names, label, *offset, design.exposure, *groups)  # others, as weights, are left aside
    dataset = open_in(
        design,
        table.select([name for name in columns if name in used]),
        label=label,
        whose=posterior.name,
        new_groups=True,
    )
    _ = dataset.scan  # checks the rows
    return dataset.load()
