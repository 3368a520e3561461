"""Which way to build a coreset of M rows is nearest? KL between Laplace approximations: median and worst seed.

gauss: x ~ N(0, I_10), theta ~ N(0, I). hard: a column of ones and nine t_3 columns, theta_1 = -4.5, the others
N(0, 1); the nine columns of 500 rows are shifted by 5. Both N = 1e5, prior variance 1. Binary10: N = 1e6, prior
variance 4, only 365 rows distinct, so that "aggregate" is exact and small. "uncalibrated" is the calibrated draw before
its weights are fitted, "uniform + calibrated" a uniform draw with the first fit of "calibrated", which may draw and
fit anew. GIGA and quasi-Newton coresets are our implementations from the papers (rival_methods.py); M is GIGA's number
of iterations; they have 2 seeds, the others 5. "earlier figure" was measured elsewhere, on other data of these laws,
with the authors' code for the rivals; a slash parts the two sizes.
"seconds" is the build, reading of the data included; GIGA's for both sizes, which share one run.
"""

import time
import warnings
from collections.abc import Iterator

import numpy as np

import bayescore as bc
from bayescore.coresets.calibration import Totals, fit_weights
from bayescore.coresets.pilot import MAX_PILOTS, PilotPass, Shares, full_mode, survey
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.datasets import binary10
from bayescore.families.family import FAMILIES
from bayescore.models.laplace import Mode
from bayescore.numerics.sampling import choose
from bayescore.types import WeightedData
from benchmarks.commands import command
from benchmarks.rivals.rival_methods import giga, quasi_newton
from benchmarks.tables import publish

SEEDS = 5
SLOW_SEEDS = 2  # of quasi-Newton and GIGA, some 20 s a coreset
RIVALS = ("quasi-Newton", "GIGA", "GIGA, weights refitted")
EARLIER = {
    ("gauss", "uncalibrated"): "1268 / 251",
    ("gauss", "calibrated"): "0.087 / 0.014",
    ("gauss", "GIGA"): "9.1 at 500, 229 s",
    ("gauss", "quasi-Newton"): "3.8 at 500",
    ("hard", "uncalibrated"): "469 / 166",
    ("hard", "calibrated"): "0.064 / 0.022",
    ("hard", "quasi-Newton"): "196 at 500",
    ("Binary10", "uncalibrated"): "7387 / 1540",
    ("Binary10", "calibrated"): "0.011 / 0.003",
    ("Binary10", "uniform"): "25047 at 625",
    ("Binary10", "sensitivity"): "6400 at 625",
}


def gauss() -> tuple[np.ndarray, np.ndarray, bc.priors.Normal, tuple[int, int]]:
    """Return X, y, the prior and the two sizes."""
    rng = np.random.default_rng(0)
    X, theta = rng.standard_normal((100_000, 10)), rng.standard_normal(10)
    return X, labels(X, theta, rng), bc.priors.Normal(0, 1), (200, 500)


def hard() -> tuple[np.ndarray, np.ndarray, bc.priors.Normal, tuple[int, int]]:
    """As `gauss`."""
    rng = np.random.default_rng(0)
    X, theta = rng.standard_t(3, (100_000, 10)), rng.standard_normal(10)
    X[:, 0], theta[0] = 1.0, -4.5
    X[:500, 1:] += 5.0
    return X, labels(X, theta, rng), bc.priors.Normal(0, 1), (200, 500)


def binary() -> tuple[np.ndarray, np.ndarray, bc.priors.Normal, tuple[int, int]]:
    """As `gauss`."""
    return *binary10(1_000_000, random_state=0), bc.priors.Normal(0, 2), (200, 625)


