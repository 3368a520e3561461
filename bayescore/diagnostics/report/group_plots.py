"""The pictures of group effects: caterpillar and shrinkage plots, drawn into a figure that the caller gives."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayescore.diagnostics.group_draws import GroupEffects
from bayescore.diagnostics.report import drawing
from bayescore.diagnostics.report.drawing import Intervals
from bayescore.models.families import FAMILIES, find_family
from bayescore.types import FloatArray, IntArray
from bayescore.validation import DataError

MAX_NAMED = 60  # groups that have their names at the axis
EXTREMES = 5  # named at either end where groups are more
MAX_BARS = 2000  # intervals, which are then thinner than a pixel
_AREAS = (12.0, 150.0)  # points squared, of the marker of a group of few rows and of the most
_ETA = np.linspace(-40.0, 40.0, 80_001)  # linear predictors among which that of a share is found


def caterpillar(figure: Figure, effects: GroupEffects) -> Axes:
    """Draw mean and 94% equal-tailed interval of each group's effect, sorted by mean, the largest on top.

    Intervals that leave 0 out are dark, others grey. More than 60 groups: the extremes have names; more than 2,000:
    2,000 of them, spread evenly over the ranks.
    """
    order = np.argsort(-effects.draws.mean(axis=0), kind="stable")
    n_groups = len(order)
    if n_groups > MAX_BARS:
        order = order[np.linspace(0, n_groups - 1, MAX_BARS).round().astype(np.int64)]
    found = Intervals.of(effects.factor, effects.draws[:, order])
    named, y = n_groups <= MAX_NAMED, np.arange(len(order), dtype=np.float64)
    axes = drawing.canvas(figure, 8.0, max(2.4, 1.1 + 0.21 * n_groups) if named else 6.5).add_subplot()
    width, size = (2.0, 4.5) if named else (float(np.clip(300.0 / len(order), 0.3, 2.0)), 2.0)
    apart = (found.low > 0.0) | (found.high < 0.0)
    for which, colour, label in (
        (apart, drawing.INK, "interval without 0"),
        (~apart, drawing.GREY, "interval with 0"),
    ):
        axes.hlines(y[which], found.low[which], found.high[which], color=colour, lw=width, zorder=2)
        axes.plot(found.mean[which], y[which], color=colour, marker="o", ls="none", ms=size, zorder=3)
        axes.plot([], [], color=colour, marker="o", lw=2.0, ms=4.5, label=label)
    axes.axvline(0.0, color=drawing.GREY, lw=0.8, ls=drawing.DASHES[1], zorder=1)
    axes.set_ylim(len(order) - 0.5, -0.5)
    names = [drawing.short(str(effects.levels[g]), 28) for g in order]
    if named:
        axes.set_yticks(y, names)
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{n_groups:,} groups, sorted")
        _name_extremes(axes, found, names)
    axes.tick_params(axis="y", length=0)
    factor = drawing.short(effects.factor, 28)
    axes.set_xlabel(f"effect of {factor}: mean and {drawing.INTERVAL:.0%} interval, {effects.scale}")
    drawing.clean(axes, left=False)
    drawing.legend(figure, axes, 2)
    drawing.note(axes, f"{len(order):,} of {n_groups:,} groups, evenly by rank" if len(order) < n_groups else "")
    return axes


def _name_extremes(axes: Axes, found: Intervals, names: list[str]) -> None:
    """Write the names of the first and the last groups into the empty corners, beside the picture's ends."""
    last = len(names) - 1
    for i in range(EXTREMES):
        for row, end, x, y, side in (
            (i, found.low[i], 0.02, 0.97 - 0.045 * i, "left"),
            (last - i, found.high[last - i], 0.98, 0.03 + 0.045 * i, "right"),
        ):
            axes.annotate(
                names[row], (end, row), (x, y), textcoords="axes fraction", fontsize=8, ha=side, va="center",
                arrowprops={"arrowstyle": "-", "color": drawing.GREY, "lw": 0.6, "shrinkB": 1.0},
            )  # fmt: skip


