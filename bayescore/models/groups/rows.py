r"""Rows of several group terms, sorted by the factor of most levels, and the curvature of beta and all effects.

Minus the Hessian of (effects of the first factor, the rest) is [[D, B'], [B, E]]. D is block diagonal, a block for each
level, and B is sparse, an entry for each pair of levels that rows have: no matrix of all parameters is made.

The log-likelihood of rows and its derivatives by coefficients and effects of groups, at one point.

With b the coefficients, u the effects of all factors, and a row's predictor x . b + z . u + o,

.. math:: L(b + \delta, u + \epsilon) \approx L + g'\delta + h'\epsilon
          - \tfrac12 \delta' F \delta - \epsilon' C \delta - \tfrac12 \epsilon' K \epsilon

K has entries only for effects that occur in one row: it is sparse, one block for each level and each pair of levels.
Terms of disjoint rows add up, so the same function serves rows in memory and a pass.

Sums over the rows of groups: averages over nodes of the group's effect, and log-likelihoods at the nodes.

Group codes are 0 to G - 1, and G for rows of no group. Their effect is 0, so their nodes have centre and scale 0.
Sums add up over blocks, so the same functions serve rows in memory and a pass over a large source.

Log-likelihoods of a large group at many nodes, from weights on a grid of predictors.

A row's log-likelihood f depends on it by its predictor and label alone, so rows of one label are replaced by weights m
on an even grid: f between its points is a polynomial through the eight nearest. A row's weight is divided among
these by the polynomial's coefficients (Lagrange). A group then costs evaluations of f at the grid, not at each row, for
each of its nodes b:

.. math:: \sum_n w_n f(\eta_n + b) \approx \sum_j m_j f(e_j + b)

The error of a row is at most 0.0011 h^8 times the eighth derivative of f: about 1e-11 at h = 0.1. A family of the
user's own may bend faster than that: `grid_is_exact` looks whether its f is such a polynomial between points.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse

from bayescore.compiled import jit, jit_inner
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.design import Grouping
from bayescore.data.passes import TILE, TileRows, load_tile, new_tile
from bayescore.families import Family
from bayescore.models.groups.nodes import DrawNodes, NodeRows, NodeSet, add_values
from bayescore.models.posterior import Derivatives, likelihood_terms
from bayescore.models.predictor import Predictor, multipliers
from bayescore.models.row_kernels import add_offset, derivatives_of, load_rows, predictor
from bayescore.numerics.elementary import LOG_WEIGHTS, N_NODES, NODES, WEIGHTS, EffectNodes, dot, fill
from bayescore.numerics.identical_rows import merge_identical
from bayescore.types import FloatArray, IntArray, WeightedData, read_only
from bayescore.validation import DataError

_STEP = 0.1  # of the grid, at most


_POINTS = 8  # that share a row's weight


_ROWS_PER_POINT = 4  # fewer for each point of the grid are evaluated one by one; 1 where nodes are points of it


MIN_GRID_ROWS = 16 * _POINTS
"""Rows of a group below which no grid is tried."""


_FAR = 1e12  # of all predictors together, beyond which places are no whole numbers


_DIVISORS = np.array([-5040.0, 720.0, -240.0, 144.0, -144.0, 240.0, -720.0, 5040.0])


@lru_cache(maxsize=64)
def grid_is_exact(family: Family) -> bool:
    """Whether log-likelihoods of a family are those of the grid half-way between its points, to 1e-8."""
    points = np.arange(-30.0, 30.0, _STEP)
    middle = points[_POINTS // 2 - 1 : 1 - _POINTS // 2 - 1] + 0.5 * _STEP
    shares = np.zeros(_POINTS)
    _spread_weight(_POINTS // 2 - 0.5, 1.0, shares)
    for side in (1, -1):
        near = np.lib.stride_tricks.sliding_window_view(family.log_p(points, side), _POINTS)
        true = family.log_p(middle, side)
        if not np.all(np.abs(near @ shares - true) <= 1e-8 * np.maximum(np.abs(true), 1.0)):
            return False
    return True


@jit_inner
def _spread_weight(place: float, weight: float, mass: FloatArray) -> None:
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
        _spread_weight(eta[i] / h - begin, rows.weights[i], mass[0 if rows.side[i] > 0 else 1])
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


@dataclass(frozen=True, eq=False)
class JointTerms:
    """Value, g and F of the coefficients, h of the effects, shape (E,), C, shape (E, p), and K, shape (E, E)."""

    coefficients: Derivatives
    slope: FloatArray
    cross: FloatArray
    precision: sparse.csr_array

    def __add__(self, other: "JointTerms") -> "JointTerms":
        return JointTerms(
            self.coefficients + other.coefficients,
            self.slope + other.slope,
            self.cross + other.cross,
            self.precision + other.precision,
        )

    def at(self, beta: FloatArray, effects: FloatArray) -> FloatArray:
        """Return the log-likelihood to second order at moves, shapes (S, p) and (S, E), from the point: (S,)."""
        terms = self.coefficients
        of_beta = beta @ terms.gradient - 0.5 * ((beta @ terms.precision) * beta).sum(axis=1)
        pull = effects @ self.cross * beta
        bend = (self.precision @ effects.T).T * effects
        return np.asarray(terms.value + of_beta + effects @ self.slope - pull.sum(axis=1) - 0.5 * bend.sum(axis=1))


def joint_terms(point: Predictor, rows: WeightedData, family: Family) -> JointTerms:
    """Return the terms of rows at the first draw of `point`."""
    middle, Z = point.take(slice(0, 1)), point.columns(rows)
    beta, effects = middle.beta[0], middle.effects(rows)[:, 0]
    offset = effects if rows.offset is None else rows.offset + effects
    given = WeightedData(rows.X, rows.y, rows.weights, rows.index, offset=offset)
    _, score, curvature, _ = derivatives_of(given.with_offset(rows.X @ beta), rows.y, family)
    pull = Z.T @ (rows.weights * score)
    return JointTerms(
        likelihood_terms(beta, given, family), pull, *curvature_products(rows.X, Z, rows.weights * curvature)
    )


def curvature_products(X: FloatArray, Z: sparse.csr_array, c: FloatArray) -> tuple[FloatArray, sparse.csr_array]:
    """Return Z'CX, shape (E, p), and Z'CZ, shape (E, E), C the diagonal matrix of rows' curvatures c, shape (n,)."""
    scaled = sparse.csr_array((Z.data * np.repeat(c, np.diff(Z.indptr)), Z.indices, Z.indptr), shape=Z.shape)
    return scaled.T @ X, sparse.csr_array(scaled.T @ Z)


