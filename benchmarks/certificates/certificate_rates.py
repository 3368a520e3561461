r"""How often is a certificate false? Fresh problems from a stated distribution, with a word on each of them.

Problem i follows from the seed [34, i]. Its family is logistic (35%), probit, cloglog, Poisson, negative binomial or
numbers with normal noise (13% each). Its terms are none (50%), `(1 | g)` (25%), `(1 | g) + (1 | h)` (12.5%) or
`(1 + x0 | g)` (12.5%). It has 500 to 30,000 rows, log-uniform (at most 10,000 with groups); 1 to 12 columns (4 with
groups), each normal, lognormal, Student-t of 3 degrees of freedom, uniform, or yes/no with a share of yes of 1% to 50%.
Coefficients are normal, with an sd of the predictor of 0.1 to 3, log-uniform; the share of events, or the mean count,
is 1% to 50%, log-uniform; 5 to 300 groups with effects of the sd 0.1 to 1.5. The prior is the default one, or without
groups and numbers Laplace(0, 0.5) or Student-t of 4 degrees of freedom (25% each). Nothing of these was changed after
the first run.

Two words are asked of each: of `fit` with its defaults; and of draws of `fit` altered afterwards, as in `forgeries`,
with digests to match (*forged*).

The truth of coefficients, log sds of effects and Fisher's z of correlations is that of all rows: importance weights of
a t of 5 degrees of freedom around the mode where at least 2,000 draws count and k-hat is below 0.5, else (groups, and
rough posteriors) draws of all rows by bayescore's samplers, with an effective size of 4,000. A word is *false* if it is
"certified" and the draws, or "corrected" and the corrected ones, are off by more than 0.25 beyond three standard errors
of the truth: in a mean (sds) or an sd (relative). Intervals are Clopper and Pearson's, 95%, by problem.

``--trials 300`` are the problems. Rows are kept in ``.references/certificate_rates.csv`` as they come, and a run goes
on where the last one ended.
"""

import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats
from threadpoolctl import threadpool_limits

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.fitting.prior import design_prior
from bayescore.numerics.chains import ess, mcse_mean
from bayescore.numerics.psis import psislw
from bayescore.priors.groups import DEFAULT_SCALE, prior_for
from bayescore.validation import DataError
from benchmarks.accuracy.full_posteriors import FOLDER
from benchmarks.accuracy.importance import weighed_t
from benchmarks.certificates.forgeries import FLAT, GROUPED, forged, values_of
from benchmarks.commands import command
from benchmarks.tables import publish

