"""What does PyMC's INLA take beside bayescore, of few rows with `(1 | g)`? Errors and processor seconds.

600 rows in 30 groups, two columns. `pymc_extras.fit(method="INLA")` marginalises the effects by a Laplace approximation
and samples coefficients and sigma by NUTS, of which 2 x 200 draws and as many of warm-up are taken. It has no posterior
of the effects yet. It needs pymc-extras 0.15, and so PyMC 6 and Python 3.12: ``pip install pymc-extras``. Without it
the row stays as it was, and the command says so. bayescore samples all rows, with the same priors: 4 x 1000 draws.

Seconds are of a processor, compiling included, of bayescore the second time in a process. `ess` is the smallest of
coefficients and sigma. "mean" and "sd" are the largest differences of means (in sds) and of sds (relative) from 4 x
10,000 draws of bayescore's by another seed; draws that count for 400 are expected to be 0.1 off in the worst of four.
"""

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

import bayescore as bc
from bayescore.numerics.chains import ess_mean
from benchmarks.commands import command
from benchmarks.tables import known_rows, publish

N, GROUPS = 600, 30
DRAWS = {"INLA": 200, "bayescore": 1000, "truth": 10_000}
PRIOR_SDS, NU, SCALE = [2.5, 2.5, 2.5], 3.0, 2.5


def rows() -> pd.DataFrame:
    """Return the rows."""
    rng = np.random.default_rng(0)
    group, X = rng.integers(GROUPS, size=N), rng.normal(size=(N, 2))
    eta = -0.5 + X @ [0.5, -0.3] + 0.7 * rng.normal(size=GROUPS)[group]
    return pd.DataFrame(X, columns=["x0", "x1"]).assign(g=group, y=(rng.random(N) < expit(eta)).astype(int))


def by_bayescore(frame: pd.DataFrame, seed: int, draws: int) -> np.ndarray:
    """Return draws of the coefficients and sigma, shape (chains, draws, 4)."""
    core = bc.all_rows(frame, formula="y ~ x0 + x1 + (1 | g)", progressbar=False)
    prior = bc.priors.Normal(0, PRIOR_SDS)
    posterior = bc.sample(core, prior=prior, draws=draws, random_seed=seed, progressbar=False).posterior
    return np.concatenate([posterior["beta"].values, posterior["sigma_g"].values[..., None]], axis=-1)


def by_inla(frame: pd.DataFrame) -> np.ndarray:
    """Return draws of the coefficients and sigma, shape (chains, draws, 4)."""
    import pymc as pm
    import pymc_extras as pmx

    with pm.Model():
        beta = pm.Normal("beta", 0, PRIOR_SDS, shape=3)
        sigma = pm.HalfStudentT("sigma", NU, SCALE)
        Q = np.eye(GROUPS) / sigma**2
        effects = pm.MvNormal("effects", mu=np.zeros(GROUPS), tau=Q)
        X = np.column_stack([np.ones(N), frame[["x0", "x1"]]])
        pm.Bernoulli("y", logit_p=X @ beta + effects[frame["g"].to_numpy()], observed=frame["y"].to_numpy())
        found = pmx.fit(
            method="INLA", x=effects, Q=Q, draws=DRAWS["INLA"], tune=DRAWS["INLA"], chains=2, cores=1,
            random_seed=0, progressbar=False,
        )  # fmt: skip
    posterior = found.posterior
    return np.concatenate([posterior["beta"].values, posterior["sigma"].values[..., None]], axis=-1)


def compared(system: str, draws: np.ndarray, seconds: float, truth: np.ndarray) -> dict[str, Any]:
    """Return a row of the table."""
    mean, sd = (getattr(truth, what)(axis=(0, 1)) for what in ("mean", "std"))
    return {
        "system": system,
        "N": N,
        "G": GROUPS,
        "draws": draws.shape[0] * draws.shape[1],
        "ess": float(ess_mean(draws).min()),
        "mean": float(np.abs((draws.mean(axis=(0, 1)) - mean) / sd).max()),
        "sd": float(np.abs(draws.std(axis=(0, 1)) / sd - 1.0).max()),
        "processor s": seconds,
    }


@command("inla")
def main() -> None:
    """Publish the table."""
    warnings.simplefilter("ignore")
    frame = rows()
    truth = by_bayescore(frame, 2, DRAWS["truth"])
    begin = time.process_time()
    draws = by_bayescore(frame, 1, DRAWS["bayescore"])
    own = compared("bayescore, all rows", draws, time.process_time() - begin, truth)
    table = {row["system"]: row for row in known_rows("inla")} | {own["system"]: own}
    begin = time.process_time()
    try:
        draws = by_inla(frame)
    except (ImportError, ValueError) as missing:
        print(f"PyMC's INLA was not run: {missing}")
    else:
        table["PyMC INLA"] = compared("PyMC INLA", draws, time.process_time() - begin, truth)
    publish("inla", list(table.values()))
