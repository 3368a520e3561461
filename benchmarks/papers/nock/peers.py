"""Do Figures 3 and 8 to 13 of Nock et al. (2016) come out, and by which reading of the text? With pictures.

`nock_peers`: relative increase of the mean cost of d-means++ over k-means++ in percent, with its standard error over
`runs` runs each, by readings of "points uniformly sampled in a random hyperrectangle" (dimension, edges of the boxes in
a cube of side 100). "10 runs below" is the share of pairs of means of 10 runs, the source's number, in which d-means++
would be the cheaper (bootstrap); "spread" is the peers' over that at p = 0. Pictures: the made data and their peers at
p = 0, 0.1 and 0.5 (figures 8 and 9) with the spread against p (figure 10), the surface of figure 3, and Mopsi's peers
(figure 13), the last two from the runs of `variates_peers`.
"""

from functools import partial
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayescore.clustering import UniformDraw, d_means, k_variates
from bayescore.papers import guarantee
from benchmarks.accuracy.variates_peers import N_SYNTHETIC, against, hyperrectangles, mixed, voronoi
from benchmarks.commands import command
from benchmarks.problems import SHARED
from benchmarks.tables import RESULTS, publish, publish_picture
from benchmarks.write_results import rows_of

READINGS = {
    "2 columns, edges 1 to 20": (2, 1.0, 20.0),
    "2 columns, edges 0 to 100": (2, 0.0, 100.0),
    "10 columns, edges 1 to 20": (10, 1.0, 20.0),
    "50 columns, edges 1 to 20": (50, 1.0, 20.0),
    "50 columns, edges 0 to 100": (50, 0.0, 100.0),
}
KS, MIXING, RUNS = (5, 10, 20), (0.0, 0.1, 0.3, 0.5), 40
PUBLISHED_RUNS, RESAMPLED = 10, 2_000
SHOWN = (0.0, 0.1, 0.5)
DARK = 30.0  # percent, beyond which cells of the surface take white figures


