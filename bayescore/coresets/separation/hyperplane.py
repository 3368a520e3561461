"""Hyperplanes through the origin and signed rows z_n = y_n x_n: the widest margin, and the rows that contradict one.

Rows are taken in coordinates in which X'WX is the identity, and at unit length: z . direction / |direction| is then the
cosine of an angle, whatever the scales of columns and rows.

`warn_if_completely_separated` takes a fraction of the time of `separability`. No direction has z_n . direction > 0 in
all rows if and only if 0 is in the convex hull of the z_n (Gordan 1873); else the point of the hull nearest to 0 is the
direction of the widest margin. Non-negative least squares finds it (Lawson and Hanson 1974, chapter 23).
"""

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy.optimize import linprog, nnls

from bayescore.compiled import jit
from bayescore.coresets.scores.factor import Whitening, block_factor, whitening
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.passes.threads import one_blas_thread
from bayescore.data.passes.tiles import TILE, load_signed_tile, new_tile
from bayescore.models.row_kernels import predictor, squared_lengths
from bayescore.types import FloatArray, LabelArray, WeightedData, stack
from bayescore.validation import warn

TOLERANCE = 1e-9  # cosine that counts as 0; the solver's own tolerance is 1e-10, the least that HiGHS takes
CUTS = 500  # rows that a pass brings back


class UnsolvedError(RuntimeError):
    """The linear program was not solved."""


def unit_rows(block: WeightedData, white: Whitening) -> tuple[FloatArray, FloatArray]:
    """Return signed rows at unit length, shape (n, r), rows of zeros as such, and their rounding errors, shape (n,).

    The errors are those of z . basis . direction for any direction with entries between -1 and 1.
    """
    rows = block.Z @ white.basis
    length = np.linalg.norm(rows, axis=1)
    error = block.n_features * np.finfo(float).eps * (np.abs(block.X) @ np.abs(white.basis).sum(axis=1))
    inverse = np.divide(1.0, length, out=np.zeros_like(length), where=length > error)
    return rows * inverse[:, None], error * inverse


