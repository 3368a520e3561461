"""The systems that are compared: each a function of the rows that returns the work to be timed.

What a function does before it returns, its imports, is not timed. bayescore builds its coresets under its default prior
and samples them under that of all systems, by MALA, 4 x 1000 draws, by itself or with those that `certify` corrects.
"Weighed by all rows" draws from the normal approximation at the mode and weighs each draw by the likelihood of all rows
times the prior, over the normal's density; Pareto smoothing of the weights (PSIS) says by k-hat whether they count. The
moments are the normal's own plus what the weights change. HMCECS is NumPyro's, with a second-order Taylor proxy at the
mode, its inverse Hessian as mass matrix, 8000 draws, half of them warm-up, and 1000 rows in ten blocks; each core has a
chain. duckreg has maximum likelihood, no prior: a GROUP BY inside DuckDB, then IRLS on rows with counts.

References
----------
Dang, Quiroz, Kohn, Tran and Villani (2019), Hamiltonian Monte Carlo with energy conserving subsampling, JMLR 20.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.compiled import available_cores
from bayescore.families.family import check_family
from bayescore.models.laplace import Mode
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.psis import psislw

PRIOR = bc.priors.Normal(0, 4)
CHAINS, DRAWS, TUNE = 4, 1000, 1000  # of HMCECS, as many in all on any number of cores
ROWS, PROPOSALS = 1000, 4000


@dataclass(frozen=True)
class Rows:
    """The design with its intercept, shape (N, D), labels -1 and 1, and the seed of whatever is random."""

    X: np.ndarray
    y: np.ndarray
    seed: int = 0

    @property
    def full(self) -> bc.Coreset:
        """All rows, each of weight 1."""
        return bc.all_rows(self.X, self.y, progressbar=False)


@dataclass(frozen=True)
class Found:
    """Mean, shape (D,), and covariance of a posterior as a system sees it, and what is to be said of the run."""

    mean: np.ndarray
    covariance: np.ndarray
    timed: str = "whole"


def of_draws(draws: np.ndarray, timed: str = "whole") -> Found:
    """Return the moments of draws, shape (..., D)."""
    flat = draws.reshape(-1, draws.shape[-1])
    return Found(flat.mean(axis=0), np.cov(flat.T), timed)


def coreset(rows: Rows, method: str = "auto", *, certified: bool = False) -> Callable[[], Found]:
    """Build, sample, and where that is asked certify; then draws are those that the certificate corrected."""

    def run() -> Found:
        core = bc.build_coreset(rows.X, rows.y, method=method, random_state=rows.seed, progressbar=False)
        idata = bc.sample(core, prior=PRIOR, sampler="mala", random_seed=rows.seed + 1, progressbar=False)
        said = core.method
        if certified:
            certificate = bc.certify(idata, core, rows.X, rows.y, progressbar=False)
            idata, said = certificate.idata or idata, str(certificate.level)
        return of_draws(idata.posterior["beta"].values, f"whole; {len(core):,} rows, {said}")

    return run


def laplace(rows: Rows) -> Callable[[], Found]:
    """Find the mode and the curvature there."""

    def run() -> Found:
        mode = bc.find_map(rows.full, "logistic", PRIOR)
        return Found(mode.beta, mode.covariance)

    return run


def weighed(rows: Rows) -> Callable[[], Found]:
    """Weigh draws of the normal approximation; moments are its own plus what the weights change."""

    def run() -> Found:
        full = rows.full
        mode = bc.find_map(full, "logistic", PRIOR)
        z = np.random.default_rng(rows.seed).standard_normal((PROPOSALS, len(mode.beta)))
        beta, log_q = mode.beta + z @ np.linalg.cholesky(mode.covariance).T, -0.5 * (z**2).sum(axis=1)
        log_w, k = psislw(log_likelihoods(beta, full, check_family("logistic")) + PRIOR.log_density(beta) - log_q)
        w = np.exp(log_w)
        change = w - 1.0 / len(w)
        mean = change @ beta + mode.beta
        squares = ((beta - mean).T * change) @ (beta - mean)
        moved = mode.beta - mean
        said = f"whole; k-hat {float(k):.2f}, {1.0 / (w @ w):,.0f} of {len(w):,} draws count"
        return Found(mean, squares + mode.covariance + np.outer(moved, moved), said)

    return run


def hmcecs(full: bc.Coreset, mode: Mode, each: int, seed: int) -> np.ndarray:
    """Return draws of as many chains as cores, shape (cores, draws, D), with `each` rows a draw."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # else XLA reports that folding constants takes seconds
    import numpyro

    cores = min(CHAINS, available_cores())
    numpyro.set_host_device_count(cores)  # before JAX starts
    numpyro.enable_x64()
    import jax
    import jax.numpy as jnp
    import numpyro.distributions as dist
    from numpyro.infer import HMCECS, MCMC, NUTS, init_to_value

    def model(X: Any, y: Any) -> None:
        beta = numpyro.sample("beta", dist.Normal(0.0, 4.0).expand([X.shape[1]]).to_event(1))
        with numpyro.plate("rows", len(y), subsample_size=each):
            eta = numpyro.subsample(X, event_dim=1) @ beta
            numpyro.sample("obs", dist.Bernoulli(logits=eta), obs=numpyro.subsample(y, event_dim=0))

    at_mode = {"beta": jnp.asarray(mode.beta)}
    inner = NUTS(
        model,
        init_strategy=init_to_value(values=at_mode),
        inverse_mass_matrix=jnp.asarray(mode.covariance),
        dense_mass=True,
    )
    mcmc = MCMC(
        HMCECS(inner, num_blocks=10, proxy=HMCECS.taylor_proxy(at_mode, degree=2)),
        num_warmup=TUNE * CHAINS // cores,
        num_samples=DRAWS * CHAINS // cores,
        num_chains=cores,
        progress_bar=False,
    )
    mcmc.run(jax.random.PRNGKey(seed), jnp.asarray(full.X), jnp.asarray((full.y > 0).astype(float)))
    return np.asarray(mcmc.get_samples(group_by_chain=True)["beta"])


