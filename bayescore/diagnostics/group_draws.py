"""Draws of group effects as arrays: what the pictures and pages of draws with groups read."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayescore.compat import is_inference_data
from bayescore.data.design import Grouping
from bayescore.models.families import Family, find_family
from bayescore.models.predictor import parameters
from bayescore.samplers.inference_data import Posterior
from bayescore.types import FloatArray
from bayescore.validation import DataError


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


def read_effects(idata: Any, var_name: str | None = None) -> GroupEffects:
    """Read the effects of groups out of InferenceData: of `sample`, `model` or a model of one's own.

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
        raise DataError(
            f"idata has {what} with effects of groups (found: {', '.join(map(repr, variables))}); give var_name="
        )
    var_name = effects[0]
    variable = source[var_name].transpose("chain", "draw", ...)
    if variable.ndim != 3:
        raise DataError(f"{var_name!r} has dims {variable.dims}; they must be chain, draw and one of groups")
    draws = np.asarray(variable.values, dtype=np.float64).reshape(-1, variable.shape[2])
    if not np.isfinite(draws).all():
        raise DataError(f"draws of {var_name!r} are NaN or infinite; sample again")
    dim = str(variable.dims[2])
    levels = source[dim].values.tolist() if dim in source.coords else range(draws.shape[1])
    return GroupEffects(dim, tuple(levels), draws, str(source.attrs.get("family", "")))


def scale_names(grouping: Grouping) -> list[str]:
    """Return what the logarithms of the sds of a factor's effects are called, in the order of the effects."""
    name, effects = f"log sigma_{grouping.name}", grouping.effects
    return [f"{name}[{effect}]" for effect in effects] if len(effects) > 1 else [name]


def with_scales(posterior: Posterior, groups: tuple[Grouping, ...]) -> Posterior:
    """Return draws of beta, the log sds of effects, and of their correlations Fisher's z.

    Draws that lack an sd, or have those of other effects, which nobody can judge, come back as they are.
    """
    parts, names, variables = [posterior.flat], list(posterior.features), posterior.variables
    wanted = {name: shape for own in groups for name, shape in parameters(own).items() if not name.startswith("u_")}
    if any(name not in variables or variables[name].shape[1:] != shape for name, shape in wanted.items()):
        return posterior
    for own in groups:
        parts.append(np.log(variables[f"sigma_{own.name}"].reshape(-1, len(own.effects))))
        names += scale_names(own)
        if len(own.effects) > 1:
            rho = variables[f"rho_{own.name}"]
            parts.append(np.arctanh(np.clip(rho, -1.0 + 1e-12, 1.0 - 1e-12)))
            names += [f"z of rho_{own.name}[{k}]" for k in range(rho.shape[1])]
    draws = np.concatenate(parts, axis=1).reshape(*posterior.draws.shape[:2], -1)
    attrs = {key: value for key, value in posterior.attrs.items() if key != "design"}
    return replace(posterior, draws=draws, features=tuple(names), attrs=attrs)
