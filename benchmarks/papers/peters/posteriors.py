"""Does Gibbs on coresets agree with Gibbs on all rows? The aim of Peters (2021), whose experiments are open.

Albert and Chib's sampler runs on all rows (Algorithm 1) and, for real weights, on coresets of M rows. Errors are the
largest over coefficients: of means in posterior sds of all rows, of sds relative; quartiles over `seeds` coresets.
"noise" is the Monte Carlo error of both chains' means, in sds: no error can be seen below it. "ESS" is the smallest
over coefficients, of `sweeps` kept sweeps in each of four chains. Seconds are those of build and sampling (median), on
a machine with other work to do. N(0, 16) priors, intercept, standardised columns. CovType: 30,000 rows, its ten
quantitative columns.
"""

import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.datasets import probit
from bayescore.numerics.chains import ess, mcse_mean
from bayescore.types import WeightedData
from benchmarks.commands import command
from benchmarks.papers.peters.loss import COVTYPE, METHODS
from benchmarks.problems import load, readable
from benchmarks.tables import publish

CHEM, MADE = "chemreact_ds1_10", "probit, 30% positive (made)"
CHAINS, SEEDS, MOST_ROWS = 4, 10, 30_000
SWEEPS = {MADE: 2_000, CHEM: 4_000, COVTYPE: 2_000}  # kept of each chain; rare positives mix slowly
SIZES = (500, 2000)
BETA = (-0.6, *np.linspace(-0.4, 0.4, 9))


def raw(name: str, most_rows: int) -> tuple[Any, np.ndarray]:
    if name == MADE:
        X, y = probit(most_rows, BETA, random_state=0)
        return X[:, 1:], y
    frame, y = load(name)
    kept = np.sort(np.random.default_rng(0).permutation(len(y))[:most_rows])
    return frame.iloc[kept, :10], y[kept]


def sampled(rows: WeightedData, sweeps: int, seed: int, sampler: str = "gibbs") -> np.ndarray:
    """Return draws of beta, shape (chains, sweeps, D)."""
    told = {"draws": sweeps, "tune": sweeps // 4, "chains": CHAINS, "random_seed": seed, "progressbar": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # slow mixing is what the tables show
        idata = bc.sample(rows, "probit", bc.priors.Normal(0, 4), sampler=sampler, **told)
    return np.asarray(idata.posterior["beta"])


def errors(beta: np.ndarray, reference: np.ndarray) -> tuple[float, float, float]:
    """Return the largest errors of means and sds, and the Monte Carlo error of the means."""
    sd = reference.std(axis=(0, 1))
    noise = np.hypot(mcse_mean(beta), mcse_mean(reference)) / sd
    gap = np.abs(beta.mean(axis=(0, 1)) - reference.mean(axis=(0, 1))) / sd
    return float(gap.max()), float(np.abs(beta.std(axis=(0, 1)) / sd - 1.0).max()), float(noise.max())


def quartiles(values: Sequence[float], name: str) -> dict[str, float]:
    found = np.quantile(values, [0.25, 0.5, 0.75])
    return dict(zip((f"{name}, lower", f"{name}, median", f"{name}, upper"), found, strict=True))


def table_of(name: str, sweeps: int, n_seeds: int, most_rows: int) -> Iterator[dict[str, Any]]:
    """Yield a row for all data and one for each method and size."""
    X, y = raw(name, most_rows)
    data = bc.all_rows(X, y, family="probit", intercept=True, standardize=True, progressbar=False)
    for weight in (1.0, 1.5):  # compiles
        sampled(data.take(slice(0, 200)).with_weights(np.full(200, weight)), 4, 0)
    begin = time.perf_counter()
    reference = sampled(data, sweeps, 1)
    taken = time.perf_counter() - begin
    same = {"data": name, "N": len(data), "D": data.n_features, "positive (%)": 100.0 * float((data.y > 0).mean())}
    again = errors(sampled(data, sweeps, 2), reference)
    yield same | {
        "method": "all rows, another seed", "M": len(data), "seeds": 1, "sweeps": sweeps,
        **quartiles([again[0]], "mean"), **quartiles([again[1]], "sd"),
        "noise": again[2], "ESS": float(ess(reference, "mean").min()), "seconds": taken,
    }  # fmt: skip
    for label, method in {**METHODS, "calibrated": bc.methods.Calibrated()}.items():
        for size in SIZES:
            found, seconds, effective = [], [], []
            for seed in range(n_seeds):
                begin = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that few rows may be separable
                    core = bc.build_coreset(data, method=method, size=size, random_state=seed, progressbar=False)
                beta = sampled(core, sweeps, seed)
                seconds.append(time.perf_counter() - begin)
                found.append(errors(beta, reference))
                effective.append(ess(beta, "mean").min())
            means, sds, noises = zip(*found, strict=True)
            yield same | {
                "method": label, "M": size, "seeds": n_seeds, "sweeps": sweeps,
                **quartiles(means, "mean"), **quartiles(sds, "sd"), "noise": float(np.median(noises)),
                "ESS": float(np.median(effective)), "seconds": float(np.median(seconds)),
            }  # fmt: skip


@command("peters_gibbs", evidence=True)
def main(*, quick: bool = False) -> None:
    rows = []
    for name in (MADE, *readable((CHEM, COVTYPE))):
        sweeps, seeds, most_rows = (400, 2, 5_000) if quick else (SWEEPS[name], SEEDS, MOST_ROWS)
        rows += table_of(name, sweeps, seeds, most_rows)
    publish("peters_gibbs", rows)
