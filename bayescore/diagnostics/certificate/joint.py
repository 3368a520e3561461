r"""Draws of several grouping factors, or of effects of columns: importance weights on all of them.

At some of the draws the full data's log-likelihood, effects of groups included, is found from one pass and a sample of
the rows (`diagnostics.row_sums`; where these are few, or tell too little, all rows are evaluated), and

.. math:: \log w = \log p(y | \beta, u) - \text{the same of the coreset}

weighs the draw: the priors cancel. Effects are not integrated out, as they are for `(1 | g)` (`marginal`), so the
weights see what all cells' pseudo-rows miss together: their log's sd grows with the root of the cells' number, 0.1 to
0.3 for 600 cells, and where it is too much the verdict says so. A row's part in the elpd is given its groups' effects.

What the certificate asks of every model with group terms: draws, provenance, Stein's identities, tails.

Draws of numbers whose noise has an unknown sd: rows or their sums have the whole posterior, sigma included, and nothing
is to be weighed (`whole`). Log sigma is judged with the other coordinates. Log densities that `sample` stored say
whether draws were changed; where there are none, Stein's identities of coefficients and log sigma do, given the effects
of groups.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.design import Grouping
from bayescore.diagnostics.certificate.estimates import interquartile_sd
from bayescore.diagnostics.certificate.flat import without_moments
from bayescore.diagnostics.certificate.provenance import (
    covariance_of,
    missed_tails,
    trouble_of_densities,
    trouble_of_groups,
    trouble_of_identities,
)
from bayescore.diagnostics.certificate.stein import Damping, Scores, enough_draws, scores, stein
from bayescore.diagnostics.certificate.weigh import (
    DrawnEffectMoments,
    Weighed,
    effect_columns,
    effect_slices,
    effects_table,
    joined,
)
from bayescore.diagnostics.elpd import PassSums, SampledCounts, elpd_loo
from bayescore.diagnostics.results import Remedy
from bayescore.diagnostics.row_sums import (
    MIN_SAVING,
    DrawnApproximation,
    EveryRowPlan,
    RowSums,
    RowSumsPlan,
    check_finite,
    check_weight,
    effects_at,
)
from bayescore.families import Family
from bayescore.limits import MAX_LOG_SD_OVER_QUARTILES, MAX_SD_OVER_QUARTILES
from bayescore.models.groups.rows import label_weights
from bayescore.models.laplace import largest_sample
from bayescore.models.posterior import log_joint_density, log_likelihoods, score
from bayescore.models.predictor import Predictor
from bayescore.numerics.chains import ordered_columns
from bayescore.numerics.psis import full_weights, tail_k
from bayescore.priors import Prior
from bayescore.priors.groups import GroupPrior, log_sigma_terms
from bayescore.samplers.posterior import Posterior, draws_digest
from bayescore.samplers.summaries import with_scales
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError

_TOGETHER = 50  # effects whose correlations are checked, too


_NO_GRADIENT = "at some of them its density has no finite gradient."


@dataclass(frozen=True, eq=False)
class GroupedStrategy:
    """The base of `MarginalStrategy` and `JointStrategy`."""

    idata: Any
    beta: Posterior  # the coefficients as read from `idata`
    core: Coreset
    dataset: Dataset  # the full data
    remedy = (
        "Build the coreset anew with the prior and group_prior that you sample with, or sample all_rows(...) if its "
        "rows are few."
    )
    scope = ""

    @cached_property
    def posterior(self) -> Posterior:
        """Draws of beta, the log sds, and of correlations Fisher's z."""
        return with_scales(self.beta, self.core.groups)

    @property
    def priors(self) -> tuple[Prior, GroupPrior]:
        """Those of beta and of the sds."""
        assert self.beta.group_prior is not None
        return self.beta.prior, self.beta.group_prior

    @property
    def unchanged(self) -> bool:
        """Whether digests tell that nobody changed the draws."""
        digests = {"beta": self.beta.story["draws"], **json.loads(self.beta.attrs.get("effects_of", "{}"))}
        source = self.idata["posterior"]
        return all(name in source and draws_digest(source[name].values) == digest for name, digest in digests.items())

    def provenance(self) -> str:
        """Return why the draws are not those of the coreset's posterior by their attributes.

        Raises
        ------
        DataError
            If parameters of groups are missing, or of other shapes.
        """
        if trouble := trouble_of_groups(self.beta, self.core):
            return trouble
        self.beta.predictor()
        return ""

    def missed_identities(self) -> str:
        """Return how the draws miss Stein's identities of the posterior; empty if they do not.

        Those of (beta, log sigma, z) are the marginal posterior's, those of some levels' effects are given these. Exact
        draws miss one in less than `limits.FAMILYWISE_ALPHA` of the cases.
        """
        try:
            missed = self._missed()
        except np.linalg.LinAlgError:  # of an sd of 0
            missed = _NO_GRADIENT
        return trouble_of_identities(missed, self.beta)

    def scores(self, at: IntArray) -> Scores:
        """Return gradients of the coreset's posterior at some draws."""
        return scores(self.beta.predictor().take(at), self.core, self.beta.family, *self.priors)

    def _missed(self) -> str:
        judged, p, prior = self.posterior, len(self.beta.features), self.priors[0]
        n_effects = sum(len(factor) * len(factor.effects) for factor in self.core.groups)
        at = judged.positions(enough_draws(len(self.core), n_effects))
        draws = judged.flat[at]
        if not np.isfinite(draws).all():
            return _NO_GRADIENT
        gradients = self.scores(at)
        if not np.isfinite(gradients.marginal).all():
            return _NO_GRADIENT
        K = np.diag(draws.var(axis=0, ddof=1))
        K[:p, :p] = covariance_of(gradients.precision, draws[:, :p], prior.gradient(draws[:, :p]), K[:p, :p])
        rows = self._given_effects
        damping = Damping(draws[:, :p], score(draws[:, :p], rows, self.beta.family), rows, self.beta.family)
        cuts = [slice(start, start + _TOGETHER) for start in range(0, len(gradients.names), _TOGETHER)]
        check = partial(stein, parts=1 + len(cuts))
        by_chain = partial(np.reshape, shape=(len(judged.draws), len(at) // len(judged.draws), -1))
        missed = check(by_chain(draws), by_chain(gradients.marginal), K, list(judged.features), damping)
        for cut in cuts:
            u, slopes, names = gradients.effects[:, cut], gradients.effect_scores[:, cut], gradients.names[cut]
            missed = missed or check(by_chain(u), by_chain(slopes), np.eye(len(names)), names)
        return missed

    @cached_property
    def _given_effects(self) -> WeightedData:
        """The coreset's rows with the mean effects of their groups in the offset."""
        means = self.beta.predictor().means().effects(self.core)[:, 0]
        offset = means if self.core.offset is None else means + self.core.offset
        return WeightedData(self.core.X, self.core.y, self.core.weights, self.core.index, offset=offset)

    def missed_tails(self) -> tuple[str, Remedy] | None:
        """Return what draws miss of marginal densities with long tails, and the remedy; None if nothing."""
        rows, draws = self._given_effects, self.beta.flat
        return missed_tails(self.beta, draws, rows, self.beta.family, self.beta.prior, given_effects=True)

    def tails(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return no k-hat, as all coordinates have moments under half-t priors of sds, and which are judged without.

        These are logarithms of sds that reach 0: their left tails, which say nothing but that an sd is small, make
        their sds and these sds' errors large. So do the tails of coefficients where few levels leave the sds of
        effects to their prior.
        """
        posterior = self.posterior
        ordered, sd = ordered_columns(posterior.draws), posterior.flat.std(axis=0)
        logs = np.array([name.startswith("log sigma_") for name in posterior.features])
        limit = np.where(logs, MAX_LOG_SD_OVER_QUARTILES, MAX_SD_OVER_QUARTILES)
        return np.full(len(logs), np.nan), sd > limit * interquartile_sd(ordered)


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
        return effects_of_draws(self.predictor, self.weights.weights, self.labels, slow)

    def elpd(self, counts: SampledCounts | None = None) -> dict[str, Any]:
        """Return the leave-one-out predictive density of the full data, given the effects of rows' groups."""
        w, n_chains = self.weights, self.n_chains
        draws, family = self.predictor, self.family
        return elpd_loo(self.sums, w.log_ratio, w.weights, draws, family, n_chains=n_chains, counts=counts)


@dataclass(frozen=True, eq=False)
class JointStrategy(GroupedStrategy):
    """The strategy for any group terms."""

    sampler = "joint"  # whose draws have this log density; NUTS keeps that of other coordinates

    @property
    def all_priors(self) -> tuple[Prior, GroupPrior | None, GroupPrior | None]:
        """Those of coefficients, of sds of effects, and of the sd of the noise where it is a parameter."""
        return self.beta.prior, self.beta.group_prior, self.beta.sd_prior

    def provenance(self) -> str:
        """Return why the draws are not those of the coreset's posterior, by attributes and stored log densities."""
        trouble = super().provenance()
        if trouble or self.beta.attrs.get("sampler") != self.sampler:
            return trouble
        return trouble_of_densities(self.beta, self._log_density, unchanged=self.unchanged)

    def _log_density(self, at: IntArray) -> FloatArray:
        """Return the log density of beta, effects, log sds and correlations at draws `at`, up to a constant."""
        return log_joint_density(self.beta.predictor().take(at), self.core, self.beta.family, self.all_priors)

    def weigh(self, at: IntArray) -> JointDraws:
        """Return the weights of some draws; one pass, or two where a sample of the rows does not tell them."""
        core, family, predictor = self.core, self.beta.family, self.beta.predictor().take(at).gathered()
        labels, sums = partial(effect_label_weights, sizes=factor_shapes(core.groups)), None
        if core.n_total > MIN_SAVING * largest_sample(core.n_features):
            near = RowSumsPlan.near(DrawnApproximation.of(family, predictor), core)
            row_sums = RowSums.of(self.dataset, near, extra=labels)
            sums = row_sums.at(predictor)
        if sums is None:
            row_sums = RowSums.of(self.dataset, EveryRowPlan(predictor, family), extra=labels)
            sums = row_sums.at(predictor)
            assert sums is not None
        check_finite(self.dataset, sums.log_likelihood)
        check_weight(core, sums.weight)
        return JointDraws(
            at=at,
            weights=full_weights(sums.log_likelihood - log_likelihoods(predictor, core, family)),
            predictor=predictor,
            family=family,
            n_chains=len(self.beta.draws),
            sums=sums,
            labels=row_sums.extra,
        )


@dataclass(frozen=True, eq=False)
class NoiseStrategy(JointStrategy):
    """The strategy for draws that have the sd of the noise, with group terms or without."""

    sampler = "normal"

    def missed_identities(self) -> str:
        """Return how changed draws miss Stein's identities of the posterior; empty if they do not, or are as drawn."""
        prior, _, of_noise = self.all_priors
        assert of_noise is not None
        if self.unchanged or not prior.closed_form:
            return ""
        n_effects = sum(len(factor) * len(factor.effects) for factor in self.core.groups)
        predictor, core = self.beta.predictor(), self.core
        at = self.beta.positions(enough_draws(len(core), n_effects))
        some = predictor.take(at)
        assert some.size is not None
        eta, log_sd = some.eta(core), np.log(some.size)
        scores = (-core.weights[:, None] * eta / some.size**2).T @ core.X + prior.gradient(some.beta)
        steep = np.array([log_sigma_terms(each, *of_noise.table)[1] for each in log_sd])
        of_sd = core.weights @ eta**2 / some.size**2 - core.weights.sum() + steep
        draws, gradients = np.column_stack([some.beta, log_sd]), np.column_stack([scores, of_sd])
        shape = len(self.beta.draws), -1, draws.shape[1]
        names = [*self.beta.features, "log sigma"]
        missed = stein(draws.reshape(shape), gradients.reshape(shape), np.diag(draws.var(axis=0)), names)
        return trouble_of_identities(missed, self.beta)

    def tails(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return k-hat of each coordinate's tail, and which have no moments."""
        draws = self.posterior.draws
        k = tail_k(draws)
        return k, without_moments(k, draws.shape[0] * draws.shape[1], self.all_priors[0], separated=False)

    def weigh(self, at: IntArray) -> JointDraws:  # noqa: ARG002
        """Raise `DataError`: sums of rows have no other rows' posterior."""
        raise DataError("data are not the rows of the coreset; give those that it was made of, with their weights")

    def of_groups(self, at: IntArray, within: FloatArray) -> FloatArray:
        """Return log-likelihoods of groups of a model (1 | g) at draws, shape (S, G), their effects integrated out.

        `within`, of that shape, is what rows of the data add to squares of the coreset's residuals.
        """
        assert self.core.group is not None
        assert self.beta.size is not None
        in_group = np.flatnonzero(self.core.group[:, 0] >= 0)
        rows, G = self.core.take(in_group), len(self.core.groups[0])
        codes, w = self.core.group[in_group, 0], rows.weights[:, None]
        eta = rows.with_offset(rows.X @ self.beta.flat[at].T)
        sums, squares = np.zeros((G, len(at))), within.T.copy()
        np.add.at(sums, codes, w * eta)
        np.add.at(squares, codes, w * eta**2)
        noise = self.beta.size[at] ** 2
        effects = self.beta.variables[f"sigma_{self.core.groups[0].name}"].ravel()[at] ** 2
        weight = np.bincount(codes, rows.weights, G)[:, None]
        square = (squares - effects / (noise + weight * effects) * sums**2) / noise
        logs = weight * np.log(2.0 * np.pi * noise) + np.log1p(weight * effects / noise)
        return np.asarray(-0.5 * (square + logs)).T


def effects_of_draws(draws: Predictor, weights: FloatArray, labels: FloatArray, slow: float) -> pd.DataFrame:
    """Return the table of all effects of draws, given their weights, as `effects_table` has it."""
    u = effects_at(draws)
    moments = DrawnEffectMoments(u, np.broadcast_to(0.0, u.shape))
    factors = tuple(factor.grouping for factor in draws.factors)
    cuts = effect_slices(len(labels), len(weights))
    parts = [effect_columns(weights, moments.of(cut), moments.of(cut), labels[cut]) for cut in cuts]
    return effects_table(factors, joined(parts), slow)


def factor_shapes(groups: Sequence[Grouping]) -> list[tuple[int, int]]:
    """Return numbers of levels and of effects of a level, for each factor."""
    return [(len(grouping), len(grouping.effects)) for grouping in groups]


def effect_label_weights(block: WeightedData, sizes: Sequence[tuple[int, int]]) -> FloatArray:
    """Return the weights of rows of +1 and of -1 in each effect's group, shape (E, 2), given `factor_shapes`."""
    assert block.group is not None
    parts = []
    for (n, q), codes in zip(sizes, block.group.T, strict=True):
        of_groups = label_weights(block, np.where(codes < 0, n, codes), n + 1)[:n]
        parts.append(np.repeat(of_groups, q, axis=0))
    return np.concatenate(parts)
