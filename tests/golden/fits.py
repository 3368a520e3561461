"""Coresets and posteriors that golden cases share; each is made once a process."""

import warnings
from functools import cache
from typing import Any

import pandas as pd

import bayescore as bc
from tests import group_draws
from tests.golden import coresets, rows, view

SEED = 5
QUIET = {"progressbar": False}
LONG = {"draws": 500, "tune": 300, "chains": 4, "cores": 1, "random_seed": SEED, **QUIET}
SHORT = {"draws": 20, "tune": 50, "chains": 2, "cores": 1, "random_seed": SEED, **QUIET}
FLAT = rows.FRAME[[*rows.FEATURES, "y"]]
WITH_OFFSET = rows.FRAME[["x0", "x1", "y", "w", "o"]]
FORMULA = "y ~ x0 + device + scale(age)"


@cache
def flat(family: str = "logistic", size: int = 80, method: str = "calibrated") -> Any:
    """Return a coreset of rows without groups."""
    told = {"label": "y", "intercept": True, "method": method, "size": size, "family": family}
    return _quiet(bc.build_coreset, FLAT, random_state=coresets.SEED, **told)


@cache
def offsets() -> Any:
    """Return a coreset of rows with weights and offsets, of standardized columns."""
    told = {"label": "y", "weights": "w", "offset": "o", "intercept": True, "standardize": True}
    return _quiet(bc.build_coreset, WITH_OFFSET, random_state=coresets.SEED, method="calibrated", size=80, **told)


@cache
def formula(formula: str = FORMULA, family: str = "logistic") -> Any:
    """Return a coreset of a formula, by default one with a factor."""
    told = {
        "formula": formula,
        "family": family,
        "method": "calibrated",
        "size": 120,
        "random_state": coresets.SEED,
    }
    return _quiet(bc.build_coreset, rows.FRAME, **told)


@cache
def grouped(family: str = "logistic") -> Any:
    """Return a coreset of (1 | county)."""
    told = {"label": "y", "groups": "county", "intercept": True, "family": family, "method": "multilevel"}
    return _quiet(bc.build_coreset, grouped_frame(), random_state=coresets.SEED, **told)


def grouped_frame() -> pd.DataFrame:
    """Return the rows of `grouped`."""
    return coresets.GROUPED.drop(columns=["w", "o"])


@cache
def terms(group_terms: str) -> Any:
    """Return a coreset of several group terms, or of slopes that vary."""
    return _quiet(coresets.of_terms, group_terms, random_state=coresets.SEED)


@cache
def sampled(name: str, *made_of: Any, short: bool = False, **options: Any) -> Any:
    """Return a posterior of the coreset that the function of that name makes of `made_of`."""
    core = globals()[name](*made_of)
    return view.undated(_quiet(bc.sample, core, **{**(SHORT if short else LONG), **options}))


@cache
def of_terms(group_terms: str) -> Any:
    """Return draws of the posterior of several group terms in the place of those of NUTS: the same with every PyMC."""
    return view.undated(_quiet(lambda **_: group_draws.sampled(terms(group_terms))))


def _quiet(function: Any, *given: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of coresets and runs as small as these
        return function(*given, **{**QUIET, **options})
