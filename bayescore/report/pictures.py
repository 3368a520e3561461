"""The pictures of a comparison and of a certificate, each drawn into a matplotlib figure that the caller gives.

The pictures of group effects: caterpillar and shrinkage plots, drawn into a figure that the caller gives.

What the pictures share: colours, intervals row by row, axes that far draws do not stretch, legends and ticks.

Colours are Okabe and Ito's, told apart by colour-blind readers; markers and dashes tell them apart in grey.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.markers import CARETLEFT, CARETRIGHT, CARETUP
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray
from scipy import stats

from bayescore.diagnostics.model_check import Frequencies, ModelCheck
from bayescore.diagnostics.results import CertificateData, ComparisonData
from bayescore.families.family import FAMILIES, find_family
from bayescore.limits import ENDS, PROB
from bayescore.numerics.chains import evenly_spaced
from bayescore.report import page
from bayescore.samplers.posterior import Posterior
from bayescore.samplers.summaries import GroupEffects
from bayescore.text import number
from bayescore.types import FloatArray, IntArray
from bayescore.validation import DataError

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A5195", "#8C6D1F")


MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")  # none that points left or right: that marks what is beyond an axis


DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (2, 1)), (0, (6, 1.5, 1, 1.5)))


INK = "#222222"


GREY = "#9a9a9a"


BAND = "#e6e6e6"


# raw units read best unless one coordinate is this many times wider, or lies this many sds away
_MAX_SPREAD = 15.0


FAR = 5.0
"""Sds of the base from its interval to where an axis ends at most: the interval, 4 sds, keeps a quarter of the axis."""


@dataclass(frozen=True, eq=False)
class Intervals:
    """One posterior of a forest: means and ends of the 95% intervals of the coordinates, each of shape (D,)."""

    name: str
    mean: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, name: str, draws: FloatArray) -> "Intervals":
        """Return the means and equal-tailed intervals of draws of shape (S, D)."""
        low, high = np.quantile(draws, ENDS, axis=0)
        return cls(name, draws.mean(axis=0), low, high)


def intervals(figure: Figure, base: Intervals, scale: FloatArray, others: list[Intervals], features: list[str]) -> Axes:
    """Draw the intervals of each coordinate, `base` in black on top of each group.

    In the coordinates' own units where the sds `scale` of `base`, shape (D,), and its means are of like size; else
    in those sds from its mean. Carets at the edge mark what goes on beyond the axis, see `reach`.
    """
    raw = scale.max() <= _MAX_SPREAD * scale.min() and np.ptp(base.mean) <= 4.0 * _MAX_SPREAD * float(np.median(scale))
    shift, unit = (np.zeros_like(scale), np.ones_like(scale)) if raw else (base.mean, scale)
    step = 1.0 / (len(others) + 2)
    axes = canvas(figure, 8.0, max(2.6, 1.3 + len(features) * max(0.3, 0.085 * (len(others) + 2)))).add_subplot()
    rows = np.arange(len(features), dtype=np.float64)
    for row in range(0, len(features), 2):
        axes.axhspan(row - 0.5, row + 0.5, color="#f4f4f4", lw=0, zorder=0)
    looks = [(INK, "o", 2.2), *((*look(i)[:2], 1.3) for i in range(len(others)))]
    ends = np.array([[(one.low - shift) / unit, (one.high - shift) / unit] for one in (base, *others)])
    left, right = reach((ends[0, 0].min(), ends[0, 1].max()), float((scale / unit).max()), ends[1:])
    for i, (one, (colour, marker, width)) in enumerate(zip([base, *others], looks, strict=True)):
        y, (low, high) = rows - 0.5 + step * (i + 1), ends[i]
        axes.hlines(y, np.clip(low, left, right), np.clip(high, left, right), color=colour, lw=width, zorder=2)
        mean = (one.mean - shift) / unit
        shown = np.where((mean >= left) & (mean <= right), mean, np.nan)
        axes.plot(shown, y, color=colour, marker=marker, ls="none", ms=4.5, zorder=3)
        axes.plot([], [], color=colour, marker=marker, lw=width, ms=4.5, label=one.name)
        for beyond, edge, caret in ((low < left, left, CARETLEFT), (high > right, right, CARETRIGHT)):
            if beyond.any():
                place = np.full(int(beyond.sum()), edge)
                axes.plot(place, y[beyond], color=colour, marker=caret, ls="none", ms=5.5, zorder=4)
    axes.axvline(0.0, color=GREY, lw=0.7, zorder=1)
    margin = 0.03 * (right - left)
    axes.set_xlim(left - margin, right + margin)
    axes.set_ylim(len(features) - 0.5, -0.5)
    axes.set_yticks(rows, [short(name, 28) for name in features])
    axes.tick_params(axis="y", length=0)
    unit_name = " of the coefficient" if raw else f", in {base.name} sds from the {base.name} mean"
    words = [f"mean and {PROB:.0%} interval{unit_name}"]
    if (ends[:, 0] < left).any() or (ends[:, 1] > right).any():
        far = max(float((np.abs(one.mean - base.mean) / scale).max()) for one in others)
        words.append(f"◂ ▸ beyond the axis; means lie up to {number(far, 2)} {base.name} sds away")
    axes.set_xlabel("\n".join(words))
    clean(axes, left=False)
    legend(figure, axes, len(others) + 1)
    return axes


def canvas(figure: Figure, width: float, height: float) -> Figure:
    """Return the figure with its size in inches and room for what stands around its axes."""
    figure.set(layout_engine="constrained", size_inches=(width, height))
    return figure


def look(i: int) -> tuple[str, str, Any]:
    """Return colour, marker and dash of the posterior at place `i`; a colour comes again with others of these."""
    again = i + i // len(COLOURS)
    return COLOURS[i % len(COLOURS)], MARKERS[again % len(MARKERS)], DASHES[again % len(DASHES)]


def reach(base: tuple[float, float], sd: float, ends: FloatArray) -> tuple[float, float]:
    """Return the ends of an axis that shows all of `base`, and of others what is within `FAR` sds of it.

    `sd` is that of the base. `ends`, shape (n, 2) or (n, 2, D), has those of the others; one that lies wholly beyond
    does not stretch the axis at all.
    """
    low, high = ends[:, 0].ravel(), ends[:, 1].ravel()
    least, most = base[0] - FAR * sd, base[1] + FAR * sd
    near = (low <= most) & (high >= least)
    return max(least, float(low[near].min(initial=base[0]))), min(most, float(high[near].max(initial=base[1])))


def short(name: str, length: int) -> str:
    """Return `name` cut to `length` characters, without matplotlib's mathematics."""
    cut = name if len(name) <= length else name[: length - 1] + "…"
    return cut.replace("$", r"\$")


