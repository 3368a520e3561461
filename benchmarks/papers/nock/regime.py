"""Do Tables 4 to 7 of Nock et al. (2016) come out? epsilon~ / epsilon, delta_w and delta_s as rows and columns grow.

Clusters are drawn one after the other, each of 1 to 1000 rows uniform in a box of random place and edges, in a cube of
side 100; after some of them delta_w and delta_s are estimated on all rows so far: over 50 random sets of k - 1 rows,
delta_s by one more random row for each (the source's "fast proxy", without the factor that would make it a bound). R is
the largest L1 norm of the centred rows, f(k) = 1. Medians of `repetitions` data sets; epsilon~ / epsilon is empty where
Theorem 12 has no noise for most of them. Slopes: regression of epsilon~ on log m over the rows where it exists; 1 if
delta_w is proportional to 1 / m and delta_s constant.
"""

import math
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from bayescore.papers.nock_private import calibrated_noise, spread
from benchmarks.commands import command
from benchmarks.tables import publish

EDGES = (1.0, 20.0)
DIMENSIONS, CENTERS, EPSILONS = (2, 10, 50), (2, 4, 8), (0.1, 1.0, 10.0)
SIZES = (300, 1_000, 3_000, 10_000, 30_000, 100_000)
MOST_ENTRIES, SAMPLES, REPETITIONS = 1_500_000, 50, 3


def clusters(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw n rows or more, uniform clusters of 1 to 1000 in random boxes; return rows and their clusters."""
    parts: list[np.ndarray] = []
    while sum(map(len, parts)) < n:
        low, edge = rng.uniform(0.0, 100.0, d), rng.uniform(*EDGES, d)
        parts.append(low + edge * rng.random((rng.integers(1, 1001), d)))
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def equivalent(k: int, epsilon: float, radius: float, delta_w: float, delta_s: float) -> float:
    """Return epsilon~; NaN where there is none."""
    try:
        return calibrated_noise(k, epsilon, radius, delta_w=delta_w, delta_s=delta_s).epsilon
    except ValueError:
        return math.nan


def measured(X: np.ndarray, k: int, seed: int) -> dict[str, float]:
    """Return the spread of rows, and epsilon~ / epsilon by epsilon."""
    R = float(np.abs(X).sum(axis=1).max())
    found = spread(X, k, radius=R, samples=SAMPLES, random_state=seed)
    proxy = 0.5 * (1.0 + found.delta_s) - 1.0
    return {"delta_w": found.delta_w, "delta_s": proxy} | {
        f"ratio, epsilon = {epsilon:g}": equivalent(k, epsilon, R, found.delta_w, proxy) / epsilon
        for epsilon in EPSILONS
    }


def table(sizes: tuple[int, ...], repetitions: int) -> list[dict[str, Any]]:
    rows = []
    for d in DIMENSIONS:
        grown = [clusters(sizes[-1], d, np.random.default_rng([d, seed]))[0] for seed in range(repetitions)]
        for m, k in product(sizes, CENTERS):
            if m * d > MOST_ENTRIES:
                continue
            found = pd.DataFrame([measured(X[:m] - X[:m].mean(axis=0), k, i) for i, X in enumerate(grown)])
            known = found.notna().mean() > 0.5
            rows.append({"d": d, "k": k, "m": m, "repetitions": repetitions} | found.median().where(known).to_dict())
    return rows


def slopes(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the regressions of epsilon~ on log m, a row for each d and k."""
    rows = []
    for (d, k), part in frame.groupby(["d", "k"]):
        row: dict[str, Any] = {"d": d, "k": k}
        for epsilon in EPSILONS:
            known = part.dropna(subset=f"ratio, epsilon = {epsilon:g}")
            y, x = epsilon * known[f"ratio, epsilon = {epsilon:g}"], np.log(known["m"])
            row[f"slope, epsilon = {epsilon:g}"] = np.polyfit(x, y, 1)[0] if len(known) > 2 else math.nan
            above = known[known[f"ratio, epsilon = {epsilon:g}"] > 1.0]["m"]
            row[f"epsilon~ above epsilon = {epsilon:g} from m ="] = above.min() if len(above) else math.nan
        rows.append(row)
    return rows


@command("nock_regime", evidence=True)
def main(*, quick: bool = False) -> None:
    frame = pd.DataFrame(table(SIZES[:3] if quick else SIZES, 2 if quick else REPETITIONS))
    publish("nock_regime", frame.to_dict("records"))
    publish("nock_regime_slopes", slopes(frame))
