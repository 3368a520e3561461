"""How fast is k-means++ seeding beside scikit-learn's kmeans_plusplus? N = 1e6, D = 10, k = 100, one thread.

Processor seconds of the whole call, median of five after one that compiles, and the mean potential of the seeds.
"""

import time

import numpy as np
from sklearn.cluster import kmeans_plusplus
from threadpoolctl import threadpool_limits

from bayescore.clustering import SQUARED_EUCLIDEAN, k_variates
from bayescore.clustering.divergences import Nearest
from benchmarks.commands import command
from benchmarks.tables import publish

D, K = 10, 100


def problems(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((n, D))
    return {"one normal": normal, "100 normals": normal + 10.0 * rng.standard_normal((K, D))[rng.integers(K, size=n)]}


@command("variates_speed")
def main(n: int = 1_000_000, repeats: int = 5) -> None:
    rows = []
    for name, X in problems(n).items():
        unit = np.ones(n)
        for trials in (1, 2 + int(np.log(K))):

            def ours(seed: int, X=X, trials=trials) -> np.ndarray:
                return k_variates(X, K, n_local_trials=trials, random_state=seed).centers

            def theirs(seed: int, X=X, trials=trials) -> np.ndarray:
                return kmeans_plusplus(X, K, n_local_trials=trials, random_state=seed)[0]

            taken, potential = {}, {}
            for work in (ours, theirs):
                k_variates(X[:1000], 2, n_local_trials=2)  # compiles
                seconds, costs = [], []
                for seed in range(repeats):
                    with threadpool_limits(1):
                        begin = time.process_time()
                        centers = work(seed)
                        seconds.append(time.process_time() - begin)
                    costs.append(Nearest(X, unit, SQUARED_EUCLIDEAN, centers).total / n)
                taken[work], potential[work] = np.median(seconds), np.mean(costs)
            rows.append(
                {
                    "rows": name,
                    "n_local_trials": trials,
                    "bayescore_seconds": taken[ours],
                    "scikit_learn_seconds": taken[theirs],
                    "times as fast": taken[theirs] / taken[ours],
                    "bayescore_cost": potential[ours],
                    "scikit_learn_cost": potential[theirs],
                }
            )
    publish("variates_speed", rows)
