"""Are coresets of counts right? Made sets of few events, two published ones, and calibration.

`poisson`: made rows have lognormal, t4, rare 0/1 and normal columns, an offset of sd 0.5 and gamma exposures; published
ones are claims of vehicle policies with the years insured as exposure (ausprivauto0405), and visits to physicians
(nmes1988), overdispersed. Priors N(0, 4^2); published columns are standardised. Reference: all rows' density
by importance weights of 4,000 antithetic points of its normal approximation, a share of which counts; the coreset's by
weights of the same points, so that most noise cancels. Errors are the largest of a mean in sds and of an sd relatively,
the worst seed; "sd of r" is the sd of the log ratio of the coreset's density to the full data's. `certificate` is what
`certify` says of 4 x 1000 draws of the first seed, `dispersion` that of it; tables that were not made since have
Pearson's statistic there, of an earlier version. "rows" are two for each pseudo-row.

`negative_binomial`: the same with rows' rates varied by a gamma distribution, the exposures in the offset, and the size
given: that of the made counts, and of visits what the dispersion of their Poisson certificate names.

`poisson_groups`: 500 groups, by `multilevel`; the errors are those that the certificate states.
`negative_binomial_groups`: the same of size 2.

`poisson_sbc`: coefficients and counts from the prior, 60 rows of which some have events; the rank of the truth among 99
draws of the condensed coreset's posterior is uniform if all is right. `p_value` is that of a chi-square test of ten
bins; `control` that of coresets without the exposure, which must be small for some of them. `negative_binomial_sbc` is
that of size 1.5, the control a coreset by the Poisson likelihood.
"""

