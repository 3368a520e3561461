"""What prior each coefficient was given, and what that is in units of the data where columns were standardised.

A prior of location m and scale s of a standardised column is one of location m / sd and scale s / sd of the column
itself, sd the column's standard deviation. That of the intercept is of the linear predictor where all columns are at
their means, as in rstanarm's and brms's `prior_summary`.

Draws of groups' effects as arrays: what the pictures and pages of draws with groups read.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescore.data.design import Design, Grouping
from bayescore.families import Family
from bayescore.families.family import find_family
from bayescore.models.predictor import parameters
from bayescore.priors import Prior
from bayescore.priors.groups import LKJ_ETA, GroupPrior
from bayescore.samplers.posterior import SIZE_PRIOR, Posterior, number_names, raw_scales, read_posterior
from bayescore.types import FloatArray, IntArray
from bayescore.validation import DataError


def prior_summary(idata: Any) -> pd.DataFrame:
    """Return the prior of each coefficient, as it was given and in units of the data; see `Fit.prior_summary`."""
    posterior = read_posterior(idata, "idata", min_draws=1)
    table = prior_table(posterior)
    if table is None:
        raise DataError("idata does not tell its prior; give what bayescore.sample returned for a coreset")
    return pd.concat([table, _sd_priors(posterior)])


def prior_table(posterior: Posterior) -> pd.DataFrame | None:
    """Return `prior_summary`; None where the prior is not known."""
    if not posterior.story:
        return None
    prior, D = posterior.prior, len(posterior.features)
    each = [prior.of_coefficient(d, name, D) for d, name in enumerate(posterior.features)]
    design, scales, constant = posterior.design, np.ones(D), None
    if design is not None and design.scale is not None:
        scales, constant = design.scales, design.constant
    shown = [_prior_text(one) for one in each]
    raw = [_prior_text(one, scale) for one, scale in zip(each, scales, strict=True)]
    for bends in prior.bends:
        for place, scale in zip(bends.places, bends.scales, strict=True):
            shown[place] = f"Normal(mu=0, sigma={scale:.4g} {bends.name})"
            raw[place] = f"Normal(mu=0, sigma={bends.name})"
    if constant is not None:
        raw[constant] = f"{_prior_text(each[constant])}, at the columns' means"
    index = pd.Index(posterior.features, name="feature")
    return pd.DataFrame({"prior": shown, "in_data_units": raw}, index=index)


def _sd_priors(posterior: Posterior) -> pd.DataFrame:
    """Return the priors of all other parameters, with the columns of `prior_table`."""
    rows, prior, design = {}, posterior.group_prior, posterior.design
    for group in () if prior is None or design is None else design.groups:
        assert prior is not None
        assert design is not None
        several = len(group.effects) > 1
        centred = any(group.is_correlated_with_intercept(effect) for effect in group.effects if effect != "1")
        at = ", at the columns' means" if centred and design.scale is not None else ""
        for effect in group.effects:
            name = f"sigma_{group.name}[{effect}]" if several else f"sigma_{group.name}"
            raw = effect == "1" or effect in dict(group.sums)
            scale = 1.0 if raw else float(design.scales[design.names.index(effect)])
            rows[name] = _group_text(prior), f"{_group_text(prior, scale)}{at if effect == '1' else ''}"
        if len(group.pairs[0]):
            rows[f"rho_{group.name}"] = f"LKJ(eta={LKJ_ETA:g})", f"LKJ(eta={LKJ_ETA:g}){at}"
    for bends in posterior.prior.bends if posterior.story else ():
        rows[bends.name] = bends.prior_text, bends.prior_text
    for name in number_names(posterior.attrs):
        prior = posterior.sd_prior if name == "sigma" else None
        text = posterior.attrs[SIZE_PRIOR] if prior is None else _group_text(prior)
        rows[name] = text, text
    index = pd.Index(list(rows), name="feature", dtype=object)
    return pd.DataFrame(list(rows.values()), index=index, columns=["prior", "in_data_units"])


def _group_text(prior: GroupPrior, scale: float = 1.0) -> str:
    shown = {name: value / scale if name == "sigma" else value for name, value in prior.parameters().items()}
    return f"{type(prior).__name__}({', '.join(f'{name}={value:.4g}' for name, value in shown.items())})"


def _prior_text(prior: Prior, scale: float = 1.0) -> str:
    """Return the class and the parameters of a coefficient's prior, in units `scale` times as large."""
    if prior.bends:
        return str(prior)
    named = {key: value for key, value in prior.parameters().items() if not isinstance(value, bool)}
    shown = {key: value / scale if key in prior.in_units else value for key, value in named.items()}
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


