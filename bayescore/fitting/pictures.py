"""What a fit draws: pictures as matplotlib's Axes, and its page.

A page has what its certificate's page says in units and words of the data, and the call that repeats the fit.
"""

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bayescore.data.coreset import Coreset
from bayescore.data.design import Grouping, effect_name
from bayescore.data.parquet import without_keys
from bayescore.diagnostics.model_check import check_model
from bayescore.fitting.parts import RawRows, heading, numbers_of_model, raw_rows, summarise
from bayescore.fitting.route import FitOptions
from bayescore.fitting.tables import Overview, check_of_rows, effects_of_groups, factor_named, parameter_table
from bayescore.limits import PROB
from bayescore.models.predictor import Factor
from bayescore.priors.groups import DEFAULT_GROUP_PRIOR, is_default
from bayescore.report import pictures
from bayescore.report.pages import EffectFacts, FitFacts, write_certificate
from bayescore.report.tables import rows_by_group
from bayescore.samplers.summaries import GroupEffects
from bayescore.tables import rounded
from bayescore.text import counted, listed
from bayescore.types import NO_GROUP, FloatArray, IntArray, WeightedData
from bayescore.validation import DataError

if TYPE_CHECKING:
    from bayescore.fitting.result import Fit


_GROUPS_DRAWN = 2000  # in a picture


_POINTS = 60  # of a curve


_CURVE_ENDS = (0.005, 0.995)  # quantiles of a column that a curve reaches from and to


_RUG = 300  # rows of a rug


_LINES = 12  # of a picture


_LINES_AT = (0.1, 0.5, 0.9)  # quantiles of a column of numbers that lines are at


_FEW_VALUES = 5  # of a column of numbers, each of which has a line


@dataclass(frozen=True, eq=False)
class Typical:
    """A row with columns of numbers at their means, factors at their most frequent levels, and groups averaged over.

    `groups` has the codes of groups, shape (F,), `NO_GROUP` for those averaged over.
    """

    rows: RawRows
    raw: FloatArray
    held: Mapping[str, str]
    groups: IntArray

    @classmethod
    def of(cls, rows: RawRows) -> Self:
        """Return the typical row of rows."""
        raw, w = rows.rows.X, rows.rows.weights
        typical, held = np.average(raw, axis=0, weights=w), {}
        for d, name in enumerate(rows.design.raw_names):
            how = f"{typical[d]:.3g} (mean)"
            if (levels := rows.levels(name)) is not None:
                values, codes = np.unique(raw[:, d], return_inverse=True)
                typical[d] = values[np.bincount(codes, w).argmax()]
                how = f"{levels[0][int(levels[1][raw[:, d] == typical[d]][0])]} (most frequent)"
            held[name] = how
        return cls(rows, typical, held, np.full(len(rows.design.groups), NO_GROUP))

    def at(self, variable: str, points: FloatArray) -> WeightedData:
        """Return this row with a column at points, in the design."""
        sample, n = self.rows.rows, len(points)
        offset = None if sample.offset is None else np.full(n, np.average(sample.offset, weights=sample.weights))
        group = None if sample.group is None else np.tile(self.groups, (n, 1))
        first = replace(sample.take(np.zeros(n, dtype=np.int64)), offset=offset, group=group)
        X = np.tile(self.raw, (n, 1))
        X[:, self.rows.design.raw_names.index(variable)] = points
        return RawRows(first, self.rows.design, n).designed(X)

    def at_each(self, by: str, *, besides: str) -> dict[str, Self]:
        """Return the row at each level of another column or grouping factor, or at quantiles of a column of numbers."""
        if by == besides:
            raise DataError(f"by={by!r} is the column of the curve itself; name another")
        rows, factors = self.rows, {grouping.name: grouping.levels for grouping in self.rows.design.groups}
        rows_by_level: dict[str, Self] = {}
        if by in factors and by not in rows.design.raw_names:
            place, levels = list(factors).index(by), list(factors[by])
            for code, level in enumerate(levels[: _LINES + 1]):
                groups = self.groups.copy()
                groups[place] = code
                rows_by_level[str(level)] = replace(self, groups=groups)
        else:
            column, place = rows.column(by), rows.design.raw_names.index(by)
            coded, values = rows.levels(by), np.unique(column)
            if coded is None and len(values) > _FEW_VALUES:
                values = np.quantile(column, _LINES_AT)
            for value in values[: _LINES + 1]:
                raw = self.raw.copy()
                raw[place] = value
                level = f"{value:.3g}" if coded is None else coded[0][int(coded[1][column == value][0])]
                rows_by_level[str(level)] = replace(self, raw=raw)
        if len(rows_by_level) > _LINES:
            raise DataError(
                f"by={by!r} has more than {_LINES} levels, too many lines for a picture; see "
                f"fit.average_predictions(by={by!r})"
            )
        return rows_by_level

    def text(self, besides: set[str | None]) -> str:
        """Return what the other columns are held at, and which groups are averaged over."""
        held = [f"{name} = {how}" for name, how in self.held.items() if name not in besides]
        averaged = [grouping.name for grouping in self.rows.design.groups if grouping.name not in besides]
        if self.rows.rows.offset is not None:
            held.append("the offset at its mean")
        parts = [f"held at: {listed(held, 8, str)}"] if held else []
        parts += [f"averaged over groups of {', '.join(averaged)}"] if averaged else []
        return "; ".join(parts)


