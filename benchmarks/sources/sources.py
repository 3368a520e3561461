"""How fast are builders and passes on Parquet, and with how much memory? Ten float32 columns.

`sources_builders`: each builder in a process of its own, at N and N / 4: seconds (best of 3), rows per second, and the
process's peak memory, all told and beyond the imports. `sources_passes`: each pass beside the bare cost of decoding the
same columns with as many threads, and beside that of rows that nobody looks at (best of 5 rounds). `sources_processes`:
one Dask process against two, from the same file.
N is 2e7; ``python -m benchmarks.sources.sources builders 1000000`` and so on take another.
"""

import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import bayescore as bc
from bayescore.clustering.assignment import assign
from bayescore.compiled import available_cores
from bayescore.coresets.leverage import rates_of
from bayescore.coresets.online import online_pass
from bayescore.coresets.pilot import Shares, survey
from bayescore.coresets.scores import data_factor, sketch_factor, whitening
from bayescore.coresets.sensitivity import bounds_of
from bayescore.coresets.separation import against
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.models.laplace import LaplaceApproximation
from bayescore.models.posterior import Derivatives, likelihood_terms
from bayescore.numerics.sampling import Chosen, draw, draw_candidates, equal_rates
from bayescore.types import IntArray, WeightedData
from benchmarks.commands import command
from benchmarks.measure import alone, peak_mb, timed
from benchmarks.sources.parquet import columns, rows_file
from benchmarks.tables import publish

N, D = 20_000_000, 10
BUILDERS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "online": {},
    "leverage": {},
    "leverage, sketch": {"method": "leverage", "scores": "sketch"},
    "sensitivity": {},
    "calibrated": {"size": 200},
    "merge_reduce": {"size": 200},
}


