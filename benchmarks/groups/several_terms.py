"""Is the joint sampler right for several group terms and slopes, and how fast is it beside PyMC's NUTS?

`aggression` are made rows like lme4's `VerbAgg`: 316 subjects x 24 items, x with values near 20, once as crossed
intercepts, once with slopes of x by item whose sd is near 0 (all rows, and their multilevel coreset). `insteval` is by
student and lecturer; NUTS is not run on it. Coresets are of `contraception` by district with slopes of `urban`, and of
made sets of two factors, crossed or nested, of about 5 to 500 rows a cell.

`ess` is the smallest bulk effective sample size of coefficients, log sds and correlations, `ess_effects` that of 40
effects of each factor. `per_gradient` is `ess` by gradients of the draws kept, `per_second` by processor seconds,
warm-up and compiling PyMC's model included; machine code of the joint sampler is on the disk from a short first run.
Differences are those from NUTS: of means in its sds, of sds relatively, the 99% quantile over effects. `noise` is the
largest Monte Carlo error of a difference of means of beta, in sds.

`several_terms_large` is of 1e6 rows of crossed factors of 20,000 and 1,000 levels; `--rows` takes fewer of both.
"""

import resource
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.numerics.chains import ess, mcse_mean
from benchmarks.commands import command
from benchmarks.problems import SHARED
from benchmarks.tables import publish

QUIET = {"progressbar": False}
URBAN = "use ~ C(livch) + age + I(age**2) + C(urban) + (1 + C(urban) | district)"
CROSSED = "good ~ C(studage) + C(lectage) + C(service) + C(dept) + (1 | s) + (1 | d)"
# levels of a and b, b nested in a, median rows of a cell, intercept
MADE = ((20, 20, False, 5, -0.5), (10, 30, False, 60, -1.0), (20, 10, True, 25, -1.0), (10, 10, True, 500, -3.0))


