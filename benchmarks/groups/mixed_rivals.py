"""What do mixed models cost by `fit`, nutpie, bambi, lme4, glmmTMB and GPBoost? Seconds and effective draws.

Six published sets with standardised columns (`mixed_sets.STANDARDISED`). nutpie samples the PyMC model of
`mixed_models`, with `fit`'s priors and with effects centred where that mixes better. bambi uses its default priors,
uncorrelated slopes, and PyMC's NUTS. `fit`, nutpie and bambi keep 4 chains of 1,000 draws; ESS is the smallest, bulk,
of coefficients, sds and, where there are any, correlations. The others maximise a likelihood: lmer REML, the rest
Laplace's approximation; GPBoost has uncorrelated slopes.

`CPU s` are processor seconds without those of `compile s`: for bambi and nutpie the code of the new model, for `fit`
the difference between the first and the second fit of a process, with kernels on the disk. For lme4, glmmTMB and
GPBoost they are those of the call that fits. `mean off` is the largest difference of a coefficient from `fit`'s
posterior mean, in posterior sds.

R with lme4 and glmmTMB, and the Python packages bambi, nutpie and gpboost, have to be installed; what is not is left
out.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.numerics.chains import ess, rhat
from benchmarks.commands import command
from benchmarks.groups.mixed_models import draws_of, fitted, pymc_model, scaled
from benchmarks.groups.mixed_sets import STANDARD_FOLDER, STANDARDISED, MixedSet
from benchmarks.measure import in_r, processor_seconds, r_has
from benchmarks.tables import known_rows, publish

KEPT = {"draws": 1000, "tune": 1000, "chains": 4, "cores": 1}
IN_R = """
suppressMessages(library({package})); d <- read.csv("{path}"); f <- {formula}
s <- system.time(m <- {call})
b <- fixef(m); if (is.list(b)) b <- b$cond
cat("\\n", s[["user.self"]] + s[["sys.self"]], as.character(packageVersion("{package}")), b, "\\n")
"""
IN_LME4 = {
    "normal": "lmer(f, d)",
    "logistic": "glmer(f, d, family = binomial)",
    "poisson": "glmer(f, d, family = poisson)",
}
FAMILIES = {"normal": "gaussian", "logistic": "binomial", "poisson": "poisson"}  # of glmmTMB
BAMBI = {"normal": "gaussian", "logistic": "bernoulli", "poisson": "poisson"}
GPBOOST = {"normal": "gaussian", "logistic": "bernoulli_logit", "poisson": "poisson"}
SYSTEMS = ("fit", "nutpie", "bambi", "lme4", "glmmTMB", "gpboost")  # in the order of the table
Result = dict[str, Any]


def chains(draws: np.ndarray, beta: np.ndarray) -> Result:
    """Return the ESS and R-hat of draws of all parameters, shape (chains, draws, k), and the coefficients' means."""
    worth = {"draws": draws.shape[0] * draws.shape[1], "ESS": float(ess(draws, "bulk").min())}
    return worth | {"R-hat": float(rhat(draws).max()), "mean": beta.reshape(-1, beta.shape[-1]).mean(axis=0)}


def names_of(fit: bc.Fit) -> list[str]:
    """Return the names of the intercept and of coefficients, the intercept first."""
    return ["Intercept", *(name for name in fit.coreset.design.names if name != "Intercept")]


def by_nutpie(mixed_set: MixedSet, frame: pd.DataFrame, fit: bc.Fit) -> Result:
    import nutpie

    draws = draws_of(fit)
    model = pymc_model(mixed_set, frame, fit, draws)
    begin = processor_seconds()
    compiled = nutpie.compile_pymc_model(model)
    middle = processor_seconds()
    idata = nutpie.sample(compiled, **KEPT, seed=1, progress_bar=False)
    seconds = processor_seconds() - middle
    kept = {name: idata.posterior[name].values.reshape(4, KEPT["draws"], -1) for name in draws}
    worth = chains(scaled(kept), fit.coreset.design.raw_coefficients(kept["beta"]))
    return {"version": version("nutpie"), "compile s": middle - begin, "CPU s": seconds, **worth}


def by_bambi(mixed_set: MixedSet, frame: pd.DataFrame, fit: bc.Fit) -> Result:
    import bambi

    formula = mixed_set.formula.replace("||", "|")  # slopes are uncorrelated in any case
    begin = processor_seconds()
    model = bambi.Model(formula, frame, family=BAMBI[mixed_set.family])
    idata = model.fit(**KEPT, random_seed=1, progressbar=False, discard_tuned_samples=False)
    whole = processor_seconds() - begin
    seconds = sum(float(idata[name]["process_time_diff"].sum()) for name in ("warmup_sample_stats", "sample_stats"))
    posterior = idata["posterior"]
    beta = np.stack([posterior[name].values for name in names_of(fit)], axis=-1)
    sds = [np.log(posterior[name].values) for name in posterior if str(name).endswith("_sigma") or name == "sigma"]
    worth = chains(np.concatenate([beta, np.stack(sds, axis=-1)], axis=-1), beta)
    return {"version": version("bambi"), "compile s": whole - seconds, "CPU s": seconds, **worth}


