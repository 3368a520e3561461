"""Three pictures of a comparison, each drawn into a matplotlib figure that the caller gives.

Colours are Okabe and Ito's, told apart by colour-blind readers; markers and dashes tell them apart in grey.
"""

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray
from scipy import stats

from bayescore.diagnostics.wording import number
from bayescore.types import FloatArray

if TYPE_CHECKING:
    from bayescore.diagnostics.compare import Comparison

MAX_COORDINATES = 40
MAX_PANELS = 12
MAX_CANDIDATES = 8
MAX_ROWS = 60
INTERVAL = 0.94

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A5195", "#8C6D1F")
_MARKERS = ("o", "s", "^", "D", "v", "<", ">", "p")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (2, 1)), (0, (6, 1.5, 1, 1.5)))
_INK = "#222222"
_GREY = "#9a9a9a"
_BAND = "#e6e6e6"
_KDE_DRAWS = 1500
# raw units read best unless one coordinate is this many times wider, or lies this many sds away
_MAX_SPREAD = 15.0


def forest(figure: Figure, comparison: "Comparison") -> Axes:
    """Draw means and 94% equal-tailed intervals of each coordinate, the reference on top of each group.

    In the coordinates' own units where their sds and means are of like size; else in reference sds from the
    reference mean. More than 40 coordinates: the 40 with the largest errors; more than 8 candidates: the first 8.
    """
    order, note = _coordinates_shown(comparison, MAX_COORDINATES)
    names, more = _candidates_shown(comparison)
    truth = comparison.reference.flat[:, order]
    center, scale = truth.mean(axis=0), truth.std(axis=0, ddof=1)
    raw = scale.max() <= _MAX_SPREAD * scale.min() and np.ptp(center) <= 4.0 * _MAX_SPREAD * float(np.median(scale))
    shift, unit = (0.0, 1.0) if raw else (center, scale)
    step = 1.0 / (len(names) + 2)
    figure.set_layout_engine("constrained")
    figure.set_size_inches(8.0, max(2.6, 1.3 + len(order) * max(0.3, 0.085 * (len(names) + 2))))
    axes = figure.add_subplot()
    rows = np.arange(len(order), dtype=np.float64)
    for row in range(0, len(order), 2):
        axes.axhspan(row - 0.5, row + 0.5, color="#f4f4f4", lw=0, zorder=0)
    series = [("reference", truth, _INK, "o", 2.2)]
    for i, name in enumerate(names):
        draws = comparison.candidates[name].flat[:, order]
        series.append((name, draws, _COLOURS[i], _MARKERS[i], 1.3))
    for i, (name, draws, colour, marker, width) in enumerate(series):
        low, high = np.quantile((draws - shift) / unit, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2], axis=0)
        y = rows - 0.5 + step * (i + 1)
        axes.hlines(y, low, high, color=colour, lw=width, zorder=2)
        mean = ((draws - shift) / unit).mean(axis=0)
        axes.plot(mean, y, color=colour, marker=marker, ls="none", ms=4.5, zorder=3)
        axes.plot([], [], color=colour, marker=marker, lw=width, ms=4.5, label=name)
    axes.axvline(0.0, color=_GREY, lw=0.7, zorder=1)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_yticks(rows, [_short(comparison.reference.features[d], 28) for d in order])
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(
        f"mean and {INTERVAL:.0%} interval of the coefficient"
        if raw
        else f"mean and {INTERVAL:.0%} interval, in reference sds from the reference mean"
    )
    _clean(axes, left=False)
    _legend(figure, axes, len(series))
    axes.set_title(_sentence("", note, more), fontsize=9, loc="left", color="#555555")
    return axes


