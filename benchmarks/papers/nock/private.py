"""Which readings of Nock et al. (2016) give Tables 2 and 10 and the unit balls, and their outcomes against GUPT?

`nock_readings`: epsilon~ at epsilon = 1, mean over those `k` that Theorem 12 has a noise for, by what R may be (the
largest L1 norm or distance from the mean, or the root mean square distance, which bounds nothing), by R or 2 R in
delta_w, and with delta_s as the source's proxy or as 0. "R / rms" is R over the root mean square distance.

`nock_gupt`: cost of k-means on blocks, averaged and noisy (GUPT), over that of k-variates++ with the noise 2 R /
epsilon~ of the *published* epsilon~, so that only GUPT's reading is left open: number of blocks, order of the centers
before averaging (by first coordinate, or as k-means leaves them), noise, R. At the k that is the source's mean.
"distance" is the sum of both sets' abs(log2(ratio / published)).

`nock_ball`: rows uniform in the unit ball, N and D as read, epsilon = 1, R the largest L1 norm: epsilon~, and costs
over that of k-variates++ with the noise of Theorem 12, which is no guarantee, as in Table 2; means of `repetitions`
with standard errors in percent of the ratio.

`variates_private`: epsilon = 1; rows are centred, R is the largest L1 norm (taken from the data, as the source does: a
real release needs a public one). "cost ratio" is the mean potential over that of k-variates++ with the Laplace
mechanism, "over Theorem 12" over that with the smaller noise, as the source's ratios are: above 1, k-variates++ is
better. Standard errors are in percent of a ratio. Sample and aggregate is GUPT's scheme: k-means on n^0.4 blocks,
centers sorted by their first coordinate and averaged, noise 2 k R / (blocks epsilon). Each line names its real
guarantee, and Forgy has two: its centers are rows at places that the data do not decide, so that one row replaced
changes one center only, and that guarantee costs it a k-th of the noise. k-variates++ has the one for any two data
sets, which implies the other. delta_s is the source's proxy. "noise-free" is k-means++. `variates_private_table2` puts
it beside the source's Table 2, for the k whose mean is the source's.
"""

import math
import warnings
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

from bayescore.clustering import SQUARED_EUCLIDEAN, k_variates
from bayescore.clustering.divergences import Nearest
from bayescore.clustering.peers import PrivateSeeding, laplace, private_k_variates
from bayescore.papers.nock_private import Spread, spread, spread_calibrated
from benchmarks.commands import command
from benchmarks.papers.nock.peers import against
from benchmarks.papers.nock.regime import equivalent
from benchmarks.problems import SHARED
from benchmarks.tables import publish

KS = (2, 3, 4, 5, 6, 7, 8)
REPETITIONS, SAMPLES, RELEASES = 40, 100, 100
BALLS = tuple(product((1_000, 10_000, 100_000), (2, 15), (2, 4, 8)))
ANY = "epsilon, any two data sets"
ONE = "epsilon, one row replaced"
NONE = "none unless delta_w, delta_s are public"
OURS, SMALLER = "k-variates++, Laplace", "k-variates++, Theorem 12"
FORGY, GUPT = "Forgy, Laplace", "sample and aggregate"
PUBLISHED = {  # mean k, epsilon~, and cost of Forgy and of GUPT over that of k-variates++
    "sipu_europediff": (5, 13.0, 2857.1, 40.4),
    "chemreact_ds1_10": (3, 4.5, 163.0, 0.7),
}


def centred(name: str) -> np.ndarray:
    X = pd.read_parquet(SHARED / f"{name}.parquet").drop(columns="y", errors="ignore").to_numpy(dtype=float)
    return np.asarray(X - X.mean(axis=0))


def radii(X: np.ndarray) -> dict[str, float]:
    """Return what R may be."""
    distance = np.sqrt((X**2).sum(axis=1))
    return {
        "largest L1 norm": float(np.abs(X).sum(axis=1).max()),
        "largest distance": float(distance.max()),
        "rms distance": float(np.sqrt((distance**2).mean())),
    }


def proxied(X: np.ndarray, k: int, radius: float, samples: int = SAMPLES) -> tuple[float, float]:
    """Return delta_w with (2 R)^2, and the source's proxy of delta_s."""
    found = spread(X, k, radius=radius, samples=samples, random_state=0)
    return found.delta_w, 0.5 * (1.0 + found.delta_s) - 1.0


