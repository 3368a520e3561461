"""The pictures of a comparison and of a certificate, each drawn into a matplotlib figure that the caller gives."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import CARETLEFT, CARETRIGHT, CARETUP
from numpy.typing import NDArray
from scipy import stats

from bayescore.diagnostics.model_check import ModelCheck
from bayescore.diagnostics.report import chosen, drawing
from bayescore.diagnostics.report.drawing import Intervals
from bayescore.diagnostics.results import CertificateData, ComparisonData
from bayescore.samplers.inference_data import Posterior
from bayescore.types import FloatArray

MAX_ROWS = 60
MAX_PEAK = 4.0
"""Peaks of the reference's density to where a panel ends at most: that of draws a quarter as wide."""
_KDE_DRAWS = 1500


def forest(figure: Figure, comparison: ComparisonData) -> Axes:
    """Draw means and 94% equal-tailed intervals of each coordinate, the reference on top of each group.

    In the coordinates' own units where their sds and means are of like size; else in reference sds from the
    reference mean. More than 40 coordinates: the 40 with the largest errors; more than 8 candidates: the largest of
    each method.
    """
    order, left_out = chosen.coordinates(comparison, chosen.MAX_COORDINATES)
    names, more = chosen.candidates(comparison)
    truth = comparison.reference.flat[:, order]
    axes = drawing.intervals(
        figure,
        Intervals.of("reference", truth),
        truth.std(axis=0, ddof=1),
        [Intervals.of(name, comparison.candidates[name].flat[:, order]) for name in names],
        [comparison.reference.features[d] for d in order],
    )
    drawing.note(axes, left_out, more)
    return axes


def corrected(figure: Figure, certificate: CertificateData, posterior: Posterior) -> Axes:
    """Draw means and 94% intervals of a coreset's posterior, and below each the corrected ones.

    Both from the draws that the certificate used, so that they differ by the importance weights alone. More than 40
    coordinates: the 40 with the largest predicted errors.
    """
    table = certificate.coordinates.reset_index(drop=True)
    ranked = np.argsort(-table["mean_error_sd"].abs().to_numpy(), kind="stable").tolist()
    cut = len(ranked) > chosen.MAX_COORDINATES
    order = ranked[: chosen.MAX_COORDINATES] if cut else sorted(ranked)
    own = posterior.thinned(certificate.n_draws).reshape(-1, len(table))[:, order]
    mean, low, high = table.loc[order, ["corrected_mean", "corrected_q03", "corrected_q97"]].to_numpy().T
    label = "corrected" if certificate.trusted else "corrected, not to be trusted"
    axes = drawing.intervals(
        figure,
        Intervals.of("coreset", own),
        own.std(axis=0, ddof=1),
        [Intervals(label, mean, low, high)],
        [posterior.features[d] for d in order],
    )
    drawing.note(axes, f"the {chosen.MAX_COORDINATES} of {len(table)} with the largest predicted errors" if cut else "")
    return axes


def model_check(figure: Figure, check: ModelCheck, classes: tuple[Any, Any]) -> NDArray[Any]:
    """Draw the share of the class that is +1 against the prediction, and the predictions of rows of either class.

    Grey bars are the 94% intervals of the share that the model would give to such rows. Returns the array of Axes.
    """
    panels = drawing.canvas(figure, 8.0, 3.6).subplots(1, 2, width_ratios=(1.15, 1.0))
    left, right = panels
    names = [drawing.short(str(name), 20) for name in classes]
    what, shown = "predicted probability", f"share of {names[1]}"
    if check.replicated is not None:
        what, shown = "predicted mean", "mean of the responses"
    if check.counts:
        names, what, shown = ["no event", "events"], "predicted rate", "events by exposure"
    left.axline((0.0, 0.0), slope=1.0, color=drawing.GREY, lw=0.8, zorder=1)
    left.vlines(check.predicted, check.low, check.high, color="#c9c9c9", lw=7, zorder=2, label="by the model, 94%")
    style = {"color": drawing.COLOURS[0], "marker": "o", "ls": "none", "ms": 5, "zorder": 3}
    left.plot(check.predicted, check.observed, label="observed", **style)
    if check.replicated is not None:
        left.set(xlabel=what, ylabel=shown)
        _numbers(right, check, check.replicated)
    else:
        _classes(left, right, check, (what, shown, *names))
    for panel in panels:
        drawing.clean(panel)
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
        axes.stairs(share, edges, color=drawing.COLOURS[i], ls=drawing.DASHES[i], lw=1.4, label=name)
    axes.set(xlabel="response", ylabel="share of rows", ylim=(0.0, None))


def _classes(left: Axes, right: Axes, check: ModelCheck, words: tuple[str, ...]) -> None:
    """Set the ends of shares, and draw histograms of the predictions of rows of either class."""
    what, shown, *names = words
    top = 1.08 * float(max(check.high.max(), check.observed.max(), check.predicted.max()))
    top = top if check.counts else min(top, 1.02)
    left.set(xlabel=what, ylabel=shown, xlim=(0.0, top), ylim=(0.0, top))
    edges = np.linspace(0.0, float(check.p.max()), int(np.clip(check.ess / 10.0, 6.0, 30.0)) + 1)
    for i, own in enumerate((check.positive == 0.0, check.positive > 0.0)):
        counts, _ = np.histogram(check.p[own], edges, weights=check.weights[own])
        share = counts / max(float(counts.sum()), np.finfo(float).tiny)
        right.stairs(share, edges, color=drawing.COLOURS[i], ls=drawing.DASHES[i], lw=1.4, label=names[i])
    right.set(xlabel=what, ylabel="share of the class's rows", ylim=(0.0, None))


