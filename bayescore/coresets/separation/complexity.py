r"""mu: how nearly separated weighted data are (Peters 2021, Definition 5).

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
from typing import Any

import numpy as np
from scipy.optimize import minimize

from bayescore.coresets.scores.factor import Whitening
from bayescore.coresets.separation.separability import (
    Separability,
    data_whitening,
    first_rows,
    leverage_sample,
    separate,
)
from bayescore.data.dataset import open_rows
from bayescore.data.passes.threads import one_blas_thread
from bayescore.models.families import FAMILIES
from bayescore.models.newton import find_mode
from bayescore.models.posterior import likelihood_terms
from bayescore.types import FloatArray, WeightedData, stack
from bayescore.validation import RandomState, check_generator, one_seed

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
            lambda _, block: two_sides(block.Z @ white.basis, block.weights, directions),
            "mu over all rows",
            canonical=True,
        )
        right, left = reduce(np.add, parts)
    best = int(np.argmax(right / left))
    return Complexity(float(right[best] / left[best]), white.basis @ directions[:, best], answer, dataset.n_passes)


def two_sides(rows: FloatArray, weights: FloatArray, directions: FloatArray) -> FloatArray:
    """Return sum w (z . direction)^2 over each side's rows, the right side first, shape (2, K)."""
    eta = rows @ directions
    return np.stack([weights @ np.maximum(eta, 0.0) ** 2, weights @ np.minimum(eta, 0.0) ** 2])


def local_maxima(data: WeightedData, white: Whitening, rng: np.random.Generator) -> FloatArray:
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
    right, left = two_sides(rows, weights, candidates)
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
