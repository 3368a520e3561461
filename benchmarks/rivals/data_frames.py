"""Do coresets of data frames agree with MCMC on all rows by PyMC and bambi? Factors, offsets, binomial counts.

3,000 made rows: numbers x and z, factors f (3 levels, with an interaction) and g (4). The priors are Normal(0, 4).
MCMC on all rows is PyMC's NUTS (4 chains of 2,500 draws) of a model that bayescore has no part in: `formulaic`'s design
matrix, PyMC's own Bernoulli or binomial likelihood. Coresets have MALA's draws (4 chains of 5,000), bambi, where it is
installed, 4 chains of 1,000. Errors are the largest of the coefficients'; "chance" is the largest Monte Carlo standard
error of a mean's difference, both runs' together, in sds. Seconds are of the wall: a coreset's to build, sample and
certify with kernels compiled before, PyMC's and bambi's with what compiling a new model takes.
"""

import logging
import time
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from formulaic import model_matrix
from scipy.special import expit

import bayescore as bc
from bayescore.numerics.chains import mcse_mean
from benchmarks.commands import command
from benchmarks.tables import publish

N, CHAINS = 3_000, 4
TERMS = "x * f + g + z"
COLUMNS = ("Intercept", "x", "f", "g", "z", "x:f")  # bambi's terms in formulaic's order
PRIOR_SD = 4.0


def frame(kind: str) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    f, g = rng.integers(0, 3, N), rng.integers(0, 4, N)
    rows = pd.DataFrame({"x": rng.normal(size=N), "z": rng.normal(size=N)})
    rows["f"], rows["g"] = np.array(["a", "b", "c"])[f], np.array(["k", "l", "m", "n"])[g]
    eta = -1.0 + (0.5 + 0.4 * f) * rows["x"] - 0.3 * f + 0.2 * g + 0.5 * rows["z"]
    if kind == "an offset":
        rows["o"] = rng.normal(size=N)
        eta += rows["o"]
    rows["n"] = rng.integers(1, 20, N) if kind == "counts" else 1
    rows["y"] = rng.binomial(rows["n"], expit(eta))
    return rows


def by_coreset(rows: pd.DataFrame, kind: str) -> tuple[np.ndarray, dict[str, Any]]:
    beside = {"offset": "o"} if kind == "an offset" else {"trials": "n"} if kind == "counts" else {}
    core = bc.build_coreset(rows, formula=f"y ~ {TERMS}", random_state=1, progressbar=False, **beside)
    idata = bc.sample(
        core,
        None,
        bc.priors.Normal(0, PRIOR_SD),
        sampler="mala",
        draws=5_000,
        random_seed=2,
        progressbar=False,
    )
    certificate = bc.certify(idata, core, rows, progressbar=False, **beside)
    about = {"columns": core.n_features, "rows of the coreset": len(core), "certificate": certificate.level}
    return idata["posterior"]["beta"].values, about


def by_pymc(rows: pd.DataFrame, kind: str) -> np.ndarray:
    X = np.asarray(model_matrix(TERMS, rows), dtype=np.float64)
    with pm.Model():
        eta = pm.math.dot(X, pm.Normal("beta", 0, PRIOR_SD, shape=X.shape[1]))
        if kind == "counts":
            pm.Binomial("y", n=rows["n"].to_numpy(), logit_p=eta, observed=rows["y"].to_numpy())
        else:
            offset = rows["o"].to_numpy() if kind == "an offset" else 0.0
            pm.Bernoulli("y", logit_p=eta + offset, observed=rows["y"].to_numpy())
        idata = pm.sample(2_500, chains=CHAINS, random_seed=3, progressbar=False, compute_convergence_checks=False)
    return idata["posterior"]["beta"].values


def by_bambi(rows: pd.DataFrame, kind: str) -> np.ndarray:
    bmb = import_module("bambi")
    formula = f"{'p(y, n)' if kind == 'counts' else 'y'} ~ {TERMS}{' + offset(o)' if kind == 'an offset' else ''}"
    normal = bmb.Prior("Normal", mu=0, sigma=PRIOR_SD)
    family = "binomial" if kind == "counts" else "bernoulli"
    priors = {"Intercept": normal, "common": normal}
    model = bmb.Model(formula, rows, family=family, priors=priors, center_predictors=False)
    found = model.fit(draws=1_000, chains=CHAINS, random_seed=4, progressbar=False)["posterior"]
    return np.concatenate([np.atleast_3d(found[name].values) for name in COLUMNS], axis=2)


def beside(draws: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Return the largest errors of means and sds, both in sds of the reference, and what chance makes of the first."""
    sd, flat = reference.std(axis=(0, 1)), (0, 1)
    noise = np.hypot(mcse_mean(draws), mcse_mean(reference))
    return {
        "mean error (sd)": float(np.abs((draws.mean(axis=flat) - reference.mean(axis=flat)) / sd).max()),
        "sd error": float(np.abs(draws.std(axis=flat) / sd - 1.0).max()),
        "chance": float((noise / sd).max()),
    }


@command("data_frames")
def main() -> None:
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning)
    ways = {"coreset": by_coreset, "PyMC": by_pymc} | ({"bambi": by_bambi} if find_spec("bambi") else {})
    by_coreset(frame("factors"), "factors")  # compiles the kernels
    rows = []
    for kind in ("factors", "an offset", "counts"):
        data, draws, seconds, about = frame(kind), {}, {}, {}
        for name, way in ways.items():
            begin = time.perf_counter()
            draws[name] = way(data, kind)
            if name == "coreset":
                draws[name], about = draws[name]
            seconds[f"{name}, seconds"] = time.perf_counter() - begin
        row = {"data": f"factors and {kind}" if kind != "factors" else kind, **about}
        for name in (each for each in ways if each != "PyMC"):
            row |= {f"{name}: {what}": value for what, value in beside(draws[name], draws["PyMC"]).items()}
        rows.append(row | seconds)
        publish("data_frames", rows, digits=3)