def shrinkage(figure: Figure, effects: GroupEffects, shares: pd.DataFrame) -> Axes:
    """Draw the effect of each group against what its rows alone say: partial pooling beside none and complete pooling.

    Across, log odds (probit: the probit) of the group's share of +1, half a row of either label added, minus that of
    all rows; up, mean and 94% interval of its effect. The area of a point grows with the group's rows. `shares` is
    indexed by group, with the `share` of +1 and the `weight` of its rows.
    """
    share, weight = _shares(effects, shares)
    raw = _raw(effects, share, weight)
    found = Intervals.of(effects.factor, effects.draws)
    axes = drawing.canvas(figure, 7.0, 5.6).add_subplot()
    low, high = float(raw.min()), float(raw.max())
    margin = 0.04 * (high - low) or 0.1
    ends = [low - margin, high + margin]
    axes.plot(ends, ends, color=drawing.INK, lw=1.0, ls=drawing.DASHES[1], label="no pooling", zorder=1)
    axes.axhline(0.0, color=drawing.INK, lw=1.0, ls=drawing.DASHES[2], label="complete pooling", zorder=1)
    bars = np.array([found.mean - found.low, found.high - found.mean])
    thin = float(np.clip(100.0 / len(raw), 0.2, 1.2))
    axes.errorbar(raw, found.mean, bars, color=drawing.GREY, ls="none", elinewidth=thin, zorder=2)
    smallest, largest = _AREAS
    axes.scatter(
        raw, found.mean, smallest + (largest - smallest) * weight / weight.max() * min(1.0, 60.0 / len(raw)),
        color=drawing.COLOURS[0], edgecolor="white", lw=0.4, zorder=3, label="partial pooling (area: rows)",
    )  # fmt: skip
    axes.set_xlim(*ends)
    span = float(max(found.high.max(), -found.low.min(), 1e-9)) * 1.06
    axes.set_ylim(max(-span, float(found.low.min()) * 1.3), min(span, float(found.high.max()) * 1.3))
    factor = drawing.short(effects.factor, 28)
    axes.set_xlabel(f"{effects.scale} of the share in each {factor}, minus that in all rows")
    axes.set_ylabel(f"effect of {factor}: mean and {drawing.INTERVAL:.0%} interval, {effects.scale}")
    drawing.clean(axes)
    drawing.legend(figure, axes, 3)
    return axes


def _shares(effects: GroupEffects, shares: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Return share and weight in the order of the effects."""
    if "factor" in shares.index.names:  # the table of a certificate, of all factors
        own = shares[shares.index.get_level_values("factor") == effects.factor].droplevel(["factor", "effect"])
        shares = own[~own.index.duplicated()]
    for column in ("share", "weight"):
        if column not in shares.columns:
            raise DataError(f"shares has no column {column!r}; give the share of +1 and the weight of rows by group")
    place: IntArray = shares.index.get_indexer(pd.Index(effects.levels))
    if (place < 0).any():
        missing = effects.levels[int((place < 0).argmax())]
        raise DataError(f"shares has no row for the group {missing!r}; index it by the levels of the effects")
    share, weight = (shares[name].to_numpy(dtype=np.float64)[place] for name in ("share", "weight"))
    share = np.where(weight == 0.0, 0.0, share)  # a level without rows
    if not ((share >= 0.0) & (share <= 1.0) & (weight >= 0.0)).all():
        raise DataError("shares has a share outside of 0 to 1, or a weight below 0")
    return share, weight


def _raw(effects: GroupEffects, share: FloatArray, weight: FloatArray) -> FloatArray:
    """Return linear predictors of shares, half a row of either label added, minus that of all rows."""
    if (family := find_family(effects.family)) is None:
        raise DataError(
            "idata does not tell its family, by which shares become linear predictors; set "
            f"idata.posterior.attrs['family'] to one of {', '.join(map(repr, FAMILIES))}"
        )
    overall = float(share @ weight / weight.sum())
    p = np.append((share * weight + 0.5) / (weight + 1.0), overall)
    eta = np.interp(p, family.mean(_ETA), _ETA)
    return np.asarray(eta[:-1] - eta[-1])
