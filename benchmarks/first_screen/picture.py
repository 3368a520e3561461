"""README's picture, drawn in light and dark from the tables of the first screen; drawing takes no measurement."""

import hashlib
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from benchmarks.tables import RESULTS

TABLES = ("flights", "posteriors", "densities", "seconds")  # first_screen_*.csv
PRINTED = re.compile(r"(?<=```text\n).*?(?=```)", re.DOTALL)
ALT = re.compile(r'(?<=alt=")[^"]*(?=")')
BLUE, ORANGE = {"light": "#0072B2", "dark": "#4FB3E8"}, {"light": "#D55E00", "dark": "#FF9A4D"}
INK, GREY = {"light": "#222222", "dark": "#E6E6E6"}, {"light": "#C4C4C4", "dark": "#5A6068"}
PAPER = {"light": "white", "dark": "#0d1117"}
MUTED = {"light": "#666666", "dark": "#A9B1BA"}
NEAR, FAR = 2.8, 2.3  # widths of the two parts of the axis of densities, which have the same scale
HALF = 4.3  # sds of all rows from the middle of the first part to its ends
DURATIONS = {1: "1 second", 60: "1 minute", 3_600: "1 hour", 86_400: "1 day"}
NUMBERS = {10**4: "10,000", 10**5: "100,000", 10**6: "1 million", 10**7: "", 10**8: "100 million", 10**9: "1 billion"}


def table(name: str) -> pd.DataFrame:
    """Return a table of the first screen."""
    return pd.read_csv(RESULTS / f"first_screen_{name}.csv", keep_default_na=False, na_values=[""])


def digest(page: str) -> str:
    """Return a hash of all that the first screen shows: its tables and the text that README, `page`, prints."""
    text = PRINTED.search(page)
    assert text is not None
    parts = [(RESULTS / f"first_screen_{name}.csv").read_bytes() for name in TABLES]
    return hashlib.sha256(b"".join([*parts, text[0].encode()])).hexdigest()


def duration(seconds: float) -> str:
    """Return seconds as people say them."""
    for unit, name in ((3_600.0, "hour"), (60.0, "minute")):
        if seconds >= unit:
            count = round(seconds / unit)
            return f"{count} {name}{'s' if count > 1 else ''}"
    return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.1f} s"


def description() -> str:
    """Return the picture in words, for those who do not see it."""
    of = table("posteriors").set_index("posterior")
    rows = {str(name): f"{count:,}" for name, count in of["rows"].items()}
    away = f"{abs(of.loc['random rows', 'mean error (sd)']):,.0f} standard deviations"
    large = table("seconds").query("system == 'bayescore'").iloc[-1]
    return (
        f"Left: the skewed posterior of one coefficient. The curve of {rows['weighted rows']} weighted rows lies on "
        f"that of all {rows['all rows']} rows. The normal approximation misses the skew. {rows['random rows']} random "
        f"rows are {away} away. Right: processor time by number of rows. bambi, NUTS on all rows and lme4 stop before "
        f"ten million rows. bayescore takes {duration(large['CPU s'])} for {large['rows']:,} rows."
    )


def draw(look: str) -> Figure:
    """Return the picture for a light or a dark page."""
    with mpl.rc_context({"font.size": 9.5, "text.color": INK[look], "axes.labelcolor": INK[look]}):
        figure = Figure(figsize=(11.0, 4.1))
        grid = {"left": 0.012, "right": 0.985, "top": 0.82, "bottom": 0.15, "wspace": 0.05}
        spaces = figure.add_gridspec(1, 4, width_ratios=(NEAR, FAR, 0.6, 3.8), **grid)
        near, far, right = (figure.add_subplot(spaces[place]) for place in (0, 1, 3))
        _draw_densities(near, far, look)
        _draw_seconds(right, look)
        of = table("posteriors").set_index("posterior")["rows"]
        heading = f"{of['weighted rows']:,} weighted rows give the posterior of {of['all rows']:,}"
        under = "One coefficient of a logistic regression, simulated customers"
        _title(near, heading, under, look)
        under = "Logistic regression, an effect for each county, simulated visits"
        _title(right, "Processor time, up to a billion rows", under, look)
    return figure


