r"""What samplers of rows with groups share: the prior of sds, the memory of effects, and what draws say about groups.

The sampler of several group terms and of slopes: all parameters at once, by Langevin steps (`langevin`).

Effects of crossed factors do not integrate out one by one. All of them, with beta, sds and correlations, are about
normal in the coordinates of `JointFrame`: each level's effect centred by what its rows say beside the prior, whitened
by the curvature at the joint mode. Warm-up learns the centre and the scale of sds anew. From `_MIN_EFFECTS_BY_LEVEL`
effects on, levels of the first factor move by themselves, and then the rest given these (`langevin`). The posterior is
that of `bayescore.model`; `lp` in sample_stats is its log density in (beta, u, log sds, correlations), up to a
constant.

When to use it: group terms other than one (1 | g), for which `collapsed` has fewer coordinates.

Of one factor with `MANY_GROUPS` groups and up to three effects each they do integrate out, if a few nodes do
for each group (`models.groups.integrated`). The chain is then one of beta, sds and correlations, on a sample of groups
with a quadratic of all. The effects of each draw are drawn given these, group by group.

The collapsed sampler of multilevel models: `langevin` on (beta, log sigma), then each group's effect given these.

With G effects integrated out by quadrature (`models.groups.marginal`) p + 1 coordinates are left, which mix well; all
effects together with the intercept are one ridge, which does not. The effects are then drawn from their exact
distributions given each draw of (beta, sigma), independently of each other. Of a thousand groups and more a sample
gives what is no quadratic of the log density (`models.groups.marginal`), and draws of effects are kept within a budget
(`Fit.effects`).

When to use it: coresets whose groups are a row or two each. With full data it costs nine times the rows.

`JointFrame`: which coordinates effects and sds have, and how warm-up betters their whitening.

At the joint mode w = sigma^2 h / (1 + sigma^2 h) of a level is how much its rows say beside the prior. Effects that
rows say most about come first in a level: one whose sd is near 0 then leaves the others as they are. The mean of a
factor's effects, which rows do not tell from the coefficient of the same column, has a scale that follows sigma
(`models.groups.joint`).
"""

import json
import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg, sparse

from bayescore.compiled import StoredDensity, at_address, one_blas_thread
from bayescore.data.coreset import Coreset
from bayescore.data.design import Grouping, one_intercept, terms_text
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.models.groups.effects import (
    KEPT_BYTES,
    EffectDraws,
    draw_keys,
    summarise_effects,
    summary_dataset,
    summary_positions,
)
from bayescore.models.groups.integrated import MOST_EFFECTS, IntegratedTarget
from bayescore.models.groups.joint import (
    JointArguments,
    LevelInformation,
    MovedArguments,
    MovedMeans,
    covariance_factors,
    free_columns,
    funnel_columns,
    layout_table,
    level_jacobians,
    level_slopes,
    move_means,
    moved_density,
    orthogonal_columns,
    sd_coordinate_spread,
    sd_coordinates,
    undo_move_means,
)
from bayescore.models.groups.joint_mode import (
    JointWhitening,
    WhitenedArguments,
    curvature_at,
    joint_mode,
    solver_at,
    whitened_density,
    write_natural_parameters,
)
from bayescore.models.groups.marginal import (
    FIRST_SAMPLE_SIZE,
    MANY_GROUPS,
    MAX_DENSITY_ERROR,
    CollapsedTarget,
    SampledGroups,
    densities,
)
from bayescore.models.groups.rows import JointRows, block_diagonal
from bayescore.models.normal import correlations_of
from bayescore.models.posterior import prior_part
from bayescore.models.row_kernels import derivatives_of
from bayescore.numerics.chains import evenly_spaced
from bayescore.priors import Prior
from bayescore.priors.groups import (
    DEFAULT_GROUP_PRIOR,
    GroupPrior,
    check_group_prior,
    group_prior_from_dict,
    group_prior_to_dict,
)
from bayescore.progress import progress
from bayescore.samplers.adaptive import OPTIONS, ChainPlan, run_langevin, statistics
from bayescore.samplers.langevin import Dense, long_tailed_coefficients
from bayescore.samplers.method import CLOSED_FORM, Option, Request, Sampler, optional, run_side_by_side
from bayescore.types import NO_OFFSET, FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, check_integer

_TRANSITION_ANGLE = 1.5  # of all steps of a transition


_ANGLE_BESIDE_LEVELS = 1.2  # of the rest where levels move by themselves: one step of 0.8 and more is enough


_MAX_STEPS = 16


_MIN_EFFECTS_BY_LEVEL = 5000  # effects of the first factor, from which each level is accepted by itself


_CLIP_MULTIPLE = 10.0  # of the usual gradient: where an sd is small, effects of many levels are narrower than the frame


_SECANT_SDS = 0.5  # sds of an sd, to either side, over which the mode of effects is followed