def clean(axes: Axes, *, left: bool = True) -> None:
    """Leave the axes that carry numbers."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines["left"].set_visible(left)


def legend(figure: Figure, axes: Axes, n_entries: int) -> None:
    """Put the legend of `axes` above the picture."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, [short(label, 28) for label in labels], loc="outside upper left", ncols=min(n_entries, 5),
        frameon=False, fontsize=9,
    )  # fmt: skip


def note(axes: Axes, *parts: str) -> None:
    """Write what is left out above the axes."""
    axes.set_title(sentence(*parts), fontsize=9, loc="left", color="#555555")


def plain_ticks(axis: Axis) -> None:
    """Label a logarithmic axis of a few decades with plain numbers."""
    low, high = axis.get_view_interval()
    if high > 1e4 * low:  # powers of ten, matplotlib's default, read better over many decades
        return
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value, 1)))
    axis.set_minor_formatter(NullFormatter())


def sentence(*parts: str) -> str:
    """Join the parts that say something."""
    return "; ".join(part for part in parts if part)


MAX_ROWS = 60


MAX_PEAK = 4.0
"""Peaks of the reference's density to where a panel ends at most: that of draws a quarter as wide."""


_KDE_DRAWS = 1500


def forest(figure: Figure, comparison: ComparisonData) -> Axes:
    """Draw means and 95% equal-tailed intervals of each coordinate, the reference on top of each group.

    In the coordinates' own units where their sds and means are of like size; else in reference sds from the
    reference mean. More than 40 coordinates: the 40 with the largest errors; more than 8 candidates: the largest of
    each method.
    """
    order, left_out = page.coordinates(comparison, page.MAX_COORDINATES)
    names, more = page.candidates(comparison)
    truth = comparison.reference.flat[:, order]
    others = [Intervals.of(name, comparison.candidates[name].flat[:, order]) for name in names]
    base, scale = Intervals.of("reference", truth), truth.std(axis=0, ddof=1)
    axes = intervals(figure, base, scale, others, [comparison.reference.features[d] for d in order])
    note(axes, left_out, more)
    return axes


