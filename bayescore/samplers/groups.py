r"""What samplers of rows with groups share: the prior of sds, the memory of effects, and what draws say about groups.

The sampler of several group terms and of slopes: all parameters at once, by Langevin steps (`langevin`).

Effects of crossed factors do not integrate out one by one. All of them, with beta, sds and correlations, are about
normal in the coordinates of `samplers.joint_frame`: each level's effect centred by what its rows say beside the prior,
whitened by the curvature at the joint mode. Warm-up learns the centre and the scale of sds anew. The posterior is that
of `bayescore.model`; `lp` in sample_stats is its log density in (beta, u, log sds, correlations), up to a constant.

When to use it: group terms other than one (1 | g), for which `collapsed` has fewer coordinates.

The collapsed sampler of multilevel models: `langevin` on (beta, log sigma), then each group's effect given these.

With G effects integrated out by quadrature (`models.groups.marginal`) p + 1 coordinates are left, which mix well; all
effects together with the intercept are one ridge, which does not. The effects are then drawn from their exact
distributions given each draw of (beta, sigma), independently of each other. Of a thousand groups and more a sample
gives what is no quadratic of the log density (`models.groups.sampled`), and draws of effects are kept within a budget
(`group_effects`).

When to use it: coresets whose groups are a row or two each. With full data it costs nine times the rows.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bayescore.compiled import jit
from bayescore.data.coreset import Coreset, feature_names
from bayescore.data.design import Grouping, one_intercept, terms_text
from bayescore.families.family import check_family
from bayescore.models.groups.effects import (
    KEPT_BYTES,
    EffectDraws,
    draw_keys,
    evenly,
    summarise_effects,
    summary_dataset,
)
from bayescore.models.groups.marginal import CollapsedArguments, CollapsedTarget
from bayescore.models.groups.sampled import FIRST, MANY, MAX_DENSITY_ERROR, Remainder, SampledGroups, sampled_density
from bayescore.priors.groups import (
    DEFAULT_GROUP_PRIOR,
    GroupPrior,
    check_group_prior,
    group_prior_from_dict,
    group_prior_to_dict,
)
from bayescore.samplers import adaptive
from bayescore.samplers.adaptive import OPTIONS, Plan, run, statistics
from bayescore.samplers.joint_frame import JointFrame
from bayescore.samplers.langevin import Dense, density
from bayescore.samplers.method import Option, Request, Sampler
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, check_integer

MAX_EFFECTS_BYTES = 4 << 30
"""Bytes of the draws of all effects, 8 for each group and draw, above which they are refused before work starts."""


GROUP_PRIOR = Option(
    DEFAULT_GROUP_PRIOR,
    lambda value, _name: check_group_prior(value),
    "HalfStudentT or HalfNormal, the prior of the sds of the effects",
)


def check_effects(request: Request, n_effects: int, what: str) -> None:
    """Raise `DataError` if the draws of so many effects, called `what`, take more than `MAX_EFFECTS_BYTES`."""
    each = 8 * n_effects * request.chains
    if each * request.draws > MAX_EFFECTS_BYTES:
        raise DataError(
            f"draws of {n_effects:,} {what} take {each * request.draws:,} bytes, more than {MAX_EFFECTS_BYTES:,}: ask "
            f"for {MAX_EFFECTS_BYTES // each} draws a chain or fewer"
        )


def tell_groups(idata: Any, groups: Sequence[Grouping], group_prior: GroupPrior, names: Iterable[str]) -> None:
    """Add to the posterior's attributes its group terms, their prior, and digests of the variables `names`."""
    from bayescore.samplers.posterior import draws_digest  # imports ArviZ

    posterior = idata["posterior"]
    posterior.attrs.update(
        group_terms=terms_text(groups),
        group_prior=json.dumps(group_prior_to_dict(group_prior)),
        effects_of=json.dumps({name: draws_digest(posterior[name].values) for name in names}),
    )


