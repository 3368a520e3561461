"""The posteriors that `certificates` asks about: made and published rows, both links, all priors, 1 to 301 columns."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from benchmarks.accuracy.references import german_credit
from benchmarks.problems import load

LINKS = ("logistic", "probit")
PRIORS = {
    "Normal": bc.priors.Normal(0, 4),
    "StudentT": bc.priors.StudentT(4),
    "Cauchy": bc.priors.Cauchy(0, 2.5),
    "Laplace": bc.priors.Laplace(0, 1),
    "SpikeAndSlab": bc.priors.SpikeAndSlab(0.1, 4),
    "Horseshoe": bc.priors.Horseshoe(1.0),
}
CLOSED = tuple(PRIORS)[:5]
PUBLISHED = {
    "chemreact": "chemreact_ds1_10",
    "kdd": "kddcup99_10pct",
    "phishing": "phishing_libsvm",
    "w8a": "w8a_train",
}
# rows, columns with the intercept (of one column, none; of published rows at most), links, priors
LAYOUT = (
    ("normal", 500, 1, LINKS, CLOSED),
    ("separated", 500, 1, LINKS, CLOSED),
    ("normal", 1000, 2, LINKS, (*CLOSED, "Horseshoe")),
    ("skewed", 2000, 2, LINKS, CLOSED),
    ("separated", 500, 2, LINKS, CLOSED),
    ("normal", 2000, 4, LINKS, CLOSED),
    ("binary", 3000, 5, LINKS, ("Normal", "Cauchy", "SpikeAndSlab")),
    ("skewed", 5000, 6, LINKS, ("Normal", "StudentT", "Laplace")),
    ("t3", 5000, 8, LINKS, ("Normal", "Cauchy")),
    ("quasi", 5000, 11, LINKS, ("Normal", "StudentT")),
    ("chemreact", 5000, 11, LINKS, ("Normal", "Laplace")),
    ("normal", 5000, 20, LINKS, ("Normal", "Cauchy")),
    ("german", 1000, 25, LINKS, ("Normal", "StudentT")),
    ("kdd", 5000, 32, ("logistic",), ("Normal",)),
    ("normal", 5000, 50, LINKS, ("Normal", "Laplace")),
    ("phishing", 6000, 69, LINKS, ("Normal",)),
    ("binary", 8000, 124, LINKS, ("Normal",)),
    ("normal", 8000, 200, LINKS, ("Normal",)),
    ("w8a", 12_400, 301, ("logistic",), ("Normal",)),
)


@dataclass(frozen=True)
class Problem:
    """A posterior: which rows, how many, the link and the prior's name."""

    rows: str
    n: int
    d: int
    family: str
    prior: str

    @property
    def published(self) -> bool:
        """Whether its rows are read from ../shared/data."""
        return self.rows in PUBLISHED or self.rows == "german"

    @property
    def robust(self) -> bool:
        """Whether sds do not exist: a tail like that of the prior, along the direction that separates."""
        return self.rows == "separated" and self.prior == "Cauchy"

    @cached_property
    def table(self) -> tuple[Any, np.ndarray]:
        """Raw columns and labels."""
        rng = np.random.default_rng([self.n, self.d, len(self.rows)])
        if self.published:
            return _published(self.rows, self.n, rng)
        return _made(self.rows, self.n, self.d, self.family, rng)

    def design(self) -> dict[str, Any]:
        """Return arguments of `build_coreset` and `all_rows`."""
        return {
            "family": self.family,
            "intercept": self.d > 1,
            "standardize": self.published,
            "progressbar": False,
        }

    @cached_property
    def data(self) -> bc.Coreset:
        """All rows."""
        return bc.all_rows(*self.table, **self.design())

    @property
    def merged(self) -> bc.Coreset:
        """All rows, identical ones as one: the same posterior."""
        return bc.build_coreset(*self.table, method="aggregate", **self.design())


PROBLEMS = tuple(
    Problem(rows, n, d, family, prior)
    for rows, n, d, families, priors in LAYOUT
    for family in families
    for prior in priors
)


def _made(rows: str, n: int, d: int, family: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    k = max(d - 1, 1)
    X = rng.standard_normal((n, k))
    beta, intercept = np.linspace(1.0, -0.8, k) * math.sqrt(4.0 / max(k, 4)), -0.5 if d > 1 else 0.0
    if rows == "skewed":
        X, intercept = (np.exp(X) - math.exp(0.5)) / 2.0, -2.5
    elif rows == "t3":
        X, intercept = rng.standard_t(3, size=(n, k)), -3.5
    elif rows == "binary":
        X = (rng.random((n, k)) < np.geomspace(0.5, 0.01, k)).astype(float)
    eta = X @ beta + intercept
    if rows == "separated":
        return X, np.where(eta > 0.0, 1, -1)
    if rows == "quasi":  # few positives, and few rows of either label beyond the other's
        eta = 60.0 * (X @ beta / np.linalg.norm(beta) - 2.2)
    noise = rng.logistic(size=n) if family == "logistic" else rng.standard_normal(n)
    return X, np.where(eta + noise > 0.0, 1, -1)


def german() -> tuple[pd.DataFrame, np.ndarray]:
    """Return the columns of German credit, standardised, and the labels."""
    data = german_credit()[0]
    return pd.DataFrame(data.X[:, :-1]).add_prefix("x"), data.y


def _published(rows: str, n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    if rows == "german":
        return german()
    X, y = load(PUBLISHED[rows])
    kept = rng.choice(len(y), min(n, len(y)), replace=False)
    X = X.iloc[kept].reset_index(drop=True)
    return X.loc[:, X.nunique() > 1], y[kept]