def forest(fit: "Fit", prob: float) -> Axes:
    """Draw means and intervals of all coefficients but the intercept, in units of the data."""
    posterior, (names, draws, slopes) = fit._posterior(), fit._parameters()
    kept = slopes or list(range(len(posterior.features)))
    figures = summarise(draws.reshape(-1, len(names))[:, kept].T, prob)
    mean, _, low, high = figures.values()
    y = np.arange(len(kept), dtype=np.float64)
    axes = pictures.canvas(plt.figure(), 8.0, max(2.0, 1.0 + 0.3 * len(kept))).add_subplot()
    axes.hlines(y, low, high, color=pictures.INK, lw=2.0)
    axes.plot(mean, y, color=pictures.INK, marker="o", ls="none", ms=4.5)
    axes.axvline(0.0, color=pictures.GREY, lw=0.8, ls=pictures.DASHES[1], zorder=1)
    axes.set_ylim(len(kept) - 0.5, -0.5)
    axes.set_yticks(y, [pictures.short(names[d], 28) for d in kept])
    shown = rounded(pd.DataFrame(figures)).to_numpy()[:, [0, 2, 3]].tolist()  # units of columns differ
    texts = axes.secondary_yaxis("right")
    texts.set_yticks(y, [f"{middle} ({first} to {last})" for middle, first, last in shown])
    texts.tick_params(length=0.0)
    texts.spines["right"].set_visible(False)
    axes.set_xlabel(f"coefficient: mean and {prob:.0%} interval, {posterior.family.scale}")
    pictures.clean(axes)
    return _with_heading(fit, axes)


