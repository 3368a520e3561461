"""Effects of groups whose draws are too many to keep: a summary of all, and draws of any when they are asked for.

`sample` keeps draws of as many groups as `KEPT_BYTES` hold, and mean, sd and quantiles of all in ``constant_data``.
Given (beta, sigma) effects are independent of each other, and the rows are kept with the draws: so draws of any group
follow from what is kept, by the seed, and are the same whatever else was asked for.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from bayescore.data.coreset import Coreset
from bayescore.data.design import Design, Grouping
from bayescore.models.collapsed import CollapsedArguments
from bayescore.models.collapsed_target import CollapsedTarget
from bayescore.models.effect_draws import EffectDraws, EffectSummary
from bayescore.models.families import check_family
from bayescore.models.group_priors import group_prior_from_dict
from bayescore.models.priors import prior_from_dict
from bayescore.types import IntArray
from bayescore.validation import DataError, json_object

if TYPE_CHECKING:
    import xarray as xr

KEPT_BYTES = 16 << 20
"""Bytes of the draws of effects that `sample` keeps, 4 for each group and draw."""

QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)
_DAMAGED = "the attributes of its posterior are not those that bayescore.sample wrote; sample again"


def draw_keys(chains: int | IntArray, draws: int | IntArray) -> IntArray:
    """Return a number for each draw of each chain, shape (chains * draws,), by numbers of chains and draws."""
    own, each = (np.arange(part) if isinstance(part, int) else part for part in (chains, draws))
    return np.asarray(((own[:, None] << 32) + each).ravel(), dtype=np.int64)


def level_dim(grouping: Grouping) -> str:
    """Return the dimension of all levels in ``constant_data``, where a factor may be called what the rows' own is."""
    return f"{grouping.name}_level"


def summary_dataset(summary: EffectSummary, grouping: Grouping) -> "xr.Dataset":
    """Return mean, sd and quantiles of all effects of a factor, for ``constant_data``."""
    import xarray as xr  # the command line lists samplers without it

    name, dims = grouping.name, (level_dim(grouping),)
    variables: dict[str, Any] = {
        f"u_{name}_mean": (dims, summary.mean),
        f"u_{name}_sd": (dims, summary.sd),
        f"u_{name}_quantiles": (("quantile", *dims), np.quantile(summary.draws, QUANTILES, axis=0).astype(np.float32)),
    }
    return xr.Dataset(variables, coords={dims[0]: list(grouping.levels), "quantile": list(QUANTILES)})


def unkept_effects(idata: Any, design: Design) -> EffectDraws | None:
    """Return the effects of all groups, where the posterior keeps draws of some only; else None."""
    posterior = idata["posterior"]
    if "effects_seed" not in posterior.attrs:
        return None
    own, constant = design.groups[0], idata.get("constant_data", {})
    wanted = ("X", "y", "weights", "group", f"u_{own.name}_mean")
    if missing := [name for name in wanted if name not in constant]:
        raise DataError(f"idata lacks {missing[0]!r} in constant_data, from which effects of groups follow; keep it")
    beta, sigma = (posterior[name].transpose("chain", "draw", ...) for name in ("beta", f"sigma_{own.name}"))
    theta = np.concatenate([beta.values, np.log(sigma.values)[..., None]], axis=2)
    keys = draw_keys(*(posterior[name].values.astype(np.int64) for name in ("chain", "draw")))
    place = {level: k for k, level in enumerate(own.levels)}
    kept = np.array([place[level] for level in posterior[own.name].values.tolist()], dtype=np.int64)
    moved = None
    if f"u_{own.name}_shift" in constant:
        moved = constant[f"u_{own.name}_shift"].values, constant[f"u_{own.name}_stretch"].values

    def find() -> CollapsedArguments:
        return _target(idata, design).arguments()

    mean, flat = np.asarray(constant[f"u_{own.name}_mean"].values, dtype=np.float64), theta.reshape(-1, theta.shape[2])
    return EffectDraws(flat, keys, int(posterior.attrs["effects_seed"]), mean, find, kept, moved)


def _target(idata: Any, design: Design) -> CollapsedTarget:
    """Return the posterior of the rows that draws keep."""
    attrs, constant = idata["posterior"].attrs, idata["constant_data"]
    made = json_object(attrs.get("coreset", "{}"), _DAMAGED)
    offset = constant["offset"].values if "offset" in constant else None
    rows = [constant[name].values for name in ("X", "y", "weights", "row")]
    try:
        about = {key: made[key] for key in ("label", "n_total", "weight_total", "method", "family", "params")}
        about |= {key: made[key] for key in ("random_state", "version")} | {"classes": tuple(made["classes"])}
        about |= {"design": design, "offset": offset, "group": constant["group"].values}
        core = Coreset(*rows, **about)
        prior = prior_from_dict(json_object(attrs["effects_prior"], _DAMAGED))
        group_prior = group_prior_from_dict(json_object(attrs["group_prior"], _DAMAGED))
    except (KeyError, TypeError, ValueError):
        raise DataError(f"idata has effects of groups that cannot be drawn: {_DAMAGED}") from None
    return CollapsedTarget.of(core, check_family(attrs["family"]), (prior, group_prior), len(design.groups[0]))
