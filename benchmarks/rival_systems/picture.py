"""The picture of `rival_posteriors`: error of the mean against processor seconds, a panel a data set."""

from collections.abc import Iterable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

# marker, filled: readable in grey; ours are large and black
LOOKS = {
    "bayescore": ("o", True),
    "bayescore, condensed": ("s", True),
    "Laplace, all rows": ("D", False),
    "PyMC NUTS, all rows": ("^", False),
    "nutpie, all rows": ("v", False),
    "NumPyro NUTS, all rows": ("<", False),
    "Pathfinder with PSIS": ("P", False),
    "PyMC ADVI, minibatches": ("X", False),
    "NumPyro HMCECS": ("*", False),
    "SGLD, control variates": ("h", False),
    "quasi-Newton coreset": (">", False),
    "GIGA coreset": ("p", False),
    "uniform subsample": ("s", False),
    "scikit-learn, mode": ("1", False),
    "glum, mode": ("2", False),
}
WIDTH, HEIGHT, COLUMNS = 3.4, 2.9, 2  # inches of a panel, panels side by side


def style(system: str) -> dict:
    """Return the look of a system's points."""
    marker, filled = LOOKS[system]
    edge = "#0072B2" if filled else "#555555"
    return {"marker": marker, "ms": 8 if filled else 6.5, "ls": "", "mec": edge, "mfc": edge if filled else "none"}


def panel(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw one data set."""
    shown = rows[rows["best"] & rows["mean"].notna()]
    for row in shown.itertuples():
        axes.plot(row.cpu, row.mean, **style(row.system))
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
        panel(axes, rows[rows["data"] == name].rename(columns={"processor s": "cpu"}))
    for axes in grid[len(names) :]:
        axes.set_visible(False)
    figure.supxlabel("processor seconds", fontsize=9)
    figure.supylabel("error of the mean, whitened, in sds", fontsize=9)
    handles = [Line2D([], [], label=name, **style(name)) for name in LOOKS]
    handles.append(Line2D([], [], color="#888888", lw=0.8, ls=":", label="the reference's own error"))
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=8)
    return figure
