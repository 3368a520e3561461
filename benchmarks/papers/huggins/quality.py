"""Does Figure 2 come out? Polynomial MMD and negative test log-likelihood by size, random against coreset.

Prior N(0, 2^2), as in the published code (the paper does not say); k and a = 3 of the paper, test rows held out in its
shares. Sizes are those of the published code's README. MMD is squared, (0.2 + x.y)^3, as in that code, on the columns
as sampled; the whitened MMD is the root, of (1 + x.y)^3 in units of the reference; the negative test log-likelihood
is the mean over draws and rows. MALA adapts its step to acceptance 0.574 in the first half of its iterations and keeps
each tenth of the second; here it is preconditioned by the Hessian at the mode and adapts that too, and makes fewer
iterations than the paper's 100,000 (`huggins_guarantees` compares the two). The reference: two chains of 6,250
iterations on all rows, each fifth of the last 5,000 kept; "floor" is the MMD of the one chain from the other.
20 repetitions, as in the paper (`--trials` takes others); medians and quartiles over them. "better" and "worse" count
sizes at which the quartiles do not overlap. Two equal methods have them apart, by simulation of normal figures, at 0.2%
of sizes, of 10 repetitions at 3.5%, of 3 at 34% (`false_alarm`); "apart by chance" is that share times the sizes.
"calibrated" is this package's own method, from the smallest of the sizes that is at least 5 D.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.diagnostics import mmd
from benchmarks.commands import command
from benchmarks.papers.huggins.problems import PRIOR, PROBLEMS, READINGS, Problem, chain, readable, split
from benchmarks.tables import known_rows, publish

SIZES = (156, 312, 625, 1250, 2500, 5000, 10_000)  # README of the published code
METHODS: dict[str, dict[str, Any]] = {
    "random": {"method": "uniform"},
    "coreset": {"method": "sensitivity"},
    "calibrated": {"method": "calibrated", "prior": PRIOR},
}
CALIBRATED_LARGEST = 2500  # beyond, the curve is the floor
QUARTILES = (0.25, 0.5, 0.75)
SIMULATED = 100_000  # comparisons of equal methods: standard errors below 0.2%
Rows = list[dict[str, Any]]


def reference_of(data: bc.Coreset, *, quick: bool) -> np.ndarray:
    """Return draws of the full data's posterior, shape (2, draws, D)."""
    kept, warm = (250, 100) if quick else (1000, 250)
    idata = bc.sample(
        data, prior=PRIOR, sampler="mala", draws=kept, tune=warm, chains=2, cores=1, thin=5, random_seed=0,
        progressbar=False,
    )  # fmt: skip
    return idata.posterior["beta"].to_numpy()


def squared_mmd(a: np.ndarray, b: np.ndarray) -> float:
    return mmd(a, b, degree=3, coef0=0.2) ** 2


def test_loss(draws: np.ndarray, test: bc.Coreset) -> float:
    """Return the mean over draws and test rows of -log p."""
    return float(np.logaddexp(0.0, -(test.X * test.y[:, None]) @ draws.T).mean())


def _candidates(
    full: bc.Coreset, problem: Problem, sizes: tuple[int, ...], repetitions: int
) -> Iterator[tuple[str, int, int, bc.Coreset]]:
    """Yield method, size, seed and coreset."""
    for method, options in METHODS.items():
        own = {"clusters": problem.clusters} if method == "coreset" else {}
        for size in sizes:
            if method == "calibrated" and not 5 * full.n_features <= size <= CALIBRATED_LARGEST:
                continue
            for seed in range(repetitions):
                core = bc.build_coreset(full, size=size, random_state=seed, progressbar=False, **options, **own)
                merge = problem.repeats and full.n_features <= 10
                yield (
                    method,
                    size,
                    seed,
                    bc.build_coreset(core, method="aggregate", progressbar=False) if merge else core,
                )


