"""How long is it from a million rows in memory to 4 x 1000 draws? Seconds, passes and accuracy.

Ten N(0, 1) columns and an intercept added by the builder, D = 11, N(0, 4^2) priors; calibrated coresets of the default
size. Every line begins at the raw arrays and ends with draws, on all cores of the machine. "cold" is the first run
of a fresh process with empty compiler caches, "warm" the second run of one process.

PyMC on all rows is a plain `pm.Bernoulli(logit_p)` model, given the mode and the inverse Hessian as start and mass
matrix, which it would have to find at further cost. One chain a core runs 15 + 15 draws; the seconds of a gradient,
from the trees' own clocks, are scaled to the gradients that NUTS took on the coreset, whose posterior has the same
shape, and divided by the cores. HMCECS (NumPyro; `pip install numpyro`) has a second-order Taylor proxy at the
mode, its inverse Hessian as mass matrix and 1000 rows a draw; one chain a core makes the 8000 draws, half of them
warm-up. Its seconds include the search for the mode and the compilation, which NumPyro repeats in every run.

"mean error" is the largest error of a posterior mean in posterior sds, beside its Monte Carlo standard error. The
truth is the mode with its correction by third derivatives, whose own error is of order 1/N. At this N the
posterior is close to normal, so the Laplace approximation does well; `calibrated` has data where it does not.
"""

import os
import tempfile
import time
import warnings
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.compiled import available_cores
from bayescore.models.laplace import Mode
from bayescore.numerics.chains import mcse_mean
from benchmarks.commands import command
from benchmarks.measure import printed_json
from benchmarks.rivals.gradients import gradients, nuts_draws, total
from benchmarks.tables import publish

N, D_RAW, CHAINS, DRAWS, TUNE = 1_000_000, 10, 4, 1000, 1000
ECS_ROWS = 1000


def data() -> tuple[np.ndarray, np.ndarray]:
    """Return X, without the intercept, and y in {0, 1}."""
    rng = np.random.default_rng(0)
    X, theta = rng.standard_normal((N, D_RAW)), 0.5 * rng.standard_normal(D_RAW)
    return X, (rng.random(N) < 1 / (1 + np.exp(1 - X @ theta))).astype(np.int8)


def coreset_and(sampler: str, X: np.ndarray, y: np.ndarray) -> tuple[Any, Any, dict[str, float]]:
    """Return coreset, draws, and the seconds of both steps and together."""
    begin = time.perf_counter()
    core = bc.build_coreset(X, y, method="calibrated", intercept=True, random_state=0, progressbar=False)
    middle = time.perf_counter()
    options = {"discard_tuned_samples": False} if sampler == "nuts" else {}
    idata = bc.sample(
        core, sampler=sampler, draws=DRAWS, tune=TUNE, chains=CHAINS, random_seed=1, progressbar=False, **options
    )
    end = time.perf_counter()
    return core, idata, {"build": middle - begin, "sample": end - middle, "seconds": end - begin}


def cold_seconds(sampler: str) -> dict[str, float]:
    """Return the seconds of a first run, imports included, in a fresh process whose compiler caches are empty."""
    with tempfile.TemporaryDirectory() as folder:
        code = (
            "import time; begin = time.perf_counter(); import json, warnings; warnings.simplefilter('ignore')\n"
            "from benchmarks.rivals.wall_time import coreset_and, data; import bayescore.models.pymc\n"
            "imports = time.perf_counter() - begin; X, y = data()\n"
            f"taken = coreset_and({sampler!r}, X, y)[2]\n"
            "print(json.dumps({**taken, 'imports': imports, 'seconds': taken['seconds'] + imports}))"
        )
        flags = ",".join(filter(None, [os.environ.get("PYTENSOR_FLAGS"), f"base_compiledir={folder}/pytensor"]))
        return printed_json("-c", code, NUMBA_CACHE_DIR=f"{folder}/numba", PYTENSOR_FLAGS=flags)