def corrected(figure: Figure, certificate: CertificateData, posterior: Posterior) -> Axes:
    """Draw means and 95% intervals of a coreset's posterior, and below each the corrected ones.

    Both from the draws that the certificate used, so that they differ by the importance weights alone. More than 40
    coordinates: the 40 with the largest predicted errors.
    """
    table = certificate.coordinates.reset_index(drop=True)
    ranked = np.argsort(-table["mean_error_sd"].abs().to_numpy(), kind="stable").tolist()
    cut = len(ranked) > page.MAX_COORDINATES
    order = ranked[: page.MAX_COORDINATES] if cut else sorted(ranked)
    draws = posterior.thinned(certificate.n_draws).reshape(-1, len(table))[:, order]
    mean, low, high = table.loc[order, ["corrected_mean", "corrected_2.5%", "corrected_97.5%"]].to_numpy().T
    label = "corrected" if certificate.trusted else "corrected, not to be trusted"
    base, scale, others = Intervals.of("coreset", draws), draws.std(axis=0, ddof=1), [Intervals(label, mean, low, high)]
    axes = intervals(figure, base, scale, others, [posterior.features[d] for d in order])
    note(axes, f"the {page.MAX_COORDINATES} of {len(table)} with the largest predicted errors" if cut else "")
    return axes


def model_check(figure: Figure, check: ModelCheck, classes: tuple[Any, Any]) -> NDArray[Any]:
    """Draw the share of the class that is +1 against the prediction, and the predictions of rows of either class.

    Grey bars are the 95% intervals of the share that the model would give to such rows. Of whole counts a rootogram
    stands in place of the classes. Returns the array of Axes.

    Reference: Kleiber and Zeileis (2016), Visualizing count data regressions using rootograms, The American
    Statistician 70.
    """
    panels = canvas(figure, 8.0, 3.6).subplots(1, 2, width_ratios=(1.15, 1.0))
    left, right = panels
    names = [short(str(name), 20) for name in classes]
    what, shown = "predicted probability", f"share of {names[1]}"
    if check.replicated is not None:
        what, shown = "predicted mean", "mean of the responses"
    if check.counts:
        names, what, shown = ["no event", "events"], "predicted rate", "events by exposure"
    left.axline((0.0, 0.0), slope=1.0, color=GREY, lw=0.8, zorder=1)
    left.vlines(check.predicted, check.low, check.high, color="#c9c9c9", lw=7, zorder=2, label="by the model, 95%")
    style = {"color": COLOURS[0], "marker": "o", "ls": "none", "ms": 5, "zorder": 3}
    left.plot(check.predicted, check.observed, label="observed", **style)
    if check.replicated is not None:
        left.set(xlabel=what, ylabel=shown)
        _numbers(right, check, check.replicated)
    else:
        _ends(left, check, what, shown)
        if check.frequencies is None:
            _classes(right, check, what, names)
        else:
            _rootogram(right, check.frequencies)
    for panel in panels:
        clean(panel)
        panel.tick_params(labelsize=8)
        panel.legend(frameon=False, fontsize=8)
    return np.asarray(panels)


def _numbers(axes: Axes, check: ModelCheck, replicated: FloatArray) -> None:
    """Draw histograms of responses that are numbers, and of those that the model gives."""
    low, high = np.quantile(np.concatenate([check.positive, replicated]), [0.001, 0.999]).tolist()
    edges = np.linspace(low, high, int(np.clip(check.ess / 10.0, 6.0, 40.0)) + 1)
    for i, (name, values) in enumerate((("observed", check.positive), ("by the model", replicated))):
        counts, _ = np.histogram(values, edges, weights=check.weights)
        share = counts / float(check.weights.sum())
        axes.stairs(share, edges, color=COLOURS[i], ls=DASHES[i], lw=1.4, label=name)
    axes.set(xlabel="response", ylabel="share of rows", ylim=(0.0, None))


def _ends(axes: Axes, check: ModelCheck, what: str, shown: str) -> None:
    """Set the ends of shares and of predictions."""
    top = 1.08 * float(max(check.high.max(), check.observed.max(), check.predicted.max()))
    top = top if check.counts else min(top, 1.02)
    axes.set(xlabel=what, ylabel=shown, xlim=(0.0, top), ylim=(0.0, top))


