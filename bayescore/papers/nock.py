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

What seeding guarantees for divergences other than squared distances: Theorem 29 (Nock et al. 2016).

Let U and V be such that, on the rows and the centers c of a reference clustering,

.. math:: D(x, z) \le U (D(x, y) + D(y, z)), \qquad D(c, x) \le V D(x, c) .

Then :math:`E[\mathrm{cost}] \le 2 U^2 (1 + V) (2 + \log k) \, \phi_{ref}` for k-means++ seeding by D (Nielsen and Nock
2015, Theorem 3; Theorem 29 extends it to other densities, with a constant that it leaves open). The reference may be
any k-clustering with any centers. The squared distance has U <= 2 and V = 1.

Proof: a uniform row of a cluster A costs at most U (1 + V) phi_ref(A) over A, by its center. A row drawn by D has, by
averaging D(a0, C) <= U (D(a0, a) + D(a, C)) over A, at most 2 U times that. The induction of Arthur and Vassilvitskii
(2007) does the rest. When to use it: to see what a seeding by such a divergence is worth on given rows.

What ol-means++ guarantees: Theorem 6 in closed form (Nock et al. 2016).

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
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bayescore.clustering.divergences import (
    SQUARED_EUCLIDEAN,
    Divergence,
    Nearest,
    check_divergence,
    check_masses,
    check_rows,
    divergences,
)
from bayescore.clustering.variates import Densities, PointMasses
from bayescore.types import FloatArray, IntArray
from bayescore.validation import DataError, check_integer, check_positive


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
    >>> from bayescore.papers.nock import RelaxedGuarantee
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
    >>> from bayescore.papers.nock import relaxed_guarantee
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
    ratios = np.divide(above, below, out=np.zeros_like(above), where=below > 0.0)
    return float(ratios.max())


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
    >>> from bayescore.papers.nock import minibatch_width
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
    >>> from bayescore.papers.nock import on_line_bound
    >>> on_line_bound(1, 10.0, 0.5)
    240.0
    """
    k, phi = check_integer(n_clusters, "n_clusters", low=1), check_positive(optimal, "optimal")
    if width == 0.0:
        return math.inf
    return (2.0 + math.log(k)) * (4.0 + 2.0 / check_positive(width, "width") ** 2) * phi
