r"""Log-likelihoods of a large group at many nodes, from weights on a grid of predictors.

A row's log-likelihood f depends on it by its predictor and label alone, so rows of one label are replaced by weights m
on an even grid: f between its points is a polynomial through the eight nearest. A row's weight is divided among
these by the polynomial's coefficients (Lagrange). A group then costs evaluations of f at the grid, not at each row, for
each of its nodes b:

.. math:: \sum_n w_n f(\eta_n + b) \approx \sum_j m_j f(e_j + b)

The error of a row is at most 0.0011 h^8 times the eighth derivative of f: about 1e-11 at h = 0.1.
A family of the user's own may bend faster than that: `serves` looks whether its f is such a polynomial between points.
"""

import math
from functools import lru_cache

import numpy as np

from bayescore.compiled import jit_inner
from bayescore.families import Family
from bayescore.models.groups.nodes import NodeRows, NodeSet
from bayescore.numerics.elementary import dot, fill
from bayescore.types import FloatArray

_STEP = 0.1  # of the grid, at most


_POINTS = 8  # that share a row's weight


_ROWS_PER_POINT = 4  # fewer for each point of the grid are evaluated one by one; 1 where nodes are points of it


LARGE = 16 * _POINTS
"""Rows of a group below which no grid is tried."""


_FAR = 1e12  # of all predictors together, beyond which places are no whole numbers


_DIVISORS = np.array([-5040.0, 720.0, -240.0, 144.0, -144.0, 240.0, -720.0, 5040.0])


@lru_cache(maxsize=64)
def serves(family: Family) -> bool:
    """Whether log-likelihoods of a family are those of the grid half-way between its points, to 1e-8."""
    points = np.arange(-30.0, 30.0, _STEP)
    middle = points[_POINTS // 2 - 1 : 1 - _POINTS // 2 - 1] + 0.5 * _STEP
    shares = np.zeros(_POINTS)
    _divide(_POINTS // 2 - 0.5, 1.0, shares)
    for side in (1, -1):
        near = np.lib.stride_tricks.sliding_window_view(family.log_p(points, side), _POINTS)
        true = family.log_p(middle, side)
        if not np.all(np.abs(near @ shares - true) <= 1e-8 * np.maximum(np.abs(true), 1.0)):
            return False
    return True


@jit_inner
def _divide(place: float, weight: float, mass: FloatArray) -> None:
    """Add a weight to the points about a place, which is in steps from the first point."""
    first = int(place) - (_POINTS // 2 - 1)
    left = place - first
    before = weight
    for i in range(_POINTS):
        after = before
        for j in range(i + 1, _POINTS):
            after *= left - j
        mass[first + i] += after / _DIVISORS[i]
        before *= left - i


@jit_inner
def add_by_grid(eta: FloatArray, rows: NodeRows, at: NodeSet, family: Family, values: FloatArray) -> bool:
    """Add phi of the rows of one group at its nodes to values, shape (K,); False, and nothing, for too few rows.

    The rows multiply their effect by 1.
    """
    g = rows.codes[0]
    n, count, h, fewest = eta.size, values.size, _STEP, _ROWS_PER_POINT
    even = at.scale[g] == 0.0  # nodes of the trapezoid: one evaluation of the grid serves all
    if even:
        if at.step[g] == 0.0:  # rows of no group
            return False
        h, fewest = at.step[g] / math.ceil(at.step[g] / _STEP), 1
    low, high, total = eta[0], eta[0], 0.0
    for i in range(n):
        low, high, total = min(low, eta[i]), max(high, eta[i]), total + abs(eta[i])
    if not total < _FAR:  # or one is not finite
        return False
    begin = math.floor(low / h) - (_POINTS // 2 - 1)
    if not (high - low) / h + _POINTS + 1 <= n / fewest:
        return False
    size = int(math.floor(high / h) - begin) + _POINTS // 2 + 1
    mass = np.zeros((2, size))
    for i in range(n):
        _divide(eta[i] / h - begin, rows.weights[i], mass[0 if rows.side[i] > 0 else 1])
    if even:
        stride = round(at.step[g] / h)
        length, calls = size + (count - 1) * stride, 1
    else:
        stride, length, calls = 0, size, min(count, at.nodes.size)
    space = np.empty((3, length))
    points, sides, log_p = space[0], space[1], space[2]
    for k in range(2):
        fill(sides, 1.0 - 2.0 * k)
        for call in range(calls):
            middle = begin * h + at.center[g] + (0.0 if even else at.scale[g] * at.nodes[call])
            for j in range(length):
                points[j] = middle + h * j
            family.rows(points, sides, log_p)
            if even:
                for node in range(count):
                    values[node] += dot(mass[k], log_p[node * stride : node * stride + size])
            else:
                values[call] += dot(mass[k], log_p)
    return True
