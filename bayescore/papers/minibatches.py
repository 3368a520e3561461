r"""What ol-means++ guarantees: Theorem 6 in closed form (Nock et al. 2016).

Minibatch t gives one center: its rows are probed to themselves, all others to their nearest center so far. With R the
diameter of the rows, S_t a minibatch, A a cluster of the reference and C the centers before t, let sigma be the largest
number for which

.. math:: \phi_{opt}(A) \ge \varsigma |A| R^2 \quad \text{(clusters are wide)}, \qquad
          \phi(A \cap S_t; C) \ge \varsigma \, \phi(A; C) \quad \text{(minibatches are accurate)} .

Then probes stretch by at most eta = 1 / (2 sigma^2) - 1, and `guarantee` holds with point masses (bias phi_opt,
variance 0). Proof: the probes of A are rows, whose potential is at most |A| R^2 / 2; so 1 + eta is at most
(1 / sigma) (1 / (2 sigma)). The source's text has lost its formulas; this follows the steps of its proof.

When to use it: to see whether minibatches are large enough for a guarantee. The bound is loose: sigma <= 1/2, and so
Phi >= 12 phi_opt. `guarantee.stretching` measures eta itself on a run's own centers.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from bayescore.clustering.checks import check_rows
from bayescore.clustering.divergences import SQUARED_EUCLIDEAN
from bayescore.clustering.nearest import Nearest, divergences
from bayescore.validation import DataError, check_integer, check_positive

_BLOCK = 1_000  # rows whose distances from all others are held at a time


def minibatch_width(X: ArrayLike, batch: ArrayLike, reference: ArrayLike, centers: ArrayLike) -> float:
    """Return sigma of Theorem 6 along a run of ol-means++ (squared Euclidean distances).

    The theorem asks for all sets C of centers; these are the ones that the run had.

    Parameters
    ----------
    X : array, shape (n, D)
        Rows of the stream.
    batch : int array, shape (n,)
        Minibatch of each row: 0, 1, ..., in the order of the stream.
    reference : array, shape (k, D)
        Centers of a k-clustering, the best known; the means of its clusters are taken.
    centers : array, shape (k, D)
        What the run drew, center t from minibatch t.

    Returns
    -------
    float
        sigma, between 0 and 1/2; 0 where a minibatch lacks a cluster that the centers do not fit yet.

    Raises
    ------
    DataError
        If X, reference or centers cannot be used, or there is not one minibatch for each row.

    References
    ----------
    Nock, Canyasse, Boreli and Nielsen (2016), Theorem 6.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import k_variates, ol_means
    >>> from bayescore.papers.minibatches import minibatch_width
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> centers = ol_means(np.split(X, 10), 4, random_state=1)
    >>> best = k_variates(X, 4, random_state=2).centers
    >>> 0.0 < minibatch_width(X, np.arange(1000) // 100, best, centers) < 0.5
    True
    """
    rows, points, drawn = check_rows(X, "X"), check_rows(reference, "reference"), check_rows(centers, "centers")
    of_batch = np.asarray(batch)
    if of_batch.shape != (len(rows),):
        raise DataError(f"batch has shape {of_batch.shape}; it must be ({len(rows)},), one minibatch for each row")
    unit, k = np.ones(len(rows)), len(points)
    cluster = Nearest(rows, unit, SQUARED_EUCLIDEAN, points).owner
    diameter2 = max(
        float(divergences(rows, rows[start : start + _BLOCK], SQUARED_EUCLIDEAN).max())
        for start in range(0, len(rows), _BLOCK)
    )
    if diameter2 == 0.0:
        raise DataError("all rows of X coincide: there is nothing to cluster")
    width = min(float(rows[cluster == i].var(axis=0).sum()) / diameter2 for i in np.unique(cluster))
    near = Nearest(rows, unit, SQUARED_EUCLIDEAN)
    for t, center in enumerate(drawn[:-1], start=1):
        near.add(center)
        every = np.bincount(cluster, near.closest, k)
        seen = np.bincount(cluster, np.where(of_batch == t, near.closest, 0.0), k)
        far = every > 0.0
        width = min(width, float((seen[far] / every[far]).min(initial=math.inf)))
    return width


def on_line_bound(n_clusters: int, optimal: float, width: float) -> float:
    r"""Return the bound of Theorem 6, :math:`(2 + \log k) (4 + 2 / \varsigma^2) \phi_{opt}`.

    Parameters
    ----------
    n_clusters : int
        k.
    optimal : float
        phi_opt, the potential of the reference.
    width : float
        sigma, see `minibatch_width`.

    Returns
    -------
    float
        Upper bound of the expected potential; infinite for a width of 0.

    Raises
    ------
    ValueError, TypeError
        If n_clusters is not a positive integer, or optimal not positive, or width neither 0 nor positive.

    References
    ----------
    Nock, Canyasse, Boreli and Nielsen (2016), Theorem 6.

    Examples
    --------
    >>> from bayescore.papers.minibatches import on_line_bound
    >>> on_line_bound(1, 10.0, 0.5)
    240.0
    """
    k, phi = check_integer(n_clusters, "n_clusters", low=1), check_positive(optimal, "optimal")
    if width == 0.0:
        return math.inf
    return (2.0 + math.log(k)) * (4.0 + 2.0 / check_positive(width, "width") ** 2) * phi
