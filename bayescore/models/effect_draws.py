r"""Draws of group effects given (beta, log sigma), from the logarithms of their density at the nodes of a quadrature.

The density's logarithm less that of the normal one of the nodes is smooth: it is interpolated between the nodes by the
polynomial through them, and drawn from by inverse distribution function, piecewise linear in the normal probability on
a grid. Exact but for that (`tests/models/test_effect_draws.py`: moments to 1e-3).
"""

import math
from functools import cache

import numpy as np
from scipy import special

from bayescore.compiled import jit
from bayescore.models.collapsed import CollapsedArguments, nodes_at
from bayescore.models.quadrature import LOG_WEIGHTS, NODES
from bayescore.types import FloatArray

_REACH, _POINTS = 6.0, 65  # of the grid, in sds of the normal density
_CHUNK = 1 << 18  # effects drawn at a time: 30 MB


@cache
def _grid() -> tuple[FloatArray, FloatArray]:
    """Return normal probabilities below points of the grid, and the matrix that interpolates from the nodes to them."""
    points = np.linspace(-_REACH, _REACH, _POINTS)
    barycentric = 1.0 / np.prod(NODES[:, None] - NODES + np.eye(len(NODES)), axis=1)
    apart = points[:, None] - NODES
    apart[np.abs(apart) < 1e-9] = 1e-9  # a point that is a node
    weight = barycentric / apart
    return special.ndtr(points), np.ascontiguousarray(weight / np.sum(weight, axis=1, keepdims=True))


@jit
def _invert(ratio: FloatArray, uniform: float, below: FloatArray, matrix: FloatArray, height: FloatArray) -> float:
    """Return the normal probability below the point below which the distribution has probability `uniform`."""
    n, total = below.size, 0.0
    top = ratio.max()
    for j in range(n):
        value = 0.0
        for k in range(ratio.size):
            value += matrix[j, k] * (ratio[k] - top)
        height[j] = math.exp(min(value, 5.0))  # beyond the nodes a polynomial may run off
    for j in range(n - 1):
        total += 0.5 * (height[j] + height[j + 1]) * (below[j + 1] - below[j])
    left = uniform * total
    for j in range(n - 1):
        width = below[j + 1] - below[j]
        mass = 0.5 * (height[j] + height[j + 1]) * width
        if left <= mass or j == n - 2:
            a, rise = height[j], height[j + 1] - height[j]
            goal = min(left / max(mass, 1e-300), 1.0) * (a + 0.5 * rise)  # a t + rise t^2 / 2
            root = math.sqrt(max(a * a + 2.0 * rise * goal, 0.0))
            level: float = below[j] + width * 2.0 * goal / max(a + root, 1e-300)
            return level
        left -= mass
    return 0.5


@jit
def _levels(
    values: FloatArray, levels: FloatArray, below: FloatArray, matrix: FloatArray, log_weights: FloatArray
) -> None:
    height = np.empty(below.size)
    for s in range(levels.shape[0]):
        for g in range(levels.shape[1]):
            levels[s, g] = _invert(values[s, g] - log_weights, levels[s, g], below, matrix, height)


def effects_given(values: FloatArray, center: FloatArray, scale: FloatArray, uniforms: FloatArray) -> FloatArray:
    """Return draws of effects, shape (S, G), from log terms at their nodes, (S, G, K), and uniforms, (S, G)."""
    levels = np.array(uniforms)
    _levels(np.ascontiguousarray(values), levels, *_grid(), LOG_WEIGHTS)
    return np.asarray(center + scale * special.ndtri(levels))


def draw_effects(draws: FloatArray, rng: np.random.Generator, arguments: CollapsedArguments) -> FloatArray:
    """Return a draw of each group's effect at each draw of (beta, log sigma), shape (S, G)."""
    n_groups = arguments.peak.size - 1  # the last are rows of none
    out = np.empty((len(draws), n_groups))
    step = max(1, _CHUNK // n_groups)
    for start in range(0, len(draws), step):
        cut = slice(start, start + step)
        center, scale, values = nodes_at(draws[cut], arguments)
        out[cut] = effects_given(values[:, :-1], center[:, :-1], scale[:, :-1], rng.random(out[cut].shape))
    return out
