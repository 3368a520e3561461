"""Are coresets of numbers with normal noise exact, with groups and without? Closed forms and calibration.

`normal`: made sets have lognormal, t4, rare 0/1 and normal columns; one has weights of lognormal spread 2, one has
fewer rows than make sums, and in one y and a column lie far from 0. Published ones are ratings of lectures (insteval)
and values of vehicles (ausprivauto0405), with the sd of their residuals as that of the noise. Columns are standardised,
and priors wide, N(0, (10 max |y|)^2). The reference is the conjugate posterior by a QR decomposition of all rows.
"nats" is the largest difference of log-likelihoods of coreset and rows at eight draws; mode and sd are `find_map`'s.
Draws are 4 x 1000 of the default sampler; the largest error of their means is in Monte Carlo errors too. "named" is the
sd that the certificate names over that of the residuals.

`normal_groups`: `(1 | g)`; the reference is the closed form given sigma of all rows, over a grid of log sigma.

`normal_sbc`: coefficients, sigma and y from the prior, 60 rows in 8 groups; the rank of the truth among 99 draws of the
sums' posterior is uniform if all is right. `p_value` is that of a chi-square test of ten bins; `control` that of an sd
twice too large.
"""

import time
import warnings

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.chains import ess
from bayescore.types import FloatArray
from benchmarks.accuracy.normal_sd import PUBLISHED, SD, Exact
from benchmarks.calibration.sbc.ranks import calibration, rank
from benchmarks.commands import command
from benchmarks.problems import SHARED, uneven_columns
from benchmarks.tables import publish

QUIET = {"progressbar": False}
DRAWS = 99
MADE = {
    "skewed and rare columns": (1_000_000, 11),
    "heavy weights": (200_000, 9),
    "few rows": (12, 5),
    "far from 0": (100_000, 6),
}
WIDE = 10.0
SPREAD = bc.priors.HalfStudentT(3.0, 2.5)


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


def grouped(name: str, rows: pd.DataFrame, formula: str, sd: float) -> dict:
    """Return the figures of a random intercept."""
    family = bc.families.Gaussian(sd)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        core = bc.build_coreset(rows, formula=formula, family=family, standardize=True, **QUIET)
        seconds = time.process_time() - start
        everything = bc.all_rows(rows, formula=formula, family=family, standardize=True, **QUIET)
    wide = WIDE * float(np.abs(everything.offset).max())
    wide_prior = np.zeros(everything.n_features), np.full(everything.n_features, wide)
    mean, spread = Exact.of(everything, wide_prior, SPREAD.sigma).moments(sd, given=True)
    kept = {"draws": 2000, "random_seed": 1, **QUIET}
    idata = bc.sample(core, prior=bc.priors.Normal(0.0, wide), group_prior=SPREAD, **kept)
    sigma = idata.posterior[f"sigma_{core.groups[0].name}"].values.ravel()
    draws = np.column_stack([idata.posterior["beta"].values.reshape(-1, core.n_features), np.log(sigma)])
    gaps, ratio = np.abs(draws.mean(axis=0) - mean) / spread, np.abs(draws.std(axis=0) / spread - 1.0)
    found = {
        "set": name,
        "N": len(everything),
        "groups": len(core.groups[0]),
        "rows": len(core),
        "CPU s": seconds,
        "coefficients (sd)": float(gaps[:-1].max()),
        "their sds": float(ratio[:-1].max()),
        "log sigma (sd)": float(gaps[-1]),
        "its sd": float(ratio[-1]),
        "certificate": str(bc.certify(idata, core, rows, **QUIET).level),
    }
    print(found, flush=True)
    return found


def made_groups(n: int) -> pd.DataFrame:
    """Return rows of 500 groups."""
    rng = np.random.default_rng(4)
    code = rng.integers(0, 500, n)
    rows = pd.DataFrame({"a": rng.normal(size=n), "b": rng.exponential(size=n), "g": code})
    eta = 20.0 + 0.4 * rows["a"] - 0.3 * rows["b"] + 0.5 * rng.normal(size=500)[code]
    return rows.assign(y=eta + rng.normal(0.0, SD, n))


def ranks(seed: int, *, control: bool) -> np.ndarray:
    """Return the rank of each parameter's truth among draws, for one data set."""
    rng = np.random.default_rng([seed, 33])
    beta, sigma, n = rng.normal(size=3), abs(rng.normal()), 60
    rows = pd.DataFrame({"a": rng.exponential(size=n), "b": rng.normal(size=n), "g": rng.integers(0, 8, n)})
    eta = beta[0] + rows[["a", "b"]].to_numpy() @ beta[1:] + sigma * rng.normal(size=8)[rows["g"]]
    rows["y"] = eta + rng.normal(0.0, 0.7, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        family = bc.families.Gaussian(1.4 if control else 0.7)
        core = bc.build_coreset(rows, formula="y ~ a + b + (1 | g)", family=family, **QUIET)
        kept = {"draws": 4 * (DRAWS + 1), "tune": 400, "chains": 1, "random_seed": seed, **QUIET}
        given = {"prior": bc.priors.Normal(0.0, 1.0), "group_prior": bc.priors.HalfNormal(1.0)}
        posterior = bc.sample(core, **given, **kept).posterior
    draws = np.column_stack([posterior["beta"].values[0], posterior["sigma_g"].values[0]])[4::4][:DRAWS]
    return rank(draws, np.append(beta, sigma))


@command("normal")
def main(trials: int = 5) -> None:
    """Write the tables."""
    found = [flat(name, *made(name)) for name in MADE]
    found += [flat(name, *published(name)) for name in PUBLISHED]
    publish("normal", found)
    ratings = pd.read_parquet(SHARED / "insteval.parquet")
    groups = [grouped("made", made_groups(n), "y ~ a + b + (1 | g)", SD) for n in (20_000, 1_000_000)]
    groups += [grouped("insteval", ratings, "rating ~ studage + lectage + service + (1 | d)", 1.3)]
    publish("normal_groups", groups)
    publish("normal_sbc", calibration(("intercept", "a", "b", "sigma"), ranks, 40 * trials, DRAWS + 1))
