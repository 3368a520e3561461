r"""MCMC that reads some rows a step: SGLD with control variates, and NumPyro's HMCECS with a Taylor proxy.

SGLD-CV, from the mode :math:`\hat\theta`, with n rows drawn anew (with replacement) in each step:

.. math:: \theta \leftarrow \theta + \tfrac{h}{2} \Big( \nabla \log \pi(\theta) - \nabla \log \pi(\hat\theta)
    + \tfrac{N}{n} \sum_{i \in S} (\nabla f_i(\theta) - \nabla f_i(\hat\theta)) \Big) + \sqrt{h} \, \xi

where the gradient of all rows and prior at the mode, which comes first in the paper, is 0.
n = 0.01 N and 10,000 steps, defaults of the R package of its authors (sgmcmc), which has none for h: the grid is 0.1,
0.3 and 1 over the largest curvature at the mode. It has no warm-up, since it begins there. HMCECS as in `wall_time`:
8000 draws, half of them warm-up, 1000 rows in ten blocks; the grid has 100.

References
----------
Baker, Fearnhead, Fox and Nemeth (2019), Control variates for stochastic gradient MCMC, Statistics and Computing 29.
Dang, Quiroz, Kohn, Tran and Villani (2019), Hamiltonian Monte Carlo with energy conserving subsampling, JMLR 20.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import expit

import bayescore as bc
from benchmarks.rivals.rival_systems.found import PRIOR, Found, Rows, of_draws
from benchmarks.rivals.wall_time import hmcecs

STEPS, SHARE = 10_000, 0.01


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


def energy_conserving(rows: Rows, each: int) -> Callable[[], Found]:
    """Find the mode, then sample about it with that many rows a draw."""
    import numpyro  # noqa: F401  its import is not timed

    def run() -> Found:
        full = rows.full
        draws, _ = hmcecs(full, bc.find_map(full, "logistic", PRIOR), min(each, len(full) // 10), rows.seed)
        return of_draws(draws)

    return run


HMCECS = {f"{each} rows": (lambda rows, each=each: energy_conserving(rows, each)) for each in (1000, 100)}
SGLD = {f"h = {step:g} / curvature": (lambda rows, step=step: sgld(rows, step)) for step in (0.1, 0.3, 1.0)}
