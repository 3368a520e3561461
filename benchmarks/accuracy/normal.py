"""Are coresets of numbers with normal noise exact? Beside closed forms.

Made sets have lognormal, t4, rare 0/1 and normal columns; one has weights of lognormal spread 2, one has
fewer rows than make sums, and in one y and a column lie far from 0. Published ones are ratings of lectures (insteval)
and values of vehicles (ausprivauto0405), with the sd of their residuals as that of the noise. Columns are standardised,
and priors wide, N(0, (10 max |y|)^2). The reference is the conjugate posterior by a QR decomposition of all rows.
"nats" is the largest difference of log-likelihoods of coreset and rows at eight draws; mode and sd are `find_map`'s.
Draws are 4 x 1000 of the default sampler; the largest error of their means is in Monte Carlo errors too. "named" is the
sd that the certificate names over that of the residuals.
"""

import time
import warnings

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.chains import ess
from bayescore.types import FloatArray
from benchmarks.accuracy.normal_sd import PUBLISHED, SD
from benchmarks.commands import command
from benchmarks.problems import SHARED, uneven_columns
from benchmarks.tables import publish

QUIET = {"progressbar": False}
MADE = {
    "skewed and rare columns": (1_000_000, 11),
    "heavy weights": (200_000, 9),
    "few rows": (12, 5),
    "far from 0": (100_000, 6),
}
WIDE = 10.0


def made(name: str) -> tuple[dict, float]:
    """Return a made set, as `build_coreset` takes it, and the sd of its noise."""
    n, d = MADE[name]
    rng = np.random.default_rng(d)
    X = uneven_columns(n, d - 1, 0.01 if n > 100 else 0.5, rng)
    y = 7.0 + X @ np.linspace(1.0, -0.8, d - 1) + rng.normal(0.0, SD, n)
    told = {"data": X, "y": y, "intercept": True, "standardize": True}
    if name == "heavy weights":
        told["weights"] = rng.lognormal(0.0, 2.0, n)
    if name == "far from 0":
        X[:, 0], told["y"] = X[:, 0] + 2000.0, y + 1e6
    return told, SD


def published(name: str) -> tuple[dict, float]:
    """Return a published set, and the sd of its residuals."""
    told = {"data": pd.read_parquet(SHARED / f"{name}.parquet"), "formula": PUBLISHED[name], "standardize": True}
    rows = bc.all_rows(**told, family="normal(1)", **QUIET)
    return told, residual_sd(rows)


def residual_sd(rows: bc.Coreset) -> float:
    """Return the sd of the residuals of least squares."""
    X, y = rows.X, -rows.offset
    gaps = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
    return float(np.sqrt(rows.weights @ gaps**2 / rows.weights.sum() * len(y) / (len(y) - X.shape[1])))


def conjugate(rows: bc.Coreset, sd: float, wide: float) -> tuple[FloatArray, FloatArray]:
    """Return means and sds of the coefficients under N(0, wide^2), by a QR decomposition of all rows."""
    D = rows.n_features
    root = np.sqrt(rows.weights)[:, None] / sd
    Q, R = np.linalg.qr(np.vstack([root * rows.X, np.eye(D) / wide]))
    mean = np.linalg.solve(R, Q.T @ np.append(-root[:, 0] * rows.offset, np.zeros(D)))
    return mean, np.sqrt((np.linalg.inv(R) ** 2).sum(axis=1))


def flat(name: str, told: dict, sd: float) -> dict:
    """Return the figures of one set."""
    family, told = bc.families.Gaussian(sd), {**told, **QUIET}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        core = bc.build_coreset(**told, family=family, random_state=0)
        seconds = time.process_time() - start
        rows = bc.all_rows(**told, family=family)
    wide = WIDE * float(np.abs(rows.offset).max())
    mean, spread = conjugate(rows, sd, wide)
    prior = bc.priors.Normal(0.0, wide)
    mode = bc.find_map(core, prior=prior)
    points = mode.beta + np.random.default_rng(1).standard_normal((8, len(mean))) @ mode.factor.T
    nats = np.abs(log_likelihoods(points, core, family) - log_likelihoods(points, rows, family)).max()
    idata = bc.sample(core, prior=prior, random_seed=1, **QUIET)
    draws = idata.posterior["beta"].values.reshape(-1, len(mean))
    gaps = np.abs(draws.mean(axis=0) - mean) / spread
    roles = {key: told[key] for key in ("data", "y", "weights") if key in told}
    judged = bc.certify(idata, core, **roles, **QUIET)
    over = judged.dispersion
    found = {
        "set": name,
        "N": len(rows),
        "D": len(mean),
        "rows": len(core),
        "passes": int(core.params["passes"]),
        "CPU s": seconds,
        "nats": float(nats),
        "mode (sd)": float((np.abs(mode.beta - mean) / spread).max()),
        "sd": float(np.abs(mode.sd / spread - 1.0).max()),
        "draws, mean (sd)": float(gaps.max()),
        "in Monte Carlo errors": float((gaps * np.sqrt(ess(idata.posterior["beta"].values, "bulk"))).max()),
        "draws, sd": float(np.abs(draws.std(axis=0) / spread - 1.0).max()),
        "certificate": str(judged.level),
        "named": None if over is None else over.size / residual_sd(rows),
    }
    print(found, flush=True)
    return found


@command("normal")
def main() -> None:
    """Write the table."""
    found = [flat(name, *made(name)) for name in MADE]
    found += [flat(name, *published(name)) for name in PUBLISHED]
    publish("normal", found)
