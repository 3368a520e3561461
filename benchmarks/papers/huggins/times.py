"""Does Figure 1A come out? The share of the build in the time of build and 10,000 iterations of MALA.

k = 6 as in the paper. Seconds are of the processor (of all threads), so that other work on the machine does not count:
of the build the median of 3, of MALA one run; mode, warm-up and summaries are in it. The paper's sampler is in NumPy,
ours is compiled; "at theirs" puts the time of a NumPy evaluation of log density and gradient for each iteration,
measured on the same rows, in place of ours.
"""

import warnings
from typing import Any

import numpy as np
from scipy.special import expit

import bayescore as bc
from benchmarks.commands import command
from benchmarks.measure import timed
from benchmarks.papers.huggins.problems import chain, readable, split
from benchmarks.papers.huggins.quality import SIZES
from benchmarks.tables import publish

ITERATIONS = 10_000


def numpy_iteration(core: bc.Coreset) -> float:
    """Return seconds of the log density and its gradient in NumPy, as the published code computes them."""
    Z, theta = core.X * core.y[:, None], np.full(core.n_features, 0.1)

    def evaluate() -> None:
        for _ in range(50):
            eta = Z @ theta
            (core.weights @ np.logaddexp(0.0, -eta), (core.weights * expit(-eta)) @ Z)

    return min(timed(evaluate).cpu for _ in range(3)) / 50.0


def build(full: bc.Coreset, size: int, seed: int) -> bc.Coreset:
    return bc.build_coreset(full, method="sensitivity", clusters=6, size=size, random_state=seed, progressbar=False)


def study(name: str, full: bc.Coreset, iterations: int, largest: int) -> list[dict[str, Any]]:
    rows = []
    chain(build(full, 200, 0), 1000)  # compiles
    for size in [size for size in SIZES if size <= min(len(full) // 2, largest)]:
        made = [timed(lambda size=size, seed=seed: build(full, size, seed)) for seed in range(3)]
        core, building = made[0].result, float(np.median([one.cpu for one in made]))
        sampling = timed(lambda core=core: chain(core, iterations)).cpu
        theirs = iterations * numpy_iteration(core)
        rows.append(
            {
                "data": name,
                "N": len(full),
                "D": full.n_features,
                "M": size,
                "iterations": iterations,
                "build, s": building,
                "MALA, s": sampling,
                "share": building / (building + sampling),
                "NumPy, s": theirs,
                "share, at theirs": building / (building + theirs),
            }
        )
    return rows


@command("huggins_times", evidence=True)
def main(*, quick: bool = False) -> None:
    warnings.filterwarnings("ignore")  # short chains
    rows = []
    for name, problem in readable().items():
        full = split(problem, quick=quick)[0]
        rows += study(name, full, ITERATIONS // 10 if quick else ITERATIONS, 1250 if quick else problem.largest)
    publish("huggins_times", rows)
