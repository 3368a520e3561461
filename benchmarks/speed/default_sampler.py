"""Effective draws a second of MALA and NUTS; `mixing` has the default sampler beside them.

M rows of D - 1 normal columns and an intercept, weights uniform in 1, ..., 100, as coresets have; "nearly separated"
are rows without weights whose labels few rows contradict, with a skewed posterior. 2 chains of 500 draws after 500
(MALA's are 10 transitions apart), one after the other. Effective draws are the smallest bulk ESS of a coefficient, the
seconds those of the processor, warm-up included; on a busy machine rows beyond the cache take several times as many.
NUTS is told without what its model costs to compile; that stands in a column of its own.
"""

import resource
import warnings

import numpy as np

import bayescore as bc
from bayescore.diagnostics.mcse import ess
from bayescore.types import WeightedData
from benchmarks.commands import command
from benchmarks.tables import publish

DRAWS, CHAINS = 500, 2
NORMAL, HEAVY = bc.priors.Normal(0, 4), (bc.priors.StudentT(4), bc.priors.Cauchy(), bc.priors.Laplace())
SHAPES = ((40, 2), (200, 10), (600, 30), (1200, 60), (1000, 100), (2000, 100), (2000, 200), (3000, 30), (20_000, 10))
CASES = [
    *(("weighted", *shape, "logistic", NORMAL) for shape in SHAPES),
    *(("weighted", 200, 10, "logistic", prior) for prior in HEAVY),
    *(("weighted", *shape, "probit", NORMAL) for shape in ((200, 10), (600, 30))),
    *(("nearly separated", 50, 10, "logistic", prior) for prior in (NORMAL, *HEAVY)),
    *(("nearly separated", 150, 30, "logistic", prior) for prior in (NORMAL, HEAVY[1])),
]


def problem(kind: str, n_rows: int, n_features: int) -> WeightedData:
    rng = np.random.default_rng(n_features)
    X = np.column_stack([np.ones(n_rows), rng.normal(size=(n_rows, n_features - 1))])
    beta = rng.normal(size=n_features) / np.sqrt(n_features) * (1.0 if kind == "weighted" else 15.0)
    y = np.where(X @ beta + rng.logistic(size=n_rows) > 0, 1, -1).astype(np.int8)
    weights = rng.uniform(1, 100, n_rows) if kind == "weighted" else np.ones(n_rows)
    return WeightedData(X, y, weights, np.arange(n_rows))


def processor_seconds() -> float:
    """Return what this process and its children have used."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def drawn(data: WeightedData, family: str, prior: object, sampler: str) -> dict[str, float]:
    begin = processor_seconds()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of poor mixing: the ESS says it
        idata = bc.sample(
            data,
            family,
            prior,
            sampler=sampler,
            draws=DRAWS,
            tune=DRAWS,
            chains=CHAINS,
            cores=1,
            random_seed=1,
            progressbar=False,
        )
    total = processor_seconds() - begin
    stats = idata["sample_stats"]
    work = total if sampler == "mala" else 2.0 * float(stats["process_time_diff"].sum())  # warm-up takes as long
    size = float(ess(idata["posterior"]["beta"].values, "bulk").min())
    return {"ESS": size, "seconds": work, "compiling": max(total - work, 0.0), "ESS a second": size / work}


@command("default_sampler")
def main() -> None:
    rows = []
    small = problem("weighted", 40, 2)
    for sampler in ("mala", "nuts"):
        drawn(small, "logistic", NORMAL, sampler)  # compiled
    for kind, n_rows, n_features, family, prior in CASES:
        data = problem(kind, n_rows, n_features)
        mala, nuts = (drawn(data, family, prior, sampler) for sampler in ("mala", "nuts"))
        row = {"rows": kind, "M": n_rows, "D": n_features, "family": family, "prior": type(prior).__name__}
        row |= {f"MALA {name}": value for name, value in mala.items() if name != "compiling"}
        row |= {f"NUTS {name}": value for name, value in nuts.items()}
        rows.append(row | {"MALA to NUTS": mala["ESS a second"] / nuts["ESS a second"]})
        publish("default_sampler", rows, digits=3)
