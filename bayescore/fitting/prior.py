r"""What a fit says about its prior: draws from it, of parameters and responses, and what another scale of it does.

Priors in units of the data's own columns, and the default one, for design matrices with standardised columns.

`fit` standardises the columns of models with an intercept. The default prior is

.. math:: c_d \sim N(0, (2.5 / \mathrm{sd}(x_d | x_{-d}))^2), \qquad \alpha \sim N(0, 2.5^2),

c_d the coefficient of a raw column, sd(x_d | x_{-d}) the weighted population sd over all rows of what remains of the
column after its regression on the others (`priors.groups.given_others`), \alpha the intercept where all columns are at
their means. Where columns are uncorrelated these are rstanarm's default priors for ``binomial(link = "logit")``, which
go by sd(x_d). Of columns that nearly determine each other, as a year and its square, rstanarm's say that all
coefficients are small one by one, and overrule what the rows tell about their sums; these do not. Those of numbers with
normal noise are in units of y. A prior that is given is on c_d and \alpha too, so that "Intercept" means the same as in
rstanarm and brms.

Reference: Gabry and Goodrich, Prior distributions for rstanarm models (vignette of rstanarm 2.32).

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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescore.compat import as_xarray, inference_data
from bayescore.data.design import Design, Grouping
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
from bayescore.priors import Independent, Prior
from bayescore.priors.by_name import ByName, leaves_out, prior_of
from bayescore.priors.groups import LKJ_ETA, GroupPrior, group_prior_from_dict, standard_prior
from bayescore.priors.prior import check_prior
from bayescore.samplers.posterior import in_data_units, made_here, read_posterior
from bayescore.samplers.sample import sample
from bayescore.tables import Table
from bayescore.types import NO_GROUP, FloatArray
from bayescore.validation import DataError, check_integer, check_positive, check_seed

if TYPE_CHECKING:
    from bayescore.fitting.result import Fit

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Factors of the prior's scale, by default."""


def design_prior(given: Prior | Mapping[str, Prior] | None, design: Design, default: Prior | None = None) -> Prior:
    """Return the prior of the coefficients of a design, given one in units of the data's own columns.

    By default it is `default`, in units of the design, or that of its standardised columns. Hierarchies and
    multivariate priors, whose parameters are not one coefficient's, stay as they are: they are on the standardised
    columns.
    """
    names = design.names
    if given is None:
        return standard_prior(design) if default is None else default
    prior = prior_of(given, names)
    if not isinstance(prior, Independent):
        return prior
    each = _scaled(prior, names, design.scales)
    if isinstance(prior, ByName) and leaves_out(given):
        rest = design_prior(None, design, default)
        for d in prior.unnamed:
            each[d] = rest.of_coefficient(d, names[d], len(names))
    return _together(each, names)


def raw_prior(prior: Prior, design: Design) -> Prior:
    """Return the prior in units of the data's own columns, given that of the design's: `design_prior` backwards."""
    if not isinstance(prior, Independent):
        return prior
    return _together(_scaled(prior, design.names, 1.0 / design.scales), design.names)


def _scaled(prior: Prior, names: Sequence[str], scales: FloatArray) -> list[Prior]:
    """Return the prior of each coefficient, which is `scales` times as large."""
    D = len(names)
    prior.parts(D)  # shapes
    each = [prior.of_coefficient(d, name, D) for d, name in enumerate(names)]
    return [
        one.replaced(**{name: float(getattr(one, name) * scale) for name in one.in_units})
        for one, scale in zip(each, scales, strict=True)
    ]


def _together(each: list[Prior], names: Sequence[str]) -> Prior:
    """Return one prior of all coefficients: if of one class, a parameter is a number where they agree, or a vector."""
    if any(type(one) is not type(each[0]) for one in each):
        return prior_of(dict(zip(names, each, strict=True)), names)
    values = {name: tuple(getattr(one, name) for one in each) for name in each[0].parameters()}
    return each[0].replaced(**{name: own[0] if len(set(own)) == 1 else own for name, own in values.items()})


def check_priors(prior: Any) -> None:
    """Raise unless `prior` is one: names of coefficients are checked once they are known."""
    if prior is None:
        return
    for name, own in prior.items() if isinstance(prior, Mapping) else [("", prior)]:
        try:
            check_prior(own)
        except TypeError as error:
            said = str(error).removeprefix("prior").removeprefix(f"={own!r} ")
            which = f"prior[{name!r}]" if name else "prior"
            raise TypeError(
                f"{which}={own!r} {said}. A flat prior is not among them, as labels that "
                "some column separates would have no posterior; a wide one is prior=bc.priors.Normal(0, 10)"
            ) from None


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
