"""What does a certificate cost beside `find_map`, and how far off are its sums over a sample of the rows?

`certificate_cost`: processor time of `find_map` on all rows in memory, of a calibrated build, of draws from it, of
their certificate; the least of three turns, in one process, but of more than 100 columns one turn of build and draws.
`exact` is a certificate that evaluates all rows at all draws, once, up to 1e6 rows and 151 columns.
Made rows of normal columns; `cost` is the certificate over `find_map`, `way` build, draws and certificate together.

`certificate_sums`: the sums that `certify` makes of a sample of the rows, beside those of all rows, at 200 draws of
the normal approximation at the mode. `beyond` is the sd over draws of L minus its quadratic, `error` that of the
estimate minus L, `said` the standard error that the sample tells; where it is above 0.02 all rows are evaluated. `big`
counts rows in the sample for certain.
"""

from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import special

import bayescore as bc
from bayescore.data.dataset import Dataset
from bayescore.diagnostics import row_sums
from bayescore.diagnostics.row_sums import RowSums, RowSumsPlan
from bayescore.families.family import FAMILIES
from bayescore.models.laplace import LaplaceApproximation
from bayescore.models.posterior import log_likelihoods
from benchmarks.commands import command
from benchmarks.measure import timed
from benchmarks.tables import publish

COST = ((1_000_000, 11), (10_000_000, 11), (200_000, 24), (1_000_000, 24), (200_000, 55), (100_000, 124))
COST += ((100_000, 151), (100_000, 301))
TURNS, DRAWS = 3, 200
QUIET = {"progressbar": False}


def normal(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of normal columns, and labels of which some 40% are positive."""
    X = rng.standard_normal((n, d))
    X[:, 0] = 1.0
    beta = rng.standard_normal(d) / np.sqrt(d)
    return X, rng.random(n) < special.expit(X @ beta - 0.4)


def cost(n: int, d: int) -> dict[str, Any]:
    """Return the times of one size."""
    X, y = normal(n, d, np.random.default_rng([n, d]))
    rows = bc.all_rows(X, y, **QUIET)
    least = dict.fromkeys(("find_map", "build", "draws", "certify"), np.inf)
    for turn in range(TURNS):
        least["find_map"] = min(least["find_map"], timed(lambda: bc.find_map(rows)).cpu)
        if not turn or d <= 100:
            core, _, built = timed(lambda: bc.build_coreset(X, y, method="calibrated", random_state=1, **QUIET))
            idata, _, drawn = timed(lambda core=core: bc.sample(core, random_seed=2, **QUIET))
            least["build"], least["draws"] = min(least["build"], built), min(least["draws"], drawn)
        found, _, certified = timed(lambda core=core, idata=idata: bc.certify(idata, core, X, y, **QUIET))
        least["certify"] = min(least["certify"], certified)
    exact = np.nan
    if n <= 1_000_000 and d <= 151:
        with patch.object(row_sums, "MAX_SUM_ERROR", 0.0):
            exact = timed(lambda: bc.certify(idata, core, X, y, **QUIET)).cpu
    way = least["build"] + least["draws"] + least["certify"]
    told = {"cost": least["certify"] / least["find_map"], "exact cost": exact / least["find_map"]}
    about = {"way": way / least["find_map"], "passes": found.n_passes, "level": str(found.level)}
    return {"N": n, "D": d, **least, "exact": exact, **told, **about}


def made(name: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Return columns, labels and family of a made set."""
    rng = np.random.default_rng(0)
    n, d = {"rare 0/1 columns": (50_000, 100), "separated": (200_000, 6)}.get(name, (400_000, 11))
    X = rng.standard_normal((n, d))
    if name == "t3, rare label":
        X = rng.standard_t(3.0, (n, d))
    if name == "skewed":
        X = np.exp(X) - np.exp(0.5)
    if name == "rare 0/1 columns":
        X = (rng.random((n, d)) < 0.3 / (1.0 + np.arange(d))).astype(float)
    X[:, 0] = 1.0
    beta = 0.4 * rng.standard_normal(d) * (20.0 if name == "separated" else 1.0)
    beta[0] = -4.0 if name == "t3, rare label" else -1.0
    family = "cloglog" if name == "normal, cloglog" else "logistic"
    return X, FAMILIES[family].draw(np.clip(X @ beta, -700.0, 700.0), rng) > 0, family


def sums(name: str) -> dict[str, Any]:
    """Return the errors on one set."""
    X, y, family = made(name)
    core = bc.all_rows(X, y, family=family, **QUIET)
    mode = bc.find_map(core)
    laplace = LaplaceApproximation(FAMILIES[family], mode.beta, mode.factor)
    moves = np.random.default_rng(1).standard_normal((DRAWS, len(mode.beta))) @ mode.factor.T
    draws = mode.beta + moves
    full, _, exact_s = timed(lambda: log_likelihoods(draws, core, laplace.family))
    dataset = Dataset(core.as_source(), core.design, progress=False)
    found, _, pass_s = timed(lambda: RowSums.of(dataset, RowSumsPlan.near(laplace, core)))
    estimate, _, more_s = timed(lambda: found.estimate(draws))
    part = found.terms
    beyond = full - moves @ part.gradient + 0.5 * ((moves @ part.precision) * moves).sum(axis=1)
    about = {"big": int((found.sample.inclusion == 1.0).sum()), "beyond": beyond.std()}
    errors = {"error": (estimate.values - full).std(), "said": estimate.error}
    return {"set": name, "N": len(X), "D": X.shape[1], **about, **errors, "exact_s": exact_s, "sums_s": pass_s + more_s}


@command("certificate_cost", evidence=True)
def main() -> None:
    """Measure both."""
    names = ("normal", "normal, cloglog", "t3, rare label", "skewed", "rare 0/1 columns", "separated")
    publish("certificate_sums", [sums(name) for name in (*names[:1], *names)][1:])  # the first compiles
    cost(20_000, 11)
    publish("certificate_cost", [cost(*size) for size in COST])