def labels(X: np.ndarray, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw labels of the logistic model."""
    return np.where(rng.random(len(X)) < 1 / (1 + np.exp(-X @ theta)), 1, -1).astype(np.int8)


def divergence(own: Mode, truth: Mode) -> float:
    """Return KL(own || truth) of the two normal distributions."""
    precision, difference = np.linalg.inv(truth.covariance), own.beta - truth.beta
    logs = [np.linalg.slogdet(mode.covariance)[1] for mode in (truth, own)]
    square = difference @ precision @ difference
    return float(0.5 * (np.trace(precision @ own.covariance) - len(difference) + square + logs[0] - logs[1]))


def one_half_of_calibration(
    X: np.ndarray, y: np.ndarray, prior: bc.priors.Normal, size: int, seed: int, uniform: bool
) -> WeightedData:
    """Return a uniform draw with fitted weights, or else the draw by score without: the only use of internals."""
    dataset = Dataset(as_source(X, y))
    rng = np.random.default_rng(seed)
    seeds = rng.integers(2**62, size=MAX_PILOTS + 1).tolist()
    logistic = FAMILIES["logistic"]

    def look(shares: Shares) -> PilotPass:
        return survey(dataset, shares, size, 0, (seeds[-1], 0))

    shares, found = full_mode(dataset, logistic, prior, seeds[:-1], look)
    if not uniform:
        return choose(found.candidates, size, found.total)[0]
    rows = built("uniform", X, y, prior, size, seed)
    totals = Totals.at(shares.laplace, found.part, len(rows))
    factors = fit_weights(totals.shares(rows).stacked(), totals.values(found.pull).stacked()).factors
    kept = factors > 0.0
    return rows.take(kept).with_weights((rows.weights * factors)[kept])


def built(method: str, X: np.ndarray, y: np.ndarray, prior: bc.priors.Normal, size: int, seed: int) -> WeightedData:
    """Return what `build_coreset` makes."""
    options = {"prior": prior} if method == "calibrated" else {}
    return bc.build_coreset(X, y, method=method, size=size, random_state=seed, progressbar=False, **options)


def coresets(
    X: np.ndarray, y: np.ndarray, prior: bc.priors.Normal, sizes: tuple[int, int], seed: int
) -> Iterator[tuple[str, int, WeightedData, float]]:
    """Yield method, size, coreset and the seconds it took."""
    ways = {name: lambda size, name=name: built(name, X, y, prior, size, seed) for name in ("uniform", "sensitivity")}
    ways["uncalibrated"] = lambda size: one_half_of_calibration(X, y, prior, size, seed, uniform=False)
    ways["uniform + calibrated"] = lambda size: one_half_of_calibration(X, y, prior, size, seed, uniform=True)
    ways["calibrated"] = lambda size: built("calibrated", X, y, prior, size, seed)
    ways["quasi-Newton"] = lambda size: quasi_newton(merged(X, y), prior, size, seed)
    for name, way in ways.items():
        if name in RIVALS and seed >= SLOW_SEEDS:
            return
        for size in sizes:
            begin = time.perf_counter()
            core = way(size)
            yield name, size, core, time.perf_counter() - begin
    begin = time.perf_counter()
    found = giga(merged(X, y), prior, sizes, seed)
    taken = time.perf_counter() - begin
    for size, (core, refitted) in found.items():
        yield "GIGA", size, core, taken
        yield "GIGA, weights refitted", size, refitted, taken


def merged(X: np.ndarray, y: np.ndarray) -> WeightedData:
    """Return the distinct rows where they are few, else all rows."""
    if len(np.unique(X[:1000], axis=0)) < 500:
        return bc.build_coreset(X, y, method="aggregate", progressbar=False)
    return bc.all_rows(X, y, progressbar=False)


@command("rivals")
def main() -> None:
    warnings.filterwarnings("ignore", message="no weights on these")  # seen in the table
    rows = []
    for name, problem in {"gauss": gauss, "hard": hard, "Binary10": binary}.items():
        X, y, prior, sizes = problem()
        truth = bc.find_map(bc.all_rows(X, y, progressbar=False), "logistic", prior)
        results: dict[tuple[str, int], list[tuple[float, int, float]]] = {}
        for seed in range(SEEDS):
            for method, size, core, seconds in coresets(X, y, prior, sizes, seed):
                kl = divergence(bc.find_map(core, "logistic", prior), truth)
                results.setdefault((method, size), []).append((kl, len(core), seconds))
        for (method, size), found in results.items():
            kl, kept, seconds = np.array(found).T
            rows.append(
                {
                    "data": name,
                    "N": len(y),
                    "M": size,
                    "method": method,
                    "seeds": len(kl),
                    "whose": "our implementation" if method in RIVALS else "bayescore",
                    "KL, median": np.median(kl),
                    "KL, worst": kl.max(),
                    "rows kept": int(np.median(kept)),
                    "seconds": np.median(seconds),
                    "earlier figure": EARLIER.get((name, method), ""),
                }
            )
        if name == "Binary10":
            begin = time.perf_counter()
            core = merged(X, y)
            seconds = time.perf_counter() - begin
            kl = max(divergence(bc.find_map(core, "logistic", prior), truth), 0.0)  # rounding
            exact = {"method": "aggregate", "whose": "bayescore", "KL, median": kl, "KL, worst": kl}
            rows.append(
                {"data": name, "N": len(y), "M": len(core), **exact, "rows kept": len(core), "seconds": seconds}
            )
    publish("rivals", rows)