def largest_gap(one: JointTerms, other: JointTerms) -> float:
    """Return the largest difference of scores and curvatures, each by the roots of its own diagonal of F and K.

    A score of 1 in these units moves a parameter by its sd, all others known, under the rows alone.
    """
    ours, theirs = one.coefficients, other.coefficients
    root = _curvature_roots(np.diagonal(ours.precision)), _curvature_roots(one.precision.diagonal())
    entries = (one.precision - other.precision).tocoo()
    i, j = entries.coords
    parts = [
        (ours.gradient - theirs.gradient) / root[0],
        (one.slope - other.slope) / root[1],
        (ours.precision - theirs.precision) / np.outer(root[0], root[0]),
        (one.cross - other.cross) / np.outer(root[1], root[0]),
        entries.data / (root[1][i] * root[1][j]),
    ]
    return max(float(np.abs(part).max(initial=0.0)) for part in parts)


def _curvature_roots(diagonal: FloatArray) -> FloatArray:
    """Return roots of curvatures; of a parameter that no row knows, that of the least of the others."""
    size = np.abs(diagonal)
    positive = size[size > 0.0]
    return np.sqrt(np.where(size > 0.0, size, positive.min() if positive.size else 1.0))


MAX_REST = 10_000
"""Coefficients and effects of all factors but the first: their matrix takes 800 MB."""


