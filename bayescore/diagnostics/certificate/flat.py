r"""Draws of models without group terms: a Newton step, an affine transport, importance weights.

One pass over the full data at the mode of the coreset's posterior gives gradient and Hessian there and, by a Newton
step, the mode t and the Hessian H of the full posterior (more passes where the step is long). `Transport` moves the
draws from the coreset's mode and Hessian to those, and sums over a sample of the rows, which the same pass draws, weigh
them (`row_sums`; all rows in one more pass where that sample does not tell enough):

.. math:: \log w = L(\theta') + \log\pi_0(\theta') - \tilde L(\theta) - \log\pi_0(\theta)

The affine map carries what differs in location and scale, in any number of columns; the weights carry the rest, the
shape. Where the prior is not smooth the draws stay where they are (theta' = theta, and the prior cancels) unless the
weights are bad; where it is not known they do in any case.

References
----------
See `models.laplace`. Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescore.coresets.separation import warn_if_completely_separated
from bayescore.data.coreset import Coreset, Shortfall
from bayescore.data.dataset import Dataset
from bayescore.diagnostics.certificate.provenance import (
    Origin,
    missed_identities,
    missed_tails,
    origin_of,
    transport_by_sample,
    trouble_of_densities,
)
from bayescore.diagnostics.certificate.weigh import Weighed
from bayescore.diagnostics.elpd import Density, PassSums, SampledCounts, elpd_loo
from bayescore.diagnostics.results import Remedy
from bayescore.diagnostics.row_sums import EveryRowPlan, RowSums, RowSumsPlan, check_finite, check_weight
from bayescore.families import Family
from bayescore.limits import MAX_LOG_RATIO_SD, MAX_TAIL_K
from bayescore.models.laplace import (
    LaplaceApproximation,
    NoModeError,
    Transport,
    factor_of_inverse,
    find_mode,
    missed_terms,
)
from bayescore.models.posterior import (
    ClosedForm,
    Derivatives,
    OfModel,
    PriorRatio,
    full_terms,
    likelihood_terms,
    log_likelihoods,
    posterior,
    prior_part,
    stand_in,
)
from bayescore.numerics.psis import full_weights, tail_k
from bayescore.priors import Prior
from bayescore.samplers.posterior import Posterior
from bayescore.types import FloatArray, IntArray
from bayescore.validation import DataError

_SEPARATED, _UNKNOWN = 2.0, 1.28  # sds of k-hat: 2% and 10% of those at the limit are not seen


def without_moments(k: FloatArray, n_draws: int, prior: Prior | None, *, separated: bool) -> NDArray[np.bool_]:
    """Return which coordinates have no sd, by `tail_k` of their draws; `prior` is None where it is not known.

    Likelihoods are bounded, so that under a prior with a variance every coordinate has one, however long a chain was
    far out: its Monte Carlo error says so.
    """
    long = prior is not None and not prior.finite_variance
    if prior is not None and not long:
        return np.zeros(len(k), dtype=bool)
    sd = (1.0 + MAX_TAIL_K) / math.sqrt(min(n_draws / 5.0, 3.0 * math.sqrt(n_draws)))
    return k > MAX_TAIL_K - (_SEPARATED if separated and long else _UNKNOWN) * sd


MODE_DECREMENT = 0.1  # Newton decrement in sds, all coordinates together, after which one more step lands on the mode


MAX_STEPS = 6  # passes for the mode, before draws are left where they are


_FOREIGN = (
    "The draws are not as bayescore.sample made them: they are those of the coreset's posterior under a prior that "
    "matters little, and are judged as that."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class MovedDraws(Weighed):
    """Draws that `transport` moved, or that stay where it is None, and what the pass kept for the elpd.

    `from_drawn` is the map to the same place from where the draws were before `sample` moved them.
    """

    by: "FlatStrategy"
    sums: PassSums
    from_drawn: Transport | None

    @property
    def weigh_all(self) -> "Callable[[], MovedDraws]":
        """What weighs all draws after the same move."""
        return partial(self.by.weigh_after, np.arange(len(self.by.draws)), self.from_drawn)

    def elpd(self, counts: SampledCounts | None = None) -> dict[str, Any]:
        """Return the leave-one-out predictive density of the full data."""
        by, weights, moved = self.by, self.weights, self.moved(self.by.posterior.flat[self.at])
        density, n_chains = by.density(self.from_drawn), len(by.posterior.draws)
        options = dict[str, Any](n_chains=n_chains, density=density, counts=counts)
        return elpd_loo(self.sums, weights.log_ratio, weights.weights, moved, by.family, **options)

    def values(self, posterior: Posterior, kept: IntArray | None) -> dict[str, FloatArray]:
        """Return the moved coefficients, and with them the sds of smooth terms; a horseshoe's hyperparameters stay."""
        draws = posterior.draws
        beta = self.moved(draws)
        values = {"beta": beta}
        for bends in posterior.prior.bends if posterior.story and self.transport is not None else ():
            sds = posterior.variables[bends.name].reshape(draws.shape[:2])
            values[bends.name] = bends.moved_sds(sds, draws, beta)
        if kept is None:
            return values
        flat = {name: each.reshape(-1, *each.shape[2:]) for name, each in values.items()}
        return {name: flat[name][self.at[kept]].reshape(each.shape) for name, each in values.items()}


