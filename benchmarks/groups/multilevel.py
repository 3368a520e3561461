"""Are multilevel coresets right? Random intercepts, both links, made sets and published ones beside all rows.

`multilevel`: 12 made sets (G groups of unlike sizes, a column that varies between groups too), `insteval` by lecturer
and by student and `contraception` by district. Reference: the marginal posterior of all rows, effects integrated out by
quadrature, by importance weights of 400 points around its mode; the coreset's by weights of the same points, so that
most noise cancels. Largest errors of means of beta in posterior sds, of sds, of log sigma's mean in sds; of effects'
means the 99% quantile over groups, in sds. `rows` are the weighted rows of the coreset, two for a pseudo-row; `pseudo`
counts pseudo-rows, `kept` rows of the data; `bound` is G + 20 p. `share` is the effective share of the points.
"""

import time
import warnings

import numpy as np
import pandas as pd
from scipy import special

import bayescore as bc
from bayescore.diagnostics.certificate.nodes import core_moments
from bayescore.families.family import check_family
from bayescore.models.groups.marginal import CollapsedTarget, collapsed_density
from bayescore.priors import Normal
from bayescore.priors.groups import HalfStudentT
from benchmarks.commands import command
from benchmarks.problems import SHARED
from benchmarks.tables import publish

POINTS = 400
PRIORS = (Normal(0.0, 4.0), HalfStudentT(3.0, 2.5))
# groups, median rows of one about, intercept, sd of the effects
MADE = (
    (50, 500, 0.0, 1.0), (50, 100, -2.0, 0.5), (200, 60, 0.0, 0.2), (200, 300, -4.0, 1.0), (500, 60, -0.5, 1.0),
    (500, 60, -3.0, 2.0), (1000, 100, -1.0, 0.5), (1000, 20, 0.0, 1.0), (2000, 20, -1.5, 1.0), (2000, 5, -0.5, 0.7),
    (5000, 10, -1.0, 1.0), (5000, 5, -2.5, 2.0),
)  # fmt: skip
INSTEVAL = "good ~ C(studage) + C(lectage) + C(service) + C(dept)"
PUBLISHED = {
    "insteval by lecturer": ("insteval", INSTEVAL, "d"),
    "insteval by student": ("insteval", INSTEVAL, "s"),
    "contraception by district": ("contraception", "use ~ C(livch) + age + I(age**2) + C(urban)", "district"),
}


def made(n_groups: int, median: int, intercept: float, sigma: float, family: str, p: int = 6) -> pd.DataFrame:
    """Return rows in groups whose sizes are lognormal."""
    rng = np.random.default_rng([n_groups, median])
    sizes = np.maximum(1, np.round(median * rng.lognormal(0.0, 0.8, n_groups))).astype(int)
    group = np.repeat(np.arange(n_groups), sizes)
    X = rng.normal(size=(len(group), p - 1))
    X[:, 0] += 0.5 * rng.normal(size=n_groups)[group]
    eta = intercept + X @ np.linspace(-0.5, 0.5, p - 1) + sigma * rng.normal(size=n_groups)[group]
    y = (rng.random(len(group)) < check_family(family).mean(eta)).astype(int)
    return pd.DataFrame(X, columns=[f"x{d}" for d in range(1, p)]).assign(g=group, y=y)


def moments(rows: bc.Coreset, points: tuple[np.ndarray, np.ndarray] | None) -> tuple[dict, tuple]:
    """Return figures of the marginal posterior of rows by weights of points, by default around its own mode."""
    target = CollapsedTarget.of(rows, check_family(rows.family), PRIORS, len(rows.groups[0]))
    if points is None:
        half = np.random.default_rng(1).standard_normal((POINTS // 2, len(target.factor)))
        noise = np.vstack([half, -half])
        points = target.point.theta + noise @ target.factor.T, -0.5 * (noise**2).sum(axis=1)
    theta, base = points
    gradient, arguments = np.empty(theta.shape[1]), target.arguments()
    w = special.softmax(np.array([collapsed_density(each, gradient, arguments) for each in theta]) - base)
    u, variance = core_moments(theta, arguments)[1].effects
    first = w @ u
    mean = w @ theta
    sd = np.sqrt(w @ (theta - mean) ** 2)
    found = {
        "mean": mean,
        "sd": sd,
        "u": first,
        "u_sd": np.sqrt(w @ (variance + (u - first) ** 2)),
        "share": 1.0 / (w @ w) / len(w),
    }
    return found, points


def measured(name: str, family: str, frame: pd.DataFrame, told: dict) -> dict:
    """Build a coreset and compare it with all rows."""
    told = {**told, "family": family, "progressbar": False}
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that many rows are kept
        core = bc.build_coreset(frame, method="multilevel", random_state=0, **told)
    seconds = time.perf_counter() - begin
    all_rows = bc.all_rows(frame, **told)
    full, points = moments(all_rows, None)
    own, _ = moments(core, points)
    error, p = np.abs(own["mean"] - full["mean"]) / full["sd"], core.n_features
    sizes, facts = np.bincount(all_rows.group[:, 0]), core.params
    return {
        "set": name,
        "family": family,
        "N": len(frame),
        "G": facts["cells"],
        "median": float(np.median(sizes)),
        "positive": float((all_rows.y > 0).mean()),
        "sigma": facts["effect_sds"][0],
        "p": p,
        "rows": len(core),
        "pseudo": facts["pseudo_rows"],
        "kept": facts["kept_rows"],
        "bound": facts["cells"] + 20 * p,
        "passes": facts["passes"],
        "build_s": seconds,
        "mean_error_sd": float(error[:-1].max()),
        "sd_error": float(np.abs(own["sd"] / full["sd"] - 1.0)[:-1].max()),
        "log_sigma_error_sd": float(error[-1]),
        "effects_99": float(np.quantile(np.abs(own["u"] - full["u"]) / full["u_sd"], 0.99)),
        "share": float(full["share"]),
    }


@command("multilevel", evidence=True)
def main() -> None:
    """Compare coresets with all rows."""
    found = []
    for family in ("logistic", "probit"):
        for n_groups, median, intercept, sigma in MADE:
            frame = made(n_groups, median, intercept * (0.6 if family == "probit" else 1.0), sigma, family)
            told = {"label": "y", "groups": "g", "intercept": True}
            found.append(measured(f"G {n_groups}, {median} rows", family, frame, told))
            print(found[-1], flush=True)
        for name, (file, formula, group) in PUBLISHED.items():
            frame = pd.read_parquet(SHARED / f"{file}.parquet")
            found.append(measured(name, family, frame, {"formula": formula, "groups": group}))
            print(found[-1], flush=True)
    publish("multilevel", found)
