r"""Does the maximum likelihood estimate exist? Linear separability of weighted data (Albert and Anderson 1984).

A direction *separates* if the signed rows have z_n . direction >= 0, and > 0 in some. One linear program decides:

.. math:: \max_{t, \beta} t \quad \text{subject to} \quad z_n \cdot \beta \ge t \text{ for all } n, \quad
          \textstyle\sum_n z_n \cdot \beta = N.

The margin t is above 0 for complete separation, 0 for quasi-complete separation, and below 0 for overlap, where alone
the estimate exists. The program of Konis (2007) magnifies the solver's tolerance by 1 / |t|. If some rows that span the
space of all rows overlap, all rows do. So the program sees a leverage sample. A direction that separates the sample is
tried on all rows in one pass, and the rows that contradict it most join the sample: cutting planes.

Whether and how nearly rows are linearly separable.

Hyperplanes through the origin and signed rows z_n = y_n x_n: the widest margin, and the rows that contradict one.

Rows are taken in coordinates in which X'WX is the identity, and at unit length: z . direction / |direction| is then the
cosine of an angle, whatever the scales of columns and rows.

`warn_if_completely_separated` takes a fraction of the time of `separability`. No direction has z_n . direction > 0 in
all rows if and only if 0 is in the convex hull of the z_n (Gordan 1873); else the point of the hull nearest to 0 is the
direction of the widest margin. Non-negative least squares finds it (Lawson and Hanson 1974, chapter 23).

mu: how nearly separated weighted data are (Peters 2021, Definition 5).

.. math:: \mu = \sup_\beta \frac{\sum_{z_n \cdot \beta > 0} w_n (z_n \cdot \beta)^2}
                              {\sum_{z_n \cdot \beta < 0} w_n (z_n \cdot \beta)^2}

with signed rows z_n = y_n x_n; Munteanu et al. (2018) have plain norms for the logistic loss. mu is infinite if and
only if the labels are separated, and the sizes that guarantee a leverage coreset grow in proportion to it.

Local maxima abound. `mu_complexity` returns a *lower bound*: the best quotient that local search on a leverage sample
finds, taken over all rows. So it proves that mu is large, never that it is small. Offsets are one more column, the
last, of rows and direction: that bounds the quotient with the coefficient 1.
"""

import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal

import numpy as np
from scipy import linalg, special
from scipy.optimize import linprog, minimize, nnls

from bayescore.compiled import jit, one_blas_thread
from bayescore.coresets.leverage import check_rank, rates_of
from bayescore.coresets.scores import RowWhitening, block_factor, data_factor, whitening
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset, open_rows
from bayescore.data.passes import TILE, load_signed_tile, new_tile
from bayescore.data.responses import LABELS
from bayescore.families.family import FAMILIES
from bayescore.models.laplace import find_mode
from bayescore.models.posterior import likelihood_terms
from bayescore.models.row_kernels import predictor, squared_lengths
from bayescore.numerics.sampling import draw, weighted
from bayescore.text import see
from bayescore.types import FloatArray, LabelArray, WeightedData, stack
from bayescore.validation import RandomState, check_generator, check_seed, one_seed, warn

TOLERANCE = 1e-9  # cosine that counts as 0; the solver's own tolerance is 1e-10, the least that HiGHS takes


CUTS = 500  # rows that a pass brings back


class UnsolvedError(RuntimeError):
    """The linear program was not solved."""


def unit_rows(block: WeightedData, white: RowWhitening) -> tuple[FloatArray, FloatArray]:
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
    X: FloatArray, y: LabelArray, basis: FloatArray, normal: FloatArray, reach: FloatArray
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
class Contradictions:
    """The rows that contradict a direction, the worst `CUTS` of them with their margins, and the rows on its plane."""

    n_rows: int
    n_on_plane: int
    worst: WeightedData
    margins: FloatArray

    def merged(self, other: "Contradictions") -> "Contradictions":
        """Return the sum over two sets of rows."""
        margins = np.concatenate([self.margins, other.margins])
        order = np.argsort(margins, kind="stable")[:CUTS]
        worst = stack([self.worst, other.worst]).take(order)
        return Contradictions(self.n_rows + other.n_rows, self.n_on_plane + other.n_on_plane, worst, margins[order])