@dataclass(frozen=True, eq=False)
class JointRows:
    """Rows, and for each factor its column in their groups, codes (the number of levels for no group) and z, (n, q)."""

    rows: Coreset
    factors: tuple[Grouping, ...]  # that of most effects first
    places: tuple[int, ...]
    codes: tuple[IntArray, ...]
    z: tuple[FloatArray, ...]

    @classmethod
    def of(cls, core: Coreset) -> "JointRows":
        """Return the rows of a coreset."""
        effects = [len(own) * len(own.effects) for own in core.groups]
        order = sorted(range(len(effects)), key=lambda place: -effects[place])
        if (rest := core.n_features + sum(effects) - max(effects)) > MAX_REST:
            raise DataError(
                f"core has {rest:,} coefficients and effects beside those of {core.groups[order[0]].name!r}, and "
                f"sampler='joint' takes {MAX_REST:,}: leave out a group term, or merge levels"
            )
        # a stable sort: the same rows in the same order on every machine
        rows = core.take(np.argsort(core.group_codes[:, order[0]], kind="stable"))
        factors = tuple(core.groups[place] for place in order)
        own = [(rows.group_codes[:, place], len(factor)) for place, factor in zip(order, factors, strict=True)]
        codes = tuple(np.where(code < 0, n, code) for code, n in own)
        z = tuple(multipliers(rows.X, core.design, factor) for factor in factors)
        return cls(rows, factors, tuple(order), codes, z)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Levels and effects of each factor."""
        return [(len(factor), len(factor.effects)) for factor in self.factors]

    @cached_property
    def columns(self) -> sparse.csr_array:
        """What rows multiply all effects by, shape (n, E), factor by factor."""
        parts, n = [], len(self.rows)
        for codes, z, (G, q) in zip(self.codes, self.z, self.shapes, strict=True):
            k = np.flatnonzero(codes < G)
            places = (np.repeat(k, q), (codes[k, None] * q + np.arange(q)).ravel())
            parts.append(sparse.csr_array((z[k].ravel(), places), shape=(n, G * q)))
        return sparse.csr_array(sparse.hstack(parts, format="csr"))

    def eta(self, beta: FloatArray, effects: Sequence[FloatArray]) -> FloatArray:
        """Return the linear predictor, shape (n,), given the effects of each factor, (G, q)."""
        of_effects = self.columns @ np.concatenate([u.ravel() for u in effects])
        return np.asarray(self.rows.with_offset(self.rows.X @ beta) + of_effects)

    def pulls(self, score: FloatArray) -> list[FloatArray]:
        """Return the sum of score times z by level of each factor, shape (G, q)."""
        parts = np.split(self.columns.T @ score, np.cumsum([G * q for G, q in self.shapes])[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def curvature(self, c: FloatArray, X: FloatArray | None = None) -> "Curvature":
        """Return minus the Hessian of the log-likelihood, given rows' curvatures, (n,), in other columns X if given."""
        X = self.rows.X if X is None else X
        of_beta, K = curvature_products(X, self.columns, c)
        ends = np.cumsum([0, *(G * q for G, q in self.shapes)])
        parts = [slice(*ends_of_part) for ends_of_part in pairwise(ends)]
        blocks = [blocks_of(K[part, part], q) for part, (_, q) in zip(parts, self.shapes, strict=True)]
        first = ends[1]
        cross = sparse.hstack([sparse.csr_array(of_beta[:first]), K[:first, first:]], format="csr")
        rest = np.block([[(X * c[:, None]).T @ X, of_beta[first:].T], [of_beta[first:], K[first:, first:].toarray()]])
        return Curvature(blocks[0], cross, rest, blocks[1:])


def blocks_of(K: sparse.csr_array, q: int) -> FloatArray:
    """Return the blocks on the diagonal of a matrix, shape (G, q, q)."""
    G = K.shape[0] // q
    blocks = np.empty((G, q, q))
    for i in range(q):
        for j in range(q):
            blocks[:, i, j] = K.diagonal(j - i)[min(i, j) :: q][:G]
    return blocks