def study(name: str, problem: Problem, *, trials: int | None, quick: bool) -> Rows:
    """Return a row for each method and size."""
    full, test = split(problem, quick=quick)
    merged = bc.build_coreset(full, method="aggregate", progressbar=False) if problem.repeats else full
    chains = reference_of(merged, quick=quick)
    reference = chains.reshape(-1, chains.shape[-1])
    repetitions = trials or (2 if quick else problem.repetitions)
    iterations = problem.iterations // (5 if quick else 1)
    sizes = tuple(size for size in (SIZES[::3] if quick else SIZES) if size <= min(problem.largest, len(full) // 2))
    about = {"figure": problem.figure, "data": name, "N": len(full), "D": full.n_features}
    found = []
    for method, size, seed, core in _candidates(full, problem, sizes, repetitions):
        draws = chain(core, iterations, seed).posterior["beta"].to_numpy()[0]
        found.append(
            {
                "method": method,
                "M": size,
                "MMD2": squared_mmd(draws, reference),
                "MMD whitened": mmd(draws, reference, whiten=reference),
                "loss": test_loss(draws, test),
            }
        )
    floor = {
        "MMD2, floor": squared_mmd(*chains),
        "MMD whitened, floor": mmd(*chains, whiten=reference),
        "loss, full data": test_loss(reference, test),
    }
    rows = []
    for (method, size), group in pd.DataFrame(found).groupby(["method", "M"], sort=False):
        row = {**about, "iterations": iterations, "repetitions": len(group), "method": method, "M": size}
        for measure in ("MMD2", "MMD whitened", "loss"):
            low, median, high = group[measure].quantile(QUARTILES)
            row |= {measure: median, f"{measure}, low": low, f"{measure}, high": high}
        rows.append({**row, **floor})
    return rows


def false_alarm(repetitions: int) -> float:
    """Return how often the quartiles of two equal methods do not overlap, of normal figures."""
    drawn = np.random.default_rng(0).standard_normal((2, SIMULATED, repetitions))
    low, high = np.quantile(drawn, (QUARTILES[0], QUARTILES[-1]), axis=2)
    return float(((high < low[::-1]).any(axis=0)).mean())


def verdicts(frame: pd.DataFrame) -> Rows:
    """Return, for each data set, where coresets beat random subsets: quartiles apart, and ratios of medians."""
    rows = []
    for _, own in frame.groupby("data", sort=False):
        random, coreset, calibrated = (own[own["method"] == method].set_index("M") for method in METHODS)
        ratio = random["MMD2"] / coreset["MMD2"]
        row = {key: own[key].iloc[0] for key in ("figure", "data", "N", "D", "iterations", "repetitions")}
        row |= {"sizes": len(ratio), "first ratio": ratio.iloc[0], "median ratio": ratio.median()}
        row |= {"last ratio": ratio.iloc[-1], "least ratio": ratio.min(), "greatest ratio": ratio.max()}
        for measure in ("MMD2", "MMD whitened", "loss"):
            row[f"{measure}, better"] = int((coreset[f"{measure}, high"] < random[f"{measure}, low"]).sum())
            row[f"{measure}, worse"] = int((coreset[f"{measure}, low"] > random[f"{measure}, high"]).sum())
        row["apart by chance"] = len(ratio) * false_alarm(int(row["repetitions"]))
        row["calibrated / floor"] = (calibrated["MMD2"] / calibrated["MMD2, floor"]).max()
        row["calibrated, sizes"] = len(calibrated)
        rows.append(row)
    return rows


@command("huggins_quality", evidence=("Binary5", "Binary10"), sets=(*PROBLEMS, *READINGS))
def main(*, quick: bool = False, trials: int | None = None, only: list[str] | None = None) -> None:
    warnings.filterwarnings("ignore")  # chains that have not mixed, coresets of one label: seen in the figures
    rows = [row for row in known_rows("huggins_quality") if only and row["data"] not in only]
    for name, problem in readable(only, readings=True).items():
        rows += study(name, problem, trials=trials, quick=quick)
        rows.sort(key=lambda row: [*PROBLEMS, *READINGS].index(row["data"]))
        publish("huggins_quality", rows)
    publish("huggins_quality_verdicts", verdicts(pd.DataFrame(rows)))
