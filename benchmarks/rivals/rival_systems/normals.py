"""Approximations by a normal distribution, or begun by one: Laplace, weighed by all rows, ADVI, SVI, Pathfinder, SQL.

"Weighed by all rows" draws from the normal approximation at the mode and weighs each draw by the likelihood of all rows
times the prior, over the normal's density; Pareto smoothing of the weights (PSIS) says by k-hat whether they count. The
moments are the normal's own plus what the weights change. "Moment-matched" maps the draws, while k-hat is above 0.7, by
an affine map to their weighed mean, then mean and sds, then mean and covariance, and keeps the first map that lowers
k-hat (Paananen, Piironen, Bürkner and Vehtari, 2021, Implicitly adaptive importance sampling, Statistics and Computing
31).

ADVI is `pm.fit` of 10,000 steps (its default) on minibatches of 500 rows, mean-field with its default optimizer,
Adagrad over a window with rate 0.001; the grid has Adam with rate 0.01, mean-field and of full rank. SVI is NumPyro's
of as many steps and rows, Adam with rate 0.01: a normal guide of full rank, then one without correlations. Pathfinder
is that of pymc-extras with its defaults, its four paths one after the other; the grid has jitter 0.1 in place of 2 in
starts. duckreg has maximum likelihood, no prior: a GROUP BY inside DuckDB, then IRLS on rows with counts.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.psis import psislw
from benchmarks.rivals.gradients import jax_numpy
from benchmarks.rivals.rival_systems.found import PRIOR, Found, Rows, of_draws

STEPS, BATCH = 10_000, 500
RATE = 0.01
ENOUGH, MOVES = 0.7, 30  # k-hat below which weights count; maps at most


def laplace(rows: Rows) -> Callable[[], Found]:
    """Find the mode and the curvature there."""

    def run() -> Found:
        mode = bc.find_map(rows.full, "logistic", PRIOR)
        return Found(mode.beta, mode.covariance, passes=mode.n_steps)

    return run


class Weighed:
    """Draws of a distribution and their smoothed weights by all rows, with k-hat."""

    def __init__(self, full: Any, beta: np.ndarray, log_q: np.ndarray) -> None:
        self.beta, self.log_q = beta, log_q
        log_w, k = psislw(log_likelihoods(beta, full, check_family("logistic")) + PRIOR.log_density(beta) - log_q)
        self.w, self.k = np.exp(log_w), float(k)

    def moments(self, mean: np.ndarray | None = None, covariance: np.ndarray | None = None) -> tuple[Any, Any]:
        """Return the weighed mean and covariance: where those drawn from are given, these plus what weights change."""
        known = mean is not None
        change = self.w - 1.0 / len(self.w) if known else self.w
        own = change @ self.beta + (mean if known else 0.0)
        squares = ((self.beta - own).T * change) @ (self.beta - own)
        return own, squares + covariance + np.outer(mean - own, mean - own) if known else squares

    @property
    def told(self) -> str:
        """What the weights say of themselves."""
        return f"whole; k-hat {self.k:.2f}, {1.0 / (self.w @ self.w):,.0f} of {len(self.w):,} draws count"


def drawn(rows: Rows, draws: int) -> tuple[Any, Any, Weighed]:
    """Return all rows, the mode, and weighed draws of the normal approximation there."""
    full = rows.full
    mode = bc.find_map(full, "logistic", PRIOR)
    z = np.random.default_rng(rows.seed).standard_normal((draws, len(mode.beta)))
    root = np.linalg.cholesky(mode.covariance)
    return full, mode, Weighed(full, mode.beta + z @ root.T, -0.5 * (z**2).sum(axis=1))


def weighed(rows: Rows, draws: int) -> Callable[[], Found]:
    """Weigh draws of the normal approximation."""

    def run() -> Found:
        _, mode, own = drawn(rows, draws)
        return Found(*own.moments(mode.beta, mode.covariance), own.told, passes=mode.n_steps + 1)

    return run


def mapped(beta: np.ndarray, w: np.ndarray) -> Any:
    """Yield draws with the weighed mean, then sds, then covariance, and the logarithm of the map's determinant."""
    mean, own = beta.mean(axis=0), w @ beta
    covariance, target = np.cov(beta.T, bias=True), ((beta - own).T * w) @ (beta - own)
    scale = np.sqrt(np.diagonal(target) / np.diagonal(covariance))
    turn = np.linalg.cholesky(target) @ np.linalg.inv(np.linalg.cholesky(covariance))
    yield beta + own - mean, 0.0
    yield own + (beta - mean) * scale, float(np.log(scale).sum())
    yield own + (beta - mean) @ turn.T, float(np.linalg.slogdet(turn)[1])


