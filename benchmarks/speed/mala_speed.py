"""What does a MALA transition cost beside the log density and gradient it needs? M = 220, D = 11, one thread."""

import time

import numpy as np

from bayescore.compiled import jit
from bayescore.models.modes import find_map
from bayescore.models.posterior import log_density, posterior
from bayescore.priors import Normal
from bayescore.samplers import mala
from bayescore.samplers.method import run_chains
from bayescore.types import WeightedData
from benchmarks.commands import command
from benchmarks.tables import publish

M, D, N = 220, 11, 200_000


@jit
def _bare(n, beta, gradient, arguments):
    total = 0.0
    for _ in range(n):
        total += log_density(beta, gradient, arguments)
    return total


@command("mala_speed")
def main() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(M), rng.normal(size=(M, D - 1))])
    y = np.where(rng.random(M) < 1 / (1 + np.exp(-X[:, 1])), 1, -1).astype(np.int8)
    data = WeightedData(X, y, rng.uniform(1, 100, M), np.arange(M))
    rows = []
    for family in ("logistic", "probit"):
        mode, target = find_map(data, family), posterior(data, family, Normal(0, 4))
        arguments, gradient = target.arguments(), np.empty(D)

        def chain(transitions: int, mode=mode, arguments=arguments) -> None:
            run_chains(
                mala,
                (mode.factor, arguments),
                mode.beta[None, :],
                mala.first_step_size(D),
                draws=transitions // 10,
                tune=0,
                thin=10,
                cores=1,
                seeds=np.random.SeedSequence(0).spawn(1),
                progressbar=False,
            )

        chain(1000)
        _bare(10, mode.beta, gradient, arguments)
        times = {"bare density and gradient": [], "MALA transition": []}
        for _ in range(7):
            begin = time.perf_counter()
            _bare(N, mode.beta, gradient, arguments)
            middle = time.perf_counter()
            chain(N)
            times["bare density and gradient"].append(middle - begin)
            times["MALA transition"].append(time.perf_counter() - middle)
        bare = np.median(times["bare density and gradient"])
        for work, taken in times.items():
            each = np.median(taken)
            rows.append({"family": family, "work": work, "microseconds": 1e6 * each / N, "times bare": each / bare})
    publish("mala_speed", rows)
