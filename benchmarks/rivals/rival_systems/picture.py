"""The picture of `rival_posteriors`: error of the mean against processor seconds, a panel a data set.

Of rivals the best setting; of bayescore the first and the best; of condensed coresets the default size.
"""

from collections.abc import Iterable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

BLUE, GREY = "#0072B2", "#555555"
LOOKS = {  # markers: readable in grey
    "bayescore": "o",
    "bayescore, condensed": "s",
    "Laplace, all rows": "D",
    "Laplace, weighed by all rows": "H",
    "PyMC NUTS, all rows": "^",
    "nutpie, all rows": "v",
    "NumPyro NUTS, all rows": "<",
    "Pathfinder with PSIS": "P",
    "PyMC ADVI, minibatches": "X",
    "NumPyro SVI, minibatches": "8",
    "duckreg, maximum likelihood": "3",
    "NumPyro HMCECS": "*",
    "SGLD, control variates": "h",
    "quasi-Newton coreset": ">",
    "GIGA coreset": "p",
    "coreset MCMC": "x",
    "uniform subsample": "d",
    "scikit-learn, mode": "1",
    "glum, mode": "2",
}
WIDTH, HEIGHT, COLUMNS = 3.4, 2.9, 2  # inches of a panel, panels side by side


def points(rows: pd.DataFrame) -> list[tuple[str, dict, pd.DataFrame]]:
    """Return what the legend says, the look and the rows of each kind of point."""
    documented = rows["documented"].astype(bool)
    found = []
    for system, marker in LOOKS.items():
        own = rows["system"] == system
        look = {"marker": marker, "ls": "", "ms": 6.5, "mec": GREY, "mfc": "none"}
        if system == "bayescore":
            ours = {**look, "ms": 7, "mec": BLUE}
            found.append((f"{system}, 4 x 1000 draws", {**ours, "mfc": BLUE}, rows[own & documented]))
            found.append((f"{system}, best setting", ours, rows[own & rows["best"]]))
        elif system == "bayescore, condensed":  # around the circle where both are equal
            found.append((f"{system}, default size", {**look, "ms": 11, "mec": BLUE}, rows[own & documented]))
        elif (rows.loc[own, "errors"] == "expected").any():
            half = {**look, "mfc": "#bbbbbb", "fillstyle": "bottom", "markerfacecoloralt": "none"}
            found.append((f"{system}:\nscaled, error expected", half, rows[own & rows["best"]]))
        else:
            found.append((system, look, rows[own & rows["best"]]))
    return found


def panel(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw one data set."""
    for _, look, own in points(rows):
        axes.plot(own["processor s"], own["mean"], **look)
    axes.axhline(rows["reference error"].iloc[0], color="#888888", lw=0.8, ls=":")
    first = rows.iloc[0]
    axes.set(xscale="log", yscale="log", title=f"{first['data']} (N = {first['N']:,}, D = {first['D']})")
    axes.title.set_fontsize(9)
    axes.tick_params(labelsize=8, labelbottom=True, labelleft=True)
    axes.grid(color="#e4e4e4", lw=0.5)
    axes.spines[["top", "right"]].set_visible(False)


def draw(rows: pd.DataFrame) -> Figure:
    """Return the picture."""
    names: Iterable[str] = rows["data"].unique()
    columns = min(COLUMNS, len(names))
    lines = -(-len(names) // columns)
    figure = Figure(figsize=(WIDTH * columns + 2.0, HEIGHT * lines + 0.5), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for axes, name in zip(grid, names, strict=False):
        panel(axes, rows[rows["data"] == name])
    for axes in grid[len(names) :]:
        axes.set_visible(False)
    figure.supxlabel("processor seconds", fontsize=9)
    figure.supylabel("error of the mean, whitened, in sds", fontsize=9)
    handles = [Line2D([], [], label=label, **look) for label, look, _ in points(rows)]
    handles.append(Line2D([], [], color="#888888", lw=0.8, ls=":", label="the reference's own error"))
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=8)
    return figure
