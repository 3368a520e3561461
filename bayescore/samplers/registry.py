"""The samplers that `sample` knows, and the one check that a sampler fits a likelihood and a prior."""

from collections.abc import Collection

from bayescore.data.design import one_intercept
from bayescore.priors import Prior
from bayescore.priors.prior import names
from bayescore.samplers.adaptive import LANGEVIN
from bayescore.samplers.gibbs import GIBBS
from bayescore.samplers.groups import COLLAPSED, JOINT
from bayescore.samplers.mala import MALA
from bayescore.samplers.method import Sampler
from bayescore.samplers.normal import NORMAL
from bayescore.samplers.nuts import NUTS
from bayescore.samplers.polya_gamma import POLYA_GAMMA
from bayescore.types import WeightedData

AUTO = "auto"
# the general ones first: messages name them last
SAMPLERS: dict[str, Sampler] = {
    sampler.name: sampler for sampler in (NUTS, MALA, LANGEVIN, GIBBS, POLYA_GAMMA, COLLAPSED, JOINT, NORMAL)
}


def by_default(
    data: WeightedData, family: str, prior: Prior, options: Collection[str], *, sd_unknown: bool = False
) -> Sampler:
    """Return the sampler of `AUTO`: `LANGEVIN` where it fits the prior and the options, else NUTS.

    With groups the collapsed sampler where one intercept varies, else the joint one where it fits, else NUTS. Of
    numbers whose sd is unknown `NORMAL` where it fits, else one that draws the sd, too.
    """
    if sd_unknown:
        fit_in = fits(NORMAL, family, prior) and (data.group is None or prior.gaussian)
        return NORMAL if fit_in and set(options) <= set(NORMAL.options) else NUTS
    if data.group is not None:
        if one_intercept(getattr(data, "groups", ())):
            return COLLAPSED
        return JOINT if fits(JOINT, family, prior) and set(options) <= set(JOINT.options) else NUTS
    return LANGEVIN if fits(LANGEVIN, family, prior) and set(options) <= set(LANGEVIN.options) else NUTS


def fits(sampler: Sampler, family: str, prior: Prior) -> bool:
    """Say whether `sampler` declares that it fits both."""
    families = sampler.families is None or family in sampler.families
    return families and sampler.fits_prior(prior)


def others(sampler: Sampler, family: str, prior: Prior, *, general: bool = False) -> str:
    """Return the names of other samplers that fit, for a message; if `general`, of those that fit every likelihood."""
    fitting = [
        repr(other.name)
        for other in reversed(SAMPLERS.values())
        if other not in (sampler, NORMAL)  # which is for one family, and its default
        and (other.grouped == sampler.grouped or (other.grouped is None and not sampler.grouped))
        and fits(other, family, prior)
        and not (general and other.families)
    ]
    return " or ".join([", ".join(fitting[:-1]), fitting[-1]] if len(fitting) > 1 else fitting)


def check_fit(sampler: Sampler, family: str, prior: Prior) -> None:
    """Raise ValueError unless `sampler` fits the likelihood and the prior; the message names those that do."""
    if fits(sampler, family, prior):
        return
    if sampler.families is not None and family not in sampler.families:
        reason = f"is for the {' and '.join(sampler.families)} family and this one is {family}"
    else:
        reason = f"fits the priors {names(sampler.fits_prior)}, and this one is {prior}: it {sampler.because}"
    remedy = f"sampler={known}" if (known := others(sampler, family, prior)) else "another prior"
    raise ValueError(f"sampler={sampler.name!r} {reason}; use {remedy}")


def check_sd(sampler: Sampler, family: str, *, unknown: bool) -> None:
    """Raise ValueError if `sampler` would take the unknown sd of noise as given, or is for one and it is given."""
    if unknown and not sampler.draws_sd:
        raise ValueError(
            f"sampler={sampler.name!r} takes the sd of the noise as given, and this one is a parameter: leave sampler "
            f"out, or give the sd, family={family!r}"
        )
    if sampler is NORMAL and not unknown:
        raise ValueError(
            f"sampler={sampler.name!r} is for numbers whose sd is unknown, of a coreset built with family='normal', "
            f"and this family is {family!r}; leave sampler out"
        )


def check_rows(sampler: Sampler, data: WeightedData) -> None:
    """Raise ValueError if `sampler` would not know of the groups of rows, or needs some."""
    if sampler.grouped in (None, data.group is not None):
        return
    if sampler.grouped:
        raise ValueError(f"sampler={sampler.name!r} is for rows with groups, and core has none; leave sampler out")
    raise ValueError(
        f"core has groups, which sampler={sampler.name!r} knows nothing of: use sampler={COLLAPSED.name!r} "
        f"for (1 | g), else {JOINT.name!r} or {NUTS.name!r}"
    )


def described() -> str:
    """Return one line for each sampler: its name, what it is, and what it fits."""
    rule = f"{LANGEVIN.name} where it fits the prior and the options"
    grouped = f"of rows with groups {COLLAPSED.name} for (1 | g), else {JOINT.name} where it fits, else {NUTS.name}"
    numbers = f"of numbers with an unknown sd {NORMAL.name} where it fits"
    lines = [f'* ``"{AUTO}"``: {rule}, else {NUTS.name}; {grouped}; {numbers}']
    for name, sampler in SAMPLERS.items():
        families = "any likelihood" if sampler.families is None else f"{', '.join(sampler.families)} likelihood"
        priors = names(sampler.fits_prior) if sampler.needs else "any prior"
        lines.append(f'* ``"{name}"``: {sampler.about}; {families}; {priors}')
    return "\n        ".join(lines)


def options_described() -> str:
    """Return one line for each sampler: the options that it takes."""
    return "\n        ".join(f'* ``"{name}"``: {sampler.takes}' for name, sampler in SAMPLERS.items())