def readings(samples: int) -> list[dict[str, Any]]:
    rows = []
    for name, (_, published, *_) in PUBLISHED.items():
        X = centred(name)
        known = radii(X)
        largest = known["largest L1 norm"]
        deltas = {k: proxied(X, k, largest, samples) for k in KS}
        for (what, R), times, with_s in product(known.items(), (2.0, 1.0), (True, False)):
            found = {
                k: equivalent(k, 1.0, R, w * (times * R / (2.0 * largest)) ** 2, s if with_s else 0.0)
                for k, (w, s) in deltas.items()
            }
            there = {k: value for k, value in found.items() if not math.isnan(value)}
            rows.append(
                {
                    "data": name,
                    "R": what,
                    "R / rms": R / known["rms distance"],
                    "delta_w by": "(2 R)^2" if times == 2.0 else "R^2",
                    "delta_s": "proxy" if with_s else "0",
                    "k": ", ".join(map(str, there)),
                    "epsilon~": float(np.mean(list(there.values()))) if there else math.nan,
                    "published": published,
                }
            )
    return rows


def block_centers(X: np.ndarray, k: int, blocks: int, ordered: bool, rng: np.random.Generator) -> np.ndarray:
    """Return the averages of the centers of k-means on blocks."""
    found = []
    for block in np.array_split(rng.permutation(len(X)), blocks):
        centers = KMeans(k, n_init=1, random_state=int(rng.integers(2**31))).fit(X[block]).cluster_centers_
        found.append(centers[np.argsort(centers[:, 0])] if ordered else centers)
    return np.mean(found, axis=0)


def cost(X: np.ndarray, centers: np.ndarray) -> float:
    return Nearest(X, np.ones(len(X)), SQUARED_EUCLIDEAN, centers).total / len(X)


def noisy_costs(X: np.ndarray, centers: list[np.ndarray], scale: float) -> list[float]:
    """Return the costs of centers with Laplace noise; of these nothing is released."""
    return [cost(X, c + np.random.default_rng(i).laplace(0.0, scale, c.shape)) for i, c in enumerate(centers)]


def gupt(repetitions: int) -> list[dict[str, Any]]:
    cases: dict[tuple[str, ...], dict[str, float]] = {}
    for name, (k, tilde, _, _) in PUBLISHED.items():
        X = centred(name)
        n, rng = len(X), np.random.default_rng(0)
        seeds = [k_variates(X, k, random_state=i).centers for i in range(repetitions)]
        for power, ordered in product((0.4, 0.6), (True, False)):
            blocks = int(n**power)
            means = block_centers(X, k, blocks, ordered, rng)
            noises = {"2 k R / (blocks epsilon)": 1.0 / blocks, "2 k R / (sqrt(blocks) epsilon)": blocks**-0.5}
            noises["2 k R / epsilon"] = 1.0
            for (what, R), (noise, share) in product(radii(X).items(), noises.items()):
                mine = noisy_costs(X, seeds, 2.0 * R / tilde)
                theirs = noisy_costs(X, [means] * repetitions, 2.0 * R * k * share)
                order = "by first coordinate" if ordered else "as they come"
                cases.setdefault((f"n^{power}", order, noise, what), {})[name] = np.mean(theirs) / np.mean(mine)
    rows = []
    for (blocks_of, order, noise, what), found in cases.items():
        row: dict[str, Any] = {"blocks": blocks_of, "centers": order, "noise": noise, "R": what}
        row["repetitions"] = repetitions
        for name, ratio in found.items():
            row |= {name: ratio, f"{name}, published": PUBLISHED[name][3]}
        row["distance"] = sum(abs(math.log2(ratio / PUBLISHED[name][3])) for name, ratio in found.items())
        rows.append(row)
    return sorted(rows, key=lambda row: row["distance"])


def unit_ball(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    X = rng.standard_normal((n, d))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True) * rng.random((n, 1)) ** (1.0 / d))


def balls(cases: tuple[tuple[int, int, int], ...], repetitions: int) -> list[dict[str, Any]]:
    rows = []
    for n, d, k in cases:
        rng = np.random.default_rng([n, d])
        X = unit_ball(n, d, rng)
        R = float(np.abs(X).sum(axis=1).max())
        w, s = proxied(X, k, R)
        row: dict[str, Any] = {"N": n, "D": d, "k": k, "repetitions": repetitions, "delta_w": w, "delta_s": s}
        row["epsilon~"] = equivalent(k, 1.0, R, w, s)
        if not math.isnan(row["epsilon~"]):
            blocks = int(n**0.4)
            mine = noisy_costs(
                X, [k_variates(X, k, random_state=i).centers for i in range(repetitions)], 2.0 * R / row["epsilon~"]
            )
            forgy = [X[rng.choice(n, k, replace=False)] for _ in range(repetitions)]
            means = block_centers(X, k, blocks, True, rng)
            others = {
                "Forgy": noisy_costs(X, forgy, 2.0 * R * k),
                "GUPT": noisy_costs(X, [means] * repetitions, 2.0 * R * k / blocks),
            }
            for name, found in others.items():
                more, error = against(found, mine)
                row |= {name: 1.0 + more / 100.0, f"se of {name} (%)": error / (1.0 + more / 100.0)}
        rows.append(row)
    return rows


def noisy(centers: np.ndarray, sensitivity: float, epsilon: float) -> np.ndarray:
    """Return centers with the Laplace mechanism's noise, one release for all."""
    measure = laplace(sensitivity, epsilon).measure
    return np.array(measure(centers.ravel().tolist())).reshape(centers.shape)


