"""The data that have no small coreset: points of the unit circle (Peters 2021, Theorem 2)."""

import numpy as np

from bayescore.data.synthetic import Labelled
from bayescore.validation import RandomState, check_generator, check_integer


def separable_circle(n: int, random_state: RandomState = None, query: int | None = None) -> Labelled:
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
    random_state : None, int, SeedSequence or Generator
        Seed; the points kept do not depend on `query`.
    query : int, optional
        Position asked for, between 1 and n.

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
    kept = 1 + np.flatnonzero(check_generator(random_state).integers(2, size=n, dtype=np.bool_))
    angle = np.concatenate([kept, around]) * (2.0 * np.pi / n)
    X = np.ones((len(angle), 3))
    np.cos(angle, out=X[:, 0])
    np.sin(angle, out=X[:, 1])
    return X, np.where(np.arange(len(angle)) < len(kept), np.int8(1), np.int8(-1))
