r"""The collapsed sampler of multilevel models: `langevin` on (beta, log sigma), then each group's effect given these.

With G effects integrated out by quadrature (`models.collapsed`) p + 1 coordinates are left, which mix well; all effects
together with the intercept are one ridge, which does not. The effects are then drawn from their exact distributions
given each draw of (beta, sigma), independently of each other.

When to use it: coresets with groups, of which each is a row or two. With full data it costs nine times the rows.
"""

from typing import Any

import numpy as np

from bayescore.compiled import jit
from bayescore.data.design import Grouping, one_intercept, terms_text
from bayescore.data.matching import feature_names
from bayescore.models.collapsed import CollapsedArguments, collapsed_density
from bayescore.models.collapsed_target import CollapsedTarget
from bayescore.models.effect_draws import draw_effects
from bayescore.models.families import check_family
from bayescore.samplers.adaptive import OPTIONS, Plan, run, statistics
from bayescore.samplers.frames import Dense
from bayescore.samplers.grouped import GROUP_PRIOR, check_effects, tell_groups
from bayescore.samplers.langevin import density
from bayescore.samplers.method import Request, Sampler
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError


def intraclass_correlation(sigma: FloatArray, latent_variance: float) -> FloatArray:
    r"""Return sigma^2 / (sigma^2 + latent variance): the correlation of latent variables within a group.

    Reference: Goldstein, Browne and Rasbash (2002), Partitioning variation in multilevel models, Understanding
    Statistics 1.
    """
    return np.asarray(sigma**2 / (sigma**2 + latent_variance))


@jit
def _collapsed(theta: FloatArray, gradient: FloatArray, data: CollapsedArguments) -> float:
    return collapsed_density(theta, gradient, data)


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
        check_effects(request, len(levels), "group effects")
        plan = Plan.of(request, "sampling with effects integrated out", readings=10)
        group_prior = request.options["group_prior"]
        family = check_family(request.family)
        target = CollapsedTarget.of(request.data, family, (request.prior, group_prior), len(levels))
        factor, arguments = target.factor, target.arguments()
        stream, effects = request.streams[-1].spawn(2)
        noise = np.random.default_rng(stream).standard_normal((request.chains, len(factor)))
        starts = target.point.theta + 1.5 * noise @ factor.T
        frame = Dense.of(MARGINAL, arguments, target.point.theta, factor)
        drawn = run(frame, starts, request.streams[:-1], plan)
        flat = drawn.theta.reshape(-1, len(factor))
        u = draw_effects(flat, np.random.default_rng(effects), arguments).reshape(*drawn.theta.shape[:2], -1)
        sigma = np.exp(drawn.theta[..., -1])
        posterior = {"beta": drawn.theta[..., :-1], f"sigma_{name}": sigma, f"u_{name}": u}
        if family.latent_variance is not None:
            posterior[f"icc_{name}"] = intraclass_correlation(sigma, family.latent_variance)
        idata = inference_data(
            {"posterior": posterior, "sample_stats": statistics(drawn)},
            coords={"feature": list(feature_names(request.data)), name: list(levels)},
            dims={"beta": ["feature"], f"u_{name}": [name]},
        )
        tell_groups(idata, [grouping], group_prior, (f"sigma_{name}", f"u_{name}"))
        return idata


COLLAPSED = Collapsed(
    name="collapsed",
    about="for rows with groups: langevin with the groups' effects integrated out, which are then drawn given the rest",
    needs=("closed_form", "unimodal"),
    because="needs a density in closed form and cannot cross between spike and slab",
    grouped=True,
    options={**OPTIONS, "group_prior": GROUP_PRIOR},
)