@jit
def _margins(
    X: FloatArray,
    y: LabelArray,
    basis: FloatArray,
    normal: FloatArray,
    reach: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return z . normal over abs(z' basis), and the rounding errors of `unit_rows`, shape (n,) each."""
    margins, errors = np.empty(len(y)), np.empty(len(y))
    tile, eps = new_tile(X.shape[1]), X.shape[1] * 2.220446049250313e-16
    margin, squares, size = np.empty(TILE), np.empty(TILE), np.empty(TILE)
    for start in range(0, len(y), TILE):
        width = min(TILE, len(y) - start)
        load_signed_tile(X, y, start, width, tile)
        squared_lengths(tile, basis, size, squares)
        predictor(tile, normal, margin)
        size[:] = 0.0
        for d in range(X.shape[1]):
            for lane in range(TILE):
                size[lane] += abs(tile[d, lane]) * reach[d]
        for lane in range(width):
            length, error = math.sqrt(squares[lane]), eps * size[lane]
            inverse = 1.0 / length if length > error else 0.0
            margins[start + lane] = margin[lane] * inverse
            errors[start + lane] = error * inverse
    return margins, errors


def widest_margin(unit: FloatArray, error: FloatArray) -> FloatArray | None:
    r"""Return the direction, shape (r,), of the widest margin of unit rows; None if they prove overlap out of hand.

    .. math:: \max_{t, \gamma} t \quad \text{subject to} \quad z_n \cdot \gamma \ge t - \text{error}_n
              \text{ for all } n, \quad \textstyle\sum_n z_n \cdot \gamma = N
    """
    n_rows, rank = unit.shape
    ones = np.ones(n_rows)
    # Positive multipliers with sum multiplier_n z_n = 0 prove overlap (Stiemke). Where rows all but cancel, the
    # residuals of 1 regressed on them are such, while the sum in the program is 0 and it has no solution.
    if (ones - unit @ np.linalg.lstsq(unit, ones)[0]).min() > 1e-3:
        return None
    result = linprog(
        np.append(np.zeros(rank), -1.0),
        A_ub=np.column_stack([-unit, ones]),
        b_ub=error,
        A_eq=np.append(unit.mean(axis=0), 0.0)[None, :],
        b_eq=[1.0],
        bounds=(None, None),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if not result.success:
        raise UnsolvedError(f"the linear program was not solved: {result.message}; standardise the columns")
    direction = np.asarray(result.x)[:-1]
    return np.asarray(direction / np.abs(direction).max())


@dataclass(frozen=True, eq=False)
class Against:
    """The rows that contradict a direction, the worst `CUTS` of them with their margins, and the rows on its plane."""

    n_rows: int
    n_on_plane: int
    worst: WeightedData
    margins: FloatArray

    def merged(self, other: "Against") -> "Against":
        """Return the sum over two sets of rows."""
        margins = np.concatenate([self.margins, other.margins])
        order = np.argsort(margins, kind="stable")[:CUTS]
        worst = stack([self.worst, other.worst]).take(order)
        return Against(self.n_rows + other.n_rows, self.n_on_plane + other.n_on_plane, worst, margins[order])


def against(dataset: Dataset, white: Whitening, direction: FloatArray, *, strict: bool) -> Against:
    """Find the rows on the wrong side of a direction, or if `strict` on its hyperplane; one pass."""
    normal, size = white.basis @ direction, np.abs(white.basis).sum(axis=1)

    def one(_: int, block: WeightedData) -> Against:
        margins, error = _margins(block.X, block.y, white.basis, normal, size)
        reach = TOLERANCE + error
        wrong = np.flatnonzero(margins <= reach if strict else margins < -reach)
        worst = wrong[np.argsort(margins[wrong], kind="stable")[:CUTS]]
        return Against(len(wrong), int((np.abs(margins) <= reach).sum()), block.take(worst), margins[worst])

    return reduce(Against.merged, dataset.map(one, "trying the direction"))


def warn_if_completely_separated(dataset: Dataset, rows: WeightedData) -> bool:
    """Warn, and return True, if a hyperplane has all rows of `dataset` on the sides of their labels.

    `rows` is its coreset. Where it does not prove that there is none, one pass follows, unless the rows come once; the
    warning then says that the labels may be separated. Numbers have no sides.
    """
    if isinstance(rows, Coreset) and rows.numbers:
        return False
    few = rows.take(slice(None, None, -(-len(rows) // (500 + 5 * rows.n_features))))  # few enough to be fast
    sure = False
    with one_blas_thread():
        found = parting(few)
        if found is not None and dataset.rereadable:
            white, direction = found
            wrong = against(dataset, white, direction, strict=True)
            sure = wrong.n_rows == 0
            found = found if sure else parting(stack([few, wrong.worst]))
    if found is None:
        return False
    which = f"all {dataset.scan.n_rows:,}" if sure else f"{len(few):,} of the coreset's"
    unsure = "" if sure else " (separability checks all rows)"
    warn(
        f"the labels {'are' if sure else 'may be'} completely separated: a hyperplane has {which} rows on the sides of "
        f"their labels{unsure}. Then no maximum likelihood estimate exists, and how far the posterior reaches is up to "
        "the prior: choose it with care, or drop the columns that separate"
    )
    return True


def parting(rows: WeightedData) -> tuple[Whitening, FloatArray] | None:
    """Return coordinates, and in them a direction, shape (r,), with z . direction > 0 in all rows; None if none."""
    white = whitening(block_factor(rows))
    unit, error = unit_rows(rows, white)
    target = np.append(np.zeros(white.rank), 1.0)
    try:
        multipliers, _ = nnls(np.vstack([unit.T, np.ones(len(unit))]), target, maxiter=10 * len(unit))
    except RuntimeError:  # not solved, which rounding can do where they all but overlap
        return None
    direction = multipliers @ unit
    direction /= max(np.abs(direction).max(initial=0.0), np.finfo(float).tiny)
    return (white, direction) if (unit @ direction - error).min() > TOLERANCE else None
