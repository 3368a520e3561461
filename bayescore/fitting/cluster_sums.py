r"""Cluster-robust spread: how sure coefficients are where rows of a cluster depend on each other.

A posterior takes rows for independent. Where those of a cluster (a school, a district, a person) share what the model
does not have, its spread is too small. The scores of clusters, at a point t near the mode, say by how much. Of cluster
c in stratum h,

.. math:: u_{hc} = \sum_{n \in c} w_n x_n \ell'_n - \frac{f_c}{f} g, \qquad
          J = \sum_h \frac{G_h}{G_h - 1} \sum_{c \in h} (u_{hc} - \bar u_h)(u_{hc} - \bar u_h)',

l'_n the derivative of a row's log-likelihood by its predictor, g the score of all rows, f_c / f the cluster's share of
their curvatures, so that to first order the sums are those at the likelihood's maximum, and G_h the clusters of the
stratum. From one sample of clusters to another the estimate varies by the sandwich F^{-1} J F^{-1}, F the curvature of
the rows' log-likelihood at t. The likelihood is given that covariance in place of F^{-1}. The prior, with its gradient
and its curvature P at t, stays as it is:

.. math:: V = (F J^{-1} F + P)^{-1}, \qquad m = t + V (F J^{-1} g + \nabla \log \pi_0(t)).

Draws are moved by the affine map that takes the posterior's mode and curvature to m and V. Under a prior that says
little V is the sandwich. Draws stay where they are if J = F, as it is on average where rows are independent and the
model holds. With c w for w neither V nor m changes: weights need not be normalised, unless they are so small that t,
which has them, is far from m.

The pass keeps a sum for each cluster: G D numbers.

References
----------
Müller (2013), Risk of Bayesian inference in misspecified models, and the sandwich covariance matrix, Econometrica 81,
1805-1849. Williams and Savitsky (2021), Uncertainty estimation for pseudo-Bayesian inference under complex sampling,
International Statistical Review 89, 72-107. Binder (1983), On the variances of asymptotically normal estimators from
complex surveys, International Statistical Review 51, 279-292.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.sparse import csr_array

from bayescore.data.dataset import Dataset
from bayescore.diagnostics.full_pass import check_finite
from bayescore.limits import MAX_MOVE
from bayescore.models.families import Family
from bayescore.models.gaussian import Transport, factor_of_inverse
from bayescore.models.group_sums import codes_among
from bayescore.models.posterior import Derivatives, likelihood_terms, no_terms, prior_part
from bayescore.models.priors import Prior
from bayescore.models.row_kernels import derivatives_of
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError

_NONE = np.iinfo(np.int64).max
_LEAST = 1e-10  # ratio of variances of combinations of coefficients, below which the rest is rounding


class _Ends(NamedTuple):
    """The k clusters of a block, and the least and the most of their rows' positions and strata."""

    found: IntArray  # shape (k,)
    places: IntArray  # of each row's cluster among them
    least: IntArray  # shape (k, 2)
    most: IntArray


class _Block(NamedTuple):
    """Of a block: terms of the log-likelihood, weight, the k clusters in it, and their sums."""

    terms: Derivatives
    weight: float
    ends: _Ends
    sums: FloatArray  # of scores, and of curvatures by the predictor, shape (k, D + 1)


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """Sums over all rows at a point: `scores` of the G clusters that have rows, shape (G, D), and their strata."""

    terms: Derivatives
    weight: float
    scores: FloatArray
    strata: IntArray  # from 0 on, shape (G,)
    single: bool  # whether every cluster is one row

    @property
    def sizes(self) -> IntArray:
        """Clusters of each stratum."""
        return np.bincount(self.strata)

    @property
    def freedom(self) -> int:
        """Clusters less strata: the rank that J has at most."""
        return int((self.sizes - (self.sizes > 0)).sum())

    def variance(self) -> FloatArray:
        """Return J, shape (D, D)."""
        sizes = np.maximum(self.sizes, 2).astype(np.float64)  # of strata without clusters
        means = np.zeros((len(sizes), self.scores.shape[1]))
        np.add.at(means, self.strata, self.scores)
        apart = self.scores - (means / sizes[:, None])[self.strata]
        apart *= np.sqrt(sizes / (sizes - 1.0))[self.strata, None]
        return np.asarray(apart.T @ apart)


