r"""Draws of the effects of any groups, made when they are asked for, and a summary of all.

Given (beta, log sigma) effects are independent of each other, so that those of any groups follow from the rows and the
draws of these (`effects_given`).

Draws of group effects given (beta, log sigma), from the logarithms of their density at the nodes of a quadrature.

At Gauss and Hermite's nodes the density's logarithm less that of their normal density is smooth: it is interpolated by
the polynomial through them, and drawn from by inverse distribution function, piecewise linear in the normal probability
on a grid. Between nodes of equal steps the logarithm itself is interpolated, by the polynomial through the eight
nearest: an interval is drawn with its mass by Simpson's rule, and a point in it by inverse distribution function, the
density piecewise linear on a fine grid. Exact but for that (`tests/models/test_effect_draws.py`: moments to 1e-3).

Effects of groups whose draws are too many to keep: a summary of all, and draws of any when they are asked for.

`sample` keeps draws of as many groups as `KEPT_BYTES` hold, and mean, sd and quantiles of all in ``constant_data``.
Given (beta, sigma) effects are independent of each other, and the rows are kept with the draws: so draws of any group
follow from what is kept, by the seed, and are the same whatever else was asked for.
"""

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bayescore.compiled import jit, jit_inner
from bayescore.data.coreset import Coreset
from bayescore.data.design import Design, Grouping
from bayescore.families.family import check_family
from bayescore.models.groups.marginal import CollapsedArguments, CollapsedTarget, n_nodes, nodes_at
from bayescore.models.groups.nodes import DrawNodes, effect_summaries
from bayescore.numerics.chains import evenly_spaced
from bayescore.numerics.elementary import LOG_WEIGHTS, N_NODES, NODES, exp_minus, hash_uniform, largest, largest_count
from bayescore.priors.by_name import prior_from_dict
from bayescore.priors.groups import group_prior_from_dict
from bayescore.types import FloatArray, IntArray
from bayescore.validation import DataError, json_object

if TYPE_CHECKING:
    import xarray as xr


_GRID_SDS, _GRID_POINTS = 6.0, 65  # of the grid, in sds of the normal density


_NEAREST_NODES, _FINE_POINTS = 8, 16  # nodes that an interpolation is through, and points of the grid of one interval


@cache
def _normal_grid() -> tuple[FloatArray, FloatArray]:
    """Return normal probabilities below points of the grid, and the matrix that interpolates from the nodes to them."""
    points = np.linspace(-_GRID_SDS, _GRID_SDS, _GRID_POINTS)
    return special.ndtr(points), np.ascontiguousarray(_interpolation(NODES, points).T)


@cache
def _interpolation_weights() -> FloatArray:
    """Return weights of interpolation from the nearest nodes, shape (nodes - 1, points + 1, nodes).

    The first index says between which of them a point lies: near an end they are not about it.
    """
    nodes, points = np.arange(float(_NEAREST_NODES)), np.linspace(0.0, 1.0, _FINE_POINTS + 1)
    return np.array([_interpolation(nodes, left + points) for left in range(_NEAREST_NODES - 1)])


def _interpolation(nodes: FloatArray, points: FloatArray) -> FloatArray:
    """Return the matrix that takes values at nodes to those of the polynomial through them at points."""
    barycentric = 1.0 / np.prod(nodes[:, None] - nodes + np.eye(len(nodes)), axis=1)
    distance = points[:, None] - nodes
    distance[np.abs(distance) < 1e-9] = 1e-9  # a point that is a node
    weight = barycentric / distance
    return np.ascontiguousarray(weight / np.sum(weight, axis=1, keepdims=True))


@jit_inner
def _invert_linear_density(left: float, a: float, b: float) -> tuple[float, float]:
    """Return what part of an interval has the mass `left`, and all its mass, if the density goes from a to b."""
    mass = 0.5 * (a + b)
    goal = min(left / max(mass, 1e-300), 1.0) * mass  # a t + (b - a) t^2 / 2
    root = math.sqrt(max(a * a + 2.0 * (b - a) * goal, 0.0))
    return 2.0 * goal / max(a + root, 1e-300), mass


