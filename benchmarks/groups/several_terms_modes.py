"""How far are modes by lme4, glmmTMB and GPBoost from the posterior of the same rows, with several group terms?

Posteriors are the joint sampler's, of all rows, under default priors. The others maximise Laplace's approximation of
the likelihood without priors; lme4 with nAGQ = 0 finds coefficients and effects together, which is faster and cruder.
GPBoost has no correlation of slopes. Columns: the largest distance of coefficients, of log sds, and the 99% quantile of
that of effects, from posterior means, in posterior sds. A maximum is no mean: where an sd is near 0 its log is far off.

R with lme4 and glmmTMB, and the Python package gpboost, have to be there; what is not there is said. Only a run of all
of them is published. Seconds are of the fit alone. A system that takes longer than the cap is stopped, 1,200 s by
default.
"""

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from benchmarks.commands import command
from benchmarks.groups.several_terms import CROSSED, QUIET, URBAN, aggression, figures
from benchmarks.measure import in_r, r_has
from benchmarks.problems import SHARED
from benchmarks.tables import publish

CAP = 1200.0
FIT = """
suppressMessages(library({package})); d <- read.csv("{path}")
f <- {formula}
s <- system.time(m <- {call})[["elapsed"]]
own <- function(x) {{ if (inherits(x, "glmmTMB")) list(fixef(x)$cond, VarCorr(x)$cond, ranef(x)$cond)
                     else list(fixef(x), VarCorr(x), ranef(x)) }}
found <- own(m)
cat(s, "\\n")
cat(found[[1]], "\\n")
for (name in names(found[[3]])) {{
  u <- found[[3]][[name]]
  cat(name, sqrt(diag(found[[2]][[name]])), "\\n")
  cat(rownames(u), "\\n")
  cat(t(as.matrix(u)), "\\n")
}}
"""
CALLS = {
    "lme4, nAGQ = 0": ("lme4", "glmer(f, d, family = binomial, nAGQ = 0)"),
    "lme4, nAGQ = 1": ("lme4", "glmer(f, d, family = binomial)"),
    "glmmTMB": ("glmmTMB", "glmmTMB(f, d, family = binomial)"),
}


def sets() -> dict[str, tuple[pd.DataFrame, str, str]]:
    """Return rows of each set, the formula, and the same in R."""
    contraception, insteval = (pd.read_parquet(SHARED / f"{name}.parquet") for name in ("contraception", "insteval"))
    found = {
        "aggression, crossed": (aggression(crossed=True), "y ~ x + male + (1 | s) + (1 | item)"),
        "aggression, slopes": (aggression(crossed=False), "y ~ x + male + (1 + x | item)"),
        "contraception, slopes of urban": (contraception, URBAN),
        "insteval": (insteval, CROSSED),
    }
    return {
        name: (frame, formula, formula.replace("C(", "factor(").replace("**", "^"))
        for name, (frame, formula) in found.items()
    }


def by_r(frame: pd.DataFrame, formula: str, system: str, cap: float) -> dict[str, Any]:
    """Return seconds, coefficients, and for each factor sds and effects by level."""
    package, call = CALLS[system]
    seconds, beta, *factors = in_r(FIT, frame, cap, package=package, formula=formula, call=call)
    told: dict[str, Any] = {"seconds": float(seconds), "beta": [*map(float, beta.split())], "factors": {}}
    for first, levels, values in zip(factors[::3], factors[1::3], factors[2::3], strict=True):
        name, *sds = first.split()
        u = np.array(values.split(), dtype=float).reshape(len(levels.split()), -1)
        told["factors"][name] = [*map(float, sds)], dict(zip(levels.split(), u, strict=True))
    return told


