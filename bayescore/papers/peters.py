"""On-line leverage scores by their definition, row by row; ``scores="online"`` takes rows a block at a time.

The data that have no small coreset: points of the unit circle (Peters 2021, Theorem 2).
"""

import numpy as np
from numpy.typing import ArrayLike

from bayescore.coresets.scores import RANK_TOLERANCE
from bayescore.data.dataset import Dataset
from bayescore.data.sources import unlabelled
from bayescore.datasets import Labelled
from bayescore.types import FloatArray
from bayescore.validation import RandomState, check_generator, check_integer, one_seed


def online_scores_by_row(X: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
    r"""Return on-line leverage scores, each row against the rows up to itself: the definition, for reference.

    With M the sum of w x x' so far, z = sqrt(w_n) x_n, k = M^+ z and u the part of z outside the span so far:

    * u = 0: (M + z z')^+ = M^+ - k k' / (1 + z'k), score z'k / (1 + z'k) (Sherman and Morrison);
    * u != 0: (M + z z')^+ = M^+ - k h' - h k' + (1 + z'k) h h' with h the vector u over its squared length, score 1
      (Meyer 1973).

    So scores are right from the first row on, while M is singular too. O(D^2) a row, and upper bounds of
    `leverage_scores`; the blocks of ``scores="online"`` are faster, tighter, and safe where columns are nearly
    dependent, which squares condition numbers here.

    Parameters
    ----------
    X : array, shape (n, D)
        Rows.
    weights : array, shape (n,), optional
        Positive weights, 1 by default.

    Returns
    -------
    array, shape (n,)

    Raises
    ------
    DataError
        If rows or weights cannot be used.

    References
    ----------
    Meyer (1973), Generalized inversion of modified matrices, SIAM J. Appl. Math. 24; Peters (2021), Algorithm 5, which
    computes M^+ anew where u != 0.

    Examples
    --------
    >>> from bayescore.papers import online_scores_by_row
    >>> online_scores_by_row([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]).round(12).tolist()
    [1.0, 1.0, 0.5]
    """
    source = unlabelled(X, weights)
    _ = Dataset(source).scan  # checks the rows
    rows = np.sqrt(source.weights)[:, None] * source.X
    length = np.linalg.norm(rows, axis=0)
    rows /= np.where(length > 0.0, length, 1.0)  # scores ignore scales of columns, rounding does not
    inverse = np.zeros((rows.shape[1], rows.shape[1]))
    span = np.empty((rows.shape[1], 0))
    scores = np.ones(len(rows))
    for n, z in enumerate(rows):
        k = inverse @ z
        u = z - span @ (span.T @ z)
        u -= span @ (span.T @ u)  # once more: rounding of the first leaves some of the span
        if (distance := float(np.linalg.norm(u))) > RANK_TOLERANCE * float(np.linalg.norm(z)):
            h = u / distance**2
            inverse += (1.0 + z @ k) * np.outer(h, h) - np.outer(k, h) - np.outer(h, k)
            span = np.column_stack([span, u / distance])
        else:
            inverse -= np.outer(k, k) / (1.0 + z @ k)
            scores[n] = z @ k / (1.0 + z @ k)
    return scores


def separable_circle(
    n: int, random_state: RandomState = None, query: int | None = None, *, random_seed: RandomState = None
) -> Labelled:
    r"""Draw the data that have no small coreset: a random subset of n points of the unit circle.

    Point j = 1, ..., n is x_j = (cos(2 pi j / n), sin(2 pi j / n), 1), kept with probability 1/2 and labelled
    +1. With `query` = i, the points at i - 1/2 and i + 1/2 follow with label -1.

    One class only: separable. With a query, separable if and only if x_i is absent or alone (the source
    forgets the second case: x_i with no other point is separable too). So whoever has the data knows the
    whole subset, n random bits, and a coreset needs at least order n / log n rows. The margin of the
    separating line is about 5 / n^2: above n = 10^7 it drowns in rounding.

    Parameters
    ----------
    n : int
        Number of positions on the circle, at least 3; about n / 2 rows result.
    random_state, random_seed : None, int, SeedSequence or Generator
        Seed, by either name; the points kept do not depend on `query`.
    query : int, optional
        Position to query, between 1 and n.

    Returns
    -------
    X : float64 array, shape (m, 3)
    y : int8 array, shape (m,)

    Raises
    ------
    ValueError
        If n < 3 or `query` is not one of 1, ..., n.

    References
    ----------
    Peters (2021), Theorem 2; Munteanu et al. (2018).

    Examples
    --------
    >>> from bayescore.papers import separable_circle
    >>> X, y = separable_circle(12, random_state=1, query=3)
    >>> X.shape[1], int((y == -1).sum())
    (3, 2)
    """
    n = check_integer(n, "n", low=3)
    around = [] if query is None else [check_integer(query, "query", low=1, high=n) + h for h in (-0.5, 0.5)]
    rng = check_generator(one_seed(random_state, random_seed))
    kept = 1 + np.flatnonzero(rng.integers(2, size=n, dtype=np.bool_))
    angle = np.concatenate([kept, around]) * (2.0 * np.pi / n)
    X = np.ones((len(angle), 3))
    np.cos(angle, out=X[:, 0])
    np.sin(angle, out=X[:, 1])
    return X, np.where(np.arange(len(angle)) < len(kept), np.int8(1), np.int8(-1))
