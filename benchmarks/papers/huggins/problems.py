"""The data sets of Huggins et al. (2016), Table 1, as far as they can be had here.

ChemReact is ds1.10 (all rows, 10 principal components) and the published tenth of ds1.100 (100 components); Webspam is
replaced by w8a, web pages by keywords; CovType is the published 16% of its rows. Columns are standardised, those of w8a
stay 0/1, and real data get an intercept; Binary5 and Binary10 have one, Mixture needs none.
`READINGS` are other ways to prepare a set: the paper says "mean zero and variance 1 (or, for sparse data, between -1
and 1)", and the published code takes CovType from a sparse file.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.datasets import Problem as Synthetic
from bayescore.datasets import binary5, binary10, mixture
from benchmarks.problems import SHARED, published

PRIOR = bc.priors.Normal(0, 2)  # the published code's; the paper does not say
QUICK_ROWS = 10_000
THIN = 10
Table = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Problem:
    """A data set: its figure, how to read N rows of it, and how the paper's experiments take it.

    `file` is what ../shared/data must have; `held_out` is the paper's share of test rows, `clusters` its k; `repeats`
    says that rows repeat, so that merging them pays; `iterations` and `repetitions` are those of a full run, and
    `largest` its largest coreset.
    """

    figure: str
    read: Callable[[int | None], Table]
    held_out: float
    clusters: int
    options: dict[str, bool]
    repeats: bool = False
    file: str = ""
    iterations: int = 20_000
    repetitions: int = 20
    largest: int = 10_000


def _made(problem: Synthetic) -> Callable[[int | None], Table]:
    return lambda rows: problem((rows or 1_000_000) + 1000, random_state=0)


def _published(figure: str, file: str, *paper: Any, **told: Any) -> Problem:
    """Return a problem of ../shared/data."""

    def read(rows: int | None) -> Table:
        table, y = published(file)
        order = np.random.default_rng(0).permutation(len(y))[:rows]
        return table.to_numpy()[order], y[order]

    return Problem(figure, read, *paper, file=file, **told)


RAW: dict[str, bool] = {}
INTERCEPT = {"intercept": True}
SCALED = {"intercept": True, "standardize": True}
PROBLEMS = {
    "Binary5": Problem("2a", _made(binary5), 1e-3, 4, RAW, repeats=True),
    "Binary10": Problem("2b", _made(binary10), 1e-3, 4, RAW, repeats=True),
    "Mixture": Problem("2c", _made(mixture), 1e-3, 4, RAW),
    "ChemReact, ds1.10": _published("2d", "chemreact_ds1_10", 2500 / 26_733, 6, SCALED),
    "ChemReact, ds1.100 (a tenth)": _published(
        "2d", "chemreact_ds1_100_test", 2500 / 26_733, 6, SCALED, iterations=10_000, largest=1250
    ),
    "w8a (for Webspam)": _published(
        "2e", "w8a_train", 50 / 350, 6, INTERCEPT, repeats=True, iterations=5_000, largest=2500
    ),
    "CovType, 16%": _published("2f", "covtype_ramp16pct", 29_000 / 581_012, 6, SCALED, iterations=10_000),
}


def _within_one(read: Callable[[int | None], Table]) -> Callable[[int | None], Table]:
    """Return `read` with columns divided by their largest absolute value."""

    def scaled(rows: int | None) -> Table:
        X, y = read(rows)
        return X / np.maximum(np.abs(X).max(axis=0), 1e-300), y

    return scaled


READINGS = {
    "CovType, 16%, in [-1, 1]": replace(
        PROBLEMS["CovType, 16%"],
        read=_within_one(PROBLEMS["CovType, 16%"].read),
        options=INTERCEPT,
        iterations=5_000,
    )
}


def readable(only: list[str] | None = None, *, readings: bool = False) -> dict[str, Problem]:
    """Return the problems asked for whose rows can be had here; say which others are left out."""
    known = PROBLEMS | READINGS if readings else PROBLEMS
    asked = {name: problem for name, problem in known.items() if only is None or name in only}
    absent = [name for name, own in asked.items() if own.file and not (SHARED / f"{own.file}.parquet").is_file()]
    if absent:
        print(f"not run: their files are not in ../shared/data: {', '.join(absent)}")
    return {name: problem for name, problem in asked.items() if name not in absent}


def chain(data: bc.Coreset, iterations: int, seed: int = 0, **options: Any) -> Any:
    """Return draws of the later half of a chain of MALA, each tenth kept."""
    half = iterations // (2 * THIN)
    told = {"draws": half, "tune": half, "chains": 1, "thin": THIN, "random_seed": seed, "progressbar": False}
    return bc.sample(data, prior=PRIOR, sampler="mala", **told, **options)


def split(problem: Problem, *, quick: bool) -> tuple[bc.Coreset, bc.Coreset]:
    """Return all training rows and the test rows, as design matrices."""
    X, y = problem.read(QUICK_ROWS if quick else None)
    test = 1000 if not problem.file else round(problem.held_out * len(y))
    full = bc.all_rows(X[test:], y[test:], **problem.options, progressbar=False)
    return full, bc.all_rows(X[:test], y[:test], design=full.design, progressbar=False)
