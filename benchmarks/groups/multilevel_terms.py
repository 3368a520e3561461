"""Are multilevel coresets of several grouping factors and of slopes that vary right, beside all rows?

`contraception` by district with slopes of `urban`, beside NUTS on all 1,934 rows by the same model: differences of
means in posterior sds, of sds relatively, of log sigmas in sds; of effects' means the 99% quantile. `noise` is the
largest Monte Carlo error of a difference of means of beta, in sds.

`insteval` by student and lecturer, crossed, whose cells are nearly as many as its rows: nothing is condensed, and it
says so. Made sets of two factors, crossed or nested, of about 5 to 500 rows a cell: errors by importance weights of the
coreset's own draws (`certify`), of which most noise cancels.

`rows` are weighted rows, two for a pseudo-row. `log_ratio_sd` is the sd of the log-likelihood of all rows less the
coreset's over draws of all coefficients and effects; `ess` the smallest of beta, of `draws`.
"""

import time
import warnings

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.numerics.chains import ess, mcse_mean
from benchmarks.commands import command
from benchmarks.problems import SHARED
from benchmarks.tables import publish

URBAN = "use ~ C(livch) + age + I(age**2) + C(urban) + (1 + C(urban) | district)"
CROSSED = "good ~ C(studage) + C(lectage) + C(service) + C(dept) + (1 | s) + (1 | d)"
# levels of a and b, b nested in a, median rows of a cell, intercept
MADE = ((20, 20, False, 5, -0.5), (10, 30, False, 60, -1.0), (20, 10, True, 25, -1.0), (10, 10, True, 500, -3.0))


def made(n_a: int, n_b: int, nested: bool, median: int, intercept: float, family: str) -> pd.DataFrame:
    """Return rows of two factors in cells of lognormal sizes."""
    rng = np.random.default_rng([n_a, n_b, median])
    sizes = np.maximum(1, np.round(median * rng.lognormal(0.0, 0.8, n_a * n_b))).astype(int)
    a = np.repeat(np.repeat(np.arange(n_a), n_b), sizes)
    b = np.repeat(np.arange(n_a * n_b) if nested else np.tile(np.arange(n_b), n_a), sizes)
    X = rng.normal(size=(len(a), 4))
    X[:, 0] += 0.5 * rng.normal(size=n_a)[a]
    eta = intercept + X @ np.linspace(-0.5, 0.5, 4) + rng.normal(size=n_a)[a] + 0.7 * rng.normal(size=b.max() + 1)[b]
    y = (rng.random(len(a)) < check_family(family).mean(eta)).astype(int)
    return pd.DataFrame(X, columns=[f"x{d}" for d in range(4)]).assign(a=a, b=b, y=y)


def built(name: str, frame: pd.DataFrame, formula: str, family: str) -> tuple[bc.Coreset, dict]:
    """Return a coreset, and what it is."""
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that all rows are kept
        core = bc.build_coreset(
            frame, formula=formula, family=family, method="multilevel", random_state=0, progressbar=False
        )
    seconds, facts = time.perf_counter() - begin, core.params
    told = {
        "set": name,
        "family": family,
        "N": len(frame),
        "cells": facts["cells"],
        "p": core.n_features,
        "rows": len(core),
    }
    told |= {"pseudo": facts["pseudo_rows"], "kept": facts["kept_rows"], "passes": facts["passes"], "build_s": seconds}
    return core, told


def figures(idata: object) -> dict[str, np.ndarray]:
    """Return draws of beta, and where there are groups of log sigmas and effects, shape (chain, draw, k) each."""
    source = idata["posterior"]  # type: ignore[index]
    parts: dict[str, list[np.ndarray]] = {"beta": [], "sigma": [], "u": []}
    for name in sorted(map(str, source.data_vars)):  # samplers have orders of their own
        own = source[name]
        draws = own.transpose("chain", "draw", ...).values.reshape(*own.shape[:2], -1)
        kind = name.split("_")[0]
        if kind in parts:
            parts[kind].append(np.log(draws) if kind == "sigma" else draws)
    return {kind: np.concatenate(found, axis=2) for kind, found in parts.items() if found}


def beside(one: object, other: object) -> dict[str, float]:
    """Return differences of two posteriors' means and sds, and their noise."""
    a, b = figures(one), figures(other)
    gap = {k: np.abs(a[k].mean(axis=(0, 1)) - b[k].mean(axis=(0, 1))) / b[k].std(axis=(0, 1)) for k in a}
    noise = np.hypot(mcse_mean(a["beta"]), mcse_mean(b["beta"])) / b["beta"].std(axis=(0, 1))
    return {
        "mean_error_sd": float(gap["beta"].max()),
        "noise": float(noise.max()),
        "sd_error": float(np.abs(a["beta"].std(axis=(0, 1)) / b["beta"].std(axis=(0, 1)) - 1.0).max()),
        "log_sigma_error_sd": float(gap["sigma"].max()),
        "effects_99": float(np.quantile(gap["u"], 0.99)),
    }


def sampled(core: bc.Coreset, draws: int = 1000) -> tuple[object, dict]:
    """Return draws, and how they mixed."""
    begin = time.perf_counter()
    idata = bc.sample(core, draws=draws, ess=2.0 * draws, random_seed=1, progressbar=False)
    seconds = time.perf_counter() - begin
    return idata, {"draws": 4 * draws, "sample_s": seconds, "ess": float(ess(figures(idata)["beta"], "bulk").min())}


@command("multilevel_terms")
def main() -> None:
    """Compare coresets with all rows."""
    frame = pd.read_parquet(SHARED / "contraception.parquet")
    told = {"formula": URBAN, "progressbar": False}
    found = []
    core, row = built("contraception, slopes of urban", frame, URBAN, "logistic")
    sampled(core, draws=50)  # compiles
    idata, mixed = sampled(core, draws=2500)
    certificate = bc.certify(idata, core, frame, progressbar=False)
    full, _ = sampled(bc.all_rows(frame, **told), draws=2500)
    found.append(row | mixed | beside(idata, full) | {"log_ratio_sd": certificate.log_ratio_sd})
    found[-1]["level"] = str(certificate.level)
    print(found[-1], flush=True)
    for n_a, n_b, nested, median, intercept in MADE:
        kind = "nested" if nested else "crossed"
        frame = made(n_a, n_b, nested, median, intercept, "logistic")
        core, row = built(
            f"{kind}, {median} rows a cell", frame, "y ~ x0 + x1 + x2 + x3 + (1 | a) + (1 | b)", "logistic"
        )
        idata, mixed = sampled(core)
        certificate = bc.certify(idata, core, frame, label="y", progressbar=False)
        own = {"log_ratio_sd": certificate.log_ratio_sd, "level": str(certificate.level)}
        table, p = certificate.coordinates, core.n_features
        error = table["mean_error_sd"].abs().to_numpy()
        own |= {"mean_error_sd": float(error[:p].max()), "noise": float(table["mean_error_sd_mcse"][:p].max())}
        own |= {"sd_error": float(table["sd_error"][:p].abs().max()), "log_sigma_error_sd": float(error[p:].max())}
        if not certificate.effects.empty:  # draws that cannot be judged have none
            own["effects_99"] = float(np.quantile(certificate.effects["mean_error_sd"].abs(), 0.99))
        found.append(row | mixed | own)
        print(found[-1], flush=True)
    found.append(
        built("insteval, student x lecturer", pd.read_parquet(SHARED / "insteval.parquet"), CROSSED, "logistic")[1]
    )
    publish("multilevel_terms", found)
