"""What samplers of rows with groups share: the prior of sds, the memory of effects, and what draws say about groups."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bayescore.data.design import Grouping, terms_text
from bayescore.models.group_priors import (
    DEFAULT_GROUP_PRIOR,
    GroupPrior,
    check_group_prior,
    group_prior_from_dict,
    group_prior_to_dict,
)
from bayescore.samplers.method import Option, Request
from bayescore.validation import DataError

MAX_EFFECTS_BYTES = 4 << 30
"""Bytes of the draws of all effects, 8 for each group and draw, above which they are refused before work starts."""

GROUP_PRIOR = Option(
    DEFAULT_GROUP_PRIOR,
    lambda value, _name: check_group_prior(value),
    "HalfStudentT or HalfNormal, the prior of the sds of the effects",
)


def check_effects(request: Request, n_effects: int, what: str) -> None:
    """Raise `DataError` if the draws of so many effects, called `what`, take more than `MAX_EFFECTS_BYTES`."""
    each = 8 * n_effects * request.chains
    if each * request.draws > MAX_EFFECTS_BYTES:
        raise DataError(
            f"draws of {n_effects:,} {what} take {each * request.draws:,} bytes, more than {MAX_EFFECTS_BYTES:,}: ask "
            f"for {MAX_EFFECTS_BYTES // each} draws a chain or fewer"
        )


def tell_groups(idata: Any, groups: Sequence[Grouping], group_prior: GroupPrior, names: Iterable[str]) -> None:
    """Add to the posterior's attributes its group terms, their prior, and digests of the variables `names`."""
    from bayescore.samplers.inference_data import draws_digest  # imports ArviZ

    posterior = idata["posterior"]
    posterior.attrs.update(
        group_terms=terms_text(groups),
        group_prior=json.dumps(group_prior_to_dict(group_prior)),
        effects_of=json.dumps({name: draws_digest(posterior[name].values) for name in names}),
    )


def group_prior_of(attrs: Mapping[str, Any]) -> GroupPrior | None:
    """Return the prior that `tell_groups` wrote into a posterior's attributes; None where there is none."""
    return group_prior_from_dict(json.loads(attrs["group_prior"])) if "group_prior" in attrs else None
