"""Are cluster-robust posteriors right? Coverage in made surveys, and standard errors beside R and statsmodels.

`survey_coverage`: made surveys of 150 clusters in three strata, 14 rows each on average. A label is 1 where a uniform
variable is below p(x), logistic in a column of clusters, `size`, and one that rows share in part, `age`. The uniforms
of a cluster are a Gaussian copula with correlation 0.36, so that p(x) is exact and rows depend on each other. Rows
with label 1 are in the survey with probability 0.9 and others with 0.45; weights are the inverse. `naive` are 95%
intervals of `fit` with weights divided by their mean, `robust` those of ``fit(cluster=, strata=)``, both from 4,000
draws.

`survey_errors`: the published data of tests/published/survey_rows.py, 400,000 draws under the prior Normal(0, 100)
each. Differences of sds and means over draws from standard errors and estimates of R and of statsmodels are the
largest over coefficients; their Monte Carlo error is about 0.2% (sds) and 0.002 sds (means). Means of skewed
posteriors are not their modes. R's probit has the expected curvature, statsmodels' that of the rows.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

import bayescore as bc
from benchmarks.commands import command
from benchmarks.problems import SHARED
from benchmarks.tables import publish
from tests.published.survey_rows import CASES, rows_of

TRUTH = {"Intercept": -0.5, "size": 0.5, "age": 0.3}
FORMULA = "passed ~ size + age"
PUBLISHED = Path(__file__).resolve().parents[2] / "tests" / "published"
FLAT = bc.priors.Normal(0, 100)


def survey(seed: int, n_clusters: int = 150, each: int = 22) -> pd.DataFrame:
    """Return the rows of a made survey."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(n_clusters), each)
    stratum = cluster % 3
    n, shared = len(cluster), rng.normal(size=(3, n_clusters))[:, cluster]
    size = shared[0] + 0.5 * (stratum - 1)
    age = 0.8 * shared[1] + 0.6 * rng.normal(size=n)
    eta = TRUTH["Intercept"] + TRUTH["size"] * size + TRUTH["age"] * age
    uniform = stats.norm.cdf(0.6 * shared[2] + 0.8 * rng.normal(size=n))
    passed = uniform < 1.0 / (1.0 + np.exp(-eta))
    chance = np.where(passed, 0.9, 0.45)
    rows = {"passed": passed, "size": size, "age": age, "school": cluster, "region": stratum, "raw": 1.0 / chance}
    kept = pd.DataFrame(rows)[rng.random(n) < chance]
    return kept.assign(weight=kept["raw"] / kept["raw"].mean())


@command(
    "survey_coverage", asks="Do 95% intervals of cluster-robust posteriors cover in 95% of made surveys?", evidence=True
)
def coverage(trials: int = 500) -> None:
    found: dict[str, list[np.ndarray]] = {}
    truth, n = np.array(list(TRUTH.values())), []
    for seed in range(trials):
        rows = survey(seed)
        n.append(len(rows))
        told = {"random_state": seed, "progressbar": False}
        naive = bc.fit(FORMULA, rows, weights="weight", **told)
        clustered = {"cluster": "school", "strata": "region"}
        fits = {
            "naive": naive,
            "robust, no strata": naive.cluster_robust("school"),
            "robust": naive.cluster_robust("school", strata="region"),
            "robust, raw weights": bc.fit(FORMULA, rows, weights="raw", **clustered, **told),
        }
        for name, fit in fits.items():
            table = fit.summary()
            inside = (table["2.5%"] < truth) & (truth < table["97.5%"])
            found.setdefault(name, []).append(np.column_stack([inside, table["mean"], table["sd"]]))
    rows = []
    for name, each in found.items():
        all_of = np.stack(each)  # (trials, coefficients, 3)
        row = {"intervals": name, "surveys": trials, "rows, mean": float(np.mean(n))}
        row |= {f"covers {own}": share for own, share in zip(TRUTH, all_of[:, :, 0].mean(axis=0), strict=True)}
        row["covers, all"] = float(all_of[:, :, 0].mean())
        ratio = np.sqrt((all_of[:, :, 2] ** 2).mean(axis=0)) / all_of[:, :, 1].std(axis=0, ddof=1)
        row |= {f"sd / true {own}": value for own, value in zip(TRUTH, ratio, strict=True)}
        rows.append(row)
    publish("survey_coverage", rows)


@command(
    "survey_errors",
    asks="Do cluster-robust posteriors have the standard errors of R's svyglm and of statsmodels?",
    evidence=True,
)
def errors() -> None:
    warnings.filterwarnings("ignore", "there are 13 clusters|each cluster is one row", UserWarning)
    known = {
        name: json.loads((PUBLISHED / f"{file}.json").read_text())
        for name, file in (("R", "survey"), ("statsmodels", "survey_statsmodels"))
    }
    rows = []
    for case, asked in CASES.items():
        told = dict(asked)
        formula, cluster, strata = told.pop("formula"), told.pop("cluster"), told.pop("strata", None)
        data = rows_of(case, SHARED / f"{case.partition(',')[0]}.parquet")
        core = bc.build_coreset(data, formula=formula, standardize=True, random_state=0, progressbar=False, **told)
        idata = bc.sample(core, prior=FLAT, draws=100_000, random_seed=1, progressbar=False)
        fit = bc.Fit.from_draws(idata, core, data, progressbar=False)
        table, naive = fit.cluster_robust(cluster, strata=strata).summary(), fit.summary()
        row = {"data": case, "rows": len(data), "clusters": data[cluster].nunique(), "level": fit.level}
        row["sd / naive, largest"] = float((table["sd"] / naive["sd"]).max())
        for name, cases in known.items():
            if case not in cases:
                continue
            plain = [own.replace("[T.", "").rstrip("]").strip("()") for own in cases[case]["names"]]
            places = [plain.index(own.replace("[", "").rstrip("]")) for own in table.index]
            mean, sd = (np.array(cases[case][what])[places] for what in ("mean", "sd"))
            row[f"sd off, {name}"] = float(np.abs(table["sd"] / sd - 1.0).max())
            row[f"mean off (sd), {name}"] = float(np.abs((table["mean"] - mean) / sd).max())
        rows.append(row)
    publish("survey_errors", rows)