@dataclass(frozen=True, eq=False)
class FlatStrategy:
    """The strategy for models without group terms; `at` below are positions in the posterior's flat draws.

    `model` gives the prior of a user's model, `carried` what rows of `dataset` miss: some may be those of a coreset.
    """

    posterior: Posterior
    core: Coreset
    dataset: Dataset
    family: Family
    model: Callable[[], OfModel] | None = None
    carried: Shortfall | None = None

    @cached_property
    def move(self) -> Transport | None:
        """The map by which `sample` moved the draws from those of the coreset's posterior; None where it did not."""
        return transport_by_sample(self.posterior, self.core, self.family, own_model=self.model is not None)

    @cached_property
    def drawn(self) -> Posterior:
        """The draws before `sample` moved them: those of the coreset's posterior."""
        if self.move is None:
            return self.posterior
        return replace(self.posterior, draws=self.move.inverse(self.posterior.draws))

    @cached_property
    def origin(self) -> Origin:
        """What is known of the draws."""
        origin = origin_of(self.posterior, self.core, self.family, self.draws)
        if self.model is None or origin.trouble:
            return origin
        prior = self.model()
        return Origin(
            prior, trouble=trouble_of_densities(self.posterior, prior.log_densities, unchanged=origin.unchanged)
        )

    @property
    def scope(self) -> str:
        """Word of draws under a prior that is not known."""
        return _FOREIGN if self.origin.prior is None else ""

    @property
    def draws(self) -> FloatArray:
        """All draws of the coreset's posterior, (S, D)."""
        return self.drawn.flat

    @property
    def prior(self) -> PriorRatio | None:
        """The prior of the draws; None where it is not known, and draws cannot be moved."""
        drawn_under = self.origin.prior
        return drawn_under if not isinstance(drawn_under, OfModel) or drawn_under.moves else None

    @property
    def remedy(self) -> str:
        """What to build in its place."""
        if self.core.method != "calibrated":
            return "Build the coreset with method='calibrated'."
        return f"Build the coreset with size={2 * len(self.core)}."

    def provenance(self) -> str:
        """Return why the draws are not those of the coreset's posterior by their attributes and log densities."""
        return self.origin.trouble

    def missed_identities(self) -> str:
        """Return how the draws miss Stein's identities; empty if they do not."""
        return missed_identities(self.drawn, self.core, self.family, self.origin)

    def missed_tails(self) -> tuple[str, Remedy] | None:
        """Return what draws miss of marginal densities with long tails, and the remedy; None if nothing."""
        origin_prior = self.origin.prior
        prior = origin_prior.density if isinstance(origin_prior, ClosedForm) else None
        return missed_tails(self.posterior, self.draws, self.core, self.family, prior)

    def tails(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return k-hat of each coefficient's tail, and which have no moments."""
        k = tail_k(self.posterior.draws)
        prior = self.origin.prior.density if isinstance(self.origin.prior, ClosedForm) else None
        separated = warn_if_completely_separated(self.dataset, self.core)
        return k, without_moments(k, len(self.draws), prior, separated=separated)

    def weigh(self, at: IntArray) -> MovedDraws:
        """Return weights of some draws: moved or not, as leaves better ones.

        Where the prior is smooth they are moved first, elsewhere only if the weights are bad as they are. So it is with
        pseudo-rows, which meet the posterior's mean and covariance, and not its mode (`condensed`).
        """
        smooth = self.prior is not None and self.prior.prior is not None and not self.core.pseudo.any()
        first = self.weigh_after(at, self.transport(at) if smooth else None)
        weights = first.weights
        if self.prior is None or ((weights.good or weights.unsure) and weights.spread < MAX_LOG_RATIO_SD):
            return first
        other = None if smooth else self.transport(at)
        if (other is None) == (first.transport is None):  # there is but one way
            return first
        return min(first, self.weigh_after(at, other), key=lambda each: (not each.weights.good, each.weights.spread))

    @cached_property
    def start(self) -> tuple[FloatArray, Derivatives]:
        """Where the rows are looked at first, and the coreset's terms there.

        It is the mode of the coreset's posterior, or where the prior's curvature is not known the median of the draws,
        with the terms of the likelihood alone.
        """
        guess = np.median(self.draws, axis=0) if self.move is None else self.move.start
        prior = None if self.prior is None else self.prior.prior
        if prior is None:
            return guess, likelihood_terms(guess, self.core, self.family)
        mode = find_mode(posterior(self.core, self.family, prior).terms, guess, max_steps=100)
        return mode.beta, mode.terms

    @cached_property
    def near(self) -> RowSums | None:
        """Sums over the full data there; None where the coreset's terms have no scale. One pass."""
        try:
            start, terms = self.start
            laplace = LaplaceApproximation(self.family, start, factor_of_inverse(terms.precision))
        except (NoModeError, DataError):
            return None
        sums = RowSums.of(self.dataset, RowSumsPlan.near(laplace, self.core))
        check_finite(self.dataset, sums.terms.precision)
        check_weight(self.core, sums.weight)
        return sums

    def transport(self, at: IntArray) -> Transport | None:
        """Return the map from the coreset's mode and Hessian to the full posterior's; none where one is missing.

        Where the prior's own curvature says nothing about its width, a normal one stands in, with the slope that the
        prior's gradient has over the draws; the map then starts from their median.
        """
        assert self.prior is not None
        density: Callable[[FloatArray], Derivatives]
        try:
            start, at_start = self.start
            if self.prior.prior is not None:
                density, precision = partial(prior_part, prior=self.prior.prior), at_start.precision
            else:
                density = stand_in(self.draws[at], self.prior.gradient(at, self.draws[at]), start, at_start.gradient)
                precision = at_start.precision + density(start).precision
            near = self.near
            first = None if near is None else self._with_carried(start, near.terms + density(start))

            def terms(beta: FloatArray) -> Derivatives:
                derivatives = full_terms(beta, self.dataset, self.family, density(beta))
                check_finite(self.dataset, derivatives.precision)
                return self._with_carried(beta, derivatives)

            full = find_mode(terms, start, first=first, tolerance=MODE_DECREMENT, max_steps=MAX_STEPS)
            end = full.beta + full.covariance @ full.terms.gradient
            return Transport.between(start, precision, end, full.terms.precision)
        except (NoModeError, DataError):  # no mode, or none with a scale
            return None

    def _with_carried(self, beta: FloatArray, terms: Derivatives) -> Derivatives:
        return terms if self.carried is None else terms + missed_terms(self.carried, beta)

    def density(self, transport: Transport | None) -> Density | None:
        """Return the log density of moved draws, up to a constant; None where the prior has none in closed form."""
        prior, made = self.prior, transport or self.move
        if not isinstance(prior, ClosedForm):
            return None
        back = made.inverse if made is not None else lambda draws: draws

        def of_moved(draws: FloatArray) -> FloatArray:
            at_draws = back(draws)
            return log_likelihoods(at_draws, self.core, self.family) + prior.log_density(at_draws)

        return of_moved

    def weigh_after(self, at: IntArray, transport: Transport | None) -> MovedDraws:
        """Return weights of some draws after a move from where they were drawn, or where `sample` put them without one.

        It takes a pass where `near` does not tell the sums.

        Raises
        ------
        DataError
            If an entry of the data is not finite, or they weigh something else than what the coreset stands for.
        """
        draws, family = self.draws[at], self.family
        moved = self.posterior.flat[at] if transport is None else transport(draws)
        sums = (None if self.near is None else self.near.at(moved)) or self._sums_of_every_row(moved)
        full, of_coreset = sums.log_likelihood, log_likelihoods(draws, self.core, family)
        full = full if self.carried is None else full + self.carried.value(moved)
        ratio, moved_core = full - of_coreset, of_coreset
        if (transport or self.move) is not None and self.prior is not None:
            moved_core = log_likelihoods(moved, self.core, family)
            ratio = ratio + self.prior.log_ratio(at, draws, moved)
        epsilon = math.nan if self.core.pseudo.any() else float(np.max(np.abs(full - moved_core) / np.abs(full)))
        return MovedDraws(
            at=at,
            weights=full_weights(ratio),
            epsilon=epsilon,
            by=self,
            transport=transport if transport is None or self.move is None else transport.from_moved(self.move),
            sums=sums,
            from_drawn=transport,
        )

    def _sums_of_every_row(self, draws: FloatArray) -> PassSums:
        """Return the sums of all rows at draws, each evaluated; one pass."""
        sums = RowSums.of(self.dataset, EveryRowPlan(draws, self.family)).at(draws)
        assert sums is not None
        check_finite(self.dataset, sums.log_likelihood)
        check_weight(self.core, sums.weight)
        return sums
