r"""How near are condensed coresets to the posterior of all rows, and to calibrated coresets of 20 D rows?

Logistic; a row for each set, one after another, each in a process of its own; ``size="auto"``, N(0, 4^2) priors, an
intercept, published columns standardised; D counts the intercept. "rows" are those of the coreset, two for each of at
most D pseudo-rows. "sd of r" is that of the log ratio of the coreset's
density to the full data's over the full data's posterior, which importance weights see; "normal" that of the normal
approximation at the mode. The errors are the largest of a mean (in sds), of an sd (relative) and of a correlation, the
worst of the seeds: 500 independent draws of the normal density nearest the coreset's posterior, or where too few of
them count of that posterior itself, are weighed by all rows and by the coreset's (`calibration.paired`), so that both
are known from the same draws, which the builds have not seen; "counting" is the share of them that counts for the full
data. "expected" are the errors that the build predicts. The sd of r of calibrated coresets is that before `certify`
moves their draws, which mends most of it.

"accepted" counts the seeds whose build is content, "false" those of them that are off by more than 0.05 sd, 3% or 0.03;
a build that is not warns, names `calibrated` and keeps at most 5 D rows. Of such coresets few draws count, and what is
said of their errors is only that they are large. "certificate" is what `certify` says of 4 x 1000 MALA draws of the
first seed. ``--only "w8a"`` runs one set and leaves the other rows of the CSV as they are; ``--trials 3`` takes three.
"""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.compiled import one_blas_thread
from bayescore.coresets.calibrated import TOLERANCE
from bayescore.coresets.condensed import SHORTER, SharedDrawsPosterior, largest_error, nearest_normal
from bayescore.coresets.predicted_error import draw_base
from bayescore.datasets import binary10
from bayescore.families.family import check_family
from bayescore.models.laplace import Expansion, LaplaceApproximation
from bayescore.models.posterior import likelihood_terms, log_likelihoods
from bayescore.numerics.moments import Errors, WeightedDraws, errors_between
from benchmarks.commands import command
from benchmarks.measure import alone
from benchmarks.problems import SHARED, load
from benchmarks.tables import known_rows, publish

PRIOR = bc.priors.Normal(0, 4)
SEEDS = 10
LIMITS = (0.05, 0.03, 0.03)  # of means in sds, of sds relatively, of correlations
THIN = 10
PUBLISHED = {"chemreact": "chemreact_ds1_10", "covtype, 16%": "covtype_ramp16pct", "w8a": "w8a_train"}
SETS = (
    "normal, 201",
    "skewed, 10% positive",
    "t3, 1% positive",
    "Binary10",
    "chemreact",
    "0/1, rare ones",
    "covtype, 16%",
    "w8a",
    "normal, 501",
)


def rows_of(name: str) -> dict[str, Any]:
    """Return arguments of `all_rows` and `build_coreset`."""
    told: dict[str, Any] = {"intercept": True, "progressbar": False}
    if name in PUBLISHED:
        X, y = load(PUBLISHED[name])
        return {"data": X, "y": y, "standardize": True, **told}
    if name == "Binary10":
        X, y = binary10(1_000_000, random_state=0)
        return {"data": X[:, 1:], "y": y, **told}
    rng = np.random.default_rng(0)
    if name.startswith("normal"):
        n, d = 100_000, int(name.split()[1]) - 1
        X = rng.standard_normal((n, d))
        eta = X @ (rng.normal(size=d) * 1.5 / np.sqrt(d)) - 1.0
    elif name.startswith("skewed"):
        X = (np.exp(rng.standard_normal((140_000, 22))) - np.exp(0.5)) / 2.0
        eta = 0.4 * X @ np.linspace(1.0, -0.8, 22) - 2.7
    elif name.startswith("t3"):
        X = rng.standard_t(3, size=(100_000, 10))
        eta = 0.5 * X @ np.linspace(1.0, -0.8, 10) - 5.5
    else:
        X = (rng.random((50_000, 123)) < np.geomspace(0.5, 0.001, 123)).astype(float)
        eta = 0.8 * X @ np.linspace(1.0, -0.8, 123) - 0.5
    return {"data": X, "y": eta + rng.logistic(size=len(eta)) > 0.0, **told}


