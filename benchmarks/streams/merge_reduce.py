"""How do errors of merge-and-reduce coresets over 64 blocks fall with their size, beside builders that see all?

Logistic, intercept, standardised columns, N(0, 4^2) priors; median and worst of 5 seeds of the largest error of a mode,
in posterior sds, and of an sd of the Laplace approximation. "expected" is what the calibrated ones predict themselves.
Rows come shuffled, in the order of their file (CovType's is one of places; Binary10's is random), or sorted by label.
"certified": what `certify` says of MALA draws from the calibrated coresets. Reads ../shared/data.
"""

import warnings
from typing import Any

import numpy as np

import bayescore as bc
from benchmarks.commands import command
from benchmarks.problems import load, readable
from benchmarks.tables import publish

BLOCKS, SEEDS = 64, 5
NAMES = ("Binary10", "covtype_cover2v4")
BUILDERS: dict[str, dict[str, Any]] = {
    "tree, calibrated": {"method": "merge_reduce"},
    "tree, sensitivity": {"method": "merge_reduce", "reducer": "sensitivity"},
    "tree, leverage": {"method": "merge_reduce", "reducer": "leverage"},
    "online": {"method": "online"},
    "all rows, calibrated": {"method": "calibrated"},
    "all rows, sensitivity": {"method": "sensitivity"},
    "all rows, leverage": {"method": "leverage"},
}


def study(full: bc.Coreset, name: str, order: str, builder: str, factor: int) -> dict[str, Any]:
    """Return the errors of one builder at a size of `factor` D."""
    truth, size = bc.find_map(full), factor * full.n_features
    options = dict(BUILDERS[builder])
    if options["method"] == "merge_reduce":
        options["leaf_rows"] = -(-len(full) // BLOCKS)
    errors, expected, certified = [], [], 0
    for seed in range(SEEDS):
        core = bc.build_coreset(full, size=size, random_state=seed, progressbar=False, **options)
        own = bc.find_map(core)
        errors.append((np.abs((own.beta - truth.beta) / truth.sd).max(), np.abs(own.sd / truth.sd - 1).max()))
        if "calibrated" in builder:
            expected.append(core.params["mean_error"])
            idata = bc.sample(core, sampler="mala", random_seed=seed, progressbar=False)
            certified += bc.certify(idata, core, full, progressbar=False).level == "certified"
    mean, sd = np.array(errors).T
    return {
        "data": name,
        "order": order,
        "N": len(full),
        "D": full.n_features,
        "M / D": factor,
        "builder": builder,
        "mean, median": np.median(mean),
        "mean, worst": mean.max(),
        "sd, median": np.median(sd),
        "sd, worst": sd.max(),
        "expected, median": np.median(expected) if expected else np.nan,
        "certified": f"{certified} of {SEEDS}" if expected else "",
    }


@command("merge_reduce")
def main() -> None:
    warnings.filterwarnings("ignore")  # of coresets that do not meet the data: seen in the figures
    rows = []
    trees = [name for name in BUILDERS if name.startswith("tree")]
    for name in readable(NAMES):
        X, y = load(name)
        full = bc.all_rows(X, y, intercept=True, standardize=True, progressbar=False)
        orders = {
            "shuffled": (np.random.default_rng(0).permutation(len(full)), (5, 10, 20, 40, 80), list(BUILDERS)),
            "of the file": (np.arange(len(full)), (20, 80), trees),
            "by label": (np.argsort(full.y, kind="stable"), (20, 80), trees),
        }
        for order, (which, factors, builders) in orders.items():
            data = full.take(which)
            for factor in factors:
                rows += [study(data, name, order, builder, factor) for builder in builders]
                print("done:", name, order, factor, flush=True)
    publish("merge_reduce", rows)
