r"""Odds ratios: what the coefficients of a logistic model mean for one unit more of each column of the data.

.. math:: \mathrm{OR}_d = e^{c_d}

c_d is the coefficient in units of the data's own column.

Draws and summaries of the effects of any groups, whether `sample` kept their draws or not.

What prior each coefficient was given, and what that is in units of the data where columns were standardised.

A prior of location m and scale s of a standardised column is one of location m / sd and scale s / sd of the column
itself, sd the column's standard deviation. That of the intercept is of the linear predictor where all columns are at
their means, as in rstanarm's and brms's `prior_summary`.

Draws of group effects as arrays: what the pictures and pages of draws with groups read.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescore.compat import is_inference_data
from bayescore.data.design import Grouping
from bayescore.families import Family
from bayescore.families.family import find_family
from bayescore.limits import PROB
from bayescore.models.groups.effects import QUANTILES, EffectDraws
from bayescore.models.predictor import parameters
from bayescore.priors import Prior
from bayescore.priors.by_name import prior_from_dict
from bayescore.priors.groups import LKJ_ETA, GroupPrior, group_prior_from_dict
from bayescore.samplers.groups import group_prior_of
from bayescore.samplers.posterior import Posterior, read_posterior
from bayescore.types import FloatArray
from bayescore.validation import DataError, check_positive


def odds_ratios(idata: Any, *, prob: float = PROB) -> pd.DataFrame:
    """Return the odds ratios of a logistic posterior for one unit more of each column of the data.

    Of a factor's column it is that of the level against the first. The intercept has none.

    Parameters
    ----------
    idata : InferenceData
        From `sample`, or the corrected draws of a certificate.
    prob : float
        Probability of the equal-tailed interval.

    Returns
    -------
    DataFrame
        A row for each coefficient; columns `median`, `lower` and `upper`.

    Raises
    ------
    TypeError, DataError
        If `idata` is no posterior, or of another likelihood, whose coefficients are no log odds ratios.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 1))
    >>> core = bc.all_rows(X, X[:, 0] + rng.logistic(size=5000) > 0, intercept=True, progressbar=False)
    >>> idata = bc.sample(core, sampler="mala", random_seed=1, progressbar=False)
    >>> bc.odds_ratios(idata)["median"].round(1).to_dict()
    {'x0': 2.7}
    """
    posterior = read_posterior(idata, "idata", min_draws=1)
    if posterior.family.ratio != "odds ratio":
        raise DataError(
            f"idata has the family {posterior.family.name!r}, whose coefficients are no log odds ratios; see "
            "average_predictions, and of counts or times fit.summary(scale='ratio')"
        )
    tail = 0.5 * (1.0 - check_positive(prob, "prob", below=1.0))
    design = posterior.design
    coef = posterior.flat if design is None else design.raw_coefficients(posterior.flat)
    middle, low, high = np.quantile(coef, [0.5, tail, 1.0 - tail], axis=0)
    with np.errstate(over="ignore"):  # infinite where rows are separated
        table = pd.DataFrame(
            {"median": np.exp(middle), "lower": np.exp(low), "upper": np.exp(high)},
            index=pd.Index(posterior.features, name="feature"),
        )
    constant = None if design is None else design.constant
    return table if constant is None else table.drop(index=posterior.features[constant])


def group_effects(idata: Any, groups: Sequence[Any] | None = None) -> Any:
    """Return draws of the effects of any groups of a model ``(1 | g)``, or mean, sd and quantiles of all.

    Of very many groups `sample` keeps draws of some. The others are drawn anew, by the seed: draws of a group are the
    same whatever else is asked for.

    Parameters
    ----------
    idata : InferenceData
        Posterior of rows with groups, from `sample`, or a certificate's corrected one.
    groups : list of levels, optional
        Groups whose draws are returned. Without it a table of all is.

    Returns
    -------
    DataArray or DataFrame
        Draws, dims chain, draw and the factor's name; or a row for each group: mean, sd and quantiles.

    Raises
    ------
    TypeError, DataError
        If `idata` is something else, has not one factor whose intercept varies, or lacks a group.

    Examples
    --------
    >>> import numpy as np, pandas as pd, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"x": rng.normal(size=6000), "g": rng.integers(0, 30, 6000)})
    >>> rows["y"] = rows["x"] + rng.normal(size=30)[rows["g"]] + rng.logistic(size=6000) > 0
    >>> core = bc.build_coreset(rows, formula="y ~ x + (1 | g)", random_state=1, progressbar=False)
    >>> idata = bc.sample(core, effects=10, random_seed=2, progressbar=False)
    >>> idata.posterior["u_g"].sizes["g"], len(bc.group_effects(idata))
    (10, 30)
    >>> bc.group_effects(idata, [3, 17]).dims
    ('chain', 'draw', 'g')
    """
    if not is_inference_data(idata):
        raise TypeError(f"idata is of type {type(idata).__name__}; give InferenceData, as bayescore.sample returns")
    posterior = read_posterior(idata, "idata", min_draws=1)
    design = posterior.design
    if design is None or [own.effects for own in design.groups] != [("1",)]:
        raise DataError("idata is not of a model (1 | g); its effects stand in posterior, as sample returned them")
    own = design.groups[0]
    name, effects = own.name, posterior.variables[f"u_{own.name}"]
    if groups is not None:
        place = {level: k for k, level in enumerate(own.levels)}
        if unknown := [level for level in groups if level not in place]:
            raise DataError(f"groups names {unknown[0]!r}, which is no level of {name!r}")
        codes = np.array([place[level] for level in groups], dtype=np.int64)
        u = effects[:, codes][..., 0] if isinstance(effects, EffectDraws) else effects[:, codes]
        source = idata["posterior"]
        coords = {"chain": source["chain"].values, "draw": source["draw"].values, name: list(groups)}
        return xr.DataArray(u.reshape(*posterior.draws.shape[:2], -1), coords, ("chain", "draw", name), f"u_{name}")
    index = pd.Index(own.levels, name=name)
    if isinstance(effects, EffectDraws):
        constant = idata["constant_data"]
        mean, sd, ends = (constant[f"u_{name}_{part}"].values for part in ("mean", "sd", "quantiles"))
    else:
        mean, sd, ends = effects.mean(axis=0), effects.std(axis=0), np.quantile(effects, QUANTILES, axis=0)
    columns = {f"{100.0 * q:g}%": each for q, each in zip(QUANTILES, ends, strict=True)}
    return pd.DataFrame({"mean": mean, "sd": sd, **columns}, index=index)


def prior_summary(idata: Any) -> pd.DataFrame:
    """Return the prior of each coefficient, as it was given and in units of the data.

    Parameters
    ----------
    idata : InferenceData
        What `sample` returned for a coreset.

    Returns
    -------
    DataFrame
        A row for each coefficient, columns `prior` and `in_data_units`; the two differ where the coreset was built
        with ``standardize=True``. Of a `MultivariateNormal` prior the marginal ones. With groups also a row for the sd
        of each kind of effect, and for the correlations of those of one factor.

    Raises
    ------
    TypeError, DataError
        If `idata` is no posterior, or does not tell its prior.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = 10.0 * rng.normal(size=(2000, 1))
    >>> core = bc.all_rows(X, rng.random(2000) > 0.5, intercept=True, standardize=True, progressbar=False)
    >>> prior = {"Intercept": bc.priors.StudentT(3)}
    >>> idata = bc.sample(core, prior=prior, sampler="mala", random_seed=1, progressbar=False)
    >>> bc.prior_summary(idata)["prior"].to_dict()
    {'Intercept': 'StudentT(nu=3, mu=0, sigma=2.5)', 'x0': 'Normal(mu=0, sigma=4)'}
    """
    posterior = read_posterior(idata, "idata", min_draws=1)
    found = described(posterior)
    if found is None:
        raise DataError("idata does not tell its prior; give what bayescore.sample returned for a coreset")
    return pd.concat([found, _of_sds(posterior)])


def described(posterior: Posterior) -> pd.DataFrame | None:
    """Return `prior_summary`; None where the prior is not known."""
    if not posterior.story:
        return None
    prior, D = prior_from_dict(posterior.story["prior"]), len(posterior.features)
    each = [prior.of_coefficient(d, name, D) for d, name in enumerate(posterior.features)]
    design, scales, constant = posterior.design, np.ones(D), None
    if design is not None and design.scale is not None:
        scales, constant = design.scales, design.constant
    raw = [_text(own, scale) for own, scale in zip(each, scales, strict=True)]
    if constant is not None:
        raw[constant] = f"{_text(each[constant])}, at the columns' means"
    index = pd.Index(posterior.features, name="feature")
    return pd.DataFrame({"prior": [_text(own) for own in each], "in_data_units": raw}, index=index)


def _of_sds(posterior: Posterior) -> pd.DataFrame:
    """Return the priors of sds and correlations of effects and of the sd of noise, with the columns of `described`."""
    rows, prior, design = {}, group_prior_of(posterior.attrs), posterior.design
    for own in () if prior is None or design is None else design.groups:
        assert prior is not None
        assert design is not None
        several = len(own.effects) > 1
        centred = any(own.is_correlated_with_intercept(effect) for effect in own.effects if effect != "1")
        at = ", at the columns' means" if centred and design.scale is not None else ""
        for effect in own.effects:
            name = f"sigma_{own.name}[{effect}]" if several else f"sigma_{own.name}"
            raw = effect == "1" or effect in dict(own.sums)
            scale = 1.0 if raw else float(design.scales[design.names.index(effect)])
            rows[name] = _group_text(prior), f"{_group_text(prior, scale)}{at if effect == '1' else ''}"
        if len(own.pairs[0]):
            rows[f"rho_{own.name}"] = f"LKJ(eta={LKJ_ETA:g})", f"LKJ(eta={LKJ_ETA:g}){at}"
    if "sd_prior" in posterior.attrs:
        text = _group_text(group_prior_from_dict(json.loads(posterior.attrs["sd_prior"])))
        rows["sigma"] = text, text
    index = pd.Index(list(rows), name="feature", dtype=object)
    return pd.DataFrame(list(rows.values()), index=index, columns=["prior", "in_data_units"])


def _group_text(prior: GroupPrior, scale: float = 1.0) -> str:
    shown = {name: value / scale if name == "sigma" else value for name, value in prior.parameters().items()}
    return f"{type(prior).__name__}({', '.join(f'{name}={value:.4g}' for name, value in shown.items())})"


def _text(prior: Prior, scale: float = 1.0) -> str:
    """Return the class and the parameters of a coefficient's prior, in units `scale` times as large."""
    own = {key: value for key, value in prior.parameters().items() if not isinstance(value, bool)}
    shown = {key: value / scale if key in prior.in_units else value for key, value in own.items()}
    return f"{type(prior).__name__}({', '.join(f'{key}={value:.4g}' for key, value in shown.items())})"