@jit_inner
def _invert(ratio: FloatArray, uniform: float, grid: tuple[FloatArray, FloatArray], height: FloatArray) -> float:
    """Return the normal probability below the point below which the distribution has probability `uniform`."""
    below, matrix = grid
    n, total = below.size, 0.0
    top = largest(ratio)
    for j in range(n):
        height[j] = 0.0
    for k in range(ratio.size):  # a loop over points vectorises, a sum over nodes does not
        gap = top - ratio[k]
        for j in range(n):
            height[j] += matrix[k, j] * gap
    for j in range(n):
        height[j] = exp_minus(max(height[j], -5.0) + 5.0)  # beyond the nodes a polynomial may run off
    for j in range(n - 1):
        total += 0.5 * (height[j] + height[j + 1]) * (below[j + 1] - below[j])
    left = uniform * total
    for j in range(n - 1):
        width = below[j + 1] - below[j]
        mass = 0.5 * (height[j] + height[j + 1]) * width
        if left <= mass or j == n - 2:
            return float(below[j] + width * _invert_linear_density(left / width, height[j], height[j + 1])[0])
        left -= mass
    return 0.5


@jit_inner
def _invert_steps(terms: FloatArray, uniform: float, between: FloatArray, mass: FloatArray) -> float:
    """Return the same point in steps from the first node, given log densities at all; `mass` is scratch."""
    n, near = terms.size, between.shape[2]
    top, total = largest(terms), 0.0
    for j in range(n - 1):
        first = min(max(j - near // 2 + 1, 0), n - near)
        middle = 0.0
        for k in range(near):
            middle += between[j - first, between.shape[1] // 2, k] * (terms[first + k] - top)
        ends = math.exp(terms[j] - top) + math.exp(terms[j + 1] - top)
        mass[j] = (ends + 4.0 * math.exp(min(middle, 1.0))) / 6.0
        total += mass[j]
    left, j = uniform * total, 0
    while j < n - 2 and left > mass[j]:
        left -= mass[j]
        j += 1
    share, fine = min(left / mass[j], 1.0), between.shape[1] - 1
    first, whole = min(max(j - near // 2 + 1, 0), n - near), 0.0
    for i in range(fine + 1):
        value = 0.0
        for k in range(near):
            value += between[j - first, i, k] * (terms[first + k] - top)
        mass[i] = math.exp(min(value, 1.0))
        whole += mass[i] * (0.5 if i in (0, fine) else 1.0)
    left = share * whole
    for i in range(fine):
        part, mass_within = _invert_linear_density(left, mass[i], mass[i + 1])
        if left <= mass_within or i == fine - 1:
            return float(j + (i + part) / fine)
        left -= mass_within
    return float(j)


@jit
def _invert_uniforms(
    terms: FloatArray, at: DrawNodes, tables: tuple[FloatArray, ...], levels: FloatArray, steps: FloatArray
) -> None:
    """Replace uniforms, shape (S, G), by normal probabilities, or write the effects where nodes have equal steps."""
    below, matrix, between, log_weights = tables
    height = np.empty(max(below.size, largest_count(at.first), between.shape[1]))
    ratio = np.empty(log_weights.size)
    for s in range(levels.shape[0]):
        for g in range(levels.shape[1]):
            log_terms = terms[s, at.first[g] : at.first[g + 1]]
            if at.scale[s, g] > 0.0:
                for k in range(ratio.size):
                    ratio[k] = log_terms[k] - log_weights[k]
                levels[s, g] = _invert(ratio, levels[s, g], (below, matrix), height)
            else:
                place = _invert_steps(log_terms, levels[s, g], between, height)
                steps[s, g], levels[s, g] = at.step[g] * place, 0.5


def effects_given(terms: FloatArray, at: DrawNodes, uniforms: FloatArray) -> FloatArray:
    """Return draws of effects, shape (S, G), from log terms at their nodes, (S, M), and uniforms, (S, G)."""
    levels, steps = np.array(uniforms), np.zeros(uniforms.shape)
    _invert_uniforms(
        np.ascontiguousarray(terms), at, (*_normal_grid(), _interpolation_weights(), LOG_WEIGHTS), levels, steps
    )
    return np.asarray(at.center[:, :-1] + steps + at.scale[:, :-1] * special.ndtri(levels))


_CHUNK = 1 << 18  # effects drawn at a time, fewer where they have more nodes: 30 MB


_SIGMA_RATIO = 1.3  # ratio of sigmas of draws that share a number of nodes


_MAX_HELD_BYTES = 1 << 28  # bytes of all draws, which are kept in memory once as many were asked for one by one


_STRIDE = 37  # between the probabilities of an effect and the next at one draw


MIN_SUMMARY_DRAWS = 100
"""Draws of (beta, log sigma) at least, at which all groups' effects are summarised."""


_SUMMARY_EFFECTS = 1 << 20  # effects of a summary: of few groups it is of more draws, as these have more in common


def summary_positions(n_draws: int, n_groups: int = 0) -> IntArray:
    """Return places of draws, evenly spaced: `MIN_SUMMARY_DRAWS`, or more where summaries are of few groups."""
    size = max(MIN_SUMMARY_DRAWS, _SUMMARY_EFFECTS // n_groups if n_groups else 0)
    return evenly_spaced(n_draws, size)


@dataclass
class _EffectCache:
    """All draws of effects, kept in memory once `asked` says that as many were drawn one by one."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    asked: int = 0
    draws: NDArray[np.float32] | None = None

    def __reduce__(self) -> tuple[type["_EffectCache"], tuple[()]]:
        return _EffectCache, ()  # workers elsewhere have their own


@dataclass(frozen=True, eq=False)
class EffectDraws:
    """Draws of the effects of any groups at R draws of (beta, log sigma), made when they are asked for.

    The uniform number of an effect is a hash of the seed, the draw's key and the group's number. So draws of a group
    are the same whatever else is asked for. As an array their shape is (R, G, 1).
    """

    theta: FloatArray  # (R, p + 1)
    keys: IntArray  # (R,)
    seed: int
    mean: FloatArray  # of each effect over the draws, (G,)
    find: Callable[[], CollapsedArguments]  # the rows' density
    kept: IntArray  # groups whose draws stand beside it
    # what all rows add to the mean of an effect given (beta, log sigma), and multiply its sd by, (G,) each
    moved: tuple[FloatArray, FloatArray] | None = None
    _cache: _EffectCache = field(default_factory=_EffectCache)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of draws and of groups."""
        return len(self.theta), len(self.mean)

    @cached_property
    def arguments(self) -> CollapsedArguments:
        """The rows' density."""
        return self.find()

    def __getitem__(self, index: Any) -> FloatArray:
        """Return draws, shape (S, k, 1), as an array does for draws, or for draws, shape (S, 1), and groups, (k,)."""
        at, groups = index if isinstance(index, tuple) else (index, np.arange(len(self.mean)))
        at = np.arange(len(self.theta))[at].ravel()
        some, places = np.unique(groups, return_inverse=True)
        return np.asarray(self.of(some, at)[:, places.ravel(), None])

    def summary(self) -> "EffectSummary":
        """Return what some of the draws, evenly spaced, say about all effects."""
        at = summary_positions(*self.shape)
        return summarise_effects(self.theta[at], self.arguments, self.moved)

    def of(self, groups: IntArray, at: IntArray | slice = slice(None)) -> NDArray[np.float32]:
        """Return draws of some groups' effects, float32 of shape (S, k); of the same ones many times from memory."""
        n_draws, n_groups = self.shape
        if (held := self._cache.draws) is None and 4 * n_draws * n_groups <= _MAX_HELD_BYTES:
            with self._cache.lock:  # threads ask for the effects of their rows
                self._cache.asked += len(self.theta[at]) * len(groups)
                if self._cache.draws is None and self._cache.asked > n_draws * n_groups:
                    self._cache.draws = self._drawn(np.arange(n_groups), slice(None))
                held = self._cache.draws
        return self._drawn(groups, at) if held is None else held[at][:, groups]

    def _drawn(self, groups: IntArray, at: IntArray | slice) -> NDArray[np.float32]:
        theta, keys = self.theta[at], self.keys[at].astype(np.uint64)
        arguments = self.arguments.of_groups(groups, np.ones(len(groups)))
        out = np.empty((len(theta), len(groups)), dtype=np.float32)
        for cut in _pieces_of_like_sigma(theta, arguments):
            places, terms = nodes_at(theta[cut], arguments)
            uniforms = np.empty((len(cut), len(groups)))
            _fill_uniforms(np.uint64(self.seed), keys[cut], groups, uniforms)
            u = effects_given(terms, places, uniforms)
            if self.moved is not None:
                shift, stretch = (each[groups] for each in self.moved)
                middle = effect_summaries(terms, places).mean
                u = middle + shift + (u - middle) * stretch
            out[cut] = u
        return out


def _pieces_of_like_sigma(theta: FloatArray, arguments: CollapsedArguments) -> Iterator[IntArray]:
    """Yield places of draws of like sigma, which share a number of nodes, as many as memory has room for.

    A few draws of large sigma would ask for nodes that the others have no use for.
    """
    order, start = np.argsort(theta[:, -1], kind="stable"), 0
    sigma = np.exp(theta[order, -1])
    n_groups = max(len(arguments.peak) - 1, 1)
    while start < len(order):
        wide = np.searchsorted(sigma, _SIGMA_RATIO * sigma[start], side="right")
        most = _CHUNK * N_NODES // n_nodes(float(sigma[wide - 1]), arguments)
        stop = min(wide, start + max(1, min(most, _CHUNK // n_groups)))
        yield order[start:stop]
        start = stop


@jit
def _fill_uniforms(seed: np.uint64, keys: NDArray[np.uint64], groups: IntArray, out: FloatArray) -> None:
    for s in range(keys.size):
        for k in range(groups.size):
            out[s, k] = hash_uniform(seed, np.uint64(groups[k]), keys[s])


class EffectSummary(NamedTuple):
    """Log-likelihoods of all rows at S draws, shape (S,), and of each effect mean, sd and draws: (G,), (S, G)."""

    log_likelihood: FloatArray
    mean: FloatArray
    sd: FloatArray
    draws: NDArray[np.float32]


def summarise_effects(
    theta: FloatArray, arguments: CollapsedArguments, moved: tuple[FloatArray, FloatArray] | None = None
) -> EffectSummary:
    """Return what S draws of (beta, log sigma) say about all effects; means and sds without the noise of draws.

    `moved` are shift and stretch of `EffectDraws`. Draws of an effect are at equally spaced probabilities given
    (beta, log sigma): for quantiles, not for joint draws.
    """
    n_draws, n_groups = len(theta), len(arguments.peak) - 1
    log_p, total, square = np.empty(n_draws), np.zeros(n_groups), np.zeros(n_groups)
    draws = np.empty((n_draws, n_groups), dtype=np.float32)
    for cut in _pieces_of_like_sigma(theta, arguments):
        at, terms = nodes_at(theta[cut], arguments)
        moments = effect_summaries(terms, at)
        log_p[cut] = moments.log_p.sum(axis=1)
        turn = (cut[:, None] + _STRIDE * np.arange(n_groups)) % n_draws
        mean, variance, u = moments.mean, moments.variance, effects_given(terms, at, (turn + 0.5) / n_draws)
        if moved is not None:
            u = mean + moved[0] + (u - mean) * moved[1]
            mean, variance = mean + moved[0], variance * moved[1] ** 2
        total += mean.sum(axis=0)
        square += (variance + mean**2).sum(axis=0)
        draws[cut] = u
    mean = total / n_draws
    return EffectSummary(log_p, mean, np.sqrt(np.maximum(square / n_draws - mean**2, 0.0)), draws)


KEPT_BYTES = 16 << 20
"""Bytes of the draws of effects that `sample` keeps, 4 for each group and draw."""


QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)


_DAMAGED = "the attributes of its posterior are not those that bayescore.sample wrote; sample again"


def draw_keys(chains: int | IntArray, draws: int | IntArray) -> IntArray:
    """Return a number for each draw of each chain, shape (chains * draws,), by numbers of chains and draws."""
    own, each = (np.arange(part) if isinstance(part, int) else part for part in (chains, draws))
    return np.asarray(((own[:, None] << 32) + each).ravel(), dtype=np.int64)


def level_dim(grouping: Grouping) -> str:
    """Return the dimension of all levels in ``constant_data``, where a factor may be called what the rows' own is."""
    return f"{grouping.name}_level"


def summary_dataset(summary: EffectSummary, grouping: Grouping) -> "xr.Dataset":
    """Return mean, sd and quantiles of all effects of a factor, for ``constant_data``."""
    import xarray as xr  # the command line lists samplers without it

    name, dims = grouping.name, (level_dim(grouping),)
    variables: dict[str, Any] = {
        f"u_{name}_mean": (dims, summary.mean),
        f"u_{name}_sd": (dims, summary.sd),
        f"u_{name}_quantiles": (("quantile", *dims), np.quantile(summary.draws, QUANTILES, axis=0).astype(np.float32)),
    }
    return xr.Dataset(variables, coords={dims[0]: list(grouping.levels), "quantile": list(QUANTILES)})


def unkept_effects(idata: Any, design: Design) -> EffectDraws | None:
    """Return the effects of all groups, where the posterior keeps draws of some only; else None."""
    posterior = idata["posterior"]
    if "effects_seed" not in posterior.attrs:
        return None
    factor, constant = design.groups[0], idata.get("constant_data", {})
    wanted = ("X", "y", "weights", "group", f"u_{factor.name}_mean")
    if missing := [name for name in wanted if name not in constant]:
        raise DataError(f"idata lacks {missing[0]!r} in constant_data, from which effects of groups follow; keep it")
    beta, sigma = (posterior[name].transpose("chain", "draw", ...) for name in ("beta", f"sigma_{factor.name}"))
    theta = np.concatenate([beta.values, np.log(sigma.values)[..., None]], axis=2)
    keys = draw_keys(*(posterior[name].values.astype(np.int64) for name in ("chain", "draw")))
    place = {level: k for k, level in enumerate(factor.levels)}
    kept = np.array([place[level] for level in posterior[factor.name].values.tolist()], dtype=np.int64)
    moved = None
    if f"u_{factor.name}_shift" in constant:
        moved = constant[f"u_{factor.name}_shift"].values, constant[f"u_{factor.name}_stretch"].values

    def find() -> CollapsedArguments:
        return _target(idata, design).arguments()

    mean = np.asarray(constant[f"u_{factor.name}_mean"].values, dtype=np.float64)
    flat = theta.reshape(-1, theta.shape[2])
    return EffectDraws(flat, keys, int(posterior.attrs["effects_seed"]), mean, find, kept, moved)


def _target(idata: Any, design: Design) -> CollapsedTarget:
    """Return the posterior of the rows that draws keep."""
    attrs, constant = idata["posterior"].attrs, idata["constant_data"]
    made = json_object(attrs.get("coreset", "{}"), _DAMAGED)
    offset = constant["offset"].values if "offset" in constant else None
    rows = [constant[name].values for name in ("X", "y", "weights", "row")]
    try:
        about = {key: made[key] for key in ("label", "n_total", "weight_total", "method", "family", "params")}
        about |= {key: made[key] for key in ("random_state", "version")} | {"classes": tuple(made["classes"])}
        about |= {"design": design, "offset": offset, "group": constant["group"].values}
        core = Coreset(*rows, **about)
        prior = prior_from_dict(json_object(attrs["effects_prior"], _DAMAGED))
        group_prior = group_prior_from_dict(json_object(attrs["group_prior"], _DAMAGED))
    except (KeyError, TypeError, ValueError):
        raise DataError(f"idata has effects of groups that cannot be drawn: {_DAMAGED}") from None
    return CollapsedTarget.of(core, check_family(attrs["family"]), (prior, group_prior), len(design.groups[0]))
