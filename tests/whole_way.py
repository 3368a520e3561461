"""The whole way from rows to corrected draws, again and again: the ranks of truths that coefficients were drawn with.

Coefficients are drawn from the prior, N(0, 1) or Student-t with 3 degrees of freedom, then 2,000 rows (intercept, a
normal, a skewed (lognormal) and a 0/1 column that is 1 in a tenth of the rows) and their labels. A calibrated coreset
of 40 rows is built and sampled, the draws are certified and corrected, and the truth's rank among 99 of them is uniform
if all is right. Data sets of fewer than 20 rows of a class are drawn anew: a condition on data, under which ranks stay
uniform.

The ranks are among `DRAWS` draws, evenly spaced over four chains of MALA, so far apart that they count as independent:
the smallest effective sample size of the chains is told beside the ranks. Where the certificate refuses, for which the
draws as sampled take the place of corrected ones, is told too: leaving such data sets out would select among draws.

Draws of a calibrated coreset are hardly moved by their correction, and say nothing of it. So half of the rows, drawn
uniformly, are sampled too: their posterior is off by about an sd, and ranks among its draws, as they are sampled, show
that, among corrected ones they do not. Uniform coresets of as many rows as the calibrated one are the negative control.

Quantities, of which the last two depend on the data (Modrák et al. 2023: coefficients alone cannot tell a posterior
from one that saw only part of the data): each coefficient, the product of the first two, the log-likelihood of all
rows, and that of the rows labelled +1.

Reference: Modrák, Moon, Kim, Bürkner, Huurre, Faltejsková, Gelman and Vehtari (2023), Simulation-based calibration
checking for Bayesian computation: the choice of test quantities shapes sensitivity, Bayesian Analysis.
"""

import warnings
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

import bayescore as bc
from bayescore.diagnostics.certificate import flat as moved
from bayescore.families.family import check_family
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.chains import ess
from bayescore.priors import Prior
from bayescore.types import FloatArray, IntArray
from benchmarks.calibration.ranks import rank

DRAWS, PLACES = 99, 100
N, D, SIZE, FEWEST = 2000, 4, 40, 20
PRIORS = {"N(0, 1)": bc.priors.Normal(0.0, 1.0), "Student-t(3)": bc.priors.StudentT(3.0, 0.0, 1.0)}
KEPT = {"draws": 250, "tune": 400, "chains": 4, "cores": 1}
KINDS = ("calibrated, corrected", "half of the rows, corrected", "half of the rows, as sampled", "uniform, as sampled")
RIGHT, WRONG = KINDS[:2], KINDS[2:]


@dataclass(frozen=True, eq=False)
class Replication:
    """Of each kind: ranks of the quantities, shape (kinds, Q), the smallest ESS of a mean, whether it was refused."""

    ranks: IntArray
    ess: FloatArray
    refused: np.ndarray


def quantities(beta: FloatArray, rows: bc.Coreset) -> FloatArray:
    """Return the quantities of coefficients, shape (S, D): (S, D + 3)."""
    family = check_family(rows.family)
    by = [log_likelihoods(beta, part, family) for part in (rows, rows.take(rows.y > 0))]
    return np.column_stack([beta, beta[:, 0] * beta[:, 1], *by])


def thinned(idata: Any) -> FloatArray:
    """Return `DRAWS` of the posterior's draws, shape (DRAWS, D)."""
    beta = idata.posterior["beta"].values
    flat = beta.reshape(-1, beta.shape[-1])
    return flat[np.linspace(0, len(flat) - 1, DRAWS).astype(int)]


def replicate(rows: bc.Coreset, truth: FloatArray, prior: Prior, size: int, seed: int) -> Replication:
    """Return the ranks of `truth`, shape (D,), which the labels of `rows` were drawn with.

    Parameters
    ----------
    rows : Coreset
        All the data, from `all_rows`.
    truth : array, shape (D,)
        Coefficients.
    prior : Prior
        What `truth` was drawn from.
    size : int
        Rows of the coresets.
    seed : int
        Of coresets and draws.
    """
    told = {"random_state": seed, "progressbar": False}
    drawing = {"prior": prior, "sampler": "langevin", "random_seed": seed, "progressbar": False, **KEPT}
    # elpd is most of the certificates' time, and no part of the draws
    with warnings.catch_warnings(), patch.object(moved, "elpd_loo", lambda *_, **__: {}):
        warnings.simplefilter("ignore")  # of coresets that are too small, on purpose
        cores = [
            bc.build_coreset(rows, method=method, size=n, **told)
            for method, n in (("calibrated", size), ("uniform", len(rows) // 2), ("uniform", size))
        ]
        whole, half, bare = (bc.sample(core, **drawing) for core in cores)
        first, second = (
            bc.certify(idata, core, rows, progressbar=False)
            for idata, core in zip((whole, half), cores[:2], strict=True)
        )
    corrected = (own if judged.idata is None else judged.idata for own, judged in ((whole, first), (half, second)))
    drawn = (*corrected, half, bare)
    values = [quantities(np.vstack([truth, thinned(idata)]), rows) for idata in drawn]
    return Replication(
        np.stack([rank(each[1:], each[0]) for each in values]),
        np.array([ess(idata.posterior["beta"].values, "mean").min() for idata in (whole, half, half, bare)]),
        np.array([*(each.level == "not certified" for each in (first, second)), False, False]),
    )


def simulate(family: str, prior: Any, rng: np.random.Generator) -> tuple[np.ndarray, bc.Coreset]:
    """Return coefficients, shape (D,), and rows drawn from the joint distribution of both."""
    while True:
        beta = rng.normal(size=D) if isinstance(prior, bc.priors.Normal) else rng.standard_t(prior.nu, size=D)
        X = np.column_stack(
            [np.ones(N), rng.normal(size=N), rng.lognormal(0.0, 0.7, N) - 1.3, rng.random(N) < 0.1]
        ).astype(float)
        y = rng.random(N) < check_family(family).mean(X @ beta)
        if FEWEST <= y.sum() <= N - FEWEST:
            return beta, bc.all_rows(X, np.where(y, 1, -1), family=family, progressbar=False)


def replications(family: str, prior: str, trials: int) -> list[Replication]:
    """Return replications of the whole way, each of its own seed."""
    found = []
    for seed in range(trials):
        truth, rows = simulate(family, PRIORS[prior], np.random.default_rng([seed, len(family), len(prior)]))
        found.append(replicate(rows, truth, PRIORS[prior], SIZE, seed))
    return found
