r"""From draws of a coreset's posterior to weighted draws of the full data's: Newton pass, transport, importance weights.

One pass over the full data at the mode of the coreset's posterior gives gradient and Hessian there and, by a Newton
step, the mode t and the Hessian H of the full posterior (more passes where the step is long). `Transport` moves the
draws from the coreset's mode and Hessian to those, and a second pass weighs them:

.. math:: \log w = L(\theta') + \log\pi_0(\theta') - \tilde L(\theta) - \log\pi_0(\theta)

The affine map carries what differs in location and scale, in any number of columns; the weights carry the rest, the
shape. Without a smooth prior the draws stay where they are (theta' = theta, and the prior cancels); they are moved
where that leaves the weights bad, and stay where moving does.

References
----------
See `models.transport`, and Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25.
"""

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from bayescore.compat import psislw
from bayescore.data.coreset import Coreset
from bayescore.data.opened import Opened
from bayescore.diagnostics.elpd import PassSums, pass_sums
from bayescore.diagnostics.full_pass import check_weight
from bayescore.diagnostics.origin import log_prior
from bayescore.limits import MAX_K, MAX_LOG_RATIO_SD, MIN_ESS_SHARE, NEARLY_EQUAL
from bayescore.models.newton import NoModeError, find_mode
from bayescore.models.posterior import Terms, likelihood_terms, log_likelihoods, posterior, prior_part
from bayescore.models.priors import SMOOTH, Prior
from bayescore.models.transport import Transport
from bayescore.types import FloatArray, Likelihood, WeightedData
from bayescore.validation import DataError

NEAR = 0.1  # Newton decrement in sds, all coordinates together, after which one more step lands on the mode
MAX_STEPS = 6  # passes for the mode, before draws are left where they are


@dataclass(frozen=True, eq=False)
class Move:
    """How draws are moved.

    Parameters
    ----------
    map : Transport, optional
        None leaves them where they are.
    covariance : array, shape (D, D), optional
        Inverse of minus the Hessian of the coreset's log posterior at its mode, where that is known.
    """

    map: Transport | None = None
    covariance: FloatArray | None = None

    def __call__(self, draws: FloatArray) -> FloatArray:
        """Return moved draws, shape (..., D)."""
        return draws if self.map is None else self.map(draws)


@dataclass(frozen=True, eq=False)
class Weighted:
    """Draws and their importance weights.

    Parameters
    ----------
    move : Move
        What moved them.
    log_ratio : array, shape (S,)
        Log importance weights, the largest 0.
    weights : array, shape (S,)
        Pareto smoothed weights, which sum to 1.
    pareto_k : float
        Their k-hat; 0 where they are as good as equal.
    epsilon : float
        Largest |L - L~| / |L| over the moved draws.
    sums : PassSums
        What the pass kept, for the elpd.
    """

    move: Move
    log_ratio: FloatArray
    weights: FloatArray
    pareto_k: float
    epsilon: float
    sums: PassSums

    @property
    def ess(self) -> float:
        """Effective sample size of the weights."""
        return float(1.0 / (self.weights**2).sum())

    @property
    def spread(self) -> float:
        """Standard deviation of the log ratio."""
        return float(self.log_ratio.std())

    @property
    def good(self) -> bool:
        """Whether they can be trusted."""
        return self.pareto_k < MAX_K and self.ess >= MIN_ESS_SHARE * len(self.weights)


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
    prior : prior, optional
        The posterior's prior; None where it is not known.
    """

    core: Coreset
    opened: Opened
    link: Likelihood
    prior: Prior | None

    def terms(self, beta: FloatArray) -> Terms:
        """Return the full data's log-likelihood and its derivatives; one pass."""
        link = self.link

        def of_block(_: int, block: WeightedData) -> Terms:
            return likelihood_terms(beta, block.X, block.weights, link, block.y)

        return reduce(add, self.opened.map(of_block, "Newton pass", canonical=True))

    def transport(self, guess: FloatArray) -> Move:
        """Return the map from the coreset's mode, sought from `guess`, to the full posterior's; still if there is none."""
        prior = self.prior
        if prior is None or prior.family not in SMOOTH:
            return Move()
        try:
            own = find_mode(posterior(self.core, self.link, prior).terms, guess, max_steps=100)
            full = find_mode(
                lambda beta: self.terms(beta) + prior_part(beta, prior), own.beta, tolerance=NEAR, max_steps=MAX_STEPS
            )
            end = full.beta + full.covariance @ full.terms.gradient
            return Move(Transport.between(own.beta, own.terms.precision, end, full.terms.precision), own.covariance)
        except (NoModeError, DataError):  # no mode, or none with a scale
            return Move()

    def weigh(self, draws: FloatArray, move: Move) -> Weighted:
        """Return weights of draws of shape (S, D) after a move; one pass.

        Raises
        ------
        DataError
            If the data weigh something else than what the coreset stands for.
        """
        moved, link = move(draws), self.link
        sums = reduce(
            add,
            self.opened.map(lambda start, block: pass_sums(moved, start, block, link), "certifying", canonical=True),
        )
        check_weight(self.core, sums.weight)
        full, own = sums.log_likelihood, log_likelihoods(draws, self.core, link)
        there = own
        ratio = full - own
        if move.map is not None and self.prior is not None:
            there = log_likelihoods(moved, self.core, link)
            ratio = ratio + log_prior(moved, self.prior) - log_prior(draws, self.prior)
        ratio = ratio - ratio.max()
        smoothed, k = psislw(ratio)
        weights = np.exp(np.asarray(smoothed, dtype=np.float64))
        return Weighted(
            move,
            ratio,
            weights / weights.sum(),
            float(k) if ratio.std() > NEARLY_EQUAL else 0.0,
            float(np.max(np.abs(full - there) / np.abs(full))),
            sums,
        )

    def best(self, draws: FloatArray, guess: FloatArray) -> Weighted:
        """Return weights after the transport, or without it where that leaves better ones."""
        moved = self.weigh(draws, self.transport(guess))
        if moved.move.map is None or (moved.good and moved.spread < MAX_LOG_RATIO_SD):
            return moved
        still = self.weigh(draws, Move(None, moved.move.covariance))
        return min(moved, still, key=lambda each: (not each.good, each.spread))