LOG = FOLDER / "certificate_rates.csv"
PROBLEMS = 300
OFF = 0.25
PROPOSALS, LEAST_ESS = 20_000, 2_000
FAMILIES = {
    "logistic": 0.35,
    "probit": 0.13,
    "cloglog": 0.13,
    "poisson": 0.13,
    "negative_binomial": 0.13,
    "normal": 0.13,
}
TERMS = {"": 0.5, "(1 | g)": 0.25, "(1 | g) + (1 | h)": 0.125, "(1 + x0 | g)": 0.125}
PRIORS = {"default": 0.5, "Laplace": 0.25, "StudentT": 0.25}
COLUMNS = ("normal", "lognormal", "t3", "uniform", "yes/no")
LEVELS = ("certified", "corrected", "not certified", "refused", "error")
SHARES = {"a tenth of all or fewer": 0.1, "half or fewer": 0.5}  # rows of the coreset
QUIET = {"progressbar": False}
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Problem:
    """A problem: all about it follows from its number."""

    number: int
    family: str
    terms: str
    prior: Any
    rows: pd.DataFrame

    @property
    def formula(self) -> str:
        """Its formula."""
        columns = [name for name in map(str, self.rows) if name.startswith("x")]
        return f"y ~ {' + '.join([*columns, *([self.terms] if self.terms else [])])}"


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _column(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "yes/no":
        return (rng.random(n) < _log_uniform(rng, 0.01, 0.5)).astype(float)
    draw = {"normal": rng.standard_normal, "uniform": rng.random, "t3": lambda n: rng.standard_t(3, n)}
    return np.asarray(draw[kind](n) if kind in draw else np.exp(rng.standard_normal(n)))


def intercept(eta: np.ndarray, share: float, family: Any) -> float:
    """Return what makes the mean response a given one, by bisection."""
    low, high = -40.0, 40.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.mean(family.mean(np.minimum(eta + middle, 30.0))) < share else (low, middle)
    return middle


def problem(number: int) -> Problem:
    """Return a problem."""
    rng = np.random.default_rng([34, number])
    kind = str(rng.choice(list(FAMILIES), p=list(FAMILIES.values())))
    terms = str(rng.choice(list(TERMS), p=list(TERMS.values())))
    prior = str(rng.choice(list(PRIORS), p=list(PRIORS.values())))
    size = _log_uniform(rng, 0.5, 20.0)
    name = f"{kind}({size:.3g})" if kind in ("negative_binomial", "normal") else kind
    family = check_family(name)
    n = int(_log_uniform(rng, 500, 10_000 if terms else 30_000))
    d = int(rng.integers(1, 5 if terms else 13))
    X = np.column_stack([_column(str(rng.choice(COLUMNS)), n, rng) for _ in range(d)])
    signal = (X - X.mean(axis=0)) @ rng.standard_normal(d)
    eta = signal * (_log_uniform(rng, 0.1, 3.0) * family.unit / max(signal.std(), 1e-12))
    rows = pd.DataFrame(X, columns=[f"x{i}" for i in range(d)])
    for factor in ("g", "h"):
        if factor in terms:
            levels = int(_log_uniform(rng, 5, 300))
            rows[factor] = rng.integers(0, levels, n)
            effects = rng.standard_normal((levels, 2)) * [[_log_uniform(rng, 0.1, 1.5), _log_uniform(rng, 0.1, 1.0)]]
            eta += family.unit * effects[rows[factor], 0]
            if "+ x0" in terms and factor == "g":
                eta += family.unit * effects[rows[factor], 1] * (X[:, 0] - X[:, 0].mean()) / X[:, 0].std()
    if kind != "normal":
        if kind in ("poisson", "negative_binomial"):
            eta = np.minimum(eta, 4.0)
        eta += intercept(eta, _log_uniform(rng, 0.01, 0.5), family)
    rows["y"] = family.draw(eta, rng)
    given = {"default": None, "Laplace": bc.priors.Laplace(0.0, 0.5), "StudentT": bc.priors.StudentT(4.0)}[prior]
    return Problem(number, name, terms, None if terms or kind == "normal" else given, rows)


def figures(idata: Any) -> np.ndarray:
    """Return draws of coefficients, log sds of effects and z of correlations, shape (chain, draw, k)."""
    source, parts = idata["posterior"], []
    for name in sorted(str(name) for name in source.data_vars):
        kind = name.split("_")[0]
        if kind in ("beta", "sigma", "rho"):
            own = source[name].transpose("chain", "draw", ...).values.astype(float)
            change = {"beta": np.asarray, "sigma": np.log, "rho": np.arctanh}[kind]
            parts.append(change(own).reshape(*own.shape[:2], -1))
    return np.concatenate(parts, axis=2)


Truth = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, str]  # means, sds, the error of both, and whence