@dataclass(frozen=True, eq=False)
class GroupEffects:
    """Draws of the effects of one grouping factor on the linear predictor, shape (S, G), of all chains.

    `family` is the name of the rows' family; empty if the posterior does not tell.
    """

    factor: str
    levels: tuple[Any, ...]
    draws: FloatArray
    family: str

    @property
    def scale(self) -> str:
        """What a linear predictor is called under the likelihood."""
        family = find_family(self.family)
        return Family.scale if family is None else family.scale


def read_effects(idata: Any, var_name: str | None = None, effect: str | None = None) -> GroupEffects:
    """Read the effects of groups out of InferenceData: of `sample`, `model` or a model of one's own.

    Where several vary, `effect` is "1" for the intercept, the default, or what has slopes, in units of the design.

    Raises
    ------
    TypeError, DataError
        If `idata` is something else, has no variable `var_name`, by default the only `u_g`, of dims chain, draw and
        one of groups, or draws that are not finite.
    """
    if not is_inference_data(idata):
        raise TypeError(f"idata is of type {type(idata).__name__}; give InferenceData, as bayescore.sample returns")
    source = idata["posterior"]
    variables = [str(name) for name in source.data_vars]
    effects = [name for name in variables if name.startswith("u_")] if var_name is None else [var_name]
    if len(effects) != 1 or effects[0] not in variables:
        what = "no one variable u_g" if var_name is None else f"no variable {var_name!r}"
        shown = sorted(effects) if len(effects) > 1 else variables
        raise DataError(
            f"idata has {what} with effects of groups (found: {', '.join(map(repr, shown))}); give var_name="
        )
    var_name = effects[0]
    variable = source[var_name].transpose("chain", "draw", ...)
    name = str(variable.dims[2]) if variable.ndim > 2 else ""
    if variable.ndim == 4:
        own = str(variable.dims[3])
        names = [str(each) for each in source[own].values] if own in source.coords else []
        asked = names[0] if effect is None and names else effect
        if asked not in names:
            raise DataError(f"effect={effect!r} is not one of {var_name!r}, whose effects are {', '.join(names)}")
        variable = variable[..., names.index(asked)]
        name = name if asked == "1" else f"{asked} by {name}"
    elif effect not in (None, "1"):
        raise DataError(f"effect={effect!r} does not vary by {name!r}: {var_name!r} has intercepts alone; leave it out")
    if variable.ndim != 3:
        raise DataError(f"{var_name!r} has dims {variable.dims}; they must be chain, draw and one of groups")
    draws = np.asarray(variable.values, dtype=np.float64).reshape(-1, variable.shape[2])
    if not np.isfinite(draws).all():
        raise DataError(f"draws of {var_name!r} are NaN or infinite; sample again")
    dim = str(variable.dims[2])
    levels = source[dim].values.tolist() if dim in source.coords else range(draws.shape[1])
    return GroupEffects(name, tuple(levels), draws, str(source.attrs.get("family", "")))


