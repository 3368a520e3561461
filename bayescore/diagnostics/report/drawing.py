"""What the pictures share: colours, intervals row by row, axes that far draws do not stretch, legends and ticks.

Colours are Okabe and Ito's, told apart by colour-blind readers; markers and dashes tell them apart in grey.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.markers import CARETLEFT, CARETRIGHT
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from bayescore.diagnostics.formatting import number
from bayescore.types import FloatArray

INTERVAL = 0.94
ENDS = (0.5 * (1.0 - INTERVAL), 0.5 * (1.0 + INTERVAL))
"""Probabilities of the interval's ends, equal-tailed."""

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
    """One posterior of a forest: means and ends of the 94% intervals of the coordinates, each of shape (D,)."""

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
    told = [f"mean and {INTERVAL:.0%} interval{unit_name}"]
    if (ends[:, 0] < left).any() or (ends[:, 1] > right).any():
        far = max(float((np.abs(one.mean - base.mean) / scale).max()) for one in others)
        told.append(f"◂ ▸ beyond the axis; means lie up to {number(far, 2)} {base.name} sds away")
    axes.set_xlabel("\n".join(told))
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
