"""Whether draws of coefficients whose priors have long tails reach all that the posterior has of these.

What no chain has visited, no figure of draws shows: a second mode, or a shelf far out that holds a hundredth of the
mass and half of the variance. The marginal density of such a coefficient by Laplace's method (`models.profile`) shows
it.
"""

import numpy as np

from bayescore.diagnostics.results import Need, Remedy
from bayescore.families import Family
from bayescore.limits import MAX_DRAWS
from bayescore.models.laplace import NoModeError
from bayescore.models.profile import marginal, weakly_informed
from bayescore.priors import Prior
from bayescore.samplers.posterior import Posterior
from bayescore.text import number
from bayescore.types import FloatArray, WeightedData

_QUARTILES = np.array([0.25, 0.5, 0.75])
_SD = 0.15  # relatively, by which an sd may be off: below `limits.MAX_ERROR`, as Laplace's method errs, too
_SHARE = 0.1  # of probability, by which a quartile may be off: a quarter of an sd of a normal density
_TIMES = 4  # more draws than those that were refused


def unseen(
    posterior: Posterior,
    drawn: FloatArray,
    rows: WeightedData,
    family: Family,
    prior: Prior | None,
    *,
    given_effects: bool = False,
) -> tuple[str, Remedy] | None:
    """Return what draws of coefficients, shape (S, D), miss of marginal densities, and the remedy; None if nothing.

    ``given_effects`` is for rows whose offsets have the effects of groups: marginal densities are then too narrow, and
    only draws that are narrower still are refused.
    """
    if prior is None or not prior.long_tails:
        return None
    try:
        places = weakly_informed(rows, family, prior)
    except NoModeError:
        return None
    for d in places:
        try:
            found = marginal(rows, family, prior, int(d))
        except NoModeError:
            continue
        name, own = posterior.features[d], drawn[:, d]
        of_one = prior.of_coefficient(int(d), name, len(posterior.features))
        gap = float(np.log(found.sd / own.std())) if of_one.finite_variance and own.std() > 0.0 else 0.0
        share = found.below(np.quantile(own, _QUARTILES))
        what = ""
        if gap > _SD or (gap < -_SD and not given_effects):
            what = f"the draws' sd of {name!r} is {number(np.exp(-gap), 2)} times"
        elif not given_effects and (off := np.abs(share - _QUARTILES)).max() > _SHARE:
            k = int(off.argmax())
            what = f"below the draws' quantile {_QUARTILES[k]:g} of {name!r} is {number(share[k], 2)} of the mass of"
        if what:
            n = posterior.draws.shape[1]
            more = min(_TIMES * n, max(MAX_DRAWS, n))
            text = (
                f"Too few draws: {what} what quadrature along it finds, as its prior has long tails, the rows say "
                "little of it, and chains are rarely far out; "
                + (f"sample with draws={more}, or give" if more > n else "give")
                + " it a prior with lighter tails."
            )
            return text, Remedy(Need.DRAWS, _TIMES * n)
    return None