def group_prior_of(attrs: Mapping[str, Any]) -> GroupPrior | None:
    """Return the prior that `tell_groups` wrote into a posterior's attributes; None where there is none."""
    return group_prior_from_dict(json.loads(attrs["group_prior"])) if "group_prior" in attrs else None


def check_groups(core: Any) -> tuple[Grouping, ...]:
    """Return the grouping factors of a coreset; raise if it has none."""
    groups = core.groups if isinstance(core, Coreset) else ()
    if not groups:
        raise DataError("sampler='joint' is for rows with groups, and core has none; leave sampler out")
    return groups


class Joint(Sampler):
    """The declaration of the joint sampler."""

    def draw(self, request: Request) -> Any:
        """Return draws of beta, and for each factor g of u_g (effects), sigma_g (sds) and rho_g (correlations)."""
        from bayescore.compat import inference_data  # ArviZ is slow to import, and builders do without it

        core = request.data
        groups, group_prior = check_groups(core), request.options["group_prior"]
        assert isinstance(core, Coreset)
        size = core.n_features + sum(len(own) * len(own.effects) for own in groups)
        check_effects(request, size, "effects")
        frame = JointFrame.of(core, check_family(request.family), request.prior, group_prior)
        noise = np.random.default_rng(request.streams[-1]).standard_normal((request.chains, len(frame.center)))
        plan = adaptive.Plan.of(request, "sampling all effects")
        drawn = adaptive.run(frame, frame.theta(1.5 * noise), request.streams[:-1], plan)
        posterior, more = self._variables(frame, drawn.theta)
        stats = adaptive.statistics(drawn)
        stats["lp"] = stats["lp"] + more
        coords: dict[str, Any] = {"feature": list(feature_names(core))}
        dims = {"beta": ["feature"]}
        for own in groups:
            coords[own.name] = list(own.levels)
            dims[f"u_{own.name}"] = [own.name]
            if len(own.effects) > 1:
                coords[f"{own.name}_effect"] = list(own.effects)
                coords[f"{own.name}_pair"] = [
                    f"{a}, {b}" for i, a in enumerate(own.effects) for b in own.effects[i + 1 :]
                ]
                dims |= {
                    f"u_{own.name}": [own.name, f"{own.name}_effect"],
                    f"sigma_{own.name}": [f"{own.name}_effect"],
                    f"rho_{own.name}": [f"{own.name}_pair"],
                }
        idata = inference_data({"posterior": posterior, "sample_stats": stats}, coords=coords, dims=dims)
        tell_groups(idata, groups, group_prior, sorted(posterior.keys() - {"beta"}))
        return idata

    def _variables(self, frame: JointFrame, theta: FloatArray) -> tuple[dict[str, FloatArray], FloatArray]:
        """Return variables at points, shape (chains, draws, D), and what their log density is more."""
        shape, flat = theta.shape[:2], theta.reshape(-1, theta.shape[2])
        beta, effects, more = frame.parameters(flat)
        found = {"beta": beta.reshape(*shape, -1)}
        for own, u, (sd, R) in zip(frame.rows.factors, effects, frame.sds(flat), strict=True):
            q = len(own.effects)
            last = (q,) if q > 1 else ()
            found[f"u_{own.name}"] = u.reshape(*shape, len(own), *last)
            found[f"sigma_{own.name}"] = sd.reshape(*shape, *last)
            if q > 1:
                i, j = np.triu_indices(q, 1)
                found[f"rho_{own.name}"] = R[:, i, j].reshape(*shape, -1)
        return found, more.reshape(shape)


JOINT = Joint(
    name="joint",
    about="for rows with groups: Langevin steps on all coefficients, effects and sds at once, whitened by their mode",
    needs=("closed_form", "unimodal"),
    because="needs a density in closed form and cannot cross between spike and slab",
    grouped=True,
    options={**adaptive.OPTIONS, "group_prior": GROUP_PRIOR},
)


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


def check_one_factor(data: WeightedData) -> Grouping:
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

        grouping = check_one_factor(request.data)
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
