r"""Draws of a coreset's posterior moved to the mode and the curvature of the full data's, without a pass over the data.

With the quadratic Q of `Shortfall`, what the coreset's log-likelihood L~ misses of the full data's, and the prior,

.. math:: \log\pi(\theta) \approx \tilde L(\theta) + Q(\theta) + \log\pi_0(\theta)

has a mode t and a curvature H, found by Newton's method on the coreset's rows. `Transport` takes draws from the mode
and the curvature of the coreset's posterior to those. They are exact to second order for the prior of the build, whose
mode is where Q was taken; for another prior the error is of third order in how far that moves the mode.

The map is determined by the coreset and the prior, so that what made moved draws can be found again.
"""

from bayescore.data.coreset import Coreset
from bayescore.data.shortfall import Shortfall
from bayescore.models.families import Family
from bayescore.models.gaussian import Transport
from bayescore.models.newton import NoModeError, find_mode
from bayescore.models.posterior import Derivatives, likelihood_terms, log_likelihoods, posterior
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError

MOVED = "to the mode and curvature of all rows"  # attribute "moved" of draws that were


class StaysError(Exception):
    """Draws stay where they are; the message says why."""


def shortfall_of(rows: WeightedData, point: FloatArray, full: Derivatives, family: Family) -> Shortfall:
    """Return what rows miss at a point of the full data's log-likelihood, whose derivatives there are `full`."""
    left = full - likelihood_terms(point, rows, family)
    return Shortfall(point, left.gradient, 0.5 * (left.precision + left.precision.T))


def missed_terms(missed: Shortfall, beta: FloatArray) -> Derivatives:
    """Return the quadratic of a shortfall at coefficients, with its derivatives."""
    return Derivatives(float(missed.value(beta)), missed.at(beta).score, missed.precision)


def left_over(
    core: Coreset, family: Family, prior: Prior, draws: FloatArray, transport: Transport
) -> tuple[float, float]:
    """Return sds, in nats, of the log ratio to the full data's posterior of draws, shape (S, D): as drawn, and moved.

    They are those of log importance weights, if the quadratic Q were all that the coreset misses. Of normal posteriors
    nothing is left. Much is left where draws lie so far out that mode and curvature say little of them.
    """
    missed, moved = core.shortfall, transport(draws)
    assert missed is not None
    there, here = (log_likelihoods(each, core, family) + prior.log_density(each) for each in (moved, draws))
    return float(missed.value(draws).std()), float((there + missed.value(moved) - here).std())


def to_full(core: WeightedData, family: Family, prior: Prior) -> Transport:
    """Return the map of draws of a coreset's posterior, or raise `StaysError`."""
    known = core.shortfall if isinstance(core, Coreset) else None
    if known is None:
        raise StaysError(_unknown(core))
    if isinstance(core, Coreset) and core.family != family.name:
        raise StaysError("the coreset was built for another family")
    if not (prior.closed_form and prior.smooth):
        raise StaysError("the prior has no curvature in closed form")
    target = posterior(core, family, prior)

    def terms(beta: FloatArray) -> Derivatives:
        return target.terms(beta) + missed_terms(known, beta)

    try:
        own = find_mode(target.terms, known.point, max_steps=100)
        full = find_mode(terms, known.point, max_steps=100)
        return Transport.between(own.beta, own.terms.precision, full.beta, full.terms.precision)
    except (NoModeError, DataError):
        raise StaysError("the curvature of all rows is not positive definite near the mode") from None


def _unknown(core: WeightedData) -> str:
    if isinstance(core, Coreset) and core.lossless:
        return "the coreset has all rows"
    if core.pseudo.any():
        return "pseudo-rows meet score and curvature on average over the posterior, and not at the mode"
    return "the coreset does not know the score and curvature of all rows"
