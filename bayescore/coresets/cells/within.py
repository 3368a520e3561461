r"""What rows say about beta within their cells, as pseudo-rows of no cell: one for each direction.

The score and curvature of all rows, with the effects integrated out, less those of the rows that stand for cells are
condensed along their own directions in beta. Third and fourth derivatives along these are sums over
d_n = x_n - B' H^-1 z_n, what a row has beside its cell's pseudo-rows. Directions of hardly any curvature share one more
pseudo-row, which has their score.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import linalg

from bayescore.coresets.cells.points import Points
from bayescore.coresets.cells.pseudo import Directions
from bayescore.coresets.cells.settle import Centre
from bayescore.coresets.cells.sums import sums_of_rows
from bayescore.coresets.condensing.pseudo_rows import Wanted, as_rows, solve
from bayescore.coresets.ties import oriented
from bayescore.data.dataset import Dataset
from bayescore.models.group_sums import local_codes
from bayescore.types import NO_GROUP, FloatArray, IntArray, WeightedData, stack

_NOTHING = 1e-3  # curvature of a direction, in units of the posterior's: below it no sd changes by more than 0.05%
_LESS = 0.01  # the same, by which pseudo-rows of cells may say more than the rows where a direction counts as flat
_SHIFT = 0.01  # sds by which the score along flat directions may move the mean, before a pseudo-row has it
_WIDE = 10.0  # its curvature in its own units over the square of its score: both labels have weight then


@dataclass(frozen=True, eq=False)
class Inside:
    """The rows that stand for cells: pseudo-rows, and rows of cells that keep them.

    `merged`, shape (C + 1,), says which cells have pseudo-rows; `missed`, shape (C,), what these miss of their shape.
    """

    pseudo: WeightedData
    kept: WeightedData
    merged: np.ndarray
    missed: FloatArray


def rows_within(dataset: Dataset, found: Centre, along: Directions, inside: Inside) -> tuple[WeightedData, float]:
    """Return pseudo-rows of no cell, failures and successes; two passes.

    And by how many sds of a coefficient the gradient that is left moves the mean at most.
    """
    points, sums, at = found.points, found.sums, found.points.at
    slope, rows = along.slope(sums.cross), stack([inside.pseudo, inside.kept])
    shares, own = points.shares(points.values_of(rows)), sums_of_rows(rows, at, points.family)
    gradient = sums.gradient + found.excess - own.gradient - points.excess_of(shares, rows)
    curvature = sums.precision + points.information(found.shares, dataset)
    curvature -= own.precision + points.information_of(shares, rows)
    mu, Q = np.linalg.eigh(at.factor.T @ curvature @ at.factor)
    told = mu > _NOTHING
    flat = Q[:, ~told & (mu > -_LESS)]
    mu, Q = mu[told], oriented(Q[:, told])
    v = linalg.solve_triangular(at.factor, Q * np.sqrt(mu), trans="T", lower=True)
    u = at.factor @ Q / np.sqrt(mu)
    work = partial(_higher, points, (inside.merged, slope @ u, u))
    third, fourth = sum(dataset.map(work, "within cells", canonical=True), np.zeros((2, len(mu))))
    within = as_rows(v, at.beta, solve(Wanted(u.T @ gradient, third, fourth, mu), points.family))
    rest = flat @ (flat.T @ (at.factor.T @ gradient))
    if np.linalg.norm(rest) > _SHIFT:
        within = stack([within, _flat(rest, found)])
    within = replace(within, group=np.full((len(within), 1), NO_GROUP))
    left = gradient - sums_of_rows(within, at, points.family).gradient
    return within, float(np.abs(at.factor @ (at.factor.T @ left) / at.sds).max())


def _flat(score: FloatArray, found: Centre) -> WeightedData:
    """Return the pseudo-row of a score of white coefficients, shape (p,), of hardly any curvature."""
    at, family, zero = found.points.at, found.points.family, np.zeros(1)
    size = float(np.linalg.norm(score))
    along = (score / size)[:, None] * np.sqrt(_NOTHING)
    pull = np.full(1, size / np.sqrt(_NOTHING))
    solved = solve(Wanted(pull, zero, zero, np.full(1, _NOTHING)), family, size=1.0 + _WIDE * pull**2)
    return as_rows(linalg.solve_triangular(at.factor, along, trans="T", lower=True), at.beta, solved)


def _higher(points: Points, along: tuple[FloatArray, ...], _: int, block: WeightedData) -> FloatArray:
    """Return sums of third and fourth derivatives along directions within cells, shape (2, r)."""
    merged, slope, u = along
    at = points.at
    found, places = local_codes(block, len(at.mean) - 1)
    own: IntArray = found[places]
    derivatives = at.derivatives(block, own, points.family) * merged[own]
    z = at.multipliers(block.X)
    d = block.X @ u - sum(z[:, q, None] * slope[own, q] for q in range(z.shape[1]))
    square = d * d  # a tenth of the time of powers
    return np.stack([derivatives[2] @ (square * d), derivatives[3] @ (square * square)])
