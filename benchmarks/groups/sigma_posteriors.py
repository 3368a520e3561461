"""Are posteriors of `(1 | g)` right at a large sigma with few rows a group? PyMC's NUTS and a dense grid.

`sigma_posteriors`: an intercept, a column of 0 and 1 that is constant within groups, and log sigma. NUTS moves
non-centred effects. The grid has 161 linear predictors for either value of the column and 121 values of log sigma; each
integral over an effect is the trapezium rule on 4,001 points. Differences of means are in posterior sds, of sds
relative; the worst of the three parameters. `effects` is the 99% quantile over groups, of means beside those of NUTS.
`noise` is the largest Monte Carlo error of a difference of means.

`repeated_measures`: made rows like those of a trial of toenail infection, 294 subjects at 7 visits, sigma 4, most
without a positive label; what `fit` and `build_coreset`, `sample`, `certify` end with, all options left alone.
"""

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.numerics.chains import ess, mcse_mean
from benchmarks.commands import command
from benchmarks.tables import publish

# groups, rows of each, sigma
SETS = ((100, 3, 5.0), (30, 5, 8.0))
FAMILIES = ("logistic", "probit")
SD, SCALE, FREEDOM = 2.5, 2.5, 3.0  # of the priors: normal of coefficients, half Student's t of sigma
PREDICTORS, SIGMAS, POINTS = np.linspace(-24.0, 24.0, 161), np.exp(np.linspace(np.log(0.2), np.log(120.0), 121)), 4001
QUIET = {"progressbar": False}


def made(groups: int, rows: int, sigma: float, family: str) -> pd.DataFrame:
    """Return rows of groups; x is 1 in every other group."""
    rng = np.random.default_rng([groups, rows])
    g = np.repeat(np.arange(groups), rows)
    eta = -0.5 + 1.0 * (g % 2) + sigma * rng.normal(size=groups)[g]
    y = rng.random(len(g)) < check_family(family).mean(eta)
    return pd.DataFrame({"x": (g % 2).astype(float), "g": g, "y": y.astype(int)})


def on_grid(frame: pd.DataFrame, family: str) -> tuple[np.ndarray, np.ndarray]:
    """Return means and sds of the intercept, the coefficient of x and log sigma."""
    own = check_family(family)
    counts = frame.groupby("g").agg(x=("x", "first"), positives=("y", "sum"), n=("y", "size"))
    z = np.linspace(-9.0, 9.0, POINTS)
    log_weights = stats.norm.logpdf(z) + np.log(z[1] - z[0])
    log_p = np.zeros((2, len(PREDICTORS), len(SIGMAS)))  # of the labels where x = 0, and where x = 1
    for s, sigma in enumerate(SIGMAS):
        eta = (PREDICTORS[:, None] + sigma * z).ravel()
        up, down = (own.log_p(eta, np.full(len(eta), side)).reshape(-1, POINTS) for side in (1, -1))
        for (x, positives, n), times in counts.value_counts().items():
            terms = positives * up + (n - positives) * down + log_weights
            top = terms.max(axis=1)
            log_p[int(x), :, s] += times * (top + np.log(np.exp(terms - top[:, None]).sum(axis=1)))
    b0, e1, log_sigma = np.meshgrid(PREDICTORS, PREDICTORS, np.log(SIGMAS), indexing="ij")
    b1 = e1 - b0
    log_f = log_p[0][:, None, :] + log_p[1][None, :, :] - 0.5 * (b0**2 + b1**2) / SD**2
    log_f += stats.t(FREEDOM, scale=SCALE).logpdf(np.exp(log_sigma)) + log_sigma
    f = np.exp(log_f - log_f.max())
    f /= f.sum()
    mean = np.array([(f * each).sum() for each in (b0, b1, log_sigma)])
    square = [(f * (each - m) ** 2).sum() for each, m in zip((b0, b1, log_sigma), mean, strict=True)]
    return mean, np.sqrt(square)