_ROUNDING = 1e-10  # of a precision between two effects over their own: below, no row has both


def block_diagonal(blocks: Sequence[Any]) -> Any:
    """Return a block diagonal matrix of the blocks of each factor, shape (G, q, q) each."""
    parts: list[Any] = []
    for each in blocks:
        G, q = each.shape[:2]
        parts.append(sparse.bsr_array((each, np.arange(G), np.arange(G + 1)), shape=(G * q, G * q)))
    return sparse.csr_array(sparse.block_diag(parts, format="csr"))


@dataclass(frozen=True, eq=False)
class Curvature:
    """D, shape (G, q, q), B', sparse of shape (G q, m), and E, (m, m); the blocks of E of each factor, (G, q, q)."""

    first: FloatArray
    cross: sparse.csr_array
    rest: FloatArray
    blocks: list[FloatArray]

    def solver(self, of_beta: FloatArray, of_effects: Sequence[FloatArray]) -> "Solver":
        """Return the factor of the precision, given the prior's: of beta and of each level's effects."""
        return self.solver_of(of_effects[0], block_diagonal([of_beta[None], *of_effects[1:]]))

    def moved(self, first: FloatArray, rest: sparse.csr_array) -> "Curvature":
        """Return the curvature in v, given du / dv of the first factor's levels, shape (G, q, q), and of the rest."""
        cross = sparse.csr_array(block_diagonal([first]).T @ self.cross @ rest)
        of_first_factor = first.transpose(0, 2, 1) @ self.first @ first
        return Curvature(of_first_factor, cross, np.asarray(rest.T @ (rest.T @ self.rest.T).T), [])

    def solver_of(self, of_first: FloatArray, of_rest: sparse.csr_array) -> "Solver":
        """Return the factor of the precision, given the prior's of the first factor's levels, and of all the rest."""
        D = self.first + of_first
        W = sparse.csr_array(block_diagonal([np.linalg.inv(D)]) @ self.cross)
        schur = np.asarray(self.rest + of_rest) - (self.cross.T @ W).toarray()
        try:
            factor = np.linalg.cholesky(0.5 * (schur + schur.T))
        except np.linalg.LinAlgError as error:
            raise DataError(
                "the rows do not carry all group terms: coefficients and effects have no finite mode together; leave "
                "out a group term, or give coefficients a narrower prior"
            ) from error
        return Solver(D, W, factor)


