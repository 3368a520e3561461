"""The picture of `quality`: a row of two panels for each data set."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

LINEAR = 1e-3  # below, the loss's axis is linear
STYLES = {"random": ("s", "--", "0.45"), "coreset": ("^", "-", "black"), "calibrated": ("o", ":", "0.2")}


def draw(frame: pd.DataFrame) -> Figure:
    """Return MMD and excess loss against M, medians and quartiles."""
    names = list(dict.fromkeys(frame["data"]))
    figure = Figure(figsize=(9.0, 2.3 * len(names)), layout="constrained")
    axes = figure.subplots(len(names), 2, squeeze=False)
    for name, (left, right) in zip(names, axes, strict=True):
        own = frame[frame["data"] == name]
        full = own["loss, full data"].iloc[0]
        for method, (marker, line, shade) in STYLES.items():
            rows = own[own["method"] == method].sort_values("M")
            if rows.empty:
                continue
            for ax, measure, shift in ((left, "MMD2", 0.0), (right, "loss", full)):
                middle = rows[measure] - shift
                spread = np.abs(
                    np.vstack([rows[measure] - rows[f"{measure}, low"], rows[f"{measure}, high"] - rows[measure]])
                )
                ax.errorbar(
                    rows["M"], middle, spread, label=method, marker=marker, linestyle=line, color=shade, capsize=2,
                    markerfacecolor="white", markersize=5, linewidth=1.2,
                )  # fmt: skip
        left.axhline(own["MMD2, floor"].iloc[0], color="0.6", linewidth=1.0, zorder=0)
        right.axhline(0.0, color="0.6", linewidth=1.0, zorder=0)
        left.set(xscale="log", yscale="log", ylabel="polynomial MMD²")
        right.set(xscale="log", ylabel="test loss − full data's")
        right.set_yscale("symlog", linthresh=LINEAR)
        least, most = own["loss, low"].min() - full, own["loss, high"].max() - full
        right.set_ylim(min(3.0 * least, -0.3 * LINEAR), 3.0 * most)  # symlog's own margins cut points
        left.set_title(
            f"{own['figure'].iloc[0]}  {name}: N = {own['N'].iloc[0]:,}, D = {own['D'].iloc[0]}", fontsize=9, loc="left"
        )
        for ax in (left, right):
            ax.set_xticks(sorted(set(own["M"])), [f"{size}" for size in sorted(set(own["M"]))])
            ax.minorticks_off()
            ax.tick_params(labelsize=7)
            ax.yaxis.label.set_size(8)
    axes[0][0].legend(fontsize=7)
    for ax in axes[-1]:
        ax.set_xlabel("rows of the subset, M", fontsize=8)
    return figure
