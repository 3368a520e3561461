r"""Predictions of a fit, for new rows and for cells of a population.

Averages of a fit's predictions over its rows, or others: comparisons and slopes.

Average comparisons and slopes, as marginaleffects has them, from the draws.

.. math:: \Delta_k = \frac{\sum_{n \in k} w_n \, [p(x_n^{+}) - p(x_n^{-})]}{\sum_{n \in k} w_n}

x+ and x- are a row with one raw column changed; a slope is the derivative by it. Each draw gives one figure, so that
intervals are the posterior's. The sums are over all rows, by `diagnostics.averages`, which says their error where a
sample stands for many rows.

Reference: Arel-Bundock, Greifer and Heiss (2024), Journal of Statistical Software 111.

Log densities and replicated responses of a fit's rows, with the draws that they are of, for ArviZ's own functions.

.. math:: y^{rep}_{ns} \sim p(y \mid \eta_{ns}), \qquad \eta_{ns} = x_n \cdot \beta_s + o_n + u_{s,g(n)}

A row of a known group has its effect u; one of a new group has an effect drawn from N(0, sigma^2) with each draw.

`pm.sample_posterior_predictive` cannot draw replicates, as a weighted potential has no observed variable. A weighted
log-likelihood is no predictive density and must not reach `az.loo`; that of rows here is unweighted.

Reference: Gelman, Meng and Stern (1996), Posterior predictive assessment of model fitness, Statistica Sinica 6.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayescore.compat import as_arviz, inference_data
from bayescore.data.batches import read_csv
from bayescore.data.column_kinds import as_table
from bayescore.data.coreset import Coreset, check_no_pseudo, check_same_design
from bayescore.data.dataset import Dataset
from bayescore.data.formula_design import formula_of, reference_of
from bayescore.data.open import open_in
from bayescore.data.responses import Expression, events_of, numbers_of, without_response
from bayescore.data.tables import is_table
from bayescore.diagnostics.averages import AveragedRows, Change, ContrastSums, SlopeDirection, values_of
from bayescore.diagnostics.elpd import Responses, sampled_counts
from bayescore.diagnostics.row_sums import check_weight
from bayescore.families import Family
from bayescore.families.family import Sized, check_exposure, check_family
from bayescore.files import whole_file
from bayescore.fitting.parts import (
    MAX_ROWS,
    SAMPLE_SEED,
    drawn_rows,
    draws_attrs,
    interval_names,
    labelled,
    parameters,
    summarise,
)
from bayescore.fitting.route import all_rows_of
from bayescore.models.predictor import Predictor
from bayescore.samplers.posterior import creation_attrs
from bayescore.samplers.predict import (
    column_numbers,
    factor_levels,
    map_new_rows,
    new_groups_seed,
    probabilities,
    probability_tiles,
)
from bayescore.tables import Table
from bayescore.text import listed
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import (
    DataError,
    RandomState,
    check_choice,
    check_generator,
    check_integer,
    check_seed,
    check_weights,
)

if TYPE_CHECKING:
    from bayescore.fitting.result import Fit

MAX_BYTES = 2**28  # of averages at all draws


def predict(
    fit: "Fit", new: Any, kind: str, *, roles: tuple[Any, Any, Any], new_groups: str, prob: float, seed: RandomState
) -> Table | xr.DataArray:
    """Return the posterior of the mean response of new rows, or draws of it or of responses."""
    offset, groups, exposure = roles
    check_choice(kind, "kind", ("mean", "response", "draws"))
    low, high, _ = interval_names(prob)
    rng = check_generator(seed)
    effects_seed = new_groups_seed(new_groups, rng)
    posterior, core = fit._posterior(), fit.coreset
    exposures = None if exposure is None else _exposures(core, new, exposure)
    if kind == "mean":
        figures = map_new_rows(posterior, new, partial(_figures, seed=effects_seed, prob=prob), offset, groups)
        index = new.index if isinstance(new, pd.DataFrame) else None
        if exposures is not None:
            figures = figures * _check_exposures(exposures, len(figures))[:, None]
        return labelled(fit, pd.DataFrame(figures, columns=["mean", "sd", low, high], index=index))
    values: Any = map_new_rows(posterior, new, partial(probabilities, seed=effects_seed), offset, groups).T
    if exposures is not None:
        values = values * _check_exposures(exposures, values.shape[1])
    if kind == "response":
        family = posterior.family
        if posterior.size is not None:
            family = cast(Sized, family).at(posterior.size[:, None])
        values = _draw_responses(values, family, rng)
    attrs = draws_attrs(fit)
    if core.response == "labels":
        attrs["positive"] = str(core.classes[1])
    return xr.DataArray(values, dims=("sample", "row"), attrs=attrs)


def _exposures(core: Coreset, new: Any, exposure: Any) -> FloatArray:
    """Return exposures of new rows, given them or their column."""
    if not core.counts or core.amounts:
        raise DataError(
            f"exposure is given, but the fit's family is {core._family_asked!r}, which takes no counts; leave it out"
        )
    family = check_family(core.family)
    if family.least:  # the mean of a truncated count is not in proportion to its exposure
        check_exposure(family, exposure)
    numbers = column_numbers(new, exposure, "exposure") if isinstance(exposure, str) else np.atleast_1d(exposure)
    return check_weights(numbers, np.size(numbers), "exposure", zero=True)


def _check_exposures(exposures: FloatArray, n_rows: int) -> FloatArray:
    if len(exposures) != n_rows:
        raise DataError(f"exposure has {len(exposures)} entries and new {n_rows} rows; give one for each row")
    return exposures


def _draw_responses(mean: FloatArray, family: Family, rng: np.random.Generator) -> NDArray[Any]:
    """Return responses drawn at their means."""
    if family.numbers:
        return family.draw(mean, rng)
    if not family.counts:
        return np.asarray(rng.random(mean.shape) < mean)
    drawn = family.draw(family.link(mean), rng)
    return drawn if family.amounts else drawn.astype(np.int64)


def _figures(
    predictor: Predictor, family: Family, rows: WeightedData, new: IntArray | None, *, seed: int | None, prob: float
) -> FloatArray:
    """Return mean, sd and interval of p of each of the rows, shape (n, 4)."""
    tiles = probability_tiles(predictor, family, rows, new, seed)
    return np.concatenate([np.column_stack([*(summarise(p, prob) | {"mean": mean}).values()]) for mean, p in tiles])


@dataclass(frozen=True, eq=False)
class AverageDraws:
    """Averages at S draws, shape (C, P, S), of C contrasts over P parts of the rows, and what these are called.

    `more` has columns that stand beside the averages in a table, shape (C * P,).
    """

    values: FloatArray
    contrasts: pd.Index | None
    parts: pd.Index | None
    more: Mapping[str, FloatArray] = field(default_factory=dict)
    null: float | None = None  # what contrasts are when there is none: 0 of differences, 1 of ratios

    def figures(self, prob: float) -> pd.DataFrame:
        """Return mean, sd and interval of each average, a row for each part, contrasts below each other."""
        flat = self.values.reshape(-1, self.values.shape[2])
        columns = summarise(flat, prob)
        if self.null is not None:
            columns[f"P(>{self.null:g})"] = (flat > self.null).mean(axis=1)
        return pd.DataFrame({**columns, **self.more})

    def table(self, prob: float) -> pd.DataFrame:
        """Return `figures` with the names of contrasts and parts as first columns."""
        n_parts, rows = self.values.shape[1], np.arange(self.values.shape[0] * self.values.shape[1])
        names = [(self.contrasts, rows // n_parts), (self.parts, rows % n_parts)]
        labels = [index.take(places).to_frame(index=False) for index, places in names if index is not None]
        return pd.concat([*labels, self.figures(prob)], axis=1)

    def array(self, coords: Mapping[str, Any], attrs: Mapping[str, str]) -> xr.DataArray:
        """Return the averages with dimensions chain, draw, contrast and part, given the coordinates of the first two.

        A part by several columns is called by their values, in a multi-index.
        """
        all_coords, dims, shape = xr.Coordinates(coords), ["chain", "draw"], [len(coord) for coord in coords.values()]
        for index in (self.contrasts, self.parts):
            if index is None:
                continue
            name = "part" if isinstance(index, pd.MultiIndex) else str(index.name)
            if isinstance(index, pd.MultiIndex):
                all_coords = all_coords.merge(xr.Coordinates.from_pandas_multiindex(index, name)).coords
            else:
                all_coords[name] = index
            dims.append(name)
            shape.append(len(index))
        values = np.moveaxis(self.values.reshape(-1, self.values.shape[2]), 1, 0).reshape(shape)
        return xr.DataArray(values, dims=dims, coords=all_coords, attrs=dict(attrs))


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Names of contrasts, what the rows are changed to for them, and how averages over these become figures."""

    variable: str | None
    names: list[Any]
    changes: tuple[tuple[Change, ...], ...]
    figures: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
    column: str | None = "contrast"  # of the names
    along: SlopeDirection | None = None  # of a slope
    null: float | None = 0.0

    def drawn(self, rows: AveragedRows, by: tuple[str, ...], max_draws: int, core: Coreset | None) -> AverageDraws:
        """Return each contrast over each part of the rows, at draws; `core` stands for the rows if it is given."""
        labels, cells = rows.parts(by, variable=self.variable, contrasts=self.changes, along=self.along)
        n, n_draws = cells.n_parts, len(rows.posterior.positions(max_draws))
        most = max(len(self.names), len(self.changes)) * n
        if (size := 8 * most * n_draws) > MAX_BYTES:
            raise DataError(
                f"{most:,} averages at {n_draws:,} draws take {size:,} bytes (limit {MAX_BYTES:,}): part the rows by "
                "columns of fewer values, compare fewer levels, or give a smaller max_draws"
            )

        def figures(found: ContrastSums) -> tuple[FloatArray, FloatArray, IntArray]:
            seen = np.flatnonzero(found.weight[:n] > 0.0)
            values, error = found.averages()
            values, error = values.reshape(len(self.changes), n, -1)[:, seen], error.reshape(-1, n)[:, seen]
            return (*self.figures(values, error), seen)

        found = rows.sums(cells, max_draws, lambda sums: [_flat(*figures(sums)[:2])])
        if core is not None and not (core.counts or rows.added):  # whose weight has events, too
            check_weight(core, float(found.weight[:n].sum()))
        values, error, seen = figures(found)
        parts = index_of({name: [level[place] for place in seen] for name, level in labels.items()})
        names = None if self.column is None else pd.Index(self.names, name=self.column)
        return AverageDraws(values, names, parts, {"sampling_se": error.ravel()}, self.null)


