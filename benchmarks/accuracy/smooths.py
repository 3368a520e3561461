"""Are smooth terms s(x) right? Beside NUTS of the penalised spline on all rows, whose basis is written anew.

Data: y ~ s(x) + z, with x uniform on (0, 10), z ~ N(0, 1) and the curve sin(x) + x / 10 ("wave"), or a straight line.
Reference: 4 chains of PyMC's NUTS on all rows, sampled by nutpie, non-centred. Its basis are natural cubic splines that
are 1 at one knot, the penalty the integral of products of their second derivatives by quadrature, and the bends come
from the eigenvectors of that (Wood 2017, section 5.4.1).

Errors are the largest: of means, in sds, of the linear predictor at seven quantiles of x ("curve") and of the
coefficient of z; of all their sds; and of the mean of log sigma, in its sds, which comes with its own sd. "allowed" is
0.05 sd and three Monte Carlo errors of that mean, of both sides; the reference mixes badly in log sigma, which tests
hold against quadrature (`tests/samplers/test_smooth_sampler.py`). "sigma / 10" is a control: the error of the curve
beside a reference whose sigma is given, at a tenth of its median.

Seconds are CPU seconds of the whole fit, of a process that has made one before; "ESS" is the smallest of all
parameters. The reference of the two largest sets is left out.

"bam" is mgcv's `bam(y ~ s(x, bs = "cr") + z, discrete = TRUE)`, whose sigma is at its REML estimate: its CPU seconds
without reading the file, the largest difference of the predictor at the seven quantiles, in sds, and of its standard
errors. Without an R that has mgcv, its figures stay empty.
"""

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import special
from scipy.interpolate import CubicSpline

import bayescore as bc
from bayescore.numerics.chains import ess
from bayescore.types import FloatArray
from benchmarks.commands import command
from benchmarks.measure import in_r, r_has
from benchmarks.tables import known_rows, publish

QUIET = {"progressbar": False}
NUTS = {"draws": 1500, "tune": 1000, "chains": 4, "nuts_sampler": "nutpie"}
DRAWS, MOST, KNOTS, SEVEN = 3000, 10_000, 10, np.array([0.025, 0.1, 0.3, 0.5, 0.7, 0.9, 0.975])
SETS = {
    "logistic": ("logistic", "wave", 10_000),
    "poisson": ("poisson", "wave", 10_000),
    "normal": ("normal", "wave", 10_000),
    "straight": ("logistic", "line", 10_000),
    "large": ("logistic", "wave", 300_000),
    "million": ("logistic", "wave", 1_000_000),
}
BAM = """
suppressMessages(library(mgcv)); rows <- read.csv("{path}"); begin <- proc.time()
fit <- bam(y ~ s(x, bs = "cr") + z, data = rows, family = {family}, discrete = TRUE)
taken <- sum((proc.time() - begin)[1:2])
new <- data.frame(x = quantile(rows$x, c({quantiles})), z = mean(rows$z))
found <- predict(fit, new, se.fit = TRUE)
cat(format(c(taken, found$fit, found$se.fit), digits = 12))
"""


