r"""Divergences of a row x from a center c, as small values.

Bregman divergences of three convex generators F,

.. math:: B_F(x, c) = \sum_d F(x_d) - F(c_d) - F'(c_d) (x_d - c_d):

F(t) = t^2 gives the squared Euclidean distance, t log t the (generalised) Kullback-Leibler divergence, -log t that of
Itakura and Saito; their best center of a cluster is its mean. The total Jensen divergence

.. math:: tJ_\alpha(x, c) = \sqrt{\frac{\Delta^2}{\Delta^2 + \Delta_F^2}} \;
          \frac{\alpha F(x) + (1 - \alpha) F(c) - F(\alpha x + (1 - \alpha) c)}{\alpha (1 - \alpha)},

Delta = |x - c|, Delta_F = F(x) - F(c), F summed over the coordinates, has no best center in closed form; seeding
needs none (Nock et al. 2016, Theorem 29).

When to use them: Kullback-Leibler for counts and shares, Itakura-Saito for positive magnitudes whose ratios matter,
total Jensen where the result should not depend on a rotation of the graph of F.

The nearest center of each row, updated as centers are added: the hot loop of every seeding.

D(a) = min_c d(a, c) can only fall when a center is added, so a new center costs one pass. Rows are stored by columns,
so that the inner loop runs over rows and vectorises. Sums of w D are kept for each 1024 rows, so that drawing a row
with probability proportional to w D needs no other pass.

Checks of the arguments of seedings.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit_sums
from bayescore.data.passes import MAX_ENTRY
from bayescore.types import FloatArray, IntArray
from bayescore.validation import DataError, check_choice, check_integer, check_matrix, check_positive

GENERATORS = ("square", "entropy", "burg")  # in the order of their codes


class Form(NamedTuple):
    """A divergence for compiled kernels: the number of its generator, and its skew."""

    generator: int
    alpha: float


@dataclass(frozen=True)
class Divergence:
    """A divergence of a row from a center, see the module."""

    name: str
    generator: str  # F: t^2 ("square"), t log t ("entropy") or -log t ("burg")
    alpha: float = 0.0  # skew of the total Jensen divergence; 0 is the Bregman divergence of F

    @property
    def form(self) -> Form:
        """The divergence for compiled kernels."""
        return Form(GENERATORS.index(self.generator), self.alpha)

    def check(self, X: FloatArray, name: str) -> None:
        """Raise `DataError` if X, shape (n, D), leaves the domain: t > 0 for entropy and burg."""
        if self.generator != "square" and not X.min() > 0.0:
            row, column = (int(i) for i in np.argwhere(X <= 0.0)[0])
            raise DataError(
                f"{name} is {X[row, column]:g} in row {row}, column {column}; the divergence {self.name!r} needs "
                "positive entries: add a small constant (a pseudo-count), or use 'squared_euclidean'"
            )


SQUARED_EUCLIDEAN = Divergence("squared_euclidean", "square")


KULLBACK_LEIBLER = Divergence("kullback_leibler", "entropy")


ITAKURA_SAITO = Divergence("itakura_saito", "burg")


_NAMED = {value.name: value for value in (SQUARED_EUCLIDEAN, KULLBACK_LEIBLER, ITAKURA_SAITO)}


def total_jensen(generator: str = "entropy", alpha: float = 0.5) -> Divergence:
    """Return the total Jensen divergence of a generator, see the module.

    Parameters
    ----------
    generator : str, default "entropy"
        Name of the convex generator.
    alpha : float, default 0.5
        Skew, between 0 and 1.

    Returns
    -------
    Divergence

    Raises
    ------
    ValueError
        If the generator is unknown or alpha not between 0 and 1.

    References
    ----------
    Nielsen and Nock (2015), Total Jensen divergences: definition, properties and clustering.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import k_variates, total_jensen
    >>> X = np.random.default_rng(0).uniform(0.1, 1.0, size=(100, 2))
    >>> k_variates(X, 4, divergence=total_jensen(), random_state=1).centers.shape
    (4, 2)
    """
    check_choice(generator, "generator", GENERATORS)
    skew = check_positive(alpha, "alpha", below=1.0)
    return Divergence(f"total_jensen({generator}, {skew:g})", generator, skew)


def check_divergence(divergence: object) -> Divergence:
    """Return a `Divergence`, given as one or by its name."""
    return divergence if isinstance(divergence, Divergence) else _NAMED[check_choice(divergence, "divergence", _NAMED)]


@jit_sums
def _generator(t: float, code: int) -> float:
    if code == 0:
        return t * t
    return t * math.log(t) if code == 1 else -math.log(t)


@jit_sums
def _total_jensen(columns: FloatArray, start: int, c: FloatArray, form: Form, out: FloatArray) -> None:
    code, alpha = form.generator, form.alpha
    for n in range(out.size):
        total, square, rise = 0.0, 0.0, 0.0
        for d in range(c.size):
            x = columns[d, start + n]
            fx, fc = _generator(x, code), _generator(c[d], code)
            total += alpha * fx + (1.0 - alpha) * fc - _generator(alpha * x + (1.0 - alpha) * c[d], code)
            square += (x - c[d]) ** 2
            rise += fx - fc
        out[n] = 0.0  # of equal points, exactly
        if square > 0.0:
            factor = math.sqrt(square / (square + rise * rise))
            out[n] = max(total, 0.0) * factor / (alpha * (1.0 - alpha))


@jit_sums
def diverge(columns: FloatArray, start: int, c: FloatArray, form: Form, out: FloatArray) -> None:
    """Write the divergences from c of the columns start, ..., start + n - 1 of `columns` (D, N) to `out` (n,)."""
    if form.alpha > 0.0:
        _total_jensen(columns, start, c, form, out)
        return
    code = form.generator
    out[:] = 0.0
    if code == 0:
        for d in range(0, c.size, 2):  # two columns at a time: half the trips to `out`
            e = min(d + 1, c.size - 1)
            left, right, twice = c[d], c[e], 1.0 if e > d else 0.0
            first, second = columns[d][start : start + out.size], columns[e][start : start + out.size]
            for n in range(out.size):  # rows in the inner loop: that vectorises
                gap, other = first[n] - left, second[n] - right
                out[n] += gap * gap + twice * (other * other)
        return
    for d in range(c.size):
        center, column = c[d], columns[d][start : start + out.size]
        for n in range(out.size):
            ratio = column[n] / center
            log = math.log(ratio)
            rest = column[n] * log - column[n] + center if code == 1 else ratio - log - 1.0
            out[n] += max(rest, 0.0)


BLOCK = 1024


class _NearestArrays(NamedTuple):
    """Arrays of `Nearest` for compiled kernels."""

    columns: FloatArray  # (D, n)
    weights: FloatArray
    closest: FloatArray
    owner: NDArray[np.int32]
    sums: FloatArray  # of w D, of each block


@jit_sums
def _lower(rows: _NearestArrays, center: FloatArray, number: int, form: Form) -> None:
    """Add the center with this number."""
    scratch = np.empty(BLOCK)
    for block in range(rows.sums.size):
        start, stop = block * BLOCK, min((block + 1) * BLOCK, rows.closest.size)
        distances, best = scratch[: stop - start], rows.closest[start:stop]
        owners, w = rows.owner[start:stop], rows.weights[start:stop]
        diverge(rows.columns, start, center, form, distances)
        total = 0.0
        for n in range(distances.size):
            nearer = distances[n] < best[n]
            best[n] = distances[n] if nearer else best[n]
            owners[n] = number if nearer else owners[n]
            total += w[n] * best[n]
        rows.sums[block] = total


@jit_sums
def _potentials(rows: _NearestArrays, candidates: FloatArray, form: Form, out: FloatArray) -> None:
    """Write the sum of w D that each candidate, shape (m, D), would leave, shape (m,)."""
    scratch = np.empty(BLOCK)
    out[:] = 0.0
    for start in range(0, rows.closest.size, BLOCK):
        stop = min(start + BLOCK, rows.closest.size)
        distances, best, w = scratch[: stop - start], rows.closest[start:stop], rows.weights[start:stop]
        for i in range(out.size):
            diverge(rows.columns, start, candidates[i], form, distances)
            total = 0.0
            for n in range(distances.size):
                total += w[n] * min(distances[n], best[n])
            out[i] += total


def pick(masses: FloatArray, rng: np.random.Generator, size: int = 1) -> IntArray:
    """Draw `size` positions with probability proportional to `masses`, shape (size,)."""
    cumulated = np.cumsum(masses)
    return np.asarray(np.searchsorted(cumulated, rng.random(size) * cumulated[-1], side="right"), dtype=np.int64)


def _transposed(X: FloatArray) -> FloatArray:
    columns = np.empty(X.shape[::-1])
    for start in range(0, len(X), BLOCK):  # block by block, which the caches like
        columns[:, start : start + BLOCK] = X[start : start + BLOCK].T
    return columns


def divergences(X: FloatArray, centers: FloatArray, divergence: Divergence) -> FloatArray:
    """Return the divergence of each row from each center, shape (n, k)."""
    columns, out = _transposed(X), np.empty((len(centers), len(X)))
    for center, row in zip(centers, out, strict=True):
        diverge(columns, 0, np.ascontiguousarray(center), divergence.form, row)
    return out.T


class Nearest:
    """Rows, weights and the nearest chosen center of each row.

    `closest`, shape (n,), is D of each row, infinite before the first center. `owner`, shape (n,), is the number of the
    nearest center, the first of equally near ones.
    """

    def __init__(
        self, X: FloatArray, weights: FloatArray, divergence: Divergence, centers: FloatArray | None = None
    ) -> None:
        self.weights, self.divergence = weights, divergence
        self.closest, self.owner = np.full(len(X), np.inf), np.zeros(len(X), dtype=np.int32)
        self._sums = np.add.reduceat(weights, np.arange(0, len(X), BLOCK))
        self._state = _NearestArrays(_transposed(X), weights, self.closest, self.owner, self._sums)
        self._count = 0
        for center in () if centers is None else centers:
            self.add(center)

    @property
    def total(self) -> float:
        """Sum of w D over the rows; before the first center the sum of w."""
        return float(self._sums.sum())

    def add(self, center: FloatArray) -> None:
        """Add a center, shape (D,)."""
        _lower(self._state, center, self._count, self.divergence.form)
        self._count += 1

    def draw(self, rng: np.random.Generator, size: int = 1) -> IntArray:
        """Draw rows with probability proportional to w D (to w before the first center), shape (size,)."""
        rows = np.empty(size, dtype=np.int64)
        for i, block in enumerate(pick(self._sums, rng, size)):
            cut = slice(block * BLOCK, (block + 1) * BLOCK)
            masses = self.weights[cut] * self.closest[cut] if self._count else self.weights[cut]
            rows[i] = block * BLOCK + pick(masses, rng)[0]
        return rows

    def best(self, rows: IntArray) -> int:
        """Return the one of `rows` that would leave the least sum of w D as a center."""
        out = np.empty(len(rows))
        candidates = np.ascontiguousarray(self._state.columns[:, rows].T)
        _potentials(self._state, candidates, self.divergence.form, out)
        return int(rows[np.argmin(out)])


_CHUNK = 4096


def distinct_rows(X: FloatArray, enough: int) -> int:
    """Return the number of distinct rows of X, shape (n, D), counting no further than `enough`."""
    seen: set[bytes] = set()
    for start in range(0, len(X), _CHUNK):  # seldom more than one
        seen.update(row.tobytes() for row in np.ascontiguousarray(X[start : start + _CHUNK] + 0.0))  # -0 and 0 are one
        if len(seen) >= enough:
            break
    return min(len(seen), enough)


def too_few(n_clusters: int, n: int) -> str:
    """Return the message for data with fewer distinct rows than clusters."""
    return f"n_clusters={n_clusters}, but the data have {n} distinct rows; ask for n_clusters={n} or fewer"


def check_trials(n_local_trials: int | None, n_clusters: int) -> int:
    """Return the number of rows tried for each center."""
    if n_local_trials is None:
        return 2 + int(math.log(n_clusters))
    return check_integer(n_local_trials, "n_local_trials", low=1)


def check_rows(X: Any, name: str, divergence: Divergence = SQUARED_EUCLIDEAN) -> FloatArray:
    """Return X, shape (n, D), as finite C-contiguous floats in the divergence's domain."""
    matrix = np.ascontiguousarray(check_matrix(X, name), dtype=np.float64)
    if not (matrix.min() >= -MAX_ENTRY and matrix.max() <= MAX_ENTRY):  # false for NaN
        row, column = (int(i) for i in np.argwhere(~(np.abs(matrix) <= MAX_ENTRY))[0])
        raise DataError(
            f"{name} is {matrix[row, column]:g} in row {row}, column {column}; entries must be finite and at most "
            f"{MAX_ENTRY:g} in size: drop such rows, impute or rescale them"
        )
    divergence.check(matrix, name)
    return matrix


