"""Do three published analyses come out the same from their data? Published figures beside ours.

*wells, flat*: switching wells in Bangladesh, 3,020 households, logistic. Gelman, Hill and Vehtari (2020), Regression
and Other Stories, chapter 13; figures of `fit_8` on its page `Arsenic/arsenic_logistic_building.html` in
github.com/avehtari/ROS-Examples: medians and MAD sds of 4,000 draws by `stan_glm`, whose default prior ours is.

*contraception, multilevel*: use of contraception in Bangladesh, 1,934 women of 60 districts, logistic. Bates, Examples
from multilevel software comparative reviews, vignette of the R package mlmRev, section on two-level models for binary
data, model `mB2`: maximum likelihood by the Laplace approximation (`inst/doc/MlmSoftRev.tex` of github.com/cran/mlmRev
at commit 28bcd138; the editions of now leave this section out).

*visits, count*: visits to physicians, 4,406 Medicare patients, Poisson. Zeileis, Kleiber and Jackman (2008), Regression
models for count data in R, Journal of Statistical Software 27(8), section 3.2 and Table 2, columns `fm_pois`; as the
vignette `countreg` of the R package pscl prints them. Beside maximum likelihood its sandwich standard errors, and ours
with each row a cluster.

"apart" is our mean less the published estimate, in published standard errors; "rounding" and "Monte Carlo" are how many
of these the published digits leave open, and the standard error of our mean. "sd / s.e." is our sd over the published
standard error. One seed; "CPU s" are of build, draws and certificate of the whole analysis, once compiled. A standard
deviation of effects has no published standard error: its row has none of these.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from benchmarks.commands import command
from benchmarks.problems import SHARED
from benchmarks.tables import publish

Figures = dict[str, tuple[float, float]]  # an estimate and its standard error, by coefficient


@dataclass(frozen=True)
class Analysis:
    """A published analysis: its file, how to read it, its model, and its figures to so many digits."""

    file: str
    formula: str
    published: Figures
    digits: int
    read: Callable[[pd.DataFrame], pd.DataFrame] = lambda rows: rows
    told: dict[str, Any] = field(default_factory=dict)


def centred(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the wells with distances in 100 m and schooling in 4 years, each less its mean, as the book has them."""
    raw = {"dist100": rows["dist"] / 100.0, "arsenic": rows["arsenic"], "educ4": rows["educ"] / 4.0}
    return rows.assign(**{f"c_{name}": column - column.mean() for name, column in raw.items()})


def numbered(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with a cluster for each."""
    return rows.assign(patient=np.arange(len(rows)))


WELLS: Figures = {
    "Intercept": (0.35, 0.04),
    "c_dist100": (-0.92, 0.10),
    "c_arsenic": (0.49, 0.04),
    "c_educ4": (0.19, 0.04),
    "c_dist100:c_educ4": (0.33, 0.10),
    "c_arsenic:c_educ4": (0.08, 0.04),
}
CONTRACEPTION: Figures = {
    "Intercept": (-1.6897122, 0.1459423),
    "urban[Y]": (0.7329916, 0.1192199),
    "age": (-0.0265952, 0.0078781),
    "livch[1]": (1.1091850, 0.1576953),
    "livch[2]": (1.3763970, 0.1743426),
    "livch[3+]": (1.3452373, 0.1787274),
    "sigma_district": (0.46086, np.nan),
}
VISITS: Figures = {
    "Intercept": (1.028874, 0.023785),
    "hospital": (0.164797, 0.005997),
    "health[poor]": (0.248307, 0.017845),
    "health[excellent]": (-0.361993, 0.030304),
    "chronic": (0.146639, 0.004580),
    "gender[male]": (-0.112320, 0.012945),
    "school": (0.026143, 0.001843),
    "insurance[yes]": (0.201687, 0.016860),
}
SANDWICH = {  # section 3.2, `coeftest(fm_pois, vcov = sandwich)`
    "Intercept": 0.064530,
    "hospital": 0.021945,
    "health[poor]": 0.054022,
    "health[excellent]": 0.077449,
    "chronic": 0.012908,
    "gender[male]": 0.035343,
    "school": 0.005084,
    "insurance[yes]": 0.043128,
}
VISITS_MODEL = "visits ~ hospital + health + chronic + gender + school + insurance"
ANALYSES = {
    "wells, flat": Analysis(
        "posteriordb_wells",
        "y ~ c_dist100 + c_arsenic + c_educ4 + c_dist100:c_educ4 + c_arsenic:c_educ4",
        WELLS,
        2,
        centred,
    ),
    "contraception, multilevel": Analysis(
        "contraception", "use ~ urban + age + livch + (1 | district)", CONTRACEPTION, 7
    ),
    "visits, count": Analysis("nmes1988", VISITS_MODEL, VISITS, 6, told={"family": "poisson"}),
    "visits, count, robust": Analysis(
        "nmes1988",
        VISITS_MODEL,
        {name: (estimate, SANDWICH[name]) for name, (estimate, _) in VISITS.items()},
        6,
        numbered,
        {"family": "poisson", "cluster": "patient"},
    ),
}


def compared(name: str, analysis: Analysis) -> list[dict[str, Any]]:
    """Return a row for each published figure."""
    rows = analysis.read(pd.read_parquet(SHARED / f"{analysis.file}.parquet"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the table has the verdict
        for _ in range(2):  # the first compiles
            begin = time.process_time()
            fit = bc.fit(analysis.formula, rows, random_state=1, progressbar=False, **analysis.told)
            used = time.process_time() - begin
    ours = fit.summary()
    found = []
    for coefficient, (estimate, error) in analysis.published.items():
        mean, sd, ess = ours.loc[coefficient, ["mean", "sd", "ess_bulk"]].astype(float)
        found.append(
            {
                "analysis": name,
                "N": len(rows),
                "coreset rows": len(fit.coreset),
                "coefficient": coefficient,
                "published": estimate,
                "s.e.": error,
                "mean": mean,
                "sd": sd,
                "apart": (mean - estimate) / error,
                "rounding": 0.5 * 10.0**-analysis.digits / error,
                "Monte Carlo": sd / np.sqrt(ess) / error,
                "sd / s.e.": sd / error,
                "level": str(fit.level),
                "CPU s": used,
            }
        )
    return found


@command("real_analyses", evidence=True)
def main() -> None:
    """Publish a row for each published figure; raise where data are absent, so that nothing is left out unsaid."""
    files = {analysis.file for analysis in ANALYSES.values()}
    if absent := sorted(file for file in files if not (SHARED / f"{file}.parquet").is_file()):
        raise FileNotFoundError(
            f"real_analyses: {', '.join(absent)} not in {SHARED}; the analyses need these files, and the table stays "
            "as it is"
        )
    publish("real_analyses", [row for name, analysis in ANALYSES.items() for row in compared(name, analysis)])
