r"""MCMC that reads some rows a step: SGLD with control variates, and NumPyro's HMCECS with a Taylor proxy.

SGLD-CV, from the mode :math:`\hat\theta`, with n rows drawn anew (with replacement) in each step:

.. math:: \theta \leftarrow \theta + \tfrac{h}{2} \Big( \nabla \log \pi(\theta) - \nabla \log \pi(\hat\theta)
    + \tfrac{N}{n} \sum_{i \in S} (\nabla f_i(\theta) - \nabla f_i(\hat\theta)) \Big) + \sqrt{h} \, \xi

where the gradient of all rows and prior at the mode, which comes first in the paper, is 0.
n = 0.01 N and 10,000 steps, defaults of the R package of its authors (sgmcmc), which has none for h: the grid is 0.1,
0.3 and 1 over the largest curvature at the mode. It has no warm-up, since it begins there. HMCECS has a
second-order Taylor proxy at the mode, its inverse Hessian as mass matrix, 8000 draws, half of them warm-up, and 1000
rows in ten blocks; the grid has 100. Each core has a chain.

References
----------
Baker, Fearnhead, Fox and Nemeth (2019), Control variates for stochastic gradient MCMC, Statistics and Computing 29.
Dang, Quiroz, Kohn, Tran and Villani (2019), Hamiltonian Monte Carlo with energy conserving subsampling, JMLR 20.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit

import bayescore as bc
from bayescore.compiled import available_cores
from bayescore.models.laplace import Mode
from benchmarks.rivals.rival_systems.found import PRIOR, Found, Rows, of_draws

STEPS, SHARE = 10_000, 0.01
CHAINS, DRAWS, TUNE = 4, 1000, 1000  # of HMCECS, as many in all on any number of cores


def sgld(rows: Rows, step: float) -> Callable[[], Found]:
    """Step by `step` over the largest curvature."""

    def run() -> Found:
        rng, (N, D) = np.random.default_rng(rows.seed), rows.X.shape
        n, Z = max(int(SHARE * N), 1), rows.X * rows.y[:, None]
        mode = bc.find_map(rows.full, "logistic", PRIOR)
        there = expit(-(Z @ mode.beta))  # d log p(eta) / d eta at the mode, where the sum with the prior's is 0
        h = step / float(np.linalg.eigvalsh(np.linalg.inv(mode.covariance))[-1])
        theta, states = mode.beta.copy(), np.empty((STEPS, D))
        noise = np.sqrt(h) * rng.standard_normal((STEPS, D))
        for k in range(STEPS):
            taken = rng.integers(N, size=n)
            part = Z[taken]
            change = N / n * ((expit(-(part @ theta)) - there[taken]) @ part)
            theta = theta + 0.5 * h * (change - (theta - mode.beta) / PRIOR.sigma**2) + noise[k]
            states[k] = theta
        return of_draws(states, passes=mode.n_steps + STEPS * n / N)

    return run


def hmcecs(full: bc.Coreset, mode: Mode, each: int, seed: int) -> np.ndarray:
    """Return draws of as many chains as cores, shape (cores, draws, D)."""
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


def energy_conserving(rows: Rows, each: int) -> Callable[[], Found]:
    """Find the mode, then sample about it with that many rows a draw."""
    import numpyro  # noqa: F401  its import is not timed

    def run() -> Found:
        full = rows.full
        return of_draws(hmcecs(full, bc.find_map(full, "logistic", PRIOR), min(each, len(full) // 10), rows.seed))

    return run


HMCECS = {f"{each} rows": (lambda rows, each=each: energy_conserving(rows, each)) for each in (1000, 100)}
SGLD = {f"h = {step:g} / curvature": (lambda rows, step=step: sgld(rows, step)) for step in (0.1, 0.3, 1.0)}
