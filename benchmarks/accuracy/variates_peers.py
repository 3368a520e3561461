"""Does d-means++ beat k-means++ and k-means|| as peers' rows mix (Nock et al. 2016, Figures 3 and 8 to 13)?

Each row of a peer moves, with probability p, to another peer drawn uniformly. "against" columns are relative increases
in percent, (cost / cost of the other - 1) 100, of mean potentials over the runs, with their standard errors;
negative: d-means++ wins. k-means|| is Bahmani et al.'s, with l = 2 k, log(cost of one center) rounds, reclustered by
k-means++. Bytes are those of centers and sums; k-means|| sends every candidate to every peer.

The source reports that d-means++ "almost consistently" beats k-means++ on hyperrectangles from some k on, also for
large p, and stays competitive on the maps up to p of some tenths. Here it is level with both where peers hold rows that
lie together (p = 0: -7% to +7%, within two standard errors of 0 but at k = 30; on Forgy's uneven peers up to +82%),
and loses the more, the larger p and k; of 280 comparisons the clearest win is 2.03 standard errors (EuropeDiff, k = 5,
p = 0.05, k-means||). `nock_peers` has other boxes and more columns. The source's means are of 10 runs, whose standard
error is 5% to 10%, and one mean of k-means++ is common to a whole line. What holds is the traffic: 23 to 43 times
fewer bytes than k-means||.
"""

import math
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bayescore.clustering import SQUARED_EUCLIDEAN, UniformDraw, d_means, k_variates
from bayescore.clustering.divergences import Nearest
from bayescore.papers import guarantee
from benchmarks.commands import command
from benchmarks.problems import SHARED
from benchmarks.tables import publish, publish_picture

N_SYNTHETIC, N_PEERS = 20_000, 40
LOOKS = (("o", "-"), ("s", "--"), ("^", ":"), ("D", "-."), ("v", (0, (6, 1.5))))  # of five k, readable in grey
Held = tuple[np.ndarray, np.ndarray]


def hyperrectangles(rng: np.random.Generator) -> Held:
    """Draw uniform clusters of 1 to 1000 rows in random boxes, each the rows of one peer, till there are 20,000."""
    parts: list[np.ndarray] = []
    while sum(map(len, parts)) < N_SYNTHETIC:
        low, edge = rng.uniform(0.0, 100.0, 2), rng.uniform(1.0, 20.0, 2)
        parts.append(low + edge * rng.random((rng.integers(1, 1001), 2)))
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def voronoi(name: str, forgy: bool, rng: np.random.Generator) -> Held:
    """Read a published data set; its peers hold the cells of k-means++ seeds, or of uniform rows (Forgy)."""
    X = pd.read_parquet(SHARED / f"{name}.parquet").to_numpy(dtype=float)
    centers = (
        X[rng.choice(len(X), N_PEERS, replace=False)] if forgy else k_variates(X, N_PEERS, random_state=rng).centers
    )
    return X, Nearest(X, np.ones(len(X)), SQUARED_EUCLIDEAN, centers).owner


def mixed(peer: np.ndarray, p: float, rng: np.random.Generator) -> np.ndarray:
    """Move each row with probability p to another peer."""
    m = peer.max() + 1
    return np.where(rng.random(len(peer)) < p, (peer + rng.integers(1, m, len(peer))) % m, peer)