import time
import warnings
from functools import partial

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.moments import WeightedDraws, errors_between
from benchmarks.accuracy.importance import antithetic
from benchmarks.calibration.sbc.ranks import calibration, rank
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
SIZES = {
    "few events, 6 columns": 0.2,
    "few events, 9 columns": 5.0,
    "more events": 0.5,
    "few events, 13 columns": 1000.0,
}
SBC_SIZE, GROUPS_SIZE = 1.5, 2.0
QUIET = {"progressbar": False}
BUILDS = {
    "calibrated": {"method": "calibrated"},
    "calibrated, tolerance 0.02": {"method": "calibrated", "tolerance": 0.02},
    "condensed": {"method": "condensed"},
}
DRAWS, SBC_ROWS = 99, 60
SBC_QUANTITIES = ("intercept", "x1", "x2")
SBC_PRIOR = bc.priors.Normal(0.0, 1.0)


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
    family = told["family"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = bc.all_rows(**told)
    mode, D = bc.find_map(data, prior=PRIOR), data.n_features
    draws, base = antithetic(mode, PRIOR, POINTS)
    log_full = log_likelihoods(draws, data, family)
    full = WeightedDraws(draws, log_full + base)

    def figures(logs: list[np.ndarray]) -> dict:
        errors = [errors_between(WeightedDraws(draws, each + base), full) for each in logs]
        gaps = [each - log_full for each in logs]
        spread = [np.sqrt(full.weights @ (gap - full.weights @ gap) ** 2) for gap in gaps]
        worst = {"mean": max(e.mean for e in errors), "sd": max(e.sd for e in errors), "sd of r": max(spread)}
        return {**about, **worst, "share": full.ess / POINTS}

    about = {"set": name, **({} if family == POISSON else {"size": family.size})}
    about |= {"N": int((data.y < 0).sum()), "D": D, "events": int(data.weights[data.y > 0].sum())}
    found = [{**figures([-base]), "way": "normal approximation"}]
    for way, options in BUILDS.items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cores = [bc.build_coreset(**told, **options, random_state=seed) for seed in range(trials)]
        seconds = (time.process_time() - start) / trials
        own = {"way": way, "rows": max(map(len, cores)), "seconds": seconds}
        own |= figures([log_likelihoods(draws, core, family) for core in cores])
        idata = bc.sample(cores[0], prior=PRIOR, random_seed=1, **QUIET)
        roles = {key: told[key] for key in ("data", "y", "exposure", "offset") if told.get(key) is not None}
        judged = bc.certify(idata, cores[0], **roles, **QUIET)
        spread = judged.dispersion.ratio if judged.dispersion is not None else None  # where no count is above 1
        found.append({**own, "certificate": str(judged.level), "dispersion": spread})
    for row in found:
        print(row, flush=True)
    return found


def grouped(n: int, family: bc.families.Family = POISSON) -> dict:
    """Return the figures of a random intercept of 500 groups."""
    rng = np.random.default_rng(4)
    code = rng.integers(0, 500, n)
    rows = pd.DataFrame({"a": rng.normal(size=n), "b": rng.exponential(size=n), "g": code, "E": rng.gamma(2.0, 0.5, n)})
    eta = -3.0 + 0.4 * rows["a"] - 0.3 * rows["b"] + 0.5 * rng.normal(size=500)[code]
    rows["log_E"] = np.log(rows["E"])
    rows["n"] = family.draw((eta + rows["log_E"]).to_numpy(), rng)
    beside = {"exposure": "E"} if family is POISSON else {"offset": "log_E"}
    start = time.process_time()
    core = bc.build_coreset(rows, formula="n ~ a + b + (1 | g)", family=family, random_state=0, **beside, **QUIET)
    seconds = time.process_time() - start
    judged = bc.certify(bc.sample(core, random_seed=1, **QUIET), core, rows, **QUIET)
    errors = judged.coordinates["mean_error_sd"].abs()
    return {
        "N": n,
        "groups": 500,
        "events": int(rows["n"].sum()),
        "rows": len(core),
        "seconds": seconds,
        "certificate": str(judged.level),
        "coefficients (sd)": float(errors.drop("log sigma_g").max()),
        "log sigma (sd)": float(errors["log sigma_g"]),
        "effects, largest (sd)": float(judged.effects["mean_error_sd"].abs().max()),
    }


def ranks(seed: int, size: float | None = None, *, control: bool) -> np.ndarray:
    """Return the rank of each coefficient's truth among draws, for one data set; with a size, of such counts."""
    rng = np.random.default_rng([seed, 18])
    beta = rng.normal(size=3)
    X, exposure = rng.exponential(size=(SBC_ROWS, 2)), rng.gamma(2.0, 0.25, SBC_ROWS)
    family = POISSON if size is None else bc.families.NegativeBinomial(size)
    y = family.draw(np.log(exposure) + beta[0] + X @ beta[1:], rng)
    told = {"y": y, "family": family, "intercept": True, **QUIET}
    if size is not None:
        told |= {"offset": np.log(exposure), "family": POISSON if control else family}
    elif not control:
        told["exposure"] = exposure
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = bc.build_coreset(X, method="condensed", prior=SBC_PRIOR, random_state=seed, **told)
        kept = {"draws": 4 * (DRAWS + 1), "tune": 400, "chains": 1, "random_seed": seed, **QUIET}
        draws = bc.sample(core, prior=SBC_PRIOR, **kept).posterior["beta"].values[0][4::4][:DRAWS]
    return rank(draws, beta)


@command(
    "poisson",
    asks="Are coresets of Poisson counts right? Made sets of few events, two published ones, and calibration.",
)
def main(trials: int = 5) -> None:
    """Write the tables."""
    found = [row for name, given in MADE.items() for row in flat(name, made(*given), trials)]
    for name in ("ausprivauto0405", "nmes1988"):
        found += flat(name, published(name), trials)
    publish("poisson", found)
    publish("poisson_groups", [grouped(n) for n in (20_000, 200_000)])
    publish("poisson_sbc", calibration(SBC_QUANTITIES, ranks, 40 * trials, DRAWS + 1))


@command("negative_binomial", asks="Are coresets of negative binomial counts right? The same sets and measures.")
def negative_binomial(trials: int = 5) -> None:
    """Write the tables of counts of a given size."""
    found = [row for name, size in SIZES.items() for row in flat(name, made(*MADE[name], size), trials)]
    visits = published("nmes1988")
    over = bc.fit(visits["formula"], visits["data"], family="poisson", random_state=0, **QUIET).certificate.dispersion
    found += flat("nmes1988", {**visits, "family": bc.families.NegativeBinomial(round(over.size, 2))}, trials)
    publish("negative_binomial", found)
    publish(
        "negative_binomial_groups", [grouped(n, bc.families.NegativeBinomial(GROUPS_SIZE)) for n in (20_000, 200_000)]
    )
    of_counts = partial(ranks, size=SBC_SIZE)
    publish("negative_binomial_sbc", calibration(SBC_QUANTITIES, of_counts, 40 * trials, DRAWS + 1))