def true_means(full: bc.Coreset, mode: Mode) -> np.ndarray:
    """Return mode + C sum_n l'''(eta_n) z_n (z_n . C z_n) / 2, the posterior means up to order 1/N in sds."""
    Z = full.Z
    s = 1 / (1 + np.exp(Z @ mode.beta))
    third = s * (1 - s) * (1 - 2 * s)
    return mode.beta + 0.5 * mode.covariance @ (Z.T @ (third * ((Z @ mode.factor) ** 2).sum(axis=1)))


def pymc_gradient_seconds(full: bc.Coreset, mode: Mode) -> tuple[float, int]:
    """Return the seconds of one gradient of the full data, a chain on each core, and how many were timed."""
    import pymc as pm

    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 4.0, shape=len(mode.beta))
        pm.Bernoulli("y", logit_p=pm.math.dot(full.X, beta), observed=(full.y > 0).astype(np.int8))
    chains, start = min(CHAINS, available_cores()), {"beta": mode.beta}
    idata = nuts_draws(model, 15, 15, chains, start, scaling=mode.covariance, is_cov=True)
    return total(idata, "perf_counter_diff") / gradients(idata), gradients(idata)


def hmcecs(full: bc.Coreset, mode: Mode, each: int = ECS_ROWS, seed: int = 0) -> tuple[np.ndarray, float]:
    """Return draws of as many chains as cores, shape (cores, draws, D), and the seconds of the whole run."""
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

    begin = time.perf_counter()
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
    draws = np.asarray(mcmc.get_samples(group_by_chain=True)["beta"])
    return draws, time.perf_counter() - begin


@command("wall_time")
def main() -> None:
    warnings.filterwarnings("ignore", module="pymc|arviz|pytensor|jax")
    X, y = data()
    cores = min(CHAINS, available_cores())
    begin = time.perf_counter()
    full = bc.all_rows(X, y, intercept=True, progressbar=False)
    mode = bc.find_map(full)
    laplace = time.perf_counter() - begin
    truth = true_means(full, mode)

    def accuracy(draws: np.ndarray) -> dict[str, float]:
        error = np.abs(draws.mean(axis=(0, 1)) - truth) / mode.sd
        return {"mean error (sd)": error.max(), "Monte Carlo error (sd)": (mcse_mean(draws) / mode.sd).max()}

    rows = []
    counted = 0
    for sampler in ("nuts", "mala"):
        coreset_and(sampler, X, y)
        core, idata, warm = coreset_and(sampler, X, y)
        cold = cold_seconds(sampler)
        counted = gradients(idata) if sampler == "nuts" else counted
        rows.append(
            {
                "system": f"coreset of {len(core)} rows, {sampler}",
                "timed": "whole",
                "seconds, warm": warm["seconds"],
                "of them build": warm["build"],
                "seconds, cold": cold["seconds"],
                "of them imports": cold["imports"],
                **accuracy(idata.posterior["beta"].values),
                "passes": core.params["passes"],
            }
        )
    normal = {"mean error (sd)": np.abs((mode.beta - truth) / mode.sd).max(), "Monte Carlo error (sd)": 0.0}
    rows.append(
        {"system": "Laplace alone", "timed": "whole", "seconds, warm": laplace, **normal, "passes": mode.n_steps}
    )
    gradient, timed = pymc_gradient_seconds(full, mode)
    rows.append(
        {
            "system": "PyMC NUTS, all rows",
            "timed": f"{timed} gradients of {1000 * gradient:.0f} ms, scaled to {counted}",
            "seconds, warm": gradient * counted / cores,
            "passes": counted,
        }
    )
    try:
        draws, seconds = hmcecs(full, mode)
    except ImportError:
        print("HMCECS not run: NumPyro is not installed; pip install numpyro")
    else:
        rows.append(
            {
                "system": "NumPyro HMCECS, all rows",
                "timed": f"whole, {CHAINS * (DRAWS + TUNE)} draws in {len(draws)} chains",
                "seconds, warm": laplace + seconds,
                **accuracy(draws),
            }
        )
    publish("wall_time", rows)