def check_peers(peers: Sequence[Any], divergence: Divergence = SQUARED_EUCLIDEAN) -> list[FloatArray]:
    """Return the rows of each peer, shapes (n_i, D): at least one peer, none of them empty, all of one D."""
    if not hasattr(peers, "__len__"):
        raise TypeError(f"peers is a {type(peers).__name__}; give a sequence of arrays, the rows of each peer")
    if not len(peers):
        raise DataError("peers is empty; give at least one peer")
    held: list[FloatArray] = []
    for i, X in enumerate(peers):
        if not len(np.atleast_1d(X)):
            raise DataError(f"peers[{i}] is empty; leave peers without rows out")
        held.append(check_rows(X, f"peers[{i}]", divergence))
        n_columns, first = held[i].shape[1], held[0].shape[1]
        if n_columns != first:
            raise DataError(f"peers[{i}] has {n_columns} columns, peers[0] has {first}; give all the same features")
    return held


def check_masses(weights: Any, n_rows: int, name: str = "X") -> FloatArray:
    """Return weights, shape (n,), finite, not negative, with a positive sum; ones for None."""
    if weights is None:
        return np.ones(n_rows)
    try:
        masses = np.ascontiguousarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"weights of {name} must be numbers, one for each row") from None
    if masses.shape != (n_rows,):
        raise DataError(f"weights of {name} has shape {masses.shape}; it must be ({n_rows},), one weight for each row")
    if not (masses >= 0.0).all() or not np.isfinite(masses.sum()):
        row = int(np.argmin(np.isfinite(masses) & (masses >= 0.0)))
        raise DataError(f"weights of {name} is {masses[row]:g} in row {row}; weights must be finite and not negative")
    if not masses.sum() > 0.0:
        raise DataError(f"weights of {name} sum to 0; at least one row needs a positive weight")
    return masses
