"""Do Figures 1B and 1C come out? The mean sensitivity bound by N, for R with k = 6 and for k with R = 3.

Medians, least and greatest of 5 seeds (of the clustering; the rows are the first N, in random order). Columns as in
`huggins_quality`; the paper's sets are Binary10 and Webspam. The bound is at most N.
"""

from typing import Any

import numpy as np

import bayescore as bc
from benchmarks.commands import command
from benchmarks.papers.huggins.problems import readable, split
from benchmarks.tables import publish

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
RADII = (1.0, 2.0, 3.0, 4.0)
CLUSTERS = (2, 4, 6, 8, 12)


def mean_bound(data: bc.Coreset, radius: float, clusters: int, seed: int) -> float:
    core = bc.build_coreset(
        data, method="sensitivity", size=100, radius=radius, clusters=clusters, random_state=seed, progressbar=False
    )
    return core.params["mean_sensitivity"]


def study(name: str, full: bc.Coreset, seeds: int) -> list[dict[str, Any]]:
    rows = []
    cases = [(radius, 6) for radius in RADII] + [(3.0, k) for k in CLUSTERS if k != 6]
    for n in [size for size in SIZES if size < len(full)] + [len(full)]:
        data = full.take(np.arange(n))
        for radius, k in cases:
            found = [mean_bound(data, radius, k, seed) for seed in range(seeds)]
            rows.append(
                {
                    "data": name,
                    "N": n,
                    "D": full.n_features,
                    "R": radius,
                    "k": k,
                    "seeds": seeds,
                    "mean sensitivity": np.median(found),
                    "least": min(found),
                    "greatest": max(found),
                }
            )
    return rows


@command("huggins_sensitivities", evidence=True)
def main(*, quick: bool = False, trials: int | None = None) -> None:
    rows = []
    for name, problem in readable().items():
        rows += study(name, split(problem, quick=quick)[0], trials or (2 if quick else 5))
    publish("huggins_sensitivities", rows)
