"""Do Figures 3 and 8 to 13 of Nock et al. (2016) come out, and by which reading of the text? d-means++ beside others.

Each row of a peer moves, with probability p, to another peer drawn uniformly. "against" columns are relative increases
of the mean cost of d-means++ in percent, (cost / cost of the other - 1) 100, over `runs` runs each, with their standard
errors; negative: d-means++ wins.

`nock_peers` has readings of "points uniformly sampled in a random hyperrectangle" (dimension, edges of the boxes in a
cube of side 100). "10 runs below" is the share of pairs of means of 10 runs, the source's number, in which d-means++
would be the cheaper (bootstrap); "spread" is the peers' over that at p = 0 (figures 9 and 10).

`variates_peers` has boxes in the plane and two maps, and k-means|| beside it, which is Bahmani et al.'s, with l = 2 k,
log(cost of one center) rounds, reclustered by k-means++. Bytes are those of centers and sums; k-means|| sends every
candidate to every peer.
"""

import math
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from bayescore.clustering import SQUARED_EUCLIDEAN, UniformDraw, d_means, k_variates
from bayescore.clustering.divergences import Nearest
from bayescore.papers import guarantee
from benchmarks.commands import command
from benchmarks.papers.nock.regime import clusters
from benchmarks.problems import SHARED
from benchmarks.tables import publish

READINGS = {
    "2 columns, edges 1 to 20": (2, 1.0, 20.0),
    "2 columns, edges 0 to 100": (2, 0.0, 100.0),
    "10 columns, edges 1 to 20": (10, 1.0, 20.0),
    "50 columns, edges 1 to 20": (50, 1.0, 20.0),
    "50 columns, edges 0 to 100": (50, 0.0, 100.0),
}
KS, MIXING, RUNS = (5, 10, 20), (0.0, 0.1, 0.3, 0.5), 40
PUBLISHED_RUNS, RESAMPLED = 10, 2_000
N_SYNTHETIC, N_PEERS = 20_000, 40
MAPS_KS, MAPS_MIXING, MAPS_RUNS = (5, 10, 15, 20, 30), (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5), 60
Held = tuple[np.ndarray, np.ndarray]  # rows and their peers


def boxes(n: int, d: int, low: float, high: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw peers of 1 to 1000 rows, uniform in random boxes within a cube, till there are n rows."""
    parts: list[np.ndarray] = []
    while sum(map(len, parts)) < n:
        edge = rng.uniform(low, high, d)
        corner = rng.uniform(0.0, 100.0 - edge)
        parts.append(corner + edge * rng.random((rng.integers(1, 1001), d)))
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def hyperrectangles(rng: np.random.Generator) -> Held:
    """Draw uniform clusters of 1 to 1000 rows in random boxes, each the rows of one peer, till there are 20,000."""
    return clusters(N_SYNTHETIC, 2, rng)


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
            peer, held = moved(X, home, p)
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


def moved(X: np.ndarray, home: np.ndarray, p: float) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the peers of rows after some moved, and what each holds."""
    peer = mixed(home, p, np.random.default_rng(1))
    return peer, [X[peer == i] for i in np.unique(peer)]


def maps(name: str, X: np.ndarray, home: np.ndarray, k: int, runs: int) -> list[dict[str, Any]]:
    """Return a row for each share of rows that moved."""
    unit = np.ones(len(X))
    plain = [k_variates(X, k, random_state=seed).cost for seed in range(runs)]
    best = k_variates(X, k, n_local_trials=20, random_state=0).centers
    parallel = [k_means_parallel(X, k, np.random.default_rng(seed)) for seed in range(runs)]
    theirs = [Nearest(X, unit, SQUARED_EUCLIDEAN, centers).total for centers, _ in parallel]
    shared, rows = np.mean([count for _, count in parallel]), []
    for p in MAPS_MIXING:
        peer, held = moved(X, home, p)
        found = [d_means(held, k, random_state=seed) for seed in range(runs)]
        terms = guarantee(X, best, density=partial(UniformDraw, groups=peer))
        (a, da), (b, db) = against([f.cost for f in found], plain), against([f.cost for f in found], theirs)
        row = {"data": name, "peers": len(held), "k": k, "p": p, "spread / optimal": terms.spread / terms.optimal}
        row |= {"against k-means++ (%)": a, "se": da, "against k-means|| (%)": b, "se ": db}
        row |= {"bound / bound of k-means++": terms.phi / (8.0 * terms.optimal)}
        row |= {"bytes": found[0].sent + found[0].received}
        rows.append(row | {"bytes of k-means||": int(shared * 8 * X.shape[1] * (len(held) + 1))})
    return rows


@command(
    "nock_peers", asks="Which reading of the text gives Figures 3 and 8 to 10 of Nock et al. (2016)?", evidence=True
)
def main(*, quick: bool = False) -> None:
    publish("nock_peers", table(4_000 if quick else N_SYNTHETIC, 5 if quick else RUNS))


@command(
    "variates_peers", asks="Does d-means++ beat k-means++ and k-means|| on maps as peers' rows mix (Figures 11 to 13)?"
)
def on_maps(runs: int = MAPS_RUNS) -> None:
    rng = np.random.default_rng(0)
    problems = {"hyperrectangles": hyperrectangles(rng)}
    if SHARED.is_dir():
        for name, forgy in (("sipu_europediff", False), ("sipu_mopsi_finland", False), ("sipu_mopsi_finland", True)):
            problems[f"{name}, Forgy peers" if forgy else name] = voronoi(name, forgy, rng)
    else:
        print("not run: ../shared/data is absent (sipu_europediff, sipu_mopsi_finland)")
    rows = [row for (name, held), k in product(problems.items(), MAPS_KS) for row in maps(name, *held, k, runs)]
    publish("variates_peers", rows)
