"""Are fits of ordered categories right? Beside NUTS of the model of categories on all rows.

Ratings of lectures from 1 to 5 (insteval), 3,000 of them drawn at random, and mental health of 1,660 New Yorkers by the
status of their parents (Srole et al. 1962; Agresti 2013). Reference: 4 x 4,000 draws of PyMC's NUTS, sampled by
nutpie, of the thresholds and coefficients, whose likelihood is that of categories, not of steps, under the fit's
prior. Errors are the largest of thresholds, coefficients and log sigma: of means in sds, and of sds. "allowed" is 0.05
sd and three Monte Carlo errors of that mean, of both sides.

"reversed" is a control: the error of the mean of a coefficient beside a reference whose categories are in the other
order.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.numerics.chains import ess
from bayescore.types import FloatArray
from benchmarks.commands import command
from benchmarks.problems import SHARED
from benchmarks.tables import known_rows, publish

QUIET = {"progressbar": False}
DRAWS, NUTS, ROWS = 3000, {"draws": 4000, "tune": 1000, "chains": 4, "nuts_sampler": "nutpie"}, 3000
RATINGS = "rating ~ studage + lectage + service"
SETS = {
    ("insteval", "logit"): RATINGS,
    ("insteval", "probit"): RATINGS,
    ("insteval", "cloglog"): RATINGS,
    ("insteval, by department", "logit"): f"{RATINGS} + (1 | dept)",
    ("mental health", "logit"): "health ~ status",
    ("mental health", "cloglog"): "health ~ status",
}
HEALTH = {
    "well": (64, 57, 57, 72, 36, 21),
    "mild": (94, 94, 105, 141, 97, 71),
    "moderate": (58, 54, 65, 77, 54, 54),
    "impaired": (46, 40, 60, 94, 78, 71),
}


def data_of(name: str) -> pd.DataFrame:
    """Return the rows of a set, the response last."""
    if name == "mental health":
        counts = pd.DataFrame(HEALTH, index=pd.RangeIndex(6, 0, -1, name="status"))
        rows = counts.melt(ignore_index=False, var_name="health").reset_index()
        rows = rows.loc[rows.index.repeat(rows.pop("value"))].reset_index(drop=True)
        return rows.assign(health=pd.Categorical(rows["health"], list(HEALTH), ordered=True))
    rows = pd.read_parquet(SHARED / "insteval.parquet").sample(ROWS, random_state=1)
    return rows[["studage", "lectage", "service", "dept", "rating"]].astype(int)


def distribution(link: str, t: Any) -> Any:
    """Return log F(t) and log(1 - F(t)) of a link as PyTensor expressions."""
    import pymc as pm
    import pytensor.tensor as pt

    if link == "logit":
        return -pt.softplus(-t), -pt.softplus(t)
    if link == "probit":
        normal = pm.Normal.dist(0.0, 1.0)
        return pm.logcdf(normal, t), pm.logcdf(normal, -t)
    return pt.log1mexp(-pt.exp(t)), -pt.exp(t)


def truth(fit: bc.Fit, rows: pd.DataFrame, code: FloatArray, link: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means, sds and Monte Carlo errors of thresholds, coefficients and log sigma, of all rows."""
    import pymc as pm
    import pytensor.tensor as pt

    K, design = int(code.max()) + 1, fit.coreset.design
    names, D = list(design.names), len(design.names)
    read = [name for name in design.raw_names if name in rows] + [each.name for each in fit.coreset.groups]
    rows = rows[read].assign(code=code).groupby([*read, "code"]).size().rename("times").reset_index()  # alike rows
    prior: list[Any] = [fit._design_prior.of_coefficient(d, name, D) for d, name in enumerate(names)]
    units = design.raw_coefficients(np.eye(D))
    of_thresholds = [names.index("Intercept"), *(d for d, name in enumerate(names) if name.startswith("step["))]
    slopes = [d for d in range(D) if d not in of_thresholds]
    X = rows[[names[d] for d in slopes]].to_numpy(float)
    with pm.Model():
        beta = pm.Normal("beta", [each.mu for each in prior], [each.sigma for each in prior], shape=D)
        coef = beta @ units
        first = -coef[of_thresholds[0]]
        c = pm.Deterministic("c", pt.concatenate([first[None], first - coef[of_thresholds[1:]]]))
        slope = pm.Deterministic("slope", coef[slopes])
        eta = pt.as_tensor(X) @ slope
        if fit.coreset.groups:
            group = fit.coreset.groups[0]
            sigma = pm.HalfStudentT("sigma", nu=3, sigma=2.5)
            z = pm.Normal("z", shape=len(group))
            eta = eta + sigma * z[pd.Index(group.levels).get_indexer(rows[group.name])]
            pm.Deterministic("log sigma", pt.log(sigma))
        stop, go = distribution(link, c[None] - eta[:, None])
        at = np.arange(K - 1)[None] - rows["code"].to_numpy()[:, None]
        each = stop * (at == 0) + go * (at < 0)
        pm.Potential("log likelihood", (each * rows["times"].to_numpy()[:, None]).sum())
        idata = pm.sample(random_seed=2, progressbar=False, **NUTS)
    drawn = [idata.posterior[name] for name in ("c", "slope")]
    drawn = [each.values for each in drawn] + [
        v.values[..., None] for k, v in idata.posterior.items() if k == "log sigma"
    ]
    return moments(np.concatenate(drawn, axis=2))


