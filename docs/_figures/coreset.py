"""The picture of what a coreset is: rows and weighted rows, and the posteriors of all, of those, and of random ones."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde

import bayescore as bc

BLUE, ORANGE = "#1f8ac9", "#e0701c"
N_ROWS = 50_000
N_SHOWN = 3_000  # grey points: more would be one grey area


def picture() -> Figure:
    """Return both panels: the rows by their two columns, and three posteriors of the first coefficient."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 2))
    y = X @ [1.0, -0.5] - 2.0 + rng.logistic(size=N_ROWS) > 0
    quiet = {"intercept": True, "progressbar": False}
    every = bc.all_rows(X, y, **quiet)
    core = bc.build_coreset(X, y, random_state=1, **quiet)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that random rows are a poor coreset is what the picture shows
        at_random = bc.build_coreset(X, y, method="uniform", size=len(core), random_state=1, **quiet)

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
    left.plot(*X[:N_SHOWN].T, ".", color="0.8", markersize=2, zorder=0)
    columns = [list(core.feature_names).index(name) for name in ("x0", "x1")]
    size = 300.0 * core.weights / core.weights.max()
    for event, marker, label in ((True, "^", "y = 1"), (False, "o", "y = 0")):
        these = (core.y > 0) == event
        left.scatter(
            *core.X[these][:, columns].T, s=size[these], marker=marker, facecolor="none", edgecolor=BLUE, label=label
        )
    left.set(
        xlabel="first covariate", ylabel="second covariate", title=f"{N_ROWS:,} rows, and {len(core)} with weights"
    )
    left.legend(loc="upper right")

    for rows, style, label in (
        (every, {"color": "0.75", "fill": True}, f"all {N_ROWS:,} rows"),
        (core, {"color": BLUE}, f"{len(core)} weighted rows"),
        (at_random, {"color": ORANGE, "linestyle": "--"}, f"{len(core)} random rows"),
    ):
        draws = bc.sample(rows, random_seed=2, progressbar=False).posterior["coef"].sel(feature="x0").values.ravel()
        x = np.linspace(draws.min(), draws.max(), 200)
        density = gaussian_kde(draws)(x)
        if style.pop("fill", False):
            right.fill_between(x, density, label=label, **style)
        else:
            right.plot(x, density, label=label, linewidth=2, **style)
    right.set(xlabel="coefficient, first covariate", yticks=[], ylabel="posterior density", title="Same posterior")
    right.set_ylim(0.0, None)
    right.legend(loc="upper center")
    return figure