def released(name: str, k: int, repeats: int) -> list[dict[str, Any]]:
    """Return a row for each method of Table 10."""
    X, epsilon = centred(name), 1.0
    R = radii(X)["largest L1 norm"]
    free = np.mean([k_variates(X, k, random_state=seed).cost / len(X) for seed in range(repeats)])
    bound = spread(X, k, radius=R, samples=200, random_state=0)
    delta = replace(bound, delta_s=0.5 * (1.0 + bound.delta_s) - 1.0)
    blocks = int(len(X) ** 0.4)
    gupt = [block_centers(X, k, blocks, True, np.random.default_rng(seed)) for seed in range(3)]
    costs: dict[tuple[str, str], list[float]] = {}
    tilde = math.nan
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        forgy = X[rng.choice(len(X), k, replace=False)]
        release = {
            (OURS, ANY): private_k_variates(X, k, epsilon=epsilon, radius=R, random_state=rng).centers,
            (FORGY, ANY): noisy(forgy, 2.0 * R * k, epsilon),
            (FORGY, ONE): noisy(forgy, 2.0 * R, epsilon),
            (GUPT, ONE): noisy(gupt[seed % len(gupt)], 2.0 * R * k / blocks, epsilon),
        }
        calibrated = theorem_12(X, k, epsilon, R, delta, rng)
        if calibrated is not None:
            release[(SMALLER, NONE)], tilde = calibrated.centers, 2.0 * R / calibrated.scale
        for method, centers in release.items():
            costs.setdefault(method, []).append(cost(X, centers))
    rows = []
    for (method, guarantee), found in costs.items():
        row: dict[str, Any] = {"data": name, "k": k, "epsilon": epsilon, "method": method, "guarantee": guarantee}
        row["cost / noise-free"] = np.mean(found) / free
        bases = (("cost ratio", "se (%)", (OURS, ANY)), ("over Theorem 12", "se (%) ", (SMALLER, NONE)))
        for ratio, error, base in bases:
            more, se = against(found, costs[base]) if base in costs else (math.nan, math.nan)
            row |= {ratio: 1.0 + more / 100.0, error: se / (1.0 + more / 100.0)}
        rows.append(row | {"epsilon~": tilde, "delta_w": delta.delta_w, "delta_s": delta.delta_s})
    return rows


def beside_table_2(table: pd.DataFrame) -> list[dict]:
    """Return means over those k = 2, ..., 2 mean - 2 that Theorem 12 has a noise for."""
    rows = []
    for name, (k, tilde, forgy, gupt) in PUBLISHED.items():
        shown = (table["data"] == name) & (table["k"] <= 2 * k - 2)
        shown &= (table["method"] != FORGY) | (table["guarantee"] == ANY)
        found = table[shown].dropna(subset="epsilon~")
        mean = found.groupby("method")["over Theorem 12"].mean()
        rows.append(
            {
                "data": name,
                "k": ", ".join(map(str, found["k"].unique())),
                "mean k, published": k,
                "epsilon~": found["epsilon~"].mean(),
                "published": tilde,
                "Forgy, Laplace": mean[FORGY],
                "published ": forgy,
                "sample and aggregate": mean[GUPT],
                "published  ": gupt,
            }
        )
    return rows


def theorem_12(
    X: np.ndarray, k: int, epsilon: float, R: float, delta: Spread, rng: np.random.Generator
) -> PrivateSeeding | None:
    """Return a seeding with the noise of Theorem 12; None where the spread is too large for epsilon."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the table names the guarantee
            options = {"epsilon": epsilon, "radius": R, "delta_w": delta.delta_w, "delta_s": delta.delta_s}
            return spread_calibrated(X, k, **options, random_state=rng)
    except ValueError:
        return None


@command("nock_private", evidence=True)
def main(*, quick: bool = False) -> None:
    if SHARED.is_dir():
        publish("nock_readings", readings(20 if quick else SAMPLES))
        publish("nock_gupt", gupt(3 if quick else REPETITIONS))
    else:
        print("not run: ../shared/data is absent (sipu_europediff, chemreact_ds1_10)")
    small = tuple(case for case in BALLS if case[0] <= 1_000)
    publish("nock_ball", balls(small if quick else BALLS, 10 if quick else REPETITIONS))


@command(
    "variates_private",
    asks="What does private seeding cost beside Forgy with Laplace noise, and beside sample-and-aggregate?",
)
def private(repeats: int = RELEASES) -> None:
    if not SHARED.is_dir():
        print("not run: ../shared/data is absent (sipu_europediff, chemreact_ds1_10)")
        return
    rows = [row for name, k in product(PUBLISHED, KS) for row in released(name, k, repeats)]
    publish("variates_private", rows)
    publish("variates_private_table2", beside_table_2(pd.DataFrame(rows)))