_PIECE = 256  # points at a time


_MAX_LEARNT_ENTRIES = 1 << 21  # parameters of the draws whose mean effects are where the curvature is taken


_CHECK_INFLATION = 1.3  # sds of the points before a run, over those of the posterior: its tails count


_FIRST_SAMPLE = 64  # groups of the first sample: each has many nodes


_CHECKED_DRAWS = 16  # draws at which the density of a sample of groups is held against that of all


_TAIL_SDS, _TAIL_DROP = 8.0, 8.0  # posterior sds from the mode, and nats by which a sample's density is lower there


_PRIOR_DRAWS = 10.0  # that count as much as the scale at the mode


@dataclass(frozen=True, eq=False)
class _JointModel:
    """A coreset's model, with what `models.groups.joint` needs of it; the frame of it is whitened at a point."""

    rows: JointRows  # of orthogonal columns of effects
    bases: tuple[FloatArray, ...]  # what turns effects of these into those of the model's columns
    family: Family
    prior: Prior
    orders: tuple[IntArray, ...]  # of each factor's effects
    levels: tuple[LevelInformation, ...]
    arguments: JointArguments
    means: MovedMeans

    @staticmethod
    def of(core: Coreset, family: Family, prior: Prior, group_prior: GroupPrior) -> "JointFrame":
        """Return the frame of the joint mode."""
        given = JointRows.of(core)
        data, widest = given.rows, max(q for _, q in given.shapes)
        turns = [
            orthogonal_columns(z, data.weights, own.block_ends) for z, own in zip(given.z, given.factors, strict=True)
        ]
        within = replace(given, z=tuple(z @ basis for z, (basis, _) in zip(given.z, turns, strict=True)))
        mode = joint_mode(within, family, prior, group_prior)
        bases = tuple(basis @ np.linalg.inv(across) for basis, across in turns)
        rows = replace(given, z=tuple(z @ basis for z, basis in zip(given.z, bases, strict=True)))
        effects = [u @ across.T for u, (_, across) in zip(mode.effects, turns, strict=True)]
        covariances = [A @ S @ A.T for S, (_, A) in zip(mode.covariances, turns, strict=True)]
        curvature = curvature_at(rows, mode.beta, effects, family)
        of_beta = prior_part(mode.beta, prior).precision
        free = free_columns(rows, curvature, of_beta, covariances, bases)
        solver = solver_at(curvature, rows, of_beta, covariances)
        scores = rows.pulls(data.weights * derivatives_of(rows.eta(mode.beta, effects), data.y, family)[1])
        orders, blocks, levels, linear, weights, tilts, last, spread = [], [], [], [], [], [], [], []
        following, out = [curvature.cross], list[int]()  # what effects follow; later factors, whose effects do
        padded = np.zeros((2, len(bases), widest, widest))
        for f, (S, u, score) in enumerate(zip(covariances, effects, scores, strict=True)):
            H = curvature.first if f == 0 else solver.information(rows.shapes, f, out) - np.linalg.inv(S)
            order, ends = _order(np.einsum("gqq->q", H) * np.diagonal(S), rows.factors[f].block_ends)
            S, H, q = S[order][:, order], H[:, order][:, :, order], len(order)
            own, sigma = LevelInformation.of(H, S), np.diagonal(np.linalg.cholesky(S))
            w = 1.0 - 1.0 / (1.0 + sigma**2 * own.information)
            orders.append(order)
            blocks.append(ends)
            levels.append(own)
            linear.append(score[:, order] + np.einsum("gqr,gr->gq", H, u[:, order]))
            if f > 0:
                # not the last of several factors, nor those whose means are moved
                follows = f < len(bases) - 1 and not funnel_columns(free[f][order], w)
                nothing = sparse.csr_array((len(H) * q, len(solver.factor)))
                following.append(solver.cross(rows.shapes, f, out) if follows else nothing)
                out += [f] * follows
            weights.append(w)
            tilts.append(w * np.sqrt(own.information + sigma**-2.0))
            last.append(sd_coordinates(mode.covariances[f][order][:, order], ends))
            spread.append(sd_coordinate_spread(w, ends))
            basis, across = turns[f]
            padded[0, f, :q, :q] = basis[_block_positions(order, ends)][:, order]
            padded[1, f, :q, :q] = across[order][:, order]
        places = np.cumsum([0, data.n_features, *(G * q for G, q in rows.shapes[1:])])
        onto = [
            places[f + 1] + (np.arange(G)[:, None] * q + order)
            for f, ((G, q), order) in enumerate(zip(rows.shapes[1:], orders[1:], strict=True))
        ]
        order = np.concatenate([np.arange(data.n_features), *[own.ravel() for own in onto]])
        (G, q), back = rows.shapes[0], [np.argsort(own) for own in orders]
        cross = sparse.csr_array(
            sparse.vstack(
                [
                    block_diagonal([own.turn[:, :, of]]) @ each[:, order]
                    for own, of, each in zip(levels, back, following, strict=True)
                ]
            )
        )
        z = [np.ascontiguousarray(own[:, order]) for own, order in zip(rows.z, orders, strict=True)]
        slopes, linear_rows = np.zeros((data.n_features, 0)), np.zeros(len(data), dtype=bool)
        if len(z) == 1:
            level_slope_table, linear_rows = level_slopes(data.X, z[0], rows.codes[0], G)
            slopes = level_slope_table.reshape(-1, data.n_features).T
        place = np.argsort(linear_rows, kind="stable")
        X = data.X[place[: len(data) - linear_rows.sum()]]
        by_beta, cross = cross[:, : data.n_features], cross[:, data.n_features :]
        fields = JointArguments(
            np.array(X.T, order="C"),
            np.array(slopes, order="C"),
            data.y.astype(np.float64)[place],
            data.weights[place],
            NO_OFFSET if data.offset is None else data.offset[place],
            np.array(np.stack(rows.codes)[:, place], dtype=np.int32, order="C"),
            np.ascontiguousarray(np.concatenate([own.T for own in z])[:, place]),
            family,
            prior.parts(data.n_features),
            group_prior.table,
            layout_table(rows.shapes, [len(own.pairs[0]) for own in rows.factors], data.n_features),
            np.concatenate(blocks),
            np.concatenate([own.information.ravel() for own in levels]),
            np.concatenate([(own.turn @ b[:, :, None]).ravel() for own, b in zip(levels, linear, strict=True)]),
            np.concatenate([own.ravel() for own in tilts]),
            np.concatenate(
                [
                    np.pad(own.shift, ((0, 0), (0, 0), (0, widest - own.shift.shape[2]))).reshape(-1, widest)
                    for own in levels
                ]
            ),
            np.concatenate(
                [0.5 * np.log(np.diagonal(S)[order]) for S, order in zip(mode.covariances, orders, strict=True)]
            ),
            padded[0],
            padded[1],
            np.array(by_beta.toarray().T, order="C"),
            cross.indptr.astype(np.int64),
            cross.indices.astype(np.int64) + data.n_features,
            cross.data,
            np.concatenate(
                [mode.beta, *[u[:, order].ravel() for u, order in zip(effects[1:], orders[1:], strict=True)]]
            ),
        )
        p, arguments = data.n_features, at_address(fields)
        sds = [np.sqrt(np.diagonal(S)[order]) for S, order in zip(covariances, orders, strict=True)]
        means = MovedMeans.of(
            [own[order] for own, order in zip(free, orders, strict=True)],
            list(zip(weights, sds, strict=True)),
            curvature.rest[:p, :p],
            arguments,
        )
        model = _JointModel(rows, bases, family, prior, tuple(orders), tuple(levels), arguments, means)
        center = np.concatenate([np.zeros(G * q), mode.beta, np.zeros(len(arguments.rest) - p), *last])
        return model._whitened_at(effects, center, np.diag(np.concatenate(spread)), np.ones(G * q))

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Levels and effects of each factor."""
        return self.rows.shapes

    @property
    def n_sds(self) -> int:
        """Coordinates of sds and correlations, the last of a point."""
        return int(self.arguments.sizes[:, -1].sum())

    def covariances(self, last: FloatArray, across: FloatArray | None = None) -> list[FloatArray]:
        """Return the factor S C of each factor's covariance, shape (n, q, q), given coordinates of sds, (n, k).

        With A of each factor, shape (F, q, q), `across` blocks, the factor T.
        """
        factors, a = [], self.arguments
        for f, (_, q, *_, at, t, size) in enumerate(a.sizes):
            factor, turn = np.empty((len(last), q, q)), np.eye(q) if across is None else across[f]
            coordinates = np.ascontiguousarray(last[:, at : at + size])
            covariance_factors(coordinates, a.origin[t : t + q], a.blocks[t : t + q], turn, factor)
            factors.append(factor)
        return factors

    def _whitened_at(
        self, effects: list[FloatArray], center: FloatArray, scale: FloatArray, widths: FloatArray
    ) -> "JointFrame":
        """Return the frame whitened at a point, given its effects in the order of rows.

        `scale` is the factor of sds, `widths` are sds of the first factor's effects.
        """
        first, p = len(widths), self.rows.rows.n_features
        beta = center[first : first + p]
        curvature = curvature_at(self.rows, beta, effects, self.family)
        of_beta = prior_part(beta, self.prior).precision
        of_first, of_rest, prior = self._effect_jacobians(
            self.covariances(center[None, -self.n_sds :], self.arguments.across), of_beta
        )
        factor = curvature.moved(of_first, of_rest).solver_of(*prior).factor
        means = self.means.at(center, self.arguments)
        moves = self._mode_slopes(factor, means, center, np.sqrt(np.diagonal(scale @ scale.T)))
        single = np.ascontiguousarray(factor, dtype=np.float32)
        whitening = JointWhitening(center, widths, single, np.ascontiguousarray(scale), moves)
        rest = self.rows, self.bases, self.family, self.prior, self.orders, self.levels, self.arguments
        return JointFrame(*rest, means, whitening)

    def _effect_jacobians(
        self, factors: list[FloatArray], of_beta: FloatArray
    ) -> tuple[FloatArray, sparse.csr_array, tuple[FloatArray, sparse.csr_array]]:
        """Return the slopes of effects by coordinates, of the first factor's levels and of the rest, and their prior.

        The first factor's are given the rest, of shape (G, q, q); those of the rest are of shape (m, m).
        """
        a, p = self.arguments, self.rows.rows.n_features
        m = len(a.rest)
        others = sparse.csr_array((a.cross, a.along, a.start), shape=(len(a.pull), m))
        followed = sparse.csr_array((np.ones(p), (np.arange(p), np.arange(p))), shape=(m, m))  # of u, in their order
        turned = followed
        prior = sparse.csr_array(sparse.block_diag([of_beta, sparse.csr_array((m - p, m - p))]))
        for f in range(len(self.shapes) - 1, -1, -1):
            (G, q), (_, _, y, e, *_), order, own = self.shapes[f], a.sizes[f], self.orders[f], self.levels[f]
            C = factors[f][0]
            of_u, of_z = level_jacobians(C, own)
            if f == 0:
                first = np.empty_like(of_u)
                first[:, order] = of_u
                break
            place = y - a.sizes[0, 0] * a.sizes[0, 1] + np.arange(G * q)
            sigma = np.diagonal(C)
            pulled = (sigma / np.sqrt(1.0 + sigma**2 * own.information)).ravel()
            inner = sparse.csr_array((np.ones(G * q), (np.arange(G * q), place)), shape=(G * q, m))
            part = slice(e, e + G * q)
            cross = sparse.csr_array(a.by_beta[:, part].T) @ followed[:p] + others[part] @ followed
            inner = sparse.csr_array(inner - sparse.diags_array(pulled) @ cross)
            back = (place.reshape(G, q)[:, order]).ravel()
            into = [
                sparse.csr_array((np.ones(G * q), (own, np.arange(G * q))), shape=(m, G * q)) for own in (place, back)
            ]
            made = block_diagonal([of_u]) @ inner
            followed, turned = followed + into[0] @ made, turned + into[1] @ made
            white = block_diagonal([of_z]) @ inner
            prior = sparse.csr_array(prior + white.T @ white)
        return first, turned, (of_z.transpose(0, 2, 1) @ of_z, prior)

    def _mode_slopes(self, factor: FloatArray, means: MovedMeans, center: FloatArray, size: FloatArray) -> FloatArray:
        """Return how the mode of effects and coefficients moves with sds and correlations, shape (D - k, k)."""
        k, m = self.n_sds, len(factor)
        slopes, moves = np.empty((2, len(center))), np.empty((len(center) - k, k))
        moved = MovedArguments.of(means, self.arguments)
        for i in range(k):
            step = _SECANT_SDS * size[i]
            for slope, sign in zip(slopes, (1.0, -1.0), strict=True):
                point = center.copy()
                point[i - k] += sign * step
                moved_density(point, slope, moved)
            cross = (slopes[0] - slopes[1])[:-k] / (2.0 * step)
            moves[:, i] = *cross[:-m], *linalg.cho_solve((factor, True), cross[-m:])
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
    def integrated_start(self) -> tuple[tuple[FloatArray, FloatArray], FloatArray]:
        """Beta, sds and correlations at the center, shape (p + k,), about their sds, and the first factor's effects."""
        (G, q), p, k, w = self.shapes[0], self.rows.rows.n_features, self.n_sds, self.whitening
        first, end = len(w.widths), len(self.center) - k
        inverse = linalg.solve_triangular(w.rest.astype(np.float64), np.eye(len(w.rest)), lower=True)
        of_beta = np.sqrt((inverse[:, :p] ** 2).sum(axis=0))
        theta = np.concatenate([self.center[first : first + p], self.center[end:]])
        u = np.empty((1, sum((H + 1) * r for H, r in self.shapes)))
        write_natural_parameters(self.center[None], self.arguments, u, np.empty(1))
        return (theta, np.concatenate([of_beta, np.sqrt((w.sds**2).sum(axis=1))])), u[0, : G * q].reshape(G, q)

    @property
    def level_shape(self) -> tuple[int, int]:
        """Levels and effects of the first factor where these are many, else none."""
        G, q = self.shapes[0]
        return (G, q) if G * q >= _MIN_EFFECTS_BY_LEVEL else (0, 0)

    @property
    def rays(self) -> FloatArray:
        """None: a coefficient and the effects of its groups move together."""
        return np.empty((0, len(self.center)))

    @property
    def target(self) -> StoredDensity:
        """The density of x and its data."""
        moved = StoredDensity.of(moved_density, MovedArguments.of(self.means, self.arguments))
        return StoredDensity.of(whitened_density, WhitenedArguments(self.whitening, moved))

    @property
    def n_learnt(self) -> int:
        """Sds and correlations: effects keep the curvature at the draws' mean."""
        return self.n_sds

    @property
    def clip_norm(self) -> float:
        """A gradient that is cut where levels are narrow leads nowhere, and the chain stays."""
        return _CLIP_MULTIPLE * math.sqrt(len(self.center))

    def steps(self, h: float) -> tuple[int, ...]:
        """As many as make about a quarter turn; beside levels that move by themselves one may be enough."""
        least, angle = (1, _ANGLE_BESIDE_LEVELS) if self.level_shape[0] else (2, _TRANSITION_ANGLE)
        return (min(_MAX_STEPS, max(least, round(angle / h))),)

    def monitored(self, x: FloatArray) -> FloatArray:
        """Return beta, and coordinates of sds and correlations, shape (..., p + k)."""
        (G, q), p, k = self.shapes[0], self.rows.rows.n_features, self.n_sds
        kept = [*range(G * q, G * q + p), *range(x.shape[-1] - k, x.shape[-1])]
        return np.concatenate([points[:, kept] for points in self._pieces(x, whole=False)]).reshape(*x.shape[:-1], -1)

    def theta(self, x: FloatArray) -> FloatArray:
        """Return points at x, shape (..., D)."""
        parameters = np.empty((math.prod(x.shape[:-1]), x.shape[-1]))
        for start, points in zip(range(0, len(parameters), _PIECE), self._pieces(x), strict=True):
            parameters[start : start + _PIECE] = points
        return parameters.reshape(x.shape)

    def _pieces(self, x: FloatArray, *, whole: bool = True) -> Iterator[FloatArray]:
        """Yield some points at a time, shape (n, D): they take several times the memory while they are found.

        The first factor's effects move no other parameter, and are left out if not `whole`.
        """
        flat = x.reshape(-1, x.shape[-1])
        for start in range(0, len(flat), _PIECE):
            points = self.whitening.points(flat[start : start + _PIECE], whole=whole)
            move_means(points, at_address(self.means), self.arguments)
            yield points

    def x(self, theta: FloatArray) -> FloatArray:
        """Return the coordinates of points, shape (..., D)."""
        points = theta.reshape(-1, theta.shape[-1]).copy()
        undo_move_means(points, at_address(self.means), self.arguments)
        return self.whitening.inverse(points).reshape(theta.shape)

    def learn(self, theta: FloatArray, effective: float) -> "JointFrame":
        """Return the frame whitened at the mean of draws, shape (n, D), with the sds' own covariance."""
        k, first = self.n_sds, len(self.whitening.widths)
        mean = theta.mean(axis=0)
        moved = theta[:, -k:] - mean[-k:]
        share = effective / (effective + _PRIOR_DRAWS * k)
        before = self.whitening.sds @ self.whitening.sds.T
        scale = np.linalg.cholesky(share * (moved.T @ moved / len(theta)) + (1.0 - share) * before)
        share = effective / (effective + _PRIOR_DRAWS)
        widths = np.sqrt(share * theta[:, :first].var(axis=0) + (1.0 - share) * self.whitening.widths**2)
        some = theta[:: max(1, theta.size // _MAX_LEARNT_ENTRIES)]
        return self._whitened_at([u.mean(axis=0) for u in self._effects(some)[1]], mean, scale, widths)

    def _effects(self, theta: FloatArray) -> tuple[FloatArray, list[FloatArray], FloatArray]:
        """Return `parameters` with effects of orthogonal columns."""
        (G, q), p = self.shapes[0], self.rows.rows.n_features
        u, values = np.empty((len(theta), sum((H + 1) * r for H, r in self.shapes))), np.empty(len(theta))
        write_natural_parameters(np.ascontiguousarray(theta), self.arguments, u, values)
        effects, at = [], 0
        for (H, r), order in zip(self.shapes, self.orders, strict=True):
            draws = np.empty((len(theta), H, r))
            draws[:, :, order] = u[:, at : at + H * r].reshape(-1, H, r)
            effects.append(draws)
            at += (H + 1) * r
        return theta[:, G * q : G * q + p], effects, values - self.means.log_determinant(theta, self.arguments)

    def parameters(self, theta: FloatArray) -> tuple[FloatArray, list[FloatArray], FloatArray]:
        """Return beta, shape (n, p), effects of the model's columns, (n, G, q) each, and what their density is more."""
        n, p = len(theta), self.rows.rows.n_features
        beta, effects_of_model, more = np.empty((n, p)), [np.empty((n, *shape)) for shape in self.shapes], np.empty(n)
        for start in range(0, n, _PIECE):
            part = slice(start, start + _PIECE)
            beta[part], effects, more[part] = self._effects(theta[part])
            for draws, u, B in zip(effects_of_model, effects, self.bases, strict=True):
                np.matmul(u, B.T, out=draws[part])
        return beta, effects_of_model, more

    def sds(self, theta: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Return sds, shape (n, q), and correlations, (n, q, q), of each factor's effects of the model's columns."""
        sds_and_correlations, a = [], self.arguments
        factors = self.covariances(theta[:, -self.n_sds :])
        for C, B, order, (_, q, *_, t, _) in zip(factors, a.bases, self.orders, a.sizes, strict=True):
            basis = np.empty((q, q))
            basis[_block_positions(order, a.blocks[t : t + q])] = B[:q, :q]
            sds_and_correlations.append(correlations_of(basis @ C))
        return sds_and_correlations


def _order(worth: FloatArray, ends: IntArray) -> tuple[IntArray, IntArray]:
    """Return effects by worth, shape (q,), blocks whole and by their best; and the blocks' ends in that order."""
    best = np.array([worth[first:end].max() for first, end in ends])
    order = np.lexsort((-worth, ends[:, 0], -best))
    lengths = np.diff(ends[order], axis=1).ravel()
    first, firsts = 0, np.empty(len(order), dtype=np.int64)
    while first < len(order):
        firsts[first : first + lengths[first]] = first
        first += lengths[first]
    return order, np.stack([firsts, firsts + lengths], axis=1)


def _block_positions(order: IntArray, ends: IntArray) -> IntArray:
    """Return the effects block by block as `order`, shape (q,), has the blocks, each in the order of the model."""
    return np.concatenate([np.sort(order[first:end]) for first, end in np.unique(ends, axis=0)])


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


def add_group_attrs(idata: Any, groups: Sequence[Grouping], group_prior: GroupPrior, names: Iterable[str]) -> None:
    """Add to the posterior's attributes its group terms, their prior, and digests of the variables `names`."""
    from bayescore.samplers.posterior import draws_digest  # imports ArviZ

    posterior = idata["posterior"]
    posterior.attrs.update(
        group_terms=terms_text(groups),
        group_prior=json.dumps(group_prior_to_dict(group_prior)),
        effects_of=json.dumps({name: draws_digest(posterior[name].values) for name in names}),
    )


def group_prior_of(attrs: Mapping[str, Any]) -> GroupPrior | None:
    """Return the prior that `add_group_attrs` wrote into a posterior's attributes; None where there is none."""
    return group_prior_from_dict(json.loads(attrs["group_prior"])) if "group_prior" in attrs else None


def coords_of(groups: Sequence[Grouping]) -> dict[str, list[Any]]:
    """Return the coordinates of levels, effects and pairs of correlated effects, by dimension."""
    coords: dict[str, list[Any]] = {}
    for factor in groups:
        coords[factor.name] = list(factor.levels)
        if len(factor.effects) > 1:
            coords[f"{factor.name}_effect"] = list(factor.effects)
        if factor.paired_effects:
            coords[f"{factor.name}_pair"] = [f"{one}, {other}" for one, other in factor.paired_effects]
    return coords


def dims_of(groups: Sequence[Grouping]) -> dict[str, list[str]]:
    """Return the dimensions of effects, sds and correlations, by variable."""
    dims: dict[str, list[str]] = {}
    for factor in groups:
        dims[f"u_{factor.name}"] = [factor.name]
        if len(factor.effects) > 1:
            effect = f"{factor.name}_effect"
            dims |= {f"u_{factor.name}": [factor.name, effect], f"sigma_{factor.name}": [effect]}
        if factor.paired_effects:
            dims[f"rho_{factor.name}"] = [f"{factor.name}_pair"]
    return dims


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
        core = request.data
        groups, group_prior = check_groups(core), request.options["group_prior"]
        assert isinstance(core, Coreset)
        size = core.n_features + sum(len(factor) * len(factor.effects) for factor in groups)
        check_effects(request, size, "effects")
        frame = JointFrame.of(core, check_family(request.family), request.prior, group_prior)
        found, sampled = self._draw_integrated(frame, request), dict[str, Any]()
        if found is None:
            drawn = run_langevin(frame, ChainPlan.of(request, "sampling all effects"))
            posterior, more = self._variables(frame, drawn.theta)
            stats = statistics(drawn)
            stats["lp"] = stats["lp"] + more
        else:
            posterior, stats, sampled = found
        idata = request.idata(posterior, stats, coords_of(groups), dims_of(groups))
        add_group_attrs(idata, groups, group_prior, sorted(posterior.keys() - {"beta"}))
        idata["posterior"].attrs.update(sampled)
        return idata

    def _draw_integrated(
        self, frame: JointFrame, request: Request
    ) -> tuple[dict[str, FloatArray], dict[str, FloatArray], dict[str, Any]] | None:
        """Return variables, statistics and attributes where effects integrate out (`integrated`), else None."""
        if (target := _integrated_target(frame, request.prior)) is None:
            return None
        plan = ChainPlan.of(request, "sampling with effects integrated out", readings=10)
        stream, of_effects = request.streams[-1].spawn(2)
        long = long_tailed_coefficients(target.middle, target.factor, request.prior, request.data.n_features)
        normals = _CHECK_INFLATION * np.random.default_rng(stream).standard_normal((_CHECKED_DRAWS, len(target.factor)))
        before, size = target.middle + normals @ target.factor.T, _FIRST_SAMPLE
        while True:
            chosen = SampledGroups.of(target, size)
            if chosen.n_sampled == target.n_groups:
                return None
            size *= 4
            if not (target.density_error(chosen, before) <= MAX_DENSITY_ERROR and falls_off(chosen, normals)):
                continue
            drawn = run_langevin(Dense.of(*chosen.density, target.middle, target.factor, long), plan, stream)
            flat = drawn.theta.reshape(-1, len(target.factor))
            error = target.density_error(chosen, flat[evenly_spaced(len(flat), _CHECKED_DRAWS)])
            if error <= MAX_DENSITY_ERROR:
                break
        u, log_density = self._draw_effects(frame, target, drawn.theta, request, of_effects.spawn(request.chains))
        variables = self._by_name(frame, drawn.theta[..., : request.data.n_features], [u], flat)
        attrs = {"sampled_groups": chosen.n_sampled, "density_error": error}
        return variables, statistics(drawn) | {"lp": log_density}, attrs

    def _draw_effects(
        self,
        frame: JointFrame,
        target: IntegratedTarget,
        theta: FloatArray,
        request: Request,
        seeds: Sequence[np.random.SeedSequence],
    ) -> tuple[FloatArray, FloatArray]:
        """Draw effects given draws of theta, shape (chains, draws, D); return them, (S, G, q), and log densities."""
        shape = theta.shape[:2]
        u, log_density = np.empty((*shape, *frame.shapes[0])), np.empty(shape)
        columns = frame.bases[0][:, frame.orders[0]]
        stop, shown = threading.Event(), progress(request.progressbar, "drawing effects", math.prod(shape))

        def chain(c: int) -> None:
            drawing = target.effects(theta[c], columns, np.random.default_rng(seeds[c]), u[c])
            for draw, value in enumerate(drawing):
                if stop.is_set():
                    return
                log_density[c, draw] = value
                bar.advance(1)

        with shown as bar, one_blas_thread(), ThreadPoolExecutor(request.cores) as pool:
            run_side_by_side(pool, chain, len(u), stop)
        return u.reshape(-1, *frame.shapes[0]), log_density

    def _variables(self, frame: JointFrame, theta: FloatArray) -> tuple[dict[str, FloatArray], FloatArray]:
        """Return variables at points, shape (chains, draws, D), and what their log density is more."""
        shape, flat = theta.shape[:2], theta.reshape(-1, theta.shape[2])
        beta, effects, more = frame.parameters(flat)
        return self._by_name(frame, beta.reshape(*shape, -1), effects, flat), more.reshape(shape)

    def _by_name(
        self, frame: JointFrame, beta: FloatArray, effects: list[FloatArray], theta: FloatArray
    ) -> dict[str, FloatArray]:
        """Return variables by name, beta of shape (chains, draws, p), effects and points for all draws."""
        variables, shape = {"beta": beta}, beta.shape[:2]
        for factor, u, (sd, R) in zip(frame.rows.factors, effects, frame.sds(theta), strict=True):
            q = len(factor.effects)
            last = (q,) if q > 1 else ()
            variables[f"u_{factor.name}"] = u.reshape(*shape, len(factor), *last)
            variables[f"sigma_{factor.name}"] = sd.reshape(*shape, *last)
            i, j = factor.pairs
            if i.size:
                variables[f"rho_{factor.name}"] = R[:, i, j].reshape(*shape, -1)
        return variables


def _integrated_target(frame: JointFrame, prior: Prior) -> IntegratedTarget | None:
    """Return the density with effects integrated out; None of several factors, or where they do not integrate out."""
    if len(frame.shapes) > 1 or frame.shapes[0][0] < MANY_GROUPS or frame.shapes[0][1] > MOST_EFFECTS:
        return None
    try:
        return IntegratedTarget.of(frame.arguments, *frame.integrated_start, prior)
    except np.linalg.LinAlgError:  # of a covariance by nodes that miss the effects
        return None


def falls_off(chosen: SampledGroups, directions: FloatArray) -> bool:
    """Return whether the density falls by `_TAIL_DROP` from the mode to `_TAIL_SDS` sds along axes and `directions`.

    The cubic that stands for groups outside the sample has no bound: where the density of all groups falls slowly it
    rises further out, and chains run away. The density of all groups needs no such look.
    """
    if chosen.n_sampled == chosen.target.n_groups:
        return True
    axes = np.eye(len(chosen.target.factor))
    z = np.vstack([axes, -axes, directions])
    z *= _TAIL_SDS / np.linalg.norm(z, axis=1, keepdims=True)
    points = chosen.target.middle + np.vstack([np.zeros(len(axes)), z]) @ chosen.target.factor.T
    at_mode, *values = densities(points, chosen.density)[0]
    return bool(max(values) <= at_mode - _TAIL_DROP)


JOINT = JointSampler(
    name="joint",
    about="for rows with groups: Langevin steps on all coefficients, effects and sds at once, whitened by their mode",
    **CLOSED_FORM,
    grouped=True,
    options={**OPTIONS, "group_prior": GROUP_PRIOR},
)


def intraclass_correlation(sigma: FloatArray, latent_variance: float | FloatArray) -> FloatArray:
    r"""Return sigma^2 / (sigma^2 + latent variance): the correlation of latent variables within a group.

    Reference: Goldstein, Browne and Rasbash (2002), Partitioning variation in multilevel models, Understanding
    Statistics 1.
    """
    return np.asarray(sigma**2 / (sigma**2 + latent_variance))


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
    factor: Grouping = groups[0]
    return factor


class Collapsed(Sampler):
    """The declaration of the collapsed sampler."""

    def draw(self, request: Request) -> Any:
        """Return draws of beta, and of the factor g sigma_g (the sd of the effects), u_g (the effects) and icc_g."""
        grouping = check_one_factor(request.data)
        name, levels = grouping.name, grouping.levels
        kept = self._kept_groups(request, len(levels))
        plan = ChainPlan.of(request, "sampling with effects integrated out", readings=10)
        group_prior = request.options["group_prior"]
        family = check_family(request.family)
        target = CollapsedTarget.of(request.data, family, (request.prior, group_prior), len(levels))
        factor = target.factor
        stream, of_effects = request.streams[-1].spawn(2)
        size = FIRST_SAMPLE_SIZE if len(levels) >= MANY_GROUPS else len(levels)
        long = long_tailed_coefficients(target.point.theta, factor, request.prior, request.data.n_features)
        directions = np.random.default_rng(stream).standard_normal((_CHECKED_DRAWS, len(factor)))
        while True:
            chosen = SampledGroups.of(target, size)
            if not falls_off(chosen, directions):
                size *= 4
                continue
            drawn = run_langevin(Dense.of(*chosen.density, target.point.theta, factor, long), plan, stream)
            flat = drawn.theta.reshape(-1, len(factor))
            whole = len(kept) == len(levels) and chosen.n_sampled == len(levels)
            if whole:
                break
            looked_at = flat[summary_positions(len(flat), 0 if len(kept) == len(levels) else len(levels))]
            summary = summarise_effects(looked_at, target.arguments())
            error = chosen.error(looked_at, target.log_densities(looked_at, summary.log_likelihood))
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
        coords, dims = {name: [levels[k] for k in kept]}, {f"u_{name}": [name]}
        idata = request.idata(posterior, statistics(drawn), coords, dims)
        add_group_attrs(idata, [grouping], group_prior, (f"sigma_{name}", f"u_{name}"))
        if chosen.n_sampled < len(levels):
            idata.posterior.attrs.update(sampled_groups=chosen.n_sampled, density_error=error)
        if len(kept) < len(levels):
            idata.posterior.attrs.update(effects_seed=str(seed), effects_prior=json.dumps(request.prior.to_dict()))
            idata["constant_data"] = summary_dataset(summary, grouping)
        return idata

    def _kept_groups(self, request: Request, n_groups: int) -> IntArray:
        """Return the groups whose draws of effects are kept."""
        most, asked = KEPT_BYTES // (4 * request.draws * request.chains), request.options["effects"]
        size = min(n_groups, asked or max(most, 1))
        if asked:
            check_effects(request, size, "group effects")
        return evenly_spaced(n_groups, size)


COLLAPSED = Collapsed(
    name="collapsed",
    about="for rows with groups: langevin with the groups' effects integrated out, which are then drawn given the rest",
    **CLOSED_FORM,
    grouped=True,
    options={
        **OPTIONS,
        "group_prior": GROUP_PRIOR,
        "effects": Option(
            None,
            optional(partial(check_integer, low=1)),
            f"how many groups' draws of effects are kept, None meaning as many as take {KEPT_BYTES >> 20} MiB; "
            "`Fit.effects` has those of any others",
        ),
    },
)
