r"""What a fit says about its prior: draws from it, of parameters and responses, and what another scale of it does.

Effects of a group are N(0, S), S of sds and correlations that are drawn, too. Correlations have the density
det(R)^(eta - 1), drawn by partial correlations (Lewandowski, Kurowicka and Joe 2009, Journal of Multivariate
Analysis 100).

A draw beta of the posterior under the prior p has under another prior p' the importance weight

.. math:: w \propto p'(\beta) / p(\beta),

Pareto smoothed. It needs neither likelihood nor rows. Where k-hat says that the weights do not do, the coreset is
sampled again under p'.

Reference: Kallioinen, Paananen, Bürkner and Vehtari (2024), Detecting and diagnosing prior and likelihood sensitivity
with power-scaling, Statistics and Computing 34.
"""

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescore.compat import as_xarray, inference_data
from bayescore.data.design import Grouping
from bayescore.diagnostics.results import Level
from bayescore.families.normal import Gaussian
from bayescore.fitting.parts import (
    check_model_spread,
    described,
    interval_names,
    known_prior,
    labelled,
    parameters,
    raw_rows,
)
from bayescore.models.predictor import Factor, Predictor
from bayescore.numerics.psis import full_weights
from bayescore.priors import Prior
from bayescore.priors.by_name import ByName
from bayescore.priors.groups import LKJ_ETA, GroupPrior, group_prior_from_dict
from bayescore.samplers.posterior import in_data_units, made_here, read_posterior
from bayescore.samplers.sample import sample
from bayescore.tables import Table
from bayescore.types import NO_GROUP, FloatArray
from bayescore.validation import DataError, check_integer, check_positive, check_seed

if TYPE_CHECKING:
    from bayescore.fitting.result import Fit

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Factors of the prior's scale, by default."""

ROWS = 1000
"""Rows whose responses are drawn, at most."""


def prior_predictive(fit: "Fit", draws: int, random_state: Any) -> Any:
    """Return draws of the prior and of responses of some rows; arguments as of `Fit.prior_predictive`."""
    check_integer(draws, "draws", low=1)
    seed, prior = check_seed(random_state), known_prior(fit, ": ask that model")
    from bayescore.models.pymc import draw_coefficients  # loads PyMC

    posterior, design, rng = fit._posterior(), fit.coreset.design, np.random.default_rng(seed)
    sample = raw_rows(fit, None)
    kept = np.sort(rng.permutation(len(sample))[:ROWS])
    rows, known = sample.designed().take(kept), None if sample.events is None else sample.events[kept]
    parameters = {"beta": draw_coefficients(prior, fit.coreset.feature_names, draws, seed)}
    factors, attrs = [], fit._drawn.posterior.attrs
    for own in design.groups:
        assert fit.group_prior is not None
        sd = half_draws(fit.group_prior, (draws, len(own.effects)), rng)
        R = correlation_draws(own, draws, rng)
        parameters[f"sigma_{own.name}"] = sd if sd.shape[1] > 1 else sd[:, 0]
        if len(own.pairs[0]):
            parameters[f"rho_{own.name}"] = R[:, *own.pairs]
        factors.append(Factor(own, np.empty((draws, 0, len(own.effects))), sd[:, :, None] * R * sd[:, None]))
    noise = None
    if "sd_prior" in attrs:
        noise = parameters["sigma"] = half_draws(group_prior_from_dict(json.loads(attrs["sd_prior"])), (draws,), rng)
    predictor = Predictor(parameters["beta"], factors, design, sd=noise)
    which = np.zeros((len(rows), 0), dtype=np.int64)
    if rows.group is not None:
        which = np.stack([np.unique(codes, return_inverse=True)[1] for codes in rows.group.T], axis=1)
        rows = replace(rows, group=np.full_like(rows.group, NO_GROUP))
    eta, family = predictor.sampled(rows, which, seed), posterior.family
    family = family.at(noise) if noise is not None and isinstance(family, Gaussian) else family
    numbers = family.response == "numbers"
    y = family.draw(eta, rng, rows.weights[:, None]).T.astype(np.float64 if numbers else np.int64)
    observed = (rows.y > 0).astype(np.int64) if known is None else known.astype(y.dtype)
    dims: dict[str, list[str]] = {"beta": ["feature"]}
    coords: dict[str, Any] = {"feature": list(fit.coreset.feature_names)}
    for own in design.groups:
        if len(own.effects) > 1:
            dims |= {f"sigma_{own.name}": [f"{own.name}_effect"], f"rho_{own.name}": [f"{own.name}_pair"]}
            coords[f"{own.name}_effect"] = list(own.effects)
            coords[f"{own.name}_pair"] = [f"{a}, {b}" for a, b in own.paired_effects]
    whole = {name: values[None] for name, values in parameters.items()}
    drawn = inference_data(
        {"posterior": whole}, coords=coords, dims={name: dims[name] for name in dims if name in whole}
    )
    places = {"row": rows.index.tolist()}
    about = {**made_here(), "random_state": str(seed), "family": family.name}
    found = inference_data({"prior_predictive": {"y": y[None]}}, coords=places, dims={"y": ["row"]})
    found["prior"] = as_xarray(in_data_units(drawn, design)["posterior"]).assign_attrs(about)
    found["observed_data"] = xr.Dataset({"y": ("row", observed)}, coords=places, attrs=made_here())
    return found


