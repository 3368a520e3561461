"""Leverage scores of weighted rows, exact, from a count sketch, and on-line: :math:`l_n = w_n x_n' (X'WX)^+ x_n`.

They lie between 0 and 1, sum to the rank of X, ignore signs of rows and scales of columns, and are 1 for a row that
alone carries a direction. Sources: Drineas, Magdon-Ismail, Mahoney and Woodruff (2012); Cohen, Musco and Pachocki
(2020), Online row sampling; Peters (2021), Algorithms 2 to 5.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from bayescore.coresets.scores.factor import (
    Whitening,
    block_factor,
    data_factor,
    joined_factor,
    sketch_factor,
    whitening,
)
from bayescore.data.dataset import Dataset
from bayescore.data.passes.threads import one_blas_thread
from bayescore.data.sources import unlabelled
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import RandomState, check_choice, check_seed

SCORES = ("exact", "sketch")


def leverage_scores(
    X: ArrayLike,
    weights: ArrayLike | None = None,
    scores: str = "exact",
    *,
    project: bool = False,
    random_state: RandomState = None,
) -> FloatArray:
    """Return the leverage scores w_n x_n'(X'WX)^+ x_n, shape (n,), between 0 and 1, of the rows of X, shape (n, D).

    - ``scores="exact"``: by QR of blocks; they sum to the rank. Columns may be dependent.
    - ``"sketch"``: against X'WX of a count sketch of D^2 rows, 400 at least. Estimates within a constant factor, not
    upper
      bounds. With `project` the norms come from ceil(log n) random projections where that is less than D: faster for
      many columns, with a relative error of about sqrt(2 / log n) on top.
    - ``"online"``: against X'WX of the rows up to the end of the row's block: upper bounds of the exact scores.

    Examples
    --------
    >>> leverage_scores(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 3.0]])).round(6)
    array([0.5, 0.5, 1. ])
    """
    check_choice(scores, "scores", (*SCORES, "online"))
    if project and scores != "sketch":
        raise ValueError(f"project=True goes with scores='sketch', not scores={scores!r}; leave it out")
    seed = check_seed(random_state)
    return scores_of(Dataset(unlabelled(X, weights)), scores, project=project, seed=seed)


def scores_of(dataset: Dataset, scores: str, *, project: bool, seed: int) -> FloatArray:
    """Return the leverage scores of the rows of a data set, shape (n,); see `leverage_scores`."""
    _ = dataset.scan  # checks the rows
    with one_blas_thread():
        if scores == "online":
            factor, found = np.empty((0, dataset.n_features)), []
            for block, part in dataset.map(lambda _, block: (block, block_factor(block)), canonical=True):
                factor = joined_factor(factor, part)
                found.append(whitening(factor).leverage(block))
            return np.concatenate(found)
        _, score = scorer(dataset, scores, project=project, seed=seed)
        return np.concatenate(list(dataset.map(lambda _, block: score(block), canonical=True)))


def scorer(
    dataset: Dataset, scores: str, *, project: bool, seed: int
) -> tuple[Whitening, Callable[[WeightedData], FloatArray]]:
    """Return a whitening of the rows, and their scores as a function of a block; one pass."""
    if scores == "exact":
        white = whitening(data_factor(dataset))
        return white, white.leverage
    rng = np.random.default_rng(seed)
    white = whitening(sketch_factor(dataset, int(rng.integers(2**63))))
    n_columns = max(1, math.ceil(math.log(dataset.scan.n_rows)))
    if project and n_columns < white.rank:
        white = white.projected(n_columns, rng)
    # two rows that each stand alone may share a bucket: the sketch then lacks a direction, and both rows leave its span
    return white, lambda block: np.where(white.outside(block), 1.0, white.leverage(block))
