"""Pictures of a fit, as matplotlib's Axes, and its page."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bayescore.data.coreset import Coreset
from bayescore.data.design import Grouping
from bayescore.data.parquet import without_keys
from bayescore.diagnostics.averages import check_by
from bayescore.diagnostics.model_check import check_model
from bayescore.fitting.overview import Overview, overview
from bayescore.fitting.parts import RawRows, data_facts, described, interval_names, raw_rows
from bayescore.fitting.predictions import FitAverages
from bayescore.fitting.route import FitOptions, Step
from bayescore.limits import PROB
from bayescore.models.predictor import Factor
from bayescore.priors.groups import DEFAULT_GROUP_PRIOR, is_default
from bayescore.report import EffectFacts, FitFacts, pictures, write_certificate
from bayescore.samplers.summaries import GroupEffects
from bayescore.tables import rounded
from bayescore.text import listed
from bayescore.types import NO_GROUP, FloatArray, IntArray, WeightedData
from bayescore.validation import DataError

BASIS = re.compile(r"\b(poly|bs|cr|cs|cc)\(")  # in names of columns that never change alone
_GROUPS_NAMED = 40  # in a table of a page
_GROUPS_DRAWN = 2000  # in a picture
_LISTED = 200  # characters or entries of an argument that the call shows
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
        own, n = self.rows.rows, len(points)
        offset = None if own.offset is None else np.full(n, np.average(own.offset, weights=own.weights))
        group = None if own.group is None else np.tile(self.groups, (n, 1))
        first = replace(own.take(np.zeros(n, dtype=np.int64)), offset=offset, group=group)
        X = np.tile(self.raw, (n, 1))
        X[:, self.rows.design.raw_names.index(variable)] = points
        return RawRows(first, self.rows.design, n).designed(X)

    def at_each(self, by: str, *, besides: str) -> dict[str, Self]:
        """Return the row at each level of another column or grouping factor, or at quantiles of a column of numbers."""
        if by == besides:
            raise DataError(f"by={by!r} is the column of the curve itself; name another")
        rows, factors = self.rows, {own.name: own.levels for own in self.rows.design.groups}
        found: dict[str, Self] = {}
        if by in factors and by not in rows.design.raw_names:
            place, levels = list(factors).index(by), list(factors[by])
            for code, level in enumerate(levels[: _LINES + 1]):
                groups = self.groups.copy()
                groups[place] = code
                found[str(level)] = replace(self, groups=groups)
        else:
            column, place = rows.column(by), rows.design.raw_names.index(by)
            known, values = rows.levels(by), np.unique(column)
            if known is None and len(values) > _FEW_VALUES:
                values = np.quantile(column, _LINES_AT)
            for value in values[: _LINES + 1]:
                raw = self.raw.copy()
                raw[place] = value
                level = f"{value:.3g}" if known is None else known[0][int(known[1][column == value][0])]
                found[str(level)] = replace(self, raw=raw)
        if len(found) > _LINES:
            raise DataError(
                f"by={by!r} has more than {_LINES} levels, too many lines for a picture; see "
                f"fit.average_predictions(by={by!r})"
            )
        return found

    def text(self, besides: set[str | None]) -> str:
        """Return what the other columns are held at, and which groups are averaged over."""
        held = [f"{name} = {how}" for name, how in self.held.items() if name not in besides]
        averaged = [own.name for own in self.rows.design.groups if own.name not in besides]
        if self.rows.rows.offset is not None:
            held.append("the offset at its mean")
        parts = [f"held at: {listed(held, 8, str)}"] if held else []
        parts += [f"averaged over groups of {', '.join(averaged)}"] if averaged else []
        return "; ".join(parts)


class FitPictures(FitAverages):
    """What a fit shows; see `Fit`."""

    def plot(self, variable: str | None = None, *, by: str | None = None, data: Any = None, prob: float = PROB) -> Axes:
        """Draw the coefficients in the data's units, or how the probability changes with a column.

        Parameters
        ----------
        variable : str, optional
            Raw column; by default all coefficients but the intercept are drawn, with their figures on the right. All
            other columns are at their means, factors at their most frequent level, and groups averaged over, as the
            text below the axis says. Ticks at the bottom are rows.
        by : str, optional
            Another column or grouping factor: a line for each of its levels, of numbers with more than 5 values for the
            10%, 50% and 90% quantiles.
        data : data frame, optional
            Rows that tell the range and the other columns; by default a sample of all rows.
        prob : float
            Probability of the intervals.

        Returns
        -------
        Axes
            Of a new figure. The level stands in its title.

        Raises
        ------
        DataError
            If there is no such column, `by` has more than 12 levels, or the rows are not there.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 2))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> fit.plot().get_xlabel()
        'coefficient: mean and 95% interval, log odds'
        >>> axes = fit.plot("x0")
        >>> axes.get_xlabel(), axes.texts[-1].get_text()
        ('x0', 'held at: x1 = 0.00115 (mean)')
        """
        interval_names(prob)
        if variable is None:
            if by is not None:
                raise DataError(f"by={by!r} is for a curve: name its column too, fit.plot(variable, by={by!r})")
            axes = self._forest(prob)
        else:
            axes = self._curves(variable, by, raw_rows(self, data), prob)
        pictures.clean(axes)
        return self._headed(axes)

    def plot_check(self, data: Any = None, y: Any = None, *, by: str | Sequence[str] | None = None) -> Any:
        """Draw predictions against what was observed, as `check` has them.

        Beside the calibration stand the predictions of rows of either class, of counts a rootogram, how many rows have
        each count and would have by the model, and of numbers their histogram and that of the model's.

        Parameters
        ----------
        data, y, by
            As in `check`; with `by` there is one picture, a line for each part of the rows.

        Returns
        -------
        Axes or array of two Axes
            Of a new figure.

        Raises
        ------
        DataError
            If the rows are not there, or do not fit.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> calibration, classes = fit.plot_check()
        >>> calibration.get_xlabel()
        'predicted probability'
        """
        labels, found = self._checked(data, y, names := check_by(by))
        if not names:
            panels = pictures.model_check(plt.figure(), found, self.coreset.classes)
            self._headed(panels[0])
            return panels
        parts = [", ".join(map(str, own)) for own in zip(*labels.values(), strict=True)]
        axes = pictures.parts_check(plt.figure(), found, parts)
        core = self.coreset
        share = f"share of {core.label} = {core.classes[1]}"
        what = {"counts": f"rate of {core.label}", "numbers": f"mean of {core.label}"}.get(core.response, share)
        axes.set_xlabel(f"{what} by {' and '.join(names)}")
        return self._headed(axes)

    def plot_caterpillar(self, factor: str | None = None, *, effect: str | None = None) -> Axes:
        """Draw mean and 95% interval of each group's effect, sorted, in units of the data.

        Parameters
        ----------
        factor : str, optional
            Grouping factor; by default the only one.
        effect : str, optional
            "1" for the intercept, the default where it varies, or the column whose slope does.

        Returns
        -------
        Axes
            Of a new figure.

        Raises
        ------
        DataError
            If there is no such factor or effect.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame({"x": rng.normal(size=4000), "g": rng.choice(list("abcdef"), 4000)})
        >>> rows["y"] = rows["x"] + (rows["g"] == "c") + rng.logistic(size=4000) > 0
        >>> fit = bc.fit("y ~ x + (1 | g)", rows, random_state=1, progressbar=False)
        >>> fit.plot_caterpillar().get_xlabel()
        'effect of g: mean and 95% interval, log odds'
        """
        own = self._factor(factor)
        chosen = own.effects[0] if effect is None else effect
        levels = [own.levels[code] for code in _drawn(own)]
        draws = self.effects(own.name, effect=chosen, draws=levels).values.reshape(-1, len(levels))
        name = own.name if chosen == "1" else f"{chosen} by {own.name}"
        axes = pictures.caterpillar(plt.figure(), GroupEffects(name, tuple(levels), draws, self.coreset.family))
        return self._headed(axes)

    def plot_shrinkage(self, factor: str | None = None) -> Axes:
        r"""Draw the effect of each group against what its rows alone say: how far partial pooling pulls.

        Across stands the log odds (probit: the probit; counts: the log rate) of the fit's event among the rows of a
        group, half an event and half a row more, minus that of all rows. Up stands the effect of the group, of slopes
        that vary where their columns are at their means. Covariates that differ between groups move points too, and
        effects given covariates are larger than those without (Gelman and Hill 2007, section 12.2).

        Parameters
        ----------
        factor : str, optional
            Grouping factor; by default the only one.

        Returns
        -------
        Axes
            Of a new figure.

        Raises
        ------
        DataError
            If there is no such factor, no intercept that varies by it, or the response is a number, which has no share.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame({"x": rng.normal(size=4000), "g": rng.choice(list("abcdef"), 4000)})
        >>> rows["y"] = rows["x"] + (rows["g"] == "c") + rng.logistic(size=4000) > 0
        >>> fit = bc.fit("y ~ x + (1 | g)", rows, random_state=1, progressbar=False)
        >>> fit.plot_shrinkage().get_ylabel()
        'effect of g: mean and 95% interval, log odds'
        """
        own = self._factor(factor)
        if "1" not in own.effects:
            raise DataError(f"no intercept varies by {own.name!r}: plot_caterpillar has its slopes")
        if self.coreset.numbers:
            raise DataError("the response is a number, which has no share among a group's rows: see plot_caterpillar")
        table = self.certificate.effects
        if table.empty:
            raise DataError("the certificate has no shares of the event by group, as no pass over the rows was made")
        k, posterior = own.effects.index("1"), self._posterior()
        effects = Factor.of(own, posterior.variables).effects
        codes = _drawn(own)
        levels = tuple(own.levels[code] for code in codes)
        draws = np.asarray(effects[:, codes])[..., k]
        found = GroupEffects(own.name, levels, draws, self.coreset.family)
        axes = pictures.shrinkage(plt.figure(), found, table)
        if not self.coreset.counts:
            event = f"{self.coreset.label} = {self.coreset.classes[1]!r}"
            axes.set_xlabel(f"{found.scale} of {event} in each {own.name}, minus that in all rows")
        return self._headed(axes)

    def plot_story(self) -> Axes:
        """Draw what was done: rows, coreset, draws, verdict, with what each step took.

        Returns
        -------
        Axes
            Of a new figure.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 2))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> fit.plot_story().texts[0].get_text()
        '5,000 rows'
        """
        steps: dict[str, list[Step]] = {}
        for step in self.story:
            steps.setdefault("build" if step.what == "update" else step.what, []).append(step)
        posterior, whole, sampler = self._posterior(), self.coreset.n_total, self._posterior().attrs.get("sampler")
        drawn = f"{sampler} sampler" if sampler else "a model of your own"
        boxes = [
            (f"{whole:,} rows", "sides of all counts" if self.coreset.counts else "all data"),
            (f"{len(self.coreset):,} rows", f"coreset: {self.coreset.method}"),
            (f"{len(posterior.flat):,} draws", f"{drawn}\nspread by clusters" if self.spread else drawn),
            (str(self.level), "by new rows and\nsamples of earlier ones" if self._updated else "by all rows"),
        ]
        axes = pictures.canvas(plt.figure(), 9.0, 1.9).add_subplot()
        for place, (text, beneath) in enumerate(boxes):
            trusted = place < len(boxes) - 1 or self.certificate.trusted
            frame = {"boxstyle": "round,pad=0.6", "fc": "white" if trusted else "#f3d6c5", "ec": pictures.INK}
            axes.text(place, 0.0, text, ha="center", va="center", fontsize=11, bbox=frame)
            axes.text(place, -0.42, beneath, ha="center", va="top", fontsize=8.5, color="#555555")
        for place, what in enumerate(("build", "sample", "certify")):
            arrow = {"arrowstyle": "->", "color": pictures.INK}
            axes.annotate("", (place + 0.68, 0.0), (place + 0.34, 0.0), arrowprops=arrow)
            if what in steps:
                passes = sum(step.passes for step in steps[what])
                seconds = f"{what}\n{sum(step.seconds for step in steps[what]):.1f} s"
                axes.text(place + 0.5, 0.12, seconds, ha="center", va="bottom", fontsize=8.5)
                if passes:
                    read = f"{passes} pass{'es' * (passes != 1)}"
                    axes.text(place + 0.5, -0.12, read, ha="center", va="top", fontsize=8.5)
        axes.set_xlim(-0.5, len(boxes) - 0.5)
        axes.set_ylim(-1.0, 0.8)
        axes.set_axis_off()
        return axes

    def _forest(self, prob: float) -> Axes:
        posterior = self._posterior()
        design = self.coreset.design
        slopes = [d for d in range(len(posterior.features)) if d != design.constant]
        kept = slopes or list(range(len(posterior.features)))
        found = described(design.raw_coefficients(posterior.flat)[:, kept].T, prob)
        mean, _, low, high = found.values()
        y = np.arange(len(kept), dtype=np.float64)
        axes = pictures.canvas(plt.figure(), 8.0, max(2.0, 1.0 + 0.3 * len(kept))).add_subplot()
        axes.hlines(y, low, high, color=pictures.INK, lw=2.0)
        axes.plot(mean, y, color=pictures.INK, marker="o", ls="none", ms=4.5)
        axes.axvline(0.0, color=pictures.GREY, lw=0.8, ls=pictures.DASHES[1], zorder=1)
        axes.set_ylim(len(kept) - 0.5, -0.5)
        axes.set_yticks(y, [pictures.short(posterior.features[d], 28) for d in kept])
        shown = rounded(pd.DataFrame(found)).to_numpy()[:, [0, 2, 3]].tolist()  # units of columns differ
        texts = axes.secondary_yaxis("right")
        texts.set_yticks(y, [f"{middle} ({first} to {last})" for middle, first, last in shown])
        texts.tick_params(length=0.0)
        texts.spines["right"].set_visible(False)
        axes.set_xlabel(f"coefficient: mean and {prob:.0%} interval, {posterior.family.scale}")
        return axes

    def _curves(self, variable: str, by: str | None, rows: RawRows, prob: float) -> Axes:
        posterior, column, levels = self._posterior(), rows.column(variable), rows.levels(variable)
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
            mean, _, low, high = described(p, prob).values()
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
        core = self.coreset
        of_label = f"P({core.label} = {core.classes[1]})"
        what = {"counts": f"rate of {core.label}", "numbers": f"mean of {core.label}"}.get(core.response, of_label)
        axes.set_ylabel(f"{what}, {prob:.0%} interval")
        if not core.numbers:
            axes.set_ylim(0.0, None)
        if by is not None:
            axes.legend(frameon=False, fontsize=8)
        if held := typical.text({variable, by}):
            style: dict[str, Any] = {"fontsize": 8, "color": "#555555", "ha": "left", "va": "top"}
            style |= {"xycoords": "axes fraction", "xytext": (0, -34), "textcoords": "offset points"}
            axes.annotate("\n".join(textwrap.wrap(pictures.short(held, 400), 100)), (0.0, 0.0), **style)
        return axes

    def _headed(self, axes: Axes) -> Axes:
        """Write the heading of the fit above a picture."""
        axes.set_title(self._heading, fontsize=9, loc="left", color="#555555")
        return axes

    def report(self, path: str | Path) -> None:
        """Write one HTML page: the verdict first, then data, coefficients, effects, priors, the model's fit, the story.

        Raises
        ------
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> fit.report("report.html")  # doctest: +SKIP
        """
        story = {f"{place}. {step.what}": str(step) for place, step in enumerate(self.story, 1)}
        shown = overview(self)
        told = {
            "title": shown.model,
            "story": story,
            "robust": self._robust,
        }
        write_certificate(self.certificate, self._drawn, self.coreset, path, **told, fit=self._facts(shown))

    def _facts(self, shown: Overview) -> FitFacts:
        """Return what the page says in units and words of the data."""
        core, family = self.coreset, self._posterior().family
        there = self._given is not None and not (self._given.once or isinstance(self._given.data, Coreset))
        rows, ratios = raw_rows(self, None) if there else None, None
        if family.ratio is not None and len(core.feature_names) > (core.design.constant is not None):
            found = self._parameters("ratio", PROB)
            if plain := [name for name in found.index if not BASIS.search(name)]:
                ratios = _cells(found.loc[plain])
        effects = [self._effect(own, effect) for own in core.groups for effect in own.effects]
        data = data_facts(core)
        about = f"{shown.title}: {'; '.join(shown.rows)}"
        check = None if rows is None else check_model(self._posterior(), rows.designed(), rows.events)
        if self.spread:
            drawn = f"The spread is {self.spread}."
        else:
            drawn = f"From the {'draws' if self._used is self._drawn else 'corrected draws'}"
            drawn += "." if self.certificate.trusted else ", which are not certified."
        words = shown.verdict, shown.checks_heading, about
        return FitFacts(*words, drawn, data, _cells(self.summary()), ratios, effects, check, self._call())

    def _effect(self, own: Grouping, effect: str) -> EffectFacts:
        """Return the effects of groups that are farthest from 0, and draws of some for a picture."""
        table, levels, note = self.effects(own.name, effect=effect), own.levels, ""
        if len(table) > _GROUPS_NAMED:
            far = np.argsort(-np.abs(table["mean"] / table["sd"]).to_numpy(), kind="stable")[:_GROUPS_NAMED]
            table, note = (
                table.iloc[far],
                f"The {_GROUPS_NAMED} of {len(own):,} farthest from 0, in sds; fit.effects() ",
            )
            note += "has all."
        if len(levels) > _GROUPS_DRAWN:
            levels = tuple(levels[place] for place in np.linspace(0, len(levels) - 1, _GROUPS_DRAWN).astype(int))
        draws = self.effects(own.name, effect=effect, draws=list(levels)).values.reshape(-1, len(levels))
        name = own.name if effect == "1" else f"{effect} by {own.name}"
        return EffectFacts(own, effect, _cells(table), note, GroupEffects(name, levels, draws, self.coreset.family))

    def _call(self) -> str:
        """Return the call of `fit` that makes this fit again."""
        given, core = self._given, self.coreset
        roles = dict(core.design.role_columns) if given is None else dict(given.roles)
        positive = None if given is None or core.response != "labels" else given.positive
        asked: dict[str, Any] = {"family": core._family_asked, "prior": self.prior, **roles, "positive": positive}
        for name, pattern in (("cluster", r"clusters of '(.*?)'"), ("strata", r"strat(?:a|um) of '(.*?)'")):
            if found := re.search(pattern, self.spread):
                asked[name] = found[1]
        if self._is_pooled:
            asked["imputed"] = True
        if self.formula is not None:
            asked.pop("label", None)
        if not (self.group_prior == DEFAULT_GROUP_PRIOR or is_default(self.group_prior, core)):
            asked["group_prior"] = self.group_prior
        usual = FitOptions().to_dict()
        asked |= {name: value for name, value in self._options.to_dict().items() if value != usual[name]}
        words = []
        for name, value in asked.items():
            if value is None:
                continue
            words.append(f"{name}={_shown(name, value)}")
        rows = without_keys(str(given.data)) if given is not None and isinstance(given.data, str | Path) else None
        first = [repr(rows) if rows else "rows"]
        first = [repr(self.formula), *first] if self.formula else [*first, "y"] if "label" not in asked else first
        updates = sum(step.what == "update" for step in self.story)
        more = f"  # and {updates} update{'s' * (updates > 1)}, fit.update(...)" if updates else ""
        return f"fit = bc.fit({', '.join([*first, *words, f'random_state={self._seed}'])}){more}"


def _drawn(factor: Grouping) -> range:
    """Return codes of the levels that a picture shows: all, or evenly spaced ones."""
    return range(0, len(factor), max(1, -(-len(factor) // _GROUPS_DRAWN)))


def _shown(name: str, value: Any) -> str:
    """Return an argument of `fit` as code: arrays by its name alone."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_shown(name, own)}" for key, own in value.items()) + "}"
    if name in ("prior", "group_prior"):
        return f"bc.priors.{value}"
    plain = isinstance(value, str | list | tuple) and len(value) <= _LISTED
    return repr(value) if plain or not hasattr(value, "__len__") else name


def _cells(frame: Any) -> tuple[list[str], dict[str, list[str]]]:
    """Return a table's columns, and its figures as they are printed."""
    rows = zip(frame.index, rounded(frame).to_numpy().tolist(), strict=True)
    return [str(column) for column in frame.columns], {str(name): list(map(str, row)) for name, row in rows}
