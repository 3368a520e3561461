r"""Draws of several grouping factors, or of effects of columns: importance weights on all of them.

At some of the draws the full data's log-likelihood, effects of groups included, is found from one pass and a sample of
the rows (`joint_sums`; where these are few, or tell too little, all rows are evaluated), and

.. math:: \log w = \log p(y | \beta, u) - \text{the same of the coreset}

weighs the draw: the priors cancel. Effects are not integrated out, as they are for `(1 | g)` (`marginal`), so the
weights see what all cells' pseudo-rows miss together: their log's sd grows with the root of the cells' number, 0.1 to
0.3 for 600 cells, and where it is too much the verdict says so. A row's part in the elpd is given its groups' effects.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import pandas as pd

from bayescore.coresets.calibration.remainder import largest_sample
from bayescore.data.design import Grouping
from bayescore.diagnostics.certificate.grouped import Grouped
from bayescore.diagnostics.certificate.provenance import trouble_of_densities
from bayescore.diagnostics.certificate.weigh import (
    EffectMoments,
    Weighed,
    effect_columns,
    effects_table,
    joined,
    pieces_of,
)
from bayescore.diagnostics.elpd import PassSums, elpd_loo, pass_sums
from bayescore.diagnostics.full_pass import check_finite, check_weight
from bayescore.diagnostics.full_weights import full_weights
from bayescore.diagnostics.joint_sums import SAVES, JointSums, effects_at
from bayescore.diagnostics.responses import SampledCounts
from bayescore.models.families import Family
from bayescore.models.group_priors import LKJ_ETA, log_sigma_terms
from bayescore.models.group_sums import label_weights
from bayescore.models.posterior import log_likelihoods
from bayescore.models.predictor import Predictor
from bayescore.types import FloatArray, IntArray, WeightedData


@dataclass(frozen=True, eq=False, kw_only=True)
class JointDraws(Weighed):
    """Weighed draws of coefficients and effects, and what the pass kept of all rows.

    `labels`, shape (E, 2), are the weights of the rows of +1 and of -1 in each effect's group.
    """

    predictor: Predictor
    family: Family
    n_chains: int
    sums: PassSums
    labels: FloatArray

    def effects(self, slow: float) -> pd.DataFrame:
        """Return the table of all effects."""
        return effects_of(self.predictor, self.weights.weights, self.labels, slow)

    def elpd(self, counts: SampledCounts | None = None) -> dict[str, Any]:
        """Return the leave-one-out predictive density of the full data, given the effects of rows' groups."""
        w, beside = self.weights, dict[str, Any](n_chains=self.n_chains, counts=counts)
        return asdict(elpd_loo(self.sums, w.log_ratio, w.weights, self.predictor, self.family, **beside))


@dataclass(frozen=True, eq=False)
class Joint(Grouped):
    """The strategy for any group terms."""

    def provenance(self) -> str:
        """Return why the draws are not those of the coreset's posterior, by attributes and stored log densities."""
        trouble = super().provenance()
        if trouble or self.beta.attrs.get("sampler") != "joint":  # NUTS keeps the density of coordinates of its own
            return trouble
        return trouble_of_densities(self.beta, self._log_density, told=self.told)

    def _log_density(self, at: IntArray) -> FloatArray:
        """Return the log density of beta, effects, log sds and correlations at draws `at`, up to a constant."""
        predictor, (prior, group_prior) = self.beta.predictor().take(at), self.priors
        total = log_likelihoods(predictor, self.core, self.beta.family) + prior.log_density(predictor.beta)
        for own in predictor.factors:
            assert own.covariance is not None
            u, S = own.effects[predictor.at], own.covariance[predictor.at]
            L, log_sd = np.linalg.cholesky(S), 0.5 * np.log(np.einsum("sqq->sq", S))
            log_det = 2.0 * np.log(np.einsum("sqq->sq", L)).sum(axis=1)
            total += [sum(log_sigma_terms(each, *group_prior.table)[0] for each in draw) for draw in log_sd]
            total += (LKJ_ETA - 1.0) * (log_det - 2.0 * log_sd.sum(axis=1)) - 0.5 * u.shape[1] * log_det
            total -= 0.5 * (np.linalg.solve(L, u.transpose(0, 2, 1)) ** 2).sum(axis=(1, 2))
        return np.asarray(total)

    def check_memory(self, at: IntArray) -> None:
        """Do nothing: draws of all effects are there already, and the pass keeps no more."""

    def weigh(self, at: IntArray) -> JointDraws:
        """Return the weights of some draws; one pass, or two where a sample of the rows does not tell them."""
        core, family, predictor = self.core, self.beta.family, self.beta.predictor().take(at)
        beside = partial(effect_label_weights, sizes=sizes_of(core.groups))
        sums, labels = None, np.empty(0)
        if core.n_total > SAVES * largest_sample(core.n_features):
            near = JointSums.of(self.dataset, core, family, predictor, beside)
            sums, labels = near.at(predictor), near.beside
        if sums is None:
            sums, labels = self._exactly(predictor, beside)
        check_finite(self.dataset, sums.log_likelihood)
        check_weight(core, sums.weight)
        return JointDraws(
            at=at,
            weights=full_weights(sums.log_likelihood - log_likelihoods(predictor, core, family)),
            predictor=predictor,
            family=family,
            n_chains=len(self.beta.draws),
            sums=sums,
            labels=labels,
        )

    def _exactly(
        self, predictor: Predictor, beside: Callable[[WeightedData], FloatArray]
    ) -> tuple[PassSums, FloatArray]:
        """Return the sums of all rows at draws, each evaluated, and the sum of what is asked for beside; one pass."""
        family = self.beta.family

        def of_block(start: int, block: WeightedData) -> tuple[PassSums, FloatArray]:
            return pass_sums(predictor, start, block, family), beside(block)

        parts = self.dataset.map(of_block, "certifying", canonical=True)
        return reduce(lambda one, other: (one[0] + other[0], one[1] + other[1]), parts)


def effects_of(draws: Predictor, weights: FloatArray, labels: FloatArray, slow: float) -> pd.DataFrame:
    """Return the table of all effects of draws, given their weights, as `effects_table` has it."""
    u = effects_at(draws)
    moments = EffectMoments(u, np.broadcast_to(0.0, u.shape))
    factors = tuple(own.grouping for own in draws.factors)
    cuts = pieces_of(len(labels), len(weights))
    parts = [effect_columns(weights, moments.of(cut), moments.of(cut), labels[cut]) for cut in cuts]
    return effects_table(factors, joined(parts), slow)


def sizes_of(groups: Sequence[Grouping]) -> list[tuple[int, int]]:
    """Return numbers of levels and of effects of a level, for each factor."""
    return [(len(own), len(own.effects)) for own in groups]


def effect_label_weights(block: WeightedData, sizes: Sequence[tuple[int, int]]) -> FloatArray:
    """Return the weights of rows of +1 and of -1 in each effect's group, shape (E, 2); `sizes` as of `sizes_of`."""
    assert block.group is not None
    found = []
    for (n, q), codes in zip(sizes, block.group.T, strict=True):
        of_groups = label_weights(block, np.where(codes < 0, n, codes), n + 1)[:n]
        found.append(np.repeat(of_groups, q, axis=0))
    return np.concatenate(found)