def _rootogram(axes: Axes, frequencies: Frequencies) -> None:
    """Draw how many rows have each count on a scale of roots, observed and with the intervals of the model's sets."""
    middle = 0.5 * (frequencies.edges[1:] + frequencies.edges[:-1])
    axes.bar(middle, frequencies.observed, 0.85 * np.diff(frequencies.edges), color=COLOURS[4], label="observed")
    axes.vlines(middle, frequencies.low, frequencies.high, color=INK, lw=2.0, label="by the model, 95%")
    axes.plot(middle, frequencies.expected, color=INK, marker="o", ls="none", ms=3.0)
    axes.set_yscale("function", functions=(lambda y: np.sqrt(np.maximum(y, 0.0)), np.square))
    axes.set(xlabel="count", ylabel="rows, on a scale of roots", ylim=(0.0, None))


MAX_PARTS = 60


def parts_check(figure: Figure, check: ModelCheck, names: list[str]) -> Axes:
    """Draw for each part of the rows the prediction, what was observed, and the 95% interval that the model would give.

    Of more than 60 parts those 60 are shown whose observations are farthest from the prediction, in widths of the
    intervals.
    """
    order = np.arange(len(names))
    if len(order) > MAX_PARTS:
        far = np.abs(check.observed - check.predicted) / np.maximum(check.high - check.low, np.finfo(float).tiny)
        order = np.sort(np.argsort(-far, kind="stable")[:MAX_PARTS])
    axes = canvas(figure, 7.0, max(2.0, 1.2 + 0.24 * len(order))).add_subplot()
    y = np.arange(len(order), dtype=np.float64)
    axes.hlines(y, check.low[order], check.high[order], color="#c9c9c9", lw=7, label="by the model, 95%")
    axes.plot(check.predicted[order], y, color=INK, marker="|", ls="none", ms=9, label="predicted")
    axes.plot(check.observed[order], y, color=COLOURS[0], marker="o", ls="none", ms=5, label="observed")
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_yticks(y, [short(names[k], 28) for k in order])
    clean(axes)
    legend(figure, axes, 3)
    return axes


def _classes(axes: Axes, check: ModelCheck, what: str, names: list[str]) -> None:
    """Draw histograms of the predictions of rows of either class."""
    edges = np.linspace(0.0, float(check.p.max()), int(np.clip(check.ess / 10.0, 6.0, 30.0)) + 1)
    for i, rows in enumerate((check.positive == 0.0, check.positive > 0.0)):
        counts, _ = np.histogram(check.p[rows], edges, weights=check.weights[rows])
        share = counts / max(float(counts.sum()), np.finfo(float).tiny)
        axes.stairs(share, edges, color=COLOURS[i], ls=DASHES[i], lw=1.4, label=names[i])
    axes.set(xlabel=what, ylabel="share of the class's rows", ylim=(0.0, None))