def gpboost(core: bc.Coreset) -> dict[str, Any]:
    """Return the same by GPBoost, of the design's columns and of codes of groups."""
    import gpboost as gpb

    told: dict[str, Any] = {"group_data": core.group, "likelihood": "bernoulli_logit"}
    slopes = [(place, own) for place, own in enumerate(core.groups) if len(own.effects) > 1]
    if slopes:
        place, own = slopes[0]
        columns = [core.feature_names.index(name) for name in own.effects[1:]]
        told |= {"group_rand_coef_data": core.X[:, columns], "ind_effect_group_rand_coef": [place + 1] * len(columns)}
    begin = time.perf_counter()
    model = gpb.GPModel(**told)
    model.fit(y=(core.y > 0).astype(float), X=core.X, params={"trace": False})
    seconds = time.perf_counter() - begin
    sds = np.sqrt(np.asarray(model.get_cov_pars(format_pandas=False)).ravel())
    effects = model.predict_training_data_random_effects().to_numpy()
    beta = np.asarray(model.get_coef(format_pandas=False)).ravel()
    found: dict[str, Any] = {"seconds": seconds, "beta": beta[: core.n_features].tolist(), "factors": {}}
    for place, own in enumerate(core.groups):
        extra = [len(core.groups) + i for i in range(len(own.effects) - 1)] if slopes and slopes[0][0] == place else []
        first = np.unique(core.group[:, place], return_index=True)[1]
        u = effects[first][:, [place, *extra]]
        found["factors"][own.name] = sds[[place, *extra]].tolist(), dict(zip(map(str, own.levels), u, strict=True))
    return found


def beside(found: dict[str, Any], core: bc.Coreset, idata: Any) -> dict[str, float]:
    """Return distances from the posterior, in its sds."""
    own = figures(idata)
    beta, log_sds, gaps = own["beta"].reshape(-1, own["beta"].shape[2]), [], []
    for factor in core.groups:
        sds, levels = found["factors"][factor.name]
        sigma = np.log(idata["posterior"][f"sigma_{factor.name}"].values.reshape(len(beta), -1))
        log_sds.append(np.abs(np.log(np.maximum(sds, 1e-12)) - sigma.mean(axis=0)) / sigma.std(axis=0))
        u = idata["posterior"][f"u_{factor.name}"].values.reshape(len(beta), len(factor), -1)
        modes = np.array([levels[str(level)] for level in factor.levels]).reshape(u.shape[1:])
        gaps.append((np.abs(modes - u.mean(axis=0)) / u.std(axis=0)).ravel())
    off = np.abs(np.array(found["beta"]) - beta.mean(axis=0)) / beta.std(axis=0)
    return {
        "beta_off_sd": float(off.max()),
        "log_sigma_off_sd": float(np.concatenate(log_sds).max()),
        "effects_99_off_sd": float(np.quantile(np.concatenate(gaps), 0.99)),
    }


def absent() -> list[str]:
    """Return what is not installed."""
    missing = [package for package in ("lme4", "glmmTMB") if not r_has(package)]
    return missing if find_spec("gpboost") else [*missing, "gpboost"]


@command("several_terms_modes")
def main(cap: float = CAP) -> None:
    """Fit every set by every system that is there."""
    missing, found = absent(), []
    for name, (frame, formula, r_formula) in sets().items():
        core = bc.all_rows(frame, formula=formula, **QUIET)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of chains that have not mixed: ESS is in `several_terms`
            bc.sample(core, sampler="joint", draws=2, tune=2, chains=1, thin=1, random_seed=0, **QUIET)  # compiles
            begin = time.perf_counter()
            idata = bc.sample(core, sampler="joint", random_seed=1, **QUIET)
        row: dict[str, Any] = {"set": name, "rows": len(frame)}
        found.append(row | {"system": "posterior, joint sampler", "seconds": time.perf_counter() - begin})
        systems: dict[str, Callable[[], dict[str, Any]]] = {
            system: lambda system=system: by_r(frame, r_formula, system, cap)  # type: ignore[misc] # noqa: B023
            for system, (package, _) in CALLS.items()
            if package not in missing
        }
        if "gpboost" not in missing:
            systems["GPBoost"] = lambda: gpboost(core)  # noqa: B023
        for system, fit in systems.items():
            try:
                its = fit()
                found.append(row | {"system": system, "seconds": its["seconds"]} | beside(its, core, idata))
            except subprocess.TimeoutExpired:
                found.append(row | {"system": f"{system}: stopped", "seconds": cap})
            print(json.dumps(found[-1]), flush=True)
    if missing:
        sys.exit(f"{', '.join(missing)}: not installed, so that the table is not whole and not published")
    publish("several_terms_modes", found, digits=3)