def cluster_sums(
    dataset: Dataset, family: Family, point: FloatArray, levels: tuple[tuple[Any, ...], ...]
) -> ClusterSums:
    """Return the sums of rows whose groups are a cluster, and perhaps a stratum, of these `levels`; one pass.

    Raises
    ------
    DataError
        If a cluster is in two strata, a stratum has one cluster, or there is one cluster only.
    """
    G, D = len(levels[0]), len(point)
    terms, weight, sums, ends = no_terms(D), 0.0, np.zeros((G, D + 1)), _no_ends(G)
    for one in dataset.map(partial(_of_block, point, family, G), "summing scores by cluster", canonical=True):
        terms, weight = terms + one.terms, weight + one.weight
        sums[one.ends.found] += one.sums
        _join(ends, one.ends)
    check_finite(dataset, terms.precision)
    there, strata = _strata(levels, ends)
    single = bool((ends.least[there, 0] == ends.most[there, 0]).all())
    share = sums[there, D] / sums[there, D].sum()
    scores = sums[there, :D] - share[:, None] * terms.gradient
    return ClusterSums(terms, weight, scores, strata, single)


def strata_of(dataset: Dataset, levels: tuple[tuple[Any, ...], ...]) -> IntArray:
    """Return the stratum of each cluster that has rows; one pass. Raises as `cluster_sums` does."""
    ends = _no_ends(len(levels[0]))
    for one in dataset.map(partial(_ends_of, len(levels[0])), "checking strata"):
        _join(ends, one)
    return _strata(levels, ends)[1]


def _no_ends(n_clusters: int) -> _Ends:
    every = np.arange(n_clusters)
    return _Ends(every, every, np.full((n_clusters, 2), _NONE), np.full((n_clusters, 2), -1))


def _join(ends: _Ends, one: _Ends) -> None:
    """Join the ends of a block to those of all rows, in place."""
    ends.least[one.found] = np.minimum(ends.least[one.found], one.least)
    ends.most[one.found] = np.maximum(ends.most[one.found], one.most)


def _ends_of(n_clusters: int, _start: int, block: WeightedData) -> _Ends:
    assert block.group is not None
    strata = block.group[:, 1] if block.group.shape[1] > 1 else np.zeros(len(block), dtype=np.int64)
    found, places = codes_among(block.group[:, 0], n_clusters)
    least, most = np.full((len(found), 2), _NONE), np.full((len(found), 2), -1)
    for column, values in enumerate((block.index, strata)):
        np.minimum.at(least[:, column], places, values)
        np.maximum.at(most[:, column], places, values)
    return _Ends(found, places, least, most)


def _of_block(point: FloatArray, family: Family, n_clusters: int, start: int, block: WeightedData) -> _Block:
    n, ends = len(block), _ends_of(n_clusters, start, block)
    slope, curvature = derivatives_of(block.with_offset(block.X @ point), block.y, family)[1:3] * block.weights
    by_cluster = csr_array((np.ones(n), ends.places, np.arange(n + 1)), shape=(n, len(ends.found))).T
    sums = by_cluster @ np.column_stack([slope[:, None] * block.X, curvature])
    return _Block(likelihood_terms(point, block, family), float(block.weights.sum()), ends, sums)