def _title(axes: Axes, heading: str, under: str, look: str) -> None:
    axes.set_title(heading, loc="left", fontsize=12.5, fontweight="bold", pad=24)
    place = {"xy": (0.0, 1.0), "xytext": (0, 9), "xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(under, **place, color=MUTED[look])


def _draw_densities(near: Axes, far: Axes, look: str) -> None:
    curves = {str(name): own for name, own in table("densities").groupby("posterior")}
    of = table("posteriors").set_index("posterior")
    sd, middle = of.loc["all rows", "sd"], of.loc["all rows", "mean"] - 0.7 * of.loc["all rows", "sd"]
    top = 1.12 * curves["all rows"]["density"].max()

    def line(axes: Axes, name: str, **style: Any) -> None:
        axes.plot(curves[name]["value"], curves[name]["density"], **style)

    full = curves["all rows"]
    near.fill_between(full["value"], full["density"], color=GREY[look], lw=0)
    line(near, "normal approximation", color=INK[look], lw=1.4, ls=(0, (4, 2.5)))
    line(near, "weighted rows", color=BLUE[look], lw=2.4)
    line(far, "random rows", color=ORANGE[look], lw=2.4)
    far.fill_between(curves["random rows"]["value"], curves["random rows"]["density"], color=ORANGE[look], alpha=0.15)
    for axes, centre, half in ((near, middle, HALF), (far, of.loc["random rows", "mean"], HALF * FAR / NEAR)):
        axes.set(xlim=(centre - half * sd, centre + half * sd), ylim=(0.0, top), yticks=[])
        axes.spines[["top", "left", "right"]].set_visible(False)
        _quiet(axes, look)
    near.xaxis.set_major_locator(FixedLocator([-0.4, -0.3, -0.2, -0.1, 0.0]))
    far.xaxis.set_major_locator(FixedLocator([round(of.loc["random rows", "mean"], 1)]))
    near.set_xlabel("effect of spending on renewal, log odds per £1,000", loc="left")
    slash: dict[str, Any] = {"marker": [(-1, -1.6), (1, 1.6)], "ms": 9, "color": MUTED[look], "clip_on": False}
    near.plot([1.0], [0.0], transform=near.transAxes, **slash)
    far.plot([0.0], [0.0], transform=far.transAxes, **slash)

    def label(text: str, at: tuple[float, float], name: str, value: float, colour: str, **style: Any) -> None:
        """Write a text, joined to the point of a curve above `value`."""
        height = float(np.interp(value, curves[name]["value"], curves[name]["density"]))
        arrow = {"arrowstyle": "-", "color": colour, "lw": 0.9, "shrinkA": 2, "shrinkB": 1}
        told: dict[str, Any] = {"xycoords": "data", "textcoords": "axes fraction", "arrowprops": arrow, "va": "center"}
        near.annotate(text, (value, height), at, color=colour, linespacing=1.25, **told, **style)

    rows = {str(name): f"{count:,}" for name, count in of["rows"].items()}
    text = f"{rows['weighted rows']} weighted rows\n(bayescore)"
    label(text, (0.0, 0.78), "weighted rows", middle - 0.05 * sd, BLUE[look], fontweight="bold")
    label(f"all {rows['all rows']} rows\n(grey)", (0.0, 0.42), "all rows", middle - 1.15 * sd, MUTED[look])
    label("normal\napproximation", (0.77, 0.78), "normal approximation", middle + 1.75 * sd, INK[look])
    away = f"{abs(of.loc['random rows', 'mean error (sd)']):,.0f} standard\ndeviations away"
    style: dict[str, Any] = {"ha": "center", "va": "bottom", "fontweight": "bold", "linespacing": 1.25}
    height = curves["random rows"]["density"].max() / top + 0.03
    text = f"{rows['random rows']} random rows:\n{away}"
    far.text(0.5, height, text, color=ORANGE[look], transform=far.transAxes, **style)


LABELS = {  # colour; where the label is from a point of the line, in points; what of the label is there
    "bayescore": (BLUE, (6, 9), ("right", "bottom")),
    "duckreg": (MUTED, (9, -9), ("left", "center")),
    "lme4": (MUTED, (6, 2), ("left", "center")),
    "NUTS on all rows": (ORANGE, (10, 3), ("left", "bottom")),
    "bambi": (ORANGE, (8, -9), ("left", "center")),
}


def _draw_seconds(axes: Axes, look: str) -> None:
    for system, own in table("seconds").groupby("system", sort=False):
        colours, place, side = LABELS[str(system)]
        colour, bold = colours[look], "bold" if system == "bayescore" else "normal"
        here, other = own[own["from"] == "readme"], own[own["from"] != "readme"]
        width = 2.6 if system == "bayescore" else 1.6
        axes.plot(own["rows"], own["CPU s"], color=colour, lw=width, ls=":", zorder=2)
        axes.plot(here["rows"], here["CPU s"], color=colour, lw=width, marker="o", ms=5, zorder=3)
        axes.plot(other["rows"], other["CPU s"], color=colour, ls="none", marker="o", ms=5.5, mfc="none", zorder=3)
        last = own.iloc[2 if system == "duckreg" else -1]
        text = {
            "bayescore": f"bayescore: a billion rows,\n{duration(last['CPU s'])}",
            "NUTS on all rows": f"NUTS on all rows: {duration(last['CPU s'])}",
            "duckreg": "duckreg, without counties",
        }.get(str(system), str(system))
        axes.annotate(text, (last["rows"], last["CPU s"]), place, textcoords="offset points", color=colour,
                      ha=side[0], va=side[1], fontweight=bold, linespacing=1.25)  # fmt: skip
    note = "hollow: rows with more groups"
    axes.annotate(note, (0.0, 0.0), (0, -28), "axes fraction", "offset points", color=MUTED[look], fontsize=8.5)
    axes.set(xscale="log", yscale="log", xlim=(7e3, 1.6e9), ylim=(0.06, 3e5))
    axes.xaxis.set_major_locator(FixedLocator(list(NUMBERS)))
    axes.set_xticklabels(list(NUMBERS.values()))
    axes.yaxis.set_major_locator(FixedLocator(list(DURATIONS)))
    axes.set_yticklabels(list(DURATIONS.values()))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel("rows", loc="right")
    axes.grid(axis="y", color=GREY[look], lw=0.6, alpha=0.6)
    axes.spines[["top", "left", "right"]].set_visible(False)
    _quiet(axes, look)


def _quiet(axes: Axes, look: str) -> None:
    axes.tick_params(colors=MUTED[look], length=0)
    axes.spines["bottom"].set_color(MUTED[look])
    axes.patch.set_visible(False)


def path(look: str) -> Path:
    """Return where a picture is."""
    return RESULTS / f"first_screen_{look}.png"


def write(page: Path) -> None:
    """Draw both pictures, which carry the hash of what they show, and write their description into README."""
    text = ALT.sub(lambda _: description(), page.read_text(encoding="utf-8"), count=1)
    told = {"Software": None, "Description": description(), "Source": digest(text)}
    for look in ("light", "dark"):
        draw(look).savefig(path(look), dpi=200, metadata=told, facecolor=PAPER[look])
    page.write_text(text, encoding="utf-8")
