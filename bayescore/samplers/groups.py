r"""What samplers of rows with groups share: the prior of sds, the memory of effects, and what draws say about groups.

The sampler of several group terms and of slopes: all parameters at once, by Langevin steps (`langevin`).

Effects of crossed factors do not integrate out one by one. All of them, with beta, sds and correlations, are about
normal in the coordinates of `samplers.groups`: each level's effect centred by what its rows say beside the prior,
whitened by the curvature at the joint mode. Warm-up learns the centre and the scale of sds anew. The posterior is that
of `bayescore.model`; `lp` in sample_stats is its log density in (beta, u, log sds, correlations), up to a constant.

When to use it: group terms other than one (1 | g), for which `collapsed` has fewer coordinates.

The collapsed sampler of multilevel models: `langevin` on (beta, log sigma), then each group's effect given these.

With G effects integrated out by quadrature (`models.groups.marginal`) p + 1 coordinates are left, which mix well; all
effects together with the intercept are one ridge, which does not. The effects are then drawn from their exact
distributions given each draw of (beta, sigma), independently of each other. Of a thousand groups and more a sample
gives what is no quadratic of the log density (`models.groups.marginal`), and draws of effects are kept within a budget
(`group_effects`).

When to use it: coresets whose groups are a row or two each. With full data it costs nine times the rows.

The frame of `samplers.groups`: which coordinates effects and sds have, and how warm-up betters their whitening.

At the joint mode w = 1 - variance / sigma^2 of a level is how much its rows say beside the prior. That is the weight of
its effect (`models.groups.joint`), whose sd given sigma then hardly changes with sigma. An sd whose posterior reaches 0
has a sign, and all its effects are non-centred. The mean of a factor's effects, which rows do not tell from the
coefficient of the same column, has a scale that follows sigma (`models.groups.joint`).
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayescore.compiled import jit
from bayescore.data.coreset import Coreset, feature_names
from bayescore.data.design import Grouping, one_intercept, terms_text
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.models.groups.effects import (
    KEPT_BYTES,
    EffectDraws,
    draw_keys,
    evenly,
    summarise_effects,
    summary_dataset,
)
from bayescore.models.groups.joint import (
    JointArguments,
    Means,
    covariance_factors,
    free_columns,
    move,
    move_back,
    moved_density,
    of_covariance,
    regressions,
    slopes_of,
)
from bayescore.models.groups.joint_mode import (
    JointWhitening,
    curvature_at,
    informed,
    joint_mode,
    natural,
    whitened_density,
)
from bayescore.models.groups.marginal import (
    FIRST,
    MANY,
    MAX_DENSITY_ERROR,
    CollapsedArguments,
    CollapsedTarget,
    Remainder,
    SampledGroups,
    sampled_density,
)
from bayescore.models.groups.rows import JointRows, Solver
from bayescore.models.posterior import prior_part
from bayescore.priors import Prior
from bayescore.priors.groups import (
    DEFAULT_GROUP_PRIOR,
    GroupPrior,
    check_group_prior,
    group_prior_from_dict,
    group_prior_to_dict,
)
from bayescore.samplers import adaptive
from bayescore.samplers.adaptive import OPTIONS, ChainPlan, run, statistics
from bayescore.samplers.langevin import CompiledDensity, Dense, density, with_long_tails
from bayescore.samplers.method import Option, Request, Sampler
from bayescore.types import NO_OFFSET, FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, check_integer

_REACHES_0 = 0.3  # sd of log sigma at the mode, from which the sd has a sign


_ANGLE = 1.5  # of all steps of a transition


_MOST_STEPS = 4


_SECANT = 0.5  # sds of an sd, to either side, over which the mode of effects is followed


_PIECE = 256  # points at a time


_PRIOR_DRAWS = 10.0  # that count as much as the scale at the mode


WHITENED = density("joint", whitened_density)


@dataclass(frozen=True, eq=False)
class _JointModel:
    """A coreset's model, with what `models.groups.joint` needs of it; the frame of it is whitened at a point."""

    rows: JointRows
    family: Family
    prior: Prior
    orders: tuple[IntArray, ...]  # of each factor's effects
    arguments: JointArguments
    means: Means

    @staticmethod
    def of(core: Coreset, family: Family, prior: Prior, group_prior: GroupPrior) -> "JointFrame":
        """Return the frame of the joint mode."""
        rows = JointRows.of(core)
        mode = joint_mode(rows, family, prior, group_prior)
        curvature = curvature_at(rows, mode.beta, mode.effects, family)
        free = free_columns(rows, curvature, prior_part(mode.beta, prior).precision, mode.covariances)
        orders, weights, signed, sds = [], [], [], []
        for variance, covariance, columns in zip(mode.variances, mode.covariances, free, strict=True):
            w = informed(variance, covariance)
            of_log = 1.0 / np.sqrt(2.0 * (w**2).sum(axis=0) + 1.0)
            near_0 = (of_log > _REACHES_0) & (w.mean(axis=0) < 0.5)
            order = np.lexsort((w.mean(axis=0), ~near_0))
            beside = len(w) / (len(w) - 1.0)  # what rows tell beside the mean, which is free
            w = np.where(near_0, 0.0, np.where(columns < 0, w, np.minimum(1.0, beside * w)))
            orders.append(order)
            weights.append(w[:, order])
            signed.append(near_0[order])
            sds.append(of_log[order])
        blocks = [curvature.first, *curvature.blocks]
        widest = max(q for _, q in rows.shapes)
        shifts = [
            regressions(own[:, order][:, :, order], w, widest)
            for own, order, w in zip(blocks, orders, weights, strict=True)
        ]
        data = rows.rows
        arguments = JointArguments(
            np.array(data.X.T, order="C"),
            data.y.astype(np.float64),
            data.weights,
            NO_OFFSET if data.offset is None else data.offset,
            np.stack(rows.codes).astype(np.int32),
            np.concatenate([np.ascontiguousarray(z[:, order].T) for z, order in zip(rows.z, orders, strict=True)]),
            family,
            prior.parts(data.n_features),
            group_prior.table,
            np.array(rows.shapes),
            np.concatenate([own.ravel() for own in weights]),
            np.concatenate([own.reshape(-1, widest) for own in shifts]),
            np.concatenate(signed),
            math.log(family.unit),
        )
        last, spread = [], []
        for covariance, order, near_0, sd, w in zip(mode.covariances, orders, signed, sds, weights, strict=True):
            own, wide = of_covariance(covariance[order][:, order], near_0, sd, w)
            last.append(own)
            spread.append(wide)
        means = Means.of([columns[order] for columns, order in zip(free, orders, strict=True)], arguments)
        model = _JointModel(rows, family, prior, tuple(orders), arguments, means)
        return model._at(mode.beta, mode.effects, np.concatenate(last), np.diag(np.concatenate(spread)))

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Levels and effects of each factor."""
        return self.rows.shapes

    @property
    def n_sds(self) -> int:
        """Coordinates of sds and correlations, the last of a point."""
        return sum(q + q * (q - 1) // 2 for _, q in self.shapes)

    @property
    def even(self) -> np.ndarray:
        """Which of a point's coordinates change sign with an sd, whose posterior mean is 0, shape (D,)."""
        p, of_effects, of_sds, t = self.rows.rows.n_features, [], [], 0
        for f, (G, q) in enumerate(self.shapes):
            own = self.arguments.signed[t : t + q]
            of_effects.append(np.tile(own, G))
            if f == 0:
                of_effects.append(np.zeros(p, dtype=bool))
            pairs = [own[i] or own[j] for i in range(q) for j in range(i)]
            of_sds.append(np.array([*own, *pairs], dtype=bool))
            t += q
        return np.concatenate([*of_effects, *of_sds])

    def covariances(self, last: FloatArray) -> list[FloatArray]:
        """Return the factor S C of each factor's covariance, shape (n, q, q), given coordinates of sds, (n, k)."""
        found, at, t = [], 0, 0
        for _, q in self.shapes:
            own, size = np.empty((len(last), q, q)), q + q * (q - 1) // 2
            covariance_factors(np.ascontiguousarray(last[:, at : at + size]), self.arguments.signed[t : t + q], own)
            found.append(own)
            at, t = at + size, t + q
        return found

    def _at(self, beta: FloatArray, effects: list[FloatArray], last: FloatArray, scale: FloatArray) -> "JointFrame":
        """Return the frame whitened at a point, in the factors' own order of effects; `scale` is the factor of sds."""
        even = self.even
        wide = last.copy()
        flat = even[-len(last) :]
        size = np.sqrt(np.diagonal(scale @ scale.T))
        t = at = 0
        for _, q in self.shapes:  # an sd with a sign: its typical size, and no correlation
            for i in range(q):
                if self.arguments.signed[t + i]:
                    wide[at + i] = size[at + i]
            wide[at + q : at + q + q * (q - 1) // 2][flat[at + q : at + q + q * (q - 1) // 2]] = 0.0
            at, t = at + q + q * (q - 1) // 2, t + q
        factors = [own[0] for own in self.covariances(wide[None])]
        curvature = curvature_at(self.rows, beta, effects, self.family)
        turns, priors, centres, e = [], [], [], 0
        for (G, q), order, C, u in zip(self.shapes, self.orders, factors, effects, strict=True):
            w = self.arguments.centring[e : e + G * q].reshape(G, q)
            M = self.arguments.shift[e : e + G * q].reshape(G, q, -1)[:, :, :q]
            of_u, of_z, centre = slopes_of(C, w, M, u[:, order], self.family.unit)
            turn = np.empty_like(of_u)
            turn[:, order] = of_u
            turns.append(turn)
            priors.append(of_z.transpose(0, 2, 1) @ of_z)
            centres.append(centre.ravel())
            e += G * q
        solver = curvature.moved(turns).solver(prior_part(beta, self.prior).precision, priors)
        center = np.concatenate([centres[0], beta, *centres[1:], last])
        center[even] = 0.0
        means = self.means.at(center)
        moves = self._moves(solver, means, center, size)
        whitening = JointWhitening.of(solver, center, scale, moves)
        return JointFrame(self.rows, self.family, self.prior, self.orders, self.arguments, means, whitening)

    def _moves(self, solver: Solver, means: Means, center: FloatArray, size: FloatArray) -> FloatArray:
        """Return how the mode of effects and coefficients moves with sds and correlations, shape (D - k, k)."""
        k, even, (G, q) = self.n_sds, self.even, self.shapes[0]
        slopes, moves = np.empty((2, len(center))), np.zeros((len(center) - k, k))
        for i in np.flatnonzero(~even[-k:]):
            step = _SECANT * size[i]
            for slope, sign in zip(slopes, (1.0, -1.0), strict=True):
                point = center.copy()
                point[i - k] += sign * step
                moved_density(point, slope, means, self.arguments)
            cross = np.where(even, 0.0, slopes[0] - slopes[1]) / (2.0 * step)
            first, rest = solver.solve(cross[: G * q].reshape(G, q), cross[G * q : -k])
            moves[:, i] = *first.ravel(), *rest
        return moves


@dataclass(frozen=True, eq=False)
class JointFrame(_JointModel):
    """Coordinates of all parameters of a coreset's model; `points` are those of `models.groups.joint`."""

    whitening: JointWhitening

    @property
    def center(self) -> FloatArray:
        """The point at x = 0, shape (D,)."""
        return self.whitening.center

    @property
    def rays(self) -> FloatArray:
        """None: a coefficient and the effects of its groups move together."""
        return np.empty((0, len(self.center)))

    @property
    def target(self) -> tuple[CompiledDensity, Any]:
        """The density of x and its data."""
        return WHITENED, (self.whitening, self.means, self.arguments)

    @property
    def learnt(self) -> int:
        """Sds and correlations: effects keep the curvature at the draws' mean."""
        return self.n_sds

    def steps(self, h: float) -> tuple[int, ...]:
        """As many as make about a quarter turn."""
        return (min(_MOST_STEPS, max(2, round(_ANGLE / h))),)

    def watched(self, x: FloatArray) -> FloatArray:
        """Return beta, and coordinates of sds and correlations whatever their sign, shape (..., p + k)."""
        (G, q), p, k = self.shapes[0], self.rows.rows.n_features, self.n_sds
        kept = [*range(G * q, G * q + p), *range(x.shape[-1] - k, x.shape[-1])]
        found = np.concatenate([own[:, kept] for own in self._pieces(x)]).reshape(*x.shape[:-1], -1)
        found[..., p:] = np.where(self.even[-k:], np.abs(found[..., p:]), found[..., p:])
        return found

    def theta(self, x: FloatArray) -> FloatArray:
        """Return points at x, shape (..., D)."""
        return np.concatenate(list(self._pieces(x))).reshape(x.shape)

    def _pieces(self, x: FloatArray) -> Iterator[FloatArray]:
        """Yield some points at a time, shape (n, D): they take several times the memory while they are found."""
        flat = x.reshape(-1, x.shape[-1])
        for start in range(0, len(flat), _PIECE):
            points = self.whitening.points(flat[start : start + _PIECE])
            move(points, self.means, self.arguments)
            yield points

    def x(self, theta: FloatArray) -> FloatArray:
        """Return the coordinates of points, shape (..., D)."""
        points = theta.reshape(-1, theta.shape[-1]).copy()
        move_back(points, self.means, self.arguments)
        return self.whitening.inverse(points).reshape(theta.shape)

    def learn(self, theta: FloatArray, effective: float) -> "JointFrame":
        """Return the frame whitened at the mean of draws, shape (n, D), with the sds' own covariance."""
        k, even = self.n_sds, self.even
        last = theta[:, -k:]
        flat = even[-k:]
        mean = np.where(flat, 0.0, last.mean(axis=0))
        moved = last - mean
        own = moved.T @ moved / len(last)
        own[np.ix_(flat, ~flat)] = own[np.ix_(~flat, flat)] = 0.0
        share = effective / (effective + _PRIOR_DRAWS * k)
        before = self.whitening.sds @ self.whitening.sds.T
        scale = np.linalg.cholesky(share * own + (1.0 - share) * before)
        beta, effects, _ = self.parameters(theta)
        return self._at(beta.mean(axis=0), [u.mean(axis=0) for u in effects], mean, np.ascontiguousarray(scale))

    def parameters(self, theta: FloatArray) -> tuple[FloatArray, list[FloatArray], FloatArray]:
        """Return beta, shape (n, p), effects, (n, G, q) each, and what their log density is more."""
        (G, q), p = self.shapes[0], self.rows.rows.n_features
        u, values = np.empty((len(theta), sum((H + 1) * r for H, r in self.shapes))), np.empty(len(theta))
        natural(np.ascontiguousarray(theta), self.arguments, u, values)
        effects, at = [], 0
        for (H, r), order in zip(self.shapes, self.orders, strict=True):
            own = np.empty((len(theta), H, r))
            own[:, :, order] = u[:, at : at + H * r].reshape(-1, H, r)
            effects.append(own)
            at += (H + 1) * r
        return theta[:, G * q : G * q + p], effects, values - self.means.log_determinant(theta)

    def sds(self, theta: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Return sds, shape (n, q), and correlations, (n, q, q), of each factor in the order of rows."""
        found = []
        for C, order in zip(self.covariances(theta[:, -self.n_sds :]), self.orders, strict=True):
            S = C @ C.transpose(0, 2, 1)
            sd = np.sqrt(np.einsum("nqq->nq", S))
            R = S / (sd[:, :, None] * sd[:, None, :])
            back = np.argsort(order)
            found.append((sd[:, back], R[:, back][:, :, back]))
        return found


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


class JointSampler(Sampler):
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
        plan = adaptive.ChainPlan.of(request, "sampling all effects")
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


JOINT = JointSampler(
    name="joint",
    about="for rows with groups: Langevin steps on all coefficients, effects and sds at once, whitened by their mode",
    needs=("closed_form", "unimodal"),
    because="needs a density in closed form and cannot cross between spike and slab",
    grouped=True,
    options={**adaptive.OPTIONS, "group_prior": GROUP_PRIOR},
)


def intraclass_correlation(sigma: FloatArray, latent_variance: float | FloatArray) -> FloatArray:
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
        plan = ChainPlan.of(request, "sampling with effects integrated out", readings=10)
        group_prior = request.options["group_prior"]
        family = check_family(request.family)
        target = CollapsedTarget.of(request.data, family, (request.prior, group_prior), len(levels))
        factor = target.factor
        stream, of_effects = request.streams[-1].spawn(2)
        noise = np.random.default_rng(stream).standard_normal((request.chains, len(factor)))
        starts = target.point.theta + 1.5 * noise @ factor.T
        size = FIRST if len(levels) >= MANY else len(levels)
        long = with_long_tails(target.point.theta, factor, request.prior, request.data.n_features)
        while True:
            chosen = SampledGroups.of(target, size)
            frame = Dense.of(MARGINAL, chosen.data, target.point.theta, factor, long)
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
