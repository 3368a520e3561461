"""Draws that `sample` hands over moved to the full data's posterior (`models.moving`), and the way back."""

from typing import Any

import numpy as np

from bayescore.data.coreset import Coreset
from bayescore.limits import MAX_LOG_RATIO_SD
from bayescore.models.families import Family, check_family
from bayescore.models.gaussian import Transport
from bayescore.models.moving import MOVED, StaysError, left_over, to_full
from bayescore.models.priors import Prior, prior_from_dict
from bayescore.samplers.inference_data import Posterior
from bayescore.validation import DataError

_LOOKED_AT = 500  # draws by which it is decided whether to move them, at least if there are so many
_GAIN = 2.0  # least ratio of the log ratio's spread before and after a move of draws that are still far off after it


def hand_over(idata: Any, core: Coreset, family: str, prior: Prior) -> str:
    """Move the draws of `beta` of a coreset's posterior; return the attribute that says so, or why they stay.

    They stay where what is left of the log ratio to the full data's posterior spreads by `MAX_LOG_RATIO_SD` or more,
    and by more than half of what it is without a move.
    """
    beta, own = idata.posterior["beta"].transpose("chain", "draw", ...), check_family(family)
    try:
        transport = to_full(core, own, prior)
    except StaysError as why:
        return f"no: {why}"
    some = beta.values[:, :: max(1, beta.sizes["chain"] * beta.sizes["draw"] // _LOOKED_AT)]
    before, left = left_over(core, own, prior, some.reshape(-1, core.n_features), transport)
    if not left < max(MAX_LOG_RATIO_SD, before / _GAIN):
        return f"no: mode and curvature say too little of the draws (sd of what is left {left:.2g} nats)"
    idata.posterior["beta"] = beta.copy(data=np.ascontiguousarray(transport(beta.values)))
    return MOVED


def move_of(posterior: Posterior, core: Coreset, family: Family) -> Transport | None:
    """Return the map by which `sample` moved draws of this coreset's posterior; None where it did not.

    Raises
    ------
    DataError
        If it moved them, and the coreset does not know where to.
    """
    story = posterior.story
    if not story.get("moved") or story["rows"] != core.rows_digest or story["family"] != family.name:
        return None
    try:
        return to_full(core, family, prior_from_dict(story["prior"]))
    except StaysError as why:
        raise DataError(
            f"{posterior.name}: its draws were moved {MOVED}, which this coreset does not know ({why}): give the "
            "coreset that was sampled, with its shortfall"
        ) from None
