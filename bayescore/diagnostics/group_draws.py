"""Draws of group effects as arrays: what the pictures and pages of draws with groups read."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayescore.samplers.inference_data import Posterior, is_posterior
from bayescore.types import FloatArray
from bayescore.validation import DataError


@dataclass(frozen=True, eq=False)
class GroupEffects:
    """Draws of the effects of one grouping factor.

    Parameters
    ----------
    factor : str
        Name of the grouping factor.
    levels : tuple
        Its groups.
    draws : array, shape (S, G)
        Effects on the linear predictor, draws of all chains below each other.
    likelihood : str
        Likelihood of the rows; empty if the posterior does not tell.
    """

    factor: str
    levels: tuple[Any, ...]
    draws: FloatArray
    likelihood: str

    @property
    def scale(self) -> str:
        """What a linear predictor is called under the likelihood."""
        return {"logistic": "log odds", "probit": "probit"}.get(self.likelihood, "linear predictor")


def read_effects(idata: Any, var_name: str | None = None) -> GroupEffects:
    """Read the effects of groups out of InferenceData: of `sample`, `multilevel_model` or a model of one's own.

    Raises
    ------
    TypeError, DataError
        If `idata` is something else, has no variable `var_name`, by default the only `u_g`, of dims chain, draw and
        one of groups, or draws that are not finite.
    """
    if not is_posterior(idata):
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
    return GroupEffects(dim, tuple(levels), draws, str(source.attrs.get("likelihood", "")))


def with_log_sigma(idata: Any, posterior: Posterior, factor: str) -> Posterior:
    """Return the draws of (beta, log sigma) of the model `(1 | factor)`."""
    sigma = np.asarray(idata["posterior"][f"sigma_{factor}"].transpose("chain", "draw").values, dtype=np.float64)
    draws = np.concatenate([posterior.draws, np.log(sigma)[..., None]], axis=2)
    attrs = {key: value for key, value in posterior.attrs.items() if key != "design"}
    return replace(posterior, draws=draws, features=(*posterior.features, f"log sigma_{factor}"), attrs=attrs)
