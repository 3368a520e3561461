r"""Draws of (1 | g): importance weights on (beta, log sigma), effects integrated out on both sides.

At some of the draws the log-likelihood of each group of the full data, or of a sample of the groups (`sampled_groups`),
is found at nodes of its effect; the nodes are those that the coreset's own quadrature has there. The sums over nodes
give, for each draw, the full data's marginal likelihood and with it the weight

.. math:: \log w = \sum_g \log \int p(y_g | \beta, b) N(b; 0, \sigma^2) db - \text{the same of the coreset},

in p + 1 dimensions, whatever the number of groups; the priors cancel. Means and sds of each effect given the full data
follow from the same pass, and so do draws of the effects: corrected draws are the weighed ones, resampled, with effects
drawn anew.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from bayescore.data.design import Grouping
from bayescore.diagnostics.certificate.grouped import Grouped
from bayescore.diagnostics.certificate.nodes import NodeSums, check_bytes, marginal_log_likelihoods, node_sums
from bayescore.diagnostics.certificate.provenance import trouble_of_densities
from bayescore.diagnostics.certificate.sampled_groups import sampled_sums
from bayescore.diagnostics.certificate.sampled_rows import sampled_row_sums
from bayescore.diagnostics.certificate.weigh import Weighed, effects_table
from bayescore.diagnostics.full_weights import full_weights
from bayescore.diagnostics.psis import psislw
from bayescore.limits import MAX_BAD_K_SHARE, MAX_K
from bayescore.models.collapsed_target import CollapsedTarget
from bayescore.models.group_priors import log_sigma_terms
from bayescore.samplers.collapsed import COLLAPSED, intraclass_correlation
from bayescore.samplers.inference_data import Posterior
from bayescore.types import FloatArray, IntArray

_PIECE = 1 << 21  # numbers of an array of some groups at all draws
_COUNTS = 0.05  # weight of draws together in which nodes may miss an effect


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginalDraws(Weighed):
    """Weighed draws of (beta, log sigma), with what the pass found at the nodes of the `grouping`'s effects."""

    grouping: Grouping
    sums: NodeSums

    def effects(self, slow: float) -> pd.DataFrame:
        """Return the table of the groups' effects."""
        moments = self.sums.core.effects, self.sums.full.effects
        return effects_table((self.grouping,), self.weights.weights, moments, self.sums.labels, slow)

    def elpd(self) -> dict[str, Any]:
        """Return the expected log predictive density of a left-out group, summed over groups."""
        w, log_p, sample = self.weights.log_ratio, self.sums.full.log_p[:, :-1], self.sums.sample
        looked_at = log_p.T if sample is None else sample.log_p.T
        smoothed, k = psislw(w - looked_at)
        if (k > MAX_K).mean() > MAX_BAD_K_SHARE:
            return {}
        each = special.logsumexp(looked_at + smoothed, axis=1)
        total = float(each.sum())
        if sample is not None:  # of all groups without smoothing, and what is left of it by sampled ones
            step = max(1, _PIECE // len(w))
            cuts = [log_p[:, start : start + step] for start in range(0, log_p.shape[1], step)]
            own, parts = each, [special.logsumexp(w) - special.logsumexp(w[:, None] - cut, axis=0) for cut in cuts]
            each = np.concatenate(parts)
            total = float(each.sum() + sample.each @ (own - each[sample.places]))
        return {"elpd_logo": total, "elpd_logo_se": math.sqrt(len(each) * float(each.var()))}

    def values(self, posterior: Posterior, kept: IntArray | None) -> dict[str, FloatArray]:
        """Return the sd of the effects, its share of the variance, and a draw of each effect given the full data."""
        assert kept is not None
        rng, sums, shape = np.random.default_rng(0), self.sums, (len(posterior.draws), -1)
        u = np.empty((len(kept), len(self.grouping)))
        for row, s in zip(u, kept, strict=True):
            row[:] = sums.draw_effects(int(s), rng.random(u.shape[1]))
        values = {f"u_{self.grouping.name}": u.reshape(*shape, u.shape[1])}
        if (latent := posterior.family.latent_variance) is not None:
            sigma = np.exp(sums.theta[kept, -1]).reshape(shape)
            values[f"icc_{self.grouping.name}"] = intraclass_correlation(sigma, latent)
        return values


@dataclass(frozen=True, eq=False)
class Marginal(Grouped):
    """The strategy for (1 | g)."""

    @cached_property
    def target(self) -> CollapsedTarget:
        """The marginal posterior that the draws are of."""
        return CollapsedTarget.of(self.core, self.beta.family, self.priors, len(self.core.groups[0]))

    def provenance(self) -> str:
        """Return why the draws are not those of the coreset's posterior by attributes and stored log densities."""
        trouble, judged = super().provenance(), self.posterior
        if trouble or self.beta.attrs.get("sampler") != COLLAPSED.name:
            return trouble
        return trouble_of_densities(judged, self._log_densities, told=self.told)

    def _log_densities(self, at: IntArray) -> FloatArray:
        """Return the log density of the marginal posterior at some draws, shape (S,)."""
        theta, (prior, group_prior) = self.posterior.flat[at], self.priors
        of_sigma = [log_sigma_terms(float(each), *group_prior.table)[0] for each in theta[:, -1]]
        return np.asarray(marginal_log_likelihoods(theta, self.target) + prior.log_density(theta[:, :-1]) + of_sigma)

    def check_memory(self, at: IntArray) -> None:
        """Raise `DataError` where figures of some draws and all groups take too much memory."""
        check_bytes(self.posterior.flat[at], self.target.arguments())

    def weigh(self, at: IntArray) -> MarginalDraws:
        """Return the weights of some draws.

        Two passes by a sample of the groups, one by a sample of their rows, else as many as `values_at` says.
        """
        theta, sums = self.posterior.flat[at], None
        for way in (sampled_sums, sampled_row_sums, node_sums):
            if sums is None:
                sums = way(theta, self.core, self.dataset, self.target)
        assert sums is not None
        weights = full_weights(sums.ratio)
        n_missed = int((weights.weights @ sums.full.astray > _COUNTS).sum())
        return MarginalDraws(
            at=at,
            weights=weights,
            n_missed=n_missed,
            how="effects drawn anew",
            grouping=self.core.groups[0],
            sums=sums,
        )
