r"""Draws of group effects given (beta, log sigma), from the logarithms of their density at the nodes of a quadrature.

At Gauss and Hermite's nodes the density's logarithm less that of their normal density is smooth: it is interpolated by
the polynomial through them, and drawn from by inverse distribution function, piecewise linear in the normal probability
on a grid. Between nodes of equal steps the logarithm itself is interpolated, by the polynomial through the eight
nearest: an interval is drawn with its mass by Simpson's rule, and a point in it by inverse distribution function, the
density piecewise linear on a fine grid. Exact but for that (`tests/models/test_effect_draws.py`: moments to 1e-3).
"""

import math
from functools import cache

import numpy as np
from scipy import special

from bayescore.compiled import jit
from bayescore.models.effect_nodes import DrawNodes
from bayescore.models.elementary import exp_minus
from bayescore.models.quadrature import LOG_WEIGHTS, NODES
from bayescore.types import FloatArray

_REACH, _POINTS = 6.0, 65  # of the grid, in sds of the normal density
_NEAR, _FINE = 8, 16  # nodes that an interpolation is through, and points of the grid of one interval


@cache
def _grid() -> tuple[FloatArray, FloatArray]:
    """Return normal probabilities below points of the grid, and the matrix that interpolates from the nodes to them."""
    points = np.linspace(-_REACH, _REACH, _POINTS)
    return special.ndtr(points), np.ascontiguousarray(_interpolation(NODES, points).T)


@cache
def _between() -> FloatArray:
    """Return weights of interpolation from the nearest nodes, shape (_NEAR - 1, _FINE + 1, _NEAR).

    The first index says between which of them a point lies: near an end they are not about it.
    """
    nodes, points = np.arange(float(_NEAR)), np.linspace(0.0, 1.0, _FINE + 1)
    return np.array([_interpolation(nodes, left + points) for left in range(_NEAR - 1)])


def _interpolation(nodes: FloatArray, points: FloatArray) -> FloatArray:
    """Return the matrix that takes values at nodes to those of the polynomial through them at points."""
    barycentric = 1.0 / np.prod(nodes[:, None] - nodes + np.eye(len(nodes)), axis=1)
    apart = points[:, None] - nodes
    apart[np.abs(apart) < 1e-9] = 1e-9  # a point that is a node
    weight = barycentric / apart
    return np.ascontiguousarray(weight / np.sum(weight, axis=1, keepdims=True))


@jit
def _within(left: float, a: float, b: float) -> tuple[float, float]:
    """Return what part of an interval has the mass `left`, and all its mass, if the density goes from a to b."""
    mass = 0.5 * (a + b)
    goal = min(left / max(mass, 1e-300), 1.0) * mass  # a t + (b - a) t^2 / 2
    root = math.sqrt(max(a * a + 2.0 * (b - a) * goal, 0.0))
    return 2.0 * goal / max(a + root, 1e-300), mass


@jit
def _invert(
    ratio: FloatArray, uniform: float, grid: tuple[FloatArray, FloatArray], height: FloatArray, powers: FloatArray
) -> float:
    """Return the normal probability below the point below which the distribution has probability `uniform`."""
    below, matrix = grid
    n, total = below.size, 0.0
    top = ratio.max()
    height[:n] = 0.0
    for k in range(ratio.size):  # a loop over points vectorises, a sum over nodes does not
        gap = top - ratio[k]
        for j in range(n):
            height[j] += matrix[k, j] * gap
    for j in range(n):
        height[j] = max(height[j], -5.0) + 5.0  # beyond the nodes a polynomial may run off
    exp_minus(height[:n], powers[:n], powers[:n].view(np.int64))
    for j in range(n - 1):
        total += 0.5 * (height[j] + height[j + 1]) * (below[j + 1] - below[j])
    left = uniform * total
    for j in range(n - 1):
        width = below[j + 1] - below[j]
        mass = 0.5 * (height[j] + height[j + 1]) * width
        if left <= mass or j == n - 2:
            return float(below[j] + width * _within(left / width, height[j], height[j + 1])[0])
        left -= mass
    return 0.5


@jit
def _invert_steps(terms: FloatArray, uniform: float, between: FloatArray, mass: FloatArray) -> float:
    """Return the same point in steps from the first node, given log densities at all; `mass` is scratch."""
    n, near = terms.size, between.shape[2]
    top, total = terms.max(), 0.0
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
        part, own = _within(left, mass[i], mass[i + 1])
        if left <= own or i == fine - 1:
            return float(j + (i + part) / fine)
        left -= own
    return float(j)


@jit
def _draw(
    terms: FloatArray, at: DrawNodes, tables: tuple[FloatArray, ...], levels: FloatArray, steps: FloatArray
) -> None:
    """Replace uniforms, shape (S, G), by normal probabilities, or write the effects where nodes have equal steps."""
    below, matrix, between, log_weights = tables
    height = np.empty(max(below.size, np.diff(at.first).max(), between.shape[1]))
    powers = np.empty(below.size)
    for s in range(levels.shape[0]):
        for g in range(levels.shape[1]):
            own = terms[s, at.first[g] : at.first[g + 1]]
            if at.scale[s, g] > 0.0:
                ratio = own[: log_weights.size] - log_weights
                levels[s, g] = _invert(ratio, levels[s, g], (below, matrix), height, powers)
            else:
                place = _invert_steps(own, levels[s, g], between, height)
                steps[s, g], levels[s, g] = at.step[g] * place, 0.5


def effects_given(terms: FloatArray, at: DrawNodes, uniforms: FloatArray) -> FloatArray:
    """Return draws of effects, shape (S, G), from log terms at their nodes, (S, M), and uniforms, (S, G)."""
    levels, steps = np.array(uniforms), np.zeros(uniforms.shape)
    _draw(np.ascontiguousarray(terms), at, (*_grid(), _between(), LOG_WEIGHTS), levels, steps)
    return np.asarray(at.center[:, :-1] + steps + at.scale[:, :-1] * special.ndtri(levels))
