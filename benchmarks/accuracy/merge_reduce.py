"""How far off are merge-and-reduce coresets of 64 blocks if rows come shuffled, as in their file, or sorted by label?

CovType, logistic, intercept, standardised columns, N(0, 4^2) priors, 20 D rows; median and worst of 5 seeds of the
largest error of a mode, in posterior sds, and of an sd of the Laplace approximation. "expected" is what the coresets
predict themselves. The order of CovType's file is one of places. "certified": what `certify` says of MALA draws from
the coresets. Reads ../shared/data.
"""

import warnings

import numpy as np

import bayescore as bc
from benchmarks.commands import command
from benchmarks.problems import load, readable
from benchmarks.tables import publish

BLOCKS, SEEDS, PER_COLUMN = 64, 5, 20
NAME = "covtype_cover2v4"


@command("merge_reduce", evidence=True)
def main(*, quick: bool = False) -> None:
    if not readable([NAME]):
        return
    warnings.filterwarnings("ignore")  # of coresets that do not meet the data: seen in the figures
    X, y = load(NAME)
    full = bc.all_rows(X, y, intercept=True, standardize=True, progressbar=False)
    truth, size = bc.find_map(full), PER_COLUMN * full.n_features
    seeds = 1 if quick else SEEDS
    orders = {
        "shuffled": np.random.default_rng(0).permutation(len(full)),
        "of the file": np.arange(len(full)),
        "by label": np.argsort(full.y, kind="stable"),
    }
    rows = []
    for order, which in orders.items():
        data, errors, expected, certified = full.take(which), [], [], 0
        told = {"method": "merge_reduce", "size": size, "leaf_rows": -(-len(full) // BLOCKS), "progressbar": False}
        for seed in range(seeds):
            core = bc.build_coreset(data, random_state=seed, **told)
            own = bc.find_map(core)
            errors.append((np.abs((own.beta - truth.beta) / truth.sd).max(), np.abs(own.sd / truth.sd - 1).max()))
            expected.append(core.params["mean_error"])
            idata = bc.sample(core, sampler="mala", random_seed=seed, progressbar=False)
            certified += bc.certify(idata, core, data, progressbar=False).level == "certified"
        mean, sd = np.array(errors).T
        row = {"data": NAME, "order": order, "N": len(full), "D": full.n_features, "M / D": PER_COLUMN}
        row |= {"builder": "tree, calibrated", "mean, median": np.median(mean), "mean, worst": mean.max()}
        row |= {"sd, median": np.median(sd), "sd, worst": sd.max(), "expected, median": np.median(expected)}
        rows.append(row | {"certified": f"{certified} of {seeds}"})
    publish("merge_reduce", rows)