def aggression(*, crossed: bool) -> pd.DataFrame:
    """Return 316 subjects x 24 items, with a covariate of the subjects that has values near 20."""
    rng = np.random.default_rng(1)
    subjects, items = 316, 24
    anger, male = rng.normal(20.0, 4.85, subjects).round(), (rng.random(subjects) < 0.25).astype(float)
    s, item = np.repeat(np.arange(subjects), items), np.tile(np.arange(items), subjects)
    eta = -1.0 + 0.057 * (anger[s] - 20.0) + 0.3 * male[s] + crossed * 1.3 * rng.normal(size=subjects)[s]
    eta += 1.1 * rng.normal(size=items)[item] + 0.008 * rng.normal(size=items)[item] * (anger[s] - 20.0)
    y = (rng.random(len(s)) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    return pd.DataFrame({"x": anger[s], "male": male[s], "s": s, "item": item, "y": y})


def made(n_a: int, n_b: int, nested: bool, median: int, intercept: float, family: str) -> pd.DataFrame:
    """Return rows of two factors in cells of lognormal sizes."""
    rng = np.random.default_rng([n_a, n_b, median])
    sizes = np.maximum(1, np.round(median * rng.lognormal(0.0, 0.8, n_a * n_b))).astype(int)
    a = np.repeat(np.repeat(np.arange(n_a), n_b), sizes)
    b = np.repeat(np.arange(n_a * n_b) if nested else np.tile(np.arange(n_b), n_a), sizes)
    X = rng.normal(size=(len(a), 4))
    X[:, 0] += 0.5 * rng.normal(size=n_a)[a]
    eta = intercept + X @ np.linspace(-0.5, 0.5, 4) + rng.normal(size=n_a)[a] + 0.7 * rng.normal(size=b.max() + 1)[b]
    y = (rng.random(len(a)) < check_family(family).mean(eta)).astype(int)
    return pd.DataFrame(X, columns=[f"x{d}" for d in range(4)]).assign(a=a, b=b, y=y)


def large(rows: int = 1_000_000, levels: tuple[int, int] = (20_000, 1_000)) -> pd.DataFrame:
    """Return rows of two crossed factors."""
    rng = np.random.default_rng(2)
    a, b, x = rng.integers(0, levels[0], rows), rng.integers(0, levels[1], rows), rng.normal(size=rows)
    eta = -1.0 + 0.5 * x + 0.8 * rng.normal(size=levels[0])[a] + 0.5 * rng.normal(size=levels[1])[b]
    return pd.DataFrame({"x": x, "a": a, "b": b, "y": (rng.random(rows) < 1.0 / (1.0 + np.exp(-eta))).astype(int)})


def figures(idata: object) -> dict[str, np.ndarray]:
    """Return draws of beta, and where there are groups of log sigmas and effects, shape (chain, draw, k) each."""
    source = idata["posterior"]  # type: ignore[index]
    parts: dict[str, list[np.ndarray]] = {"beta": [], "sigma": [], "u": []}
    for name in sorted(map(str, source.data_vars)):  # samplers have orders of their own
        own = source[name]
        draws = own.transpose("chain", "draw", ...).values.reshape(*own.shape[:2], -1)
        kind = name.split("_")[0]
        if kind in parts:
            parts[kind].append(np.log(draws) if kind == "sigma" else draws)
    return {kind: np.concatenate(found, axis=2) for kind, found in parts.items() if found}


def beside(one: object, other: object) -> dict[str, float]:
    """Return differences of two posteriors' means and sds, and their noise."""
    a, b = figures(one), figures(other)
    gap = {k: np.abs(a[k].mean(axis=(0, 1)) - b[k].mean(axis=(0, 1))) / b[k].std(axis=(0, 1)) for k in a}
    noise = np.hypot(mcse_mean(a["beta"]), mcse_mean(b["beta"])) / b["beta"].std(axis=(0, 1))
    return {
        "mean_error_sd": float(gap["beta"].max()),
        "noise": float(noise.max()),
        "sd_error": float(np.abs(a["beta"].std(axis=(0, 1)) / b["beta"].std(axis=(0, 1)) - 1.0).max()),
        "log_sigma_error_sd": float(gap["sigma"].max()),
        "effects_99": float(np.quantile(gap["u"], 0.99)),
    }


def sampled(core: bc.Coreset, sampler: str, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return draws, and what they took."""
    begin = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of chains that have not mixed: that is in the table
        idata = bc.sample(core, sampler=sampler, cores=1, random_seed=1, **options, **QUIET)
    seconds, wall = time.process_time() - begin[0], time.perf_counter() - begin[1]
    found, stats = figures(idata), idata["sample_stats"]
    rho = [own.values.reshape(*own.shape[:2], -1) for name, own in idata["posterior"].items() if name[:4] == "rho_"]
    judged = np.concatenate([found["beta"], found["sigma"], *rho], axis=2)
    step = max(1, found["u"].shape[2] // 40)
    least = float(ess(judged, "bulk").min())
    told = {"sampler": sampler, "draws": judged.shape[0] * judged.shape[1], "ess": least}
    told |= {"ess_effects": float(ess(found["u"][:, :, ::step], "bulk").min()), "cpu_s": seconds, "wall_s": wall}
    gradients = float(stats["n_steps"].sum())
    return idata, told | {"per_gradient": least / gradients, "per_second": least / seconds}


def problems() -> dict[str, bc.Coreset]:
    """Return the rows of each set."""
    told = {"method": "multilevel", "random_state": 0, **QUIET}
    slopes, terms = aggression(crossed=False), "y ~ x + male + (1 + x | item)"
    contraception = pd.read_parquet(SHARED / "contraception.parquet")
    found = {
        "aggression, crossed": bc.all_rows(
            aggression(crossed=True), formula="y ~ x + male + (1 | s) + (1 | item)", **QUIET
        ),
        "aggression, slopes": bc.all_rows(slopes, formula=terms, **QUIET),
        "aggression, slopes, coreset": bc.build_coreset(slopes, formula=terms, **told),
        "contraception, slopes of urban, coreset": bc.build_coreset(contraception, formula=URBAN, **told),
    }
    for n_a, n_b, nested, median, intercept in MADE:
        rows = made(n_a, n_b, nested, median, intercept, "logistic")
        name = f"{'nested' if nested else 'crossed'}, {median} rows a cell, coreset"
        found[name] = bc.build_coreset(rows, formula="y ~ x0 + x1 + x2 + x3 + (1 | a) + (1 | b)", **told)
    insteval = pd.read_parquet(SHARED / "insteval.parquet")
    return found | {"insteval": bc.all_rows(insteval, formula=CROSSED, **QUIET)}


@command(
    "several_terms_large",
    asks="How fast is the joint sampler with a million rows of large crossed factors?",
    evidence=True,
)
def main_large(rows: int = 1_000_000) -> None:
    """Sample rows of two crossed factors of many levels, and say what it takes."""
    levels = max(20, rows // 50), max(10, rows // 1000)
    core = bc.all_rows(large(rows, levels), formula="y ~ x + (1 | a) + (1 | b)", **QUIET)
    _, row = sampled(core, "joint", draws=200, tune=200, chains=2, ess=200)
    own = {"set": f"crossed, {levels[0]:,} x {levels[1]:,} levels", "rows": rows}
    publish("several_terms_large", [own | row | {"peak_GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}])


@command(
    "several_terms",
    asks="Is the joint sampler right for several group terms and slopes, and how fast is it beside PyMC's NUTS?",
)
def main() -> None:
    """Compare both samplers."""
    found = []
    for name, core in problems().items():
        bc.sample(core, sampler="joint", draws=2, tune=2, chains=1, thin=1, random_seed=0, **QUIET)  # compiles
        told = {"set": name, "rows": len(core), "effects": sum(len(own) * len(own.effects) for own in core.groups)}
        idata, row = sampled(core, "joint")
        found.append(told | row)
        print(found[-1], flush=True)
        if name != "insteval":
            other, row = sampled(core, "nuts")
            found[-1] |= beside(idata, other)
            found.append(told | row)
            print(found[-2:], flush=True)
    publish("several_terms", found)