def data_of(family: str, curve: str, n: int) -> pd.DataFrame:
    """Return the rows of a set."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.uniform(0.0, 10.0, n), "z": rng.normal(size=n)})
    eta = 0.2 * (rows["x"] - 5.0) if curve == "line" else np.sin(rows["x"]) + 0.1 * rows["x"] - 1.0
    eta = (eta + 0.4 * rows["z"]).to_numpy()
    draw = {
        "logistic": lambda: (rng.random(n) < special.expit(eta)).astype(int),
        "poisson": lambda: rng.poisson(np.exp(eta)),
        "normal": lambda: eta + 1.5 * rng.normal(size=n),
    }
    return rows.assign(y=draw[family]())


def bends_of(x: FloatArray) -> CubicSpline:
    """Return bends of a smooth of x, as a function: orthogonal to 1 and x over the rows, squares 1 on average."""
    knots = np.quantile(np.unique(x), np.linspace(0.0, 1.0, KNOTS))
    cardinal = CubicSpline(knots, np.eye(KNOTS), bc_type="natural")
    ends, gaps = knots[:-1], np.diff(knots)
    nodes, weights = np.polynomial.legendre.leggauss(3)  # exact: products of lines
    at = (ends[:, None] + 0.5 * gaps[:, None] * (nodes + 1.0)).ravel()
    second, w = cardinal(at, 2), (0.5 * gaps[:, None] * weights).ravel()
    size, U = np.linalg.eigh((second.T * w) @ second)
    values = U[:, 2:] / np.sqrt(size[2:])
    line = np.column_stack([np.ones(len(x)), x])
    slopes = np.linalg.lstsq(line, cardinal(x) @ values, rcond=None)[0]
    values -= np.column_stack([np.ones(KNOTS), knots]) @ slopes
    scale = np.sqrt(((cardinal(x) @ values) ** 2).sum(axis=1).mean())
    return CubicSpline(knots, values / scale, bc_type="natural")


def truth(rows: pd.DataFrame, family: str, sigma: float | None = None) -> FloatArray:
    """Return draws of the predictor at seven quantiles, of the coefficient of z, log sigma and the noise's log sd."""
    import pymc as pm
    import pytensor.tensor as pt

    x, z, y = (rows[name].to_numpy(float) for name in ("x", "z", "y"))
    bends = bends_of(x)
    X = np.column_stack([x, z, bends(x)])
    center, unit = X.mean(axis=0), float(y.std()) if family == "normal" else 1.0
    covariance = np.cov(X.T, bias=True)
    left = 1.0 / np.sqrt(np.diagonal(np.linalg.inv(covariance)))[:2]  # sds of x and z given the other columns
    at = np.column_stack([np.quantile(x, SEVEN), np.full(len(SEVEN), center[1]), bends(np.quantile(x, SEVEN))]) - center
    with pm.Model():
        alpha = pm.Normal("alpha", y.mean() if family == "normal" else 0.0, 2.5 * unit)
        slopes = pm.Normal("slopes", 0.0, 2.5 * unit / left, shape=2)
        sd = pm.HalfStudentT("sigma", nu=3, sigma=2.5 * unit) if sigma is None else sigma
        b = pm.Normal("b", shape=KNOTS - 2)
        coef = pt.concatenate([slopes, sd * b])
        eta = alpha + pt.as_tensor(X - center) @ coef
        watched = [alpha + at @ coef, slopes[1:]]
        if family == "normal":
            noise = pm.HalfStudentT("noise", nu=3, sigma=2.5 * unit)
            pm.Normal("y", eta, noise, observed=y)
        else:
            pm.Potential("rows", (y * eta - (pt.softplus(eta) if family == "logistic" else pt.exp(eta))).sum())
        watched += [pt.log(sd)[None]] if sigma is None else []
        watched += [pt.log(noise)[None]] if family == "normal" else []
        pm.Deterministic("watched", pt.concatenate(watched))
        idata = pm.sample(random_seed=2, progressbar=False, **NUTS)
    return np.asarray(idata.posterior["watched"].values)


def watched_of(fit: Any, rows: pd.DataFrame) -> FloatArray:
    """Return the draws of a fit that `truth` has."""
    design, posterior = fit.coreset.design, fit.idata.posterior
    new = pd.DataFrame({"x": np.quantile(rows["x"], SEVEN), "z": rows["z"].mean()})
    coef = posterior["coef"].transpose("chain", "draw", ...).values
    curve = coef @ design.raw_columns(design.transform(new)).T
    others = [np.log(posterior[name].values)[..., None] for name in ("sigma_s(x)", "sigma") if name in posterior]
    return np.concatenate([curve, coef[..., -1:], *others], axis=2)


