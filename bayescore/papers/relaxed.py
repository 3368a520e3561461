r"""What seeding guarantees for divergences other than squared distances: Theorem 29 (Nock et al. 2016).

Let U and V be such that, on the rows and the centers c of a reference clustering,

.. math:: D(x, z) \le U (D(x, y) + D(y, z)), \qquad D(c, x) \le V D(x, c) .

Then :math:`E[\mathrm{cost}] \le 2 U^2 (1 + V) (2 + \log k) \, \phi_{ref}` for k-means++ seeding by D (Nielsen and Nock
2015, Theorem 3; Theorem 29 extends it to other densities, with a constant that it leaves open). The reference may be
any k-clustering with any centers. The squared distance has U <= 2 and V = 1.

Proof: a uniform row of a cluster A costs at most U (1 + V) phi_ref(A) over A, by its center. A row drawn by D has, by
averaging D(a0, C) <= U (D(a0, a) + D(a, C)) over A, at most 2 U times that. The induction of Arthur and Vassilvitskii
(2007) does the rest. When to use it: to see what a seeding by such a divergence is worth on given rows.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bayescore.clustering.checks import check_rows
from bayescore.clustering.divergences import Divergence, check_divergence
from bayescore.clustering.nearest import Nearest, divergences
from bayescore.types import FloatArray


@dataclass(frozen=True)
class RelaxedGuarantee:
    """Constants and bound of seeding by a divergence.

    Parameters
    ----------
    n_clusters : int
        k.
    optimal : float
        Potential of the reference.
    triangle, symmetry : float
        U and V, exact for these rows and this reference.

    Examples
    --------
    >>> from bayescore.papers.relaxed import RelaxedGuarantee
    >>> RelaxedGuarantee(n_clusters=1, optimal=3.0, triangle=1.0, symmetry=1.0).bound
    24.0
    """

    n_clusters: int
    optimal: float
    triangle: float
    symmetry: float

    @property
    def bound(self) -> float:
        """Upper bound of the expected potential."""
        return 2.0 * self.triangle**2 * (1.0 + self.symmetry) * (2.0 + math.log(self.n_clusters)) * self.optimal


def relaxed_guarantee(X: ArrayLike, reference: ArrayLike, divergence: Divergence | str) -> RelaxedGuarantee:
    """Compute the constants of Theorem 29, in O(n^2 (n + k)) operations.

    Parameters
    ----------
    X : array, shape (n, D)
        Rows, some hundreds.
    reference : array, shape (k, D)
        Centers of a k-clustering, the best known.
    divergence : Divergence or str
        D.

    Returns
    -------
    RelaxedGuarantee

    Raises
    ------
    DataError
        If X or reference cannot be used, or leave the divergence's domain.
    ValueError
        If the divergence is unknown.

    References
    ----------
    Nock, Canyasse, Boreli and Nielsen (2016), Theorem 29. Nielsen and Nock (2015), Total Jensen divergences:
    definition, properties and k-means++ clustering, Theorem 3.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import k_variates, total_jensen
    >>> from bayescore.papers.relaxed import relaxed_guarantee
    >>> X = np.random.default_rng(0).uniform(0.1, 1.0, size=(100, 2))
    >>> best = k_variates(X, 4, divergence=total_jensen(), random_state=1).centers
    >>> found = relaxed_guarantee(X, best, total_jensen())
    >>> found.triangle > 1.0, found.bound > found.optimal
    (True, True)
    """
    of = check_divergence(divergence)
    rows, centers = check_rows(X, "X", of), check_rows(reference, "reference", of)
    between, out, back = divergences(rows, rows, of), divergences(rows, centers, of), divergences(centers, rows, of)
    triangle = 1.0
    for to, on in ((between, between), (out, back)):  # over rows, over centers
        for y in range(to.shape[1]):
            triangle = max(triangle, _largest(between, to[:, [y]] + on[[y], :]))
    optimal = Nearest(rows, np.ones(len(rows)), of, centers).total
    return RelaxedGuarantee(len(centers), optimal, triangle, max(1.0, _largest(back.T, out)))


def _largest(above: FloatArray, below: FloatArray) -> float:
    """Return the largest quotient, leaving out points that coincide."""
    found = np.divide(above, below, out=np.zeros_like(above), where=below > 0.0)
    return float(found.max())
