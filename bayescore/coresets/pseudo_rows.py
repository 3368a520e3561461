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

a Poisson row of count a and exposure b. It meets phi if phi = tau^2, as a single row would have it. Where one side is
A r e and the other -B exp(r e) it is that row of r theta, D for r^2 D: a / A of the one side, b / B of the other.

Pseudo-rows: few weighted rows with offsets that meet averaged totals of many (see `condensed`).

Directions in which rows are condensed: a root V of their curvature in which its third derivative is diagonal.

V V' = H, so that pseudo-rows along the columns v_k of V, one each, have the whole Hessian of the rows; u_k are dual to
them, u_k . v_j = 1 where j = k and 0 elsewhere. Any rotation of V is another root. Pseudo-rows' third derivatives are
sum_k tau_k v_k v_k v_k, so the best root leaves least of the rows' tensor T = sum_n w_n E[l'''] z_n z_n z_n beside it:

.. math:: \max_R \sum_k \tau_k^2, \qquad \tau_k = \sum_n w_n \mathrm E[l'''_n] (z_n \cdot u_k)^3,

an orthogonal decomposition of T, as independent component analysis has it, by the iteration R <- polar factor of the
gradient; T itself, of D^3 entries, is not needed. It starts from the symmetric root in units of columns' curvatures,
whose directions are nearest the columns: those of rare 0/1 columns are skewed along them.

That leaves a third to all of the sd, over the posterior, of the difference of two log-likelihoods that eigenvectors of
H leave: 0.023 of 0.069 with 23 skewed columns, 0.042 of 0.043 with 51 normal ones.

References: Anandkumar, Ge, Hsu, Kakade and Telgarsky (2014), Tensor decompositions for learning latent variable models,
JMLR 15; Hyvärinen (1999), Fast and robust fixed-point algorithms for independent component analysis.

Derivatives of rows' log-likelihoods averaged over a normal density of the coefficients.

Over theta ~ N(t, C), C = LL', a row's predictor is eta_n + r_n x with x ~ N(0, 1) and r_n = \|x_n L\|, so that

.. math:: \mathrm E\, \nabla L = \sum_n w_n \mathrm E[s] x_n, \qquad
          -\mathrm E\, \nabla^2 L = \sum_n w_n \mathrm E[c] x_n x_n'

need averages over one number a row: Gauss and Hermite's rule of `N_NODES` nodes, exact for polynomials of degree 17.
Two log-likelihoods that agree in these two differ, over the density, by a function that is orthogonal to all of degree
2: mean and covariance of their posteriors agree to first order in what is left of their shapes. Totals at the mode do
not say that: of 200 normal columns they leave ten times the difference.

Reference: Opper and Archambeau (2009), The variational Gaussian approximation revisited, Neural Computation 21.

Ties: numbers that are equal but for rounding count as equal, so that no choice hangs on a processor.

Equal rows have equal scores, and equal columns equal lengths, but BLAS and vectorised code may round them apart, by
where they stand and by the processor. Where two numbers tie, the first is taken.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray
from scipy import linalg

from bayescore.compiled import jit
from bayescore.data.passes import TILE
from bayescore.families import Family
from bayescore.models.laplace import LaplaceApproximation
from bayescore.models.posterior import Derivatives, weighted_gram
from bayescore.types import NO_ROW, FloatArray, LabelArray, WeightedData, read_only

N_NODES = 9


_LEAST = 1e-6  # sd of a predictor: below it what a row adds to fourth derivatives is nothing


_NODES, _MASSES = (np.ascontiguousarray(part) for part in hermegauss(N_NODES))


_MASSES /= _MASSES.sum()


@jit
def _averages(
    eta: FloatArray, sd: FloatArray, side: LabelArray, family: Family, rule: tuple[FloatArray, FloatArray, float]
) -> FloatArray:
    nodes, masses, least = rule
    out, lanes = np.empty((4, len(eta))), np.empty((2, TILE))
    tile, sides, terms, scratch = lanes[0], lanes[1], np.empty((4, TILE)), np.empty((3, TILE))
    for lane in range(TILE):
        tile[lane], sides[lane] = 0.0, 1.0
    for start in range(0, len(eta), TILE):
        width = min(TILE, len(eta) - start)
        for lane in range(width):
            sides[lane] = side[start + lane]
            for k in range(4):
                out[k, start + lane] = 0.0
        for i in range(len(nodes)):
            for lane in range(width):  # nodes from far on the row's own side on, or a sum would depend on the labels
                tile[lane] = eta[start + lane] + sides[lane] * nodes[i] * sd[start + lane]
            family.derivatives(tile, sides, terms, scratch)
            for k in range(3):
                for lane in range(width):
                    out[k, start + lane] += masses[i] * terms[k + 1, lane]
            for lane in range(width):  # E f'(x) = E x f(x): the fourth derivative from the third
                out[3, start + lane] += masses[i] * (sides[lane] * nodes[i]) * terms[3, lane]
        for lane in range(width):
            out[3, start + lane] /= max(sd[start + lane], least)
    return out


def averages(eta: FloatArray, sd: FloatArray, side: LabelArray, family: Family) -> FloatArray:
    """Return E s, E c, E l''' and E l'''' over N(eta, sd^2), shape (4, n); eta, sd and side have shape (n,)."""
    rule = _NODES, _MASSES, _LEAST
    return np.asarray(_averages(read_only(eta), read_only(sd), read_only(side), family, rule))


@dataclass(frozen=True, eq=False)
class GaussianDensity:
    """The density N(theta, LL') of `at`, over which rows' terms are averaged."""

    at: LaplaceApproximation

    def derivatives(self, rows: WeightedData) -> FloatArray:
        """Return w E s, w E c, w E l''' and w E l'''' of rows, shape (4, n)."""
        return self.averages(rows, *self.at.predictors(rows))

    def averages(self, rows: WeightedData, eta: FloatArray, squares: FloatArray) -> FloatArray:
        """Return the same, given the rows' predictors at theta and abs(xL)^2, shape (n,) each."""
        return averages(eta, np.sqrt(squares), rows.y, self.at.family) * rows.weights

    def terms(self, rows: WeightedData, curvatures: FloatArray | None = None) -> Derivatives:
        """Return the averaged gradient and minus the averaged Hessian of rows; `curvatures` are their `derivatives`.

        The value is left at 0: pseudo-rows meet the log-likelihood up to a constant.
        """
        score, curvature, _, _ = self.derivatives(rows) if curvatures is None else curvatures
        return Derivatives(0.0, score @ rows.X, weighted_gram(rows.X, curvature))


FARTHEST = 6.0  # offset: beyond it a row has hardly any curvature left


_GRID = np.linspace(-FARTHEST, FARTHEST, 97)


_REACHES = (8, 20, len(_GRID) // 2)  # numbers of its points on either side of 0; the next where none crosses


_MOST_STEPS, _STILL = 60, 1e-13  # within a cell of the grid


_SKEWNESS = 0.81  # bound of tau^2 D: 1 - 2 p = tau sqrt(D) of a logistic row is 0.9


_NEAR = (1.0, 0.5, 2.0, 0.25, 4.0, 0.125, 8.0)  # times the D that meets phi, for a D that meets tau


_LEAST_SKEWNESS = 1e-5  # tau: below it a row of D = 1e10 is normal to rounding


_NOTHING = 1e-9  # of the successes and failures together, below which either is rounding


_FAR = tuple(2.0**k for k in range(4, 60))  # for one that meets the score


class TargetDerivatives(NamedTuple):
    """Averaged derivatives along directions, and the variance of v . theta, shape (K,) each."""

    score: FloatArray
    third: FloatArray
    fourth: FloatArray
    variance: FloatArray

    def take(self, which: NDArray[Any]) -> "TargetDerivatives":
        """Return those of some directions."""
        return TargetDerivatives(*(value[which] for value in self))


class Solved(NamedTuple):
    """Curvature D of each row in its own units, offset o at t, successes and failures, shape (K,) each.

    `sign` is that of the direction that the row lies along.
    """

    size: FloatArray
    offset: FloatArray
    successes: FloatArray
    failures: FloatArray
    sign: FloatArray


def _averages_by_side(offset: FloatArray, sd: FloatArray, family: Family) -> tuple[FloatArray, FloatArray]:
    """Return E s, E c and E l''' of successes, and of failures, at offsets, shape (3, *offset.shape) each."""
    eta, sds = family.center + offset.ravel(), np.broadcast_to(sd, offset.shape).ravel()

    def of_side(side: int) -> FloatArray:
        labels = np.full(offset.size, side, dtype=np.int8)
        return averages(eta, sds, labels, family)[:3].reshape(3, *offset.shape)

    successes = of_side(1)
    if family.symmetric and family.center == 0.0 and offset.ndim == 2:  # a grid about 0: its mirror image
        return successes, successes[:, :, ::-1] * np.array([-1.0, 1.0, -1.0])[:, None, None]
    return successes, of_side(-1)


def _counts(
    wanted: TargetDerivatives, size: FloatArray, offset: FloatArray, family: Family
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return successes, failures and what the third derivative is over `wanted`, of the shape of `offset`."""
    (s, c, third), (s_, c_, third_) = _averages_by_side(offset, np.sqrt(wanted.variance / size), family)
    pull, cross = np.sqrt(size) * wanted.score, s * c_ - s_ * c
    a, b = (pull * c_ - s_ * size) / cross, (s * size - pull * c) / cross
    return a, b, (a * third + b * third_) / size**1.5 - wanted.third


def solve(
    wanted: TargetDerivatives,
    family: Family,
    *,
    times: float = 1.0,
    size: FloatArray | None = None,
    start: Solved | None = None,
) -> Solved:
    """Return pseudo-rows with the derivatives that are wanted: score and curvature exactly, third where it can be.

    The D tried first is `times` that which meets the fourth; or D is `size`, shape (K,). With `start`, pseudo-rows of
    nearly these derivatives, the offset is about theirs, and D is theirs if there is no `size`, where the third is met.
    """
    if family.linear:
        return _exponential(wanted, size, family)
    if start is not None:
        known = start.size if size is None else size
        low = start.offset - family.center - 0.5 * (_GRID[1] - _GRID[0])
        met = _changes_sign(wanted, known, low, family)
        offset = _crossing(wanted.take(met), known[met], low[met], family)
        a, b, _ = _counts(wanted.take(met), known[met], offset, family)
        fits = (a >= 0.0) & (b >= 0.0)
        met[met] = fits
        solved = _solved(known[met], offset[fits], (a[fits], b[fits]), family)
        if met.all():
            return solved
        others = solve(wanted.take(~met), family, times=times, size=None if size is None else size[~met])
        together = Solved(*(np.empty(len(met)) for _ in solved))
        for values, one, other in zip(together, solved, others, strict=True):
            values[met], values[~met] = one, other
        return together
    if size is None:
        size, offset = _best_sizes(wanted, family, times)
    else:
        offset, _ = _offsets(wanted, size, family)
    a, b, _ = _counts(wanted, size, offset, family)
    return _solved(size, offset, (a, b), family)


def _solved(size: FloatArray, offset: FloatArray, counts: tuple[FloatArray, FloatArray], family: Family) -> Solved:
    a, b = counts
    return Solved(size, family.center + offset, np.maximum(a, 0.0), np.maximum(b, 0.0), np.ones(len(size)))


def _best_sizes(wanted: TargetDerivatives, family: Family, times: float) -> tuple[FloatArray, FloatArray]:
    """Return the D, shape (K,), at which the third derivative is met best, and the offsets there."""
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
    return size, offset


def _exponential(wanted: TargetDerivatives, size: FloatArray | None, family: Family) -> Solved:
    """Return rows of a count and an exposure; D is `size`, or that which meets the third derivative.

    A score below what no events would have is met by a larger D, as other families' rows do.
    """
    at = np.full(1, family.center)
    curvature, slope = (float(each(at, -family.linear)[0]) for each in (family.curvature, family.score))
    rate = -curvature / slope  # r
    of_count, of_exposure = float(family.score(at, family.linear)[0]) / rate, curvature / rate**2
    score, third = math.copysign(1.0, rate) * wanted.score, math.copysign(1.0, rate) * wanted.third
    sign, size = np.ones(len(third)), None if size is None else size / rate**2
    if size is None:
        sign = np.where(third > 0.0, -1.0, 1.0)
        size = np.maximum(1.0 / np.maximum(np.abs(third), _LEAST_SKEWNESS), np.abs(score)) ** 2
    count = np.maximum(size + np.sqrt(size) * sign * score, 0.0)
    exposure = size * np.exp(-0.5 * wanted.variance / size)
    sides = {family.linear: count / of_count, -family.linear: exposure / of_exposure}
    return Solved(size * rate**2, np.full(len(size), family.center), sides[1], sides[-1], sign)


def _offsets(wanted: TargetDerivatives, size: FloatArray, family: Family) -> tuple[FloatArray, FloatArray]:
    """Return the offset nearest 0 that meets the third derivative, else that which is nearest to it, and the miss.

    The miss is 0 where it is met and infinite where the score cannot be.
    """
    offset, least, left = np.zeros(len(size)), np.full(len(size), np.inf), np.arange(len(size))
    for reach in _REACHES:  # most have one near 0
        grid, part = _GRID[len(_GRID) // 2 - reach : len(_GRID) // 2 + reach + 1], wanted.take(left)
        column = TargetDerivatives(*(value[:, None] for value in part))
        a, b, over = _counts(column, size[left, None], np.tile(grid, (len(left), 1)), family)
        miss = np.where((a >= 0.0) & (b >= 0.0), np.abs(over), np.inf)
        within = np.isfinite(miss[:, :-1]) & np.isfinite(miss[:, 1:])
        crossing = within & ((over[:, :-1] <= 0.0) != (over[:, 1:] <= 0.0))
        low = grid[np.where(crossing, np.abs(grid[:-1] + grid[1:]), np.inf).argmin(axis=1)]
        offset[left], least[left], crosses = grid[miss.argmin(axis=1)], miss.min(axis=1), crossing.any(axis=1)
        some = left[crosses]
        offset[some], least[some] = _crossing(part.take(crosses), size[some], low[crosses], family), 0.0
        left = left[~crosses]
        if not len(left):
            break
    return offset, least


def _changes_sign(wanted: TargetDerivatives, size: FloatArray, low: FloatArray, family: Family) -> NDArray[np.bool_]:
    """Return whether the third derivative passes the one wanted in a cell of the grid that begins at `low`."""
    at_low, at_high = (_counts(wanted, size, end, family)[2] for end in (low, low + (_GRID[1] - _GRID[0])))
    return np.asarray((at_low <= 0.0) != (at_high <= 0.0))


def _crossing(wanted: TargetDerivatives, size: FloatArray, low: FloatArray, family: Family) -> FloatArray:
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


BITS = 30  # of 53 that count: a relative difference of 1e-9 is a difference, one of 1e-12 is rounding


TIED = 1e-6  # relative difference of lengths and of entries of unit vectors, far above rounding


def rounded(values: FloatArray) -> FloatArray:
    """Return values to `BITS` significant bits, for a ranking in which position decides between equal ones.

    Values at an edge between two rounded ones may still part: one in ten thousand of those that differ by 1e-13.
    """
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(np.ldexp(mantissa, BITS)), exponent - BITS))


