"""The data sets of the benchmarks: published ones, read from ../shared/data, and made ones, drawn from a fixed seed.

`load` returns raw columns without an intercept; the benchmarks add one and standardise.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from bayescore.datasets import binary10, mixture

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "data"
RARE = 0.001  # levels of a category with a smaller share of the rows are merged
Table = tuple[pd.DataFrame, np.ndarray]


def published(name: str, *, categories: tuple[str, ...] = ()) -> Table:
    """Read the numeric columns, then a 0/1 column for each level of `categories` but the most frequent.

    Levels in less than 0.1% of the rows become one level, "rare"; constant columns are left out.
    """
    frame = pd.read_parquet(SHARED / f"{name}.parquet")
    y = frame.pop("y").to_numpy()
    parts = [frame.drop(columns=["cover_type", "label", "split"], errors="ignore").select_dtypes("number")]
    for category in categories:
        shares = frame[category].value_counts(normalize=True)
        level = frame[category].where(frame[category].map(shares) >= RARE, "rare")
        parts.append(pd.get_dummies(level, prefix=category).drop(columns=f"{category}_{shares.index[0]}"))
    table = pd.concat(parts, axis=1).astype(float)
    return table.loc[:, table.nunique() > 1], y


def uneven_columns(n: int, d: int, rare: float, rng: np.random.Generator, log_sd: float = 0.5) -> np.ndarray:
    """Draw a lognormal column, one of Student's t4, one of few ones, a share of `rare`, and normal ones."""
    X = rng.standard_normal((n, d))
    X[:, 0] = np.exp(log_sd * X[:, 0])
    X[:, 1] = rng.standard_t(4, n)
    X[:, 2] = rng.random(n) < rare
    return X


def _named(X: np.ndarray, y: np.ndarray) -> Table:
    return pd.DataFrame(X, columns=[f"x{d}" for d in range(1, X.shape[1] + 1)]), y


def _binary10() -> Table:
    X, y = binary10(1_000_000, random_state=0)
    return _named(X[:, 1:], y)  # its first column is the intercept


def _quasi_separated() -> Table:
    """Draw 20,000 rows, x ~ N(0, I_10), with 35 positives that a plane cuts off but for 8 rows: a skewed posterior."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((20_000, 10))
    normal = np.linspace(1.0, -0.8, 10)
    eta = 200.0 * (X @ normal / np.linalg.norm(normal) - 3.0)
    return _named(X, np.where(rng.random(len(X)) < expit(eta), 1, -1))


def _gauss() -> Table:
    """Draw 100,000 rows, x ~ N(0, I_10), logistic labels with coefficients from -1 to 1 and intercept -1."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((100_000, 10))
    return _named(X, np.where(rng.random(len(X)) < expit(X @ np.linspace(-1.0, 1.0, 10) - 1.0), 1, -1))


@dataclass(frozen=True)
class Problem:
    """A data set: how to get its rows, and whether they are read from a file."""

    read: Callable[[], Table]
    published: bool = True


PROBLEMS = {
    "chemreact_ds1_10": Problem(lambda: published("chemreact_ds1_10")),
    "covtype_ramp16pct": Problem(lambda: published("covtype_ramp16pct")),
    "covtype_cover2v4": Problem(lambda: published("covtype_cover2v4")),
    "kddcup99_10pct": Problem(lambda: published("kddcup99_10pct")),
    "kddcup99_10pct categories": Problem(
        lambda: published("kddcup99_10pct", categories=("protocol_type", "service", "flag")),
    ),
    "w8a_train": Problem(lambda: published("w8a_train")),
    "phishing_libsvm": Problem(lambda: published("phishing_libsvm")),
    "Binary10": Problem(_binary10, published=False),
    "Mixture": Problem(lambda: _named(*mixture(1_000_000, random_state=0)), published=False),
    "quasi-separated": Problem(_quasi_separated, published=False),
    "gauss": Problem(_gauss, published=False),
}


def load(name: str) -> Table:
    """Return the raw columns (not constant, no intercept) and the labels of one of `PROBLEMS`."""
    return PROBLEMS[name].read()


def readable(names: Iterable[str]) -> list[str]:
    """Return those `names` whose rows can be had here; say which others are left out."""
    names = list(names)
    if SHARED.is_dir():
        return names
    absent = [name for name in names if PROBLEMS[name].published]
    if absent:
        print(f"not run: ../shared/data is absent ({', '.join(absent)})")
    return [name for name in names if name not in absent]
