"""Does the maximum likelihood estimate exist, and how large is mu? Answer, rows tried, passes and seconds.

N = 1e6, D = 10 made here, of each kind; then published data, standardised, with an intercept. mu is a lower bound;
its passes and seconds are those of both answers together.
"""

import time

import numpy as np
import pandas as pd

from bayescore.coresets.separation import mu_complexity, separability
from benchmarks.commands import command
from benchmarks.problems import load, readable
from benchmarks.tables import publish

N, D = 1_000_000, 10
PUBLISHED = ("chemreact_ds1_10", "covtype_cover2v4", "covtype_ramp16pct", "kddcup99_10pct")


def _made(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return standard normal columns and logistic labels; a category of 30 rows; labels on the sides of a plane."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D - 1))
    if kind == "quasi-separated":
        X[:, -1] = np.arange(N) < 30
    eta = X @ np.linspace(-1.0, 1.0, D - 1)
    y = np.where(eta + (0.0 if kind in ("separated", "all but one row") else 1.0) * rng.logistic(size=N) > 0.0, 1, -1)
    if kind == "quasi-separated":
        y[:30] = 1
    if kind == "all but one row":
        y[np.argmax(eta)] = -1
    return X, y


def _row(name: str, X: np.ndarray | pd.DataFrame, y: np.ndarray) -> dict:
    begin = time.perf_counter()
    found = separability(X, y, intercept=True, random_state=0, progressbar=False)
    middle = time.perf_counter()
    mu = mu_complexity(X, y, intercept=True, random_state=0, progressbar=False)
    return {
        "data": name,
        "N": len(X),
        "D": X.shape[1] + 1,
        "answer": found.kind,
        "along": ", ".join(found.columns) if len(found.columns) <= 3 else "",
        "rows_tried": found.n_tried,
        "passes": found.n_passes,
        "seconds": middle - begin,
        "mu_at_least": mu.lower_bound,
        "mu_passes": mu.n_passes,
        "mu_seconds": time.perf_counter() - middle,
    }


@command("separability")
def main() -> None:
    rows = []
    _row("compile", *(part[:1000] for part in _made("overlap")))
    for kind in ("overlap", "quasi-separated", "separated", "all but one row"):
        rows.append(_row(kind, *_made(kind)))
    for name in readable(PUBLISHED):
        X, y = load(name)
        rows.append(_row(name, (X - X.mean()) / X.std(ddof=0), y))
    publish("separability", rows)