def moments(draws: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means, sds and Monte Carlo errors of draws, shape (chain, draw, K)."""
    sd = draws.std(axis=(0, 1))
    return draws.mean(axis=(0, 1)), sd, sd / np.sqrt(ess(draws, "bulk"))


def compared(name: str, link: str, formula: str) -> dict:
    """Return the figures of one set and link."""
    rows, response = data_of(name), formula.partition(" ~ ")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit: Any = bc.fit(formula, rows, family=f"sratio({link})", draws=DRAWS, random_state=1, **QUIET)
    names, draws, _ = fit._parameters()
    if fit.coreset.groups:
        draws = np.concatenate([draws[..., :-1], np.log(draws[..., -1:])], axis=2)
    mean, sd, mcse = moments(draws)
    code = pd.Categorical(rows[response], fit.categories).codes.astype(float)
    true_mean, true_sd, true_mcse = truth(fit, rows, code, link)
    gap, allowed = (mean - true_mean) / true_sd, 0.05 + 3.0 * np.hypot(mcse, true_mcse) / true_sd
    worst, ratio = int(np.argmax(np.abs(gap) / allowed)), sd / true_sd - 1.0
    found = {
        "set": name,
        "link": link,
        "N": fit._n_observations,
        "K": len(fit.categories),
        "steps": fit.coreset.n_total,
        "rows": len(fit.coreset),
        "level": fit.level,
        "means (sd)": float(np.abs(gap[worst])),
        "allowed": float(allowed[worst]),
        "sds": float(ratio[np.abs(ratio).argmax()]),
    }
    if not fit.coreset.groups:
        turned, slopes = truth(fit, rows, code.max() - code, link), slice(len(fit.categories) - 1, None)
        found["reversed (sd)"] = float(np.abs((mean - turned[0]) / turned[1])[slopes].max())
    print(names, found, flush=True)
    return found


NAMES = tuple(dict.fromkeys(name for name, _ in SETS))


@command("sratio", sets=NAMES, evidence=("mental health",))
def main(only: Sequence[str] = NAMES) -> None:
    """Write the table; other rows of it stay."""
    found = {(row["set"], row["link"]): row for row in known_rows("sratio")}
    found |= {key: compared(*key, formula) for key, formula in SETS.items() if key[0] in only}
    publish("sratio", [found[key] for key in SETS if key in found])