def normal(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return n rows of standard normal columns, labelled by the first."""
    X = rng.standard_normal((n, D), dtype=np.float32)
    return {**columns(X), "y": (X[:, 0] + rng.logistic(size=n) > 1.0).astype(np.int8)}


def built(data: Any, name: str) -> float:
    """Return the seconds of a build."""
    options = {"method": name, "size": 1000, **BUILDERS[name]}
    return timed(lambda: bc.build_coreset(data, label="y", random_state=0, progressbar=False, **options)).wall


def measured(path: Path, warm: Path, name: str) -> tuple[float, float, float]:
    """Build in this fresh process, once to compile and thrice for the clock; least seconds, peaks before and after."""
    warnings.simplefilter("ignore", UserWarning)
    built(warm, name)
    before = peak_mb()
    return min(built(path, name) for _ in range(3)), before, peak_mb()


@command(
    "sources_builders", asks="How fast are builders on a Parquet file of ten float32 columns, and with how much memory?"
)
def builders(n: int = N) -> None:
    rows = []
    with rows_file(100_000, normal) as warm:
        for size in (n // 4, n):
            with rows_file(size, normal) as path:
                for name in BUILDERS:
                    seconds, before, peak = alone(measured, path, warm, name)
                    rows.append(
                        {
                            "builder": name,
                            "N": size,
                            "seconds": seconds,
                            "rows/s": size / seconds,
                            "peak MB": peak,
                            "of it imports and a small build": before,
                        }
                    )
    publish("sources_builders", rows)


def bare(path: Path) -> None:
    """Decode every column of every row group, with as many threads as a pass has."""
    groups = range(pq.read_metadata(path).num_row_groups)

    def decode(group: int) -> None:
        with pq.ParquetFile(path) as file:
            for _ in file.iter_batches(1 << 16, [group], use_threads=False):
                pass

    with ThreadPoolExecutor(available_cores()) as pool:
        list(pool.map(decode, groups))


def least_of_five(work: dict[str, Callable[[], object]]) -> dict[str, tuple[float, float]]:
    """Return the least wall and processor seconds of each of five rounds of all work, after one that compiles."""
    best = dict.fromkeys(work, (np.inf, np.inf))
    for turn in range(6):
        for name, run in work.items():
            spent = timed(run)
            if turn:
                best[name] = (min(best[name][0], spent.wall), min(best[name][1], spent.cpu))
    return best


@command("sources_passes", asks="What does each pass over a Parquet file cost beside decoding its columns?")
def passes(n: int = N) -> None:
    with rows_file(n, normal) as path:
        source = as_source(path, label="y")
        dataset = Dataset(source)
        _ = dataset.scan
        white = whitening(data_factor(dataset))
        logistic, probit = check_family("logistic"), check_family("probit")
        mode, theta = (
            LaplaceApproximation(logistic, np.eye(D)[0], np.linalg.cholesky(np.eye(D) + 0.1) / np.sqrt(n)),
            np.zeros(D),
        )
        clusters, head = assign(dataset, np.eye(4, D)), next(source.blocks()).take(slice(0, 10_000))
        shares = Shares.estimated(mode, Chosen(head, np.full(len(head), len(head) / n), 0), float(n))

        def sensitivities(block: WeightedData) -> IntArray:
            return np.ceil(1024.0 * bounds_of(block, clusters, 1.0, theta, n)).astype(np.int64)

        def newton(family: Family) -> list[Derivatives]:
            return list(
                dataset.map(
                    lambda _, block: likelihood_terms(mode.theta, block, family),
                    canonical=True,
                )
            )

        work: dict[str, Callable[[], object]] = {
            "bare decoding": lambda: bare(path),
            "rows in blocks": lambda: list(dataset.map(lambda _, block: len(block))),
            "check of the rows": lambda: Dataset(source).scan,
            "uniform draw": lambda: draw(dataset, equal_rates, 1000, 0, replace=False),
            "clustering": lambda: assign(dataset, np.eye(4, D)),
            "sensitivity draw": lambda: draw(dataset, sensitivities, 1000, 0),
            "QR": lambda: data_factor(dataset),
            "count sketch": lambda: sketch_factor(dataset, 0),
            "leverage draw": lambda: draw(
                dataset, lambda block: rates_of(white.leverage(block), block.weights, n), 1000, 0
            ),
            "on-line": lambda: online_pass(dataset, 1000, 0),
            "Newton, logistic": lambda: newton(logistic),
            "Newton, probit": lambda: newton(probit),
            "draw by score": lambda: draw_candidates(dataset, shares.probability, 1000, 0),
            "draws and sums at the mode": lambda: survey(dataset, shares, 1000, 20_000, (0, 1)),
            "rows against a plane": lambda: against(dataset, white, np.ones(D), strict=False),
        }
        spent = least_of_five(work)
    rows = [
        {
            "pass": name,
            "seconds": wall,
            "processor seconds": cpu,
            "rows/s": n / wall,
            "times bare": wall / spent["bare decoding"][0],
            "times rows in blocks": wall / spent["rows in blocks"][0],
        }
        for name, (wall, cpu) in spent.items()
    ]
    publish("sources_passes", rows)


def on_cluster(path: Path, n_workers: int) -> dict[str, float]:
    """Return the seconds of map-bound passes on a cluster of this machine; after one that compiles."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        source = as_source(dd.read_parquet(path), label="y")
        dataset = Dataset(source)
        _ = dataset.scan
        work: dict[str, Callable[[], object]] = {
            "check of the rows": lambda: Dataset(source).scan,
            "clustering": lambda: assign(dataset, np.eye(4, D)),
            "QR": lambda: data_factor(dataset),
        }
        return {name: wall for name, (wall, _) in least_of_five(work).items()}


@command("sources_processes", asks="Is one Dask process slower than two, on the same Parquet file?")
def processes(n: int = N) -> None:
    with rows_file(n, normal) as path:
        one, two = (alone(on_cluster, path, n_workers) for n_workers in (1, 2))
    rows = [{"pass": name, "one process": one[name], "two": two[name], "gain": one[name] / two[name]} for name in one]
    publish("sources_processes", rows)


if __name__ == "__main__":
    {"builders": builders, "passes": passes, "processes": processes}[sys.argv[1]](int(sys.argv[2]))