def largest(values: FloatArray) -> int:
    """Return the place of the first of the largest values, shape (n,), none of which is negative."""
    return int((values >= (1.0 - TIED) * values.max()).argmax())


def oriented(vectors: FloatArray) -> FloatArray:
    """Return the columns of a matrix, shape (D, K), signed so that the first of the largest entries is positive."""
    places = [largest(column) for column in np.abs(vectors).T]
    return np.asarray(vectors * np.where(vectors[places, np.arange(len(places))] < 0.0, -1.0, 1.0))


LEAST = 1e-7  # of the posterior's precision, that the curvature of a direction, or of a column, must have


ENOUGH = 1.5e-4  # of sum tau^2: the sd of the log-likelihoods' difference falls by less than sqrt(ENOUGH / 6) = 0.005


SHARE = 0.01  # of sum tau^2 itself: where that is large, later turns gain little, and blow rounding up a thousandfold


MAX_TURNS = 30


class Directions(NamedTuple):
    """V and U, shape (D, K) each: V V' is the curvature, U' V = 1."""

    root: FloatArray
    dual: FloatArray

    def turned(self, rotation: FloatArray) -> "Directions":
        """Return the same curvature's root after a rotation, shape (K, K)."""
        return Directions(self.root @ rotation, self.dual @ rotation)


