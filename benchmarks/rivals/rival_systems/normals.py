"""Approximations by a normal distribution, or begun by one: Laplace, weighed by all rows, ADVI, Pathfinder with PSIS.

"Weighed by all rows" draws from the normal approximation at the mode and weighs each draw by the likelihood of all rows
times the prior, over the normal's density; Pareto smoothing of the weights (PSIS) says by k-hat whether they count.
"Moments matched" repeats that twice from a t of 5 degrees of freedom with the weighed draws' mean and covariance. The
moments are the normal's own plus what the weights change, but for those of the t.

ADVI is `pm.fit` of 10,000 steps (its default) on minibatches of 500 rows, mean-field with its default optimizer,
Adagrad over a window with rate 0.001; the grid has Adam with rate 0.01, mean-field and of full rank. Pathfinder is that
of pymc-extras with its defaults, its four paths one after the other; the grid has jitter 0.1 in place of 2 in starts.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.diagnostics.psis import psislw
from bayescore.models.families import check_family
from bayescore.models.posterior import log_likelihoods
from benchmarks.rivals.rival_systems.found import PRIOR, Found, Rows, of_draws

STEPS, BATCH = 10_000, 500
DEGREES = 5  # of freedom


def laplace(rows: Rows) -> Callable[[], Found]:
    """Find the mode and the curvature there."""

    def run() -> Found:
        mode = bc.find_map(rows.full, "logistic", PRIOR)
        return Found(mode.beta, mode.covariance, passes=mode.n_steps)

    return run


def weighed(rows: Rows, draws: int, rounds: int = 0) -> Callable[[], Found]:
    """Weigh draws of the normal approximation, or of t distributions that are fitted to weighed draws."""

    def run() -> Found:
        full, rng = rows.full, np.random.default_rng(rows.seed)
        mode = bc.find_map(full, "logistic", PRIOR)
        mean, covariance, D = mode.beta, mode.covariance, len(mode.beta)
        for t in range(rounds + 1):
            z = rng.standard_normal((draws, D))
            log_q = -0.5 * (z**2).sum(axis=1)
            if t:
                z /= np.sqrt(rng.chisquare(DEGREES, draws) / DEGREES)[:, None]
                log_q = -0.5 * (DEGREES + D) * np.log1p((z**2).sum(axis=1) / DEGREES)
            beta = mean + z @ np.linalg.cholesky(covariance).T
            log_p = log_likelihoods(beta, full, check_family("logistic")) + PRIOR.log_density(beta)
            log_w, k = psislw(log_p - log_q)
            w = np.exp(log_w)
            change = w if t else w - 1.0 / draws
            own = change @ beta + (0.0 if t else mean)
            squares = ((beta - own).T * change) @ (beta - own)
            if not t:  # of the normal E (b - own)(b - own)' is known
                squares += covariance + np.outer(mean - own, mean - own)
            mean, covariance = own, squares
        told = f"whole; k-hat {float(k):.2f}, {1.0 / (w @ w):,.0f} of {draws:,} draws count"
        return Found(mean, covariance, told, passes=mode.n_steps + rounds + 1)

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
        found = pm.fit(STEPS, method, graph(*batches, total=N), random_seed=rows.seed, progressbar=False, **told)
        return Found(found.mean.eval(), found.cov.eval(), passes=STEPS * BATCH / N)

    return run


def pathfinder(rows: Rows, jitter: float) -> Callable[[], Found]:
    """Run four paths and resample."""
    import pymc_extras as pmx

    def run() -> Found:
        idata = pmx.fit_pathfinder(
            graph(rows.X, labels(rows)), jitter=jitter, random_seed=rows.seed, concurrent=None, progressbar=False,
            display_summary=False, add_pathfinder_groups=False,
        )  # fmt: skip
        return of_draws(idata.posterior["beta"].values)

    return run


LAPLACE = {"all rows": laplace}
WEIGHED = {
    "4,000 draws": lambda rows: weighed(rows, 4_000),
    "1,000 draws": lambda rows: weighed(rows, 1_000),
    "moments matched, 4,000 draws": lambda rows: weighed(rows, 4_000, rounds=2),
}
ADVI = {
    "mean field": lambda rows: advi(rows, "advi", None),
    "mean field, Adam 0.01": lambda rows: advi(rows, "advi", 0.01),
    "full rank, Adam 0.01": lambda rows: advi(rows, "fullrank_advi", 0.01),
}
PATHFINDER = {"jitter 2": lambda rows: pathfinder(rows, 2.0), "jitter 0.1": lambda rows: pathfinder(rows, 0.1)}
