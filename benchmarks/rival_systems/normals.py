"""Approximations by a normal distribution, or begun by one: Laplace, ADVI on minibatches, Pathfinder with PSIS.

ADVI is `pm.fit` of 10,000 steps (its default) on minibatches of 500 rows, mean-field with its default optimizer,
Adagrad over a window with rate 0.001; the grid has Adam with rate 0.01, mean-field and of full rank. Pathfinder is that
of pymc-extras with its defaults, its four paths one after the other; the grid has jitter 0.1 in place of 2 in starts.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import bayescore as bc
from benchmarks.rival_systems.found import PRIOR, Found, Rows, of_draws

STEPS, BATCH = 10_000, 500


def laplace(rows: Rows) -> Callable[[], Found]:
    """Find the mode and the curvature there."""

    def run() -> Found:
        mode = bc.find_map(rows.full, "logistic", PRIOR)
        return Found(mode.beta, mode.covariance, passes=mode.n_steps)

    return run


def graph(X: Any, y: Any, total: int | None = None) -> Any:
    """Return the model as a PyMC user writes it, y in {0, 1}; `total` rows, where X is a minibatch of them."""
    import pymc as pm

    with pm.Model() as model:
        beta = pm.Normal("beta", PRIOR.mu, PRIOR.sigma, shape=X.type.shape[1] if total else X.shape[1])
        pm.Bernoulli("y", logit_p=pm.math.dot(X, beta), observed=y, total_size=total)
    return model


def labels(rows: Rows) -> np.ndarray:
    """Return the labels as 0 and 1, of a type that PyMC does not cast, lest it refuse minibatches."""
    return (rows.y > 0).astype(np.int32)


def advi(rows: Rows, method: str, rate: float | None) -> Callable[[], Found]:
    """Fit on minibatches."""
    import pymc as pm

    def run() -> Found:
        N = len(rows.y)
        batches = pm.Minibatch(rows.X, labels(rows), batch_size=BATCH)
        told = {} if rate is None else {"obj_optimizer": pm.adam(learning_rate=rate)}
        found = pm.fit(STEPS, method, graph(*batches, total=N), random_seed=0, progressbar=False, **told)
        return Found(found.mean.eval(), found.cov.eval(), passes=STEPS * BATCH / N)

    return run


def pathfinder(rows: Rows, jitter: float) -> Callable[[], Found]:
    """Run four paths and resample."""
    import pymc_extras as pmx

    def run() -> Found:
        idata = pmx.fit_pathfinder(
            graph(rows.X, labels(rows)), jitter=jitter, random_seed=0, concurrent=None, progressbar=False,
            display_summary=False, add_pathfinder_groups=False,
        )  # fmt: skip
        return of_draws(idata.posterior["beta"].values)

    return run


LAPLACE = {"all rows": laplace}
ADVI = {
    "mean field": lambda rows: advi(rows, "advi", None),
    "mean field, Adam 0.01": lambda rows: advi(rows, "advi", 0.01),
    "full rank, Adam 0.01": lambda rows: advi(rows, "fullrank_advi", 0.01),
}
PATHFINDER = {"jitter 2": lambda rows: pathfinder(rows, 2.0), "jitter 0.1": lambda rows: pathfinder(rows, 0.1)}