def by_r(package: str, mixed_set: MixedSet, frame: pd.DataFrame) -> Result:
    """Return the maximum by lme4 or glmmTMB."""
    call = IN_LME4[mixed_set.family] if package == "lme4" else f"glmmTMB(f, d, family = {FAMILIES[mixed_set.family]})"
    printed = in_r(IN_R, frame, package=package, formula=mixed_set.formula, call=call)
    seconds, number, *beta = printed[-1].split()
    return {"version": number, "CPU s": float(seconds), "mean": np.array(beta, dtype=float)}


def by_gpboost(mixed_set: MixedSet, frame: pd.DataFrame, fit: bc.Fit) -> Result:
    import gpboost

    groupings = fit.coreset.groups
    names = list(dict.fromkeys(grouping.name for grouping in groupings))
    slopes = [(names.index(each.name) + 1, effect) for each in groupings for effect in each.effects if effect in frame]
    options: dict[str, Any] = {"group_data": frame[names].to_numpy(), "likelihood": GPBOOST[mixed_set.family]}
    if slopes:
        options["group_rand_coef_data"] = frame[[effect for _, effect in slopes]].to_numpy(float)
        options["ind_effect_group_rand_coef"] = [place for place, _ in slopes]
    X = np.column_stack([np.ones(len(frame)), frame[names_of(fit)[1:]].to_numpy(float)])
    begin = processor_seconds()
    model = gpboost.GPModel(**options)
    model.fit(y=frame["y"].to_numpy(float), X=X, params={"trace": False})
    seconds = processor_seconds() - begin
    beta = np.asarray(model.get_coef(format_pandas=False)).ravel()[: X.shape[1]]
    return {"version": version("gpboost"), "CPU s": seconds, "mean": beta}


def systems(mixed_set: MixedSet, frame: pd.DataFrame, fit: bc.Fit) -> dict[str, Callable[[], Result]]:
    """Return the systems that are installed."""
    installed: dict[str, Callable[[], Result]] = {
        package: partial(by_r, package, mixed_set, frame) for package in ("lme4", "glmmTMB") if r_has(package)
    }
    in_python = {"gpboost": by_gpboost, "nutpie": by_nutpie, "bambi": by_bambi}
    return installed | {name: partial(run, mixed_set, frame, fit) for name, run in in_python.items() if find_spec(name)}


@command("mixed_rivals", sets=[mixed_set.name for mixed_set in STANDARDISED])
def main(only: Sequence[str] = (), rivals: str = "") -> None:
    """Fit each set by `fit` and by each system that is installed and named, and keep the rows of the others."""
    if not STANDARD_FOLDER.is_dir():
        print(f"not run, as {STANDARD_FOLDER} is absent")
        return
    names = [mixed_set.name for mixed_set in STANDARDISED]
    for mixed_set in STANDARDISED:
        if only and mixed_set.name not in only:
            continue
        frame = mixed_set.read(Path())
        first = fitted(mixed_set, frame)[1]
        fit, took = fitted(mixed_set, frame)
        draws = draws_of(fit)
        worth = chains(scaled(draws), fit.coreset.design.raw_coefficients(draws["beta"]))
        worth |= {"compile s": max(first["CPU s"] - took["CPU s"], 0.0), "CPU s": took["CPU s"]}
        ways = {"fit": partial(dict, worth, version=version("bayescore")), **systems(mixed_set, frame, fit)}
        about = fit.summary().loc[names_of(fit)]
        for name, run in ways.items():
            if rivals and name not in ("fit", *rivals.split(",")):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of chains: ESS and R-hat say it
                result = run()
            off = np.abs(result["mean"] - about["mean"].to_numpy(float)) / about["sd"].to_numpy(float)
            row = {"set": mixed_set.name, "rows": len(frame), "system": name, "version": result["version"]}
            row |= {key: result.get(key, np.nan) for key in ("compile s", "CPU s", "draws", "ESS", "R-hat")}
            row |= {"ESS a CPU s": result.get("ESS", np.nan) / result["CPU s"], "mean off": off.max()}
            rows = [
                each for each in known_rows("mixed_rivals") if (each["set"], each["system"]) != (mixed_set.name, name)
            ]
            rows = sorted([*rows, row], key=lambda each: (names.index(each["set"]), SYSTEMS.index(each["system"])))
            publish("mixed_rivals", rows, digits=3)
