"""Coresets and posteriors that golden cases share; each is made once a process."""

import warnings
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.compat import inference_data
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
    """Return draws about the posterior of several group terms in the place of those of NUTS.

    They come from a normal density at the mode given sds of 1, so that they are the same with every version of PyMC,
    and whatever rounding does to trajectories.
    """
    core = terms(group_terms)
    told = {"draws": 500, "chains": 2, "random_seed": SEED, "initvals": []}  # which spares NUTS its mass matrix
    with mock.patch("pymc.sample", return_value=_normal_draws(core, coresets.TERMS[group_terms]())):
        return view.undated(_quiet(bc.sample, core, **told))


def _normal_draws(core: Any, frame: pd.DataFrame, chains: int = 2, draws: int = 500) -> Any:
    data = _quiet(bc.all_rows, frame, label="y", design=core.design)
    blocks, factors = [data.X], core.groups
    for own, codes in zip(factors, data.group.T, strict=True):
        member = (codes[:, None] == np.arange(len(own))).astype(float)
        columns = [1.0 if each == "1" else data.X[:, [core.feature_names.index(each)]] for each in own.effects]
        blocks.append(np.stack([member * column for column in columns], axis=2).reshape(len(data), -1))
    W, precision = np.hstack(blocks), np.ones(sum(block.shape[1] for block in blocks))
    precision[: data.n_features] = 1.0 / 16.0
    mode, sides = np.zeros(len(precision)), data.y > 0
    for _ in range(30):
        p = 1.0 / (1.0 + np.exp(-W @ mode))
        curvature = (W * (p * (1.0 - p))[:, None]).T @ W + np.diag(precision)
        mode = mode + np.linalg.solve(curvature, W.T @ (sides - p) - precision * mode)
    rng, n_draws = np.random.default_rng(SEED), chains * draws
    theta = mode + np.linalg.solve(np.linalg.cholesky(curvature).T, rng.standard_normal((len(mode), n_draws))).T
    cuts = np.cumsum([block.shape[1] for block in blocks])
    parts = [part.reshape(chains, draws, -1) for part in np.split(theta, cuts[:-1], axis=1)]
    values, dims, coords = {"beta": parts[0]}, {"beta": ["feature"]}, {"feature": list(core.feature_names)}
    for own, u in zip(factors, parts[1:], strict=True):
        name, q = own.name, len(own.effects)
        shape = (chains, draws) if q == 1 else (chains, draws, q)
        values[f"sigma_{name}"] = np.exp(0.2 * rng.standard_normal(shape))
        values[f"u_{name}"] = u if q == 1 else u.reshape(chains, draws, len(own), q)
        coords[name], dims[f"u_{name}"] = list(own.levels), [name]
        if q > 1:
            values[f"rho_{name}"] = np.tanh(0.2 * rng.standard_normal((chains, draws, q * (q - 1) // 2)))
            coords[f"{name}_effect"], coords[f"{name}_pair"] = list(own.effects), [", ".join(own.effects)]
            dims |= {f"u_{name}": [name, f"{name}_effect"], f"sigma_{name}": [f"{name}_effect"]}
            dims[f"rho_{name}"] = [f"{name}_pair"]
    groups = {"posterior": values, "sample_stats": {"diverging": np.zeros((chains, draws), dtype=bool)}}
    return inference_data(groups, coords=coords, dims=dims)


def _quiet(function: Any, *given: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of coresets and runs as small as these
        return function(*given, **{**QUIET, **options})