def boxes(n: int, d: int, low: float, high: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw peers of 1 to 1000 rows, uniform in random boxes within a cube, till there are n rows."""
    parts: list[np.ndarray] = []
    while sum(map(len, parts)) < n:
        edge = rng.uniform(low, high, d)
        corner = rng.uniform(0.0, 100.0 - edge)
        parts.append(corner + edge * rng.random((rng.integers(1, 1001), d)))
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def wins(mine: list[float], theirs: list[float], rng: np.random.Generator) -> float:
    """Return how often a mean of ten of mine is below a mean of ten of theirs."""
    drawn = [rng.choice(costs, (RESAMPLED, PUBLISHED_RUNS)).mean(axis=1) for costs in (mine, theirs)]
    return float((drawn[0] < drawn[1]).mean())


def table(n: int, runs: int) -> list[dict[str, Any]]:
    rows = []
    for reading, (d, low, high) in READINGS.items():
        rng = np.random.default_rng(d)
        X, home = boxes(n, d, low, high, rng)
        spreads: dict[float, float] = {}
        for k, p in product(KS, MIXING):
            if p == MIXING[0]:
                plain = [k_variates(X, k, random_state=seed).cost for seed in range(runs)]
                best = k_variates(X, k, n_local_trials=5, random_state=0).centers
            peer = mixed(home, p, np.random.default_rng(1))
            held = [X[peer == i] for i in np.unique(peer)]
            found = [d_means(held, k, random_state=seed).cost for seed in range(runs)]
            spreads[p] = guarantee(X, best, density=partial(UniformDraw, groups=peer)).spread
            more, error = against(found, plain)
            rows.append(
                {
                    "reading": reading,
                    "N": len(X),
                    "peers": int(home.max()) + 1,
                    "k": k,
                    "p": p,
                    "runs": runs,
                    "against k-means++ (%)": more,
                    "se": error,
                    "10 runs below": wins(found, plain, rng),
                    "spread": spreads[p] / spreads[0.0],
                }
            )
    return rows


def scatter(axes: Axes, X: np.ndarray, home: np.ndarray, p: float, title: str) -> None:
    """Draw rows, those of the four peers marked that hold the largest parts of the plane."""
    axes.plot(*X.T, ".", color="#cccccc", ms=1, zorder=0, rasterized=True)
    looks = zip(("o", "s", "^", "D"), ("#0072B2", "#D55E00", "#009E73", "black"), strict=True)
    peer = mixed(home, p, np.random.default_rng(1))
    extents = [float(X[home == i].var(axis=0).sum()) * np.count_nonzero(home == i) for i in range(home.max() + 1)]
    for i, (marker, colour) in zip(np.argsort(extents)[-4:], looks, strict=True):
        own = X[peer == i][:150]
        axes.plot(*own.T, marker, color=colour, ms=2.5, mew=0.4, mfc="none", rasterized=True)
    axes.set_title(title, fontsize=10)
    axes.set_xticks([])
    axes.set_yticks([])


def draw_data() -> Figure:
    """Return figures 8 to 10: made data, peers as rows move, and the spread."""
    X, home = hyperrectangles(np.random.default_rng(0))
    figure = Figure(figsize=(12.0, 3.3), layout="constrained")
    *maps, last = figure.subplots(1, 4)
    for axes, p in zip(maps, SHOWN, strict=True):
        scatter(axes, X, home, p, f"p = {p:g}: rows of four peers")
    best = k_variates(X, 10, n_local_trials=20, random_state=0).centers
    shares = np.linspace(0.0, 0.5, 11)
    spreads = np.array(
        [
            guarantee(X, best, density=partial(UniformDraw, groups=mixed(home, p, np.random.default_rng(1)))).spread
            for p in shares
        ]
    )
    last.plot(shares, spreads / spreads[0], "o-", color="black", ms=4)
    last.axhline(20.0, color="#D55E00", ls="--", lw=1)
    last.annotate("the source: above 20", (0.25, 16.5), color="#D55E00", fontsize=9)
    last.set_title("spread / spread at p = 0", fontsize=10)
    last.set_xlabel("p")
    return figure


def draw_surface() -> Figure:
    """Return figure 3: relative increase over k-means++ and k-means|| by k and p, on the made data, ± standard errors.

    Bold where it is beyond two of them.
    """
    found = rows_of("variates_peers", {"data": "hyperrectangles"})
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    others = {"k-means++": "se", "k-means||": "se "}
    for axes, (other, error) in zip(figure.subplots(1, 2), others.items(), strict=True):
        grid = found.pivot_table(index="k", columns="p", values=f"against {other} (%)")
        errors = found.pivot_table(index="k", columns="p", values=error).to_numpy()
        image = axes.imshow(grid, cmap="RdBu_r", vmin=-50, vmax=50, aspect="auto", origin="lower")
        for (i, j), value in np.ndenumerate(grid.to_numpy()):
            axes.annotate(
                f"{value:+.0f}\n±{errors[i, j]:.0f}", (j, i), ha="center", va="center", fontsize=8,
                fontweight="bold" if abs(value) > 2.0 * errors[i, j] else "normal",
                color="white" if abs(value) > DARK else "black",
            )  # fmt: skip
        axes.set(title=f"d-means++ against {other} (%)", xlabel="p", ylabel="k")
        axes.set_xticks(range(grid.shape[1]), [f"{p:g}" for p in grid.columns])
        axes.set_yticks(range(grid.shape[0]), [str(k) for k in grid.index])
    figure.colorbar(image, ax=figure.axes, shrink=0.8)
    return figure


def draw_mopsi() -> Figure:
    """Return figure 13: Mopsi's peers by two initialisations, and what they cost."""
    figure = Figure(figsize=(9.0, 6.2), layout="constrained")
    for column, (name, forgy) in enumerate({"Forgy peer centers": True, "k-means++ peer centers": False}.items()):
        X, home = voronoi("sipu_mopsi_finland", forgy, np.random.default_rng(0))
        scatter(figure.add_subplot(2, 2, column + 1), X, home, 0.1, f"{name}, p = 0.1")
        axes = figure.add_subplot(2, 2, column + 3)
        label = "sipu_mopsi_finland, Forgy peers" if forgy else "sipu_mopsi_finland"
        for marker, (k, part) in zip("os^Dv", rows_of("variates_peers", {"data": label}).groupby("k"), strict=True):
            axes.errorbar(
                part["p"], part["against k-means++ (%)"], part["se"], fmt=f"{marker}-", ms=4, label=f"k = {k}"
            )
        axes.axhline(0.0, color="black", lw=0.8)
        axes.set(xlabel="p", ylabel="against k-means++ (%)")
        axes.set_yscale("symlog", linthresh=20)
        axes.set_ylim(-20, 2_000)
        axes.set_yticks([-20, 0, 20, 100, 1_000], ["-20", "0", "20", "100", "1,000"])
        axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")
    return figure


@command("nock_peers", evidence=True)
def main(*, quick: bool = False) -> None:
    publish("nock_peers", table(4_000 if quick else N_SYNTHETIC, 5 if quick else RUNS))
    pictures = {"nock_spread": draw_data}
    if (RESULTS / "variates_peers.csv").is_file():
        pictures["nock_surface"] = draw_surface
        if SHARED.is_dir():
            pictures["nock_mopsi"] = draw_mopsi
    else:
        print("not drawn: results/variates_peers.csv is absent; run variates_peers first")
    for name, draw in pictures.items():
        publish_picture(name, draw(), dpi=130)
