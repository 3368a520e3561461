"""What do calibrated builds with tens to hundreds of columns cost beside `find_map` on all rows?

Standard normal columns, coefficients N(0, 2.25 / D), an intercept, some 35% positive; and w8a (`bayescore.data`). The
size is 20 D. Each set has a process of its own. Seconds are wall time of one run after one that compiles; processor
seconds count all threads and tell more on a machine that is not idle, as this one was not. "mode", "sd", "correlation":
the build's largest errors against the normal approximation of the full data, in sds, relatively and plain; "expected"
are those that the build predicts; "counting" is the share of its draws that still count once they are moved to the full
data's posterior and weighed.

The draws that are certified are MALA's (`THIN` transitions each); "corrected" are the largest errors of the corrected
draws, two standard errors of draws and reference off, against the full data's posterior by `importance`, which covers
too little of w8a's.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.coresets import calibration, predicted_error
from bayescore.coresets.predicted_error import Trial
from bayescore.models.laplace import Mode
from benchmarks.accuracy.importance import by_importance, correlations, gaps
from benchmarks.commands import command
from benchmarks.problems import load
from benchmarks.sources.sources import one_by_one, peak_mb

SETS = ("50", "200", "500", "w8a_train", "200 of 1e6 rows")
N = 100_000
PRIOR = bc.priors.Normal(0, 4)
THIN = 10
LEAST_SHARE = 0.05  # of the reference's draws, below which it is none


def rows_of(name: str) -> tuple[Any, Any]:
    """Return X and y of a set."""
    if name == "w8a_train":
        return load(name)
    d, n = int(name.split()[0]), 1_000_000 if "1e6" in name else N
    rng = np.random.default_rng(0)
    X, b = rng.standard_normal((n, d)), rng.normal(size=d) * 1.5 / np.sqrt(d)
    return X, rng.random(n) < 1 / (1 + np.exp(1 - X @ b))


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return the result, and wall and processor seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return found, time.perf_counter() - wall, time.process_time() - cpu


def corrected(core: bc.Coreset, data: bc.Coreset, full: Mode) -> dict[str, Any]:
    """Return the certificate's seconds and word, and the largest errors of the corrected draws."""
    idata = bc.sample(core, "logistic", PRIOR, sampler="mala", thin=THIN, random_seed=0, progressbar=False)
    certificate, seconds, cpu = timed(lambda: bc.certify(idata, core, data, progressbar=False))
    row = {"certify, s": seconds, "its processor seconds": cpu, "level": str(certificate.level)}
    if certificate.idata is None:
        return row
    known = by_importance(data, full, "logistic", PRIOR)
    if known.share < LEAST_SHARE:
        return row
    errors = gaps(certificate.idata.posterior["beta"].values, known)
    return row | {f"corrected {kind}": errors[f"{kind} beyond"] for kind in ("mean", "sd", "correlation")}


def study(name: str) -> dict[str, Any]:
    """Return a row of figures."""
    warnings.filterwarnings("ignore")
    X, y = rows_of(name)
    design = {"intercept": True, "progressbar": False}
    size, trials = 20 * (X.shape[1] + 1), []

    def kept(*arguments: Any) -> Trial:
        trials.append(try_out(*arguments))
        return trials[-1]

    try_out, calibration.try_out = predicted_error.try_out, kept  # type: ignore[attr-defined]
    small = bc.build_coreset(X[:3000], y[:3000], method="calibrated", size=size // 4, **design)  # compiles
    drawn = bc.sample(small, "logistic", PRIOR, sampler="mala", draws=300, tune=300, random_seed=0, progressbar=False)
    bc.certify(drawn, small, X[:3000], y[:3000], progressbar=False)
    before = peak_mb()
    core, seconds, cpu = timed(lambda: bc.build_coreset(X, y, method="calibrated", size=size, random_state=0, **design))
    extra = peak_mb() - before
    data = bc.all_rows(X, y, **design)
    full, map_seconds, map_cpu = timed(lambda: bc.find_map(data, prior=PRIOR))
    own = bc.find_map(core, prior=PRIOR)
    found = corrected(core, data, full)
    return {
        "columns": name,
        "N": len(y),
        "D": X.shape[1] + 1,
        "M": size,
        "find_map, s": map_seconds,
        "build, s": seconds,
        "times find_map": seconds / map_seconds,
        "times its processor seconds": cpu / map_cpu,
        "passes": core.params["passes"],
        "fits anew": core.params["rounds"],
        "mode": np.abs((own.beta - full.beta) / full.sd).max(),
        "sd": np.abs(own.sd / full.sd - 1).max(),
        "correlation": np.abs(correlations(own.covariance) - correlations(full.covariance)).max(),
        "expected mean": core.params["mean_error"],
        "expected sd": core.params["sd_error"],
        "expected correlation": core.params["correlation_error"],
        "counting": trials[-1].full.ess / len(trials[-1].values),
        "peak memory beside the data, MB": extra,
        "certify / find_map": found["certify, s"] / map_seconds,
        **found,
    }


@command("columns", sets=SETS)
def main(only: Sequence[str] = SETS) -> None:
    one_by_one("columns", study, only, SETS)
