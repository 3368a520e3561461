r"""From draws of a coreset's posterior to weighted draws of the full data's: Newton step, transport, weights.

One pass over the full data at the mode of the coreset's posterior gives gradient and Hessian there and, by a Newton
step, the mode t and the Hessian H of the full posterior (more passes where the step is long). `Transport` moves the
draws from the coreset's mode and Hessian to those, and a second pass weighs them:

.. math:: \log w = L(\theta') + \log\pi_0(\theta') - \tilde L(\theta) - \log\pi_0(\theta)

The affine map carries what differs in location and scale, in any number of columns; the weights carry the rest, the
shape. Where the prior is not smooth the draws stay where they are (theta' = theta, and the prior cancels) unless the
weights are bad; where it is not known they do in any case.

References
----------
See `models.transport`. Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from operator import add

import numpy as np

from bayescore.data.coreset import Coreset
from bayescore.data.opened import Opened
from bayescore.diagnostics.elpd import PassSums, pass_sums
from bayescore.diagnostics.full_pass import check_finite, check_weight
from bayescore.diagnostics.full_weights import FullWeights, full_weights
from bayescore.diagnostics.leave_out import Density
from bayescore.limits import MAX_LOG_RATIO_SD
from bayescore.models.newton import NoModeError, find_mode
from bayescore.models.posterior import Terms, full_terms, likelihood_terms, log_likelihoods, posterior, prior_part
from bayescore.models.prior_ratio import ClosedForm, PriorRatio, mean_curvature
from bayescore.models.transport import Transport
from bayescore.types import FloatArray, IntArray, Likelihood
from bayescore.validation import DataError

NEAR = 0.1  # Newton decrement in sds, all coordinates together, after which one more step lands on the mode
MAX_STEPS = 6  # passes for the mode, before draws are left where they are


@dataclass(frozen=True, eq=False)
class Weighted(FullWeights):
    """Draws and their importance weights.

    Parameters
    ----------
    log_ratio, weights, pareto_k
        See `FullWeights`.
    transport : Transport, optional
        What moved them; None where they stay.
    epsilon : float
        Largest |L - L~| / |L| over the moved draws.
    sums : PassSums
        What the pass kept, for the elpd.
    """

    transport: Transport | None
    epsilon: float
    sums: PassSums

    def moved(self, draws: FloatArray) -> FloatArray:
        """Return draws, shape (..., D), where the transport moves them."""
        return draws if self.transport is None else self.transport(draws)


@dataclass(frozen=True, eq=False)
class Correction:
    """The passes over the full data that correct a coreset's posterior.

    Parameters
    ----------
    core : Coreset
        The coreset.
    opened : Opened
        The full data.
    link : Likelihood
        The likelihood.
    draws : array, shape (S, D)
        The coreset's posterior; `at` below are positions in it.
    prior : PriorRatio, optional
        The prior of the draws; None where it is not known, and draws cannot be moved.
    """

    core: Coreset
    opened: Opened
    link: Likelihood
    draws: FloatArray
    prior: PriorRatio | None

    def best(self, at: IntArray) -> Weighted:
        """Return weights of some draws: moved or not, as leaves better ones.

        Where the prior is smooth they are moved first, elsewhere only if the weights are bad as they are. So it is with
        pseudo-rows, which meet the posterior's mean and covariance, and not its mode (`condensed`).
        """
        smooth = self.prior is not None and self.prior.prior is not None and not self.core.pseudo.any()
        first = self.weigh(at, self.transport(at) if smooth else None)
        if self.prior is None or ((first.good or first.unsure) and first.spread < MAX_LOG_RATIO_SD):
            return first
        other = None if smooth else self.transport(at)
        if (other is None) == (first.transport is None):  # there is but one way
            return first
        return min(first, self.weigh(at, other), key=lambda each: (not each.good, each.spread))

    def transport(self, at: IntArray) -> Transport | None:
        """Return the map from the coreset's mode and Hessian to the full posterior's; none where one is missing.

        Where the prior's own curvature says nothing of its width, a normal one stands in, with the slope that the
        prior's gradient has over the draws; the map then starts from their median.
        """
        assert self.prior is not None
        guess, rows = np.median(self.draws, axis=0), self.core
        density: Callable[[FloatArray], Terms]
        try:
            if self.prior.prior is not None:
                density = partial(prior_part, prior=self.prior.prior)
                mode = find_mode(posterior(rows, self.link, self.prior.prior).terms, guess, max_steps=100)
                start, own = mode.beta, mode.terms.precision
            else:
                here = likelihood_terms(guess, rows, self.link)
                density = _stand_in(self.draws[at], self.prior.gradient(at, self.draws[at]), guess, here.gradient)
                start, own = guess, here.precision + density(guess).precision
            full = find_mode(
                lambda beta: self._full_terms(beta, density(beta)),
                start,
                tolerance=NEAR,
                max_steps=MAX_STEPS,
            )
            end = full.beta + full.covariance @ full.terms.gradient
            return Transport.between(start, own, end, full.terms.precision)
        except (NoModeError, DataError):  # no mode, or none with a scale
            return None

    def _full_terms(self, beta: FloatArray, own: Terms) -> Terms:
        terms = full_terms(beta, self.opened, self.link, own)
        check_finite(self.opened, terms.precision)
        return terms

    def density(self, transport: Transport | None) -> Density | None:
        """Return the log density of moved draws, up to a constant; None where the prior has none in closed form."""
        prior = self.prior
        if not isinstance(prior, ClosedForm):
            return None
        back = transport.inverse if transport is not None else lambda draws: draws

        def of_moved(draws: FloatArray) -> FloatArray:
            own = back(draws)
            return log_likelihoods(own, self.core, self.link) + prior.log_density(own)

        return of_moved

    def weigh(self, at: IntArray, transport: Transport | None) -> Weighted:
        """Return weights of some draws after a move; one pass.

        Raises
        ------
        DataError
            If an entry of the data is not finite, or they weigh something else than what the coreset stands for.
        """
        draws, link = self.draws[at], self.link
        moved = draws if transport is None else transport(draws)
        sums = reduce(
            add,
            self.opened.map(lambda start, block: pass_sums(moved, start, block, link), "certifying", canonical=True),
        )
        check_finite(self.opened, sums.log_likelihood)
        check_weight(self.core, sums.weight)
        full, own = sums.log_likelihood, log_likelihoods(draws, self.core, link)
        ratio, there = full - own, own
        if transport is not None and self.prior is not None:
            there = log_likelihoods(moved, self.core, link)
            ratio = ratio + self.prior.log_ratio(at, draws, moved)
        epsilon = float(np.max(np.abs(full - there) / np.abs(full)))
        return Weighted(**vars(full_weights(ratio)), transport=transport, epsilon=epsilon, sums=sums)


def _stand_in(
    draws: FloatArray, gradients: FloatArray, center: FloatArray, score: FloatArray
) -> Callable[[FloatArray], Terms]:
    """Return a normal log prior of independent coefficients: its slope that of the gradients over the draws.

    At `center` it balances the coreset's `score`, which makes that the coreset's mode.
    """
    precision = np.maximum(mean_curvature(draws, gradients), 0.0)

    def terms(beta: FloatArray) -> Terms:
        step = beta - center
        gradient = -score - precision * step
        return Terms(float(-score @ step - 0.5 * precision @ step**2), gradient, np.diag(precision))

    return terms