def content(core: bc.Coreset) -> bool:
    """Return whether the build expects errors within its tolerance."""
    expected = Errors(*(core.params[f"{kind}_error"] for kind in ("mean", "sd", "correlation")))
    return largest_error(expected) <= TOLERANCE


def study(name: str, trials: int) -> dict[str, Any]:
    """Return a row of figures."""
    warnings.filterwarnings("ignore")
    told = rows_of(name)
    data = bc.all_rows(**told)
    D, likelihood = data.n_features, check_family("logistic")
    build = partial(bc.build_coreset, **told, prior=PRIOR)
    full, core = bc.find_map(data, prior=PRIOR), build(method="condensed", random_state=0)
    other = build(method="calibrated", size=20 * D, random_state=0)
    start = LaplaceApproximation(likelihood, full.beta, full.factor)
    expansion = Expansion(
        likelihood, full.beta, likelihood_terms(full.beta, data, likelihood), data, np.ones(len(data))
    )
    problem = SharedDrawsPosterior(likelihood, PRIOR, expansion, nearest_normal(core, start, PRIOR, SHORTER) or start)
    with one_blas_thread():
        base = draw_base(problem, core, 99)
        prior = problem.log_prior(base.draws) - base.log_density
        all_rows = WeightedDraws(base.draws, log_likelihoods(base.draws, data, likelihood) + prior)

        def found(rows: bc.Coreset) -> tuple[float, Any]:
            own = WeightedDraws(base.draws, log_likelihoods(base.draws, rows, likelihood) + prior)
            return spread(own.log_weights), errors_between(own, all_rows)

        def spread(log_weights: np.ndarray) -> float:
            ratio, w = log_weights - all_rows.log_weights, all_rows.weights
            return float(np.sqrt(w @ (ratio - w @ ratio) ** 2))

        seeds = range(1, trials)
        cores = [core, *(build(method="condensed", random_state=seed) for seed in seeds)]
        spreads, errors = zip(*map(found, cores), strict=True)
        accepted = [error for error, each in zip(errors, cores, strict=True) if content(each)]
        moves = base.draws - full.beta
        normal = -0.5 * ((moves @ full.terms.precision) * moves).sum(axis=1) - base.log_density
        other_spread, _ = found(other)
    return {
        "data": name,
        "N": len(data),
        "D": D,
        "rows": max(map(len, cores)),
        "kept": max(each.params["kept"] for each in cores),
        "seeds": len(cores),
        "sd of r": max(spreads),
        "mean": max(error.mean for error in errors),
        "sd": max(error.sd for error in errors),
        "correlation": max(error.correlation for error in errors),
        "mean, median": np.median([error.mean for error in errors]),
        "sd, median": np.median([error.sd for error in errors]),
        "correlation, median": np.median([error.correlation for error in errors]),
        "accepted": len(accepted),
        "false": sum(bool((np.array(error) > LIMITS).any()) for error in accepted),
        "certificate": certificate(core, told),
        "expected mean": core.params["mean_error"],
        "expected sd": core.params["sd_error"],
        "expected correlation": core.params["correlation_error"],
        "counting": all_rows.ess / len(base.draws),
        "normal, sd of r": spread(normal),
        "calibrated rows": len(other),
        "calibrated, sd of r": other_spread,
    }


def certificate(core: bc.Coreset, told: dict[str, Any]) -> str:
    """Return what `certify` says of draws from the coreset."""
    idata = bc.sample(core, sampler="mala", thin=THIN, random_seed=0, progressbar=False)
    data, y = told["data"], told["y"]
    return str(bc.certify(idata, core, data, y, progressbar=False).level)


@command("condensed", sets=SETS, evidence=("skewed, 10% positive", "t3, 1% positive", "Binary10", "chemreact"))
def main(trials: int = SEEDS, only: Sequence[str] = SETS) -> None:
    """Write the table; of the sets in `only` anew."""
    rows = [row for row in known_rows("condensed") if row["data"] not in only]
    for name in only:
        if name in PUBLISHED and not SHARED.is_dir():
            print(f"not run: ../shared/data is absent ({name})")
            continue
        rows.append(alone(study, name, trials))
        print(rows[-1], flush=True)
        rows.sort(key=lambda row: SETS.index(row["data"]))
        publish("condensed", rows)  # after each set: those of many columns take long
