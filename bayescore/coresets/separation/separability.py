r"""Does the maximum likelihood estimate exist? Linear separability of weighted data (Albert and Anderson 1984).

A direction *separates* if the signed rows have z_n . direction >= 0, and > 0 in some. One linear program decides:

.. math:: \max_{t, \beta} t \quad \text{subject to} \quad z_n \cdot \beta \ge t \text{ for all } n, \quad
          \textstyle\sum_n z_n \cdot \beta = N.

The margin t is above 0 for complete separation, 0 for quasi-complete separation, and below 0 for overlap, where alone
the estimate exists. The program of Konis (2007) magnifies the solver's tolerance by 1 / |t|. If some rows that span the
space of all rows overlap, all rows do. So the program sees a leverage sample. A direction that separates the sample is
tried on all rows in one pass, and the rows that contradict it most join the sample: cutting planes.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bayescore.coresets.leverage import check_rank, rates_of
from bayescore.coresets.sampling.draw import draw, weighted
from bayescore.coresets.scores.factor import Whitening, block_factor, data_factor, whitening
from bayescore.coresets.separation.hyperplane import TOLERANCE, UnsolvedError, against, unit_rows, widest_margin
from bayescore.data.dataset import Dataset, open_rows
from bayescore.data.passes.threads import one_blas_thread
from bayescore.types import FloatArray, WeightedData, stack
from bayescore.validation import RandomState, check_seed, one_seed, warn

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
                found = separating(rows, white)
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
        warn(f"{answer}. {_VOID}")
    elif dataset is None and found is not None:
        warn(
            f"a hyperplane separates the labels of the coreset's {len(rows)} rows, and perhaps those of the whole "
            f"stream. If it does: {_VOID[0].lower()}{_VOID[1:]}"
        )


def data_whitening(dataset: Dataset) -> Whitening:
    """Return coordinates in which X'WX of all rows is the identity; one pass."""
    white = whitening(data_factor(dataset))
    check_rank(white)
    return white


def first_rows(dataset: Dataset, white: Whitening, seed: int) -> WeightedData:
    """Return the rows that the linear program sees first: they span all, and there are few enough to be fast."""
    return leverage_sample(dataset, white, 500 + 5 * white.rank, seed)


def leverage_sample(dataset: Dataset, white: Whitening, size: int, seed: int) -> WeightedData:
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


def _spans(rows: WeightedData, white: Whitening) -> bool:
    # of all rows at unit length the least singular value is at least 1, of a sample it is about sqrt(size / rank)
    return int(np.linalg.matrix_rank(unit_rows(rows, white)[0], rtol=1e-6)) == white.rank


def separate(dataset: Dataset, rows: WeightedData, white: Whitening) -> tuple[Separability, WeightedData]:
    """Answer for all rows of `dataset`, by cutting planes from `rows`, which span them; return the rows used too."""
    n_rows = dataset.scan.n_rows
    while True:
        separated = separating(rows, white)
        if separated is None:
            return Separability("overlap", None, (), n_rows, 0, len(rows), dataset.n_passes), rows
        direction, complete = separated
        wrong = against(dataset, white, direction, strict=complete)
        if wrong.n_rows == 0:
            kind: Kind = "complete separation" if complete else "quasi-complete separation"
            beta = white.basis @ direction
            columns = _carrying(beta, white, dataset.design.names)
            answer = Separability(kind, beta, columns, n_rows, wrong.n_on_plane, len(rows), dataset.n_passes)
            return answer, rows
        rows = stack([rows, wrong.worst])


def separating(rows: WeightedData, white: Whitening) -> tuple[FloatArray, bool] | None:
    """Return a direction, in coordinates of `white`, that separates `rows`, and whether completely; None if none."""
    unit, error = unit_rows(rows, white)
    direction = widest_margin(unit, error)
    if direction is None:
        return None
    # a shade stricter than `against`: rows once tried do not contradict again, so that cutting planes come to an end
    margins = unit @ direction
    if (margins + error).min() < -0.99 * TOLERANCE:
        return None
    return direction, bool((margins - error).min() > 1.01 * TOLERANCE)


def _carrying(beta: FloatArray, white: Whitening, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the columns with a part in `beta` beyond rounding, the largest part first."""
    part = np.abs(np.divide(beta, white.scale, out=np.zeros_like(beta), where=white.scale > 0.0))
    order = np.argsort(-part, kind="stable")
    return tuple(names[d] for d in order if part[d] > 1e-6 * part.max())