def index_of(labels: Mapping[str, list[Any]]) -> pd.Index | None:
    """Return the index of labels by name, of several levels where there are several names; None without any."""
    if len(labels) > 1:
        return pd.MultiIndex.from_arrays(list(labels.values()), names=list(labels))
    return next((pd.Index(values, name=name) for name, values in labels.items()), None)


def predictions_of(rows: AveragedRows, variable: str | None) -> Contrasts:
    """Return all rows as they are, or as if they had each level of a factor in turn."""
    if variable is None:
        return Contrasts(None, ["all"], ((Change(),),), _unchanged, None, null=None)
    names, values = rows.levels(variable, "variables")
    changes = tuple((Change(value=value),) for value in values)
    return Contrasts(variable, names, changes, _unchanged, variable, null=None)


COMPARISONS = {"difference": "{0} - {1}", "ratio": "{0} / {1}", "odds": "odds({0}) / odds({1})"}
"""What contrasts of two average predictions are called."""


def comparisons_of(
    rows: AveragedRows, variable: str, *, against: Any = "first", step: float = 1.0, comparison: str = "difference"
) -> Contrasts:
    """Return levels of a factor against others, 1 against 0, or `step` more of a column of numbers."""
    rows.check_column(variable, "variable")
    if comparison == "odds" and rows.posterior.family.response != "labels":
        raise DataError(
            f"comparison='odds' is of probabilities, and the family is {rows.posterior.family.name!r}; give "
            "comparison='ratio' or 'difference'"
        )
    levels, text = list(factor_levels(rows.design, variable)), variable in dict(rows.design.raw_levels)
    if not levels and step == 1.0 and _is_binary(rows, variable):
        levels = [0, 1]
    if levels:
        ways = [{"value": float(place) if text else float(level)} for place, level in enumerate(levels)]
        first = _reference(rows, variable, levels, against)
        ways.insert(0, ways.pop(first))
        levels.insert(0, levels.pop(first))
        pairs = [(j, 0) for j in range(1, len(levels))]
        if against == "pairwise":
            pairs = [(j, i) for i in range(len(levels)) for j in range(i + 1, len(levels))]
    else:
        if against != "first":
            raise DataError(
                f"against={against!r}, but variable={variable!r} is a column of numbers, which step= compares: leave "
                "against out, or write C(...) in the formula"
            )
        ways, levels, pairs = [{"shift": 0.0}, {"shift": step}], ["+0", f"+{step:g}"], [(1, 0)]
    named = "{0}" if levels[0] == "+0" and comparison == "difference" else COMPARISONS[comparison]
    names = [named.format(levels[j], levels[i]) for j, i in pairs]
    if comparison != "difference":
        each = tuple((Change(**way),) for way in ways)
        return Contrasts(variable, names, each, partial(_ratios, pairs, odds=comparison == "odds"), null=1.0)
    changes = tuple((Change(1.0, **way), Change(-1.0, **ways[0])) for way in ways[1:])
    return Contrasts(variable, names, changes, partial(_differences, pairs))


