r"""Draws of parameters from the prior, and of responses under it: `Fit.prior_predictive`.

Effects of a group are N(0, S), S of sds and correlations that are drawn, too. Correlations have the density
det(R)^(eta - 1), drawn by partial correlations (Lewandowski, Kurowicka and Joe 2009, Journal of Multivariate
Analysis 100).
"""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from bayescore.compat import as_xarray, inference_data
from bayescore.data.design import Grouping
from bayescore.families.normal import Gaussian
from bayescore.fitting.parts import FitParts, raw_rows
from bayescore.models.predictor import Factor, Predictor
from bayescore.priors.groups import LKJ_ETA, GroupPrior, group_prior_from_dict
from bayescore.samplers.posterior import in_data_units, made_here
from bayescore.types import NO_GROUP, FloatArray
from bayescore.validation import check_integer, check_seed

ROWS = 1000
"""Rows whose responses are drawn, at most."""


def prior_predictive(fit: FitParts, draws: int, random_state: Any) -> Any:
    """Return draws of the prior and of responses of some rows; arguments as of `Fit.prior_predictive`."""
    check_integer(draws, "draws", low=1)
    seed, prior = check_seed(random_state), fit._known_prior(": ask that model")
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