def by_nuts(frame: pd.DataFrame, family: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Return draws of the parameters, shape (chain, draw, 3), of effects, and how many transitions diverged."""
    import pymc as pm

    with pm.Model():
        beta = pm.Normal("beta", 0.0, SD, shape=2)
        sigma = pm.HalfStudentT("sigma", nu=FREEDOM, sigma=SCALE)
        z = pm.Normal("z", 0.0, 1.0, shape=frame.g.nunique())
        eta = beta[0] + beta[1] * frame.x.to_numpy() + (sigma * z)[frame.g.to_numpy()]
        if family == "logistic":
            pm.Bernoulli("y", logit_p=eta, observed=frame.y.to_numpy())
        else:  # 1 - p would round to 0
            pm.Potential("y", pm.logcdf(pm.Normal.dist(), eta * (2 * frame.y.to_numpy() - 1)).sum())
        options = {"draws": 4000, "tune": 2000, "chains": 4, "cores": 1, "target_accept": 0.95, "random_seed": 1}
        idata = pm.sample(compute_convergence_checks=False, **options, **QUIET)
    source = idata["posterior"]
    log_sigma = np.log(source["sigma"].values)[..., None]
    effects = source["z"].values * np.exp(log_sigma)
    diverged = int(idata["sample_stats"]["diverging"].values.sum())
    return np.concatenate([source["beta"].values, log_sigma], axis=2), effects, diverged


def beside(draws: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> tuple[float, float]:
    """Return the largest differences of means, in sds, and of sds, relative."""
    own = draws.reshape(-1, draws.shape[2])
    return float((np.abs(own.mean(axis=0) - mean) / sd).max()), float(np.abs(own.std(axis=0) / sd - 1.0).max())


@command(
    "sigma_posteriors", asks="Are posteriors of `(1 | g)` right at a large sigma, beside PyMC's NUTS and a dense grid?"
)
def main() -> None:
    """Compare the collapsed sampler with NUTS, and both with the grid."""
    found = []
    for groups, rows, sigma in SETS:
        for family in FAMILIES:
            frame = made(groups, rows, sigma, family)
            core = bc.all_rows(frame, formula="y ~ x + (1 | g)", **QUIET)
            priors = {"prior": bc.priors.Normal(0.0, SD), "group_prior": bc.priors.HalfStudentT(FREEDOM, SCALE)}
            source = bc.sample(core, family, draws=4000, ess=8000, random_seed=1, **priors, **QUIET)["posterior"]
            draws = np.concatenate([source["beta"].values, np.log(source["sigma_g"].values)[..., None]], axis=2)
            nuts, effects, diverged = by_nuts(frame, family)
            mean, sd = on_grid(frame, family)
            row: dict[str, Any] = {"groups": groups, "rows": rows, "sigma": sigma, "family": family}
            row["mean, grid"], row["sd, grid"] = beside(draws, mean, sd)
            of_nuts = nuts.reshape(-1, 3)
            row["mean, NUTS"], row["sd, NUTS"] = beside(draws, of_nuts.mean(axis=0), of_nuts.std(axis=0))
            gap = np.abs(source["u_g"].values.mean(axis=(0, 1)) - effects.mean(axis=(0, 1)))
            row["effects"] = float(np.quantile(gap / effects.std(axis=(0, 1)), 0.99))
            row["noise"] = float((np.hypot(mcse_mean(draws), mcse_mean(nuts)) / of_nuts.std(axis=0)).max())
            row["NUTS, mean, grid"], row["NUTS, sd, grid"] = beside(nuts, mean, sd)
            row |= {"ESS": float(ess(draws, "bulk").min()), "NUTS, ESS": float(ess(nuts, "bulk").min())}
            found.append(row | {"NUTS, diverged": diverged})
            print(found[-1], flush=True)
    publish("sigma_posteriors", found, digits=3)


def infections(seed: int) -> pd.DataFrame:
    """Return labels of 294 subjects at 7 visits, like those of a trial of toenail infection."""
    rng = np.random.default_rng(seed)
    months, subjects = np.array([0.0, 1.0, 2.0, 3.0, 6.0, 9.0, 12.0]), 294
    subject, month = np.repeat(np.arange(subjects), len(months)), np.tile(months, subjects)
    treated = (subject % 2).astype(float)
    eta = -1.7 - 0.1 * treated - 0.4 * month - 0.14 * treated * month + 4.0 * rng.normal(size=subjects)[subject]
    y = (rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    return pd.DataFrame({"treated": treated, "month": month, "subject": subject, "y": y})


@command("repeated_measures", asks="Are sds of coefficients within groups right with few rows a group and a large sd?")
def main_repeated(trials: int = 5) -> None:
    """Run both ways on some made sets."""
    formula, found = "y ~ treated * month + (1 | subject)", []
    for seed in range(trials):
        frame = infections(seed)
        none = (frame.groupby("subject").y.sum() == 0).mean()
        for way in ("fit", "build, sample, certify"):
            begin = time.process_time()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                if way == "fit":
                    fit = bc.fit(formula, frame, random_state=seed, **QUIET)
                    level, core, idata = fit.level, fit.coreset, fit._used
                    tries = sum(step.what == "certify" for step in fit.story)
                else:
                    core = bc.build_coreset(frame, formula=formula, random_state=seed, **QUIET)
                    idata, tries = bc.sample(core, random_seed=seed, **QUIET), 1
                    level = bc.certify(idata, core, frame, **QUIET).level
            row = {"set": seed, "subjects all 0": none, "way": way, "level": str(level), "tries": tries}
            row |= {"rows": len(core), "sigma": float(idata["posterior"]["sigma_subject"].mean())}
            row |= {"cpu_s": time.process_time() - begin, "warnings": len(caught)}
            found.append(row)
            print(found[-1], [str(one.message)[:200] for one in caught], flush=True)
    publish("repeated_measures", found, digits=3)
