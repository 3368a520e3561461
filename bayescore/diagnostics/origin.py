r"""Whose draws are these? Nothing is certified of draws that are not those of the coreset's posterior.

`sample` keeps with its draws a digest of the coreset's rows, the prior, the likelihood and a digest of the draws. Draws
that are no longer the same bits are a subset (a slice, thinned, a chain less), or were changed: then the log density
that the sampler stored must be that of the coreset's posterior at each draw, up to one constant for all. Chains that
repeat each other are seen by comparison.

All draws are held to Stein's identities of the density p that they are said to have, g its log's gradient at theta:

.. math:: \mathrm E\, g = 0, \qquad \mathrm E\, (\theta - \bar\theta)(K g)' = -K

for any matrix K; with K near the covariance, K mean(g) is how far the draws' mean is from p's, and the second says by
how much their variances are off. Each may miss by `CLOSE` and by what Monte Carlo error explains. Draws that were not
made by `sample`, whose prior is not known, must meet them with the prior left out: they are then the posterior under
any prior that matters little.

Reference: Stein (1972), Proc. Sixth Berkeley Symp. 2, 583-602; Gorham and Mackey (2015), Measuring sample quality with
Stein's method, NeurIPS.
"""

import json
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from bayescore.data.coreset import Coreset
from bayescore.diagnostics.draws import ess_mean
from bayescore.diagnostics.errors import sidak_quantile
from bayescore.diagnostics.wording import number
from bayescore.limits import CLOSE
from bayescore.models.gaussian import factor_of_inverse
from bayescore.models.posterior import likelihood_terms, log_likelihoods
from bayescore.models.prior_ratio import ClosedForm, OfModel, score
from bayescore.models.priors import prior_from_dict
from bayescore.samplers.inference_data import Posterior, draws_digest
from bayescore.types import FloatArray, Likelihood
from bayescore.validation import DataError

COPIED = 0.01  # share of a chain's draws that stand in another one: continuous draws never meet
_LOOKED_AT = 100  # draws whose stored log density is computed anew
_DENSITY = 1e-3  # nats by which that may differ; a shift by 0.01 sd in one coordinate shows
_ROUNDING = 1e-9  # of the log density's own size
_STEIN_DRAWS = 1000


@dataclass(frozen=True)
class Origin:
    """What is known of draws.

    Parameters
    ----------
    prior : PriorRatio, optional
        The prior that they were drawn under; None where it is not known or has no density in closed form.
    ours : bool
        Whether `sample` drew them from this coreset, and nobody changed them.
    trouble : str
        Why nothing can be certified of them; empty if nothing is.
    """

    prior: ClosedForm | OfModel | None
    ours: bool
    trouble: str = ""


def origin_of(posterior: Posterior, core: Coreset, link: Likelihood) -> Origin:
    """Return what the draws' attributes, their log densities and a comparison of the chains tell."""
    told = json.loads(posterior.attrs.get("posterior_of", "{}"))
    prior = prior_from_dict(told["prior"]) if "prior" in told else None
    known = ClosedForm(prior) if prior is not None and prior.family is not None else None
    if "corrected" in posterior.attrs:
        return Origin(known, False, "The draws are corrected ones already; certify the posterior that they came from.")
    if told and told["rows"] != core.rows_digest:
        return Origin(
            known, False, "The draws are of another coreset's posterior, or the coreset was changed; sample this one."
        )
    copies = _copies(posterior.draws)
    if copies is not None:
        return Origin(
            known,
            False,
            f"Chain {copies[1]} repeats draws of chain {copies[0]}: they are one run. Drop the copies, or sample again "
            "with another seed for each chain.",
        )
    if not told:
        return Origin(None, False)
    if told["draws"] == draws_digest(posterior.draws):
        return Origin(known, True)
    if known is None or posterior.log_density is None:
        return Origin(known, False)
    gap = _density_gap(posterior, posterior.log_density, core, link, known)
    if gap > 0.0:
        return Origin(
            known,
            False,
            "The draws were changed after sampling: the log densities stored with them are not those of the coreset's "
            f"posterior there, by {number(gap, 2)} nats. Certify what sample returned, or parts of it.",
        )
    return Origin(known, True)


