"""NUTS on all rows with each library's defaults: few short trees (of NumPyro: gradients) are timed, the rest scaled.

The processor seconds of a gradient of all rows are multiplied by the gradients that 4 x (1000 + 1000) draws of the same
sampler (for NumPyro: PyMC's) took on bayescore's coreset, whose posterior has the same shape; what was spent beside
trees on all rows, compilation, is added once. The draws' effective sample sizes are those on the coreset. nutpie keeps
no clock of its trees: of two runs, of few and of more draws, the difference in seconds is that in gradients.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.numerics.chains import ess_mean, mcse_sd
from benchmarks.rivals.gradients import CALLS, gradients, jax_numpy, timed_gradient, total
from benchmarks.rivals.rival_systems.coresets import built
from benchmarks.rivals.rival_systems.found import PRIOR, Found, Rows, of_draws
from benchmarks.rivals.rival_systems.normals import graph, labels

CHAINS, DRAWS, TUNE = 4, 1000, 1000
FEW, DEPTH = 4, 4  # draws, and as many of warm-up, on all rows, and the depth of their trees
MORE, ENOUGH = (4, 16, 64), 0.5  # nutpie's draws on all rows: the first that take so many seconds more than one draw


def scaled(gradient: float, timed: int, draws: np.ndarray, counted: int, beside: float = 0.0) -> Found:
    """Return what is known of a sampler of which a gradient was timed; `draws` are those on the coreset."""
    return Found(
        timed=f"scaled: {timed:,} gradients of {1000.0 * gradient:.3g} ms to {counted:,}",
        passes=counted,
        ess=np.array([ess_mean(draws), 0.5 * (draws.std(axis=(0, 1), ddof=1) / mcse_sd(draws)) ** 2]),
        cpu=beside + gradient * counted,
    )


def by_pymc(model: Any, draws: int, chains: int, seed: int, **nuts: Any) -> Any:
    """Return draws, and as many of warm-up, by the library's default start and metric."""
    import pymc as pm

    with model:
        return pm.sample(
            draws, tune=draws, chains=chains, cores=1, nuts=nuts, random_seed=seed, progressbar=False,
            discard_tuned_samples=False, compute_convergence_checks=False,
        )  # fmt: skip


def counted(rows: Rows) -> tuple[np.ndarray, int]:
    """Return draws of PyMC's NUTS on the coreset, shape (chains, draws, D), and its gradients."""
    idata = by_pymc(bc.model(built("auto")(rows), prior=PRIOR), DRAWS, CHAINS, rows.seed)
    return idata.posterior["beta"].values, gradients(idata)


def pymc(rows: Rows) -> Callable[[], Found]:
    import pymc  # noqa: F401  its import is not timed

    def run() -> Found:
        draws, whole_run = counted(rows)
        begin = time.process_time()
        idata = by_pymc(graph(rows.X, labels(rows)), FEW, 1, rows.seed, max_treedepth=DEPTH)
        whole, timed = time.process_time() - begin, gradients(idata)
        clock = total(idata, "process_time_diff")
        return scaled(clock / timed, timed, draws, whole_run, whole - clock)

    return run


def pymc_whole(rows: Rows) -> Callable[[], Found]:
    """Sample all rows to the end: PyMC's defaults, four chains one after the other."""
    import pymc  # noqa: F401  its import is not timed

    def run() -> Found:
        idata = by_pymc(graph(rows.X, labels(rows)), DRAWS, CHAINS, rows.seed)
        return of_draws(idata.posterior["beta"].values, passes=gradients(idata))

    return run


def nutpie(rows: Rows) -> Callable[[], Found]:
    import nutpie

    told = {"cores": 1, "seed": rows.seed, "progress_bar": False}

    def run() -> Found:
        small = nutpie.compile_pymc_model(bc.model(built("auto")(rows), prior=PRIOR))
        core = nutpie.sample(small, draws=DRAWS, tune=TUNE, chains=CHAINS, **told)
        begin = time.process_time()
        large = nutpie.compile_pymc_model(graph(rows.X, labels(rows)))

        def clocked(draws: int, depth: int) -> tuple[float, int]:
            start = time.process_time()
            idata = nutpie.sample(large, draws=draws, tune=draws, chains=1, maxdepth=depth, **told)
            return time.process_time() - start, gradients(idata)

        clocked(1, 1)  # what only a first call does
        beside, (least, few) = time.process_time() - begin, clocked(1, 1)
        for draws in MORE:
            clock, timed = clocked(draws, DEPTH)
            if clock - least > ENOUGH:
                break
        gradient = (clock - least) / (timed - few)
        return scaled(gradient, timed - few, core.posterior["beta"].values, gradients(core), beside)

    return run


def numpyro(rows: Rows) -> Callable[[], Found]:
    jnp = jax_numpy()
    import numpyro
    import numpyro.distributions as dist

    def model(X: Any, y: Any) -> None:
        beta = numpyro.sample("beta", dist.Normal(PRIOR.mu, PRIOR.sigma).expand([X.shape[1]]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=X @ beta), obs=y)

    def run() -> Found:
        draws, whole_run = counted(rows)
        gradient, before = timed_gradient(model, jnp.asarray(rows.X), jnp.asarray(labels(rows), dtype=float))
        return scaled(gradient, CALLS, draws, whole_run, before)

    return run


PYMC, NUTPIE, NUMPYRO = (
    {"defaults": pymc, "defaults, to the end": pymc_whole},
    {"defaults": nutpie},
    {"defaults": numpyro},
)
