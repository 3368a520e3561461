"""Writes what ArviZ makes of fixed numbers, for `test_chains`, `test_psis` and `test_compat` on the other one.

``python -m tests.stacks.make`` writes a posterior to posterior-arviz-N.nc, N the first number of ArviZ's version, and
with ArviZ 0.23 its diagnostics to arviz-0.json.
"""

import json
from pathlib import Path

import arviz as az
import numpy as np

import bayescore as bc
from bayescore import compat

FOLDER = Path(__file__).parent
STATISTICS = {
    "bulk": lambda x: az.ess(x, method="bulk"),
    "tail": lambda x: az.ess(x, method="tail", prob=(0.05, 0.95)),
    "mean": lambda x: az.ess(x, method="mean"),
    "sd": lambda x: az.ess(x, method="sd"),
    "rhat": az.rhat,
    "quantile": lambda x: az.mcse(x, method="quantile", prob=0.03),
}


def spread(n, step=0.6180339887498949):
    """Return n numbers spread evenly over (0, 1), in an order that looks random, without a generator of random ones."""
    return (np.arange(1, n + 1) * step) % 1.0


def log_weights():
    """Return log importance weights by name: tails of several shapes, and some that cannot be fitted."""
    u = spread(1000)
    return {
        "bounded": -3.0 * u,
        "k of 0.3": -0.3 * np.log(u),
        "k of 0.7": -0.7 * np.log(u),
        "k of 1.5": -1.5 * np.log(u),
        "far below": np.where(u < 0.02, -0.3 * np.log(u), -900.0),
        "too few": -0.3 * np.log(spread(20)),
        "equal tail": np.where(u < 0.5, 1.0, -np.log(u)),
    }


def smoothed(log_w, k):
    """Return k-hat, and figures of the smoothed weights: effective sample size, largest, and a sum in order."""
    w = np.exp(log_w)
    return [float(k), 1.0 / float(w @ w), float(w.max()), float(w @ spread(len(w), 0.3))]


def chains(kind):
    """Return chains of shape (4, 250)."""
    x = np.log(spread(1000) / (1.0 - spread(1000))).reshape(4, 250)
    if kind == "slow":
        x = np.cumsum(x, axis=1) / 10.0
    return x + 0.3 * np.arange(4)[:, None] if kind == "apart" else x


def small_posterior():
    """Return a posterior of `bc.sample`, a few draws of MALA."""
    u = spread(120)
    X, y = np.column_stack([u, spread(120, 0.41)]), u + spread(120, 0.77) > 1.0
    core = bc.all_rows(X, y, intercept=True, progressbar=False)
    told = {"sampler": "mala", "draws": 6, "tune": 50, "chains": 2, "random_seed": 1, "progressbar": False}
    return bc.sample(core, prior=bc.priors.Normal(0.0, 4.0), **told)


def main():
    """Write the files of the installed ArviZ."""
    compat.write_inference_data(small_posterior(), str(FOLDER / f"posterior-arviz-{int(compat.ARVIZ_1)}.nc"))
    if not compat.ARVIZ_1:
        kinds = ("independent", "slow", "apart")
        found = {
            "smoothed": {name: smoothed(*az.psislw(values)) for name, values in log_weights().items()},
            "chains": {kind: {name: float(f(chains(kind))) for name, f in STATISTICS.items()} for kind in kinds},
        }
        (FOLDER / "arviz-0.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