def matched(rows: Rows, draws: int) -> Callable[[], Found]:
    """Map the draws of the normal approximation until their weights count or no map helps."""

    def run() -> Found:
        full, mode, own = drawn(rows, draws)
        first, passes = own, mode.n_steps + 1
        for _ in range(MOVES):
            better = None
            for beta, log_volume in mapped(own.beta, own.w) if own.k > ENOUGH else ():
                tried, passes = Weighed(full, beta, own.log_q - log_volume), passes + 1
                if tried.k < own.k:
                    better = tried
                    break
            if better is None:
                break
            own = better
        drawn_from = (mode.beta, mode.covariance) if own is first else ()
        return Found(*own.moments(*drawn_from), own.told, passes=passes)

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


def svi(rows: Rows, guide: str) -> Callable[[], Found]:
    """Fit NumPyro's guide of that name on minibatches."""
    jnp = jax_numpy()
    import jax
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import SVI, Trace_ELBO, autoguide

    def model(X: Any, y: Any) -> None:
        beta = numpyro.sample("beta", dist.Normal(PRIOR.mu, PRIOR.sigma).expand([X.shape[1]]).to_event(1))
        with numpyro.plate("rows", len(y), subsample_size=min(BATCH, len(y))):
            eta = numpyro.subsample(X, event_dim=1) @ beta
            numpyro.sample("y", dist.Bernoulli(logits=eta), obs=numpyro.subsample(y, event_dim=0))

    def run() -> Found:
        own = getattr(autoguide, guide)(model)
        fitted = SVI(model, own, numpyro.optim.Adam(RATE), Trace_ELBO())
        data = jnp.asarray(rows.X), jnp.asarray(labels(rows), dtype=float)
        found = fitted.run(jax.random.PRNGKey(rows.seed), STEPS, *data, progress_bar=False).params
        mean = np.asarray(found["auto_loc"])
        root = np.asarray(found["auto_scale_tril"]) if "auto_scale_tril" in found else np.diag(found["auto_scale"])
        return Found(mean, root @ root.T, passes=STEPS * BATCH / len(rows.y))

    return run


def duckreg(rows: Rows) -> Callable[[], Found]:
    """Group the rows of a table in DuckDB and maximise their likelihood."""
    import duckdb
    import pandas as pd
    from duckreg import DuckLogisticRegression

    names = [f"x{d}" for d in range(rows.X.shape[1])]
    covariates = [name for name, column in zip(names, rows.X.T, strict=True) if np.ptp(column)]
    frame = pd.DataFrame(rows.X, columns=names).assign(y=labels(rows))
    order = [names.index(name) for name in names if name not in covariates] + [names.index(name) for name in covariates]

    def run() -> Found:
        own = DuckLogisticRegression(
            db_name=str(path), table_name="rows", formula=f"y ~ {' + '.join(covariates)}", seed=rows.seed, method="irls"
        )
        own.fit()
        own.fit_vcov()
        back = np.argsort(order)
        return Found(own.point_estimate[back], own.vcov[np.ix_(back, back)], passes=1)

    folder = TemporaryDirectory()
    path = Path(folder.name) / "rows.duckdb"
    with duckdb.connect(str(path)) as database:
        database.register("frame", frame)
        database.execute("CREATE TABLE rows AS SELECT * FROM frame")
    run.folder = folder  # type: ignore[attr-defined]  # kept until the run is over
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
    "moment-matched, 4,000 draws": lambda rows: matched(rows, 4_000),
}
SVI = {name: lambda rows, name=name: svi(rows, name) for name in ("AutoMultivariateNormal", "AutoDiagonalNormal")}
DUCKREG = {"irls": duckreg}
ADVI = {
    "mean field": lambda rows: advi(rows, "advi", None),
    "mean field, Adam 0.01": lambda rows: advi(rows, "advi", 0.01),
    "full rank, Adam 0.01": lambda rows: advi(rows, "fullrank_advi", 0.01),
}
PATHFINDER = {"jitter 2": lambda rows: pathfinder(rows, 2.0), "jitter 0.1": lambda rows: pathfinder(rows, 0.1)}
