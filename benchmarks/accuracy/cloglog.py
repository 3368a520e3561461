"""Are coresets of the complementary log-log family right? With the logit on rows of the same make as a control.

`cloglog`: made rows, 5% events, eleven columns of which four are lognormal; `auto` (the default build, whose tolerance
is 0.05 sd), `calibrated` with a smaller one and `condensed`, five seeds each, priors N(0, 4^2). Reference: all rows'
posterior by importance weights of 2,000 antithetic points of its normal approximation; the coreset's by weights of the
same points, so that most noise cancels. Errors are the largest of a mean in sds and of an sd relatively; `share` is the
points' effective share. `(1 | g)`: 500 groups, as `multilevel` measures them.

`cloglog_sides`: what two weights a row, for either side, would cost beside one side and a weight: processor time of a
pass for value, gradient and Hessian, and of the family's derivatives of as many rows, the least of seven runs. A row of
two weights needs the derivatives of both sides; `two / one` is the pass with as much again.
"""

import time
from collections.abc import Callable

import numpy as np

import bayescore as bc
from bayescore.compiled import jit
from bayescore.data.passes import TILE
from bayescore.families.family import FAMILIES
from bayescore.models.posterior import likelihood_terms, log_likelihoods
from bayescore.numerics.moments import WeightedDraws, errors_between
from benchmarks.commands import command
from benchmarks.groups import multilevel
from benchmarks.tables import publish

FAMILIES_OF = ("cloglog", "logistic")
N, D, POINTS, REPEATS = 200_000, 12, 2000, 7
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
    half = np.random.default_rng(1).standard_normal((POINTS // 2, D))
    noise = np.vstack([half, -half])
    draws = mode.beta + noise @ mode.factor.T
    base = PRIOR.log_density(draws) + 0.5 * (noise**2).sum(axis=1)

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


@jit
def _derivatives(eta, side, family):  # type: ignore[no-untyped-def]
    out, scratch, total = np.empty((4, TILE)), np.empty((3, TILE)), 0.0
    for start in range(0, eta.size - TILE + 1, TILE):
        family.derivatives(eta[start : start + TILE], side[start : start + TILE], out, scratch)
        total += out[2, 0]
    return total


def sides(family: str, n: int) -> dict:
    """Return what two weights a row would cost."""
    X, y = made(family, n)
    data = bc.all_rows(X, y, family=family, intercept=True, progressbar=False)
    beta = bc.find_map(data, prior=PRIOR).beta
    eta, side, known = data.X @ beta, data.y.astype(float), FAMILIES[family]
    both = np.ones_like(side)
    one_pass = _least(lambda: likelihood_terms(beta, data, known))
    own, events = _least(lambda: _derivatives(eta, side, known)), _least(lambda: _derivatives(eta, both, known))
    rest = _least(lambda: _derivatives(eta, -both, known))
    return {
        "family": family,
        "derivatives / pass": own / one_pass,
        "both sides / one": (events + rest) / own,
        "two / one": 1.0 + (events + rest - own) / one_pass,
    }


def _least(work: Callable[[], object]) -> float:
    work()
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


@command("cloglog")
def main(trials: int = 5, rows: int = N) -> None:
    """Write the tables."""
    found = [row for family in FAMILIES_OF for row in (*flat(family, trials, rows), grouped(family))]
    publish("cloglog", found)
    publish("cloglog_sides", [sides(family, rows) for family in (*FAMILIES_OF, "probit")])
