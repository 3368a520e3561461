"""Draws and summaries of the effects of any groups, whether `sample` kept their draws or not."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescore.compat import is_inference_data
from bayescore.models.effect_draws import EffectDraws
from bayescore.samplers.group_effects import QUANTILES
from bayescore.samplers.inference_data import read_posterior
from bayescore.validation import DataError


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
