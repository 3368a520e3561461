"""The right panel: processor seconds by number of rows, one system after the other, each in a process of its own.

``python -m benchmarks.first_screen.seconds SYSTEM ROWS`` prints a line of JSON.
"""

import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from benchmarks.measure import in_r, printed_json, r_has
from benchmarks.tables import known_rows

TERMS = "clicked ~ age + log_income + visits + device + (1 | county)"
SIZES = (10_000, 30_000, 100_000, 1_000_000, 10_000_000)
WARM_ROWS = 2_000  # of a first fit, which compiles
LONGEST = 700.0  # s; what would take longer at the pace of the last run is not run
KEPT: dict[str, Any] = {"draws": 1000, "tune": 1000, "chains": 4, "cores": 1, "random_seed": 0, "progressbar": False}
IN_R = """
suppressMessages(library(lme4)); d <- read.csv("{path}")
s <- system.time(m <- glmer({terms}, d, family = binomial))
cat("\\n", s[["user.self"]] + s[["sys.self"]], s[["elapsed"]], "\\n")
"""
Seconds = tuple[float, float]  # of a processor, of the clock


def visits(n_rows: int) -> pd.DataFrame:
    """Return simulated visits, with the logarithm of income as a column."""
    rows = bc.datasets.clicks(n_rows, random_state=0)
    return rows.assign(log_income=np.log(rows["income"]))


def twice(fit: Callable[[pd.DataFrame], object], rows: pd.DataFrame) -> Seconds:
    """Fit few rows, then all rows; return what these took."""
    fit(visits(WARM_ROWS))
    cpu, wall = time.process_time(), time.perf_counter()
    fit(rows)
    return time.process_time() - cpu, time.perf_counter() - wall


def by_bayescore(rows: pd.DataFrame) -> Seconds:
    return twice(lambda rows: bc.fit(TERMS, rows, random_state=0, progressbar=False), rows)


def by_bambi(rows: pd.DataFrame) -> Seconds:
    import bambi

    def fit(rows: pd.DataFrame) -> object:
        return bambi.Model(TERMS.replace("1 | ", "1|"), rows, family="bernoulli").fit(**KEPT)

    return twice(fit, rows)


def by_pymc(rows: pd.DataFrame) -> Seconds:
    """Sample all rows of standardised columns by NUTS; effects are centred."""
    import pymc as pm

    def fit(rows: pd.DataFrame) -> object:
        columns = pd.get_dummies(rows[["age", "log_income", "visits", "device"]], drop_first=True).astype(float)
        X = ((columns - columns.mean()) / columns.std()).to_numpy()
        county = rows["county"].cat.codes.to_numpy()
        with pm.Model():
            eta = pm.Normal("Intercept", 0.0, 2.5) + pm.math.dot(X, pm.Normal("beta", 0.0, 2.5, shape=X.shape[1]))
            u = pm.Normal("u", 0.0, pm.HalfStudentT("sigma", 3, 2.5), shape=len(rows["county"].cat.categories))
            pm.Bernoulli("clicked", logit_p=eta + u[county], observed=rows["clicked"].to_numpy())
            return pm.sample(**KEPT)

    return twice(fit, rows)


def by_lme4(rows: pd.DataFrame) -> Seconds:
    if not r_has("lme4"):
        raise ImportError("lme4")
    cpu, wall = map(float, in_r(IN_R, rows, terms=TERMS)[-1].split())
    return cpu, wall


def by_duckreg(rows: pd.DataFrame) -> Seconds:
    """Maximise the likelihood without effects of counties; the rows are in DuckDB before."""
    import duckdb
    from duckreg import DuckLogisticRegression

    def stored(rows: pd.DataFrame, path: Path) -> Path:
        dummies = pd.get_dummies(rows["device"], dtype=int)[["phone", "tablet"]]
        frame = pd.concat([rows[["clicked", "age", "log_income", "visits"]], dummies], axis=1)
        with duckdb.connect(str(path)) as database:
            database.register("frame", frame)
            database.execute("CREATE TABLE visits AS SELECT * FROM frame")
        return path

    def fit(path: Path) -> None:
        model = DuckLogisticRegression(
            db_name=str(path), table_name="visits", formula="clicked ~ age + log_income + visits + phone + tablet",
            seed=0, method="irls",
        )  # fmt: skip
        model.fit()
        model.fit_vcov()

    with tempfile.TemporaryDirectory() as folder:
        paths = [stored(own, Path(folder) / f"{len(own)}.duckdb") for own in (visits(WARM_ROWS), rows)]
        fit(paths[0])
        cpu, wall = time.process_time(), time.perf_counter()
        fit(paths[1])
        return time.process_time() - cpu, time.perf_counter() - wall


SYSTEMS: dict[str, Callable[[pd.DataFrame], Seconds]] = {
    "bayescore": by_bayescore,
    "duckreg": by_duckreg,
    "lme4": by_lme4,
    "NUTS on all rows": by_pymc,
    "bambi": by_bambi,
}


def alone(system: str, n_rows: int) -> dict[str, Any] | None:
    """Return what a system's own process printed; None where the system is not installed."""
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return printed_json("-m", "benchmarks.first_screen.seconds", system, str(n_rows), **one_thread)


def stored() -> list[dict[str, Any]]:
    """Return the points that the table `billion` has."""
    steps = ("build", "draws", "certificate")
    large = [row for row in known_rows("billion") if row["data"] == "groups" and row["build, CPU s"] > 0]
    chosen = {(row["by"], row["N"]): row for row in large}
    return [
        {
            "system": "bayescore",
            "rows": row["N"],
            "CPU s": sum(row[f"{step}, CPU s"] for step in steps),
            "wall s": sum(row[f"{step}, s"] for step in steps),
            "from": "billion",
        }
        for row in (chosen["parquet", 100_000_000], chosen["counter", 1_000_000_000])
    ]


def measure() -> Iterator[list[dict[str, Any]]]:
    """Yield the seconds that are known, after each run, with the points of `billion`."""
    found: list[dict[str, Any]] = []
    for system in SYSTEMS:
        pace = 0.0  # processor seconds a row
        for n_rows in SIZES:
            if pace * n_rows > LONGEST:
                break
            took = alone(system, n_rows)
            if took is None:
                print(f"{system} is not installed, and left out")
                break
            found.append({"system": system, "rows": n_rows, **took, "from": "readme"})
            yield [*found, *stored()]
            pace = took["CPU s"] / n_rows


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    try:
        cpu, wall = SYSTEMS[sys.argv[1]](visits(int(sys.argv[2])))
        print("\n" + json.dumps({"CPU s": cpu, "wall s": wall}))
    except ImportError as missing:
        print(f"{missing}", file=sys.stderr)
        print("\nnull")
