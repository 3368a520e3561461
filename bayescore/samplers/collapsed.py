r"""The collapsed sampler of multilevel models: `langevin` on (beta, log sigma), then each group's effect given these.

With G effects integrated out by quadrature (`models.collapsed`) p + 1 coordinates are left, which mix well; all effects
together with the intercept are one ridge, which does not. The effects are then drawn from their exact distributions
given each draw of (beta, sigma), independently of each other. Of a thousand groups and more a sample gives what is no
quadratic of the log density (`models.sampled_groups`), and draws of effects are kept within a budget (`group_effects`).

When to use it: coresets whose groups are a row or two each. With full data it costs nine times the rows.
"""

import json
from typing import Any

import numpy as np

from bayescore.compiled import jit
from bayescore.data.design import Grouping, one_intercept, terms_text
from bayescore.data.matching import feature_names
from bayescore.models.collapsed import CollapsedArguments
from bayescore.models.collapsed_target import CollapsedTarget
from bayescore.models.effect_draws import EffectDraws, evenly, summarise_effects
from bayescore.models.families import check_family
from bayescore.models.sampled_groups import FIRST, MANY, MAX_DENSITY_ERROR, Remainder, SampledGroups, sampled_density
from bayescore.samplers.adaptive import OPTIONS, Plan, run, statistics
from bayescore.samplers.frames import Dense
from bayescore.samplers.group_effects import KEPT_BYTES, draw_keys, summary_dataset
from bayescore.samplers.grouped import GROUP_PRIOR, check_effects, tell_groups
from bayescore.samplers.langevin import density
from bayescore.samplers.method import Option, Request, Sampler
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, check_integer


def intraclass_correlation(sigma: FloatArray, latent_variance: float) -> FloatArray:
    r"""Return sigma^2 / (sigma^2 + latent variance): the correlation of latent variables within a group.

    Reference: Goldstein, Browne and Rasbash (2002), Partitioning variation in multilevel models, Understanding
    Statistics 1.
    """
    return np.asarray(sigma**2 / (sigma**2 + latent_variance))


@jit
def _collapsed(theta: FloatArray, gradient: FloatArray, data: tuple[CollapsedArguments, Remainder]) -> float:
    return sampled_density(theta, gradient, data)


MARGINAL = density("collapsed", _collapsed)


def check_groups(data: WeightedData) -> Grouping:
    """Return the one grouping factor of rows whose intercept varies; refuse rows of another model."""
    design = getattr(data, "design", None)
    groups = () if design is None else design.groups
    if data.group is None or not groups:
        raise DataError("sampler='collapsed' is for rows with groups, and core has none; leave sampler out")
    if not one_intercept(groups):
        raise DataError(
            f"core has the group terms {terms_text(groups)}; sampler='collapsed' is for one grouping factor whose "
            "intercept varies, (1 | g): leave sampler out, or take 'joint' or 'nuts'"
        )
    own: Grouping = groups[0]
    return own


class Collapsed(Sampler):
    """The declaration of the collapsed sampler."""

    def draw(self, request: Request) -> Any:
        """Return draws of beta, and of the factor g sigma_g (the sd of the effects), u_g (the effects) and icc_g."""
        from bayescore.compat import inference_data  # ArviZ is slow to import, and builders do without it

        grouping = check_groups(request.data)
        name, levels = grouping.name, grouping.levels
        kept = self._kept(request, len(levels))
        plan = Plan.of(request, "sampling with effects integrated out", readings=10)
        group_prior = request.options["group_prior"]
        family = check_family(request.family)
        target = CollapsedTarget.of(request.data, family, (request.prior, group_prior), len(levels))
        factor = target.factor
        stream, of_effects = request.streams[-1].spawn(2)
        noise = np.random.default_rng(stream).standard_normal((request.chains, len(factor)))
        starts = target.point.theta + 1.5 * noise @ factor.T
        size = FIRST if len(levels) >= MANY else len(levels)
        while True:
            chosen = SampledGroups.of(target, size)
            frame = Dense.of(MARGINAL, chosen.data, target.point.theta, factor)
            drawn = run(frame, starts, request.streams[:-1], plan)
            flat = drawn.theta.reshape(-1, len(factor))
            whole = len(kept) == len(levels) and chosen.n_sampled == len(levels)
            if whole:
                break
            looked_at = flat[evenly(len(flat), 0 if len(kept) == len(levels) else len(levels))]
            summary = summarise_effects(looked_at, target.arguments())
            error = chosen.error(looked_at, summary.log_likelihood)
            if error <= MAX_DENSITY_ERROR:
                break
            size *= 4
        mean = np.zeros(len(levels)) if whole else summary.mean
        seed = int(of_effects.generate_state(1, np.uint64)[0])
        u = EffectDraws(flat, draw_keys(*drawn.theta.shape[:2]), seed, mean, target.arguments, kept).of(kept)
        sigma = np.exp(drawn.theta[..., -1])
        posterior = {
            "beta": drawn.theta[..., :-1],
            f"sigma_{name}": sigma,
            f"u_{name}": u.reshape(*drawn.theta.shape[:2], -1),
        }
        if family.latent_variance is not None:
            posterior[f"icc_{name}"] = intraclass_correlation(sigma, family.latent_variance)
        idata = inference_data(
            {"posterior": posterior, "sample_stats": statistics(drawn)},
            coords={"feature": list(feature_names(request.data)), name: [levels[k] for k in kept]},
            dims={"beta": ["feature"], f"u_{name}": [name]},
        )
        tell_groups(idata, [grouping], group_prior, (f"sigma_{name}", f"u_{name}"))
        if chosen.n_sampled < len(levels):
            idata.posterior.attrs.update(sampled_groups=chosen.n_sampled, density_error=error)
        if len(kept) < len(levels):
            idata.posterior.attrs.update(effects_seed=str(seed), effects_prior=json.dumps(request.prior.to_dict()))
            idata["constant_data"] = summary_dataset(summary, grouping)
        return idata

    def _kept(self, request: Request, n_groups: int) -> IntArray:
        """Return the groups whose draws of effects are kept."""
        most, asked = KEPT_BYTES // (4 * request.draws * request.chains), request.options["effects"]
        size = min(n_groups, asked or max(most, 1))
        if asked:
            check_effects(request, size, "group effects")
        return np.linspace(0, n_groups - 1, size).round().astype(np.int64)


COLLAPSED = Collapsed(
    name="collapsed",
    about="for rows with groups: langevin with the groups' effects integrated out, which are then drawn given the rest",
    needs=("closed_form", "unimodal"),
    because="needs a density in closed form and cannot cross between spike and slab",
    grouped=True,
    options={
        **OPTIONS,
        "group_prior": GROUP_PRIOR,
        "effects": Option(
            None,
            lambda value, name: None if value is None else check_integer(value, name, low=1),
            f"how many groups' draws of effects are kept, None meaning as many as take {KEPT_BYTES >> 20} MiB; "
            "`group_effects` has those of any others",
        ),
    },
)
