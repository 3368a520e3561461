"""On which level does `fit` end on data sets of many kinds, after how many tries, with how many rows?

Published sets come from ../shared/data, the others are made. `seconds` is wall time of `fit` and `find_map` that of the
mode of all rows in memory, of `(1 | g)` with the effects integrated out; several group terms have none. Reading and
compiling are included in neither. `mean` and `sd` are the largest errors of coefficients and log sds beside the
posterior of all rows, in its sds and relative. `mean_chance` and `sd_chance` are what the largest of so many would
exceed with a probability of at most 1% if both were draws of one posterior: an error below may be Monte Carlo error.
All rows are sampled where there are at most 100,000, 20,000 with groups, and 1e7 entries. `weighed_mean` and
`weighed_sd` are the same errors of every set by importance weights of all rows, as the certificate has them.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

import bayescore as bc
from bayescore.compiled import compile_seconds
from bayescore.data.design import one_intercept
from bayescore.numerics.chains import mcse_mean
from bayescore.priors.by_name import prior_from_dict
from bayescore.samplers.posterior import read_posterior
from benchmarks.commands import command
from benchmarks.groups.multilevel_terms import figures
from benchmarks.groups.several_terms import aggression
from benchmarks.problems import PROBLEMS, SHARED
from benchmarks.tables import known_rows, publish

WHOLE, WHOLE_GROUPED = 100_000, 20_000  # rows, without and with groups, of which the whole posterior is drawn too
ENTRIES = 10_000_000
CHANCE = 0.01


def _rows(n: int, n_groups: int = 0, seed: int = 0, *, crossed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"age": rng.normal(45, 12, n), "device": rng.choice(["phone", "tablet", "tv"], n)})
    eta = 0.04 * (rows["age"] - 45) + 0.6 * (rows["device"] == "tv") - 0.5
    for name, count in (("g", n_groups), ("h", crossed)):
        if count:
            rows[name] = rng.integers(0, count, n)
            eta += rng.normal(0, 0.6, count)[rows[name]]
    return rows.assign(y=eta + rng.logistic(size=n) > 0)


def _separated() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    rows = pd.DataFrame(rng.normal(size=(20_000, 3)), columns=list("abc"))
    return rows.assign(y=rows["a"] + 0.3 * rows["b"] > 0)


def _wide() -> pd.DataFrame:
    rng = np.random.default_rng(6)
    share = rng.uniform(0.02, 0.5, 300)
    X = (rng.random((100_000, 300)) < share).astype(float)
    eta = -1.0 + (X - share) @ rng.normal(0.0, 0.3, 300)
    return pd.DataFrame(X, columns=[f"x{d}" for d in range(300)]).assign(y=eta + rng.logistic(size=len(X)) > 0)


def _read(name: str, columns: str = "") -> pd.DataFrame:
    frame = pd.read_parquet(SHARED / f"{name}.parquet")
    return frame[columns.split()] if columns else frame


def _problem(name: str) -> pd.DataFrame:
    X, y = PROBLEMS[name].read()
    return X.assign(y=y)


FORMULA = "y ~ age + device"
SETS: dict[str, tuple[Callable[[], pd.DataFrame], str | None, dict[str, Any]]] = {
    "made 500": (lambda: _rows(500), FORMULA, {}),
    "made 5,000": (lambda: _rows(5_000), FORMULA, {}),
    "made 1e5": (lambda: _rows(100_000), FORMULA, {}),
    "made 1e6": (lambda: _rows(1_000_000), FORMULA, {}),
    "separated": (_separated, None, {}),
    "(1 | g), 10 groups": (lambda: _rows(20_000, 10), f"{FORMULA} + (1 | g)", {}),
    "(1 | g), 1,000 groups": (lambda: _rows(100_000, 1_000), f"{FORMULA} + (1 | g)", {}),
    "(1 | g), 20,000 groups": (lambda: _rows(200_000, 20_000), f"{FORMULA} + (1 | g)", {}),
    "(1 | g), 100,000 groups": (lambda: _rows(1_000_000, 100_000), f"{FORMULA} + (1 | g)", {}),
    "crossed, 1,000 x 50": (lambda: _rows(20_000, 1_000, crossed=50), f"{FORMULA} + (1 | g) + (1 | h)", {}),
    "slopes": (lambda: aggression(crossed=False), "y ~ x + male + (1 + x | item)", {}),
    "301 columns": (_wide, None, {}),
    "wells": (lambda: _read("posteriordb_wells"), None, {}),
    "nes": (lambda: _read("posteriordb_nes_logit"), None, {}),
    "dogs": (lambda: _read("posteriordb_dogs_2020", "n_avoid n_shock y"), None, {}),
    "vaso": (lambda: _read("vaso_finney1947"), None, {}),
    "german credit": (lambda: _read("german_credit_numeric"), None, {}),
    "chemreact": (lambda: _read("chemreact_ds1_10"), None, {}),
    "phishing": (lambda: _read("phishing_libsvm"), None, {}),
    "covtype 2 v 4": (lambda: _read("covtype_cover2v4"), None, {}),
    "contraception": (lambda: _read("contraception"), "use ~ age + I(age**2) + urban + (1 | district)", {}),
    "wells, probit": (lambda: _read("posteriordb_wells"), None, {"family": "probit"}),
    "wells, cloglog": (lambda: _read("posteriordb_wells"), None, {"family": "cloglog"}),
    "nmes1988, poisson": (
        lambda: _read("nmes1988"),
        "visits ~ hospital + chronic + age + gender + school",
        {"family": "poisson"},
    ),
    "quasi-separated": (lambda: _problem("quasi-separated"), None, {}),
}


def parameters(idata: Any) -> np.ndarray:
    """Return draws of coefficients and log sds of effects, shape (chain, draw, k)."""
    return np.concatenate([own for kind, own in figures(idata).items() if kind != "u"], axis=2)


def beside(own: np.ndarray, whole: np.ndarray, ess: float = np.inf) -> dict[str, float]:
    """Return the largest differences of means and sds, in sds, and what they would be by chance.

    Draws are of shape (chain, draw, k). Resampled ones tell no more than `ess` draws do, whatever their chains say.
    """
    sd = whole.std(axis=(0, 1))
    noise, spread = (np.hypot(first, second) / sd for first, second in zip(errors(own), errors(whole), strict=True))
    noise, spread = np.maximum(noise, ess**-0.5), np.maximum(spread, (2.0 * ess) ** -0.5)
    z = norm.isf(0.5 * CHANCE / len(sd))
    return {
        "mean": float((np.abs(own.mean(axis=(0, 1)) - whole.mean(axis=(0, 1))) / sd).max()),
        "mean_chance": float(z * noise.max()),
        "sd": float(np.abs(own.std(axis=(0, 1)) / sd - 1.0).max()),
        "sd_chance": float(z * spread.max()),
    }


def errors(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the Monte Carlo errors of means and of sds."""
    center, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    return mcse_mean(draws), mcse_mean((draws - center) ** 2) / (2.0 * sd)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what work returns, and its seconds without compiling."""
    begin = time.perf_counter()
    with compile_seconds() as compiled:
        found = work()
    return found, max(time.perf_counter() - begin - sum(compiled), 0.0)


def one(name: str) -> dict[str, Any]:
    """Return the row of a set."""
    load, formula, options = SETS[name]
    rows = load()
    first = (rows.drop(columns="y"), rows["y"]) if formula is None else (formula, rows)
    fit, seconds = timed(lambda: bc.fit(*first, **options, random_state=0, progressbar=False))
    tries = sum(step.what == "certify" for step in fit.story)
    row = {"data": name, "rows": len(rows), "level": fit.level, "tries": tries, "coreset": len(fit.coreset)}
    row |= {"method": fit.coreset.method, "seconds": seconds, "find_map": np.nan}
    if fit.level == "not certified":
        print(f"{name}: {fit.certificate.text}")
    told = {"design": fit.coreset.design, "progressbar": False, **options}
    full = bc.all_rows(rows, **(told if formula else told | {"label": "y"}))
    prior = prior_from_dict(read_posterior(fit._drawn, "fit.drawn").story["prior"])  # of the columns of its design
    if not full.groups or one_intercept(full.groups):
        _, row["find_map"] = timed(lambda: bc.find_map(full, prior=prior))
    judged = fit.certificate.coordinates[["mean_error_sd", "sd_error"]].abs().max()
    row |= {"weighed_mean": judged["mean_error_sd"], "weighed_sd": judged["sd_error"]}
    if full.X.size > ENTRIES or len(rows) > (WHOLE if full.group is None else WHOLE_GROUPED):
        return row | dict.fromkeys(("mean", "mean_chance", "sd", "sd_chance"), np.nan)
    whole = bc.sample(full, prior=prior, draws=2000, ess=4000, random_seed=1, progressbar=False)
    resampled = "resampled" in fit._used.posterior.attrs.get("corrected", "")
    ess = fit.certificate.ess if resampled else np.inf
    return row | beside(parameters(fit._used), parameters(whole), ess)


@command("fit_sets", sets=tuple(SETS))
def main(only: list[str] | None = None) -> None:
    """Write the table, again after each set; with `only` the other rows stay as they are."""
    warnings.filterwarnings("ignore")
    rows = {row["data"]: row for row in known_rows("fit_sets")} if only else {}
    for name in only or SETS:
        rows[name] = one(name)
        publish("fit_sets", [rows[name] for name in SETS if name in rows], digits=3)