def _reference(rows: AveragedRows, variable: str, levels: Sequence[Any], against: Any) -> int:
    """Return the place of the level that others are compared with."""
    if against in ("first", "pairwise"):
        reference = reference_of(rows.design, variable) if factor_levels(rows.design, variable) else levels[0]
        return levels.index(reference) if reference in levels else 0
    found = [place for place, level in enumerate(levels) if level == against or str(level) == str(against)]
    if not found:
        raise DataError(
            f"against={against!r} is no level of {variable!r} ({listed(levels)}); give one of them, 'first' for the "
            "reference, or 'pairwise'"
        )
    return found[0]


def effect_of(rows: AveragedRows, variable: str) -> Contrasts:
    """Return the levels of a factor against their reference, 1 against 0, or the derivative by a column of numbers."""
    if factor_levels(rows.design, variable) or _is_binary(rows, variable):
        return comparisons_of(rows, variable)
    return slopes_of(rows, variable)


def _is_binary(rows: AveragedRows, variable: str) -> bool:
    cells = rows.cells(by=(variable,), values=((0.0,),))
    return set(values_of(rows.dataset, cells, variable, 2) or [2.0]) <= {0.0, 1.0}


def slopes_of(rows: AveragedRows, variable: str) -> Contrasts:
    """Return the derivative by a column of numbers, through all terms of the formula."""
    rows.check_column(variable, "variable")
    if factor_levels(rows.design, variable):
        raise DataError(f"variable={variable!r} is a factor, which has no slope; see comparisons")
    along = SlopeDirection(_column_scale(rows, variable), rows.coefficient_sizes())
    return Contrasts(variable, ["dY/dX"], ((Change(), Change()),), _unchanged, along=along)


