"""Time and memory of builds at N = 1e7, D = 10, float64 in memory, beside one X.T @ X over the same array.

"after seeding" leaves out the check of the rows and the k-means++ seeding: two passes, clustering and scoring.
"""

import resource
import time
from collections.abc import Callable

import numpy as np

import bayescore as bc
from bayescore.coresets.sensitivity import Sensitivity
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.models.families import FAMILIES
from benchmarks.commands import command
from benchmarks.tables import publish

N, D = 10_000_000, 10


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the median time of `work`, after one run that compiles."""
    work()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def peak_mb() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@command("build_speed")
def main() -> None:
    rng = np.random.default_rng(0)
    X, y = np.empty((N, D)), np.empty(N, dtype=np.int8)
    for start in range(0, N, 100_000):
        block = X[start : start + 100_000]
        rng.standard_normal(out=block)
        y[start : start + 100_000] = rng.random(100_000) < 1 / (1 + np.exp(1 - block[:, 0]))
    before = peak_mb()
    bc.build_coreset(X, y, method="sensitivity", size=1000, clusters=6, random_state=0, progressbar=False)
    extra = peak_mb() - before

    dataset = Dataset(as_source(X, y))
    _ = dataset.scan
    centers = X[:6] * y[:6, None]

    def after_seeding() -> object:
        return Sensitivity(clustering=centers).build(dataset, 1000, 1, FAMILIES["logistic"])

    def whole(method: str) -> Callable[[], object]:
        return lambda: bc.build_coreset(X, y, method=method, size=1000, random_state=0, progressbar=False)

    product = seconds(lambda: X.T @ X)
    rows = [{"work": "X.T @ X", "seconds": product}]
    for name, work in {
        "sensitivity, k = 6, after seeding": after_seeding,
        "sensitivity, whole": whole("sensitivity"),
        "uniform, whole": whole("uniform"),
    }.items():
        rows.append({"work": name, "seconds": seconds(work)})
    rows[2]["memory above the data, MB"] = extra  # of the first build
    for row in rows:
        row["times X.T @ X"] = row["seconds"] / product
    publish("build_speed", rows)