def k_means_parallel(X: np.ndarray, k: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Seed by k-means||; return the centers and the number of candidates that the peers shared."""
    near = Nearest(X, np.ones(len(X)), SQUARED_EUCLIDEAN)
    candidates = [X[rng.integers(len(X))]]
    near.add(candidates[0])
    for _ in range(math.ceil(math.log(near.total))):
        fresh = X[rng.random(len(X)) < 2 * k * near.closest / near.total]
        for center in fresh:
            near.add(center)
        candidates.extend(fresh)
    masses = np.bincount(near.owner, minlength=len(candidates))
    return k_variates(np.array(candidates), k, weights=masses, random_state=rng).centers, len(candidates)


def mean_and_error(costs: list[float]) -> tuple[float, float]:
    return float(np.mean(costs)), float(np.std(costs, ddof=1) / math.sqrt(len(costs)))


def against(mine: list[float], theirs: list[float]) -> tuple[float, float]:
    """Return the relative increase of the mean in percent and its standard error (delta method)."""
    (a, da), (b, db) = mean_and_error(mine), mean_and_error(theirs)
    return 100.0 * (a / b - 1.0), 100.0 * a / b * math.hypot(da / a, db / b)


@command("variates_peers")
def main(
    runs: int = 60,
    ks: tuple[int, ...] = (5, 10, 15, 20, 30),
    mixing: tuple[float, ...] = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5),
) -> None:
    rng = np.random.default_rng(0)
    problems = {"hyperrectangles": hyperrectangles(rng)}
    if SHARED.is_dir():
        problems["sipu_europediff"] = voronoi("sipu_europediff", False, rng)
        problems["sipu_mopsi_finland"] = voronoi("sipu_mopsi_finland", False, rng)
        problems["sipu_mopsi_finland, Forgy peers"] = voronoi("sipu_mopsi_finland", True, rng)
    else:
        print("not run: ../shared/data is absent (sipu_europediff, sipu_mopsi_finland)")
    rows = []
    for name, (X, home) in problems.items():
        unit, n_bytes = np.ones(len(X)), 8 * X.shape[1]

        def cost(centers: np.ndarray, X=X, unit=unit) -> float:
            return Nearest(X, unit, SQUARED_EUCLIDEAN, centers).total

        for k in ks:
            plain = [k_variates(X, k, random_state=seed).cost for seed in range(runs)]
            best = k_variates(X, k, n_local_trials=20, random_state=0).centers
            parallel = [k_means_parallel(X, k, np.random.default_rng(seed)) for seed in range(runs)]
            theirs = [cost(centers) for centers, _ in parallel]
            for p in mixing:
                peer = mixed(home, p, np.random.default_rng(1))
                held = [X[peer == i] for i in np.unique(peer)]
                found = [d_means(held, k, random_state=seed) for seed in range(runs)]
                terms = guarantee(X, best, density=partial(UniformDraw, groups=peer))
                (a, da), (b, db) = against([f.cost for f in found], plain), against([f.cost for f in found], theirs)
                shared = np.mean([count for _, count in parallel])
                rows.append(
                    {
                        "data": name,
                        "peers": len(held),
                        "k": k,
                        "p": p,
                        "spread / optimal": terms.spread / terms.optimal,
                        "against k-means++ (%)": a,
                        "se": da,
                        "against k-means|| (%)": b,
                        "se ": db,
                        "bound / bound of k-means++": terms.phi / (8.0 * terms.optimal),
                        "bytes": found[0].sent + found[0].received,
                        "bytes of k-means||": int(shared * n_bytes * (len(held) + 1)),
                    }
                )
    publish("variates_peers", rows)
    publish_picture("variates_peers", draw(pd.DataFrame(rows)), dpi=120)


def draw(table: pd.DataFrame) -> Figure:
    """Return a picture of the relative increases against p, one line for each k."""
    names = list(table["data"].unique())
    figure = Figure(figsize=(3.6 * len(names), 6), layout="constrained")
    grid = figure.subplots(2, len(names), sharex=True, squeeze=False)
    for column, name in enumerate(names):
        for axes, other, error in zip(grid[:, column], ("k-means++", "k-means||"), ("se", "se "), strict=True):
            for (marker, line), (k, part) in zip(LOOKS, table[table["data"] == name].groupby("k"), strict=False):
                axes.errorbar(
                    part["p"], part[f"against {other} (%)"], part[error], label=f"k = {k}", capsize=2,
                    marker=marker, linestyle=line, markersize=5, linewidth=1.2, markerfacecolor="white",
                )  # fmt: skip
            axes.axhline(0.0, color="black", linewidth=0.8)
            axes.spines[["top", "right"]].set_visible(False)
            if column == 0:
                axes.set_ylabel(f"against {other} (%)")
        grid[0, column].set_title(name.replace(", ", ",\n"), fontsize=11)
    grid[0, 0].legend(frameon=False, fontsize=9)
    figure.suptitle("relative increase of the cost of d-means++")
    figure.supxlabel("p: share of rows that moved to another peer")
    return figure
