r"""What k-variates++ guarantees: optimal potential, bias, variance and spread, and the bound made of them.

.. math:: E[\mathrm{cost}] \le (2 + \log k) \Phi, \qquad
          \Phi = (6 + 4 \eta) \phi_{opt} + 2 \phi_{bias} + 2 \phi_{var}

(Nock et al. 2016, Theorem 2), with the weighted sums over rows a, c(a) the mean of the optimal cluster of a,

.. math:: \phi_{opt} = \sum_a w_a |a - c(a)|^2, \quad \phi_{bias} = \sum_a w_a |\mu_a - c(a)|^2, \quad
          \phi_{var} = \sum_a w_a \mathrm{tr} \Sigma_a, \quad \phi_s = \sum_a w_a |a - \mu_a|^2 .

The proof needs of c(a) only that centers are means of k clusters: the bound holds with any k-clustering in place of the
optimal one, which nobody knows. Since phi_bias <= 2 phi_s + 2 phi_opt, Phi is at most (10 + 4 eta) phi_opt + 4 phi_s +
2 phi_var: Theorem 4 (d-means++: phi_var = phi_s) and Theorem 5 (s-means++: phi_var = 0).

When to use it: to see what a distribution of rows over peers, synopses or noise costs before paying for it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bayescore.clustering.checks import check_masses, check_rows
from bayescore.clustering.densities import Densities, PointMasses
from bayescore.clustering.divergences import SQUARED_EUCLIDEAN
from bayescore.clustering.nearest import Nearest
from bayescore.types import FloatArray, IntArray
from bayescore.validation import DataError


@dataclass(frozen=True)
class Guarantee:
    """The terms of Theorem 2, all in units of the potential.

    Parameters
    ----------
    n_clusters : int
        k.
    optimal : float
        phi_opt, of the reference clustering.
    bias, variance : float
        phi_bias and phi_var of the densities.
    spread : float
        phi_s, distance of the rows from the means of their densities: 0 for k-means++, the peers' spread for
        d-means++, the synopses' for s-means++.
    stretching : float
        eta of the probes; 0 for identity probes.

    Examples
    --------
    >>> from bayescore.papers import Guarantee
    >>> found = Guarantee(n_clusters=1, optimal=2.0, bias=2.0, variance=0.0, spread=0.0)
    >>> found.phi, found.bound  # k-means++: 8 and (2 + log k) 8 times the best
    (16.0, 32.0)
    """

    n_clusters: int
    optimal: float
    bias: float
    variance: float
    spread: float
    stretching: float = 0.0

    @property
    def phi(self) -> float:
        """Phi of Theorem 2."""
        return (6.0 + 4.0 * self.stretching) * self.optimal + 2.0 * self.bias + 2.0 * self.variance

    @property
    def phi_by_spread(self) -> float:
        """What Phi is at most, by the spread alone: Theorems 4 and 5."""
        return (10.0 + 4.0 * self.stretching) * self.optimal + 4.0 * self.spread + 2.0 * self.variance

    @property
    def bound(self) -> float:
        """Upper bound (2 + log k) Phi of the expected potential."""
        return (2.0 + math.log(self.n_clusters)) * self.phi


def _reference(X: FloatArray, weights: FloatArray, reference: ArrayLike) -> tuple[IntArray, FloatArray]:
    """Return the cluster of each row and the means of the clusters that the centers `reference` cut."""
    centers = check_rows(reference, "reference")
    if centers.shape[1] != X.shape[1]:
        raise DataError(f"reference has {centers.shape[1]} columns, but X has {X.shape[1]}; give centers of these rows")
    label = Nearest(X, weights, SQUARED_EUCLIDEAN, centers).owner.astype(np.int64)
    means = centers.copy()
    for i in np.unique(label[weights > 0.0]):
        means[i] = np.average(X[label == i], axis=0, weights=weights[label == i])
    return label, means


def guarantee(
    X: ArrayLike,
    reference: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    density: Densities = PointMasses,
    stretching: float = 0.0,
) -> Guarantee:
    """Compute the terms of Theorem 2 (squared Euclidean distances).

    Parameters
    ----------
    X : array, shape (n, D)
        Rows.
    reference : array, shape (k, D)
        Centers of a k-clustering, the best known; the means of its clusters are taken.
    weights : array, shape (n,), optional
        Weights, 1 by default.
    density : callable
        Takes X and weights, returns the `Density` that centers are drawn from.
    stretching : float
        eta of the probes, see `stretching`.

    Returns
    -------
    Guarantee

    Raises
    ------
    DataError
        If X, weights or reference cannot be used.

    References
    ----------
    Nock, Canyasse, Boreli and Nielsen (2016), Theorem 2, Theorem 4 and Theorem 5.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import k_variates
    >>> from bayescore.papers import guarantee
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> found = guarantee(X, k_variates(X, 4, random_state=1).centers)
    >>> found.n_clusters, bool(found.optimal > 0)
    (4, True)
    """
    rows = check_rows(X, "X")
    w = check_masses(weights, len(rows))
    label, means = _reference(rows, w, reference)
    drawn = density(rows, w)
    mu = drawn.means()

    def distance(a: FloatArray, b: FloatArray) -> float:
        return float(w @ ((a - b) ** 2).sum(axis=1))

    return Guarantee(
        n_clusters=len(means),
        optimal=distance(rows, means[label]),
        bias=distance(mu, means[label]),
        variance=float(w @ drawn.variances()),
        spread=distance(rows, mu),
        stretching=stretching,
    )


def stretching(
    X: ArrayLike, probed: ArrayLike, centers: ArrayLike, reference: ArrayLike, weights: ArrayLike | None = None
) -> float:
    r"""Return the stretching eta >= 0 of the rows X by their probes, given centers C, shape (t, D).

    .. math:: 1 + \eta = \max_A \frac{\phi(A; C)}{\phi_{opt}(A)} \frac{\phi_{opt}(\wp A)}{\phi(\wp A; C)}

    over the reference clusters A that no center lies in, which are those that the proof needs (eq. 38 with Lemma 3.2
    of Arthur and Vassilvitskii). Definition 1 has the supremum over all sets C, which cannot be computed: take the
    largest value over the prefixes C of many runs. It is infinite where probes hide a cluster without a center.
    """
    rows, points, hit = check_rows(X, "X"), check_rows(probed, "probed"), check_rows(centers, "centers")
    w = check_masses(weights, len(rows))
    label, means = _reference(rows, w, reference)
    near, near_probed = (w * Nearest(part, w, SQUARED_EUCLIDEAN, hit).closest for part in (rows, points))
    covered = np.unique(Nearest(hit, np.ones(len(hit)), SQUARED_EUCLIDEAN, means).owner)
    worst = 1.0
    for i in np.setdiff1d(np.unique(label[w > 0.0]), covered):
        of = label == i
        cost, cost_probed = near[of].sum(), near_probed[of].sum()
        own, own_probed = (
            float(w[of] @ ((part[of] - np.average(part[of], axis=0, weights=w[of])) ** 2).sum(axis=1))
            for part in (rows, points)
        )
        if cost_probed == 0.0:
            return math.inf
        if own > 0.0:
            worst = max(worst, float(cost / own * own_probed / cost_probed))
    return worst - 1.0
