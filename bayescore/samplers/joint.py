r"""The sampler of several group terms and of slopes: all parameters at once, by Langevin steps (`langevin`).

Effects of crossed factors do not integrate out one by one. All of them, with beta, sds and correlations, are about
normal in the coordinates of `samplers.joint_frame`: each level's effect centred by what its rows say beside the prior,
whitened by the curvature at the joint mode. Warm-up learns the centre and the scale of sds anew. The posterior is that
of `bayescore.model`; `lp` in sample_stats is its log density in (beta, u, log sds, correlations), up to a constant.

When to use it: group terms other than one (1 | g), for which `collapsed` has fewer coordinates.
"""

from typing import Any

import numpy as np

from bayescore.data.coreset import Coreset
from bayescore.data.design import Grouping
from bayescore.data.matching import feature_names
from bayescore.models.families import check_family
from bayescore.samplers import adaptive
from bayescore.samplers.grouped import GROUP_PRIOR, check_effects, tell_groups
from bayescore.samplers.joint_frame import JointFrame
from bayescore.samplers.method import Request, Sampler
from bayescore.types import FloatArray
from bayescore.validation import DataError


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