def curves(fit: "Fit", variable: str, by: str | None, data: Any, prob: float) -> Axes:
    """Draw the mean response against a column, the others held where they are typical."""
    rows, posterior = raw_rows(fit, data), fit._posterior()
    column, levels = rows.column(variable), rows.levels(variable)
    low_end, high_end = np.quantile(column, _CURVE_ENDS).tolist()
    points = np.linspace(low_end, high_end, _POINTS)
    if levels is not None:
        text = variable in dict(rows.design.raw_levels)
        points = np.arange(len(levels[0])) if text else np.asarray(levels[0], dtype=np.float64)
    typical = Typical.of(rows)
    lines = {"": typical} if by is None else typical.at_each(by, besides=variable)
    axes = pictures.canvas(plt.figure(), 7.0, 4.2).add_subplot()
    for k, (name, one) in enumerate(lines.items()):
        p = posterior.predictor().average(one.at(variable, points), posterior.family)
        mean, _, low, high = summarise(p, prob).values()
        colour, marker, dash = pictures.look(k) if by is not None else (pictures.INK, "o", "-")
        shade, label = "#c9c9c9" if by is None else colour, f"{by} = {name}" if by is not None else None
        if levels is None:
            axes.fill_between(points, low, high, color=shade, lw=0, alpha=1.0 if by is None else 0.2)
            axes.plot(points, mean, color=colour, ls=dash, lw=1.6, label=label)
        else:
            at = np.arange(len(points)) + 0.12 * (k - 0.5 * (len(lines) - 1))
            axes.vlines(at, low, high, color=colour, lw=2.0)
            axes.plot(at, mean, color=colour, marker=marker, ls="none", ms=4.5, label=label)
    if levels is None:
        rug = column[:: max(1, len(column) // _RUG)]
        axes.plot(rug, np.zeros_like(rug), "|", color=pictures.INK, ms=6, transform=axes.get_xaxis_transform())
        axes.set_xlim(points[0], points[-1])
    else:
        axes.set_xticks(np.arange(len(points)), [pictures.short(str(level), 20) for level in levels[0]])
    axes.set_xlabel(variable)
    axes.set_ylabel(f"{_mean_response(fit.coreset, 'P({})')}, {prob:.0%} interval")
    if not fit.coreset.numbers:
        axes.set_ylim(0.0, None)
    if by is not None:
        axes.legend(frameon=False, fontsize=8)
    if held := typical.text({variable, by}):
        style: dict[str, Any] = {"fontsize": 8, "color": "#555555", "ha": "left", "va": "top"}
        style |= {"xycoords": "axes fraction", "xytext": (0, -34), "textcoords": "offset points"}
        axes.annotate("\n".join(textwrap.wrap(pictures.short(held, 400), 100)), (0.0, 0.0), **style)
    pictures.clean(axes)
    return _with_heading(fit, axes)


def _mean_response(core: Coreset, of_event: str) -> str:
    """Return what the mean of the response is called: a rate, a mean, or of labels as `of_event` words the event."""
    if core.counts or core.numbers:
        return f"{'rate' if core.counts and not core.amounts else 'mean'} of {core.label}"
    return of_event.format(f"{core.label} = {core.classes[1]}")


def plot_check(fit: "Fit", data: Any, y: Any, by: tuple[str, ...]) -> Any:
    """Draw predictions against responses, in bins of rows of like prediction or by the values of columns."""
    values, check = check_of_rows(fit, data, y, by)
    if not by:
        panels = pictures.model_check(plt.figure(), check, fit.coreset.classes)
        _with_heading(fit, panels[0])
        return panels
    parts = [", ".join(map(str, row)) for row in zip(*values.values(), strict=True)]
    axes = pictures.parts_check(plt.figure(), check, parts)
    axes.set_xlabel(f"{_mean_response(fit.coreset, 'share of {}')} by {' and '.join(by)}")
    return _with_heading(fit, axes)


def plot_effects(fit: "Fit", factor: str | None, effect: str | None) -> Axes:
    """Draw mean and 95% interval of each group's effect, sorted."""
    grouping = factor_named(fit, factor)
    effects = group_effects(fit, grouping, grouping.effects[0] if effect is None else effect)
    return _with_heading(fit, pictures.caterpillar(plt.figure(), effects))


def group_effects(fit: "Fit", grouping: Grouping, effect: str) -> GroupEffects:
    """Return draws of an effect for all levels of a factor, or 2,000 evenly spaced ones, in units of the data."""
    levels = tuple(grouping.levels[code] for code in _codes_drawn(grouping))
    draws = np.asarray(effects_of_groups(fit, grouping.name, effect, levels, PROB)).reshape(-1, len(levels))
    return GroupEffects(effect_name(grouping.name, effect), levels, draws, fit.coreset.family)


def _codes_drawn(grouping: Grouping) -> range:
    """Return codes of the levels that a picture shows: all, or evenly spaced ones."""
    return range(0, len(grouping), max(1, -(-len(grouping) // _GROUPS_DRAWN)))


def plot_shrinkage(fit: "Fit", factor: str | None) -> Axes:
    """Draw the effect of each group against what its rows alone say."""
    grouping, core = factor_named(fit, factor), fit.coreset
    if "1" not in grouping.effects:
        raise DataError(f"no intercept varies by {grouping.name!r}: plot_effects has its slopes")
    if core.numbers or core.times:
        what = "time" if core.times else "number"
        raise DataError(f"the response is a {what}, which has no share among a group's rows: see plot_effects")
    table = rows_by_group(fit.certificate, grouping)
    if table is None:
        raise DataError("the certificate has no shares of the event by group, as no pass over the rows was made")
    codes = _codes_drawn(grouping)
    # slopes that vary where their columns are at their means: not in units of the data
    draws = Factor.of(grouping, fit._posterior().variables).effects[:, codes][..., grouping.effects.index("1")]
    levels = tuple(grouping.levels[code] for code in codes)
    effects = GroupEffects(grouping.name, levels, np.asarray(draws), core.family)
    axes = pictures.shrinkage(plt.figure(), effects, table)
    if not core.counts:
        event = f"{core.label} = {core.classes[1]!r}"
        axes.set_xlabel(f"{effects.scale} of {event} in each {grouping.name}, minus that in all rows")
    return _with_heading(fit, axes)


def _with_heading(fit: "Fit", axes: Axes) -> Axes:
    """Write the heading of the fit above a picture."""
    axes.set_title(heading(fit), fontsize=9, loc="left", color="#555555")
    return axes


BASIS = re.compile(r"\b(poly|bs|cr|cs|cc|s)\(")  # in names of columns that never change alone


_GROUPS_NAMED = 40  # in a table


_LISTED = 200  # characters or entries of an argument that the call shows


def write_page(fit: "Fit", path: str | Path) -> None:
    """Write one HTML page: the verdict first, then data, coefficients, effects, priors, the model's fit, the story."""
    shown = fit._overview()
    story = {f"{place}. {step.what}": str(step) for place, step in enumerate(fit.story, 1)}
    parts: dict[str, Any] = {"title": shown.model, "story": story, "robust": fit._robust, "fit": _facts(fit, shown)}
    write_certificate(fit.certificate, fit._drawn, fit.coreset, path, **parts)


def _facts(fit: "Fit", shown: Overview) -> FitFacts:
    """Return what the page says in units and words of the data."""
    core, posterior, given, ratios, check = fit.coreset, fit._posterior(), fit._given, None, None
    if given is not None and not (given.once or isinstance(given.data, Coreset)):
        rows = raw_rows(fit, None)
        check = check_model(posterior, rows.observed(), rows.events)
    if posterior.family.ratio is not None and fit._parameters()[2]:
        table = parameter_table(fit, "ratio", PROB)
        if plain := [name for name in table.index if not BASIS.search(name)]:
            ratios = _cells(table.loc[plain])
    if fit.spread:
        drawn = f"The spread is {fit.spread}{numbers_of_model(fit)}."
    else:
        corrected = "corrected" in fit._used.posterior.attrs
        kind = (
            f"draws of several {posterior.number}s" if fit._size_varies else "corrected draws" if corrected else "draws"
        )
        drawn = f"From the {kind}" + ("." if fit.certificate.trusted else ", which are not certified.")
    return FitFacts(
        headline=shown.verdict,
        checks_heading=shown.checks_heading,
        about=f"{shown.title}: {'; '.join(shown.rows)}",
        drawn=drawn,
        data=fit._data_facts,
        summary=_cells(parameter_table(fit, "coef", PROB)),
        ratios=ratios,
        effects=[_effect(fit, grouping, effect) for grouping in core.groups for effect in grouping.effects],
        check=check,
        call=fit_call(fit),
    )


def _effect(fit: "Fit", grouping: Grouping, effect: str) -> EffectFacts:
    """Return the effects of groups that are farthest from 0, and draws of some for a picture."""
    table, note = fit.effects(grouping.name, effect=effect), ""
    if len(table) > _GROUPS_NAMED:
        far = np.argsort(-np.abs(table["mean"] / table["sd"]).to_numpy(), kind="stable")[:_GROUPS_NAMED]
        table = table.iloc[far]
        note = f"The {_GROUPS_NAMED} of {len(grouping):,} farthest from 0, in sds; fit.effects() has all."
    return EffectFacts(grouping, _cells(table), note, group_effects(fit, grouping, effect))


def fit_call(fit: "Fit") -> str:
    """Return the call of `fit` that makes this fit again."""
    given, core = fit._given, fit.coreset
    roles = dict(core.design.role_columns) if given is None else dict(given.roles)
    by_default = core.response != "labels" or list(core.classes) == sorted(core.classes)
    positive = None if by_default else core.classes[1]
    asked: dict[str, Any] = {"family": fit._family_asked, "prior": fit.prior, **roles, "positive": positive}
    patterns = {"cluster": r"clusters of '(.*?)'", "strata": r"strat(?:a|um) of '(.*?)'", "lonely": r"lonely='(.*?)'"}
    for name, pattern in patterns.items():
        if match := re.search(pattern, fit.spread):
            asked[name] = match[1]
    if fit._is_pooled:
        asked["imputed"] = True
    if fit.formula is not None:
        asked.pop("label", None)
    if not (fit.group_prior == DEFAULT_GROUP_PRIOR or is_default(fit.group_prior, core)):
        asked["group_prior"] = fit.group_prior
    usual = vars(FitOptions())
    asked |= {name: value for name, value in vars(fit._options).items() if value != usual[name]}
    words = [f"{name}={_argument_code(name, value)}" for name, value in asked.items() if value is not None]
    rows = without_keys(str(given.data)) if given is not None and isinstance(given.data, str | Path) else None
    first = [repr(rows) if rows else "rows"]
    first = [repr(fit.formula), *first] if fit.formula else [*first, "y"] if "label" not in asked else first
    updates = sum(step.what == "update" for step in fit.story)
    more = f"  # and {counted(updates, 'update')}, fit.update(...)" if updates else ""
    return f"fit = bc.fit({', '.join([*first, *words, f'random_state={fit._seed}'])}){more}"


def _argument_code(name: str, value: Any) -> str:
    """Return an argument of `fit` as code: arrays by its name alone."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_argument_code(name, item)}" for key, item in value.items()) + "}"
    if name in ("prior", "group_prior"):
        return f"bc.priors.{value}"
    plain = isinstance(value, str | list | tuple) and len(value) <= _LISTED
    return repr(value) if plain or not hasattr(value, "__len__") else name


def _cells(frame: Any) -> tuple[list[str], dict[str, list[str]]]:
    """Return a table's columns, and its figures as they are printed."""
    rows = zip(frame.index, rounded(frame).to_numpy().tolist(), strict=True)
    return [str(column) for column in frame.columns], {str(name): list(map(str, row)) for name, row in rows}