def _column_scale(rows: AveragedRows, variable: str) -> float:
    """Return the sd of a standardised column, or the range of another, by a pass."""
    design = rows.design
    lead = int(design.intercept)
    if design.scale is not None and variable in design.names[lead:]:
        return float(design.scales[design.names.index(variable, lead)])
    cells = rows.cells(by=(variable,), values=((0.0,),))

    def ends(_: int, block: WeightedData) -> FloatArray:
        column = cells.column(block, variable)
        return np.array([column.min(), column.max()])

    low, high = np.transpose(list(rows.dataset.map(ends, "learning a range")))
    return float(high.max() - low.min())


def _unchanged(values: FloatArray, error: FloatArray) -> tuple[FloatArray, FloatArray]:
    return values, error


def _differences(
    pairs: Sequence[tuple[int, int]], values: FloatArray, error: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return differences of pairs of levels, given those to level 0, and bounds of their errors."""
    values, error = (np.concatenate([np.zeros_like(each[:1]), each]) for each in (values, error))
    one, other = np.transpose(pairs)
    return values[one] - values[other], np.hypot(error[one], error[other])


def _ratios(
    pairs: Sequence[tuple[int, int]], values: FloatArray, error: FloatArray, *, odds: bool
) -> tuple[FloatArray, FloatArray]:
    """Return ratios of pairs of averages, or of their odds, and their errors by the delta method."""
    mean, (one, other) = values.mean(axis=2), np.transpose(pairs)
    share = error / np.maximum(np.abs(mean * (1.0 - mean) if odds else mean), np.finfo(float).tiny)
    if odds:
        values = values / (1.0 - values)
    ratio = values[one] / values[other]
    return ratio, np.abs(ratio.mean(axis=2)) * np.hypot(share[one], share[other])


def _flat(values: FloatArray, error: FloatArray) -> tuple[FloatArray, Any]:
    return values.reshape(-1, values.shape[2]), error.ravel()


def by_chain(fit: "Fit", found: AverageDraws, max_draws: int) -> xr.DataArray:
    """Return averages at draws by chain and draw, with the level."""
    posterior, coords = fit._posterior(), fit._used["posterior"].coords
    places = posterior.positions(max_draws).reshape(len(posterior.draws), -1)[0]
    return found.array({"chain": coords["chain"].values, "draw": coords["draw"].values[places]}, draws_attrs(fit))


_KINDS = (".csv", ".parquet")


def check_files(rows: Path, output: Path) -> None:
    """Raise unless there are rows, and the output's name ends as a kind of file that is written."""
    if output.suffix.lower() not in _KINDS:
        raise ValueError(f"--output={str(output)!r} is of no kind that predict writes; end it in {' or '.join(_KINDS)}")
    if not rows.exists():
        raise FileNotFoundError(f"rows={str(rows)!r} does not exist; give a Parquet or CSV file of new rows")


def write_predictions(fit: "Fit", rows: Path, output: Path, **options: Any) -> pd.DataFrame:
    """Write the columns of a file's rows and after them their predictions; return these predictions."""
    new: pd.DataFrame = read_csv(rows) if rows.suffix.lower() == ".csv" else pd.read_parquet(rows)
    if all(name is not None for name in new.index.names):  # such as the rows' identities, which pandas stores so
        new = new.reset_index()
    predicted: pd.DataFrame = fit.predict(new, **options)
    if predicted.columns.nlevels > 1:  # by category
        predicted = predicted.set_axis([" ".join(map(str, names)) for names in predicted.columns], axis=1)
    if both := [str(name) for name in predicted.columns if name in new.columns]:
        raise ValueError(f"{rows} has a column {both[0]!r}, as the predictions do; rename it")
    table = pd.concat([new, predicted], axis=1)
    with whole_file(output) as partial:
        table.to_csv(partial, index=False) if output.suffix.lower() == ".csv" else table.to_parquet(
            partial, index=False
        )
    return predicted


def with_predictive(fit: "Fit", data: Any, y: Any, *, max_draws: int, random_state: RandomState) -> Any:
    """Return the groups posterior, posterior_predictive, log_likelihood and observed_data; arguments as of `Fit`."""
    check_integer(max_draws, "max_draws", low=1)
    seed, posterior = check_seed(random_state), fit._posterior()
    responses, predictor = _rows_with_responses(fit, data, y), posterior.predictor(max_draws)
    kind: np.dtype[Any] = np.dtype(np.int8)
    rows, observed = responses.rows, np.asarray(responses.rows.y > 0, dtype=np.float64)
    if responses.events is not None:
        observed, kind = (
            responses.events + posterior.family.least,
            np.dtype(np.float64 if posterior.family.amounts else np.int64),
        )
        if posterior.family.times:  # whose replicates none is censored of
            observed, rows = np.exp(-rows.offsets), without_response(rows, posterior.family.response)
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
    draws = {name: fit._used["posterior"][name].values for name in ("chain", "draw")}
    draws["draw"] = draws["draw"][used]
    found = inference_data({"posterior": {name: values[:, used, k] for k, name in enumerate(names)}}, coords=draws)
    found["posterior"].attrs.update({**creation_attrs(), "level": fit.level, "family": family.name})
    about = {**creation_attrs(), "family": family.name}
    dims, coords = ("chain", "draw", "row"), {**draws, "row": rows.index}
    groups: dict[str, Any] = {"posterior_predictive": replicated.reshape(shape)}
    if not new:  # whose effects no draw has
        groups["log_likelihood"] = _log_densities(responses, predictor, family).reshape(shape)
    for name, each in groups.items():
        found[name] = xr.Dataset({"y": (dims, each)}, coords=coords, attrs={**about, "random_state": str(seed)})
    found["observed_data"] = xr.Dataset({"y": ("row", observed.astype(kind))}, coords={"row": rows.index}, attrs=about)
    return as_arviz(found)


def _log_densities(responses: Responses, predictor: Predictor, family: Family) -> FloatArray:
    """Return the log density of each response at each draw, shape (S, n)."""
    found = np.empty((len(predictor), len(responses)))
    for part, log_p in responses.tiles(predictor, family):
        found[:, part] = log_p.T
    return found


def _rows_with_responses(fit: "Fit", data: Any, y: Any) -> Responses:
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
    roles = {name: value for name, value in given.roles.items() if name != "weights"}  # each row counts once
    if y is None and "label" not in roles and formula_of(design) is None:
        roles["label"] = core.label
    if is_table(data):  # other columns than the fit's, as weights, are left aside
        columns = as_table(data).column_names
        offset = () if design.offset is None else Expression.of(design.offset, columns).columns
        by_name = [value for value in roles.values() if isinstance(value, str | list | tuple)]
        named = [name for value in by_name for name in ([value] if isinstance(value, str) else value)]
        groups = [name for grouping in design.groups for name in grouping.columns]
        used = {*design.raw_names, core.label, *offset, design.exposure, *groups, *named}
        names = [name for name in columns if name in used]
        data = data.select(names) if hasattr(data, "select") else data[names]
    return open_in(design, data, y, new_groups=True, whose="the fit's data", **roles)
