r"""Binomial pseudo-rows with offsets: one for each direction, with given averaged derivatives along it.

A pseudo-row along v, in whose direction a log-likelihood's averaged derivatives are g (score), 1 (minus the second),
tau (third) and phi (fourth), has the covariates x = v / sqrt(D), the predictor o + x . (theta - t), a successes and b
failures. o is counted from the family's center:

.. math:: a \mathrm E[s_+(o + e)] + b \mathrm E[s_-(o + e)] &= \sqrt D g \\
          a \mathrm E[c_+(o + e)] + b \mathrm E[c_-(o + e)] &= D \\
          a \mathrm E[l_+'''(o + e)] + b \mathrm E[l_-'''(o + e)] &= D^{3/2} \tau

with the derivatives of the family's sides and e ~ N(0, v'Cv / D): the first two are linear in a and b, the third is
solved for the offset o. D, the curvature that the row has in units of its own predictor, sets the fourth derivative,
about as 1 / D; the one that meets phi at o = 0 is taken where that leaves a and b positive and a solution for tau, else
the nearest by factors of 2. As D grows the row becomes a normal density, and any score can be met; then tau is met as
nearly as may be.

For the logistic link c and l''' are those of the binomial, whatever the label; the equations hold for any link. Where
l+ = e and l- = -exp(e) they have one solution in closed form: with the direction's sign such that tau <= 0,

.. math:: o = 0, \quad D = 1 / \tau^2, \quad b = D \exp(-v'Cv / 2D), \quad a = D + \sqrt D g,

a Poisson row of count a and exposure b. It meets phi if phi = tau^2, as a single row would have it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.coresets.condensing.averages import averages
from bayescore.models.families import Family
from bayescore.types import NO_ROW, FloatArray, WeightedData

FARTHEST = 6.0  # offset: beyond it a row has hardly any curvature left
_GRID = np.linspace(-FARTHEST, FARTHEST, 97)
_MOST_STEPS, _STILL = 60, 1e-13  # within a cell of the grid
_SKEWNESS = 0.81  # bound of tau^2 D: 1 - 2 p = tau sqrt(D) of a logistic row is 0.9
_NEAR = (1.0, 0.5, 2.0, 0.25, 4.0, 0.125, 8.0)  # times the D that meets phi, for a D that meets tau
_LEAST_SKEWNESS = 1e-5  # tau: below it a row of D = 1e10 is normal to rounding
_NOTHING = 1e-9  # of the successes and failures together, below which either is rounding
_FAR = tuple(2.0**k for k in range(4, 60))  # for one that meets the score


class Wanted(NamedTuple):
    """Averaged derivatives along directions, and the variance of v . theta, shape (K,) each."""

    score: FloatArray
    third: FloatArray
    fourth: FloatArray
    variance: FloatArray

    def take(self, which: NDArray[Any]) -> "Wanted":
        """Return those of some directions."""
        return Wanted(*(value[which] for value in self))


class Solved(NamedTuple):
    """Curvature D of each row in its own units, offset o at t, successes and failures, shape (K,) each.

    `sign` is that of the direction that the row lies along.
    """

    size: FloatArray
    offset: FloatArray
    successes: FloatArray
    failures: FloatArray
    sign: FloatArray


def _counts(
    wanted: Wanted, size: FloatArray, offset: FloatArray, family: Family
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return successes, failures and what the third derivative is over `wanted`, of the shape of `offset`."""
    sd = np.broadcast_to(np.sqrt(wanted.variance / size), offset.shape).ravel()
    (s, c, third, _), (s_, c_, third_, _) = (
        averages(family.center + offset.ravel(), sd, np.full(offset.size, side, dtype=np.int8), family).reshape(
            4, *offset.shape
        )
        for side in (1, -1)
    )
    pull, cross = np.sqrt(size) * wanted.score, s * c_ - s_ * c
    a, b = (pull * c_ - s_ * size) / cross, (s * size - pull * c) / cross
    return a, b, (a * third + b * third_) / size**1.5 - wanted.third


def solve(wanted: Wanted, family: Family, *, times: float = 1.0, size: FloatArray | None = None) -> Solved:
    """Return pseudo-rows with the derivatives that are wanted: score and curvature exactly, third where it can be.

    The D tried first is `times` that which meets the fourth; or D is `size`, shape (K,).
    """
    if family.exponential:
        return _exponential(wanted, size)
    if size is not None:
        offset, _ = _offsets(wanted, size, family)
        a, b, _ = _counts(wanted, size, offset, family)
        return _solved(size, offset, (a, b), family)
    at_zero = averages(np.full(1, family.center), np.full(1, 0.1), np.ones(1, dtype=np.int8), family)[:, 0]
    flat = max(float(at_zero[3] / at_zero[1]), 1e-3)
    first = times * np.minimum(
        flat / np.maximum(wanted.fourth, 1e-9), _SKEWNESS / np.maximum(wanted.third**2, np.finfo(float).tiny)
    )
    size, offset, miss = first.copy(), np.zeros_like(first), np.full_like(first, np.inf)
    left = np.arange(len(first))
    for factor in (*_NEAR, *_FAR):
        part, tried = wanted.take(left), factor * first[left]
        at, over = _offsets(part, tried, family)
        better = over < miss[left]
        chosen = left[better]
        size[chosen], offset[chosen], miss[chosen] = tried[better], at[better], over[better]
        left = left[miss[left] > 0.0] if factor in _NEAR[:-1] else left[np.isinf(miss[left])]
        if not len(left):
            break
    a, b, _ = _counts(wanted, size, offset, family)
    return _solved(size, offset, (a, b), family)