@dataclass(frozen=True, eq=False)
class Solver:
    """D, W = D^-1 B', sparse, and the Cholesky factor of the Schur complement E - B D^-1 B'."""

    D: FloatArray
    W: sparse.csr_array
    factor: FloatArray

    def solve(self, first: FloatArray, rest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the Newton step of the first factor's effects, shape (G, q), and of the rest, given gradients."""
        move = linalg.cho_solve((self.factor, True), rest - self.W.T @ first.ravel())
        alone = np.linalg.solve(self.D, first[:, :, None])[:, :, 0]
        return alone - (self.W @ move).reshape(first.shape), move

    def information(self, shapes: Sequence[tuple[int, int]], f: int, out: Sequence[int] = ()) -> FloatArray:
        """Return precisions of a level's effects, of factor f > 0, with the first factor's integrated out: (G, q, q).

        The effects of the factors `out`, which are earlier ones, are integrated out, too; all else is given.
        """
        (G, q), of_factor = shapes[f], self._places(shapes, f)
        if not out:
            rows = self.factor[of_factor].reshape(G, q, -1)
            return np.asarray(rows @ rows.transpose(0, 2, 1))
        places = np.arange(of_factor.start, of_factor.stop).reshape(G, q)
        return self._integrated_out(shapes, out)[places[:, :, None], places[:, None, :]]

    def cross(self, shapes: Sequence[tuple[int, int]], f: int, out: Sequence[int] = ()) -> sparse.csr_array:
        """Return precisions between effects of factor f > 0 and coefficients and later factors' effects, (G q, m)."""
        of_factor, rest = self._places(shapes, f), self._integrated_out(shapes, out)
        cross, size = rest[of_factor].copy(), np.sqrt(np.maximum(np.diagonal(rest), 0.0))
        cross[:, self._places(shapes, 1).start : of_factor.stop] = 0.0
        return sparse.csr_array(np.where(np.abs(cross) > _ROUNDING * np.outer(size[of_factor], size), cross, 0.0))

    def _places(self, shapes: Sequence[tuple[int, int]], f: int) -> slice:
        start = len(self.factor) - sum(H * r for H, r in shapes[f:])
        return slice(start, start + shapes[f][0] * shapes[f][1])

    def _integrated_out(self, shapes: Sequence[tuple[int, int]], out: Sequence[int]) -> FloatArray:
        """Return the precision of the rest, (m, m), with effects of factors integrated out."""
        rest = self.factor @ self.factor.T
        for f in out:
            of_factor = self._places(shapes, f)
            rest -= rest[:, of_factor] @ np.linalg.solve(rest[of_factor, of_factor], rest[of_factor])
        return np.asarray(rest)

    def variances(self, shapes: Sequence[tuple[int, int]]) -> list[FloatArray]:
        """Return the covariance of each level's effects, shape (G, q, q), factor by factor."""
        inverse = linalg.cho_solve((self.factor, True), np.eye(len(self.factor)))
        G, q = shapes[0]
        of_first = np.asarray(np.linalg.inv(self.D), dtype=np.float64)
        step = max(1, (1 << 23) // len(inverse)) // q + 1
        for start in range(0, G, step):
            part = self.W[start * q : min(start + step, G) * q]
            wide = part @ inverse
            for i in range(q):
                for j in range(q):
                    of_first[start : start + step, i, j] += np.asarray(
                        part[i::q].multiply(wide[j::q]).sum(axis=1)
                    ).ravel()
        parts: list[FloatArray] = [of_first]
        at = len(inverse) - sum(H * r for H, r in shapes[1:])
        for H, r in shapes[1:]:
            places = at + np.arange(H * r).reshape(H, r)
            parts.append(inverse[places[:, :, None], places[:, None, :]])
            at += H * r
        return parts


SLOPE, INFORMATION, THIRD = range(3)  # columns of `by_effect`


BLOCK_BYTES = 1 << 25
"""Bytes of what a block of rows returns in a pass, beyond which the draws are cut into several passes."""


class GroupRows(NamedTuple):
    """Rows of a block, their group codes, and z, what they multiply their effect by, shape (n,) each."""

    tiles: TileRows
    codes: IntArray
    z: FloatArray


class GroupSums(NamedTuple):
    """Sums over rows by group, with s, c, t score, curvature and third derivative of log p in x . beta + z b.

    s, c and t are averages over the nodes, by the weights of the quadrature.
    """

    values: FloatArray  # log-likelihood at the nodes, (G + 1, K)
    by_effect: FloatArray  # sum w s z, sum w c z^2, sum w t z^3: (G + 1, 3)
    cross: FloatArray  # sum w c z x, (G + 1, p)
    pull: FloatArray  # sum w t z^2 x, (G + 1, p)
    gradient: FloatArray  # sum w s x over all groups, (p,)
    precision: FloatArray  # sum w c x x' over all groups, (p, p)

    @classmethod
    def zeros(cls, n_groups: int, p: int) -> "GroupSums":
        """Return the sums of no rows."""
        shapes = (n_groups + 1, N_NODES), (n_groups + 1, 3), (n_groups + 1, p), (n_groups + 1, p), (p,), (p, p)
        return cls(*map(np.zeros, shapes))

    @property
    def middle(self) -> FloatArray:
        """Weighted mean row of each group, sum w c x / sum w c, shape (G + 1, p); 0 for rows of no group."""
        mean = self.cross / np.maximum(self.by_effect[:, INFORMATION, None], np.finfo(float).tiny)
        mean[-1] = 0.0
        return np.asarray(mean)


@jit
def _add_sums(rows: GroupRows, beta: FloatArray, nodes: EffectNodes, family: Family, sums: GroupSums) -> None:
    """Add the sums of a block, and the lower half of the precision."""
    tiles, codes, z = rows.tiles, rows.codes, rows.z
    p, n = len(beta), len(tiles.weights)
    tile, lanes = new_tile(p), np.empty((4, TILE))
    terms, scratch, mean = np.empty((4, TILE)), np.empty((3, TILE)), np.empty((3, TILE))
    moved = lanes[3]
    for start in range(0, n, TILE):
        width = load_rows(tiles, beta, start, tile, lanes)
        for lane in range(TILE):
            mean[0, lane] = mean[1, lane] = mean[2, lane] = moved[lane] = 0.0
        for k in range(NODES.size):
            for lane in range(width):
                g = codes[start + lane]
                moved[lane] = lanes[0, lane] + z[start + lane] * (nodes.center[g] + nodes.scale[g] * NODES[k])
            family.derivatives(moved, lanes[2], terms, scratch)
            for lane in range(width):
                g = codes[start + lane]
                sums.values[g, k] += lanes[1, lane] * terms[0, lane]
                for j in range(3):
                    mean[j, lane] += WEIGHTS[k] * terms[j + 1, lane]
        for lane in range(width):
            g, w, r = codes[start + lane], lanes[1, lane], z[start + lane]
            s, c, t = w * mean[0, lane], w * mean[1, lane], w * mean[2, lane]
            sums.by_effect[g, 0] += s * r
            sums.by_effect[g, 1] += c * r * r
            sums.by_effect[g, 2] += t * r * r * r
            for i in range(p):
                x = tile[i, lane]
                sums.gradient[i] += s * x
                sums.cross[g, i] += c * r * x
                sums.pull[g, i] += t * r * r * x
                for j in range(i + 1):
                    sums.precision[i, j] += c * x * tile[j, lane]


def local_codes(block: WeightedData, n_groups: int) -> tuple[IntArray, IntArray]:
    """Return the groups of a block, in order, and of each row the place of its own; rows of none have n_groups."""
    return codes_among(block.group_codes[:, 0], n_groups)


def codes_among(own: IntArray, n_groups: int) -> tuple[IntArray, IntArray]:
    """Return the groups among codes, in order, and of each code the place of its own; -1 counts as n_groups."""
    codes = np.where(own < 0, n_groups, own)
    if n_groups > 4 * len(own):  # a table of all groups would be longer than the sort
        present, places = np.unique(codes, return_inverse=True)
        return present, places.astype(np.int64)
    table = np.zeros(n_groups + 1, dtype=np.int64)
    table[codes] = 1
    present = np.flatnonzero(table)
    table[present] = np.arange(len(present))
    return present, table[codes]


@jit
def add_lines(out: FloatArray, places: IntArray, part: FloatArray) -> None:
    """Add lines of `part` to those of `out` at places: in one go over the memory, where NumPy takes three."""
    for i in range(len(places)):
        for j in range(part.shape[1]):
            out[places[i], j] += part[i, j]


SumGroups = Callable[[FloatArray, EffectNodes], GroupSums]  # (beta, nodes) -> the sums of all rows: one pass


def sums_over_rows(rows: WeightedData, family: Family, n_groups: int, z: FloatArray | None = None) -> SumGroups:
    """Return the function (beta, nodes) -> sums over rows in memory; rows multiply their effect by z, or by 1."""
    codes = np.where(rows.group_codes[:, 0] < 0, n_groups, rows.group_codes[:, 0])
    grouped = GroupRows(TileRows.of(rows), codes, np.ones(len(rows)) if z is None else np.array(z))

    def sum_groups(beta: FloatArray, nodes: EffectNodes) -> GroupSums:
        sums = GroupSums.zeros(n_groups, len(beta))
        _add_sums(grouped, read_only(beta), nodes, family, sums)  # read-only as others have it, for one kernel of both
        return sums._replace(precision=np.tril(sums.precision) + np.tril(sums.precision, -1).T)

    return sum_groups


class GroupPass(NamedTuple):
    """What one pass over a source finds of its groups."""

    sums: GroupSums
    weight: FloatArray  # of rows of +1 and of -1, (G + 1, 2)
    n_rows: FloatArray  # (G + 1,)


def effect_multipliers(rows: WeightedData, column: int) -> FloatArray:
    """Return what rows multiply their effect by, shape (n,): a column, or 1 where it is -1.

    It is that of the intercept, 1 but for pseudo-rows of a coreset.
    """
    return np.ones(len(rows)) if column < 0 else np.array(rows.X[:, column])


def sum_groups_of_source(
    dataset: Dataset, family: Family, beta: FloatArray, nodes: EffectNodes, *, column: int = -1
) -> GroupPass:
    """Return the sums of all rows of a source where one intercept varies; one pass."""
    n_groups, p = len(nodes.center) - 1, len(beta)

    def of_block(_: int, block: WeightedData) -> tuple[IntArray, GroupPass]:
        found, places = local_codes(block, n_groups)
        sums, own = (
            GroupSums.zeros(len(found) - 1, p),
            GroupRows(TileRows.of(block), places, effect_multipliers(block, column)),
        )
        _add_sums(own, read_only(beta), EffectNodes(nodes.center[found], nodes.scale[found]), family, sums)
        count = np.bincount(places, minlength=len(found)).astype(np.float64)
        return found, GroupPass(sums, label_weights(block, places, len(found)), count)

    total = GroupPass(GroupSums.zeros(n_groups, p), np.zeros((n_groups + 1, 2)), np.zeros(n_groups + 1))
    gradient, precision = total.sums.gradient, total.sums.precision
    for found, part in dataset.map(of_block, "certifying", canonical=True, here=not dataset.remote):
        for whole, own in zip(total.sums[:4], part.sums[:4], strict=True):
            add_lines(whole, found, own)
        gradient += part.sums.gradient
        precision += part.sums.precision
        add_lines(total.weight, found, part.weight)
        total.n_rows[found] += part.n_rows
    lower = np.tril(precision)
    return total._replace(sums=total.sums._replace(precision=lower + np.tril(precision, -1).T))


def label_weights(block: WeightedData, places: IntArray, n_groups: int) -> FloatArray:
    """Return the weights of rows of +1 and of -1 in each group, shape (n_groups, 2)."""
    either = [np.bincount(places, np.where(block.y == sign, block.weights, 0.0), n_groups) for sign in (1, -1)]
    return np.stack(either, axis=1)


_PIECE = 4096  # rows of small groups whose predictors are kept at a time


def pieces_of_groups(codes: IntArray, *, by_grid: bool) -> IntArray:
    """Return where pieces of rows in the order of their groups end, after 0.

    Below 0 where it is one large group, which there is where groups may be evaluated `by_grid`.
    """
    last = np.flatnonzero(np.diff(codes, append=-1)) + 1
    first = np.append(0, last[:-1])
    large = (last - first >= MIN_GRID_ROWS) & by_grid
    cuts = np.arange(0, len(codes), _PIECE)
    group_of_cut = np.searchsorted(last, cuts, side="right")
    ends = np.unique(np.concatenate([cuts[~large[group_of_cut]], first[large], last[large], [0, len(codes)]]))
    return np.where(np.isin(ends, last[large]), -ends, ends)


@jit
def _add_values(
    rows: TileRows, order: tuple[NodeRows, IntArray], at: DrawNodes, family: Family, tables: tuple[FloatArray, ...]
) -> None:
    """Add to values, shape (S, M), for rows in the order of their groups, piece by piece.

    `order` has what nodes read of the rows, and the ends of `pieces_of_groups`. `tables` are nodes, log weights and
    these values.
    """
    whole, ends = order
    nodes, log_weights, values = tables
    p, none, most = at.theta.shape[1] - 1, np.empty(0), 0
    for k in range(len(ends) - 1):
        most = max(most, abs(ends[k + 1]) - abs(ends[k]))
    n_tiles = (most + TILE - 1) // TILE
    tiles, eta = np.empty((n_tiles, p, TILE + 8)), np.empty(n_tiles * TILE)
    for k in range(len(ends) - 1):
        begin, n = abs(ends[k]), abs(ends[k + 1]) - abs(ends[k])
        for start in range(0, n, TILE):
            load_tile(rows.X, begin + start, min(TILE, n - start), tiles[start // TILE])
        cut, g = slice(begin, begin + n), whole.codes[begin]
        part = NodeRows(whole.side[cut], whole.weights[cut], whole.z[cut], whole.codes[cut])
        for s in range(len(at.theta)):
            for start in range(0, n, TILE):
                predictor(tiles[start // TILE], at.theta[s, :p], eta[start : start + TILE])
            add_offset(rows.offset, begin, n, eta)
            nodes_of_draw = NodeSet(at.first, at.center[s], at.scale[s], at.step, nodes, log_weights)
            of_group = values[s, at.first[g] : at.first[g + 1]]
            if ends[k + 1] > 0 or not add_by_grid(eta[:n], part, nodes_of_draw, family, of_group):
                add_values(eta[:n], part, nodes_of_draw, family, (values[s], none))


_SHARE_OF_MERGED = 0.5  # of a block's rows, above which distinct rows save less than they cost


def _values_of_block(
    at: DrawNodes, family: Family, column: int, _: int, block: WeightedData
) -> tuple[IntArray, FloatArray, FloatArray]:
    present, places = local_codes(block, len(at.step) - 1)
    labels, nodes_of_block = label_weights(block, places, len(present)), at.of(present)
    if not isinstance(few := merge_identical(block, _SHARE_OF_MERGED * len(block)), str):
        block, places = few[0], local_codes(few[0], len(at.step) - 1)[1]
    order = np.argsort(places, kind="stable")  # sums of a group stay in the cache
    values = np.zeros((len(at.theta), int(nodes_of_block.first[-1])))
    rows, codes = block.take(order), places[order]
    z = effect_multipliers(rows, column)
    each = NodeRows(rows.y.astype(np.float64), rows.weights.copy(), z, codes)
    pieces = pieces_of_groups(codes, by_grid=bool((z == 1.0).all()) and grid_is_exact(family))
    _add_values(TileRows.of(rows), (each, pieces), nodes_of_block, family, (NODES, LOG_WEIGHTS, values))
    return present, values, labels


def values_at(dataset: Dataset, at: DrawNodes, family: Family, *, column: int = -1) -> tuple[FloatArray, FloatArray]:
    """Return log-likelihoods at the nodes, shape (S, M), and weights of +1 and of -1 by group, (G + 1, 2).

    One pass, or as many as `BLOCK_BYTES` asks for; 8 M bytes a draw are kept.
    """
    n_draws, n_values = len(at.theta), int(at.first[-1])
    step = max(1, BLOCK_BYTES // (8 * n_values))
    values, weight = np.zeros((n_draws, n_values)), np.zeros((len(at.step), 2))
    # a thread that has a whole piece of the rows would hold results of all its blocks, each larger than the block
    in_this_process = not dataset.remote
    for start in range(0, n_draws, step):
        cut = slice(start, start + step)
        nodes = at._replace(theta=at.theta[cut], center=at.center[cut], scale=at.scale[cut])
        weight[:] = 0.0
        work = partial(_values_of_block, nodes, family, column)
        for present, part, of_labels in dataset.map(work, "certifying", canonical=True, here=in_this_process):
            values[cut, at.places(present)] += part
            add_lines(weight, present, of_labels)
    return values, weight
