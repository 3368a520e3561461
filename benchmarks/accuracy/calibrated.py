"""How near are coresets of 20 D rows to the mode and the Hessian of all rows? Ten seeds, of w8a three.

Intercept, standardised columns, N(0, 4^2) priors; D counts the intercept. "mean" is the largest error of a mode in
posterior sds, "sd" the largest relative error of an sd of the Laplace approximation; passes are those of a build, with
those that try the coreset out. Reads ../shared/data.
"""

import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.models.laplace import find_mode
from bayescore.models.posterior import posterior
from benchmarks.commands import command
from benchmarks.problems import PROBLEMS, load, readable
from benchmarks.tables import publish

METHODS = {"logistic": ("uniform", "sensitivity", "calibrated"), "probit": ("uniform", "calibrated")}


def study(name: str, family: str) -> list[dict[str, Any]]:
    """Return a row for each method."""
    warnings.filterwarnings("ignore")  # coresets of one label, weights that do not fit: seen in the figures
    X, y = load(name)
    design = {"intercept": True, "standardize": True, "family": family, "progressbar": False}
    target = posterior(bc.all_rows(X, y, **design), family, bc.priors.Normal(0, 4))
    D = target.n_features
    guess = bc.find_map(bc.build_coreset(X, y, method="calibrated", size=20 * D, random_state=99, **design))
    truth = find_mode(target.terms, guess.beta)  # the posterior is log-concave: one mode, wherever begun
    rows = []
    for method in METHODS[family]:
        errors, passes = [], []
        for seed in range(3 if name == "w8a_train" else 10):
            core = bc.build_coreset(X, y, method=method, size=20 * D, random_state=seed, **design)
            own = bc.find_map(core)
            passes.append(core.params["passes"])
            errors.append((np.abs((own.beta - truth.beta) / truth.sd).max(), np.abs(own.sd / truth.sd - 1).max()))
        mean, sd = np.array(errors).T
        rows.append(
            {
                "data": name,
                "N": len(y),
                "D": D,
                "M": 20 * D,
                "family": family,
                "method": method,
                "seeds": len(errors),
                "mean, median": np.median(mean),
                "mean, worst": mean.max(),
                "sd, median": np.median(sd),
                "sd, worst": sd.max(),
                "passes, median": np.median(passes),
                "passes, most": max(passes),
            }
        )
    return rows


@command("calibrated")
def main() -> None:
    tasks = [(name, family) for name in readable(PROBLEMS) for family in METHODS]
    rows = []
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        for task, found in zip(tasks, pool.map(study, *zip(*tasks, strict=True)), strict=True):
            print("done:", *task, flush=True)
            rows += found
    publish("calibrated", rows)
