"""What do updates lose? `Fit.update` with twelve files of rows one after another, beside one `fit` of all twelve.

`mean` and `sd` are the largest differences of coefficients, sds of effects and correlations, in sds of one fit and
relative, of 160,000 draws of either coreset; `effects` that of means of groups' effects. `mcse` is the Monte Carlo
error of a mean's difference, in sds, by the smallest effective sample size. `seconds` are processor time of the eleven
updates and of the one fit; the first file's fit compiles beforehand.
"""

import time
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.fitting.parts import parameters, table
from bayescore.samplers.posterior import read_posterior
from benchmarks.commands import command
from benchmarks.tables import publish

ROWS, FILES = 20_000, 12
FORMULAS = {
    "formula": "y ~ age * device + log(price)",
    "spline": "y ~ bs(age, knots=[25, 45]) + device + log(price)",
    "(1 | g)": "y ~ age + device + (1 | g)",
}


def month(k: int, n_rows: int = ROWS) -> pd.DataFrame:
    """Return a file; each has groups that the earlier ones lack."""
    rng = np.random.default_rng([32, k])
    rows = pd.DataFrame(
        {
            "age": rng.gamma(3.0, 12.0, n_rows).clip(1.0, 120.0),
            "device": rng.choice(["desk", "phone", "tablet"], n_rows, p=[0.1, 0.6, 0.3]),
            "price": np.exp(rng.normal(size=n_rows)),
            "g": rng.integers(5 * k, 5 * k + 100, n_rows),
        }
    )
    rows.loc[:1, "age"] = 1.0, 120.0  # a spline has no columns beyond the ages that it was made of
    eta = 0.03 * (rows["age"] - 36) - 0.8 * (rows["device"] == "tablet") + 0.4 * np.log(rows["price"]) - 1.5
    effect = np.random.default_rng(32).normal(0.0, 0.6, 5 * FILES + 100)[rows["g"]]
    return rows.assign(y=eta + effect * (rows["g"] >= 0) + rng.logistic(size=n_rows) > 0)


def figures(core: bc.Coreset) -> tuple[pd.DataFrame, pd.Series]:
    """Return figures of many draws of a coreset, and means of its groups' effects."""
    prior = bc.priors.Normal(0.0, 2.5)
    idata = bc.sample(core, prior=prior, draws=40_000, random_seed=5, progressbar=False)
    posterior = read_posterior(idata, "idata")
    effects = pd.Series(dtype=float)
    for own in core.groups:
        effects = idata.posterior[f"u_{own.name}"].mean(("chain", "draw")).to_series()
    return table(*parameters(posterior), 0.95), effects


@command("update")
def main(chosen: tuple[str, ...] = tuple(FORMULAS)) -> None:
    """Write the table."""
    records: list[dict[str, Any]] = []
    for name in chosen:
        months = [month(k) for k in range(FILES)]
        fit = bc.fit(FORMULAS[name], months[0], random_state=1, progressbar=False)
        begin = time.process_time()
        levels = []
        for more in months[1:]:
            fit = fit.update(more, progressbar=False)
            levels.append(fit.level)
        between = time.process_time()
        whole = bc.fit(FORMULAS[name], pd.concat(months, ignore_index=True), random_state=2, progressbar=False)
        end = time.process_time()
        (a, of_a), (b, of_b) = figures(fit.coreset), figures(whole.coreset)
        sds = whole.effects()["sd"] if len(of_b) else 1.0
        records.append(
            {
                "model": name,
                "certified": f"{levels.count('certified')} of {len(levels)}",
                "rows": len(fit.coreset),
                "rows_at_once": len(whole.coreset),
                "mean": ((a["mean"] - b["mean"]).abs() / b["sd"]).max(),
                "sd": (a["sd"] / b["sd"] - 1.0).abs().max(),
                "effects": ((of_a - of_b).abs() / sds).max() if len(of_b) else np.nan,
                "mcse": float(np.hypot(*(own["ess_bulk"].min() ** -0.5 for own in (a, b)))),
                "seconds": between - begin,
                "seconds_at_once": end - between,
            }
        )
    publish("update", records)