def root_of(precision: FloatArray, factor: FloatArray) -> Directions:
    """Return the root of a curvature, shape (D, D), nearest the columns.

    `factor` is L, lower triangular, LL' the covariance of the posterior: directions in which the curvature is nothing
    beside the posterior's precision are left out. Columns of no curvature are rounding, and count as 0.
    """
    values, vectors = linalg.eigh(factor.T @ precision @ factor)
    kept = values > LEAST
    size, vectors = np.sqrt(values[kept]), vectors[:, kept]
    root = linalg.solve_triangular(factor, vectors * size, trans="T", lower=True)
    directions = Directions(root, factor @ (vectors / size))
    own_curvature = (root**2).sum(axis=1)
    all_curvature = (linalg.solve_triangular(factor, np.eye(len(factor)), lower=True) ** 2).sum(axis=0)
    curved = own_curvature > LEAST * all_curvature
    unit = np.zeros_like(root)
    unit[curved] = root[curved] / np.sqrt(own_curvature[curved])[:, None]
    nearest = _polar(unit.T)
    if len(nearest) < nearest.shape[1]:  # fewer directions than columns: those columns that span them best
        nearest = _polar(nearest[:, _spanning(nearest)])
    return directions.turned(nearest)


def diagonalising(start: Directions, rows: WeightedData, third: FloatArray) -> Directions:
    """Return the root turned to where the rows' third derivatives, w E l''' of shape (n,), are most nearly diagonal."""
    along = rows.X @ start.dual
    if not along.size:
        return start
    rotation, best, best_so_far = np.eye(along.shape[1]), -np.inf, start
    for _ in range(MAX_TURNS):
        p = along @ rotation
        squares = p * p
        tau = third @ (squares * p)
        before, best = best, max(best, total := float(tau @ tau))
        if total <= before:
            break
        best_so_far = start.turned(rotation)
        if total <= before + max(ENOUGH, SHARE * total):
            break
        rotation = _polar(along.T @ ((third[:, None] * squares) * tau))
    return best_so_far


def _spanning(columns: FloatArray) -> list[int]:
    """Return which K columns of a matrix, shape (K, D), span all of it best, in order.

    QR with pivoting: it takes the longest of the columns left each time, and of equally long ones the first.
    """
    left, chosen = columns.copy(), list[int]()
    for _ in range(len(columns)):
        length = np.linalg.norm(left, axis=0)
        longest = largest(length)
        chosen.append(longest)
        unit = left[:, longest] / length[longest]
        left = left - np.outer(unit, unit @ left)
    return sorted(chosen)


def _polar(matrix: FloatArray) -> FloatArray:
    """Return the matrix with orthonormal rows or columns that is nearest."""
    left, _, right = linalg.svd(matrix, full_matrices=False)
    return np.asarray(left @ right)