def marginals(figure: Figure, comparison: ComparisonData) -> NDArray[Any]:
    """Draw densities of the coordinates with the largest errors: the reference filled, candidates as lines.

    At most 12 coordinates, and of more than 8 candidates the largest of each method. Carets at the edge of a panel mark
    medians and peaks beyond it. Returns the array of Axes.
    """
    order, note = page.coordinates(comparison, page.MAX_PANELS, worst_first=True)
    names, more = page.candidates(comparison)
    n_columns = min(len(order), 3 if len(order) <= 9 else 4)
    n_rows = -(-len(order) // n_columns)
    panels = canvas(figure, max(2.5 * n_columns, 5.0), 1.75 * n_rows + 0.9).subplots(n_rows, n_columns, squeeze=False)
    for panel in panels.flat[len(order) :]:
        panel.set_visible(False)
    beyond = False
    for panel, d in zip(panels.flat, order, strict=False):
        beyond |= _panel(
            panel, comparison.reference.flat[:, d], {n: comparison.candidates[n].flat[:, d] for n in names}
        )
        panel.set_title(short(comparison.reference.features[d], 24), fontsize=9)
        panel.set_yticks([])
        panel.locator_params(axis="x", nbins=4)
        panel.tick_params(labelsize=8)
        clean(panel, left=False)
    marked = "◂ ▸ ▴ median or peak beyond the panel" if beyond else ""
    words = [sentence("coefficient", note), sentence(more, marked)]
    figure.supxlabel("\n".join(filter(None, words)), fontsize=9)
    figure.supylabel("posterior density", fontsize=9)
    legend(figure, panels.flat[0], len(names) + 1)
    return np.asarray(panels)


def _panel(panel: Axes, truth: FloatArray, others: dict[str, FloatArray]) -> bool:
    """Draw the densities of one coordinate; return whether a median or peak lies beyond the panel."""
    grid, height = _density(truth)
    curves = {name: _density(draws) for name, draws in others.items()}
    ends = np.array([(x[0], x[-1]) for x, _ in curves.values()])
    left, right = reach((float(grid[0]), float(grid[-1])), float(truth.std(ddof=1)), ends)
    peak = float(height.max())
    peaks = [float(y[(x >= left) & (x <= right)].max(initial=0.0)) for x, y in curves.values()]
    top = min(max(peak, *peaks), MAX_PEAK * peak)
    panel.fill_between(grid, height, color="#c9c9c9", lw=0, label="reference")
    marked = False
    for i, (name, (x, y)) in enumerate(curves.items()):
        far: Any
        colour, _, dash = look(i)
        style: dict[str, Any] = {"color": colour, "ls": dash, "lw": 1.2, "label": name}
        if y.any():
            panel.plot(x, y, **style)
        else:
            panel.axvline(x[0], **style)
        middle, summit, level = float(np.median(others[name])), float(x[y.argmax()]), (i + 0.5) / len(curves)
        if not left <= middle <= right:
            far, place, frame = (CARETLEFT, CARETRIGHT)[middle > right], (float(middle > right), level), panel.transAxes
        elif y.max() > top and left <= summit <= right:
            far, place, frame = CARETUP, (summit, 1.0), panel.get_xaxis_transform()
        else:
            continue
        panel.scatter(*place, s=30.0, lw=0.0, color=colour, marker=far, transform=frame, clip_on=False, zorder=3)
        marked = True
    panel.set(xlim=(left, right), ylim=(0.0, 1.03 * top))
    return marked


def mmd(figure: Figure, comparison: ComparisonData) -> Axes:
    """Draw the whitened MMD with its standard error on a log scale; the grey band is the noise floor.

    Against coreset size, a line for each method, where all candidates are coresets of more than one size; else a
    row for each candidate, of more than 60 the farthest of each method.
    """
    names = list(comparison.candidates)
    rows = comparison.metrics[["mmd_whitened", "mmd_whitened_mcse"]].to_numpy()
    (value, error), floor = rows[:-1].T, float(rows[-1, 0])
    about = [candidate.coreset for candidate in comparison.candidates.values()]
    sizes = [int(core.get("size", 0)) for core in about]
    by_size = (
        all(size > 0 and "method" in core for size, core in zip(sizes, about, strict=True)) and len(set(sizes)) > 1
    )
    low = 0.5 * min(floor, float(value.min())) or 1e-6
    bars = np.array([np.clip(value - low, 0.0, error), error])
    height = 3.6 if by_size else max(1.8, 1.0 + 0.28 * min(len(value), MAX_ROWS))
    axes = canvas(figure, 7.0, height).add_subplot()
    span, line = (axes.axhspan, axes.axhline) if by_size else (axes.axvspan, axes.axvline)
    span(low, floor, color=BAND, lw=0, zorder=0)
    line(floor, color=GREY, lw=0.8, zorder=1, label="noise floor")
    style: dict[str, Any] = {"lw": 1.3, "elinewidth": 1.0, "capsize": 2.5, "ms": 5}
    if by_size:
        methods = np.array([str(core["method"]) for core in about])
        for i, method in enumerate(dict.fromkeys(methods)):
            colour, marker, dash = look(i)
            places = np.flatnonzero(methods == method)
            places = places[np.argsort(np.array(sizes)[places], kind="stable")]
            axes.errorbar(
                np.array(sizes)[places], value[places], bars[:, places],
                color=colour, marker=marker, ls=dash, label=method, **style,
            )  # fmt: skip
        axes.set(xlabel="coreset size (rows)", ylabel="whitened MMD", xscale="log", yscale="log")
        axes.set_ylim(bottom=low)
        plain_ticks(axes.xaxis)
        plain_ticks(axes.yaxis)
    else:
        far, several = page.of_each_method(comparison, MAX_ROWS, -value)
        y = np.arange(len(far))
        axes.errorbar(value[far], y, xerr=bars[:, far], color=COLOURS[0], marker="o", ls="none", **style)
        axes.set_yticks(y, [short(names[i], 32) for i in far])
        axes.set_ylim(len(far) - 0.5, -0.5)
        if len(far) < len(value):
            words = "of each method the farthest" if several else "the farthest"
            axes.set_title(f"{len(far)} of {len(value)} candidates, {words}", fontsize=9, loc="left")
        axes.set(xlabel="whitened MMD, ± one standard error", xscale="log")
        axes.set_xlim(left=low)
        plain_ticks(axes.xaxis)
    clean(axes)
    axes.legend(frameon=False, fontsize=9)
    return axes


def _density(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return places and the density there; two places of density 0 for draws that are all the same."""
    kept = draws[np.linspace(0, len(draws) - 1, min(len(draws), _KDE_DRAWS)).astype(np.int64)]
    if np.ptp(kept) == 0.0:
        kept = draws
    if np.ptp(kept) == 0.0:
        return kept[:2], np.zeros(len(kept[:2]))
    low, high = np.quantile(draws, [0.001, 0.999])
    margin = 0.08 * (high - low)
    grid = np.linspace(low - margin, high + margin, 160)
    return grid, stats.gaussian_kde(kept)(grid)


MAX_NAMED = 60  # groups that have their names at the axis


EXTREMES = 5  # named at either end where groups are more


MAX_BARS = 2000  # intervals, which are then thinner than a pixel


_AREAS = (12.0, 150.0)  # points squared, of the marker of a group of few rows and of the most


_ETA = np.linspace(-40.0, 40.0, 80_001)  # linear predictors among which that of a share is found


def caterpillar(figure: Figure, effects: GroupEffects) -> Axes:
    """Draw mean and 95% equal-tailed interval of each group's effect, sorted by mean, the largest on top.

    Intervals that leave 0 out are dark, others grey. More than 60 groups: the extremes have names; more than 2,000:
    2,000 of them, spread evenly over the ranks.
    """
    order = np.argsort(-effects.draws.mean(axis=0), kind="stable")
    n_groups = len(order)
    if n_groups > MAX_BARS:
        order = order[evenly_spaced(n_groups, MAX_BARS)]
    shown = Intervals.of(effects.factor, effects.draws[:, order])
    named, y = n_groups <= MAX_NAMED, np.arange(len(order), dtype=np.float64)
    axes = canvas(figure, 8.0, max(2.4, 1.1 + 0.21 * n_groups) if named else 6.5).add_subplot()
    width, size = (2.0, 4.5) if named else (float(np.clip(300.0 / len(order), 0.3, 2.0)), 2.0)
    without_zero = (shown.low > 0.0) | (shown.high < 0.0)
    for which, colour, label in ((without_zero, INK, "interval without 0"), (~without_zero, GREY, "interval with 0")):
        axes.hlines(y[which], shown.low[which], shown.high[which], color=colour, lw=width, zorder=2)
        axes.plot(shown.mean[which], y[which], color=colour, marker="o", ls="none", ms=size, zorder=3)
        axes.plot([], [], color=colour, marker="o", lw=2.0, ms=4.5, label=label)
    axes.axvline(0.0, color=GREY, lw=0.8, ls=DASHES[1], zorder=1)
    axes.set_ylim(len(order) - 0.5, -0.5)
    names = [short(str(effects.levels[g]), 28) for g in order]
    if named:
        axes.set_yticks(y, names)
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{n_groups:,} groups, sorted")
        _name_extremes(axes, shown, names)
    axes.tick_params(axis="y", length=0)
    factor = short(effects.factor, 28)
    axes.set_xlabel(f"effect of {factor}: mean and {PROB:.0%} interval, {effects.scale}")
    clean(axes, left=False)
    legend(figure, axes, 2)
    note(axes, f"{len(order):,} of {n_groups:,} groups, evenly by rank" if len(order) < n_groups else "")
    return axes


def _name_extremes(axes: Axes, shown: Intervals, names: list[str]) -> None:
    """Write the names of the first and the last groups into the empty corners, beside the picture's ends."""
    last = len(names) - 1
    for i in range(EXTREMES):
        for row, end, x, y, side in (
            (i, shown.low[i], 0.02, 0.97 - 0.045 * i, "left"),
            (last - i, shown.high[last - i], 0.98, 0.03 + 0.045 * i, "right"),
        ):
            axes.annotate(
                names[row], (end, row), (x, y), textcoords="axes fraction", fontsize=8, ha=side, va="center",
                arrowprops={"arrowstyle": "-", "color": GREY, "lw": 0.6, "shrinkB": 1.0},
            )  # fmt: skip


def shrinkage(figure: Figure, effects: GroupEffects, shares: pd.DataFrame) -> Axes:
    """Draw the effect of each group against what its rows alone say: partial pooling beside none and complete pooling.

    Across, log odds (probit: the probit) of the group's share of +1, half a row of either label added, minus that of
    all rows; up, mean and 95% interval of its effect. The area of a point grows with the group's rows. `shares` is
    indexed by group, with the `share` of +1 and the `weight` of its rows.
    """
    share, weight = _shares(effects, shares)
    raw = _raw(effects, share, weight)
    shown = Intervals.of(effects.factor, effects.draws)
    axes = canvas(figure, 7.0, 5.6).add_subplot()
    low, high = float(raw.min()), float(raw.max())
    margin = 0.04 * (high - low) or 0.1
    ends = [low - margin, high + margin]
    axes.plot(ends, ends, color=INK, lw=1.0, ls=DASHES[1], label="no pooling", zorder=1)
    axes.axhline(0.0, color=INK, lw=1.0, ls=DASHES[2], label="complete pooling", zorder=1)
    bars = np.array([shown.mean - shown.low, shown.high - shown.mean])
    thin = float(np.clip(100.0 / len(raw), 0.2, 1.2))
    axes.errorbar(raw, shown.mean, bars, color=GREY, ls="none", elinewidth=thin, zorder=2)
    smallest, largest = _AREAS
    axes.scatter(
        raw, shown.mean, smallest + (largest - smallest) * weight / weight.max() * min(1.0, 60.0 / len(raw)),
        color=COLOURS[0], edgecolor="white", lw=0.4, zorder=3, label="partial pooling (area: rows)",
    )  # fmt: skip
    axes.set_xlim(*ends)
    span = float(max(shown.high.max(), -shown.low.min(), 1e-9)) * 1.06
    axes.set_ylim(max(-span, float(shown.low.min()) * 1.3), min(span, float(shown.high.max()) * 1.3))
    factor = short(effects.factor, 28)
    family = find_family(effects.family)
    of_what = "" if family is not None and family.counts else " of the share"
    axes.set_xlabel(f"{effects.scale}{of_what} in each {factor}, minus that in all rows")
    axes.set_ylabel(f"effect of {factor}: mean and {PROB:.0%} interval, {effects.scale}")
    clean(axes)
    legend(figure, axes, 3)
    return axes


def _shares(effects: GroupEffects, shares: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Return share and weight in the order of the effects."""
    place: IntArray = shares.index.get_indexer(pd.Index(effects.levels))
    if (place < 0).any():
        missing = effects.levels[int((place < 0).argmax())]
        raise DataError(f"shares has no row for the group {missing!r}; index it by the levels of the effects")
    share, weight = (shares[name].to_numpy(dtype=np.float64)[place] for name in ("share", "weight"))
    return np.where(weight == 0.0, 0.0, share), weight  # a level without rows has no share


def _raw(effects: GroupEffects, share: FloatArray, weight: FloatArray) -> FloatArray:
    """Return linear predictors of shares, half a row of either label added, minus that of all rows."""
    if (family := find_family(effects.family)) is None:
        raise DataError(
            "idata does not tell its family, by which shares become linear predictors; set "
            f"idata.posterior.attrs['family'] to one of {', '.join(map(repr, FAMILIES))}"
        )
    overall = float(share @ weight / weight.sum())
    p = np.append((share * weight + 0.5) / (weight + 1.0), overall)
    if family.counts:  # sides are events and exposure
        rate = overall / (1.0 - overall)
        events, half = share * weight, 0.5 * rate if family.amounts else 0.5
        return np.asarray(np.log((events + half) / (weight - events + half / rate)) - np.log(rate))
    eta = np.interp(p, family.mean(_ETA), _ETA)
    return np.asarray(eta[:-1] - eta[-1])
