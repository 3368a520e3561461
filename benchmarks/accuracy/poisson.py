"""Are coresets of counts right? Made sets of few events, and two published ones.

Made rows have lognormal, t4, rare 0/1 and normal columns, an offset of sd 0.5 and gamma exposures; published
ones are claims of vehicle policies with the years insured as exposure (ausprivauto0405), and visits to physicians
(nmes1988), overdispersed. Priors N(0, 4^2); published columns are standardised. Reference: all rows' density
by importance weights of 4,000 antithetic points of its normal approximation, a share of which counts; the coreset's by
weights of the same points, so that most noise cancels. Errors are the largest of a mean in sds and of an sd relatively,
the worst seed; "sd of r" is the sd of the log ratio of the coreset's density to the full data's. `certificate` is what
`certify` says of 4 x 1000 draws of the first seed, `dispersion` that of it; tables that were not made since have
Pearson's statistic there, of an earlier version. "rows" are two for each pseudo-row.
"""

import time
import warnings

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.moments import WeightedDraws, errors_between
from benchmarks.accuracy.importance import antithetic
from benchmarks.commands import command
from benchmarks.problems import SHARED, uneven_columns
from benchmarks.tables import publish

POISSON, PRIOR, POINTS = bc.families.Poisson(), bc.priors.Normal(0, 4), 4000
MADE = {
    "few events, 6 columns": (20_000, 6, 69, 0.1),
    "few events, 9 columns": (100_000, 9, 145, 0.1),
    "more events": (200_000, 9, 2067, 0.03),
    "few events, 13 columns": (50_000, 13, 222, 0.1),
    "no event in a rare column": (20_000, 6, 69, 0.003),
}
QUIET = {"progressbar": False}
BUILDS = {
    "calibrated": {"method": "calibrated"},
    "calibrated, tolerance 0.02": {"method": "calibrated", "tolerance": 0.02},
    "condensed": {"method": "condensed"},
}


def made(n: int, d: int, events: int, rare: float, size: float | None = None) -> dict:
    """Return rows without the intercept's column, counts, exposures and offsets, with about so many events.

    `rare` is the share of ones in the third column. With a size counts are negative binomial.
    """
    rng = np.random.default_rng(d)
    X = uneven_columns(n, d - 1, rare, rng)
    exposure, offset = rng.gamma(2.0, 0.5, n), 0.5 * rng.standard_normal(n)
    rate = np.exp(0.3 * X @ np.linspace(1.0, -0.8, d - 1) + offset)
    rate *= events / (exposure @ rate)
    if size is not None:
        offset += np.log(exposure)
        family = bc.families.NegativeBinomial(size)
        y = family.draw(np.log(exposure * rate), rng)
        return {"data": X, "y": y, "offset": offset, "intercept": True, "family": family}
    return {"data": X, "y": rng.poisson(exposure * rate), "exposure": exposure, "offset": offset, "intercept": True}


def published(name: str) -> dict:
    """Return a published set, as `build_coreset` takes it."""
    rows = pd.read_parquet(SHARED / f"{name}.parquet")
    if name == "ausprivauto0405":
        formula, exposure = "ClaimNb ~ VehValue + VehAge + VehBody + Gender + DrivAge", "Exposure"
    else:
        rows["age"] = rows["age"].astype(float)
        formula = "visits ~ hospital + health + chronic + adl + age + gender + married + school + income + insurance"
        exposure = None
    return {"data": rows, "formula": formula, "exposure": exposure, "standardize": True}


def flat(name: str, told: dict, trials: int) -> list[dict]:
    """Return the figures of each way of one set."""
    told = {"family": POISSON, **told, **QUIET}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = bc.all_rows(**told)
    mode, D = bc.find_map(data, prior=PRIOR), data.n_features
    draws, base = antithetic(mode, PRIOR, POINTS)
    log_full = log_likelihoods(draws, data, POISSON)
    full = WeightedDraws(draws, log_full + base)

    def figures(logs: list[np.ndarray]) -> dict:
        errors = [errors_between(WeightedDraws(draws, each + base), full) for each in logs]
        gaps = [each - log_full for each in logs]
        spread = [np.sqrt(full.weights @ (gap - full.weights @ gap) ** 2) for gap in gaps]
        worst = {"mean": max(e.mean for e in errors), "sd": max(e.sd for e in errors), "sd of r": max(spread)}
        return {**about, **worst, "share": full.ess / POINTS}

    about = {"set": name, "N": int((data.y < 0).sum()), "D": D, "events": int(data.weights[data.y > 0].sum())}
    found = [{**figures([-base]), "way": "normal approximation"}]
    for way, options in BUILDS.items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cores = [bc.build_coreset(**told, **options, prior=PRIOR, random_state=seed) for seed in range(trials)]
        seconds = (time.process_time() - start) / trials
        own = {"way": way, "rows": max(map(len, cores)), "seconds": seconds}
        own |= figures([log_likelihoods(draws, core, POISSON) for core in cores])
        idata = bc.sample(cores[0], prior=PRIOR, random_seed=1, **QUIET)
        roles = {key: told[key] for key in ("data", "y", "exposure", "offset") if told.get(key) is not None}
        judged = bc.certify(idata, cores[0], **roles, **QUIET)
        spread = judged.dispersion.ratio if judged.dispersion is not None else None  # where no count is above 1
        found.append({**own, "certificate": str(judged.level), "dispersion": spread})
    for row in found:
        print(row, flush=True)
    return found


@command("poisson", evidence=True)
def main(trials: int = 5) -> None:
    """Write the tables."""
    found = [row for name, given in MADE.items() for row in flat(name, made(*given), trials)]
    for name in ("ausprivauto0405", "nmes1988"):
        found += flat(name, published(name), trials)
    publish("poisson", found)