def fitted(rows: pd.DataFrame, family: str) -> tuple[Any, float]:
    """Return a fit and the CPU seconds that it took."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bc.fit("y ~ s(x) + z", rows, family=family, random_state=2, **QUIET)
        begin = time.process_time()
        fit = bc.fit("y ~ s(x) + z", rows, family=family, random_state=1, **QUIET)
        return fit, time.process_time() - begin


def beside_bam(rows: pd.DataFrame, family: str, draws: FloatArray) -> dict[str, float]:
    """Return seconds of mgcv's `bam`, and how its curve and standard errors differ from draws of a fit."""
    if not r_has("mgcv"):
        return {}
    in_mgcv = {"logistic": "binomial()", "poisson": "poisson()", "normal": "gaussian()"}[family]
    printed = " ".join(in_r(BAM, rows, family=in_mgcv, quantiles=", ".join(map(str, SEVEN))))
    seconds, *numbers = map(float, printed.split())
    curve, error = np.array(numbers).reshape(2, len(SEVEN))
    ours = draws[..., : len(SEVEN)]
    sd = ours.std(axis=(0, 1))
    ratio = error / sd - 1.0
    gap = float(np.abs((ours.mean(axis=(0, 1)) - curve) / sd).max())
    sds = float(ratio[np.abs(ratio).argmax()])
    return {"bam: CPU s": seconds, "bam: curve (sd)": gap, "bam: sds": sds}


def compared(name: str) -> dict[str, Any]:
    """Return the figures of one set."""
    family, curve, n = SETS[name]
    rows = data_of(family, curve, n)
    fit, seconds = fitted(rows, family)
    found = {"set": f"{family}, {curve}", "N": n, "rows": len(fit.coreset), "level": fit.level, "CPU s": seconds}
    found["ESS"] = float(fit.summary()["ess_bulk"].min())
    more = bc.fit("y ~ s(x) + z", rows, family=family, draws=DRAWS, random_state=1, **QUIET)
    draws, fixed = watched_of(more, rows), len(SEVEN) + 1
    found |= beside_bam(rows, family, draws)
    if n > MOST:
        return found
    expected = truth(rows, family)
    sd = expected.std(axis=(0, 1))
    gap = np.abs(draws.mean(axis=(0, 1)) - expected.mean(axis=(0, 1))) / sd
    error = np.sqrt(1.0 / ess(draws, "bulk") + 1.0 / ess(expected, "bulk"))
    ratio = draws.std(axis=(0, 1)) / sd - 1.0
    others = np.arange(len(sd)) != fixed  # all but log sigma
    worst = int(np.argmax(np.where(others, gap / (0.05 + 3.0 * error), 0.0)))
    found |= {"curve (sd)": float(gap[:fixed].max()), "worst mean (sd)": float(gap[worst])}
    found |= {"allowed": float(0.05 + 3.0 * error[worst]), "sds": float(ratio[others][np.abs(ratio[others]).argmax()])}
    found |= {"log sigma (sd)": float(gap[fixed]), "its allowed": float(0.05 + 3.0 * error[fixed])}
    found["its sd"] = float(ratio[fixed])
    if name == "logistic":
        tenth = truth(rows, family, sigma=0.1 * float(np.exp(np.median(expected[..., fixed]))))
        control = np.abs(draws.mean(axis=(0, 1)) - np.append(tenth.mean(axis=(0, 1)), 0.0)) / sd
        found["sigma / 10 (sd)"] = float(control[: len(SEVEN)].max())
    return found


@command("smooths", sets=tuple(SETS), evidence=("logistic",))
def main(only: Sequence[str] = tuple(SETS)) -> None:
    """Write the table; other rows of it stay."""
    found = {row["set"] + str(row["N"]): row for row in known_rows("smooths")}
    for name in only:
        row = compared(name)
        print(row, flush=True)
        found[row["set"] + str(row["N"])] = row
    order = [f"{family}, {curve}{n}" for family, curve, n in SETS.values()]
    publish("smooths", [found[key] for key in order if key in found])