def marginals(figure: Figure, comparison: ComparisonData) -> NDArray[Any]:
    """Draw densities of the coordinates with the largest errors: the reference filled, candidates as lines.

    At most 12 coordinates, and of more than 8 candidates the largest of each method. Carets at the edge of a panel mark
    medians and peaks beyond it. Returns the array of Axes.
    """
    order, note = chosen.coordinates(comparison, chosen.MAX_PANELS, worst_first=True)
    names, more = chosen.candidates(comparison)
    n_columns = min(len(order), 3 if len(order) <= 9 else 4)
    n_rows = -(-len(order) // n_columns)
    panels = drawing.canvas(figure, max(2.5 * n_columns, 5.0), 1.75 * n_rows + 0.9).subplots(
        n_rows, n_columns, squeeze=False
    )
    for panel in panels.flat[len(order) :]:
        panel.set_visible(False)
    beyond = False
    for panel, d in zip(panels.flat, order, strict=False):
        beyond |= _panel(
            panel, comparison.reference.flat[:, d], {n: comparison.candidates[n].flat[:, d] for n in names}
        )
        panel.set_title(drawing.short(comparison.reference.features[d], 24), fontsize=9)
        panel.set_yticks([])
        panel.locator_params(axis="x", nbins=4)
        panel.tick_params(labelsize=8)
        drawing.clean(panel, left=False)
    marked = "◂ ▸ ▴ median or peak beyond the panel" if beyond else ""
    told = [drawing.sentence("coefficient", note), drawing.sentence(more, marked)]
    figure.supxlabel("\n".join(filter(None, told)), fontsize=9)
    figure.supylabel("posterior density", fontsize=9)
    drawing.legend(figure, panels.flat[0], len(names) + 1)
    return np.asarray(panels)


def _panel(panel: Axes, truth: FloatArray, others: dict[str, FloatArray]) -> bool:
    """Draw the densities of one coordinate; return whether a median or peak lies beyond the panel."""
    grid, height = _density(truth)
    curves = {name: _density(draws) for name, draws in others.items()}
    ends = np.array([(x[0], x[-1]) for x, _ in curves.values()])
    left, right = drawing.reach((float(grid[0]), float(grid[-1])), float(truth.std(ddof=1)), ends)
    peak = float(height.max())
    peaks = [float(y[(x >= left) & (x <= right)].max(initial=0.0)) for x, y in curves.values()]
    top = min(max(peak, *peaks), MAX_PEAK * peak)
    panel.fill_between(grid, height, color="#c9c9c9", lw=0, label="reference")
    marked = False
    for i, (name, (x, y)) in enumerate(curves.items()):
        far: Any
        colour, _, dash = drawing.look(i)
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
    axes = drawing.canvas(figure, 7.0, height).add_subplot()
    span, line = (axes.axhspan, axes.axhline) if by_size else (axes.axvspan, axes.axvline)
    span(low, floor, color=drawing.BAND, lw=0, zorder=0)
    line(floor, color=drawing.GREY, lw=0.8, zorder=1, label="noise floor")
    style: dict[str, Any] = {"lw": 1.3, "elinewidth": 1.0, "capsize": 2.5, "ms": 5}
    if by_size:
        methods = np.array([str(core["method"]) for core in about])
        for i, method in enumerate(dict.fromkeys(methods)):
            colour, marker, dash = drawing.look(i)
            own = np.flatnonzero(methods == method)
            own = own[np.argsort(np.array(sizes)[own], kind="stable")]
            axes.errorbar(
                np.array(sizes)[own], value[own], bars[:, own],
                color=colour, marker=marker, ls=dash, label=method, **style,
            )  # fmt: skip
        axes.set(xlabel="coreset size (rows)", ylabel="whitened MMD", xscale="log", yscale="log")
        axes.set_ylim(bottom=low)
        drawing.plain_ticks(axes.xaxis)
        drawing.plain_ticks(axes.yaxis)
    else:
        far, several = chosen.of_each_method(comparison, MAX_ROWS, -value)
        y = np.arange(len(far))
        axes.errorbar(value[far], y, xerr=bars[:, far], color=drawing.COLOURS[0], marker="o", ls="none", **style)
        axes.set_yticks(y, [drawing.short(names[i], 32) for i in far])
        axes.set_ylim(len(far) - 0.5, -0.5)
        if len(far) < len(value):
            told = "of each method the farthest" if several else "the farthest"
            axes.set_title(f"{len(far)} of {len(value)} candidates, {told}", fontsize=9, loc="left")
        axes.set(xlabel="whitened MMD, ± one standard error", xscale="log")
        axes.set_xlim(left=low)
        drawing.plain_ticks(axes.xaxis)
    drawing.clean(axes)
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
