r"""Whose draws are these? Nothing is certified of draws that are not those of the coreset's posterior.

`sample` keeps with its draws a digest of the coreset's rows, the prior, the likelihood and a digest of the draws. Draws
that are no longer the same bits are a subset (a slice, thinned, a chain less), or were changed: then the log density
that the sampler stored must be that of the coreset's posterior at each draw, up to one constant for all. Points that
are met again after others came between, in the same chain or another, are one run given twice.

All draws are held to Stein's identities of the density that they are said to have (`stein`). Of draws that `sample`
made, coordinates whose sd is not about sqrt(K_ii) are left to R-hat and ESS. Draws that were not made by `sample`,
whose prior is not known, must meet all identities with the prior left out: they are then the posterior under any prior
that matters little.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayescore.data.coreset import Coreset
from bayescore.diagnostics.certificate.stein import NORMAL, STEIN_DRAWS, stein
from bayescore.diagnostics.formatting import number
from bayescore.models.families import Family
from bayescore.models.gaussian import factor_of_inverse
from bayescore.models.posterior import likelihood_terms, log_likelihoods
from bayescore.models.prior_ratio import ClosedForm, OfModel, mean_curvature, score
from bayescore.models.priors import prior_from_dict
from bayescore.samplers.inference_data import Posterior, draws_digest
from bayescore.types import FloatArray
from bayescore.validation import DataError

COPIED = 0.01  # share of points that may be met twice: continuous draws never are, but for rejected proposals
_DENSITY = 1e-3  # nats by which that may differ; a shift by 0.01 sd in one coordinate shows
_ROUNDING = 1e-9  # of the log density's own size
_FLOOR = 1e-8  # of the prior's precision, relative to the data's: the sum is positive definite in floating point


@dataclass(frozen=True)
class Origin:
    """What is known of draws."""

    prior: ClosedForm | OfModel | None  # None where it is not known, or has no density in closed form
    told: bool = False  # `sample` drew them from this coreset, and nobody changed them
    trouble: str = ""  # why nothing can be certified of them


def origin_of(posterior: Posterior, core: Coreset, family: Family) -> Origin:
    """Return what the draws' attributes, their log densities and a comparison of all points tell."""
    story = posterior.story
    prior = prior_from_dict(story["prior"]) if story else None
    known = ClosedForm(prior) if prior is not None and prior.closed_form else None
    if trouble := _refused(posterior, core, family):
        return Origin(known, trouble=trouble)
    if not story:
        return Origin(None)
    if story["draws"] == draws_digest(posterior.draws):
        return Origin(known, told=True)
    if known is None or posterior.log_density is None:
        return Origin(known)
    gap = _density_gap(posterior, posterior.log_density, core, family, known)
    if gap == 0.0:
        return Origin(known, told=True)
    return Origin(
        known,
        trouble="The draws were changed after sampling: the log densities stored with them are not those of the "
        f"coreset's posterior there, by {number(gap, 2)} nats. Certify what sample returned, or parts of it.",
    )


def trouble_of_groups(idata: Any, posterior: Posterior, core: Coreset) -> str:
    """Return why draws with effects of groups are none that `sample` made of this coreset; empty if they are."""
    story, attrs = posterior.story, posterior.attrs
    if "corrected" not in attrs and (not story or "effects_of" not in attrs):
        return "The draws were not made by bayescore.sample of a coreset with groups; sample it."
    if trouble := _of_another(posterior, core):
        return trouble
    told = {"beta": story["draws"], **json.loads(attrs["effects_of"])}
    source = idata["posterior"]
    if any(name not in source or draws_digest(source[name].values) != own for name, own in told.items()):
        return "The draws were changed after sampling; certify what sample returned."
    return ""


def _of_another(posterior: Posterior, core: Coreset) -> str:
    if "corrected" in posterior.attrs:
        return "The draws are corrected ones already; certify the posterior that they came from."
    if posterior.story and posterior.story["rows"] != core.rows_digest:
        return "The draws are of another coreset's posterior, or the coreset was changed; sample this one."
    return ""