def marginals(figure: Figure, comparison: "Comparison") -> NDArray[Any]:
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
            style = {"color": _COLOURS[i], "ls": _DASHES[i % len(_DASHES)], "lw": 1.2, "label": name}
            if np.ptp(draws) > 0.0:
                panel.plot(*_density(draws), **style)
            else:
                panel.axvline(draws[0], **style)
        panel.set_title(_short(comparison.reference.features[d], 24), fontsize=9)
        panel.set_yticks([])
        panel.set_ylim(bottom=0.0)
        panel.locator_params(axis="x", nbins=4)
        panel.tick_params(labelsize=8)
        _clean(panel, left=False)
    figure.supxlabel(_sentence("coefficient", note, more), fontsize=9)
    figure.supylabel("posterior density", fontsize=9)
    _legend(figure, panels.flat[0], len(names) + 1)
    return np.asarray(panels)


def mmd(figure: Figure, comparison: "Comparison") -> Axes:
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
    span(low, floor, color=_BAND, lw=0, zorder=0)
    line(floor, color=_GREY, lw=0.8, zorder=1, label="noise floor")
    style: dict[str, Any] = {"lw": 1.3, "elinewidth": 1.0, "capsize": 2.5, "ms": 5}
    if by_size:
        methods = np.array([str(core["method"]) for core in about])
        looks = zip(itertools.cycle(_COLOURS), itertools.cycle(_MARKERS), itertools.cycle(_DASHES))
        for method, (colour, marker, dash) in zip(dict.fromkeys(methods), looks, strict=False):
            chosen = np.flatnonzero(methods == method)
            chosen = chosen[np.argsort(np.array(sizes)[chosen], kind="stable")]
            axes.errorbar(
                np.array(sizes)[chosen], value[chosen], bars[:, chosen],
                color=colour, marker=marker, ls=dash, label=method, **style,
            )  # fmt: skip
        axes.set(xlabel="coreset size (rows)", ylabel="whitened MMD", xscale="log", yscale="log")
        axes.set_ylim(bottom=low)
        _plain_ticks(axes.xaxis)
        _plain_ticks(axes.yaxis)
    else:
        far = np.sort(np.argsort(-value, kind="stable")[:MAX_ROWS])
        y = np.arange(len(far))
        axes.errorbar(value[far], y, xerr=bars[:, far], color=_COLOURS[0], marker="o", ls="none", **style)
        axes.set_yticks(y, [_short(names[i], 32) for i in far])
        axes.set_ylim(len(far) - 0.5, -0.5)
        if len(far) < len(value):
            axes.set_title(f"the {len(far)} of {len(value)} candidates farthest away", fontsize=9, loc="left")
        axes.set(xlabel="whitened MMD, ± one standard error", xscale="log")
        axes.set_xlim(left=low)
        _plain_ticks(axes.xaxis)
    _clean(axes)
    axes.legend(frameon=False, fontsize=9)
    return axes


def _coordinates_shown(comparison: "Comparison", limit: int, *, worst_first: bool = False) -> tuple[list[int], str]:
    table = comparison.coordinates
    names = list(comparison.reference.features)
    # rows of `coordinates` are candidate by candidate, features in the reference's order
    size = table[["mean_error_sd", "sd_error"]].abs().max(axis=1).to_numpy().reshape(-1, len(names)).max(axis=0)
    ranked = np.argsort(-size, kind="stable").tolist()
    if len(names) <= limit:
        return (ranked if worst_first else list(range(len(names)))), ""
    return ranked[:limit], f"the {limit} of {len(names)} coordinates with the largest errors"


def _candidates_shown(comparison: "Comparison") -> tuple[list[str], str]:
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


def _short(name: str, length: int) -> str:
    short = name if len(name) <= length else name[: length - 1] + "…"
    return short.replace("$", r"\$")


def _clean(axes: Axes, *, left: bool = True) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines["left"].set_visible(left)


def _legend(figure: Figure, axes: Axes, n_entries: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, [_short(label, 28) for label in labels], loc="outside upper left", ncols=min(n_entries, 5),
        frameon=False, fontsize=9,
    )  # fmt: skip


def _plain_ticks(axis: Axis) -> None:
    low, high = axis.get_view_interval()
    if high > 1e4 * low:  # powers of ten, matplotlib's default, read better over many decades
        return
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value, 1)))
    axis.set_minor_formatter(NullFormatter())


def _sentence(start: str, *notes: str) -> str:
    return "; ".join(part for part in (start, *notes) if part)