def find_contradictions(
    dataset: Dataset, white: RowWhitening, direction: FloatArray, *, strict: bool
) -> Contradictions:
    """Find the rows on the wrong side of a direction, or if `strict` on its hyperplane; one pass."""
    normal, size = white.basis @ direction, np.abs(white.basis).sum(axis=1)

    def one(_: int, block: WeightedData) -> Contradictions:
        margins, error = _margins(block.X, block.y, white.basis, normal, size)
        reach = TOLERANCE + error
        wrong = np.flatnonzero(margins <= reach if strict else margins < -reach)
        worst = wrong[np.argsort(margins[wrong], kind="stable")[:CUTS]]
        return Contradictions(len(wrong), int((np.abs(margins) <= reach).sum()), block.take(worst), margins[worst])

    return reduce(Contradictions.merged, dataset.map(one, "trying the direction"))


def warn_if_completely_separated(dataset: Dataset, rows: WeightedData) -> bool:
    """Warn, and return True, if a hyperplane has all rows of `dataset` on the sides of their labels.

    `rows` is its coreset. Where it does not prove that there is none, one pass follows, unless the rows come once; the
    warning then says that the labels may be separated. Numbers have no sides, positive ones and times both.
    """
    if isinstance(rows, Coreset) and rows.response not in (LABELS, "counts"):
        return False
    few = rows.take(slice(None, None, -(-len(rows) // (500 + 5 * rows.n_features))))  # few enough to be fast
    sure = False
    with one_blas_thread():
        parted = find_strict_separation(few)
        if parted is not None and dataset.rereadable:
            white, direction = parted
            wrong = find_contradictions(dataset, white, direction, strict=True)
            sure = wrong.n_rows == 0
            parted = parted if sure else find_strict_separation(stack([few, wrong.worst]))
    if parted is None:
        return False
    which = f"all {dataset.scan.n_rows:,}" if sure else f"{len(few):,} of the coreset's"
    unsure = "" if sure else " (separability checks all rows)"
    warn(
        f"the labels {'are' if sure else 'may be'} completely separated: a hyperplane has {which} rows on the sides of "
        f"their labels{unsure}. Then no maximum likelihood estimate exists, and how far the posterior reaches is up to "
        f"the prior: choose it with care, or drop the columns that separate{see('how-to/separated.md')}"
    )
    return True


def find_strict_separation(rows: WeightedData) -> tuple[RowWhitening, FloatArray] | None:
    """Return a whitening, and in it a direction, shape (r,), with z . direction > 0 in all rows; None if not found."""
    if _balanced(rows.Z):
        return None
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


_STEPS = 4  # of Newton's method: two or three do where labels overlap


_LEAST = 1e-6  # of the largest multiplier, far above rounding


_ROUNDING = 1e-12  # of a sum of rows, relative to that of their sizes


def _balanced(Z: FloatArray) -> bool:
    """Whether positive multipliers u with Z'u = 0 are found at once: no direction then has all rows on its side.

    At the mode of a logistic regression its scores, all positive, are such. Near it least squares takes off what is
    left, and they stay positive.
    """
    b = np.zeros(Z.shape[1])
    try:
        factor = linalg.cho_factor(Z.T @ Z)
        for _ in range(_STEPS):
            u = special.expit(-(Z @ b))
            left = u @ Z
            exact = u - Z @ linalg.cho_solve(factor, left)
            if exact.min() > _LEAST * exact.max():
                return bool((np.abs(exact @ Z) <= _ROUNDING * (exact @ np.abs(Z))).all())
            root = Z * np.sqrt(u * (1.0 - u))[:, None]
            b += linalg.cho_solve(linalg.cho_factor(root.T @ root), left)
    except linalg.LinAlgError:  # of dependent columns, or of labels that are separated
        return False
    return False


_VOID = (
    "No guarantee of the coreset holds, for mu is infinite, and the posterior is driven by the prior: choose it with "
    "care, or drop the columns that separate"
)


Kind = Literal["overlap", "quasi-complete separation", "complete separation"]


@dataclass(frozen=True, eq=False)
class Separability:
    """Whether a hyperplane separates the labels; what `separability` returns."""

    kind: Kind
    direction: FloatArray | None  # coefficients, in the columns of the design matrix, that separate
    columns: tuple[str, ...]  # that the direction rests on, those of the largest part in it first
    n_rows: int
    n_on_plane: int  # rows with x_n . direction = 0
    n_tried: int  # rows that the linear programs saw
    n_passes: int

    @property
    def mle_exists(self) -> bool:
        """Whether the maximum likelihood estimate exists."""
        return self.kind == "overlap"

    def __str__(self) -> str:
        if self.kind == "overlap":
            return (
                f"overlap: no hyperplane separates the labels ({self.n_tried:,} of {self.n_rows:,} rows prove it); "
                "the maximum likelihood estimate exists"
            )
        along = f" along {', '.join(map(repr, self.columns))}" if len(self.columns) <= 3 else ""
        on_plane = f", {self.n_on_plane:,} lie on the hyperplane" if self.n_on_plane else ""
        return (
            f"{self.kind}{along}: none of the {self.n_rows:,} rows is on the wrong side{on_plane}; "
            "the maximum likelihood estimate does not exist"
        )


def separability(
    data: Any,
    y: Any = None,
    *,
    label: str | None = None,
    weights: Any = None,
    intercept: bool = False,
    random_state: RandomState = None,
    random_seed: RandomState = None,
    progressbar: bool = True,
) -> Separability:
    """Find out whether a hyperplane separates the labels, completely or quasi-completely (Albert and Anderson 1984).

    Three passes where the labels overlap, some more where they are separated, or nearly so.

    Parameters
    ----------
    data, y, label, weights, intercept, progressbar
        As in `build_coreset`. With an intercept `standardize` would not change the answer.
    random_state, random_seed : int, Generator, SeedSequence or None
        Seed, by either name, of the leverage sample. Only the choice among many directions depends on it.

    Returns
    -------
    Separability
        Its `kind`; the `direction` that separates, shape (D,), and its `columns`; rows `n_on_plane` with
        x_n . direction = 0, `n_tried` that the linear programs saw, and `n_passes` over the data.

    Raises
    ------
    DataError, RuntimeError
        If the data cannot be used, or all their entries are 0; if a linear program is not solved.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> separability(X, [0, 0, 1, 1], intercept=True).kind
    'complete separation'
    >>> print(separability(X, [0, 1, 0, 1], intercept=True))
    overlap: no hyperplane separates the labels (4 of 4 rows prove it); the maximum likelihood estimate exists
    """
    dataset = open_rows(data, y, label=label, weights=weights, intercept=intercept, progress=progressbar)
    _ = dataset.scan  # checks the rows
    with one_blas_thread():
        white = data_whitening(dataset)
        rows = first_rows(dataset, white, check_seed(one_seed(random_state, random_seed)))
        return separate(dataset, rows, white)[0]


def warn_if_separable(rows: WeightedData, dataset: Dataset | None = None, seed: int = 0) -> None:
    """Warn if the labels of `dataset` are separated, or if the linear program is not solved; `rows` is its coreset.

    A coreset of full column rank that overlaps proves that all rows overlap: no pass over them is needed. Without
    `dataset`, as for streams, which leave no others to look at, its own labels are judged.
    """
    with one_blas_thread():
        white = whitening(block_factor(rows))
        try:
            if dataset is None:
                direction = find_separation(rows, white)
            else:
                if white.rank < rows.n_features:
                    white = data_whitening(dataset)
                    if not _spans(rows, white):
                        rows = stack([rows, first_rows(dataset, white, seed)])
                answer, _ = separate(dataset, rows, white)
        except UnsolvedError as error:  # the coreset is there; do not lose it
            warn(f"whether the labels are separated is not known: {error}")
            return
    if dataset is not None and not answer.mle_exists:
        warn(f"{answer}. {_VOID}{see('how-to/separated.md')}")
    elif dataset is None and direction is not None:
        warn(
            f"a hyperplane separates the labels of the coreset's {len(rows)} rows, and perhaps those of the whole "
            f"stream. If it does: {_VOID[0].lower()}{_VOID[1:]}{see('how-to/separated.md')}"
        )


def data_whitening(dataset: Dataset) -> RowWhitening:
    """Return coordinates in which X'WX of all rows is the identity; one pass."""
    white = whitening(data_factor(dataset))
    check_rank(white)
    return white


def first_rows(dataset: Dataset, white: RowWhitening, seed: int) -> WeightedData:
    """Return the rows that the linear program sees first: they span all, and there are few enough to be fast."""
    return leverage_sample(dataset, white, 500 + 5 * white.rank, seed)


def leverage_sample(dataset: Dataset, white: RowWhitening, size: int, seed: int) -> WeightedData:
    """Return a leverage coreset of `size` draws, or more until it spans all rows, or all rows if they are no more."""
    weight_total = dataset.scan.weight_total
    while size < dataset.scan.n_rows:
        drawn = draw(
            dataset,
            lambda block: rates_of(white.leverage(block), block.weights, weight_total),
            size,
            seed,
            canonical=True,
            description="leverage sample",
        )
        rows = weighted(drawn, size)
        if _spans(rows, white):
            return rows
        size *= 4
    return dataset.load()


def _spans(rows: WeightedData, white: RowWhitening) -> bool:
    # of all rows at unit length the least singular value is at least 1, of a sample it is about sqrt(size / rank)
    return int(np.linalg.matrix_rank(unit_rows(rows, white)[0], rtol=1e-6)) == white.rank


def separate(dataset: Dataset, rows: WeightedData, white: RowWhitening) -> tuple[Separability, WeightedData]:
    """Answer for all rows of `dataset`, by cutting planes from `rows`, which span them; return the rows used too."""
    n_rows = dataset.scan.n_rows
    while True:
        separated = find_separation(rows, white)
        if separated is None:
            return Separability("overlap", None, (), n_rows, 0, len(rows), dataset.n_passes), rows
        direction, complete = separated
        wrong = find_contradictions(dataset, white, direction, strict=complete)
        if wrong.n_rows == 0:
            kind: Kind = "complete separation" if complete else "quasi-complete separation"
            beta = white.basis @ direction
            columns = _main_columns(beta, white, dataset.design.names)
            answer = Separability(kind, beta, columns, n_rows, wrong.n_on_plane, len(rows), dataset.n_passes)
            return answer, rows
        rows = stack([rows, wrong.worst])


def find_separation(rows: WeightedData, white: RowWhitening) -> tuple[FloatArray, bool] | None:
    """Return a direction, in coordinates of `white`, that separates `rows`, and whether completely; None if none."""
    unit, error = unit_rows(rows, white)
    direction = widest_margin(unit, error)
    if direction is None:
        return None
    # a shade stricter than `find_contradictions`: rows once tried do not contradict again, so that cutting planes end
    margins = unit @ direction
    if (margins + error).min() < -0.99 * TOLERANCE:
        return None
    return direction, bool((margins - error).min() > 1.01 * TOLERANCE)


def _main_columns(beta: FloatArray, white: RowWhitening, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the columns with a part in `beta` beyond rounding, the largest part first."""
    part = np.abs(np.divide(beta, white.scale, out=np.zeros_like(beta), where=white.scale > 0.0))
    order = np.argsort(-part, kind="stable")
    return tuple(names[d] for d in order if part[d] > 1e-6 * part.max())


SAMPLE = 20_000  # draws; what limits the bound is the sample, not the number of starts


NEIGHBOURS = 16  # of the maximum likelihood estimate


RANDOM = 64


STARTS = 6  # the best of the candidates, from which the search climbs


@dataclass(frozen=True, eq=False)
class Complexity:
    """A lower bound of mu, and the direction that attains it on all rows; what `mu_complexity` returns."""

    lower_bound: float  # infinite if the labels are separated
    direction: FloatArray  # coefficients, in the columns of the design matrix
    separability: Separability
    n_passes: int

    def __str__(self) -> str:
        if math.isinf(self.lower_bound):
            return f"mu is infinite: {self.separability}"
        rows = self.separability.n_rows
        return f"mu is at least {self.lower_bound:,.4g} (attained on all {rows:,} rows; local search, no upper bound)"


def mu_complexity(
    data: Any,
    y: Any = None,
    *,
    label: str | None = None,
    weights: Any = None,
    intercept: bool = False,
    random_state: RandomState = None,
    random_seed: RandomState = None,
    progressbar: bool = True,
) -> Complexity:
    """Return a lower bound of mu (Peters 2021, Definition 5).

    Parameters
    ----------
    data, y, label, weights, intercept, progressbar
        As in `separability`.
    random_state, random_seed : int, Generator, SeedSequence or None
        Seed, by either name, of the leverage sample and of the random directions.

    Returns
    -------
    Complexity
        The `lower_bound`, infinite if the labels are separated, and the `direction`, shape (D,), that attains it.

    Raises
    ------
    DataError
        If the data cannot be used, or all their entries are 0; the message names the place and the remedy.

    Examples
    --------
    >>> import bayescore as bc
    >>> X, y = bc.datasets.probit(5000, [1.0, 0.0], random_state=0)
    >>> bool(mu_complexity(X, y, progressbar=False).lower_bound >= 1)
    True
    """
    rng = check_generator(one_seed(random_state, random_seed))
    dataset = open_rows(
        data, y, label=label, weights=weights, intercept=intercept, progress=progressbar
    ).append_offset()
    _ = dataset.scan  # checks the rows
    with one_blas_thread():
        white = data_whitening(dataset)
        seed = int(rng.integers(2**63))
        answer, rows = separate(dataset, first_rows(dataset, white, seed), white)
        if answer.direction is not None:
            return Complexity(math.inf, answer.direction, answer, dataset.n_passes)
        sample = leverage_sample(dataset, white, SAMPLE, seed)
        # of one seed the longer draw holds the shorter one: with the rows that `separate` added it overlaps as well
        sample = stack([sample, rows.take(~np.isin(rows.index, sample.index))])
        directions = local_maxima(sample, white, rng)
        parts = dataset.map(
            lambda _, block: side_sums(block.Z @ white.basis, block.weights, directions),
            "mu over all rows",
            canonical=True,
        )
        right, left = reduce(np.add, parts)
    best = int(np.argmax(right / left))
    return Complexity(float(right[best] / left[best]), white.basis @ directions[:, best], answer, dataset.n_passes)


def side_sums(rows: FloatArray, weights: FloatArray, directions: FloatArray) -> FloatArray:
    """Return sum w (z . direction)^2 over the rows with z . direction > 0, and over the others, shape (2, K)."""
    eta = rows @ directions
    return np.stack([weights @ np.maximum(eta, 0.0) ** 2, weights @ np.minimum(eta, 0.0) ** 2])


def local_maxima(data: WeightedData, white: RowWhitening, rng: np.random.Generator) -> FloatArray:
    """Return directions, in coordinates of `white`, that are local maxima of the quotient over `data`, shape (r, K)."""
    rows, weights = data.Z @ white.basis, data.weights
    probit, seen = FAMILIES["probit"], replace(data, X=data.y[:, None] * rows)
    mle = find_mode(lambda beta: likelihood_terms(beta, seen, probit), np.zeros(rows.shape[1]), tolerance=1e-3)
    candidates = np.column_stack(
        [
            mle.beta,
            mle.beta[:, None] + mle.factor @ rng.standard_normal((rows.shape[1], NEIGHBOURS)),
            np.linalg.pinv(white.basis),
            rng.standard_normal((rows.shape[1], RANDOM)),
        ]
    )
    candidates = np.column_stack([candidates, -candidates])
    right, left = side_sums(rows, weights, candidates)
    best = np.argsort(left / right, kind="stable")[:STARTS]

    def objective(direction: FloatArray) -> tuple[float, FloatArray]:
        """Return the log of the inverse quotient, which is smooth, and its gradient."""
        eta = rows @ direction
        pull = weights * eta
        right, left = float(pull @ np.maximum(eta, 0.0)), float(pull @ np.minimum(eta, 0.0))
        gradient = 2.0 * (np.where(eta < 0.0, pull / left, -pull / right) @ rows)
        return math.log(left / right), gradient

    def climb(start: FloatArray) -> FloatArray:
        result = minimize(
            objective, start / np.linalg.norm(start), jac=True, method="L-BFGS-B", options={"maxiter": 500}
        )
        return np.asarray(result.x)

    return np.column_stack([climb(start) for start in candidates[:, best].T])