def _refused(posterior: Posterior, core: Coreset, family: Family) -> str:
    story = posterior.story
    if trouble := _of_another(posterior, core):
        return trouble
    if story and story["family"] != family.name:
        return f"The draws were made with the family {story['family']!r}, not {family.name!r}; sample again."
    repeated = _repeated(posterior.draws)
    if repeated > COPIED:
        return (
            f"Draws repeat: {repeated:.0%} of the points are met again after others, in the same chain or another, so "
            "that one run was given twice. Drop the copies, or sample again with another seed for each chain."
        )
    return ""


def miss(posterior: Posterior, core: Coreset, family: Family, origin: Origin) -> str:
    """Return how the draws miss Stein's identities of the density that they are said to have; empty if they do not."""
    if origin.prior is None and origin.told:
        return ""  # no density, but `sample` made them
    at = posterior.positions(STEIN_DRAWS)
    draws, names, of_beta = posterior.flat[at], list(posterior.features), slice(None)
    slope = np.zeros_like(draws)
    if isinstance(origin.prior, OfModel):
        values, gradients, names, place = origin.prior.joint(at)
        of_beta = place
        if place.stop:
            slope = gradients[:, place] - score(draws, core, family)
        draws = values
    else:
        if origin.prior is not None:
            slope = origin.prior.gradient(at, draws)
        gradients = score(draws, core, family) + slope
    K = np.diag(draws.var(axis=0, ddof=1))
    if draws[:, of_beta].size:
        own = draws[:, of_beta]
        precision = likelihood_terms(np.median(own, axis=0), core, family).precision
        K[of_beta, of_beta] = covariance_of(precision, own, slope, K[of_beta, of_beta])
    shape = (len(posterior.draws), -1, len(names))
    most = NORMAL if origin.told else math.inf
    found = stein(draws.reshape(shape), gradients.reshape(shape), K, names, most=most)
    if not found:
        return ""
    if origin.prior is not None:
        return (
            f"The draws are not those of the posterior of the coreset: {found} If nobody changed them, sample again, "
            "with longer warm-up."
        )
    return (
        "The draws were not made by bayescore.sample, or were changed since, and they are not those of the coreset's "
        f"posterior under a prior that matters little: {found} If they are of a model of your own, give model=."
    )


def covariance_of(precision: FloatArray, draws: FloatArray, slope: FloatArray, plain: FloatArray) -> FloatArray:
    """Return the inverse of minus the Hessian, (D, D), given the rows' part `precision`; `plain` where it has none.

    It does not depend on the draws' own covariance, whose noise the identities would see. The prior's part is the
    `mean_curvature` of its gradients `slope`, shape (S, D).
    """
    floor = _FLOOR * np.abs(np.diagonal(precision)).max()
    try:
        factor = factor_of_inverse(precision + np.diag(np.maximum(mean_curvature(draws, slope), floor)))
    except DataError:
        return plain
    return np.asarray(factor @ factor.T)


def _repeated(draws: FloatArray) -> float:
    """Return the share of points that are met again, stays of a chain at one point (rejections) counted once."""
    moves = np.ones(draws.shape[:2], dtype=bool)
    moves[:, 1:] = (draws[:, 1:] != draws[:, :-1]).any(axis=2)
    points = np.ascontiguousarray(draws[moves])
    single = np.unique(points.view(f"V{points.itemsize * points.shape[1]}"))
    return 1.0 - len(single) / len(points)


def _density_gap(posterior: Posterior, stored: FloatArray, core: Coreset, family: Family, prior: ClosedForm) -> float:
    """Return by how much stored log densities differ from the posterior's, a constant apart; 0 within rounding."""
    draws, values = posterior.flat, stored.ravel()
    gap = values - log_likelihoods(draws, core, family) - prior.log_density(draws)
    worst = float(np.abs(gap - np.median(gap)).max())
    return worst if worst > _DENSITY + _ROUNDING * float(np.abs(values).max()) else 0.0
