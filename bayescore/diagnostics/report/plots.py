"""The pictures of a comparison and of a certificate, each drawn into a matplotlib figure that the caller gives."""

import itertools
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from bayescore.diagnostics.model_check import ModelCheck
from bayescore.diagnostics.report import drawing
from bayescore.diagnostics.report.drawing import Intervals
from bayescore.diagnostics.results import CertificateData, ComparisonData
from bayescore.samplers.inference_data import Posterior
from bayescore.types import FloatArray

MAX_COORDINATES = 40
MAX_PANELS = 12
MAX_CANDIDATES = 8
MAX_ROWS = 60
_KDE_DRAWS = 1500


def forest(figure: Figure, comparison: ComparisonData) -> Axes:
    """Draw means and 94% equal-tailed intervals of each coordinate, the reference on top of each group.

    In the coordinates' own units where their sds and means are of like size; else in reference sds from the
    reference mean. More than 40 coordinates: the 40 with the largest errors; more than 8 candidates: the first 8.
    """
    order, left_out = _coordinates_shown(comparison, MAX_COORDINATES)
    names, more = _candidates_shown(comparison)
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
    cut = len(ranked) > MAX_COORDINATES
    order = ranked[:MAX_COORDINATES] if cut else sorted(ranked)
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
    drawing.note(axes, f"the {MAX_COORDINATES} of {len(table)} with the largest predicted errors" if cut else "")
    return axes


def model_check(figure: Figure, check: ModelCheck, classes: tuple[Any, Any]) -> NDArray[Any]:
    """Draw the share of the class that is +1 against the prediction, and the predictions of rows of either class.

    Grey bars are the 94% intervals of the share that the model would give to such rows. Returns the array of Axes.
    """
    figure.set_layout_engine("constrained")
    figure.set_size_inches(8.0, 3.6)
    panels = figure.subplots(1, 2, width_ratios=(1.15, 1.0))
    left, right = panels
    names = [drawing.short(str(name), 20) for name in classes]
    left.axline((0.0, 0.0), slope=1.0, color=drawing.GREY, lw=0.8, zorder=1)
    left.vlines(check.predicted, check.low, check.high, color="#c9c9c9", lw=7, zorder=2, label="by the model, 94%")
    style = {"color": drawing.COLOURS[0], "marker": "o", "ls": "none", "ms": 5, "zorder": 3}
    left.plot(check.predicted, check.observed, label="observed", **style)
    top = min(1.08 * float(max(check.high.max(), check.observed.max(), check.predicted.max())), 1.02)
    left.set(xlabel="predicted probability", ylabel=f"share of {names[1]}", xlim=(0.0, top), ylim=(0.0, top))
    edges = np.linspace(0.0, float(check.p.max()), int(np.clip(check.ess / 10.0, 6.0, 30.0)) + 1)
    for i, own in enumerate((check.positive == 0.0, check.positive > 0.0)):
        counts, _ = np.histogram(check.p[own], edges, weights=check.weights[own])
        share = counts / max(float(counts.sum()), np.finfo(float).tiny)
        right.stairs(share, edges, color=drawing.COLOURS[i], ls=drawing.DASHES[i], lw=1.4, label=names[i])
    right.set(xlabel="predicted probability", ylabel="share of the class's rows", ylim=(0.0, None))
    for panel in panels:
        drawing.clean(panel)
        panel.tick_params(labelsize=8)
        panel.legend(frameon=False, fontsize=8)
    return np.asarray(panels)