def miss(posterior: Posterior, core: Coreset, link: Likelihood, origin: Origin) -> str:
    """Return how the draws miss Stein's identities of the density that they are said to have; empty if they do not."""
    if origin.prior is None and origin.ours:
        return ""  # no density, but `sample` made them
    at = posterior.positions(_STEIN_DRAWS)
    draws, names, of_beta = posterior.flat[at], list(posterior.features), slice(None)
    slope = np.zeros_like(draws)
    if isinstance(origin.prior, OfModel):
        values, gradients, names, place = origin.prior.joint(at)
        of_beta = place
        if place.stop:
            slope = gradients[:, place] - score(draws, core, link)
        draws = values
    else:
        if origin.prior is not None:
            slope = origin.prior.gradient(at, draws)
        gradients = score(draws, core, link) + slope
    K = np.diag(draws.var(axis=0, ddof=1))
    if draws[:, of_beta].size:
        K[of_beta, of_beta] = _scale(draws[:, of_beta], slope, core, link, K[of_beta, of_beta])
    shape = (len(posterior.draws), -1, len(names))
    found = stein(draws.reshape(shape), gradients.reshape(shape), K, names)
    if not found:
        return ""
    if origin.prior is not None:
        return f"The draws are not those of the posterior of the coreset: {found} Sample again, with longer warm-up."
    return (
        "The draws were not made by bayescore.sample, or were changed since, and they are not those of the coreset's "
        f"posterior under a prior that matters little: {found} If they are of a model of your own, give model=."
    )


def _scale(draws: FloatArray, slope: FloatArray, core: Coreset, link: Likelihood, plain: FloatArray) -> FloatArray:
    """Return the inverse of minus the Hessian at the draws' median, shape (D, D); `plain` where there is none.

    It does not depend on the draws' own covariance, whose noise the identities would see. The prior's part is the slope
    of its gradient, shape (S, D), over the draws.
    """
    center = np.median(draws, axis=0)
    precision = likelihood_terms(center, core.X, core.weights, link, core.y).precision
    moves = draws - draws.mean(axis=0)
    of_prior = -(moves * slope).sum(axis=0) / np.maximum((moves**2).sum(axis=0), 1e-300)
    floor = 1e-8 * np.abs(np.diagonal(precision)).max()
    try:
        factor = factor_of_inverse(precision + np.diag(np.maximum(of_prior, floor)))
    except DataError:
        return plain
    return np.asarray(factor @ factor.T)


def stein(chains: FloatArray, gradients: FloatArray, K: FloatArray, names: list[str]) -> str:
    """Return how draws, shape (chain, draw, P), miss Stein's identities, given their log density's gradients."""
    flat, width = chains.reshape(-1, chains.shape[2]), np.sqrt(np.diagonal(K))
    moves = gradients @ K
    families = {
        "mean": (moves / width, " sd"),
        "variance": (-(chains - flat.mean(axis=0)) * moves / width**2 - 1.0, " of itself"),
    }
    quantile = sidak_quantile(2 * flat.shape[1])
    for what, (terms, unit) in families.items():
        off = terms.mean(axis=(0, 1))
        mcse = terms.std(axis=(0, 1), ddof=1) / np.sqrt(np.minimum(ess_mean(terms), len(flat)))
        excess = np.abs(off) - quantile * mcse - CLOSE
        if (excess > 0.0).any():
            i = int(excess.argmax())
            return f"the {what} of {names[i]!r} misses Stein's identity by {number(abs(off[i]), 2)}{unit}."
    return ""


def _copies(draws: FloatArray) -> tuple[int, int] | None:
    """Return two chains of which one repeats draws of the other, if there are any."""
    rows = [{point.tobytes() for point in chain} for chain in draws]
    for first, second in combinations(range(len(rows)), 2):
        if len(rows[first] & rows[second]) > COPIED * min(len(rows[first]), len(rows[second])):
            return first, second
    return None


def _density_gap(posterior: Posterior, stored: FloatArray, core: Coreset, link: Likelihood, prior: ClosedForm) -> float:
    """Return by how much stored log densities differ from the posterior's, a constant apart; 0 within rounding."""
    each = np.linspace(0, stored.size - 1, min(_LOOKED_AT, stored.size)).round().astype(np.int64)
    draws, values = posterior.flat[each], stored.ravel()[each]
    gap = values - log_likelihoods(draws, core, link) - prior.log_density(draws)
    worst = float(np.abs(gap - np.median(gap)).max())
    return worst if worst > _DENSITY + _ROUNDING * float(np.abs(values).max()) else 0.0