def scale_names(grouping: Grouping) -> list[str]:
    """Return what the logarithms of the sds of a factor's effects are called, in the order of the effects."""
    name, effects = f"log sigma_{grouping.name}", grouping.effects
    return [f"{name}[{effect}]" for effect in effects] if len(effects) > 1 else [name]


def with_scales(posterior: Posterior, groups: tuple[Grouping, ...]) -> Posterior:
    """Return draws of beta, the log sds of effects, of their correlations Fisher's z, and the log sd of the noise.

    Draws that lack an sd, or have those of other effects, which nobody can judge, come back as they are.
    """
    parts, names, variables = [posterior.flat], list(posterior.features), posterior.variables
    wanted = {name: shape for group in groups for name, shape in parameters(group).items() if not name.startswith("u_")}
    if any(name not in variables or variables[name].shape[1:] != shape for name, shape in wanted.items()):
        return posterior
    for group in groups:
        parts.append(np.log(variables[f"sigma_{group.name}"].reshape(-1, len(group.effects))))
        names += scale_names(group)
        if len(group.pairs[0]):
            rho = variables[f"rho_{group.name}"]
            parts.append(_fisher_z(rho))
            names += [f"z of rho_{group.name}[{k}]" for k in range(rho.shape[1])]
    for name, values in posterior.numbers.items():
        parts.append(np.log(values)[:, None])
        names.append(f"log {name}")
    draws = np.concatenate(parts, axis=1).reshape(*posterior.draws.shape[:2], -1)
    attrs = {key: value for key, value in posterior.attrs.items() if key != "design"}
    return replace(posterior, draws=draws, features=tuple(names), attrs=attrs)


@dataclass(frozen=True, eq=False)
class DataUnits:
    """The map from the coordinates of `with_scales`, which certificates judge, to units of the data's own columns.

    A coordinate is multiplied by `factor` and shifted by `shift`, shape (K,) each. Those that depend on others too are
    `mixed`: the intercept, which is judged where all columns are at their means and shown where they are 0, and the sds
    and correlations of effects that are correlated with an effect of the intercept.
    """

    design: Design

    @cached_property
    def _layout(self) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        design = self.design
        parts = [(1.0 / design.scales, np.zeros(len(design.names)), np.zeros(len(design.names), dtype=bool))]
        if design.center is not None and design.constant is not None:
            parts[0][2][design.constant] = any(design.center)
        for group in design.groups:
            A, (i, j) = design.raw_effects_map(group), group.pairs
            diagonal = np.diagonal(A)
            bent = (np.diag(diagonal) != A).any(axis=1)
            shift = np.concatenate([np.log(diagonal), np.zeros(len(i))])
            parts.append((np.ones(len(shift)), shift, np.concatenate([bent, bent[i] | bent[j]])))
        parts.append((np.ones(2), np.zeros(2), np.zeros(2, dtype=bool)))  # logs of the family's numbers, at most two
        factor, shift, mixed = (np.concatenate(each) for each in zip(*parts, strict=True))
        return factor, shift, mixed

    def factor(self, K: int) -> FloatArray:
        """Return by what K coordinates are multiplied."""
        return self._layout[0][:K]

    def shift(self, K: int) -> FloatArray:
        """Return by what K coordinates are shifted."""
        return self._layout[1][:K]

    def mixed(self, K: int) -> IntArray:
        """Return the places of those of K coordinates that depend on others."""
        return np.flatnonzero(self._layout[2][:K])

    def __call__(self, draws: FloatArray) -> FloatArray:
        """Return draws of K coordinates, shape (..., K), in units of the data."""
        K, design, D = draws.shape[-1], self.design, len(self.design.names)
        shown = draws * self.factor(K) + self.shift(K)
        if not len(self.mixed(K)):
            return shown
        shown[..., :D] = design.raw_coefficients(draws[..., :D])
        at = D
        for group in design.groups if K > D else ():
            q, n_pairs = len(group.effects), len(group.pairs[0])
            sds, rhos = slice(at, at + q), slice(at + q, at + q + n_pairs)
            if self._layout[2][at : at + q].any():
                sigma, rho = np.exp(draws[..., sds]).reshape(-1, q), np.tanh(draws[..., rhos])
                drawn = {f"sigma_{group.name}": sigma, f"rho_{group.name}": rho}
                sd, correlation = raw_scales(group, design.raw_effects_map(group), drawn)
                shown[..., sds] = np.log(sd).reshape(*draws.shape[:-1], q)
                shown[..., rhos] = _fisher_z(correlation).reshape(*draws.shape[:-1], n_pairs)
            at += q + n_pairs
        return shown


def _fisher_z(rho: FloatArray) -> FloatArray:
    return np.arctanh(np.clip(rho, -1.0 + 1e-12, 1.0 - 1e-12))
