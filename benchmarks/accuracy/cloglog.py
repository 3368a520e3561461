"""Are coresets of the complementary log-log family right? With the logit on rows of the same make as a control.

`cloglog`: made rows, 5% events, eleven columns of which four are lognormal; `auto` (the default build, whose tolerance
is 0.05 sd), `calibrated` with a smaller one and `condensed`, five seeds each, priors N(0, 4^2). Reference: all rows'
posterior by importance weights of 2,000 antithetic points of its normal approximation; the coreset's by weights of the
same points, so that most noise cancels. Errors are the largest of a mean in sds and of an sd relatively; `share` is the
points' effective share. `(1 | g)`: 500 groups, as `multilevel` measures them.
"""

import numpy as np

import bayescore as bc
from bayescore.families.family import FAMILIES
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.moments import WeightedDraws, errors_between
from benchmarks.accuracy.importance import antithetic
from benchmarks.commands import command
from benchmarks.groups import multilevel
from benchmarks.tables import publish

FAMILIES_OF = ("cloglog", "logistic")
N, D, POINTS = 200_000, 12, 2000
PRIOR = bc.priors.Normal(0, 4)
BUILDS = {
    "auto": {},
    "calibrated, tolerance 0.02": {"method": "calibrated", "tolerance": 0.02},
    "condensed": {"method": "condensed"},
}


def made(family: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows without the intercept's column, and labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D - 1))
    X[:, :4] = (np.exp(X[:, :4]) - np.exp(0.5)) / 2.0
    eta = 0.4 * X @ np.linspace(1.0, -0.8, D - 1) - 3.4
    return X, FAMILIES[family].draw(eta, rng)


def flat(family: str, trials: int, n: int) -> list[dict]:
    """Return figures of builds without groups."""
    X, y = made(family, n)
    told = {"family": family, "intercept": True, "progressbar": False}
    data = bc.all_rows(X, y, **told)
    mode = bc.find_map(data, prior=PRIOR)
    draws, base = antithetic(mode, PRIOR, POINTS)

    def weighed(rows: bc.Coreset) -> WeightedDraws:
        return WeightedDraws(draws, log_likelihoods(draws, rows, FAMILIES[family]) + base)

    full, found = weighed(data), []
    for name, options in BUILDS.items():
        cores = [bc.build_coreset(X, y, random_state=seed, **options, **told) for seed in range(trials)]
        errors = [errors_between(weighed(core), full) for core in cores]
        found.append(
            {
                "family": family,
                "method": name,
                "N": n,
                "D": D,
                "events": int(data.weights[data.y > 0].sum()),
                "seeds": trials,
                "rows": max(map(len, cores)),
                "mean, worst": max(error.mean for error in errors),
                "mean, median": float(np.median([error.mean for error in errors])),
                "sd, worst": max(error.sd for error in errors),
                "sd, median": float(np.median([error.sd for error in errors])),
                "share": full.ess / POINTS,
            }
        )
        print(found[-1], flush=True)
    return found


def grouped(family: str) -> dict:
    """Return figures of a random intercept."""
    frame = multilevel.made(500, 60, -3.0, 0.7, family)
    own = multilevel.measured("", family, frame, {"label": "y", "groups": "g", "intercept": True})
    return {
        "family": family,
        "method": "multilevel, (1 | g)",
        "N": own["N"],
        "D": own["p"],
        "events": int(frame["y"].sum()),
        "seeds": 1,
        "rows": own["rows"],
        "mean, worst": own["mean_error_sd"],
        "sd, worst": own["sd_error"],
        "log sigma": own["log_sigma_error_sd"],
        "effects, 99%": own["effects_99"],
        "share": own["share"],
    }


@command("cloglog")
def main(trials: int = 5, rows: int = N) -> None:
    """Write the table."""
    found = [row for family in FAMILIES_OF for row in (*flat(family, trials, rows), grouped(family))]
    publish("cloglog", found)