def half_draws(prior: GroupPrior, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    """Return draws of an sd from its prior."""
    normal = np.isinf(prior.nu)
    return np.abs(rng.standard_normal(shape) if normal else rng.standard_t(prior.nu, shape)) * prior.sigma


def correlation_draws(grouping: Grouping, draws: int, rng: np.random.Generator) -> FloatArray:
    """Return draws of a factor's correlations, shape (S, q, q); effects of different blocks are uncorrelated."""
    q = len(grouping.effects)
    found = np.zeros((draws, q, q))
    for first, end in dict.fromkeys(map(tuple, grouping.block_ends.tolist())):
        n = end - first
        L = np.zeros((draws, n, n))
        left = np.ones((draws, n))  # of the squared length of each row
        for k in range(n):
            L[:, k, k] = np.sqrt(left[:, k])
            if k + 1 < n:
                b = LKJ_ETA + 0.5 * (n - 2 - k)
                partial = 2.0 * rng.beta(b, b, (draws, n - 1 - k)) - 1.0
                L[:, k + 1 :, k] = partial * np.sqrt(left[:, k + 1 :])
                left[:, k + 1 :] *= 1.0 - partial**2
        found[:, first:end, first:end] = L @ L.transpose(0, 2, 1)
    return found


def prior_sensitivity(fit: "Fit", scales: Sequence[float], prob: float) -> Table:
    """Return how the parameters move with the scale of the prior."""
    check_model_spread(fit, "prior_sensitivity")
    interval_names(prob)
    if np.ndim(scales) != 1:
        raise TypeError(f"scales={scales!r} is no list; give factors of the prior's scale, such as [0.5, 1, 2]")
    factors = [check_positive(scale, f"scales[{place}]") for place, scale in enumerate(scales)]
    if not factors:
        raise ValueError("scales is empty; give factors of the prior's scale, such as [0.5, 1, 2]")
    posterior, prior = fit._posterior(), known_prior(fit, "; see with_prior")
    names, own = parameters(posterior)
    draws = own.reshape(-1, own.shape[2]).T
    center, sd = draws.mean(axis=1), draws.std(axis=1, ddof=1)
    tables = []
    for factor in factors:
        other = rescaled(prior, factor)
        found, k = None, np.nan
        if prior.closed_form:
            weights = full_weights(other.log_density(posterior.flat) - prior.log_density(posterior.flat))
            found, k = _weighed(draws, weights.weights, prob) if weights.good else None, weights.pareto_k
        by = "new draws" if found is None else "weights"
        if found is None:
            again = parameters(read_posterior(draws_under(fit, other), "idata"))[1]
            found = described(again.reshape(-1, again.shape[2]).T, prob)
        table = pd.DataFrame({"parameter": names, **found})
        table.insert(0, "scale", factor)
        level = fit.level if factor == 1.0 else str(Level.NOT_CERTIFIED)
        tables.append(table.assign(shift=(found["mean"] - center) / sd, by=by, pareto_k=k, level=level))
    whole = pd.concat(tables, ignore_index=True)
    others = (whole["level"] != fit.level).any()
    return labelled(fit, whole, str(Level.NOT_CERTIFIED) if others else fit.level)


def draws_under(fit: "Fit", prior: Prior) -> Any:
    """Draw from the coreset's posterior under another prior."""
    own = fit._drawn.posterior
    of_groups: Any = {} if fit.group_prior is None else {"group_prior": fit.group_prior}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the cap of max_gradients", UserWarning)
        return sample(
            fit.coreset,
            family=None if "sd_prior" in own.attrs else fit.coreset.family,
            prior=prior,
            sampler=own.attrs["sampler"],
            draws=own.sizes["draw"],
            tune=int(own.attrs["tuning_steps"]),
            chains=own.sizes["chain"],
            random_seed=fit._seed,
            progressbar=False,
            **of_groups,
        )


def rescaled(prior: Prior, factor: float) -> Prior:
    """Return a prior with its scales multiplied."""
    if isinstance(prior, ByName):
        return replace(prior, priors=tuple((name, rescaled(own, factor)) for name, own in prior.priors))
    names = [name for name in prior.in_units if name in prior.positive]
    if not names:
        raise DataError(
            f"prior={prior} has no scale that is a coefficient's own; give the fit another, or see with_prior"
        )
    return prior.replaced(**{name: _times(getattr(prior, name), factor) for name in names})


def _times(value: Any, factor: float) -> Any:
    return tuple(factor * each for each in value) if isinstance(value, tuple) else factor * value


def _weighed(draws: FloatArray, weights: FloatArray, prob: float) -> dict[str, FloatArray]:
    """Return mean, sd and interval of weighed draws, shape (K, S), by the names of `described`."""
    mean = draws @ weights
    sd = np.sqrt(np.maximum((draws - mean[:, None]) ** 2 @ weights, 0.0))
    low, high, tail = interval_names(prob)
    ends = [_quantiles(draws, weights, p) for p in (tail, 1.0 - tail)]
    return {"mean": mean, "sd": sd, low: ends[0], high: ends[1]}


def _quantiles(draws: FloatArray, weights: FloatArray, p: float) -> FloatArray:
    order = np.argsort(draws, axis=1)
    middle = np.cumsum(weights[order], axis=1) - 0.5 * weights[order]
    rows = zip(middle, np.take_along_axis(draws, order, axis=1), strict=True)
    return np.array([np.interp(p, at, values) for at, values in rows])
