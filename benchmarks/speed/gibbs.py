"""What do Gibbs samplers by data augmentation cost? Time of a sweep, and ESS a second beside MALA and NUTS.

M = 200 rows, D = 10, one thread. The bare arithmetic is the linear predictor, log Phi and score of each row, and
Z'(latents); the proposal for real weights needs Z'WvZ on top. The second table has 100 points of a design with both
labels, weights from 0.05 to 5000, 4 chains on two cores; seconds are those of `sample`, NUTS's compilation included;
errors are against NUTS, the largest over coefficients.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.compiled import jit
from bayescore.families.probit import probit_upper
from bayescore.models.posterior import posterior, prior_part
from bayescore.numerics import elementary
from bayescore.numerics.chains import ess_mean, mcse_mean
from bayescore.priors import Normal
from bayescore.samplers import gibbs, mala, polya_gamma
from bayescore.samplers.method import Segment
from bayescore.types import WeightedData
from benchmarks.commands import command
from benchmarks.tables import publish
from tests.samplers.problems import problem

M, D, N = 200, 10, 20_000
PRIOR = Normal(0, 4)
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "probit": {"nuts": {}, "mala": {}, "gibbs": {"thin": 10}},
    "logistic": {"nuts": {}, "mala": {}, "polya_gamma": {}},
}


@jit
def _bare(n, u, columns, gram):
    eta = elementary.tall_times(columns, u)
    log_p, matrix = np.empty(eta.size), np.zeros((u.size, u.size))
    for _ in range(n):
        eta = elementary.tall_times(columns, u)
        probit_upper(eta, log_p)
        elementary.tall_transposed_times(columns, eta)
        if gram:
            elementary.add_gram(columns, eta, matrix)


def sweeps() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(M), rng.normal(size=(M, D - 1))])
    y = np.where(rng.random(M) < 0.5, 1, -1).astype(np.int8)
    real = np.exp(rng.uniform(math.log(0.05), math.log(5000), M))
    real *= 1e4 / real.sum()
    work = {}
    for name, family, weights in (
        ("Albert-Chib, weights that sum to 1e4", "probit", real),
        ("Albert-Chib, weights that sum to 1e7", "probit", 1e3 * real),
        ("Albert-Chib, unit weights", "probit", np.ones(M)),
        ("Polya-Gamma, weights that sum to 1e4", "logistic", real),
        ("Polya-Gamma, weights that sum to 1e7", "logistic", 1e3 * real),
        ("Polya-Gamma, unit weights", "logistic", np.ones(M)),
        ("MALA transition, probit", "probit", real),
    ):
        data = WeightedData(X, y, weights, np.arange(M))
        mode, target = bc.find_map(data, family, PRIOR), posterior(data, family, PRIOR)
        if "MALA" in name:
            sampler, arguments, tuning = mala, (mode.factor, target.arguments()), mala.first_step_size(D)
        else:
            sampler, tuning = (gibbs if family == "probit" else polya_gamma), None
            prepare: Callable[..., Any] = sampler.prepare
            arguments = prepare(target.rows.Z, weights, prior_part(np.zeros(D), PRIOR))
        n = N if sampler is not polya_gamma else N // 20
        out = Segment.empty(n // 10, D, thin=10)

        def chain(sampler=sampler, start=mode.beta, tuning=tuning, arguments=arguments, out=out) -> None:
            sampler.advance(np.random.default_rng(0), start, tuning, arguments, out)

        work[name] = (chain, n)
    columns, u = gibbs.prepare(target.rows.Z, real, prior_part(np.zeros(D), PRIOR))[0], rng.normal(size=D)
    work["bare arithmetic"] = (lambda: _bare(N, u, columns, False), N)
    work["bare arithmetic with Z'WvZ"] = (lambda: _bare(N, u, columns, True), N)
    times: dict[str, list[float]] = {name: [] for name in work}
    for repeat in range(12):
        for name, (chain, n) in work.items():
            begin = time.perf_counter()
            chain()
            if repeat:  # the first one compiles
                times[name].append((time.perf_counter() - begin) / n)
    # the smallest, as other programs only ever add to it
    bare = min(times["bare arithmetic"])
    publish(
        "gibbs_sweep",
        [
            {"work": name, "microseconds": 1e6 * min(taken), "times bare": min(taken) / bare}
            for name, taken in times.items()
        ],
    )


@command("gibbs")
def main() -> None:
    sweeps()
    rows = []
    for family, samplers in SETTINGS.items():
        for name, positive in (("balanced", 0.5), ("3% positive", 0.03)):
            data = problem(family, positive)
            reference = None
            for sampler, options in samplers.items():
                settings = {"random_seed": 1, "progressbar": False, **options}
                bc.sample(data, family, PRIOR, sampler=sampler, draws=10, tune=10, **settings)  # compiles
                begin = time.perf_counter()
                idata = bc.sample(data, family, PRIOR, sampler=sampler, draws=2000, tune=500, **settings)
                taken = time.perf_counter() - begin
                beta = idata.posterior["beta"].values
                reference = beta if reference is None else reference
                gap = beta.mean(axis=(0, 1)) - reference.mean(axis=(0, 1))
                rows.append(
                    {
                        "family": family,
                        "data": name,
                        "sampler": sampler,
                        "acceptance": float(idata.sample_stats["acceptance_rate"].mean()),
                        "smallest ESS": ess_mean(beta).min(),
                        "seconds": taken,
                        "ESS a second": ess_mean(beta).min() / taken,
                        "mean error (standard errors)": np.abs(
                            gap / np.hypot(mcse_mean(beta), mcse_mean(reference))
                        ).max(),
                        "sd error": np.abs(beta.std(axis=(0, 1)) / reference.std(axis=(0, 1)) - 1).max(),
                    }
                )
    publish("gibbs", rows)