def _solved(size: FloatArray, offset: FloatArray, counts: tuple[FloatArray, FloatArray], family: Family) -> Solved:
    a, b = counts
    return Solved(size, family.center + offset, np.maximum(a, 0.0), np.maximum(b, 0.0), np.ones(len(size)))


def _exponential(wanted: Wanted, size: FloatArray | None) -> Solved:
    """Return rows of a count and an exposure; D is `size`, or that which meets the third derivative.

    A score below what no events would have is met by a larger D, as other families' rows do.
    """
    sign = np.ones(len(wanted.third))
    if size is None:
        sign = np.where(wanted.third > 0.0, -1.0, 1.0)
        size = np.maximum(1.0 / np.maximum(np.abs(wanted.third), _LEAST_SKEWNESS), np.abs(wanted.score)) ** 2
    count = size + np.sqrt(size) * sign * wanted.score
    exposure = size * np.exp(-0.5 * wanted.variance / size)
    return Solved(size, np.zeros(len(size)), np.maximum(count, 0.0), exposure, sign)


def _offsets(wanted: Wanted, size: FloatArray, family: Family) -> tuple[FloatArray, FloatArray]:
    """Return the offset nearest 0 that meets the third derivative, else that which is nearest to it, and the miss.

    The miss is 0 where it is met and infinite where the score cannot be.
    """
    column = Wanted(*(value[:, None] for value in wanted))
    a, b, over = _counts(column, size[:, None], np.tile(_GRID, (len(size), 1)), family)
    miss = np.where((a >= 0.0) & (b >= 0.0), np.abs(over), np.inf)
    within = np.isfinite(miss[:, :-1]) & np.isfinite(miss[:, 1:])
    crossing = within & ((over[:, :-1] <= 0.0) != (over[:, 1:] <= 0.0))
    found = crossing.any(axis=1)
    low = _GRID[np.where(crossing, np.abs(_GRID[:-1] + _GRID[1:]), np.inf).argmin(axis=1)]
    offset, least = _GRID[miss.argmin(axis=1)], miss.min(axis=1)
    offset[found] = _crossing(wanted.take(found), size[found], low[found], family)
    least[found] = 0.0
    return offset, least


def _crossing(wanted: Wanted, size: FloatArray, low: FloatArray, family: Family) -> FloatArray:
    """Return where the third derivative is the one wanted, within the cell of the grid that begins at `low`.

    By regula falsi, with Illinois' halving of an end that stays.
    """
    high = low + (_GRID[1] - _GRID[0])
    at_low, at_high = _counts(wanted, size, low, family)[2], _counts(wanted, size, high, family)[2]
    middle, below = low, at_low <= 0.0
    for _ in range(_MOST_STEPS):
        before, slope = middle, at_high - at_low
        middle = low - at_low * (high - low) / np.where(slope == 0.0, np.inf, slope)
        if not (np.abs(middle - before) > _STILL).any():
            break
        value = _counts(wanted, size, middle, family)[2]
        same = (value <= 0.0) == below  # as at the lower end
        stayed = same == (before == low)
        at_low = np.where(same, value, np.where(stayed, 0.5 * at_low, at_low))
        at_high = np.where(same, np.where(stayed, 0.5 * at_high, at_high), value)
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return np.asarray(middle)


def as_rows(root: FloatArray, center: FloatArray, solved: Solved) -> WeightedData:
    """Return pseudo-rows along the columns of `root`, shape (D, K), that were solved at `center`, as weighted rows.

    Each is two of them, failures and successes with their numbers as weights. One of hardly any weight is left out.
    """
    X = np.repeat((root * (solved.sign / np.sqrt(solved.size))).T, 2, axis=0)
    counts = np.column_stack([solved.failures, solved.successes])
    weights, something = counts.ravel(), (counts > _NOTHING * counts.sum(axis=1, keepdims=True)).ravel()
    y = np.tile(np.array([-1, 1], dtype=np.int8), len(solved.size))
    index = np.full(len(y), NO_ROW)
    offset = np.repeat(solved.offset, 2) - X @ center
    rows = WeightedData(np.ascontiguousarray(X), y, weights, index, offset=offset)
    return rows.take(something)
