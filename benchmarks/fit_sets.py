"""`fit` with its defaults on data sets of many kinds: the level that it ends on, its tries, rows and seconds.

Published sets come from ../shared/data, the others are made. `seconds` is wall time of `fit` and `find_map` that of the
mode of all rows in memory, reading included in neither; groups have none. `mean` and `sd` are the largest errors
beside all rows' posterior, in its sds and relative, where one was drawn: sets of at most 6,000 rows.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from benchmarks.problems import PROBLEMS, SHARED
from benchmarks.tables import known_rows, publish

WHOLE = 6_000  # rows of which the whole posterior is drawn too


def _rows(n: int, n_groups: int = 0, seed: int = 0, *, crossed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"age": rng.normal(45, 12, n), "device": rng.choice(["phone", "tablet", "tv"], n)})
    eta = 0.04 * (rows["age"] - 45) + 0.6 * (rows["device"] == "tv") - 0.5
    for name, count in (("g", n_groups), ("h", crossed)):
        if count:
            rows[name] = rng.integers(0, count, n)
            eta += rng.normal(0, 0.6, count)[rows[name]]
    return rows.assign(y=eta + rng.logistic(size=n) > 0)


def _separated() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    rows = pd.DataFrame(rng.normal(size=(20_000, 3)), columns=list("abc"))
    return rows.assign(y=rows["a"] + 0.3 * rows["b"] > 0)


def _read(name: str, columns: str = "") -> pd.DataFrame:
    frame = pd.read_parquet(SHARED / f"{name}.parquet")
    return frame[columns.split()] if columns else frame


def _problem(name: str) -> pd.DataFrame:
    X, y = PROBLEMS[name].read()
    return X.assign(y=y)


FORMULA = "y ~ age + device"
SETS: dict[str, tuple[Callable[[], pd.DataFrame], str | None, dict[str, Any]]] = {
    "made 500": (lambda: _rows(500), FORMULA, {}),
    "made 5,000": (lambda: _rows(5_000), FORMULA, {}),
    "made 1e5": (lambda: _rows(100_000), FORMULA, {}),
    "made 1e6": (lambda: _rows(1_000_000), FORMULA, {}),
    "separated": (_separated, None, {}),
    "(1 | g), 10 groups": (lambda: _rows(20_000, 10), f"{FORMULA} + (1 | g)", {}),
    "(1 | g), 1,000 groups": (lambda: _rows(100_000, 1_000), f"{FORMULA} + (1 | g)", {}),
    "(1 | g), 20,000 groups": (lambda: _rows(200_000, 20_000), f"{FORMULA} + (1 | g)", {}),
    "wells": (lambda: _read("posteriordb_wells"), None, {}),
    "nes": (lambda: _read("posteriordb_nes_logit"), None, {}),
    "dogs": (lambda: _read("posteriordb_dogs_2020", "n_avoid n_shock y"), None, {}),
    "vaso": (lambda: _read("vaso_finney1947"), None, {}),
    "german credit": (lambda: _read("german_credit_numeric"), None, {}),
    "chemreact": (lambda: _read("chemreact_ds1_10"), None, {}),
    "phishing": (lambda: _read("phishing_libsvm"), None, {}),
    "covtype 2 v 4": (lambda: _read("covtype_cover2v4"), None, {}),
    "contraception": (lambda: _read("contraception"), "use ~ age + I(age**2) + urban + (1 | district)", {}),
    "wells, probit": (lambda: _read("posteriordb_wells"), None, {"family": "probit"}),
    "wells, cloglog": (lambda: _read("posteriordb_wells"), None, {"family": "cloglog"}),
    "quasi-separated": (lambda: _problem("quasi-separated"), None, {}),
}


def one(name: str) -> dict[str, Any]:
    """Return the row of a set."""
    load, formula, options = SETS[name]
    rows = load()
    label = "y" if formula is None else formula.split("~")[0].strip()
    first = (rows.drop(columns=label), rows[label]) if formula is None else (formula, rows)
    begin = time.perf_counter()
    fit = bc.fit(*first, **options, random_state=0, progressbar=False)
    seconds = time.perf_counter() - begin
    tries = sum(step.what == "certify" for step in fit.story)
    row = {"data": name, "rows": len(rows), "level": fit.level, "tries": tries, "coreset": len(fit.coreset)}
    row |= {"method": fit.coreset.method, "seconds": seconds, "find_map": np.nan, "mean": np.nan, "sd": np.nan}
    if fit.coreset.group is None:
        known = {"formula": formula} if formula else {"intercept": True}
        data = first[::-1] if formula else first
        full = bc.all_rows(
            data[0], None if formula else data[1], **known, standardize=True, progressbar=False, **options
        )
        begin = time.perf_counter()
        bc.find_map(full, prior=bc.priors.Normal(0, 2.5))
        row["find_map"] = time.perf_counter() - begin
        if len(rows) <= WHOLE:
            prior = bc.priors.Normal(0, 2.5)
            whole = bc.sample(full, prior=prior, draws=4000, random_state=1, progressbar=False).posterior["beta"]
            own = fit.idata.posterior["beta"]
            mean, sd = (whole.mean(("chain", "draw")), whole.std(("chain", "draw")))
            row["mean"] = float((abs(own.mean(("chain", "draw")) - mean) / sd).max())
            row["sd"] = float(abs(own.std(("chain", "draw")) / sd - 1.0).max())
    return row


def main(only: list[str] | None = None) -> None:
    """Write the table; with `only` the other rows stay as they are."""
    warnings.filterwarnings("ignore")
    rows = {row["data"]: row for row in known_rows("fit_sets")} if only else {}
    for name in only or SETS:
        rows[name] = one(name)
    publish("fit_sets", [rows[name] for name in SETS if name in rows], digits=3)
