r"""Draws of (1 | g): importance weights on (beta, log sigma), effects integrated out on both sides.

At some of the draws the log-likelihood of each group of the full data is found at nodes of its effect, by a sample of
the groups (`sampled_sums`) or of the rows (`sampled_row_sums`) where that is enough. The nodes are those that the
coreset's own quadrature has there. The sums over nodes give, for each draw, the full data's marginal likelihood and
with it the weight

.. math:: \log w = \sum_g \log \int p(y_g | \beta, b) N(b; 0, \sigma^2) db - \text{the same of the coreset},

in p + 1 dimensions, whatever the number of groups; the priors cancel. Means and sds of each effect given the full data
follow from the same pass, and so do draws of the effects: corrected draws are the weighed ones, resampled, with effects
drawn anew.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from bayescore.data.design import Grouping
from bayescore.diagnostics.certificate.joint import GroupedStrategy
from bayescore.diagnostics.certificate.nodes import (
    GroupFigures,
    NodeSums,
    check_bytes,
    marginal_log_likelihoods,
    node_sums,
    sampled_row_sums,
    sampled_sums,
)
from bayescore.diagnostics.certificate.provenance import trouble_of_densities
from bayescore.diagnostics.certificate.stein import Scores, checked_levels, scores
from bayescore.diagnostics.certificate.weigh import Weighed, effect_slices, effects_table
from bayescore.diagnostics.elpd import SampledCounts
from bayescore.limits import MAX_BAD_K_SHARE, MAX_K
from bayescore.models.groups.effects import EffectDraws, draw_keys, level_dim
from bayescore.models.groups.marginal import MANY_GROUPS, MAX_DENSITY_ERROR, CollapsedTarget, SampledGroups, densities
from bayescore.models.posterior import prior_part
from bayescore.models.predictor import Factor, Predictor
from bayescore.numerics.psis import full_weights, psislw
from bayescore.samplers.groups import COLLAPSED, intraclass_correlation
from bayescore.samplers.posterior import Posterior, flat_draws
from bayescore.types import FloatArray, IntArray, WeightedData

_CHECKED_DRAWS = 40  # draws at which the density of a sample of groups is compared with that of all
_COUNTS = 0.05  # weight of draws together in which nodes may miss an effect


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginalDraws(Weighed):
    """Weighed draws of (beta, log sigma), with what the pass found at the nodes of the `grouping`'s effects."""

    grouping: Grouping
    sums: NodeSums
    figures: GroupFigures

    def effects(self, slow: float) -> pd.DataFrame:
        """Return the table of the groups' effects."""
        return effects_table((self.grouping,), self.figures.columns, slow)

    def elpd(self, counts: SampledCounts | None = None) -> dict[str, Any]:
        """Return the expected log predictive density of a left-out group, summed over groups."""
        sums, sample, each = self.sums, self.sums.sample, self.figures.left_out
        log_p = sums.of(slice(0, len(each)))[1].log_p if sample is None else sample.log_p
        densities_left_out = left_out(log_p, self.weights.log_ratio)
        if densities_left_out is None:
            return {}
        if sample is None:
            return elpd_logo(densities_left_out, counts)
        return elpd_logo(each, counts, float(sample.each @ (densities_left_out - each[sample.places])))

    def values(self, posterior: Posterior, kept: IntArray | None) -> dict[str, FloatArray]:
        """Return a draw of each kept effect given the full data, and the share of the variance between groups."""
        assert kept is not None
        sums, figures, shape, name = self.sums, self.figures, (len(posterior.draws), -1), f"u_{self.grouping.name}"
        effects = posterior.variables.get(name)
        if isinstance(effects, EffectDraws):  # of some groups: what `EffectDraws` gives of them
            keys = draw_keys(shape[0], len(kept) // shape[0])
            moves = figures.shift, figures.stretch
            corrected = EffectDraws(
                sums.theta[kept], keys, effects.seed, effects.mean, lambda: sums.arguments, effects.kept, moves
            )
            u = corrected.of(effects.kept)
        else:
            rng, G = np.random.default_rng(0), len(self.grouping)
            u = np.array([sums.draw_effects(int(s), np.asarray(rng.random(G)), figures) for s in kept])
        values: dict[str, Any] = {name: u.reshape(*shape, u.shape[1])}
        if (latent := posterior.family.latent_variance) is not None:
            sigma = np.exp(sums.theta[kept, -1]).reshape(shape)
            values[f"icc_{self.grouping.name}"] = intraclass_correlation(sigma, latent)
        return values

    def constants(self, posterior: Posterior, constants: Any) -> Any:
        """Return the constant data of corrected draws: with the effects of all groups, where those are of some."""
        name = f"u_{self.grouping.name}"
        if not isinstance(posterior.variables.get(name), EffectDraws):
            return constants
        figures, dims = self.figures, (level_dim(self.grouping),)
        mean, sd = (figures.columns[f"corrected_{key}"] for key in ("mean", "sd"))
        ends = constants[f"{name}_quantiles"].values - constants[f"{name}_mean"].values
        variables = {
            f"{name}_mean": (dims, mean),
            f"{name}_sd": (dims, sd),
            f"{name}_quantiles": (("quantile", *dims), mean + ends * sd / constants[f"{name}_sd"].values),
            f"{name}_shift": (dims, figures.shift),
            f"{name}_stretch": (dims, figures.stretch),
        }
        return constants.assign(variables)


def left_out(log_p: FloatArray, log_ratio: FloatArray) -> FloatArray | None:
    """Return log predictive densities of groups without their rows, shape (m,), given log-likelihoods, shape (S, m).

    None where the weights of too many of them do not count.
    """
    pieces = []
    for cut in effect_slices(log_p.shape[1], len(log_p)):
        log_p_by_group = log_p[:, cut].T
        smoothed, k = psislw(log_ratio - log_p_by_group)
        pieces.append((special.logsumexp(log_p_by_group + smoothed, axis=1), k))
    each, k = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return None if (k > MAX_K).mean() > MAX_BAD_K_SHARE else each


def elpd_logo(each: FloatArray, counts: SampledCounts | None, more: float = 0.0) -> dict[str, Any]:
    """Return the fields of `CertificateData` on left-out groups: the sum of all, and what is to be added to it."""
    if counts is not None:
        each = each + counts.constants[:-1]
    return {"elpd_logo": float(each.sum()) + more, "elpd_logo_se": math.sqrt(len(each) * float(each.var()))}


@dataclass(frozen=True, eq=False)
class MarginalStrategy(GroupedStrategy):
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
        at = judged.positions(_CHECKED_DRAWS)
        if self.drawn_from.n_sampled < self.target.n_groups:
            theta = judged.flat[at]
            of_all = self.target.log_densities(theta, marginal_log_likelihoods(theta, self.target))
            error = self.drawn_from.error(theta, of_all)
            if not error <= 2.0 * MAX_DENSITY_ERROR:  # at other draws than `sample` looked at
                return (
                    f"The draws are of {self.drawn_from.n_sampled:,} sampled groups, whose log density "
                    f"differs from that of all groups by {error:.2g} nats (sd over draws); sample again."
                )
        return trouble_of_densities(judged, self._log_densities, unchanged=self.unchanged)

    @cached_property
    def drawn_from(self) -> SampledGroups:
        """The density of a sample of groups that `sample` drew from; of all where it drew from these."""
        size = self.beta.attrs.get("sampled_groups", self.target.n_groups)
        return SampledGroups.of(self.target, max(int(size), 1))

    def _log_densities(self, at: IntArray) -> FloatArray:
        """Return the log density of the marginal posterior at some draws, shape (S,)."""
        theta = self.posterior.flat[at]
        if self.drawn_from.n_sampled < self.target.n_groups:
            return densities(theta, self.drawn_from.density)[0]
        return self.target.log_densities(theta, marginal_log_likelihoods(theta, self.target))

    def scores(self, at: IntArray) -> Scores:
        """Return gradients of the posterior at some draws.

        Where draws of some effects are kept, those of (beta, log sigma) are the density's own, with all effects
        integrated out, and the kept effects are looked at given these.
        """
        grouping = self.core.groups[0]
        effects, (prior, group_prior), core = self.beta.variables.get(f"u_{grouping.name}"), self.priors, self.core
        if not isinstance(effects, EffectDraws):
            return super().scores(at)
        kept = effects.kept[checked_levels(len(effects.kept))]
        u = flat_draws(self.idata, f"u_{grouping.name}")[at][:, checked_levels(len(effects.kept))]
        place = np.full(len(grouping) + 1, -1)
        place[kept] = np.arange(len(kept))
        which = np.flatnonzero(place[core.group_codes[:, 0]] >= 0)
        rows = core.take(which)
        some = WeightedData(
            rows.X, rows.y, rows.weights, rows.index, offset=rows.offset, group=place[core.group_codes[which, 0], None]
        )
        levels = replace(grouping, levels=tuple(grouping.levels[k] for k in kept))
        theta = self.posterior.flat[at]
        factor = Factor(levels, u[:, :, None], np.exp(2.0 * theta[:, -1])[:, None, None])
        predictor = Predictor(theta[:, :-1], [factor], core.design, np.arange(len(at)))
        given_kept = scores(predictor, some, self.beta.family, prior, group_prior)
        gradients, point = densities(theta, self.drawn_from.density)[1], self.target.point
        precision = point.terms.precision[:-1, :-1] - prior_part(point.beta, prior).precision
        return given_kept._replace(marginal=gradients, precision=precision)

    def weigh(self, at: IntArray) -> MarginalDraws:
        """Return the weights of some draws.

        Two or three passes by a sample of the groups, one by a sample of their rows, else as many as `values_at` says.
        """
        theta = self.posterior.flat[at]
        if len(self.core.groups[0]) < MANY_GROUPS:  # of more groups a sample does
            check_bytes(theta, self.target.arguments())
        sums = sampled_sums(theta, self.core, self.dataset, self.target)
        if sums is None:
            check_bytes(theta, self.target.arguments())  # both keep log terms at all nodes
            sums = sampled_row_sums(theta, self.core, self.dataset, self.target)
        if sums is None:
            sums = node_sums(theta, self.core, self.dataset, self.target)
        weights = full_weights(sums.ratio)
        figures = sums.group_figures(weights.weights, _COUNTS)
        return MarginalDraws(
            at=at,
            weights=weights,
            n_missed=figures.n_missed,
            how="effects drawn anew",
            grouping=self.core.groups[0],
            sums=sums,
            figures=figures,
        )