def scale_names(grouping: Grouping) -> list[str]:
    """Return what the logarithms of the sds of a factor's effects are called, in the order of the effects."""
    name, effects = f"log sigma_{grouping.name}", grouping.effects
    return [f"{name}[{effect}]" for effect in effects] if len(effects) > 1 else [name]


def with_scales(posterior: Posterior, groups: tuple[Grouping, ...]) -> Posterior:
    """Return draws of beta, the log sds of effects, of their correlations Fisher's z, and the log sd of the noise.

    Draws that lack an sd, or have those of other effects, which nobody can judge, come back as they are.
    """
    parts, names, variables = [posterior.flat], list(posterior.features), posterior.variables
    wanted = {name: shape for own in groups for name, shape in parameters(own).items() if not name.startswith("u_")}
    if any(name not in variables or variables[name].shape[1:] != shape for name, shape in wanted.items()):
        return posterior
    for own in groups:
        parts.append(np.log(variables[f"sigma_{own.name}"].reshape(-1, len(own.effects))))
        names += scale_names(own)
        if len(own.pairs[0]):
            rho = variables[f"rho_{own.name}"]
            parts.append(np.arctanh(np.clip(rho, -1.0 + 1e-12, 1.0 - 1e-12)))
            names += [f"z of rho_{own.name}[{k}]" for k in range(rho.shape[1])]
    if posterior.sd is not None:
        parts.append(np.log(posterior.sd)[:, None])
        names.append("log sigma")
    draws = np.concatenate(parts, axis=1).reshape(*posterior.draws.shape[:2], -1)
    attrs = {key: value for key, value in posterior.attrs.items() if key != "design"}
    return replace(posterior, draws=draws, features=tuple(names), attrs=attrs)