def energy_conserving(rows: Rows) -> Callable[[], Found]:
    """Find the mode, then sample about it."""
    import numpyro  # noqa: F401  its import is not timed

    def run() -> Found:
        full = rows.full
        return of_draws(hmcecs(full, bc.find_map(full, "logistic", PRIOR), min(ROWS, len(full) // 10), rows.seed))

    return run


def duckreg(rows: Rows) -> Callable[[], Found]:
    """Group the rows of a table in DuckDB and maximise their likelihood."""
    import duckdb
    import pandas as pd
    from duckreg import DuckLogisticRegression

    names = [f"x{d}" for d in range(rows.X.shape[1])]
    covariates = [name for name, column in zip(names, rows.X.T, strict=True) if np.ptp(column)]
    frame = pd.DataFrame(rows.X, columns=names).assign(y=(rows.y > 0).astype(np.int32))
    order = [names.index(name) for name in names if name not in covariates] + [names.index(name) for name in covariates]

    def run() -> Found:
        own = DuckLogisticRegression(
            db_name=str(path), table_name="rows", formula=f"y ~ {' + '.join(covariates)}", seed=rows.seed, method="irls"
        )
        own.fit()
        own.fit_vcov()
        back = np.argsort(order)
        return Found(own.point_estimate[back], own.vcov[np.ix_(back, back)])

    folder = TemporaryDirectory()
    path = Path(folder.name) / "rows.duckdb"
    with duckdb.connect(str(path)) as database:
        database.register("frame", frame)
        database.execute("CREATE TABLE rows AS SELECT * FROM frame")
    run.folder = folder  # type: ignore[attr-defined]  # kept until the run is over
    return run


@dataclass(frozen=True)
class System:
    """A system: its name and setting in the table, its work, and whether anything in it is random."""

    label: str
    setting: str
    work: Callable[[Rows], Callable[[], Found]]
    random: bool = True


SYSTEMS = {
    "bayescore": System("bayescore", "4 x 1000 draws", coreset),
    "certified": System("bayescore", "certify's draws", lambda rows: coreset(rows, certified=True)),
    "condensed": System("bayescore, condensed", "default size", lambda rows: coreset(rows, "condensed")),
    "laplace": System("Laplace, all rows", "all rows", laplace, random=False),
    "weighed": System("Laplace, weighed by all rows", "4,000 draws", weighed),
    "hmcecs": System("NumPyro HMCECS", "1000 rows", energy_conserving),
    "duckreg": System("duckreg, maximum likelihood", "irls", duckreg, random=False),
}
