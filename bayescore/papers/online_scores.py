"""On-line leverage scores by their definition, row by row; ``scores="online"`` takes rows a block at a time."""

import numpy as np
from numpy.typing import ArrayLike

from bayescore.coresets.scores.factor import RANK_TOLERANCE
from bayescore.data.dataset import Dataset
from bayescore.data.sources import unlabelled
from bayescore.types import FloatArray


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
