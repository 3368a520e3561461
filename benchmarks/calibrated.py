"""Coresets of 20 D rows against the full data's mode and Hessian, 10 seeds.

Intercept, standardised columns, N(0, 4^2) priors; D counts the intercept. "mean" is the largest error of a mode in
posterior sds, "sd" the largest relative error of an sd of the Laplace approximation; seconds and passes are those of a
build, with the pass that tries the coreset out. Reads ../shared/data.
"""

import time
import warnings

import numpy as np

import bayescore as bc
from bayescore.models.newton import find_mode
from bayescore.models.posterior import posterior
from benchmarks.problems import PROBLEMS, load, readable
from benchmarks.tables import publish

SEEDS = 10
METHODS = {"logistic": ("uniform", "sensitivity", "calibrated"), "probit": ("uniform", "calibrated")}


def main() -> None:
    warnings.filterwarnings("ignore", message="all .* rows of the coreset have one label|column .* is constant")
    warnings.filterwarnings("ignore", message="no weights on these")
    rows = []
    for name in readable(PROBLEMS):
        X, y = load(name)
        for link, methods in METHODS.items():
            design = {"intercept": True, "standardize": True, "likelihood": link, "progressbar": False}
            target = posterior(bc.full_data(X, y, **design), link, bc.Normal(0, 4))
            D = target.n_features
            guess = bc.find_map(bc.build_coreset(X, y, method="calibrated", size=20 * D, random_state=99, **design))
            truth = find_mode(target.terms, guess.beta)  # the posterior is log-concave: one mode, wherever begun
            for method in methods:
                errors, taken, passes = [], [], []
                for seed in range(SEEDS):
                    begin = time.perf_counter()
                    core = bc.build_coreset(X, y, method=method, size=20 * D, random_state=seed, **design)
                    taken.append(time.perf_counter() - begin)
                    own = bc.find_map(core)
                    passes.append(core.params["passes"])
                    errors.append(
                        (np.abs((own.beta - truth.beta) / truth.sd).max(), np.abs(own.sd / truth.sd - 1).max())
                    )
                mean, sd = np.array(errors).T
                rows.append(
                    {
                        "data": name,
                        "N": len(y),
                        "D": D,
                        "M": 20 * D,
                        "likelihood": link,
                        "method": method,
                        "mean, median": np.median(mean),
                        "mean, worst": mean.max(),
                        "sd, median": np.median(sd),
                        "sd, worst": sd.max(),
                        "seconds": np.median(taken),
                        "passes": np.median(passes),
                        "passes, most": max(passes),
                    }
                )
    publish("calibrated", rows)
