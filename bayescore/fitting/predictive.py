r"""Log densities and replicated responses of a fit's rows, with the draws that they are of, for ArviZ's own functions.

.. math:: y^{rep}_{ns} \sim p(y \mid \eta_{ns}), \qquad \eta_{ns} = x_n \cdot \beta_s + o_n + u_{s,g(n)}

A row of a known group has its effect u; one of a new group has an effect drawn from N(0, sigma^2) with each draw.

`pm.sample_posterior_predictive` cannot draw replicates, as a weighted potential has no observed variable. A weighted
log-likelihood is no predictive density and must not reach `az.loo`; that of rows here is unweighted.

Reference: Gelman, Meng and Stern (1996), Posterior predictive assessment of model fitness, Statistica Sinica 6.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from bayescore.compat import inference_data
from bayescore.data.column_kinds import as_table
from bayescore.data.coreset import check_no_pseudo, check_same_design
from bayescore.data.dataset import Dataset
from bayescore.data.formula_design import formula_of
from bayescore.data.open import open_in
from bayescore.data.responses import Expression, events_of, numbers_of
from bayescore.data.tables import is_table
from bayescore.diagnostics.elpd import Responses, sampled_counts
from bayescore.families import Family
from bayescore.fitting.parts import MAX_ROWS, SAMPLE_SEED, drawn_rows, parameters
from bayescore.fitting.route import all_rows_of
from bayescore.models.predictor import Predictor
from bayescore.samplers.posterior import made_here
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError, RandomState, check_integer, check_seed

if TYPE_CHECKING:
    from bayescore.fitting.result import Fit


def with_predictive(fit: "Fit", data: Any, y: Any, *, max_draws: int, random_state: RandomState) -> Any:
    """Return the groups posterior, posterior_predictive, log_likelihood and observed_data; arguments as of `Fit`."""
    check_integer(max_draws, "max_draws", low=1)
    seed, posterior = check_seed(random_state), fit._posterior()
    own, predictor = _responses(fit, data, y), posterior.predictor(max_draws)
    kind: np.dtype[Any] = np.dtype(np.int8)
    rows, observed = own.rows, np.asarray(own.rows.y > 0, dtype=np.float64)
    if own.events is not None:
        observed, kind = own.events, np.dtype(np.int64)
    elif posterior.family.response == "numbers":
        (rows, observed), kind = numbers_of(rows), np.dtype(np.float64)
    shape = len(posterior.draws), -1, len(rows)
    family, rng = posterior.family, np.random.default_rng(seed)
    replicated = np.empty((len(predictor), len(rows)), dtype=kind)
    new = predictor.unknown(rows).any()
    for place in range(len(predictor)):  # a draw at a time: 8 bytes a row beside the result
        at = predictor.take(slice(place, place + 1))
        eta = at.eta(rows)[:, 0]
        if new:
            eta += np.sqrt(at.variance(rows)[:, 0]) * rng.standard_normal(len(rows))
        replicated[place] = at.at_draws(family).draw(eta, rng, rows.weights)
    names, values = parameters(posterior)
    used = posterior.positions(max_draws)[: len(predictor) // shape[0]]  # of the first chain, as of all
    draws = {name: fit.idata["posterior"][name].values for name in ("chain", "draw")}
    draws["draw"] = draws["draw"][used]
    found = inference_data({"posterior": {name: values[:, used, k] for k, name in enumerate(names)}}, coords=draws)
    found["posterior"].attrs.update({**made_here(), "level": fit.level, "family": family.name})
    about = {**made_here(), "family": family.name}
    dims, coords = ("chain", "draw", "row"), {**draws, "row": rows.index}
    groups: dict[str, Any] = {"posterior_predictive": replicated.reshape(shape)}
    if not new:  # whose effects no draw has
        groups["log_likelihood"] = _log_densities(own, predictor, family).reshape(shape)
    for name, each in groups.items():
        found[name] = xr.Dataset({"y": (dims, each)}, coords=coords, attrs={**about, "random_state": str(seed)})
    found["observed_data"] = xr.Dataset({"y": ("row", observed.astype(kind))}, coords={"row": rows.index}, attrs=about)
    return found


def _log_densities(own: Responses, predictor: Predictor, family: Family) -> FloatArray:
    """Return the log density of each response at each draw, shape (S, n)."""
    found = np.empty((len(predictor), len(own)))
    for part, log_p in own.tiles(predictor, family):
        found[:, part] = log_p.T
    return found


def _responses(fit: "Fit", data: Any, y: Any) -> Responses:
    """Return rows in the design with their responses, in their order: those given, or of the fit; up to `MAX_ROWS`."""
    core, posterior = fit.coreset, fit._posterior()
    if isinstance(data, WeightedData):
        check_same_design(data, posterior.features, posterior.design, "data")
        found = Responses(*events_of(data)) if core.counts else Responses(data)
    else:
        if data is None and fit._rows_given.once:
            raise DataError("the rows came once and are gone; give data, rows with their responses")
        dataset = fit._rows_given.rows(core) if data is None else _given_rows(fit, data, y)
        if core.counts:
            found = sampled_counts(dataset, posterior.family, MAX_ROWS, SAMPLE_SEED).some(MAX_ROWS).responses
        else:
            drawn = drawn_rows(dataset)
            found = Responses(drawn.rows.take(np.argsort(drawn.positions)))
    rows = found.rows
    check_no_pseudo(rows, "data")
    if (other := np.flatnonzero(rows.weights != 1.0)).size and not posterior.family.exponential:  # of exposures
        raise DataError(
            f"the rows have weights, row {rows.index[other[0]]} one of {rows.weights[other[0]]:g}, and ArviZ's "
            "functions count rows: give rows without weights or trials, fit.inference_data(rows)"
        )
    return found


def _given_rows(fit: "Fit", data: Any, y: Any) -> Dataset:
    core, design = fit.coreset, fit.coreset.design
    given = fit._given or all_rows_of(core, data, {}, progressbar=False)
    roles = {name: own for name, own in given.roles.items() if name != "weights"}  # each row counts once
    if y is None and "label" not in roles and formula_of(design) is None:
        roles["label"] = core.label
    if is_table(data):  # other columns than the fit's, as weights, are left aside
        columns = as_table(data).column_names
        offset = () if design.offset is None else Expression.of(design.offset, columns).columns
        by_name = [own for own in roles.values() if isinstance(own, str | list | tuple)]
        named = [name for own in by_name for name in ([own] if isinstance(own, str) else own)]
        groups = [name for own in design.groups for name in own.columns]
        used = {*design.raw_names, core.label, *offset, design.exposure, *groups, *named}
        names = [name for name in columns if name in used]
        data = data.select(names) if hasattr(data, "select") else data[names]
    return open_in(design, data, y, new_groups=True, whose="the fit's data", **roles)
