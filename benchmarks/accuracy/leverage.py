"""Leverage coresets: sketched scores, speed and memory of each pass.

`leverage_sketch`: share of the rows whose sketched score is within a factor 2 of the exact one, over 21 seeds.
`leverage_speed`: rows per second of each pass, D = 10, and peak memory above the data, over N; each in a process of
its own, from a source that hands out one array of a million rows again and again.
"""

import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayescore.coresets.leverage import rates_of
from bayescore.coresets.online import online_pass
from bayescore.coresets.sampling.draw import draw
from bayescore.coresets.scores.factor import data_factor, sketch_factor, whitening
from bayescore.coresets.scores.leverage import leverage_scores
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.types import WeightedData
from benchmarks.commands import command
from benchmarks.papers.peters.loss import COVTYPE, KDD, full
from benchmarks.problems import readable
from benchmarks.tables import publish

SEEDS = 21


@command("leverage_sketch")
def sketch() -> None:
    rows = []
    for name in readable((COVTYPE, KDD)):
        X = full(name).X
        exact = leverage_scores(X)
        for project in (False, True):
            ratios = [
                leverage_scores(X, None, "sketch", project=project, random_state=seed) / exact for seed in range(SEEDS)
            ]
            shares = [float(((ratio >= 0.5) & (ratio <= 2.0)).mean()) for ratio in ratios]
            rows.append(
                {
                    "data": name,
                    "D": X.shape[1],
                    "projected": project,
                    "share within 2, median": float(np.median(shares)),
                    "share within 2, worst": min(shares),
                    "smallest ratio": float(min(ratio.min() for ratio in ratios)),
                    "largest ratio": float(max(ratio.max() for ratio in ratios)),
                }
            )
    publish("leverage_sketch", rows)


@dataclass(frozen=True, eq=False)
class Repeated:
    """A source of `n_rows` rows that repeats the same ones, so that memory is free of N."""

    rows: WeightedData
    n_rows: int
    classes: tuple[Any, Any] = (-1, 1)
    label: str = "y"

    @property
    def design(self) -> Design:
        """Plain columns."""
        return Design(tuple(f"x{d}" for d in range(self.rows.n_features)))

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in blocks of 50,000."""
        for start in range(0, self.n_rows, 50_000):
            low = start % len(self.rows)
            yield self.rows.take(slice(low, min(low + 50_000, low + self.n_rows - start)))


def passes(source: Repeated) -> dict[str, Callable[[], object]]:
    """Return the passes over a source, each as a function without arguments."""

    def scored(factor: Callable[[], np.ndarray]) -> Callable[[], object]:
        white = whitening(factor())
        total = float(source.n_rows)
        return lambda: draw(dataset, lambda b: rates_of(white.leverage(b), b.weights, total), 1000, 1, canonical=True)

    dataset, small = Dataset(source), Dataset(replace(source, n_rows=100_000))
    return {
        "check of the rows": lambda: Dataset(source).scan,
        "leverage, exact: QR": lambda: data_factor(dataset),
        "leverage, sketch: count sketch": lambda: sketch_factor(dataset, 0),
        "leverage: scores and draw": scored(lambda: data_factor(small)),
        "online: QR, scores and draw": lambda: online_pass(dataset, 1000, 1).answer(),
    }


def one_pass(name: str, n_rows: int) -> dict[str, Any]:
    """Time one pass, compiled before, and its memory above what it began with."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_000_000, 10))
    y = np.where(rng.random(len(X)) < 1 / (1 + np.exp(1 - X[:, 0])), 1, -1).astype(np.int8)
    rows = WeightedData(X, y, np.ones(len(X)), np.arange(len(X)))
    passes(Repeated(rows, 10_000))[name]()
    work = passes(Repeated(rows, n_rows))[name]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    work()
    seconds = time.perf_counter() - begin
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {
        "pass": name,
        "N": n_rows,
        "seconds": seconds,
        "million rows per second": n_rows / seconds / 1e6,
        "memory above, MB": extra,
    }


@command("leverage_speed")
def speed() -> None:
    names = list(passes(Repeated(WeightedData(np.eye(10), np.ones(10, np.int8), np.ones(10), np.arange(10)), 10)))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        rows = [pool.submit(one_pass, name, n).result() for name in names for n in (1_000_000, 10_000_000)]
    publish("leverage_speed", rows)