def marginals(figure: Figure, comparison: ComparisonData) -> NDArray[Any]:
    """Draw densities of the coordinates with the largest errors: the reference filled, candidates as lines.

    At most 12 coordinates and 8 candidates; returns the array of Axes.
    """
    order, note = _coordinates_shown(comparison, MAX_PANELS, worst_first=True)
    names, more = _candidates_shown(comparison)
    n_columns = min(len(order), 3 if len(order) <= 9 else 4)
    n_rows = -(-len(order) // n_columns)
    figure.set_layout_engine("constrained")
    figure.set_size_inches(max(2.5 * n_columns, 5.0), 1.75 * n_rows + 0.9)
    panels = figure.subplots(n_rows, n_columns, squeeze=False)
    for panel in panels.flat[len(order) :]:
        panel.set_visible(False)
    for panel, d in zip(panels.flat, order, strict=False):
        truth = comparison.reference.flat[:, d]
        panel.fill_between(*_density(truth), color="#c9c9c9", lw=0, label="reference")
        for i, name in enumerate(names):
            draws = comparison.candidates[name].flat[:, d]
            dash = drawing.DASHES[i % len(drawing.DASHES)]
            style = {"color": drawing.COLOURS[i], "ls": dash, "lw": 1.2, "label": name}
            if np.ptp(draws) > 0.0:
                panel.plot(*_density(draws), **style)
            else:
                panel.axvline(draws[0], **style)
        panel.set_title(drawing.short(comparison.reference.features[d], 24), fontsize=9)
        panel.set_yticks([])
        panel.set_ylim(bottom=0.0)
        panel.locator_params(axis="x", nbins=4)
        panel.tick_params(labelsize=8)
        drawing.clean(panel, left=False)
    figure.supxlabel(drawing.sentence("coefficient", note, more), fontsize=9)
    figure.supylabel("posterior density", fontsize=9)
    drawing.legend(figure, panels.flat[0], len(names) + 1)
    return np.asarray(panels)


def mmd(figure: Figure, comparison: ComparisonData) -> Axes:
    """Draw the whitened MMD with its standard error on a log scale; the grey band is the noise floor.

    Against coreset size, a line for each method, where all candidates are coresets of more than one size; else a
    row for each candidate, at most the 60 farthest.
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
    figure.set_layout_engine("constrained")
    figure.set_size_inches(7.0, 3.6 if by_size else max(1.8, 1.0 + 0.28 * min(len(value), MAX_ROWS)))
    axes = figure.add_subplot()
    span, line = (axes.axhspan, axes.axhline) if by_size else (axes.axvspan, axes.axvline)
    span(low, floor, color=drawing.BAND, lw=0, zorder=0)
    line(floor, color=drawing.GREY, lw=0.8, zorder=1, label="noise floor")
    style: dict[str, Any] = {"lw": 1.3, "elinewidth": 1.0, "capsize": 2.5, "ms": 5}
    if by_size:
        methods = np.array([str(core["method"]) for core in about])
        looks = zip(itertools.cycle(drawing.COLOURS), itertools.cycle(drawing.MARKERS), itertools.cycle(drawing.DASHES))
        for method, (colour, marker, dash) in zip(dict.fromkeys(methods), looks, strict=False):
            chosen = np.flatnonzero(methods == method)
            chosen = chosen[np.argsort(np.array(sizes)[chosen], kind="stable")]
            axes.errorbar(
                np.array(sizes)[chosen], value[chosen], bars[:, chosen],
                color=colour, marker=marker, ls=dash, label=method, **style,
            )  # fmt: skip
        axes.set(xlabel="coreset size (rows)", ylabel="whitened MMD", xscale="log", yscale="log")
        axes.set_ylim(bottom=low)
        drawing.plain_ticks(axes.xaxis)
        drawing.plain_ticks(axes.yaxis)
    else:
        far = np.sort(np.argsort(-value, kind="stable")[:MAX_ROWS])
        y = np.arange(len(far))
        axes.errorbar(value[far], y, xerr=bars[:, far], color=drawing.COLOURS[0], marker="o", ls="none", **style)
        axes.set_yticks(y, [drawing.short(names[i], 32) for i in far])
        axes.set_ylim(len(far) - 0.5, -0.5)
        if len(far) < len(value):
            axes.set_title(f"the {len(far)} of {len(value)} candidates farthest away", fontsize=9, loc="left")
        axes.set(xlabel="whitened MMD, ± one standard error", xscale="log")
        axes.set_xlim(left=low)
        drawing.plain_ticks(axes.xaxis)
    drawing.clean(axes)
    axes.legend(frameon=False, fontsize=9)
    return axes


def _coordinates_shown(comparison: ComparisonData, limit: int, *, worst_first: bool = False) -> tuple[list[int], str]:
    table = comparison.coordinates
    names = list(comparison.reference.features)
    # rows of `coordinates` are candidate by candidate, features in the reference's order
    size = table[["mean_error_sd", "sd_error"]].abs().max(axis=1).to_numpy().reshape(-1, len(names)).max(axis=0)
    ranked = np.argsort(-size, kind="stable").tolist()
    if len(names) <= limit:
        return (ranked if worst_first else list(range(len(names)))), ""
    return ranked[:limit], f"the {limit} of {len(names)} coordinates with the largest errors"


def _candidates_shown(comparison: ComparisonData) -> tuple[list[str], str]:
    names = list(comparison.candidates)
    more = f"the first {MAX_CANDIDATES} of {len(names)} candidates" if len(names) > MAX_CANDIDATES else ""
    return names[:MAX_CANDIDATES], more


def _density(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    kept = draws[np.linspace(0, len(draws) - 1, min(len(draws), _KDE_DRAWS)).astype(np.int64)]
    if np.ptp(kept) == 0.0:
        kept = draws
    low, high = np.quantile(draws, [0.001, 0.999])
    margin = 0.08 * (high - low)
    grid = np.linspace(low - margin, high + margin, 160)
    return grid, stats.gaussian_kde(kept)(grid)