def _strata(levels: tuple[tuple[Any, ...], ...], ends: _Ends) -> tuple[IntArray, IntArray]:
    """Return the clusters that have rows and their strata; raise unless each lies in one, and each has two clusters."""
    there = np.flatnonzero(ends.most[:, 0] >= 0)
    least, most = ends.least[there, 1], ends.most[there, 1]
    check_several([levels[0][place] for place in there])
    if (apart := np.flatnonzero(least != most)).size:
        place = apart[0]
        one, other = levels[1][least[place]], levels[1][most[place]]
        raise DataError(
            f"{len(apart):,} of {len(there):,} clusters are in more than one stratum, such as the cluster "
            f"{levels[0][there[place]]!r} in {one!r} and {other!r}: where strata number their clusters anew, give "
            "cluster a column that has both, else strata a column that is constant within clusters"
        )
    sizes = np.bincount(least)
    if (lonely := np.flatnonzero(sizes == 1)).size and len(levels) > 1:
        raise DataError(
            f"the stratum {levels[1][lonely[0]]!r} has one cluster, {levels[0][there[least == lonely[0]][0]]!r}, and "
            f"{len(lonely):,} of {int((sizes > 0).sum()):,} strata have one: one cluster does not show how clusters of "
            "a stratum differ; join it with a stratum that is like it, or leave strata out"
        )
    return there, least


def check_several(clusters: Sequence[Any]) -> None:
    """Raise unless there are two clusters."""
    if len(clusters) < 2:
        raise DataError(
            f"cluster has one level only, {clusters[0]!r}: one cluster does not show how clusters differ; name a "
            "column of several"
        )


def check_freedom(n_clusters: int, n_strata: int, n_coefficients: int) -> None:
    """Raise if clusters less strata are fewer than coefficients."""
    if n_clusters - n_strata < n_coefficients:
        raise DataError(
            f"{n_clusters:,} clusters less {n_strata:,} {'stratum' if n_strata == 1 else 'strata'} are fewer than the "
            f"{n_coefficients} coefficients, so that some combinations of these would have no spread at all: name "
            "smaller clusters, or fit fewer coefficients"
        )


def robust_map(point: FloatArray, sums: ClusterSums, prior: Prior) -> Transport:
    """Return the map of the posterior's draws to the cluster-robust mode and spread, given the sums at a point.

    Raises
    ------
    DataError
        If the rows do not determine the coefficients, clusters are too few, or the prior moves the mode too far.
    """
    check_freedom(len(sums.scores), int((sums.sizes > 0).sum()), len(point))
    L, own = factor_of_inverse(sums.terms.precision), prior_part(point, prior)  # F^-1 = L L'
    values, vectors = linalg.eigh(L.T @ sums.variance() @ L)
    if not values[0] > _LEAST * values[-1]:
        raise DataError(
            "the scores of clusters do not vary along some combination of coefficients, as where columns depend on "
            "each other, or one tells a cluster from all others: leave such a column out, or name smaller clusters"
        )
    white = (vectors / np.sqrt(values)).T @ linalg.solve_triangular(L, np.eye(len(L)), lower=True)
    information = white.T @ white  # F J^-1 F
    gradient = information @ (L @ (L.T @ sums.terms.gradient)) + own.gradient
    here, there = sums.terms + own, Derivatives(0.0, gradient, information + own.precision)
    start, end = (point + _step(each) for each in (here, there))
    if (moves := float(np.sqrt((end - start) @ there.precision @ (end - start)))) > MAX_MOVE:
        raise DataError(
            f"the prior says so much beside the clusters that it moves the mode by {moves:.2g} of the cluster-robust "
            f"sds (limit {MAX_MOVE:g}), too far for scores at one point. Give a wider prior, or where weights are far "
            "below 1 divide them by their mean; or the labels are separated: drop the columns that separate them, "
            "as a wider prior does not help there"
        )
    return Transport.between(start, here.precision, end, there.precision)


def _step(terms: Derivatives) -> FloatArray:
    """Return Newton's step to the mode."""
    L = factor_of_inverse(terms.precision)
    return np.asarray(L @ (L.T @ terms.gradient))