def errors(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the Monte Carlo errors of means and of sds."""
    center, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    return mcse_mean(draws), mcse_mean((draws - center) ** 2) / (2.0 * sd)


def weighed_moments(draws: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return means and sds of draws, shape (S, D), of weights that sum to 1, and the errors of both: delta method."""
    mean = w @ draws
    sd = np.sqrt(w @ (draws - mean) ** 2)
    z = (draws - mean) / sd
    return mean, sd, sd * np.sqrt(w**2 @ z**2), 0.5 * sd * np.sqrt(w**2 @ (z**2 - 1.0) ** 2)


def truth(full: bc.Coreset, family: str, prior: Any) -> Truth:
    """Return means and sds of the posterior of all rows, their standard errors, and where they come from."""
    if not full.groups:
        mode, own = bc.find_map(full, family, prior), prior_for(prior, full, check_family(family))
        beta, log_w = weighed_t(full, own, mode.beta, mode.factor, PROPOSALS, 5)
        w = np.exp(log_w - special.logsumexp(log_w))
        if 1.0 / (w @ w) > LEAST_ESS and psislw(log_w)[1] < 0.5:
            return *weighed_moments(beta, w), "importance"
    idata = bc.sample(full, family, prior, draws=2000, ess=4000, cores=1, random_seed=1, **QUIET)
    draws = figures(idata)
    return draws.mean(axis=(0, 1)), draws.std(axis=(0, 1)), *errors(draws), "draws"


def off(idata: Any, known: Truth) -> tuple[float, float]:
    """Return the largest errors of a mean and of an sd, each less three standard errors of the truth."""
    draws = figures(idata)
    mean, sd, mean_error, sd_error, _ = known
    gap = np.abs(draws.mean(axis=(0, 1)) - mean) - 3.0 * mean_error
    ratio = np.abs(draws.std(axis=(0, 1)) - sd) - 3.0 * sd_error
    return float((gap / sd).max()), float((ratio / sd).max())


def word(name: str, level: str, idata: Any, known: Truth) -> Row:
    """Return a row: what was said of draws, and how far off they are."""
    row: Row = {"draws": name, "level": level, "mean": np.nan, "sd": np.nan, "ess": np.nan}
    if level in ("certified", "corrected"):
        row["mean"], row["sd"] = off(idata, known)
        row["ess"] = float(ess(figures(idata), "bulk").min())
    return row


def judged(name: str, idata: Any, core: bc.Coreset, rows: bc.Coreset, known: Truth) -> Row:
    """Return the row of draws handed to `certify`."""
    try:
        found = bc.certify(idata, core, rows, **QUIET)
    except DataError:
        return word(name, "refused", idata, known)
    return word(name, str(found.level), found.idata if str(found.level) == "corrected" else idata, known)


def study(number: int) -> list[Row]:
    """Return the rows of a problem."""
    warnings.filterwarnings("ignore")  # what is poor is the point
    own = problem(number)
    rng = np.random.default_rng([34, number, 1])
    shown = {"problem": number, "family": own.family, "terms": own.terms or "none", "N": len(own.rows)}
    shown["prior"] = "default" if own.prior is None else type(own.prior).__name__
    with threadpool_limits(1):
        try:
            fit = bc.fit(own.formula, own.rows, family=own.family, prior=own.prior, random_state=number, **QUIET)
        except DataError as error:
            return [{**shown, "draws": "fit", "level": "refused", "text": str(error)}]
        core, idata = fit.coreset, fit._used
        default = bc.priors.Normal(0.0, DEFAULT_SCALE)  # of standardised columns, as `fit` has it
        prior = None if own.family.startswith("normal") else design_prior(own.prior, core.design, default)
        full = bc.all_rows(own.rows, design=core.design, family=own.family, **QUIET)
        known = truth(full, own.family, prior)
        shown |= {"D": core.n_features, "rows": len(core), "truth": known[4]}
        found = [word("fit", fit.level, idata, known)]
        if "corrected" not in idata.posterior.attrs and "posterior_of" in idata.posterior.attrs:
            ways = FLAT | (GROUPED if core.groups else {})
            way = str(rng.choice([one for one in ways if core.n_features > 1 or "correlation" not in one]))
            values = values_of(idata)
            ways[way](values, rng)
            found.append({**judged("forged", forged(core, idata, values), core, full, known), "way": way})
    return [{**shown, **row} for row in found]


def run(problems: int, workers: int) -> pd.DataFrame:
    """Run the problems that the file lacks; return all rows."""
    FOLDER.mkdir(exist_ok=True)
    columns = ["problem", "family", "terms", "N", "prior", "D", "rows", "truth", "draws", "level"]
    columns += ["mean", "sd", "ess", "way", "text"]
    old = pd.read_csv(LOG, usecols=["problem"])["problem"].unique() if LOG.is_file() else []
    missing = [number for number in range(problems) if number not in set(old)]
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        asked = {pool.submit(study, number): number for number in missing}
        for count, task in enumerate(as_completed(asked), 1):
            try:
                found = task.result()
            except Exception as failure:  # to be seen in the table, not to end the run
                found = [{"problem": asked[task], "draws": "fit", "level": "error", "text": repr(failure)}]
            new = pd.DataFrame(found).reindex(columns=columns)
            new.to_csv(LOG, mode="a", header=not LOG.is_file(), index=False, float_format="%.4g")
            print(count, "of", len(missing), new["level"].tolist(), flush=True)
    frame = pd.read_csv(LOG)
    return frame[frame["problem"] < problems].sort_values(["problem", "draws"])


def counted(by: str, value: str, rows: pd.DataFrame) -> Row:
    """Return how often which word was said, and was false, with the interval."""
    said = rows[rows["level"].isin(["certified", "corrected"])]
    assert not said[["mean", "sd"]].isna().any(axis=None)  # NaN would count as right
    false = int((said[["mean", "sd"]].max(axis=1) > OFF).sum())
    row: Row = {"draws": rows["draws"].iloc[0], "by": by, "value": value, "problems": len(rows)}
    row |= {level: int((rows["level"] == level).sum()) for level in LEVELS}
    row |= {"false": false, "false, at most": np.nan}
    if len(said):
        row["false, at most"] = float(stats.binomtest(false, len(said)).proportion_ci(method="exact").high)
    good = said[["mean", "sd"]].max(axis=1)
    return row | {"off, median": good.median(), "off, largest": good.max()}


@command("certificate_rates", evidence=True)
def main(trials: int = PROBLEMS, workers: int = 2) -> None:
    frame = run(trials, workers)
    frame["family"] = frame["family"].str.partition("(")[0]
    publish("certificate_rates_problems", frame.to_dict("records"), 3)
    rows = []
    for draws in ("fit", "forged"):
        own = frame[frame["draws"] == draws]
        rows.append(counted("all", "", own))
        if draws == "fit":
            for by in ("family", "terms", "prior", "truth"):
                rows += [counted(by, str(value), part) for value, part in own.groupby(by)]
            for value, share in SHARES.items():
                rows.append(counted("rows", value, own[own["rows"] <= share * own["N"]]))
    publish("certificate_rates", rows, 3)
